/* query.c - lists for people: lives of units, dead letters, history, audit trail. Newest first. */

#include "base/decimal.h"
#include "store/postgres/own.h"
#include "store/postgres/reader.h"

/* A walk backwards: the first two arguments are cursor and limit. */
static void walk_back(struct postgres_reader *reader, uint64_t cursor, uint32_t limit)
{
    pg_args(&reader->pg);
    pg_arg_int(&reader->pg, cursor == 0 ? INT64_MAX : (int64_t)cursor);
    pg_arg_int(&reader->pg, limit);
}

struct list {
    uint64_t *cursor;
    uint32_t limit;
    void *arg;
    const struct store_life_filter *filter;
    const unsigned char *event_id;
    store_life_fn *visit_life;
    store_letter_fn *visit_letter;
    store_audit_fn *visit_audit;
};

/* The rows are in their first column. */
static void end_list(struct postgres_reader *reader, struct list *list)
{
    int rows = pg_rows(&reader->pg);
    *list->cursor = (uint32_t)rows < list->limit ? 0 : (uint64_t)pg_int(&reader->pg, rows - 1, 0);
}

/* ---- lives ---- */

static void read_life(struct pg *pg, int row, struct store_life *life)
{
    *life = (struct store_life){
        .row = (uint64_t)pg_int(pg, row, 0),
        .id = pg_text(pg, row, 2),
        .delta = pg_slice(pg, row, 3),
        .state = (enum lifecycle_state)pg_int(pg, row, 4),
        .retry_count = (uint32_t)pg_int(pg, row, 5),
        .events = (uint32_t)pg_int(pg, row, 6),
        .created_ms = pg_time(pg, row, 7),
        .processed_ms = pg_time(pg, row, 8),
        .next_ms = pg_time(pg, row, 9),
        .reason = pg_text(pg, row, 10),
    };
    stores_copy_event_id(pg_slice(pg, row, 1), life->event_id);
    if ((unsigned)life->state >= LIFECYCLE_STATES)
        life->state = LIFECYCLE_FAILED;
}

static bool is_waiting(enum lifecycle_state state)
{
    return state == LIFECYCLE_PENDING || state == LIFECYCLE_RETRYING || state == LIFECYCLE_FAILED;
}

/* A rare match does not take for ever: so many rows are looked at, then the caller is asked to
 * come again. Those that wait have a table of their own. */
#define LIVES_ROWS_A_STEP 5000u

static enum err list_lives(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct list *list = arg;
    bool waiting = list->filter->has_state && is_waiting(list->filter->state);
    bool is_any = !list->filter->has_state && list->filter->id.size == 0 &&
                  list->filter->since_ms == 0 && list->filter->until_ms == 0;
    uint32_t step = is_any ? list->limit : LIVES_ROWS_A_STEP;
    walk_back(reader, *list->cursor, step);
    enum err err =
        postgres_reader_query(reader, waiting ? SQL_READ_LIVES_WAITING : SQL_READ_LIVES, error);
    if (err)
        return err;
    int rows = pg_rows(&reader->pg);
    uint32_t found = 0;
    struct store_life life = {.row = 0};
    for (int row = 0; row < rows && found < list->limit; row++) {
        read_life(&reader->pg, row, &life);
        if (!stores_life_matches(&life, list->filter))
            continue;
        found++;
        list->visit_life(list->arg, &life);
    }
    *list->cursor = found < list->limit && (uint32_t)rows < step ? 0 : life.row;
    return ERR_OK;
}

enum err postgres_lives(struct store_reader *base, const struct store_life_filter *filter,
                        uint64_t *cursor, uint32_t limit, store_life_fn *visit, void *arg,
                        struct error *error)
{
    struct list list = {
        .cursor = cursor, .limit = limit, .arg = arg, .filter = filter, .visit_life = visit};
    return postgres_read_once(postgres_reader_of(base), list_lives, &list, error);
}

/* ---- dead letters ---- */

static void visit_letter(struct pg *pg, int row, const struct list *list)
{
    struct store_letter letter = {
        .row = (uint64_t)pg_int(pg, row, 0),
        .id = pg_text(pg, row, 2),
        .delta = pg_slice(pg, row, 3),
        .reason = pg_text(pg, row, 4),
        .raw = pg_slice(pg, row, 5),
        .position = {(uint64_t)pg_int(pg, row, 6), (uint64_t)pg_int(pg, row, 7)},
        .retry_count = (uint32_t)pg_int(pg, row, 8),
        .created_ms = pg_time(pg, row, 9),
        .failed_ms = pg_time(pg, row, 10),
    };
    stores_copy_event_id(pg_slice(pg, row, 1), letter.event_id);
    list->visit_letter(list->arg, &letter);
}

