/* hot.h - the contract that Tally asks of the place where counts live.
 *
 * A hot layer takes batches of ops, decides each, and writes what changed to
 * the log: change and event are one step. It knows nothing of protocols. */
#ifndef CORE_HOT_H
#define CORE_HOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/event.h"
#include "core/op.h"
#include "core/state.h"

struct hot;

/* A batch: what one pass of a worker's loop has parsed. The ops stay the
 * caller's, and stay put, until `done` is called: once, on the caller's thread,
 * perhaps before hot_run() returns. Ops on the same id happen in their order in
 * the batch; others may be done in any order, and so may ops of different users
 * next to one another on one item: the counts that they bring along are of some
 * moment between them. */
struct batch;
typedef void batch_done_fn(struct batch *batch);

struct batch {
    struct op *ops;
    size_t count;
    unsigned worker; /* who runs it, 0 to workers - 1; guests follow, one batch at a time each */
    int64_t now_ms;  /* wall clock, read once for the whole batch */
    batch_done_fn *done;
    void *arg; /* of whoever set done */

    /* flow/service.h's own: what it does when the hot layer is done, before it
     * calls the door's `done`. */
    batch_done_fn *door_done;
    void *service;
};

/* A counter met by a scan; the slices live during the call only. */
struct hot_entry {
    struct slice id;
    bool is_item; /* then value is NULL, and counts are there */
    const struct number *value;
    const int64_t *counts; /* by kind, [0] being kind 1 */
    uint32_t shards;
    uint32_t kinds_seen; /* bit k - 1: kind k is held by somebody */
    bool was_loaded;     /* from the store, and not made here: the store's scan may have met it */
};
typedef void hot_visit_fn(void *arg, const struct hot_entry *entry);

/* Something that is spread: the total of each shard; of an item its members. */
typedef void hot_shards_fn(void *arg, struct slice id, bool is_item, uint32_t shards,
                           const int64_t *totals);

/* An item that a user reacted to. */
typedef void hot_item_fn(void *arg, struct slice item, uint8_t kind);

struct hot_stats {
    uint64_t counters; /* plain ones */
    uint64_t items;
    uint64_t members;       /* reactions held */
    uint64_t users;         /* in the dictionary */
    uint64_t keys;          /* idempotency keys remembered */
    uint64_t big;           /* counters beyond 64 bits */
    uint64_t spread;        /* counters and items on more than one shard */
    uint64_t spread_events; /* times the shards of something changed */
    uint64_t lock_waits;    /* times a cell's lock was found taken */
    uint64_t expired;
    uint64_t refused;        /* ops that wanted to write and could not: disk full or busy */
    uint64_t deadlines;      /* counters in memory that will expire by themselves */
    uint64_t hot_counters;   /* of `counters`: in memory */
    uint64_t hot_items;      /* of `items` */
    uint64_t cold_misses;    /* ops that had to wait for the store */
    uint64_t loads;          /* targets and slices loaded */
    uint64_t dropped;        /* counters and items that left memory */
    uint64_t memory_bytes;   /* what counts against the limit, now */
    uint64_t memory_max;     /* 0 = no limit */
    uint64_t memory_refused; /* ops refused for want of memory */
    uint64_t outbox_entries; /* a layer outside of the process: wait for the log, in all cells */
    uint64_t outbox_longest; /* in the cell that has the most */
    uint64_t outbox_max;     /* in a cell, before it refuses writes; 0 = there is no outbox */
};

/* --- cold state ---------------------------------------------------------------
 *
 * Behind a hot layer there may be a store that knows more than is in memory. An op
 * on something that might be there and is not here is answered ERR_COLD: nothing
 * was done, and what it lacks is wanted. A loader (flow/loader.h) takes the wants,
 * asks the store, and hands the answers in; then the op is run again. Everything
 * else goes on meanwhile. Without hot_begin() there is no store, and nothing is
 * ever cold. */

