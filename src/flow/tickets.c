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
    free(tickets->asides);
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

/* Ranges do not touch one another. Hardly any is not the newest. */
static void note_weak(struct tickets *tickets, uint64_t number)
{
    struct ticket_range *weak = tickets->weak;
    unsigned at = 0;
    tickets->weak_all++;
    while (at < tickets->weak_count && weak[at].after >= number)
        at++;
    if (at < tickets->weak_count && weak[at].until == number - 1) {
        weak[at].until = number;
    } else if (at > 0 && weak[at - 1].after == number) {
        weak[at - 1].after = number - 1;
    } else if (at < TICKETS_RANGES) {
        unsigned kept =
            tickets->weak_count < TICKETS_RANGES ? tickets->weak_count : TICKETS_RANGES - 1;
        memmove(weak + at + 1, weak + at, (kept - at) * sizeof(*weak));
        weak[at] = (struct ticket_range){number - 1, number};
        tickets->weak_count = kept + 1;
    }
    atomic_store_explicit(&tickets->has_weak, true, memory_order_release);
}

/* --- set aside --- */

static void set_aside(struct tickets *tickets, uint64_t number, struct ticket ticket)
{
    if (tickets->aside_count == tickets->aside_room) {
        tickets->aside_room = tickets->aside_room ? tickets->aside_room * 2 : 64;
        tickets->asides =
            memory_resize(tickets->asides, tickets->aside_room * sizeof(*tickets->asides));
    }
    tickets->asides[tickets->aside_count++] = (struct ticket_aside){number, ticket};
    tickets->aside_cells |= UINT64_C(1) << ticket.cell;
    atomic_store(&tickets->has_aside, true);
}

static bool let_asides_go(struct tickets *tickets, ticket_judge_fn *judge, void *arg)
{
    size_t kept = 0;
    tickets->aside_cells = 0;
    for (size_t i = 0; i < tickets->aside_count; i++) {
        const struct ticket_aside *aside = &tickets->asides[i];
        enum ticket_verdict verdict = judge(arg, &aside->ticket);
        if (verdict == TICKET_IS_WEAK)
            note_weak(tickets, aside->number);
        if (verdict != TICKET_WAITS)
            continue;
        tickets->aside_cells |= UINT64_C(1) << aside->ticket.cell;
        tickets->asides[kept++] = *aside;
    }
    bool went = kept < tickets->aside_count;
    tickets->aside_count = kept;
    if (!went)
        return false;
    atomic_store(&tickets->has_aside, kept > 0);
    atomic_fetch_add(&tickets->rounds, 1);
    return true;
}

/* The first of those set aside that is at or beyond `number`. */
static size_t find_aside(const struct tickets *tickets, uint64_t number)
{
    size_t low = 0;
    size_t high = tickets->aside_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tickets->asides[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool tickets_any_aside(struct tickets *tickets, uint64_t first, uint64_t last)
{
    assert(tickets && first <= last);

    if (!atomic_load(&tickets->has_aside))
        return false;
    lock_take(&tickets->lock);
    size_t at = find_aside(tickets, first);
    bool is_aside = at < tickets->aside_count && tickets->asides[at].number <= last;
    lock_release(&tickets->lock);
    return is_aside;
}

/* --- letting go --- */

/* Do those behind it have waited for it long enough? */
static bool is_in_the_way(const struct tickets *tickets, const struct ticket *ticket,
                          uint64_t now_ns)
{
    return tickets->aside_cells >> ticket->cell & 1 ||
           now_ns > ticket->since_ns + TICKETS_ASIDE_MS * UINT64_C(1000000);
}

static uint64_t let_oldest_go(struct tickets *tickets, uint64_t now_ns, ticket_judge_fn *judge,
                              void *arg)
{
    uint64_t number = first_of(tickets);
    for (; number < tickets->next; number++) {
        const struct ticket *ticket = &tickets->ring[number & tickets->mask];
        enum ticket_verdict verdict = judge(arg, ticket);
        if (verdict == TICKET_WAITS && !is_in_the_way(tickets, ticket, now_ns))
            break;
        if (verdict == TICKET_WAITS)
            set_aside(tickets, number, *ticket);
        else if (verdict == TICKET_IS_WEAK)
            note_weak(tickets, number);
    }
    return number;
}

bool tickets_let_go(struct tickets *tickets, uint64_t now_ns, ticket_judge_fn *judge, void *arg)
{
    assert(tickets && judge);

    lock_take(&tickets->lock);
    uint64_t first = first_of(tickets);
    bool went = let_asides_go(tickets, judge, arg);
    uint64_t number = let_oldest_go(tickets, now_ns, judge, arg);
    if (number == tickets->next)
        atomic_store_explicit(&tickets->cells, tickets->aside_cells, memory_order_relaxed);
    atomic_store_explicit(&tickets->safe, number - 1, memory_order_release);
    lock_release(&tickets->lock);
    return went || number > first;
}

uint64_t tickets_waiting(struct tickets *tickets)
{
    assert(tickets);

    lock_take(&tickets->lock);
    uint64_t waiting = tickets->next - first_of(tickets) + tickets->aside_count;
    lock_release(&tickets->lock);
    return waiting;
}
