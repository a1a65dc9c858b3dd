/* hot_memory_rig.h - the memory hot layer over a log in a folder of its own, for hot_rig.h. */
#ifndef HOT_MEMORY_RIG_H
#define HOT_MEMORY_RIG_H

#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hot.h"
#include "core/kinds.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"

#define RIG_BEGAN_MS INT64_C(1700000000000)

/* ---- a log that says what we want about its room ---- */

struct rig_log {
    struct log base;
    struct log *inner; /* owned */
    enum err room;     /* unless ERR_OK: what to say instead of the log */
    _Atomic unsigned appended;
    void (*before_append)(void); /* NULL or called with the cell's lock held */
};

static inline enum err rig_log_read(struct log *log, struct log_position from, log_visit_fn *visit,
                                    void *arg, log_reading_fn *reading, struct error *error)
{
    return log_read(((struct rig_log *)log)->inner, from, visit, arg, reading, error);
}

static inline enum err rig_log_start(struct log *log, struct error *error)
{
    return log_start(((struct rig_log *)log)->inner, error);
}

static inline uint64_t rig_log_append(struct log *log, struct slice header, struct slice body)
{
    struct rig_log *rig_log = (struct rig_log *)log;
    assert_int_equal(rig_log->room, ERR_OK); /* nobody asked */
    if (rig_log->before_append)
        rig_log->before_append();
    uint64_t ticket = log_append(rig_log->inner, header, body);
    atomic_fetch_add(&rig_log->appended, 1);
    return ticket;
}

static inline enum err rig_log_room(struct log *log)
{
    struct rig_log *rig_log = (struct rig_log *)log;
    return rig_log->room ? rig_log->room : log_room(rig_log->inner);
}

static inline uint64_t rig_log_reached(struct log *log, unsigned lane, enum log_level level)
{
    (void)lane;
    return log_reached(((struct rig_log *)log)->inner, 0, level);
}

static inline void rig_log_stats(struct log *log, struct log_stats *ret_stats)
{
    log_stats(((struct rig_log *)log)->inner, ret_stats);
}

static inline void rig_log_close(struct log *log)
{
    log_close(((struct rig_log *)log)->inner);
    free(log);
}

static const struct log_ops rig_log_ops = {
    .name = "rig",
    .read = rig_log_read,
    .start = rig_log_start,
    .append = rig_log_append,
    .room = rig_log_room,
    .reached = rig_log_reached,
    .stats = rig_log_stats,
    .close = rig_log_close,
};

/* ---- the rig ---- */

struct rig {
    /* set before rig_open() */
    const char *kind_list; /* NULL = like,dislike */
    unsigned workers;      /* 0 = 4 */
    uint64_t keys_kept_ms; /* 0 = 24 h */
    uint32_t idle_s;
    uint64_t spread_rate; /* 0 = never by itself */

    int64_t now_ms;      /* what the next batch takes for the time */
    bool keys_forgotten; /* some were: their number is not the same after a restart */
    char folder[64];
    struct kinds kinds;
    struct rig_log *log;
    struct hot *hot;
};

static inline void rig_fatal(void *arg, const struct error *error)
{
    (void)arg;
    fprintf(stderr, "%s\n", error->text);
    abort();
}

static inline void rig_open_log(struct rig *rig)
{
    struct file_log_options options = {.folder = rig->folder,
                                       .segment_bytes = 4 << 20,
                                       .pending_bytes_max = 256 << 20,
                                       .fatal = rig_fatal};
    rig->log = calloc(1, sizeof(*rig->log));
    assert_non_null(rig->log);
    rig->log->base.ops = &rig_log_ops;
    struct error error;
    if (file_log_open(env_system(), &options, &rig->log->inner, &error))
        fail_msg("%s", error.text);
}

static inline void rig_open_hot(struct rig *rig)
{
    struct memory_hot_options options = {.kinds = &rig->kinds,
                                         .log = &rig->log->base,
                                         .workers = rig->workers,
                                         .keys_kept_ms = rig->keys_kept_ms,
                                         .idle_s = rig->idle_s,
                                         .spread_rate = rig->spread_rate};
    rig->hot = memory_hot_open(env_system(), &options);
}

static inline enum err rig_replay(void *arg, struct slice section, struct log_position next,
                                  struct error *error)
{
    (void)next;
    struct hot *hot = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    struct event event;
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        err = hot_replay(hot, &event, error);
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static inline void rig_start(struct rig *rig)
{
    rig_open_log(rig);
    rig_open_hot(rig);
    struct error error = {0};
    if (log_read(&rig->log->base, (struct log_position){0}, rig_replay, rig->hot, NULL, &error))
        fail_msg("%s", error.text);
    if (log_start(&rig->log->base, &error))
        fail_msg("%s", error.text);
}

static inline void rig_stop(struct rig *rig)
{
    hot_close(rig->hot);
    log_close(&rig->log->base);
    rig->hot = NULL;
    rig->log = NULL;
}

static inline void rig_open(struct rig *rig)
{
    rig->kind_list = rig->kind_list ? rig->kind_list : "like,dislike";
    rig->workers = rig->workers ? rig->workers : 4;
    rig->keys_kept_ms = rig->keys_kept_ms ? rig->keys_kept_ms : 24 * 3600 * 1000;
    rig->now_ms = RIG_BEGAN_MS;
    assert_int_equal(kinds_parse(&rig->kinds, slice_of(rig->kind_list), NULL), ERR_OK);
    snprintf(rig->folder, sizeof(rig->folder), "/tmp/tally-hot-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    rig_start(rig);
}

static inline void rig_close(struct rig *rig)
{
    rig_stop(rig);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", rig->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own name */
}

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
                          .now_ms = rig->now_ms,
                          .done = rig_batch_done,
                          .arg = &done};
    hot_run(rig->hot, &batch);
    assert_int_equal(done, 1);
}

/* Does the answer wait for the log? */
static inline bool rig_waits(const struct op *op)
{
    return op->ticket > 0;
}

#endif
