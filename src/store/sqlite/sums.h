/* sums.h - checksums of rows: over what hot state is loaded from, and what a recount begins with.
 *
 * A row of `entries` has a sum over all that hot state is made of. The members of a large item are
 * in rows of their own: their sums stand in the item's row, in the place of its members, and so in
 * its sum. A row of `bases` has one, too. A row whose sum does not fit gets one that does not fit
 * either when it is written, until it was counted anew. */
#ifndef STORE_SQLITE_SUMS_H
#define STORE_SQLITE_SUMS_H

#include "core/state.h"
#include "store/sqlite/db.h"

struct entry;

/* `value`: of a counter, in digits. */
int64_t sums_of_entry(const struct entry *entry, struct slice value);

/* `sum` and `discarded`: in digits. */
int64_t sums_of_base(struct slice id, struct slice sum, struct slice discarded);

/* A number of a row in digits, whichever way it is kept. `digits` has DECIMAL_SIZE_MAX. */
struct slice sums_digits(sqlite3_stmt *statement, int column, char *digits);

/* --- the slices of a large item --- */

struct slice_sums {
    uint32_t of[STATE_SLICES]; /* 0: a slice without members, which has no row */
};
#define SLICE_SUMS_BYTES (4u * STATE_SLICES)

uint32_t sums_of_slice(int64_t place, struct slice sets);

/* As an item's row has them. False: they are not there. */
bool slice_sums_read(struct slice bytes, struct slice_sums *ret_sums);
struct slice slice_sums_write(const struct slice_sums *sums, unsigned char to[SLICE_SUMS_BYTES]);

/* --- files from before there were all of these --- */

/* Gives every row its sum. One that had a sum which did not fit has none that fits. */
enum err sums_add_all(struct db *db, struct error *error);

#endif
