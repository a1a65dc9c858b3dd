#include "hot/redis/run.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/decimal.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "core/reaction.h"
#include "hot/redis/cluster.h"
#include "hot/redis/layer.h"
#include "hot/redis/spread.h"
#include "net/timer.h"

#define MS           UINT64_C(1000000)
#define CALL_MS      3000u       /* all tries of a call together */
#define PATIENCE_NS  (5000 * MS) /* an op waits for so long, all in all */
#define READ_NS      (300 * MS)  /* and a read, before the store is asked instead */
#define TROUBLE_NS   (1000 * MS) /* a cell in trouble for so long refuses at once */
#define SLOW_NS      (1500 * MS) /* a call that takes so long is trouble */
#define RETRY_NS     (20 * MS)
#define RETRY_MAX_NS (200 * MS)
#define NO_MEMORY_NS (100 * MS) /* refuse writes for so long after the server has */
#define TICK_MS      20u
#define NUMBERS_A_MS 1024u /* call numbers, so that a number tells its time */

/* A batch under way; op->user_hash of its ops leads here. */
struct run_batch {
    struct runs *runs;
    struct batch *batch;
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
    _Atomic int64_t now_ms;    /* of the batch or the tick that came last; 0 = none did */
    _Atomic uint64_t noted_ns; /* and when that was */
    uint64_t told;             /* workers to be told that batches are done, by bit */
    struct lock lock;          /* of `done` */
    struct run_batch *done[LIMIT_WORKERS];
};

/* --- lists --- */

void run_list_clear(struct run_list *list)
{
    list->first = NULL;
    list->last = NULL;
    list->count = 0;
}

void run_list_add(struct run_list *list, struct op *op)
{
    op->next = NULL;
    if (list->first)
        *list->last = op;
    else
        list->first = op;
    list->last = &op->next;
    list->count++;
}

static void put_in_front(struct run_list *list, struct run_list *front)
{
    if (!front->first)
        return;
    if (list->first)
        *front->last = list->first;
    else
        list->last = front->last;
    list->first = front->first;
    list->count += front->count;
    run_list_clear(front);
}

/* --- life --- */

static void ring(void *arg);

struct runs *runs_new(struct layer *layer)
{
    struct runs *runs = memory_take_zeroed(sizeof(*runs));
    runs->layer = layer;
    runs->groups = groups_new(layer);
    lock_init(&runs->lock);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct run_cell *cell = &runs->cells[i];
        cell->runs = runs;
        cell->number = i;
        run_list_clear(&cell->queue);
        call_init(&cell->call, layer, i, SCRIPT_RUN);
        cell->parts = memory_take(RUN_OPS_MAX * sizeof(*cell->parts));
    }
    runs->timer = timer_new(layer->loop, ring, runs);
    timer_start(runs->timer, TICK_MS, TICK_MS);
    return runs;
}

void runs_free(struct runs *runs)
{
    if (!runs)
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        assert(!runs->cells[i].is_calling);
        call_done(&runs->cells[i].call);
        free(runs->cells[i].parts);
    }
    timer_free(runs->timer);
    groups_free(runs->groups);
    lock_done(&runs->lock);
    free(runs);
}

static uint64_t now_ns(const struct runs *runs)
{
    return env_monotonic_ns(runs->layer->env);
}

/* --- the end of an op --- */

static struct run_batch *batch_of(const struct op *op)
{
    return (struct run_batch *)(uintptr_t)op->user_hash; // NOLINT(performance-no-int-to-ptr)
}

static uint64_t began_ns(const struct op *op)
{
    const struct run_batch *batch = batch_of(op);
    return batch ? batch->began_ns : ((const struct own_op *)op)->began_ns;
}

static void finish_batch(struct runs *runs, struct run_batch *batch)
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

void runs_finish_op(struct layer *layer, struct op *op)
{
    if (op->route)
        spreads_ended(layer, op);
    struct run_batch *batch = batch_of(op);
    if (!batch)
        free(op); /* the first member of an own op */
    else if (--batch->left == 0)
        finish_batch(layer->runs, batch);
}

static void fail(struct runs *runs, struct op *op, enum err code)
{
    op->code = code;
    runs_finish_op(runs->layer, op);
}

