#include "hot/redis/spread.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "hot/redis/mover.h"

#define TICK_MS        100u
#define REST_NS        UINT64_C(3000000)      /* before the map is read again */
#define TAKE_OVER_MS   1000                   /* a change that nobody has finished for so long */
#define STRANGE_NS     UINT64_C(1500000000)   /* owners that say they are none: */
#define STRANGE_TIMES  10u                    /* for so long and so often, and it was lost */
#define FOLD_NS        UINT64_C(20000000000)  /* an op waits for a fold so long */
#define FORGET_NS      UINT64_C(120000000000) /* what nobody uses */
#define REFRESH_AGE_NS UINT64_C(90000000)     /* while it is being read */

/* ---- ops in a row ---- */

void spread_ops_add(struct spread_ops *ops, struct op *op)
{
    op->next = NULL;
    if (ops->first)
        ops->last->next = op;
    else
        ops->first = op;
    ops->last = op;
}

struct op *spread_ops_take(struct spread_ops *ops)
{
    struct op *op = ops->first;
    if (op)
        ops->first = op->next;
    return op;
}

/* Does one of them come before the op in the same batch? A batch is an array, and ops of one id
 * happen in its order. */
static bool has_earlier(const struct spread_ops *ops, const struct op *op)
{
    for (const struct op *other = ops->first; other; other = other->next)
        if (other->user_hash == op->user_hash && other < op)
            return true;
    return false;
}

/* ---- entries ---- */

struct spread_entry *spread_find(struct spreads *spreads, uint64_t stable, struct slice id)
{
    if (spreads->count == 0)
        return NULL;
    struct spread_entry *entry = spreads->table[stable / LIMIT_CELLS % SPREAD_TABLE];
    while (entry && !(entry->stable == stable && slice_equal(entry->id, id)))
        entry = entry->next;
    return entry;
}

struct spread_entry *spread_get(struct spreads *spreads, uint64_t stable, struct slice id)
{
    struct spread_entry *entry = spread_find(spreads, stable, id);
    if (entry)
        return entry;
    char *copy = memory_take(id.size);
    memcpy(copy, id.data, id.size);
    entry = memory_take_zeroed(sizeof(*entry));
    entry->layer = spreads->layer;
    entry->id = (struct slice){copy, id.size};
    entry->stable = stable;
    entry->home = layer_home(stable);
    entry->used_ns = spreads_now_ns(spreads);
    struct spread_entry **list = &spreads->table[stable / LIMIT_CELLS % SPREAD_TABLE];
    entry->next = *list;
    *list = entry;
    spreads->count++;
    return entry;
}

static void free_entry(struct spread_entry *entry)
{
    if (entry->refresh)
        refresh_free(entry->refresh);
    total_forget(entry);
    free((char *)entry->id.data);
    free(entry);
}

/* Does nobody need it? */
static bool is_idle(const struct spread_entry *entry, uint64_t now_ns)
{
    bool is_waited_for = entry->refresh || entry->behind_reads.first || entry->for_map.first ||
                         entry->for_refresh.first || entry->for_next.first || entry->under_way[0] ||
                         entry->under_way[1] || entry->behind[0].first || entry->behind[1].first ||
                         entry->for_fold.first || entry->folds || entry->created.first ||
                         entry->is_moving;
    uint64_t keep_ns = entry->has_map ? FORGET_NS : FORGET_NS / 60;
    return !is_waited_for && now_ns - entry->used_ns > keep_ns;
}

static void forget_idle(struct spreads *spreads, uint64_t now_ns)
{
    for (unsigned i = 0; i < SPREAD_TABLE; i++)
        for (struct spread_entry **at = &spreads->table[i]; *at;) {
            struct spread_entry *entry = *at;
            if (!is_idle(entry, now_ns)) {
                at = &entry->next;
                continue;
            }
            *at = entry->next;
            spreads->count--;
            total_withdraw(entry);
            free_entry(entry);
        }
}

/* ---- life ---- */

static void tick(void *arg);

