#include "base/bell.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

void bell_init(struct bell *bell)
{
    assert(bell);

    pthread_mutex_init(&bell->mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&bell->cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bell->rung = false;
}

void bell_done(struct bell *bell)
{
    pthread_cond_destroy(&bell->cond);
    pthread_mutex_destroy(&bell->mutex);
}

void bell_ring(struct bell *bell)
{
    pthread_mutex_lock(&bell->mutex);
    bell->rung = true;
    pthread_cond_signal(&bell->cond);
    pthread_mutex_unlock(&bell->mutex);
}

static struct timespec after_ms(uint64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    return until;
}

bool bell_wait(struct bell *bell, uint64_t wait_ms)
{
    struct timespec until = {0};
    if (wait_ms != UINT64_MAX)
        until = after_ms(wait_ms);
    pthread_mutex_lock(&bell->mutex);
    int errnum = 0;
    while (!bell->rung && errnum != ETIMEDOUT)
        errnum = wait_ms == UINT64_MAX ? pthread_cond_wait(&bell->cond, &bell->mutex)
                                       : pthread_cond_timedwait(&bell->cond, &bell->mutex, &until);
    bool rung = bell->rung;
    bell->rung = false;
    pthread_mutex_unlock(&bell->mutex);
    return rung;
}
