/* Batches of ops: aimed at their cells on the worker's thread, handed to ours, and collected. */
#include <assert.h>
#include <stdlib.h>

#include "base/bell.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "hot/redis/run_own.h"
#include "hot/redis/spread.h"

/* Where it belongs. False: op->code. */
static bool aim(const struct layer *layer, struct op *op, const struct op *previous)
{
    op->code = ERR_OK;
    op->changed = false;
    op->repeated = false;
    op->held = KIND_NONE;
    op->value = number_of(0);
    op->ticket = 0;
    op->sequence = 0;
    op->weak = false;
    op->stale = false;
    op->shards_missing = 0;
    op->as_of_ms = 0;
    op->target = op->id;
    op->target_kind = 0;
    op->route = NULL;
    op->user_class = 0; /* times that it was sent in another form */
    op->user_number = 0;
    if (op_has_counter(op->kind) &&
        kinds_split(layer->options.kinds, op->id, &op->target, &op->target_kind) &&
        !op_may_name_reaction(op->kind)) {
        op->code = ERR_WRONG_TYPE;
        return false;
    }
    if (op->kind == OP_MEMBERS && op->page->cursor >> 56 > BUCKET_SLICES) {
        op->code = ERR_INVALID; /* not one that we gave */
        return false;
    }
    if (op->kind == OP_DEADLINE)
        op->deadline_ms = 0;
    op->stable = previous && slice_equal(previous->target, op->target) ? previous->stable
                                                                       : hash_stable(op->target);
    op->cell = (uint8_t)layer_home(op->stable);
    if (op_has_user(op->kind)) {
        op->hash = hash_stable_seeded(op->user, op->stable);
        op->bucket = (uint16_t)(op->hash % LIMIT_BUCKETS);
    }
    return true;
}

/* Ops that are left have a batch; returns how many. Reads before the first write may be answered
 * from what is known of something spread. */
static size_t aim_all(struct layer *layer, struct batch *batch, struct run_batch *run)
{
    size_t left = 0;
    bool has_written = false;
    const struct op *previous = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->ops[i];
        op->user_hash = 0;
        if (!aim(layer, op, previous))
            continue;
        previous = op;
        has_written |= op_is_write(op->kind);
        if (!has_written && spread_sum_will_do(op) && spreads_answer(layer, op))
            continue;
        op->user_hash = (uintptr_t)run;
        left++;
    }
    return left;
}

static void enter(void *arg)
{
    struct run_batch *run = arg;
    struct runs *runs = run->runs;
    struct op *op = run->batch->ops;
    uint64_t now = run_now_ns(runs);
    run->began_ns = now;
    run->serial = ++runs->batches;
    runs_note_time(runs, run->batch->now_ms);
    for (size_t left = run->left; left > 0; op++) /* with the last one the batch may be gone */
        if (op->user_hash != 0) {
            left--;
            run_dispatch(runs, op, now);
        }
}

static void refuse_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->ops[i].user_hash != 0)
            batch->ops[i].code = ERR_UNAVAILABLE;
}

static void run_and_wait(struct layer *layer, struct run_batch *run)
{
    struct bell bell;
    bell_init(&bell);
    /* cppcheck-suppress autoVariables ; the run ends here, before the bell does */
    run->bell = &bell;
    struct batch *batch = run->batch;
    if (layer_post(layer, enter, run))
        bell_wait(&bell, UINT64_MAX);
    else
        refuse_batch(batch);
    bell_done(&bell);
    free(run);
    batch->done(batch);
}

void runs_run(struct hot *hot, struct batch *batch)
{
    struct layer *layer = layer_of(hot);
    assert(batch->worker < layer->options.workers + layer->options.guests);

    struct run_batch *run = memory_take_zeroed(sizeof(*run));
    run->runs = layer->runs;
    run->batch = batch;
    run->left = aim_all(layer, batch, run);
    if (run->left == 0) {
        free(run);
        batch->done(batch);
    } else if (batch->worker >= layer->options.workers) {
        run_and_wait(layer, run);
    } else if (!layer_post(layer, enter, run)) {
        free(run);
        refuse_batch(batch);
        batch->done(batch);
    }
}

void run_batch_finish(struct runs *runs, struct run_batch *batch)
{
    if (batch->bell) {
        bell_ring(batch->bell); /* and it is gone */
        return;
    }
    unsigned worker = batch->batch->worker;
    lock_take(&runs->lock);
    batch->next = runs->done[worker];
    runs->done[worker] = batch;
    lock_release(&runs->lock);
    runs->told |= UINT64_C(1) << worker;
}

void runs_collect(struct hot *hot, unsigned worker)
{
    struct runs *runs = layer_of(hot)->runs;
    lock_take(&runs->lock);
    struct run_batch *done = runs->done[worker];
    runs->done[worker] = NULL;
    lock_release(&runs->lock);

    struct run_batch *oldest = NULL; /* they were put in front of one another */
    while (done) {
        struct run_batch *next = done->next;
        done->next = oldest;
        oldest = done;
        done = next;
    }
    while (oldest) {
        struct run_batch *run = oldest;
        oldest = run->next;
        struct batch *batch = run->batch;
        free(run);
        batch->done(batch);
    }
}
