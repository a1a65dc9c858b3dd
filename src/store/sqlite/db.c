#include "store/sqlite/db.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "store/sqlite/checksum_vfs.h"

#define PAGE_BYTES 4096

static const char *const statement_texts[STATEMENT_COUNT] = {
#define X(name, sql) [name] = sql,
    STATEMENT_LIST(X)
#undef X
};

static bool is_missing_table(struct db *db)
{
    return strstr(sqlite3_errmsg(db->handle), "no such ") != NULL;
}

/* What an operator can do about a code of SQLite. */
static const char *advice(int code)
{
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return "locked by another program: end it, or wait";
    case SQLITE_FULL:
        return "no space left: free some";
    case SQLITE_READONLY:
        return code == SQLITE_READONLY_DBMOVED
                   ? "moved or removed while in use: put it back, or restart to rebuild it"
                   : "it cannot be written: look at its permissions and at the file system";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return "DAMAGED: move it away, with its -wal and -shm, to have it rebuilt from the log, or "
               "restore a backup";
    case SQLITE_CANTOPEN:
        return "it cannot be opened: look at the path and its permissions";
    case SQLITE_NOMEM:
        return "out of memory";
    default:
        return "reading or writing failed: look at the disk";
    }
}

static enum err fail_page(struct db *db, struct error *error)
{
    long long page = (long long)checksum_damaged_page(db->handle);
    if (page == 0)
        page = 1; /* it was not even opened */
    return error_set(error, ERR_UNAVAILABLE,
                     "%s: page %lld at offset %lld is DAMAGED: move the file away, with its -wal "
                     "and -shm, to have it rebuilt from the log, or restore a backup",
                     db->path, page, (page - 1) * PAGE_BYTES);
}

enum err db_fail(struct db *db, int code, struct error *error)
{
    if (code == SQLITE_IOERR_DATA && db->handle)
        return fail_page(db, error);
    const char *text = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return error_set(error, ERR_REFUSED, "%s", text);
    case SQLITE_ERROR:
        if (db->handle && is_missing_table(db))
            return error_set(error, ERR_UNAVAILABLE,
                             "%s: %s: its tables were changed; restore it, or move it away",
                             db->path, text);
        return error_set(error, ERR_REFUSED, "%s", text);
    default:
        return error_set(error, ERR_UNAVAILABLE, "%s: %s (%s)", db->path, advice(code), text);
    }
}

bool db_is_sound(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_ERROR:
        return true;
    default:
        return false;
    }
}

enum err db_execute(struct db *db, const char *sql, struct error *error)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? ERR_OK : db_fail(db, code, error);
}

/* The name of a user must not outlive its erasure in some corner of the file: secure_delete.
 * A checkpoint is the writer's own business (sqlite.c). */
static enum err set_up(struct db *db, const struct db_options *options, struct error *error)
{
    char sql[512];
    snprintf(sql, sizeof(sql),
             "PRAGMA locking_mode=%s; PRAGMA page_size=%d; %s"
             "PRAGMA synchronous=FULL; PRAGMA secure_delete=ON; PRAGMA foreign_keys=OFF; "
             "PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-%llu; PRAGMA trusted_schema=ON; "
             "PRAGMA temp_store=MEMORY; %s",
             options->exclusive ? "EXCLUSIVE" : "NORMAL", PAGE_BYTES,
             options->looks ? "" : "PRAGMA journal_mode=WAL; ",
             (unsigned long long)(options->cache_bytes / 1024),
             options->read_only || options->looks ? "PRAGMA query_only=ON;" : "");
    return db_execute(db, sql, error);
}

/* Figures of its memory that nobody reads cost SQLite a lock at each allocation. */
static void set_up_library(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* A new file, or one that is vacuumed, has room for checksums. */
static void reserve_sums(struct db *db)
{
    int bytes = CHECKSUM_BYTES;
    (void)sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes);
}

/* A copy of the whole file does not go into memory, but into a temporary file beside it. Nobody
 * else in the process has temporary files, so that the folder may be that of all. */
