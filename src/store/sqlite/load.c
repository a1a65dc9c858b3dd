/* What readers take from the file for hot state and for the audit. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "core/raw.h"
#include "core/user.h"
#include "store/sqlite/own.h"

#define READER_BYTES   (UINT64_C(8) << 20)
#define READER_BUSY_MS 2000
#define SCRATCH_MAX    (UINT64_C(1) << 31)
#define ANSWER_MAX     (SETS_KINDS)

static struct sqlite_reader *reader_of(struct store_reader *base)
{
    return (struct sqlite_reader *)base;
}

static struct sqlite_store *store_behind(struct sqlite_reader *reader)
{
    return store_of(reader->base.store);
}

/* ---- opening, and one moment ---- */

static void close_own(struct sqlite_reader *reader)
{
    db_close(&reader->own, atomic_load(&store_behind(reader)->is_settled));
}

/* In step with the writer: when that opened the file anew, so do we. */
static enum err connect_reader(struct sqlite_reader *reader, struct error *error)
{
    struct sqlite_store *store = store_behind(reader);
    uint64_t generation = atomic_load(&store->generation);
    if (store->options.exclusive) {
        reader->db = &store->db;
        reader->kinds.count = 0;
        return store_ready(store, error);
    }
    if (reader->own.handle && reader->generation == generation)
        return ERR_OK;
    close_own(reader);
    struct db_options options = {
        .path = store->options.path,
        .vfs = store->options.vfs,
        .read_only = true,
        .cache_bytes = READER_BYTES,
        .busy_ms = READER_BUSY_MS,
    };
    enum err err = db_open(&reader->own, &options, error);
    if (err)
        return err;
    reader->db = &reader->own;
    reader->generation = generation;
    reader->kinds.count = 0;
    return ERR_OK;
}

static enum err run_plain(struct db *db, enum statement which, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, which, error);
    return statement ? db_run(db, statement, error) : ERR_UNAVAILABLE;
}

enum err reader_begin(struct sqlite_reader *reader, struct error *error)
{
    enum err err = connect_reader(reader, error);
    if (!err)
        err = run_plain(reader->db, SQL_BEGIN_READ, error);
    return err;
}

static enum err check_reached(struct sqlite_reader *reader, struct log_position reached,
                              struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, SQL_PROGRESS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err = db_step(reader->db, statement, error);
    if (err)
        return err == ERR_NOT_FOUND ? error_set(error, ERR_CORRUPT, "the row of `progress` is gone")
                                    : err;
    struct log_position position = {(uint64_t)db_int(statement, 0), (uint64_t)db_int(statement, 1)};
    sqlite3_reset(statement);
    if (!log_position_is_before(position, reached))
        return ERR_OK;
    return error_set(error, ERR_UNAVAILABLE,
                     "%s: put in the place of another, and not filled from the log yet",
                     reader->db->path);
}

/* How far the file must be is asked before the moment begins that we are going to look at. */
enum err reader_begin_whole(struct sqlite_reader *reader, struct error *error)
{
    struct log_position reached = store_reached(store_behind(reader));
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    err = check_reached(reader, reached, error);
    return err ? reader_end(reader, err) : ERR_OK;
}

enum err reader_end(struct sqlite_reader *reader, enum err err)
{
    int code = sqlite3_extended_errcode(reader->db->handle);
    bool sound = err != ERR_UNAVAILABLE || db_is_sound(code);
    if (!sound)
        store_note_damage(store_behind(reader), reader->db, code);
    if (!sqlite3_get_autocommit(reader->db->handle))
        (void)run_plain(reader->db, SQL_COMMIT, NULL);
    if (!sound && reader->db == &reader->own)
        close_own(reader);
    /* To a reader nothing is refused: it is an outage. */
    return err == ERR_REFUSED ? ERR_UNAVAILABLE : err;
}

enum err reader_kinds(struct sqlite_reader *reader, struct error *error)
{
    return kinds_load(reader->db, &reader->kinds, error);
}

