#include "store/postgres/postgres.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "store/postgres/own.h"

#define STATEMENT_TIMEOUT_MS 30000u
#define LOCK_TIMEOUT_MS      5000u
#define SCRATCH_MAX          (UINT64_C(1) << 30)
#define ATTEMPTS             5u                  /* at a transaction that meets with others */
#define PAUSE_NS             UINT64_C(100000000) /* between two attempts to connect */

/* ---- connecting ---- */

static enum err connect_store(struct postgres_store *store, struct error *error)
{
    struct pg_options options = {
        .url = store->options.url,
        .statement_timeout_ms = store->options.statement_timeout_ms,
        .lock_timeout_ms = store->options.lock_timeout_ms,
    };
    enum err err = pg_connect(&store->pg, &options, error);
    if (!err)
        err = postgres_schema_prepare(&store->pg, store->options.members, error);
    if (err)
        pg_close(&store->pg);
    else
        atomic_fetch_add(&store->generation, 1);
    return err;
}

/* What memory knows of the tables, anew. */
static enum err load_memory(struct postgres_store *store, struct error *error)
{
    postgres_users_forget_all(store);
    known_clear(&store->counters);
    return postgres_kinds_load(&store->pg, &store->kinds, error);
}

static enum err connect_and_load(struct postgres_store *store, struct error *error)
{
    enum err err = pg_is_open(&store->pg) ? ERR_OK : connect_store(store, error);
    return err ? err : load_memory(store, error);
}

enum err postgres_ready(struct postgres_store *store, struct error *error)
{
    if (pg_is_open(&store->pg) && store->is_ready)
        return ERR_OK;
    uint64_t now_ns = env_monotonic_ns(store->env);
    bool is_too_soon = store->failed_ns != 0 && now_ns - store->failed_ns < PAUSE_NS;
    enum err err = is_too_soon ? store->failure.code : connect_and_load(store, &store->failure);
    store->is_ready = !err;
    store->failed_ns = !err ? 0 : is_too_soon ? store->failed_ns : env_monotonic_ns(store->env);
    if (!err)
        return ERR_OK;
    postgres_stats_down(store);
    /* What makes no sense now made sense when we began: somebody may put it right. */
    if (store->is_open)
        err = ERR_UNAVAILABLE;
    return error_set(error, err, "%s", store->failure.text);
}

/* ---- transactions ---- */

/* Constraints that would speak up at the end speak up at once: then it is known which unit it
 * was. */
enum err postgres_begin(struct postgres_store *store, struct error *error)
{
    enum err err = postgres_ready(store, error);
    if (err)
        return err;
    store->totals = (struct totals){0};
    store->next_user = 0;
    store->first_new = INT64_MAX; /* it was not asked */
    err = pg_execute(&store->pg, "BEGIN; SET CONSTRAINTS ALL IMMEDIATE", error);
    if (!err)
        return ERR_OK;
    /* A connection that has died while nobody looked is worth one more try. */
    bool was_lost = !pg_is_open(&store->pg);
    postgres_abandon(store, err);
    if (!was_lost || postgres_ready(store, error))
        return err;
    err = pg_execute(&store->pg, "BEGIN; SET CONSTRAINTS ALL IMMEDIATE", error);
    return err ? postgres_abandon(store, err) : ERR_OK;
}

/* A connection that is lost here leaves open whether it is done. Then it is an outage, and whoever
 * asks how far the store is before going on finds out. */
enum err postgres_commit(struct postgres_store *store, struct error *error)
{
    enum err err = pg_execute(&store->pg, "COMMIT", error);
    /* COMMIT of a transaction that has failed says ROLLBACK, and no error. */
    if (!err && strcmp(PQcmdStatus(store->pg.result), "COMMIT") != 0)
        err = error_set(error, ERR_UNAVAILABLE, "PostgreSQL: the transaction was rolled back");
    if (err == ERR_REFUSED) {
        err = ERR_UNAVAILABLE; /* it was nobody's unit: they were asked before */
        if (error)
            error->code = err;
    }
    return err ? postgres_abandon(store, err) : ERR_OK;
}

