/* The whole file as it lies there: what a start would find, and what it would not look at. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/message.h"
#include "store/sqlite/checksum_adopt.h"
#include "store/sqlite/checksum_vfs.h"
#include "store/sqlite/own.h"
#include "store/sqlite/readonly_vfs.h"

#define LINE_BYTES  1024u
#define CACHE_BYTES (UINT64_C(16) << 20)
#define SAID_MAX    10u /* of the same sort */

struct store_check {
    const char *path;
    sqlite_store_say_fn *say;
    void *arg;
    uint32_t *wal_pages; /* owned: the page of each frame that is committed */
    size_t wal_count;
    uint64_t pages;      /* that are sound */
    struct error damage; /* the first; ERR_OK: none */
    bool adopts; /* another program has written pages, which have no valid sums until a start */
};

static void say(const struct store_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct store_check *check, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args); /* NOLINT(clang-analyzer-valist*) */
    va_end(args);
    check->say(check->arg, line);
}

static void note_damage(struct store_check *check, const struct error *found)
{
    say(check, "damage: %s", found->text);
    if (!check->damage.code)
        (void)error_set(&check->damage, ERR_CORRUPT, "%s", found->text);
}

/* --- the WAL ---
 *
 *   header   0 magic  4 version  8 page size  12 checkpoint  16 salt (8)  24 sums (8)
 *   frame    0 page   4 size of the database, 0 unless it commits  8 salt (8)  16 sums (8)
 *            24 the page
 *
 * A frame counts if its salt is that of the header and its sums, which go on from frame to frame,
 * are right, and if one that commits follows. Its page is not read from the file. */

#define WAL_HEADER   32u
#define FRAME_HEADER 24u
#define WAL_MAGIC    0x377f0682u /* or 1 more: sums of big-endian words */
#define SALT_BYTES   8u

struct wal {
    FILE *file;
    bool is_big_endian;
    uint32_t page_bytes;
    unsigned char salt[SALT_BYTES];
    uint32_t sums[2];
};

static uint32_t word_at(const unsigned char *at, bool is_big_endian)
{
    return is_big_endian
               ? (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]
               : (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static void add_sums(struct wal *wal, const unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += 8) {
        wal->sums[0] += word_at(bytes + at, wal->is_big_endian) + wal->sums[1];
        wal->sums[1] += word_at(bytes + at + 4, wal->is_big_endian) + wal->sums[0];
    }
}

static bool has_sums(const struct wal *wal, const unsigned char *at)
{
    return word_at(at, true) == wal->sums[0] && word_at(at + 4, true) == wal->sums[1];
}

static bool read_wal_header(struct wal *wal)
{
    unsigned char header[WAL_HEADER];
    if (fread(header, 1, sizeof(header), wal->file) != sizeof(header) ||
        (word_at(header, true) & ~1u) != WAL_MAGIC)
        return false;
    wal->is_big_endian = header[3] & 1;
    wal->page_bytes = word_at(header + 8, true);
    memcpy(wal->salt, header + 16, SALT_BYTES);
    add_sums(wal, header, 24);
    return has_sums(wal, header + 24) && wal->page_bytes >= 512 && wal->page_bytes <= 65536;
}

static bool read_frame(struct wal *wal, unsigned char *frame, uint32_t *ret_page, bool *ret_commits)
{
    size_t size = FRAME_HEADER + wal->page_bytes;
    if (fread(frame, 1, size, wal->file) != size || memcmp(frame + 8, wal->salt, SALT_BYTES) != 0)
        return false;
    add_sums(wal, frame, 8);
    add_sums(wal, frame + FRAME_HEADER, wal->page_bytes);
    *ret_page = word_at(frame, true);
    *ret_commits = word_at(frame + 4, true) != 0;
    return has_sums(wal, frame + 16);
}

static void read_frames(struct store_check *check, struct wal *wal)
{
    unsigned char *frame = memory_take(FRAME_HEADER + wal->page_bytes);
    size_t count = 0;
    size_t capacity = 0;
    uint32_t page;
    bool commits;
    while (read_frame(wal, frame, &page, &commits)) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            check->wal_pages = realloc(check->wal_pages, capacity * sizeof(*check->wal_pages));
            if (!check->wal_pages)
                abort();
        }
        check->wal_pages[count++] = page;
        if (commits)
            check->wal_count = count;
    }
    free(frame);
}

static void read_wal(struct store_check *check)
{
    char path[600];
    (void)snprintf(path, sizeof(path), "%s-wal", check->path);
    struct wal wal = {.file = fopen(path, "rbe")};
    if (!wal.file)
        return;
    if (read_wal_header(&wal))
        read_frames(check, &wal);
    (void)fclose(wal.file);
}

static bool is_in_wal(const struct store_check *check, int64_t page)
{
    for (size_t i = 0; i < check->wal_count; i++)
        if (check->wal_pages[i] == page)
            return true;
    return false;
}

/* --- what is in it --- */

/* A page that the WAL has was perhaps torn when the power went, and is not read from the file. */
static enum err check_pages(struct store_check *check, struct db *db, struct error *error)
{
    int64_t page = 1;
    unsigned damaged = 0;
    while (page > 0) {
        int code = checksum_check(db->handle, &page, 1);
        if (code == SQLITE_OK) {
            check->pages++;
            continue;
        }
        struct error found;
        enum err err = db_fail(db, code, &found);
        if (code != SQLITE_IOERR_DATA)
            return error_set(error, err, "%s", found.text);
        if (!is_in_wal(check, page) && damaged++ < SAID_MAX)
            note_damage(check, &found);
        page++;
    }
    if (damaged > SAID_MAX)
        say(check, "damage: %u pages more", damaged - SAID_MAX);
    return ERR_OK;
}