enum err sqlite_reader_open(struct store *base, struct store_reader **ret, struct error *error)
{
    struct sqlite_reader *reader = memory_take_zeroed(sizeof(*reader));
    reader->base.store = base;
    buffer_init(&reader->text, SCRATCH_MAX);
    buffer_init(&reader->raw, SCRATCH_MAX);
    enum err err = connect_reader(reader, error);
    /* An outage may end before the first question. */
    if (err && err != ERR_UNAVAILABLE) {
        sqlite_reader_close(&reader->base);
        return err;
    }
    *ret = &reader->base;
    return ERR_OK;
}

void sqlite_reader_close(struct store_reader *base)
{
    struct sqlite_reader *reader = reader_of(base);
    close_own(reader);
    sets_list_done(&reader->list);
    buffer_done(&reader->text);
    buffer_done(&reader->raw);
    event_list_done(&reader->events);
    free(reader);
}

/* ---- what waits ---- */

/* Copies the raw events of all units of `id` that wait, then decodes them: the events point into
 * the copy. */
static enum err read_pending(struct sqlite_reader *reader, struct slice id, struct error *error)
{
    reader->raw.size = 0;
    sqlite3_stmt *statement = db_take(reader->db, SQL_WAITING_RAW, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_text(statement, 1, id);
    enum err err;
    while (!(err = db_step(reader->db, statement, error))) {
        enum err full = buffer_append_slice(&reader->raw, db_slice(statement, 1));
        if (full) {
            sqlite3_reset(statement);
            return error_set(error, full, "too much of %.*s waits", SLICE_ARGS(id));
        }
    }
    if (err != ERR_NOT_FOUND)
        return err;
    struct slice raw = buffer_slice(&reader->raw);
    struct slice section;
    err = ERR_OK;
    while (!err && raw_next(&raw, &section))
        err = event_list_add(&reader->events, section, error);
    if (!err && raw.size > 0)
        err = error_set(error, ERR_CORRUPT, "count_events: raw events of %.*s make no sense",
                        SLICE_ARGS(id));
    return err;
}

/* ---- loading ---- */

/* Members of store bytes as the hot layer takes them. */
static enum err read_members(struct sqlite_reader *reader, struct slice sets, int64_t number,
                             size_t *ret_count, struct error *error)
{
    if (sets_read(sets, &reader->list))
        return error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                         (long long)number);
    for (size_t i = 0; i < reader->list.group_count; i++) {
        const struct sets_group *group = &reader->list.groups[i];
        if (group->kind > reader->kinds.count)
            return error_set(error, ERR_CORRUPT, "entries.number %lld: a kind that is not known",
                             (long long)number);
        reader->groups[i] = (struct state_members){
            .kind = kind_names_at(&reader->kinds, group->kind),
            .named = group->named,
            .numbers = reader->list.numbers + group->first,
            .count = group->count,
        };
    }
    *ret_count = reader->list.group_count;
    return ERR_OK;
}

struct item_counts {
    struct slice kinds[SETS_KINDS];
    int64_t counts[SETS_KINDS];
    size_t count;
};

static enum err read_counts(struct sqlite_reader *reader, const struct entry *entry,
                            struct item_counts *ret, struct error *error)
{
    struct kind_counts counts;
    ret->count = 0;
    if (counts_parse(entry->counts, &reader->kinds, &counts)) {
        counts.known = 0;
        if (!entry->is_wrong)
            return error_set(error, ERR_CORRUPT, "entries.number %lld: its counts make no sense",
                             (long long)entry->number);
    }
    for (uint64_t left = counts.known; left; left &= left - 1) {
        unsigned kind = (unsigned)__builtin_ctzll(left);
        ret->kinds[ret->count] = kind_names_at(&reader->kinds, kind);
        ret->counts[ret->count++] = counts.counts[kind];
    }
    return ERR_OK;
}

/* Are there rows for just those slices that have members? What is in them is looked at when they
 * are loaded. */
