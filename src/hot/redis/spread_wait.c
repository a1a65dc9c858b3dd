/* spread_wait.c - ops that wait: for the map, for the writes before them, for others of their
 * batch. */
#include <assert.h>

#include "core/bucket.h"
#include "hot/redis/spread_own.h"

/* ---- for the map ---- */

void spread_go_again(struct spread_entry *entry, struct spread_ops *ops)
{
    struct spread_ops list = *ops;
    *ops = (struct spread_ops){0};
    for (struct op *op = spread_ops_take(&list); op; op = spread_ops_take(&list)) {
        op->route = NULL;
        runs_again(entry->layer, op);
    }
}

void spread_met_map(struct spread_entry *entry)
{
    spread_take_over_if_left(entry);
    if (spreads_now_ns(entry->layer->spreads) >= entry->rest_until_ns)
        spread_go_again(entry, &entry->for_map);
}

void spread_wait_for_map(struct spread_entry *entry, struct op *op, bool at_once)
{
    op->route = NULL;
    spread_ops_add(&entry->for_map, op);
    if (at_once && !entry->refresh) {
        entry->rest_until_ns = 0;
        refresh_start(entry);
        return;
    }
    uint64_t now_ns = spreads_now_ns(entry->layer->spreads);
    if (entry->rest_until_ns <= now_ns) {
        entry->rest_until_ns = now_ns + SPREAD_REST_NS;
        timer_start(entry->layer->spreads->timer, 1 + SPREAD_REST_NS / 1000000, SPREAD_TICK_MS);
    }
}

/* ---- writes under way, and reads behind them ---- */

/* An op knows its entry and, in the lowest bit, its turn. */
void spread_count_in(struct spread_entry *entry, struct op *op)
{
    op->route = (char *)entry + entry->turn;
    entry->under_way[entry->turn]++;
}

static unsigned turn_of(const struct op *op)
{
    return (uintptr_t)op->route & 1;
}

struct spread_entry *spread_entry_of(const struct op *op)
{
    return op->route ? (struct spread_entry *)((char *)op->route - turn_of(op)) : NULL;
}

static void turn_over(struct spread_entry *entry)
{
    unsigned old = 1 - entry->turn;
    if (entry->under_way[old] > 0)
        return;
    struct spread_ops reads = entry->behind[old];
    entry->behind[old] = (struct spread_ops){0};
    if (entry->behind[entry->turn].first)
        entry->turn = old; /* from now on the others are the ones that are waited for */
    spread_read_on(entry, &reads);
    if (entry->behind[1 - entry->turn].first && entry->under_way[1 - entry->turn] == 0)
        turn_over(entry);
}

static void count_out(struct spread_entry *entry, unsigned turn)
{
    assert(entry->under_way[turn] > 0);
    entry->under_way[turn]--;
    turn_over(entry);
    spread_fold_if_quiet(entry);
}

void spreads_ended(struct layer *layer, struct op *op)
{
    struct spread_entry *entry = spread_entry_of(op);
    (void)layer;
    if (!entry)
        return;
    unsigned turn = turn_of(op);
    op->route = NULL;
    count_out(entry, turn);
}

/* Does the map say that the cell which has answered is the right one? */
static bool is_owner(const struct spread_entry *entry, const struct op *op)
{
    if (op_has_user(op->kind))
        return entry->map.owner[bucket_slice(op->bucket)] == op->cell;
    if (op->kind == OP_MEMBERS)
        return entry->map.owner[spread_slice_of_cursor(op)] == op->cell;
    return entry->map.cells & map_bit(op->cell);
}

void spreads_met_moved(struct layer *layer, struct op *op, bool is_moving)
{
    struct spread_entry *entry = spread_get(layer->spreads, op->stable, op->target);
    uint64_t now_ns = spreads_now_ns(layer->spreads);
    bool was_counted = op->route != NULL;
    unsigned turn = turn_of(op);
    bool knew = was_counted && entry->has_map && is_owner(entry, op);
    entry->used_ns = now_ns;
    if (knew && entry->map.change == MAP_STEADY)
        spread_note_strange(entry);
    /* What waits behind it finds it waiting. */
    spread_wait_for_map(entry, op, !is_moving && !(knew && entry->strange_count > 1));
    if (was_counted)
        count_out(entry, turn);
}

bool spread_waits_behind(struct spread_entry *entry, struct op *op)
{
    if (entry->under_way[0] + entry->under_way[1] == 0)
        return false;
    op->route = entry;
    unsigned waits_for = entry->turn;
    spread_ops_add(&entry->behind[waits_for], op);
    if (entry->under_way[1 - entry->turn] == 0 && !entry->behind[1 - entry->turn].first)
        entry->turn = 1 - entry->turn;
    return true;
}

/* ---- the order of a batch ---- */

bool spread_ops_have_earlier(const struct spread_ops *ops, const struct op *op)
{
    uint64_t batch = runs_batch_serial(op);
    if (batch == 0)
        return false;
    for (const struct op *other = ops->first; other; other = other->next)
        if (runs_batch_serial(other) == batch && other < op)
            return true;
    return false;
}

bool spread_waits_for_earlier(struct spread_entry *entry, struct op *op, bool is_read)
{
    if (entry->for_map.first && spread_ops_have_earlier(&entry->for_map, op)) {
        spread_wait_for_map(entry, op, false);
        op->route = entry;
        return true;
    }
    bool has_read = !is_read && (spread_ops_have_earlier(&entry->behind[0], op) ||
                                 spread_ops_have_earlier(&entry->behind[1], op) ||
                                 spread_ops_have_earlier(&entry->for_refresh, op) ||
                                 spread_ops_have_earlier(&entry->for_next, op));
    if (!has_read && !spread_ops_have_earlier(&entry->behind_reads, op))
        return false;
    op->route = entry;
    spread_ops_add(&entry->behind_reads, op);
    return true;
}

void spread_was_read(struct spread_entry *entry)
{
    if (entry->behind_reads.first)
        spread_go_again(entry, &entry->behind_reads);
}
