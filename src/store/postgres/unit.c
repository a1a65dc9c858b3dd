/* unit.c - what a set of units does, as few statements for all of them. Counters that are only
 * added to are updated unseen once their rows are known; for the others the rows are read first,
 * and plan.h decides what becomes of each. The members decide: a count moves by what the tables
 * have gained or lost, whatever the events say was held before.
 *
 * Where others write at the same time (a log of many lanes), rows are locked before they are
 * read, in the order of their ids. Otherwise the lock of `progress` keeps everybody else out. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/postgres/plan.h"

/* ---- rows of entries ---- */

static void read_entry(struct pg *pg, int row, struct entry *ret_entry)
{
    *ret_entry = (struct entry){
        .number = pg_int(pg, row, 1),
        .type = (enum entry_type)pg_int(pg, row, 2),
        .incarnation = (uint32_t)pg_int(pg, row, 3),
        .slices = (uint32_t)pg_int(pg, row, 4),
        .held = pg_int(pg, row, 5),
        .is_wrong = !pg_bool(pg, row, 6),
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

/* ---- counters that are only added to ---- */

/* One that has a row, as far as we know, and is added to. */
static bool is_plain(const struct postgres_store *store, const struct work *work)
{
    return stores_adds_only(work->unit) && work->unit->last_ms != 0 &&
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

/* ---- the others ---- */

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
        char id[STORES_COUNT_ID_BYTES];
        for (unsigned kind = 1; unit->is_item && kind <= store->kinds.count; kind++)
            pg_array_text(&to[0],
                          stores_count_id(unit->id, kind_names_at(&store->kinds, kind), id));
    }
    return pg_query_columns(&store->pg, SQL_BASES_FORGET, &store->scratch.columns, error);
}

static enum err apply_looked_at(struct postgres_store *store, struct work **works, size_t count,
                                struct error *error)
{
    if (count == 0)
        return ERR_OK;
    struct plan plan;
    plan_init(&plan, count);
    enum err err = find_entries(store, works, count, error);
    for (size_t i = 0; !err && i < count; i++)
        plan_decide(store, &plan, works[i]);
    if (!err)
        err = forget_discarded(store, works, count, error);
    if (!err)
        err = plan_write(store, &plan, error);
    if (!err)
        err = plan_write_members(store, &plan, error);
    plan_done(&plan);
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
