/* users.c - numbers of named users. Where one process has the hot state, events bring them along;
 * where many have it, users are known by their names, and the store gives out the numbers. Memory
 * knows which rows are there, and the numbers of names met lately; that is forgotten with every
 * transaction that fails, and when somebody was erased. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/user.h"
#include "store/postgres/own.h"

#define ROUNDS 8u /* until everybody has a number: others give them out at the same time */

/* ---- what is known ---- */

static bool is_known(const struct postgres_store *store, uint32_t number)
{
    size_t word = number / 64;
    return word < store->known_words && store->known[word] >> number % 64 & 1;
}

static void know(struct postgres_store *store, uint32_t number)
{
    size_t word = number / 64;
    if (word >= store->known_words) {
        size_t words = word + word / 2 + 1024;
        store->known = memory_resize(store->known, words * sizeof(uint64_t));
        memset(store->known + store->known_words, 0,
               (words - store->known_words) * sizeof(uint64_t));
        store->known_words = words;
    }
    store->known[word] |= UINT64_C(1) << number % 64;
}

void postgres_users_forget(struct postgres_store *store, uint32_t number)
{
    if (is_known(store, number))
        store->known[number / 64] &= ~(UINT64_C(1) << number % 64);
}

void postgres_users_forget_all(struct postgres_store *store)
{
    if (store->known_words > 0)
        memset(store->known, 0, store->known_words * sizeof(uint64_t));
    met_clear(&store->met);
}

void postgres_users_check(struct postgres_store *store, int64_t erased)
{
    if (erased != store->erased)
        postgres_users_forget_all(store);
    store->erased = erased;
}

/* ---- those whose row may be missing ---- */

/* A reaction's user whose number is to be found. */
struct seeker {
    struct slice name;
    uint32_t number; /* EVENT_NO_NUMBER: none yet */
    bool is_found;
    size_t at; /* of the reaction */
};

static int by_name(const void *a, const void *b)
{
    const struct seeker *left = a;
    const struct seeker *right = b;
    size_t size = left->name.size < right->name.size ? left->name.size : right->name.size;
    int order = size > 0 ? memcmp(left->name.data, right->name.data, size) : 0;
    if (order != 0)
        return order;
    if (left->name.size != right->name.size)
        return left->name.size < right->name.size ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

/* Seekers of one name stand side by side; the first one seeks for all. */
static bool is_first(const struct seeker *seekers, size_t i)
{
    return i == 0 || !slice_equal(seekers[i].name, seekers[i - 1].name);
}

static void pass_on(struct seeker *seekers, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (is_first(seekers, i))
            continue;
        seekers[i].number = seekers[i - 1].number;
        seekers[i].is_found = seekers[i - 1].is_found;
    }
}

/* Nearly always they are new, as we believe: then an insert that does not look for others costs
 * half. If one is there after all, it is taken back, and done as it ought to be. */
static enum err insert(struct postgres_store *store, enum statement plain, enum statement shared,
                       struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_columns *columns = &store->scratch.columns;
    enum err err = pg_execute(pg, "SAVEPOINT users", error);
    if (err)
        return err;
    struct error why = {.text = ""};
    err = pg_query_columns(pg, plain, columns, &why);
    if (!err)
        return ERR_OK;
    if (strcmp(pg->state, "23505") != 0)
        return error_set(error, err, "%s", why.text);
    err = pg_execute(pg, "ROLLBACK TO SAVEPOINT users", error);
    return err ? err : pg_query_columns(pg, shared, columns, error);
}

/* Writes down those that bring their number. All of them may be new: then that was it. */
static enum err add_numbered(struct postgres_store *store, struct seeker *seekers, size_t count,
                             struct error *error)
{
    bool are_new = true;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "it");
    for (size_t i = 0; i < count; i++) {
        if (!is_first(seekers, i) || seekers[i].number == EVENT_NO_NUMBER)
            continue;
        are_new = are_new && seekers[i].number >= store->first_new;
        pg_array_int(&to[0], seekers[i].number);
        pg_array_text(&to[1], seekers[i].name);
    }
    uint32_t sent = to[0].count;
    if (sent == 0)
        return ERR_OK;
    enum err err = are_new ? insert(store, SQL_USERS_ADD, SQL_USERS_ADD_SHARED, error)
                           : pg_query_columns(&store->pg, SQL_USERS_ADD_SHARED,
                                              &store->scratch.columns, error);
    if (err || pg_touched(&store->pg) < sent)
        return err;
    for (size_t i = 0; i < count; i++)
        seekers[i].is_found = seekers[i].number != EVENT_NO_NUMBER;
    return ERR_OK;
}

/* Looks up whoever is not found. The table believes itself: a name that has another number there
 * has that. Says how many are left. */
