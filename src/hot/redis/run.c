#include "hot/redis/run.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "hot/redis/cluster.h"
#include "hot/redis/run_own.h"
#include "hot/redis/spread.h"
#include "net/timer.h"

#define CALL_MS      3000u           /* all tries of a call together */
#define TROUBLE_NS   (1000 * RUN_MS) /* a cell in trouble for so long refuses at once */
#define SLOW_NS      (1500 * RUN_MS) /* a call that takes so long is trouble */
#define RETRY_NS     (20 * RUN_MS)
#define RETRY_MAX_NS (200 * RUN_MS)
#define TICK_MS      20u
#define NUMBERS_A_MS 1024u /* call numbers, so that a number tells its time */

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

/* --- the end of an op --- */

void runs_finish_op(struct layer *layer, struct op *op)
{
    if (op->route)
        spreads_ended(layer, op);
    struct run_batch *batch = run_batch_of(op);
    if (!batch)
        free(op); /* the first member of an own op */
    else if (--batch->left == 0)
        run_batch_finish(layer->runs, batch);
}

void run_fail(struct runs *runs, struct op *op, enum err code)
{
    op->code = code;
    runs_finish_op(runs->layer, op);
}

void run_refuse(struct runs *runs, struct op *op)
{
    if (op_is_write(op->kind) || !run_batch_of(op) || runs->is_shut)
        run_fail(runs, op, ERR_UNAVAILABLE);
    else {
        loads_answer_stale(runs->layer, op);
        runs_finish_op(runs->layer, op);
    }
}

/* --- into a queue --- */

static bool is_in_trouble(const struct run_cell *cell, uint64_t now)
{
    return cell->trouble_ns != 0 &&
           now - cell->trouble_ns >= TROUBLE_NS * cell->runs->layer->options.patience;
}

static bool needs_memory(const struct op *op)
{
    return op_is_write(op->kind) && op->kind != OP_DELETE && op->kind != OP_WITHDRAW;
}

static void enqueue(struct runs *runs, struct op *op, uint64_t now)
{
    struct run_cell *cell = &runs->cells[op->cell];
    if (runs->is_shut || is_in_trouble(cell, now) ||
        cluster_is_down(runs->layer->cluster, op->cell)) {
        run_refuse(runs, op);
        return;
    }
    if (now < cell->no_memory_ns && needs_memory(op)) {
        run_fail(runs, op, ERR_NO_MEMORY);
        return;
    }
    run_list_add(&cell->queue, op);
    runs->ready |= UINT64_C(1) << op->cell;
}

