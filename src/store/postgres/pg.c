#include "store/postgres/pg.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/decimal.h"
#include "base/memory.h"

#define ARRAY_HEADER_BYTES 20u
#define ARRAY_BYTES_MAX    (UINT64_C(1) << 30)
#define CONNECT_TIMEOUT_S  "2"
#define GRACE_MS           5000u /* the server ends a statement by itself: we wait a bit longer */

/* PostgreSQL counts microseconds since 2000-01-01. */
#define EPOCH_MS INT64_C(946684800000)
#define TIME_MAX INT64_C(9000000000000000000)

static const char *const statement_texts[STATEMENT_COUNT] = {
#define X(name, sql) [name] = sql,
    STATEMENT_LIST(X)
#undef X
};

/* A text of the result without its escapes. */
struct pg_kept {
    struct pg_kept *next;
    char bytes[];
};

/* ---- texts ---- */

/* How many bytes the character at `at` has; 0: it is none. */
static size_t character(const unsigned char *at, size_t left)
{
    unsigned char first = at[0];
    size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 0 || first > 0xf4 || size > left || first == 0)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    /* longer than it must be, a surrogate, or beyond the last one */
    if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) ||
        (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f))
        return 0;
    return size;
}

/* Nearly every id is plain ASCII. */
static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= 0x80 || byte == 0 || byte == '\\')
            return false;
    }
    return true;
}

static void keep(enum err err)
{
    if (err) {
        fputs("no memory for a statement of the store\n", stderr);
        abort(); /* as memory_take() does: nobody could go on */
    }
}

static void escape(struct slice text, struct buffer *to)
{
    const unsigned char *bytes = (const unsigned char *)text.data;
    keep(buffer_reserve(to, text.size * 4));
    for (size_t i = 0; i < text.size;) {
        size_t size = character(bytes + i, text.size - i);
        char *at = to->data + to->size;
        if (size == 0) {
            static const char digits[] = "0123456789abcdef";
            memcpy(at, "\\x", 2);
            at[2] = digits[bytes[i] >> 4];
            at[3] = digits[bytes[i] & 15];
            to->size += 4;
            i++;
            continue;
        }
        if (bytes[i] == '\\')
            to->data[to->size++] = '\\';
        memcpy(to->data + to->size, bytes + i, size);
        to->size += size;
        i += size;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What makes no sense, because somebody else has written it, stays as it is. */
static size_t unescape(struct slice text, char *to)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char *at = text.data + i;
        size_t left = text.size - i;
        if (at[0] == '\\' && left >= 2 && at[1] == '\\') {
            i++;
        } else if (at[0] == '\\' && left >= 4 && at[1] == 'x' && hex_digit(at[2]) >= 0 &&
                   hex_digit(at[3]) >= 0) {
            to[size++] = (char)(hex_digit(at[2]) << 4 | hex_digit(at[3]));
            i += 3;
            continue;
        }
        to[size++] = at[0];
    }
    return size;
}

/* ---- arrays ---- */

static void put32(char *to, uint32_t value)
{
    uint32_t big = htobe32(value);
    memcpy(to, &big, sizeof(big));
}

static void put64(char *to, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    memcpy(to, &big, sizeof(big));
}

static int64_t time_of(int64_t time_ms)
{
    int64_t since;
    if (__builtin_sub_overflow(time_ms, EPOCH_MS, &since) ||
        __builtin_mul_overflow(since, 1000, &since))
        return time_ms < 0 ? -TIME_MAX : TIME_MAX;
    return since > TIME_MAX ? TIME_MAX : since;
}

void pg_array_init(struct pg_array *array, enum pg_type type)
{
    *array = (struct pg_array){.type = type};
    buffer_init(&array->bytes, ARRAY_BYTES_MAX);
    pg_array_clear(array);
}

void pg_array_done(struct pg_array *array)
{
    buffer_done(&array->bytes);
}

