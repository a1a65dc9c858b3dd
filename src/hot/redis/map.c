#include "hot/redis/map.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void map_init(struct map *map, bool is_item, unsigned home)
{
    assert(home < LIMIT_CELLS);

    *map = (struct map){.is_item = is_item,
                        .shards = 1,
                        .reason = HEAT_UNCHANGED,
                        .cells = map_bit(home),
                        .change = MAP_STEADY};
    memset(map->owner, (int)home, sizeof(map->owner));
}

uint64_t map_owners(const struct map *map)
{
    uint64_t cells = 0;
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        cells |= map_bit(map->owner[s]);
    return cells;
}

bool map_is_folded(const struct map *map, unsigned home)
{
    return map->change == MAP_STEADY && map->cells == map_bit(home) &&
           map_owners(map) == map_bit(home);
}

/* ---- as a text ---- */

void map_format(const struct map *map, char text[MAP_TEXT_MAX])
{
    char owners[2 * BUCKET_SLICES + 1];
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        snprintf(owners + 2 * s, 3, "%02x", map->owner[s]);
    int size = snprintf(text, MAP_TEXT_MAX,
                        "%" PRIu64 " %c %" PRIu32 " %u %" PRId64 " %016" PRIx64 " %s %c %u %u "
                        "%016" PRIx64 " %" PRIu64,
                        map->version, map->is_item ? 'i' : 'c', map->shards, (unsigned)map->reason,
                        map->changed_ms, map->cells, owners, (char)map->change, map->from, map->to,
                        map->slices, map->base);
    assert(size > 0 && size < (int)MAP_TEXT_MAX);
}

static bool is_change(char letter)
{
    return letter == MAP_STEADY || letter == MAP_MOVE || letter == MAP_UNDO || letter == MAP_JOIN ||
           letter == MAP_DRAIN || letter == MAP_ERASE || letter == MAP_DISSOLVE;
}

static bool is_sound(const struct map *map)
{
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        if (map->owner[s] >= LIMIT_CELLS)
            return false;
    return map->shards >= 1 && map->shards <= LIMIT_CELLS && map->from < LIMIT_CELLS &&
           map->to < LIMIT_CELLS && map->cells != 0;
}

bool map_parse(struct slice text, struct map *ret_map)
{
    char line[MAP_TEXT_MAX];
    if (text.size == 0 || text.size >= sizeof(line))
        return false;
    memcpy(line, text.data, text.size);
    line[text.size] = 0;

    struct map map = {0};
    char type;
    char change;
    unsigned reason;
    unsigned from;
    unsigned to;
    char owners[2 * BUCKET_SLICES + 1];
    int end = -1;
    sscanf(line, /* NOLINT: our own line, and checked below */
           "%" SCNu64 " %c %" SCNu32 " %u %" SCNd64 " %" SCNx64 " %128s %c %u %u %" SCNx64
           " %" SCNu64 "%n",
           &map.version, &type, &map.shards, &reason, &map.changed_ms, &map.cells, owners, &change,
           &from, &to, &map.slices, &map.base, &end);
    if (end != (int)text.size || strlen(owners) != 2 * BUCKET_SLICES || !is_change(change) ||
        (type != 'i' && type != 'c') || reason >= HEAT_REASON_COUNT || from >= LIMIT_CELLS ||
        to >= LIMIT_CELLS)
        return false;
    for (unsigned s = 0; s < BUCKET_SLICES; s++) {
        unsigned owner;
        if (sscanf(owners + 2 * s, "%2x", &owner) != 1) /* NOLINT: likewise */
            return false;
        map.owner[s] = (uint8_t)owner;
    }
    map.is_item = type == 'i';
    map.reason = (enum heat_reason)reason;
    map.change = (enum map_change)change;
    map.from = (uint8_t)from;
    map.to = (uint8_t)to;
    if (!is_sound(&map))
        return false;
    *ret_map = map;
    return true;
}

/* ---- choosing cells ---- */

/* What is being shared out. */
struct plan {
    const uint8_t *primary_of;
    unsigned home;
    uint64_t chosen;                 /* cells */
    unsigned cells_on[LIMIT_CELLS];  /* by primary: that there are */
    unsigned chosen_on[LIMIT_CELLS]; /* by primary: that were chosen */
    unsigned quota[LIMIT_CELLS];     /* by cell: slices */
    unsigned quota_of_primary[LIMIT_CELLS];
};

/* The primary with the fewest chosen cells that has one left; the home's own comes first among
 * equals, then the ones behind it, so that the odd shard of each item is elsewhere. */
static unsigned poorest(const struct plan *plan)
{
    unsigned start = plan->primary_of[plan->home];
    unsigned best = LIMIT_CELLS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        unsigned primary = (start + i) % LIMIT_CELLS;
        if (plan->chosen_on[primary] < plan->cells_on[primary] &&
            (best == LIMIT_CELLS || plan->chosen_on[primary] < plan->chosen_on[best]))
            best = primary;
    }
    return best;
}

static void choose(struct plan *plan, unsigned cell)
{
    plan->chosen |= map_bit(cell);
    plan->chosen_on[plan->primary_of[cell]]++;
}

