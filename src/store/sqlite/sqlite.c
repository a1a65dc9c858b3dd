#include "store/sqlite/sqlite.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/message.h"
#include "store/sqlite/checksum_adopt.h"
#include "store/sqlite/checksum_vfs.h"
#include "store/sqlite/own.h"
#include "store/sqlite/readonly_vfs.h"
#include "store/sqlite/schema.h"

#define CACHE_BYTES      (UINT64_C(128) << 20)
#define READER_BYTES     (UINT64_C(8) << 20)
#define WRITER_BUSY_MS   200
#define IDS_MAX          (1u << 21) /* 64 MB with the free slots, at most */
#define SCRATCH_MAX      (UINT64_C(1) << 31)
#define WAL_PAGES        100000 /* so long may it be before it is carried over */
#define WAL_PAGES_FORCED 400000 /* and here readers have to wait */
#define CHECKED_PAGES    1024   /* in a quiet moment */

/* ---- connecting ---- */

static int note_wal(void *arg, sqlite3 *handle, const char *name, int pages)
{
    (void)handle;
    (void)name;
    struct sqlite_store *store = arg;
    atomic_store(&store->wal_pages, pages);
    store->is_carried = false;
    return SQLITE_OK;
}

/* On a disk of the simulator's there are no inodes, and nobody else. */
static bool watches_file(const struct sqlite_store *store)
{
    return !store->options.vfs && !store->options.exclusive;
}

static void note_down(struct sqlite_store *store)
{
    lock_take(&store->stats_lock);
    if (store->stats.down_since_ms == 0)
        store->stats.down_since_ms = env_wall_ms(store->env);
    lock_release(&store->stats_lock);
}

static void close_file(struct sqlite_store *store)
{
    bool was_open = store->db.handle != NULL;
    db_close(&store->db, atomic_load(&store->is_settled) && !store->options.looks);
    if (was_open && watches_file(store))
        checksum_mark_closed(store->options.path);
}

/* `code` of SQLite is why. After an error of the disk nobody knows what is on it. */
static void disconnect(struct sqlite_store *store, int code)
{
    if ((code & 0xff) == SQLITE_IOERR)
        atomic_store(&store->is_settled, false);
    close_file(store);
    store->is_ready = false;
    atomic_fetch_add(&store->generation, 1);
}

static enum err settle(struct sqlite_store *store, struct error *error)
{
    enum err err = db_settle(&store->db, error);
    if (!err)
        atomic_store(&store->is_settled, true);
    return err;
}

/* Before anybody relies on what SQLite has found in the WAL. While another program holds the lock
 * it is put off until the first transaction. */
static enum err settle_at_once(struct sqlite_store *store, struct error *error)
{
    if (atomic_load(&store->is_settled) || db_execute(&store->db, "BEGIN IMMEDIATE", NULL))
        return ERR_OK;
    enum err err = settle(store, error);
    return err ? err : db_execute(&store->db, "COMMIT", error);
}

/* A file that was made before there were checksums gets them. */
static enum err add_sums(struct sqlite_store *store, struct error *error)
{
    bool added = false;
    enum err err = db_add_sums(&store->db, &added, error);
    if (added)
        message_info("the pages of the store have checksums now file=%s", store->options.path);
    else if (!err && !checksum_is_on(store->db.handle))
        message_warning(
            "the pages of the store have no checksums, for which there must be twice as "
            "much space again at the start file=%s",
            store->options.path);
    return err;
}

static enum err open_file(struct sqlite_store *store, const struct db_options *options,
                          struct error *error)
{
    enum err err = watches_file(store) ? checksum_adopt(options->path, error) : ERR_OK;
    if (!err)
        err = db_open(&store->db, options, error);
    if (!err && watches_file(store))
        checksum_keep_checkpoints(store->db.handle);
    return err;
}

/* --- a WAL that lacks what was carried over --- */

#define GLANCE_BYTES (UINT64_C(1) << 20)

/* How far the file is without its WAL. An error: it cannot be told, since the file is new or was
 * torn while the WAL was carried over. */
