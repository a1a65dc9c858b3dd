/* walk.c - users and keys one by one, and walks through everything there is, some rows a step. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "core/user.h"
#include "store/postgres/own.h"
#include "store/postgres/reader.h"

/* ---- users ---- */

enum err postgres_user_find(struct pg *pg, struct slice name, int64_t *ret_user_id,
                            struct error *error)
{
    uint32_t number;
    if (user_is_numeric(name, &number)) {
        *ret_user_id = number;
        return ERR_OK;
    }
    pg_args(pg);
    pg_arg_text(pg, name);
    enum err err = pg_query(pg, SQL_READ_USER, error);
    if (err)
        return err;
    if (pg_rows(pg) == 0)
        return ERR_NOT_FOUND;
    *ret_user_id = -1 - pg_int(pg, 0, 0);
    return ERR_OK;
}

struct find_user {
    struct slice name;
    uint32_t *ret_number;
};

static enum err find_user(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct find_user *call = arg;
    pg_args(&reader->pg);
    pg_arg_text(&reader->pg, call->name);
    enum err err = postgres_reader_query(reader, SQL_READ_USER, error);
    if (err)
        return err;
    if (pg_rows(&reader->pg) == 0)
        return ERR_NOT_FOUND;
    *call->ret_number = (uint32_t)pg_int(&reader->pg, 0, 0);
    return ERR_OK;
}

enum err postgres_find_user(struct store_reader *base, struct slice name, uint32_t *ret_number,
                            struct error *error)
{
    struct find_user call = {name, ret_number};
    return postgres_read_once(postgres_reader_of(base), find_user, &call, error);
}

struct visit_names {
    const uint32_t *numbers;
    size_t count;
    store_name_fn *visit;
    void *arg;
};

static enum err visit_names(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct visit_names *call = arg;
    struct pg *pg = &reader->pg;
    struct pg_array array;
    pg_array_init(&array, PG_INT);
    for (size_t i = 0; i < call->count; i++)
        pg_array_int(&array, call->numbers[i]);
    pg_args(pg);
    pg_arg_array(pg, &array);
    enum err err = postgres_reader_query(reader, SQL_READ_NAMES_IN_ORDER, error);
    pg_array_done(&array);
    for (int row = 0; !err && row < pg_rows(pg); row++)
        call->visit(call->arg, (uint32_t)pg_int(pg, row, 0), pg_text(pg, row, 1));
    return err;
}

enum err postgres_names(struct store_reader *base, const uint32_t *numbers, size_t count,
                        store_name_fn *visit, void *arg, struct error *error)
{
    struct visit_names call = {numbers, count, visit, arg};
    return postgres_read_once(postgres_reader_of(base), visit_names, &call, error);
}

/* ---- keys ---- */

/* The columns of a key begin at `column`. */
static enum err visit_key(struct pg *pg, int row, int column, store_key_fn *visit, void *arg,
                          struct error *error)
{
    struct state_key key = {
        .low = (uint64_t)pg_int(pg, row, column),
        .high = (uint64_t)pg_int(pg, row, column + 1),
        .fingerprint = (uint64_t)pg_int(pg, row, column + 2),
        .changed = pg_bool(pg, row, column + 3),
        .held = pg_text(pg, row, column + 4),
        .time_ms = pg_time(pg, row, column + 6),
    };
    if (pg_number(pg, row, column + 5, &key.value))
        return error_set(error, ERR_CORRUPT, "keys.low %lld: its value is no number",
                         (long long)key.low);
    visit(arg, &key);
    number_done(&key.value);
    return ERR_OK;
}

struct find_key {
    uint64_t low;
    uint64_t high;
    store_key_fn *visit;
    void *arg;
};

static enum err find_key(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct find_key *call = arg;
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)call->low);
    pg_arg_int(pg, (int64_t)call->high);
    enum err err = postgres_reader_query(reader, SQL_READ_KEY, error);
    if (err)
        return err;
    postgres_reader_saw(reader, pg_slice(pg, 0, 0));
    if (pg_is_null(pg, 0, 1))
        return ERR_NOT_FOUND;
    return visit_key(pg, 0, 1, call->visit, call->arg, error);
}

enum err postgres_find_key(struct store_reader *base, uint64_t low, uint64_t high,
                           store_key_fn *visit, void *arg, struct error *error)
{
    struct find_key call = {low, high, visit, arg};
    return postgres_read_once(postgres_reader_of(base), find_key, &call, error);
}

/* ---- walks ---- */

