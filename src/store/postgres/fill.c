/* fill.c - everything of another store, once: rows as core/copy.h has them, in one transaction.
 *
 * A transaction that is not committed leaves nothing behind, whatever ends it, so that a copy is
 * there as a whole or not at all. Rows are gathered and go some thousand at a time.
 *
 * Sets of members become rows of `reactions` here, unless this store keeps sets, too. A set does
 * not say since when somebody holds something: the history does, as far as it reaches back. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/postgres/own.h"

#define ROWS_AT_ONCE  5000u
#define BYTES_AT_ONCE ((size_t)4 << 20)
#define WAIT_MS       (24u * 3600u * 1000u) /* an index over a long history takes its time */

struct fill {
    struct postgres_store *store;
    struct pg_columns *columns;
    postgres_fill_fn *goes_on;
    void *arg;
    enum copy_table table; /* that is gathered */
    bool has_since;        /* the table of since when somebody holds what is there */
    bool is_whole;         /* members as sets: of items in one piece */
    size_t bytes;          /* gathered */
    uint64_t rows;         /* so far */
    struct sets_list list;
};

static const char *const column_types[COPY_TABLES] = {
#define X(name, columns) [COPY_##name] = columns,
    COPY_LIST(X)
#undef X
};

static const enum statement fill_statements[COPY_TABLES] = {
    [COPY_KINDS] = SQL_FILL_KINDS,     [COPY_USERS] = SQL_USERS_ADD,
    [COPY_HISTORY] = SQL_FILL_HISTORY, [COPY_ENTRIES] = SQL_FILL_ENTRIES,
    [COPY_LIVES] = SQL_FILL_LIVES,     [COPY_WAITING] = SQL_FILL_WAITING,
    [COPY_LETTERS] = SQL_FILL_LETTERS, [COPY_KEYS] = SQL_KEYS_ADD,
    [COPY_BASES] = SQL_FILL_BASES,     [COPY_AUDITS] = SQL_FILL_AUDITS,
};

/* The types of the columns that are gathered, which members have of their own. */
static const char *types_of(const struct fill *fill)
{
    if (fill->table != COPY_MEMBERS)
        return column_types[fill->table];
    if (fill->store->options.members == POSTGRES_ROWS)
        return "iiii";
    return fill->is_whole ? "ix" : "iix";
}

static enum statement statement_of(const struct fill *fill)
{
    if (fill->table != COPY_MEMBERS)
        return fill_statements[fill->table];
    if (fill->store->options.members == POSTGRES_ROWS)
        return SQL_FILL_REACTIONS;
    return fill->is_whole ? SQL_SETS_WHOLE_SET : SQL_SETS_SLICES_SET;
}

static void begin_rows(struct fill *fill)
{
    (void)pg_columns_begin(fill->columns, types_of(fill));
    fill->bytes = 0;
}

static enum err send_rows(struct fill *fill, struct error *error)
{
    fill->rows += fill->columns->of[0].count;
    enum err err = pg_query_columns(&fill->store->pg, statement_of(fill), fill->columns, error);
    begin_rows(fill);
    if (!err && !fill->goes_on(fill->arg, fill->rows))
        err = error_set(error, ERR_UNAVAILABLE, "the copy was told to stop");
    return err;
}

static enum err send_if_many(struct fill *fill, struct error *error)
{
    bool is_many = fill->columns->of[0].count >= ROWS_AT_ONCE || fill->bytes >= BYTES_AT_ONCE;
    return is_many ? send_rows(fill, error) : ERR_OK;
}

/* ---- a row ---- */

/* Digits come as a number as long as they fit. */
static void add_plain(struct pg_array *to, const struct copy_value *value)
{
    char digits[32];
    if (value->type == COPY_INT)
        (void)snprintf(digits, sizeof(digits), "%lld", (long long)value->number);
    pg_array_plain(to, value->type == COPY_INT ? slice_of(digits) : value->bytes);
}