static enum err read_file_mark(const struct sqlite_store *store, struct log_position *ret)
{
    struct db db = {0};
    struct db_options options = {
        .path = store->options.path,
        .vfs = readonly_file_vfs(),
        .exclusive = true,
        .looks = true,
        .no_sums = store->options.no_sums,
        .cache_bytes = GLANCE_BYTES,
    };
    struct state_mark mark;
    struct log_position base;
    uint32_t indexed;
    enum err err = db_open(&db, &options, NULL);
    if (!err)
        err = store_read_mark(&db, &mark, &indexed, &base, NULL);
    if (!err)
        *ret = mark.position;
    db_close(&db, false);
    return err;
}

/* SQLite takes a WAL to end at the first frame that is damaged. If frames behind that were carried
 * over, what is left of the WAL hides some of their pages and not others. */
static enum err check_carried(struct sqlite_store *store, struct error *error)
{
    struct log_position carried;
    if (!(watches_file(store) || store->options.looks) || read_file_mark(store, &carried))
        return ERR_OK;
    struct state_mark mark;
    struct log_position base;
    uint32_t indexed;
    enum err err = store_read_mark(&store->db, &mark, &indexed, &base, error);
    if (err || !log_position_is_before(mark.position, carried))
        return err;
    return error_set(error, ERR_UNAVAILABLE,
                     "%s-wal: DAMAGED: it lacks what was carried over from it already: move it "
                     "away together with the store to have that rebuilt from the log, or restore "
                     "a backup",
                     store->options.path);
}

/* --- opening --- */

static enum err connect_to_look(struct sqlite_store *store, struct error *error)
{
    struct db_options options = {
        .path = store->options.path,
        .vfs = store->options.vfs,
        .exclusive = true,
        .looks = true,
        .no_sums = store->options.no_sums,
        .cache_bytes = store->options.cache_bytes,
        .busy_ms = WRITER_BUSY_MS,
    };
    enum err err = db_open(&store->db, &options, error);
    int64_t version = 0;
    if (!err)
        err = schema_read_version(&store->db, &version, error);
    if (!err && version == 0)
        err = error_set(error, ERR_NOT_FOUND, "%s: there is nothing in it", store->options.path);
    return err ? err : check_carried(store, error);
}

static enum err connect_file(struct sqlite_store *store, struct error *error)
{
    struct db_options options = {
        .path = store->options.path,
        .vfs = store->options.vfs,
        .may_create = true,
        .exclusive = store->options.exclusive,
        .cache_bytes = store->options.cache_bytes,
        .busy_ms = WRITER_BUSY_MS,
    };
    enum err err = open_file(store, &options, error);
    if (err)
        return err;
    err = settle_at_once(store, error);
    if (!err)
        err = schema_prepare(&store->db, error);
    if (!err)
        err = check_carried(store, error);
    if (!err)
        err = add_sums(store, error);
    if (err) {
        disconnect(store, sqlite3_extended_errcode(store->db.handle));
        return err;
    }
    struct stat stat_;
    if (watches_file(store) && stat(store->options.path, &stat_) == 0) {
        store->device = stat_.st_dev;
        store->inode = stat_.st_ino;
    }
    if (watches_file(store))
        checksum_mark_open(store->options.path, true);
    store->is_carried = false; /* a WAL that was left behind */
    sqlite3_wal_hook(store->db.handle, note_wal, store);
    atomic_fetch_add(&store->generation, 1);
    return ERR_OK;
}

static enum err check_file(struct sqlite_store *store, struct error *error)
{
    struct stat stat_;
    if (!watches_file(store))
        return ERR_OK;
    if (stat(store->options.path, &stat_) == 0 && stat_.st_dev == store->device &&
        stat_.st_ino == store->inode)
        return ERR_OK;
    disconnect(store, SQLITE_OK);
    note_down(store);
    return error_set(error, ERR_UNAVAILABLE,
                     "%s: moved or removed while in use; what stands there now is opened next",
                     store->options.path);
}

static enum err read_ends(struct db *db, enum statement which, uint64_t *ret_first,
                          uint64_t *ret_last, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, which, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err = db_step(db, statement, error);
    if (err)
        return err;
    *ret_first = (uint64_t)db_int(statement, 0);
    *ret_last = (uint64_t)db_int(statement, 1);
    sqlite3_reset(statement);
    return ERR_OK;
}

enum err store_read_ends(struct sqlite_store *store, struct error *error)
{
    enum err err =
        read_ends(&store->db, SQL_HISTORY_ENDS, &store->history_first, &store->history_last, error);
    if (!err)
        err = read_ends(&store->db, SQL_LIFE_ENDS, &store->lives_first, &store->lives_last, error);
    return err;
}

