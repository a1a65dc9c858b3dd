/* load_many.c - many counters and items in a few statements, since each of them is a way to the
 * server and back.
 *
 * The first statement answers for all that are not there and for counters. Items with their members
 * are of one moment: a transaction, in which their rows are read again, and then the members of all
 * of them. What is rare is loaded by itself: an id of which something waits, and an item whose
 * members are sets. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "store/postgres/load_own.h"

enum load_state { LEFT, TO_LOAD_ALONE, GIVEN };

struct load_many {
    const struct slice *ids;
    size_t count;
    store_targets_fn *visit;
    void *arg;
    unsigned char *states; /* enum load_state of each */
    struct load_row *rows; /* of the items that are read together */
    size_t *places;        /* and where their ids are */
    size_t row_count;
};

static void give(struct load_many *call, size_t place, const struct state_target *target)
{
    call->states[place] = GIVEN;
    call->visit(call->arg, place, target);
}

/* ---- rows ---- */

/* Asks for the rows of those that are left; `places` says whose they are. */
static enum err ask_rows(struct postgres_reader *reader, struct load_many *call, size_t *places,
                         struct error *error)
{
    struct pg *pg = &reader->pg;
    struct pg_array ids;
    size_t count = 0;
    pg_array_init(&ids, PG_TEXT);
    for (size_t i = 0; i < call->count; i++) {
        if (call->states[i] != LEFT)
            continue;
        pg_array_text(&ids, call->ids[i]);
        places[count++] = i;
    }
    pg_args(pg);
    pg_arg_array(pg, &ids);
    enum err err = postgres_reader_query(reader, SQL_READ_TARGETS, error);
    pg_array_done(&ids);
    if (!err && (size_t)pg_rows(pg) != count)
        err = error_set(error, ERR_CORRUPT, "entries: an id has several rows");
    if (!err)
        postgres_reader_saw(reader, pg_slice(pg, 0, TARGET_SEQUENCES));
    return err;
}

static bool must_be_alone(const struct postgres_reader *reader, const struct load_row *row)
{
    return row->waits ||
           (row->target.is_item && row->target.slices == 1 && load_keeps_sets(reader));
}

/* Gives what one statement says all about. */
static enum err load_plain(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct load_many *call = arg;
    enum err err = ask_rows(reader, call, call->places, error);
    int rows = err ? 0 : pg_rows(&reader->pg);
    for (int at = 0; at < rows && !err; at++) {
        struct load_row row;
        size_t place = call->places[at];
        err = load_read_row(reader, at, call->ids[place], &row, error);
        if (err)
            break;
        if (must_be_alone(reader, &row))
            call->states[place] = TO_LOAD_ALONE;
        else if (!row.target.is_item)
            give(call, place, row.number == 0 ? NULL : &row.target);
        number_done(&row.target.value);
    }
    return err;
}

/* ---- items ---- */

/* What has become of the items meanwhile, and the names of their kinds. What is no plain item any
 * more is loaded alone. */
static enum err read_items(struct postgres_reader *reader, struct load_many *call,
                           struct error *error)
{
    size_t kept = 0;
    enum err err = ask_rows(reader, call, call->places, error);
    int rows = err ? 0 : pg_rows(&reader->pg);
    for (int at = 0; at < rows && !err; at++) {
        struct load_row *row = &call->rows[kept];
        size_t place = call->places[at];
        err = load_read_row(reader, at, call->ids[place], row, error);
        if (err)
            break;
        if (row->target.is_item && !must_be_alone(reader, row)) {
            call->places[kept++] = place;
            continue;
        }
        call->states[place] = TO_LOAD_ALONE;
        number_done(&row->target.value);
    }
    call->row_count = kept;
    for (size_t i = 0; i < kept && !err; i++)
        err = load_name_kinds(reader, &call->rows[i], error);
    return err;
}