enum hot_want_kind {
    HOT_WANT_TARGET, /* a counter, or an item without its slices */
    HOT_WANT_SLICE,  /* of a large item */
    HOT_WANT_USER,   /* the number of a named user */
    HOT_WANT_KEY,    /* the answer of an idempotency key */
    HOT_WANT_NAMES,  /* of named users whose numbers are known */
};
#define HOT_WANT_KINDS 5u
#define HOT_NAMES_MAX  4096u /* of one want */

struct hot_want {
    enum hot_want_kind kind;
    uint32_t slice;
    uint64_t key_low; /* key_hash() of id and key */
    uint64_t key_high;
    const uint32_t *numbers; /* NAMES: ascending; stay until loaded() */
    size_t number_count;     /* up to HOT_NAMES_MAX */
    struct slice id;         /* or the user's name; points into `bytes` */
    char bytes[LIMIT_ID_BYTES];
};

/* What the store says. `code` ERR_OK: here it is; ERR_NOT_FOUND: it has none, so
 * there is none; anything else: it cannot say, and the ops that wait are refused with
 * this code. */
struct hot_found {
    enum err code;
    bool unasked; /* handed in although nobody may wait for it: `arrive` is not called */
    bool more;    /* others follow at once: it may be put in together with them, and `arrive` is
                   * called for all with the last one, which has this not */
    const struct state_target *target;   /* TARGET */
    const struct state_members *members; /* SLICE */
    size_t member_count;
    const struct event *pending; /* SLICE: of the item, as state_target has them, read in the same
                                  * moment: those of users of this slice are replayed on top */
    size_t pending_count;
    uint32_t user_number;        /* USER */
    const struct state_key *key; /* KEY */
    const uint64_t *sequences;   /* how far the store was in that moment, by origin; NULL = as far
                                  * as it ever said to be */
    const int64_t *times_ms;     /* when the last event of each origin was written that the store
                                  * had in that moment; NULL = not known, and so is one that is 0 */
    const struct slice *names;   /* NAMES: for each of want->numbers; size 0 = there is none */
};

/* Which record of an id it was: one that is deleted and made anew, or dropped and loaded, is
 * another. */
struct hot_record {
    uint32_t incarnation;
    uint32_t stamp;
};

/* What there is of a counter or an item right now, all of one moment. */
struct hot_inspection {
    struct hot_record record;
    bool is_item;
    bool complete;       /* all members are in memory: `members` means something */
    struct number value; /* the caller's to free */
    int64_t counts[LIMIT_KINDS];
    int64_t members[LIMIT_KINDS];    /* counted one by one */
    uint64_t sequences[LIMIT_CELLS]; /* by origin: the events that this is the sum of; UINT64_MAX
                                      * of a layer outside: it has no part there */
    uint64_t writes;                 /* of a layer outside: another number after each write to it */
};

typedef void hot_progress_fn(void *arg);
typedef void hot_finish_fn(void *arg, unsigned worker);

struct hot_ops {
    const char *name; /* as written in the configuration: "memory" */

    void (*run)(struct hot *hot, struct batch *batch);

    /* Calls `done` of those batches of `worker` that were not done when run() returned and are now.
     * On the worker's thread, after hot->finish has named it. NULL: run() does them all. */
    void (*collect)(struct hot *hot, unsigned worker);

    /* Takes an event that is in the log already: start-up. In the log's order,
     * from one thread, before the first run(). ERR_CORRUPT when it cannot follow
     * what came before. */
    enum err (*replay)(struct hot *hot, const struct event *event, struct error *error);

    /* An event that replay() will be given soon: a chance to bring what it touches
     * towards the cache. NULL: the layer does not care. */
    void (*replay_ahead)(struct hot *hot, const struct event *event);

    /* Of what is in memory: visits about `limit` entries from `cursor` on (0 at first) and moves
     * it; 0 afterwards: that was all. What is there all the time is visited once. What cannot be
     * asked is passed over, and hot->passed_over grows. */
    void (*scan)(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg);

