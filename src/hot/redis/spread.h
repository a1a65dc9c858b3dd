/* spread.h - what is spread over several cells, as this node knows it.
 *
 * A counter or item that was met spread has an entry here: its map, what each of its pieces has
 * counted when it was last heard of, and the ops that wait for one of these. Entries are made when
 * a cell says that an op does not belong there, and forgotten when the thing was folded, or was not
 * used for a while.
 *
 *   spread.c    entries; spread_own.h says which file has the rest: where an op goes, ops that wait
 *   refresh.c   asks the pieces: maps and totals
 *   total.c     sums, answers; what workers may look at
 *   warmth.c    heat: more shards or fewer
 *   shards.c    what the port asks about shards
 *   mover.c     the thread that changes shards (move.c, dissolve.c)
 *
 * All of it belongs to the layer's thread but for what says otherwise. */
#ifndef HOT_REDIS_SPREAD_H
#define HOT_REDIS_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"
#include "core/heat.h"
#include "core/op.h"
#include "core/shard.h"
#include "hot/redis/dissolve.h"
#include "hot/redis/layer.h"
#include "hot/redis/map.h"
#include "net/timer.h"

#define SPREAD_TABLE 1024u /* lists of entries, by hash */

struct totals;  /* total.c: for workers */
struct mover;   /* mover.h */
struct warmth;  /* warmth.c */
struct refresh; /* refresh.c: one that is under way */
struct spreads;

/* What a piece has counted. */
struct spread_part {
    bool is_known;
    bool is_frozen;       /* takes no writes: of one that joins, what an earlier end has left */
    uint32_t incarnation; /* of what it is a piece of: an earlier life's do not count */
    int64_t as_of_ms;
    struct number value;
    int64_t counts[LIMIT_KINDS];
};

/* What all of them have counted. */
struct spread_sum {
    struct number value;
    int64_t counts[LIMIT_KINDS];
    int64_t as_of_ms;   /* of the oldest part */
    unsigned missing;   /* parts that did not answer, */
    unsigned forgotten; /* and are not known, or were known too long ago */
};

/* Ops in a row, by op->next. */
struct spread_ops {
    struct op *first;
    struct op *last;
};

struct spread_entry {
    struct spread_entry *next; /* of its list in the table */
    struct layer *layer;       /* borrowed */
    struct slice id;           /* owned */
    uint64_t stable;
    unsigned home;

    bool has_map; /* false: not known yet, or not spread any more */
    struct map map;
    struct op_create create; /* as home has it */
    uint32_t incarnation;
    int64_t deadline_ms;
    int64_t written_ms;
    struct spread_part *parts[LIMIT_CELLS]; /* owned; NULL = never heard of */
    struct spread_sum sum;
    bool has_sum;      /* and no part has changed since */
    uint64_t missing;  /* cells that did not answer the last time */
    uint64_t reserved; /* cells whose piece is just being made, and serves nothing yet */
    int64_t as_of_ms;  /* the last time that all were asked */
    uint64_t asked_ns; /* the same, monotonic; 0 = never */

    uint64_t used_ns;
    bool is_read; /* since the last refresh */

    struct refresh *refresh;       /* under way */
    bool wants_refresh;            /* as soon as that is done */
    uint64_t rest_until_ns;        /* those that wait for the map wait at least so long */
    struct spread_ops for_map;     /* go again when it was read */
    struct spread_ops for_refresh; /* reads: of the one that is under way */
    struct spread_ops for_next;    /* reads: of the one after that */

    uint64_t pick_batch; /* the last batch that has added to a counter (0 = none), and where */
    unsigned pick_cell;

    /* Writes under way, by turn: a read waits for those before it, and for no later ones. */
    unsigned turn;
    uint32_t under_way[2];
    struct spread_ops behind[2]; /* reads that wait until under_way[i] is 0 */

    struct spread_ops behind_reads; /* writes, and what follows: a read of their batch waits */

    bool folds;                 /* it is to be in one piece: nobody goes anywhere */
    bool is_folding;            /* the mover is at it */
    struct spread_ops for_fold; /* in order */
    bool is_moving;             /* the mover has been asked to do something about it */
    struct spread_ops created;  /* are finished when that is done */

    bool lacks_pieces; /* cells that the map names have none */
    /* An owner has said that it is none: at this version, so often, since when, last. */
    uint64_t strange_version;
    uint32_t strange_count;
    uint64_t strange_ns;
    uint64_t strange_last_ns;