/* Everything that memory knows of the file, anew. */
static enum err load_memory(struct sqlite_store *store, struct error *error)
{
    struct db *db = &store->db;
    ids_clear(&store->ids);
    enum err err =
        store_read_mark(db, &store->mark, &store->indexed_users, &store->base_position, error);
    if (!err)
        err = kinds_load(db, &store->kinds, error);
    if (!err)
        err = users_load(store, error);
    if (!err)
        err = keys_read(store, error);
    if (!err)
        err = store_read_ends(store, error);
    if (!err)
        err = lives_load(store, error);
    return err;
}

static uint64_t file_bytes(const char *path, const char *suffix)
{
    char name[600];
    struct stat stat_;
    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return stat(name, &stat_) == 0 ? (uint64_t)stat_.st_size : 0;
}

static void publish_stats(struct sqlite_store *store)
{
    uint64_t lives = store->lives_last == 0 ? 0 : store->lives_last - store->lives_first + 1;
    uint64_t waiting = 0;
    for (unsigned i = 0; i < LIFECYCLE_STATES; i++)
        waiting += store->waiting[i];
    struct store_stats stats = {
        .bytes = watches_file(store)
                     ? file_bytes(store->options.path, "") + file_bytes(store->options.path, "-wal")
                     : 0,
        .pending = store->waiting[LIFECYCLE_PENDING],
        .retrying = store->waiting[LIFECYCLE_RETRYING],
        .succeeded = lives > waiting ? lives - waiting : 0,
        .failed = store->letters,
        .history_rows =
            store->history_last == 0 ? 0 : store->history_last - store->history_first + 1,
    };
    lock_take(&store->stats_lock);
    store->stats = stats;
    if (log_position_is_before(store->reached, store->mark.position))
        store->reached = store->mark.position;
    lock_release(&store->stats_lock);
}

struct log_position store_reached(struct sqlite_store *store)
{
    lock_take(&store->stats_lock);
    struct log_position reached = store->reached;
    lock_release(&store->stats_lock);
    return reached;
}

/* --- damaged pages --- */

void store_note_damage(struct sqlite_store *store, struct db *db, int code)
{
    int64_t page = db_damaged_page(db, code);
    bool is_new = page > 0 && atomic_exchange(&store->damaged_page, page) != page;
    if (is_new && !store->options.looks)
        message_error("a page of the store is damaged: it is not read any more, and what is not in "
                      "memory may be unavailable file=%s page=%lld",
                      store->options.path, (long long)page);
}

/* A file with a damaged page is out of order, whoever has met it, until that page is well: another
 * file stands there, or somebody has put it right. */
static enum err check_damage(struct sqlite_store *store, struct error *error)
{
    int64_t page = atomic_load(&store->damaged_page);
    if (page == 0)
        return ERR_OK;
    int64_t next = page;
    enum err err = db_check_pages(&store->db, &next, 1, error);
    if (!err)
        (void)atomic_compare_exchange_strong(&store->damaged_page, &page, 0);
    return err;
}

/* Some pages more, round and round: what nobody reads may be damaged for long before it is needed.
 * A page that was torn while it was carried over, when the power went, is no damage: the WAL still
 * has it, and it is carried over first. */
static enum err check_some(struct sqlite_store *store, struct error *error)
{
    if (store->checked_page == 0)
        store->checked_page = 1;
    enum err err = db_check_pages(&store->db, &store->checked_page, CHECKED_PAGES, error);
    if (err)
        store_note_damage(store, &store->db, SQLITE_IOERR_DATA);
    return err;
}

enum err store_check_some(struct sqlite_store *store, struct error *error)
{
    enum err err = store_ready(store, error);
    return err ? err : check_some(store, error);
}

static enum err connect_store(struct sqlite_store *store, struct error *error)
{
    return store->options.looks ? connect_to_look(store, error) : connect_file(store, error);
}

static enum err make_ready(struct sqlite_store *store, struct error *error)
{
    enum err err = store->db.handle ? ERR_OK : connect_store(store, error);
    if (!err)
        err = check_damage(store, error);
    return err || store->is_ready ? err : load_memory(store, error);
}

