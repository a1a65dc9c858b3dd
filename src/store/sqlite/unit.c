/* What one unit does. The sets decide: a user who is in a set of the item is a member, and a
 * count moves by what a set has gained or lost, whatever the events say was held before. */
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "store/sqlite/own.h"

/* ---- counts as text ---- */

enum err counts_parse(struct slice text, const struct kind_names *kinds,
                      struct kind_counts *ret_counts)
{
    ret_counts->known = 0;
    const char *at = text.data;
    const char *end = text.data + text.size;
    if (text.size < 2 || *at != '{' || end[-1] != '}')
        return ERR_CORRUPT;
    end--;
    for (at++; at < end; at++) {
        const char *name = at + 1;
        const char *quote = *at == '"' ? memchr(name, '"', (size_t)(end - name)) : NULL;
        if (!quote || quote + 1 >= end || quote[1] != ':')
            return ERR_CORRUPT;
        unsigned kind = kind_names_find(kinds, (struct slice){name, (size_t)(quote - name)});
        const char *digits = quote + 2;
        at = memchr(digits, ',', (size_t)(end - digits));
        if (!at)
            at = end;
        int64_t count;
        if (kind == 0 || kind == SETS_KINDS || ret_counts->known >> kind & 1 ||
            !decimal_parse((struct slice){digits, (size_t)(at - digits)}, &count))
            return ERR_CORRUPT;
        ret_counts->counts[kind] = count;
        ret_counts->known |= UINT64_C(1) << kind;
    }
    return ERR_OK;
}

void counts_format(const struct kind_counts *counts, const struct kind_names *kinds,
                   struct buffer *to)
{
    to->size = 0;
    char text[LIMIT_KIND_BYTES + DECIMAL_SIZE_MAX + 8];
    uint64_t left = counts->known;
    char comma = '{';
    while (left) {
        unsigned kind = (unsigned)__builtin_ctzll(left);
        left &= left - 1;
        struct slice name = kind_names_at(kinds, kind);
        char *at = text;
        *at++ = comma;
        *at++ = '"';
        memcpy(at, name.data, name.size);
        at += name.size;
        *at++ = '"';
        *at++ = ':';
        at = decimal_format(at, counts->counts[kind]);
        (void)buffer_append(to, text, (size_t)(at - text));
        comma = ',';
    }
    (void)buffer_append(to, comma == '{' ? "{}" : "}", comma == '{' ? 2 : 1);
}

/* ---- rows of entries ---- */

/* Every row has a sum: one without it is not what was written there. */
static bool is_wrong(sqlite3_stmt *statement, const struct entry *entry)
{
    char digits[DECIMAL_SIZE_MAX];
    return sqlite3_column_type(statement, 11) == SQLITE_NULL ||
           db_int(statement, 11) != sums_of_entry(entry, sums_digits(statement, 5, digits));
}

/* What is in the columns says what it is. A row whose type says something else has a sum that does
 * not fit, and is nevertheless the row of a counter or of an item, which is counted anew. */
enum entry_type entry_type_of(sqlite3_stmt *statement)
{
    if (sqlite3_column_type(statement, 5) != SQLITE_NULL)
        return ENTRY_COUNTER;
    return sqlite3_column_type(statement, 6) != SQLITE_NULL ? ENTRY_ITEM : ENTRY_GONE;
}

void entry_read(sqlite3_stmt *statement, struct entry *entry)
{
    *entry = (struct entry){
        .number = db_int(statement, 0),
        .id = db_slice(statement, 1),
        .type = (enum entry_type)db_int(statement, 2),
        .incarnation = (uint32_t)db_int(statement, 3),
        .updated_ms = db_int(statement, 4),
        .counts = db_slice(statement, 6),
        .slices = (uint32_t)db_int(statement, 7),
        .settings = db_slice(statement, 8),
        .deadline_ms = db_int(statement, 9),
        .members = db_slice(statement, 10),
    };
    entry->is_wrong = is_wrong(statement, entry) || entry->type != entry_type_of(statement);
    entry->type = entry_type_of(statement);
}