/* The cell cannot be asked. */
static void refuse(struct runs *runs, struct op *op)
{
    if (op_is_write(op->kind) || !batch_of(op) || runs->is_shut)
        fail(runs, op, ERR_UNAVAILABLE);
    else {
        loads_answer_stale(runs->layer, op);
        runs_finish_op(runs->layer, op);
    }
}

/* --- into a queue --- */

static bool is_in_trouble(const struct run_cell *cell, uint64_t now)
{
    return cell->trouble_ns != 0 && now - cell->trouble_ns >= TROUBLE_NS;
}

static bool needs_memory(const struct op *op)
{
    return op_is_write(op->kind) && op->kind != OP_DELETE && op->kind != OP_WITHDRAW;
}

static void enqueue(struct runs *runs, struct op *op, uint64_t now)
{
    struct run_cell *cell = &runs->cells[op->cell];
    if (runs->is_shut || is_in_trouble(cell, now) ||
        cluster_down_ns(runs->layer->cluster, op->cell) >= CALL_DOWN_NS) {
        refuse(runs, op);
        return;
    }
    if (now < cell->no_memory_ns && needs_memory(op)) {
        fail(runs, op, ERR_NO_MEMORY);
        return;
    }
    run_list_add(&cell->queue, op);
    runs->ready |= UINT64_C(1) << op->cell;
}

static bool may_be_spread(const struct op *op)
{
    return op->kind == OP_GET || op->kind == OP_EXISTS || op->kind == OP_COUNTS ||
           op->kind == OP_DESCRIBE || op->kind == OP_DEADLINE;
}

static void dispatch(struct runs *runs, struct op *op, uint64_t now)
{
    struct layer *layer = runs->layer;
    op->route = NULL;
    if (may_be_spread(op)) {
        if (spreads_read(layer, op)) {
            runs_finish_op(layer, op);
            return;
        }
        if (op->route)
            return; /* comes later */
    }
    unsigned cell = spreads_cell_of(layer, op);
    if (cell == UINT_MAX)
        return; /* taken */
    op->cell = (uint8_t)cell;
    enqueue(runs, op, now);
}

void runs_again(struct layer *layer, struct op *op)
{
    assert(layer_is_own_thread(layer));

    uint64_t now = now_ns(layer->runs);
    if (now - began_ns(op) > PATIENCE_NS)
        refuse(layer->runs, op);
    else
        dispatch(layer->runs, op, now);
}

/* --- ops of our own --- */

static void run_own(struct layer *layer, enum op_kind kind, struct slice id)
{
    assert(id.size <= LIMIT_ID_BYTES);

    struct own_op *own = memory_take_zeroed(sizeof(*own));
    memcpy(own->id, id.data, id.size);
    own->began_ns = now_ns(layer->runs);
    own->op.kind = kind;
    own->op.id = (struct slice){own->id, id.size};
    own->op.target = own->op.id;
    own->op.stable = hash_stable(own->op.id);
    own->op.cell = (uint8_t)layer_home(own->op.stable);
    enqueue(layer->runs, &own->op, own->began_ns);
}

void runs_sweep(struct layer *layer, struct slice id)
{
    run_own(layer, RUN_OP_SWEEP, id);
}

void runs_split(struct layer *layer, struct slice id)
{
    run_own(layer, RUN_OP_SPLIT, id);
}

/* --- a call --- */

static void call_ended(void *arg, enum err code, const struct redisReply *reply);

/* Numbers grow, also from one process to the next of the same name, and tell their time. */
static uint64_t next_number(struct run_cell *cell)
{
    uint64_t by_clock = (uint64_t)env_wall_ms(cell->runs->layer->env) * NUMBERS_A_MS;
    cell->call_number = by_clock > cell->call_number ? by_clock : cell->call_number + 1;
    return cell->call_number;
}

/* The time of the batch that came last is that of its ops. Ops of our own come when nobody else
 * does: they know how long ago that was. */