static void add_value(struct pg_array *to, char type, const struct copy_value *value)
{
    if (value->type == COPY_NULL) {
        pg_array_null(to);
        return;
    }
    switch (type) {
    case 'i':
        pg_array_int(to, value->number);
        break;
    case 'm':
        pg_array_time(to, value->number);
        break;
    case 'b':
        pg_array_bool(to, value->number != 0);
        break;
    case 't':
        pg_array_text(to, value->bytes);
        break;
    case 'n':
        add_plain(to, value);
        break;
    default:
        pg_array_bytes(to, value->bytes);
        break;
    }
}

static enum err add_row(struct fill *fill, const struct copy_value *values, struct error *error)
{
    const char *types = column_types[fill->table];
    for (unsigned i = 0; types[i]; i++) {
        add_value(&fill->columns->of[i], types[i], &values[i]);
        fill->bytes += values[i].bytes.size + sizeof(int64_t);
    }
    return send_if_many(fill, error);
}

/* ---- members ---- */

/* Since when, by item and user: the last line of the history. */
static enum err make_since(struct fill *fill, struct error *error)
{
    fill->has_since = true;
    return pg_execute(&fill->store->pg,
                      "CREATE TEMPORARY TABLE since ON COMMIT DROP AS"
                      "  SELECT DISTINCT ON (item, user_id) item, user_id, time FROM history"
                      "  WHERE user_id IS NOT NULL ORDER BY item, user_id, row DESC;"
                      "CREATE UNIQUE INDEX since_whom ON since(item, user_id);"
                      "ANALYZE since; ANALYZE entries",
                      error);
}

static void add_member(struct fill *fill, const struct copy_value *values,
                       const struct sets_group *group, uint32_t number)
{
    struct pg_array *to = fill->columns->of;
    pg_array_int(&to[0], values[0].number);
    pg_array_int(&to[1], group->named ? -1 - (int64_t)number : (int64_t)number);
    pg_array_int(&to[2], group->kind);
    add_value(&to[3], 'i', &values[1]);
}

static enum err add_members(struct fill *fill, const struct copy_value *values, struct error *error)
{
    enum err err = fill->has_since ? ERR_OK : make_since(fill, error);
    if (!err && sets_read(values[2].bytes, &fill->list))
        err = error_set(error, ERR_CORRUPT, "members of item %lld make no sense",
                        (long long)values[0].number);
    for (size_t i = 0; i < fill->list.group_count && !err; i++) {
        const struct sets_group *group = &fill->list.groups[i];
        for (uint32_t j = 0; j < group->count && !err; j++) {
            add_member(fill, values, group, fill->list.numbers[group->first + j]);
            err = send_if_many(fill, error);
        }
    }
    return err;
}

static enum err add_set(struct fill *fill, const struct copy_value *values, struct error *error)
{
    struct pg_array *to = fill->columns->of;
    unsigned column = 0;
    pg_array_int(&to[column++], values[0].number);
    if (!fill->is_whole)
        pg_array_int(&to[column++], values[1].number);
    pg_array_bytes(&to[column], values[2].bytes);
    fill->bytes += values[2].bytes.size;
    return send_if_many(fill, error);
}

/* ---- all of it ---- */

static enum err take_row(void *arg, enum copy_table table, const struct copy_value *values,
                         struct error *error)
{
    struct fill *fill = arg;
    bool is_whole = table == COPY_MEMBERS && values[1].type == COPY_NULL;
    enum err err = ERR_OK;
    if (table != fill->table || is_whole != fill->is_whole) {
        err = send_rows(fill, error);
        fill->table = table;
        fill->is_whole = is_whole;
        begin_rows(fill);
    }
    if (err)
        return err;
    if (table != COPY_MEMBERS)
        return add_row(fill, values, error);
    return fill->store->options.members == POSTGRES_ROWS ? add_members(fill, values, error)
                                                         : add_set(fill, values, error);
}

