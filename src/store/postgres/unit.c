/* unit.c - what a set of units does, as few statements for all of them. Counters that are only
 * added to are updated unseen once their rows are known; for the others the rows are read first and
 * it is decided here what becomes of each. The members decide: a count moves by what the tables
 * have gained or lost, whatever the events say was held before.
 *
 * Where others write at the same time (a log of many lanes), rows are locked before they are
 * read, in the order of their ids. Otherwise the lock of `progress` keeps everybody else out. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "store/postgres/own.h"

/* The home cell of an id is in the upper bits of its hash, one of LIMIT_CELLS. */
#define HOME_SHIFT 58u
static_assert(LIMIT_CELLS == 64, "six bits");

void postgres_scratch_init(struct scratch *scratch)
{
    *scratch = (struct scratch){0};
    pg_columns_init(&scratch->columns);
}

void postgres_scratch_done(struct scratch *scratch)
{
    pg_columns_done(&scratch->columns);
    free(scratch->works);
    free(scratch->user_ids);
    free(scratch->deltas);
}

/* ---- deltas as text ---- */

bool postgres_adds_only(const struct store_unit *unit)
{
    return !unit->is_item && !unit->is_gone && !unit->is_new && !unit->has_create &&
           !unit->has_deadline;
}

static void write_number(struct postgres_store *store, const struct number *delta)
{
    store->delta.size = 0;
    (void)number_format(delta, &store->delta);
}

/* {"like":3,"dislike":-1} */
static void write_deltas(struct postgres_store *store, const int64_t *deltas)
{
    struct buffer *to = &store->delta;
    to->size = 0;
    char comma = '{';
    for (unsigned kind = 1; kind <= store->kinds.count; kind++) {
        if (deltas[kind] == 0)
            continue;
        (void)buffer_printf(to, "%c\"%.*s\":%lld", comma,
                            SLICE_ARGS(kind_names_at(&store->kinds, kind)),
                            (long long)deltas[kind]);
        comma = ',';
    }
    (void)buffer_printf(to, "%s", comma == '{' ? "{}" : "}");
}

void postgres_delta_done(struct postgres_store *store, const struct work *work)
{
    struct number zero = number_of(0);
    if (work->unit->is_item)
        write_deltas(store, postgres_deltas(store, work));
    else
        write_number(store, work->is_done ? &work->unit->delta : &zero);
}

/* Of an erased user, and of a unit that is not applied, only the counts can be followed. */
static void count_claimed(const struct kind_names *kinds, const struct store_reaction *reaction,
                          int64_t *deltas)
{
    unsigned before = kind_names_find(kinds, reaction->before);
    unsigned after = kind_names_find(kinds, reaction->after);
    if (before != 0 && before <= kinds->count)
        deltas[before]--;
    if (after != 0 && after <= kinds->count)
        deltas[after]++;
}

void postgres_delta_expected(struct postgres_store *store, const struct store_unit *unit)
{
    if (!unit->is_item) {
        write_number(store, &unit->delta);
        return;
    }
    int64_t deltas[SETS_KINDS] = {0};
    for (size_t i = 0; i < unit->reaction_count; i++)
        count_claimed(&store->kinds, &unit->reactions[i], deltas);
    write_deltas(store, deltas);
}

/* ---- rows of entries ---- */

static void read_entry(struct pg *pg, int row, struct entry *ret_entry)
{
    *ret_entry = (struct entry){
        .number = pg_int(pg, row, 1),
        .type = (enum entry_type)pg_int(pg, row, 2),
        .incarnation = (uint32_t)pg_int(pg, row, 3),
        .slices = (uint32_t)pg_int(pg, row, 4),
        .held = pg_int(pg, row, 5),
    };
}

enum err postgres_entry_lock(struct postgres_store *store, struct slice id, struct entry *ret_entry,
                             struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "t");
    pg_array_text(&to[0], id);
    enum err err = pg_query_columns(&store->pg, SQL_ENTRIES_LOCK, &store->scratch.columns, error);
    if (err)
        return err;
    if (pg_rows(&store->pg) == 0)
        return ERR_NOT_FOUND;
    read_entry(&store->pg, 0, ret_entry);
    return ERR_OK;
}

