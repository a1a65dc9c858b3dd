/* spread_route.c - where an op on something spread goes: to a cell, or nowhere yet. */
#include <limits.h>

#include "core/bucket.h"
#include "hot/redis/spread_own.h"

#define SLOWEST_NS UINT64_C(60000000000) /* a primary that is down counts as this slow */

unsigned spread_slice_of_cursor(const struct op *op)
{
    uint64_t slice = op->page->cursor >> 56;
    return slice > 0 && slice <= BUCKET_SLICES ? (unsigned)slice - 1 : 0;
}

static uint64_t load_of(const struct spreads *spreads, unsigned primary)
{
    uint64_t latency_ns = layer_latency_ns(spreads->layer, primary);
    if (latency_ns > SLOWEST_NS)
        latency_ns = SLOWEST_NS;
    return (latency_ns + 1) * (1 + spreads->picks[primary]);
}

static unsigned pick(struct spreads *spreads, const struct spread_entry *entry)
{
    const struct map *map = &entry->map;
    uint64_t loads[BUCKET_SLICES];
    if (entry->create.policy == POLICY_LEAST_LOADED)
        for (unsigned s = 0; s < BUCKET_SLICES; s++)
            loads[s] = load_of(spreads, layer_primary_of(spreads->layer, map->owner[s]));
    uint32_t turn =
        shard_pick(&spreads->picker, entry->create.policy, entry->stable, BUCKET_SLICES, loads);
    /* Neighbours are often of one cell; this goes through all, a little less in order. */
    unsigned cell =
        map->owner[entry->create.policy == POLICY_LEAST_LOADED ? turn : turn * 37 % BUCKET_SLICES];
    spreads->picks[layer_primary_of(spreads->layer, cell)]++;
    return cell;
}

/* It will be refused, if all is as we know it. */
static unsigned look_first(struct spread_entry *entry, struct op *op)
{
    op->route = entry;
    spread_ops_add(&entry->for_next, op);
    if (!entry->refresh)
        refresh_start(entry);
    return UINT_MAX;
}

static unsigned send_to(struct spread_entry *entry, struct op *op, unsigned cell)
{
    spread_count_in(entry, op);
    return cell;
}

/* All sums of a batch go to one cell, so that they happen in their order; which is also the
 * cheapest. A key is where it was used: at home. */
static unsigned send_sum(struct spread_entry *entry, struct op *op)
{
    uint64_t batch = runs_batch_serial(op);
    bool is_same_batch = batch != 0 && entry->pick_batch == batch &&
                         map_owners(&entry->map) & map_bit(entry->pick_cell);
    unsigned cell = entry->home;
    if (op->key.size == 0 && !op->amount.big)
        cell = is_same_batch ? entry->pick_cell : pick(entry->layer->spreads, entry);
    if (is_same_batch && entry->pick_cell != cell && spread_waits_behind(entry, op))
        return UINT_MAX;
    entry->pick_batch = batch;
    entry->pick_cell = cell;
    return send_to(entry, op, cell);
}

/* Is it meant for the other kind of thing? */
static bool is_of_wrong_type(const struct spread_entry *entry, const struct op *op)
{
    if (op_has_user(op->kind) || op->kind == OP_MEMBERS)
        return !entry->map.is_item;
    return entry->map.is_item && op->kind != OP_CREATE && op->kind != OP_DELETE;
}

bool spread_sum_will_do(const struct op *op)
{
    return op->kind == OP_GET || op->kind == OP_EXISTS || op->kind == OP_COUNTS ||
           op->kind == OP_DESCRIBE || op->kind == OP_DEADLINE;
}

bool spread_needs_fold(const struct spread_entry *entry, const struct op *op)
{
    if (!entry->has_map || spread_sum_will_do(op))
        return false;
    if (total_is_over(entry))
        return true; /* home sees to that */
    bool goes_to_piece = op_has_user(op->kind) || op->kind == OP_MEMBERS || op->kind == OP_ADD;
    bool is_refused = op->kind == OP_CREATE && op->key.size == 0;
    return !goes_to_piece && !is_refused && !is_of_wrong_type(entry, op);
}

unsigned spreads_cell_of(struct layer *layer, struct op *op)
{
    struct spreads *spreads = layer->spreads;
    struct spread_entry *entry = spread_find(spreads, op->stable, op->target);
    op->route = NULL;
    if (!entry)
        return layer_home(op->stable);
    entry->used_ns = spreads_now_ns(spreads);
    if (spread_waits_for_earlier(entry, op, false))
        return UINT_MAX;
    if (entry->folds || spread_needs_fold(entry, op)) {
        spread_wait_for_fold(entry, op);
        return UINT_MAX;
    }
    if (!entry->has_map)
        return entry->home;
    if (is_of_wrong_type(entry, op))
        return look_first(entry, op);
    if (op_has_user(op->kind))
        return send_to(entry, op, entry->map.owner[bucket_slice(op->bucket)]);
    if (op->kind == OP_MEMBERS)
        return send_to(entry, op, entry->map.owner[spread_slice_of_cursor(op)]);
    if (op->kind == OP_ADD)
        return send_sum(entry, op);
    return look_first(entry, op);
}

/* ---- reads ---- */

/* True: answered. */
static bool read_now(struct spread_entry *entry, struct op *op)
{
    if (!op->exact && total_is_fresh(entry)) {
        op->route = NULL;
        total_answer(entry, op);
        return true;
    }
    op->route = entry;
    spread_ops_add(&entry->for_next, op);
    if (!entry->refresh)
        refresh_start(entry);
    return false;
}

void spread_read_on(struct spread_entry *entry, struct spread_ops *reads)
{
    for (struct op *op = spread_ops_take(reads); op; op = spread_ops_take(reads)) {
        op->route = NULL;
        if (spread_ops_have_earlier(&entry->for_map, op)) {
            spread_wait_for_map(entry, op, false);
            continue;
        }
        entry->pick_batch = op_is_write(op->kind) ? 0 : entry->pick_batch;
        if (!entry->has_map || op_is_write(op->kind))
            runs_again(entry->layer, op);
        else if (read_now(entry, op))
            runs_finish_op(entry->layer, op);
    }
    spread_was_read(entry);
}

bool spreads_read(struct layer *layer, struct op *op)
{
    struct spreads *spreads = layer->spreads;
    struct spread_entry *entry = spread_find(spreads, op->stable, op->target);
    op->route = NULL;
    if (!entry || !entry->has_map || op->kind == OP_REACTION || op->kind == OP_MEMBERS)
        return false;
    entry->used_ns = spreads_now_ns(spreads);
    entry->is_read = true;
    if (spread_waits_for_earlier(entry, op, true))
        return false;
    /* The sum is right at every step of a fold; who has written before in the same batch, and
     * waits, wants to see that, though. */
    if (spread_ops_have_earlier(&entry->for_fold, op)) {
        spread_wait_for_fold(entry, op);
        return false;
    }
    return !spread_waits_behind(entry, op) && read_now(entry, op);
}
