/* sqlite.h - the store as one SQLite file: SQL for people, no server beside us.
 *
 * One connection writes, each reader has its own (WAL mode: nobody waits for anybody).
 * docs/store.md tells of the tables. A file that is locked, full, damaged, moved or
 * removed is an outage: every call says so until it is better, and opens it anew. */
#ifndef STORE_SQLITE_SQLITE_H
#define STORE_SQLITE_SQLITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/copy.h"
#include "core/store.h"

struct sqlite_store_options {
    const char *path;
    const char *vfs;      /* NULL: SQLite's own; the simulator has another */
    bool exclusive;       /* one connection for all, no shared memory, one thread */
    uint64_t cache_bytes; /* of the writer; 0 = a good default */
    bool looks;           /* changes no file; with readonly_vfs() and exclusive */
    bool no_sums;         /* pages are read unchecked */
};

/* Opens the file, or creates it. ERR_UNAVAILABLE: not now; ERR_INVALID: this is not a
 * database of ours, or one of a newer Tally. */
enum err sqlite_store_open(struct env *env, const struct sqlite_store_options *options,
                           struct store **ret, struct error *error);

/* Reads the whole file as it lies there, with its WAL, and changes nothing: opens it as a start
 * does, then looks at the checksum of each page, at the structure, and at the sums of rows. Says
 * what it finds, a line at a time, and how far the store is. ERR_NOT_FOUND: there is none yet, or
 * nothing in it. ERR_CORRUPT: what is wrong. Other errors: it cannot be told, or is not ours. */
typedef void sqlite_store_say_fn(void *arg, const char *line);
enum err sqlite_store_check(struct env *env, const char *path, sqlite_store_say_fn *say, void *arg,
                            struct state_mark *ret_mark, struct error *error);

/* Everything that it holds; `reader` is a struct store_reader of it. Others go on writing. */
copy_source_fn sqlite_dump;

#endif
