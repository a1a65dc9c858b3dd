#include "hot/memory/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "core/bucket.h"
#include "hot/memory/cell_own.h"
#include "hot/memory/layer.h"

#define SETTLE_LOOK_NS 50000

static enum err remember_key(struct memory_hot *hot, const struct event *event)
{
    struct key_slot slot;
    if (!keys_open(hot->keys, event->id, event->key, event->time_ms, &slot)) {
        struct key_answer answer = {.fingerprint = event->answer.fingerprint,
                                    .changed = event->answer.changed,
                                    .held = kinds_find(hot->kinds, event->answer.held),
                                    .generation = hot->cells[event->origin].generation,
                                    .value = event->answer.value};
        keys_put(hot->keys, &slot, &answer, event->time_ms);
    }
    keys_close(hot->keys, &slot);
    return ERR_OK;
}

/* A counter of such a name was written to before the kind was configured; now
 * nobody could reach it. */
static enum err check_name(const struct memory_hot *hot, const struct event *event,
                           struct error *error)
{
    struct slice item;
    uint8_t kind;
    bool is_of_counter =
        event->type == EVENT_ADD || event->type == EVENT_RESET || event->type == EVENT_EXPIRE;
    if (!is_of_counter || !kinds_split(hot->kinds, event->id, &item, &kind))
        return ERR_OK;
    return error_set(error, ERR_INVALID,
                     "the log holds a counter '%.*s', which is now the name of a reaction's: "
                     "take '%.*s' out of the setting kinds",
                     SLICE_ARGS(event->id), SLICE_ARGS(kinds_name(hot->kinds, kind)));
}

static enum err check_sequence(const struct memory_hot *hot, const struct event *event,
                               struct error *error)
{
    if (event->origin >= LIMIT_CELLS)
        return error_set(error, ERR_CORRUPT, "origin %u: there are %u cells", event->origin,
                         LIMIT_CELLS);
    uint64_t last = hot->cells[event->origin].sequence;
    if (event->sequence != last + 1 && last != 0)
        return error_set(error, ERR_CORRUPT, "origin %u: event %llu follows event %llu",
                         event->origin, (unsigned long long)event->sequence,
                         (unsigned long long)last);
    return ERR_OK;
}

static enum err replay_event(struct memory_hot *hot, const struct event *event, struct error *error)
{
    struct cell_target target;
    uint64_t stable;
    enum err err = layer_aim_event(hot, event, hot->saves.now, &target, &stable, error);
    if (err)
        return err;
    struct cell *home = &hot->cells[layer_home(stable)];
    err = cell_replay(home, event, &target, error);
    layer_collect(hot, home);
    if (err)
        return err;
    if (event->key.size > 0 && !event->erased)
        remember_key(hot, event);
    if (event->type == EVENT_CREATE && event->create.shards > 1)
        layer_publish(hot, home, target.hash, target.id);
    return ERR_OK;
}

static enum err memory_replay(struct hot *base, const struct event *event, struct error *error)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    if (hot->cold && event->origin < LIMIT_CELLS && event->sequence <= hot->begun[event->origin])
        return ERR_OK; /* the store has it */
    enum err err = check_sequence(hot, event, error);
    if (err)
        return err;
    err = check_name(hot, event, error);
    if (!err)
        err = replay_event(hot, event, error);
    /* What waits for the store comes again; everything else has had its turn. */
    if (err != ERR_COLD && err != ERR_UNAVAILABLE)
        hot->cells[event->origin].sequence = event->sequence;
    layer_count_own(hot);
    layer_tell_wants(hot);
    return err;
}

static void memory_replay_ahead(struct hot *base, const struct event *event)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    if (event->type == EVENT_REACT && !event->erased) {
        struct user user;
        uint64_t hash;
        users_begin(hot->users, event->user, &user, &hash);
    } else {
        const struct cell *home = &hot->cells[layer_home(hash_stable(event->id))];
        table_prefetch(&home->table, hash_keyed(event->id, hot->hash_key));
    }
}

/* --- scans: a cursor is cell and record, plus one --- */

typedef void visit_entry_fn(struct memory_hot *hot, struct cell *cell, struct entry *entry,
                            void *arg);

/* Takes all locks, because spread records have pieces in other cells: who calls
 * keeps `limit` small. */
static void walk(struct memory_hot *hot, uint64_t *cursor, uint32_t limit, visit_entry_fn *visit,
                 void *arg)
{
    uint64_t at = *cursor == 0 ? 0 : *cursor - 1;
    uint32_t ref = (uint32_t)at;
    *cursor = 0;
    layer_take_all(hot);
    for (uint64_t number = at >> 32; number < LIMIT_CELLS; number++) {
        struct cell *cell = &hot->cells[number];
        while ((ref = heap_next(&cell->heap, ref)) != HEAP_NONE) {
            visit(hot, cell, heap_at(&cell->heap, ref), arg);
            if (--limit == 0) {
                *cursor = (number << 32 | ref) + 1;
                goto out;
            }
        }
    }
out:
    layer_release_all(hot);
}

