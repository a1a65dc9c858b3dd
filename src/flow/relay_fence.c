/* relay_fence.c - does what we have appended to a lane count?
 *
 * A process of Redis may have been replaced by another and not know it: it was asleep, or cut off
 * from the others but not from us. It goes on in its old epoch, and says that all is well. But its
 * cell was opened anew elsewhere, and what we append for it stands in the lane behind the EPOCH
 * event, and is dropped there. No server of the hot layer can tell, but the lane itself can:
 *
 *   - up to some ticket of ours we are sure that no newer epoch stands in the lane. As long as
 *     nobody else has appended in between, we are sure of what we append behind it;
 *   - else we ask the store, after the log has what we appended: an epoch is given by the store
 *     before it is in the lane (relay_open.c). None was given: none stands there, and we are sure
 *     of everything up to here;
 *   - one was given: then the store has to come so far, and its mark tells.
 *
 * As long as we are not sure the outbox is not told, and nobody's answer leaves. */
#include <assert.h>

#include "core/sequence.h"
#include "flow/relay_own.h"

#define AGAIN_MS 200u /* the store does not answer */
#define MARK_MS  20u

/* Whoever opens a cell carries over what is left of its old epoch. That may be late, but no answer
 * rests on it (relay.c), and the cell's data is not kept then (relay_open.c). */
static bool is_sure(struct relay *relay, unsigned number)
{
    const struct relay_cell *cell = &relay->cells[number];
    if (relay_drains(cell))
        return true;
    return cell->sure_ticket > 0 && sequence_epoch(cell->acked) >= cell->newest &&
           log_alone(relay->options.log, number) <= cell->sure_ticket;
}

void relay_be_sure(struct relay_cell *cell, uint64_t ticket, uint64_t epoch)
{
    cell->sure_ticket = ticket;
    cell->newest = epoch;
}

enum verdict { VERDICT_COUNTS, VERDICT_WAITS, VERDICT_IS_LATE };

/* After a look at the store that was later than the log's acknowledgement. */
static enum verdict judge(struct relay *relay, unsigned number)
{
    struct relay_cell *cell = &relay->cells[number];
    const struct state_mark *mark = &relay->mark;
    uint64_t epoch = sequence_epoch(cell->acked);
    if (mark->given[number] <= epoch && epoch >= cell->newest) {
        relay_be_sure(cell, cell->acked_ticket, epoch);
        return VERDICT_COUNTS;
    }
    if (sequence_epoch(mark->sequences[number]) > epoch)
        return VERDICT_IS_LATE;
    return mark->sequences[number] >= cell->acked ? VERDICT_COUNTS : VERDICT_WAITS;
}

uint64_t relay_fence(struct relay *relay, uint64_t cells, uint64_t *ret_late)
{
    uint64_t sure = 0;
    *ret_late = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (cells & relay_bit(i) && is_sure(relay, i))
            sure |= relay_bit(i);
    if (sure == cells || relay->now_ns < relay->fence_ns)
        return sure;
    bool has_mark = relay_look_at_mark(relay, 0);
    relay->fence_ns = has_mark ? 0 : relay->now_ns + AGAIN_MS * MS_NS;
    for (unsigned i = 0; has_mark && i < LIMIT_CELLS; i++) {
        if (!(cells & ~sure & relay_bit(i)))
            continue;
        switch (judge(relay, i)) {
        case VERDICT_COUNTS:
            sure |= relay_bit(i);
            break;
        case VERDICT_IS_LATE:
            *ret_late |= relay_bit(i);
            break;
        case VERDICT_WAITS:
            relay->fence_ns = relay->now_ns + MARK_MS * MS_NS;
            break;
        }
    }
    return sure;
}
