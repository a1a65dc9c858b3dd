/* heap.h - small records, addressed by 32 bits.
 *
 * A cell keeps millions of small records; eight-byte pointers to them and
 * malloc's own bytes would cost more than a counter does. Here a chunk of
 * 32 KiB holds records of one size only, a record's address is its place
 * counted in eight-byte steps, and a record stays where it is until it is given
 * back, so that a scan can walk all of them in the order of their addresses.
 *
 * A chunk whose records have all come back goes back, too, as long as another
 * one has room for the next record.
 *
 * The first byte of a record must not be zero while it is in use; the heap
 * zeroes it when the record is given back. Belongs to one cell. */
#ifndef HOT_MEMORY_HEAP_H
#define HOT_MEMORY_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define HEAP_NONE             0u /* no record has this address */
#define HEAP_RECORD_BYTES_MAX 512u
#define HEAP_CHUNK_BYTES      32768u
#define HEAP_STEP             8u
#define HEAP_STEPS_A_CHUNK    (HEAP_CHUNK_BYTES / HEAP_STEP)
#define HEAP_CLASSES          (HEAP_RECORD_BYTES_MAX / HEAP_STEP + 1)

#define HEAP_NO_CHUNK UINT32_MAX

struct heap_chunk {
    uint8_t class;       /* record size in steps */
    uint16_t live;       /* records in use */
    uint32_t free_first; /* list of records that were given back */
    uint32_t next;       /* chunks of the class that have such records; or with no bytes */
    uint32_t before;
};

struct heap {
    char **bytes;              /* owned, each HEAP_CHUNK_BYTES; NULL: nothing is here */
    struct heap_chunk *chunks; /* of each */
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint32_t chunk_unused;             /* list of those without bytes */
    uint32_t partial[HEAP_CLASSES];    /* list of chunks with records to give out again */
    uint32_t fresh_next[HEAP_CLASSES]; /* next never-used record of the class's newest chunk */
    uint32_t fresh_end[HEAP_CLASSES];
    size_t live_bytes; /* of records in use */
};

void heap_init(struct heap *heap);
void heap_done(struct heap *heap);

/* A record of at least `size` bytes, not cleared. The caller sets its first byte. */
uint32_t heap_take(struct heap *heap, size_t size);
void heap_give(struct heap *heap, uint32_t ref, size_t size);

static inline void *heap_at(const struct heap *heap, uint32_t ref)
{
    return heap->bytes[ref / HEAP_STEPS_A_CHUNK] + (size_t)(ref % HEAP_STEPS_A_CHUNK) * HEAP_STEP;
}

/* The first record in use behind `ref` (HEAP_NONE: the very first); HEAP_NONE
 * when there is none. Looks at each chunk, but into those only that have records. */
uint32_t heap_next(const struct heap *heap, uint32_t ref);

size_t heap_bytes(const struct heap *heap);

#endif
