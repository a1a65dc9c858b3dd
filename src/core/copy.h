/* copy.h - everything that a store holds, row by row, for another store to be filled with.
 *
 * The two stores never meet: one gives rows in this form, the other takes them. They come table by
 * table, in the order of the list. Left out is what a store can make anew (its indexes), and the
 * list of what was applied long since.
 *
 * A letter for each column: i a number, t a text, n digits or JSON, m a moment in ms, b yes or no,
 * x bytes, u a UUID's 16 bytes. Any may be missing (COPY_NULL). */
#ifndef CORE_COPY_H
#define CORE_COPY_H

#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/log.h"
#include "core/state.h"

#define COPY_COLUMNS_MAX 12u

/*    name     columns         what they are */
#define COPY_LIST(X)                                                                              \
    X(KINDS, "it")            /* number, name */                                                  \
    X(USERS, "it")            /* number, name */                                                  \
    X(HISTORY, "iiitim")      /* row, item, user (-1 - number: a named one), stub, kind, time */  \
    X(ENTRIES, "itiimnnitii") /* number, id, type, incarnation, updated, value,                   \
                                 counts {"like":3}, slices, settings, deadline, first row */      \
    X(MEMBERS, "iix")         /* item, slice or none if it is in one piece, sets (core/sets.h) */ \
    X(LIVES, "iutniiimmmt")   /* those that are not done: row, event, id, delta, state, retries,  \
                                 events, created, processed, next, reason */                      \
    X(WAITING, "iutimbx")     /* row, event, id, state, next, adds only, raw */                   \
    X(LETTERS, "iutntxiiimm") /* row, event, id, delta, reason, raw, segment, position, retries,  \
                                 created, failed */                                               \
    X(KEYS, "iiibtnm")        /* low, high, fingerprint, changed, held, value, time */            \
    X(BASES, "tnn")           /* id, sum, discarded */                                            \
    X(AUDITS, "mttt")         /* time, what, id, text */

enum copy_table {
#define X(name, columns) COPY_##name,
    COPY_LIST(X)
#undef X
        COPY_TABLES
};

struct copy_value {
    enum { COPY_NULL, COPY_INT, COPY_BYTES } type;
    int64_t number;
    struct slice bytes; /* lives during the call that hands it over */
};

/* An error ends the copy, and is what the source returns. */
typedef enum err copy_row_fn(void *arg, enum copy_table table, const struct copy_value *values,
                             struct error *error);

/* Gives every row, all of one moment, and how far the store was then. */
typedef enum err copy_source_fn(void *from, copy_row_fn *row, void *arg,
                                struct state_mark *ret_mark, struct log_position *ret_base,
                                struct error *error);

#endif
