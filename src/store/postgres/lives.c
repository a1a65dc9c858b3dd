/* lives.c - units that could not be applied: those that wait to be tried again, and the dead
 * letters. Every change of state goes through core/lifecycle.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "store/postgres/own.h"

/* A life as `waiting` and `count_events` have it. */
struct life {
    int64_t row;
    enum lifecycle_state state;
    uint32_t retry_count;
    bool adds_only;
};

/* ---- who waits for whom ---- */

/* Must it wait for those of its id that came before `row`? */
static enum err is_blocked(struct postgres_store *store, struct slice id, bool adds_only,
                           int64_t row, bool *ret_blocked, struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "t");
    pg_array_text(&to[0], id);
    enum err err = pg_query_columns(pg, SQL_WAITING_OF, &store->scratch.columns, error);
    struct lifecycle_queue queue = {0};
    for (int i = 0; !err && i < pg_rows(pg); i++) {
        if (pg_int(pg, i, 1) < row)
            lifecycle_queue_add(&queue, (enum lifecycle_state)pg_int(pg, i, 2), pg_bool(pg, i, 3));
    }
    *ret_blocked = lifecycle_queue_blocks(&queue, adds_only);
    return err;
}

/* Looks through all that wait, in the result, for the one that has been due for longest; 0: none.
 */
static int64_t find_due(struct pg *pg, int64_t now_ms)
{
    int64_t found = 0;
    int64_t due_ms = INT64_MAX;
    struct lifecycle_queue queue = {0};
    for (int row = 0; row < pg_rows(pg); row++) {
        if (row == 0 || !slice_equal(pg_slice(pg, row, 0), pg_slice(pg, row - 1, 0)))
            queue = (struct lifecycle_queue){0};
        enum lifecycle_state state = (enum lifecycle_state)pg_int(pg, row, 2);
        int64_t next_ms = pg_time(pg, row, 3);
        bool adds_only = pg_bool(pg, row, 4);
        if (state != LIFECYCLE_FAILED && !lifecycle_queue_blocks(&queue, adds_only) &&
            lifecycle_is_due(next_ms, now_ms) && next_ms < due_ms) {
            due_ms = next_ms;
            found = pg_int(pg, row, 1);
        }
        lifecycle_queue_add(&queue, state, adds_only);
    }
    return found;
}

static enum err visit_life(struct postgres_store *store, int64_t row, store_letter_fn *visit,
                           void *arg, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_int(pg, row);
    enum err err = pg_query(pg, SQL_LIFE_BY_ROW, error);
    if (err)
        return err;
    if (pg_rows(pg) == 0)
        return ERR_NOT_FOUND; /* another was quicker */
    struct store_letter letter = {
        .row = (uint64_t)row,
        .id = pg_text(pg, 0, 2),
        .delta = pg_slice(pg, 0, 3),
        .reason = pg_text(pg, 0, 4),
        .raw = pg_slice(pg, 0, 5),
        .retry_count = (uint32_t)pg_int(pg, 0, 6),
        .created_ms = pg_time(pg, 0, 7),
    };
    stores_copy_event_id(pg_slice(pg, 0, 1), letter.event_id);
    visit(arg, &letter);
    return ERR_OK;
}

enum err postgres_due(struct store *base, int64_t now_ms, store_letter_fn *visit, void *arg,
                      struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    enum err err = postgres_ready(store, error);
    if (err)
        return err;
    pg_args(&store->pg);
    err = pg_query(&store->pg, SQL_WAITING, error);
    if (err)
        return postgres_abandon(store, err);
    int64_t row = find_due(&store->pg, now_ms);
    if (row == 0)
        return ERR_NOT_FOUND;
    err = visit_life(store, row, visit, arg, error);
    return err && err != ERR_NOT_FOUND ? postgres_abandon(store, err) : err;
}

/* ---- moving on ---- */