static int64_t time_for(const struct run_cell *cell)
{
    struct runs *runs = cell->runs;
    int64_t now_ms = atomic_load(&runs->now_ms);
    if (now_ms == 0)
        return env_wall_ms(runs->layer->env);
    if (cell->queue.first && batch_of(cell->queue.first))
        return now_ms;
    return now_ms + (int64_t)((now_ns(runs) - atomic_load(&runs->noted_ns)) / MS);
}

static void put_header(struct run_cell *cell, uint64_t number)
{
    struct layer *layer = cell->runs->layer;
    struct call *call = &cell->call;
    const struct kinds *kinds = layer->options.kinds;
    call_arg_pair(call, SLICE("call:"), slice_of(layer->node));
    call_arg_number(call, number);
    call_arg_number(call, (uint64_t)time_for(cell));
    call_arg_number(call, cell->epoch);
    call_arg_number(call, layer->options.outbox_max > 0 ? layer->options.outbox_max : UINT32_MAX);
    call_arg_number(call, layer->options.idle_s);
    call_arg_number(call, layer->options.keys_kept_ms);
    call_arg_text(call, atomic_load(&layer->has_store) ? "0" : "1");
    call_arg_number(call, kinds->count);
    for (unsigned kind = 1; kind <= kinds->count; kind++)
        call_arg(call, kinds_name(kinds, (uint8_t)kind));
}

/* Of what will go with the next call. */
static bool queue_writes(const struct run_cell *cell)
{
    size_t count = 0;
    for (const struct op *op = cell->queue.first; op && count < RUN_OPS_MAX; op = op->next, count++)
        if (run_op_writes(op))
            return true;
    return false;
}

static void start_call(struct run_cell *cell)
{
    call_clear(&cell->call, cell->number, SCRIPT_RUN);
    call_key(&cell->call, "out");
    cell->part_count = 0;
    /* Without an epoch it is asked for, and nothing is done yet. */
    put_header(cell, cell->has_epoch && queue_writes(cell) ? next_number(cell) : 0);
    if (cell->has_epoch)
        cell->part_count = groups_make(cell->runs->groups, &cell->call, &cell->queue, cell->parts);
    cell->is_calling = true;
    cell->called_ns = now_ns(cell->runs);
    call_start(&cell->call, CALL_MS, call_ended, cell);
}

/* A cell that has no server, or one that does not answer, is not asked again and again, and after a
 * while refuses what it is asked. */
static void note_trouble(struct run_cell *cell)
{
    uint64_t now = now_ns(cell->runs);
    if (cell->trouble_ns == 0) {
        cell->trouble_ns = now;
        cell->wait_ns = RETRY_NS;
    }
    cell->retry_ns = now + cell->wait_ns;
    cell->wait_ns = cell->wait_ns * 2 > RETRY_MAX_NS ? RETRY_MAX_NS : cell->wait_ns * 2;
}

static void start_if_due(struct run_cell *cell, uint64_t now)
{
    if (cell->is_calling || now < cell->retry_ns)
        return;
    struct cluster *cluster = cell->runs->layer->cluster;
    if (cluster_link(cluster, cell->number)) {
        start_call(cell);
        return;
    }
    note_trouble(cell);
    uint64_t down_since = now - cluster_down_ns(cluster, cell->number);
    if (down_since < cell->trouble_ns)
        cell->trouble_ns = down_since;
}

void runs_pass(struct runs *runs)
{
    uint64_t now = runs->ready ? now_ns(runs) : 0;
    for (uint64_t left = runs->ready; left != 0; left &= left - 1) {
        struct run_cell *cell = &runs->cells[__builtin_ctzll(left)];
        if (cell->queue.first)
            start_if_due(cell, now);
        if (!cell->queue.first)
            runs->ready &= ~(UINT64_C(1) << cell->number);
    }
    for (; runs->told != 0; runs->told &= runs->told - 1)
        if (runs->layer->base.finish)
            runs->layer->base.finish(runs->layer->base.finish_arg,
                                     (unsigned)__builtin_ctzll(runs->told));
}

/* --- how it ended --- */

static void all_is_well(struct run_cell *cell)
{
    cell->trouble_ns = 0;
    cell->retry_ns = 0;
}

/* May it be done twice? Reads, what has a key, and what says what shall hold afterwards. */
static bool is_safe(const struct op *op)
{
    return !op_is_write(op->kind) || op->key.size > 0 || op->kind == OP_REACT ||
           op->kind == OP_WITHDRAW;
}

