/* tend.c - what keeps the tables small and right: thinning, mending, bases, the audit trail. */
#include <string.h>

#include "store/postgres/own.h"

/* ---- small writes that others use, too ---- */

enum err postgres_audit_add(struct postgres_store *store, int64_t time_ms, struct slice what,
                            struct slice id, struct slice text, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_time(pg, time_ms);
    pg_arg_text(pg, what);
    if (id.size > 0)
        pg_arg_text(pg, id);
    else
        pg_arg_null(pg);
    pg_arg_text(pg, text);
    return pg_query(pg, SQL_TEND_AUDIT, error);
}

enum err postgres_base_add(struct postgres_store *store, struct slice id, const struct number *sum,
                           const struct number *discarded, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_text(pg, id);
    pg_arg_number(pg, sum);
    pg_arg_number(pg, discarded);
    return pg_query(pg, SQL_TEND_BASE_ADD, error);
}

/* What is refused here is not the fault of any unit. */
static enum err transact(struct postgres_store *store, postgres_attempt_fn *attempt, void *arg,
                         struct error *error)
{
    enum err err = postgres_transact(store, attempt, arg, error);
    if (err == ERR_REFUSED) {
        err = ERR_UNAVAILABLE;
        if (error)
            error->code = err;
    }
    if (!err)
        postgres_stats_refresh(store, false);
    return err;
}

static enum err add_note(struct postgres_store *store, void *arg, struct error *error)
{
    const struct store_audit *audit = arg;
    return postgres_audit_add(store, audit->time_ms, audit->what, audit->id, audit->text, error);
}

enum err postgres_note(struct store *base, const struct store_audit *audit, struct error *error)
{
    struct store_audit copy = *audit;
    return transact(postgres_of(base), add_note, &copy, error);
}

/* ---- thinning ---- */

struct thin {
    int64_t lives_before_ms;
    int64_t history_before_ms;
    int64_t keys_before_ms;
    uint32_t limit;
    uint64_t removed;
};

static enum err thin_table(struct postgres_store *store, enum statement which, int64_t before_ms,
                           uint32_t limit, uint64_t *removed, struct error *error)
{
    if (before_ms == 0)
        return ERR_OK;
    pg_args(&store->pg);
    pg_arg_time(&store->pg, before_ms);
    if (limit > 0)
        pg_arg_int(&store->pg, limit);
    enum err err = pg_query(&store->pg, which, error);
    if (!err)
        *removed += pg_touched(&store->pg);
    return err;
}

/* Goes by rows of some thousand units. */
static enum err thin_applied(struct postgres_store *store, const struct thin *call,
                             uint64_t *removed, struct error *error)
{
    if (call->lives_before_ms == 0)
        return ERR_OK;
    pg_args(&store->pg);
    pg_arg_time(&store->pg, call->lives_before_ms);
    pg_arg_int(&store->pg, call->limit);
    enum err err = pg_query(&store->pg, SQL_TEND_THIN_APPLIED, error);
    if (!err)
        *removed += (uint64_t)pg_int(&store->pg, 0, 0);
    return err;
}

static enum err thin(struct postgres_store *store, void *arg, struct error *error)
{
    struct thin *call = arg;
    uint64_t history = 0;
    uint64_t gone = 0;
    call->removed = 0;
    enum err err = thin_table(store, SQL_TEND_THIN_LIVES, call->lives_before_ms, call->limit,
                              &call->removed, error);
    if (!err)
        err = thin_applied(store, call, &call->removed, error);
    if (!err)
        err = thin_table(store, SQL_TEND_THIN_HISTORY, call->history_before_ms, call->limit,
                         &history, error);
    if (!err)
        err = thin_table(store, SQL_TEND_THIN_KEYS, call->keys_before_ms, call->limit,
                         &call->removed, error);
    call->removed += history;
    /* Once no history is left to go, nothing speaks of items that were deleted before. */
    if (!err && history == 0)
        err = thin_table(store, SQL_TEND_THIN_GONE, call->history_before_ms, 0, &gone, error);
    return err;
}

