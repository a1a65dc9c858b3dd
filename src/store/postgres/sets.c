/* sets.c - members as sets (core/sets.h): of an item in one piece in its row of `entries`, of
 * others in 64 rows of `members`. All sets that a batch touches are read by one statement, merged
 * here, and written by one more. A few likes of an item cost what one does. */
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "store/postgres/own.h"

/* A set, and what a batch does to it. */
struct piece {
    int64_t item;
    uint32_t slice; /* 0 of an item in one piece */
    size_t first;   /* its touches */
    size_t count;
    int64_t *deltas;  /* of its unit; NULL: nobody asks */
    struct slice old; /* in the result of the last statement */
};

/* The pieces of a batch, and room for their touches. */
struct pieces {
    struct piece *of;
    size_t count;
    size_t capacity;
    struct sets_touch *touches;
    struct sets_touch *spare;
    size_t touch_count;
};

static void pieces_init(struct pieces *pieces, size_t touches)
{
    *pieces = (struct pieces){0};
    pieces->touches = memory_take((touches + 1) * sizeof(struct sets_touch));
    pieces->spare = memory_take((touches + 1) * sizeof(struct sets_touch));
}

static void pieces_done(struct pieces *pieces)
{
    free(pieces->of);
    free(pieces->touches);
    free(pieces->spare);
}

static struct piece *add_piece(struct pieces *pieces)
{
    if (pieces->count == pieces->capacity) {
        pieces->capacity = pieces->capacity * 2 + 64;
        pieces->of = memory_resize(pieces->of, pieces->capacity * sizeof(struct piece));
    }
    struct piece *piece = &pieces->of[pieces->count++];
    *piece = (struct piece){.first = pieces->touch_count};
    return piece;
}

/* ---- touches ---- */

static struct sets_touch touch_of(int64_t user_id, unsigned kind)
{
    return user_id < 0 ? (struct sets_touch){(uint32_t)(-1 - user_id), 1, (uint8_t)kind}
                       : (struct sets_touch){(uint32_t)user_id, 0, (uint8_t)kind};
}

/* Who touches what in an item. */
struct source {
    int64_t item;
    const struct store_reaction *reactions;
    const int64_t *user_ids;
    size_t count;
    int64_t *deltas;
};

static void gather_whole(struct postgres_store *store, const struct source *source,
                         struct pieces *to)
{
    struct piece *piece = add_piece(to);
    piece->item = source->item;
    piece->deltas = source->deltas;
    for (size_t i = 0; i < source->count; i++) {
        const struct store_reaction *reaction = &source->reactions[i];
        if (!reaction->erased)
            to->touches[to->touch_count++] =
                touch_of(source->user_ids[i], kind_names_find(&store->kinds, reaction->after));
    }
    piece->count = to->touch_count - piece->first;
    if (piece->count == 0)
        to->count--;
}

/* The touches by slice, in the order in which they came. */
static void gather_slices(struct postgres_store *store, const struct source *source,
                          struct pieces *to)
{
    size_t counts[STATE_SLICES] = {0};
    size_t next[STATE_SLICES];
    for (size_t i = 0; i < source->count; i++)
        counts[bucket_slice(source->reactions[i].bucket)] += !source->reactions[i].erased;
    for (uint32_t slice = 0; slice < STATE_SLICES; slice++) {
        next[slice] = to->touch_count;
        if (counts[slice] == 0)
            continue;
        struct piece *piece = add_piece(to);
        piece->item = source->item;
        piece->slice = slice;
        piece->count = counts[slice];
        piece->deltas = source->deltas;
        to->touch_count += counts[slice];
    }
    for (size_t i = 0; i < source->count; i++) {
        const struct store_reaction *reaction = &source->reactions[i];
        if (!reaction->erased)
            to->touches[next[bucket_slice(reaction->bucket)]++] =
                touch_of(source->user_ids[i], kind_names_find(&store->kinds, reaction->after));
    }
}

/* ---- reading and merging ---- */

static int by_place(const void *a, const void *b)
{
    const struct piece *left = a;
    const struct piece *right = b;
    if (left->item != right->item)
        return left->item < right->item ? -1 : 1;
    return (left->slice > right->slice) - (left->slice < right->slice);
}

