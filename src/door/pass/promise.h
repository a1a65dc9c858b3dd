/* promise.h - answers that wait for the log, in the order in which they were
 * made.
 *
 * A promise says: the output of this client up to here may leave once the log
 * has reached this ticket. Tickets hardly ever go down from one promise to the
 * next (only within a pass), so a queue is enough: an answer that could have
 * left a moment before the one ahead of it leaves with it. Those that are stuck (flow/tickets.h)
 * are in a queue of their own, with all that the same client is promised behind them. */
#ifndef DOOR_PASS_PROMISE_H
#define DOOR_PASS_PROMISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pass_client;

struct promise {
    struct pass_client *client;
    uint64_t ticket;
    uint64_t first; /* the lowest ticket of what is promised; 0 = not known, and of no interest */
    bool must_log;  /* nothing less will do */
    uint64_t end;   /* place in the client's output */
};

struct promises {
    struct promise *ring; /* owned */
    size_t mask;          /* size - 1 */
    size_t first;
    size_t count;
};

void promises_init(struct promises *promises);
void promises_done(struct promises *promises);
void promises_add(struct promises *promises, struct promise promise);

/* The oldest one, or NULL. */
static inline const struct promise *promises_first(const struct promises *promises)
{
    return promises->count > 0 ? &promises->ring[promises->first] : NULL;
}

static inline void promises_drop_first(struct promises *promises)
{
    promises->first = (promises->first + 1) & promises->mask;
    promises->count--;
}

#endif