static enum err find_in_index(struct sqlite_store *store, struct slice id, uint64_t hash,
                              struct entry *entry, sqlite3_stmt **ret_statement,
                              struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_ENTRY_BY_ID, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_text(statement, 1, id);
    enum err err = db_step(&store->db, statement, error);
    if (err == ERR_NOT_FOUND) {
        *entry = (struct entry){0};
        *ret_statement = NULL;
        return ERR_OK;
    }
    if (err)
        return err;
    entry_read(statement, entry);
    ids_set(&store->ids, hash, (uint64_t)entry->number);
    *ret_statement = statement;
    return ERR_OK;
}

/* Finds the row of an id; entry->number is 0 without one. With a row, *ret_statement holds
 * its slices until it is reset. */
enum err entry_find(struct sqlite_store *store, struct slice id, struct entry *ret_entry,
                    sqlite3_stmt **ret_statement, struct error *error)
{
    uint64_t hash = hash_stable(id);
    uint64_t number = ids_get(&store->ids, hash);
    if (number == 0)
        return find_in_index(store, id, hash, ret_entry, ret_statement, error);
    sqlite3_stmt *statement = db_take(&store->db, SQL_ENTRY, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, (int64_t)number);
    enum err err = db_step(&store->db, statement, error);
    if (!err) {
        entry_read(statement, ret_entry);
        *ret_statement = statement;
        if (slice_equal(ret_entry->id, id))
            return ERR_OK;
        sqlite3_reset(statement);
    }
    if (err && err != ERR_NOT_FOUND)
        return err;
    return find_in_index(store, id, hash, ret_entry, ret_statement, error);
}

/* The sum of what is bound. A row that was wrong stays wrong, whatever is added to it. */
static void bind_sum(sqlite3_stmt *statement, const struct entry *entry, struct buffer *digits)
{
    bool is_counter = entry->type == ENTRY_COUNTER;
    bool is_item = entry->type == ENTRY_ITEM;
    struct entry bound = {
        .id = entry->id,
        .type = entry->type,
        .incarnation = entry->incarnation,
        .slices = is_item ? entry->slices : 0,
        .deadline_ms = is_counter ? entry->deadline_ms : 0,
    };
    struct slice value = {NULL, 0};
    char text[DECIMAL_SIZE_MAX];
    if (is_counter && entry->value.big)
        value = buffer_slice(digits);
    else if (is_counter)
        value = (struct slice){text, (size_t)(decimal_format(text, entry->value.small) - text)};
    if (is_item)
        bound.counts = entry->counts;
    if (is_item)
        bound.members = entry->members;
    if (is_counter || is_item)
        bound.settings = entry->settings;
    int64_t sum = sums_of_entry(&bound, value);
    db_bind_int(statement, 11, entry->is_wrong ? ~sum : sum);
}

static void bind_entry(sqlite3_stmt *statement, const struct entry *entry, struct buffer *digits)
{
    bool is_counter = entry->type == ENTRY_COUNTER;
    bool is_item = entry->type == ENTRY_ITEM;
    db_bind_int(statement, 2, entry->type);
    db_bind_int(statement, 3, entry->incarnation);
    db_bind_int(statement, 4, entry->updated_ms);
    if (is_counter)
        db_bind_number(statement, 5, &entry->value, digits);
    else
        db_bind_null(statement, 5);
    if (is_item) {
        db_bind_text(statement, 6, entry->counts);
        db_bind_int(statement, 7, entry->slices);
    } else {
        db_bind_null(statement, 6);
        db_bind_null(statement, 7);
    }
    if ((is_counter || is_item) && entry->settings.size > 0)
        db_bind_text(statement, 8, entry->settings);
    else
        db_bind_null(statement, 8);
    if (is_counter && entry->deadline_ms != 0)
        db_bind_int(statement, 9, entry->deadline_ms);
    else
        db_bind_null(statement, 9);
    db_bind_blob(statement, 10, is_item ? entry->members : (struct slice){NULL, 0});
    bind_sum(statement, entry, digits);
}