static enum err list_letters(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct list *list = arg;
    walk_back(reader, *list->cursor, list->limit);
    enum err err = postgres_reader_query(reader, SQL_READ_LETTERS, error);
    if (err)
        return err;
    for (int row = 0; row < pg_rows(&reader->pg); row++)
        visit_letter(&reader->pg, row, list);
    end_list(reader, list);
    return ERR_OK;
}

enum err postgres_letters(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                          store_letter_fn *visit, void *arg, struct error *error)
{
    struct list list = {.cursor = cursor, .limit = limit, .arg = arg, .visit_letter = visit};
    return postgres_read_once(postgres_reader_of(base), list_letters, &list, error);
}

static enum err find_letter(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct list *list = arg;
    pg_args(&reader->pg);
    pg_arg_bytes(&reader->pg, (struct slice){(const char *)list->event_id, STORE_EVENT_ID_BYTES});
    enum err err = postgres_reader_query(reader, SQL_READ_LETTER, error);
    if (err)
        return err;
    if (pg_rows(&reader->pg) == 0)
        return ERR_NOT_FOUND;
    visit_letter(&reader->pg, 0, list);
    return ERR_OK;
}

enum err postgres_letter(struct store_reader *base, const unsigned char *event_id,
                         store_letter_fn *visit, void *arg, struct error *error)
{
    struct list list = {.arg = arg, .event_id = event_id, .visit_letter = visit};
    return postgres_read_once(postgres_reader_of(base), find_letter, &list, error);
}

/* ---- audit trail ---- */

static enum err list_audits(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct list *list = arg;
    struct pg *pg = &reader->pg;
    walk_back(reader, *list->cursor, list->limit);
    enum err err = postgres_reader_query(reader, SQL_READ_AUDITS, error);
    if (err)
        return err;
    for (int row = 0; row < pg_rows(pg); row++) {
        struct store_audit audit = {
            .row = (uint64_t)pg_int(pg, row, 0),
            .time_ms = pg_time(pg, row, 1),
            .what = pg_text(pg, row, 2),
            .id = pg_text(pg, row, 3),
            .text = pg_text(pg, row, 4),
        };
        list->visit_audit(list->arg, &audit);
    }
    end_list(reader, list);
    return ERR_OK;
}

enum err postgres_audits(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                         store_audit_fn *visit, void *arg, struct error *error)
{
    struct list list = {.cursor = cursor, .limit = limit, .arg = arg, .visit_audit = visit};
    return postgres_read_once(postgres_reader_of(base), list_audits, &list, error);
}

/* ---- history ---- */

struct past {
    struct slice item; /* size 0 = any */
    struct slice user;
    uint64_t *cursor;
    uint32_t limit;
    store_past_fn *visit;
    void *arg;
    int64_t item_number;
    int64_t user_id;
};

/* ERR_NOT_FOUND: there is no such item or user, and so nothing to find. */
static enum err prepare_past(struct postgres_reader *reader, struct past *call, struct error *error)
{
    struct pg *pg = &reader->pg;
    enum err err = postgres_kinds_load(pg, &reader->kinds, error);
    if (!err && call->item.size > 0) {
        pg_args(pg);
        pg_arg_text(pg, call->item);
        err = postgres_reader_query(reader, SQL_READ_ENTRY_NUMBER, error);
        if (!err && pg_rows(pg) == 0)
            err = ERR_NOT_FOUND;
        if (!err)
            call->item_number = pg_int(pg, 0, 0);
    }
    if (!err && call->user.size > 0)
        err = postgres_user_find(pg, call->user, &call->user_id, error);
    return err;
}

static void visit_past(struct postgres_reader *reader, int row, const struct past *call)
{
    struct pg *pg = &reader->pg;
    char digits[DECIMAL_SIZE_MAX];
    int64_t kind = pg_int(pg, row, 5);
    struct store_past past = {
        .row = (uint64_t)pg_int(pg, row, 0),
        .item = pg_text(pg, row, 1),
        .kind = kind > 0 && kind <= (int64_t)reader->kinds.count
                    ? kind_names_at(&reader->kinds, (unsigned)kind)
                    : (struct slice){NULL, 0},
        .time_ms = pg_time(pg, row, 6),
    };
    int64_t user_id = pg_int(pg, row, 2);
    if (pg_is_null(pg, row, 2)) {
        past.user = pg_is_null(pg, row, 4) ? SLICE("(erased)") : pg_text(pg, row, 4);
    } else if (user_id >= 0) {
        char *end = decimal_format(digits, user_id);
        past.user = (struct slice){digits, (size_t)(end - digits)};
    } else {
        past.user = pg_text(pg, row, 3);
    }
    call->visit(call->arg, &past);
}

/* There is no index: looks at so many rows a step, and goes on next time. */
#define PAST_ROWS_A_STEP 100000u

