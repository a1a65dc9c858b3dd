/* Idempotency keys are appended, and found by a hash: as with users, what is new stays in a
 * table in memory, the tail, and goes to the index many at a time. Old keys go, unlike users: the
 * index is in generations of a million rows, and goes by the generation. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "store/sqlite/own.h"

#define MERGE_ROWS      65536u /* in the tail */
#define GENERATION_BITS 20u

static int64_t generation_of(int64_t row)
{
    return row >> GENERATION_BITS;
}

/* ---- the tail ---- */

static void tail_put(struct sqlite_store *store, uint64_t low, int64_t row)
{
    lock_take(&store->tail_lock);
    ids_put(&store->key_tail, low, (uint64_t)row);
    lock_release(&store->tail_lock);
}

static enum err read_indexed(struct sqlite_store *store, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_KEYS_INDEXED, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err = db_step(&store->db, statement, error);
    if (err)
        return err;
    store->indexed_keys = db_int(statement, 0);
    sqlite3_reset(statement);
    return ERR_OK;
}

/* The rows that the index does not have yet. */
static sqlite3_stmt *walk_tail(struct sqlite_store *store, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_KEY_LOWS, error);
    if (statement)
        db_bind_int(statement, 1, store->indexed_keys);
    return statement;
}

/* Readers go on finding what is there in the old tail until the new one is whole: a key that is not
 * found counts twice. */
enum err keys_read(struct sqlite_store *store, struct error *error)
{
    enum err err = read_indexed(store, error);
    sqlite3_stmt *statement = err ? NULL : walk_tail(store, error);
    if (!statement)
        return err ? err : ERR_UNAVAILABLE;
    struct ids tail;
    ids_init(&tail, 0, store->key_tail.key);
    while (!(err = db_step(&store->db, statement, error)))
        ids_put(&tail, (uint64_t)db_int(statement, 1), (uint64_t)db_int(statement, 0));
    if (err != ERR_NOT_FOUND) {
        ids_done(&tail);
        return err;
    }
    lock_take(&store->tail_lock);
    ids_replace(&store->key_tail, &tail);
    lock_release(&store->tail_lock);
    return ERR_OK;
}

/* ---- adding ---- */

enum err keys_add(struct sqlite_store *store, const struct state_key *key, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_KEY_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)key->low);
    db_bind_int(statement, 2, (int64_t)key->high);
    db_bind_int(statement, 3, (int64_t)key->fingerprint);
    db_bind_int(statement, 4, key->changed);
    if (key->held.size > 0)
        db_bind_text(statement, 5, key->held);
    else
        db_bind_null(statement, 5);
    db_bind_number(statement, 6, &key->value, &store->digits);
    db_bind_int(statement, 7, key->time_ms);
    enum err err = db_run(&store->db, statement, error);
    if (!err)
        tail_put(store, key->low, sqlite3_last_insert_rowid(store->db.handle));
    return err;
}

struct key_place {
    int64_t generation;
    int64_t hash; /* as SQLite sorts: signed */
    int64_t row;
};

static int by_place(const void *a, const void *b)
{
    const struct key_place *left = a;
    const struct key_place *right = b;
    if (left->generation != right->generation)
        return left->generation < right->generation ? -1 : 1;
    return (left->hash > right->hash) - (left->hash < right->hash);
}

