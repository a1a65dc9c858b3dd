/* pg_args.c - what a statement is asked with. Small things are copied; bytes and arrays are not. */
#include <assert.h>

#include "store/postgres/pg_own.h"
#include "store/postgres/pg_text.h"

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
    pg_keep(buffer_append(&pg->texts, data, size));
    arg->size = (int)size;
}

void pg_arg_int(struct pg *pg, int64_t value)
{
    char bytes[8];
    pg_put64(bytes, value);
    copy_arg(pg, bytes, sizeof(bytes));
}

void pg_arg_time(struct pg *pg, int64_t time_ms)
{
    pg_arg_int(pg, pg_time_from_ms(time_ms));
}

void pg_arg_text(struct pg *pg, struct slice text)
{
    if (pg_text_is_plain(text)) {
        copy_arg(pg, text.data, text.size);
        return;
    }
    struct pg_arg *arg = next_arg(pg);
    pg_text_escape(text, &pg->texts);
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
    pg_keep(number_format(number, &pg->texts));
    arg->size = (int)(pg->texts.size - arg->offset);
}

void pg_arg_array(struct pg *pg, struct pg_array *array)
{
    struct slice bytes = pg_array_finish(array);
    struct pg_arg *arg = next_arg(pg);
    arg->data = bytes.data;
    arg->size = (int)bytes.size;
}

void pg_arg_null(struct pg *pg)
{
    next_arg(pg)->is_null = true;
}

void pg_arg_columns(struct pg *pg, struct pg_columns *columns)
{
    for (unsigned i = 0; i < columns->count; i++)
        pg_arg_array(pg, &columns->of[i]);
}