/* A walk goes by a number that grows: `cursor` is that of the last row, and 0 at both ends. */
struct walk {
    uint64_t *cursor;
    uint32_t limit;
    void *visit; /* of the kind that the walk wants */
    void *arg;
    int64_t since_ms; /* keys */
    bool users;       /* hashes */
};

static enum err begin_walk(struct postgres_reader *reader, enum statement which,
                           const struct walk *walk, struct error *error)
{
    pg_args(&reader->pg);
    pg_arg_int(&reader->pg, (int64_t)*walk->cursor);
    pg_arg_int(&reader->pg, walk->limit);
    return postgres_reader_query(reader, which, error);
}

/* `last` is the number of the last row. */
static void end_walk(const struct walk *walk, int rows, int64_t last)
{
    *walk->cursor = (uint32_t)rows < walk->limit ? 0 : (uint64_t)last;
}

static enum err walk_keys(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct walk *walk = arg;
    struct pg *pg = &reader->pg;
    store_key_fn *visit = *(store_key_fn **)walk->visit;
    enum err err = begin_walk(reader, SQL_READ_KEYS, walk, error);
    int rows = err ? 0 : pg_rows(pg);
    for (int row = 0; row < rows && !err; row++) {
        if (pg_time(pg, row, 7) >= walk->since_ms)
            err = visit_key(pg, row, 1, visit, walk->arg, error);
    }
    if (!err)
        end_walk(walk, rows, rows > 0 ? pg_int(pg, rows - 1, 0) : 0);
    return err;
}

enum err postgres_keys(struct store_reader *base, int64_t since_ms, uint64_t *cursor,
                       uint32_t limit, store_key_fn *visit, void *arg, struct error *error)
{
    struct walk walk = {
        .cursor = cursor, .limit = limit, .visit = &visit, .arg = arg, .since_ms = since_ms};
    return postgres_read_once(postgres_reader_of(base), walk_keys, &walk, error);
}

/* Ids that only wait have no row yet: told with the first step. */
static enum err tell_waiting(struct postgres_reader *reader, store_hash_fn *visit, void *arg,
                             struct error *error)
{
    pg_args(&reader->pg);
    enum err err = postgres_reader_query(reader, SQL_READ_WAITING_IDS, error);
    for (int row = 0; !err && row < pg_rows(&reader->pg); row++)
        visit(arg, hash_stable(pg_text(&reader->pg, row, 0)));
    return err;
}

static enum err walk_hashes(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct walk *walk = arg;
    struct pg *pg = &reader->pg;
    store_hash_fn *visit = *(store_hash_fn **)walk->visit;
    enum err err = ERR_OK;
    if (!walk->users && *walk->cursor == 0)
        err = tell_waiting(reader, visit, walk->arg, error);
    if (!err)
        err = begin_walk(reader, walk->users ? SQL_READ_USERS : SQL_READ_IDS, walk, error);
    if (err)
        return err;
    int rows = pg_rows(pg);
    for (int row = 0; row < rows; row++)
        visit(walk->arg, hash_stable(pg_text(pg, row, 1)));
    /* The first user's number is 0: there the cursor is one more. */
    end_walk(walk, rows, rows > 0 ? pg_int(pg, rows - 1, 0) + (walk->users ? 1 : 0) : 0);
    return ERR_OK;
}

enum err postgres_hashes(struct store_reader *base, bool users, uint64_t *cursor, uint32_t limit,
                         store_hash_fn *visit, void *arg, struct error *error)
{
    struct walk walk = {
        .cursor = cursor, .limit = limit, .visit = &visit, .arg = arg, .users = users};
    return postgres_read(postgres_reader_of(base), walk_hashes, &walk, error);
}

/* ---- counters and items ---- */

/* The columns of SQL_READ_SCAN: number, id, type, then as follows. */
enum {
    SCAN_INCARNATION = 3,
    SCAN_UPDATED,
    SCAN_VALUE,
    SCAN_SLICES,
    SCAN_SETTINGS,
    SCAN_DEADLINE,
    SCAN_KINDS,
    SCAN_COUNTS,
    SCAN_FITS
};

struct scan_counts {
    struct slice kinds[SETS_KINDS];
    int64_t counts[SETS_KINDS];
};

static enum err scan_wrong(int64_t number, struct error *error)
{
    return error_set(error, ERR_CORRUPT,
                     "entries.number %lld: its value, counts or settings make no sense",
                     (long long)number);
}

