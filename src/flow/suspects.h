/* suspects.h - rows of the store that are not what was written there: they are not loaded, but
 * counted anew from the log first. The loader finds them, the desk deals with them. Any thread. */
#ifndef FLOW_SUSPECTS_H
#define FLOW_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/lock.h"
#include "base/slice.h"
#include "core/limits.h"

#define SUSPECTS_MAX 64u /* that wait; what is more is found again by whoever asks for it again */

struct suspects_queue {
    struct lock lock;
    size_t count;
    size_t sizes[SUSPECTS_MAX];
    char ids[SUSPECTS_MAX][LIMIT_ID_BYTES];
};

void suspects_queue_init(struct suspects_queue *queue);
void suspects_queue_done(struct suspects_queue *queue);

/* False: it is waiting already, or there are too many. */
bool suspects_queue_add(struct suspects_queue *queue, struct slice id);

/* The last that was added; `to` has LIMIT_ID_BYTES. 0: none. */
size_t suspects_queue_take(struct suspects_queue *queue, char *to);

#endif