struct scan {
    hot_visit_fn *visit;
    void *arg;
    int64_t now_ms;
    uint32_t seen;
};

static void scan_entry(struct memory_hot *hot, struct cell *cell, struct entry *entry, void *arg)
{
    struct scan *scan = arg;
    if (entry->kind == ENTRY_COUNTER && cell_is_expired(cell, entry, scan->now_ms))
        return; /* it is gone for every reader, and will be swept */
    struct hot_entry seen = {
        .id = entry_id(entry), .shards = 1, .was_loaded = (entry->flags & ENTRY_LOADED) != 0};
    int64_t counts[LIMIT_KINDS];
    struct number value;
    if (entry->kind == ENTRY_ITEM) {
        item_counts(cell, entry, counts);
        seen.is_item = true;
        seen.counts = counts;
        for (unsigned i = 0; i < hot->kinds->count; i++)
            seen.kinds_seen |= (uint32_t)(counts[i] > 0) << i;
        if (entry->flags & ENTRY_CROWD)
            seen.shards = entry->crowd->spread.shards;
    } else {
        const struct rare *rare = cell_rare(cell, entry);
        const struct parts *parts = rare ? rare->parts : NULL;
        value = parts ? number_of(atomic_load(&parts->total)) : entry_value(entry);
        seen.value = &value;
        seen.shards = parts ? parts->spread.shards : 1;
    }
    scan->seen++;
    scan->visit(scan->arg, &seen);
}

static void memory_scan(struct hot *base, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit,
                        void *arg)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct scan scan = {visit, arg, atomic_load(&hot->now_ms), 0};
    walk(hot, cursor, limit, scan_entry, &scan);
}

static enum err memory_peek(struct hot *base, struct slice id, hot_visit_fn *visit, void *arg)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct op op = {.kind = OP_GET, .id = id};
    layer_aim(hot, &op, NULL);
    layer_take_all(hot);
    struct cell *cell = &hot->cells[op.cell];
    struct entry *entry = cell_find(cell, op.hash, op.target);
    enum err err = ERR_NOT_FOUND;
    if (entry && !(entry->kind == ENTRY_COUNTER && op.target_kind != 0)) {
        struct scan scan = {visit, arg, atomic_load(&hot->now_ms), 0};
        scan_entry(hot, cell, entry, &scan);
        err = scan.seen > 0 ? ERR_OK : ERR_NOT_FOUND;
    } else if (!entry && hot->cold && cold_may_have(hot->cold, op.hash, op.stable)) {
        err = ERR_COLD;
    }
    layer_release_all(hot);
    return err;
}

struct items_of {
    struct slice user;
    struct user number;
    hot_item_fn *visit;
    void *arg;
};

static void item_of_user(struct memory_hot *hot, struct cell *cell, struct entry *entry, void *arg)
{
    struct items_of *wanted = arg;
    (void)hot;
    (void)cell;
    if (entry->kind != ENTRY_ITEM)
        return;
    uint8_t held;
    if (entry->flags & ENTRY_CROWD) {
        uint16_t bucket = bucket_of(entry_id(entry), wanted->user);
        held = crowd_held(entry->crowd, crowd_slice_of(entry->crowd, bucket), wanted->number);
    } else {
        held = block_held(entry, wanted->number);
    }
    if (held != KIND_NONE)
        wanted->visit(wanted->arg, entry_id(entry), held);
}

static void memory_items_of(struct hot *base, struct slice user, uint64_t *cursor, uint32_t limit,
                            hot_item_fn *visit, void *arg)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct items_of wanted = {.user = user, .visit = visit, .arg = arg};
    uint64_t hash;
    if (!users_begin(hot->users, user, &wanted.number, &hash) &&
        !users_find(hot->users, user, hash, &wanted.number)) {
        *cursor = 0;
        return;
    }
    walk(hot, cursor, limit, item_of_user, &wanted);
}

static enum err memory_recount(struct hot *base, struct slice id, struct number *ret_value)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct op op = {.kind = OP_GET, .id = id};
    layer_aim(hot, &op, NULL);
    layer_take_all(hot);
    struct cell *cell = &hot->cells[op.cell];
    const struct entry *entry = cell_find(cell, op.hash, op.target);
    enum err err = ERR_OK;
    bool is_item = entry && entry->kind == ENTRY_ITEM;
    if (!entry || is_item != (op.target_kind != 0) ||
        (!is_item && cell_is_expired(cell, entry, atomic_load(&hot->now_ms)))) {
        err = ERR_NOT_FOUND;
    } else if (is_item) {
        int64_t counts[LIMIT_KINDS];
        if (!(entry->flags & ENTRY_CROWD))
            block_counts(entry, hot->kinds->count, counts);
        else if (atomic_load(&entry->crowd->missing) != 0)
            err = ERR_UNAVAILABLE; /* members are in the store only */
        else
            counts[op.target_kind - 1] = crowd_recount(entry->crowd, op.target_kind);
        if (!err)
            *ret_value = number_of(counts[op.target_kind - 1]);
    } else {
        const struct rare *rare = cell_rare(cell, entry);
        struct number value = entry_value(entry);
        if (rare && rare->parts) {
            value = number_of(0);
            for (uint32_t i = 0; i < rare->parts->spread.shards; i++) {
                struct number part = number_of(rare->parts->part[i].value);
                number_add(&value, &part);
            }
        }
        *ret_value = number_copy(&value);
    }
    layer_release_all(hot);
    return err;
}