struct spreads *spreads_new(struct layer *layer)
{
    struct spreads *spreads = memory_take_zeroed(sizeof(*spreads));
    spreads->layer = layer;
    spreads->totals = totals_new();
    spreads->warmth = warmth_new();
    spreads->timer = timer_new(layer->loop, tick, spreads);
    timer_start(spreads->timer, TICK_MS, TICK_MS);
    uint64_t node = hash_stable(slice_of(layer->node));
    shard_picker_init(&spreads->picker, (uint32_t)(node % LIMIT_WORKERS), node);
    spreads->mover = mover_new(spreads);
    return spreads;
}

void spreads_free(struct spreads *spreads)
{
    if (!spreads)
        return;
    atomic_store(&spreads->is_closing, true);
    mover_free(spreads->mover);
    timer_free(spreads->timer);
    for (unsigned i = 0; i < SPREAD_TABLE; i++)
        while (spreads->table[i]) {
            struct spread_entry *entry = spreads->table[i];
            spreads->table[i] = entry->next;
            free_entry(entry);
        }
    totals_free(spreads->totals);
    free(spreads->warmth);
    free(spreads);
}

bool spreads_are_closing(struct layer *layer)
{
    return atomic_load(&layer->spreads->is_closing);
}

struct releases *spreads_releases(struct layer *layer)
{
    return &layer->spreads->releases;
}

/* ---- waiting for the map ---- */

static void go_again(struct spread_entry *entry, struct spread_ops *ops)
{
    struct spread_ops list = *ops;
    *ops = (struct spread_ops){0};
    for (struct op *op = spread_ops_take(&list); op; op = spread_ops_take(&list)) {
        op->route = NULL;
        runs_again(entry->layer, op);
    }
}

static void ask_mover(struct spread_entry *entry, enum mover_work work, uint32_t shards,
                      enum heat_reason reason)
{
    if (entry->is_moving)
        return;
    entry->is_moving = mover_ask(entry->layer->spreads->mover, entry, work, shards, reason);
}

/* A change that was begun a while ago, and is not ours, may have been left by somebody who died. */
static void take_over_if_left(struct spread_entry *entry)
{
    int64_t age_ms = env_wall_ms(entry->layer->env) - (int64_t)entry->map.version;
    if (entry->has_map && entry->map.change != MAP_STEADY && age_ms > TAKE_OVER_MS)
        ask_mover(entry, MOVER_GO_ON, 0, HEAT_UNCHANGED);
}

void spread_met_map(struct spread_entry *entry)
{
    take_over_if_left(entry);
    if (spreads_now_ns(entry->layer->spreads) >= entry->rest_until_ns)
        go_again(entry, &entry->for_map);
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

static void wait_for_map(struct spread_entry *entry, struct op *op, bool at_once)
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
        entry->rest_until_ns = now_ns + REST_NS;
        timer_start(entry->layer->spreads->timer, 1 + REST_NS / 1000000, TICK_MS);
    }
}

/* ---- writes under way, and reads behind them ---- */

/* An op knows its entry and, in the lowest bit, its turn. */
static void count_in(struct spread_entry *entry, struct op *op)
{
    op->route = (char *)entry + entry->turn;
    entry->under_way[entry->turn]++;
}

static unsigned turn_of(const struct op *op)
{
    return (uintptr_t)op->route & 1;
}

static struct spread_entry *entry_of(const struct op *op)
{
    return op->route ? (struct spread_entry *)((char *)op->route - turn_of(op)) : NULL;
}

static void fold_now(struct spread_entry *entry);
static void read_on(struct spread_entry *entry, struct spread_ops *reads);

static void turn_over(struct spread_entry *entry)
{
    unsigned old = 1 - entry->turn;
    if (entry->under_way[old] > 0)
        return;
    struct spread_ops reads = entry->behind[old];
    entry->behind[old] = (struct spread_ops){0};
    if (entry->behind[entry->turn].first)
        entry->turn = old; /* from now on the others are the ones that are waited for */
    read_on(entry, &reads);
    if (entry->behind[1 - entry->turn].first && entry->under_way[1 - entry->turn] == 0)
        turn_over(entry);
}

