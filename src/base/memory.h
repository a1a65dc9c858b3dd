/* memory.h - memory that is there, or the process is not.
 *
 * For allocations of our own, whose size no peer decides: nobody could go on
 * without them, so running out is said in a line and ends the process; the log
 * brings back what it knew. The blocks go back with free(). */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* Not cleared. */
void *memory_take(size_t size) __attribute__((malloc, returns_nonnull));
void *memory_take_zeroed(size_t size) __attribute__((malloc, returns_nonnull));

/* As realloc(): `block` may be NULL, and is gone afterwards. */
void *memory_resize(void *block, size_t size) __attribute__((returns_nonnull));

#endif
