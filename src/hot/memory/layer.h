/* layer.h - what the files of the memory hot layer share.
 *
 *   memory.c   the port: opening, replay, scans, figures
 *   run.c      batches: who runs what, where, under which lock
 *   balance.c  the tick: expiry, old keys, spreading and folding
 *   layer.c    the cells' locks, and what is still to be freed
 *
 * The locks of cells are taken in these files and nowhere else. Order: cells by
 * their number, then a leaf (a stripe of users or keys, the directory, the list
 * of the retired).
 *
 * Objects that several cells point into are freed when no worker can be on its
 * way to them: each worker shows the epoch in which its batch began. */
#ifndef HOT_MEMORY_LAYER_H
#define HOT_MEMORY_LAYER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/hash.h"
#include "base/lock.h"
#include "core/hot.h"
#include "core/log.h"
#include "hot/memory/cell.h"
#include "hot/memory/keys.h"
#include "hot/memory/spread.h"
#include "hot/memory/users.h"

#define NO_EPOCH UINT64_MAX /* of a worker that is not in a batch */

/* A cell's share of a batch, in order. */
struct group {
    struct op *first;
    struct op **last;
};

struct worker {
    _Atomic uint64_t epoch;
    uint64_t batch; /* number of the batch that is running */
    struct section section;
    struct shard_picker picker;
    struct directory_copy directory;
    struct group groups[LIMIT_CELLS];
    uint8_t used[LIMIT_CELLS]; /* cells with a group */
    uint32_t used_count;
    struct op *slow; /* to be run after the groups, in order */
    struct op **slow_last;
    bool repeated; /* an op of the batch got the first answer of its key again */
    bool shared;   /* an op of the batch added to a spread counter */
    _Atomic uint64_t refused;
} __attribute__((aligned(64)));

struct memory_hot {
    struct hot base;
    struct env *env;           /* borrowed */
    const struct kinds *kinds; /* borrowed */
    struct log *log;           /* borrowed */
    struct users *users;       /* owned */
    struct keys *keys;         /* owned */
    uint64_t hash_key;
    struct heat_rule rule;
    unsigned runners;      /* workers and guests */
    struct worker *worker; /* [runners + 1]: the last one is the ticker's */
    struct directory directory;
    struct lock retired_lock;
    struct spread *retired;
    _Atomic uint64_t epoch;
    _Atomic int64_t now_ms; /* of the last batch or tick */
    int64_t window_began_ms;
    _Atomic uint64_t spread_events;
    _Atomic uint64_t lock_waits;
    struct cell cells[LIMIT_CELLS];
};

/* The home cell of an id, from its stable hash. */
static inline uint8_t layer_home(uint64_t stable_hash)
{
    return (uint8_t)(stable_hash >> 58);
}

/* For those who are not told the time. Written only when it has changed: every
 * worker reads what lies beside it. */
static inline void layer_note_time(struct memory_hot *hot, int64_t now_ms)
{
    if (atomic_load_explicit(&hot->now_ms, memory_order_relaxed) != now_ms)
        atomic_store_explicit(&hot->now_ms, now_ms, memory_order_relaxed);
}

/* Takes a cell's lock, and notes whether it was found taken. */
void layer_take(struct memory_hot *hot, struct cell *cell);
void layer_take_all(struct memory_hot *hot);
void layer_release_all(struct memory_hot *hot);

/* Hands the section to the log. The cell's lock is held. */
void layer_append(struct memory_hot *hot, struct cell *cell, struct section *section,
                  int64_t now_ms);

/* Who is decided upon in another cell from now on may be answered "nothing has
 * changed", and that rests on what was decided in this one: so every cell's
 * answers wait for all of them. All locks are held. */
void layer_level_tickets(struct memory_hot *hot);

/* Takes over what the cell has given up; its lock is held. */
void layer_collect(struct memory_hot *hot, struct cell *cell);

/* Frees what was retired before the oldest batch that is still running began. */
void layer_free_retired(struct memory_hot *hot);

/* Whose record is the op about, and where? Clears the answer. False when it is
 * refused already: op->code. `previous` is an op that was aimed, or NULL. */
bool layer_aim(const struct memory_hot *hot, struct op *op, const struct op *previous);

/* The port's members that live in other files than memory.c. */
void run_batch(struct hot *base, struct batch *batch);
void balance_tick(struct hot *base, int64_t now_ms);
enum err balance_reshard(struct hot *base, struct slice id, uint32_t shards, int64_t now_ms);

/* What a record of the cell has in other cells, NULL if nothing. */
struct spread *layer_spread(const struct cell *home, const struct entry *entry);

/* Lets the workers know of what was created, if it is on several shards. */
void layer_publish(struct memory_hot *hot, struct cell *home, uint64_t hash, struct slice target);

#endif