/* Its row in `waiting` is ours from here on. One that another aggregator has taken is not
 * there. */
static enum err find_life(struct postgres_store *store, const unsigned char *event_id,
                          struct life *ret_life, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_bytes(pg, stores_event_slice(event_id));
    enum err err = pg_query(pg, SQL_LIFE_BY_EVENT, error);
    if (err)
        return err;
    if (pg_rows(pg) == 0)
        return ERR_NOT_FOUND;
    *ret_life = (struct life){
        .row = pg_int(pg, 0, 0),
        .state = (enum lifecycle_state)pg_int(pg, 0, 1),
        .retry_count = (uint32_t)pg_int(pg, 0, 2),
        .adds_only = pg_bool(pg, 0, 3),
    };
    store->delta.size = 0;
    (void)buffer_append_slice(&store->delta, pg_slice(pg, 0, 4));
    return ERR_OK;
}

static enum err move_life(struct life *life, enum lifecycle_move move,
                          enum lifecycle_action *ret_action, struct error *error)
{
    enum lifecycle_state next;
    if (lifecycle_move(life->state, move, &next, ret_action))
        return error_set(error, ERR_INVALID, "a unit that is %s cannot do that",
                         lifecycle_name(life->state));
    life->state = next;
    return ERR_OK;
}

static enum err remove_waiting(struct postgres_store *store, int64_t row, struct error *error)
{
    pg_args(&store->pg);
    pg_arg_int(&store->pg, row);
    return pg_query(&store->pg, SQL_WAITING_REMOVE, error);
}

/* next_ms 0: it is not due by itself. */
static enum err set_waiting(struct postgres_store *store, const struct life *life, int64_t next_ms,
                            struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_int(pg, life->row);
    pg_arg_int(pg, life->state);
    if (next_ms != 0)
        pg_arg_time(pg, next_ms);
    else
        pg_arg_null(pg);
    return pg_query(pg, SQL_WAITING_SET, error);
}

static enum err set_raw(struct postgres_store *store, int64_t row, struct slice raw,
                        struct error *error)
{
    pg_args(&store->pg);
    pg_arg_int(&store->pg, row);
    pg_arg_bytes(&store->pg, raw);
    return pg_query(&store->pg, SQL_WAITING_RAW_SET, error);
}

static enum err write_success(struct postgres_store *store, struct life *life, int64_t now_ms,
                              struct error *error)
{
    struct pg *pg = &store->pg;
    enum lifecycle_action action;
    enum err err = move_life(life, LIFECYCLE_SET_SUCCESS, &action, error);
    if (err)
        return err;
    assert(action == LIFECYCLE_APPLY);
    err = remove_waiting(store, life->row, error);
    if (err)
        return err;
    postgres_delta_done(store, &store->scratch.works[0]);
    pg_args(pg);
    pg_arg_int(pg, life->row);
    pg_arg_int(pg, life->state);
    pg_arg_time(pg, now_ms);
    pg_arg_text(pg, buffer_slice(&store->delta));
    return pg_query(pg, SQL_LIFE_DONE, error);
}

static enum err write_wait(struct postgres_store *store, struct life *life, const char *reason,
                           int64_t now_ms, struct error *error)
{
    struct pg *pg = &store->pg;
    life->retry_count++;
    int64_t next_ms = now_ms + lifecycle_delay_ms(life->retry_count);
    enum err err = set_waiting(store, life, next_ms, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, life->row);
    pg_arg_int(pg, life->state);
    pg_arg_int(pg, life->retry_count);
    pg_arg_time(pg, next_ms);
    pg_arg_text(pg, slice_of(reason));
    return pg_query(pg, SQL_LIFE_WAIT, error);
}