    uint64_t window_writes;
    uint64_t last_window_writes;
    uint8_t quiet_windows;
    uint64_t told_hot_ns;
};

struct spreads {
    struct layer *layer; /* borrowed */
    struct spread_entry *table[SPREAD_TABLE];
    uint64_t hash_key; /* random: clients choose ids, and with this not where they land */
    uint32_t count;
    struct timer *timer; /* these are owned */
    struct totals *totals;
    struct mover *mover;
    struct warmth *warmth;
    struct releases releases; /* the relay's thread */
    struct shard_picker picker;
    uint64_t picks[LIMIT_CELLS]; /* by primary, of late: least-loaded */
    _Atomic bool is_closing;
    _Atomic uint64_t changes; /* of shards, so far */
    _Atomic uint64_t spread;  /* entries with a map */
};

/* --- for the other parts of the layer; see also layer.h --- */

/* CREATE with several shards was done at home. True: the op is finished when they are there. */
bool spreads_created(struct layer *layer, struct op *op);

/* Something that is to have several shards was loaded, in one piece. */
void spreads_loaded(struct layer *layer, struct slice id, uint32_t shards);

/* An op with a route has its reply, of whatever kind, and is not met_moved. */
void spreads_ended(struct layer *layer, struct op *op);

/* The counts of the cell, that came with the answer to the op. */
void spreads_note_counts(struct layer *layer, const struct op *op, unsigned cell,
                         const int64_t *counts);

/* A cell was opened anew. */
void spreads_cell_opened(struct layer *layer, unsigned cell);

/* Before a cell is opened without its data: pieces elsewhere of what has its home there are given
 * up. ERR_BUSY until the store has what they have written. `opening_since`: when this opening was
 * begun. `events`: AFTER events are added, which the cell appends when it is opened. The relay's
 * thread. */
enum err spreads_release(struct layer *layer, unsigned home, uint64_t opening_since,
                         struct section *events);

/* A read that the sum of the pieces answers. Any thread. */
bool spread_sum_will_do(const struct op *op);

/* How many things are spread, as far as this node knows, and how often shards were changed. Any
 * thread. */
void spreads_figures(struct layer *layer, uint64_t *ret_spread, uint64_t *ret_changes);

/* --- of one another --- */

struct spread_entry *spread_find(struct spreads *spreads, uint64_t stable, struct slice id);
struct spread_entry *spread_get(struct spreads *spreads, uint64_t stable, struct slice id);

/* Any thread. */
bool spreads_are_closing(struct layer *layer);
struct releases *spreads_releases(struct layer *layer);

static inline uint64_t spreads_now_ns(const struct spreads *spreads)
{
    return env_monotonic_ns(spreads->layer->env);
}

void spread_ops_add(struct spread_ops *ops, struct op *op);
struct op *spread_ops_take(struct spread_ops *ops);

/* Nothing is under way, and yet a cell that the map names has no piece, or says that a slice of
 * its own is not: for a moment that is possible, since maps are read and cells are asked one after
 * the other. */
void spread_note_strange(struct spread_entry *entry);

/* Reads were answered: what had to wait for these goes on. */
void spread_was_read(struct spread_entry *entry);

/* The map was read (or there is none any more): those that wait for it go on. */
void spread_met_map(struct spread_entry *entry);

/* The mover is done with it. */
void spread_was_moved(struct spread_entry *entry, enum err code);

/* refresh.c: asks home and all pieces, now or as soon as the last time is over. */
void refresh_start(struct spread_entry *entry);
void refresh_free(struct refresh *refresh);

/* total.c */
struct spread_part *total_part(struct spread_entry *entry, unsigned cell);
void total_forget(struct spread_entry *entry);
bool total_is_fresh(const struct spread_entry *entry);
bool total_is_over(const struct spread_entry *entry); /* a counter's time */
void total_answer(struct spread_entry *entry, struct op *op);
void total_publish(struct spread_entry *entry);
void total_withdraw(struct spread_entry *entry);
bool total_was_read(struct spread_entry *entry);
struct totals *totals_new(void);
void totals_free(struct totals *totals);

/* warmth.c: ten times a second, and of each write. */
struct warmth *warmth_new(void);
void warmth_note(struct spreads *spreads, const struct op *op, unsigned cell);
void spreads_balance(struct spreads *spreads);

#endif
