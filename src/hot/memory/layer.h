/* layer.h - what the files of the memory hot layer share.
 *
 *   memory.c   the port: opening, replay, scans, figures
 *   run.c      batches: who runs what, where, under which lock
 *   balance.c  the tick: expiry, old keys, spreading and folding
 *   load.c     what comes from the store
 *   drop.c     what is saved, what leaves memory, and how much there is of it
 *   inspect.c  looking at one thing closely, and putting it right
 *   layer.c    the cells' locks, and what is still to be freed
 *
 * The locks of cells are taken in these files and nowhere else. Order: cells by
 * their number, then a leaf (a stripe of users or keys, the directory, the list
 * of the retired), then what is cold (cold.h).
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
#include "hot/memory/cold.h"
#include "hot/memory/keys.h"
#include "hot/memory/memory.h"
#include "hot/memory/own.h"
#include "hot/memory/saves.h"
#include "hot/memory/spread.h"
#include "hot/memory/users.h"

#define NO_EPOCH UINT64_MAX /* of a worker that is not in a batch */

/* A cell's share of a batch, in order. */
struct group {
    struct op *first;
    struct op **last;
};

/* A few ids, by their hashes. May take a stranger for one of them: he is then treated
 * as they are, which costs time only. */
#define ID_BITS 4096u
struct id_bits {
    bool any;
    uint64_t words[ID_BITS / 64];
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
    struct id_bits slow_ids;
    struct id_bits cold_ids; /* that an op of the batch has to wait for */
    bool repeated;           /* an op of the batch got the first answer of its key again */
    bool shared;             /* an op of the batch added to a spread counter */
    _Atomic uint64_t refused;
    _Atomic uint64_t memory_refused;
} __attribute__((aligned(64)));

/* How far the ticker is with what may leave memory. */
struct drop {
    uint64_t retention_ms; /* 0 = nothing is dropped for being idle */
    uint64_t unit_ms;      /* of the clock by which records are idle */
    int64_t ticked_ms;     /* 0 = never */
    uint64_t passed_ms;    /* of the unit that is running */
    int64_t closed_ms;     /* when a generation was last closed */
    uint8_t clock;
    uint8_t units;    /* by which this tick has moved it */
    bool tells_apart; /* the last tick has moved it, too: who was used since is known */
    uint8_t cell;     /* to go on with */
    uint32_t users;   /* likewise: a cursor of users_shed() */
    uint64_t keys_kept_ms;
    uint64_t keys_turned_ms; /* of time that has passed: when keys were last forgotten */
    uint64_t all_ms;         /* time that has passed */
};
#define DROP_AGE 32u /* units: the retention */

#define INSPECT_STAMPS 1024u

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
    struct cold *cold;         /* owned; NULL: there is no store */
    uint64_t *begun;           /* owned; sequences by cell that the store began with */
    struct saves saves;        /* changes with all cells locked */
    struct drop drop;          /* the ticker's */
    _Atomic int64_t own_bytes; /* see own.h */
    _Atomic uint64_t memory_bytes;
    uint64_t memory_max;
    _Atomic bool tight; /* at the limit */
    _Atomic bool full;  /* and a good deal past it */
    _Atomic uint32_t inspections;
    atomic_bool has_told_kind;       /* that one is not configured */
    uint32_t stamps[INSPECT_STAMPS]; /* with all locks: of records that were inspected, by hash */
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

/* Takes over what this thread has taken and freed, see own.h. */
static inline void layer_count_own(struct memory_hot *hot)
{
    int64_t bytes = own_hand_over();
    if (bytes != 0)
        atomic_fetch_add_explicit(&hot->own_bytes, bytes, memory_order_relaxed);
}

/* Whose event is it, and where? It is of `generation` (saves.h), 0 if the store has it.
 * ERR_COLD: the user has to be loaded first. */
enum err layer_aim_event(struct memory_hot *hot, const struct event *event, uint8_t generation,
                         struct cell_target *ret_target, uint64_t *ret_stable, struct error *error);

/* Wakes the loader if something is wanted; no lock is held. */
void layer_tell_wants(struct memory_hot *hot);

/* Takes over what the cell has given up; its lock is held. */
void layer_collect(struct memory_hot *hot, struct cell *cell);

/* Frees what was retired before the oldest batch that is still running began. */
void layer_free_retired(struct memory_hot *hot);

/* Whose record is the op about, and where? Clears the answer. False when it is
 * refused already: op->code. `previous` is an op that was aimed, or NULL. */
bool layer_aim(const struct memory_hot *hot, struct op *op, const struct op *previous);

/* Spreads what is on fewer shards than its creation asked for. Takes all locks. Does
 * nothing when names have to be loaded first: the balancer tries again when it is written. */
void balance_spread_as_asked(struct memory_hot *hot, struct cell *home, uint64_t hash,
                             struct slice target);

/* The port's members that live in other files than memory.c. */
void run_batch(struct hot *base, struct batch *batch);
void balance_tick(struct hot *base, int64_t now_ms);
enum err balance_reshard(struct hot *base, struct slice id, uint32_t shards, int64_t now_ms);
void load_begin(struct hot *base, const struct state_mark *mark);
void load_tell(struct hot *base, enum hot_want_kind kind, uint64_t stable_hash);
void load_told_all(struct hot *base, enum hot_want_kind kind);
bool load_wanted(struct hot *base, struct hot_want *ret_want);
void load_loaded(struct hot *base, const struct hot_want *want, const struct hot_found *found);
void drop_saved(struct hot *base, const uint64_t sequences[LIMIT_CELLS]);
void drop_sequences(struct hot *base, uint64_t ret_sequences[LIMIT_CELLS]);
enum err drop_id(struct hot *base, struct slice id);
enum err inspect_id(struct hot *base, struct slice id, struct hot_inspection *ret);
enum err inspect_mend(struct hot *base, struct slice id, const struct hot_record *record,
                      uint8_t kind, const struct number *by);
enum err inspect_note(struct hot *base, const struct event *repair, int64_t now_ms);
void inspect_hottest(struct hot *base, uint32_t limit, hot_shards_fn *visit, void *arg);

/* The tick's part of drop.c. */
void drop_init(struct memory_hot *hot, const struct memory_hot_options *options);
void drop_tick(struct memory_hot *hot, int64_t now_ms);

/* What a record of the cell has in other cells, NULL if nothing. */
struct spread *layer_spread(const struct cell *home, const struct entry *entry);

/* The shards that it ought to have, as its creation asked for; 1 if it has as many, or
 * cannot have more. */
uint32_t layer_owed(const struct cell *home, const struct entry *entry);

/* Lets the workers know of what was created, if it is on several shards. */
void layer_publish(struct memory_hot *hot, struct cell *home, uint64_t hash, struct slice target);

#endif
