/* hot_redis_rig.h - the Redis hot layer on a real server, for hot_rig.h.
 *
 * Each rig has a prefix of its own on the server that TALLY_TEST_REDIS (or
 * TALLY_TEST_CLUSTER) names, and a relay of its own: a thread that opens cells,
 * reads the outboxes and says that the log has them. What it has read is kept in
 * order, for tests that want to know what was written.
 *
 * The clock is the rig's: time passes when a test says so. */
#ifndef HOT_REDIS_RIG_H
#define HOT_REDIS_RIG_H

#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bell.h"
#include "base/lock.h"
#include "core/event.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/sequence.h"
#include "hot/redis/redis.h"

#define RIG_BEGAN_MS    INT64_C(1700000000000)
#define RIG_WORKERS_MAX 8u

struct rig;

/* What a relay is shown, in order of its cell; on the relay's thread. */
typedef void rig_event_fn(void *arg, const struct event *event);

struct rig_opening {
    bool is_begun;
    uint64_t epoch;
    bool keep;
};

struct rig {
    /* set before rig_open() */
    const char *kind_list; /* NULL = like,dislike */
    unsigned workers;      /* 0 = 4 */
    uint64_t keys_kept_ms; /* 0 = 24 h */
    uint32_t idle_s;
    uint64_t spread_rate;   /* 0 = never by itself */
    const char *prefix;     /* NULL = one of its own; else that of another rig */
    bool real_clock;        /* else it stands at now_ms */
    uint64_t totals_ttl_ms; /* 0 = 5 min */
    unsigned patience;      /* 0 = 30: nothing is refused because the machine is busy */
    rig_event_fn *see_event;
    void *see_arg;

    _Atomic int64_t now_ms;    /* what the next batch takes for the time */
    _Atomic uint64_t ahead_ms; /* of the real clocks; only ever more */
    bool keys_forgotten;
    char own_prefix[64];
    char url[512];
    struct env env;
    struct kinds kinds;
    struct hot *hot;

    struct bell bells[RIG_WORKERS_MAX]; /* of workers: something can be collected */
    pthread_t relay;
    _Atomic bool is_stopping;
    _Atomic bool log_is_down; /* nothing is said to be in the log */
    uint64_t relayed[LIMIT_CELLS];
    struct rig_opening openings[LIMIT_CELLS];
};

/* ---- the relay ---- */

static inline enum err rig_relay_section(void *arg, unsigned cell, struct slice section,
                                         uint64_t last, struct error *error)
{
    struct rig *rig = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    struct event event;
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        if (rig->see_event)
            rig->see_event(rig->see_arg, &event);
        event_done(&event);
    }
    rig->relayed[cell] = last;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* The last epoch of each cell: a cell that was emptied does not know it, and the store would. */
static _Atomic uint64_t rig_epochs[LIMIT_CELLS];

/* What the cell has is all there is, and is kept, unless it has nothing. */
static inline bool rig_begin_cell(struct rig *rig, struct outbox *outbox, unsigned cell)
{
    struct rig_opening *opening = &rig->openings[cell];
    uint64_t last;
    struct error error = {0};
    if (outbox->ops->begin(outbox, cell, atomic_load(&rig_epochs[cell]), &opening->epoch, &last,
                           &error) != ERR_OK)
        return false;
    atomic_store(&rig_epochs[cell], opening->epoch);
    outbox->ops->read(outbox, UINT64_C(1) << cell, rig->relayed, 1000, rig_relay_section, rig,
                      &error);
    uint64_t told;
    uint64_t stale;
    if (rig->relayed[cell] > 0)
        outbox->ops->relayed(outbox, UINT64_C(1) << cell, rig->relayed, NULL, &told, &stale,
                             &error);
    opening->keep = last != 0;
    for (uint64_t n = 0; n <= !opening->keep; n++) {
        struct event begins = {
            .type = EVENT_EPOCH, .origin = cell, .sequence = sequence_of(opening->epoch, n)};
        if (rig->see_event)
            rig->see_event(rig->see_arg, &begins);
    }
    rig->relayed[cell] = sequence_of(opening->epoch, !opening->keep);
    return opening->is_begun = true;
}

/* As relay_open.c: a second EPOCH event for what is not kept, and one epoch however long others
 * keep it waiting. */
static inline void rig_open_cell(struct rig *rig, struct outbox *outbox, unsigned cell)
{
    struct rig_opening *opening = &rig->openings[cell];
    struct error error = {0};
    if (!opening->is_begun && !rig_begin_cell(rig, outbox, cell))
        return;
    opening->is_begun = outbox->ops->open(outbox, cell, opening->epoch, !opening->keep,
                                          opening->keep, 0, &error) == ERR_UNAVAILABLE;
}

