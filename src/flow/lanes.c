#include "flow/lanes.h"

#include <assert.h>
#include <string.h>

#include "base/message.h"

#define BIT(lane) (UINT64_C(1) << (lane))

void lanes_init(struct lanes *lanes, struct log *log, struct coalesce *gathered)
{
    assert(lanes && log && gathered);

    *lanes = (struct lanes){.log = log, .gathered = gathered};
}

bool lanes_look(struct lanes *lanes)
{
    uint64_t owned = log_owned(lanes->log);
    if (owned == lanes->owned)
        return false;
    lanes->owned = owned;
    lanes->entered &= owned;
    return true;
}

/* One who had the lane before may have died between the store's commit and telling the log. */
static void enter(struct lanes *lanes, unsigned lane)
{
    lanes->entered |= BIT(lane);
    struct log_position at = lanes->at[lane];
    if (at.segment != 0 || at.offset != 0)
        (void)log_release(lanes->log, lane, at, NULL);
}

void lanes_begin(struct lanes *lanes, const struct state_mark *mark)
{
    assert(lanes && mark);

    memcpy(lanes->at, mark->lanes, sizeof(lanes->at));
    lanes->held = lanes->stuck = 0;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if ((lanes->owned & ~lanes->entered) & BIT(lane))
            enter(lanes, lane);
    }
}

/* --- reading on --- */

struct reading {
    struct lanes *lanes;
    unsigned lane;
    bool found;
};

static enum err take(void *arg, struct slice section, struct log_position next, struct error *error)
{
    struct reading *reading = arg;
    struct lanes *lanes = reading->lanes;
    enum err err = coalesce_take_lane(lanes->gathered, reading->lane, section, next, error);
    if (err)
        return err;
    lanes->at[reading->lane] = next;
    reading->found = true;
    return ERR_OK;
}

static enum err read_lane(struct lanes *lanes, unsigned lane, uint64_t limit, bool *found,
                          struct error *error)
{
    struct reading reading = {.lanes = lanes, .lane = lane};
    struct log_position at = lanes->at[lane];
    enum err err = log_follow(lanes->log, lane, &at, limit, take, &reading, error);
    *found = *found || reading.found;
    if (err == ERR_BUSY) {
        lanes->held |= BIT(lane);
        return ERR_OK; /* at[lane] is behind what was taken */
    }
    lanes->held &= ~BIT(lane);
    if (err == ERR_CORRUPT || err == ERR_NOT_FOUND || err == ERR_INVALID) {
        lanes->stuck |= BIT(lane);
        lanes->why = *error;
        return ERR_OK;
    }
    if (!err)
        lanes->at[lane] = at;
    return err;
}

enum err lanes_gather(struct lanes *lanes, uint64_t limit, bool *ret_found, struct error *error)
{
    assert(lanes && ret_found && error);

    *ret_found = false;
    lanes->first = (lanes->first + 1) % LIMIT_CELLS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        unsigned lane = (lanes->first + i) % LIMIT_CELLS;
        if (!(lanes->owned & ~lanes->stuck & BIT(lane)))
            continue;
        enum err err = read_lane(lanes, lane, limit, ret_found, error);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* --- the store --- */

void lanes_applied(struct lanes *lanes, const struct store_batch *batch)
{
    struct error error = {.text = ""};
    bool failed = false;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (batch->lanes & BIT(lane))
            failed = log_release(lanes->log, lane, batch->after.lanes[lane], &error) || failed;
    }
    if (failed) /* the next one tells again */
        message_debug("the log was not told what the store has reason=\"%s\"", error.text);
}

static bool same_place(struct log_position a, struct log_position b)
{
    return a.segment == b.segment && a.offset == b.offset;
}

bool lanes_differ(const struct lanes *lanes, const struct state_mark *mine,
                  const struct state_mark *stores)
{
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (lanes->owned & BIT(lane) && (mine->sequences[lane] != stores->sequences[lane] ||
                                         !same_place(mine->lanes[lane], stores->lanes[lane])))
            return true;
    }
    return false;
}
