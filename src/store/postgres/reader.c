/* reader.c - a reader's connection, the one moment that a call of it sees, and what waits for an
 * id. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/raw.h"
#include "store/postgres/own.h"
#include "store/postgres/reader.h"

#define SCRATCH_MAX       (UINT64_C(1) << 31)
#define READER_TIMEOUT_MS 10000u

/* ---- connecting ---- */

static struct postgres_store *store_behind(struct postgres_reader *reader)
{
    return postgres_of(reader->base.store);
}

static enum err connect_reader(struct postgres_reader *reader, struct error *error)
{
    const struct postgres_store_options *given = &store_behind(reader)->options;
    if (pg_is_open(&reader->pg))
        return ERR_OK;
    struct pg_options options = {
        .url = given->url,
        .statement_timeout_ms = given->statement_timeout_ms < READER_TIMEOUT_MS
                                    ? given->statement_timeout_ms
                                    : READER_TIMEOUT_MS,
        .lock_timeout_ms = given->lock_timeout_ms,
        .read_only = true,
    };
    reader->kinds.count = 0; /* it may be another server */
    return pg_connect(&reader->pg, &options, error);
}

enum err postgres_reader_open(struct store *base, struct store_reader **ret, struct error *error)
{
    struct postgres_reader *reader = memory_take_zeroed(sizeof(*reader));
    reader->base.store = base;
    pg_init(&reader->pg);
    buffer_init(&reader->text, SCRATCH_MAX);
    buffer_init(&reader->raw, SCRATCH_MAX);
    enum err err = connect_reader(reader, error);
    /* An outage may end before the first question. */
    if (err && err != ERR_UNAVAILABLE) {
        postgres_reader_close(&reader->base);
        return err;
    }
    *ret = &reader->base;
    return ERR_OK;
}

void postgres_reader_close(struct store_reader *base)
{
    struct postgres_reader *reader = postgres_reader_of(base);
    pg_done(&reader->pg);
    sets_list_done(&reader->list);
    buffer_done(&reader->text);
    buffer_done(&reader->raw);
    free(reader->names);
    event_list_done(&reader->events);
    free(reader);
}

/* ---- one moment ---- */

/* To a reader nothing is refused: it is an outage. A connection that was ended while nobody used
 * it is found out by the first statement: that one is asked again, of a new connection. */
static enum err run(struct postgres_reader *reader, postgres_read_fn *read, void *arg,
                    bool in_transaction, struct error *error)
{
    enum err err = connect_reader(reader, error);
    if (!err && in_transaction)
        err = pg_execute(&reader->pg, "BEGIN", error);
    if (!err)
        err = read(reader, arg, error);
    event_list_clear(&reader->events);
    if (pg_in_transaction(&reader->pg) && pg_execute(&reader->pg, "COMMIT", NULL) && !err)
        err = error_set(error, ERR_UNAVAILABLE, "PostgreSQL: the connection was lost");
    return err == ERR_REFUSED ? ERR_UNAVAILABLE : err;
}

static enum err ask(struct postgres_reader *reader, postgres_read_fn *read, void *arg,
                    bool in_transaction, struct error *error)
{
    bool was_open = pg_is_open(&reader->pg);
    reader->has_answered = false;
    enum err err = run(reader, read, arg, in_transaction, error);
    if (err == ERR_UNAVAILABLE && was_open && !pg_is_open(&reader->pg) && !reader->has_answered)
        err = run(reader, read, arg, in_transaction, error);
    return err;
}

enum err postgres_read(struct postgres_reader *reader, postgres_read_fn *read, void *arg,
                       struct error *error)
{
    return ask(reader, read, arg, true, error);
}

enum err postgres_read_once(struct postgres_reader *reader, postgres_read_fn *read, void *arg,
                            struct error *error)
{
    return ask(reader, read, arg, false, error);
}

enum err postgres_reader_query(struct postgres_reader *reader, enum statement which,
                               struct error *error)
{
    enum err err = pg_query(&reader->pg, which, error);
    if (!err)
        reader->has_answered = true;
    return err;
}

/* ---- arrays of numbers ---- */

#define ARRAY_HEADER_BYTES 20u
#define ELEMENT_BYTES      12u /* its size, and an int8 */

size_t postgres_ints_count(struct slice array)
{
    return array.size < ARRAY_HEADER_BYTES ? 0 : (array.size - ARRAY_HEADER_BYTES) / ELEMENT_BYTES;
}

int64_t postgres_ints_get(struct slice array, size_t index)
{
    uint64_t value = 0;
    const unsigned char *at =
        (const unsigned char *)array.data + ARRAY_HEADER_BYTES + index * ELEMENT_BYTES + 4;
    for (unsigned i = 0; i < 8; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

/* ---- how far the store was at that moment ---- */

void postgres_reader_saw(struct postgres_reader *reader, struct slice sequences)
{
    size_t count = postgres_ints_count(sequences) / 2;
    memset(reader->seen, 0, sizeof(reader->seen));
    memset(reader->seen_ms, 0, sizeof(reader->seen_ms));
    for (size_t i = 0; i < count && i < LIMIT_CELLS; i++) {
        reader->seen[i] = (uint64_t)postgres_ints_get(sequences, i);
        reader->seen_ms[i] = postgres_ints_get(sequences, count + i);
    }
}

void postgres_seen(struct store_reader *base, uint64_t ret_sequences[LIMIT_CELLS])
{
    struct postgres_reader *reader = postgres_reader_of(base);
    memcpy(ret_sequences, reader->seen, sizeof(reader->seen));
}

void postgres_seen_ms(struct store_reader *base, int64_t ret_times_ms[LIMIT_CELLS])
{
    struct postgres_reader *reader = postgres_reader_of(base);
    memcpy(ret_times_ms, reader->seen_ms, sizeof(reader->seen_ms));
}

/* ---- kinds ---- */

enum err postgres_reader_kinds(struct postgres_reader *reader, unsigned up_to, struct error *error)
{
    if (up_to <= reader->kinds.count)
        return ERR_OK;
    enum err err = postgres_kinds_load(&reader->pg, &reader->kinds, error);
    if (!err && up_to > reader->kinds.count)
        err = error_set(error, ERR_CORRUPT, "kinds.number %u is used, and has no name", up_to);
    return err;
}

/* ---- what waits ---- */

/* The events point into the copy of their bytes, which outlives the result. */
enum err postgres_reader_pending(struct postgres_reader *reader, struct slice id,
                                 struct error *error)
{
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_text(pg, id);
    enum err err = postgres_reader_query(reader, SQL_READ_WAITING, error);
    if (err)
        return err;
    reader->raw.size = 0;
    for (int row = 0; row < pg_rows(pg); row++) {
        if (buffer_append_slice(&reader->raw, pg_slice(pg, row, 0)))
            return error_set(error, ERR_TOO_LARGE, "too much of %.*s waits", SLICE_ARGS(id));
    }
    struct slice raw = buffer_slice(&reader->raw);
    struct slice section;
    while (!err && raw_next(&raw, &section))
        err = event_list_add(&reader->events, section, error);
    if (!err && raw.size > 0)
        err = error_set(error, ERR_CORRUPT, "waiting: raw events of %.*s make no sense",
                        SLICE_ARGS(id));
    return err;
}
