/* relay_open.c - opens cells that are closed, in the steps of core/outbox.h.
 *
 *   WANTED  ─begin()→  ASKS  ─the store gives the epoch→  DRAINS  ─outbox is empty→  EPOCH is
 * appended: MARKED  ─the log has it→  APPLIES  ─the store has it→  open()
 *                                        └─ its data is given up: a second EPOCH event, MARKED
 *
 * and from there back to WANTED, if somebody else was quicker, or the epoch was used before.
 *
 * The store gives the epoch. It may still be one that was used before, if the store went back in a
 * failover: then the log has events of that very epoch, and the store, when it has come to the end
 * of the lane, is beyond the EPOCH event. Another one is taken then. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/message.h"
#include "core/event.h"
#include "core/sequence.h"
#include "flow/relay_own.h"

#define AGAIN_MS 200u
#define MARK_MS  20u

static void wait_for(struct relay *relay, struct opening *opening, uint64_t ms, const char *reason)
{
    opening->try_ns = relay->now_ns + ms * MS_NS;
    lock_take(&relay->lock);
    (void)snprintf(relay->stats.reason, sizeof(relay->stats.reason), "%s", reason);
    lock_release(&relay->lock);
}

static void want_again(struct relay *relay, struct opening *opening, const char *reason)
{
    opening->state = OPENING_WANTED;
    wait_for(relay, opening, AGAIN_MS, reason);
}

/* A new epoch is given by the store, so that each is higher than all before it: what somebody who
 * wanted to open the cell earlier brings into the log too late is of a lower one. The cell is asked
 * first, so that only one who may open it is given an epoch: others ask the store for the last one
 * that was (relay_fence.c). The cell may know a higher epoch than the store, or the store a higher
 * one than the cell: then the cell is asked again. `given` is what the store has given us; 0 = none
 * yet. */
static void begin_above(struct relay *relay, unsigned number, struct relay_cell *cell,
                        uint64_t above, uint64_t given)
{
    struct outbox *outbox = relay->options.outbox;
    struct opening *opening = &cell->opening;
    struct error error = {.text = ""};
    enum err err =
        outbox->ops->begin(outbox, number, above, &opening->epoch, &opening->last, &error);
    relay_begin_anew(cell);
    if (err == ERR_EXISTS) {
        opening->state = OPENING_NOT;
    } else if (err) {
        want_again(relay, opening, error.text);
    } else if (opening->epoch == given) {
        opening->state = OPENING_DRAINS;
    } else {
        asker_want_epoch(relay->asker, number, opening->epoch - 1);
        opening->state = OPENING_ASKS;
        wait_for(relay, opening, 0, "the store has to give an epoch");
    }
}

static void begin(struct relay *relay, unsigned number, struct relay_cell *cell)
{
    struct opening *opening = &cell->opening;
    const struct state_mark *mark = relay_mark(relay);
    relay_want_mark(relay, AGAIN_MS);
    if (!mark) {
        wait_for(relay, opening, 0, "the store does not say how far it is");
        return;
    }
    uint64_t above = sequence_epoch(mark->sequences[number]);
    begin_above(relay, number, cell, opening->epoch > above ? opening->epoch : above, 0);
}

static void take_epoch(struct relay *relay, unsigned number, struct relay_cell *cell)
{
    struct opening *opening = &cell->opening;
    uint64_t given = 0;
    enum err err = ERR_OK;
    struct error error = {.text = ""};
    if (!asker_epoch(relay->asker, number, &given, &err, &error))
        return;
    relay->did = true;
    if (err)
        want_again(relay, opening, error.text);
    else if (given != opening->epoch)
        begin_above(relay, number, cell, given - 1, given);
    else
        opening->state = OPENING_DRAINS;
}

static void append_epoch(struct relay *relay, unsigned number, struct relay_cell *cell, uint64_t n)
{
    struct opening *opening = &cell->opening;
    struct section section;
    section_init(&section);
    section_event(&section, &(struct event){.type = EVENT_EPOCH, .id = slice_of(EVENT_EPOCH_ID)});
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, number, sequence_of(opening->epoch, n),
                                 env_wall_ms(relay->options.env), header);
    opening->n = n;
    opening->ticket =
        log_append(relay->options.log, (struct slice){header, size}, buffer_slice(&section.body));
    opening->state = OPENING_MARKED;
    if (opening->epoch > cell->newest)
        cell->newest = opening->epoch;
    section_done(&section);
    relay->did = true;
}

static enum err note_entry(void *arg, unsigned cell, struct slice section, uint64_t last,
                           struct error *error)
{
    (void)cell, (void)section, (void)last, (void)error;
    *(bool *)arg = true;
    return ERR_OK;
}