void pg_array_clear(struct pg_array *array)
{
    array->count = 0;
    array->bytes.size = 0;
    keep(buffer_reserve(&array->bytes, ARRAY_HEADER_BYTES));
    array->bytes.size = ARRAY_HEADER_BYTES;
}

/* Room for an element of so many bytes, its length written down. */
static char *element(struct pg_array *array, size_t size)
{
    keep(buffer_reserve(&array->bytes, 4 + size));
    char *at = array->bytes.data + array->bytes.size;
    put32(at, (uint32_t)size);
    array->bytes.size += 4 + size;
    array->count++;
    return at + 4;
}

void pg_array_int(struct pg_array *array, int64_t value)
{
    put64(element(array, 8), value);
}

void pg_array_time(struct pg_array *array, int64_t time_ms)
{
    put64(element(array, 8), time_of(time_ms));
}

void pg_array_bool(struct pg_array *array, bool value)
{
    *element(array, 1) = value;
}

void pg_array_bytes(struct pg_array *array, struct slice bytes)
{
    char *at = element(array, bytes.size);
    if (bytes.size > 0)
        memcpy(at, bytes.data, bytes.size);
}

void pg_array_plain(struct pg_array *array, struct slice text)
{
    pg_array_bytes(array, text);
}

void pg_array_text(struct pg_array *array, struct slice text)
{
    if (is_plain(text)) {
        pg_array_bytes(array, text);
        return;
    }
    size_t start = array->bytes.size;
    (void)element(array, 0);
    escape(text, &array->bytes);
    put32(array->bytes.data + start, (uint32_t)(array->bytes.size - start - 4));
}

void pg_array_number(struct pg_array *array, const struct number *number)
{
    if (!number->big) {
        char digits[DECIMAL_SIZE_MAX];
        char *end = decimal_format(digits, number->small);
        pg_array_bytes(array, (struct slice){digits, (size_t)(end - digits)});
        return;
    }
    size_t start = array->bytes.size;
    (void)element(array, 0);
    keep(number_format(number, &array->bytes));
    put32(array->bytes.data + start, (uint32_t)(array->bytes.size - start - 4));
}

void pg_array_null(struct pg_array *array)
{
    put32(element(array, 0) - 4, UINT32_MAX);
}

/* Nothing at all is an array of no dimension. */
static struct slice finish_array(struct pg_array *array)
{
    char *to = array->bytes.data;
    put32(to, array->count > 0 ? 1 : 0);
    put32(to + 4, 1); /* there may be NULLs */
    put32(to + 8, (uint32_t)array->type);
    put32(to + 12, array->count);
    put32(to + 16, 1);
    return (struct slice){to, array->count > 0 ? array->bytes.size : 12};
}

/* ---- arguments ---- */

void pg_args(struct pg *pg)
{
    pg->arg_count = 0;
    pg->texts.size = 0;
}

static struct pg_arg *next_arg(struct pg *pg)
{
    assert(pg->arg_count < PG_ARGS_MAX);
    struct pg_arg *arg = &pg->args[pg->arg_count++];
    *arg = (struct pg_arg){.offset = pg->texts.size};
    return arg;
}

/* An argument that is copied. */
static void copy_arg(struct pg *pg, const void *data, size_t size)
{
    struct pg_arg *arg = next_arg(pg);
    keep(buffer_append(&pg->texts, data, size));
    arg->size = (int)size;
}

void pg_arg_int(struct pg *pg, int64_t value)
{
    char bytes[8];
    put64(bytes, value);
    copy_arg(pg, bytes, sizeof(bytes));
}

void pg_arg_time(struct pg *pg, int64_t time_ms)
{
    pg_arg_int(pg, time_of(time_ms));
}

void pg_arg_text(struct pg *pg, struct slice text)
{
    if (is_plain(text)) {
        copy_arg(pg, text.data, text.size);
        return;
    }
    struct pg_arg *arg = next_arg(pg);
    escape(text, &pg->texts);
    arg->size = (int)(pg->texts.size - arg->offset);
}