/* Reads the sets of the pieces: columns item, slice (of slices), members. */
static enum err read_old(struct postgres_store *store, struct pieces *pieces, bool whole,
                         struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, whole ? "i" : "ii");
    qsort(pieces->of, pieces->count, sizeof(struct piece), by_place);
    for (size_t i = 0; i < pieces->count; i++) {
        pg_array_int(&to[0], pieces->of[i].item);
        if (!whole)
            pg_array_int(&to[1], pieces->of[i].slice);
    }
    enum err err = pg_query_columns(pg, whole ? SQL_SETS_WHOLE : SQL_SETS_SLICES,
                                    &store->scratch.columns, error);
    for (int row = 0; !err && row < pg_rows(pg); row++) {
        struct piece key = {.item = pg_int(pg, row, 0),
                            .slice = whole ? 0 : (uint32_t)pg_int(pg, row, 1)};
        struct piece *piece =
            bsearch(&key, pieces->of, pieces->count, sizeof(struct piece), by_place);
        if (piece)
            piece->old = pg_slice(pg, row, whole ? 1 : 2);
    }
    return err;
}

/* What the piece becomes, to store->raw. */
static enum err merge(struct postgres_store *store, struct pieces *pieces, struct piece *piece,
                      struct error *error)
{
    int64_t deltas[SETS_KINDS] = {0};
    struct sets_touch *touches = pieces->touches + piece->first;
    size_t count = sets_sort(touches, piece->count, pieces->spare);
    store->raw.size = 0;
    /* The unit is refused for it: waiting for a damaged row would hold up all others. */
    if (sets_merge(piece->old, touches, count, &store->raw, deltas))
        return error_set(error, ERR_REFUSED,
                         "entries.number %lld: slice %u of its members is damaged",
                         (long long)piece->item, piece->slice);
    for (size_t kind = 1; piece->deltas && kind < store->scratch.stride; kind++)
        piece->deltas[kind] += deltas[kind];
    return ERR_OK;
}

static enum err write_whole(struct postgres_store *store, struct pieces *pieces,
                            struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "ix");
    enum err err = ERR_OK;
    for (size_t i = 0; i < pieces->count && !err; i++) {
        err = merge(store, pieces, &pieces->of[i], error);
        pg_array_int(&to[0], pieces->of[i].item);
        if (store->raw.size > 0)
            pg_array_bytes(&to[1], buffer_slice(&store->raw));
        else
            pg_array_null(&to[1]);
    }
    return err ? err
               : pg_query_columns(&store->pg, SQL_SETS_WHOLE_SET, &store->scratch.columns, error);
}

static enum err remove_empty(struct postgres_store *store, const struct pieces *pieces,
                             const bool *is_empty, struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "ii");
    for (size_t i = 0; i < pieces->count; i++) {
        if (!is_empty[i])
            continue;
        pg_array_int(&to[0], pieces->of[i].item);
        pg_array_int(&to[1], pieces->of[i].slice);
    }
    return pg_query_columns(&store->pg, SQL_SETS_SLICES_REMOVE, &store->scratch.columns, error);
}

static enum err write_slices(struct postgres_store *store, struct pieces *pieces,
                             struct error *error)
{
    bool *is_empty = memory_take_zeroed(pieces->count + 1);
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iix");
    enum err err = ERR_OK;
    for (size_t i = 0; i < pieces->count && !err; i++) {
        err = merge(store, pieces, &pieces->of[i], error);
        is_empty[i] = store->raw.size == 0;
        if (is_empty[i])
            continue;
        pg_array_int(&to[0], pieces->of[i].item);
        pg_array_int(&to[1], pieces->of[i].slice);
        pg_array_bytes(&to[2], buffer_slice(&store->raw));
    }
    if (!err)
        err = pg_query_columns(&store->pg, SQL_SETS_SLICES_SET, &store->scratch.columns, error);
    if (!err)
        err = remove_empty(store, pieces, is_empty, error);
    free(is_empty);
    return err;
}

