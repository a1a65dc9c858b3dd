/* hot.h - the contract that Tally asks of the place where counts live.
 *
 * A hot layer takes batches of ops, decides each, and writes what changed to
 * the log: change and event are one step. It knows nothing of protocols. */
#ifndef CORE_HOT_H
#define CORE_HOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/event.h"
#include "core/op.h"

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
    unsigned worker; /* who runs it, 0 to workers - 1; a worker has one batch at a time */
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
};
typedef void hot_visit_fn(void *arg, const struct hot_entry *entry);

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
    uint64_t refused; /* ops that wanted to write and could not: disk full or busy */
};

struct hot_ops {
    const char *name; /* as written in the configuration: "memory" */

    void (*run)(struct hot *hot, struct batch *batch);

    /* Takes an event that is in the log already: start-up. In the log's order,
     * from one thread, before the first run(). ERR_CORRUPT when it cannot follow
     * what came before. */
    enum err (*replay)(struct hot *hot, const struct event *event, struct error *error);

    /* An event that replay() will be given soon: a chance to bring what it touches
     * towards the cache. NULL: the layer does not care. */
    void (*replay_ahead)(struct hot *hot, const struct event *event);

    /* Visits about `limit` entries from `cursor` on (0 at first) and moves it; 0
     * afterwards: that was all. What is there all the time is visited once. */
    void (*scan)(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg);

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

    void (*stats)(struct hot *hot, struct hot_stats *ret_stats);

    void (*close)(struct hot *hot);
};

/* The first member of every hot layer's own struct. */
struct hot {
    const struct hot_ops *ops;
};

/* Callers use these, not the table. */
void hot_run(struct hot *hot, struct batch *batch);
enum err hot_replay(struct hot *hot, const struct event *event, struct error *error);
void hot_replay_ahead(struct hot *hot, const struct event *event);
void hot_scan(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg);
void hot_items_of(struct hot *hot, struct slice user, uint64_t *cursor, uint32_t limit,
                  hot_item_fn *visit, void *arg);
enum err hot_recount(struct hot *hot, struct slice id, struct number *ret_value);
void hot_tick(struct hot *hot, int64_t now_ms);
enum err hot_reshard(struct hot *hot, struct slice id, uint32_t shards, int64_t now_ms);
void hot_stats(struct hot *hot, struct hot_stats *ret_stats);
void hot_close(struct hot *hot);

#endif