/* Writes the row anew, or a new one. */
enum err entry_write(struct sqlite_store *store, const struct entry *entry, struct error *error)
{
    bool is_new = entry->number == 0;
    sqlite3_stmt *statement = db_take(&store->db, is_new ? SQL_ENTRY_ADD : SQL_ENTRY_SET, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    if (is_new)
        db_bind_text(statement, 1, entry->id);
    else
        db_bind_int(statement, 1, entry->number);
    bind_entry(statement, entry, &store->digits);
    enum err err = db_run(&store->db, statement, error);
    if (!err && is_new)
        ids_set(&store->ids, hash_stable(entry->id),
                (uint64_t)sqlite3_last_insert_rowid(store->db.handle));
    return err;
}

static enum err entry_remove(struct sqlite_store *store, const struct entry *entry,
                             struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_ENTRY_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, entry->number);
    return db_run(&store->db, statement, error);
}

/* ---- slices ---- */

static int64_t place_of(const struct entry *entry, uint32_t slice)
{
    return entry->number * (int64_t)STATE_SLICES + slice;
}

static enum err slices_remove(struct sqlite_store *store, const struct entry *entry,
                              struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_MEMBERS_REMOVE_ALL, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, place_of(entry, 0));
    db_bind_int(statement, 2, place_of(entry, STATE_SLICES - 1));
    return db_run(&store->db, statement, error);
}

static enum err slice_write(struct sqlite_store *store, int64_t place, struct slice sets,
                            struct error *error)
{
    sqlite3_stmt *statement =
        db_take(&store->db, sets.size > 0 ? SQL_MEMBERS_SET : SQL_MEMBERS_REMOVE, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, place);
    if (sets.size > 0)
        db_bind_blob(statement, 2, sets);
    return db_run(&store->db, statement, error);
}

static enum err set_is_damaged(const struct entry *entry, uint32_t slice, struct error *error)
{
    return error_set(error, ERR_CORRUPT, "entries.number %lld: slice %u of its members is damaged",
                     (long long)entry->number, slice);
}

/* What a slice is has its sum in store->slice_sums. One that is not what was written there stays
 * so, and its item with it, until its members are made anew. */
static void note_slice(struct sqlite_store *store, struct entry *entry, uint32_t slice,
                       struct slice old)
{
    int64_t place = place_of(entry, slice);
    uint32_t *sum = &store->slice_sums.of[slice];
    bool is_wrong = *sum != sums_of_slice(place, old);
    uint32_t new_sum = sums_of_slice(place, buffer_slice(&store->sets));
    *sum = is_wrong ? ~new_sum : new_sum;
    entry->is_wrong |= is_wrong;
}

/* Members that make no sense are none, where it is known that they are not what was written there:
 * they are made anew, and nothing that is to be added waits for that. */
static struct slice sets_to_add_to(struct slice sets, bool is_wrong)
{
    int64_t counts[SETS_KINDS] = {0};
    int64_t all = 0;
    bool is_none = is_wrong && sets_count(sets, counts, &all) != ERR_OK;
    return is_none ? (struct slice){NULL, 0} : sets;
}

/* Carries touches of one slice into its row. */
static enum err slice_merge(struct sqlite_store *store, struct entry *entry, uint32_t slice,
                            struct sets_touch *touches, size_t count, int64_t deltas[SETS_KINDS],
                            struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_MEMBERS, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, place_of(entry, slice));
    enum err err = db_step(&store->db, statement, error);
    if (err && err != ERR_NOT_FOUND)
        return err;
    struct slice old = err ? (struct slice){NULL, 0} : db_slice(statement, 0);
    store->sets.size = 0;
    count = sets_sort(touches, count, store->spare);
    bool is_wrong = store->slice_sums.of[slice] != sums_of_slice(place_of(entry, slice), old);
    err = sets_merge(sets_to_add_to(old, is_wrong), touches, count, &store->sets, deltas);
    if (!err)
        note_slice(store, entry, slice, old);
    sqlite3_reset(statement);
    if (err)
        return err == ERR_CORRUPT ? set_is_damaged(entry, slice, error) : err;
    return slice_write(store, place_of(entry, slice), buffer_slice(&store->sets), error);
}

/* ---- touches ---- */

