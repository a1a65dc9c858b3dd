/* hash.h - two hashes with two duties.
 *
 * hash_stable() is the same for ever and everywhere: it decides in which cell
 * and bucket a thing belongs, and those decisions outlive the process.
 * hash_keyed() differs from run to run: tables use it, so that nobody outside
 * can pick ids that fall into one slot. Of what has a stable hash already,
 * hash_slot() says where it stands in such a table. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/slice.h"

struct hash128 {
    uint64_t low;
    uint64_t high;
};

static inline uint64_t hash_stable(struct slice bytes)
{
    return XXH3_64bits(bytes.data, bytes.size);
}

static inline uint64_t hash_stable_seeded(struct slice bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.size, seed);
}

static inline uint64_t hash_keyed(struct slice bytes, uint64_t key)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.size, key);
}

static inline uint64_t hash_slot(uint64_t hash, uint64_t key)
{
    return hash_keyed((struct slice){(const char *)&hash, sizeof(hash)}, key);
}

static inline struct hash128 hash128_keyed(struct slice bytes, uint64_t key)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data, bytes.size, key);
    return (struct hash128){.low = hash.low64, .high = hash.high64};
}

#endif
