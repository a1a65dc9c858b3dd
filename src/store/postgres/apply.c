/* apply.c - a batch in one transaction. First all units together, within a savepoint. When one is
 * refused nobody knows which, so halves are tried, and halves of halves: some hundred statements
 * find one bad unit among a hundred thousand, and the others go through. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "store/postgres/own.h"

#define UNITS_A_ROW 4096u /* of `applied` */

/* A batch under way. */
struct attempt {
    struct store_batch *batch;
    bool has_waiting; /* something waits already, of whatever id */
    int64_t next_user;
    struct state_mark mark; /* afterwards */
};

/* ---- where the store must be ---- */

static enum err check_position(struct postgres_store *store, struct attempt *attempt,
                               struct error *error)
{
    struct pg *pg = &store->pg;
    struct log_position wanted = attempt->batch->before;
    pg_args(pg);
    enum err err = pg_query(pg, SQL_PROGRESS_LOCK, error);
    if (err)
        return err;
    if (pg_rows(pg) != 1)
        return error_set(error, ERR_UNAVAILABLE, "PostgreSQL: the row of `progress` is gone");
    err = postgres_claim_check_machine(store, 5, error);
    if (err)
        return err;
    struct log_position here = {(uint64_t)pg_int(pg, 0, 0), (uint64_t)pg_int(pg, 0, 1)};
    store->first_new = store->next_user = attempt->next_user = pg_int(pg, 0, 2);
    attempt->has_waiting = pg_bool(pg, 0, 3);
    postgres_users_check(store, pg_int(pg, 0, 4));
    if (here.segment == wanted.segment && here.offset == wanted.offset)
        return ERR_OK;
    return error_set(error, ERR_INVALID,
                     "the store is at %llu:%llu of the log, and not at %llu:%llu",
                     (unsigned long long)here.segment, (unsigned long long)here.offset,
                     (unsigned long long)wanted.segment, (unsigned long long)wanted.offset);
}

/* Hardly any batch needs something of another lane. */
static enum err check_needed(struct postgres_store *store, const struct store_batch *batch,
                             struct error *error)
{
    struct pg *pg = &store->pg;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "i");
    int count = 0;
    for (int lane = 0; lane < (int)LIMIT_CELLS; lane++) {
        if (batch->needed_sequences[lane] == 0)
            continue;
        pg_array_int(&to[0], lane);
        count++;
    }
    if (count == 0)
        return ERR_OK;
    enum err err = pg_query_columns(pg, SQL_LANES_SEE, &store->scratch.columns, error);
    if (!err && pg_rows(pg) != count)
        err = error_set(error, ERR_UNAVAILABLE, "PostgreSQL: rows of `origins` are gone");
    for (int row = 0; row < count && !err; row++) {
        int64_t lane = pg_int(pg, row, 0);
        if ((uint64_t)pg_int(pg, row, 1) < batch->needed_sequences[lane])
            err = error_set(error, ERR_INVALID, "the store has gone back in lane %lld",
                            (long long)lane);
    }
    return err;
}

static enum err check_lanes(struct postgres_store *store, struct attempt *attempt,
                            struct error *error)
{
    struct pg *pg = &store->pg;
    const struct store_batch *batch = attempt->batch;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "i");
    for (uint64_t left = batch->lanes; left; left &= left - 1)
        pg_array_int(&to[0], __builtin_ctzll(left));
    enum err err = pg_query_columns(pg, SQL_LANES_LOCK, &store->scratch.columns, error);
    if (err)
        return err;
    if (pg_rows(pg) != __builtin_popcountll(batch->lanes))
        return error_set(error, ERR_UNAVAILABLE, "PostgreSQL: rows of `origins` are gone");
    err = postgres_claim_check_nodes(pg, 5, error);
    if (err)
        return err;
    for (int row = 0; row < pg_rows(pg); row++) {
        int64_t lane = pg_int(pg, row, 0);
        uint64_t here = (uint64_t)pg_int(pg, row, 1);
        if (here != batch->before_sequences[lane])
            return error_set(error, ERR_INVALID,
                             "the store is at %llu of lane %lld, and not at %llu",
                             (unsigned long long)here, (long long)lane,
                             (unsigned long long)batch->before_sequences[lane]);
    }
    store->first_new = store->next_user = attempt->next_user = pg_int(pg, 0, 2);
    attempt->has_waiting = pg_bool(pg, 0, 3);
    postgres_users_check(store, pg_int(pg, 0, 4));
    return check_needed(store, batch, error);
}

