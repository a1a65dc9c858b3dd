/* shards.c - what the port asks about shards: to have more or fewer, and which are the hottest. */
#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/hash.h"
#include "base/memory.h"
#include "hot/redis/move.h"
#include "hot/redis/spread.h"

/* ---- by hand ---- */

struct resharded {
    struct layer *layer;
    size_t id_size;
    char id[LIMIT_ID_BYTES];
};

/* What this node knows of it is old. */
static void was_resharded(void *arg)
{
    struct resharded *resharded = arg;
    struct spreads *spreads = resharded->layer->spreads;
    struct slice id = {resharded->id, resharded->id_size};
    struct spread_entry *entry = spread_get(spreads, hash_stable(id), id);
    atomic_fetch_add(&spreads->changes, 1);
    entry->asked_ns = 0;
    refresh_start(entry);
    free(resharded);
}

enum err spreads_reshard(struct hot *hot, struct slice id, uint32_t shards, int64_t now_ms)
{
    (void)now_ms;
    struct layer *layer = layer_of(hot);
    uint8_t kind;
    kinds_split(layer->options.kinds, id, &id, &kind); /* a reaction's shards are its item's */
    enum err err = move_reshard(layer, id, shards, HEAT_BY_HAND);
    struct resharded *resharded = memory_take(sizeof(*resharded));
    resharded->layer = layer;
    resharded->id_size = id.size;
    memcpy(resharded->id, id.data, id.size);
    if (!layer_post(layer, was_resharded, resharded))
        free(resharded);
    return err;
}

/* ---- the hottest ---- */

struct hottest_one {
    uint64_t writes;
    bool is_item;
    uint32_t shards;
    int64_t totals[LIMIT_CELLS];
    size_t id_size;
    char id[LIMIT_ID_BYTES];
};

struct hottest {
    struct layer *layer;
    struct hottest_one *list; /* the caller's, `limit` of them */
    uint32_t limit;
    uint32_t count;
    struct bell bell;
};

static int64_t total_of(const struct spread_part *part, bool is_item)
{
    if (!part || !part->is_known)
        return 0;
    int64_t total = is_item ? 0 : part->value.small;
    for (unsigned kind = 0; kind < LIMIT_KINDS && is_item; kind++)
        total += part->counts[kind];
    return total;
}

static void copy(struct hottest_one *to, const struct spread_entry *entry)
{
    *to = (struct hottest_one){.writes = entry->last_window_writes,
                               .is_item = entry->map.is_item,
                               .id_size = entry->id.size};
    memcpy(to->id, entry->id.data, entry->id.size);
    for (uint64_t cells = entry->map.cells; cells != 0; cells &= cells - 1)
        to->totals[to->shards++] =
            total_of(entry->parts[__builtin_ctzll(cells)], entry->map.is_item);
}

/* Keeps the list in order, the hottest first. */
static void insert(struct hottest *hottest, const struct spread_entry *entry)
{
    uint32_t at = hottest->count;
    while (at > 0 && hottest->list[at - 1].writes < entry->last_window_writes)
        at--;
    if (at == hottest->limit)
        return;
    uint32_t kept = hottest->count < hottest->limit ? hottest->count : hottest->limit - 1;
    memmove(&hottest->list[at + 1], &hottest->list[at], (kept - at) * sizeof(*hottest->list));
    copy(&hottest->list[at], entry);
    hottest->count = kept + 1;
}

static void gather(void *arg)
{
    struct hottest *hottest = arg;
    struct spreads *spreads = hottest->layer->spreads;
    for (unsigned i = 0; i < SPREAD_TABLE && spreads->count > 0; i++)
        for (struct spread_entry *entry = spreads->table[i]; entry; entry = entry->next)
            if (entry->has_map) {
                entry->is_read = true; /* its totals are looked at */
                insert(hottest, entry);
            }
    bell_ring(&hottest->bell);
}

void spreads_hottest(struct hot *hot, uint32_t limit, hot_shards_fn *visit, void *arg)
{
    if (limit == 0)
        return;
    struct hottest hottest = {.layer = layer_of(hot),
                              .list = memory_take(limit * sizeof(struct hottest_one)),
                              .limit = limit};
    bell_init(&hottest.bell);
    if (layer_post(hottest.layer, gather, &hottest))
        bell_wait(&hottest.bell, UINT64_MAX);
    for (uint32_t i = 0; i < hottest.count; i++) {
        const struct hottest_one *one = &hottest.list[i];
        visit(arg, (struct slice){one->id, one->id_size}, one->is_item, one->shards, one->totals);
    }
    bell_done(&hottest.bell);
    free(hottest.list);
}

void spreads_figures(struct layer *layer, uint64_t *ret_spread, uint64_t *ret_changes)
{
    struct spreads *spreads = layer->spreads;
    *ret_spread = atomic_load(&spreads->spread);
    *ret_changes = atomic_load(&spreads->changes);
}