enum err postgres_abandon(struct postgres_store *store, enum err err)
{
    if (pg_is_open(&store->pg) && pg_in_transaction(&store->pg)) {
        bool is_conflict = store->pg.is_conflict;
        if (pg_execute(&store->pg, "ROLLBACK", NULL))
            pg_close(&store->pg);
        store->pg.is_conflict = is_conflict;
    }
    store->is_ready = false;
    if (err == ERR_UNAVAILABLE)
        postgres_stats_down(store);
    return err;
}

/* The others need a moment. */
static void pause_a_bit(struct postgres_store *store, unsigned attempt)
{
    uint64_t ms = 5 + env_random(store->env) % (20u << attempt);
    struct timespec pause = {.tv_nsec = (long)(ms * 1000000)};
    nanosleep(&pause, NULL);
}

static enum err attempt_once(struct postgres_store *store, postgres_attempt_fn *attempt, void *arg,
                             struct error *error)
{
    store->pg.is_conflict = false;
    enum err err = postgres_begin(store, error);
    if (err)
        return err;
    err = attempt(store, arg, error);
    return err ? postgres_abandon(store, err) : postgres_commit(store, error);
}

enum err postgres_transact(struct postgres_store *store, postgres_attempt_fn *attempt, void *arg,
                           struct error *error)
{
    struct error why = {.text = ""};
    enum err err = attempt_once(store, attempt, arg, &why);
    for (unsigned i = 1; i < ATTEMPTS && err && store->pg.is_conflict; i++) {
        pause_a_bit(store, i);
        err = attempt_once(store, attempt, arg, &why);
    }
    return err ? error_set(error, err, "%s", why.text) : ERR_OK;
}

/* ---- how far it is ---- */

static void read_origin(struct pg *pg, int row, struct state_mark *mark)
{
    int64_t origin = pg_int(pg, row, 0);
    mark->counters += (uint64_t)pg_int(pg, row, 6);
    mark->items += (uint64_t)pg_int(pg, row, 7);
    mark->members += (uint64_t)pg_int(pg, row, 8);
    if (origin < 0 || origin >= (int64_t)LIMIT_CELLS)
        return;
    mark->sequences[origin] = (uint64_t)pg_int(pg, row, 1);
    mark->ended[origin] = (uint64_t)pg_int(pg, row, 2);
    mark->lanes[origin] =
        (struct log_position){(uint64_t)pg_int(pg, row, 3), (uint64_t)pg_int(pg, row, 4)};
    mark->incarnations[origin] = (uint32_t)pg_int(pg, row, 5);
    mark->given[origin] = (uint64_t)pg_int(pg, row, 16);
    mark->times_ms[origin] = pg_int(pg, row, 17);
}

enum err postgres_read_mark(struct pg *pg, struct state_mark *ret_mark, struct error *error)
{
    pg_args(pg);
    enum err err = pg_query(pg, SQL_MARK, error);
    if (err)
        return err;
    if (pg_rows(pg) == 0)
        return error_set(error, ERR_UNAVAILABLE,
                         "PostgreSQL: the rows of `progress`, `origins` or `homes` are gone");
    memset(ret_mark, 0, sizeof(*ret_mark));
    ret_mark->position =
        (struct log_position){(uint64_t)pg_int(pg, 0, 9), (uint64_t)pg_int(pg, 0, 10)};
    ret_mark->counters = (uint64_t)pg_int(pg, 0, 11);
    ret_mark->items = (uint64_t)pg_int(pg, 0, 12);
    ret_mark->members = (uint64_t)pg_int(pg, 0, 13);
    int64_t next_user = pg_int(pg, 0, 14);
    int64_t next_number = pg_int(pg, 0, 15);
    ret_mark->next_user = (uint32_t)(next_user > next_number ? next_user : next_number);
    for (int row = 0; row < pg_rows(pg); row++)
        read_origin(pg, row, ret_mark);
    return ERR_OK;
}

enum err postgres_read_homes(struct postgres_store *store, struct error *error)
{
    struct pg *pg = &store->pg;
    pg_args(pg);
    enum err err = pg_query(pg, SQL_HOMES, error);
    if (err)
        return err;
    memset(store->homes, 0, sizeof(store->homes));
    for (int row = 0; row < pg_rows(pg); row++) {
        int64_t cell = pg_int(pg, row, 0);
        if (cell >= 0 && cell < (int64_t)LIMIT_CELLS)
            store->homes[cell] = (uint32_t)pg_int(pg, row, 1);
    }
    return ERR_OK;
}