/* Where the rows end that were looked at; 0: there are no more. */
static enum err end_of_step(struct postgres_reader *reader, uint64_t cursor, uint64_t *ret_end,
                            struct error *error)
{
    walk_back(reader, cursor, PAST_ROWS_A_STEP);
    enum err err = postgres_reader_query(reader, SQL_READ_PAST_END, error);
    if (!err)
        *ret_end = pg_int(&reader->pg, 0, 1) < (int64_t)PAST_ROWS_A_STEP
                       ? 0
                       : (uint64_t)pg_int(&reader->pg, 0, 0);
    return err;
}

static enum err list_past(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct past *call = arg;
    struct pg *pg = &reader->pg;
    enum err err = prepare_past(reader, call, error);
    if (err == ERR_NOT_FOUND) {
        *call->cursor = 0;
        return ERR_OK;
    }
    if (err)
        return err;
    walk_back(reader, *call->cursor, PAST_ROWS_A_STEP);
    if (call->item.size > 0)
        pg_arg_int(pg, call->item_number);
    else
        pg_arg_null(pg);
    if (call->user.size > 0)
        pg_arg_int(pg, call->user_id);
    else
        pg_arg_null(pg);
    pg_arg_int(pg, call->limit);
    err = postgres_reader_query(reader, SQL_READ_PAST, error);
    if (err)
        return err;
    int rows = pg_rows(pg);
    for (int row = 0; row < rows; row++)
        visit_past(reader, row, call);
    if ((uint32_t)rows < call->limit)
        return end_of_step(reader, *call->cursor, call->cursor, error);
    *call->cursor = (uint64_t)pg_int(pg, rows - 1, 0);
    return ERR_OK;
}

enum err postgres_past(struct store_reader *base, struct slice item, struct slice user,
                       uint64_t *cursor, uint32_t limit, store_past_fn *visit, void *arg,
                       struct error *error)
{
    struct past call = {
        .item = item, .user = user, .cursor = cursor, .limit = limit, .visit = visit, .arg = arg};
    return postgres_read(postgres_reader_of(base), list_past, &call, error);
}

/* ---- bases of recounts ---- */

struct base {
    struct slice id;
    struct number *ret_sum;
    struct number *ret_discarded;
    struct log_position *ret_position;
};

static enum err read_base(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct base *call = arg;
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_text(pg, call->id);
    enum err err = postgres_reader_query(reader, SQL_READ_BASE, error);
    if (err)
        return err;
    if (pg_rows(pg) == 0)
        return error_set(error, ERR_CORRUPT, "the row of `progress` is gone");
    *call->ret_position =
        (struct log_position){(uint64_t)pg_int(pg, 0, 0), (uint64_t)pg_int(pg, 0, 1)};
    *call->ret_sum = *call->ret_discarded = number_of(0);
    if (pg_is_null(pg, 0, 2))
        return ERR_OK;
    if (!pg_bool(pg, 0, 4))
        return error_set(error, ERR_CORRUPT, "bases: the row of %.*s is not what was written there",
                         SLICE_ARGS(call->id));
    if (!pg_number(pg, 0, 2, call->ret_sum) && !pg_number(pg, 0, 3, call->ret_discarded))
        return ERR_OK;
    number_done(call->ret_sum);
    return error_set(error, ERR_CORRUPT, "bases: the row of %.*s holds no whole numbers",
                     SLICE_ARGS(call->id));
}

enum err postgres_base(struct store_reader *base, struct slice id, struct number *ret_sum,
                       struct number *ret_discarded, struct log_position *ret_position,
                       struct error *error)
{
    struct base call = {id, ret_sum, ret_discarded, ret_position};
    return postgres_read_once(postgres_reader_of(base), read_base, &call, error);
}

/* ---- what waits, for the audit ---- */

struct waiting {
    uint64_t *cursor;
    uint32_t limit;
    store_waiting_fn *visit;
    void *arg;
};

static enum err list_waiting(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct waiting *call = arg;
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)*call->cursor);
    pg_arg_int(pg, call->limit);
    enum err err = postgres_reader_query(reader, SQL_READ_WAITING_FROM, error);
    if (err)
        return err;
    int rows = pg_rows(pg);
    for (int at = 0; at < rows; at++) {
        struct store_waiting waiting = {
            .id = pg_text(pg, at, 2),
            .delta = pg_slice(pg, at, 3),
            .raw = pg_slice(pg, at, 4),
            .agrees = pg_bool(pg, at, 5),
        };
        stores_copy_event_id(pg_slice(pg, at, 1), waiting.event_id);
        call->visit(call->arg, &waiting);
    }
    *call->cursor = (uint32_t)rows < call->limit ? 0 : (uint64_t)pg_int(pg, rows - 1, 0);
    return ERR_OK;
}

enum err postgres_waiting(struct store_reader *base, uint64_t *cursor, uint32_t limit,
                          store_waiting_fn *visit, void *arg, struct error *error)
{
    struct waiting call = {cursor, limit, visit, arg};
    return postgres_read_once(postgres_reader_of(base), list_waiting, &call, error);
}
