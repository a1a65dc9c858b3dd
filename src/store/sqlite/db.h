/* db.h - a connection to the SQLite file, its prepared statements, and SQLite's errors in
 * our words.
 *
 * A connection belongs to one thread at a time. The statements are prepared when they
 * are first needed. Binding does not fail but for want of memory, and then nobody can go on. */
#ifndef STORE_SQLITE_DB_H
#define STORE_SQLITE_DB_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "store/sqlite/statements.h"

struct db {
    sqlite3 *handle; /* NULL: not open */
    sqlite3_stmt *statements[STATEMENT_COUNT];
    char path[512];
};

struct db_options {
    const char *path;
    const char *vfs;
    bool may_create;
    bool exclusive;
    bool read_only; /* a reader's */
    bool looks;     /* changes no file, by a VFS that cannot */
    bool no_sums;   /* pages are read unchecked */
    uint64_t cache_bytes;
    int busy_ms;
};

enum err db_open(struct db *db, const struct db_options *options, struct error *error);

/* A closed one is fine. `carry_over`: if it is the last one, it may carry the WAL over into the
 * file and remove it. */
void db_close(struct db *db, bool carry_over);

/* Makes durable what the WAL has. After a sync that failed, its frames may be in the system's
 * memory only, which takes them for written and never writes them again; SQLite finds them whole
 * when it opens the file, and takes them for committed. So they are written once more, the same
 * bytes in the same place, and synced. Within a transaction that writes: nobody else may add to the
 * WAL meanwhile. Takes as long as the disk takes for a WAL; a file that was closed has none. */
enum err db_settle(struct db *db, struct error *error);

/* Syncs the file itself, not the WAL. */
enum err db_sync(struct db *db, struct error *error);

/* Checksums for a file that was made without them, which takes twice its space again for a while.
 * Not now is no error. */
enum err db_add_sums(struct db *db, bool *ret_added, struct error *error);

/* The page that `code` is about; 0: none. */
int64_t db_damaged_page(struct db *db, int code);

/* Reads and checks `count` pages of the file from *page on; *page is behind them then, 0 = that was
 * all. By the writer, who carries the WAL over. */
enum err db_check_pages(struct db *db, int64_t *page, int count, struct error *error);

/* What `code` of SQLite means: ERR_UNAVAILABLE, ERR_REFUSED or ERR_INVALID (see store.h), with a
 * text that says what to do. */
enum err db_fail(struct db *db, int code, struct error *error);

/* Is it worth keeping the connection after this code? Locked is; damaged is not. */
bool db_is_sound(int code);

/* Runs SQL without answers. */
enum err db_execute(struct db *db, const char *sql, struct error *error);

/* The statement, reset and ready to be bound; NULL after an error. */
sqlite3_stmt *db_take(struct db *db, enum statement which, struct error *error);

/* A step that gives no row. Resets the statement. */
enum err db_run(struct db *db, sqlite3_stmt *statement, struct error *error);

/* A step: ERR_OK with a row, ERR_NOT_FOUND at the end; then, and after an error, the statement is
 * reset. */
enum err db_step(struct db *db, sqlite3_stmt *statement, struct error *error);

static inline void db_bind_int(sqlite3_stmt *statement, int index, int64_t value)
{
    int code = sqlite3_bind_int64(statement, index, value);
    assert(code == SQLITE_OK);
    (void)code;
}

/* These keep pointing to the caller's bytes until the statement has run. */
static inline void db_bind_text(sqlite3_stmt *statement, int index, struct slice text)
{
    int code = sqlite3_bind_text(statement, index, text.data ? text.data : "", (int)text.size,
                                 SQLITE_STATIC);
    assert(code == SQLITE_OK);
    (void)code;
}

static inline void db_bind_blob(sqlite3_stmt *statement, int index, struct slice blob)
{
    int code = blob.size == 0
                   ? sqlite3_bind_null(statement, index)
                   : sqlite3_bind_blob64(statement, index, blob.data, blob.size, SQLITE_STATIC);
    assert(code == SQLITE_OK);
    (void)code;
}

static inline void db_bind_null(sqlite3_stmt *statement, int index)
{
    int code = sqlite3_bind_null(statement, index);
    assert(code == SQLITE_OK);
    (void)code;
}

/* An INTEGER while it fits, else its digits; `digits` keeps them. */
void db_bind_number(sqlite3_stmt *statement, int index, const struct number *number,
                    struct buffer *digits);

static inline int64_t db_int(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_int64(statement, column);
}

/* Lives until the next step. */
static inline struct slice db_slice(sqlite3_stmt *statement, int column)
{
    const char *data = sqlite3_column_blob(statement, column);
    return (struct slice){data, (size_t)sqlite3_column_bytes(statement, column)};
}

/* The caller frees it. ERR_CORRUPT: there stands no number. */
enum err db_number(sqlite3_stmt *statement, int column, struct number *ret_number);

#endif