/* `is_new`: there is nothing to be read. */
static enum err merge_pieces(struct postgres_store *store, struct pieces *pieces, bool whole,
                             bool is_new, struct error *error)
{
    if (pieces->count == 0)
        return ERR_OK;
    enum err err = is_new ? ERR_OK : read_old(store, pieces, whole, error);
    if (err)
        return err;
    return whole ? write_whole(store, pieces, error) : write_slices(store, pieces, error);
}

/* ---- an item that gets slices ---- */

struct named {
    uint32_t number;
    struct slice name;
};

static int by_number(const void *a, const void *b)
{
    uint32_t left = ((const struct named *)a)->number;
    uint32_t right = ((const struct named *)b)->number;
    return (left > right) - (left < right);
}

/* The members of a list as reactions, whose buckets follow from their names. The names stay in the
 * result of this statement. */
static enum err name_members(struct postgres_store *store, const struct sets_list *list,
                             struct named **ret_names, size_t *ret_count, struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "i");
    for (size_t g = 0; g < list->group_count; g++) {
        const struct sets_group *group = &list->groups[g];
        for (uint32_t i = 0; group->named && i < group->count; i++)
            pg_array_int(&to[0], list->numbers[group->first + i]);
    }
    *ret_names = NULL;
    *ret_count = 0;
    if (to[0].count == 0)
        return ERR_OK;
    enum err err = pg_query_columns(pg, SQL_USER_NAMES, &store->scratch.columns, error);
    if (err)
        return err;
    *ret_count = (size_t)pg_rows(pg);
    *ret_names = memory_take((*ret_count + 1) * sizeof(struct named));
    for (size_t i = 0; i < *ret_count; i++)
        (*ret_names)[i] = (struct named){(uint32_t)pg_int(pg, (int)i, 0), pg_text(pg, (int)i, 1)};
    qsort(*ret_names, *ret_count, sizeof(struct named), by_number);
    return ERR_OK;
}

static struct slice name_of(const struct named *names, size_t count, bool is_named, uint32_t number,
                            char digits[DECIMAL_SIZE_MAX])
{
    struct named key = {.number = number};
    if (is_named) {
        const struct named *found = bsearch(&key, names, count, sizeof(key), by_number);
        return found ? found->name : (struct slice){NULL, 0};
    }
    char *end = decimal_format_unsigned(digits, number);
    return (struct slice){digits, (size_t)(end - digits)};
}

/* The reactions that would make these members. */
static void relive(const struct postgres_store *store, const struct sets_list *list, uint64_t hash,
                   const struct named *names, size_t name_count, struct store_reaction *reactions,
                   int64_t *user_ids)
{
    size_t at = 0;
    for (size_t g = 0; g < list->group_count; g++) {
        const struct sets_group *group = &list->groups[g];
        for (uint32_t i = 0; i < group->count; i++, at++) {
            uint32_t number = list->numbers[group->first + i];
            char digits[DECIMAL_SIZE_MAX];
            struct slice name = name_of(names, name_count, group->named, number, digits);
            reactions[at] = (struct store_reaction){
                .bucket = bucket_of_hashed(hash, name),
                .after = kind_names_at(&store->kinds, group->kind),
            };
            user_ids[at] = group->named ? -1 - (int64_t)number : (int64_t)number;
        }
    }
}

static enum err write_split(struct postgres_store *store, const struct work *work,
                            const struct sets_list *list, struct error *error)
{
    struct named *names;
    size_t name_count;
    enum err err = name_members(store, list, &names, &name_count, error);
    if (err)
        return err;
    size_t count = list->number_count;
    struct store_reaction *reactions = memory_take((count + 1) * sizeof(*reactions));
    int64_t *user_ids = memory_take((count + 1) * sizeof(*user_ids));
    relive(store, list, hash_stable(work->unit->id), names, name_count, reactions, user_ids);
    struct source source = {
        .item = work->entry.number, .reactions = reactions, .user_ids = user_ids, .count = count};
    struct pieces pieces;
    pieces_init(&pieces, count);
    gather_slices(store, &source, &pieces);
    err = merge_pieces(store, &pieces, false, true, error);
    pieces_done(&pieces);
    free(user_ids);
    free(reactions);
    free(names);
    return err;
}