static enum err find_entries(struct postgres_store *store, struct work *const *works, size_t count,
                             struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "t");
    for (size_t i = 0; i < count; i++) {
        works[i]->entry = (struct entry){0};
        pg_array_text(&to[0], works[i]->unit->id);
    }
    if (count == 0)
        return ERR_OK;
    enum err err = pg_query_columns(pg, store->is_shared ? SQL_ENTRIES_LOCK : SQL_ENTRIES,
                                    &store->scratch.columns, error);
    for (int row = 0; !err && row < pg_rows(pg); row++)
        read_entry(pg, row, &works[pg_int(pg, row, 0) - 1]->entry);
    return err;
}

static int64_t time_of(const struct store_unit *unit)
{
    return unit->last_ms != 0 ? unit->last_ms : unit->first_ms;
}

/* Others may have deleted it since the unit was made: then its home cell is further. */
static bool may_create(const struct postgres_store *store, const struct work *work)
{
    const struct store_unit *unit = work->unit;
    if (!unit->may_create || !store->is_shared)
        return unit->may_create;
    return unit->incarnation >= store->homes[work->hash >> HOME_SHIFT];
}

/* ---- counters that are only added to ---- */

/* One that has a row, as far as we know, and is added to. */
static bool is_plain(const struct postgres_store *store, const struct work *work)
{
    return postgres_adds_only(work->unit) && work->unit->last_ms != 0 &&
           known_has(&store->counters, work->hash);
}

static void gather_plain(struct postgres_store *store, struct work *const *works, size_t count)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "timn");
    for (size_t i = 0; i < count; i++) {
        const struct store_unit *unit = works[i]->unit;
        pg_array_text(&to[0], unit->id);
        pg_array_int(&to[1], unit->incarnation);
        pg_array_time(&to[2], unit->last_ms);
        pg_array_number(&to[3], &unit->delta);
    }
}

/* Adds to the rows that are there, and leaves in `works` those that have to be looked at after all:
 * there is no row, or one of another incarnation, or of an item. An upsert of what is there costs
 * twice as much as an update. */
static enum err add_plain(struct postgres_store *store, struct work **works, size_t *count,
                          struct error *error)
{
    struct pg *pg = &store->pg;
    if (*count == 0)
        return ERR_OK;
    gather_plain(store, works, *count);
    enum err err = pg_query_columns(pg, SQL_COUNTERS_ADD, &store->scratch.columns, error);
    if (err)
        return err;
    for (int row = 0; row < pg_rows(pg); row++)
        works[pg_int(pg, row, 0) - 1]->is_done = true;
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        if (!works[i]->is_done)
            works[kept++] = works[i];
    }
    *count = kept;
    return ERR_OK;
}

/* ---- what becomes of each ---- */

/* Works by what is to be done, each with room for all. */
struct plan {
    struct work **remove; /* counters whose row goes */
    size_t remove_count;
    struct work **bury; /* items that are no more, but that the history speaks of */
    size_t bury_count;
    struct work **wipe; /* items whose members go, because they are buried or begin anew */
    size_t wipe_count;
    struct work **make; /* counters without a row */
    size_t make_count;
    struct work **set; /* counters with one */
    size_t set_count;
    struct work **add; /* items without a row */
    size_t add_count;
    struct work **alter; /* items whose row changes */
    size_t alter_count;
    struct work **live; /* items whose members change */
    size_t live_count;
};
#define PLAN_LISTS 8u

static struct work **plan_init(struct plan *plan, size_t count)
{
    struct work **room = memory_take((count + 1) * PLAN_LISTS * sizeof(struct work *));
    *plan = (struct plan){
        .remove = room,
        .bury = room + count,
        .wipe = room + 2 * count,
        .make = room + 3 * count,
        .set = room + 4 * count,
        .add = room + 5 * count,
        .alter = room + 6 * count,
        .live = room + 7 * count,
    };
    return room;
}

/* A unit of an incarnation that is over, or that never was. */
static bool is_late(const struct postgres_store *store, const struct work *work, bool is_there)
{
    if (!is_there && !work->unit->is_new && !may_create(store, work))
        return true;
    return work->entry.number != 0 && work->unit->incarnation < work->entry.incarnation;
}

