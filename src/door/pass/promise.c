#include "door/pass/promise.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define RING_FIRST 1024u

void promises_init(struct promises *promises)
{
    *promises = (struct promises){
        .ring = memory_take(RING_FIRST * sizeof(*promises->ring)),
        .mask = RING_FIRST - 1,
    };
}

void promises_done(struct promises *promises)
{
    free(promises->ring);
}

/* Twice the ring, with the oldest promise at its beginning. */
static void grow(struct promises *promises)
{
    size_t size = promises->mask + 1;
    struct promise *ring = memory_take(2 * size * sizeof(*ring));
    size_t head = size - promises->first;
    memcpy(ring, promises->ring + promises->first, head * sizeof(*ring));
    memcpy(ring + head, promises->ring, promises->first * sizeof(*ring));
    free(promises->ring);
    promises->ring = ring;
    promises->mask = 2 * size - 1;
    promises->first = 0;
}

void promises_add(struct promises *promises, struct promise promise)
{
    if (promises->count > promises->mask)
        grow(promises);
    promises->ring[(promises->first + promises->count) & promises->mask] = promise;
    promises->count++;
}
