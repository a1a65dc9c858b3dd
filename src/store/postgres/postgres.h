/* postgres.h - the store as a PostgreSQL database: for many nodes, and for people who want SQL.
 *
 * One connection writes, each reader has its own. docs/store.md tells of the tables, which
 * stand in the first schema of the search path. Several processes may write at once, each the
 * lanes of the log that it owns. A server that is down, full, read-only, too slow, or without our
 * tables is an outage: every call says so until it is better, and connects anew. */
#ifndef STORE_POSTGRES_POSTGRES_H
#define STORE_POSTGRES_POSTGRES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/copy.h"
#include "core/store.h"

enum postgres_members {
    POSTGRES_ROWS, /* a row for each reaction */
    POSTGRES_SETS, /* some bytes for each, many in a row: core/sets.h */
};

struct postgres_store_options {
    const char *url; /* as libpq takes it; several hosts: the one that can be written is taken */
    enum postgres_members members;
    bool names;    /* the hot layer knows users by their names only: state_members.names */
    bool may_wait; /* opening is fine although nobody answers: every call tries again */
    uint32_t statement_timeout_ms; /* 0 = a good default */
    uint32_t lock_timeout_ms;      /* 0 = a good default */
};

/* Connects, and makes the tables if there are none. ERR_UNAVAILABLE: not now; ERR_INVALID: the
 * URL makes no sense, or these are not our tables, or those of a newer Tally, or they keep members
 * the other way. Whoever finds that out later is told ERR_UNAVAILABLE, with the same text. */
enum err postgres_store_open(struct env *env, const struct postgres_store_options *options,
                             struct store **ret, struct error *error);

/* --- who writes: by the writer's thread --- */

#define POSTGRES_MACHINE_BYTES 32u

/* Claims the store for a single machine: nodes wait until it is released, and batches of this store
 * fail once it is another's. `machine` tells it from others, for ever; `who` is for people. What it
 * had before is its own again, also if it has been released and no node has come. Else the store
 * must have nothing in it, unless `adopts`. ERR_EXISTS: it is another's, or not empty; the text
 * says whose. */
enum err postgres_store_claim(struct store *base, const char *machine, const char *who, bool adopts,
                              struct error *error);

/* It is the nodes' to take. After ERR_UNAVAILABLE nobody knows: call it again. */
enum err postgres_store_release(struct store *base, struct error *error);

/* May nodes come? ERR_BUSY: a machine has not handed over yet; the text says which. */
enum err postgres_store_is_free(struct store *base, struct error *error);

/* Fills a store that was claimed and is empty with everything of another, in one transaction.
 * `goes_on` hears now and then how many rows there are so far; false: nothing is done. */
typedef bool postgres_fill_fn(void *arg, uint64_t rows);
enum err postgres_store_fill(struct store *base, copy_source_fn *source, void *from,
                             postgres_fill_fn *goes_on, void *arg, struct error *error);

#endif
