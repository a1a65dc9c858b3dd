/* rows.c - members as rows of `reactions`: the row of a user says what is held, and one statement
 * for all reactions of a batch compares, writes, and tells by how much counts move. The rows of an
 * item are nobody else's meanwhile: whoever writes them has taken its row in `entries` first, or
 * that of `progress`. */
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "store/postgres/own.h"

/* ---- which reaction of a user is the last ---- */

struct touch {
    int64_t user_id;
    size_t at;
};

static int by_user(const void *a, const void *b)
{
    const struct touch *left = a;
    const struct touch *right = b;
    if (left->user_id != right->user_id)
        return left->user_id < right->user_id ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

/* Of several reactions of a user the last one stays. */
static void find_last(const struct store_reaction *reactions, const int64_t *user_ids, size_t count,
                      struct touch *touches, bool *ret_is_last)
{
    size_t touched = 0;
    for (size_t i = 0; i < count; i++) {
        ret_is_last[i] = false;
        if (!reactions[i].erased)
            touches[touched++] = (struct touch){user_ids[i], i};
    }
    if (touched > 1)
        qsort(touches, touched, sizeof(*touches), by_user);
    for (size_t i = 0; i < touched; i++) {
        if (i + 1 == touched || touches[i].user_id != touches[i + 1].user_id)
            ret_is_last[touches[i].at] = true;
    }
}

static size_t longest(struct work *const *works, size_t count)
{
    size_t most = 1;
    for (size_t i = 0; i < count; i++) {
        if (works[i]->unit->reaction_count > most)
            most = works[i]->unit->reaction_count;
    }
    return most;
}

/* ---- an item that gets slices ---- */

static struct slice name_of(struct pg *pg, int row, char digits[DECIMAL_SIZE_MAX])
{
    int64_t user_id = pg_int(pg, row, 1);
    if (user_id < 0)
        return pg_text(pg, row, 2);
    char *end = decimal_format(digits, user_id);
    return (struct slice){digits, (size_t)(end - digits)};
}

/* The rows that there are so far are told their slice. */
static enum err split_item(struct postgres_store *store, const struct work *work,
                           struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_columns *columns = &store->scratch.columns;
    struct pg_array *to = pg_columns_begin(columns, "i");
    pg_array_int(&to[0], work->entry.number);
    enum err err = pg_query_columns(pg, SQL_REACTIONS_OF, columns, error);
    if (err)
        return err;
    uint64_t item_hash = hash_stable(work->unit->id);
    to = pg_columns_begin(columns, "iii");
    for (int row = 0; row < pg_rows(pg); row++) {
        char digits[DECIMAL_SIZE_MAX];
        struct slice name = name_of(pg, row, digits);
        pg_array_int(&to[0], work->entry.number);
        pg_array_int(&to[1], pg_int(pg, row, 1));
        pg_array_int(&to[2], bucket_slice(bucket_of_hashed(item_hash, name)));
    }
    return pg_query_columns(pg, SQL_REACTIONS_SLICE, columns, error);
}

/* ---- a batch ---- */

static void gather(struct postgres_store *store, const struct work *work, struct touch *touches,
                   bool *is_last, struct pg_array *to)
{
    const struct store_unit *unit = work->unit;
    const int64_t *user_ids = store->scratch.user_ids + work->first;
    find_last(unit->reactions, user_ids, unit->reaction_count, touches, is_last);
    for (size_t i = 0; i < unit->reaction_count; i++) {
        const struct store_reaction *reaction = &unit->reactions[i];
        pg_array_int(&to[0], work->entry.number);
        if (reaction->erased)
            pg_array_null(&to[1]);
        else
            pg_array_int(&to[1], user_ids[i]);
        pg_array_int(&to[2], kind_names_find(&store->kinds, reaction->after));
        if (work->entry.slices == STATE_SLICES)
            pg_array_int(&to[3], bucket_slice(reaction->bucket));
        else
            pg_array_null(&to[3]);
        pg_array_time(&to[4], reaction->time_ms);
        pg_array_bool(&to[5], is_last[i]);
    }
}

static int by_number(const void *a, const void *b)
{
    struct work *const *left = a;
    struct work *const *right = b;
    int64_t x = (*left)->entry.number;
    int64_t y = (*right)->entry.number;
    return (x > y) - (x < y);
}

/* Lines of the answer: item, kind before, kind after, how many. */
static void add_deltas(struct postgres_store *store, struct work *const *works, size_t count)
{
    struct pg *pg = &store->pg;
    struct work **sorted = memory_take(count * sizeof(*sorted));
    memcpy(sorted, works, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_number);
    for (int row = 0; row < pg_rows(pg); row++) {
        struct work key = {.entry = {.number = pg_int(pg, row, 0)}};
        struct work *wanted = &key;
        struct work **found = bsearch(&wanted, sorted, count, sizeof(*sorted), by_number);
        if (!found)
            continue;
        int64_t *deltas = postgres_deltas(store, *found);
        int64_t before = pg_int(pg, row, 1);
        int64_t after = pg_int(pg, row, 2);
        int64_t users = pg_int(pg, row, 3);
        if (before > 0 && before < (int64_t)store->scratch.stride)
            deltas[before] -= users;
        if (after > 0 && after < (int64_t)store->scratch.stride)
            deltas[after] += users;
    }
    free(sorted);
}

enum err postgres_rows_react(struct postgres_store *store, struct work *const *works, size_t count,
                             struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (works[i]->is_split)
            err = split_item(store, works[i], error);
    }
    if (err)
        return err;
    size_t most = longest(works, count);
    struct touch *touches = memory_take(most * sizeof(*touches));
    bool *is_last = memory_take(most * sizeof(*is_last));
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iiiimb");
    for (size_t i = 0; i < count; i++)
        gather(store, works[i], touches, is_last, to);
    free(touches);
    free(is_last);
    if (to[0].count == 0)
        return ERR_OK;
    err = pg_query_columns(&store->pg, SQL_REACT, &store->scratch.columns, error);
    if (!err)
        add_deltas(store, works, count);
    return err;
}

/* ---- from scratch ---- */

enum err postgres_rows_replace(struct postgres_store *store, const struct entry *entry,
                               const struct store_reaction *reactions, const int64_t *user_ids,
                               size_t count, struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_columns *columns = &store->scratch.columns;
    struct pg_array *to = pg_columns_begin(columns, "i");
    pg_array_int(&to[0], entry->number);
    enum err err = pg_query_columns(pg, SQL_REACTIONS_WIPE, columns, error);
    if (err || count == 0)
        return err;
    struct touch *touches = memory_take(count * sizeof(*touches));
    bool *is_last = memory_take(count * sizeof(*is_last));
    find_last(reactions, user_ids, count, touches, is_last);
    to = pg_columns_begin(columns, "iiiim");
    for (size_t i = 0; i < count; i++) {
        unsigned kind = kind_names_find(&store->kinds, reactions[i].after);
        if (!is_last[i] || kind == 0 || kind == SETS_KINDS)
            continue;
        pg_array_int(&to[0], entry->number);
        pg_array_int(&to[1], user_ids[i]);
        pg_array_int(&to[2], kind);
        if (entry->slices == STATE_SLICES)
            pg_array_int(&to[3], bucket_slice(reactions[i].bucket));
        else
            pg_array_null(&to[3]);
        pg_array_time(&to[4], reactions[i].time_ms);
    }
    free(touches);
    free(is_last);
    return pg_query_columns(pg, SQL_REACTIONS_PUT, columns, error);
}
