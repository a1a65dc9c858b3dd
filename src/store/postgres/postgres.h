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

#endif