/* ---- kinds, users, works ---- */

static enum err add_kind(struct postgres_store *store, struct slice name, struct error *error)
{
    if (name.size == 0 || kind_names_find(&store->kinds, name) != SETS_KINDS)
        return ERR_OK;
    return postgres_kind_add(store, name, error);
}

static enum err add_kinds(struct postgres_store *store, const struct store_unit *units,
                          size_t count, struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < units[i].reaction_count && !err; j++) {
            const struct store_reaction *reaction = &units[i].reactions[j];
            err = add_kind(store, reaction->after, error);
            if (!err && reaction->erased)
                err = add_kind(store, reaction->before, error);
        }
    }
    return err;
}

static int by_id(const void *a, const void *b)
{
    const struct store_unit *left = ((const struct work *)a)->unit;
    const struct store_unit *right = ((const struct work *)b)->unit;
    size_t size = left->id.size < right->id.size ? left->id.size : right->id.size;
    int order = size > 0 ? memcmp(left->id.data, right->id.data, size) : 0;
    return order != 0 ? order : (left->id.size > right->id.size) - (left->id.size < right->id.size);
}

static size_t make_works(struct postgres_store *store, struct store_unit *units, size_t count)
{
    struct scratch *scratch = &store->scratch;
    if (scratch->work_capacity < count) {
        scratch->work_capacity = count + count / 2;
        scratch->works =
            memory_resize(scratch->works, scratch->work_capacity * sizeof(struct work));
    }
    size_t reactions = 0;
    for (size_t i = 0; i < count; i++) {
        scratch->works[i] = (struct work){
            .unit = &units[i], .index = i, .first = reactions, .hash = hash_stable(units[i].id)};
        reactions += units[i].reaction_count;
    }
    if (count > 1)
        qsort(scratch->works, count, sizeof(struct work), by_id);
    for (size_t i = 0; i < count; i++)
        scratch->works[i].at = i;
    scratch->work_count = count;
    return reactions;
}

static void make_room(struct postgres_store *store, size_t reactions)
{
    struct scratch *scratch = &store->scratch;
    scratch->stride = store->kinds.count + 1;
    size_t deltas = scratch->stride * (scratch->work_count + 1);
    if (scratch->delta_capacity < deltas) {
        scratch->delta_capacity = deltas + deltas / 2;
        scratch->deltas = memory_resize(scratch->deltas, scratch->delta_capacity * sizeof(int64_t));
    }
    memset(scratch->deltas, 0, deltas * sizeof(int64_t));
    if (scratch->user_capacity < reactions + 1) {
        scratch->user_capacity = reactions + reactions / 2 + 1;
        scratch->user_ids =
            memory_resize(scratch->user_ids, scratch->user_capacity * sizeof(int64_t));
    }
}

enum err postgres_works_prepare(struct postgres_store *store, struct store_unit *units,
                                size_t count, struct error *error)
{
    enum err err = add_kinds(store, units, count, error);
    if (err)
        return err;
    size_t reactions = make_works(store, units, count);
    make_room(store, reactions);
    if (reactions == 0)
        return ERR_OK;
    const struct store_reaction **all = memory_take(reactions * sizeof(*all));
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < units[i].reaction_count; j++)
            all[at++] = &units[i].reactions[j];
    }
    err = postgres_users_resolve(store, all, reactions, store->scratch.user_ids, error);
    free(all);
    return err;
}

/* ---- units ---- */

/* Moves those that must wait behind others of their id to the end; returns how many need not. */
static size_t part_works(struct scratch *scratch, const bool *blocked)
{
    struct work *waiting = memory_take((scratch->work_count + 1) * sizeof(*waiting));
    size_t free_count = 0;
    size_t waiting_count = 0;
    for (size_t i = 0; i < scratch->work_count; i++) {
        if (blocked[i])
            waiting[waiting_count++] = scratch->works[i];
        else
            scratch->works[free_count++] = scratch->works[i];
    }
    memcpy(scratch->works + free_count, waiting, waiting_count * sizeof(*waiting));
    free(waiting);
    return free_count;
}

