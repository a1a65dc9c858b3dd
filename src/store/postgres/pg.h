/* pg.h - a connection to PostgreSQL: arguments, statements, results, and its errors in our words.
 * pg_own.h says which file has which part.
 *
 * A connection belongs to one thread at a time. Statements are prepared when they are first
 * needed. Arguments are gathered, in order, then the statement runs, and its result stays until
 * the next one:
 *
 *   pg_args(pg);
 *   pg_arg_text(pg, id);
 *   enum err err = pg_query(pg, SQL_ENTRY_BY_ID, error);
 *   for (int row = 0; !err && row < pg_rows(pg); row++)
 *       ... pg_int(pg, row, 0) ...
 *
 * Everything travels in PostgreSQL's binary form; numbers of any size are text (`value::text`), ids
 * and names are written as pg_text.h says. */
#ifndef STORE_POSTGRES_PG_H
#define STORE_POSTGRES_PG_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "store/postgres/pg_array.h"
#include "store/postgres/statements.h"

#define PG_ARGS_MAX 16

struct pg_options {
    const char *url;
    uint32_t statement_timeout_ms;
    uint32_t lock_timeout_ms;
    bool read_only; /* a reader's */
};

struct pg_arg {
    const char *data; /* NULL: at `offset` of `texts` */
    size_t offset;
    int size;
    bool is_null;
};

struct pg {
    PGconn *handle;   /* NULL: not connected */
    PGresult *result; /* owned; of the last statement */
    bool prepared[STATEMENT_COUNT];
    uint32_t wait_ms; /* so long we wait for an answer before we give the connection up */

    /* why the last call failed */
    char state[6];    /* SQLSTATE; "" = the connection */
    bool is_conflict; /* deadlock, serialization, lock timeout: worth trying again at once */

    struct pg_arg args[PG_ARGS_MAX];
    int arg_count;
    struct buffer texts;  /* of the arguments */
    struct pg_kept *kept; /* owned; texts of the result that were written with escapes */
};

void pg_init(struct pg *pg);
void pg_done(struct pg *pg);

/* ERR_UNAVAILABLE, or ERR_INVALID when the URL makes no sense. */
enum err pg_connect(struct pg *pg, const struct pg_options *options, struct error *error);
void pg_close(struct pg *pg); /* a closed one is fine */

/* Connected, as far as one knows without asking? */
static inline bool pg_is_open(const struct pg *pg)
{
    return pg->handle && PQstatus(pg->handle) == CONNECTION_OK;
}

static inline bool pg_in_transaction(const struct pg *pg)
{
    return pg->handle && PQtransactionStatus(pg->handle) != PQTRANS_IDLE;
}

/* --- arguments --- */

void pg_args(struct pg *pg);                                    /* begins anew */
void pg_arg_int(struct pg *pg, int64_t value);                  /* $n::int8 */
void pg_arg_time(struct pg *pg, int64_t time_ms);               /* $n::timestamptz */
void pg_arg_text(struct pg *pg, struct slice text);             /* $n::text, copied */
void pg_arg_bytes(struct pg *pg, struct slice bytes);           /* $n::bytea or ::uuid, borrowed */
void pg_arg_number(struct pg *pg, const struct number *number); /* ($n::text)::numeric */
void pg_arg_array(struct pg *pg, struct pg_array *array);       /* $n::...[], borrowed */
void pg_arg_null(struct pg *pg);
void pg_arg_columns(struct pg *pg, struct pg_columns *columns);

/* --- statements --- */

/* Runs a statement with the arguments that were gathered. */
enum err pg_query(struct pg *pg, enum statement which, struct error *error);

/* Runs one whose arguments are these columns; nothing happens without rows. */
enum err pg_query_columns(struct pg *pg, enum statement which, struct pg_columns *columns,
                          struct error *error);

/* Runs SQL without arguments; several statements are one transaction. */
enum err pg_execute(struct pg *pg, const char *sql, struct error *error);

/* --- the result --- */

static inline int pg_rows(const struct pg *pg)
{
    return PQntuples(pg->result);
}

static inline bool pg_is_null(const struct pg *pg, int row, int column)
{
    return PQgetisnull(pg->result, row, column);
}

/* int2, int4 or int8; NULL is 0. */
int64_t pg_int(const struct pg *pg, int row, int column);
int64_t pg_time(const struct pg *pg, int row, int column); /* ms; NULL is 0 */
bool pg_bool(const struct pg *pg, int row, int column);
/* The bytes as they are; they live until the next statement. */
struct slice pg_slice(const struct pg *pg, int row, int column);
/* A text whose escapes are taken back; lives until the next statement. */
struct slice pg_text(struct pg *pg, int row, int column);
/* Of a number::text. The caller frees it. ERR_CORRUPT: there stands no number. */
enum err pg_number(const struct pg *pg, int row, int column, struct number *ret_number);
/* How many rows an INSERT, UPDATE or DELETE has touched. */
uint64_t pg_touched(const struct pg *pg);

#endif