static void refuse(struct store_unit *unit, const char *why)
{
    unit->code = ERR_REFUSED;
    (void)snprintf(unit->reason, sizeof(unit->reason), "%.*s%s",
                   (int)(unit->id.size < 100 ? unit->id.size : 100), unit->id.data, why);
}

static bool has_strange_kind(const struct postgres_store *store, const struct store_unit *unit)
{
    for (size_t i = 0; i < unit->reaction_count; i++) {
        if (kind_names_find(&store->kinds, unit->reactions[i].after) == SETS_KINDS)
            return true;
    }
    return false;
}

static void plan_end(struct postgres_store *store, struct plan *plan, struct work *work)
{
    if (work->entry.type == ENTRY_COUNTER) {
        store->totals.counters--;
        plan->remove[plan->remove_count++] = work;
        return;
    }
    store->totals.items--;
    plan->wipe[plan->wipe_count++] = work;
    plan->bury[plan->bury_count++] = work;
}

static void plan_counter(struct postgres_store *store, struct plan *plan, struct work *work,
                         bool is_there)
{
    known_add(&store->counters, work->hash);
    if (!is_there)
        store->totals.counters++;
    if (work->entry.number == 0)
        plan->make[plan->make_count++] = work;
    else
        plan->set[plan->set_count++] = work;
    work->is_done = true;
}

static void plan_item(struct postgres_store *store, struct plan *plan, struct work *work,
                      bool is_there)
{
    const struct store_unit *unit = work->unit;
    struct entry *entry = &work->entry;
    bool is_whole = work->is_anew || entry->slices != STATE_SLICES;
    int64_t held = work->is_anew ? 0 : entry->held;
    /* Who is to live on several shards can do so only in slices. */
    bool is_large = (unit->has_create && unit->create.shards > 1) ||
                    held + (int64_t)unit->reaction_count > (int64_t)STATE_WHOLE_MAX;
    work->is_split = is_whole && is_large && !work->is_anew;
    entry->slices = !is_whole || is_large ? STATE_SLICES : 1;
    if (!is_there)
        store->totals.items++;
    if (entry->number == 0)
        plan->add[plan->add_count++] = work;
    else if (work->is_anew || work->is_split || unit->has_create)
        plan->alter[plan->alter_count++] = work;
    if (unit->reaction_count > 0 || work->is_split)
        plan->live[plan->live_count++] = work;
    work->is_done = true;
}

static void decide(struct postgres_store *store, struct plan *plan, struct work *work)
{
    struct store_unit *unit = work->unit;
    struct entry *entry = &work->entry;
    bool is_there = entry->number != 0 && entry->type != ENTRY_GONE;
    work->is_anew = !is_there;
    work->is_split = work->is_done = false;
    if (is_late(store, work, is_there))
        return;
    if (unit->is_gone) {
        if (is_there)
            plan_end(store, plan, work);
        return;
    }
    if (unit->is_item && has_strange_kind(store, unit)) {
        refuse(unit, ": a kind of reaction that cannot be kept");
        return;
    }
    if (is_there && (unit->is_new || unit->incarnation > entry->incarnation)) {
        work->is_anew = true;
        if (entry->type == ENTRY_ITEM)
            plan->wipe[plan->wipe_count++] = work;
        /* The totals count what there is: one kind for the other. */
        store->totals.counters -= entry->type == ENTRY_COUNTER;
        store->totals.items -= entry->type == ENTRY_ITEM;
        is_there = false;
    } else if (is_there && (entry->type == ENTRY_ITEM) != unit->is_item) {
        refuse(unit, unit->is_item ? " is a counter here" : " is an item here");
        return;
    }
    if (unit->is_item)
        plan_item(store, plan, work, is_there);
    else
        plan_counter(store, plan, work, is_there);
}

/* ---- taking away ---- */

static void gather_numbers(struct postgres_store *store, struct work *const *works, size_t count)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "i");
    for (size_t i = 0; i < count; i++)
        pg_array_int(&to[0], works[i]->entry.number);
}

