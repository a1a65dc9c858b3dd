/* mover.h - the thread that changes shards.
 *
 * move.c and dissolve.c wait for Redis and for the log; the layer's thread does not wait. So it
 * leaves what is to be done here. One thing after the other: a change takes about a second, and
 * shards change rarely. */
#ifndef HOT_REDIS_MOVER_H
#define HOT_REDIS_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/heat.h"
#include "hot/redis/spread.h"

enum mover_work {
    MOVER_RESHARD,
    MOVER_GO_ON,
    MOVER_DISSOLVE,
};

struct mover *mover_new(struct spreads *spreads);

/* Waits for what is under way. */
void mover_free(struct mover *mover);

/* spread_was_moved() is called on the layer's thread when it is done. False: too much is left to do
 * already. */
bool mover_ask(struct mover *mover, struct spread_entry *entry, enum mover_work work,
               uint32_t shards, enum heat_reason reason);

/* The same for something that has no entry; nobody is told. */
bool mover_ask_id(struct mover *mover, struct slice id, uint32_t shards, enum heat_reason reason);

#endif
