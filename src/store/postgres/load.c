/* load.c - what hot state is loaded from: counters and items with their members, users, keys. And
 * the audit's look, which counts the same members. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/user.h"
#include "store/postgres/load_own.h"

/* ---- a row ---- */

static enum err read_counts(struct pg *pg, int at, struct load_row *row, struct error *error)
{
    struct slice kinds = pg_slice(pg, at, TARGET_KINDS);
    struct slice counts = pg_slice(pg, at, TARGET_COUNTS);
    size_t count = postgres_ints_count(kinds);
    for (size_t i = 0; i < count; i++) {
        int64_t kind = postgres_ints_get(kinds, i);
        if (kind < 1 || kind >= (int64_t)SETS_KINDS || i >= SETS_KINDS)
            return error_set(error, ERR_CORRUPT, "counts.item %lld: a kind that cannot be",
                             (long long)row->number);
        row->kinds[i] = (unsigned)kind;
        row->counts[i] = postgres_ints_get(counts, i);
    }
    row->target.kind_count = count;
    return ERR_OK;
}

/* What makes no sense in a row that is wrong anyway is nothing: it is counted anew. */
static enum err read_columns(struct pg *pg, int at, struct load_row *row, struct error *error)
{
    struct state_target *target = &row->target;
    target->is_item = pg_int(pg, at, TARGET_TYPE) == ENTRY_ITEM;
    target->incarnation = (uint32_t)pg_int(pg, at, TARGET_INCARNATION);
    target->written_ms = pg_time(pg, at, TARGET_UPDATED);
    target->is_wrong = !pg_bool(pg, at, TARGET_FITS);
    bool settings_wrong =
        settings_parse(pg_slice(pg, at, TARGET_SETTINGS), &target->create) != ERR_OK;
    bool value_wrong = false;
    if (target->is_item) {
        target->slices = (uint32_t)pg_int(pg, at, TARGET_SLICES);
    } else {
        target->deadline_ms = pg_int(pg, at, TARGET_DEADLINE);
        value_wrong = pg_number(pg, at, TARGET_VALUE, &target->value) != ERR_OK;
    }
    if ((settings_wrong || value_wrong) && !target->is_wrong)
        return error_set(error, ERR_CORRUPT,
                         "entries.number %lld: its value or settings make no sense",
                         (long long)row->number);
    if (settings_wrong)
        (void)settings_parse(SLICE(""), &target->create);
    if (value_wrong) { /* else what is added to put it right is added to what stands there */
        number_done(&target->value);
        target->value = number_of(0);
    }
    return target->is_item ? read_counts(pg, at, row, error) : ERR_OK;
}

/* Members of a whole item, as numbers in reader->list: they come with the row. */
static enum err read_sets(struct postgres_reader *reader, struct slice sets, int64_t number,
                          struct error *error)
{
    if (sets_read(sets, &reader->list))
        return error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                         (long long)number);
    return ERR_OK;
}

enum err load_read_row(struct postgres_reader *reader, int at, struct slice id,
                       struct load_row *row, struct error *error)
{
    struct pg *pg = &reader->pg;
    *row = (struct load_row){.target = {.id = id}};
    row->waits = pg_bool(pg, at, TARGET_WAITS);
    row->number = pg_int(pg, at, TARGET_NUMBER);
    enum err err = row->number == 0 ? ERR_OK : read_columns(pg, at, row, error);
    if (err)
        number_done(&row->target.value);
    return err;
}

/* ERR_OK also without a row: row->number is 0 then. */
static enum err read_row(struct postgres_reader *reader, struct slice id, struct load_row *row,
                         struct error *error)
{
    struct pg *pg = &reader->pg;
    *row = (struct load_row){.target = {.id = id}};
    pg_args(pg);
    pg_arg_text(pg, id);
    enum err err = postgres_reader_query(reader, SQL_READ_TARGET, error);
    if (err)
        return err;
    postgres_reader_saw(reader, pg_slice(pg, 0, TARGET_SEQUENCES));
    err = load_read_row(reader, 0, id, row, error);
    if (!err && row->target.is_item && row->target.slices == 1)
        err = read_sets(reader, pg_slice(pg, 0, TARGET_MEMBERS), row->number, error);
    return err;
}

enum err load_name_kinds(struct postgres_reader *reader, struct load_row *row, struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < row->target.kind_count && !err; i++) {
        err = postgres_reader_kinds(reader, row->kinds[i], error);
        row->kind_names[i] = kind_names_at(&reader->kinds, row->kinds[i]);
    }
    row->target.kinds = row->kind_names;
    row->target.counts = row->counts;
    return err;
}

