/* stats.c - figures for whoever operates Tally. They are asked for by the writer, now and then, so
 * that whoever reads them never waits for the server. */
#include <assert.h>

#include "store/postgres/own.h"

#define REFRESH_NS   UINT64_C(5000000000)
#define COUNTED_ROWS 20000 /* so many are counted; more are what the server believes */

static int64_t rows_of(int64_t counted, int64_t believed)
{
    return counted < COUNTED_ROWS || believed < counted ? counted : believed;
}

static enum err ask_waiting(struct postgres_store *store, struct store_stats *stats)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    enum err err = pg_query(pg, SQL_STATS_WAITING, NULL);
    if (err)
        return err;
    stats->pending = (uint64_t)pg_int(pg, 0, 0);
    stats->retrying = (uint64_t)pg_int(pg, 0, 1);
    stats->failed = (uint64_t)pg_int(pg, 0, 2);
    return ERR_OK;
}

static enum err ask_rows(struct postgres_store *store, struct store_stats *stats)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_int(pg, COUNTED_ROWS);
    enum err err = pg_query(pg, SQL_STATS_ROWS, NULL);
    if (err)
        return err;
    stats->succeeded = (uint64_t)rows_of(pg_int(pg, 0, 0), pg_int(pg, 0, 2));
    stats->history_rows = (uint64_t)rows_of(pg_int(pg, 0, 1), pg_int(pg, 0, 3));
    stats->bytes = (uint64_t)pg_int(pg, 0, 4);
    return ERR_OK;
}

static void publish(struct postgres_store *store, const struct store_stats *stats)
{
    lock_take(&store->stats_lock);
    store->stats = *stats;
    store->stats.down_since_ms = 0; /* this is called after something went well */
    lock_release(&store->stats_lock);
}

void postgres_stats_refresh(struct postgres_store *store, bool at_once)
{
    struct store_stats stats;
    uint64_t now = env_monotonic_ns(store->env);
    postgres_stats(&store->base, &stats);
    if (at_once || now - store->stats_ns >= REFRESH_NS) {
        store->stats_ns = now;
        if (ask_waiting(store, &stats) || ask_rows(store, &stats))
            return; /* who writes next finds out what it is */
    }
    publish(store, &stats);
}

void postgres_stats_down(struct postgres_store *store)
{
    lock_take(&store->stats_lock);
    if (store->stats.down_since_ms == 0)
        store->stats.down_since_ms = env_wall_ms(store->env);
    lock_release(&store->stats_lock);
}

void postgres_stats(struct store *base, struct store_stats *ret_stats)
{
    struct postgres_store *store = postgres_of(base);
    lock_take(&store->stats_lock);
    *ret_stats = store->stats;
    lock_release(&store->stats_lock);
}
