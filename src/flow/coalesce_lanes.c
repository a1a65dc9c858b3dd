/* coalesce_lanes.c - sections of a log of many lanes: nothing may be missing, and some have to wait
 * for others. */
#include <assert.h>
#include <inttypes.h>

#include "core/sequence.h"
#include "flow/coalesce_own.h"

/* Does anything in the section have to come after something that is not there yet? What cannot be
 * read is met again when it is taken. */
static bool must_wait(const struct coalesce *c, struct section_reader reader)
{
    struct event event;
    while (!section_next(&reader, &event, NULL)) {
        bool waits = event.type == EVENT_AFTER && event.after_origin < LIMIT_CELLS &&
                     event.after_origin != event.origin &&
                     event.sequence > c->mark.sequences[event.origin] &&
                     c->mark.sequences[event.after_origin] < event.after_sequence;
        event_done(&event);
        if (waits)
            return true;
    }
    return false;
}

/* Has the section's turn come? */
static enum err check_turn(struct coalesce *c, unsigned lane, const struct section_reader *reader,
                           uint64_t last, struct error *error)
{
    uint64_t seen = c->mark.sequences[lane];
    uint64_t first = reader->first_sequence;
    if (first > seen && !sequence_follows(seen, first))
        return error_set(error, ERR_CORRUPT,
                         "lane %u: events are missing between epoch %" PRIu64 ", number %" PRIu64
                         " and epoch %" PRIu64 ", number %" PRIu64,
                         lane, sequence_epoch(seen), sequence_n(seen), sequence_epoch(first),
                         sequence_n(first));
    return last > seen && must_wait(c, *reader) ? ERR_BUSY : ERR_OK;
}

static void move_lane(struct coalesce *c, unsigned lane, struct log_position next)
{
    c->mark.lanes[lane] = next;
    c->lanes |= UINT64_C(1) << lane;
}

/* Bytes that are no section of this lane have no place among its events. */
static void take_stray(struct coalesce *c, unsigned lane, struct slice bytes,
                       struct log_position next, const struct error *error)
{
    c->lane = lane;
    coalesce_add_poison(c, blocks_keep(&c->kept, bytes), next, error);
    c->bytes += bytes.size;
    move_lane(c, lane, next);
}

enum err coalesce_take_lane(struct coalesce *coalesce, unsigned lane, struct slice section,
                            struct log_position next, struct error *error)
{
    assert(coalesce && lane < LIMIT_CELLS);

    struct section_reader reader;
    struct error cause = {.text = ""};
    if (section_open(&reader, section, &cause) || reader.left == 0) {
        take_stray(coalesce, lane, section, next, &cause);
        return ERR_OK;
    }
    if (reader.origin != lane) {
        error_set(&cause, ERR_CORRUPT, "a section of cell %u in lane %u", reader.origin, lane);
        take_stray(coalesce, lane, section, next, &cause);
        return ERR_OK;
    }
    uint64_t last = reader.first_sequence + reader.left - 1;
    enum err err = check_turn(coalesce, lane, &reader, last, error);
    if (err)
        return err;
    coalesce->lane = lane;
    uint64_t *seen = &coalesce->mark.sequences[lane];
    if (last > *seen) {
        coalesce_take(coalesce, section, next);
        *seen = last; /* also when some of it is a dead letter now: what follows does follow */
        coalesce->mark.times_ms[lane] = reader.time_ms;
    }
    move_lane(coalesce, lane, next);
    return ERR_OK;
}

void coalesce_see(struct coalesce *coalesce, const struct state_mark *mark, uint64_t owned)
{
    assert(coalesce && mark);

    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (owned >> lane & 1)
            continue;
        coalesce->mark.lanes[lane] = mark->lanes[lane];
        coalesce->mark.sequences[lane] = mark->sequences[lane];
        coalesce->mark.times_ms[lane] = mark->times_ms[lane];
        coalesce->mark.ended[lane] = mark->ended[lane];
        coalesce->mark.incarnations[lane] = mark->incarnations[lane];
    }
}

bool coalesce_has_epoch(const struct coalesce *coalesce)
{
    return coalesce->has_epoch;
}

unsigned coalesce_poison_lane(const struct coalesce *coalesce, size_t poison)
{
    assert(poison < coalesce->poison_count);

    return coalesce->poison_lanes[poison];
}
