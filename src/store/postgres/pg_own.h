/* pg_own.h - what the files of a connection share, and nobody else uses.
 *
 *   pg.c         statements, and the result of the last one
 *   pg_args.c    arguments of the next one
 *   pg_array.c   arrays in binary form; pg_text.c texts with escapes
 *   pg_connect.c opening and closing
 *   pg_error.c   PostgreSQL's errors in our words */
#ifndef STORE_POSTGRES_PG_OWN_H
#define STORE_POSTGRES_PG_OWN_H

#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/pg.h"

#define PG_BYTES_MAX (UINT64_C(1) << 30) /* of the texts of a statement, and of an array */

/* PostgreSQL counts microseconds since 2000-01-01. */
#define PG_EPOCH_MS INT64_C(946684800000)
#define PG_TIME_MAX INT64_C(9000000000000000000)

static inline void pg_put32(char *to, uint32_t value)
{
    uint32_t big = htobe32(value);
    memcpy(to, &big, sizeof(big));
}

static inline void pg_put64(char *to, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    memcpy(to, &big, sizeof(big));
}

static inline int64_t pg_time_from_ms(int64_t time_ms)
{
    int64_t since;
    if (__builtin_sub_overflow(time_ms, PG_EPOCH_MS, &since) ||
        __builtin_mul_overflow(since, 1000, &since))
        return time_ms < 0 ? -PG_TIME_MAX : PG_TIME_MAX;
    return since > PG_TIME_MAX ? PG_TIME_MAX : since;
}

static inline int64_t pg_time_to_ms(int64_t time)
{
    return time / 1000 - (time % 1000 < 0) + PG_EPOCH_MS;
}

/* For what must not fail. */
static inline void pg_keep(enum err err)
{
    if (err) {
        fputs("no memory for a statement of the store\n", stderr);
        abort(); /* as memory_take() does: nobody could go on */
    }
}

/* Turns the error of `result`, or of the connection when that is NULL, into ours. The connection is
 * closed when it is of no use any more. */
enum err pg_fail(struct pg *pg, const PGresult *result, struct error *error);

/* Closes a connection that does not do what it should. ERR_UNAVAILABLE. */
enum err pg_give_up(struct pg *pg, const char *why, struct error *error);

void pg_forget_result(struct pg *pg);

#endif