static enum err hold_back(struct postgres_store *store, size_t *ret_free, struct error *error)
{
    struct pg *pg = &store->pg;
    struct scratch *scratch = &store->scratch;
    struct pg_array *to = pg_columns_begin(&scratch->columns, "t");
    for (size_t i = 0; i < scratch->work_count; i++)
        pg_array_text(&to[0], scratch->works[i].unit->id);
    *ret_free = scratch->work_count;
    if (scratch->work_count == 0)
        return ERR_OK;
    enum err err = pg_query_columns(pg, SQL_WAITING_OF, &scratch->columns, error);
    if (err || pg_rows(pg) == 0)
        return err;
    bool *blocked = memory_take_zeroed(scratch->work_count);
    struct lifecycle_queue *queues = memory_take_zeroed(scratch->work_count * sizeof(*queues));
    for (int row = 0; row < pg_rows(pg); row++)
        lifecycle_queue_add(&queues[pg_int(pg, row, 0) - 1],
                            (enum lifecycle_state)pg_int(pg, row, 2), pg_bool(pg, row, 3));
    for (size_t i = 0; i < scratch->work_count; i++) {
        struct store_unit *unit = scratch->works[i].unit;
        blocked[i] = lifecycle_queue_blocks(&queues[i], stores_adds_only(unit));
        if (!blocked[i])
            continue;
        unit->code = ERR_BUSY;
        snprintf(unit->reason, sizeof(unit->reason), "an earlier one of its id waits");
    }
    *ret_free = part_works(scratch, blocked);
    free(blocked);
    free(queues);
    return ERR_OK;
}

/* Only an outage is an error here; a refusal stands in the unit's code. */
static enum err apply_part(struct postgres_store *store, struct work *works, size_t count,
                           struct error *error)
{
    if (count == 0)
        return ERR_OK;
    struct totals before = store->totals;
    struct error why = {.text = ""};
    enum err err = pg_execute(&store->pg, "SAVEPOINT units", error);
    if (err)
        return err;
    err = postgres_units_apply(store, works, count, &why);
    if (!err)
        return pg_execute(&store->pg, "RELEASE SAVEPOINT units", error);
    if (err != ERR_REFUSED) {
        if (error)
            *error = why;
        return err;
    }
    store->totals = before;
    err = pg_execute(&store->pg, "ROLLBACK TO SAVEPOINT units; RELEASE SAVEPOINT units", error);
    if (err)
        return err;
    if (count == 1) {
        works[0].unit->code = ERR_REFUSED;
        snprintf(works[0].unit->reason, STORE_REASON_BYTES, "%.*s", (int)STORE_REASON_BYTES - 1,
                 why.text);
        return ERR_OK;
    }
    for (size_t i = 0; i < count; i++)
        works[i].unit->code = ERR_OK; /* who was refused by us is so again */
    err = apply_part(store, works, count / 2, error);
    return err ? err : apply_part(store, works + count / 2, count - count / 2, error);
}

/* ---- lives ---- */

static enum err write_chunk(struct postgres_store *store, int64_t now_ms, struct error *error)
{
    struct pg *pg = &store->pg;
    uint32_t count = store->scratch.columns.of[0].count;
    if (count == 0)
        return ERR_OK;
    pg_args(pg);
    pg_arg_columns(pg, &store->scratch.columns);
    pg_arg_time(pg, now_ms);
    pg_arg_int(pg, count);
    return pg_query(pg, SQL_LIVES_DONE, error);
}

/* Those that went through, some thousand in a row. */
static enum err write_done(struct postgres_store *store, int64_t now_ms, struct error *error)
{
    struct scratch *scratch = &store->scratch;
    struct pg_array *to = pg_columns_begin(&scratch->columns, "uttim");
    enum err err = ERR_OK;
    for (size_t i = 0; i < scratch->work_count && !err; i++) {
        const struct work *work = &scratch->works[i];
        if (work->unit->code)
            continue;
        pg_array_bytes(&to[0], stores_event_slice(work->unit->event_id));
        pg_array_text(&to[1], work->unit->id);
        postgres_delta_done(store, work);
        pg_array_plain(&to[2], buffer_slice(&store->delta));
        pg_array_int(&to[3], work->unit->events);
        pg_array_time(&to[4], work->unit->first_ms);
        if (to[0].count < UNITS_A_ROW)
            continue;
        err = write_chunk(store, now_ms, error);
        to = pg_columns_begin(&scratch->columns, "uttim");
    }
    return err ? err : write_chunk(store, now_ms, error);
}

