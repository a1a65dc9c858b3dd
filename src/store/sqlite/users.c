/* Numbers of named users come with the events, nearly in order, so that rows are appended.
 * The way back, from a name to its number, is an index by hash, and hashes fall all over it: an
 * insert would cost a page each. New users therefore stay in a table in memory, the tail,
 * and go to the index many at a time, sorted, when a page of it gets several of them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "store/sqlite/own.h"

#define MERGE_MIN   65536u /* users in the tail */
#define MERGE_MAX   2000000u
#define MERGE_SHARE 16u /* or this part of the index */

/* ---- gaps: numbers that were passed over ---- */

static void gap_insert(struct sqlite_store *store, size_t at, struct user_gap gap)
{
    if (store->gap_count == store->gap_capacity) {
        store->gap_capacity = store->gap_capacity * 2 + 16;
        store->gaps = memory_resize(store->gaps, store->gap_capacity * sizeof(*store->gaps));
    }
    memmove(&store->gaps[at + 1], &store->gaps[at], (store->gap_count - at) * sizeof(*store->gaps));
    store->gaps[at] = gap;
    store->gap_count++;
}

/* The gap that `number` is in; gap_count if it is in none. */
static size_t gap_find(const struct sqlite_store *store, uint32_t number)
{
    size_t low = 0;
    size_t high = store->gap_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (store->gaps[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < store->gap_count && store->gaps[low].first <= number ? low : store->gap_count;
}

static enum err gap_write(struct sqlite_store *store, struct user_gap gap, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_GAP_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, gap.first);
    db_bind_int(statement, 2, gap.last);
    return db_run(&store->db, statement, error);
}

static enum err gap_open(struct sqlite_store *store, struct user_gap gap, struct error *error)
{
    gap_insert(store, store->gap_count, gap);
    return gap_write(store, gap, error);
}

/* `number` is taken: what is left of its gap is none, one or two gaps. */
static enum err gap_fill(struct sqlite_store *store, size_t at, uint32_t number,
                         struct error *error)
{
    struct user_gap gap = store->gaps[at];
    sqlite3_stmt *statement = db_take(&store->db, SQL_GAP_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, gap.first);
    enum err err = db_run(&store->db, statement, error);
    memmove(&store->gaps[at], &store->gaps[at + 1],
            (store->gap_count - at - 1) * sizeof(*store->gaps));
    store->gap_count--;
    if (!err && number < gap.last) {
        struct user_gap above = {number + 1, gap.last};
        gap_insert(store, at, above);
        err = gap_write(store, above, error);
    }
    if (!err && number > gap.first) {
        struct user_gap below = {gap.first, number - 1};
        gap_insert(store, at, below);
        err = gap_write(store, below, error);
    }
    return err;
}

/* ---- loading ---- */

static enum err load_gaps(struct sqlite_store *store, struct error *error)
{
    store->gap_count = 0;
    sqlite3_stmt *statement = db_take(&store->db, SQL_GAPS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    enum err err;
    while (!(err = db_step(&store->db, statement, error)))
        gap_insert(
            store, store->gap_count,
            (struct user_gap){(uint32_t)db_int(statement, 0), (uint32_t)db_int(statement, 1)});
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void tail_put(struct sqlite_store *store, struct slice name, uint32_t number)
{
    lock_take(&store->tail_lock);
    ids_put(&store->tail, hash_stable(name), (uint64_t)number + 1);
    lock_release(&store->tail_lock);
}

/* Readers go on finding everybody in the old tail until the new one is whole: whoever is not
 * found is given a second number. */
enum err users_load(struct sqlite_store *store, struct error *error)
{
    enum err err = load_gaps(store, error);
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(&store->db, SQL_USERS_FROM, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, store->indexed_users);
    db_bind_int(statement, 2, -1);
    struct ids tail;
    ids_init(&tail, 0, store->tail.key);
    while (!(err = db_step(&store->db, statement, error)))
        ids_put(&tail, hash_stable(db_slice(statement, 1)), (uint64_t)db_int(statement, 0) + 1);
    if (err != ERR_NOT_FOUND) {
        ids_done(&tail);
        return err;
    }
    lock_take(&store->tail_lock);
    ids_replace(&store->tail, &tail);
    lock_release(&store->tail_lock);
    return ERR_OK;
}

/* ---- new users ---- */

static enum err index_add(struct sqlite_store *store, uint64_t hash, uint32_t number,
                          struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_USER_HASH_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)hash);
    db_bind_int(statement, 2, number);
    return db_run(&store->db, statement, error);
}

static enum err add_user(struct sqlite_store *store, uint32_t number, struct slice name,
                         struct error *error)
{
    enum err err = ERR_OK;
    if (number >= store->mark.next_user) {
        if (number > store->mark.next_user)
            err = gap_open(store, (struct user_gap){store->mark.next_user, number - 1}, error);
        store->mark.next_user = number + 1;
    } else {
        size_t gap = gap_find(store, number);
        if (gap == store->gap_count)
            return ERR_OK; /* it is there already */
        err = gap_fill(store, gap, number, error);
    }
    if (err)
        return err;
    sqlite3_stmt *statement = db_take(&store->db, SQL_USER_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, number);
    db_bind_text(statement, 2, name);
    err = db_run(&store->db, statement, error);
    if (err)
        return err;
    if (number < store->indexed_users)
        return index_add(store, hash_stable(name), number, error);
    tail_put(store, name, number);
    return ERR_OK;
}

static bool is_new_number(const struct sqlite_store *store, const struct store_reaction *reaction)
{
    if (!reaction->named || reaction->erased || reaction->number == EVENT_NO_NUMBER)
        return false;
    return reaction->number >= store->mark.next_user ||
           (store->gap_count > 0 && gap_find(store, reaction->number) < store->gap_count);
}

/* Numbers below `next` are given out, whether or not we have met their users. */
enum err users_reserve(struct sqlite_store *store, uint32_t next, struct error *error)
{
    if (next <= store->mark.next_user)
        return ERR_OK;
    struct user_gap gap = {store->mark.next_user, next - 1};
    store->mark.next_user = next;
    return gap_open(store, gap, error);
}

/* Nobody has the number any more, nor will anybody but its old user. */
enum err users_remove(struct sqlite_store *store, uint32_t number, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_USER_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, number);
    enum err err = db_run(&store->db, statement, error);
    if (err)
        return err;
    size_t at = 0;
    while (at < store->gap_count && store->gaps[at].last < number)
        at++;
    struct user_gap gap = {number, number};
    gap_insert(store, at, gap);
    return gap_write(store, gap, error);
}

