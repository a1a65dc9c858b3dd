#include "sim/nodes/nodes_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static char text[200];

__attribute__((format(printf, 1, 2))) static const char *wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return text;
}

static struct record *served_record(struct redis_model *model, unsigned cell, unsigned thing)
{
    struct cell_data *data = redis_served(model, cell);
    return data ? &data->records[thing] : NULL;
}

static bool has_successor(const struct redis_model *model, const uint64_t *given, unsigned cell)
{
    return given && model->cells[cell].epoch < given[cell];
}

static bool serves(const struct record *record, unsigned slice)
{
    return record && (record->type == 's' || record->type == 'S') &&
           (record->own[slice] == '1' || record->own[slice] == '0');
}

/* By its own map it is at home, and home sends everybody away. */
static bool is_nowhere(struct redis_model *model, const uint64_t *given, unsigned item,
                       unsigned slice)
{
    unsigned home = home_of(item);
    const struct record *whole = served_record(model, home, item);
    if (!whole || whole->type == 0 || has_successor(model, given, home))
        return false;
    const struct map *map = &whole->map;
    bool is_moved = map->change == MAP_MOVE || map->change == MAP_UNDO;
    if (whole->has_map && (map->change == MAP_DISSOLVE || map->owner[slice] != home ||
                           (is_moved && map->slices & map_bit(slice))))
        return false;
    return whole->own[slice] == '-';
}

const char *check_one_place(struct redis_model *model, const uint64_t given[LIMIT_CELLS],
                            unsigned item)
{
    for (unsigned slice = 0; slice < SLICES; slice++) {
        unsigned places = 0;
        for (unsigned cell = 0; cell < CELLS; cell++)
            places += !has_successor(model, given, cell) &&
                      serves(served_record(model, cell, item), slice);
        if (places > 1)
            return wrong("slice %u of i%u is served in %u cells", slice, item, places);
        if (is_nowhere(model, given, item, slice))
            return wrong("slice %u of i%u is served nowhere", slice, item);
    }
    return NULL;
}

/* --- sums --- */

struct sum {
    bool is_whole; /* every shard has answered */
    int64_t value;
    int64_t counts[HELD_COUNT];
};

static void add_shard(struct sum *sum, const struct record *record)
{
    sum->value += record->value;
    for (unsigned held = 0; held < HELD_COUNT; held++)
        sum->counts[held] += record->counts[held];
}

static bool is_shard(const struct record *record)
{
    return record->type != 0 && (record->rv == 0 || record->is_piece);
}

/* As hot/redis/refresh.c: what joins and is only reserved has counted nothing, and of what has lost
 * a shard none is believed. */
static struct sum sum_of(struct redis_model *model, const uint64_t *given, unsigned thing)
{
    unsigned home = home_of(thing);
    struct sum sum = {.is_whole = true};
    const struct record *whole = served_record(model, home, thing);
    if (!whole || whole->type == 0 || has_successor(model, given, home))
        return (struct sum){.is_whole = false};
    if (whole->has_map && whole->map.change == MAP_DISSOLVE)
        return (struct sum){.is_whole = false};
    uint64_t cells = whole->has_map ? whole->map.cells : map_bit(home);
    uint64_t joining = whole->has_map && whole->map.change == MAP_JOIN ? whole->map.slices : 0;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        if (!(cells & map_bit(cell)))
            continue;
        sum.is_whole &= !has_successor(model, given, cell);
        const struct record *shard = served_record(model, cell, thing);
        bool is_joining = joining & map_bit(cell);
        bool serves = shard && is_shard(shard) && !(is_joining && shard->type == 'F');
        bool is_reserved = shard && is_joining && !shard->is_piece && shard->type == 'F' &&
                           shard->rv == whole->map.version;
        if (serves)
            add_shard(&sum, shard);
        else if (!is_reserved && model->bug != NODES_BUG_SHARD_IS_ZERO)
            sum.is_whole = false;
    }
    return sum;
}

const char *check_read(struct redis_model *model, const uint64_t given[LIMIT_CELLS],
                       unsigned counter, const struct tally *tally)
{
    struct sum sum = sum_of(model, given, ITEMS + counter);
    if (!sum.is_whole)
        return NULL;
    int64_t most = tally->most + (tally->intent.state != INTENT_NONE);
    if (sum.value < tally->least || sum.value > most)
        return wrong("c%u is read as %" PRId64 ", and was counted %" PRId64 " to %" PRId64, counter,
                     sum.value, tally->least, most);
    return NULL;
}

/* --- in the end --- */

static const struct record *owner_of(struct redis_model *model, unsigned item, unsigned slice)
{
    const struct record *whole = served_record(model, home_of(item), item);
    if (!whole || whole->type == 0)
        return NULL;
    return whole->has_map ? served_record(model, whole->map.owner[slice], item) : whole;
}

static const char *check_item(struct redis_model *model, unsigned item,
                              const struct store_rows *rows, const struct sum *sum)
{
    int64_t members[HELD_COUNT] = {0};
    for (unsigned user = 0; user < USERS; user++) {
        unsigned held = rows->held[item][user];
        unsigned slice = slice_of_user(user);
        const struct record *owner = owner_of(model, item, slice);
        members[held]++;
        if (owner && !serves(owner, slice))
            return wrong("slice %u of i%u is not where the map says", slice, item);
        if (owner && owner->own[slice] == '1' && owner->held[user] != held)
            return wrong("i%u u%u is %u in the hot layer, and %u in the store", item, user,
                         owner->held[user], held);
    }
    for (unsigned held = 1; held < HELD_COUNT && sum->is_whole; held++)
        if (sum->counts[held] != members[held])
            return wrong("i%u counts %" PRId64 " of %u, and has %" PRId64, item, sum->counts[held],
                         held, members[held]);
    return NULL;
}

const char *check_at_rest(struct redis_model *model, unsigned thing, const struct store_rows *rows)
{
    struct sum sum = sum_of(model, NULL, thing);
    if (is_item(thing))
        return check_item(model, thing, rows, &sum);
    int64_t value = rows->values[thing - ITEMS];
    if (sum.is_whole && sum.value != value)
        return wrong("c%u is %" PRId64 " in the hot layer, and %" PRId64 " in the store",
                     thing - ITEMS, sum.value, value);
    return NULL;
}

bool check_is_steady(struct redis_model *model, unsigned thing)
{
    const struct record *whole = served_record(model, home_of(thing), thing);
    if (!whole || whole->type == 0 || !whole->has_map)
        return whole != NULL;
    return whole->map.change == MAP_STEADY && sum_of(model, NULL, thing).is_whole;
}
