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
 * As long as we are not sure the outbox is not told, and nobody's answer leaves. The store is asked
 * beside us (asker.h), and meanwhile the log may have more: the answer speaks of what it had when
 * the question was put. */
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

static void ask(struct relay *relay, struct relay_cell *cell)
{
    if (relay->now_ns < cell->fence.try_ns)
        return;
    cell->fence = (struct fence){
        .number = relay_ask(relay), .acked = cell->acked, .ticket = cell->acked_ticket};
}

/* By an answer that was asked for after the log had what is in `fence`. */
static enum verdict judge_by(const struct state_mark *mark, struct relay_cell *cell,
                             unsigned number, struct fence fence)
{
    uint64_t epoch = sequence_epoch(fence.acked);
    if (mark->given[number] <= epoch && epoch >= cell->newest) {
        relay_be_sure(cell, fence.ticket, epoch);
        return VERDICT_COUNTS;
    }
    if (sequence_epoch(mark->sequences[number]) > epoch)
        return VERDICT_IS_LATE;
    return mark->sequences[number] >= fence.acked ? VERDICT_COUNTS : VERDICT_WAITS;
}

static enum verdict judge(struct relay *relay, unsigned number, uint64_t *ret_sequence)
{
    struct relay_cell *cell = &relay->cells[number];
    struct fence fence = cell->fence;
    if (fence.number == 0)
        ask(relay, cell);
    if (fence.number == 0 || relay->said.number < fence.number)
        return VERDICT_WAITS;
    const struct state_mark *mark = relay_mark(relay);
    enum verdict verdict = mark ? judge_by(mark, cell, number, fence) : VERDICT_WAITS;
    uint64_t again_ms = mark ? MARK_MS : AGAIN_MS;
    cell->fence =
        (struct fence){.try_ns = verdict == VERDICT_WAITS ? relay->now_ns + again_ms * MS_NS : 0};
    *ret_sequence = fence.acked;
    return verdict;
}

uint64_t relay_fence(struct relay *relay, uint64_t cells, uint64_t sequences[LIMIT_CELLS],
                     uint64_t *ret_late)
{
    uint64_t sure = 0;
    *ret_late = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        if (!(cells & relay_bit(i)))
            continue;
        enum verdict verdict = is_sure(relay, i) ? VERDICT_COUNTS : judge(relay, i, &sequences[i]);
        if (verdict == VERDICT_COUNTS)
            sure |= relay_bit(i);
        else if (verdict == VERDICT_IS_LATE)
            *ret_late |= relay_bit(i);
    }
    return sure;
}
