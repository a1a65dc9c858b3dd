/* dissolve.h - what is spread and has lost a piece is put together again from the store.
 *
 * A cell that was opened without its data has lost the pieces that were there, and the maps of
 * what has its home there. What the other pieces know is in their outboxes, in the log, and soon
 * in the store: so all of them are given up, and when the store has what they have written, the
 * whole is loaded from there, in one piece.
 *
 * These functions block. Any thread but the layer's. */
#ifndef HOT_REDIS_DISSOLVE_H
#define HOT_REDIS_DISSOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "hot/redis/layer.h"

/* A piece of it was lost, its home was not. ERR_TIMEOUT: the store has not come far enough yet; to
 * be called again. ERR_UNAVAILABLE: there is no store, or cells do not answer. */
enum err dissolve(struct layer *layer, struct slice id);

/* A home that was lost, and what is waited for. What was wiped for one opening of a cell says
 * nothing of the next one: another node may have opened it in between. */
struct release {
    bool is_waiting;
    uint64_t opening_since; /* which opening: when it was begun first */
    uint64_t began_ns;
    uint64_t patience_ns;
    uint64_t sequences[LIMIT_CELLS];
};

struct releases {
    struct release homes[LIMIT_CELLS];
};

#endif