static void gather_waiting(struct postgres_store *store, const struct store_batch *batch, size_t i,
                           struct pg_array *to)
{
    const struct store_unit *unit = &batch->units[i];
    bool is_refused = unit->code == ERR_REFUSED;
    uint32_t retry_count = is_refused ? 1 : 0;
    postgres_delta_expected(store, unit);
    pg_array_bytes(&to[0], stores_event_slice(unit->event_id));
    pg_array_text(&to[1], unit->id);
    pg_array_plain(&to[2], buffer_slice(&store->delta));
    pg_array_int(&to[3], is_refused ? LIFECYCLE_RETRYING : LIFECYCLE_PENDING);
    pg_array_int(&to[4], retry_count);
    pg_array_int(&to[5], unit->events);
    pg_array_time(&to[6], unit->first_ms);
    if (is_refused)
        pg_array_time(&to[7], batch->now_ms + lifecycle_delay_ms(retry_count));
    else
        pg_array_null(&to[7]);
    pg_array_text(&to[8], slice_of(unit->reason));
    pg_array_bool(&to[9], stores_adds_only(unit));
    pg_array_bytes(&to[10], stores_raw_of(batch, i, &store->raw));
}

/* In the order of the batch. */
static enum err write_waiting(struct postgres_store *store, const struct store_batch *batch,
                              struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "uttiiimmtbx");
    for (size_t i = 0; i < batch->unit_count; i++) {
        if (batch->units[i].code)
            gather_waiting(store, batch, i, to);
    }
    return pg_query_columns(&store->pg, SQL_LIVES_WAIT, &store->scratch.columns, error);
}

/* ---- the rest of a batch ---- */

static enum err add_keys(struct postgres_store *store, const struct store_batch *batch,
                         struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iiibtnm");
    for (size_t i = 0; i < batch->key_count; i++) {
        const struct state_key *key = &batch->keys[i];
        pg_array_int(&to[0], (int64_t)key->low);
        pg_array_int(&to[1], (int64_t)key->high);
        pg_array_int(&to[2], (int64_t)key->fingerprint);
        pg_array_bool(&to[3], key->changed);
        if (key->held.size > 0)
            pg_array_text(&to[4], key->held);
        else
            pg_array_null(&to[4]);
        pg_array_number(&to[5], &key->value);
        pg_array_time(&to[6], key->time_ms);
    }
    return pg_query_columns(&store->pg, SQL_KEYS_ADD, &store->scratch.columns, error);
}

static enum err add_poison(struct postgres_store *store, const struct store_poison *poison,
                           struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_bytes(pg, (struct slice){(const char *)poison->event_id, STORE_EVENT_ID_BYTES});
    pg_arg_text(pg, slice_of(poison->reason));
    pg_arg_bytes(pg, poison->raw);
    pg_arg_int(pg, (int64_t)poison->position.segment);
    pg_arg_int(pg, (int64_t)poison->position.offset);
    pg_arg_time(pg, poison->time_ms);
    return pg_query(pg, SQL_LETTER_ADD, error);
}

static enum err add_repair(struct postgres_store *store, const struct event *repair,
                           struct error *error)
{
    stores_repair_text(repair, &store->text);
    return postgres_audit_add(store, repair->time_ms, SLICE("repair"), repair->id,
                              buffer_slice(&store->text), error);
}

static enum err add_rest(struct postgres_store *store, struct store_batch *batch,
                         struct error *error)
{
    enum err err = add_keys(store, batch, error);
    for (size_t i = 0; i < batch->poison_count && !err; i++)
        err = add_poison(store, &batch->poison[i], error);
    for (size_t i = 0; i < batch->repair_count && !err; i++)
        err = add_repair(store, &batch->repairs[i], error);
    return err;
}

/* ---- moving the mark ---- */

/* Only those that have moved: the rows of home cells are nobody's own. */
static enum err write_homes(struct postgres_store *store, const struct state_mark *after,
                            struct error *error)
{
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "ii");
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        if (after->incarnations[cell] <= store->homes[cell])
            continue;
        pg_array_int(&to[0], cell);
        pg_array_int(&to[1], after->incarnations[cell]);
    }
    return pg_query_columns(&store->pg, SQL_HOMES_SET, &store->scratch.columns, error);
}