static int use_temporary_file(struct db *db, bool in_file)
{
    char folder[sizeof(db->path)];
    snprintf(folder, sizeof(folder), "%s", db->path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    char *sql = sqlite3_mprintf("PRAGMA temp_store=%s; PRAGMA temp_store_directory=%Q",
                                in_file ? "FILE" : "MEMORY",
                                !in_file ? ""
                                : slash  ? folder
                                         : ".");
    int code = sql ? sqlite3_exec(db->handle, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    return code;
}

static int vacuum(struct db *db)
{
    int code = use_temporary_file(db, true);
    if (code == SQLITE_OK)
        code = sqlite3_exec(db->handle, "VACUUM", NULL, NULL, NULL);
    (void)use_temporary_file(db, false);
    return code;
}

static bool may_go_without_sums(int code)
{
    return db_is_sound(code) || (code & 0xff) == SQLITE_FULL || (code & 0xff) == SQLITE_NOMEM;
}

enum err db_add_sums(struct db *db, bool *ret_added, struct error *error)
{
    *ret_added = false;
    if (checksum_is_on(db->handle))
        return ERR_OK;
    reserve_sums(db);
    int code = vacuum(db);
    *ret_added = code == SQLITE_OK;
    /* No room for a copy, or somebody reads: it goes on as it is. */
    return may_go_without_sums(code) ? ERR_OK : db_fail(db, code, error);
}

int64_t db_damaged_page(struct db *db, int code)
{
    return code == SQLITE_IOERR_DATA && db->handle ? checksum_damaged_page(db->handle) : 0;
}

enum err db_check_pages(struct db *db, int64_t *page, int count, struct error *error)
{
    int code = checksum_check(db->handle, page, count);
    return code == SQLITE_OK ? ERR_OK : db_fail(db, code, error);
}

enum err db_open(struct db *db, const struct db_options *options, struct error *error)
{
    assert(!db->handle);

    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_library);
    snprintf(db->path, sizeof(db->path), "%s", options->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (options->may_create ? SQLITE_OPEN_CREATE : 0);
    const char *vfs = options->no_sums ? options->vfs : checksum_vfs(options->vfs);
    int code = sqlite3_open_v2(options->path, &db->handle, flags, vfs);
    enum err err = ERR_OK;
    if (code != SQLITE_OK)
        err = db_fail(db, code, error);
    if (!err && options->may_create)
        reserve_sums(db);
    if (!err) {
        sqlite3_busy_timeout(db->handle, options->busy_ms);
        err = set_up(db, options, error);
    }
    /* Other users of the machine have no business in here. WAL and index take its mode. */
    if (!err && options->may_create && !options->vfs)
        (void)chmod(options->path, 0600);
    if (err)
        db_close(db, false);
    return err;
}

void db_close(struct db *db, bool carry_over)
{
    if (db->handle && !carry_over)
        (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    for (unsigned i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(db->statements[i]);
        db->statements[i] = NULL;
    }
    sqlite3_close_v2(db->handle);
    db->handle = NULL;
}

/* ---- what is really on the disk ---- */

static sqlite3_file *file_of(struct db *db, int which)
{
    sqlite3_file *file = NULL;
    (void)sqlite3_file_control(db->handle, "main", which, &file);
    return file && file->pMethods ? file : NULL;
}

static enum err fail_file(struct db *db, int code, struct error *error)
{
    return error_set(error, ERR_UNAVAILABLE, "%s: %s (%s)", db->path, advice(code),
                     sqlite3_errstr(code));
}

static int write_again(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    int code = file->pMethods->xRead(file, bytes, size, offset);
    return code == SQLITE_OK ? file->pMethods->xWrite(file, bytes, size, offset) : code;
}

/* The WAL: a header with page size and salt, then frames, each with a header and the salt. Behind
 * the first frame of another salt is what was carried over long ago.
 *
 *   header   0 magic, version   8 page size   12 checkpoint  16 salt (8)  24 checksum (8)
 *   frame    0 page, size       8 salt (8)    16 checksum (8)             24 the page */
#define WAL_HEADER   32
#define FRAME_HEADER 24
#define WAL_SALT     16
#define FRAME_SALT   8
#define SALT_BYTES   8
#define CHUNK_MAX    ((1 << 17) - 1) /* SQLite's files take no more at a time */

static int settle_frames(sqlite3_file *wal, sqlite3_int64 size)
{
    unsigned char header[WAL_HEADER];
    int code = write_again(wal, header, WAL_HEADER, 0);
    int page = header[8] << 24 | header[9] << 16 | header[10] << 8 | header[11];
    if (code != SQLITE_OK || page < 512 || page > 65536)
        return code;
    int frame = FRAME_HEADER + page;
    int chunk = CHUNK_MAX / frame * frame;
    unsigned char *frames = memory_take((size_t)chunk);
    for (sqlite3_int64 at = WAL_HEADER; at + FRAME_HEADER < size && code == SQLITE_OK;
         at += chunk) {
        code = wal->pMethods->xRead(wal, frames, FRAME_HEADER, at);
        if (code != SQLITE_OK || memcmp(frames + FRAME_SALT, header + WAL_SALT, SALT_BYTES) != 0)
            break;
        code = write_again(wal, frames, size - at < chunk ? (int)(size - at) : chunk, at);
    }
    free(frames);
    return code;
}

static int settle_wal(sqlite3_file *wal)
{
    sqlite3_int64 size;
    int code = wal->pMethods->xFileSize(wal, &size);
    if (code != SQLITE_OK || size < WAL_HEADER)
        return code;
    code = settle_frames(wal, size);
    return code == SQLITE_OK ? wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL) : code;
}

/* A file that nothing was carried over to yet is one page that says that there is a WAL. Without it
 * SQLite would throw the WAL away. */
static int settle_first_page(sqlite3_file *file)
{
    unsigned char page[PAGE_BYTES];
    sqlite3_int64 size;
    int code = file->pMethods->xFileSize(file, &size);
    if (code != SQLITE_OK || size != PAGE_BYTES)
        return code;
    code = write_again(file, page, PAGE_BYTES, 0);
    if (code == SQLITE_IOERR_DATA)
        return SQLITE_OK; /* half of it was carried over when the power went: the WAL has it */
    return code == SQLITE_OK ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : code;
}

enum err db_settle(struct db *db, struct error *error)
{
    sqlite3_file *file = file_of(db, SQLITE_FCNTL_FILE_POINTER);
    sqlite3_file *wal = file_of(db, SQLITE_FCNTL_JOURNAL_POINTER);
    int code = file ? settle_first_page(file) : SQLITE_OK;
    if (code == SQLITE_OK && wal)
        code = settle_wal(wal);
    return code == SQLITE_OK ? ERR_OK : fail_file(db, code, error);
}

enum err db_sync(struct db *db, struct error *error)
{
    sqlite3_file *file = file_of(db, SQLITE_FCNTL_FILE_POINTER);
    int code = file ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : SQLITE_OK;
    return code == SQLITE_OK ? ERR_OK : fail_file(db, code, error);
}

/* ---- statements ---- */

sqlite3_stmt *db_take(struct db *db, enum statement which, struct error *error)
{
    sqlite3_stmt **statement = &db->statements[which];
    int code = SQLITE_OK;
    if (!*statement)
        code = sqlite3_prepare_v3(db->handle, statement_texts[which], -1, SQLITE_PREPARE_PERSISTENT,
                                  statement, NULL);
    if (code == SQLITE_OK)
        return *statement;
    db_fail(db, code, error);
    /* Our own words are not wrong: if SQLite says so, the tables were changed. */
    if (error && error->code == ERR_REFUSED)
        error->code = ERR_UNAVAILABLE;
    return NULL;
}

enum err db_run(struct db *db, sqlite3_stmt *statement, struct error *error)
{
    int code = sqlite3_step(statement);
    assert(code != SQLITE_ROW);
    if (code == SQLITE_DONE) {
        sqlite3_reset(statement);
        return ERR_OK;
    }
    enum err err = db_fail(db, code, error);
    sqlite3_reset(statement);
    return err;
}

enum err db_step(struct db *db, sqlite3_stmt *statement, struct error *error)
{
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        return ERR_OK;
    enum err err = code == SQLITE_DONE ? ERR_NOT_FOUND : db_fail(db, code, error);
    sqlite3_reset(statement);
    return err;
}

void db_bind_number(sqlite3_stmt *statement, int index, const struct number *number,
                    struct buffer *digits)
{
    if (!number->big) {
        db_bind_int(statement, index, number->small);
        return;
    }
    digits->size = 0;
    enum err err = number_format(number, digits);
    assert(!err);
    (void)err;
    db_bind_text(statement, index, buffer_slice(digits));
}

enum err db_number(sqlite3_stmt *statement, int column, struct number *ret_number)
{
    if (sqlite3_column_type(statement, column) == SQLITE_INTEGER) {
        *ret_number = number_of(db_int(statement, column));
        return ERR_OK;
    }
    if (number_parse(db_slice(statement, column), ret_number))
        return ERR_CORRUPT;
    return ERR_OK;
}
