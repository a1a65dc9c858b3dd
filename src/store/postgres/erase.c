/* erase.c - forgetting a user: the name, the history's lines, and what raw events say.
 *
 * Rows that were changed or removed stay in the server's files until it has tidied up (vacuum), in
 * its write-ahead log and in backups for as long as these are kept; docs/store.md says so. */
#include <stdio.h>
#include <string.h>

#include "core/bucket.h"
#include "core/raw.h"
#include "core/user.h"
#include "store/postgres/own.h"
#include "store/postgres/reader.h"

/* There is no index by user: whole tables are looked through. */
#define ERASE_TIMEOUT_MS 600000u

struct erase {
    struct slice user;
    struct slice stub;
    uint64_t rows;
};

static enum err holds_again(struct error *error)
{
    return error_set(error, ERR_BUSY, "the user holds reactions again");
}

/* ---- does the user hold anything? ---- */

static enum err check_rows(struct postgres_store *store, int64_t user_id, struct error *error)
{
    pg_args(&store->pg);
    pg_arg_int(&store->pg, user_id);
    enum err err = pg_query(&store->pg, SQL_TEND_HOLDS, error);
    return !err && pg_rows(&store->pg) > 0 ? holds_again(error) : err;
}

/* An item in slices, whose row is behind us. */
static enum err check_slice(struct postgres_store *store, int64_t item, uint32_t slice,
                            int64_t user_id, struct error *error)
{
    struct pg *pg = &store->pg;
    uint8_t kind = 0;
    bool named = user_id < 0;
    pg_args(pg);
    pg_arg_int(pg, item);
    pg_arg_int(pg, slice);
    enum err err = pg_query(pg, SQL_READ_SETS, error);
    if (err || pg_rows(pg) == 0)
        return err;
    if (sets_find(pg_slice(pg, 0, 0), named, (uint32_t)(named ? -1 - user_id : user_id), &kind))
        return error_set(error, ERR_CORRUPT, "members.item %lld: they are damaged",
                         (long long)item);
    return kind != 0 ? holds_again(error) : ERR_OK;
}

/* Where an item in slices keeps the user. */
struct place {
    int64_t item;
    uint32_t slice;
};

/* The items that the history names; the places of those in slices go to store->raw. */
static enum err check_whole(struct postgres_store *store, struct slice user, int64_t user_id,
                            struct error *error)
{
    struct pg *pg = &store->pg;
    bool named = user_id < 0;
    pg_args(pg);
    pg_arg_int(pg, user_id);
    enum err err = pg_query(pg, SQL_TEND_HELD_SETS, error);
    store->raw.size = 0;
    for (int row = 0; !err && row < pg_rows(pg); row++) {
        struct slice id = pg_text(pg, row, 0);
        uint8_t kind = 0;
        if (pg_int(pg, row, 1) == STATE_SLICES) {
            struct place place = {pg_int(pg, row, 3), bucket_slice(bucket_of(id, user))};
            err = buffer_append(&store->raw, (const char *)&place, sizeof(place));
        } else if (sets_find(pg_slice(pg, row, 2), named,
                             (uint32_t)(named ? -1 - user_id : user_id), &kind)) {
            err = error_set(error, ERR_CORRUPT, "entries.number %lld: its members are damaged",
                            (long long)pg_int(pg, row, 3));
        } else if (kind != 0) {
            err = holds_again(error);
        }
    }
    return err;
}

static enum err check_sets(struct postgres_store *store, struct slice user, int64_t user_id,
                           struct error *error)
{
    enum err err = check_whole(store, user, user_id, error);
    for (size_t at = 0; !err && at < store->raw.size; at += sizeof(struct place)) {
        struct place place;
        memcpy(&place, store->raw.data + at, sizeof(place));
        err = check_slice(store, place.item, place.slice, user_id, error);
    }
    return err;
}

/* ---- the history, and the name ---- */

static enum err erase_history(struct postgres_store *store, struct erase *call, int64_t user_id,
                              struct error *error)
{
    enum err err = store->options.members == POSTGRES_ROWS
                       ? check_rows(store, user_id, error)
                       : check_sets(store, call->user, user_id, error);
    if (err)
        return err;
    pg_args(&store->pg);
    pg_arg_int(&store->pg, user_id);
    pg_arg_text(&store->pg, call->stub);
    err = pg_query(&store->pg, SQL_TEND_STUB, error);
    if (!err)
        call->rows += pg_touched(&store->pg);
    return err;
}

static enum err erase_name(struct postgres_store *store, struct erase *call, int64_t user_id,
                           struct error *error)
{
    pg_args(&store->pg);
    pg_arg_int(&store->pg, -1 - user_id);
    enum err err = pg_query(&store->pg, SQL_TEND_FORGET_USER, error);
    if (err)
        return err;
    call->rows++;
    postgres_users_forget(store, (uint32_t)(-1 - user_id));
    return ERR_OK;
}

/* ---- raw events ---- */

/* All that is in the table, one by one: only raw_erase() knows all forms that a name has in it. */
static enum err scrub_raws(struct postgres_store *store, struct slice user, enum statement read,
                           enum statement write, struct error *error)
{
    struct pg *pg = &store->pg;
    for (int64_t after = 0;;) {
        pg_args(pg);
        pg_arg_int(pg, after);
        enum err err = pg_query(pg, read, error);
        if (err || pg_rows(pg) == 0)
            return err;
        after = pg_int(pg, 0, 0);
        store->raw.size = 0;
        (void)buffer_append_slice(&store->raw, pg_slice(pg, 0, 1));
        if (!raw_erase(&store->raw, user))
            continue;
        pg_args(pg);
        pg_arg_int(pg, after);
        pg_arg_bytes(pg, buffer_slice(&store->raw));
        err = pg_query(pg, write, error);
        if (err)
            return err;
    }
}

/* ---- all of it ---- */

static enum err erase_all(struct postgres_store *store, struct erase *call, struct error *error)
{
    int64_t user_id;
    enum err err = postgres_user_find(&store->pg, call->user, &user_id, error);
    if (!err) {
        err = erase_history(store, call, user_id, error);
        if (!err && user_id < 0)
            err = erase_name(store, call, user_id, error);
    } else if (err == ERR_NOT_FOUND) {
        err = ERR_OK;
    }
    if (!err)
        err = scrub_raws(store, call->user, SQL_TEND_RAWS, SQL_TEND_RAW_SET, error);
    if (!err)
        err = scrub_raws(store, call->user, SQL_TEND_LETTER_RAWS, SQL_TEND_LETTER_RAW_SET, error);
    return err;
}

static enum err erase(struct postgres_store *store, void *arg, struct error *error)
{
    struct erase *call = arg;
    call->rows = 0;
    char sql[64];
    snprintf(sql, sizeof(sql), "SET LOCAL statement_timeout = %u", ERASE_TIMEOUT_MS);
    enum err err = pg_execute(&store->pg, sql, error);
    if (err)
        return err;
    uint32_t wait_ms = store->pg.wait_ms;
    store->pg.wait_ms = ERASE_TIMEOUT_MS;
    err = erase_all(store, call, error);
    store->pg.wait_ms = wait_ms;
    return err;
}

enum err postgres_erase(struct store *base, struct slice user, struct slice stub, int64_t now_ms,
                        uint64_t *ret_rows, struct error *error)
{
    (void)now_ms;
    struct erase call = {.user = user, .stub = stub};
    enum err err = postgres_transact(postgres_of(base), erase, &call, error);
    *ret_rows = call.rows;
    return err == ERR_REFUSED ? ERR_UNAVAILABLE : err;
}
