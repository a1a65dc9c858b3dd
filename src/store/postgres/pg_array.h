/* pg_array.h - arrays as PostgreSQL takes them, in its binary form, and tables made of them.
 *
 * A statement that writes a thousand rows gets an array for each column. Memory is kept from
 * statement to statement. */
#ifndef STORE_POSTGRES_PG_ARRAY_H
#define STORE_POSTGRES_PG_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/number.h"
#include "base/slice.h"

enum pg_type {
    PG_BOOL = 16,
    PG_BYTES = 17,
    PG_INT = 20,
    PG_TEXT = 25,
    PG_TIME = 1184,
    PG_UUID = 2950,
};

/* An array of one dimension, in PostgreSQL's binary form. */
struct pg_array {
    struct buffer bytes;
    enum pg_type type;
    uint32_t count;
};

void pg_array_init(struct pg_array *array, enum pg_type type);
void pg_array_done(struct pg_array *array);
void pg_array_clear(struct pg_array *array);
void pg_array_int(struct pg_array *array, int64_t value);
void pg_array_time(struct pg_array *array, int64_t time_ms);
void pg_array_text(struct pg_array *array, struct slice text);
void pg_array_plain(struct pg_array *array, struct slice text);  /* needs no escapes */
void pg_array_bytes(struct pg_array *array, struct slice bytes); /* UUIDs, too */
void pg_array_bool(struct pg_array *array, bool value);
void pg_array_number(struct pg_array *array, const struct number *number); /* as text */
void pg_array_null(struct pg_array *array);

/* As it goes to the server; lives until the array is changed. */
struct slice pg_array_finish(struct pg_array *array);

/* The arrays of a statement that takes a table: a letter for each column. i int8, t text, n a
 * number as text, m a moment, b bool, x bytea, u uuid. */
#define PG_COLUMNS_MAX 12
struct pg_columns {
    struct pg_array of[PG_COLUMNS_MAX];
    unsigned count;
};

void pg_columns_init(struct pg_columns *columns);
void pg_columns_done(struct pg_columns *columns);
struct pg_array *pg_columns_begin(struct pg_columns *columns, const char *types);

#endif