/* The number of an item stays: the history speaks of it. */
static enum err wipe_items(struct postgres_store *store, const struct plan *plan,
                           struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_columns *columns = &store->scratch.columns;
    if (plan->wipe_count == 0)
        return ERR_OK;
    gather_numbers(store, plan->wipe, plan->wipe_count);
    enum err err = pg_query_columns(pg, SQL_COUNTS_WIPE, columns, error);
    if (err)
        return err;
    store->totals.members -= pg_int(pg, 0, 0);
    err = pg_query_columns(
        pg, store->options.members == POSTGRES_ROWS ? SQL_REACTIONS_WIPE : SQL_MEMBERS_WIPE,
        columns, error);
    return err ? err : pg_query_columns(pg, SQL_ITEMS_END, columns, error);
}

static enum err bury_items(struct postgres_store *store, const struct plan *plan,
                           struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iim");
    for (size_t i = 0; i < plan->bury_count; i++) {
        pg_array_int(&to[0], plan->bury[i]->entry.number);
        pg_array_int(&to[1], plan->bury[i]->unit->incarnation);
        pg_array_time(&to[2], time_of(plan->bury[i]->unit));
    }
    return pg_query_columns(&store->pg, SQL_ITEMS_BURY, &store->scratch.columns, error);
}

/* What was deleted takes its discarded letters along. */
static enum err forget_discarded(struct postgres_store *store, struct work *const *works,
                                 size_t count, struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "t");
    for (size_t i = 0; i < count; i++) {
        const struct store_unit *unit = works[i]->unit;
        if (unit->code || (!unit->is_gone && !unit->is_new))
            continue;
        pg_array_text(&to[0], unit->id);
        char id[COUNT_ID_BYTES];
        for (unsigned kind = 1; unit->is_item && kind <= store->kinds.count; kind++)
            pg_array_text(&to[0],
                          postgres_count_id(unit->id, kind_names_at(&store->kinds, kind), id));
    }
    return pg_query_columns(&store->pg, SQL_BASES_FORGET, &store->scratch.columns, error);
}

/* ---- writing counters ---- */

/* NULL: as it is. */
static void put_settings(struct postgres_store *store, struct pg_array *to,
                         const struct store_unit *unit, bool is_anew)
{
    bool has_text = unit->has_create && (!unit->is_item || unit->create.shards > 1);
    if (!unit->has_create && !is_anew) {
        pg_array_null(to);
        return;
    }
    store->text.size = 0;
    if (has_text)
        settings_format(&unit->create, &store->text);
    pg_array_plain(to, buffer_slice(&store->text));
}

static void put_time(struct pg_array *to, const struct store_unit *unit, bool is_new)
{
    if (unit->last_ms == 0 && !is_new)
        pg_array_null(to);
    else
        pg_array_time(to, time_of(unit));
}

static void put_deadline(struct pg_array *to, const struct store_unit *unit)
{
    if (unit->has_deadline)
        pg_array_int(to, unit->deadline_ms);
    else
        pg_array_null(to);
}

/* Nearly all that are new are so because something was added to them. */
static enum err make_counters(struct postgres_store *store, const struct plan *plan,
                              struct error *error)
{
    bool is_plain_all = true;
    for (size_t i = 0; i < plan->make_count && is_plain_all; i++)
        is_plain_all = postgres_adds_only(plan->make[i]->unit);
    struct pg_array *to =
        pg_columns_begin(&store->scratch.columns, is_plain_all ? "timn" : "timnti");
    for (size_t i = 0; i < plan->make_count; i++) {
        const struct store_unit *unit = plan->make[i]->unit;
        pg_array_text(&to[0], unit->id);
        pg_array_int(&to[1], unit->incarnation);
        put_time(&to[2], unit, true);
        pg_array_number(&to[3], &unit->delta);
        if (is_plain_all)
            continue;
        put_settings(store, &to[4], unit, true);
        put_deadline(&to[5], unit);
    }
    return pg_query_columns(&store->pg, is_plain_all ? SQL_COUNTERS_PLAIN : SQL_COUNTERS_MAKE,
                            &store->scratch.columns, error);
}

static enum err set_counters(struct postgres_store *store, const struct plan *plan,
                             struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iimntib");
    for (size_t i = 0; i < plan->set_count; i++) {
        const struct work *work = plan->set[i];
        pg_array_int(&to[0], work->entry.number);
        pg_array_int(&to[1], work->unit->incarnation);
        put_time(&to[2], work->unit, work->is_anew);
        pg_array_number(&to[3], &work->unit->delta);
        put_settings(store, &to[4], work->unit, work->is_anew);
        put_deadline(&to[5], work->unit);
        pg_array_bool(&to[6], work->is_anew);
    }
    return pg_query_columns(&store->pg, SQL_COUNTERS_SET, &store->scratch.columns, error);
}

