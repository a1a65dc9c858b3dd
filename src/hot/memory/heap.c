#include "hot/memory/heap.h"

#include <assert.h>
#include <stdbool.h>
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

    *heap = (struct heap){.chunk_unused = HEAP_NO_CHUNK};
    for (uint32_t class = 0; class < HEAP_CLASSES; class ++)
        heap->partial[class] = HEAP_NO_CHUNK;
}

void heap_done(struct heap *heap)
{
    assert(heap);

    for (uint32_t i = 0; i < heap->chunk_count; i++)
        if (heap->bytes[i])
            pages_give(heap->bytes[i], HEAP_CHUNK_BYTES);
    free(heap->bytes);
    free(heap->chunks);
    *heap = (struct heap){0};
}

/* ---- chunks ---- */

static void to_partial(struct heap *heap, uint32_t number)
{
    struct heap_chunk *chunk = &heap->chunks[number];
    uint32_t first = heap->partial[chunk->class];
    chunk->before = HEAP_NO_CHUNK;
    chunk->next = first;
    if (first != HEAP_NO_CHUNK)
        heap->chunks[first].before = number;
    heap->partial[chunk->class] = number;
}

static void from_partial(struct heap *heap, uint32_t number)
{
    const struct heap_chunk *chunk = &heap->chunks[number];
    if (chunk->before == HEAP_NO_CHUNK)
        heap->partial[chunk->class] = chunk->next;
    else
        heap->chunks[chunk->before].next = chunk->next;
    if (chunk->next != HEAP_NO_CHUNK)
        heap->chunks[chunk->next].before = chunk->before;
}

static uint32_t place_for_chunk(struct heap *heap)
{
    uint32_t number = heap->chunk_unused;
    if (number != HEAP_NO_CHUNK) {
        heap->chunk_unused = heap->chunks[number].next;
        return number;
    }
    assert(heap->chunk_count < CHUNKS_MAX);
    if (heap->chunk_count == heap->chunk_capacity) {
        heap->chunk_capacity += heap->chunk_capacity / 2 + 8;
        heap->bytes = memory_resize(heap->bytes, heap->chunk_capacity * sizeof(*heap->bytes));
        heap->chunks = memory_resize(heap->chunks, heap->chunk_capacity * sizeof(*heap->chunks));
    }
    return heap->chunk_count++;
}

static void add_chunk(struct heap *heap, uint32_t class)
{
    /* Zeroed, so that a walk sees what is not in use yet. */
    uint32_t number = place_for_chunk(heap);
    heap->bytes[number] = pages_take(HEAP_CHUNK_BYTES);
    heap->chunks[number] = (struct heap_chunk){.class = (uint8_t) class, .free_first = HEAP_NONE};

    uint32_t first = number * HEAP_STEPS_A_CHUNK;
    heap->fresh_next[class] = first;
    heap->fresh_end[class] = first + HEAP_STEPS_A_CHUNK / class * class;
    if (first == HEAP_NONE)
        heap->fresh_next[class] += class;
}

/* An empty chunk goes back if the class has another one to take records from, so that
 * one record that comes and goes does not bring a chunk along each time. */
static void give_chunk_if_spare(struct heap *heap, uint32_t number)
{
    struct heap_chunk *chunk = &heap->chunks[number];
    bool is_only = chunk->before == HEAP_NO_CHUNK && chunk->next == HEAP_NO_CHUNK;
    bool is_fresh = heap->fresh_next[chunk->class] < heap->fresh_end[chunk->class] &&
                    heap->fresh_next[chunk->class] / HEAP_STEPS_A_CHUNK == number;
    if (is_only || is_fresh)
        return;
    from_partial(heap, number);
    pages_give(heap->bytes[number], HEAP_CHUNK_BYTES);
    heap->bytes[number] = NULL;
    *chunk = (struct heap_chunk){.next = heap->chunk_unused};
    heap->chunk_unused = number;
}

/* ---- records ---- */

static uint32_t take_again(struct heap *heap, uint32_t number)
{
    struct heap_chunk *chunk = &heap->chunks[number];
    uint32_t ref = chunk->free_first;
    memcpy(&chunk->free_first, (char *)heap_at(heap, ref) + NEXT_OFFSET, sizeof(ref));
    if (chunk->free_first == HEAP_NONE)
        from_partial(heap, number);
    return ref;
}

uint32_t heap_take(struct heap *heap, size_t size)
{
    assert(heap);

    uint32_t class = class_of(size);
    uint32_t ref;
    if (heap->partial[class] != HEAP_NO_CHUNK) {
        ref = take_again(heap, heap->partial[class]);
    } else {
        if (heap->fresh_next[class] == heap->fresh_end[class])
            add_chunk(heap, class);
        ref = heap->fresh_next[class];
        heap->fresh_next[class] += class;
    }
    heap->chunks[ref / HEAP_STEPS_A_CHUNK].live++;
    heap->live_bytes += (size_t) class * HEAP_STEP;
    return ref;
}

void heap_give(struct heap *heap, uint32_t ref, size_t size)
{
    assert(heap && ref != HEAP_NONE);

    uint32_t class = class_of(size);
    uint32_t number = ref / HEAP_STEPS_A_CHUNK;
    struct heap_chunk *chunk = &heap->chunks[number];
    assert(chunk->class == class && chunk->live > 0);

    char *record = heap_at(heap, ref);
    assert(record[0] != 0);
    record[0] = 0;
    memcpy(record + NEXT_OFFSET, &chunk->free_first, sizeof(ref));
    if (chunk->free_first == HEAP_NONE)
        to_partial(heap, number);
    chunk->free_first = ref;
    heap->live_bytes -= (size_t) class * HEAP_STEP;
    if (--chunk->live == 0)
        give_chunk_if_spare(heap, number);
}

uint32_t heap_next(const struct heap *heap, uint32_t ref)
{
    assert(heap);

    /* HEAP_NONE is the address of a record, the first one, that nobody ever
     * gets: the walk starts behind it as behind any other. An address that is
     * none (a cursor may come from outside) counts as the record it lies in. */
    uint32_t after = ref % HEAP_STEPS_A_CHUNK + 1;
    for (uint32_t number = ref / HEAP_STEPS_A_CHUNK; number < heap->chunk_count; number++) {
        const struct heap_chunk *chunk = &heap->chunks[number];
        uint32_t class = chunk->class;
        uint32_t step = after;
        after = 0;
        if (chunk->live == 0)
            continue;
        for (step = (step + class - 1) / class * class; step + class <= HEAP_STEPS_A_CHUNK;
             step += class) {
            if (heap->bytes[number][(size_t)step * HEAP_STEP] != 0)
                return number * HEAP_STEPS_A_CHUNK + step;
        }
    }
    return HEAP_NONE;
}

size_t heap_bytes(const struct heap *heap)
{
    assert(heap);

    size_t bytes = heap->chunk_capacity * (sizeof(*heap->chunks) + sizeof(*heap->bytes));
    for (uint32_t i = 0; i < heap->chunk_count; i++)
        bytes += heap->bytes[i] ? HEAP_CHUNK_BYTES : 0;
    return bytes;
}