/* ---- members ---- */

/* Adds a member to the last group, or begins a new one: they come sorted. */
static void add_member(struct postgres_reader *reader, unsigned kind, int64_t user_id)
{
    struct sets_list *list = &reader->list;
    bool named = user_id < 0;
    struct sets_group *last = list->group_count > 0 ? &list->groups[list->group_count - 1] : NULL;
    if (!last || last->kind != kind || last->named != named) {
        last = &list->groups[list->group_count++];
        *last =
            (struct sets_group){.kind = (uint8_t)kind, .named = named, .first = list->number_count};
    }
    if (list->number_count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->numbers = memory_resize(list->numbers, list->capacity * sizeof(*list->numbers));
    }
    list->numbers[list->number_count++] = (uint32_t)(named ? -1 - user_id : user_id);
    last->count++;
}

static void need_names(struct postgres_reader *reader, size_t count)
{
    if (reader->name_capacity >= count)
        return;
    reader->name_capacity = count + count / 2;
    reader->names = memory_resize(reader->names, reader->name_capacity * sizeof(*reader->names));
}

static enum err no_name(uint32_t number, struct error *error)
{
    return error_set(error, ERR_CORRUPT, "users.number %u is a member and has no name", number);
}

enum err load_list_rows(struct postgres_reader *reader, int first, int end, struct error *error)
{
    struct pg *pg = &reader->pg;
    bool with_names = load_wants_names(reader);
    reader->list.group_count = reader->list.number_count = 0;
    need_names(reader, with_names ? (size_t)(end - first) : 0);
    for (int row = first; row < end; row++) {
        int64_t kind = pg_int(pg, row, 0);
        int64_t user_id = pg_int(pg, row, 1);
        if (kind < 1 || kind >= (int64_t)SETS_KINDS)
            return error_set(error, ERR_CORRUPT, "reactions: a kind that cannot be");
        add_member(reader, (unsigned)kind, user_id);
        if (!with_names)
            continue;
        reader->names[row - first] = pg_text(pg, row, 2);
        if (user_id < 0 && pg_is_null(pg, row, 2))
            return no_name((uint32_t)(-1 - user_id), error);
    }
    return ERR_OK;
}

