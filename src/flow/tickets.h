/* tickets.h - answers that wait until the log has some sequence of some cell.
 *
 * A ticket is a number that grows. They are let go in their order, so one number says which may
 * leave; one whose turn has not come waits for those before it. But not for long: one that has
 * waited for a while is set aside, with all of its cell, and those behind it go; it is let go by
 * itself. What is let go although the log does not have it is weak: that is remembered by ranges,
 * of which there are few.
 *
 * Workers take tickets, the relay's thread lets them go. */
#ifndef FLOW_TICKETS_H
#define FLOW_TICKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

#define TICKETS_RANGES   32u
#define TICKETS_ASIDE_MS 50u /* so long the others wait */

struct ticket {
    uint64_t sequence;
    uint64_t since_ns;
    unsigned cell;
};

struct ticket_range {
    uint64_t after; /* tickets beyond this, */
    uint64_t until; /* up to this */
};

struct ticket_aside {
    uint64_t number;
    struct ticket ticket;
};

struct tickets {
    struct lock lock; /* guards what follows */
    struct ticket *ring;
    size_t mask; /* size - 1 */
    uint64_t next;
    struct ticket_range weak[TICKETS_RANGES]; /* the newest first */
    unsigned weak_count;
    uint64_t weak_all;           /* tickets that were */
    struct ticket_aside *asides; /* owned; the oldest first */
    size_t aside_count;
    size_t aside_room;
    uint64_t aside_cells; /* a bit each */

    _Atomic uint64_t safe;   /* tickets up to this may leave, but for those that were set aside */
    _Atomic uint64_t rounds; /* in which some of those were let go */
    atomic_bool has_aside;
    atomic_bool has_weak;
    atomic_bool is_up;      /* else nobody waits */
    _Atomic uint64_t cells; /* that somebody waits for, a bit each; may name some too many */
};

void tickets_init(struct tickets *tickets);
void tickets_done(struct tickets *tickets);

uint64_t tickets_take(struct tickets *tickets, unsigned cell, uint64_t sequence, uint64_t now_ns);

static inline uint64_t tickets_safe(const struct tickets *tickets)
{
    return atomic_load_explicit(&tickets->safe, memory_order_acquire);
}

/* Is one of them, from `first` to `last`, weak? */
bool tickets_any_weak(struct tickets *tickets, uint64_t first, uint64_t last);

/* Was one of them, from `first` to `last`, set aside, and waits still? Cheap while none does. */
bool tickets_any_aside(struct tickets *tickets, uint64_t first, uint64_t last);

/* Grows when tickets that were set aside are let go. */
static inline uint64_t tickets_rounds(const struct tickets *tickets)
{
    return atomic_load(&tickets->rounds);
}

/* What is to be done with a ticket. */
enum ticket_verdict { TICKET_WAITS, TICKET_IS_SAFE, TICKET_IS_WEAK };
typedef enum ticket_verdict ticket_judge_fn(void *arg, const struct ticket *ticket);

/* Lets the oldest ones go, as long as they may, and those that were set aside. True: some went. */
bool tickets_let_go(struct tickets *tickets, uint64_t now_ns, ticket_judge_fn *judge, void *arg);

/* How many wait. */
uint64_t tickets_waiting(struct tickets *tickets);

#endif