enum err store_ready(struct sqlite_store *store, struct error *error)
{
    if (store->db.handle) {
        enum err err = check_file(store, error);
        if (err)
            return err;
        if (store->is_ready && atomic_load(&store->damaged_page) == 0)
            return ERR_OK;
    }
    enum err err = make_ready(store, error);
    if (err) {
        int code = store->db.handle ? sqlite3_extended_errcode(store->db.handle) : SQLITE_OK;
        store_note_damage(store, &store->db, code);
        if (!db_is_sound(code))
            disconnect(store, code);
        note_down(store);
        /* A schema that was replaced under us is an outage, too. */
        return err;
    }
    store->is_ready = true;
    publish_stats(store);
    return ERR_OK;
}

/* ---- transactions ---- */

static enum err run_plain(struct db *db, enum statement which, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, which, error);
    return statement ? db_run(db, statement, error) : ERR_UNAVAILABLE;
}

enum err store_begin(struct sqlite_store *store, struct error *error)
{
    enum err err = store_ready(store, error);
    if (!err)
        err = run_plain(&store->db, SQL_BEGIN, error);
    if (!err && !atomic_load(&store->is_settled))
        err = settle(store, error);
    return err ? store_abandon(store, err) : ERR_OK;
}

enum err store_commit(struct sqlite_store *store, struct error *error)
{
    enum err err = check_file(store, error);
    if (err)
        return err;
    err = run_plain(&store->db, SQL_COMMIT, error);
    if (err)
        return store_abandon(store, err);
    publish_stats(store);
    if (atomic_load(&store->wal_pages) >= WAL_PAGES)
        (void)store_checkpoint(store, false, NULL); /* it is tried again after the next one */
    return ERR_OK;
}

enum err store_abandon(struct sqlite_store *store, enum err err)
{
    if (!store->db.handle)
        return err;
    int code = sqlite3_extended_errcode(store->db.handle);
    store_note_damage(store, &store->db, code);
    bool sound = db_is_sound(code) && atomic_load(&store->is_settled);
    if (!sqlite3_get_autocommit(store->db.handle) &&
        run_plain(&store->db, SQL_ROLLBACK, NULL) != ERR_OK)
        sound = false;
    if (!sound)
        disconnect(store, code);
    store->is_ready = false;
    if (err == ERR_UNAVAILABLE)
        note_down(store);
    return err;
}

/* SQLite syncs the file when it has carried all of the WAL over. A part that it has carried over it
 * does not carry over again as long as anybody has the file open, so if that is lost, everybody has
 * to go: what was acknowledged is in the log, and the WAL is whole. */
static void sync_part(struct sqlite_store *store)
{
    struct error error;
    if (!db_sync(&store->db, &error))
        return;
    message_error("the store cannot go on: leaving at once; what was acknowledged is safe, and "
                  "the next start carries it over again reason=\"%s\"",
                  error.text);
    _exit(EXIT_FAILURE);
}

/* Carries the WAL over into the file. What readers still need of it stays; only a WAL
 * that has grown far too long makes the writer wait for them. */
enum err store_checkpoint(struct sqlite_store *store, bool truncate, struct error *error)
{
    bool forced = atomic_load(&store->wal_pages) >= WAL_PAGES_FORCED;
    int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE
               : forced ? SQLITE_CHECKPOINT_RESTART
                        : SQLITE_CHECKPOINT_PASSIVE;
    int left = 0;
    int done = 0;
    enum err err = store_ready(store, error);
    if (err)
        return err;
    if (!atomic_load(&store->is_settled))
        return db_fail(&store->db, SQLITE_BUSY, error);
    int code = sqlite3_wal_checkpoint_v2(store->db.handle, NULL, mode, &left, &done);
    if ((code == SQLITE_OK || code == SQLITE_BUSY) && done > 0 && done < left)
        sync_part(store);
    if (code != SQLITE_OK) {
        err = db_fail(&store->db, code, error);
        store_note_damage(store, &store->db, code);
        if ((code & 0xff) == SQLITE_IOERR)
            disconnect(store, code);
        return err;
    }
    if (left == done) {
        atomic_store(&store->wal_pages, 0);
        store->is_carried = true;
    }
    return ERR_OK;
}

/* ---- how far it is ---- */