/* The name of a number in a result that is sorted by number. */
static struct slice find_name(struct pg *pg, uint32_t number)
{
    int low = 0;
    int high = pg_rows(pg);
    while (low < high) {
        int middle = (low + high) / 2;
        if (pg_int(pg, middle, 0) < (int64_t)number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == pg_rows(pg) || pg_int(pg, low, 0) != (int64_t)number)
        return (struct slice){NULL, 0};
    return pg_text(pg, low, 1);
}

static enum err ask_names(struct postgres_reader *reader, const uint32_t *numbers, size_t count,
                          struct error *error)
{
    struct pg_array array;
    pg_array_init(&array, PG_INT);
    for (size_t i = 0; i < count; i++)
        pg_array_int(&array, numbers[i]);
    pg_args(&reader->pg);
    pg_arg_array(&reader->pg, &array);
    enum err err = postgres_reader_query(reader, SQL_READ_NAMES, error);
    pg_array_done(&array);
    return err;
}

/* Names for the numbers of reader->list; those of groups that have none are asked for in vain. */
static enum err name_list(struct postgres_reader *reader, struct error *error)
{
    struct sets_list *list = &reader->list;
    if (!load_wants_names(reader) || list->number_count == 0)
        return ERR_OK;
    need_names(reader, list->number_count);
    enum err err = ask_names(reader, list->numbers, list->number_count, error);
    for (size_t g = 0; g < list->group_count && !err; g++) {
        const struct sets_group *group = &list->groups[g];
        for (size_t i = group->first; group->named && i < group->first + group->count; i++) {
            reader->names[i] = find_name(&reader->pg, list->numbers[i]);
            if (!reader->names[i].data)
                return no_name(list->numbers[i], error);
        }
    }
    return err;
}

static unsigned most_kind(const struct postgres_reader *reader)
{
    unsigned most = 0;
    for (size_t g = 0; g < reader->list.group_count; g++) {
        if (reader->list.groups[g].kind > most)
            most = reader->list.groups[g].kind;
    }
    return most;
}

/* The kinds' names must be known before: to ask for them would end the result that names are in. */
static enum err know_kinds(struct postgres_reader *reader, struct error *error)
{
    return postgres_reader_kinds(reader, most_kind(reader), error);
}

void load_fill_groups(struct postgres_reader *reader)
{
    for (size_t g = 0; g < reader->list.group_count; g++) {
        const struct sets_group *group = &reader->list.groups[g];
        bool by_name = group->named && load_wants_names(reader);
        reader->groups[g] = (struct state_members){
            .kind = kind_names_at(&reader->kinds, group->kind),
            .named = group->named,
            .numbers = by_name ? NULL : reader->list.numbers + group->first,
            .names = by_name ? reader->names + group->first : NULL,
            .count = group->count,
        };
    }
}

/* Asks for rows of `reactions`; `slice` below 0: for all of them. */
static enum err ask_rows(struct postgres_reader *reader, int64_t number, int64_t slice,
                         struct error *error)
{
    struct pg *pg = &reader->pg;
    bool with_names = load_wants_names(reader);
    pg_args(pg);
    pg_arg_int(pg, number);
    if (slice < 0)
        return postgres_reader_query(reader, with_names ? SQL_READ_WHOLE_NAMED : SQL_READ_WHOLE,
                                     error);
    pg_arg_int(pg, slice);
    return postgres_reader_query(reader, with_names ? SQL_READ_SLICE_NAMED : SQL_READ_SLICE, error);
}

static enum err ask_and_list(struct postgres_reader *reader, int64_t number, int64_t slice,
                             struct error *error)
{
    enum err err = ask_rows(reader, number, slice, error);
    return err ? err : load_list_rows(reader, 0, pg_rows(&reader->pg), error);
}

/* A kind that is new to us is asked for, and then the rows once more, of the same moment. */
static enum err read_rows(struct postgres_reader *reader, int64_t number, int64_t slice,
                          struct error *error)
{
    enum err err = ask_and_list(reader, number, slice, error);
    if (err || most_kind(reader) <= reader->kinds.count)
        return err;
    err = know_kinds(reader, error);
    return err ? err : ask_and_list(reader, number, slice, error);
}

/* Members of a whole item: in reader->groups. */
static enum err read_whole(struct postgres_reader *reader, int64_t number, struct error *error)
{
    enum err err;
    if (load_keeps_sets(reader)) {
        err = know_kinds(reader, error);
        if (!err)
            err = name_list(reader, error);
    } else {
        err = read_rows(reader, number, -1, error);
    }
    if (!err)
        load_fill_groups(reader);
    return err;
}

static enum err read_slice(struct postgres_reader *reader, int64_t number, uint32_t slice,
                           struct error *error)
{
    struct pg *pg = &reader->pg;
    enum err err;
    if (!load_keeps_sets(reader)) {
        err = read_rows(reader, number, slice, error);
    } else {
        pg_args(pg);
        pg_arg_int(pg, number);
        pg_arg_int(pg, slice);
        err = postgres_reader_query(reader, SQL_READ_SETS, error);
        struct slice none = {NULL, 0};
        if (!err)
            err = read_sets(reader, pg_rows(pg) > 0 ? pg_slice(pg, 0, 0) : none, number, error);
        if (!err)
            err = know_kinds(reader, error);
        if (!err)
            err = name_list(reader, error);
    }
    if (!err)
        load_fill_groups(reader);
    return err;
}

/* ---- loading ---- */

struct load {
    struct slice id;
    store_target_fn *visit;
    void *arg;
    bool is_done;
};

/* A counter of which nothing waits is one statement; so is what is not there. */
static enum err load_plainly(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct load *call = arg;
    struct load_row row;
    enum err err = read_row(reader, call->id, &row, error);
    call->is_done = !err && !row.waits && (row.number == 0 || !row.target.is_item);
    if (call->is_done && row.number == 0)
        err = ERR_NOT_FOUND;
    else if (call->is_done)
        call->visit(call->arg, &row.target);
    number_done(&row.target.value);
    return err;
}

static enum err load_whole(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct load *call = arg;
    struct load_row row;
    enum err err = read_row(reader, call->id, &row, error);
    if (!err && row.waits)
        err = postgres_reader_pending(reader, call->id, error);
    if (!err && row.target.is_item)
        err = load_name_kinds(reader, &row, error);
    if (!err && row.target.is_item && row.target.slices == 1)
        err = read_whole(reader, row.number, error);
    if (!err) {
        struct state_target *target = &row.target;
        target->absent = row.number == 0;
        target->members = reader->groups;
        target->member_count =
            target->is_item && target->slices == 1 ? reader->list.group_count : 0;
        target->pending = reader->events.events;
        target->pending_count = reader->events.count;
        if (target->absent && target->pending_count == 0)
            err = ERR_NOT_FOUND;
        else
            call->visit(call->arg, target);
    }
    number_done(&row.target.value);
    return err;
}

enum err postgres_load(struct store_reader *base, struct slice id, store_target_fn *visit,
                       void *arg, struct error *error)
{
    struct postgres_reader *reader = postgres_reader_of(base);
    struct load call = {.id = id, .visit = visit, .arg = arg};
    enum err err = postgres_read_once(reader, load_plainly, &call, error);
    if (err || call.is_done)
        return err;
    return postgres_read(reader, load_whole, &call, error);
}

struct load_slice {
    struct slice item;
    uint32_t slice;
    store_members_fn *visit;
    void *arg;
};

static enum err load_slice(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct load_slice *call = arg;
    struct load_row row;
    enum err err = read_row(reader, call->item, &row, error);
    if (!err && (!row.target.is_item || row.target.slices != STATE_SLICES))
        err = ERR_NOT_FOUND;
    if (!err && row.waits)
        err = postgres_reader_pending(reader, call->item, error);
    if (!err)
        err = read_slice(reader, row.number, call->slice, error);
    if (!err)
        call->visit(call->arg, reader->groups, reader->list.group_count, reader->events.events,
                    reader->events.count);
    number_done(&row.target.value);
    return err;
}

enum err postgres_load_slice(struct store_reader *base, struct slice item, uint32_t slice,
                             store_members_fn *visit, void *arg, struct error *error)
{
    struct load_slice call = {.item = item, .slice = slice, .visit = visit, .arg = arg};
    return postgres_read(postgres_reader_of(base), load_slice, &call, error);
}

/* ---- the audit ---- */

struct inspect {
    struct slice id;
    struct slice kind;
    struct number *ret_value;
    int64_t *ret_members;
    struct state_mark *ret_mark;
};

static enum err count_sets(struct postgres_reader *reader, int64_t number, unsigned kind,
                           int64_t *ret_members, struct error *error)
{
    int64_t counts[SETS_KINDS] = {0};
    int64_t all = 0;
    struct pg *pg = &reader->pg;
    pg_args(pg);
    pg_arg_int(pg, number);
    enum err err = postgres_reader_query(reader, SQL_READ_SETS_ALL, error);
    for (int row = 0; !err && row < pg_rows(pg); row++) {
        if (sets_count(pg_slice(pg, row, 0), counts, &all))
            err = error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                            (long long)number);
    }
    *ret_members = counts[kind];
    return err;
}