/* Members of all whole items: the last column says of which. */
static enum err ask_members(struct postgres_reader *reader, const struct load_many *call,
                            struct error *error)
{
    struct pg_array items;
    pg_array_init(&items, PG_INT);
    for (size_t i = 0; i < call->row_count; i++)
        pg_array_int(&items, call->rows[i].target.slices == 1 ? call->rows[i].number : 0);
    pg_args(&reader->pg);
    pg_arg_array(&reader->pg, &items);
    enum err err = postgres_reader_query(
        reader, load_wants_names(reader) ? SQL_READ_WHOLES_NAMED : SQL_READ_WHOLES, error);
    pg_array_done(&items);
    return err;
}

static unsigned most_kind(const struct pg *pg)
{
    int64_t most = 0;
    for (int row = 0; row < pg_rows(pg); row++) {
        if (pg_int(pg, row, 0) > most && pg_int(pg, row, 0) < (int64_t)SETS_KINDS)
            most = pg_int(pg, row, 0);
    }
    return (unsigned)most;
}

/* A kind that is new to us is asked for, and then the members once more, of the same moment. */
static enum err read_members(struct postgres_reader *reader, const struct load_many *call,
                             struct error *error)
{
    enum err err = ask_members(reader, call, error);
    unsigned most = err ? 0 : most_kind(&reader->pg);
    if (err || most <= reader->kinds.count)
        return err;
    err = postgres_reader_kinds(reader, most, error);
    return err ? err : ask_members(reader, call, error);
}

static enum err give_items(struct postgres_reader *reader, struct load_many *call,
                           struct error *error)
{
    enum { PLACE = 3 };
    struct pg *pg = &reader->pg;
    enum err err = ERR_OK;
    int first = 0;
    for (size_t i = 0; i < call->row_count && !err; i++) {
        struct state_target *target = &call->rows[i].target;
        int end = first;
        while (end < pg_rows(pg) && pg_int(pg, end, PLACE) == (int64_t)i + 1)
            end++;
        err = load_list_rows(reader, first, end, error);
        if (err)
            break;
        load_fill_groups(reader);
        target->members = reader->groups;
        target->member_count = reader->list.group_count;
        give(call, call->places[i], target);
        first = end;
    }
    return err;
}

static enum err load_items(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct load_many *call = arg;
    enum err err = read_items(reader, call, error);
    if (!err && call->row_count > 0)
        err = read_members(reader, call, error);
    return err || call->row_count == 0 ? err : give_items(reader, call, error);
}

/* ---- alone ---- */

struct alone {
    struct load_many *call;
    size_t place;
};

static void give_alone(void *arg, const struct state_target *target)
{
    struct alone *alone = arg;
    give(alone->call, alone->place, target);
}

static enum err load_alone(struct store_reader *base, struct load_many *call, struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < call->count && !err; i++) {
        struct alone alone = {call, i};
        if (call->states[i] != TO_LOAD_ALONE)
            continue;
        err = postgres_load(base, call->ids[i], give_alone, &alone, error);
        if (err == ERR_NOT_FOUND) {
            give(call, i, NULL);
            err = ERR_OK;
        }
    }
    return err;
}

static bool is_any_left(const struct load_many *call)
{
    for (size_t i = 0; i < call->count; i++) {
        if (call->states[i] == LEFT)
            return true;
    }
    return false;
}

enum err postgres_load_many(struct store_reader *base, const struct slice *ids, size_t count,
                            store_targets_fn *visit, void *arg, struct error *error)
{
    struct postgres_reader *reader = postgres_reader_of(base);
    struct load_many call = {.ids = ids, .count = count, .visit = visit, .arg = arg};
    if (count == 0)
        return ERR_OK;
    call.states = memory_take_zeroed(count);
    call.places = memory_take(count * sizeof(*call.places));
    enum err err = postgres_read_once(reader, load_plain, &call, error);
    if (!err && is_any_left(&call)) {
        call.rows = memory_take(count * sizeof(*call.rows));
        err = postgres_read(reader, load_items, &call, error);
    }
    if (!err)
        err = load_alone(base, &call, error);
    free(call.rows);
    free(call.places);
    free(call.states);
    return err;
}
