/* bucket.h - where a user of an item belongs, for ever.
 *
 * An item's users fall into LIMIT_BUCKETS buckets by a hash of item and user
 * that is the same in every process and version. Shards own slices of buckets,
 * so that they can be added and merged while nobody's reaction is ever in two
 * places. The item is part of the hash: users who are busy everywhere do not
 * share a bucket everywhere. */
#ifndef CORE_BUCKET_H
#define CORE_BUCKET_H

#include <assert.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/slice.h"
#include "core/limits.h"

/* Buckets move between shards by the slice: as many as there can be shards. */
#define BUCKET_SLICES   LIMIT_CELLS
#define BUCKETS_A_SLICE (LIMIT_BUCKETS / BUCKET_SLICES)

static_assert(LIMIT_BUCKETS % BUCKET_SLICES == 0, "slices of the same size");
static_assert(LIMIT_BUCKETS <= UINT16_MAX + 1u, "a bucket's number fits 16 bits");

/* `item_hash` is hash_stable() of the item, for callers who have it already. */
static inline uint16_t bucket_of_hashed(uint64_t item_hash, struct slice user)
{
    return (uint16_t)(hash_stable_seeded(user, item_hash) % LIMIT_BUCKETS);
}

static inline uint16_t bucket_of(struct slice item, struct slice user)
{
    return bucket_of_hashed(hash_stable(item), user);
}

/* The slice that a bucket is in: 0 to BUCKET_SLICES - 1. */
static inline uint32_t bucket_slice(uint16_t bucket)
{
    return bucket / BUCKETS_A_SLICE;
}

#endif
