#include "core/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(LIMIT_CELLS <= UINT8_MAX, "a turn fits a byte");

/* SplitMix64: every state is good, zero included. */
static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

void shard_picker_init(struct shard_picker *picker, uint32_t worker, uint64_t seed)
{
    assert(picker);
    assert(worker < LIMIT_WORKERS);

    *picker = (struct shard_picker){.worker = worker, .random = seed};
    memset(picker->turns, (int)worker, sizeof(picker->turns));
}

static uint32_t pick_random(struct shard_picker *picker, uint32_t shards)
{
    uint64_t high = next_random(&picker->random) >> 32;
    return (uint32_t)((high * shards) >> 32);
}

/* A turn may lie behind the last shard: at first, when the counter has been
 * folded, and when a counter with more shards has the same one. */
static uint32_t pick_in_turn(struct shard_picker *picker, uint64_t counter_hash, uint32_t shards)
{
    uint8_t *turn = &picker->turns[counter_hash % SHARD_TURNS];
    uint32_t shard = *turn % shards;
    *turn = (uint8_t)(shard + 1);
    return shard;
}

/* Looks from the worker's own shard on, so that equal loads do not send all
 * workers to the same one. */
static uint32_t pick_least_loaded(uint32_t worker, uint32_t shards, const uint64_t *loads)
{
    uint32_t best = worker % shards;
    uint32_t shard = best;
    for (uint32_t i = 1; i < shards; i++) {
        if (++shard == shards)
            shard = 0;
        if (loads[shard] < loads[best])
            best = shard;
    }
    return best;
}

uint32_t shard_pick(struct shard_picker *picker, enum policy policy, uint64_t counter_hash,
                    uint32_t shards, const uint64_t *loads)
{
    assert(picker);
    assert(shards > 0 && shards <= LIMIT_CELLS);

    switch (policy) {
    case POLICY_LOCAL:
        return picker->worker % shards;
    case POLICY_RANDOM:
        return pick_random(picker, shards);
    case POLICY_ROUND_ROBIN:
        return pick_in_turn(picker, counter_hash, shards);
    case POLICY_LEAST_LOADED:
        assert(loads);
        return pick_least_loaded(picker->worker, shards, loads);
    }
    abort(); /* not a policy */
}