enum err postgres_thin(struct store *base, int64_t lives_before_ms, int64_t history_before_ms,
                       int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                       struct error *error)
{
    struct thin call = {
        .lives_before_ms = lives_before_ms,
        .history_before_ms = history_before_ms,
        .keys_before_ms = keys_before_ms,
        .limit = limit,
    };
    enum err err = transact(postgres_of(base), thin, &call, error);
    *ret_removed = err ? 0 : call.removed;
    if (!err)
        postgres_stats_refresh(postgres_of(base), true);
    return err;
}

/* ---- mending ---- */

struct mend {
    struct slice id;
    uint32_t incarnation;
    uint32_t life; /* that it ought to be of */
    struct slice kind;
    const struct number *by;
    const struct store_reaction *members;
    size_t count;
    const uint64_t *at;
    const struct state_target *target;
    struct slice text;
    int64_t now_ms;
};

/* ERR_NOT_FOUND also for a row of something that was deleted. */
static enum err lock_live(struct postgres_store *store, struct slice id, struct entry *ret_entry,
                          struct error *error)
{
    enum err err = postgres_kinds_load(&store->pg, &store->kinds, error); /* others add to them */
    if (!err)
        err = postgres_entry_lock(store, id, ret_entry, error);
    if (!err && ret_entry->type == ENTRY_GONE)
        err = ERR_NOT_FOUND;
    return err;
}

static enum err end_mend(struct postgres_store *store, const struct mend *call, struct error *error)
{
    enum err err = ERR_OK;
    if (call->text.size > 0)
        err = postgres_audit_add(store, call->now_ms, SLICE("repair"), call->id, call->text, error);
    return err ? err : postgres_write_totals(store, error);
}

/* Settings that nobody can read are those that every loader took in their place. */
static enum err mend_settings(struct postgres_store *store, const struct entry *entry,
                              struct error *error)
{
    struct pg *pg = &store->pg;
    struct op_create ignored;
    if (!entry->is_wrong)
        return ERR_OK;
    pg_args(pg);
    pg_arg_int(pg, entry->number);
    enum err err = pg_query(pg, SQL_TEND_SETTINGS, error);
    if (err || pg_rows(pg) == 0 || settings_parse(pg_slice(pg, 0, 0), &ignored) == ERR_OK)
        return err;
    pg_args(pg);
    pg_arg_int(pg, entry->number);
    return pg_query(pg, SQL_TEND_SETTINGS_REMOVE, error);
}

static enum err mend_value(struct postgres_store *store, const struct entry *entry,
                           const struct number *by, struct error *error)
{
    if (entry->type != ENTRY_COUNTER)
        return ERR_NOT_FOUND;
    enum err err = mend_settings(store, entry, error);
    if (err)
        return err;
    pg_args(&store->pg);
    pg_arg_int(&store->pg, entry->number);
    pg_arg_number(&store->pg, by);
    return pg_query(&store->pg, SQL_TEND_MEND_VALUE, error);
}

static enum err add_to_count(struct postgres_store *store, int64_t number, unsigned kind,
                             int64_t by, struct error *error)
{
    pg_args(&store->pg);
    pg_arg_int(&store->pg, number);
    pg_arg_int(&store->pg, kind);
    pg_arg_int(&store->pg, by);
    return pg_query(&store->pg, SQL_TEND_MEND_COUNT, error);
}

static enum err mend_count(struct postgres_store *store, const struct entry *entry,
                           struct slice name, const struct number *by, struct error *error)
{
    unsigned kind = kind_names_find(&store->kinds, name);
    if (entry->type != ENTRY_ITEM || kind == SETS_KINDS || by->big)
        return ERR_NOT_FOUND;
    store->totals.members += by->small;
    return add_to_count(store, entry->number, kind, by->small, error);
}

static enum err sum_anew(struct postgres_store *store, const struct entry *entry,
                         struct error *error)
{
    enum err err = mend_settings(store, entry, error);
    if (err)
        return err;
    pg_args(&store->pg);
    pg_arg_int(&store->pg, entry->number);
    return pg_query(&store->pg, SQL_TEND_SUM_ANEW, error);
}

