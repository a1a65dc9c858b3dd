#include "store/postgres/pg_array.h"

#include <assert.h>
#include <string.h>

#include "base/decimal.h"
#include "store/postgres/pg_own.h"
#include "store/postgres/pg_text.h"

#define HEADER_BYTES 20u

void pg_array_init(struct pg_array *array, enum pg_type type)
{
    *array = (struct pg_array){.type = type};
    buffer_init(&array->bytes, PG_BYTES_MAX);
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
    pg_keep(buffer_reserve(&array->bytes, HEADER_BYTES));
    array->bytes.size = HEADER_BYTES;
}

/* Room for an element of so many bytes, its length written down. */
static char *element(struct pg_array *array, size_t size)
{
    pg_keep(buffer_reserve(&array->bytes, 4 + size));
    char *at = array->bytes.data + array->bytes.size;
    pg_put32(at, (uint32_t)size);
    array->bytes.size += 4 + size;
    array->count++;
    return at + 4;
}

void pg_array_int(struct pg_array *array, int64_t value)
{
    pg_put64(element(array, 8), value);
}

void pg_array_time(struct pg_array *array, int64_t time_ms)
{
    pg_put64(element(array, 8), pg_time_from_ms(time_ms));
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
    if (pg_text_is_plain(text)) {
        pg_array_bytes(array, text);
        return;
    }
    size_t start = array->bytes.size;
    (void)element(array, 0);
    pg_text_escape(text, &array->bytes);
    pg_put32(array->bytes.data + start, (uint32_t)(array->bytes.size - start - 4));
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
    pg_keep(number_format(number, &array->bytes));
    pg_put32(array->bytes.data + start, (uint32_t)(array->bytes.size - start - 4));
}

void pg_array_null(struct pg_array *array)
{
    pg_put32(element(array, 0) - 4, UINT32_MAX);
}

/* Nothing at all is an array of no dimension. */
struct slice pg_array_finish(struct pg_array *array)
{
    char *to = array->bytes.data;
    pg_put32(to, array->count > 0 ? 1 : 0);
    pg_put32(to + 4, 1); /* there may be NULLs */
    pg_put32(to + 8, (uint32_t)array->type);
    pg_put32(to + 12, array->count);
    pg_put32(to + 16, 1);
    return (struct slice){to, array->count > 0 ? array->bytes.size : 12};
}

/* ---- the columns of a table ---- */

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