static void need_touches(struct sqlite_store *store, size_t count)
{
    if (store->touch_capacity >= count)
        return;
    store->touch_capacity = count + count / 2;
    store->touches = memory_resize(store->touches, store->touch_capacity * sizeof(*store->touches));
    store->spare = memory_resize(store->spare, store->touch_capacity * sizeof(*store->spare));
}

/* What a reaction says of its user, as a touch. */
static enum err touch_of(struct sqlite_store *store, const struct store_reaction *reaction,
                         struct sets_touch *ret_touch, struct error *error)
{
    unsigned kind = kind_names_find(&store->kinds, reaction->after);
    if (kind == SETS_KINDS)
        return error_set(error, ERR_REFUSED, "a kind of reaction that cannot be kept: %.*s",
                         SLICE_ARGS(reaction->after));
    uint32_t number;
    enum err err = users_number(store, reaction, &number, error);
    *ret_touch = (struct sets_touch){number, reaction->named, (uint8_t)kind};
    return err;
}

/* The touches of a unit, sorted by slice; starts[s] is where slice s begins. */
static enum err gather_by_slice(struct sqlite_store *store, const struct store_reaction *reactions,
                                size_t count, size_t starts[STATE_SLICES + 1],
                                int64_t deltas[SETS_KINDS], struct error *error)
{
    need_touches(store, count);
    memset(starts, 0, (STATE_SLICES + 1) * sizeof(*starts));
    for (size_t i = 0; i < count; i++) {
        if (!reactions[i].erased)
            starts[bucket_slice(reactions[i].bucket) + 1]++;
    }
    for (unsigned s = 0; s < STATE_SLICES; s++)
        starts[s + 1] += starts[s];
    size_t next[STATE_SLICES];
    memcpy(next, starts, sizeof(next));
    for (size_t i = 0; i < count; i++) {
        if (reactions[i].erased) {
            stores_count_claimed(&store->kinds, &reactions[i], deltas);
            continue;
        }
        enum err err = touch_of(store, &reactions[i],
                                &store->touches[next[bucket_slice(reactions[i].bucket)]++], error);
        if (err)
            return err;
    }
    return ERR_OK;
}

static enum err gather(struct sqlite_store *store, const struct store_reaction *reactions,
                       size_t count, size_t *ret_count, int64_t deltas[SETS_KINDS],
                       struct error *error)
{
    need_touches(store, count);
    size_t gathered = 0;
    for (size_t i = 0; i < count; i++) {
        if (reactions[i].erased) {
            stores_count_claimed(&store->kinds, &reactions[i], deltas);
            continue;
        }
        enum err err = touch_of(store, &reactions[i], &store->touches[gathered++], error);
        if (err)
            return err;
    }
    *ret_count = gathered;
    return ERR_OK;
}

/* ---- members ---- */

/* Where a member belongs, by its name. */
static enum err slice_of_member(struct sqlite_store *store, uint64_t item_hash, bool named,
                                uint32_t number, uint32_t *ret_slice, struct error *error)
{
    char digits[DECIMAL_SIZE_MAX];
    if (!named) {
        char *end = decimal_format_unsigned(digits, number);
        struct slice name = {digits, (size_t)(end - digits)};
        *ret_slice = bucket_slice(bucket_of_hashed(item_hash, name));
        return ERR_OK;
    }
    sqlite3_stmt *statement = db_take(&store->db, SQL_USER_NAME, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, number);
    enum err err = db_step(&store->db, statement, error);
    if (err == ERR_NOT_FOUND)
        return error_set(error, ERR_CORRUPT, "users.number %u is a member and has no name", number);
    if (err)
        return err;
    *ret_slice = bucket_slice(bucket_of_hashed(item_hash, db_slice(statement, 0)));
    sqlite3_reset(statement);
    return ERR_OK;
}