static enum err clear_whole(struct postgres_store *store, int64_t item, struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "ix");
    pg_array_int(&to[0], item);
    pg_array_null(&to[1]);
    return pg_query_columns(&store->pg, SQL_SETS_WHOLE_SET, &store->scratch.columns, error);
}

/* A small item becomes a large one. */
static enum err split(struct postgres_store *store, const struct work *work, struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "i");
    pg_array_int(&to[0], work->entry.number);
    enum err err = pg_query_columns(&store->pg, SQL_SETS_WHOLE, &store->scratch.columns, error);
    if (err || pg_rows(&store->pg) == 0)
        return err;
    struct sets_list list = {.numbers = NULL};
    if (sets_read(pg_slice(&store->pg, 0, 1), &list))
        err = error_set(error, ERR_REFUSED, "entries.number %lld: its members are damaged",
                        (long long)work->entry.number);
    if (!err)
        err = write_split(store, work, &list, error);
    sets_list_done(&list);
    return err ? err : clear_whole(store, work->entry.number, error);
}

/* ---- a batch ---- */

static enum err write_history(struct postgres_store *store, struct work *const *works, size_t count,
                              struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iiim");
    for (size_t i = 0; i < count; i++) {
        const struct store_unit *unit = works[i]->unit;
        const int64_t *user_ids = store->scratch.user_ids + works[i]->first;
        for (size_t j = 0; j < unit->reaction_count; j++) {
            const struct store_reaction *reaction = &unit->reactions[j];
            pg_array_int(&to[0], works[i]->entry.number);
            if (reaction->erased)
                pg_array_null(&to[1]);
            else
                pg_array_int(&to[1], user_ids[j]);
            pg_array_int(&to[2], kind_names_find(&store->kinds, reaction->after));
            pg_array_time(&to[3], reaction->time_ms);
        }
    }
    return pg_query_columns(&store->pg, SQL_HISTORY_ADD, &store->scratch.columns, error);
}

/* The sets of all items that are in one piece, or of all others. */
static enum err react(struct postgres_store *store, struct work *const *works, size_t count,
                      bool whole, struct error *error)
{
    size_t touches = 0;
    for (size_t i = 0; i < count; i++)
        touches += works[i]->unit->reaction_count;
    struct pieces pieces;
    pieces_init(&pieces, touches);
    for (size_t i = 0; i < count; i++) {
        const struct work *work = works[i];
        if ((work->entry.slices != STATE_SLICES) != whole)
            continue;
        struct source source = {.item = work->entry.number,
                                .reactions = work->unit->reactions,
                                .user_ids = store->scratch.user_ids + work->first,
                                .count = work->unit->reaction_count,
                                .deltas = postgres_deltas(store, work)};
        if (whole)
            gather_whole(store, &source, &pieces);
        else
            gather_slices(store, &source, &pieces);
    }
    enum err err = merge_pieces(store, &pieces, whole, false, error);
    pieces_done(&pieces);
    return err;
}

enum err postgres_sets_react(struct postgres_store *store, struct work *const *works, size_t count,
                             struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && !err; i++) {
        if (works[i]->is_split)
            err = split(store, works[i], error);
    }
    if (!err)
        err = react(store, works, count, true, error);
    if (!err)
        err = react(store, works, count, false, error);
    return err ? err : write_history(store, works, count, error);
}

/* ---- from scratch ---- */

enum err postgres_sets_replace(struct postgres_store *store, const struct entry *entry,
                               const struct store_reaction *reactions, const int64_t *user_ids,
                               size_t count, struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "i");
    pg_array_int(&to[0], entry->number);
    enum err err = pg_query_columns(&store->pg, SQL_MEMBERS_WIPE, &store->scratch.columns, error);
    if (!err)
        err = clear_whole(store, entry->number, error);
    if (err)
        return err;
    bool whole = entry->slices != STATE_SLICES;
    struct source source = {
        .item = entry->number, .reactions = reactions, .user_ids = user_ids, .count = count};
    struct pieces pieces;
    pieces_init(&pieces, count);
    if (whole)
        gather_whole(store, &source, &pieces);
    else
        gather_slices(store, &source, &pieces);
    err = merge_pieces(store, &pieces, whole, true, error);
    pieces_done(&pieces);
    return err;
}
