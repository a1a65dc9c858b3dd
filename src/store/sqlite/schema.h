/* schema.h - the tables of the SQLite store, and how an older file becomes a newer one. */
#ifndef STORE_SQLITE_SCHEMA_H
#define STORE_SQLITE_SCHEMA_H

#include "base/error.h"
#include "store/sqlite/db.h"

#define SCHEMA_APPLICATION_ID 0x54414c59 /* "TALY" */

/* Brings the file to the newest version in one transaction; an empty one, too.
 * ERR_INVALID: it is not ours, or of a newer Tally. */
enum err schema_prepare(struct db *db, struct error *error);

/* The version of the file, 0 if it has no tables yet. Changes nothing, and fails as
 * schema_prepare() would. */
enum err schema_read_version(struct db *db, int64_t *ret_version, struct error *error);

/* The version that this program writes. */
int schema_version(void);

#endif
