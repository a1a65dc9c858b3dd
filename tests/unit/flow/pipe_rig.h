/* pipe_rig.h - the whole pipeline as the server has it, with its threads, in a folder of its
 * own: log, hot layer, SQLite, aggregator, loader and desk, but no door. */
#ifndef UNIT_FLOW_PIPE_RIG_H
#define UNIT_FLOW_PIPE_RIG_H

#include "unit/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/env.h"
#include "flow/desk.h"
#include "flow/pipeline.h"
#include "flow/recovery.h"
#include "flow/service.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"
#include "store/sqlite/sqlite.h"

struct pipe {
    char folder[64];
    char path[96]; /* of the store */
    struct kinds kinds;
    struct log *log;
    struct store *store;
    struct hot *hot;
    struct pipeline *pipeline;
    struct service service;
    struct recovery recovery; /* of the last open */
    uint64_t log_keep_bytes;  /* set before pipe_open() */
};

static inline void pipe_fatal(void *arg, const struct error *error)
{
    (void)arg;
    fprintf(stderr, "%s\n", error->text);
    abort();
}

static inline void pipe_open(struct pipe *pipe)
{
    struct env *env = env_system();
    struct error error = {.text = ""};
    struct file_log_options log_options = {.folder = pipe->folder,
                                           .segment_bytes = 4 << 20,
                                           .pending_bytes_max = 64 << 20,
                                           .fatal = pipe_fatal};
    struct sqlite_store_options store_options = {.path = pipe->path};
    if (file_log_open(env, &log_options, &pipe->log, &error) ||
        sqlite_store_open(env, &store_options, &pipe->store, &error))
        fail_msg("%s", error.text);
    struct memory_hot_options hot_options = {.kinds = &pipe->kinds,
                                             .log = pipe->log,
                                             .workers = 1,
                                             .guests = PIPELINE_GUESTS,
                                             .keys_kept_ms = 24 * 3600 * 1000,
                                             .spread_rate = 100000};
    pipe->hot = memory_hot_open(env, &hot_options);
    struct pipeline_options options = {.env = env,
                                       .log = pipe->log,
                                       .store = pipe->store,
                                       .hot = pipe->hot,
                                       .kinds = &pipe->kinds,
                                       .first_guest = 1,
                                       .flush_interval_ms = 20,
                                       .flush_events = 100,
                                       .keep_keys_ms = 24 * 3600 * 1000,
                                       .log_keep_bytes = pipe->log_keep_bytes};
    pipe->pipeline = pipeline_new(&options);
    if (pipeline_recover(pipe->pipeline, &pipe->recovery, &error))
        fail_msg("%s", error.text);
    service_init(&pipe->service, env, pipe->hot, pipe->log, &pipe->kinds, ACK_DURABLE);
    if (log_start(pipe->log, &error) || pipeline_start(pipe->pipeline, &pipe->service, &error))
        fail_msg("%s", error.text);
}

static inline void pipe_close(struct pipe *pipe)
{
    pipeline_stop(pipe->pipeline, 10000);
    log_close(pipe->log);
    service_done(&pipe->service);
    pipeline_free(pipe->pipeline);
    store_close(pipe->store);
    hot_close(pipe->hot);
}

static inline struct pipe *pipe_new(void)
{
    struct pipe *pipe = calloc(1, sizeof(*pipe));
    assert_non_null(pipe);
    snprintf(pipe->folder, sizeof(pipe->folder), "/tmp/tally-pipe-XXXXXX");
    assert_non_null(mkdtemp(pipe->folder));
    snprintf(pipe->path, sizeof(pipe->path), "%s/tally.db", pipe->folder);
    assert_int_equal(kinds_parse(&pipe->kinds, SLICE("like,dislike"), NULL), ERR_OK);
    pipe_open(pipe);
    return pipe;
}

static inline void pipe_free(struct pipe *pipe)
{
    pipe_close(pipe);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", pipe->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own name */
    free(pipe);
}

static inline void pipe_reopen(struct pipe *pipe)
{
    pipe_close(pipe);
    pipe_open(pipe);
}

/* Another program that writes into the file. */
static inline void pipe_sql(struct pipe *pipe, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(pipe->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    char *why = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &why))
        fail_msg("%s", why);
    sqlite3_close(db);
}

