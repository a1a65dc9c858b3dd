/* Lists for people: lives of units, dead letters, history, audit trail. Newest first. */
#include <assert.h>
#include <string.h>

#include "base/decimal.h"
#include "core/user.h"
#include "store/sqlite/own.h"

static struct sqlite_reader *reader_of(struct store_reader *base)
{
    return (struct sqlite_reader *)base;
}

static struct slice text_of(sqlite3_stmt *statement, int column)
{
    const char *data = (const char *)sqlite3_column_text(statement, column);
    return (struct slice){data, (size_t)sqlite3_column_bytes(statement, column)};
}

/* A walk backwards: binds cursor and limit. */
static sqlite3_stmt *walk_back(struct sqlite_reader *reader, enum statement which, uint64_t cursor,
                               uint32_t limit, struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, which, error);
    if (!statement)
        return NULL;
    db_bind_int(statement, 1, cursor == 0 ? INT64_MAX : (int64_t)cursor);
    db_bind_int(statement, 2, limit);
    return statement;
}

/* The cursor after a walk that saw `seen` rows, the last of them `row`. */
static enum err end_walk(struct sqlite_reader *reader, enum err err, uint32_t seen, uint32_t limit,
                         uint64_t row, uint64_t *cursor)
{
    if (err == ERR_NOT_FOUND)
        *cursor = seen < limit ? 0 : row;
    return reader_end(reader, err == ERR_NOT_FOUND ? ERR_OK : err);
}

/* ---- lives ---- */

static void read_life(sqlite3_stmt *statement, struct store_life *life)
{
    *life = (struct store_life){
        .row = (uint64_t)db_int(statement, 0),
        .id = db_slice(statement, 2),
        .delta = text_of(statement, 3),
        .state = (enum lifecycle_state)db_int(statement, 4),
        .retry_count = (uint32_t)db_int(statement, 5),
        .events = (uint32_t)db_int(statement, 6),
        .created_ms = db_int(statement, 7),
        .processed_ms = db_int(statement, 8),
        .next_ms = db_int(statement, 9),
        .reason = db_slice(statement, 10),
    };
    stores_copy_event_id(db_slice(statement, 1), life->event_id);
    if ((unsigned)life->state >= LIFECYCLE_STATES)
        life->state = LIFECYCLE_FAILED;
}

static bool is_waiting(enum lifecycle_state state)
{
    return state == LIFECYCLE_PENDING || state == LIFECYCLE_RETRYING || state == LIFECYCLE_FAILED;
}

/* A rare match does not take for ever: so many rows are looked at, then the caller is asked to
 * come again. Those that wait have an index. */
#define LIVES_ROWS_A_STEP 20000u