void run_dispatch(struct runs *runs, struct op *op, uint64_t now)
{
    struct layer *layer = runs->layer;
    op->route = NULL;
    if (spread_sum_will_do(op)) {
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

void run_put_back(struct run_cell *cell, struct run_list *front)
{
    put_in_front(&cell->queue, front);
    if (cell->queue.first)
        cell->runs->ready |= UINT64_C(1) << cell->number;
}

uint64_t runs_batch_serial(const struct op *op)
{
    const struct run_batch *batch = run_batch_of(op);
    return batch ? batch->serial : 0;
}

void runs_again(struct layer *layer, struct op *op)
{
    assert(layer_is_own_thread(layer));

    uint64_t now = run_now_ns(layer->runs);
    uint64_t patience_ns = RUN_PATIENCE_NS * layer->options.patience;
    if (now - run_began_ns(op) > (layer->runs->is_hurried ? RUN_HURRY_NS : patience_ns))
        run_refuse(layer->runs, op);
    else
        run_dispatch(layer->runs, op, now);
}

bool runs_is_impatient(const struct layer *layer, const struct op *op)
{
    return run_now_ns(layer->runs) - run_began_ns(op) > run_patience_ns(layer->runs, op);
}

void runs_refuse(struct layer *layer, struct op *op)
{
    run_refuse(layer->runs, op);
}

/* --- ops of our own --- */

static void run_own(struct layer *layer, enum op_kind kind, struct slice id)
{
    assert(id.size <= LIMIT_ID_BYTES);

    struct own_op *own = memory_take_zeroed(sizeof(*own));
    memcpy(own->id, id.data, id.size);
    own->began_ns = run_now_ns(layer->runs);
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
    if (cell->queue.first && run_batch_of(cell->queue.first))
        return now_ms;
    return now_ms + (int64_t)((run_now_ns(runs) - atomic_load(&runs->noted_ns)) / RUN_MS);
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
    cell->called_ns = run_now_ns(cell->runs);
    call_start(&cell->call, CALL_MS * cell->runs->layer->options.patience, run_call_ended, cell);
}

void run_note_trouble(struct run_cell *cell)
{
    uint64_t now = run_now_ns(cell->runs);
    if (cell->trouble_ns == 0) {
        cell->trouble_ns = now;
        cell->wait_ns = RETRY_NS;
    }
    cell->retry_ns = now + cell->wait_ns;
    cell->wait_ns = cell->wait_ns * 2 > RETRY_MAX_NS ? RETRY_MAX_NS : cell->wait_ns * 2;
}

void run_all_is_well(struct run_cell *cell)
{
    cell->trouble_ns = 0;
    cell->retry_ns = 0;
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
    run_note_trouble(cell);
    uint64_t down_since = now - cluster_down_ns(cluster, cell->number);
    if (down_since < cell->trouble_ns)
        cell->trouble_ns = down_since;
}

void runs_pass(struct runs *runs)
{
    uint64_t now = runs->ready ? run_now_ns(runs) : 0;
    for (uint64_t left = runs->ready; left != 0; left &= left - 1) {
        struct run_cell *cell = &runs->cells[__builtin_ctzll(left)];
        if (cell->queue.first)
            start_if_due(cell, now);
        if (!cell->queue.first)
            runs->ready &= ~(UINT64_C(1) << cell->number);
    }
}

void runs_tell(struct runs *runs)
{
    for (; runs->told != 0; runs->told &= runs->told - 1)
        if (runs->layer->base.finish)
            runs->layer->base.finish(runs->layer->base.finish_arg,
                                     (unsigned)__builtin_ctzll(runs->told));
}

/* --- now and then --- */

static void refuse_impatient(struct run_cell *cell, uint64_t now)
{
    struct run_list old = cell->queue;
    run_list_clear(&cell->queue);
    for (struct op *op = old.first, *next; op; op = next) {
        next = op->next;
        if (is_in_trouble(cell, now) || now - run_began_ns(op) > run_patience_ns(cell->runs, op))
            run_refuse(cell->runs, op);
        else
            run_list_add(&cell->queue, op);
    }
}

/* Now and then: cells in trouble are asked whether they are well again, and who has waited for too
 * long behind a call is refused. */
static void ring(void *arg)
{
    struct runs *runs = arg;
    uint64_t now = run_now_ns(runs);
    for (unsigned i = 0; i < LIMIT_CELLS && !runs->is_shut; i++) {
        struct run_cell *cell = &runs->cells[i];
        if (cell->is_calling && cell->trouble_ns == 0 &&
            now - cell->called_ns > SLOW_NS * runs->layer->options.patience)
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
    atomic_store(&runs->noted_ns, run_now_ns(runs));
    atomic_store(&runs->now_ms, now_ms);
}

void runs_cell_opened(struct layer *layer, unsigned cell)
{
    assert(layer_is_own_thread(layer));

    run_all_is_well(&layer->runs->cells[cell]);
    layer->runs->ready |= UINT64_C(1) << cell;
}

void runs_hurry(struct runs *runs)
{
    runs->is_hurried = true;
}

void runs_shut(struct runs *runs)
{
    runs->is_shut = true;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct run_cell *cell = &runs->cells[i];
        for (struct op *op = cell->queue.first, *next; op; op = next) {
            next = op->next;
            run_refuse(runs, op);
        }
        run_list_clear(&cell->queue);
    }
    runs->ready = 0;
    runs_tell(runs);
}