/* All ops of the call, in the order in which those of an id were queued. */
static struct run_list take_ops(struct run_cell *cell)
{
    struct run_list all;
    run_list_clear(&all);
    for (size_t i = 0; i < cell->part_count; i++)
        for (struct op *op = cell->parts[i].ops.first, *next; op; op = next) {
            next = op->next;
            run_list_add(&all, op);
        }
    cell->part_count = 0;
    return all;
}

/* Back into the queue, those that have the patience. With `is_unknown`, nobody knows whether they
 * were done. */
static void queue_again(struct run_cell *cell, bool is_unknown)
{
    struct runs *runs = cell->runs;
    uint64_t now = now_ns(runs);
    struct run_list all = take_ops(cell);
    struct run_list again;
    run_list_clear(&again);
    for (struct op *op = all.first, *next; op; op = next) {
        next = op->next;
        uint64_t patience = op_is_write(op->kind) ? PATIENCE_NS : READ_NS;
        if (is_unknown && !is_safe(op))
            fail(runs, op, ERR_TIMEOUT);
        else if (runs->is_shut || (cell->trouble_ns != 0 && now - began_ns(op) > patience))
            refuse(runs, op);
        else
            run_list_add(&again, op);
    }
    put_in_front(&cell->queue, &again);
    if (cell->queue.first)
        runs->ready |= UINT64_C(1) << cell->number;
}

static void fail_all(struct run_cell *cell, enum err code)
{
    struct run_list all = take_ops(cell);
    for (struct op *op = all.first, *next; op; op = next) {
        next = op->next;
        fail(cell->runs, op, code);
    }
}

/* The server has no memory for writes; what it has can be read. */
static void out_of_memory(struct run_cell *cell)
{
    cell->no_memory_ns = now_ns(cell->runs) + NO_MEMORY_NS;
    struct run_list all = take_ops(cell);
    struct run_list again;
    run_list_clear(&again);
    for (struct op *op = all.first, *next; op; op = next) {
        next = op->next;
        if (op_is_write(op->kind))
            fail(cell->runs, op, ERR_NO_MEMORY);
        else
            run_list_add(&again, op);
    }
    put_in_front(&cell->queue, &again);
    if (cell->queue.first)
        cell->runs->ready |= UINT64_C(1) << cell->number;
}

static bool take_decimal(struct slice *text, uint64_t *ret_value)
{
    size_t size = 0;
    while (size < text->size && text->data[size] != ' ')
        size++;
    if (!decimal_parse_unsigned((struct slice){text->data, size}, ret_value))
        return false;
    size += size < text->size;
    text->data += size;
    text->size -= size;
    return true;
}

static void take_answers(struct run_cell *cell, struct slice text)
{
    struct runs *runs = cell->runs;
    struct run_verdict verdict = {.layer = runs->layer, .cell = cell->number};
    run_list_clear(&verdict.again);
    if (!take_decimal(&text, &verdict.epoch) || !take_decimal(&text, &verdict.n)) {
        fail_all(cell, ERR_CORRUPT);
        return;
    }
    cell->epoch = verdict.epoch;
    cell->has_epoch = true;
    bool writes = false;
    for (size_t i = 0; i < cell->part_count; i++)
        writes |= cell->parts[i].is_writing;
    if (writes)
        outbox_note_written(runs->layer, cell->number);
    reply_take(&verdict, runs->groups, cell->parts, cell->part_count, text);
    cell->part_count = 0;
    put_in_front(&cell->queue, &verdict.again);
    if (cell->queue.first)
        runs->ready |= UINT64_C(1) << cell->number;
}

/* Closed, of another epoch, or overtaken: this try has done nothing; an earlier one may have. */
static void met_other(struct run_cell *cell, struct slice text)
{
    bool is_unknown = cell->call.may_be_done;
    if (text.data[0] == 'E') {
        text.data++;
        text.size--;
        cell->has_epoch = take_decimal(&text, &cell->epoch);
        all_is_well(cell);
    } else if (text.data[0] == 'C') {
        cell->has_epoch = false;
        note_trouble(cell);
        opens_met_closed(cell->runs->layer, cell->number);
    }
    queue_again(cell, is_unknown);
}

