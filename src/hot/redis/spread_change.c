/* spread_change.c - what is asked of the mover: folds that an op needs, shards that a creation asks
 * for, changes that somebody left, owners that say they are none. */
#include "hot/redis/mover.h"
#include "hot/redis/spread_own.h"

#define TAKE_OVER_MS  1000                 /* a change that nobody has finished for so long */
#define STRANGE_NS    UINT64_C(1500000000) /* owners that say they are none: */
#define STRANGE_TIMES 10u                  /* for so long and so often, and it was lost */

static void ask_mover(struct spread_entry *entry, enum mover_work work, uint32_t shards,
                      enum heat_reason reason)
{
    if (entry->is_moving)
        return;
    entry->is_moving = mover_ask(entry->layer->spreads->mover, entry, work, shards, reason);
}

void spread_take_over_if_left(struct spread_entry *entry)
{
    int64_t age_ms = env_wall_ms(entry->layer->env) - (int64_t)entry->map.version;
    if (entry->has_map && entry->map.change != MAP_STEADY && age_ms > TAKE_OVER_MS)
        ask_mover(entry, MOVER_GO_ON, 0, HEAT_UNCHANGED);
}

void spread_note_strange(struct spread_entry *entry)
{
    uint64_t now_ns = spreads_now_ns(entry->layer->spreads);
    bool is_new = entry->strange_version != entry->map.version ||
                  now_ns - entry->strange_last_ns > STRANGE_NS;
    if (is_new) {
        entry->strange_version = entry->map.version;
        entry->strange_count = 0;
        entry->strange_ns = now_ns;
    }
    entry->strange_last_ns = now_ns;
    entry->strange_count++;
    if (entry->strange_count >= STRANGE_TIMES && now_ns - entry->strange_ns > STRANGE_NS) {
        entry->strange_count = 0;
        entry->strange_ns = now_ns;
        ask_mover(entry, MOVER_DISSOLVE, 0, HEAT_UNCHANGED);
    }
}

/* ---- what is created with shards ---- */

bool spreads_created(struct layer *layer, struct op *op)
{
    if (op->create->shards <= 1 || op->create->has_floor)
        return false;
    struct spread_entry *entry = spread_get(layer->spreads, op->stable, op->target);
    ask_mover(entry, MOVER_RESHARD, op->create->shards, HEAT_CREATED);
    if (!entry->is_moving)
        return false;
    spread_ops_add(&entry->created, op);
    return true;
}

void spreads_loaded(struct layer *layer, struct slice id, uint32_t shards)
{
    if (shards > 1)
        mover_ask_id(layer->spreads->mover, id, shards, HEAT_CREATED);
}

static void finish_created(struct spread_entry *entry)
{
    struct spread_ops ops = entry->created;
    entry->created = (struct spread_ops){0};
    for (struct op *op = spread_ops_take(&ops); op; op = spread_ops_take(&ops))
        runs_finish_op(entry->layer, op);
}

/* ---- what needs the whole ---- */

void spread_fold_if_quiet(struct spread_entry *entry)
{
    if (!entry->folds || entry->is_folding || entry->under_way[0] + entry->under_way[1] > 0 ||
        entry->is_moving || entry->for_map.first)
        return;
    entry->is_folding =
        mover_ask(entry->layer->spreads->mover, entry, MOVER_RESHARD, 1, HEAT_BY_HAND);
    entry->is_moving = entry->is_folding;
}

void spread_wait_for_fold(struct spread_entry *entry, struct op *op)
{
    op->route = entry;
    spread_ops_add(&entry->for_fold, op);
    entry->folds = true;
    spread_fold_if_quiet(entry);
}

static void end_fold(struct spread_entry *entry)
{
    struct spread_ops ops = entry->for_fold;
    entry->for_fold = (struct spread_ops){0};
    entry->folds = false;
    spread_go_again(entry, &ops);
}

/* Reads get what is known, if a sum will do. */
static void give_up_waiting(struct spread_entry *entry, struct op *op, struct spread_ops *reads)
{
    op->route = NULL;
    if (entry->has_map && spread_sum_will_do(op))
        spread_ops_add(reads, op);
    else
        runs_refuse(entry->layer, op);
}

/* With the last op that needs the fold the others go on, too: but not while the pieces are being
 * put together, so that nothing is under way to them when they are gone. */
static void end_needless_fold(struct spread_entry *entry)
{
    if (entry->is_folding)
        return;
    for (const struct op *op = entry->for_fold.first; op; op = op->next)
        if (spread_needs_fold(entry, op))
            return;
    end_fold(entry);
}

/* A fold waits for the log, which may be down. Whoever has waited for long enough is refused; a
 * read behind a write of its batch is as patient as that. */
static void refuse_impatient(struct spread_entry *entry)
{
    struct spread_ops all = entry->for_fold;
    struct spread_ops reads = {0};
    entry->for_fold = (struct spread_ops){0};
    for (struct op *op = spread_ops_take(&all); op; op = spread_ops_take(&all)) {
        if (runs_is_impatient(entry->layer, op) && !spread_ops_have_earlier(&entry->for_fold, op))
            give_up_waiting(entry, op, &reads);
        else
            spread_ops_add(&entry->for_fold, op);
    }
    end_needless_fold(entry);
    if (reads.first)
        spread_read_on(entry, &reads);
}

/* What was created is there, in one piece until it can be spread. */
static void finish_impatient(struct spread_entry *entry)
{
    struct spread_ops all = entry->created;
    entry->created = (struct spread_ops){0};
    for (struct op *op = spread_ops_take(&all); op; op = spread_ops_take(&all))
        if (runs_is_impatient(entry->layer, op))
            runs_finish_op(entry->layer, op);
        else
            spread_ops_add(&entry->created, op);
}

void spread_let_go(struct spread_entry *entry)
{
    if (entry->for_fold.first)
        refuse_impatient(entry);
    if (entry->created.first)
        finish_impatient(entry);
}

void spread_was_moved(struct spread_entry *entry, enum err code)
{
    finish_created(entry);
    struct spreads *spreads = entry->layer->spreads;
    entry->is_moving = false;
    atomic_fetch_add(&spreads->changes, 1);
    bool was_folding = entry->is_folding;
    entry->is_folding = false;
    if (was_folding && (code == ERR_OK || code == ERR_NOT_FOUND)) {
        entry->has_map = false;
        total_withdraw(entry);
        end_fold(entry);
        return;
    }
    end_needless_fold(entry);
    spread_fold_if_quiet(entry);
    refresh_start(entry);
}
