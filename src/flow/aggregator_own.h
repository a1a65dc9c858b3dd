/* aggregator_own.h - what the files of the aggregator share.
 *
 *   aggregator.c         gathers and flushes, batch by batch; the thread
 *   aggregator_chores.c  what waits in the store, and what is done in the background
 *   aggregator_ask.c     others ask: for a turn as the writer, for speed, for figures */
#ifndef FLOW_AGGREGATOR_OWN_H
#define FLOW_AGGREGATOR_OWN_H

#include "flow/aggregator.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/bell.h"
#include "base/buffer.h"
#include "base/lock.h"
#include "flow/coalesce.h"
#include "flow/lanes.h"
#include "flow/trim.h"

#define MS_NS 1000000u

/* What somebody wants to be done by the writer; on the asker's stack. */
struct ask {
    aggregator_ask_fn *run;
    void *arg;
    bool is_done;
    struct ask *next;
};

struct aggregator {
    struct aggregator_options options;
    struct coalesce *gathered;
    struct coalesce *again; /* for retries */
    struct buffer raw;      /* of the unit that is tried again */
    struct state_mark mark; /* of the store */
    struct log_position at; /* how far we have read; in a log of one lane */
    struct lanes lanes;     /* and in one of many */
    bool by_lane;           /* it is one of many */
    bool has_read;          /* by lane: nothing was found when we last looked */
    bool has_missed;        /* by lane: what was missing was missing when we looked before */
    struct trim *trim;

    uint64_t batch_limit; /* events: what the store takes in about BATCH_NS */
    uint64_t gathered_ns; /* when the first of the batch came; meaningless while empty */
    bool is_stopping;
    bool must_look;    /* how far is the store? something went wrong */
    bool must_begin;   /* by lane: and what was gathered is forgotten */
    uint32_t failures; /* in a row */
    uint64_t try_ns;   /* paused until then */
    uint64_t due_ns;   /* next looks */
    uint64_t thin_ns;
    uint64_t trim_ns;
    uint64_t see_ns;
    uint64_t stuck_ns;
    uint64_t busy_ns; /* when something was last done */
    bool has_rested;
    uint64_t rest_ns;

    struct lock lock; /* guards what follows */
    struct pipeline_stats stats;
    struct state_mark published;
    struct log_position read;  /* everything up to here is in the store, or is nothing to it */
    struct log_position hurry; /* somebody waits for this */
    struct {
        struct log_position at;
        uint64_t events; /* gathered */
        uint64_t bytes;
        int64_t oldest_ms;  /* of them; 0 = none */
        int64_t applied_ms; /* time of the last event that is in the store; 0 = not known */
        uint64_t all_bytes; /* applied since start */
        uint64_t owned;     /* lanes, and how far they were read */
        struct log_position lanes[LIMIT_CELLS];
    } seen;

    pthread_mutex_t asks_mutex;
    pthread_cond_t asks_done;
    struct ask *asks; /* oldest first */
    bool runs;        /* the thread */
    bool is_flushed;  /* the thread has ended, and the store had all of the log */
    pthread_t thread;
    struct bell bell;
    atomic_uint trim_holds;
    atomic_bool hurry_all; /* by lane: somebody waits for what is there */
    atomic_bool stop;
    _Atomic uint64_t stop_ns; /* not later than this */
};

static inline uint64_t now_ns_of(const struct aggregator *a)
{
    return env_monotonic_ns(a->options.env);
}

static inline int64_t now_ms_of(const struct aggregator *a)
{
    return env_wall_ms(a->options.env);
}

static inline bool same_place(struct log_position a, struct log_position b)
{
    return a.segment == b.segment && a.offset == b.offset;
}

/* Tries again what is due, and does what has to be done now and then. */
enum err aggregator_do_chores(struct aggregator *a, bool *did, struct error *error);

/* Nothing was to be done for a while: a quiet moment. */
enum err aggregator_rest(struct aggregator *a, uint64_t now_ns, struct error *error);

/* Runs what others have asked for. On the aggregator's thread. */
void aggregator_serve_asks(struct aggregator *a);

#endif