static enum err check_slices(struct sqlite_reader *reader, const struct entry *entry,
                             bool *ret_is_wrong, struct error *error)
{
    struct slice_sums sums;
    *ret_is_wrong = !slice_sums_read(entry->members, &sums);
    sqlite3_stmt *statement = db_take(reader->db, SQL_MEMBERS_PLACES, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    int64_t first = entry->number * (int64_t)STATE_SLICES;
    db_bind_int(statement, 1, first);
    db_bind_int(statement, 2, first + (int64_t)STATE_SLICES - 1);
    enum err err;
    while (!(err = db_step(reader->db, statement, error))) {
        uint32_t *sum = &sums.of[db_int(statement, 0) - first];
        *ret_is_wrong |= *sum == 0;
        *sum = 0;
    }
    for (unsigned slice = 0; slice < STATE_SLICES; slice++)
        *ret_is_wrong |= sums.of[slice] != 0;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* With a whole item come its members; of a large one they are only looked for. */
static enum err fill_members(struct sqlite_reader *reader, const struct entry *entry,
                             struct state_target *target, struct error *error)
{
    if (entry->slices != 1) {
        bool is_wrong = false;
        enum err err = check_slices(reader, entry, &is_wrong, error);
        target->is_wrong |= is_wrong;
        return err;
    }
    enum err err =
        read_members(reader, entry->members, entry->number, &target->member_count, error);
    return err == ERR_CORRUPT && entry->is_wrong ? ERR_OK : err;
}

/* What makes no sense in a row whose sum is wrong anyway is nothing: whoever is told that it is
 * wrong counts it anew. */
static enum err fill_target(struct sqlite_reader *reader, sqlite3_stmt *statement,
                            bool with_members, struct item_counts *counts,
                            struct state_target *target, struct error *error)
{
    struct entry entry;
    entry_read(statement, &entry);
    target->id = entry.id;
    target->is_item = entry.type == ENTRY_ITEM;
    target->incarnation = entry.incarnation;
    target->written_ms = entry.updated_ms;
    target->is_wrong = entry.is_wrong;
    bool is_wrong = settings_parse(entry.settings, &target->create) != ERR_OK;
    if (!target->is_item) {
        target->deadline_ms = entry.deadline_ms;
        is_wrong |= db_number(statement, 5, &target->value) != ERR_OK;
    }
    if (is_wrong && entry.is_wrong) {
        (void)settings_parse(SLICE(""), &target->create);
        number_done(&target->value);
        target->value = number_of(0);
    } else if (is_wrong)
        return error_set(error, ERR_CORRUPT,
                         "entries.number %lld: its value or settings make no sense",
                         (long long)entry.number);
    if (!target->is_item)
        return ERR_OK;
    enum err err = read_counts(reader, &entry, counts, error);
    if (err)
        return err;
    target->kinds = counts->kinds;
    target->counts = counts->counts;
    target->kind_count = counts->count;
    target->slices = entry.slices;
    target->members = reader->groups;
    return with_members ? fill_members(reader, &entry, target, error) : ERR_OK;
}

/* ERR_NOT_FOUND; else the statement stands on the row of a live id. */
static enum err find_row(struct sqlite_reader *reader, struct slice id,
                         sqlite3_stmt **ret_statement, struct error *error)
{
    *ret_statement = NULL;
    sqlite3_stmt *statement = db_take(reader->db, SQL_ENTRY_BY_ID, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_text(statement, 1, id);
    enum err err = db_step(reader->db, statement, error);
    if (err)
        return err;
    if (entry_type_of(statement) == ENTRY_GONE) {
        sqlite3_reset(statement);
        return ERR_NOT_FOUND;
    }
    *ret_statement = statement;
    return ERR_OK;
}

static enum err load(struct sqlite_reader *reader, struct slice id, store_target_fn *visit,
                     void *arg, struct error *error)
{
    enum err err = reader_kinds(reader, error);
    if (!err)
        err = read_pending(reader, id, error);
    sqlite3_stmt *statement = NULL;
    struct state_target target = {.absent = false};
    struct item_counts counts;
    if (!err) {
        err = find_row(reader, id, &statement, error);
        if (!err)
            err = fill_target(reader, statement, true, &counts, &target, error);
        target.absent = err == ERR_NOT_FOUND && reader->events.count > 0;
    }
    if (target.absent) {
        target.id = id;
        err = ERR_OK;
    }
    if (!err) {
        target.pending = reader->events.events;
        target.pending_count = reader->events.count;
        visit(arg, &target);
    }
    if (statement)
        sqlite3_reset(statement);
    number_done(&target.value);
    return err;
}

enum err sqlite_load(struct store_reader *base, struct slice id, store_target_fn *visit, void *arg,
                     struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    err = load(reader, id, visit, arg, error);
    event_list_clear(&reader->events);
    return reader_end(reader, err);
}

static enum err load_slice(struct sqlite_reader *reader, struct slice item, uint32_t slice,
                           store_members_fn *visit, void *arg, struct error *error)
{
    enum err err = reader_kinds(reader, error);
    if (!err)
        err = read_pending(reader, item, error);
    sqlite3_stmt *statement = NULL;
    if (!err)
        err = find_row(reader, item, &statement, error);
    if (err)
        return err;
    struct entry entry;
    entry_read(statement, &entry);
    int64_t place = entry.number * (int64_t)STATE_SLICES + slice;
    int64_t number = entry.number;
    bool is_wrong = entry.is_wrong;
    struct slice_sums sums;
    bool has_sums = slice_sums_read(entry.members, &sums);
    sqlite3_reset(statement);
    if (entry.type != ENTRY_ITEM || entry.slices != STATE_SLICES)
        return is_wrong ? error_set(error, ERR_CORRUPT,
                                    "entries.number %lld: it is not what was written there",
                                    (long long)number)
                        : ERR_NOT_FOUND;
    statement = db_take(reader->db, SQL_MEMBERS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, place);
    err = db_step(reader->db, statement, error);
    if (err && err != ERR_NOT_FOUND)
        return err;
    size_t count = 0;
    bool empty = err == ERR_NOT_FOUND;
    struct slice sets = empty ? (struct slice){NULL, 0} : db_slice(statement, 0);
    if (!has_sums || sums.of[slice] != sums_of_slice(place, sets))
        err = error_set(error, ERR_CORRUPT, "members.place %lld: it is not what was written there",
                        (long long)place);
    else
        err = empty ? ERR_OK : read_members(reader, sets, number, &count, error);
    if (!err)
        visit(arg, reader->groups, count, reader->events.events, reader->events.count);
    sqlite3_reset(statement);
    return err;
}

enum err sqlite_load_slice(struct store_reader *base, struct slice item, uint32_t slice,
                           store_members_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    err = load_slice(reader, item, slice, visit, arg, error);
    event_list_clear(&reader->events);
    return reader_end(reader, err);
}

/* ---- users and keys ---- */

enum err sqlite_find_user(struct store_reader *base, struct slice name, uint32_t *ret_number,
                          struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    return reader_end(reader,
                      users_of_name(store_behind(reader), reader->db, name, ret_number, error));
}

static enum err visit_names(struct sqlite_reader *reader, const uint32_t *numbers, size_t count,
                            store_name_fn *visit, void *arg, struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, SQL_USER_NAME, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    for (size_t i = 0; i < count; i++) {
        db_bind_int(statement, 1, numbers[i]);
        enum err err = db_step(reader->db, statement, error);
        if (err == ERR_NOT_FOUND)
            continue;
        if (err)
            return err;
        visit(arg, numbers[i], db_slice(statement, 0));
        sqlite3_reset(statement);
    }
    return ERR_OK;
}

enum err sqlite_names(struct store_reader *base, const uint32_t *numbers, size_t count,
                      store_name_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    return reader_end(reader, visit_names(reader, numbers, count, visit, arg, error));
}

static enum err visit_key(sqlite3_stmt *statement, store_key_fn *visit, void *arg,
                          struct error *error)
{
    struct state_key key = {
        .low = (uint64_t)db_int(statement, 1),
        .high = (uint64_t)db_int(statement, 2),
        .fingerprint = (uint64_t)db_int(statement, 3),
        .changed = db_int(statement, 4) != 0,
        .held = db_slice(statement, 5),
        .time_ms = db_int(statement, 7),
    };
    if (db_number(statement, 6, &key.value))
        return error_set(error, ERR_CORRUPT, "keys.row %lld: its value is no number",
                         (long long)db_int(statement, 0));
    visit(arg, &key);
    number_done(&key.value);
    return ERR_OK;
}

enum err sqlite_find_key(struct store_reader *base, uint64_t low, uint64_t high,
                         store_key_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    int64_t row;
    err = keys_find(store_behind(reader), reader->db, low, high, &row, error);
    sqlite3_stmt *statement = err ? NULL : db_take(reader->db, SQL_KEY, error);
    if (!statement)
        return reader_end(reader, err ? err : ERR_UNAVAILABLE);
    db_bind_int(statement, 1, row);
    err = db_step(reader->db, statement, error);
    if (!err) {
        err = visit_key(statement, visit, arg, error);
        sqlite3_reset(statement);
    }
    return reader_end(reader, err);
}

enum err sqlite_keys(struct store_reader *base, int64_t since_ms, uint64_t *cursor, uint32_t limit,
                     store_key_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(reader->db, SQL_KEYS_FROM, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    db_bind_int(statement, 1, (int64_t)*cursor);
    db_bind_int(statement, 2, limit);
    uint32_t seen = 0;
    while (!(err = db_step(reader->db, statement, error))) {
        seen++;
        *cursor = (uint64_t)db_int(statement, 0);
        if (db_int(statement, 7) < since_ms)
            continue;
        err = visit_key(statement, visit, arg, error);
        if (err) {
            sqlite3_reset(statement);
            return reader_end(reader, err);
        }
    }
    if (err == ERR_NOT_FOUND && seen < limit)
        *cursor = 0;
    return reader_end(reader, err == ERR_NOT_FOUND ? ERR_OK : err);
}

/* Ids that only wait have no row yet: told with the first step. */
static enum err tell_waiting(struct sqlite_reader *reader, store_hash_fn *visit, void *arg,
                             struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, SQL_WAITING_IDS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(reader->db, statement, error)))
        visit(arg, hash_stable(db_slice(statement, 0)));
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* Rows in the order of their numbers; the cursor is the last number and one. */
enum err sqlite_hashes(struct store_reader *base, bool users, uint64_t *cursor, uint32_t limit,
                       store_hash_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin_whole(reader, error);
    if (err)
        return err;
    if (!users && *cursor == 0)
        err = tell_waiting(reader, visit, arg, error);
    sqlite3_stmt *statement =
        err ? NULL : db_take(reader->db, users ? SQL_USERS_FROM : SQL_ENTRY_IDS, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    db_bind_int(statement, 1, (int64_t)*cursor);
    db_bind_int(statement, 2, limit);
    uint32_t seen = 0;
    while (!(err = db_step(reader->db, statement, error))) {
        seen++;
        *cursor = (uint64_t)db_int(statement, 0) + (users ? 1 : 0);
        visit(arg, hash_stable(db_slice(statement, 1)));
    }
    if (err == ERR_NOT_FOUND && seen < limit)
        *cursor = 0;
    return reader_end(reader, err == ERR_NOT_FOUND ? ERR_OK : err);
}

/* ---- walking through everything ---- */

static enum err scan(struct sqlite_reader *reader, uint64_t *cursor, uint32_t limit,
                     store_target_fn *visit, void *arg, struct error *error)
{
    enum err err = reader_kinds(reader, error);
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(reader->db, SQL_ENTRY_SCAN, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)*cursor);
    db_bind_int(statement, 2, limit);
    uint32_t seen = 0;
    while (!(err = db_step(reader->db, statement, error))) {
        seen++;
        *cursor = (uint64_t)db_int(statement, 0);
        if (entry_type_of(statement) == ENTRY_GONE)
            continue;
        struct state_target target = {.slices = 1};
        struct item_counts counts;
        err = fill_target(reader, statement, false, &counts, &target, error);
        if (!err)
            visit(arg, &target);
        number_done(&target.value);
        if (err) {
            sqlite3_reset(statement);
            return err;
        }
    }
    if (err == ERR_NOT_FOUND && seen < limit)
        *cursor = 0;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err sqlite_scan(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                     store_target_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    return reader_end(reader, scan(reader, cursor, limit, visit, arg, error));
}

/* What `user` holds on the item of a row. */
enum err entry_held(struct db *db, const struct entry *entry, struct slice name, bool named,
                    uint32_t number, uint8_t *ret_kind, struct error *error)
{
    enum err err;
    if (entry->slices == 1) {
        err = sets_find(entry->members, named, number, ret_kind);
    } else {
        sqlite3_stmt *statement = db_take(db, SQL_MEMBERS, error);
        if (!statement)
            return ERR_UNAVAILABLE;
        uint32_t slice = bucket_slice(bucket_of(entry->id, name));
        db_bind_int(statement, 1, entry->number * (int64_t)STATE_SLICES + slice);
        err = db_step(db, statement, error);
        *ret_kind = 0;
        if (err)
            return err == ERR_NOT_FOUND ? ERR_OK : err;
        err = sets_find(db_slice(statement, 0), named, number, ret_kind);
        sqlite3_reset(statement);
    }
    return err ? error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                           (long long)entry->number)
               : ERR_OK;
}

static enum err items_of(struct sqlite_reader *reader, struct slice user, uint64_t *cursor,
                         uint32_t limit, store_item_fn *visit, void *arg, struct error *error)
{
    uint32_t number;
    bool named = !user_is_numeric(user, &number);
    enum err err = reader_kinds(reader, error);
    if (!err && named)
        err = users_of_name(store_behind(reader), reader->db, user, &number, error);
    if (err == ERR_NOT_FOUND) {
        *cursor = 0;
        return ERR_OK;
    }
    sqlite3_stmt *statement = err ? NULL : db_take(reader->db, SQL_ENTRY_SCAN, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)*cursor);
    db_bind_int(statement, 2, limit);
    uint32_t seen = 0;
    while (!(err = db_step(reader->db, statement, error))) {
        seen++;
        struct entry entry;
        entry_read(statement, &entry);
        *cursor = (uint64_t)entry.number;
        uint8_t kind = 0;
        if (entry.type != ENTRY_ITEM)
            continue;
        err = entry_held(reader->db, &entry, user, named, number, &kind, error);
        if (err) {
            sqlite3_reset(statement);
            return err;
        }
        if (kind != 0)
            visit(arg, entry.id, kind_names_at(&reader->kinds, kind));
    }
    if (err == ERR_NOT_FOUND && seen < limit)
        *cursor = 0;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err sqlite_items_of(struct store_reader *base, struct slice user, uint64_t *cursor,
                         uint32_t limit, store_item_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    return reader_end(reader, items_of(reader, user, cursor, limit, visit, arg, error));
}

/* ---- the audit ---- */

/* Of a large item: are its slices what was written there? Then they are counted, and else
 * *ret_is_wrong. */
static enum err count_slices(struct sqlite_reader *reader, const struct entry *entry,
                             int64_t counts[SETS_KINDS], bool *ret_is_wrong, struct error *error)
{
    int64_t all = 0;
    struct slice_sums sums;
    bool is_wrong = !slice_sums_read(entry->members, &sums);
    sqlite3_stmt *statement = db_take(reader->db, SQL_MEMBERS_ALL, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    int64_t first = entry->number * (int64_t)STATE_SLICES;
    db_bind_int(statement, 1, first);
    db_bind_int(statement, 2, first + (int64_t)STATE_SLICES - 1);
    enum err err;
    while (!(err = db_step(reader->db, statement, error))) {
        int64_t place = db_int(statement, 0);
        struct slice sets = db_slice(statement, 1);
        uint32_t *sum = &sums.of[place - first];
        is_wrong |= *sum != sums_of_slice(place, sets) || sets_count(sets, counts, &all);
        *sum = 0;
    }
    for (unsigned slice = 0; slice < STATE_SLICES; slice++)
        is_wrong |= sums.of[slice] != 0;
    *ret_is_wrong = is_wrong;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err entries_each(struct sqlite_reader *reader, entry_fn *each, void *arg, struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, SQL_ENTRY_SCAN, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, INT64_MIN);
    db_bind_int(statement, 2, -1);
    enum err err;
    while (!(err = db_step(reader->db, statement, error))) {
        struct entry entry;
        entry_read(statement, &entry);
        err = each(reader, &entry, arg, error);
        if (err) {
            sqlite3_reset(statement);
            return err;
        }
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err entry_check_slices(struct sqlite_reader *reader, const struct entry *entry,
                            bool *ret_is_wrong, struct error *error)
{
    int64_t ignored[SETS_KINDS] = {0};
    return count_slices(reader, entry, ignored, ret_is_wrong, error);
}

/* Counts the members of an item one by one, by kind. No number of them is right where they are not
 * what was written there: they are made anew. */
static enum err count_members(struct sqlite_reader *reader, const struct entry *entry,
                              int64_t counts[SETS_KINDS], struct error *error)
{
    int64_t all = 0;
    bool is_wrong = false;
    if (entry->slices != 1) {
        enum err err = count_slices(reader, entry, counts, &is_wrong, error);
        for (unsigned kind = 0; is_wrong && kind < SETS_KINDS; kind++)
            counts[kind] = -1;
        return err;
    }
    enum err err = sets_count(entry->members, counts, &all);
    return err ? error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                           (long long)entry->number)
               : ERR_OK;
}

static enum err inspect_item(struct sqlite_reader *reader, const struct entry *entry,
                             struct slice kind_text, struct number *ret_value, int64_t *ret_members,
                             struct error *error)
{
    struct kind_counts counts;
    unsigned kind = kind_names_find(&reader->kinds, kind_text);
    if (counts_parse(entry->counts, &reader->kinds, &counts)) {
        counts.known = 0;
        if (!entry->is_wrong)
            return error_set(error, ERR_CORRUPT, "entries.number %lld: its counts make no sense",
                             (long long)entry->number);
    }
    int64_t members[SETS_KINDS] = {0};
    enum err err = count_members(reader, entry, members, error);
    if (err == ERR_CORRUPT && entry->is_wrong) {
        memset(members, 0, sizeof(members));
        err = ERR_OK;
    }
    bool known = kind < SETS_KINDS && counts.known >> kind & 1;
    *ret_value = number_of(known ? counts.counts[kind] : 0);
    *ret_members = kind < SETS_KINDS ? members[kind] : 0;
    return err;
}

static enum err inspect(struct sqlite_reader *reader, struct slice id, struct slice kind,
                        struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                        struct error *error)
{
    uint32_t indexed;
    struct log_position base;
    enum err err = reader_kinds(reader, error);
    if (!err)
        err = store_read_mark(reader->db, ret_mark, &indexed, &base, error);
    sqlite3_stmt *statement = NULL;
    if (!err)
        err = find_row(reader, id, &statement, error);
    if (err)
        return err;
    struct entry entry;
    entry_read(statement, &entry);
    *ret_members = 0;
    if ((entry.type == ENTRY_ITEM) != (kind.size > 0))
        err = ERR_NOT_FOUND;
    else if (entry.type == ENTRY_ITEM)
        err = inspect_item(reader, &entry, kind, ret_value, ret_members, error);
    else if (db_number(statement, 5, ret_value)) {
        *ret_value = number_of(0);
        if (!entry.is_wrong)
            err = error_set(error, ERR_CORRUPT, "entries.number %lld: its value is no number",
                            (long long)entry.number);
    }
    sqlite3_reset(statement);
    return err;
}

enum err sqlite_inspect(struct store_reader *base, struct slice id, struct slice kind,
                        struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                        struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    return reader_end(reader, inspect(reader, id, kind, ret_value, ret_members, ret_mark, error));
}