static enum err mend(struct postgres_store *store, void *arg, struct error *error)
{
    const struct mend *call = arg;
    struct entry entry;
    enum err err = lock_live(store, call->id, &entry, error);
    if (!err && entry.incarnation != call->incarnation)
        err = ERR_BUSY;
    bool is_nothing = call->kind.size == 0 && !call->by->big && call->by->small == 0;
    if (!err && is_nothing)
        err = sum_anew(store, &entry, error);
    else if (!err)
        err = call->kind.size > 0 ? mend_count(store, &entry, call->kind, call->by, error)
                                  : mend_value(store, &entry, call->by, error);
    return err ? err : end_mend(store, call, error);
}

enum err postgres_mend(struct store *base, struct slice id, uint32_t incarnation, struct slice kind,
                       const struct number *by, struct slice text, int64_t now_ms,
                       struct error *error)
{
    struct mend call = {.id = id,
                        .incarnation = incarnation,
                        .kind = kind,
                        .by = by,
                        .text = text,
                        .now_ms = now_ms};
    return transact(postgres_of(base), mend, &call, error);
}

static enum err mend_life(struct postgres_store *store, void *arg, struct error *error)
{
    const struct mend *call = arg;
    struct entry entry;
    enum err err = lock_live(store, call->id, &entry, error);
    if (err || entry.incarnation == call->life)
        return err;
    if (!entry.is_wrong || entry.incarnation != call->incarnation)
        return ERR_BUSY;
    pg_args(&store->pg);
    pg_arg_int(&store->pg, entry.number);
    pg_arg_int(&store->pg, call->life);
    err = pg_query(&store->pg, SQL_TEND_MEND_LIFE, error);
    return err ? err : end_mend(store, call, error);
}

enum err postgres_mend_life(struct store *base, struct slice id, uint32_t incarnation,
                            uint32_t life, struct slice text, int64_t now_ms, struct error *error)
{
    struct mend call = {
        .id = id, .incarnation = incarnation, .life = life, .text = text, .now_ms = now_ms};
    return transact(postgres_of(base), mend_life, &call, error);
}

/* Whoever applies something of the item has its row first, and we have it now: what is committed
 * by now is all that its members are made of. */
static enum err check_at(struct postgres_store *store, const uint64_t *at, struct error *error)
{
    struct state_mark mark;
    if (!at)
        return ERR_OK;
    enum err err = postgres_read_mark(&store->pg, &mark, error);
    if (!err && memcmp(mark.sequences, at, sizeof(mark.sequences)) != 0)
        err = error_set(error, ERR_BUSY, "the store has moved on meanwhile");
    return err;
}

/* A kind that has no number cannot be written down: nothing is, rather than the others. */
static enum err check_kinds(const struct postgres_store *store, const struct mend *call,
                            struct error *error)
{
    for (size_t i = 0; i < call->count; i++)
        if (kind_names_find(&store->kinds, call->members[i].after) == SETS_KINDS)
            return error_set(error, ERR_UNAVAILABLE, "the store does not know the kind %.*s",
                             SLICE_ARGS(call->members[i].after));
    return ERR_OK;
}

static enum err mend_members(struct postgres_store *store, void *arg, struct error *error)
{
    const struct mend *call = arg;
    struct entry entry;
    enum err err = lock_live(store, call->id, &entry, error);
    if (!err && entry.type != ENTRY_ITEM)
        err = ERR_NOT_FOUND;
    if (!err)
        err = check_kinds(store, call, error);
    if (!err)
        err = check_at(store, call->at, error);
    if (!err)
        err = postgres_members_replace(store, &entry, call->members, call->count, error);
    return err ? err : end_mend(store, call, error);
}

enum err postgres_mend_members(struct store *base, struct slice item,
                               const struct store_reaction *members, size_t count,
                               const uint64_t *at, struct slice text, int64_t now_ms,
                               struct error *error)
{
    struct mend call = {
        .id = item, .members = members, .count = count, .at = at, .text = text, .now_ms = now_ms};
    return transact(postgres_of(base), mend_members, &call, error);
}

/* A lock of the connection: it ends with that. */
enum err postgres_mending(struct store *base, bool begin, bool *ret_is_ours, struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    enum err err = postgres_ready(store, error);
    pg_args(&store->pg);
    if (!err)
        err = pg_query(&store->pg, begin ? SQL_TEND_MENDING : SQL_TEND_MENDED, error);
    if (!err)
        *ret_is_ours = begin && pg_bool(&store->pg, 0, 0);
    return err == ERR_REFUSED ? ERR_UNAVAILABLE : err;
}