    /* Visits one counter or item, if it is in memory. ERR_COLD: it is not, and the store may
     * know it; ERR_NOT_FOUND: there is none; ERR_UNAVAILABLE: it cannot be asked, and the store may
     * know an older one. Wants nothing, and does not count as use. */
    enum err (*peek)(struct hot *hot, struct slice id, hot_visit_fn *visit, void *arg);

    /* Visits the items that a user holds a reaction on, from `cursor` on; may
     * look through everything: `limit` bounds the items looked at. */
    void (*items_of)(struct hot *hot, struct slice user, uint64_t *cursor, uint32_t limit,
                     hot_item_fn *visit, void *arg);

    /* Counts everything of `id` anew from its parts (members, shards): what the
     * value ought to be. ERR_NOT_FOUND. */
    enum err (*recount)(struct hot *hot, struct slice id, struct number *ret_value);

    /* A little housekeeping: expiry, old keys, spreading and folding. Called
     * about ten times a second, by one worker. */
    void (*tick)(struct hot *hot, int64_t now_ms);

    /* Spreads or folds to `shards` at once; for tests and tools. ERR_NOT_FOUND,
     * ERR_INVALID unless there are 1 to LIMIT_CELLS. */
    enum err (*reshard)(struct hot *hot, struct slice id, uint32_t shards, int64_t now_ms);

    /* Says that there is a store, and how far it is; before the first replay(). From
     * then on replay() may answer ERR_COLD, too: load what is wanted, and replay the
     * same event again. */
    void (*begin)(struct hot *hot, const struct state_mark *mark);

    /* The store has something of this stable hash (hash_stable() of the id, or of the
     * user's name): until all are told (`told_all`), whatever is not in memory is asked for.
     * Keys are not told: those of the store are handed in by loaded() one by one, unasked,
     * and `told_all` says that there are no more. Any thread. */
    void (*tell)(struct hot *hot, enum hot_want_kind kind, uint64_t stable_hash);
    void (*told_all)(struct hot *hot, enum hot_want_kind kind);

    /* Takes what has been wanted for longest; false if nothing is. A want that was
     * taken is answered by loaded() sooner or later. Any thread. Targets and slices
     * are taken only by who has asked for them: what nobody wants is not put in. */
    bool (*wanted)(struct hot *hot, struct hot_want *ret_want);
    void (*loaded)(struct hot *hot, const struct hot_want *want, const struct hot_found *found);

    /* The store has everything up to these sequences, by origin. What is saved, and
     * idle for long enough or in the way of the memory limit, may be dropped by tick(). */
    void (*saved)(struct hot *hot, const uint64_t sequences[LIMIT_CELLS]);

    /* How far the events of each origin are, in the log or on their way to it. NULL: others write
     * as well, and nobody knows. */
    void (*sequences)(struct hot *hot, uint64_t ret_sequences[LIMIT_CELLS]);

    /* Drops an id from memory if it is saved; ERR_BUSY if it is not (yet). ERR_NOT_FOUND: it is
     * not in memory; that the store does not have it, either, is not believed any more. */
    enum err (*drop)(struct hot *hot, struct slice id);

    /* For the audit. ERR_NOT_FOUND: not in memory; ERR_BUSY: its parts are on the move. Members are
     * counted one by one up to a million of them; of more, one slice in turn is, and the sets' own
     * counts stand for the rest.
     */
    enum err (*inspect)(struct hot *hot, struct slice id, struct hot_inspection *ret);

    /* Adds `by` to a counter, or to the count of an item's kind, and to nothing
     * else: no event, nobody is told. The audit has proved that it is missing from the record
     * that it has inspected; ERR_BUSY: another may be there by now, inspect again. ERR_INVALID
     * for a small item, whose counts are its members themselves. */
    enum err (*mend)(struct hot *hot, struct slice id, const struct hot_record *record,
                     uint8_t kind, const struct number *by);