static enum err fill_counts(struct postgres_reader *reader, int row, struct scan_counts *counts,
                            struct state_target *target, struct error *error)
{
    struct slice kinds = pg_slice(&reader->pg, row, SCAN_KINDS);
    struct slice numbers = pg_slice(&reader->pg, row, SCAN_COUNTS);
    target->kind_count = postgres_ints_count(kinds);
    for (size_t i = 0; i < target->kind_count; i++) {
        int64_t kind = postgres_ints_get(kinds, i);
        if (kind < 1 || kind > (int64_t)reader->kinds.count || i >= SETS_KINDS)
            return scan_wrong(pg_int(&reader->pg, row, 0), error);
        counts->kinds[i] = kind_names_at(&reader->kinds, (unsigned)kind);
        counts->counts[i] = postgres_ints_get(numbers, i);
    }
    target->kinds = counts->kinds;
    target->counts = counts->counts;
    target->slices = (uint32_t)pg_int(&reader->pg, row, SCAN_SLICES);
    return ERR_OK;
}

static enum err visit_target(struct postgres_reader *reader, int row, store_target_fn *visit,
                             void *arg, struct error *error)
{
    struct pg *pg = &reader->pg;
    struct scan_counts counts;
    struct state_target target = {
        .id = pg_text(pg, row, 1),
        .is_item = pg_int(pg, row, 2) == ENTRY_ITEM,
        .incarnation = (uint32_t)pg_int(pg, row, SCAN_INCARNATION),
        .written_ms = pg_time(pg, row, SCAN_UPDATED),
        .slices = 1,
        .is_wrong = !pg_bool(pg, row, SCAN_FITS),
    };
    enum err err = ERR_OK;
    bool is_wrong = settings_parse(pg_slice(pg, row, SCAN_SETTINGS), &target.create) != ERR_OK;
    if (target.is_item) {
        err = fill_counts(reader, row, &counts, &target, error);
    } else {
        target.deadline_ms = pg_int(pg, row, SCAN_DEADLINE);
        is_wrong |= pg_number(pg, row, SCAN_VALUE, &target.value) != ERR_OK;
    }
    if (!err && is_wrong && !target.is_wrong) /* else nobody is told what stands there */
        err = scan_wrong(pg_int(pg, row, 0), error);
    if (!err)
        visit(arg, &target);
    number_done(&target.value);
    return err;
}

static enum err walk_targets(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct walk *walk = arg;
    struct pg *pg = &reader->pg;
    store_target_fn *visit = *(store_target_fn **)walk->visit;
    enum err err = postgres_kinds_load(pg, &reader->kinds, error);
    if (!err)
        err = begin_walk(reader, SQL_READ_SCAN, walk, error);
    int rows = err ? 0 : pg_rows(pg);
    for (int row = 0; row < rows && !err; row++) {
        if (pg_int(pg, row, 2) != ENTRY_GONE)
            err = visit_target(reader, row, visit, walk->arg, error);
    }
    if (!err)
        end_walk(walk, rows, rows > 0 ? pg_int(pg, rows - 1, 0) : 0);
    return err;
}

enum err postgres_scan(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                       store_target_fn *visit, void *arg, struct error *error)
{
    struct walk walk = {.cursor = cursor, .limit = limit, .visit = &visit, .arg = arg};
    return postgres_read(postgres_reader_of(base), walk_targets, &walk, error);
}

/* ---- what a user holds ---- */

struct items_of {
    struct slice user;
    uint64_t *cursor;
    uint32_t limit;
    store_item_fn *visit;
    void *arg;
};

/* Rows: an item and the kind that the user holds there, or none. */
static enum err visit_rows(struct postgres_reader *reader, struct items_of *call, int64_t user_id,
                           int64_t *ret_last, int *ret_rows, struct error *error)
{
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)*call->cursor);
    pg_arg_int(pg, call->limit);
    pg_arg_int(pg, user_id);
    enum err err = postgres_reader_query(reader, SQL_READ_ITEMS_OF, error);
    if (err)
        return err;
    *ret_rows = pg_rows(pg);
    for (int row = 0; row < *ret_rows; row++) {
        int64_t kind = pg_int(pg, row, 2);
        *ret_last = pg_int(pg, row, 0);
        if (kind > 0 && kind <= (int64_t)reader->kinds.count)
            call->visit(call->arg, pg_text(pg, row, 1),
                        kind_names_at(&reader->kinds, (unsigned)kind));
    }
    return ERR_OK;
}

/* An item to tell of, or one in slices, which has to be asked still. */
struct candidate {
    int64_t number;
    size_t id_at; /* in reader->text */
    size_t id_size;
    bool is_sliced;
    uint8_t kind;
};