/* Writes the members of store->list slice by slice. */
static enum err split_list(struct sqlite_store *store, struct entry *entry, struct slice id,
                           struct error *error)
{
    uint64_t item_hash = hash_stable(id);
    const struct sets_list *list = &store->list;
    need_touches(store, list->number_count);
    unsigned char *slices = memory_take(list->number_count + 1);
    enum err err = ERR_OK;
    for (size_t g = 0; g < list->group_count && !err; g++) {
        const struct sets_group *group = &list->groups[g];
        for (size_t i = group->first; i < group->first + group->count && !err; i++) {
            uint32_t slice = 0;
            err = slice_of_member(store, item_hash, group->named, list->numbers[i], &slice, error);
            slices[i] = (unsigned char)slice;
        }
    }
    for (uint32_t slice = 0; slice < STATE_SLICES && !err; slice++) {
        size_t count = 0;
        for (size_t g = 0; g < list->group_count; g++) {
            const struct sets_group *group = &list->groups[g];
            for (size_t i = group->first; i < group->first + group->count; i++) {
                if (slices[i] == slice)
                    store->touches[count++] =
                        (struct sets_touch){list->numbers[i], group->named, group->kind};
            }
        }
        int64_t ignored[SETS_KINDS] = {0};
        if (count > 0)
            err = slice_merge(store, entry, slice, store->touches, count, ignored, error);
    }
    free(slices);
    return err;
}

/* A small item becomes a large one. */
static enum err split(struct sqlite_store *store, struct entry *entry, struct slice id,
                      struct error *error)
{
    enum err err = sets_read(entry->members, &store->list);
    if (err)
        return set_is_damaged(entry, 0, error);
    store->slice_sums = (struct slice_sums){.of = {0}};
    err = split_list(store, entry, id, error);
    entry->slices = STATE_SLICES;
    entry->members = slice_sums_write(&store->slice_sums, store->slice_sum_bytes);
    return err;
}

/* The new sums are in store->slice_sum_bytes afterwards, and entry->members points there. */
static enum err merge_slices(struct sqlite_store *store, struct entry *entry,
                             const struct store_reaction *reactions, size_t count,
                             int64_t deltas[SETS_KINDS], struct error *error)
{
    size_t starts[STATE_SLICES + 1];
    entry->is_wrong |= !slice_sums_read(entry->members, &store->slice_sums);
    enum err err = gather_by_slice(store, reactions, count, starts, deltas, error);
    for (uint32_t slice = 0; slice < STATE_SLICES && !err; slice++) {
        size_t touched = starts[slice + 1] - starts[slice];
        if (touched > 0)
            err = slice_merge(store, entry, slice, store->touches + starts[slice], touched, deltas,
                              error);
    }
    entry->members = slice_sums_write(&store->slice_sums, store->slice_sum_bytes);
    return err;
}

/* The new sets are in store->sets afterwards, and entry->members points there. */
static enum err merge_whole(struct sqlite_store *store, struct entry *entry,
                            const struct store_reaction *reactions, size_t count,
                            int64_t deltas[SETS_KINDS], struct error *error)
{
    size_t touched;
    enum err err = gather(store, reactions, count, &touched, deltas, error);
    if (err)
        return err;
    touched = sets_sort(store->touches, touched, store->spare);
    store->sets.size = 0;
    err = sets_merge(entry->members, store->touches, touched, &store->sets, deltas);
    if (err)
        return err == ERR_CORRUPT ? set_is_damaged(entry, 0, error) : err;
    entry->members = buffer_slice(&store->sets);
    return ERR_OK;
}

enum err members_replace(struct sqlite_store *store, struct entry *entry,
                         const struct store_reaction *reactions, size_t count, struct error *error)
{
    int64_t ignored[SETS_KINDS] = {0};
    enum err err = ERR_OK;
    entry->members = (struct slice){NULL, 0};
    if (entry->slices == STATE_SLICES || entry->is_wrong)
        err = slices_remove(store, entry, error);
    if (entry->slices != STATE_SLICES)
        entry->slices = count > STATE_WHOLE_MAX ? STATE_SLICES : 1;
    if (err)
        return err;
    if (entry->slices == STATE_SLICES) {
        store->slice_sums = (struct slice_sums){.of = {0}};
        entry->members = slice_sums_write(&store->slice_sums, store->slice_sum_bytes);
    }
    return entry->slices == STATE_SLICES
               ? merge_slices(store, entry, reactions, count, ignored, error)
               : merge_whole(store, entry, reactions, count, ignored, error);
}

/* ---- history ---- */