/* ---- writing items ---- */

/* New rows come back in the order in which they were sent. */
static enum err add_items(struct postgres_store *store, const struct plan *plan,
                          struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "timit");
    for (size_t i = 0; i < plan->add_count; i++) {
        const struct work *work = plan->add[i];
        pg_array_text(&to[0], work->unit->id);
        pg_array_int(&to[1], work->unit->incarnation);
        put_time(&to[2], work->unit, true);
        pg_array_int(&to[3], work->entry.slices);
        put_settings(store, &to[4], work->unit, true);
    }
    if (plan->add_count == 0)
        return ERR_OK;
    enum err err = pg_query_columns(pg, SQL_ITEMS_ADD, &store->scratch.columns, error);
    if (err)
        return err;
    for (size_t i = 0; i < plan->add_count; i++) {
        if ((int)i >= pg_rows(pg) || !slice_equal(pg_text(pg, (int)i, 1), plan->add[i]->unit->id))
            return error_set(error, ERR_UNAVAILABLE, "rows came back in another order");
        plan->add[i]->entry.number = pg_int(pg, (int)i, 0);
    }
    return ERR_OK;
}

static enum err alter_items(struct postgres_store *store, const struct plan *plan,
                            struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iimitb");
    for (size_t i = 0; i < plan->alter_count; i++) {
        const struct work *work = plan->alter[i];
        pg_array_int(&to[0], work->entry.number);
        pg_array_int(&to[1], work->unit->incarnation);
        put_time(&to[2], work->unit, work->is_anew);
        pg_array_int(&to[3], work->entry.slices);
        put_settings(store, &to[4], work->unit, work->is_anew);
        pg_array_bool(&to[5], work->is_anew);
    }
    return pg_query_columns(&store->pg, SQL_ITEMS_SET, &store->scratch.columns, error);
}

static void count_erased(struct postgres_store *store, const struct work *work)
{
    for (size_t i = 0; i < work->unit->reaction_count; i++) {
        if (work->unit->reactions[i].erased)
            count_claimed(&store->kinds, &work->unit->reactions[i], postgres_deltas(store, work));
    }
}

/* What is added to one count. */
struct change {
    int64_t item;
    unsigned kind;
    int64_t by;
    int64_t time_ms;
    bool is_done;
};

static void gather_changes(struct postgres_store *store, const struct change *changes, size_t count)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iiim");
    for (size_t i = 0; i < count; i++) {
        if (changes[i].is_done)
            continue;
        pg_array_int(&to[0], changes[i].item);
        pg_array_int(&to[1], changes[i].kind);
        pg_array_int(&to[2], changes[i].by);
        pg_array_time(&to[3], changes[i].time_ms);
    }
}

/* The rows that are there, then the others: nobody else writes counts of these items now. */
static enum err change_counts(struct postgres_store *store, struct change *changes, size_t count,
                              struct error *error)
{
    struct pg *pg = &store->pg;
    if (count == 0)
        return ERR_OK;
    gather_changes(store, changes, count);
    enum err err = pg_query_columns(pg, SQL_COUNTS_ADD, &store->scratch.columns, error);
    if (err || (size_t)pg_rows(pg) == count)
        return err;
    for (int row = 0; row < pg_rows(pg); row++)
        changes[pg_int(pg, row, 0) - 1].is_done = true;
    gather_changes(store, changes, count);
    return pg_query_columns(pg, SQL_COUNTS_MAKE, &store->scratch.columns, error);
}

static enum err write_counts(struct postgres_store *store, const struct plan *plan,
                             struct error *error)
{
    struct change *changes =
        memory_take((plan->live_count * store->kinds.count + 1) * sizeof(*changes));
    size_t count = 0;
    for (size_t i = 0; i < plan->live_count; i++) {
        const struct work *work = plan->live[i];
        count_erased(store, work);
        const int64_t *deltas = postgres_deltas(store, work);
        for (unsigned kind = 1; kind <= store->kinds.count; kind++) {
            if (deltas[kind] == 0)
                continue;
            changes[count++] = (struct change){.item = work->entry.number,
                                               .kind = kind,
                                               .by = deltas[kind],
                                               .time_ms = work->unit->last_ms};
            store->totals.members += deltas[kind];
        }
    }
    enum err err = change_counts(store, changes, count, error);
    free(changes);
    return err;
}

