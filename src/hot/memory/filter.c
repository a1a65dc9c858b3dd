#include "hot/memory/filter.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/memory.h"

#define BLOCK_WORDS       8u /* a cache line */
#define BITS_A_BLOCK      (BLOCK_WORDS * 64u)
#define MEMBERS_LEAST     (UINT64_C(1) << 12)
#define STAGE_MEMBERS_MAX (UINT64_C(1) << 32)

struct stage {
    const struct stage *older; /* NULL: this is the first */
    uint64_t capacity;
    uint64_t blocks;
    _Atomic uint64_t count; /* about: two who add the same at once both count */
    _Atomic uint64_t *words;
};

struct filter {
    unsigned bits; /* for each member */
    struct lock growing;
    _Atomic(struct stage *) newest; /* owned, with all before it */
    _Atomic size_t bytes;
};

static struct stage *stage_new(uint64_t capacity, unsigned bits, const struct stage *older)
{
    struct stage *stage = memory_take_zeroed(sizeof(*stage));
    stage->older = older;
    stage->capacity = capacity;
    stage->blocks = (capacity * bits + BITS_A_BLOCK - 1) / BITS_A_BLOCK;
    stage->words = memory_take_aligned(stage->blocks * BLOCK_WORDS * sizeof(*stage->words));
    return stage;
}

static size_t stage_bytes(const struct stage *stage)
{
    return sizeof(*stage) + stage->blocks * BLOCK_WORDS * sizeof(*stage->words);
}

struct filter *filter_new(uint64_t expected, unsigned bits)
{
    uint64_t capacity = expected < MEMBERS_LEAST ? MEMBERS_LEAST : expected;
    struct filter *filter = memory_take_zeroed(sizeof(*filter));
    filter->bits = bits;
    lock_init(&filter->growing);
    struct stage *stage = stage_new(capacity, bits, NULL);
    atomic_init(&filter->newest, stage);
    atomic_init(&filter->bytes, stage_bytes(stage));
    return filter;
}

void filter_free(struct filter *filter)
{
    if (!filter)
        return;
    for (struct stage *stage = atomic_load(&filter->newest), *older; stage; stage = older) {
        older = (struct stage *)stage->older;
        free(stage->words);
        free(stage);
    }
    lock_done(&filter->growing);
    free(filter);
}

/* Ids and names come from outside, and so do their stable hashes: what a block's bits
 * are is mixed once more, so that block and bits do not hang together. */
static uint64_t mix(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 32;
    return hash;
}

static _Atomic uint64_t *block_of(const struct stage *stage, uint64_t hash)
{
    uint64_t block = (uint64_t)((unsigned __int128)hash * stage->blocks >> 64);
    return stage->words + block * BLOCK_WORDS;
}

/* One bit of each word: 6 bits of the mixed hash choose it. */
static bool stage_has(const struct stage *stage, uint64_t hash)
{
    _Atomic uint64_t *block = block_of(stage, hash);
    uint64_t bits = mix(hash);
    for (unsigned i = 0; i < BLOCK_WORDS; i++, bits >>= 6)
        if (!(atomic_load_explicit(&block[i], memory_order_relaxed) >> (bits & 63) & 1))
            return false;
    return true;
}

static void stage_add(struct stage *stage, uint64_t hash)
{
    _Atomic uint64_t *block = block_of(stage, hash);
    uint64_t bits = mix(hash);
    for (unsigned i = 0; i < BLOCK_WORDS; i++, bits >>= 6)
        atomic_fetch_or_explicit(&block[i], UINT64_C(1) << (bits & 63), memory_order_relaxed);
}

bool filter_may_have(const struct filter *filter, uint64_t hash)
{
    assert(filter);

    for (const struct stage *stage = atomic_load(&filter->newest); stage; stage = stage->older)
        if (stage_has(stage, hash))
            return true;
    return false;
}

static void grow(struct filter *filter, struct stage *full)
{
    lock_take(&filter->growing);
    if (atomic_load(&filter->newest) == full) {
        uint64_t capacity =
            full->capacity < STAGE_MEMBERS_MAX ? full->capacity * 2 : full->capacity;
        struct stage *stage = stage_new(capacity, filter->bits, full);
        atomic_store(&filter->newest, stage);
        atomic_fetch_add(&filter->bytes, stage_bytes(stage));
    }
    lock_release(&filter->growing);
}

void filter_add(struct filter *filter, uint64_t hash)
{
    assert(filter);

    if (filter_may_have(filter, hash))
        return;
    struct stage *stage = atomic_load(&filter->newest);
    stage_add(stage, hash);
    if (atomic_fetch_add_explicit(&stage->count, 1, memory_order_relaxed) + 1 >= stage->capacity)
        grow(filter, stage);
}

size_t filter_bytes(const struct filter *filter)
{
    return filter ? atomic_load(&filter->bytes) : 0;
}