static enum err write_history(struct sqlite_store *store, const struct store_unit *unit,
                              int64_t item, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_HISTORY_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, item);
    for (size_t i = 0; i < unit->reaction_count; i++) {
        const struct store_reaction *reaction = &unit->reactions[i];
        uint32_t number = 0;
        enum err err = reaction->erased ? ERR_OK : users_number(store, reaction, &number, error);
        if (err)
            return err;
        if (reaction->erased)
            db_bind_null(statement, 2);
        else
            db_bind_int(statement, 2, reaction->named ? -1 - (int64_t)number : (int64_t)number);
        db_bind_int(statement, 3, kind_names_find(&store->kinds, reaction->after));
        db_bind_int(statement, 4, reaction->time_ms);
        err = db_run(&store->db, statement, error);
        if (err)
            return err;
    }
    store->history_last += unit->reaction_count;
    if (store->history_first == 0 && store->history_last > 0)
        store->history_first = 1;
    return ERR_OK;
}

/* ---- units ---- */

static void write_deltas(struct sqlite_store *store, const int64_t deltas[SETS_KINDS])
{
    struct kind_counts counts = {.known = 0};
    for (unsigned kind = 1; kind <= store->kinds.count; kind++) {
        if (deltas[kind] == 0)
            continue;
        counts.counts[kind] = deltas[kind];
        counts.known |= UINT64_C(1) << kind;
    }
    counts_format(&counts, &store->kinds, &store->delta);
}

static void write_delta(struct sqlite_store *store, const struct number *delta)
{
    store->delta.size = 0;
    (void)number_format(delta, &store->delta);
}

void unit_expect(struct sqlite_store *store, const struct store_unit *unit)
{
    if (!unit->is_item) {
        write_delta(store, &unit->delta);
        return;
    }
    int64_t deltas[SETS_KINDS] = {0};
    for (size_t i = 0; i < unit->reaction_count; i++)
        stores_count_claimed(&store->kinds, &unit->reactions[i], deltas);
    write_deltas(store, deltas);
}

/* The row is counted no more. */
static enum err uncount(struct sqlite_store *store, const struct entry *entry, struct error *error)
{
    if (entry->type == ENTRY_COUNTER) {
        store->mark.counters--;
        return ERR_OK;
    }
    if (entry->type != ENTRY_ITEM)
        return ERR_OK;
    store->mark.items--;
    struct kind_counts counts;
    if (counts_parse(entry->counts, &store->kinds, &counts))
        return entry->is_wrong
                   ? ERR_OK
                   : error_set(error, ERR_CORRUPT, "entries.number %lld: its counts make no sense",
                               (long long)entry->number);
    for (uint64_t left = counts.known; left; left &= left - 1)
        store->mark.members -= (uint64_t)counts.counts[__builtin_ctzll(left)];
    return ERR_OK;
}

/* What the history says up to here is of an item that is no more. */
static enum err end_history(struct sqlite_store *store, const struct entry *entry,
                            struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_ENTRY_ANEW, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_int(statement, 1, entry->number);
    return db_run(&store->db, statement, error);
}

/* Takes away what there was. The number of an item stays: the history speaks of it. */
static enum err wipe(struct sqlite_store *store, struct entry *entry, struct error *error)
{
    enum err err = uncount(store, entry, error);
    if (!err && entry->type == ENTRY_ITEM && entry->slices == STATE_SLICES)
        err = slices_remove(store, entry, error);
    if (!err && entry->type == ENTRY_ITEM)
        err = end_history(store, entry, error);
    number_done(&entry->value);
    *entry = (struct entry){.number = entry->number, .type = ENTRY_GONE};
    return err;
}

static enum err bury(struct sqlite_store *store, const struct store_unit *unit, struct entry *entry,
                     sqlite3_stmt *statement, struct error *error)
{
    bool was_item = entry->type == ENTRY_ITEM;
    enum err err = wipe(store, entry, error);
    sqlite3_reset(statement);
    if (err)
        return err;
    if (!was_item)
        return entry_remove(store, entry, error);
    entry->id = unit->id;
    entry->incarnation = unit->incarnation;
    entry->updated_ms = unit->last_ms != 0 ? unit->last_ms : unit->first_ms;
    return entry_write(store, entry, error);
}