enum err sqlite_lives(struct store_reader *base, const struct store_life_filter *filter,
                      uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                      struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    bool waiting = filter->has_state && is_waiting(filter->state);
    sqlite3_stmt *statement = walk_back(reader, waiting ? SQL_LIVES_WAITING : SQL_LIVES_BACK,
                                        *cursor, LIVES_ROWS_A_STEP, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    uint32_t seen = 0;
    uint32_t found = 0;
    struct store_life life = {.row = 0};
    while (found < limit && !(err = db_step(reader->db, statement, error))) {
        seen++;
        read_life(statement, &life);
        if (!stores_life_matches(&life, filter))
            continue;
        found++;
        visit(arg, &life);
    }
    sqlite3_reset(statement);
    if (err && err != ERR_NOT_FOUND)
        return reader_end(reader, err);
    *cursor = found < limit && seen < LIVES_ROWS_A_STEP ? 0 : life.row;
    return reader_end(reader, ERR_OK);
}

/* ---- dead letters ---- */

static void visit_letter(sqlite3_stmt *statement, store_letter_fn *visit, void *arg)
{
    struct store_letter letter = {
        .row = (uint64_t)db_int(statement, 0),
        .id = db_slice(statement, 2),
        .delta = text_of(statement, 3),
        .reason = db_slice(statement, 4),
        .raw = db_slice(statement, 5),
        .position = {(uint64_t)db_int(statement, 6), (uint64_t)db_int(statement, 7)},
        .retry_count = (uint32_t)db_int(statement, 8),
        .created_ms = db_int(statement, 9),
        .failed_ms = db_int(statement, 10),
    };
    stores_copy_event_id(db_slice(statement, 1), letter.event_id);
    visit(arg, &letter);
}

enum err sqlite_letters(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                        store_letter_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    sqlite3_stmt *statement = walk_back(reader, SQL_LETTERS_BACK, *cursor, limit, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    uint32_t seen = 0;
    uint64_t row = 0;
    while (!(err = db_step(reader->db, statement, error))) {
        seen++;
        row = (uint64_t)db_int(statement, 0);
        visit_letter(statement, visit, arg);
    }
    return end_walk(reader, err, seen, limit, row, cursor);
}

enum err sqlite_letter(struct store_reader *base, const unsigned char *event_id,
                       store_letter_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(reader->db, SQL_LETTER, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    db_bind_blob(statement, 1, (struct slice){(const char *)event_id, STORE_EVENT_ID_BYTES});
    err = db_step(reader->db, statement, error);
    if (!err) {
        visit_letter(statement, visit, arg);
        sqlite3_reset(statement);
    }
    return reader_end(reader, err);
}

/* ---- history ---- */

/* Whom and what a walk through the history looks for. */
struct search {
    bool any_item;
    int64_t item;
    bool any_user;
    int64_t user;
};

/* ERR_NOT_FOUND: there is no such item or user, and so nothing to find. */
static enum err prepare_search(struct sqlite_reader *reader, struct slice item, struct slice user,
                               struct search *ret, struct error *error)
{
    *ret = (struct search){.any_item = item.size == 0, .any_user = user.size == 0};
    if (!ret->any_item) {
        sqlite3_stmt *statement = db_take(reader->db, SQL_ENTRY_FIND, error);
        if (!statement)
            return ERR_UNAVAILABLE;
        db_bind_text(statement, 1, item);
        enum err err = db_step(reader->db, statement, error);
        if (err)
            return err;
        ret->item = db_int(statement, 0);
        sqlite3_reset(statement);
    }
    if (ret->any_user)
        return ERR_OK;
    uint32_t number;
    if (user_is_numeric(user, &number)) {
        ret->user = number;
        return ERR_OK;
    }
    enum err err = users_of_name(store_of(reader->base.store), reader->db, user, &number, error);
    ret->user = -1 - (int64_t)number;
    return err;
}

static bool row_matches(sqlite3_stmt *statement, const struct search *search)
{
    if (!search->any_item && db_int(statement, 1) != search->item)
        return false;
    return search->any_user || (sqlite3_column_type(statement, 2) == SQLITE_INTEGER &&
                                db_int(statement, 2) == search->user);
}

/* Copies the text in the first column of the row of `number` to reader->text; "" without one. */
static enum err look_up(struct sqlite_reader *reader, enum statement which, int column,
                        int64_t number, struct error *error)
{
    sqlite3_stmt *statement = db_take(reader->db, which, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, number);
    enum err err = db_step(reader->db, statement, error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    (void)buffer_append_slice(&reader->text, db_slice(statement, column));
    sqlite3_reset(statement);
    return ERR_OK;
}

static enum err append_user(struct sqlite_reader *reader, sqlite3_stmt *statement,
                            struct error *error)
{
    int type = sqlite3_column_type(statement, 2);
    if (type == SQLITE_NULL)
        return buffer_append_slice(&reader->text, SLICE("(erased)"));
    if (type == SQLITE_TEXT || db_int(statement, 2) >= 0)
        return buffer_append_slice(&reader->text, text_of(statement, 2));
    return look_up(reader, SQL_USER_NAME, 0, -1 - db_int(statement, 2), error);
}

static enum err visit_past(struct sqlite_reader *reader, sqlite3_stmt *statement,
                           store_past_fn *visit, void *arg, struct error *error)
{
    struct store_past past = {
        .row = (uint64_t)db_int(statement, 0),
        .kind = kind_names_at(&reader->kinds, (unsigned)db_int(statement, 3)),
        .time_ms = db_int(statement, 4),
    };
    reader->text.size = 0;
    enum err err = look_up(reader, SQL_ENTRY, 1, db_int(statement, 1), error);
    size_t split = reader->text.size;
    if (!err)
        err = append_user(reader, statement, error);
    if (err)
        return err;
    past.item = (struct slice){reader->text.data, split};
    past.user = (struct slice){reader->text.data + split, reader->text.size - split};
    visit(arg, &past);
    return ERR_OK;
}

/* There is no index: looks at so many rows for each that is wanted, and goes on next time. */
#define PAST_ROWS_A_STEP 200000u

static enum err past(struct sqlite_reader *reader, const struct search *search, uint64_t *cursor,
                     uint32_t limit, store_past_fn *visit, void *arg, struct error *error)
{
    sqlite3_stmt *statement = walk_back(reader, SQL_HISTORY_BACK, *cursor, PAST_ROWS_A_STEP, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    uint32_t seen = 0;
    uint32_t found = 0;
    uint64_t row = 0;
    enum err err = ERR_OK;
    while (found < limit && !(err = db_step(reader->db, statement, error))) {
        seen++;
        row = (uint64_t)db_int(statement, 0);
        if (!row_matches(statement, search))
            continue;
        found++;
        err = visit_past(reader, statement, visit, arg, error);
        if (err)
            break;
    }
    sqlite3_reset(statement);
    if (err && err != ERR_NOT_FOUND)
        return err;
    *cursor = found < limit && seen < PAST_ROWS_A_STEP ? 0 : row;
    return ERR_OK;
}

enum err sqlite_past(struct store_reader *base, struct slice item, struct slice user,
                     uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                     struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    struct search search;
    err = reader_kinds(reader, error);
    if (!err)
        err = prepare_search(reader, item, user, &search, error);
    if (err == ERR_NOT_FOUND) {
        *cursor = 0;
        return reader_end(reader, ERR_OK);
    }
    if (!err)
        err = past(reader, &search, cursor, limit, visit, arg, error);
    return reader_end(reader, err);
}

/* ---- audit trail ---- */

enum err sqlite_audits(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                       store_audit_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    sqlite3_stmt *statement = walk_back(reader, SQL_AUDITS_BACK, *cursor, limit, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    uint32_t seen = 0;
    struct store_audit audit = {.row = 0};
    while (!(err = db_step(reader->db, statement, error))) {
        seen++;
        audit = (struct store_audit){
            .row = (uint64_t)db_int(statement, 0),
            .time_ms = db_int(statement, 1),
            .what = db_slice(statement, 2),
            .id = db_slice(statement, 3),
            .text = db_slice(statement, 4),
        };
        visit(arg, &audit);
    }
    return end_walk(reader, err, seen, limit, audit.row, cursor);
}

/* ---- what waits, for the audit ---- */

enum err sqlite_waiting(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                        store_waiting_fn *visit, void *arg, struct error *error)
{
    struct sqlite_reader *reader = reader_of(base);
    enum err err = reader_begin(reader, error);
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(reader->db, SQL_WAITING_FROM, error);
    if (!statement)
        return reader_end(reader, ERR_UNAVAILABLE);
    db_bind_int(statement, 1, (int64_t)*cursor);
    db_bind_int(statement, 2, limit);
    uint32_t seen = 0;
    uint64_t row = 0;
    while (!(err = db_step(reader->db, statement, error))) {
        struct store_waiting waiting = {
            .id = db_slice(statement, 2),
            .delta = text_of(statement, 3),
            .raw = db_slice(statement, 4),
            .agrees = db_int(statement, 5) != 0,
        };
        stores_copy_event_id(db_slice(statement, 1), waiting.event_id);
        row = (uint64_t)db_int(statement, 0);
        seen++;
        visit(arg, &waiting);
    }
    return end_walk(reader, err, seen, limit, row, cursor);
}
