/* suspects.h - rows of the store that are not what was written there: they are not loaded, but
 * counted anew from the log first. The loader finds them, the desk deals with them. Any thread. */
#ifndef FLOW_SUSPECTS_H
#define FLOW_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/slice.h"
#include "core/limits.h"

#define SUSPECT_AGAIN_NS \
    (2u * 1000000000ull) /* after the first failure; each more doubles it, five times */
#define SUSPECTS_MAX 64u /* that wait; what is more is found again by whoever asks for it again */

struct suspect {
    uint64_t from_ns; /* not to be dealt with before; 0: at once */
    unsigned failures;
    size_t size;
    char id[LIMIT_ID_BYTES];
};

struct suspects_queue {
    struct lock lock;
    size_t count;
    struct suspect list[SUSPECTS_MAX];
};

void suspects_queue_init(struct suspects_queue *queue);
void suspects_queue_done(struct suspects_queue *queue);

/* False: it is waiting already, or there are too many. */
bool suspects_queue_add(struct suspects_queue *queue, struct slice id);

/* The same, and says so. */
bool suspects_queue_report(struct suspects_queue *queue, struct slice id);

/* Does it wait? */
bool suspects_queue_has(struct suspects_queue *queue, struct slice id);

/* The last that was added, of those whose time has come. False: none. */
bool suspects_queue_take(struct suspects_queue *queue, uint64_t now_ns,
                         struct suspect *ret_suspect);

/* It could not be dealt with: it comes again later, and later each time. */
void suspects_queue_put_back(struct suspects_queue *queue, const struct suspect *suspect,
                             uint64_t now_ns);

#endif
