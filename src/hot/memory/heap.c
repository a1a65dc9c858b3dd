#include "hot/memory/heap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pages.h"

#define CHUNKS_MAX ((uint32_t)((UINT64_C(1) << 32) / HEAP_STEPS_A_CHUNK))

/* Where a record that was given back keeps the address of the next such one. */
#define NEXT_OFFSET 4u

static uint32_t class_of(size_t size)
{
    assert(size > 0 && size <= HEAP_RECORD_BYTES_MAX);

    return (uint32_t)((size + HEAP_STEP - 1) / HEAP_STEP);
}

void heap_init(struct heap *heap)
{
    assert(heap);

    *heap = (struct heap){0};
}

void heap_done(struct heap *heap)
{
    assert(heap);

    for (uint32_t i = 0; i < heap->chunk_count; i++)
        pages_give(heap->chunks[i], HEAP_CHUNK_BYTES);
    free(heap->chunks);
    free(heap->classes);
    *heap = (struct heap){0};
}

static void add_chunk(struct heap *heap, uint32_t class)
{
    assert(heap->chunk_count < CHUNKS_MAX);

    if (heap->chunk_count == heap->chunk_capacity) {
        heap->chunk_capacity += heap->chunk_capacity / 2 + 8;
        heap->chunks = memory_resize(heap->chunks, heap->chunk_capacity * sizeof(*heap->chunks));
        heap->classes = memory_resize(heap->classes, heap->chunk_capacity * sizeof(*heap->classes));
    }

    /* Zeroed, so that a walk sees what is not in use yet. */
    uint32_t chunk = heap->chunk_count++;
    heap->chunks[chunk] = pages_take(HEAP_CHUNK_BYTES);
    heap->classes[chunk] = (uint8_t) class;

    uint32_t first = chunk * HEAP_STEPS_A_CHUNK;
    heap->fresh_next[class] = first;
    heap->fresh_end[class] = first + HEAP_STEPS_A_CHUNK / class * class;
    if (first == HEAP_NONE)
        heap->fresh_next[class] += class;
}

uint32_t heap_take(struct heap *heap, size_t size)
{
    assert(heap);

    uint32_t class = class_of(size);
    uint32_t ref = heap->free_first[class];
    if (ref != HEAP_NONE) {
        memcpy(&heap->free_first[class], (char *)heap_at(heap, ref) + NEXT_OFFSET, sizeof(ref));
        return ref;
    }

    if (heap->fresh_next[class] == heap->fresh_end[class])
        add_chunk(heap, class);
    ref = heap->fresh_next[class];
    heap->fresh_next[class] += class;
    return ref;
}

void heap_give(struct heap *heap, uint32_t ref, size_t size)
{
    assert(heap && ref != HEAP_NONE);

    uint32_t class = class_of(size);
    assert(heap->classes[ref / HEAP_STEPS_A_CHUNK] == class);

    char *record = heap_at(heap, ref);
    assert(record[0] != 0);
    record[0] = 0;
    memcpy(record + NEXT_OFFSET, &heap->free_first[class], sizeof(ref));
    heap->free_first[class] = ref;
}

uint32_t heap_next(const struct heap *heap, uint32_t ref)
{
    assert(heap);

    /* HEAP_NONE is the address of a record, the first one, that nobody ever
     * gets: the walk starts behind it as behind any other. An address that is
     * none (a cursor may come from outside) counts as the record it lies in. */
    uint32_t after = ref % HEAP_STEPS_A_CHUNK + 1;
    for (uint32_t chunk = ref / HEAP_STEPS_A_CHUNK; chunk < heap->chunk_count; chunk++) {
        const char *bytes = heap->chunks[chunk];
        uint32_t class = heap->classes[chunk];
        uint32_t step = (after + class - 1) / class * class;
        for (; step + class <= HEAP_STEPS_A_CHUNK; step += class) {
            if (bytes[(size_t)step * HEAP_STEP] != 0)
                return chunk * HEAP_STEPS_A_CHUNK + step;
        }
        after = 0;
    }
    return HEAP_NONE;
}

size_t heap_bytes(const struct heap *heap)
{
    assert(heap);

    size_t directory = heap->chunk_capacity * (sizeof(*heap->chunks) + sizeof(*heap->classes));
    return (size_t)heap->chunk_count * HEAP_CHUNK_BYTES + directory;
}