static enum err read_origins(struct db *db, struct state_mark *mark, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, SQL_ORIGINS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(db, statement, error))) {
        int64_t origin = db_int(statement, 0);
        if (origin < 0 || origin >= (int64_t)LIMIT_CELLS)
            continue;
        mark->sequences[origin] = (uint64_t)db_int(statement, 1);
        mark->incarnations[origin] = (uint32_t)db_int(statement, 2);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err store_read_mark(struct db *db, struct state_mark *ret_mark, uint32_t *ret_indexed,
                         struct log_position *ret_base, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, SQL_PROGRESS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err = db_step(db, statement, error);
    if (err == ERR_NOT_FOUND)
        return error_set(error, ERR_CORRUPT, "%s: the row of `progress` is gone", db->path);
    if (err)
        return err;
    *ret_mark = (struct state_mark){
        .position = {(uint64_t)db_int(statement, 0), (uint64_t)db_int(statement, 1)},
        .counters = (uint64_t)db_int(statement, 2),
        .items = (uint64_t)db_int(statement, 3),
        .members = (uint64_t)db_int(statement, 4),
        .next_user = (uint32_t)db_int(statement, 5),
    };
    *ret_indexed = (uint32_t)db_int(statement, 6);
    *ret_base =
        (struct log_position){(uint64_t)db_int(statement, 7), (uint64_t)db_int(statement, 8)};
    sqlite3_reset(statement);
    return read_origins(db, ret_mark, error);
}

static enum err write_origin(struct sqlite_store *store, unsigned origin, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_ORIGIN_SET, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, origin);
    db_bind_int(statement, 2, (int64_t)store->mark.sequences[origin]);
    db_bind_int(statement, 3, store->mark.incarnations[origin]);
    return db_run(&store->db, statement, error);
}

/* Writes store->mark, as far as it differs from `before`. */
enum err store_write_mark(struct sqlite_store *store, const struct state_mark *before,
                          int64_t now_ms, struct error *error)
{
    const struct state_mark *mark = &store->mark;
    enum err err = ERR_OK;
    for (unsigned i = 0; i < LIMIT_CELLS && !err; i++) {
        if (mark->sequences[i] != before->sequences[i] ||
            mark->incarnations[i] != before->incarnations[i])
            err = write_origin(store, i, error);
    }
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(&store->db, SQL_PROGRESS_SET, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)mark->position.segment);
    db_bind_int(statement, 2, (int64_t)mark->position.offset);
    db_bind_int(statement, 3, (int64_t)mark->counters);
    db_bind_int(statement, 4, (int64_t)mark->items);
    db_bind_int(statement, 5, (int64_t)mark->members);
    db_bind_int(statement, 6, mark->next_user);
    db_bind_int(statement, 7, store->indexed_users);
    db_bind_int(statement, 8, now_ms);
    return db_run(&store->db, statement, error);
}

static enum err sqlite_mark(struct store *base, struct state_mark *ret_mark, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_ready(store, error);
    if (!err)
        *ret_mark = store->mark;
    return err;
}

/* ---- kinds ---- */

