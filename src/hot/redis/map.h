/* map.h - where the pieces of something spread are.
 *
 * A counter or item that is spread has a map in its home record. All nodes go by it: they keep
 * copies, and a cell that is asked for a slice that it does not own says so, whereupon the map is
 * read again. So an old copy costs time and nothing else.
 *
 * The 64 slices (core/bucket.h) each have an owner, a cell. For an item that is where the users of
 * the slice are. A counter has no users: its slices are turns, one of which is taken for each
 * write, so that both kinds are shared out by the same rule: every primary has an equal share of
 * the slices, and all cells of a primary an equal share of these.
 *
 * Besides, the map has the cells that have a piece (and the home has one always), and the one
 * change that is under way, if any, so that any node can go on with it.
 *
 * Written down as a line of words, see map_format(). Pure. */
#ifndef HOT_REDIS_MAP_H
#define HOT_REDIS_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "core/bucket.h"
#include "core/heat.h"
#include "core/limits.h"

#define MAP_TEXT_MAX 512u

enum map_change {
    MAP_STEADY = '-',
    MAP_MOVE = 'm',     /* `slices` from `from` to `to` */
    MAP_UNDO = 'u',     /* the move that was begun as `base` is given up */
    MAP_JOIN = 'j',     /* the cells of `slices` get an empty piece */
    MAP_DRAIN = 'd',    /* what the pieces in the cells of `slices` have counted goes home */
    MAP_ERASE = 'e',    /* that was done as `base`; these pieces are removed */
    MAP_DISSOLVE = 'x', /* a piece was lost: all are given up, the store has everything */
};

struct map {
    bool is_item;
    uint64_t version;        /* grows with each change; a wall clock's milliseconds at least */
    uint32_t shards;         /* to have, when all moves are done */
    enum heat_reason reason; /* of these */
    int64_t changed_ms;
    uint64_t cells;               /* with a piece: a bit for each */
    uint8_t owner[BUCKET_SLICES]; /* by slice: a cell */
    enum map_change change;
    uint8_t from;
    uint8_t to;
    uint64_t slices; /* a bit for each; of a join or drain: of cells */
    uint64_t base;   /* a version */
};

static inline uint64_t map_bit(unsigned number)
{
    return UINT64_C(1) << number;
}

/* Everything at home: what is not spread. */
void map_init(struct map *map, bool is_item, unsigned home);

/* The cells that own something. */
uint64_t map_owners(const struct map *map);

/* Is it all at home, and nothing under way? Then there is no need for a map. */
bool map_is_folded(const struct map *map, unsigned home);

/*   version i|c shards reason changed_ms cells owners change from to slices base
 *
 * cells and slices in 16 hexadecimal digits, owners in 128: two for each slice. */
void map_format(const struct map *map, char text[MAP_TEXT_MAX]);

/* False: that is no map. */
bool map_parse(struct slice text, struct map *ret_map);

/* Who is to own which slice with `shards` shards, of which the home is one: `primary_of` says
 * where the cells are. As few slices as possible leave their owners. */
void map_plan(const struct map *map, unsigned home, uint32_t shards,
              const uint8_t primary_of[LIMIT_CELLS], uint8_t ret_owner[BUCKET_SLICES]);

/* The next step on the way to `owner`: fills in change, from, to and slices (up to `slices_max`
 * of them). Cells join before they get slices, and are drained when they have none left; a
 * counter's owners change at once in between. False: nothing is left to do but to keep `owner`. */
bool map_next(struct map *map, unsigned home, const uint8_t owner[BUCKET_SLICES],
              unsigned slices_max);

/* The change that map_next() or another node has begun is done: makes it so. A drain becomes
 * MAP_ERASE first. */
void map_finish(struct map *map);

/* A move is to be undone. */
void map_undo(struct map *map);

#endif