void pg_arg_bytes(struct pg *pg, struct slice bytes)
{
    if (!bytes.data) {
        pg_arg_null(pg);
        return;
    }
    struct pg_arg *arg = next_arg(pg);
    arg->data = bytes.data;
    arg->size = (int)bytes.size;
}

void pg_arg_number(struct pg *pg, const struct number *number)
{
    struct pg_arg *arg = next_arg(pg);
    keep(number_format(number, &pg->texts));
    arg->size = (int)(pg->texts.size - arg->offset);
}

void pg_arg_array(struct pg *pg, struct pg_array *array)
{
    struct slice bytes = finish_array(array);
    struct pg_arg *arg = next_arg(pg);
    arg->data = bytes.data;
    arg->size = (int)bytes.size;
}

void pg_arg_null(struct pg *pg)
{
    next_arg(pg)->is_null = true;
}

void pg_columns_init(struct pg_columns *columns)
{
    for (unsigned i = 0; i < PG_COLUMNS_MAX; i++)
        pg_array_init(&columns->of[i], PG_INT);
    columns->count = 0;
}

void pg_columns_done(struct pg_columns *columns)
{
    for (unsigned i = 0; i < PG_COLUMNS_MAX; i++)
        pg_array_done(&columns->of[i]);
}

static enum pg_type type_of(char letter)
{
    switch (letter) {
    case 'i':
        return PG_INT;
    case 'm':
        return PG_TIME;
    case 'b':
        return PG_BOOL;
    case 'x':
        return PG_BYTES;
    case 'u':
        return PG_UUID;
    default:
        return PG_TEXT;
    }
}

struct pg_array *pg_columns_begin(struct pg_columns *columns, const char *types)
{
    columns->count = (unsigned)strlen(types);
    assert(columns->count <= PG_COLUMNS_MAX);
    for (unsigned i = 0; i < columns->count; i++) {
        columns->of[i].type = type_of(types[i]);
        pg_array_clear(&columns->of[i]);
    }
    return columns->of;
}

void pg_arg_columns(struct pg *pg, struct pg_columns *columns)
{
    for (unsigned i = 0; i < columns->count; i++)
        pg_arg_array(pg, &columns->of[i]);
}

/* ---- errors ---- */

static bool is_class(const char *state, const char *class)
{
    return strncmp(state, class, 2) == 0;
}

static bool is_state(const char *state, const char *wanted)
{
    return strcmp(state, wanted) == 0;
}

/* An outage, and not the fault of what was asked: connection, resources, an operator, the system,
 * rights, transactions that cannot be, our own tables, damage. */
static bool is_outage(const char *state)
{
    static const char *const classes[] = {"08", "0A", "24", "25", "26", "28", "2D",
                                          "34", "3B", "3D", "3F", "42", "53", "55",
                                          "57", "58", "72", "F0", "HV", "XX"};
    if (state[0] == 0)
        return true;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (is_class(state, classes[i]))
            return true;
    }
    return false;
}

/* Two who make the row of the same id at once: the other was quicker, and the next attempt finds
 * it. */
static bool is_race(const PGresult *result)
{
    const char *constraint = result ? PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME) : NULL;
    return constraint && strcmp(constraint, "entries_id_key") == 0;
}

/* What a person should do about it. */
static const char *advice(const char *state)
{
    if (is_state(state, "42P01") || is_state(state, "42703") || is_class(state, "3F"))
        return "a table or column of ours is missing: ";
    if (is_class(state, "25"))
        return "it cannot be written: ";
    if (is_state(state, "53100"))
        return "no space left: ";
    if (is_class(state, "53"))
        return "the server is at a limit: ";
    if (is_state(state, "57014"))
        return "it took too long: ";
    if (is_class(state, "28") || is_state(state, "42501"))
        return "we are not allowed to: ";
    if (is_class(state, "XX"))
        return "DAMAGED: ";
    return "";
}

static int line_size(const char *text)
{
    return (int)strcspn(text, "\n");
}

