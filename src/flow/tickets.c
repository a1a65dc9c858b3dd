#include "flow/tickets.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define RING_FIRST 1024u

void tickets_init(struct tickets *tickets)
{
    assert(tickets);

    *tickets = (struct tickets){.mask = RING_FIRST - 1, .next = 1};
    tickets->ring = memory_take(RING_FIRST * sizeof(*tickets->ring));
    lock_init(&tickets->lock);
    atomic_store(&tickets->is_up, true);
}

void tickets_done(struct tickets *tickets)
{
    assert(tickets);

    lock_done(&tickets->lock);
    free(tickets->ring);
}

static uint64_t first_of(const struct tickets *tickets)
{
    return atomic_load_explicit(&tickets->safe, memory_order_relaxed) + 1;
}

static void grow(struct tickets *tickets)
{
    size_t mask = tickets->mask * 2 + 1;
    struct ticket *ring = memory_take((mask + 1) * sizeof(*ring));
    for (uint64_t number = first_of(tickets); number < tickets->next; number++)
        ring[number & mask] = tickets->ring[number & tickets->mask];
    free(tickets->ring);
    tickets->ring = ring;
    tickets->mask = mask;
}

uint64_t tickets_take(struct tickets *tickets, unsigned cell, uint64_t sequence, uint64_t now_ns)
{
    assert(tickets && cell < 64);

    lock_take(&tickets->lock);
    if (tickets->next - first_of(tickets) > tickets->mask)
        grow(tickets);
    uint64_t number = tickets->next++;
    tickets->ring[number & tickets->mask] = (struct ticket){sequence, now_ns, cell};
    atomic_fetch_or_explicit(&tickets->cells, UINT64_C(1) << cell, memory_order_relaxed);
    lock_release(&tickets->lock);
    return number;
}

/* Of more ranges than are remembered the oldest are forgotten: what is older counts as weak. */
static bool meets_ranges(const struct tickets *tickets, uint64_t first, uint64_t last)
{
    for (unsigned i = 0; i < tickets->weak_count; i++) {
        if (first > tickets->weak[i].until)
            return false;
        if (last > tickets->weak[i].after)
            return true;
    }
    return tickets->weak_count == TICKETS_RANGES;
}

bool tickets_any_weak(struct tickets *tickets, uint64_t first, uint64_t last)
{
    assert(tickets && first <= last);

    if (!atomic_load_explicit(&tickets->has_weak, memory_order_acquire))
        return false;
    lock_take(&tickets->lock);
    bool is_weak = meets_ranges(tickets, first, last);
    lock_release(&tickets->lock);
    return is_weak;
}

bool tickets_is_weak(struct tickets *tickets, uint64_t ticket)
{
    return tickets_any_weak(tickets, ticket, ticket);
}

static void note_weak(struct tickets *tickets, uint64_t number)
{
    tickets->weak_all++;
    if (tickets->weak_count > 0 && tickets->weak[0].until == number - 1) {
        tickets->weak[0].until = number;
        return;
    }
    unsigned kept = tickets->weak_count < TICKETS_RANGES ? tickets->weak_count : TICKETS_RANGES - 1;
    memmove(tickets->weak + 1, tickets->weak, kept * sizeof(*tickets->weak));
    tickets->weak[0] = (struct ticket_range){number - 1, number};
    tickets->weak_count = kept + 1;
    atomic_store_explicit(&tickets->has_weak, true, memory_order_release);
}

bool tickets_let_go(struct tickets *tickets, ticket_judge_fn *judge, void *arg)
{
    assert(tickets && judge);

    lock_take(&tickets->lock);
    uint64_t first = first_of(tickets);
    uint64_t number = first;
    for (; number < tickets->next; number++) {
        enum ticket_verdict verdict = judge(arg, &tickets->ring[number & tickets->mask]);
        if (verdict == TICKET_WAITS)
            break;
        if (verdict == TICKET_IS_WEAK)
            note_weak(tickets, number);
    }
    if (number == tickets->next)
        atomic_store_explicit(&tickets->cells, 0, memory_order_relaxed);
    atomic_store_explicit(&tickets->safe, number - 1, memory_order_release);
    lock_release(&tickets->lock);
    return number > first;
}

uint64_t tickets_waiting(struct tickets *tickets)
{
    assert(tickets);

    lock_take(&tickets->lock);
    uint64_t waiting = tickets->next - first_of(tickets);
    lock_release(&tickets->lock);
    return waiting;
}