static void memory_stats(struct hot *base, struct hot_stats *ret_stats)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct hot_stats stats = {.users = users_count(hot->users), .keys = keys_count(hot->keys)};
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct cell *cell = &hot->cells[i];
        lock_take(&cell->lock);
        stats.counters += cell->counters;
        stats.items += cell->items;
        stats.members += cell->members;
        stats.big += cell->big;
        stats.expired += cell->expired;
        stats.spread += cell->spread;
        stats.deadlines += cell->mortal;
        stats.hot_counters += cell->hot_counters;
        stats.hot_items += cell->hot_items;
        stats.loads += cell->loads;
        stats.dropped += cell->dropped;
        lock_release(&cell->lock);
    }
    for (unsigned i = 0; i < hot->runners; i++) {
        stats.refused += atomic_load(&hot->worker[i].refused);
        stats.memory_refused += atomic_load(&hot->worker[i].memory_refused);
    }
    stats.cold_misses = hot->cold ? cold_misses(hot->cold) : 0;
    stats.memory_bytes = atomic_load(&hot->memory_bytes);
    stats.memory_max = hot->memory_max;
    stats.spread_events = atomic_load(&hot->spread_events);
    stats.lock_waits = atomic_load(&hot->lock_waits);
    *ret_stats = stats;
}

/* A batch shows its epoch before it asks for room, and until it is done: whoever is seen without
 * one asks later than now. */
static void memory_settle(struct hot *base)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    for (unsigned i = 0; i <= hot->runners; i++)
        while (atomic_load(&hot->worker[i].epoch) != NO_EPOCH)
            (void)nanosleep(&(struct timespec){.tv_nsec = SETTLE_LOOK_NS}, NULL);
}

static void memory_close(struct hot *base)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        cell_done(&hot->cells[i]);
    spread_free_all(hot->retired);
    for (unsigned i = 0; i <= hot->runners; i++)
        section_done(&hot->worker[i].section);
    free(hot->worker);
    directory_done(&hot->directory);
    lock_done(&hot->retired_lock);
    keys_free(hot->keys);
    users_free(hot->users);
    cold_free(hot->cold);
    free(hot->begun);
    free(hot);
    own_hand_over();
}

static const struct hot_ops memory_ops = {
    .name = "memory",
    .run = run_batch,
    .replay = memory_replay,
    .replay_ahead = memory_replay_ahead,
    .scan = memory_scan,
    .peek = memory_peek,
    .items_of = memory_items_of,
    .recount = memory_recount,
    .tick = balance_tick,
    .reshard = balance_reshard,
    .begin = load_begin,
    .tell = load_tell,
    .told_all = load_told_all,
    .wanted = load_wanted,
    .loaded = load_loaded,
    .saved = drop_saved,
    .sequences = drop_sequences,
    .drop = drop_id,
    .inspect = inspect_id,
    .mend = inspect_mend,
    .note = inspect_note,
    .hottest = inspect_hottest,
    .stats = memory_stats,
    .settle = memory_settle,
    .close = memory_close,
};

struct hot *memory_hot_open(struct env *env, const struct memory_hot_options *options)
{
    assert(options->workers >= 1 && options->workers + options->guests <= LIMIT_WORKERS);

    struct memory_hot *hot = memory_take_aligned(sizeof(*hot));
    hot->base.ops = &memory_ops;
    hot->env = env;
    hot->kinds = options->kinds;
    hot->log = options->log;
    hot->runners = options->workers + options->guests;
    hot->rule = (struct heat_rule){.spread_rate = options->spread_rate,
                                   .shards_max = heat_shards_max(options->workers)};
    hot->hash_key = env_random(env);
    hot->users = users_new(env_random(env));
    hot->keys = keys_new(env_random(env), options->keys_kept_ms);
    drop_init(hot, options);
    directory_init(&hot->directory);
    lock_init(&hot->retired_lock);

    size_t size = (hot->runners + 1) * sizeof(*hot->worker);
    hot->worker = memory_take_aligned(size);
    for (unsigned i = 0; i <= hot->runners; i++) {
        struct worker *worker = &hot->worker[i];
        atomic_init(&worker->epoch, NO_EPOCH);
        section_init(&worker->section);
        shard_picker_init(&worker->picker, i % LIMIT_WORKERS, env_random(env));
    }
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        cell_init(&hot->cells[i], (uint8_t)i, hot->kinds, hot->users, hot->hash_key,
                  options->idle_s);
    return &hot->base;
}
