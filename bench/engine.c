/* engine.c - the hot layer and the log without a network: how do workers scale?
 *
 * A client on the other core leaves a server one core only, so whether two
 * workers do more than one can be seen from inside the process alone. Each
 * worker runs batches as a loop pass would hand them over, and waits, as a door
 * does, until the log has caught up with the batch before the last.
 *
 *   bench_engine FOLDER WORK WORKERS SECONDS     WORK: incr-hot incr-random like-new */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/env.h"
#include "core/kinds.h"
#include "flow/service.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"

#define BATCH 800u /* 50 connections with 16 requests each */
#define KEYS  1000000u

enum work { INCR_HOT, INCR_RANDOM, LIKE_NEW };

struct engine {
    struct service service;
    enum work work;
    atomic_bool stop;
};

struct driver {
    pthread_t thread;
    struct engine *engine;
    unsigned number;
    uint64_t done;
    uint64_t failed;
    char names[BATCH][40];
};

static void nothing(struct batch *batch)
{
    (void)batch;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void fill(struct driver *driver, struct op *op, unsigned index, uint64_t number)
{
    char *name = driver->names[index];
    if (driver->engine->work == LIKE_NEW) {
        snprintf(name, sizeof(driver->names[0]), "550e8400-e29b-41d4-%04x-%012" PRIx64,
                 driver->number, number);
        *op = (struct op){
            .kind = OP_REACT, .reaction = 1, .id = SLICE("video1"), .user = slice_of(name)};
        return;
    }
    *op = (struct op){.kind = OP_ADD, .id = SLICE("hot"), .amount = number_of(1)};
    if (driver->engine->work == INCR_RANDOM) {
        snprintf(name, sizeof(driver->names[0]), "key:%012" PRIu64, number % KEYS);
        op->id = slice_of(name);
    }
}

static void wait_for(struct service *service, uint64_t ticket)
{
    while (service_safe(service) < ticket)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void *drive(void *arg)
{
    struct driver *driver = arg;
    struct service *service = &driver->engine->service;
    static _Thread_local struct op ops[BATCH];
    uint64_t state = driver->number + 0x9e3779b97f4a7c15u;
    uint64_t before_last = 0;
    uint64_t last = 0;
    for (uint64_t round = 0; !atomic_load(&driver->engine->stop); round++) {
        for (unsigned i = 0; i < BATCH; i++)
            fill(driver, &ops[i], i,
                 driver->engine->work == LIKE_NEW ? round * BATCH + i : next_random(&state));
        struct batch batch = {
            .ops = ops, .count = BATCH, .worker = driver->number, .done = nothing};
        service_run(service, &batch);
        wait_for(service, before_last);
        before_last = last;
        last = ops[BATCH - 1].ticket;
        for (unsigned i = 0; i < BATCH; i++)
            driver->failed += ops[i].code != ERR_OK;
        driver->done += BATCH;
    }
    wait_for(service, last);
    return NULL;
}

static void fatal(void *arg, const struct error *error)
{
    (void)arg;
    fprintf(stderr, "bench_engine: %s\n", error->text);
    _Exit(1);
}

static enum work parse_work(const char *name)
{
    if (strcmp(name, "incr-hot") == 0)
        return INCR_HOT;
    return strcmp(name, "like-new") == 0 ? LIKE_NEW : INCR_RANDOM;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_engine FOLDER incr-hot|incr-random|like-new WORKERS "
                        "SECONDS\n");
        return 2;
    }
    unsigned workers = (unsigned)strtoul(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    struct env *env = env_system();
    struct error error;
    struct log *log;
    struct file_log_options log_options = {.folder = argv[1],
                                           .segment_bytes = 64u << 20,
                                           .pending_bytes_max = 32u << 20,
                                           .fatal = fatal};
    if (workers == 0 || workers > LIMIT_WORKERS || file_log_open(env, &log_options, &log, &error) ||
        log_start(log, &error)) {
        fprintf(stderr, "bench_engine: %s\n", workers ? error.text : "no workers");
        return 2;
    }
    struct kinds kinds;
    kinds_parse(&kinds, SLICE("like,dislike"), NULL);
    struct memory_hot_options hot_options = {.kinds = &kinds,
                                             .log = log,
                                             .workers = workers,
                                             .keys_kept_ms = 86400000,
                                             .spread_rate = 100000};
    struct hot *hot = memory_hot_open(env, &hot_options);
    static struct engine engine;
    engine.work = parse_work(argv[2]);
    service_init(&engine.service, env, hot, log, &kinds, ACK_DURABLE);

    struct driver *drivers = calloc(workers, sizeof(*drivers));
    uint64_t began = env_monotonic_ns(env);
    for (unsigned i = 0; i < workers; i++) {
        drivers[i].engine = &engine;
        drivers[i].number = i;
        pthread_create(&drivers[i].thread, NULL, drive, &drivers[i]);
    }
    while ((double)(env_monotonic_ns(env) - began) < seconds * 1e9) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        hot_tick(hot, env_wall_ms(env));
    }
    atomic_store(&engine.stop, true);
    uint64_t done = 0;
    uint64_t failed = 0;
    for (unsigned i = 0; i < workers; i++) {
        pthread_join(drivers[i].thread, NULL);
        done += drivers[i].done;
        failed += drivers[i].failed;
    }
    double took = (double)(env_monotonic_ns(env) - began) / 1e9;
    struct hot_stats stats;
    hot_stats(hot, &stats);
    printf("%s workers=%u ops_per_s=%.0f failed=%" PRIu64 " lock_waits=%" PRIu64 " spread=%" PRIu64
           "\n",
           argv[2], workers, (double)done / took, failed, stats.lock_waits, stats.spread);
    service_done(&engine.service);
    hot_close(hot);
    log_close(log);
    free(drivers);
    return failed ? 1 : 0;
}