/* The letter is the row of its life, and its raw events move there. */
static enum err write_failure(struct postgres_store *store, struct life *life, const char *reason,
                              int64_t now_ms, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_int(pg, life->row);
    pg_arg_text(pg, slice_of(reason));
    pg_arg_time(pg, now_ms);
    enum err err = pg_query(pg, SQL_LETTER_FROM_LIFE, error);
    if (!err)
        err = set_waiting(store, life, 0, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, life->row);
    pg_arg_int(pg, life->state);
    pg_arg_time(pg, now_ms);
    pg_arg_text(pg, slice_of(reason));
    err = pg_query(pg, SQL_LIFE_FAIL, error);
    return err ? err : set_raw(store, life->row, (struct slice){NULL, 0}, error);
}

static enum err write_refusal(struct postgres_store *store, struct life *life,
                              struct store_unit *unit, int64_t now_ms, struct error *error)
{
    enum lifecycle_action action;
    enum err err = move_life(life, lifecycle_refused(life->retry_count), &action, error);
    if (err)
        return err;
    if (action == LIFECYCLE_WAIT)
        return write_wait(store, life, unit->reason, now_ms, error);
    assert(action == LIFECYCLE_TO_LETTERS);
    unit->code = ERR_DENIED;
    return write_failure(store, life, unit->reason, now_ms, error);
}

/* ---- trying again ---- */

struct retry {
    struct store_unit *unit;
    int64_t now_ms;
};

/* Applies the unit within a savepoint, or leaves why not in its code. */
static enum err apply_again(struct postgres_store *store, struct store_unit *unit,
                            struct error *error)
{
    struct totals before = store->totals;
    struct error why = {.text = ""};
    postgres_users_forget_all(store); /* it was not asked whether somebody was erased */
    enum err err = postgres_works_prepare(store, unit, 1, error);
    if (!err)
        err = pg_execute(&store->pg, "SAVEPOINT units", error);
    if (err)
        return err;
    err = postgres_units_apply(store, store->scratch.works, 1, &why);
    if (!err)
        return pg_execute(&store->pg, "RELEASE SAVEPOINT units", error);
    if (err != ERR_REFUSED) {
        if (error)
            *error = why;
        return err;
    }
    store->totals = before;
    unit->code = ERR_REFUSED;
    snprintf(unit->reason, sizeof(unit->reason), "%.*s", (int)STORE_REASON_BYTES - 1, why.text);
    return pg_execute(&store->pg, "ROLLBACK TO SAVEPOINT units; RELEASE SAVEPOINT units", error);
}

static enum err try_again(struct postgres_store *store, void *arg, struct error *error)
{
    struct retry *retry = arg;
    struct store_unit *unit = retry->unit;
    struct life life;
    bool blocked = false;
    unit->code = ERR_OK;
    store->is_shared = true; /* it may be: whoever writes a lane does not wait for us */
    enum err err = find_life(store, unit->event_id, &life, error);
    if (!err && life.state == LIFECYCLE_FAILED)
        err = ERR_NOT_FOUND;
    if (!err)
        err = is_blocked(store, unit->id, stores_adds_only(unit), life.row, &blocked, error);
    if (!err && blocked)
        err = ERR_BUSY;
    if (!err)
        err = postgres_read_homes(store, error);
    if (!err)
        err = apply_again(store, unit, error);
    if (err)
        return err;
    err = unit->code ? write_refusal(store, &life, unit, retry->now_ms, error)
                     : write_success(store, &life, retry->now_ms, error);
    return err ? err : postgres_write_totals(store, error);
}

/* What is refused besides the unit itself is an outage. */
static enum err as_outage(enum err err, struct error *error)
{
    if (err != ERR_REFUSED)
        return err;
    if (error)
        error->code = ERR_UNAVAILABLE;
    return ERR_UNAVAILABLE;
}

enum err postgres_retry(struct store *base, struct store_unit *unit, int64_t now_ms,
                        struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    struct retry retry = {unit, now_ms};
    enum err err = as_outage(postgres_transact(store, try_again, &retry, error), error);
    if (!err)
        postgres_stats_refresh(store, true);
    return err;
}

