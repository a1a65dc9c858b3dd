/* run.h - batches become calls, replies become answers.
 *
 * Ops wait in a queue of their cell. A cell has one call under way at most; what comes meanwhile
 * gathers, and goes with the next one: the busier it is, the more ops share a call. So ops of one
 * id happen in their order, and a call that has to be sent again is the last one of its cell.
 *
 *   run_batch.c  batches, handed in and collected
 *   run.c        queues, and calls that are started
 *   group.c      ops to arguments of run.lua (group_put.c)
 *   run_ended.c  what becomes of ops whose call has ended
 *   reply.c      its answer to answers of the ops */
#ifndef HOT_REDIS_RUN_H
#define HOT_REDIS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hot.h"
#include "core/op.h"
#include "hot/redis/call.h"

struct layer;
struct runs;

/* Ops of our own, without a batch. */
#define RUN_OP_SWEEP ((enum op_kind)(OP_MEMBERS + 1)) /* delete the counter if its time is over */
#define RUN_OP_SPLIT ((enum op_kind)(OP_MEMBERS + 2)) /* cut a large item into slices */

struct runs *runs_new(struct layer *layer);
void runs_free(struct runs *runs);

/* The port's. */
void runs_run(struct hot *hot, struct batch *batch);
void runs_collect(struct hot *hot, unsigned worker);

/* The end of a pass: starts calls with what has gathered, */
void runs_pass(struct runs *runs);

/* and tells the workers whose batches are done. */
void runs_tell(struct runs *runs);

/* What time it is for the ops: as in batches. Any thread. */
void runs_note_time(struct runs *runs, int64_t now_ms);

/* The server is about to stop: from now on nobody waits for long. */
void runs_hurry(struct runs *runs);

/* Everything that waits is refused: the layer is being closed. */
void runs_shut(struct runs *runs);

/* --- between these files --- */

/* Ops in a row, linked by op->next. */
struct run_list {
    struct op *first;
    struct op **last;
    size_t count;
};

void run_list_clear(struct run_list *list);
void run_list_add(struct run_list *list, struct op *op);

static inline bool run_op_writes(const struct op *op)
{
    return op_is_write(op->kind) || op->kind == RUN_OP_SWEEP || op->kind == RUN_OP_SPLIT;
}

/* What a call consists of: a run of ops that are answered together. */
struct run_part {
    char what; /* as in run.lua: L S A G */
    bool has_counts;
    bool is_writing;
    struct run_list ops;
};

#define RUN_OPS_MAX  2048u /* of one call */
#define RUN_PART_MAX 1000u /* ops in a part: what Lua can take as arguments at once */

struct groups;
struct groups *groups_new(struct layer *layer);
void groups_free(struct groups *groups);

/* Takes ops from the queue and adds them to the call, in parts; returns how many. */
size_t groups_make(struct groups *groups, struct call *call, struct run_list *queue,
                   struct run_part *parts);

/* What is known of how a record has to be addressed: a hint, learned from answers. */
enum { HINT_SLICED = 1, HINT_CAREFUL = 2 };
unsigned groups_hint(const struct groups *groups, uint64_t stable);
void groups_learn(struct groups *groups, uint64_t stable, unsigned bit, bool is_so);

/* What becomes of an op. */
struct run_verdict {
    struct layer *layer;
    unsigned cell;
    uint64_t epoch; /* of the answer */
    uint64_t n;
    struct run_list again; /* ops to be queued again, in front, in this order */
};

/* Reads the answers behind "O<epoch> <n> " and finishes the ops, or puts them into `again`.
 * ERR_CORRUPT: the answer makes no sense from some op on; these are finished with that. */
enum err reply_take(struct run_verdict *verdict, struct groups *groups, struct run_part *parts,
                    size_t count, struct slice answer);

#endif
