/* metrics.h - every figure of the server, as Prometheus reads it.
 *
 * The server says once where the figures come from; each scrape asks all of them
 * and writes one page of the text format (version 0.0.4): base units (seconds,
 * bytes), `tally_` before every name, `_total` behind what only grows. Labels are
 * few: doors, results, states, and the ids of a handful of hot counters; never
 * users, and never keys.
 *
 * Asking takes the locks of the hot layer for a moment each and reads no disk. */
#ifndef FLOW_METRICS_H
#define FLOW_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/histogram.h"
#include "core/hot.h"
#include "core/log.h"
#include "flow/pipeline.h"
#include "flow/relay.h"
#include "flow/service.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_BYTES_MAX    (1u << 20) /* a page is far below */

#define METRICS_DOORS_MAX   4u
#define METRICS_HOTTEST_MAX 10u /* counters whose shards are shown one by one */

/* What became of an operation. */
enum metrics_result {
    METRICS_OK,      /* done, or nothing was to be done */
    METRICS_REFUSED, /* it could not be as asked: not found, wrong type, below the floor, ... */
    METRICS_ERROR,   /* it was right and could not be done: full, busy, out of memory, ... */
};
#define METRICS_RESULTS 3u

/* The result that an op's code is. */
enum metrics_result metrics_result_of(enum err code);

/* What a door has done since it was opened, of all its workers together. */
struct metrics_door {
    const char *door; /* "resp", "http" */
    uint64_t reads[METRICS_RESULTS];
    uint64_t writes[METRICS_RESULTS];
    uint64_t stale_served;  /* reads that may lack something acknowledged: answered, saying so, */
    uint64_t stale_refused; /* or refused */
    struct histogram read_time; /* from having parsed it to handing out the answer */
    struct histogram write_time;
    uint64_t connections; /* now */
    uint64_t accepted;
    uint64_t rejected; /* connections: too many */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t protocol_errors;
    uint64_t auth_failures;
    uint64_t timeouts;     /* connections closed for being idle or slow */
    uint64_t evicted;      /* connections closed because all together used too much memory */
    uint64_t buffer_bytes; /* of all connections, now */
};

/* The process, as the system sees it. */
struct metrics_process {
    uint64_t resident_bytes;
    uint64_t heap_bytes; /* in use */
    uint64_t cpu_ns;
    uint64_t open_files;
    uint64_t open_files_max;
    uint64_t disk_free_bytes; /* of the file system that holds the data; both 0 = not known */
    uint64_t disk_bytes;
};

/* One of the counters that are written most. */
struct metrics_hottest {
    struct slice id;
    uint32_t shards;
    int64_t totals[LIMIT_CELLS]; /* by shard; of an item, members of all kinds */
};

/* All figures of one moment. */
struct metrics_sources {
    const char *version;
    const char *ack;
    int64_t started_ms;
    int64_t now_ms;
    struct metrics_process process;
    struct hot_stats hot;
    struct log_stats log;
    struct pipeline_stats pipeline; /* `runs` false: there is none, and its families are left out */
    bool has_nodes;                 /* counts and log are outside of the process */
    bool has_relay;                 /* and this node serves */
    struct relay_stats relay;       /* then */
    struct metrics_door doors[METRICS_DOORS_MAX];
    size_t door_count;
    const struct metrics_hottest *hottest;
    size_t hottest_count;
};

/* Appends the page. ERR_TOO_LARGE or ERR_NO_MEMORY: `to` holds a part of it. */
enum err metrics_write(struct buffer *to, const struct metrics_sources *sources);

/* --- where the figures come from; set up by the server, read by a door --- */

typedef void metrics_door_fn(void *arg, struct metrics_door *ret_door);
typedef void metrics_process_fn(void *arg, struct metrics_process *ret_process);

struct metrics {
    const char *version; /* all borrowed */
    int64_t started_ms;
    const struct service *service;
    metrics_process_fn *process; /* may be NULL */
    metrics_process_fn *brief;   /* only its memory and disk, which is quick; may be NULL */
    void *process_arg;           /* of both */
    struct {
        metrics_door_fn *fill;
        void *arg;
    } doors[METRICS_DOORS_MAX];
    size_t door_count;
};

void metrics_add_door(struct metrics *metrics, metrics_door_fn *fill, void *arg);

/* Asks everybody but for the hottest counters; of the process all there is, or what is quick. Any
 * thread. */
enum metrics_extent { METRICS_ALL, METRICS_BRIEF };
void metrics_gather(const struct metrics *metrics, enum metrics_extent extent,
                    struct metrics_sources *ret_sources);

/* Asks everybody and appends the page. Any thread. As metrics_write(). */
enum err metrics_page(const struct metrics *metrics, struct buffer *to);

#endif
