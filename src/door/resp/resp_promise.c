#include "door/resp/resp_promise.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define RING_FIRST 1024u

void resp_promises_init(struct resp_promises *promises)
{
    *promises = (struct resp_promises){
        .ring = memory_take(RING_FIRST * sizeof(*promises->ring)),
        .mask = RING_FIRST - 1,
    };
}

void resp_promises_done(struct resp_promises *promises)
{
    free(promises->ring);
}

/* Twice the ring, with the oldest promise at its beginning. */
static void grow(struct resp_promises *promises)
{
    size_t size = promises->mask + 1;
    struct resp_promise *ring = memory_take(2 * size * sizeof(*ring));
    size_t head = size - promises->first;
    memcpy(ring, promises->ring + promises->first, head * sizeof(*ring));
    memcpy(ring + head, promises->ring, promises->first * sizeof(*ring));
    free(promises->ring);
    promises->ring = ring;
    promises->mask = 2 * size - 1;
    promises->first = 0;
}

void resp_promises_add(struct resp_promises *promises, struct resp_promise promise)
{
    if (promises->count > promises->mask)
        grow(promises);
    promises->ring[(promises->first + promises->count) & promises->mask] = promise;
    promises->count++;
}