static enum err read_places(struct sqlite_store *store, struct key_place **ret_places,
                            size_t *ret_count, struct error *error)
{
    sqlite3_stmt *statement = walk_tail(store, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    struct key_place *places = NULL;
    size_t count = 0;
    size_t capacity = 0;
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        if (count == capacity) {
            capacity = capacity * 2 + 1024;
            places = memory_resize(places, capacity * sizeof(*places));
        }
        int64_t row = db_int(statement, 0);
        places[count++] = (struct key_place){generation_of(row), db_int(statement, 1), row};
    }
    *ret_places = places;
    *ret_count = count;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err index_places(struct sqlite_store *store, const struct key_place *places,
                             size_t count, struct error *error)
{
    for (size_t i = 0; i < count; i++) {
        sqlite3_stmt *statement = db_take(&store->db, SQL_KEY_INDEX_ADD, error);
        if (!statement)
            return ERR_UNAVAILABLE;
        db_bind_int(statement, 1, places[i].generation);
        db_bind_int(statement, 2, places[i].hash);
        db_bind_int(statement, 3, places[i].row);
        enum err err = db_run(&store->db, statement, error);
        if (err)
            return err;
        if (places[i].row > store->indexed_keys)
            store->indexed_keys = places[i].row;
    }
    sqlite3_stmt *statement = db_take(&store->db, SQL_KEYS_INDEXED_SET, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, store->indexed_keys);
    return db_run(&store->db, statement, error);
}

enum err keys_merge(struct sqlite_store *store, bool *ret_merged, struct error *error)
{
    *ret_merged = false;
    if (store->key_tail.count < MERGE_ROWS)
        return ERR_OK;
    struct key_place *places = NULL;
    size_t count;
    enum err err = read_places(store, &places, &count, error);
    if (!err && count > 1)
        qsort(places, count, sizeof(*places), by_place);
    if (!err)
        err = index_places(store, places, count, error);
    free(places);
    *ret_merged = !err;
    return err;
}

void keys_merged(struct sqlite_store *store)
{
    lock_take(&store->tail_lock);
    ids_clear(&store->key_tail);
    lock_release(&store->tail_lock);
}

/* Generations without a row are gone. */
enum err keys_thinned(struct sqlite_store *store, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_KEY_INDEX_THIN, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, GENERATION_BITS);
    return db_run(&store->db, statement, error);
}

/* ---- finding ---- */

/* A key that was used again after its time has several rows: the newest one counts. */
struct search {
    uint64_t low;
    uint64_t high;
    int64_t row; /* 0: none yet */
};

/* Stands the row for the key that is wanted? */
static enum err try_row(struct db *db, struct search *search, int64_t row, struct error *error)
{
    if (row <= search->row)
        return ERR_OK;
    sqlite3_stmt *statement = db_take(db, SQL_KEY, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, row);
    enum err err = db_step(db, statement, error);
    if (err)
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    if ((uint64_t)db_int(statement, 1) == search->low &&
        (uint64_t)db_int(statement, 2) == search->high)
        search->row = row;
    sqlite3_reset(statement);
    return ERR_OK;
}

#define CANDIDATES 64u

static enum err search_tail(struct sqlite_store *store, struct db *db, struct search *search,
                            struct error *error)
{
    int64_t rows[CANDIDATES];
    size_t count = 0;
    size_t at = SIZE_MAX;
    uint64_t row;
    lock_take(&store->tail_lock);
    while (count < CANDIDATES && (row = ids_next(&store->key_tail, search->low, &at)) != 0)
        rows[count++] = (int64_t)row;
    lock_release(&store->tail_lock);
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && !err; i++)
        err = try_row(db, search, rows[i], error);
    return err;
}

static enum err search_generation(struct db *db, struct search *search, int64_t generation,
                                  struct error *error)
{
    sqlite3_stmt *statement = db_take(db, SQL_KEY_INDEX_FIND, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, generation);
    db_bind_int(statement, 2, (int64_t)search->low);
    enum err err;
    while (!(err = db_step(db, statement, error))) {
        err = try_row(db, search, db_int(statement, 0), error);
        if (err) {
            sqlite3_reset(statement);
            return err;
        }
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err search_index(struct db *db, struct search *search, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, SQL_KEY_INDEX_ENDS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err = db_step(db, statement, error);
    if (err)
        return err;
    bool is_empty = sqlite3_column_type(statement, 0) == SQLITE_NULL;
    int64_t first = db_int(statement, 0);
    int64_t last = db_int(statement, 1);
    sqlite3_reset(statement);
    for (int64_t i = last; !is_empty && i >= first && !err && search->row == 0; i--)
        err = search_generation(db, search, i, error);
    return err;
}

/* The tail first: what leaves it is in the index before. */
enum err keys_find(struct sqlite_store *store, struct db *db, uint64_t low, uint64_t high,
                   int64_t *ret_row, struct error *error)
{
    struct search search = {low, high, 0};
    enum err err = search_tail(store, db, &search, error);
    if (!err && search.row == 0)
        err = search_index(db, &search, error);
    *ret_row = search.row;
    return err || search.row != 0 ? err : ERR_NOT_FOUND;
}
