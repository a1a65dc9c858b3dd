/* relay_tickets.c - answers that wait for the log, and which of them may leave. */
#include <assert.h>

#include "core/sequence.h"
#include "flow/relay_own.h"

/* The cell has begun a new epoch since. What is at or below the last sequence that got into the log
 * before is safe; what is beyond was in the hot layer only, which has forgotten it. */
static enum ticket_verdict judge_by_end(struct relay *relay, const struct ticket *ticket)
{
    const struct state_mark *mark = relay_mark(relay);
    uint64_t epoch = sequence_epoch(ticket->sequence);
    if (!mark || sequence_epoch(mark->sequences[ticket->cell]) <= epoch)
        return TICKET_WAITS;
    uint64_t ended = mark->ended[ticket->cell];
    if (sequence_epoch(ended) != epoch)
        return TICKET_IS_WEAK;
    return ticket->sequence <= ended ? TICKET_IS_SAFE : TICKET_IS_WEAK;
}

static enum ticket_verdict judge_ticket(void *arg, const struct ticket *ticket)
{
    struct relay *relay = arg;
    uint64_t logged = relay->cells[ticket->cell].logged;
    bool is_same_epoch = sequence_epoch(logged) == sequence_epoch(ticket->sequence);
    if (is_same_epoch && logged >= ticket->sequence)
        return TICKET_IS_SAFE;
    enum ticket_verdict verdict = is_same_epoch ? TICKET_WAITS : judge_by_end(relay, ticket);
    if (verdict != TICKET_WAITS)
        return verdict;
    /* It may have been taken after this round began. */
    bool is_over = relay->now_ns > ticket->since_ns + relay->options.ack_timeout_ms * MS_NS;
    return relay->is_log_down || is_over ? TICKET_IS_WEAK : TICKET_WAITS;
}

void relay_let_tickets_go(struct relay *relay)
{
    if (!tickets_let_go(&relay->tickets, relay->now_ns, judge_ticket, relay))
        return;
    relay->did = true;
    if (relay->options.progress)
        relay->options.progress(relay->options.progress_arg);
}

void relay_tickets(struct relay *relay, struct op *ops, size_t count)
{
    assert(relay && ops);

    /* What one batch has changed in a cell is in one entry of its outbox: one ticket will do. But a
     * cell may have begun anew within the batch, without what it did before. */
    uint64_t highest[LIMIT_CELLS] = {0};
    uint64_t numbers[LIMIT_CELLS];
    for (size_t i = 0; i < count; i++)
        if (ops[i].sequence > highest[ops[i].cell])
            highest[ops[i].cell] = ops[i].sequence;
    uint64_t now_ns = env_monotonic_ns(relay->options.env);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (highest[cell] > 0)
            numbers[cell] = tickets_take(&relay->tickets, cell, highest[cell], now_ns);
    for (size_t i = 0; i < count; i++) {
        struct op *op = &ops[i];
        if (op->sequence == 0)
            continue;
        bool is_same_epoch = sequence_epoch(op->sequence) == sequence_epoch(highest[op->cell]);
        op->ticket = is_same_epoch ? numbers[op->cell]
                                   : tickets_take(&relay->tickets, op->cell, op->sequence, now_ns);
    }
    bell_ring(&relay->bell);
}

uint64_t relay_safe(const struct relay *relay)
{
    return tickets_safe(&relay->tickets);
}

bool relay_any_stuck(struct relay *relay, uint64_t first, uint64_t last)
{
    return tickets_any_aside(&relay->tickets, first, last);
}

uint64_t relay_rounds(const struct relay *relay)
{
    return tickets_rounds(&relay->tickets);
}

bool relay_any_weak(struct relay *relay, uint64_t first, uint64_t last)
{
    return tickets_any_weak(&relay->tickets, first, last);
}

bool relay_is_up(const struct relay *relay)
{
    return atomic_load_explicit(&relay->tickets.is_up, memory_order_relaxed);
}
