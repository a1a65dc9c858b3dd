#include "hot/redis/spread.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "hot/redis/mover.h"
#include "hot/redis/spread_own.h"

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

/* ---- entries ---- */

static struct spread_entry **list_of(struct spreads *spreads, uint64_t stable)
{
    return &spreads->table[hash_slot(stable, spreads->hash_key) % SPREAD_TABLE];
}

struct spread_entry *spread_find(struct spreads *spreads, uint64_t stable, struct slice id)
{
    if (spreads->count == 0)
        return NULL;
    struct spread_entry *entry = *list_of(spreads, stable);
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
    struct spread_entry **list = list_of(spreads, stable);
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
    spread_take_over_if_left(entry);
    spread_let_go(entry);
    spread_fold_if_quiet(entry);
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
        timer_start(spreads->timer, 1 + SPREAD_REST_NS / 1000000, SPREAD_TICK_MS);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        spreads->picks[i] /= 2;
    spreads_balance(spreads);
    forget_idle(spreads, now_ns);
}

/* ---- life ---- */

struct spreads *spreads_new(struct layer *layer)
{
    struct spreads *spreads = memory_take_zeroed(sizeof(*spreads));
    spreads->layer = layer;
    spreads->hash_key = env_random(layer->env);
    spreads->totals = totals_new();
    spreads->warmth = warmth_new();
    spreads->timer = timer_new(layer->loop, tick, spreads);
    timer_start(spreads->timer, SPREAD_TICK_MS, SPREAD_TICK_MS);
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

/* ---- for others ---- */

uint64_t spreads_cells_with(struct layer *layer, const struct op *op)
{
    const struct spread_entry *entry = spread_find(layer->spreads, op->stable, op->target);
    return map_bit(layer_home(op->stable)) | (entry && entry->has_map ? entry->map.cells : 0);
}

void spreads_cell_opened(struct layer *layer, unsigned cell)
{
    struct spreads *spreads = layer->spreads;
    for (unsigned i = 0; i < SPREAD_TABLE && spreads->count > 0; i++)
        for (struct spread_entry *entry = spreads->table[i]; entry; entry = entry->next)
            if (entry->home == cell || (entry->has_map && entry->map.cells & map_bit(cell)))
                refresh_start(entry);
}