static enum err react(struct postgres_store *store, const struct plan *plan, struct error *error)
{
    if (plan->live_count == 0)
        return ERR_OK;
    enum err err = store->options.members == POSTGRES_ROWS
                       ? postgres_rows_react(store, plan->live, plan->live_count, error)
                       : postgres_sets_react(store, plan->live, plan->live_count, error);
    return err ? err : write_counts(store, plan, error);
}

/* ---- all of it ---- */

static enum err carry_out(struct postgres_store *store, const struct plan *plan,
                          struct error *error)
{
    enum err err = wipe_items(store, plan, error);
    if (!err)
        err = bury_items(store, plan, error);
    if (!err) {
        gather_numbers(store, plan->remove, plan->remove_count);
        err = pg_query_columns(&store->pg, SQL_COUNTERS_REMOVE, &store->scratch.columns, error);
    }
    if (!err)
        err = make_counters(store, plan, error);
    if (!err)
        err = set_counters(store, plan, error);
    if (!err)
        err = add_items(store, plan, error);
    if (!err)
        err = alter_items(store, plan, error);
    return err ? err : react(store, plan, error);
}

static enum err apply_looked_at(struct postgres_store *store, struct work **works, size_t count,
                                struct error *error)
{
    if (count == 0)
        return ERR_OK;
    struct plan plan;
    struct work **room = plan_init(&plan, count);
    enum err err = find_entries(store, works, count, error);
    for (size_t i = 0; !err && i < count; i++)
        decide(store, &plan, works[i]);
    if (!err)
        err = forget_discarded(store, works, count, error);
    if (!err)
        err = carry_out(store, &plan, error);
    free(room);
    return err;
}

static int by_id(const void *a, const void *b)
{
    struct work *const *left = a;
    struct work *const *right = b;
    return ((*left)->at > (*right)->at) - ((*left)->at < (*right)->at);
}

enum err postgres_units_apply(struct postgres_store *store, struct work *works, size_t count,
                              struct error *error)
{
    struct work **looked_at = memory_take((2 * count + 1) * sizeof(struct work *));
    struct work **plain = looked_at + count;
    size_t looked_at_count = 0;
    size_t plain_count = 0;
    for (size_t i = 0; i < count; i++) {
        works[i].is_done = false;
        memset(postgres_deltas(store, &works[i]), 0, store->scratch.stride * sizeof(int64_t));
        if (is_plain(store, &works[i]))
            plain[plain_count++] = &works[i];
        else
            looked_at[looked_at_count++] = &works[i];
    }
    enum err err = add_plain(store, plain, &plain_count, error);
    if (!err && plain_count > 0) {
        memcpy(looked_at + looked_at_count, plain, plain_count * sizeof(*plain));
        looked_at_count += plain_count;
        qsort(looked_at, looked_at_count, sizeof(*looked_at), by_id);
    }
    if (!err)
        err = apply_looked_at(store, looked_at, looked_at_count, error);
    free(looked_at);
    return err;
}

enum err postgres_members_replace(struct postgres_store *store, const struct entry *entry,
                                  const struct store_reaction *reactions, size_t count,
                                  struct error *error)
{
    const struct store_reaction **all = memory_take((count + 1) * sizeof(*all));
    int64_t *user_ids = memory_take((count + 1) * sizeof(*user_ids));
    for (size_t i = 0; i < count; i++)
        all[i] = &reactions[i];
    postgres_users_forget_all(store); /* it was not asked whether somebody was erased */
    enum err err = postgres_users_resolve(store, all, count, user_ids, error);
    if (!err)
        err = store->options.members == POSTGRES_ROWS
                  ? postgres_rows_replace(store, entry, reactions, user_ids, count, error)
                  : postgres_sets_replace(store, entry, reactions, user_ids, count, error);
    free(user_ids);
    free(all);
    return err;
}
