/* aggregator.h - carries the log into the store, batch by batch.
 *
 * It follows the log, coalesces what it finds (flow/coalesce.h), and applies it after
 * an interval or so many events, whichever is first; when it falls behind, a batch is
 * as much as has gathered, up to a bound. A batch and how far it goes are one
 * transaction of the store, so that whatever is killed at whatever moment, every
 * event is applied once.
 *
 * What the store refuses waits in the store and is tried again from here. A store that does not
 * answer is nobody's fault: everything waits, and it is asked again, for ever.
 *
 * Of a log with many lanes it carries those that are its own (flow/lanes.h): there may be several
 * aggregators, in several processes, and each is the writer of its lanes. Nothing is left out: a
 * gap in a lane is told and waited for.
 *
 * The aggregator is the store's one writer in its process. Who else wants to write asks it. It has
 * a thread of its own, or is driven step by step (tests, the simulator). */
#ifndef FLOW_AGGREGATOR_H
#define FLOW_AGGREGATOR_H

#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"
#include "core/store.h"
#include "flow/pipeline.h"

struct aggregator;

struct aggregator_options {
    struct env *env; /* all borrowed */
    struct log *log;
    struct store *store;
    struct hot *hot; /* told what is saved; may be NULL */
    const struct kinds *kinds;
    bool idles; /* a log of many lanes: carries none of them, and does no chores; it only asks how
                 * far the store is, and writes what others ask for */

    uint64_t flush_interval_ms;
    uint64_t flush_events;
    uint64_t batch_events_max; /* 0 = the usual */
    uint64_t batch_bytes_max;  /* 0 = the usual */

    uint64_t keep_events_ms;  /* finished lives; 0 = for ever, and so are those below */
    uint64_t keep_history_ms; /* reactions */
    uint64_t keep_keys_ms;
    uint64_t log_keep_ms; /* segments that the store is past: 0 and 0 = all */
    uint64_t log_keep_bytes;

    void (*begin_thread)(void *arg); /* first thing on its thread; may be NULL */
    void *begin_arg;
};

/* `mark` is where the store is; of a log with many lanes it is asked for when the work begins, and
 * may be all zero. */
struct aggregator *aggregator_new(const struct aggregator_options *options,
                                  const struct state_mark *mark);
void aggregator_free(struct aggregator *aggregator);

/* One piece of work, if there is one. Returns how many milliseconds to wait until
 * there may be more; 0 = go on. Without a thread only. */
uint64_t aggregator_step(struct aggregator *aggregator);

/* Applies all that is in the log, without waiting for the interval. False: the store does not
 * answer. Without a thread only. */
bool aggregator_flush(struct aggregator *aggregator);

enum err aggregator_start(struct aggregator *aggregator, struct error *error);

/* Flushes what is in the log, for up to `within_ms`, and ends the thread. True: the store has all
 * of it. */
bool aggregator_stop(struct aggregator *aggregator, uint64_t within_ms);

/* Runs `run` as the store's writer, between two batches, and waits for it. Any thread but
 * the aggregator's. */
typedef void aggregator_ask_fn(void *arg, struct store *store);
void aggregator_ask(struct aggregator *aggregator, aggregator_ask_fn *run, void *arg);

/* The log is not trimmed between these two, which may be nested: who adds up what was trimmed and
 * what is still there must not see it move. Any thread but the aggregator's. */
void aggregator_hold_trim(struct aggregator *aggregator);
void aggregator_release_trim(struct aggregator *aggregator);

/* Somebody waits for the log up to `until`: it is flushed without waiting for the interval. False
 * if there is nothing of it to flush. Any thread. */
bool aggregator_hurry(struct aggregator *aggregator, struct log_position until);

/* Somebody waits for what is in the log now, of one with many lanes. Any thread. */
void aggregator_hurry_all(struct aggregator *aggregator);

/* How far the store is now. Any thread. */
void aggregator_mark(struct aggregator *aggregator, struct state_mark *ret_mark);

/* Fills in its part. Any thread. */
void aggregator_stats(struct aggregator *aggregator, struct pipeline_stats *stats);

#endif