struct new_user {
    uint32_t number;
    struct slice name;
};

static int by_number(const void *a, const void *b)
{
    const struct new_user *left = a;
    const struct new_user *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* Inserts the new users of the whole batch in the order of their numbers, so that rows are
 * appended and few gaps open. */
enum err users_add(struct sqlite_store *store, const struct store_batch *batch, struct error *error)
{
    struct new_user *users = NULL;
    size_t count = 0;
    size_t capacity = 0;
    for (size_t i = 0; i < batch->unit_count; i++) {
        const struct store_unit *unit = &batch->units[i];
        for (size_t j = 0; j < unit->reaction_count; j++) {
            if (!is_new_number(store, &unit->reactions[j]))
                continue;
            if (count == capacity) {
                capacity = capacity * 2 + 64;
                users = memory_resize(users, capacity * sizeof(*users));
            }
            users[count++] = (struct new_user){unit->reactions[j].number, unit->reactions[j].user};
        }
    }
    if (count > 1)
        qsort(users, count, sizeof(*users), by_number);
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (i == 0 || users[i].number != users[i - 1].number)
            err = add_user(store, users[i].number, users[i].name, error);
    }
    free(users);
    return err;
}

/* ---- finding ---- */

/* Is `number` the user of this name? ERR_NOT_FOUND. */
static enum err has_name(struct db *db, uint32_t number, struct slice name, struct error *error)
{
    sqlite3_stmt *statement = db_take(db, SQL_USER_NAME, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, number);
    enum err err = db_step(db, statement, error);
    if (err)
        return err;
    bool is = slice_equal(db_slice(statement, 0), name);
    sqlite3_reset(statement);
    return is ? ERR_OK : ERR_NOT_FOUND;
}

#define CANDIDATES 16u /* users of one 64-bit hash: two are a wonder already */

static size_t tail_candidates(struct sqlite_store *store, uint64_t hash, uint32_t *numbers)
{
    size_t count = 0;
    size_t at = SIZE_MAX;
    uint64_t number;
    lock_take(&store->tail_lock);
    while (count < CANDIDATES && (number = ids_next(&store->tail, hash, &at)) != 0)
        numbers[count++] = (uint32_t)(number - 1);
    lock_release(&store->tail_lock);
    return count;
}