/* ---- dead letters ---- */

/* A dead letter while it is dealt with; id and raw are copies in store->raw. */
struct letter {
    int64_t row;
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    struct slice id; /* size 0: poison */
    struct slice raw;
};

static enum err next_letter(struct postgres_store *store, const unsigned char *event_id,
                            int64_t after_row, struct letter *ret_letter, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    if (event_id)
        pg_arg_bytes(pg, stores_event_slice(event_id));
    else
        pg_arg_int(pg, after_row);
    enum err err = pg_query(pg, event_id ? SQL_LETTER_FIND : SQL_LETTER_NEXT, error);
    if (err)
        return err;
    if (pg_rows(pg) == 0)
        return ERR_NOT_FOUND;
    struct slice id = pg_text(pg, 0, 2);
    struct slice raw = pg_slice(pg, 0, 3);
    ret_letter->row = pg_int(pg, 0, 0);
    stores_copy_event_id(pg_slice(pg, 0, 1), ret_letter->event_id);
    store->raw.size = 0;
    (void)buffer_append_slice(&store->raw, raw);
    (void)buffer_append_slice(&store->raw, id);
    ret_letter->raw = (struct slice){store->raw.data, raw.size};
    ret_letter->id = (struct slice){store->raw.data + raw.size, id.size};
    return ERR_OK;
}

static enum err remove_letter(struct postgres_store *store, const struct letter *letter,
                              struct error *error)
{
    pg_args(&store->pg);
    pg_arg_int(&store->pg, letter->row);
    return pg_query(&store->pg, SQL_LETTER_REMOVE, error);
}

static enum err note_letter(struct postgres_store *store, const struct letter *letter,
                            struct slice what, int64_t now_ms, struct error *error)
{
    char text[STORES_LETTER_TEXT_BYTES];
    return postgres_audit_add(store, now_ms, what, letter->id,
                              stores_letter_text(letter->event_id, text), error);
}

static enum err redrive_letter(struct postgres_store *store, const struct letter *letter,
                               int64_t now_ms, struct error *error)
{
    struct pg *pg = &store->pg;
    struct life life;
    enum lifecycle_action action;
    enum err err = find_life(store, letter->event_id, &life, error);
    if (!err)
        err = move_life(&life, LIFECYCLE_REDRIVE, &action, error);
    if (err)
        return err;
    assert(action == LIFECYCLE_RESTART);
    err = set_waiting(store, &life, now_ms, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, life.row);
    pg_arg_int(pg, life.state);
    pg_arg_time(pg, now_ms);
    err = pg_query(pg, SQL_LIFE_REDRIVE, error);
    if (!err)
        err = set_raw(store, life.row, letter->raw, error);
    if (!err)
        err = remove_letter(store, letter, error);
    return err ? err : note_letter(store, letter, SLICE("redrive"), now_ms, error);
}

/* {"like":3,"dislike":-1}: the next name and number; false behind the last. */
static bool next_count(struct slice *text, struct slice *ret_name, int64_t *ret_count)
{
    const char *end = text->data + text->size;
    const char *name = memchr(text->data, '"', text->size);
    if (!name)
        return false;
    name++;
    const char *quote = memchr(name, '"', (size_t)(end - name));
    if (!quote || quote + 2 >= end)
        return false;
    const char *digits = quote + 2;
    const char *stop = digits;
    while (stop < end && *stop != ',' && *stop != '}')
        stop++;
    *ret_name = (struct slice){name, (size_t)(quote - name)};
    *text = (struct slice){stop, (size_t)(end - stop)};
    return decimal_parse((struct slice){digits, (size_t)(stop - digits)}, ret_count);
}