static inline void *rig_run_relay(void *arg)
{
    struct rig *rig = arg;
    struct outbox *outbox = redis_hot_outbox(rig->hot);
    uint64_t leased = 0;
    uint64_t leased_ns = 0;
    while (!atomic_load(&rig->is_stopping)) {
        uint64_t closed = outbox->ops->closed(outbox);
        for (; closed != 0; closed &= closed - 1)
            rig_open_cell(rig, outbox, (unsigned)__builtin_ctzll(closed));
        uint64_t now_ns = env_monotonic_ns(env_system());
        if (now_ns - leased_ns > UINT64_C(200000000)) {
            leased = outbox->ops->leased(outbox);
            leased_ns = now_ns;
        }
        struct error error = {0};
        uint64_t told;
        uint64_t stale;
        if (!atomic_load(&rig->log_is_down) && leased != 0 &&
            outbox->ops->read(outbox, leased, rig->relayed, 1000, rig_relay_section, rig, &error) ==
                ERR_OK)
            outbox->ops->relayed(outbox, leased, rig->relayed, NULL, &told, &stale, &error);
        usleep(2000);
    }
    return NULL;
}

/* ---- life ---- */

static inline int64_t rig_wall_ms(struct env *env)
{
    struct rig *rig = (struct rig *)((char *)env - offsetof(struct rig, env));
    return rig->real_clock ? env_wall_ms(env_system()) + (int64_t)atomic_load(&rig->ahead_ms)
                           : atomic_load(&rig->now_ms);
}

static inline uint64_t rig_monotonic_ns(struct env *env)
{
    struct rig *rig = (struct rig *)((char *)env - offsetof(struct rig, env));
    return env_monotonic_ns(env_system()) + atomic_load(&rig->ahead_ms) * 1000000;
}

static inline void rig_finish(void *arg, unsigned worker)
{
    struct rig *rig = arg;
    bell_ring(&rig->bells[worker]);
}

/* Also says whether one of them was named at all. */
static inline const char *rig_server(void)
{
    const char *single = getenv("TALLY_TEST_REDIS");
    return single ? single : getenv("TALLY_TEST_CLUSTER");
}

static inline void rig_start(struct rig *rig)
{
    struct redis_hot_options options = {.url = rig->url,
                                        .kinds = &rig->kinds,
                                        .workers = rig->workers,
                                        .guests = 2,
                                        .keys_kept_ms = rig->keys_kept_ms,
                                        .idle_s = rig->idle_s,
                                        .spread_rate = rig->spread_rate,
                                        .totals_ttl_ms =
                                            rig->totals_ttl_ms ? rig->totals_ttl_ms : 300000,
                                        .outbox_max = 100000,
                                        .patience = rig->patience ? rig->patience : 30,
                                        .serves = true};
    struct error error = {0};
    if (redis_hot_open(&rig->env, &options, &rig->hot, &error))
        fail_msg("%s", error.text);
    rig->hot->finish = rig_finish;
    rig->hot->finish_arg = rig;
    atomic_store(&rig->is_stopping, false);
    assert_int_equal(pthread_create(&rig->relay, NULL, rig_run_relay, rig), 0);
}

static inline void rig_stop(struct rig *rig)
{
    atomic_store(&rig->is_stopping, true);
    pthread_join(rig->relay, NULL);
    hot_close(rig->hot);
    rig->hot = NULL;
}

static inline void rig_open(struct rig *rig)
{
    static _Atomic unsigned rigs;
    rig->kind_list = rig->kind_list ? rig->kind_list : "like,dislike";
    rig->workers = rig->workers ? rig->workers : 4;
    rig->keys_kept_ms = rig->keys_kept_ms ? rig->keys_kept_ms : 24 * 3600 * 1000;
    rig->env = *env_system();
    rig->env.wall_ms = rig_wall_ms;
    rig->env.monotonic_ns = rig_monotonic_ns;
    atomic_store(&rig->now_ms, RIG_BEGAN_MS);
    assert_int_equal(kinds_parse(&rig->kinds, slice_of(rig->kind_list), NULL), ERR_OK);
    for (unsigned i = 0; i < RIG_WORKERS_MAX; i++)
        bell_init(&rig->bells[i]);
    snprintf(rig->own_prefix, sizeof(rig->own_prefix), "rig%d.%u", (int)getpid(),
             atomic_fetch_add(&rigs, 1));
    assert_non_null(rig_server());
    snprintf(rig->url, sizeof(rig->url), "%s/%s", rig_server(),
             rig->prefix ? rig->prefix : rig->own_prefix);
    rig_start(rig);
}

static inline void rig_close(struct rig *rig)
{
    rig_stop(rig);
    for (unsigned i = 0; i < RIG_WORKERS_MAX; i++)
        bell_done(&rig->bells[i]);
}

/* ---- running ops ---- */

static inline void rig_batch_done(struct batch *batch)
{
    ++*(unsigned *)batch->arg;
}

static inline void rig_run(struct rig *rig, unsigned worker, struct op *ops, size_t count)
{
    unsigned done = 0;
    struct batch batch = {.ops = ops,
                          .count = count,
                          .worker = worker,
                          .now_ms = rig_wall_ms(&rig->env),
                          .done = rig_batch_done,
                          .arg = &done};
    assert_true(worker < rig->workers);
    hot_run(rig->hot, &batch);
    while (done == 0) {
        assert_true(bell_wait(&rig->bells[worker], 300000)); /* it does not end */
        hot_collect(rig->hot, worker);
    }
    assert_int_equal(done, 1);
}

/* Does the answer wait for the log? */
static inline bool rig_waits(const struct op *op)
{
    return op->sequence > 0;
}

#endif
