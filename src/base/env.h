/* env.h - what comes from outside: time, randomness and the disk.
 *
 * Core, hot, log and flow reach the world through an environment that is
 * passed in, so that a simulator can run them from a seed. Callable from any
 * thread. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stdint.h>

#include "base/disk.h"

struct env {
    /* Never goes back; for durations. */
    uint64_t (*monotonic_ns)(struct env *env);
    /* Milliseconds since 1970; may jump either way; only ever data. */
    int64_t (*wall_ms)(struct env *env);
    uint64_t (*random)(struct env *env);
    struct disk *disk; /* borrowed */

    /* For how long the calling thread has had a processor. NULL: nobody knows. */
    uint64_t (*thread_ns)(struct env *env);
};

static inline uint64_t env_monotonic_ns(struct env *env)
{
    return env->monotonic_ns(env);
}

static inline int64_t env_wall_ms(struct env *env)
{
    return env->wall_ms(env);
}

static inline uint64_t env_random(struct env *env)
{
    return env->random(env);
}

/* 0: nobody knows. */
static inline uint64_t env_thread_ns(struct env *env)
{
    return env->thread_ns ? env->thread_ns(env) : 0;
}

/* The environment of this machine; never freed. */
struct env *env_system(void);

#endif