static void call_ended(void *arg, enum err code, const struct redisReply *reply)
{
    struct run_cell *cell = arg;
    cell->is_calling = false;
    if (code == ERR_OK && (reply->type != REDIS_REPLY_STRING || reply->len == 0))
        code = ERR_REFUSED;
    if (code == ERR_OK && reply->str[0] == 'O') {
        all_is_well(cell);
        take_answers(cell, (struct slice){reply->str + 1, reply->len - 1});
    } else if (code == ERR_OK) {
        met_other(cell, (struct slice){reply->str, reply->len});
    } else if (code == ERR_NO_MEMORY) {
        out_of_memory(cell);
    } else if (code == ERR_UNAVAILABLE || code == ERR_TIMEOUT) {
        note_trouble(cell);
        queue_again(cell, code == ERR_TIMEOUT);
    } else {
        note_trouble(cell);
        fail_all(cell, ERR_IO);
    }
}

/* Now and then: cells in trouble are asked whether they are well again, and who has waited for too
 * long behind a call is refused. */
static void refuse_impatient(struct run_cell *cell, uint64_t now)
{
    struct run_list old = cell->queue;
    run_list_clear(&cell->queue);
    for (struct op *op = old.first, *next; op; op = next) {
        next = op->next;
        uint64_t patience = op_is_write(op->kind) ? PATIENCE_NS : READ_NS;
        if (is_in_trouble(cell, now) || now - began_ns(op) > patience)
            refuse(cell->runs, op);
        else
            run_list_add(&cell->queue, op);
    }
}

static void ring(void *arg)
{
    struct runs *runs = arg;
    uint64_t now = now_ns(runs);
    for (unsigned i = 0; i < LIMIT_CELLS && !runs->is_shut; i++) {
        struct run_cell *cell = &runs->cells[i];
        if (cell->is_calling && cell->trouble_ns == 0 && now - cell->called_ns > SLOW_NS)
            cell->trouble_ns = cell->called_ns; /* who comes now does not wait for its end */
        if (cell->trouble_ns == 0)
            continue;
        refuse_impatient(cell, now);
        start_if_due(cell, now);
    }
    runs_pass(runs);
}

void runs_note_time(struct runs *runs, int64_t now_ms)
{
    atomic_store(&runs->noted_ns, now_ns(runs));
    atomic_store(&runs->now_ms, now_ms);
}

void runs_cell_opened(struct layer *layer, unsigned cell)
{
    assert(layer_is_own_thread(layer));

    all_is_well(&layer->runs->cells[cell]);
    layer->runs->ready |= UINT64_C(1) << cell;
}

void runs_shut(struct runs *runs)
{
    runs->is_shut = true;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct run_cell *cell = &runs->cells[i];
        for (struct op *op = cell->queue.first, *next; op; op = next) {
            next = op->next;
            refuse(runs, op);
        }
        run_list_clear(&cell->queue);
    }
    runs->ready = 0;
    runs_pass(runs);
}

/* --- batches, on the worker's thread --- */

static bool is_counter_op(enum op_kind kind)
{
    return kind <= OP_DESCRIBE;
}

/* "item/kind" counters follow their members: only reading them, and saying how
 * many shards they shall have, makes sense. */
static bool may_name_a_reaction(enum op_kind kind)
{
    return kind == OP_GET || kind == OP_EXISTS || kind == OP_CREATE || kind == OP_DEADLINE ||
           kind == OP_DESCRIBE;
}

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
    if (is_counter_op(op->kind) &&
        kinds_split(layer->options.kinds, op->id, &op->target, &op->target_kind) &&
        !may_name_a_reaction(op->kind)) {
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
        if (!has_written && may_be_spread(op) && spreads_answer(layer, op))
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
    uint64_t now = now_ns(runs);
    run->began_ns = now;
    runs_note_time(runs, run->batch->now_ms);
    for (size_t left = run->left; left > 0; op++) /* with the last one the batch may be gone */
        if (op->user_hash != 0) {
            left--;
            dispatch(runs, op, now);
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