enum err postgres_write_totals(struct postgres_store *store, struct error *error)
{
    const struct totals *totals = &store->totals;
    if (totals->counters == 0 && totals->items == 0 && totals->members == 0 &&
        store->next_user == 0)
        return ERR_OK;
    struct pg *pg = &store->pg;
    pg_args(pg);
    pg_arg_int(pg, totals->counters);
    pg_arg_int(pg, totals->items);
    pg_arg_int(pg, totals->members);
    pg_arg_int(pg, store->next_user);
    return pg_query(pg, SQL_TOTALS_ADD, error);
}

/* Asked of the tables every time: others write, too, and a server that has taken over may be
 * behind. */
static enum err postgres_mark(struct store *base, struct state_mark *ret_mark, struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    enum err err = postgres_ready(store, error);
    if (err)
        return err;
    struct error why = {.text = ""};
    err = postgres_read_mark(&store->pg, ret_mark, &why);
    if (!err)
        return ERR_OK;
    if (pg_is_open(&store->pg))
        return postgres_abandon(store, error_set(error, err, "%s", why.text));
    /* The connection had died: perhaps the server is back already. */
    store->is_ready = false;
    err = postgres_ready(store, error);
    if (!err)
        err = postgres_read_mark(&store->pg, ret_mark, error);
    return err ? postgres_abandon(store, err) : ERR_OK;
}

/* ---- epochs ---- */

struct epoch_call {
    unsigned origin;
    uint64_t above;
    uint64_t epoch;
};