static void count_out(struct spread_entry *entry, unsigned turn)
{
    assert(entry->under_way[turn] > 0);
    entry->under_way[turn]--;
    turn_over(entry);
    fold_now(entry);
}

void spreads_ended(struct layer *layer, struct op *op)
{
    struct spread_entry *entry = entry_of(op);
    (void)layer;
    if (!entry)
        return;
    unsigned turn = turn_of(op);
    op->route = NULL;
    count_out(entry, turn);
}

static unsigned slice_of_cursor(const struct op *op)
{
    uint64_t slice = op->page->cursor >> 56;
    return slice > 0 && slice <= BUCKET_SLICES ? (unsigned)slice - 1 : 0;
}

/* Does the map say that the cell which has answered is the right one? */
static bool is_owner(const struct spread_entry *entry, const struct op *op)
{
    if (op_has_user(op->kind))
        return entry->map.owner[bucket_slice(op->bucket)] == op->cell;
    if (op->kind == OP_MEMBERS)
        return entry->map.owner[slice_of_cursor(op)] == op->cell;
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
    wait_for_map(entry, op, !is_moving && !(knew && entry->strange_count > 1));
    if (was_counted)
        count_out(entry, turn);
}

/* A read that comes behind writes waits for these. */
static bool waits_behind(struct spread_entry *entry, struct op *op)
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

/* ---- what needs the whole ---- */

static void fold_now(struct spread_entry *entry)
{
    if (!entry->folds || entry->is_folding || entry->under_way[0] + entry->under_way[1] > 0 ||
        entry->is_moving || entry->for_map.first)
        return;
    entry->is_folding =
        mover_ask(entry->layer->spreads->mover, entry, MOVER_RESHARD, 1, HEAT_BY_HAND);
    entry->is_moving = entry->is_folding;
}

static void wait_for_fold(struct spread_entry *entry, struct op *op)
{
    op->route = entry;
    spread_ops_add(&entry->for_fold, op);
    if (!entry->folds) {
        entry->folds = true;
        entry->fold_until_ns = spreads_now_ns(entry->layer->spreads) + FOLD_NS;
    }
    fold_now(entry);
}

static void end_fold(struct spread_entry *entry)
{
    struct spread_ops ops = entry->for_fold;
    entry->for_fold = (struct spread_ops){0};
    entry->folds = false;
    go_again(entry, &ops);
}

static void refuse_fold(struct spread_entry *entry)
{
    entry->folds = false;
    for (struct op *op = spread_ops_take(&entry->for_fold); op;
         op = spread_ops_take(&entry->for_fold)) {
        op->route = NULL;
        op->code = ERR_UNAVAILABLE;
        runs_finish_op(entry->layer, op);
    }
}

static void finish_created(struct spread_entry *entry);

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
    if (entry->folds && spreads_now_ns(spreads) >= entry->fold_until_ns)
        refuse_fold(entry);
    fold_now(entry);
    refresh_start(entry);
}

/* ---- the order of a batch ---- */

/* An op waits for those before it in its batch that wait for something themselves. */
static bool waits_for_earlier(struct spread_entry *entry, struct op *op, bool is_read)
{
    if (entry->for_map.first && has_earlier(&entry->for_map, op)) {
        wait_for_map(entry, op, false);
        op->route = entry;
        return true;
    }
    bool has_read =
        !is_read && (has_earlier(&entry->behind[0], op) || has_earlier(&entry->behind[1], op) ||
                     has_earlier(&entry->for_refresh, op) || has_earlier(&entry->for_next, op));
    if (!has_read && !has_earlier(&entry->behind_reads, op))
        return false;
    op->route = entry;
    spread_ops_add(&entry->behind_reads, op);
    return true;
}

void spread_was_read(struct spread_entry *entry)
{
    if (entry->behind_reads.first)
        go_again(entry, &entry->behind_reads);
}