/* The one place where PostgreSQL's errors become ours. The connection is closed when it is of no
 * use any more. */
static enum err fail(struct pg *pg, const PGresult *result, struct error *error)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    if (!text)
        text = pg->handle ? PQerrorMessage(pg->handle) : "not connected";
    snprintf(pg->state, sizeof(pg->state), "%s", state ? state : "");
    pg->is_conflict = is_class(pg->state, "40") || is_state(pg->state, "55P03") ||
                      (is_state(pg->state, "23505") && is_race(result));
    enum err err = ERR_REFUSED;
    if (pg->is_conflict || is_outage(pg->state))
        err = ERR_UNAVAILABLE;
    if (error && err == ERR_REFUSED)
        (void)error_set(error, err, "%.*s", line_size(text), text);
    else if (error)
        (void)error_set(error, err, "PostgreSQL: %s%.*s", advice(pg->state), line_size(text), text);
    if (!pg_is_open(pg) || is_state(pg->state, "26000") || strncmp(pg->state, "57P", 3) == 0)
        pg_close(pg);
    return err;
}

static enum err give_up(struct pg *pg, const char *why, struct error *error)
{
    pg->state[0] = 0;
    pg->is_conflict = false;
    pg_close(pg);
    return error_set(error, ERR_UNAVAILABLE, "PostgreSQL: %s", why);
}

/* ---- connecting ---- */

void pg_init(struct pg *pg)
{
    *pg = (struct pg){.handle = NULL};
    buffer_init(&pg->texts, ARRAY_BYTES_MAX);
}

static void forget_result(struct pg *pg)
{
    PQclear(pg->result);
    pg->result = NULL;
    while (pg->kept) {
        struct pg_kept *next = pg->kept->next;
        free(pg->kept);
        pg->kept = next;
    }
}

void pg_done(struct pg *pg)
{
    pg_close(pg);
    buffer_done(&pg->texts);
}

