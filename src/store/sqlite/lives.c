/* Units that could not be applied, in count_events: those that wait to be tried again, and the dead
 * letters. Every change of state goes through core/lifecycle.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "store/sqlite/own.h"

/* A life as a row of count_events has it; slices are copies in store->text. */
struct life {
    int64_t row;
    struct slice id;
    enum lifecycle_state state;
    uint32_t retry_count;
    uint32_t events;
    int64_t created_ms;
    bool adds_only;
};

static enum err load_count(struct sqlite_store *store, enum statement which, uint64_t *ret_count,
                           struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, which, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err = db_step(&store->db, statement, error);
    if (err)
        return err;
    *ret_count = (uint64_t)db_int(statement, 0);
    sqlite3_reset(statement);
    return ERR_OK;
}

enum err lives_load(struct sqlite_store *store, struct error *error)
{
    memset(store->waiting, 0, sizeof(store->waiting));
    sqlite3_stmt *statement = db_take(&store->db, SQL_WAITING_COUNTS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        int64_t state = db_int(statement, 0);
        if (state >= 0 && state < (int64_t)LIFECYCLE_STATES)
            store->waiting[state] = (uint64_t)db_int(statement, 1);
    }
    if (err != ERR_NOT_FOUND)
        return err;
    return load_count(store, SQL_LETTER_COUNT, &store->letters, error);
}

/* An INTEGER while it is one that fits, else text. */
void delta_bind(sqlite3_stmt *statement, int index, struct slice delta)
{
    int64_t number;
    if (decimal_parse(delta, &number))
        db_bind_int(statement, index, number);
    else
        db_bind_text(statement, index, delta);
}

/* What is to be done of a row is in `waiting` as well, with the raw events. */
static enum err waiting_add(struct sqlite_store *store, const struct store_unit *unit, int64_t row,
                            enum lifecycle_state state, int64_t next_ms, struct slice raw,
                            struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_WAITING_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, row);
    db_bind_blob(statement, 2, stores_event_slice(unit->event_id));
    db_bind_text(statement, 3, unit->id);
    db_bind_int(statement, 4, state);
    db_bind_int(statement, 5, next_ms);
    db_bind_int(statement, 6, stores_adds_only(unit));
    db_bind_blob(statement, 7, raw);
    store->waiting[state]++;
    return db_run(&store->db, statement, error);
}

static enum err waiting_set(struct sqlite_store *store, int64_t row, enum lifecycle_state state,
                            int64_t next_ms, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_WAITING_SET, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, row);
    db_bind_int(statement, 2, state);
    db_bind_int(statement, 3, next_ms);
    return db_run(&store->db, statement, error);
}

static enum err waiting_set_raw(struct sqlite_store *store, int64_t row, struct slice raw,
                                struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_RAW_SET, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, row);
    db_bind_blob(statement, 2, raw);
    return db_run(&store->db, statement, error);
}

static enum err waiting_remove(struct sqlite_store *store, int64_t row, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_WAITING_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, row);
    return db_run(&store->db, statement, error);
}

/* A row for a unit; its delta stands in store->delta. */
enum err lives_add(struct sqlite_store *store, const struct store_unit *unit,
                   enum lifecycle_state state, int64_t now_ms, struct slice raw,
                   struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_LIFE_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    bool done = state == LIFECYCLE_SUCCESS;
    uint32_t retry_count = state == LIFECYCLE_RETRYING ? 1 : 0;
    int64_t next_ms = retry_count > 0 ? now_ms + lifecycle_delay_ms(retry_count) : 0;
    db_bind_blob(statement, 1, stores_event_slice(unit->event_id));
    db_bind_text(statement, 2, unit->id);
    delta_bind(statement, 3, buffer_slice(&store->delta));
    db_bind_int(statement, 4, state);
    db_bind_int(statement, 5, retry_count);
    db_bind_int(statement, 6, unit->events);
    db_bind_int(statement, 7, unit->first_ms);
    if (done) {
        db_bind_int(statement, 8, now_ms);
        db_bind_null(statement, 10);
    } else {
        db_bind_null(statement, 8);
        db_bind_text(statement, 10, slice_of(unit->reason));
    }
    if (next_ms != 0)
        db_bind_int(statement, 9, next_ms);
    else
        db_bind_null(statement, 9);
    store->lives_last++;
    if (store->lives_first == 0)
        store->lives_first = store->lives_last;
    enum err err = db_run(&store->db, statement, error);
    if (err || done)
        return err;
    return waiting_add(store, unit, sqlite3_last_insert_rowid(store->db.handle), state, next_ms,
                       raw, error);
}

