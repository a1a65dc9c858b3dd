/* pages.h - large blocks on huge pages.
 *
 * Tables of many megabytes that are read at random cost a walk through the page
 * tables for nearly every look-up when they lie on pages of 4 KiB. Blocks from
 * here lie on pages of 2 MiB where the system has them: several blocks share a
 * page, and a page whose blocks have all come back goes back to the system.
 * Thread-safe. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

#define PAGES_BLOCK_MIN ((size_t)32 << 10)

/* A block of zeros. `size` is a multiple of PAGES_BLOCK_MIN. Running out of memory
 * ends the process, as in memory.h. */
void *pages_take(size_t size) __attribute__((malloc, returns_nonnull));
void pages_give(void *block, size_t size);

/* All blocks that are out; malloc's own account knows nothing of them. */
size_t pages_bytes(void);

#endif