/* ---- making anew ---- */

static bool has_settings(const struct state_target *target)
{
    const struct op_create *create = &target->create;
    if (target->is_item)
        return create->shards > 1;
    return create->shards > 1 || create->policy != POLICY_LOCAL || create->has_floor ||
           create->idle_s != 0;
}

/* What a counter has and an item has not is NULL, and the other way round. */
static void bind_target(struct postgres_store *store, const struct state_target *target)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_text(pg, target->id);
    pg_arg_int(pg, target->is_item ? ENTRY_ITEM : ENTRY_COUNTER);
    pg_arg_int(pg, target->incarnation);
    pg_arg_time(pg, target->written_ms);
    if (target->is_item) {
        pg_arg_null(pg);
        pg_arg_int(pg, target->create.shards > 1 ? STATE_SLICES : 1);
    } else {
        pg_arg_number(pg, &target->value);
        pg_arg_null(pg);
    }
    store->text.size = 0;
    if (has_settings(target)) {
        settings_format(&target->create, &store->text);
        pg_arg_text(pg, buffer_slice(&store->text));
    } else {
        pg_arg_null(pg);
    }
    if (!target->is_item && target->deadline_ms != 0)
        pg_arg_int(pg, target->deadline_ms);
    else
        pg_arg_null(pg);
}

static enum err make_counts(struct postgres_store *store, int64_t number,
                            const struct state_target *target, struct error *error)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < target->kind_count && !err; i++) {
        unsigned kind = kind_names_find(&store->kinds, target->kinds[i]);
        if (target->counts[i] == 0)
            continue;
        if (kind == SETS_KINDS)
            return ERR_NOT_FOUND;
        err = add_to_count(store, number, kind, target->counts[i], error);
    }
    return err;
}

/* Whoever removed the row did not take it off the totals: they stay as they are. */
static enum err make(struct postgres_store *store, void *arg, struct error *error)
{
    const struct mend *call = arg;
    enum err err = postgres_kinds_load(&store->pg, &store->kinds, error);
    if (err)
        return err;
    bind_target(store, call->target);
    err = pg_query(&store->pg, SQL_TEND_MAKE, error);
    if (!err && pg_rows(&store->pg) == 0)
        err = ERR_EXISTS;
    if (!err && call->target->is_item)
        err = make_counts(store, pg_int(&store->pg, 0, 0), call->target, error);
    return err ? err : end_mend(store, call, error);
}

enum err postgres_make(struct store *base, const struct state_target *target, struct slice text,
                       int64_t now_ms, struct error *error)
{
    struct mend call = {.id = target->id, .target = target, .text = text, .now_ms = now_ms};
    return transact(postgres_of(base), make, &call, error);
}

/* ---- bases ---- */

struct rebase {
    const struct slice *ids;
    const struct number *sums;
    size_t count;
    struct log_position position;
};

static enum err rebase(struct postgres_store *store, void *arg, struct error *error)
{
    const struct rebase *call = arg;
    struct number zero = number_of(0);
    enum err err = ERR_OK;
    for (size_t i = 0; i < call->count && !err; i++)
        err = postgres_base_add(store, call->ids[i], &call->sums[i], &zero, error);
    if (err)
        return err;
    pg_args(&store->pg);
    pg_arg_int(&store->pg, (int64_t)call->position.segment);
    pg_arg_int(&store->pg, (int64_t)call->position.offset);
    return pg_query(&store->pg, SQL_TEND_BASE_SET, error);
}

enum err postgres_rebase(struct store *base, const struct slice *ids, const struct number *sums,
                         size_t count, struct log_position position, struct error *error)
{
    struct rebase call = {ids, sums, count, position};
    return transact(postgres_of(base), rebase, &call, error);
}

/* ---- a quiet moment ---- */

/* The server tidies up by itself. */
enum err postgres_rest(struct store *base, struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    enum err err = postgres_ready(store, error);
    if (!err)
        postgres_stats_refresh(store, false);
    return err;
}