static enum err apply_counter(struct sqlite_store *store, const struct store_unit *unit,
                              struct entry *entry, sqlite3_stmt *statement, struct error *error)
{
    if (entry->type == ENTRY_COUNTER && entry->number != 0) {
        if (db_number(statement, 5, &entry->value)) {
            if (!entry->is_wrong)
                return error_set(error, ERR_CORRUPT, "entries.number %lld: its value is no number",
                                 (long long)entry->number);
            entry->value = number_of(0);
        }
    } else {
        store->mark.counters++;
    }
    entry->type = ENTRY_COUNTER;
    number_add(&entry->value, &unit->delta);
    store->text.size = 0;
    if (unit->has_create)
        settings_format(&unit->create, &store->text);
    else
        (void)buffer_append_slice(&store->text, entry->settings);
    entry->settings = buffer_slice(&store->text);
    if (unit->has_deadline)
        entry->deadline_ms = unit->deadline_ms;
    if (statement)
        sqlite3_reset(statement);
    write_delta(store, &unit->delta);
    enum err err = entry_write(store, entry, error);
    number_done(&entry->value);
    return err;
}

/* Adds the deltas to the counts; returns how many members there are now. */
static int64_t add_deltas(struct sqlite_store *store, struct kind_counts *counts,
                          const int64_t deltas[SETS_KINDS])
{
    int64_t all = 0;
    for (unsigned kind = 1; kind <= store->kinds.count; kind++) {
        uint64_t bit = UINT64_C(1) << kind;
        if (!(counts->known & bit)) {
            if (deltas[kind] == 0)
                continue;
            counts->known |= bit;
            counts->counts[kind] = 0;
        }
        counts->counts[kind] += deltas[kind];
        all += counts->counts[kind];
        store->mark.members += (uint64_t)deltas[kind];
    }
    return all;
}

/* A row of its own for the item, so that its slices and its history have a number. */
static enum err make_item(struct sqlite_store *store, const struct store_unit *unit,
                          struct entry *entry, struct error *error)
{
    entry->id = unit->id;
    entry->counts = SLICE("{}");
    enum err err = entry_write(store, entry, error);
    entry->number = (int64_t)sqlite3_last_insert_rowid(store->db.handle);
    return err;
}

static enum err merge_members(struct sqlite_store *store, const struct store_unit *unit,
                              struct entry *entry, bool is_large, int64_t deltas[SETS_KINDS],
                              struct error *error)
{
    if (entry->slices != STATE_SLICES)
        entry->members = sets_to_add_to(entry->members, entry->is_wrong);
    if (entry->slices != STATE_SLICES && is_large) {
        enum err err = split(store, entry, unit->id, error);
        if (err)
            return err;
    }
    return entry->slices == STATE_SLICES
               ? merge_slices(store, entry, unit->reactions, unit->reaction_count, deltas, error)
               : merge_whole(store, entry, unit->reactions, unit->reaction_count, deltas, error);
}

/* The texts of an item's row, both in store->text. */
static void write_texts(struct sqlite_store *store, const struct kind_counts *counts,
                        const struct op_create *create, struct entry *entry)
{
    counts_format(counts, &store->kinds, &store->text);
    size_t size = store->text.size;
    if (create->shards > 1)
        settings_format(create, &store->text);
    struct slice both = buffer_slice(&store->text);
    entry->counts = (struct slice){both.data, size};
    entry->settings = (struct slice){both.data + size, both.size - size};
}

static enum err apply_item(struct sqlite_store *store, const struct store_unit *unit,
                           struct entry *entry, sqlite3_stmt *statement, struct error *error)
{
    struct kind_counts counts = {.known = 0};
    if (entry->type == ENTRY_ITEM && entry->number != 0) {
        if (counts_parse(entry->counts, &store->kinds, &counts)) {
            if (!entry->is_wrong)
                return error_set(error, ERR_CORRUPT,
                                 "entries.number %lld: its counts make no sense",
                                 (long long)entry->number);
            counts.known = 0;
        }
    } else {
        store->mark.items++;
        entry->slices = 1;
    }
    entry->type = ENTRY_ITEM;
    struct op_create create = unit->create;
    if (!unit->has_create && settings_parse(entry->settings, &create)) {
        if (!entry->is_wrong)
            return error_set(error, ERR_CORRUPT, "entries.number %lld: its settings make no sense",
                             (long long)entry->number);
        (void)settings_parse(SLICE(""), &create);
    }
    int64_t members = 0;
    for (uint64_t left = counts.known; left; left &= left - 1)
        members += counts.counts[__builtin_ctzll(left)];