/* ---- who waits for whom ---- */

enum err lives_blocked(struct sqlite_store *store, const struct store_unit *unit,
                       uint64_t before_row, bool *ret_blocked, struct error *error)
{
    *ret_blocked = false;
    sqlite3_stmt *statement = db_take(&store->db, SQL_WAITING_OF, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_text(statement, 1, unit->id);
    struct lifecycle_queue queue = {0};
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        if ((uint64_t)db_int(statement, 0) >= before_row)
            continue;
        lifecycle_queue_add(&queue, (enum lifecycle_state)db_int(statement, 1),
                            db_int(statement, 2) != 0);
    }
    *ret_blocked = lifecycle_queue_blocks(&queue, stores_adds_only(unit));
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* Looks through all that wait for the one that has been due for longest. */
static enum err find_due(struct sqlite_store *store, int64_t now_ms, int64_t *ret_row,
                         struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_WAITING, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    *ret_row = 0;
    int64_t due_ms = INT64_MAX;
    struct lifecycle_queue queue = {0};
    struct buffer *id = &store->text;
    id->size = 0;
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        struct slice next = db_slice(statement, 0);
        if (!slice_equal(next, buffer_slice(id))) {
            id->size = 0;
            (void)buffer_append_slice(id, next);
            queue = (struct lifecycle_queue){0};
        }
        enum lifecycle_state state = (enum lifecycle_state)db_int(statement, 2);
        int64_t next_ms = db_int(statement, 3);
        bool adds_only = db_int(statement, 4) != 0;
        if (state != LIFECYCLE_FAILED && !lifecycle_queue_blocks(&queue, adds_only) &&
            lifecycle_is_due(next_ms, now_ms) && next_ms < due_ms) {
            due_ms = next_ms;
            *ret_row = db_int(statement, 1);
        }
        lifecycle_queue_add(&queue, state, adds_only);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err sqlite_due(struct store *base, int64_t now_ms, store_letter_fn *visit, void *arg,
                    struct error *error)
{
    struct sqlite_store *store = store_of(base);
    enum err err = store_ready(store, error);
    if (err)
        return err;
    if (store->waiting[LIFECYCLE_PENDING] + store->waiting[LIFECYCLE_RETRYING] == 0)
        return ERR_NOT_FOUND;
    int64_t row;
    err = find_due(store, now_ms, &row, error);
    if (err)
        return store_abandon(store, err);
    if (row == 0)
        return ERR_NOT_FOUND;
    sqlite3_stmt *statement = db_take(&store->db, SQL_LIFE_BY_ROW, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, row);
    err = db_step(&store->db, statement, error);
    if (err)
        return store_abandon(store, err);
    struct store_letter letter = {
        .row = (uint64_t)row,
        .id = db_slice(statement, 2),
        .delta = (struct slice){(const char *)sqlite3_column_text(statement, 3),
                                (size_t)sqlite3_column_bytes(statement, 3)},
        .reason = db_slice(statement, 4),
        .raw = db_slice(statement, 5),
        .retry_count = (uint32_t)db_int(statement, 6),
        .created_ms = db_int(statement, 7),
    };
    struct slice event_id = db_slice(statement, 1);
    if (event_id.size == STORE_EVENT_ID_BYTES)
        memcpy(letter.event_id, event_id.data, event_id.size);
    visit(arg, &letter);
    sqlite3_reset(statement);
    return ERR_OK;
}

/* ---- moving on ---- */

static enum err find_life(struct sqlite_store *store, const unsigned char *event_id,
                          struct life *ret_life, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_LIFE_BY_EVENT, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_blob(statement, 1, stores_event_slice(event_id));
    enum err err = db_step(&store->db, statement, error);
    if (err)
        return err;
    *ret_life = (struct life){
        .row = db_int(statement, 0),
        .state = (enum lifecycle_state)db_int(statement, 3),
        .retry_count = (uint32_t)db_int(statement, 4),
        .events = (uint32_t)db_int(statement, 5),
        .created_ms = db_int(statement, 6),
        .adds_only = db_int(statement, 7) != 0,
    };
    sqlite3_reset(statement);
    return ERR_OK;
}

/* Makes the move, keeps the figures, and gives the new state. */
static enum err move_life(struct sqlite_store *store, struct life *life, enum lifecycle_move move,
                          enum lifecycle_action *ret_action, struct error *error)
{
    enum lifecycle_state next;
    if (lifecycle_move(life->state, move, &next, ret_action))
        return error_set(error, ERR_INVALID, "a unit that is %s cannot do that",
                         lifecycle_name(life->state));
    store->waiting[life->state]--;
    if (next != LIFECYCLE_SUCCESS && next != LIFECYCLE_DISCARDED)
        store->waiting[next]++;
    life->state = next;
    return ERR_OK;
}

static enum err write_success(struct sqlite_store *store, struct life *life, int64_t now_ms,
                              struct error *error)
{
    enum lifecycle_action action;
    enum err err = move_life(store, life, LIFECYCLE_SET_SUCCESS, &action, error);
    if (err)
        return err;
    assert(action == LIFECYCLE_APPLY);
    err = waiting_remove(store, life->row, error);
    sqlite3_stmt *statement = err ? NULL : db_take(&store->db, SQL_LIFE_DONE, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life->row);
    db_bind_int(statement, 2, life->state);
    db_bind_int(statement, 3, now_ms);
    delta_bind(statement, 4, buffer_slice(&store->delta));
    return db_run(&store->db, statement, error);
}

static enum err write_wait(struct sqlite_store *store, struct life *life, const char *reason,
                           int64_t now_ms, struct error *error)
{
    life->retry_count++;
    int64_t next_ms = now_ms + lifecycle_delay_ms(life->retry_count);
    enum err err = waiting_set(store, life->row, life->state, next_ms, error);
    sqlite3_stmt *statement = err ? NULL : db_take(&store->db, SQL_LIFE_WAIT, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life->row);
    db_bind_int(statement, 2, life->state);
    db_bind_int(statement, 3, life->retry_count);
    db_bind_int(statement, 4, next_ms);
    db_bind_text(statement, 5, slice_of(reason));
    return db_run(&store->db, statement, error);
}

/* The letter is the row of its life, and its raw events move there. */
static enum err add_letter(struct sqlite_store *store, const struct life *life, const char *reason,
                           int64_t now_ms, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_LETTER_FROM_LIFE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life->row);
    db_bind_text(statement, 2, slice_of(reason));
    db_bind_int(statement, 3, now_ms);
    enum err err = db_run(&store->db, statement, error);
    if (!err)
        store->letters++;
    return err;
}

static enum err write_failure(struct sqlite_store *store, struct life *life,
                              const struct store_unit *unit, int64_t now_ms, struct error *error)
{
    enum err err = add_letter(store, life, unit->reason, now_ms, error);
    if (!err)
        err = waiting_set(store, life->row, life->state, 0, error);
    sqlite3_stmt *statement = err ? NULL : db_take(&store->db, SQL_LIFE_FAIL, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life->row);
    db_bind_int(statement, 2, life->state);
    db_bind_int(statement, 3, now_ms);
    db_bind_text(statement, 4, slice_of(unit->reason));
    err = db_run(&store->db, statement, error);
    return err ? err : waiting_set_raw(store, life->row, (struct slice){NULL, 0}, error);
}

static enum err write_refusal(struct sqlite_store *store, struct life *life,
                              struct store_unit *unit, int64_t now_ms, struct error *error)
{
    enum lifecycle_action action;
    enum err err = move_life(store, life, lifecycle_refused(life->retry_count), &action, error);
    if (err)
        return err;
    if (action == LIFECYCLE_WAIT)
        return write_wait(store, life, unit->reason, now_ms, error);
    assert(action == LIFECYCLE_TO_LETTERS);
    unit->code = ERR_DENIED;
    return write_failure(store, life, unit, now_ms, error);
}

/* Applies the unit in a transaction of its own, or rolls it back and says why. */
static enum err try_again(struct sqlite_store *store, struct store_unit *unit, struct life *life,
                          int64_t now_ms, struct error *error)
{
    struct state_mark before = store->mark;
    struct store_batch batch = {.units = unit, .unit_count = 1};
    struct error why = {.code = ERR_OK};
    enum err err = users_add(store, &batch, &why);
    if (!err)
        err = unit_apply(store, unit, &why);
    if (!err)
        err = write_success(store, life, now_ms, &why);
    if (!err)
        err = store_write_mark(store, &before, now_ms, &why);
    if (!err)
        return store_commit(store, error);
    store_abandon(store, ERR_OK);
    if (err != ERR_REFUSED && err != ERR_CORRUPT) {
        if (error)
            *error = why;
        return err;
    }
    unit->code = ERR_REFUSED;
    snprintf(unit->reason, sizeof(unit->reason), "%.*s", (int)STORE_REASON_BYTES - 1, why.text);
    return ERR_OK;
}

static enum err begin_retry(struct sqlite_store *store, const struct store_unit *unit,
                            struct life *ret_life, struct error *error)
{
    enum err err = store_begin(store, error);
    if (err)
        return err;
    bool blocked = false;
    err = find_life(store, unit->event_id, ret_life, error);
    if (!err && ret_life->state == LIFECYCLE_FAILED)
        err = ERR_NOT_FOUND;
    if (!err)
        err = lives_blocked(store, unit, (uint64_t)ret_life->row, &blocked, error);
    if (!err && blocked)
        err = ERR_BUSY;
    return err ? store_abandon(store, err) : ERR_OK;
}

enum err sqlite_retry(struct store *base, struct store_unit *unit, int64_t now_ms,
                      struct error *error)
{
    struct sqlite_store *store = store_of(base);
    struct life life;
    unit->code = ERR_OK;
    enum err err = begin_retry(store, unit, &life, error);
    if (!err)
        err = try_again(store, unit, &life, now_ms, error);
    if (err || unit->code == ERR_OK)
        return err;

    err = begin_retry(store, unit, &life, error);
    if (err)
        return err;
    err = write_refusal(store, &life, unit, now_ms, error);
    return err ? store_abandon(store, err) : store_commit(store, error);
}

/* ---- dead letters ---- */

/* A dead letter while it is dealt with; id, event_id and raw are copies. */
struct letter {
    int64_t row;
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct slice id; /* size 0: poison */
    struct slice raw;
};

static enum err next_letter(struct sqlite_store *store, const unsigned char *event_id,
                            int64_t after_row, struct letter *ret_letter, struct error *error)
{
    sqlite3_stmt *statement =
        db_take(&store->db, event_id ? SQL_LETTER_FIND : SQL_LETTER_NEXT, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    if (event_id)
        db_bind_blob(statement, 1, stores_event_slice(event_id));
    else
        db_bind_int(statement, 1, after_row);
    enum err err = db_step(&store->db, statement, error);
    if (err)
        return err;
    struct slice id = db_slice(statement, 2);
    struct slice raw = db_slice(statement, 3);
    ret_letter->row = db_int(statement, 0);
    stores_copy_event_id(db_slice(statement, 1), ret_letter->event_id);
    store->raw.size = 0;
    (void)buffer_append_slice(&store->raw, raw);
    (void)buffer_append_slice(&store->raw, id);
    ret_letter->raw = (struct slice){store->raw.data, raw.size};
    ret_letter->id = (struct slice){store->raw.data + raw.size, id.size};
    sqlite3_reset(statement);
    return ERR_OK;
}

static enum err remove_letter(struct sqlite_store *store, const struct letter *letter,
                              struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_LETTER_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, letter->row);
    store->letters--;
    return db_run(&store->db, statement, error);
}

static enum err note_letter(struct sqlite_store *store, const struct letter *letter,
                            struct slice what, int64_t now_ms, struct error *error)
{
    char text[STORES_LETTER_TEXT_BYTES];
    return audit_add(store, now_ms, what, letter->id, stores_letter_text(letter->event_id, text),
                     error);
}

static enum err redrive_letter(struct sqlite_store *store, const struct letter *letter,
                               int64_t now_ms, struct error *error)
{
    struct life life;
    enum err err = find_life(store, letter->event_id, &life, error);
    enum lifecycle_action action;
    if (!err)
        err = move_life(store, &life, LIFECYCLE_REDRIVE, &action, error);
    if (err)
        return err;
    assert(action == LIFECYCLE_RESTART);
    err = waiting_set(store, life.row, life.state, now_ms, error);
    sqlite3_stmt *statement = err ? NULL : db_take(&store->db, SQL_LIFE_REDRIVE, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life.row);
    db_bind_int(statement, 2, life.state);
    db_bind_int(statement, 3, 0);
    db_bind_int(statement, 4, now_ms);
    err = db_run(&store->db, statement, error);
    if (!err)
        err = waiting_set_raw(store, life.row, letter->raw, error);
    if (!err)
        err = remove_letter(store, letter, error);
    return err ? err : note_letter(store, letter, SLICE("redrive"), now_ms, error);
}

/* What is given up is remembered, so that a recount can tell. */
static enum err add_discarded(struct sqlite_store *store, const struct letter *letter,
                              struct slice delta, struct error *error)
{
    struct number zero = number_of(0);
    if (delta.size == 0 || delta.data[0] != '{') {
        struct number sum;
        if (number_parse(delta, &sum))
            return ERR_OK;
        enum err err = base_add(store, letter->id, &zero, &sum, error);
        number_done(&sum);
        return err;
    }
    struct kind_counts counts;
    if (counts_parse(delta, &store->kinds, &counts))
        return ERR_OK;
    enum err err = ERR_OK;
    for (uint64_t left = counts.known; left && !err; left &= left - 1) {
        unsigned kind = (unsigned)__builtin_ctzll(left);
        struct number sum = number_of(counts.counts[kind]);
        char id[STORES_COUNT_ID_BYTES];
        err = base_add(store, stores_count_id(letter->id, kind_names_at(&store->kinds, kind), id),
                       &zero, &sum, error);
    }
    return err;
}

static enum err discard_life(struct sqlite_store *store, const struct letter *letter,
                             int64_t now_ms, struct error *error)
{
    struct life life;
    enum err err = find_life(store, letter->event_id, &life, error);
    enum lifecycle_action action;
    if (!err)
        err = move_life(store, &life, LIFECYCLE_DISCARD, &action, error);
    if (err)
        return err;
    assert(action == LIFECYCLE_GIVE_UP);
    sqlite3_stmt *statement = db_take(&store->db, SQL_LIFE_BY_ROW, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life.row);
    err = db_step(&store->db, statement, error);
    if (err)
        return err;
    const char *text = (const char *)sqlite3_column_text(statement, 3);
    store->delta.size = 0;
    (void)buffer_append(&store->delta, text, (size_t)sqlite3_column_bytes(statement, 3));
    sqlite3_reset(statement);
    err = add_discarded(store, letter, buffer_slice(&store->delta), error);
    if (!err)
        err = waiting_remove(store, life.row, error);
    statement = err ? NULL : db_take(&store->db, SQL_LIFE_DISCARD, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    db_bind_int(statement, 1, life.row);
    db_bind_int(statement, 2, life.state);
    db_bind_int(statement, 3, now_ms);
    return db_run(&store->db, statement, error);
}

static enum err discard_letter(struct sqlite_store *store, const struct letter *letter,
                               int64_t now_ms, struct error *error)
{
    enum err err = letter->id.size > 0 ? discard_life(store, letter, now_ms, error) : ERR_OK;
    if (!err)
        err = remove_letter(store, letter, error);
    return err ? err : note_letter(store, letter, SLICE("discard"), now_ms, error);
}

static enum err deal_with(struct sqlite_store *store, const unsigned char *event_id, bool redrive,
                          int64_t now_ms, uint64_t *ret_count, struct error *error)
{
    int64_t row = 0;
    struct letter letter;
    enum err err;
    while (!(err = next_letter(store, event_id, row, &letter, error))) {
        row = letter.row;
        if (redrive && letter.id.size == 0) {
            if (event_id)
                return error_set(error, ERR_INVALID,
                                 "it cannot be read, and so it cannot be applied: discard it");
            continue;
        }
        err = redrive ? redrive_letter(store, &letter, now_ms, error)
                      : discard_letter(store, &letter, now_ms, error);
        if (err)
            return err;
        ++*ret_count;
        if (event_id)
            return ERR_OK;
    }
    return err == ERR_NOT_FOUND && !event_id ? ERR_OK : err;
}

static enum err deal_with_letters(struct sqlite_store *store, const unsigned char *event_id,
                                  bool redrive, int64_t now_ms, uint64_t *ret_count,
                                  struct error *error)
{
    *ret_count = 0;
    enum err err = store_begin(store, error);
    if (err)
        return err;
    err = deal_with(store, event_id, redrive, now_ms, ret_count, error);
    if (err)
        return store_abandon(store, err);
    return store_commit(store, error);
}

enum err sqlite_redrive(struct store *base, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error)
{
    return deal_with_letters(store_of(base), event_id, true, now_ms, ret_count, error);
}

enum err sqlite_discard(struct store *base, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error)
{
    return deal_with_letters(store_of(base), event_id, false, now_ms, ret_count, error);
}