void pg_close(struct pg *pg)
{
    forget_result(pg);
    if (pg->handle)
        PQfinish(pg->handle);
    pg->handle = NULL;
    memset(pg->prepared, 0, sizeof(pg->prepared));
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* What the URL does not say for itself. */
struct defaults {
    const char *keywords[32];
    const char *values[32];
    unsigned count;
};

static void add_default(struct defaults *defaults, const PQconninfoOption *given, const char *name,
                        const char *value)
{
    for (; given->keyword; given++) {
        if (strcmp(given->keyword, name) == 0 && given->val)
            return;
    }
    defaults->keywords[defaults->count] = name;
    defaults->values[defaults->count++] = value;
}

static enum err connect_to(struct pg *pg, const struct pg_options *options, struct error *error)
{
    char *why = NULL;
    PQconninfoOption *given = PQconninfoParse(options->url, &why);
    PQfreemem(why); /* it may repeat the URL, and so the password */
    if (!given)
        return error_set(error, ERR_INVALID,
                         "the URL of the store is none that libpq takes: "
                         "postgres://user:password@host:port/database");
    struct defaults defaults = {.count = 0};
    add_default(&defaults, given, "fallback_application_name", "tally");
    add_default(&defaults, given, "connect_timeout", CONNECT_TIMEOUT_S);
    add_default(&defaults, given, "keepalives_idle", "10");
    add_default(&defaults, given, "keepalives_interval", "5");
    add_default(&defaults, given, "keepalives_count", "3");
    add_default(&defaults, given, "tcp_user_timeout", "20000");
    add_default(&defaults, given, "target_session_attrs",
                options->read_only ? "primary" : "read-write");
    /* libpq spreads the URL out at its place, and what is later wins. */
    defaults.keywords[defaults.count] = "dbname";
    defaults.values[defaults.count++] = options->url;
    defaults.keywords[defaults.count] = "client_encoding";
    defaults.values[defaults.count] = "UTF8";
    PQconninfoFree(given);
    pg->handle = PQconnectdbParams(defaults.keywords, defaults.values, 1);
    if (PQstatus(pg->handle) != CONNECTION_OK)
        return fail(pg, NULL, error);
    PQsetNoticeReceiver(pg->handle, ignore_notice, NULL);
    return PQsetnonblocking(pg->handle, 1) == 0 ? ERR_OK : fail(pg, NULL, error);
}

enum err pg_connect(struct pg *pg, const struct pg_options *options, struct error *error)
{
    pg_close(pg);
    enum err err = connect_to(pg, options, error);
    if (err)
        return err;
    pg->wait_ms = options->statement_timeout_ms + GRACE_MS;
    /* Plans are made once: their arrays have thousands of elements, or two; and tables that are
     * empty now may have millions of rows before anybody makes a new plan. Readers go by the index
     * in all they do. */
    char sql[768];
    snprintf(sql, sizeof(sql),
             "SET statement_timeout=%u; SET lock_timeout=%u;"
             "SET idle_in_transaction_session_timeout='60s';"
             "SET plan_cache_mode=force_generic_plan; SET work_mem='64MB'; SET jit=off;"
             "SET enable_seqscan=off; SET max_parallel_workers_per_gather=0;"
             "SET default_transaction_isolation='%s'%s",
             options->statement_timeout_ms, options->lock_timeout_ms,
             options->read_only ? "repeatable read" : "read committed",
             options->read_only
                 ? "; SET default_transaction_read_only=on; SET enable_hashjoin=off; "
                   "SET enable_mergejoin=off"
                 : "");
    err = pg_execute(pg, sql, error);
    const char *encoding = err ? NULL : PQparameterStatus(pg->handle, "server_encoding");
    if (encoding && strcmp(encoding, "UTF8") != 0)
        err = error_set(error, ERR_INVALID, "the database is in %s: make one with ENCODING 'UTF8'",
                        encoding);
    if (err)
        pg_close(pg);
    return err;
}

/* ---- statements ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until the socket is ready. False: too late, or it is broken. */
static bool wait_for(struct pg *pg, short events, int64_t deadline_ms)
{
    struct pollfd socket = {.fd = PQsocket(pg->handle), .events = events};
    for (;;) {
        int64_t left = deadline_ms - now_ms();
        if (left <= 0)
            return false;
        int ready = poll(&socket, 1, left > 1000 ? 1000 : (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

/* Sends what is gathered, reading meanwhile: the server may have to say something first. */
static bool flush(struct pg *pg, int64_t deadline_ms)
{
    for (;;) {
        int left = PQflush(pg->handle);
        if (left <= 0)
            return left == 0;
        if (!wait_for(pg, POLLIN | POLLOUT, deadline_ms) || !PQconsumeInput(pg->handle))
            return false;
    }
}

/* The answer to what was sent: the first result that is an error, else the last one. */
static enum err receive(struct pg *pg, struct error *error)
{
    int64_t deadline_ms = now_ms() + pg->wait_ms;
    if (!flush(pg, deadline_ms))
        return give_up(pg, "the connection was lost", error);
    forget_result(pg);
    for (;;) {
        while (PQisBusy(pg->handle)) {
            if (!wait_for(pg, POLLIN, deadline_ms))
                return give_up(pg, "it does not answer", error);
            if (!PQconsumeInput(pg->handle))
                return fail(pg, NULL, error);
        }
        PGresult *next = PQgetResult(pg->handle);
        if (!next)
            break;
        if (pg->result && PQresultStatus(pg->result) == PGRES_FATAL_ERROR) {
            PQclear(next);
            continue;
        }
        PQclear(pg->result);
        pg->result = next;
    }
    ExecStatusType status = PQresultStatus(pg->result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return ERR_OK;
    return fail(pg, pg->result, error);
}

enum err pg_execute(struct pg *pg, const char *sql, struct error *error)
{
    if (!pg->handle)
        return fail(pg, NULL, error);
    if (!PQsendQuery(pg->handle, sql))
        return give_up(pg, "the connection was lost", error);
    return receive(pg, error);
}

/* A statement's name is its number. */
static const char *name_of(enum statement which, char to[16])
{
    snprintf(to, 16, "t%d", (int)which);
    return to;
}

static enum err prepare(struct pg *pg, enum statement which, struct error *error)
{
    char name[16];
    if (!PQsendPrepare(pg->handle, name_of(which, name), statement_texts[which], 0, NULL))
        return give_up(pg, "the connection was lost", error);
    enum err err = receive(pg, error);
    if (err) {
        /* Our own words are not wrong: if PostgreSQL says so, the tables were changed. */
        if (err == ERR_REFUSED && error)
            error->code = ERR_UNAVAILABLE;
        return ERR_UNAVAILABLE;
    }
    pg->prepared[which] = true;
    return ERR_OK;
}

enum err pg_query(struct pg *pg, enum statement which, struct error *error)
{
    if (!pg->handle)
        return fail(pg, NULL, error);
    enum err err = pg->prepared[which] ? ERR_OK : prepare(pg, which, error);
    if (err)
        return err;
    const char *values[PG_ARGS_MAX];
    int sizes[PG_ARGS_MAX];
    int formats[PG_ARGS_MAX];
    for (int i = 0; i < pg->arg_count; i++) {
        const struct pg_arg *arg = &pg->args[i];
        values[i] = arg->is_null ? NULL
                    : arg->data  ? arg->data
                    : arg->size  ? pg->texts.data + arg->offset
                                 : "";
        sizes[i] = arg->size;
        formats[i] = 1;
    }
    char name[16];
    if (!PQsendQueryPrepared(pg->handle, name_of(which, name), pg->arg_count, values, sizes,
                             formats, 1))
        return give_up(pg, "the connection was lost", error);
    return receive(pg, error);
}

enum err pg_query_columns(struct pg *pg, enum statement which, struct pg_columns *columns,
                          struct error *error)
{
    if (columns->of[0].count == 0)
        return ERR_OK;
    pg_args(pg);
    pg_arg_columns(pg, columns);
    return pg_query(pg, which, error);
}

/* ---- the result ---- */

struct slice pg_slice(const struct pg *pg, int row, int column)
{
    if (pg_is_null(pg, row, column))
        return (struct slice){NULL, 0};
    return (struct slice){PQgetvalue(pg->result, row, column),
                          (size_t)PQgetlength(pg->result, row, column)};
}

int64_t pg_int(const struct pg *pg, int row, int column)
{
    struct slice bytes = pg_slice(pg, row, column);
    if (bytes.size == 0)
        return 0;
    uint64_t value = bytes.data[0] < 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < bytes.size; i++)
        value = value << 8 | (unsigned char)bytes.data[i];
    return (int64_t)value;
}

int64_t pg_time(const struct pg *pg, int row, int column)
{
    if (pg_is_null(pg, row, column))
        return 0;
    int64_t time = pg_int(pg, row, column);
    int64_t ms = time / 1000 - (time % 1000 < 0);
    return ms + EPOCH_MS;
}

bool pg_bool(const struct pg *pg, int row, int column)
{
    return pg_int(pg, row, column) != 0;
}

struct slice pg_text(struct pg *pg, int row, int column)
{
    struct slice text = pg_slice(pg, row, column);
    if (text.size == 0 || !memchr(text.data, '\\', text.size))
        return text;
    struct pg_kept *kept = memory_take(sizeof(*kept) + text.size);
    kept->next = pg->kept;
    pg->kept = kept;
    return (struct slice){kept->bytes, unescape(text, kept->bytes)};
}

enum err pg_number(const struct pg *pg, int row, int column, struct number *ret_number)
{
    return number_parse(pg_slice(pg, row, column), ret_number) ? ERR_CORRUPT : ERR_OK;
}

uint64_t pg_touched(const struct pg *pg)
{
    return strtoull(PQcmdTuples(pg->result), NULL, 10);
}