    /* Writes an EVENT_REPAIR to the log, by the home cell of its id; changes nothing.
     * What log_room() says if that is not ERR_OK. */
    enum err (*note)(struct hot *hot, const struct event *repair, int64_t now_ms);

    /* Visits up to `limit` spread ids, those first that were written most in the last second. */
    void (*hottest)(struct hot *hot, uint32_t limit, hot_shards_fn *visit, void *arg);

    void (*stats)(struct hot *hot, struct hot_stats *ret_stats);

    /* Waits for a moment in which no batch runs that has asked the log for room before this call:
     * with log_shut() before it, all that was ever accepted is appended. NULL: not for hot layers
     * that do not write to the log themselves. */
    void (*settle)(struct hot *hot);

    /* The server is about to stop: what waits for something is answered or refused soon, and so is
     * what comes from now on; what has nothing to wait for is done as ever. Any thread. NULL: in
     * this layer nothing waits. */
    void (*hurry)(struct hot *hot);

    void (*close)(struct hot *hot);
};

/* The first member of every hot layer's own struct. */
struct hot {
    const struct hot_ops *ops;
    hot_progress_fn *want;   /* something is wanted: wake the loader; set by the owner before */
    void *want_arg;          /* the first run, may be NULL; any thread */
    hot_progress_fn *arrive; /* something was loaded: run again what was ERR_COLD; any thread */
    void *arrive_arg;
    hot_finish_fn *finish; /* batches of this worker can be collected; any thread. Set by the owner
                            * before the first run, if there is collect() */
    void *finish_arg;
    _Atomic uint64_t passed_over; /* grows when scan() or items_of() leave out what cannot be
                                   * asked */
    _Atomic uint64_t arrivals;    /* grows with each loaded() that was asked for, before `arrive` */
};

/* Callers use these, not the table. */
void hot_run(struct hot *hot, struct batch *batch);
void hot_collect(struct hot *hot, unsigned worker);
enum err hot_replay(struct hot *hot, const struct event *event, struct error *error);
void hot_replay_ahead(struct hot *hot, const struct event *event);
void hot_scan(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg);
enum err hot_peek(struct hot *hot, struct slice id, hot_visit_fn *visit, void *arg);
void hot_items_of(struct hot *hot, struct slice user, uint64_t *cursor, uint32_t limit,
                  hot_item_fn *visit, void *arg);
enum err hot_recount(struct hot *hot, struct slice id, struct number *ret_value);
void hot_tick(struct hot *hot, int64_t now_ms);
enum err hot_reshard(struct hot *hot, struct slice id, uint32_t shards, int64_t now_ms);
void hot_begin(struct hot *hot, const struct state_mark *mark);
void hot_tell(struct hot *hot, enum hot_want_kind kind, uint64_t stable_hash);
void hot_told_all(struct hot *hot, enum hot_want_kind kind);
bool hot_wanted(struct hot *hot, struct hot_want *ret_want);
void hot_loaded(struct hot *hot, const struct hot_want *want, const struct hot_found *found);
void hot_saved(struct hot *hot, const uint64_t sequences[LIMIT_CELLS]);
/* False: nobody knows. */
bool hot_sequences(struct hot *hot, uint64_t ret_sequences[LIMIT_CELLS]);
enum err hot_drop(struct hot *hot, struct slice id);
enum err hot_inspect(struct hot *hot, struct slice id, struct hot_inspection *ret);
enum err hot_mend(struct hot *hot, struct slice id, const struct hot_record *record, uint8_t kind,
                  const struct number *by);
enum err hot_note(struct hot *hot, const struct event *repair, int64_t now_ms);
void hot_hottest(struct hot *hot, uint32_t limit, hot_shards_fn *visit, void *arg);
void hot_stats(struct hot *hot, struct hot_stats *ret_stats);
void hot_settle(struct hot *hot);
void hot_hurry(struct hot *hot);
void hot_close(struct hot *hot);

/* "memory" */
static inline const char *hot_name(const struct hot *hot)
{
    return hot->ops->name;
}

#endif