static enum err check_structure(struct store_check *check, struct db *db, struct error *error)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    enum err err = ERR_OK;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        err = db_fail(db, code, error);
    else if (code == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "ok")) {
        struct error found;
        (void)error_set(&found, ERR_CORRUPT, "%s: %.180s", check->path,
                        (const char *)sqlite3_column_text(statement, 0));
        note_damage(check, &found);
    }
    (void)sqlite3_finalize(statement);
    return err;
}

static void note_wrong(struct store_check *check, unsigned *wrong, const char *what,
                       struct slice id, const char *then)
{
    char name[128];
    struct error found;
    if ((*wrong)++ >= SAID_MAX)
        return;
    (void)error_set(&found, ERR_CORRUPT, "%s: the %s of %s is not what was written there: %s",
                    check->path, what, message_quote(name, sizeof(name), id), then);
    note_damage(check, &found);
}

struct row_check {
    struct store_check *check;
    unsigned *wrong;
};

static enum err check_row(struct sqlite_reader *reader, const struct entry *entry, void *arg,
                          struct error *error)
{
    const struct row_check *rows = arg;
    bool is_wrong = false;
    enum err err = ERR_OK;
    if (entry->is_wrong)
        note_wrong(rows->check, rows->wrong, "row", entry->id,
                   "it is counted anew from the log before it is used");
    else if (entry->type == ENTRY_ITEM && entry->slices == STATE_SLICES)
        err = entry_check_slices(reader, entry, &is_wrong, error);
    if (is_wrong)
        note_wrong(rows->check, rows->wrong, "set of members", entry->id,
                   "it is made anew from the log before it is used");
    return err;
}

static enum err check_bases(struct store_check *check, struct db *db, unsigned *wrong,
                            struct error *error)
{
    sqlite3_stmt *statement = db_take(db, SQL_BASES, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(db, statement, error))) {
        struct slice id = db_slice(statement, 3);
        if (base_is_wrong(statement, id))
            note_wrong(check, wrong, "row in bases", id,
                       "what it counts cannot be proved, and is not copied to another store");
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err check_rows(struct store_check *check, struct store *store, struct error *error)
{
    unsigned wrong = 0;
    struct store_reader *reader;
    enum err err = store_reader_open(store, &reader, error);
    if (err)
        return err;
    struct row_check rows = {.check = check, .wrong = &wrong};
    err = entries_each((struct sqlite_reader *)reader, check_row, &rows, error);
    if (!err)
        err = check_bases(check, &store_of(store)->db, &wrong, error);
    store_reader_close(reader);
    if (wrong > SAID_MAX)
        say(check, "damage: %u rows more", wrong - SAID_MAX);
    return err;
}

static enum err check_all(struct store_check *check, struct store *store, struct error *error)
{
    struct db *db = &store_of(store)->db;
    enum err err = check->adopts ? ERR_OK : check_pages(check, db, error);
    if (err || check->damage.code)
        return err;
    err = check_structure(check, db, error);
    return err ? err : check_rows(check, store, error);
}

/* --- opening --- */

static enum err open_to_look(struct env *env, const struct store_check *check, struct store **ret,
                             struct error *error)
{
    struct sqlite_store_options options = {
        .path = check->path,
        .vfs = readonly_vfs(),
        .exclusive = true,
        .cache_bytes = CACHE_BYTES,
        .looks = true,
        .no_sums = check->adopts,
    };
    return sqlite_store_open(env, &options, ret, error);
}

static void say_summary(const struct store_check *check, struct db *db,
                        const struct state_mark *mark)
{
    if (check->adopts)
        say(check,
            "store %s: another program has written to it: its pages get their checksums anew at "
            "the next start, as they are",
            check->path);
    else if (!checksum_is_on(db->handle))
        say(check, "store %s: its pages have no checksums yet", check->path);
    else
        say(check, "store %s: %llu pages are sound", check->path, (unsigned long long)check->pages);
    say(check, "store %s: it has the log up to segment %llu, offset %llu", check->path,
        (unsigned long long)mark->position.segment, (unsigned long long)mark->position.offset);
}

static enum err look(struct env *env, struct store_check *check, struct state_mark *ret_mark,
                     struct error *error)
{
    enum err err = checksum_adopts(check->path, readonly_vfs(), &check->adopts, error);
    struct store *store = NULL;
    if (!err)
        err = open_to_look(env, check, &store, error);
    if (err)
        return err;
    struct db *db = &store_of(store)->db;
    read_wal(check);
    err = store_mark(store, ret_mark, error);
    if (!err)
        err = check_all(check, store, error);
    if (!err)
        say_summary(check, db, ret_mark);
    store_close(store);
    if (!err && check->damage.code)
        err = error_set(error, ERR_CORRUPT, "%s", check->damage.text);
    return err;
}

enum err sqlite_store_check(struct env *env, const char *path, sqlite_store_say_fn *say_line,
                            void *arg, struct state_mark *ret_mark, struct error *error)
{
    assert(env && path && say_line && ret_mark);

    struct stat facts;
    if (stat(path, &facts) != 0 || facts.st_size == 0)
        return error_set(error, ERR_NOT_FOUND, "%s: there is no store", path);
    struct store_check check = {.path = path, .say = say_line, .arg = arg};
    struct error found = {.text = ""};
    enum err err = look(env, &check, ret_mark, &found);
    if (err && err != ERR_NOT_FOUND && !check.damage.code)
        note_damage(&check, &found);
    free(check.wal_pages);
    return err ? error_set(error, err, "%s", found.text) : ERR_OK;
}
