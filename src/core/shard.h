/* shard.h - which shard of a counter takes the next write.
 *
 * A hot counter without users is cut into shards so that its writers do not
 * queue on one cell; its value is the sum of them, so that any shard may take
 * any write. The counter's policy chooses:
 *
 *   local         the worker's own: writers do not meet as long as there are
 *                 as many shards as workers
 *   random        any, all equally often in the long run
 *   round-robin   one after the other, from a place of the worker's own
 *   least-loaded  the one whose cell has had the least to do
 *
 * A picker belongs to one worker and serves all of its counters. Pure. */
#ifndef CORE_SHARD_H
#define CORE_SHARD_H

#include <stdint.h>

#include "core/op.h"

/* Round-robin remembers whose turn it is for so many counters of a worker.
 * Counters that fall on the same one share it: each of them still goes round,
 * but may skip a shard. */
#define SHARD_TURNS 64u

struct shard_picker {
    uint32_t worker;
    uint64_t random; /* state */
    uint8_t turns[SHARD_TURNS];
};

/* `seed` is any number, another for each worker. */
void shard_picker_init(struct shard_picker *picker, uint32_t worker, uint64_t seed);

/* The shard, 0 to shards - 1, for the next write of the counter with this hash.
 * `loads` has one number for each shard, any unit; only POLICY_LEAST_LOADED
 * looks at it, others may pass NULL. */
uint32_t shard_pick(struct shard_picker *picker, enum policy policy, uint64_t counter_hash,
                    uint32_t shards, const uint64_t *loads);

#endif
