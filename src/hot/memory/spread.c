#include "hot/memory/spread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/heat.h"
#include "hot/memory/members.h"
#include "hot/memory/own.h"

void spread_init(struct spread *spread, struct slice id, uint64_t hash, uint8_t home)
{
    assert(id.size > 0);

    *spread = (struct spread){
        .hash = hash,
        .home = home,
        .id_size = (uint32_t)id.size,
        .shards = 1,
        .asked = 1,
        .reason = heat_reason_text(HEAT_UNCHANGED),
        .id = own_take(id.size),
    };
    memcpy(spread->id, id.data, id.size);
}

void spread_done(struct spread *spread)
{
    own_free(spread->id);
}

uint32_t spread_shard_of(const struct spread *spread, uint8_t cell)
{
    /* Close to the right shard by the inverse of the formula, and at most one off. */
    uint32_t distance = (uint32_t)(cell + LIMIT_CELLS - spread->home) % LIMIT_CELLS;
    uint32_t guess = distance * spread->shards / LIMIT_CELLS;
    for (uint32_t shard = guess; shard <= guess + 1 && shard < spread->shards; shard++)
        if (spread_cell(spread->home, spread->shards, shard) == cell)
            return shard;
    return UINT32_MAX;
}

struct parts *parts_new(struct slice id, uint64_t hash, uint8_t home, uint32_t shards,
                        int64_t value)
{
    assert(shards >= 1 && shards <= LIMIT_CELLS);

    size_t size = sizeof(struct parts) + shards * sizeof(struct part);
    struct parts *parts = own_take(size);
    memset(parts, 0, size);
    spread_init(&parts->spread, id, hash, home);
    parts->spread.shards = shards;
    atomic_init(&parts->total, value);
    parts->part[0].value = value;
    return parts;
}

void parts_free(struct parts *parts)
{
    if (!parts)
        return;
    spread_done(&parts->spread);
    own_free(parts);
}

void spread_free_all(struct spread *list)
{
    while (list) {
        struct spread *next = list->next_retired;
        if (list->is_item)
            crowd_free((struct crowd *)list);
        else
            parts_free((struct parts *)list);
        list = next;
    }
}

/* Parts that each stay above their own floor are above that of the counter
 * together, also when a power cut keeps the last writes of some cells only. */
static int64_t part_floor(const struct parts *parts, uint32_t shard)
{
    return shard == 0 ? parts->floor : 0;
}

enum err parts_add(struct parts *parts, uint32_t shard, int64_t amount, int64_t *ret_total)
{
    assert(shard < parts->spread.shards);

    int64_t part;
    bool fits = !__builtin_add_overflow(parts->part[shard].value, amount, &part) &&
                !(parts->has_floor && amount < 0 && part < part_floor(parts, shard));

    int64_t old = atomic_load_explicit(&parts->total, memory_order_relaxed);
    int64_t total;
    do {
        if (__builtin_add_overflow(old, amount, &total))
            return ERR_OUT_OF_RANGE;
        if (parts->has_floor && amount < 0 && total < parts->floor)
            return ERR_BELOW_FLOOR;
        if (!fits)
            return ERR_OUT_OF_RANGE;
    } while (!atomic_compare_exchange_weak(&parts->total, &old, total));

    parts->part[shard].value = part;
    *ret_total = total;
    return ERR_OK;
}

void parts_set(struct parts *parts, int64_t value)
{
    for (uint32_t shard = 0; shard < parts->spread.shards; shard++)
        parts->part[shard].value = 0;
    parts->part[0].value = value;
    atomic_store_explicit(&parts->total, value, memory_order_relaxed);
}

void parts_level(struct parts *parts)
{
    uint32_t shards = parts->spread.shards;
    int64_t total = atomic_load_explicit(&parts->total, memory_order_relaxed);
    if (!parts->has_floor || total <= parts->floor)
        return;
    uint64_t share = ((uint64_t)total - (uint64_t)parts->floor) / shards;
    for (uint32_t shard = 1; shard < shards; shard++)
        parts->part[shard].value = (int64_t)share;
    parts->part[0].value = (int64_t)((uint64_t)total - share * (shards - 1));
}

void parts_totals(const struct parts *parts, int64_t totals[LIMIT_CELLS])
{
    for (uint32_t shard = 0; shard < parts->spread.shards; shard++)
        totals[shard] = parts->part[shard].value;
}

bool parts_are_expired(const struct parts *parts, int64_t now_ms)
{
    int64_t deadline_ms = atomic_load_explicit(&parts->deadline_ms, memory_order_relaxed);
    if (deadline_ms != 0 && now_ms >= deadline_ms)
        return true;
    int64_t written_s = atomic_load_explicit(&parts->spread.written_s, memory_order_relaxed);
    return parts->idle_s != 0 && now_ms / 1000 >= written_s + parts->idle_s;
}

void directory_init(struct directory *directory)
{
    memset(directory, 0, sizeof(*directory));
    lock_init(&directory->lock);
    atomic_init(&directory->version, 1);
}

void directory_done(struct directory *directory)
{
    lock_done(&directory->lock);
}

static void changed(struct directory *directory)
{
    atomic_fetch_add(&directory->version, 1);
}

void directory_add(struct directory *directory, struct spread *spread)
{
    lock_take(&directory->lock);
    if (directory->count < DIRECTORY_MAX) {
        directory->list[directory->count++] = spread;
        changed(directory);
    }
    lock_release(&directory->lock);
}

void directory_remove(struct directory *directory, const struct spread *spread)
{
    lock_take(&directory->lock);
    for (uint32_t i = 0; i < directory->count; i++) {
        if (directory->list[i] == spread) {
            directory->list[i] = directory->list[--directory->count];
            changed(directory);
            break;
        }
    }
    lock_release(&directory->lock);
}

bool directory_has_room(struct directory *directory)
{
    lock_take(&directory->lock);
    bool has_room = directory->count < DIRECTORY_MAX;
    lock_release(&directory->lock);
    return has_room;
}

void directory_refresh(struct directory *directory, struct directory_copy *copy)
{
    if (atomic_load(&directory->version) == copy->version)
        return;

    lock_take(&directory->lock);
    memset(copy, 0, sizeof(*copy));
    copy->version = atomic_load(&directory->version);
    copy->count = directory->count;
    for (uint32_t i = 0; i < directory->count; i++) {
        uint32_t at = directory_place(directory->list[i]->hash);
        while (copy->slots[at].spread)
            at = (at + 1) % (DIRECTORY_MAX * 2);
        copy->slots[at].spread = directory->list[i];
    }
    lock_release(&directory->lock);
}

int directory_find(const struct directory_copy *copy, uint64_t hash, struct slice id)
{
    if (copy->count == 0)
        return -1;
    for (uint32_t at = directory_place(hash); copy->slots[at].spread;
         at = (at + 1) % (DIRECTORY_MAX * 2)) {
        const struct spread *spread = copy->slots[at].spread;
        if (spread->hash == hash && slice_equal(spread_id(spread), id))
            return (int)at;
    }
    return -1;
}
