/* own.h - memory of the state, counted.
 *
 * What is held in small blocks (members, settings, parts) is taken and freed here, so
 * that the layer knows what it holds without asking the allocator, which would
 * have to look at every free block. A thread counts for itself; whoever runs something
 * for a layer hands the sum over at its end. */
#ifndef HOT_MEMORY_OWN_H
#define HOT_MEMORY_OWN_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"

extern _Thread_local int64_t own_bytes; /* taken less freed, not yet handed over */

/* The allocator's own bytes before a block are part of the price. */
#define OWN_HEAD_BYTES 8

static inline void own_count(void *block, int64_t sign)
{
    own_bytes += sign * (int64_t)(malloc_usable_size(block) + OWN_HEAD_BYTES);
}

static inline void *own_take(size_t size)
{
    void *block = memory_take(size);
    own_count(block, 1);
    return block;
}

static inline void *own_take_zeroed(size_t size)
{
    void *block = memory_take_zeroed(size);
    own_count(block, 1);
    return block;
}

static inline void *own_resize(void *block, size_t size)
{
    if (block)
        own_count(block, -1);
    block = memory_resize(block, size);
    own_count(block, 1);
    return block;
}

static inline void own_free(void *block)
{
    if (!block)
        return;
    own_count(block, -1);
    free(block);
}

/* The sum so far, which is 0 afterwards. */
static inline int64_t own_hand_over(void)
{
    int64_t bytes = own_bytes;
    own_bytes = 0;
    return bytes;
}

#endif
