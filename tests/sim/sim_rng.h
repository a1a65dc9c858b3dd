/* sim_rng.h - random numbers from a seed: the same seed, the same numbers, for ever. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct sim_rng {
    uint64_t state; /* any value is a good seed */
};

/* SplitMix64. */
static inline uint64_t sim_rng_next(struct sim_rng *rng)
{
    uint64_t x = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A number below `count`, which is not 0. */
static inline uint64_t sim_rng_below(struct sim_rng *rng, uint64_t count)
{
    assert(count > 0);
    return (uint64_t)((unsigned __int128)sim_rng_next(rng) * count >> 64);
}

/* True `permille` times in a thousand. */
static inline bool sim_rng_chance(struct sim_rng *rng, unsigned permille)
{
    return permille > 0 && sim_rng_below(rng, 1000) < permille;
}

#endif