/* ---- where an op goes ---- */

static unsigned pick(struct spreads *spreads, const struct spread_entry *entry)
{
    const struct map *map = &entry->map;
    uint64_t loads[BUCKET_SLICES];
    if (entry->create.policy == POLICY_LEAST_LOADED)
        for (unsigned s = 0; s < BUCKET_SLICES; s++) {
            unsigned primary = layer_primary_of(spreads->layer, map->owner[s]);
            loads[s] =
                (layer_latency_ns(spreads->layer, primary) + 1) * (1 + spreads->picks[primary]);
        }
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
    count_in(entry, op);
    return cell;
}

/* All sums of a batch go to one cell, so that they happen in their order; which is also the
 * cheapest. A key is where it was used: at home. */
static unsigned send_sum(struct spread_entry *entry, struct op *op)
{
    /* The next batch is told from the last by its ops beginning anew, or by nothing of the last
     * being under way. */
    bool is_same_batch = entry->pick_batch == op->user_hash && op > entry->pick_op &&
                         entry->under_way[0] + entry->under_way[1] > 0 &&
                         map_owners(&entry->map) & map_bit(entry->pick_cell);
    unsigned cell = entry->home;
    if (op->key.size == 0 && !op->amount.big)
        cell = is_same_batch ? entry->pick_cell : pick(entry->layer->spreads, entry);
    if (is_same_batch && entry->pick_cell != cell && waits_behind(entry, op))
        return UINT_MAX;
    entry->pick_batch = op->user_hash;
    entry->pick_op = op;
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

unsigned spreads_cell_of(struct layer *layer, struct op *op)
{
    struct spreads *spreads = layer->spreads;
    struct spread_entry *entry = spread_find(spreads, op->stable, op->target);
    op->route = NULL;
    if (!entry)
        return layer_home(op->stable);
    entry->used_ns = spreads_now_ns(spreads);
    if (waits_for_earlier(entry, op, false))
        return UINT_MAX;
    if (entry->folds) {
        wait_for_fold(entry, op);
        return UINT_MAX;
    }
    if (!entry->has_map)
        return entry->home;
    if (total_is_over(entry)) {
        wait_for_fold(entry, op); /* home sees to that */
        return UINT_MAX;
    }
    if (is_of_wrong_type(entry, op))
        return look_first(entry, op);
    if (op_has_user(op->kind)) {
        return send_to(entry, op, entry->map.owner[bucket_slice(op->bucket)]);
    }
    if (op->kind == OP_MEMBERS)
        return send_to(entry, op, entry->map.owner[slice_of_cursor(op)]);
    if (op->kind == OP_ADD)
        return send_sum(entry, op);
    if (op->kind == OP_CREATE && op->key.size == 0)
        return look_first(entry, op);
    wait_for_fold(entry, op);
    return UINT_MAX;
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

/* Reads, and sums that go elsewhere, which have waited for the writes before them. */
static void read_on(struct spread_entry *entry, struct spread_ops *reads)
{
    for (struct op *op = spread_ops_take(reads); op; op = spread_ops_take(reads)) {
        op->route = NULL;
        if (has_earlier(&entry->for_map, op)) {
            wait_for_map(entry, op, false);
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
    if (waits_for_earlier(entry, op, true))
        return false;
    if (entry->folds) {
        wait_for_fold(entry, op);
        return false;
    }
    return !waits_behind(entry, op) && read_now(entry, op);
}

/* ---- writes ---- */

void spreads_note_counts(struct layer *layer, const struct op *op, unsigned cell,
                         const int64_t *counts)
{
    struct spread_entry *entry = entry_of(op);
    const struct spread_part *known = entry->parts[cell];
    size_t size = layer->options.kinds->count * sizeof(*counts);
    if (!entry->has_map || !entry->map.is_item ||
        (known && known->is_known && known->incarnation == entry->incarnation &&
         memcmp(known->counts, counts, size) == 0))
        return;
    struct spread_part *part = total_part(entry, cell);
    memcpy(part->counts, counts, size);
    if (!part->is_known)
        part->as_of_ms = env_wall_ms(layer->env);
    part->is_known = true;
    part->incarnation = entry->incarnation;
    total_publish(entry);
}

static void note_value(struct spread_entry *entry, const struct op *op, unsigned cell)
{
    struct spread_part *part = total_part(entry, cell);
    number_done(&part->value);
    part->value = number_copy(&op->value);
    if (!part->is_known)
        part->as_of_ms = env_wall_ms(entry->layer->env);
    part->is_known = true;
    part->incarnation = entry->incarnation;
    total_publish(entry);
}

static void note_time(struct spread_entry *entry)
{
    int64_t now_ms = env_wall_ms(entry->layer->env);
    entry->written_ms = now_ms > entry->written_ms ? now_ms : entry->written_ms;
}

/* What is repeated is the answer of the first time, and says nothing of now. */
void spreads_note_write(struct layer *layer, struct op *op, unsigned cell)
{
    struct spread_entry *entry = entry_of(op);
    if (!entry) {
        warmth_note(layer->spreads, op, cell);
        return;
    }
    entry->window_writes += op->changed;
    if (op->changed && !op->repeated)
        note_time(entry);
    if (!entry->has_map || (!entry->map.is_item && op->repeated))
        return;
    if (!entry->map.is_item)
        note_value(entry, op, cell);
    else if (!op->counts)
        return;
    struct op total = {.kind = entry->map.is_item ? OP_COUNTS : OP_GET, .counts = op->counts};
    total_answer(entry, &total);
    if (total.code == ERR_OK && !entry->map.is_item) {
        number_done(&op->value);
        op->value = total.value;
    }
}

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

/* ---- ten times a second ---- */

static void look_after(struct spread_entry *entry, uint64_t now_ns)
{
    if (entry->rest_until_ns != 0 && entry->rest_until_ns <= now_ns) {
        entry->rest_until_ns = 0;
        if (entry->for_map.first)
            refresh_start(entry);
    }
    bool is_read = total_was_read(entry);
    entry->is_read |= is_read;
    if (is_read)
        entry->used_ns = now_ns;
    bool is_old = now_ns - entry->asked_ns > REFRESH_AGE_NS;
    if (entry->has_map && (entry->is_read || entry->lacks_pieces) && is_old && !entry->refresh) {
        entry->is_read = false;
        refresh_start(entry);
    }
    if (entry->for_map.first && !entry->refresh && entry->rest_until_ns == 0)
        refresh_start(entry);
    take_over_if_left(entry);
    fold_now(entry);
}

static void tick(void *arg)
{
    struct spreads *spreads = arg;
    uint64_t now_ns = spreads_now_ns(spreads);
    bool some_rest = false;
    uint64_t spread = 0;
    for (unsigned i = 0; i < SPREAD_TABLE && spreads->count > 0; i++)
        for (struct spread_entry *entry = spreads->table[i]; entry; entry = entry->next) {
            look_after(entry, now_ns);
            some_rest |= entry->rest_until_ns != 0;
            spread += entry->has_map;
        }
    atomic_store(&spreads->spread, spread);
    if (some_rest)
        timer_start(spreads->timer, 1 + REST_NS / 1000000, TICK_MS);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        spreads->picks[i] /= 2;
    spreads_balance(spreads);
    forget_idle(spreads, now_ns);
}

void spreads_tick(struct layer *layer, int64_t now_ms)
{
    (void)layer; /* a timer of our own does it */
    (void)now_ms;
}

/* ---- for others ---- */

void spreads_cell_opened(struct layer *layer, unsigned cell, bool kept)
{
    (void)kept;
    struct spreads *spreads = layer->spreads;
    for (unsigned i = 0; i < SPREAD_TABLE && spreads->count > 0; i++)
        for (struct spread_entry *entry = spreads->table[i]; entry; entry = entry->next)
            if (entry->home == cell || (entry->has_map && entry->map.cells & map_bit(cell)))
                refresh_start(entry);
}