static enum err move_position(struct postgres_store *store, const struct store_batch *batch,
                              struct error *error)
{
    struct pg *pg = &store->pg;
    const struct state_mark *after = &batch->after;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iiii");
    for (unsigned origin = 0; origin < LIMIT_CELLS; origin++) {
        pg_array_int(&to[0], origin);
        pg_array_int(&to[1], (int64_t)after->sequences[origin]);
        pg_array_int(&to[2], (int64_t)after->ended[origin]);
        pg_array_int(&to[3], after->times_ms[origin]);
    }
    enum err err = pg_query_columns(pg, SQL_SEQUENCES_SET, &store->scratch.columns, error);
    if (err)
        return err;
    int64_t next_user = after->next_user;
    pg_args(pg);
    pg_arg_int(pg, (int64_t)after->position.segment);
    pg_arg_int(pg, (int64_t)after->position.offset);
    pg_arg_int(pg, store->totals.counters);
    pg_arg_int(pg, store->totals.items);
    pg_arg_int(pg, store->totals.members);
    pg_arg_int(pg, next_user > store->next_user ? next_user : store->next_user);
    pg_arg_time(pg, batch->now_ms);
    return pg_query(pg, SQL_PROGRESS_SET, error);
}

/* The totals of the batch go to its first lane. */
static enum err move_lanes(struct postgres_store *store, const struct attempt *attempt,
                           struct error *error)
{
    const struct store_batch *batch = attempt->batch;
    const struct state_mark *after = &batch->after;
    struct totals totals = store->totals;
    struct pg_array *to = pg_columns_begin(&store->scratch.columns, "iiiiiiiii");
    for (uint64_t left = batch->lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        pg_array_int(&to[0], lane);
        pg_array_int(&to[1], (int64_t)after->sequences[lane]);
        pg_array_int(&to[2], (int64_t)after->ended[lane]);
        pg_array_int(&to[3], (int64_t)after->lanes[lane].segment);
        pg_array_int(&to[4], (int64_t)after->lanes[lane].offset);
        pg_array_int(&to[5], totals.counters);
        pg_array_int(&to[6], totals.items);
        pg_array_int(&to[7], totals.members);
        pg_array_int(&to[8], after->times_ms[lane]);
        totals = (struct totals){0};
    }
    enum err err = pg_query_columns(&store->pg, SQL_ORIGINS_SET, &store->scratch.columns, error);
    if (err)
        return err;
    store->totals = (struct totals){0};
    if (store->next_user == attempt->next_user)
        return ERR_OK;
    return postgres_write_totals(store, error);
}

static enum err move_mark(struct postgres_store *store, struct attempt *attempt,
                          struct error *error)
{
    const struct store_batch *batch = attempt->batch;
    enum err err =
        batch->lanes ? move_lanes(store, attempt, error) : move_position(store, batch, error);
    if (!err)
        err = write_homes(store, &batch->after, error);
    return err ? err : postgres_read_mark(&store->pg, &attempt->mark, error);
}

/* ---- all of it ---- */

static enum err try_batch(struct postgres_store *store, void *arg, struct error *error)
{
    struct attempt *attempt = arg;
    struct store_batch *batch = attempt->batch;
    for (size_t i = 0; i < batch->unit_count; i++) {
        batch->units[i].code = ERR_OK;
        batch->units[i].reason[0] = 0;
    }
    store->is_shared = batch->lanes != 0;
    enum err err =
        batch->lanes ? check_lanes(store, attempt, error) : check_position(store, attempt, error);
    if (!err)
        err = postgres_read_homes(store, error);
    if (!err)
        err = postgres_works_prepare(store, batch->units, batch->unit_count, error);
    size_t free_count = batch->unit_count;
    if (!err && attempt->has_waiting)
        err = hold_back(store, &free_count, error);
    if (!err)
        err = apply_part(store, store->scratch.works, free_count, error);
    if (!err)
        err = write_done(store, batch->now_ms, error);
    if (!err)
        err = write_waiting(store, batch, error);
    if (!err)
        err = add_rest(store, batch, error);
    if (!err)
        err = move_mark(store, attempt, error);
    /* What is refused outside of a unit is not the fault of any. */
    if (err == ERR_REFUSED && error)
        error->code = ERR_UNAVAILABLE;
    return err == ERR_REFUSED ? ERR_UNAVAILABLE : err;
}

static bool has_refused(const struct store_batch *batch)
{
    for (size_t i = 0; i < batch->unit_count; i++) {
        if (batch->units[i].code)
            return true;
    }
    return batch->poison_count > 0;
}

enum err postgres_apply(struct store *base, struct store_batch *batch, struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    struct attempt attempt = {.batch = batch};
    enum err err = postgres_transact(store, try_batch, &attempt, error);
    if (err)
        return err;
    batch->after = attempt.mark;
    postgres_stats_refresh(store, has_refused(batch));
    return ERR_OK;
}