/* A cell of the primary: one that has a piece already, else the next behind the home. */
static unsigned cell_on(const struct plan *plan, unsigned primary, uint64_t preferred)
{
    unsigned found = LIMIT_CELLS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        unsigned cell = (plan->home + i) % LIMIT_CELLS;
        if (plan->primary_of[cell] != primary || plan->chosen & map_bit(cell))
            continue;
        if (preferred & map_bit(cell))
            return cell;
        if (found == LIMIT_CELLS)
            found = cell;
    }
    return found;
}

static void choose_cells(struct plan *plan, const struct map *map, uint32_t shards)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        plan->cells_on[plan->primary_of[cell]]++;
    choose(plan, plan->home);
    uint64_t preferred = map_owners(map);
    for (uint32_t i = 1; i < shards; i++)
        choose(plan, cell_on(plan, poorest(plan), preferred));
}

/* Deals the slices to the primaries, and to the cells of each, one at a time. */
static void share_out(struct plan *plan)
{
    unsigned start = plan->primary_of[plan->home];
    unsigned left = BUCKET_SLICES;
    while (left > 0)
        for (unsigned i = 0; i < LIMIT_CELLS && left > 0; i++) {
            unsigned primary = (start + i) % LIMIT_CELLS;
            if (plan->chosen_on[primary] == 0)
                continue;
            plan->quota_of_primary[primary]++;
            left--;
        }
    for (unsigned primary = 0; primary < LIMIT_CELLS; primary++)
        while (plan->quota_of_primary[primary] > 0)
            for (unsigned i = 0; i < LIMIT_CELLS; i++) {
                unsigned cell = (plan->home + i) % LIMIT_CELLS;
                if (!(plan->chosen & map_bit(cell)) || plan->primary_of[cell] != primary ||
                    plan->quota_of_primary[primary] == 0)
                    continue;
                plan->quota[cell]++;
                plan->quota_of_primary[primary]--;
            }
}

void map_plan(const struct map *map, unsigned home, uint32_t shards,
              const uint8_t primary_of[LIMIT_CELLS], uint8_t ret_owner[BUCKET_SLICES])
{
    assert(home < LIMIT_CELLS && shards >= 1 && shards <= LIMIT_CELLS);

    struct plan plan = {.primary_of = primary_of, .home = home};
    choose_cells(&plan, map, shards);
    share_out(&plan);
    for (unsigned s = 0; s < BUCKET_SLICES; s++) {
        unsigned owner = map->owner[s];
        ret_owner[s] = plan.quota[owner] > 0 ? (uint8_t)owner : UINT8_MAX;
        plan.quota[owner] -= plan.quota[owner] > 0;
    }
    unsigned cell = 0;
    for (unsigned s = 0; s < BUCKET_SLICES; s++) {
        if (ret_owner[s] != UINT8_MAX)
            continue;
        while (plan.quota[cell] == 0)
            cell++;
        ret_owner[s] = (uint8_t)cell;
        plan.quota[cell]--;
    }
}

/* ---- step by step ---- */

static bool next_move(struct map *map, const uint8_t owner[BUCKET_SLICES], unsigned slices_max)
{
    unsigned count = 0;
    map->slices = 0;
    for (unsigned s = 0; s < BUCKET_SLICES && count < slices_max; s++) {
        if (owner[s] == map->owner[s] ||
            (count > 0 && (map->owner[s] != map->from || owner[s] != map->to)))
            continue;
        map->from = map->owner[s];
        map->to = owner[s];
        map->slices |= map_bit(s);
        count++;
    }
    return count > 0;
}

/* Cells that are to own something and have no piece yet, all at once. */
static bool next_join(struct map *map, const uint8_t owner[BUCKET_SLICES])
{
    uint64_t joining = 0;
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        joining |= map_bit(owner[s]);
    joining &= ~map->cells;
    map->slices = joining;
    map->cells |= joining;
    return joining != 0;
}

static bool next_drain(struct map *map, unsigned home)
{
    map->slices = map->cells & ~map_owners(map) & ~map_bit(home);
    return map->slices != 0;
}

/* A counter has nothing to move. */
static bool take_turns(struct map *map, const uint8_t owner[BUCKET_SLICES])
{
    memcpy(map->owner, owner, BUCKET_SLICES);
    return true;
}

bool map_next(struct map *map, unsigned home, const uint8_t owner[BUCKET_SLICES],
              unsigned slices_max)
{
    assert(map->change == MAP_STEADY && slices_max > 0);

    if (next_join(map, owner))
        map->change = MAP_JOIN;
    else if (map->is_item && next_move(map, owner, slices_max))
        map->change = MAP_MOVE;
    else if (take_turns(map, owner) && next_drain(map, home))
        map->change = MAP_DRAIN;
    return map->change != MAP_STEADY;
}

void map_finish(struct map *map)
{
    assert(map->change != MAP_STEADY);

    if (map->change == MAP_MOVE)
        for (unsigned s = 0; s < BUCKET_SLICES; s++)
            if (map->slices & map_bit(s))
                map->owner[s] = map->to;
    if (map->change == MAP_DRAIN) {
        map->cells &= ~map->slices;
        map->change = MAP_ERASE;
        map->base = map->version;
        return;
    }
    map->change = MAP_STEADY;
    map->from = 0;
    map->to = 0;
    map->slices = 0;
    map->base = 0;
}

void map_undo(struct map *map)
{
    assert(map->change == MAP_MOVE);

    map->change = MAP_UNDO;
    map->base = map->version;
}
