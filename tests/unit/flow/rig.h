/* rig.h - the real hot layer over the real log in a folder of its own, with a
 * clock that the test sets. The log has no threads: rig_commit() makes what was
 * appended durable. */
#ifndef UNIT_FLOW_RIG_H
#define UNIT_FLOW_RIG_H

#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "flow/recovery.h"
#include "flow/service.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"

struct rig {
    struct env env; /* first: the clock below is found through it */
    int64_t now_ms;
    uint64_t monotonic_ns;
    uint64_t monotonic_step_ns; /* by which it goes on whenever it is read */
    char folder[64];
    struct kinds kinds;
    struct log *log;
    struct hot *hot;
    struct service service;
};

static inline int64_t rig_wall_ms(struct env *env)
{
    return ((struct rig *)env)->now_ms;
}

static inline uint64_t rig_monotonic_ns(struct env *env)
{
    struct rig *rig = (struct rig *)env;
    return rig->monotonic_ns += rig->monotonic_step_ns;
}

static inline void rig_fatal(void *arg, const struct error *error)
{
    (void)arg;
    fprintf(stderr, "%s\n", error->text);
    abort();
}

/* Opens log and hot layer; nothing is read yet. */
static inline void rig_open(struct rig *rig)
{
    struct file_log_options log_options = {
        .folder = rig->folder,
        .segment_bytes = 4 << 20,
        .pending_bytes_max = 64 << 20,
        .manual = true,
        .fatal = rig_fatal,
    };
    struct error error = {.text = ""};
    if (file_log_open(&rig->env, &log_options, &rig->log, &error))
        fail_msg("%s", error.text);

    struct memory_hot_options hot_options = {
        .kinds = &rig->kinds,
        .log = rig->log,
        .workers = 1,
        .keys_kept_ms = 24 * 3600 * 1000,
        .spread_rate = 100000,
    };
    rig->hot = memory_hot_open(&rig->env, &hot_options);
}

static inline void rig_close(struct rig *rig)
{
    hot_close(rig->hot);
    log_close(rig->log);
}

/* Replays the log and starts it. */
static inline struct recovery rig_recover(struct rig *rig)
{
    struct recovery recovery;
    struct error error = {.text = ""};
    if (recovery_run(&rig->env, rig->log, rig->hot, (struct log_position){0}, &recovery, &error) ||
        log_start(rig->log, &error))
        fail_msg("%s", error.text);
    return recovery;
}

static inline struct rig *rig_new(void)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    rig->env = *env_system();
    rig->env.wall_ms = rig_wall_ms;
    rig->env.monotonic_ns = rig_monotonic_ns;
    rig->now_ms = 1700000000000;
    snprintf(rig->folder, sizeof(rig->folder), "/tmp/tally-flow-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    assert_int_equal(kinds_parse(&rig->kinds, SLICE("like,dislike,meh"), NULL), ERR_OK);
    rig_open(rig);
    return rig;
}

static inline void rig_free(struct rig *rig)
{
    rig_close(rig);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", rig->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own name */
    free(rig);
}

static inline void rig_commit(struct rig *rig)
{
    while (file_log_step(rig->log)) {
    }
}

static inline void rig_ignore(struct batch *batch)
{
    (void)batch;
}

/* Runs one op straight on the hot layer. */
static inline void rig_run(struct rig *rig, struct op *op)
{
    struct batch batch = {.ops = op, .count = 1, .now_ms = rig->now_ms, .done = rig_ignore};
    hot_run(rig->hot, &batch);
}

#endif
