/* claim.c - who may write: a single machine behind its own log, or nodes that share one.
 *
 * Both count by sequences of their own, so that the two at once would leave out what the other has
 * written. A machine says whose the store is before its first batch, and each of its batches looks,
 * with the row locked, whether that still holds. Nodes take the store with the first epoch that it
 * gives them, which they cannot while a machine has it. They keep it for good. */
#include <stdio.h>
#include <string.h>

#include "store/postgres/own.h"

#define NODES    SLICE("nodes")
#define WHO_SIZE 90

enum holder { HOLDER_NONE, HOLDER_NODES, HOLDER_MACHINE };

struct claim {
    enum holder holder;
    struct slice owner; /* these live until the next statement */
    struct slice who;
    bool released;
};

static struct claim read_claim(struct pg *pg, int column)
{
    struct claim claim = {.owner = pg_text(pg, 0, column),
                          .who = pg_text(pg, 0, column + 1),
                          .released = pg_bool(pg, 0, column + 2)};
    claim.holder = claim.owner.size == 0             ? HOLDER_NONE
                   : slice_equal(claim.owner, NODES) ? HOLDER_NODES
                                                     : HOLDER_MACHINE;
    return claim;
}

static int who_size(const struct claim *claim)
{
    return claim->who.size < WHO_SIZE ? (int)claim->who.size : WHO_SIZE;
}

static enum err is_nodes(enum err err, struct error *error)
{
    return error_set(error, err,
                     "the store belongs to many nodes: a server on one machine cannot write there");
}

static enum err is_machines(enum err err, const struct claim *claim, struct error *error)
{
    return error_set(error, err,
                     "the store belongs to a server on one machine, %.*s, that has not handed it "
                     "over",
                     who_size(claim), claim->who.data);
}

static bool is_mine(const struct postgres_store *store, const struct claim *claim)
{
    return claim->holder == HOLDER_MACHINE && slice_equal(claim->owner, slice_of(store->machine));
}

enum err postgres_claim_check_machine(struct postgres_store *store, int column, struct error *error)
{
    if (store->machine[0] == '\0')
        return ERR_OK;
    struct claim claim = read_claim(&store->pg, column);
    if (is_mine(store, &claim) && !claim.released)
        return ERR_OK;
    if (claim.holder == HOLDER_NODES)
        return is_nodes(ERR_UNAVAILABLE, error);
    return error_set(error, ERR_UNAVAILABLE, "the store is not this server's any more");
}

enum err postgres_claim_check_nodes(struct pg *pg, int column, struct error *error)
{
    struct claim claim = read_claim(pg, column);
    return claim.holder == HOLDER_MACHINE ? is_machines(ERR_UNAVAILABLE, &claim, error) : ERR_OK;
}

/* The row's lock is held until the end of the transaction. */
static enum err lock_claim(struct pg *pg, struct claim *ret_claim, struct error *error)
{
    pg_args(pg);
    enum err err = pg_query(pg, SQL_CLAIM_LOCK, error);
    if (err)
        return err;
    if (pg_rows(pg) != 1)
        return error_set(error, ERR_UNAVAILABLE, "PostgreSQL: the row of `claim` is gone");
    *ret_claim = read_claim(pg, 0);
    return ERR_OK;
}

/* It is on the disk before anybody relies on it, and on a standby, if the server waits for one. */
static enum err set_claim(struct pg *pg, struct slice owner, struct slice who, struct error *error)
{
    pg_args(pg);
    enum err err = pg_query(pg, SQL_EPOCH_SAFELY, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_text(pg, owner);
    pg_arg_text(pg, who);
    return pg_query(pg, SQL_CLAIM_SET, error);
}

enum err postgres_claim_for_nodes(struct postgres_store *store, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    enum err err = pg_query(pg, SQL_CLAIM, error);
    struct claim claim = {.holder = HOLDER_NONE};
    if (!err && pg_rows(pg) == 1)
        claim = read_claim(pg, 0);
    if (err || claim.holder == HOLDER_NODES)
        return err;
    /* A machine holds the row's lock most of the time: it is looked at before it is asked for. */
    if (claim.holder == HOLDER_NONE || claim.released)
        err = lock_claim(pg, &claim, error);
    if (err || claim.holder == HOLDER_NODES)
        return err;
    if (claim.holder == HOLDER_MACHINE && !claim.released)
        return is_machines(ERR_BUSY, &claim, error);
    return set_claim(pg, NODES, SLICE(""), error);
}

/* ---- a machine's ---- */

struct claiming {
    const char *who;
    bool adopts;
};

static enum err take(struct postgres_store *store, void *arg, struct error *error)
{
    const struct claiming *call = arg;
    struct pg *pg = &store->pg;
    struct claim claim = {0};
    enum err err = lock_claim(pg, &claim, error);
    if (err)
        return err;
    bool had_nodes = pg_bool(pg, 0, 3);
    bool is_filled = pg_bool(pg, 0, 4);
    if (claim.holder == HOLDER_NODES || had_nodes)
        return is_nodes(ERR_EXISTS, error);
    if (claim.holder == HOLDER_MACHINE && !is_mine(store, &claim))
        return error_set(error, ERR_EXISTS,
                         "the store belongs to the server of another machine or folder, %.*s",
                         who_size(&claim), claim.who.data);
    if (claim.holder == HOLDER_NONE && is_filled && !call->adopts)
        return error_set(error, ERR_EXISTS, "the store is not empty: give an empty database");
    return set_claim(pg, slice_of(store->machine), slice_of(call->who), error);
}

enum err postgres_store_claim(struct store *base, const char *machine, const char *who, bool adopts,
                              struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    struct claiming call = {who, adopts};
    (void)snprintf(store->machine, sizeof(store->machine), "%s", machine);
    return postgres_transact(store, take, &call, error);
}

static enum err give_back(struct postgres_store *store, void *arg, struct error *error)
{
    (void)arg;
    struct pg *pg = &store->pg;
    pg_args(pg);
    enum err err = pg_query(pg, SQL_EPOCH_SAFELY, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_text(pg, slice_of(store->machine));
    err = pg_query(pg, SQL_CLAIM_RELEASE, error);
    if (err || pg_rows(pg) == 1)
        return err;
    /* Nodes have it: an earlier try has come through, and its answer was lost. */
    struct claim claim = {0};
    err = lock_claim(pg, &claim, error);
    if (err || claim.holder == HOLDER_NODES)
        return err;
    return error_set(error, ERR_EXISTS, "the store is not this server's any more");
}

enum err postgres_store_release(struct store *base, struct error *error)
{
    return postgres_transact(postgres_of(base), give_back, NULL, error);
}

enum err postgres_store_is_free(struct store *base, struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    enum err err = postgres_ready(store, error);
    if (err)
        return err;
    pg_args(&store->pg);
    err = pg_query(&store->pg, SQL_CLAIM, error);
    if (err)
        return postgres_abandon(store, err);
    if (pg_rows(&store->pg) != 1)
        return error_set(error, ERR_UNAVAILABLE, "PostgreSQL: the row of `claim` is gone");
    struct claim claim = read_claim(&store->pg, 0);
    if (claim.holder != HOLDER_MACHINE || claim.released)
        return ERR_OK;
    return is_machines(ERR_BUSY, &claim, error);
}
