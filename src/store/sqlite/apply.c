/* A batch in one transaction. First everything plainly; only if a unit is refused is it all
 * done once more, with a savepoint for each, so that the others need not pay for it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "store/sqlite/own.h"

static enum err run_plain(struct sqlite_store *store, enum statement which, struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, which, error);
    return statement ? db_run(&store->db, statement, error) : ERR_UNAVAILABLE;
}

/* ---- what comes before the units: kinds and users ---- */

static enum err add_kind(struct sqlite_store *store, struct slice name, struct error *error)
{
    if (name.size == 0 || kind_names_find(&store->kinds, name) != SETS_KINDS)
        return ERR_OK;
    return kind_add(store, name, error);
}

static enum err add_kinds(struct sqlite_store *store, const struct store_batch *batch,
                          struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < batch->unit_count; i++) {
        const struct store_unit *unit = &batch->units[i];
        for (size_t j = 0; j < unit->reaction_count && !err; j++) {
            err = add_kind(store, unit->reactions[j].after, error);
            if (!err && unit->reactions[j].erased)
                err = add_kind(store, unit->reactions[j].before, error);
        }
    }
    return err;
}

/* ---- units ---- */

static enum lifecycle_state moved(enum lifecycle_state state, enum lifecycle_move move)
{
    enum lifecycle_action action;
    enum err err = lifecycle_move(state, move, &state, &action);
    assert(!err);
    (void)err;
    return state;
}

/* Is it the unit's own fault? A damaged row is not, but waiting for it would hold up all
 * others. */
static bool is_refusal(enum err err)
{
    return err == ERR_REFUSED || err == ERR_CORRUPT;
}

/* Writes down a unit that has to wait. */
static enum err set_aside(struct sqlite_store *store, struct store_batch *batch, size_t i,
                          enum lifecycle_state state, struct error *error)
{
    struct store_unit *unit = &batch->units[i];
    unit_expect(store, unit);
    return lives_add(store, unit, state, batch->now_ms, stores_raw_of(batch, i, &store->raw),
                     error);
}

static enum err pass_or_wait(struct sqlite_store *store, struct store_batch *batch, size_t i,
                             bool *ret_waits, struct error *error)
{
    struct store_unit *unit = &batch->units[i];
    *ret_waits = false;
    if (store->waiting[LIFECYCLE_PENDING] + store->waiting[LIFECYCLE_RETRYING] +
            store->waiting[LIFECYCLE_FAILED] ==
        0)
        return ERR_OK;
    enum err err = lives_blocked(store, unit, UINT64_MAX, ret_waits, error);
    if (err || !*ret_waits)
        return err;
    unit->code = ERR_BUSY;
    snprintf(unit->reason, sizeof(unit->reason), "an earlier one of its id waits");
    return set_aside(store, batch, i, LIFECYCLE_PENDING, error);
}

/* Units in the order of their rows, as far as these are known: neighbours share pages. */
static int by_place(const void *a, const void *b)
{
    const struct unit_place *left = a;
    const struct unit_place *right = b;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    return (left->unit > right->unit) - (left->unit < right->unit);
}

static void sort_units(struct sqlite_store *store, const struct store_batch *batch)
{
    if (store->place_capacity < batch->unit_count) {
        store->place_capacity = batch->unit_count;
        store->places =
            memory_resize(store->places, store->place_capacity * sizeof(*store->places));
    }
    for (size_t i = 0; i < batch->unit_count; i++) {
        uint64_t number = ids_get(&store->ids, hash_stable(batch->units[i].id));
        store->places[i] = (struct unit_place){number == 0 ? UINT64_MAX : number, i};
    }
    if (batch->unit_count > 1)
        qsort(store->places, batch->unit_count, sizeof(*store->places), by_place);
}

