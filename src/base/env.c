#include "base/env.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <sys/random.h>

static uint64_t system_monotonic_ns(struct env *env)
{
    (void)env;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int64_t system_wall_ms(struct env *env)
{
    (void)env;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Hash keys come from here, so it must not be guessed from what clients see:
 * the kernel's random bytes, fetched many at a time, and no generator of ours. */
struct random_stock {
    uint64_t values[64];
    size_t left;
};

static void restock(struct random_stock *stock)
{
    char *to = (char *)stock->values;
    size_t missing = sizeof(stock->values);
    while (missing > 0) {
        ssize_t got = getrandom(to, missing, 0);
        if (got < 0 && errno != EINTR)
            abort();
        if (got > 0) {
            to += got;
            missing -= (size_t)got;
        }
    }
    stock->left = sizeof(stock->values) / sizeof(stock->values[0]);
}

static uint64_t system_random(struct env *env)
{
    (void)env;
    static _Thread_local struct random_stock stock;
    if (stock.left == 0)
        restock(&stock);
    return stock.values[--stock.left];
}

static uint64_t system_thread_ns(struct env *env)
{
    (void)env;
    struct timespec ran;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return (uint64_t)ran.tv_sec * 1000000000 + (uint64_t)ran.tv_nsec;
}

static struct env system_env = {
    .thread_ns = system_thread_ns,
    .monotonic_ns = system_monotonic_ns,
    .wall_ms = system_wall_ms,
    .random = system_random,
};

static void set_disk(void)
{
    system_env.disk = disk_posix();
}

struct env *env_system(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_disk);
    return &system_env;
}