static inline void pipe_nap(void)
{
    struct bell bell;
    bell_init(&bell);
    (void)bell_wait(&bell, 1);
    bell_done(&bell);
}

static inline void pipe_ignore(struct batch *batch)
{
    (void)batch;
}

/* Runs one op as worker 0, and again as long as it is cold. */
static inline void pipe_run(struct pipe *pipe, struct op *op)
{
    for (unsigned i = 0; i < 20000; i++) {
        struct batch batch = {.ops = op, .count = 1, .done = pipe_ignore};
        service_run(&pipe->service, &batch);
        if (op->code != ERR_COLD)
            return;
        pipe_nap();
    }
    fail_msg("it stays cold");
}

static inline void pipe_add(struct pipe *pipe, const char *id, int64_t amount)
{
    struct op op = {.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
}

static inline void pipe_react(struct pipe *pipe, const char *item, const char *user, uint8_t kind)
{
    struct op op = {.kind = kind == KIND_NONE ? OP_WITHDRAW : OP_REACT,
                    .id = slice_of(item),
                    .user = slice_of(user),
                    .reaction = kind};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
}

/* The value, or INT64_MIN if there is none. */
static inline int64_t pipe_value(struct pipe *pipe, const char *id)
{
    struct op op = {.kind = OP_GET, .id = slice_of(id)};
    pipe_run(pipe, &op);
    return op.code ? INT64_MIN : op.value.small;
}

/* Waits until the store has everything. */
static inline void pipe_settle(struct pipe *pipe)
{
    struct pipeline_stats stats;
    struct log_stats log;
    for (unsigned i = 0; i < 20000; i++) {
        log_stats(pipe->log, &log);
        pipeline_read(&pipe->service, &stats);
        if (log.pending_bytes == 0 && stats.lag_events == 0)
            return;
        pipe_nap();
    }
    fail_msg("the store does not catch up");
}

/* --- the desk --- */

struct pipe_job {
    struct desk_job job;
    void (*run)(struct desk_seat *seat, void *arg);
    void *arg;
    struct bell done;
};

static inline void pipe_run_job(struct desk_job *job, struct desk_seat *seat)
{
    struct pipe_job *own = job->arg;
    own->run(seat, own->arg);
}

static inline void pipe_job_done(struct desk_job *job)
{
    bell_ring(&((struct pipe_job *)job->arg)->done);
}

/* Runs `run` at the desk and waits for it. */
static inline void pipe_at_desk(struct pipe *pipe, void (*run)(struct desk_seat *seat, void *arg),
                                void *arg)
{
    struct pipe_job own = {
        .job = {.run = pipe_run_job, .done = pipe_job_done}, .run = run, .arg = arg};
    own.job.arg = &own;
    bell_init(&own.done);
    assert_true(desk_submit(pipe->service.desk, &own.job));
    assert_true(bell_wait(&own.done, UINT64_MAX));
    bell_done(&own.done);
}

/* Waits for the end of a task. */
static inline uint64_t pipe_start_recount(struct pipe *pipe, struct slice pattern)
{
    uint64_t id = 0;
    assert_int_equal(desk_start_recount(pipe->service.desk, pattern, &id, NULL), ERR_OK);
    return id;
}

static inline uint64_t pipe_start_audit(struct pipe *pipe, struct slice pattern, bool repair)
{
    uint64_t id = 0;
    assert_int_equal(desk_start_audit(pipe->service.desk, pattern, repair, &id, NULL), ERR_OK);
    return id;
}

static inline uint64_t pipe_start_erase(struct pipe *pipe, struct slice user)
{
    uint64_t id = 0;
    assert_int_equal(desk_start_erase(pipe->service.desk, user, &id, NULL), ERR_OK);
    return id;
}

static inline struct desk_task pipe_task(struct pipe *pipe, uint64_t id)
{
    struct desk_task task;
    assert_true(id > 0);
    for (unsigned i = 0; i < 20000; i++) {
        assert_true(desk_task(pipe->service.desk, id, &task));
        if (task.state != DESK_RUNNING)
            return task;
        pipe_nap();
    }
    fail_msg("the task does not end");
    return task;
}

#endif
