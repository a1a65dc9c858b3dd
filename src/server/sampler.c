#include "server/sampler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/env.h"
#include "base/memory.h"

struct sampler {
    struct samples *samples; /* borrowed */
    pthread_t thread;
    atomic_bool stop;
    struct bell bell;
};

/* Each time at the next whole interval since the start: what a sample takes does not add up. */
static void *run(void *arg)
{
    struct sampler *sampler = arg;
    uint64_t start_ms = env_monotonic_ns(env_system()) / 1000000;
    while (!atomic_load(&sampler->stop)) {
        samples_take(sampler->samples);
        uint64_t since_ms = env_monotonic_ns(env_system()) / 1000000 - start_ms;
        (void)bell_wait(&sampler->bell, SAMPLES_EVERY_MS - since_ms % SAMPLES_EVERY_MS);
    }
    return NULL;
}

struct sampler *sampler_start(struct samples *samples, struct error *error)
{
    struct sampler *sampler = memory_take_zeroed(sizeof(*sampler));
    sampler->samples = samples;
    bell_init(&sampler->bell);
    int errnum = pthread_create(&sampler->thread, NULL, run, sampler);
    if (errnum != 0) {
        error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the sampler");
        bell_done(&sampler->bell);
        free(sampler);
        return NULL;
    }
    (void)pthread_setname_np(sampler->thread, "sampler");
    return sampler;
}

void sampler_stop(struct sampler *sampler)
{
    if (!sampler)
        return;
    atomic_store(&sampler->stop, true);
    bell_ring(&sampler->bell);
    (void)pthread_join(sampler->thread, NULL);
    bell_done(&sampler->bell);
    free(sampler);
}