static enum err count_members(struct postgres_reader *reader, int64_t number, unsigned kind,
                              int64_t *ret_members, struct error *error)
{
    if (load_keeps_sets(reader))
        return count_sets(reader, number, kind, ret_members, error);
    pg_args(&reader->pg);
    pg_arg_int(&reader->pg, number);
    pg_arg_int(&reader->pg, kind);
    enum err err = postgres_reader_query(reader, SQL_READ_MEMBER_COUNT, error);
    if (!err)
        *ret_members = pg_int(&reader->pg, 0, 0);
    return err;
}

static enum err inspect_item(struct postgres_reader *reader, const struct load_row *row,
                             struct inspect *call, struct error *error)
{
    enum err err = postgres_kinds_load(&reader->pg, &reader->kinds, error);
    unsigned kind = err ? SETS_KINDS : kind_names_find(&reader->kinds, call->kind);
    *call->ret_value = number_of(0);
    if (kind == SETS_KINDS)
        return err;
    for (size_t i = 0; i < row->target.kind_count; i++) {
        if (row->kinds[i] == kind)
            *call->ret_value = number_of(row->counts[i]);
    }
    return count_members(reader, row->number, kind, call->ret_members, error);
}

static enum err inspect(struct postgres_reader *reader, void *arg, struct error *error)
{
    struct inspect *call = arg;
    struct load_row row;
    *call->ret_members = 0;
    enum err err = postgres_read_mark(&reader->pg, call->ret_mark, error);
    if (!err)
        err = read_row(reader, call->id, &row, error);
    if (err)
        return err;
    if (row.number == 0 || row.target.is_item != (call->kind.size > 0))
        err = ERR_NOT_FOUND;
    else if (row.target.is_item)
        err = inspect_item(reader, &row, call, error);
    else
        *call->ret_value = number_copy(&row.target.value);
    number_done(&row.target.value);
    return err;
}

enum err postgres_inspect(struct store_reader *base, struct slice id, struct slice kind,
                          struct number *ret_value, int64_t *ret_members,
                          struct state_mark *ret_mark, struct error *error)
{
    struct inspect call = {id, kind, ret_value, ret_members, ret_mark};
    return postgres_read(postgres_reader_of(base), inspect, &call, error);
}
