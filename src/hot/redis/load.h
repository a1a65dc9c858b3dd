/* load.h - what is not in Redis comes from the store.
 *
 * run.c finds that a record, a slice or a key is missing and says so here. The loader
 * (flow/loader.h) takes the want, asks the store, and hands the answer in, which is put into Redis
 * by lua/load.lua; all nodes together load a thing once. While a cell is closed or cannot be
 * reached, reads are answered from the store in the same way, marked as stale.
 *
 *   want.c   what is wanted      image.c  what the store said
 *   put.c    into Redis          stale.c  or straight to the reader */
#ifndef HOT_REDIS_LOAD_H
#define HOT_REDIS_LOAD_H

#include "hot/redis/layer.h"

/* Something has come, or may have: whoever has waited runs again. Any thread. */
void loads_ring(struct layer *layer);

/* Now and then; any thread. */
void loads_tick(struct layer *layer);

/* For the figures. */
uint64_t loads_count(struct layer *layer);
uint64_t loads_misses(struct layer *layer);

#endif