/* What is left goes the usual way (relay.c); here we see that there is nothing any more. */
static void drain(struct relay *relay, unsigned number, struct relay_cell *cell)
{
    struct outbox *outbox = relay->options.outbox;
    bool is_under_way = cell->flight_count > 0 || cell->acked > cell->told || cell->is_held;
    if (is_under_way || log_room(relay->options.log) != ERR_OK) {
        wait_for(relay, &cell->opening, MARK_MS, "the log does not take what was left");
        return;
    }
    bool has_more = false;
    const uint64_t from_the_beginning[LIMIT_CELLS] = {0};
    struct error error = {.text = ""};
    if (outbox->ops->read(outbox, relay_bit(number), from_the_beginning, 1, note_entry, &has_more,
                          &error)) {
        want_again(relay, &cell->opening, error.text);
        return;
    }
    if (!has_more)
        append_epoch(relay, number, cell, 0);
}

/* Is the cell's data what the store has? `ended` is the last event of the lane before this epoch.
 * Less: something is missing. More: what was left in the outbox came into the lane behind an epoch
 * that was opened in another process, and does not count. */
static bool may_keep(const struct opening *opening, uint64_t ended)
{
    return sequence_n(opening->last) == 0 ? ended <= opening->last : ended == opening->last;
}

static void finish(struct relay *relay, unsigned number, struct relay_cell *cell,
                   const struct state_mark *mark)
{
    struct outbox *outbox = relay->options.outbox;
    struct opening *opening = &cell->opening;
    bool keep = may_keep(opening, mark->ended[number]);
    if (!keep && opening->n == 0) {
        /* The cell may come back with data of another time, which is as far as the lane was until
         * now. What was decided for this data is to hold for that. */
        append_epoch(relay, number, cell, 1);
        return;
    }
    struct error error = {.text = ""};
    enum err err = outbox->ops->open(outbox, number, opening->epoch, opening->n, keep,
                                     mark->incarnations[number], &error);
    if (err == ERR_EXISTS) {
        opening->state = OPENING_DRAINS;
        return;
    }
    if (err == ERR_UNAVAILABLE) {
        /* In this epoch, still: others wait until the store has what the cell says in it. */
        wait_for(relay, opening, AGAIN_MS, error.text);
        return;
    }
    if (err) {
        want_again(relay, opening, error.text);
        return;
    }
    opening->state = OPENING_NOT;
    cell->logged = cell->carried = cell->told = cell->acked = cell->read =
        sequence_of(opening->epoch, opening->n);
    relay_be_sure(cell, opening->ticket, opening->epoch);
    relay->did = true;
    lock_take(&relay->lock);
    relay->stats.opened++;
    relay->stats.kept += keep;
    lock_release(&relay->lock);
    if (!keep && opening->last > 0)
        message_warning("a cell of the hot layer has lost what it said last: it is loaded from the "
                        "store as it is asked for cell=%u epoch=%" PRIu64,
                        number, opening->epoch);
}

static void apply(struct relay *relay, unsigned number, struct relay_cell *cell)
{
    struct opening *opening = &cell->opening;
    const struct state_mark *mark = relay_mark(relay);
    relay_want_mark(relay, mark ? MARK_MS : AGAIN_MS);
    if (!mark)
        wait_for(relay, opening, 0, "the store does not say how far it is");
    else if (log_position_is_before(mark->lanes[number], opening->end))
        wait_for(relay, opening, 0, "the store has to catch up with the log");
    else if (mark->sequences[number] != sequence_of(opening->epoch, opening->n))
        want_again(relay, opening, "the epoch was used before");
    else
        finish(relay, number, cell, mark);
}

static void go_on(struct relay *relay, unsigned number, struct relay_cell *cell)
{
    struct opening *opening = &cell->opening;
    if (relay->now_ns < opening->try_ns)
        return;
    switch (opening->state) {
    case OPENING_NOT:
        break;
    case OPENING_WANTED:
        begin(relay, number, cell);
        break;
    case OPENING_ASKS:
        take_epoch(relay, number, cell);
        break;
    case OPENING_DRAINS:
        drain(relay, number, cell);
        break;
    case OPENING_MARKED:
        if (log_reached(relay->options.log, number, LOG_DURABLE) >= opening->ticket) {
            opening->end = log_end(relay->options.log, number);
            opening->state = OPENING_APPLIES;
        }
        break;
    case OPENING_APPLIES:
        apply(relay, number, cell);
        break;
    }
}

void relay_open_cells(struct relay *relay)
{
    struct outbox *outbox = relay->options.outbox;
    uint64_t closed = outbox->ops->closed(outbox);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct relay_cell *cell = &relay->cells[i];
        if (closed & relay_bit(i) && cell->opening.state == OPENING_NOT)
            cell->opening = (struct opening){.state = OPENING_WANTED};
        go_on(relay, i, cell);
    }
}
