/* memory.h - memory that is there, or the process is not.
 *
 * For allocations of our own, whose size no peer decides: nobody could go on
 * without them, so running out is said in a line and ends the process; the log
 * brings back what it knew. The blocks go back with free(). */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Not cleared. */
void *memory_take(size_t size) __attribute__((malloc, returns_nonnull));
void *memory_take_zeroed(size_t size) __attribute__((malloc, returns_nonnull));

/* Cleared, on the border of a cache line. */
void *memory_take_aligned(size_t size) __attribute__((malloc, returns_nonnull));

/* As realloc(): `block` may be NULL, and is gone afterwards. */
void *memory_resize(void *block, size_t size) __attribute__((returns_nonnull));

/* What the process has in memory, as the system counts it; 0 when it does not say. */
uint64_t memory_resident_bytes(void);

/* malloc of glibc puts 8 bytes in front of a block and makes it a multiple of 16
 * with them, at least 32. What a block of `size` bytes costs, and how many bytes
 * of it can be used. */
static inline size_t memory_cost(size_t size)
{
    size_t cost = (size + 8 + 15) / 16 * 16;
    return cost < 32 ? 32 : cost;
}

static inline size_t memory_usable(size_t size)
{
    return memory_cost(size) - 8;
}

#endif
