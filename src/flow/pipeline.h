/* pipeline.h - the way from the log to the store and back: its parts together, and
 * figures of how it goes.
 *
 *   hot → log → aggregator → store → loader → hot
 *                              └→ desk: questions, proof, erasure */
#ifndef FLOW_PIPELINE_H
#define FLOW_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"
#include "core/store.h"

struct pipeline;
struct recovery;
struct service;

struct pipeline_stats {
    bool runs;
    const char *form; /* of the store: "sqlite"; NULL = there is none, or not yet */
    bool paused;      /* the store does not answer */
    char reason[200];
    int64_t paused_since_ms;
    uint64_t lag_events;   /* in the log, not in the store */
    bool lag_is_estimated; /* from bytes or messages: others write to the log as well */
    uint64_t lag_bytes;
    int64_t lag_ms;  /* age of the oldest of them; 0 = none */
    uint64_t events; /* applied since start */
    uint64_t batches;
    uint64_t batch_events; /* of the last batch */
    uint64_t flush_ns;     /* of the last batch */
    uint64_t flush_ns_all;
    uint64_t outages;
    uint64_t refused; /* units that the store did not want at the first try */
    uint64_t failed;  /* units that became dead letters */
    uint64_t cold_loads;
    uint64_t cold_load_ns_all;
    uint64_t audited; /* counters looked at */
    uint64_t drifts;  /* found since start */
    uint64_t repairs;
    int64_t audit_ended_ms; /* of the last round; 0 = none yet */
    uint64_t trimmed_bytes;
    uint64_t lanes;         /* of the log that are ours, if it has many */
    uint64_t lanes_held;    /* of them: waiting for another */
    uint64_t lanes_stuck;   /* of them: events are missing in the log */
    char stuck_reason[200]; /* of one */
    struct store_stats store;
};

/* How many threads of it run batches of the hot layer: its guests. */
#define PIPELINE_GUESTS 3u

struct pipeline_options {
    struct env *env; /* all borrowed */
    struct log *log;
    struct store *store;
    struct hot *hot; /* NULL: this node does not serve; the log has many lanes */
    const struct kinds *kinds;
    unsigned first_guest; /* worker number of the first */
    bool idles;           /* a log of many lanes: others carry it into the store */

    uint64_t flush_interval_ms;
    uint64_t flush_events;
    uint64_t keep_events_ms; /* 0 = for ever, and so are those below */
    uint64_t keep_history_ms;
    uint64_t keep_keys_ms;
    uint64_t log_keep_ms; /* 0 and 0 = all */
    uint64_t log_keep_bytes;
    bool (*audits)(void *arg); /* is the audit in the background ours to do now? NULL: always */
    void *audits_arg;
    uint64_t audit_every_ms; /* 0 = never */
    uint64_t audit_batch;    /* ids at a time */

    void (*begin_thread)(void *arg); /* first thing on threads that should give way to
                                      * others; may be NULL */
    void *begin_arg;
};

struct pipeline *pipeline_new(const struct pipeline_options *options);
void pipeline_free(struct pipeline *pipeline);

/* Brings the hot layer to where the log ends: flow/recovery.h. Before log_start(). */
enum err pipeline_recover(struct pipeline *pipeline, struct recovery *ret_recovery,
                          struct error *error);

/* Instead of recovering, where the log has many lanes: what is hot is outside, and others may be
 * at work. Does not fail, and asks nobody. */
void pipeline_open(struct pipeline *pipeline);

/* Starts its threads, after log_start(); `service` learns of pipeline and desk, before its
 * first batch. */
enum err pipeline_start(struct pipeline *pipeline, struct service *service, struct error *error);

/* The log is not trimmed between these two: somebody else reads it, too. After recovering. */
void pipeline_hold_trim(struct pipeline *pipeline);
void pipeline_release_trim(struct pipeline *pipeline);

/* No door asks any more. Brings the store to where the log ends, if that takes no longer than
 * `within_ms`, and ends the threads. True: it is there. */
bool pipeline_stop(struct pipeline *pipeline, uint64_t within_ms);

/* All zero without a store. Any thread. */
void pipeline_read(const struct service *service, struct pipeline_stats *ret_stats);

#endif
