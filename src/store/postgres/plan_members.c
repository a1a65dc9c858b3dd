/* plan_members.c - who holds what on the items of a plan, and how many. The members decide: a count
 * moves by what the tables have gained or lost. */
#include <stdlib.h>

#include "base/memory.h"
#include "store/postgres/plan.h"

static void count_erased(struct postgres_store *store, const struct work *work)
{
    for (size_t i = 0; i < work->unit->reaction_count; i++) {
        if (work->unit->reactions[i].erased)
            stores_count_claimed(&store->kinds, &work->unit->reactions[i],
                                 postgres_deltas(store, work));
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

enum err plan_write_members(struct postgres_store *store, const struct plan *plan,
                            struct error *error)
{
    if (plan->live_count == 0)
        return ERR_OK;
    enum err err = store->options.members == POSTGRES_ROWS
                       ? postgres_rows_react(store, plan->live, plan->live_count, error)
                       : postgres_sets_react(store, plan->live, plan->live_count, error);
    return err ? err : write_counts(store, plan, error);
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
