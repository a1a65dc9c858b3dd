#include "store/postgres/pg.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "store/postgres/pg_own.h"
#include "store/postgres/pg_text.h"

static const char *const statement_texts[STATEMENT_COUNT] = {
#define X(name, sql) [name] = sql,
    STATEMENT_LIST(X)
#undef X
};

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
        return pg_give_up(pg, "the connection was lost", error);
    pg_forget_result(pg);
    for (;;) {
        while (PQisBusy(pg->handle)) {
            if (!wait_for(pg, POLLIN, deadline_ms))
                return pg_give_up(pg, "it does not answer", error);
            if (!PQconsumeInput(pg->handle))
                return pg_fail(pg, NULL, error);
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
    return pg_fail(pg, pg->result, error);
}

enum err pg_execute(struct pg *pg, const char *sql, struct error *error)
{
    if (!pg->handle)
        return pg_fail(pg, NULL, error);
    if (!PQsendQuery(pg->handle, sql))
        return pg_give_up(pg, "the connection was lost", error);
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
        return pg_give_up(pg, "the connection was lost", error);
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
        return pg_fail(pg, NULL, error);
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
        return pg_give_up(pg, "the connection was lost", error);
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

/* A text of the result without its escapes. */
struct pg_kept {
    struct pg_kept *next;
    char bytes[];
};

void pg_forget_result(struct pg *pg)
{
    PQclear(pg->result);
    pg->result = NULL;
    while (pg->kept) {
        struct pg_kept *next = pg->kept->next;
        free(pg->kept);
        pg->kept = next;
    }
}

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
    return pg_time_to_ms(pg_int(pg, row, column));
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
    return (struct slice){kept->bytes, pg_text_unescape(text, kept->bytes)};
}

enum err pg_number(const struct pg *pg, int row, int column, struct number *ret_number)
{
    return number_parse(pg_slice(pg, row, column), ret_number) ? ERR_CORRUPT : ERR_OK;
}

uint64_t pg_touched(const struct pg *pg)
{
    return strtoull(PQcmdTuples(pg->result), NULL, 10);
}
