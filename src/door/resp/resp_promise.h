/* resp_promise.h - answers that wait for the log, in the order in which they
 * were made.
 *
 * A promise says: the output of this client up to here may leave once the log
 * has reached this ticket. Tickets hardly ever go down from one promise to the
 * next (only within a pass), so a queue is enough: an answer that could have
 * left a moment before the one ahead of it leaves with it. */
#ifndef DOOR_RESP_RESP_PROMISE_H
#define DOOR_RESP_RESP_PROMISE_H

#include <stddef.h>
#include <stdint.h>

struct resp_client;

struct resp_promise {
    struct resp_client *client;
    uint64_t ticket;
    uint64_t end; /* place in the client's output */
};

struct resp_promises {
    struct resp_promise *ring; /* owned */
    size_t mask;               /* size - 1 */
    size_t first;
    size_t count;
};

void resp_promises_init(struct resp_promises *promises);
void resp_promises_done(struct resp_promises *promises);
void resp_promises_add(struct resp_promises *promises, struct resp_promise promise);

/* The oldest one, or NULL. */
static inline const struct resp_promise *resp_promises_first(const struct resp_promises *promises)
{
    return promises->count > 0 ? &promises->ring[promises->first] : NULL;
}

static inline void resp_promises_drop_first(struct resp_promises *promises)
{
    promises->first = (promises->first + 1) & promises->mask;
    promises->count--;
}

#endif
