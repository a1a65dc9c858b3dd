/* drop.h - the sweeper: what is saved and idle leaves Redis, and so does what does not exist any
 * more.
 *
 * From tick() it walks through the keys of each primary, some at a time, and offers what it meets
 * to lua/drop.lua, which decides. Of the nodes, the one that relays the first cell of a primary
 * sweeps it. What is saved is known by hot_saved().
 *
 * One step: SCAN -> the records met, by cell -> a call to each cell -> those with slices, one by
 * one. It belongs to the layer's thread. */
#ifndef HOT_REDIS_DROP_H
#define HOT_REDIS_DROP_H

#include <stdint.h>

#include "hot/redis/layer.h"

/* How far the store is known to be with a cell's events. Any thread. */
uint64_t saves_of(struct layer *layer, unsigned cell);

/* Counters and items that were in Redis in the last round of all primaries that we sweep; those
 * that have left. Any thread. */
struct drops_figures {
    uint64_t counters;
    uint64_t items;
    uint64_t dropped;
    uint64_t expired;
    uint64_t rounds; /* so far, of all primaries */
};
void drops_figures(struct layer *layer, struct drops_figures *ret);

/* One step at once, without asking whose turn it is; for tests. Any thread; it is done when
 * drops_is_busy() is false. */
void drops_step(struct layer *layer);
bool drops_is_busy(struct layer *layer);

#endif