static enum err look_up(struct postgres_store *store, struct seeker *seekers, size_t count,
                        size_t *ret_left, struct error *error)
{
    struct pg *pg = &store->pg;
    size_t *asked = memory_take((count + 1) * sizeof(*asked));
    size_t asked_count = 0;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "t");
    for (size_t i = 0; i < count; i++) {
        if (!is_first(seekers, i) || seekers[i].is_found)
            continue;
        pg_array_text(&to[0], seekers[i].name);
        asked[asked_count++] = i;
    }
    *ret_left = asked_count;
    enum err err = pg_query_columns(pg, SQL_USERS_FIND, &store->scratch.columns, error);
    for (int row = 0; !err && asked_count > 0 && row < pg_rows(pg); row++) {
        struct seeker *seeker = &seekers[asked[pg_int(pg, row, 0) - 1]];
        seeker->number = (uint32_t)pg_int(pg, row, 1);
        seeker->is_found = true;
        --*ret_left;
    }
    free(asked);
    return err;
}

/* Numbers that events have brought are not given out again. */
static enum err align(struct postgres_store *store, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_int(pg, store->next_user);
    return pg_query(pg, SQL_USERS_ALIGN, error);
}

/* Gives a number to whoever is not found. What comes back is in the order of the names, without
 * those whom another has met at the same time: they are found when they are looked up again. */
static enum err add_nameless(struct postgres_store *store, struct seeker *seekers, size_t count,
                             size_t *left, struct error *error)
{
    struct pg *pg = &store->pg;
    enum err err = align(store, error);
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "t");
    for (size_t i = 0; i < count; i++) {
        if (is_first(seekers, i) && !seekers[i].is_found)
            pg_array_text(&to[0], seekers[i].name);
    }
    if (!err)
        err = insert(store, SQL_USERS_NEW, SQL_USERS_NEW_SHARED, error);
    size_t at = 0;
    for (int row = 0; !err && row < pg_rows(pg); row++) {
        struct slice name = pg_text(pg, row, 1);
        while (at < count && (seekers[at].is_found || !slice_equal(seekers[at].name, name)))
            at++;
        if (at == count)
            break;
        seekers[at].number = (uint32_t)pg_int(pg, row, 0);
        seekers[at].is_found = true;
        --*left;
    }
    return err;
}

/* Ends when everybody has a number. */
static enum err seek(struct postgres_store *store, struct seeker *seekers, size_t count,
                     struct error *error)
{
    qsort(seekers, count, sizeof(*seekers), by_name);
    enum err err = add_numbered(store, seekers, count, error);
    size_t left = 1;
    for (unsigned round = 0; !err && left > 0 && round < ROUNDS; round++) {
        err = look_up(store, seekers, count, &left, error);
        if (!err && left > 0)
            err = add_nameless(store, seekers, count, &left, error);
    }
    if (!err && left > 0)
        err = error_set(error, ERR_UNAVAILABLE, "there is no number left for a new user");
    pass_on(seekers, count);
    return err;
}

/* ---- all of a batch ---- */

static void note_next(struct postgres_store *store, uint32_t number)
{
    if ((int64_t)number + 1 > store->next_user)
        store->next_user = (int64_t)number + 1;
}

enum err postgres_users_resolve(struct postgres_store *store,
                                const struct store_reaction *const *reactions, size_t count,
                                int64_t *ret_user_ids, struct error *error)
{
    struct seeker *seekers = NULL;
    size_t seeker_count = 0;
    size_t capacity = 0;
    for (size_t i = 0; i < count; i++) {
        const struct store_reaction *reaction = reactions[i];
        ret_user_ids[i] = reaction->erased ? 0 : (int64_t)reaction->number;
        if (reaction->erased || !reaction->named)
            continue;
        uint32_t number = reaction->number;
        bool has_number = number != EVENT_NO_NUMBER;
        if (has_number)
            note_next(store, number);
        if (has_number ? is_known(store, number) : met_find(&store->met, reaction->user, &number)) {
            ret_user_ids[i] = -1 - (int64_t)number;
            continue;
        }
        if (seeker_count == capacity) {
            capacity = capacity * 2 + 64;
            seekers = memory_resize(seekers, capacity * sizeof(*seekers));
        }
        seekers[seeker_count++] =
            (struct seeker){.name = reaction->user, .number = reaction->number, .at = i};
    }
    enum err err = seeker_count > 0 ? seek(store, seekers, seeker_count, error) : ERR_OK;
    for (size_t i = 0; !err && i < seeker_count; i++) {
        const struct seeker *seeker = &seekers[i];
        ret_user_ids[seeker->at] = -1 - (int64_t)seeker->number;
        if (reactions[seeker->at]->number != EVENT_NO_NUMBER)
            know(store, seeker->number);
        else
            met_put(&store->met, seeker->name, seeker->number);
    }
    free(seekers);
    return err;
}