/* It is on the disk before it is told, and on a standby, if the server waits for one. */
static enum err take_epoch(struct postgres_store *store, void *arg, struct error *error)
{
    struct epoch_call *call = arg;
    struct pg *pg = &store->pg;
    enum err err = postgres_claim_for_nodes(store, error);
    if (err)
        return err;
    pg_args(pg);
    err = pg_query(pg, SQL_EPOCH_SAFELY, error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_int(pg, call->origin);
    pg_arg_int(pg, (int64_t)call->above);
    err = pg_query(pg, SQL_EPOCH_NEXT, error);
    if (!err)
        call->epoch = (uint64_t)pg_int(pg, 0, 0);
    return err;
}

static enum err postgres_epoch(struct store *base, unsigned origin, uint64_t above,
                               uint64_t *ret_epoch, struct error *error)
{
    struct epoch_call call = {.origin = origin, .above = above};
    enum err err = postgres_transact(postgres_of(base), take_epoch, &call, error);
    if (!err)
        *ret_epoch = call.epoch;
    return err;
}

/* ---- kinds ---- */

enum err postgres_kinds_load(struct pg *pg, struct kind_names *kinds, struct error *error)
{
    pg_args(pg);
    enum err err = pg_query(pg, SQL_KINDS, error);
    if (err)
        return err;
    kinds->count = 0;
    for (int row = 0; row < pg_rows(pg); row++) {
        int64_t number = pg_int(pg, row, 0);
        struct slice name = pg_text(pg, row, 1);
        if (number != row + 1 || number >= (int64_t)SETS_KINDS || name.size == 0 ||
            name.size > LIMIT_KIND_BYTES)
            return error_set(error, ERR_CORRUPT, "row %lld of `kinds` makes no sense",
                             (long long)number);
        kinds->sizes[number] = (uint8_t)name.size;
        memcpy(kinds->names[number], name.data, name.size);
        kinds->count = (unsigned)number;
    }
    return ERR_OK;
}

static enum err postgres_kinds(struct store *base, store_kind_fn *visit, void *arg,
                               struct error *error)
{
    struct postgres_store *store = postgres_of(base);
    enum err err = postgres_ready(store, error);
    if (!err)
        err = postgres_kinds_load(&store->pg, &store->kinds, error);
    if (err)
        return postgres_abandon(store, err);
    for (unsigned kind = 1; kind <= store->kinds.count; kind++)
        visit(arg, kind_names_at(&store->kinds, kind));
    return ERR_OK;
}

/* Numbers have no gaps: one at a time gives them out. It happens once in the life of a kind. */
enum err postgres_kind_add(struct postgres_store *store, struct slice name, struct error *error)
{
    struct pg *pg = &store->pg;
    if (!kind_names_may_add(&store->kinds, name))
        return ERR_OK;
    enum err err = pg_execute(pg, "LOCK TABLE kinds IN SHARE ROW EXCLUSIVE MODE", error);
    if (err)
        return err;
    pg_args(pg);
    pg_arg_text(pg, name);
    err = pg_query(pg, SQL_KIND_ADD, error);
    return err ? err : postgres_kinds_load(pg, &store->kinds, error);
}

/* ---- the store ---- */

static void scratch_done(struct scratch *scratch)
{
    pg_columns_done(&scratch->columns);
    free(scratch->works);
    free(scratch->user_ids);
    free(scratch->deltas);
}

static void postgres_close(struct store *base)
{
    struct postgres_store *store = postgres_of(base);
    pg_done(&store->pg);
    lock_done(&store->stats_lock);
    scratch_done(&store->scratch);
    buffer_done(&store->text);
    buffer_done(&store->raw);
    buffer_done(&store->delta);
    free(store->known);
    met_done(&store->met);
    known_done(&store->counters);
    free((char *)store->options.url);
    free(store);
}

static const struct store_ops postgres_ops = {
    .name = "postgres",
    .mark = postgres_mark,
    .epoch = postgres_epoch,
    .kinds = postgres_kinds,
    .apply = postgres_apply,
    .due = postgres_due,
    .retry = postgres_retry,
    .redrive = postgres_redrive,
    .discard = postgres_discard,
    .thin = postgres_thin,
    .mend = postgres_mend,
    .mend_life = postgres_mend_life,
    .mend_members = postgres_mend_members,
    .mending = postgres_mending,
    .make = postgres_make,
    .note = postgres_note,
    .rebase = postgres_rebase,
    .erase = postgres_erase,
    .rest = postgres_rest,
    .reader_open = postgres_reader_open,
    .reader_close = postgres_reader_close,
    .load = postgres_load,
    .load_many = postgres_load_many,
    .load_slice = postgres_load_slice,
    .find_user = postgres_find_user,
    .names = postgres_names,
    .find_key = postgres_find_key,
    .seen = postgres_seen,
    .seen_ms = postgres_seen_ms,
    .hashes = postgres_hashes,
    .keys = postgres_keys,
    .scan = postgres_scan,
    .items_of = postgres_items_of,
    .lives = postgres_lives,
    .letters = postgres_letters,
    .letter = postgres_letter,
    .past = postgres_past,
    .audits = postgres_audits,
    .waiting = postgres_waiting,
    .base = postgres_base,
    .inspect = postgres_inspect,
    .stats = postgres_stats,
    .close = postgres_close,
};

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(memory_take(size), text, size);
}

enum err postgres_store_open(struct env *env, const struct postgres_store_options *options,
                             struct store **ret, struct error *error)
{
    assert(env && options && options->url && ret);

    struct postgres_store *store = memory_take_zeroed(sizeof(*store));
    store->base.ops = &postgres_ops;
    store->env = env;
    store->options = *options;
    store->options.url = copy_text(options->url);
    if (store->options.statement_timeout_ms == 0)
        store->options.statement_timeout_ms = STATEMENT_TIMEOUT_MS;
    if (store->options.lock_timeout_ms == 0)
        store->options.lock_timeout_ms = LOCK_TIMEOUT_MS;
    pg_init(&store->pg);
    lock_init(&store->stats_lock);
    pg_columns_init(&store->scratch.columns);
    met_init(&store->met, env_random(env));
    known_init(&store->counters, env_random(env));
    buffer_init(&store->text, SCRATCH_MAX);
    buffer_init(&store->raw, SCRATCH_MAX);
    buffer_init(&store->delta, SCRATCH_MAX);

    enum err err = postgres_ready(store, error);
    if (err && (err != ERR_UNAVAILABLE || !options->may_wait)) {
        postgres_close(&store->base);
        return err;
    }
    store->is_open = true;
    if (!err)
        postgres_stats_refresh(store, true);
    *ret = &store->base;
    return ERR_OK;
}