    /* Who is to live on several shards can do so only in slices. */
    bool is_large = entry->slices == STATE_SLICES || create.shards > 1 ||
                    members + (int64_t)unit->reaction_count > (int64_t)STATE_WHOLE_MAX;
    enum err err = entry->number == 0 && is_large ? make_item(store, unit, entry, error) : ERR_OK;
    int64_t deltas[SETS_KINDS] = {0};
    if (!err)
        err = merge_members(store, unit, entry, is_large, deltas, error);
    if (statement)
        sqlite3_reset(statement);
    if (err)
        return err;
    add_deltas(store, &counts, deltas);
    write_deltas(store, deltas);
    write_texts(store, &counts, &create, entry);
    err = entry_write(store, entry, error);
    int64_t number =
        entry->number != 0 ? entry->number : (int64_t)sqlite3_last_insert_rowid(store->db.handle);
    return err ? err : write_history(store, unit, number, error);
}

/* A unit of an incarnation that is over, or that never was. What a row says of that is believed
 * only if it is what was written there. */
static bool is_late(const struct store_unit *unit, const struct entry *entry)
{
    bool is_there = entry->number != 0 && entry->type != ENTRY_GONE;
    if (entry->number != 0 && !entry->is_wrong && unit->incarnation < entry->incarnation)
        return true;
    return !is_there && !unit->may_create && !unit->is_new;
}

static void nothing_done(struct sqlite_store *store, const struct store_unit *unit)
{
    int64_t none[SETS_KINDS] = {0};
    struct number zero = number_of(0);
    if (unit->is_item)
        write_deltas(store, none);
    else
        write_delta(store, &zero);
}

static enum err apply_to(struct sqlite_store *store, const struct store_unit *unit,
                         struct entry *entry, sqlite3_stmt *statement, struct error *error)
{
    bool is_there = entry->number != 0 && entry->type != ENTRY_GONE;
    entry->is_wrong &= is_there; /* what begins anew is right */
    nothing_done(store, unit);
    if (is_late(unit, entry))
        return ERR_OK;
    if (unit->is_gone || unit->is_new) {
        enum err err = base_forget_discarded(store, unit->id, error);
        if (err)
            return err;
    }
    if (unit->is_gone)
        return is_there ? bury(store, unit, entry, statement, error) : ERR_OK;
    if (is_there && (unit->is_new || unit->incarnation > entry->incarnation)) {
        bool is_wrong = entry->is_wrong && !unit->is_new;
        enum err err = wipe(store, entry, error);
        if (err)
            return err;
        entry->is_wrong = is_wrong;
    }
    if (entry->number != 0 && entry->type != ENTRY_GONE &&
        (entry->type == ENTRY_ITEM) != unit->is_item)
        return error_set(error, ERR_REFUSED, "%.*s is %s here", SLICE_ARGS(unit->id),
                         unit->is_item ? "a counter" : "an item");
    entry->id = unit->id;
    entry->incarnation = unit->incarnation;
    if (unit->last_ms != 0)
        entry->updated_ms = unit->last_ms;
    return unit->is_item ? apply_item(store, unit, entry, statement, error)
                         : apply_counter(store, unit, entry, statement, error);
}

enum err unit_apply(struct sqlite_store *store, const struct store_unit *unit, struct error *error)
{
    struct entry entry;
    sqlite3_stmt *statement = NULL;
    enum err err = entry_find(store, unit->id, &entry, &statement, error);
    if (err)
        return err;
    err = apply_to(store, unit, &entry, statement, error);
    if (statement)
        sqlite3_reset(statement);
    number_done(&entry.value);
    return err;
}
