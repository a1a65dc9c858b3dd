/* run_own.h - what the files about queues and calls know of one another.
 *
 *   run.c        queues of the cells, and calls that are started
 *   run_batch.c  batches: handed in and collected on the workers' threads
 *   run_ended.c  what becomes of the ops of a call that has ended */
#ifndef HOT_REDIS_RUN_OWN_H
#define HOT_REDIS_RUN_OWN_H

#include "base/lock.h"
#include "hot/redis/layer.h"
#include "hot/redis/run.h"

#define RUN_MS          UINT64_C(1000000)
#define RUN_PATIENCE_NS (5000 * RUN_MS) /* an op waits for so long, all in all */
#define RUN_READ_NS     (300 * RUN_MS)  /* and a read, before the store is asked instead */
#define RUN_HURRY_NS    (300 * RUN_MS)  /* and anybody, when the server stops */

/* A batch under way; op->user_hash of its ops leads here. */
struct run_batch {
    struct runs *runs;
    struct batch *batch;
    uint64_t serial; /* runs_batch_serial() */
    size_t left;
    uint64_t began_ns;
    struct bell *bell; /* of a guest, who waits for it */
    struct run_batch *next;
};

/* An op of our own. */
struct own_op {
    struct op op;
    uint64_t began_ns;
    char id[LIMIT_ID_BYTES];
};

/* A cell: its queue, and the call under way. */
struct run_cell {
    struct runs *runs;
    unsigned number;
    struct run_list queue;
    bool is_calling;
    struct call call;
    struct run_part *parts; /* of the call; RUN_OPS_MAX of them */
    size_t part_count;
    bool has_epoch;
    uint64_t epoch;
    uint64_t call_number;
    uint64_t called_ns;    /* when the call under way was started */
    uint64_t trouble_ns;   /* since when it does not answer or is closed; 0 = all is well */
    uint64_t retry_ns;     /* not before */
    uint64_t wait_ns;      /* how long to wait the next time */
    uint64_t no_memory_ns; /* until when writes are refused */
};

struct runs {
    struct layer *layer; /* borrowed */
    struct groups *groups;
    struct timer *timer;
    struct run_cell cells[LIMIT_CELLS];
    uint64_t ready; /* cells that have something queued */
    bool is_shut;
    bool is_hurried;           /* patience is short */
    uint64_t batches;          /* so far */
    _Atomic int64_t now_ms;    /* of the batch or the tick that came last; 0 = none did */
    _Atomic uint64_t noted_ns; /* and when that was */
    uint64_t told;             /* workers to be told that batches are done, by bit */
    struct lock lock;          /* of `done` */
    struct run_batch *done[LIMIT_WORKERS];
};

static inline uint64_t run_now_ns(const struct runs *runs)
{
    return env_monotonic_ns(runs->layer->env);
}

/* NULL: an op of our own. */
static inline struct run_batch *run_batch_of(const struct op *op)
{
    return (struct run_batch *)(uintptr_t)op->user_hash; // NOLINT(performance-no-int-to-ptr)
}

static inline uint64_t run_began_ns(const struct op *op)
{
    const struct run_batch *batch = run_batch_of(op);
    return batch ? batch->began_ns : ((const struct own_op *)op)->began_ns;
}

static inline uint64_t run_patience_ns(const struct runs *runs, const struct op *op)
{
    uint64_t patience_ns = run_op_writes(op) ? RUN_PATIENCE_NS : RUN_READ_NS;
    patience_ns *= runs->layer->options.patience;
    return runs->is_hurried && patience_ns > RUN_HURRY_NS ? RUN_HURRY_NS : patience_ns;
}

/* --- run.c --- */

/* Answers the op from what is known, sends it on to those who know what is spread, or puts it into
 * the queue of its cell. */
void run_dispatch(struct runs *runs, struct op *op, uint64_t now);

/* Ops that come before all that is queued. Leaves `front` empty. */
void run_put_back(struct run_cell *cell, struct run_list *front);

void run_fail(struct runs *runs, struct op *op, enum err code);
/* The cell cannot be asked: the op fails, or the store is asked instead. */
void run_refuse(struct runs *runs, struct op *op);

/* A cell that has no server, or one that does not answer, is not asked again and again, and after a
 * while refuses what it is asked. */
void run_note_trouble(struct run_cell *cell);
void run_all_is_well(struct run_cell *cell);

/* --- run_batch.c --- */

/* Its last op has its answer: whoever waits is told. */
void run_batch_finish(struct runs *runs, struct run_batch *batch);

/* --- run_ended.c --- */

void run_call_ended(void *arg, enum err code, const struct redisReply *reply);

#endif