enum err kinds_load(struct db *db, struct kind_names *kinds, struct error *error)
{
    kinds->count = 0;
    sqlite3_stmt *statement = db_take(db, SQL_KINDS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(db, statement, error))) {
        int64_t number = db_int(statement, 0);
        struct slice name = db_slice(statement, 1);
        if (number != (int64_t)kinds->count + 1 || number >= (int64_t)SETS_KINDS ||
            name.size == 0 || name.size > LIMIT_KIND_BYTES) {
            sqlite3_reset(statement);
            return error_set(error, ERR_CORRUPT, "%s: row %lld of `kinds` makes no sense", db->path,
                             (long long)number);
        }
        kinds->count = (unsigned)number;
        kinds->sizes[number] = (uint8_t)name.size;
        memcpy(kinds->names[number], name.data, name.size);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err sqlite_kinds(struct store *base, store_kind_fn *visit, void *arg,
                             struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_ready(store, error);
    for (unsigned kind = 1; !err && kind <= store->kinds.count; kind++)
        visit(arg, kind_names_at(&store->kinds, kind));
    return err;
}

enum err kind_add(struct sqlite_store *store, struct slice name, struct error *error)
{
    struct kind_names *kinds = &store->kinds;
    if (!kind_names_may_add(kinds, name))
        return ERR_OK;
    sqlite3_stmt *statement = db_take(&store->db, SQL_KIND_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    unsigned number = kinds->count + 1;
    db_bind_int(statement, 1, number);
    db_bind_text(statement, 2, name);
    enum err err = db_run(&store->db, statement, error);
    if (err)
        return err;
    kinds->count = number;
    kinds->sizes[number] = (uint8_t)name.size;
    memcpy(kinds->names[number], name.data, name.size);
    return ERR_OK;
}

/* ---- the store ---- */

static void sqlite_stats(struct store *base, struct store_stats *ret_stats)
{
    struct sqlite_store *store = store_of(base);
    lock_take(&store->stats_lock);
    *ret_stats = store->stats;
    lock_release(&store->stats_lock);
}

/* Another program may still have the file open, and carry over what we leave. */
static void carry_all_over(struct sqlite_store *store)
{
    int left = 0;
    int done = 0;
    if (!store->db.handle || !watches_file(store) || !atomic_load(&store->is_settled))
        return;
    int code =
        sqlite3_wal_checkpoint_v2(store->db.handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &left, &done);
    if (code == SQLITE_OK && left == done)
        checksum_mark_open(store->options.path, false);
}

static void sqlite_close(struct store *base)
{
    struct sqlite_store *store = store_of(base);
    carry_all_over(store);
    close_file(store);
    ids_done(&store->ids);
    ids_done(&store->tail);
    ids_done(&store->key_tail);
    lock_done(&store->tail_lock);
    lock_done(&store->stats_lock);
    free(store->gaps);
    free(store->touches);
    free(store->spare);
    free(store->places);
    sets_list_done(&store->list);
    buffer_done(&store->sets);
    buffer_done(&store->text);
    buffer_done(&store->digits);
    buffer_done(&store->delta);
    buffer_done(&store->raw);
    free((char *)store->options.path);
    free((char *)store->options.vfs);
    free(store);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .mark = sqlite_mark,
    .kinds = sqlite_kinds,
    .apply = sqlite_apply,
    .due = sqlite_due,
    .retry = sqlite_retry,
    .redrive = sqlite_redrive,
    .discard = sqlite_discard,
    .thin = sqlite_thin,
    .mend = sqlite_mend,
    .mend_life = sqlite_mend_life,
    .mend_members = sqlite_mend_members,
    .make = sqlite_make,
    .note = sqlite_note,
    .rebase = sqlite_rebase,
    .erase = sqlite_erase,
    .rest = sqlite_rest,
    .reader_open = sqlite_reader_open,
    .reader_close = sqlite_reader_close,
    .load = sqlite_load,
    .load_slice = sqlite_load_slice,
    .find_user = sqlite_find_user,
    .names = sqlite_names,
    .find_key = sqlite_find_key,
    .hashes = sqlite_hashes,
    .keys = sqlite_keys,
    .scan = sqlite_scan,
    .items_of = sqlite_items_of,
    .lives = sqlite_lives,
    .letters = sqlite_letters,
    .letter = sqlite_letter,
    .past = sqlite_past,
    .audits = sqlite_audits,
    .waiting = sqlite_waiting,
    .base = sqlite_base,
    .inspect = sqlite_inspect,
    .stats = sqlite_stats,
    .close = sqlite_close,
};

static char *copy_text(const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    return memcpy(memory_take(size), text, size);
}

enum err sqlite_store_open(struct env *env, const struct sqlite_store_options *options,
                           struct store **ret, struct error *error)
{
    assert(env && options && options->path && ret);

    struct sqlite_store *store = memory_take_zeroed(sizeof(*store));
    store->base.ops = &sqlite_ops;
    store->env = env;
    store->options = *options;
    store->options.path = copy_text(options->path);
    store->options.vfs = copy_text(options->vfs);
    if (store->options.cache_bytes == 0)
        store->options.cache_bytes = CACHE_BYTES;
    uint64_t hash_key = env_random(env);
    ids_init(&store->ids, IDS_MAX, hash_key);
    ids_init(&store->tail, 0, hash_key);
    ids_init(&store->key_tail, 0, hash_key);
    lock_init(&store->tail_lock);
    lock_init(&store->stats_lock);
    buffer_init(&store->sets, SCRATCH_MAX);
    buffer_init(&store->text, SCRATCH_MAX);
    buffer_init(&store->digits, SCRATCH_MAX);
    buffer_init(&store->delta, SCRATCH_MAX);
    buffer_init(&store->raw, SCRATCH_MAX);

    enum err err = store_ready(store, error);
    if (err) {
        sqlite_close(&store->base);
        return err;
    }
    *ret = &store->base;
    return ERR_OK;
}