static enum err apply_plainly(struct sqlite_store *store, struct store_batch *batch,
                              bool *ret_refused, struct error *error)
{
    sort_units(store, batch);
    for (size_t place = 0; place < batch->unit_count; place++) {
        size_t i = store->places[place].unit;
        struct store_unit *unit = &batch->units[i];
        bool waits;
        enum err err = pass_or_wait(store, batch, i, &waits, error);
        if (err)
            return err;
        if (waits)
            continue;
        err = unit_apply(store, unit, error);
        *ret_refused = is_refusal(err);
        if (err)
            return err;
        unit->code = ERR_OK;
        err = lives_add(store, unit, moved(LIFECYCLE_PENDING, LIFECYCLE_SET_SUCCESS), batch->now_ms,
                        (struct slice){NULL, 0}, error);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* Tries a unit within a savepoint. Only an outage is an error here; a refusal stands in
 * unit->code. *ret_lost: the refusal has ended the whole transaction. */
static enum err try_unit(struct sqlite_store *store, struct store_unit *unit, bool *ret_lost,
                         struct error *error)
{
    struct state_mark mark = store->mark;
    uint64_t history_last = store->history_last;
    struct error why = {.code = ERR_OK};
    enum err err = run_plain(store, SQL_SAVEPOINT, error);
    if (err)
        return err;
    unit->code = unit_apply(store, unit, &why);
    if (unit->code && !is_refusal(unit->code)) {
        if (error)
            *error = why;
        return unit->code;
    }
    if (!unit->code)
        return run_plain(store, SQL_RELEASE, error);

    unit->code = ERR_REFUSED;
    snprintf(unit->reason, sizeof(unit->reason), "%.*s", (int)STORE_REASON_BYTES - 1, why.text);
    *ret_lost = sqlite3_get_autocommit(store->db.handle);
    if (*ret_lost)
        return ERR_OK;
    store->mark = mark;
    store->history_last = history_last;
    err = run_plain(store, SQL_ROLLBACK_TO, error);
    return err ? err : run_plain(store, SQL_RELEASE, error);
}

/* Units whose code is ERR_REFUSED already have taken the transaction down before: they are not
 * tried again. */
static enum err apply_carefully(struct sqlite_store *store, struct store_batch *batch,
                                bool *ret_lost, struct error *error)
{
    for (size_t i = 0; i < batch->unit_count; i++) {
        struct store_unit *unit = &batch->units[i];
        bool waits;
        enum err err = pass_or_wait(store, batch, i, &waits, error);
        if (!err && !waits && unit->code != ERR_REFUSED)
            err = try_unit(store, unit, ret_lost, error);
        if (err || *ret_lost)
            return err;
        if (waits)
            continue;
        if (unit->code == ERR_REFUSED)
            err =
                set_aside(store, batch, i, moved(LIFECYCLE_PENDING, LIFECYCLE_SET_RETRYING), error);
        else
            err = lives_add(store, unit, moved(LIFECYCLE_PENDING, LIFECYCLE_SET_SUCCESS),
                            batch->now_ms, (struct slice){NULL, 0}, error);
        if (err)
            return err;
    }
    return ERR_OK;
}

/* ---- the rest of a batch ---- */

static enum err add_poison(struct sqlite_store *store, const struct store_poison *poison,
                           struct error *error)
{
    sqlite3_stmt *statement = db_take(&store->db, SQL_LETTER_ADD, error);
    if (!statement)
        return ERR_UNAVAILABLE;
    db_bind_blob(statement, 1,
                 (struct slice){(const char *)poison->event_id, STORE_EVENT_ID_BYTES});
    db_bind_null(statement, 2);
    db_bind_null(statement, 3);
    db_bind_text(statement, 4, slice_of(poison->reason));
    db_bind_blob(statement, 5, poison->raw);
    db_bind_int(statement, 6, (int64_t)poison->position.segment);
    db_bind_int(statement, 7, (int64_t)poison->position.offset);
    db_bind_int(statement, 8, 0);
    db_bind_int(statement, 9, poison->time_ms);
    db_bind_int(statement, 10, poison->time_ms);
    enum err err = db_run(&store->db, statement, error);
    if (!err)
        store->letters++;
    return err;
}

static enum err add_repair(struct sqlite_store *store, const struct event *repair,
                           struct error *error)
{
    stores_repair_text(repair, &store->text);
    return audit_add(store, repair->time_ms, SLICE("repair"), repair->id,
                     buffer_slice(&store->text), error);
}

static enum err add_rest(struct sqlite_store *store, struct store_batch *batch, struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < batch->key_count && !err; i++)
        err = keys_add(store, &batch->keys[i], error);
    for (size_t i = 0; i < batch->poison_count && !err; i++)
        err = add_poison(store, &batch->poison[i], error);
    for (size_t i = 0; i < batch->repair_count && !err; i++)
        err = add_repair(store, &batch->repairs[i], error);
    return err;
}

static enum err move_mark(struct sqlite_store *store, const struct store_batch *batch,
                          const struct state_mark *before, struct error *error)
{
    struct state_mark *mark = &store->mark;
    mark->position = batch->after.position;
    memcpy(mark->sequences, batch->after.sequences, sizeof(mark->sequences));
    memcpy(mark->incarnations, batch->after.incarnations, sizeof(mark->incarnations));
    enum err err = users_reserve(store, batch->after.next_user, error);
    return err ? err : store_write_mark(store, before, batch->now_ms, error);
}

/* Is the file where the caller believes it to be? Asked of the file, not of memory. */
static enum err check_mark(struct sqlite_store *store, const struct store_batch *batch,
                           struct error *error)
{
    struct state_mark mark;
    struct log_position base;
    uint32_t indexed;
    enum err err = store_read_mark(&store->db, &mark, &indexed, &base, error);
    if (err)
        return err;
    if (mark.position.segment != batch->before.segment ||
        mark.position.offset != batch->before.offset)
        return error_set(
            error, ERR_INVALID, "the store is at %llu:%llu of the log, and not at %llu:%llu",
            (unsigned long long)mark.position.segment, (unsigned long long)mark.position.offset,
            (unsigned long long)batch->before.segment, (unsigned long long)batch->before.offset);
    return ERR_OK;
}

/* One attempt at the whole batch. *ret_again: a unit was refused; once more, carefully. */
static enum err attempt(struct sqlite_store *store, struct store_batch *batch, bool carefully,
                        bool *ret_again, struct error *error)
{
    struct state_mark before = store->mark;
    bool merged = false;
    bool keys_were_merged = false;
    enum err err = check_mark(store, batch, error);
    if (!err)
        err = add_kinds(store, batch, error);
    if (!err)
        err = users_add(store, batch, error);
    if (!err)
        err = carefully ? apply_carefully(store, batch, ret_again, error)
                        : apply_plainly(store, batch, ret_again, error);
    if (*ret_again)
        return store_abandon(store, ERR_OK);
    if (!err)
        err = add_rest(store, batch, error);
    if (!err)
        err = users_merge(store, false, &merged, error);
    if (!err)
        err = keys_merge(store, &keys_were_merged, error);
    if (!err)
        err = move_mark(store, batch, &before, error);
    /* What is refused outside of a unit is not the fault of any. */
    if (err == ERR_REFUSED) {
        err = ERR_UNAVAILABLE;
        if (error)
            error->code = err;
    }
    if (err)
        return store_abandon(store, err);
    err = store_commit(store, error);
    if (!err && merged)
        users_merged(store);
    if (!err && keys_were_merged)
        keys_merged(store);
    return err;
}

enum err sqlite_apply(struct store *base, struct store_batch *batch, struct error *error)
{
    struct sqlite_store *store = store_of(base);
    for (size_t i = 0; i < batch->unit_count; i++) {
        batch->units[i].code = ERR_OK;
        batch->units[i].reason[0] = 0;
    }
    bool again = true;
    enum err err = ERR_OK;
    /* Each round but the first finds one more unit that takes the transaction down, or ends. */
    for (size_t round = 0; again && round < batch->unit_count + 2; round++) {
        again = false;
        err = store_begin(store, error);
        if (!err)
            err = attempt(store, batch, round > 0, &again, error);
    }
    if (!err)
        batch->after = store->mark;
    return err;
}