static enum err index_candidates(struct db *db, uint64_t hash, uint32_t *numbers, size_t *count,
                                 struct error *error)
{
    *count = 0;
    sqlite3_stmt *statement = db_take(db, SQL_USER_HASH, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)hash);
    enum err err;
    while (!(err = db_step(db, statement, error))) {
        if (*count < CANDIDATES)
            numbers[(*count)++] = (uint32_t)db_int(statement, 0);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err pick(struct db *db, const uint32_t *numbers, size_t count, struct slice name,
                     uint32_t *ret_number, struct error *error)
{
    enum err err = ERR_NOT_FOUND;
    for (size_t i = 0; i < count && err == ERR_NOT_FOUND; i++) {
        err = has_name(db, numbers[i], name, error);
        *ret_number = numbers[i];
    }
    return err;
}

/* The tail first: what leaves it is in the index before. */
enum err users_of_name(struct sqlite_store *store, struct db *db, struct slice name,
                       uint32_t *ret_number, struct error *error)
{
    uint64_t hash = hash_stable(name);
    uint32_t numbers[CANDIDATES];
    size_t count = tail_candidates(store, hash, numbers);
    enum err err = pick(db, numbers, count, name, ret_number, error);
    if (err != ERR_NOT_FOUND)
        return err;
    err = index_candidates(db, hash, numbers, &count, error);
    return err ? err : pick(db, numbers, count, name, ret_number, error);
}

/* The number of a reaction's user, who gets one if an older log did not give it. */
enum err users_number(struct sqlite_store *store, const struct store_reaction *reaction,
                      uint32_t *ret_number, struct error *error)
{
    *ret_number = reaction->number;
    if (!reaction->named || reaction->number != EVENT_NO_NUMBER)
        return ERR_OK;
    enum err err = users_of_name(store, &store->db, reaction->user, ret_number, error);
    if (err != ERR_NOT_FOUND)
        return err;
    if (store->mark.next_user == EVENT_NO_NUMBER)
        return error_set(error, ERR_REFUSED, "there is no number left for a new user");
    *ret_number = store->mark.next_user;
    return add_user(store, *ret_number, reaction->user, error);
}

/* ---- merging ---- */

struct hashed {
    uint64_t hash;
    uint32_t number;
};

static int by_hash(const void *a, const void *b)
{
    /* as SQLite sorts: signed */
    int64_t left = (int64_t)((const struct hashed *)a)->hash;
    int64_t right = (int64_t)((const struct hashed *)b)->hash;
    return (left > right) - (left < right);
}

static enum err read_tail(struct sqlite_store *store, struct hashed **ret_users, size_t *ret_count,
                          struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_USERS_FROM, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, store->indexed_users);
    db_bind_int(statement, 2, -1);
    struct hashed *users = NULL;
    size_t count = 0;
    size_t capacity = 0;
    enum err err;
    while (!(err = db_step(&store->db, statement, error))) {
        if (count == capacity) {
            capacity = capacity * 2 + 1024;
            users = memory_resize(users, capacity * sizeof(*users));
        }
        users[count++] =
            (struct hashed){hash_stable(db_slice(statement, 1)), (uint32_t)db_int(statement, 0)};
    }
    *ret_users = users;
    *ret_count = count;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static bool merge_is_due(const struct sqlite_store *store)
{
    size_t enough = store->indexed_users / MERGE_SHARE;
    if (enough < MERGE_MIN)
        enough = MERGE_MIN;
    return store->tail.count >= (enough < MERGE_MAX ? enough : MERGE_MAX);
}

enum err users_merge(struct sqlite_store *store, bool at_once, bool *ret_merged,
                     struct error *error)
{
    *ret_merged = false;
    if (store->tail.count == 0 || (!at_once && !merge_is_due(store)))
        return ERR_OK;
    struct hashed *users = NULL;
    size_t count;
    enum err err = read_tail(store, &users, &count, error);
    if (!err && count > 1)
        qsort(users, count, sizeof(*users), by_hash);
    for (size_t i = 0; i < count && !err; i++)
        err = index_add(store, users[i].hash, users[i].number, error);
    free(users);
    if (err)
        return err;
    store->indexed_users = store->mark.next_user;
    *ret_merged = true;
    return ERR_OK;
}

void users_merged(struct sqlite_store *store)
{
    lock_take(&store->tail_lock);
    ids_clear(&store->tail);
    lock_release(&store->tail_lock);
}
