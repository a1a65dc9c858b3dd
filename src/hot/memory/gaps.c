#include "hot/memory/gaps.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "hot/memory/own.h"

/* The gaps behind a block's first number; the block is as large as they need. */
struct block {
    uint16_t size; /* bytes of gaps */
    char gaps[];
};

#define BLOCK_BYTES_MAX 184u /* one that malloc gives without loss */
#define GAPS_SIZE_MAX   (BLOCK_BYTES_MAX - (uint32_t)sizeof(struct block))
#define GAP_SIZE_MAX    5u /* of 32 bits */

struct gaps {
    uint32_t *firsts;      /* owned; first number of each block, ascending */
    struct block **blocks; /* owned */
    uint32_t count;        /* blocks */
    uint32_t capacity;
    uint32_t last; /* the largest number: what comes in order is put behind it at once */
};

/* ---- a gap ---- */

/* As varint_get(), for bytes that are our own. */
static inline const char *read_gap(const char *from, uint32_t *ret_gap)
{
    uint32_t gap = (unsigned char)*from++;
    if (gap >= 0x80) {
        gap &= 0x7f;
        for (unsigned shift = 7;; shift += 7) {
            uint32_t byte = (unsigned char)*from++;
            gap |= (byte & 0x7f) << shift;
            if (byte < 0x80)
                break;
        }
    }
    *ret_gap = gap;
    return from;
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* From the top bit of each byte to all its bits. */
static inline uint64_t whole_bytes(uint64_t top_bits)
{
    return (top_bits << 1) - (top_bits >> 7);
}

static inline uint32_t sum_of_bytes(uint64_t bytes)
{
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t pairs = (bytes & even) + (bytes >> 8 & even);
    return (uint32_t)(pairs * UINT64_C(0x0001000100010001) >> 48);
}

/* The sum of all the gaps that end within the next eight bytes, of the first
 * one alone if it or another is longer than three bytes; returns the byte behind
 * them. A search takes most of its way in such strides, without a branch for
 * each gap. */
static inline const char *read_stride(const char *from, uint32_t *ret_sum)
{
    uint64_t bytes;
    memcpy(&bytes, from, sizeof(bytes));
    bytes = le64toh(bytes);

    uint64_t ends = ~bytes & EACH_BYTE(0x80);
    uint64_t second = (bytes & EACH_BYTE(0x80)) << 8; /* bytes that go on from another one */
    uint64_t third = (second & bytes) << 8;
    if ((third & bytes) != 0)
        return read_gap(from, ret_sum);

    assert(ends != 0);
    uint32_t unused_bits = (uint32_t)__builtin_clzll(ends);
    uint64_t bits = bytes & EACH_BYTE(0x7f) & (UINT64_MAX >> unused_bits);
    second = whole_bytes(second);
    third = whole_bytes(third);
    *ret_sum = sum_of_bytes(bits & ~second) + (sum_of_bytes(bits & second & ~third) << 7) +
               (sum_of_bytes(bits & third) << 14);
    return from + 8 - unused_bits / 8;
}

/* One or two gaps, to be written into a block. */
struct patch {
    char bytes[2 * VARINT_SIZE_MAX];
    uint32_t size;
};

static void patch_put(struct patch *patch, uint32_t gap)
{
    assert(gap > 0);

    char *end = varint_put(patch->bytes + patch->size, gap);
    patch->size = (uint32_t)(end - patch->bytes);
}

/* ---- a block ---- */

static size_t block_bytes(uint32_t size)
{
    return memory_usable(sizeof(struct block) + size);
}

static struct block *block_fit(struct block *block, uint32_t size)
{
    if (block && block_bytes(size) == block_bytes(block->size))
        return block;
    return own_resize(block, block_bytes(size));
}

/* Puts `patch` where `old_size` bytes from `offset` on are. */
static void splice(struct gaps *gaps, uint32_t index, uint32_t offset, uint32_t old_size,
                   const struct patch *patch)
{
    struct block *block = gaps->blocks[index];
    uint32_t size = block->size - old_size + patch->size;
    assert(size <= GAPS_SIZE_MAX);

    if (size > block->size)
        block = block_fit(block, size);
    memmove(block->gaps + offset + patch->size, block->gaps + offset + old_size,
            block->size - offset - old_size);
    memcpy(block->gaps + offset, patch->bytes, patch->size);
    if (size < block->size)
        block = block_fit(block, size);
    block->size = (uint16_t)size;
    gaps->blocks[index] = block;
}

static bool is_full(const struct gaps *gaps, uint32_t index)
{
    return gaps->blocks[index]->size + GAP_SIZE_MAX > GAPS_SIZE_MAX;
}

/* ---- the index ---- */

/* The block that `number` is in or would be put into. */
static uint32_t block_of(const struct gaps *gaps, uint32_t number)
{
    const uint32_t *from = gaps->firsts;
    for (uint32_t left = gaps->count; left > 1;) {
        uint32_t half = left / 2;
        from += from[half] <= number ? half : 0;
        left -= half;
    }
    return (uint32_t)(from - gaps->firsts);
}

static void insert_block(struct gaps *gaps, uint32_t index, uint32_t first, struct block *block)
{
    if (gaps->count == gaps->capacity) {
        gaps->capacity += gaps->capacity / 8 + 4;
        gaps->firsts = own_resize(gaps->firsts, gaps->capacity * sizeof(*gaps->firsts));
        gaps->blocks = own_resize(gaps->blocks, gaps->capacity * sizeof(*gaps->blocks));
    }
    uint32_t behind = gaps->count - index;
    memmove(&gaps->firsts[index + 1], &gaps->firsts[index], behind * sizeof(*gaps->firsts));
    memmove(&gaps->blocks[index + 1], &gaps->blocks[index], behind * sizeof(*gaps->blocks));
    gaps->firsts[index] = first;
    gaps->blocks[index] = block;
    gaps->count++;
}

static void delete_block(struct gaps *gaps, uint32_t index)
{
    own_free(gaps->blocks[index]);
    gaps->count--;
    uint32_t behind = gaps->count - index;
    memmove(&gaps->firsts[index], &gaps->firsts[index + 1], behind * sizeof(*gaps->firsts));
    memmove(&gaps->blocks[index], &gaps->blocks[index + 1], behind * sizeof(*gaps->blocks));
}

static struct block *block_of_gaps(const char *bytes, uint32_t size)
{
    struct block *block = block_fit(NULL, size);
    block->size = (uint16_t)size;
    memcpy(block->gaps, bytes, size);
    return block;
}

/* Makes two blocks of one; the number in its middle becomes the first of the second. */
static void split(struct gaps *gaps, uint32_t index)
{
    struct block *block = gaps->blocks[index];
    const char *at = block->gaps;
    const char *end = block->gaps + block->size;
    const char *next = at;
    uint32_t number = gaps->firsts[index];
    while (next < block->gaps + block->size / 2) {
        uint32_t gap;
        at = next;
        next = read_gap(at, &gap);
        number += gap;
    }

    insert_block(gaps, index + 1, number, block_of_gaps(next, (uint32_t)(end - next)));
    uint32_t size = (uint32_t)(at - block->gaps);
    block = block_fit(block, size);
    block->size = (uint16_t)size;
    gaps->blocks[index] = block;
}

/* ---- a place among the numbers ---- */

/* The largest number of a block that is not above the one looked for. */
struct place {
    uint32_t block;
    uint32_t number;
    uint32_t offset; /* of the gap that leads on, or the end */
};

/* `number` is not below the block's first. */
static struct place seek(const struct gaps *gaps, uint32_t index, uint32_t number)
{
    const struct block *block = gaps->blocks[index];
    const char *at = block->gaps;
    const char *end = block->gaps + block->size;
    uint32_t left = number - gaps->firsts[index];
    while (end - at >= 8) {
        uint32_t sum;
        const char *next = read_stride(at, &sum);
        if (sum > left)
            break;
        left -= sum;
        at = next;
    }
    while (at < end) {
        uint32_t gap;
        const char *next = read_gap(at, &gap);
        if (gap > left)
            break;
        left -= gap;
        at = next;
    }
    return (struct place){
        .block = index, .number = number - left, .offset = (uint32_t)(at - block->gaps)};
}

/* The gap at `offset`; returns its size, 0 at the end. */
static uint32_t gap_at(const struct gaps *gaps, uint32_t index, uint32_t offset, uint32_t *ret_gap)
{
    const struct block *block = gaps->blocks[index];
    if (offset == block->size)
        return 0;
    const char *from = block->gaps + offset;
    return (uint32_t)(read_gap(from, ret_gap) - from);
}

/* ---- adding ---- */

static void add_behind_all(struct gaps *gaps, uint32_t number)
{
    uint32_t index = gaps->count - 1;
    if (is_full(gaps, index)) {
        insert_block(gaps, gaps->count, number, block_of_gaps("", 0));
    } else {
        char gap[VARINT_SIZE_MAX];
        uint32_t gap_size = (uint32_t)(varint_put(gap, number - gaps->last) - gap);
        struct block *block = gaps->blocks[index];
        uint32_t size = block->size;
        block = block_fit(block, size + gap_size);
        memcpy(block->gaps + size, gap, gap_size);
        block->size = (uint16_t)(size + gap_size);
        gaps->blocks[index] = block;
    }
    gaps->last = number;
}

static void add_before_all(struct gaps *gaps, uint32_t number)
{
    if (is_full(gaps, 0))
        split(gaps, 0);
    struct patch patch = {.size = 0};
    patch_put(&patch, gaps->firsts[0] - number);
    splice(gaps, 0, 0, 0, &patch);
    gaps->firsts[0] = number;
}

static void add_behind(struct gaps *gaps, struct place place, uint32_t number)
{
    struct patch patch = {.size = 0};
    patch_put(&patch, number - place.number);

    uint32_t gap;
    uint32_t gap_size = gap_at(gaps, place.block, place.offset, &gap);
    if (gap_size > 0)
        patch_put(&patch, gap - (number - place.number));
    splice(gaps, place.block, place.offset, gap_size, &patch);
}

bool gaps_add(struct gaps *gaps, uint32_t number)
{
    assert(gaps && gaps->count > 0);

    if (number > gaps->last) {
        add_behind_all(gaps, number);
        return true;
    }
    if (number < gaps->firsts[0]) {
        add_before_all(gaps, number);
        return true;
    }

    struct place place = seek(gaps, block_of(gaps, number), number);
    if (place.number == number)
        return false;
    if (is_full(gaps, place.block)) {
        split(gaps, place.block);
        place = seek(gaps, block_of(gaps, number), number);
    }
    add_behind(gaps, place, number);
    return true;
}

/* ---- removing ---- */

static void remove_first(struct gaps *gaps, uint32_t index)
{
    uint32_t gap;
    uint32_t gap_size = gap_at(gaps, index, 0, &gap);
    if (gap_size == 0) {
        delete_block(gaps, index);
        return;
    }
    gaps->firsts[index] += gap;
    splice(gaps, index, 0, gap_size, &(struct patch){.size = 0});
}

/* Removes the number behind `place`, if it is `number`. */
static bool remove_behind(struct gaps *gaps, struct place place, uint32_t number)
{
    uint32_t gap, next_gap;
    uint32_t gap_size = gap_at(gaps, place.block, place.offset, &gap);
    if (gap_size == 0 || gap != number - place.number)
        return false;
    uint32_t next_size = gap_at(gaps, place.block, place.offset + gap_size, &next_gap);

    struct patch patch = {.size = 0};
    if (next_size > 0)
        patch_put(&patch, gap + next_gap);
    splice(gaps, place.block, place.offset, gap_size + next_size, &patch);
    return true;
}

bool gaps_remove(struct gaps *gaps, uint32_t number)
{
    assert(gaps && gaps->count > 0);

    if (number < gaps->firsts[0] || number > gaps->last)
        return false;
    uint32_t index = block_of(gaps, number);
    if (gaps->firsts[index] == number)
        remove_first(gaps, index);
    else if (!remove_behind(gaps, seek(gaps, index, number - 1), number))
        return false;

    if (number == gaps->last && gaps->count > 0)
        gaps->last = seek(gaps, gaps->count - 1, number).number;
    return true;
}

/* ---- the rest ---- */

struct gaps *gaps_new(const uint32_t *numbers, uint32_t count)
{
    assert(numbers && count > 0);

    struct gaps *gaps = own_take_zeroed(sizeof(*gaps));
    insert_block(gaps, 0, numbers[0], block_of_gaps("", 0));
    gaps->last = numbers[0];
    for (uint32_t i = 1; i < count; i++) {
        assert(numbers[i] > gaps->last);
        add_behind_all(gaps, numbers[i]);
    }
    return gaps;
}

void gaps_free(struct gaps *gaps)
{
    if (!gaps)
        return;
    for (uint32_t i = 0; i < gaps->count; i++)
        own_free(gaps->blocks[i]);
    own_free(gaps->firsts);
    own_free(gaps->blocks);
    own_free(gaps);
}

bool gaps_has(const struct gaps *gaps, uint32_t number)
{
    assert(gaps && gaps->count > 0);

    if (number < gaps->firsts[0] || number > gaps->last)
        return false;
    return seek(gaps, block_of(gaps, number), number).number == number;
}

uint32_t gaps_page(const struct gaps *gaps, uint32_t from, uint32_t *to, uint32_t limit)
{
    assert(gaps && gaps->count > 0);

    uint32_t copied = 0;
    for (uint32_t index = block_of(gaps, from); index < gaps->count; index++) {
        const char *at = gaps->blocks[index]->gaps;
        const char *end = at + gaps->blocks[index]->size;
        for (uint32_t number = gaps->firsts[index];;) {
            if (copied == limit)
                return copied;
            if (number >= from)
                to[copied++] = number;
            if (at == end)
                break;
            uint32_t gap;
            at = read_gap(at, &gap);
            number += gap;
        }
    }
    return copied;
}

size_t gaps_bytes(const struct gaps *gaps)
{
    assert(gaps);

    size_t bytes = memory_cost(sizeof(*gaps));
    bytes += memory_cost(gaps->capacity * sizeof(*gaps->firsts));
    bytes += memory_cost(gaps->capacity * sizeof(*gaps->blocks));
    for (uint32_t i = 0; i < gaps->count; i++)
        bytes += memory_cost(sizeof(struct block) + gaps->blocks[i]->size);
    return bytes;
}
