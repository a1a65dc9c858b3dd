/* redis.h - a hot layer on Redis or Valkey, a cluster or a single server.
 *
 * Nodes have no state of their own: counts, members and keys live in Redis, in the same 64 cells
 * as those of the memory layer, each in one hash slot. What a batch does to a cell is one script
 * call, which decides, counts, and writes the events into the cell's outbox, all or nothing. */
#ifndef HOT_REDIS_REDIS_H
#define HOT_REDIS_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/outbox.h"

struct redis_hot_options {
    const char *url; /* redis://[user:password@]host:port[,host:port...][/prefix] */
    const struct kinds *kinds;
    unsigned workers; /* batches of these are collected; those of guests are done by run() */
    unsigned guests;
    uint64_t keys_kept_ms;
    uint32_t idle_s;          /* counters that were not written for so long expire; 0 = never */
    uint64_t spread_rate;     /* writes a second of one shard that make it spread; 0 = never */
    uint64_t retention_ms;    /* what is saved and idle for so long leaves Redis; 0 = never */
    uint64_t totals_ttl_ms;   /* a total of something spread is worth nothing after this */
    uint64_t outbox_max;      /* entries in the outbox of a cell; past it writes are ERR_BUSY */
    uint64_t call_timeout_ms; /* of one try; 0 = the usual */
    unsigned patience;        /* ops and calls wait so many times as long; 0 = once */
    bool serves;              /* false: an aggregating node, which only opens cells and relays */
};

/* Connects, learns the slots, loads the scripts. A server that does not answer is no reason to give
 * up: it will be there later, and until then ops are refused with ERR_UNAVAILABLE. ERR_INVALID when
 * the URL makes no sense, or when a server answers and is not set up as the promises need it
 * (maxmemory-policy other than noeviction, too old); ERR_DENIED when it does not let us in. The
 * text says what to do. */
enum err redis_hot_open(struct env *env, const struct redis_hot_options *options,
                        struct hot **ret_hot, struct error *error);

/* Is every cell in reach? If not, says why, for a person. Any thread; cheap. */
bool redis_hot_status(struct hot *hot, char *reason, size_t size);

/* The cells that may refuse ops, a bit each: those that are closed or have just been opened, and
 * those that the relay has not looked at since their server is there. Any thread; cheap. */
uint64_t redis_hot_doubtful(struct hot *hot);

/* Its outbox, which lives as long as the layer. */
struct outbox *redis_hot_outbox(struct hot *hot);

#endif
