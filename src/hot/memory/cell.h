/* cell.h - one of the 64 single-threaded state machines that hold everything.
 *
 * A cell decides ops, changes its records and writes down the events. It takes
 * no lock, reads no clock and does no I/O: whoever holds the cell's lock is its
 * thread, and hands in the time, the section to write events to, and whether the
 * log has room. What changes together with an event changes in the same call, so
 * a cell and its stretch of the log never disagree. */
#ifndef HOT_MEMORY_CELL_H
#define HOT_MEMORY_CELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/lock.h"
#include "core/event.h"
#include "core/heat.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/op.h"
#include "core/shard.h"
#include "hot/memory/cold.h"
#include "hot/memory/entry.h"
#include "hot/memory/heap.h"
#include "hot/memory/members.h"
#include "hot/memory/saves.h"
#include "hot/memory/table.h"
#include "hot/memory/users.h"

struct cell {
    struct lock lock; /* taken in memory.c only */
    uint8_t number;
    const struct kinds *kinds; /* borrowed */
    struct users *users;       /* borrowed */
    uint64_t hash_key;         /* of hash_keyed() */
    uint32_t idle_s;           /* counters without an own setting expire after; 0 = never */

    /* Where there is a store; see cold.h and saves.h. */
    struct cold *cold;  /* borrowed; NULL: there is none, and nothing is ever cold */
    uint8_t generation; /* that writes belong to; 0 = there is no store */
    uint8_t clock;      /* what `used` of a record is set to; goes round */

    uint64_t sequence;    /* of the last event */
    uint64_t ticket;      /* of the last section */
    uint32_t incarnation; /* of what is created now: deletions so far */

    struct heap heap;
    struct table table;
    uint64_t last_hash; /* of the record that was found last: often the next one, too */
    uint32_t last_ref;
    union rare_place *rares; /* [0] is not used */
    uint32_t rare_count;
    uint32_t rare_free; /* first of the list of free places, 0 = none */

    struct spread *retired; /* given up, still to be freed by who holds the lock */

    /* What there is, in memory or not: loading and dropping do not change these. A
     * cell's own may be below zero, which is why only their sums mean something. */
    uint64_t counters;
    uint64_t items;
    uint64_t members; /* of items whose home this is; of spread ones by slice */

    /* What is in memory. */
    uint64_t hot_counters;
    uint64_t hot_items;
    uint64_t loads; /* targets and slices */
    uint64_t dropped;
    uint64_t big;
    uint64_t spread; /* records of this cell that are on more than one shard */
    uint64_t expired;
    uint64_t mortal;  /* counters that have a deadline or an idle time of their own */
    uint32_t sweep;   /* record at which the search for expired ones goes on */
    uint32_t drop_at; /* and that for those that may leave memory */

    struct heat_sample heat; /* which ids are written most, since the last look */
    _Atomic uint64_t writes; /* since the last look; read by others without the lock */
    uint64_t tries;          /* of the lock, since the last look */
    uint64_t waits;          /* found it taken */
} __attribute__((aligned(64)));

/* What the thread that holds the lock brings along. */
struct cell_turn {
    struct section *section;
    int64_t now_ms;
    enum err room;               /* ERR_OK, or why nothing may be written now */
    bool alone;                  /* all cells are locked by us */
    bool tight;                  /* memory is at its limit: nothing new may be added to it */
    bool full;                   /* past it: nor may what is loaded to be written to */
    struct shard_picker *picker; /* of this worker */
    const struct cell *cells;    /* all 64, for their loads */
};

enum cell_result {
    CELL_DONE,
    CELL_ELSEWHERE, /* run it again in op->cell */
    CELL_ALONE,     /* run it again with all cells locked */
};

void cell_init(struct cell *cell, uint8_t number, const struct kinds *kinds, struct users *users,
               uint64_t hash_key, uint32_t idle_s);
void cell_done(struct cell *cell);

/* Decides an op. op->target, hash, cell, route and the user's number are filled
 * in. If op->route is set, the op concerns a piece of that object. */
enum cell_result cell_run(struct cell *cell, const struct cell_turn *turn, struct op *op);

/* Remembers that a keyed write was answered although it changed nothing. */
void cell_remember(struct cell *cell, const struct cell_turn *turn, const struct op *op);

/* The cell in which a write of a spread counter goes, by its policy. */
uint8_t cell_pick(const struct cell_turn *turn, const struct op *op, const struct spread *spread);

/* Whose record an event is about. */
struct cell_target {
    struct slice id; /* the event's, or the item of an "item/kind" */
    uint8_t kind;    /* of an "item/kind" */
    uint64_t hash;
    struct user user;
    uint16_t bucket;
};

/* Takes an event that is in the log. The cell is the home of its target. ERR_COLD:
 * something has to be loaded first, and is wanted. */
enum err cell_replay(struct cell *cell, const struct event *event, const struct cell_target *target,
                     struct error *error);

/* Takes an event on top of what was loaded: the store has it, and could not apply it
 * (yet). The record's totals are the caller's to put right. */
enum err cell_replay_pending(struct cell *cell, const struct event *event,
                             const struct cell_target *target, struct error *error);

/* The record of an id, or NULL. */
struct entry *cell_find(struct cell *cell, uint64_t hash, struct slice id);

/* A record that was loaded, of the given incarnation; there is none of this id. */
struct entry *cell_put(struct cell *cell, uint64_t hash, struct slice id, uint8_t kind,
                       uint32_t incarnation);

/* Is everything that was written to the record in the store? */
bool cell_is_saved(const struct cell *cell, const struct entry *entry, const struct saves *saves);

/* The record leaves memory, and the store has it: true. False: it has to stay, because it
 * is not saved, something of it is being loaded, or it is spread and not all cells are
 * locked. */
bool cell_forget(struct cell *cell, uint64_t hash, struct entry *entry, const struct saves *saves,
                 bool alone);

/* Looks at up to `limit` records and lets those go that are saved and were not used
 * for `age` on the cell's clock. Returns how many it has looked at: fewer, when the
 * end was reached. *ret_stuck: the next one is spread, and takes all cells. */
uint32_t cell_forget_idle(struct cell *cell, const struct saves *saves, uint32_t age,
                          uint32_t limit, bool alone, bool *ret_stuck);

struct rare *cell_rare(const struct cell *cell, const struct entry *counter);

/* Looks at up to `limit` records and deletes those whose time is over. False: the
 * next one is spread, to be swept with all cells locked. */
bool cell_sweep(struct cell *cell, const struct cell_turn *turn, uint32_t limit);

/* Counts, by their age on the cell's clock, those of the next records that may go. */
#define CELL_AGES 128u
void cell_sample_ages(struct cell *cell, const struct saves *saves, uint32_t limit,
                      uint32_t counts[CELL_AGES]);

/* Gives a counter `shards` parts, or folds it to none (1); all cells are locked,
 * or the counter has just been made. A big counter stays in one piece. */
void cell_reshard_counter(struct cell *cell, struct entry *counter, uint32_t shards);

/* The same for an item, which must be fit for it: see cell_crowd(). */
void cell_reshard_item(struct cell *cell, struct entry *item, uint32_t shards);

/* Makes an item fit to be spread: 64 slices. NULL: names have to be loaded first, and
 * are wanted. */
struct crowd *cell_crowd(struct cell *cell, struct entry *item, uint64_t hash);

#endif
