/* plan_write.c - a plan carried out: what goes, counters, items. A statement for each list. */
#include "store/postgres/plan.h"

static int64_t time_of(const struct store_unit *unit)
{
    return unit->last_ms != 0 ? unit->last_ms : unit->first_ms;
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

/* ---- counters ---- */

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
        is_plain_all = stores_adds_only(plan->make[i]->unit);
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

/* ---- items ---- */

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

enum err plan_write(struct postgres_store *store, const struct plan *plan, struct error *error)
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
    return err ? err : alter_items(store, plan, error);
}