static enum err write_sequences(struct fill *fill, const struct state_mark *mark,
                                struct error *error)
{
    struct pg *pg = &fill->store->pg;
    struct pg_array *to = pg_columns_begin(fill->columns, "iiii");
    for (unsigned origin = 0; origin < LIMIT_CELLS; origin++) {
        pg_array_int(&to[0], origin);
        pg_array_int(&to[1], (int64_t)mark->sequences[origin]);
        pg_array_int(&to[2], (int64_t)mark->ended[origin]);
        pg_array_int(&to[3], mark->times_ms[origin]);
    }
    enum err err = pg_query_columns(pg, SQL_SEQUENCES_SET, fill->columns, error);
    if (err)
        return err;
    to = pg_columns_begin(fill->columns, "ii");
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        pg_array_int(&to[0], cell);
        pg_array_int(&to[1], mark->incarnations[cell]);
    }
    return pg_query_columns(pg, SQL_HOMES_SET, fill->columns, error);
}

static enum err write_mark(struct fill *fill, const struct state_mark *mark,
                           struct log_position base, struct error *error)
{
    struct pg *pg = &fill->store->pg;
    enum err err = write_sequences(fill, mark, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)mark->position.segment);
    pg_arg_int(pg, (int64_t)mark->position.offset);
    pg_arg_int(pg, (int64_t)mark->counters);
    pg_arg_int(pg, (int64_t)mark->items);
    pg_arg_int(pg, (int64_t)mark->members);
    pg_arg_int(pg, mark->next_user);
    pg_arg_time(pg, env_wall_ms(fill->store->env));
    err = pg_query(pg, SQL_PROGRESS_SET, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)base.segment);
    pg_arg_int(pg, (int64_t)base.offset);
    return pg_query(pg, SQL_TEND_BASE_SET, error);
}

/* What comes later has numbers behind those that were copied. A unit's row is batch * 2^20 + its
 * place. */
static enum err move_numbers(struct fill *fill, struct error *error)
{
    return pg_execute(
        &fill->store->pg,
        "SELECT setval(pg_get_serial_sequence('entries', 'number'), max(number)) FROM entries"
        "  HAVING max(number) IS NOT NULL;"
        "SELECT setval(pg_get_serial_sequence('history', 'row'), max(row)) FROM history"
        "  HAVING max(row) IS NOT NULL;"
        "SELECT setval(pg_get_serial_sequence('dead_letters', 'row'), max(row)) FROM dead_letters"
        "  HAVING max(row) IS NOT NULL;"
        "SELECT setval('batches', (max(row) >> 20) + 1) FROM count_events"
        "  HAVING max(row) IS NOT NULL",
        error);
}

static enum err fill_tables(struct fill *fill, copy_source_fn *source, void *from,
                            struct error *error)
{
    struct state_mark mark;
    struct log_position base;
    enum err err = pg_execute(
        &fill->store->pg,
        "SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = warning", error);
    begin_rows(fill);
    if (!err)
        err = source(from, take_row, fill, &mark, &base, error);
    if (!err)
        err = send_rows(fill, error);
    if (!err)
        err = move_numbers(fill, error);
    return err ? err : write_mark(fill, &mark, base, error);
}

enum err postgres_store_fill(struct store *base, copy_source_fn *source, void *from,
                             postgres_fill_fn *goes_on, void *arg, struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    assert(store->machine[0] && source && goes_on);

    struct fill fill = {
        .store = store, .columns = &store->scratch.columns, .goes_on = goes_on, .arg = arg};
    enum err err = postgres_begin(store, error);
    if (err)
        return err;
    uint32_t wait_ms = store->pg.wait_ms;
    store->pg.wait_ms = WAIT_MS;
    struct error why = {.text = ""};
    err = fill_tables(&fill, source, from, &why);
    err = err ? postgres_abandon(store, err) : postgres_commit(store, &why);
    store->pg.wait_ms = wait_ms;
    store->is_ready = false; /* what memory knows of kinds and users is of before */
    sets_list_done(&fill.list);
    return err ? error_set(error, err, "%s", why.text) : ERR_OK;
}