/* Which one of the slices the user would be in is known by item and name. */
static enum err ask_slice(struct postgres_reader *reader, struct slice user, int64_t user_id,
                          struct slice id, struct candidate *candidate, struct error *error)
{
    struct pg *pg = &reader->pg;
    bool named = user_id < 0;
    pg_args(pg);
    pg_arg_int(pg, candidate->number);
    pg_arg_int(pg, bucket_slice(bucket_of(id, user)));
    enum err err = postgres_reader_query(reader, SQL_READ_SETS, error);
    if (err || pg_rows(pg) == 0)
        return err;
    if (sets_find(pg_slice(pg, 0, 0), named, (uint32_t)(named ? -1 - user_id : user_id),
                  &candidate->kind))
        return error_set(error, ERR_CORRUPT, "members.item %lld: they are damaged",
                         (long long)candidate->number);
    return ERR_OK;
}

/* The items of a step that the user may be in. */
static enum err gather(struct postgres_reader *reader, int64_t user_id,
                       struct candidate *candidates, size_t *ret_count, struct error *error)
{
    struct pg *pg = &reader->pg;
    bool named = user_id < 0;
    *ret_count = 0;
    reader->text.size = 0;
    for (int row = 0; row < pg_rows(pg); row++) {
        struct slice id = pg_text(pg, row, 1);
        struct candidate candidate = {pg_int(pg, row, 0), reader->text.size, id.size,
                                      pg_int(pg, row, 3) == STATE_SLICES, 0};
        if (pg_int(pg, row, 2) != ENTRY_ITEM)
            continue;
        if (!candidate.is_sliced &&
            sets_find(pg_slice(pg, row, 4), named, (uint32_t)(named ? -1 - user_id : user_id),
                      &candidate.kind))
            return error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                             (long long)candidate.number);
        if (!candidate.is_sliced && candidate.kind == 0)
            continue;
        candidates[(*ret_count)++] = candidate;
        (void)buffer_append_slice(&reader->text, id);
    }
    return ERR_OK;
}

static enum err visit_candidates(struct postgres_reader *reader, struct items_of *call,
                                 int64_t user_id, struct candidate *candidates, size_t count,
                                 struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && !err; i++) {
        struct slice id = {reader->text.data + candidates[i].id_at, candidates[i].id_size};
        if (candidates[i].is_sliced)
            err = ask_slice(reader, call->user, user_id, id, &candidates[i], error);
        unsigned kind = candidates[i].kind;
        if (!err && kind != 0 && kind <= reader->kinds.count)
            call->visit(call->arg, id, kind_names_at(&reader->kinds, kind));
    }
    return err;
}

static enum err visit_sets(struct postgres_reader *reader, struct items_of *call, int64_t user_id,
                           int64_t *ret_last, int *ret_rows, struct error *error)
{
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)*call->cursor);
    pg_arg_int(pg, call->limit);
    enum err err = postgres_reader_query(reader, SQL_READ_ITEMS_AND_SETS, error);
    if (err)
        return err;
    size_t count;
    *ret_rows = pg_rows(pg);
    *ret_last = *ret_rows > 0 ? pg_int(pg, *ret_rows - 1, 0) : 0;
    struct candidate *candidates = memory_take(((size_t)*ret_rows + 1) * sizeof(*candidates));
    err = gather(reader, user_id, candidates, &count, error);
    if (!err)
        err = visit_candidates(reader, call, user_id, candidates, count, error);
    free(candidates);
    return err;
}

static enum err items_of(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct items_of *call = arg;
    int64_t user_id;
    int64_t last = 0;
    int rows = 0;
    enum err err = postgres_kinds_load(&reader->pg, &reader->kinds, error);
    if (!err)
        err = postgres_user_find(&reader->pg, call->user, &user_id, error);
    if (err == ERR_NOT_FOUND) {
        *call->cursor = 0;
        return ERR_OK;
    }
    if (err)
        return err;
    bool keeps_rows = postgres_of(reader->base.store)->options.members == POSTGRES_ROWS;
    err = keeps_rows ? visit_rows(reader, call, user_id, &last, &rows, error)
                     : visit_sets(reader, call, user_id, &last, &rows, error);
    if (!err)
        *call->cursor = (uint32_t)rows < call->limit ? 0 : (uint64_t)last;
    return err;
}

enum err postgres_items_of(struct store_reader *base, struct slice user, uint64_t *cursor,
                           uint32_t limit, store_item_fn *visit, void *arg, struct error *error)
{
    struct items_of call = {user, cursor, limit, visit, arg};
    return postgres_read(postgres_reader_of(base), items_of, &call, error);
}