/* What is given up is remembered, so that a recount can tell. Its delta is in store->delta. */
static enum err add_discarded(struct postgres_store *store, const struct letter *letter,
                              struct error *error)
{
    struct slice delta = buffer_slice(&store->delta);
    struct number zero = number_of(0);
    if (delta.size == 0 || delta.data[0] != '{') {
        struct number sum;
        if (number_parse(delta, &sum))
            return ERR_OK;
        enum err err = postgres_base_add(store, letter->id, &zero, &sum, error);
        number_done(&sum);
        return err;
    }
    enum err err = ERR_OK;
    struct slice name;
    int64_t count;
    while (!err && next_count(&delta, &name, &count)) {
        struct number sum = number_of(count);
        char id[STORES_COUNT_ID_BYTES];
        if (name.size <= LIMIT_KIND_BYTES)
            err =
                postgres_base_add(store, stores_count_id(letter->id, name, id), &zero, &sum, error);
    }
    return err;
}

static enum err discard_life(struct postgres_store *store, const struct letter *letter,
                             int64_t now_ms, struct error *error)
{
    struct pg *pg = &store->pg;
    struct life life;
    enum lifecycle_action action;
    enum err err = find_life(store, letter->event_id, &life, error);
    if (!err)
        err = move_life(&life, LIFECYCLE_DISCARD, &action, error);
    if (err)
        return err;
    assert(action == LIFECYCLE_GIVE_UP);
    err = add_discarded(store, letter, error);
    if (!err)
        err = remove_waiting(store, life.row, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, life.row);
    pg_arg_int(pg, life.state);
    pg_arg_time(pg, now_ms);
    return pg_query(pg, SQL_LIFE_DISCARD, error);
}

static enum err discard_letter(struct postgres_store *store, const struct letter *letter,
                               int64_t now_ms, struct error *error)
{
    enum err err = letter->id.size > 0 ? discard_life(store, letter, now_ms, error) : ERR_OK;
    if (!err)
        err = remove_letter(store, letter, error);
    return err ? err : note_letter(store, letter, SLICE("discard"), now_ms, error);
}

struct dealing {
    const unsigned char *event_id; /* NULL: all */
    bool redrive;
    int64_t now_ms;
    uint64_t count;
};

static enum err deal_with(struct postgres_store *store, void *arg, struct error *error)
{
    struct dealing *dealing = arg;
    struct letter letter;
    int64_t row = 0;
    enum err err;
    dealing->count = 0;
    while (!(err = next_letter(store, dealing->event_id, row, &letter, error))) {
        row = letter.row;
        if (dealing->redrive && letter.id.size == 0) {
            if (dealing->event_id)
                return error_set(error, ERR_INVALID,
                                 "it cannot be read, and so it cannot be applied: discard it");
            continue;
        }
        err = dealing->redrive ? redrive_letter(store, &letter, dealing->now_ms, error)
                               : discard_letter(store, &letter, dealing->now_ms, error);
        if (err)
            return err;
        dealing->count++;
        if (dealing->event_id)
            return ERR_OK;
    }
    return err == ERR_NOT_FOUND && !dealing->event_id ? ERR_OK : err;
}

static enum err deal_with_letters(struct postgres_store *store, struct dealing *dealing,
                                  uint64_t *ret_count, struct error *error)
{
    enum err err = as_outage(postgres_transact(store, deal_with, dealing, error), error);
    *ret_count = err ? 0 : dealing->count;
    if (!err)
        postgres_stats_refresh(store, true);
    return err;
}

enum err postgres_redrive(struct store *base, const unsigned char *event_id, int64_t now_ms,
                          uint64_t *ret_count, struct error *error)
{
    struct dealing dealing = {.event_id = event_id, .redrive = true, .now_ms = now_ms};
    return deal_with_letters(postgres_of(base), &dealing, ret_count, error);
}

enum err postgres_discard(struct store *base, const unsigned char *event_id, int64_t now_ms,
                          uint64_t *ret_count, struct error *error)
{
    struct dealing dealing = {.event_id = event_id, .now_ms = now_ms};
    return deal_with_letters(postgres_of(base), &dealing, ret_count, error);
}
