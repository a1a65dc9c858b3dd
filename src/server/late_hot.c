#include "server/late_hot.h"

#include <assert.h>

static struct hot *real_of(struct hot *base)
{
    return atomic_load_explicit(&((struct late_hot *)base)->real, memory_order_acquire);
}

static void run(struct hot *base, struct batch *batch)
{
    struct hot *real = real_of(base);
    if (real) {
        hot_run(real, batch);
        return;
    }
    for (size_t i = 0; i < batch->count; i++)
        batch->ops[i].code = ERR_UNAVAILABLE;
    batch->done(batch);
}

static void collect(struct hot *base, unsigned worker)
{
    struct hot *real = real_of(base);
    if (real)
        hot_collect(real, worker);
}

static enum err replay(struct hot *base, const struct event *event, struct error *error)
{
    struct hot *real = real_of(base);
    return real ? hot_replay(real, event, error) : ERR_OK;
}

static void scan(struct hot *base, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg)
{
    struct hot *real = real_of(base);
    if (real) {
        hot_scan(real, cursor, limit, visit, arg);
        atomic_store(&base->passed_over, atomic_load(&real->passed_over));
    } else {
        *cursor = 0;
        atomic_fetch_add(&base->passed_over, 1);
    }
}

static enum err peek(struct hot *base, struct slice id, hot_visit_fn *visit, void *arg)
{
    struct hot *real = real_of(base);
    return real ? hot_peek(real, id, visit, arg) : ERR_UNAVAILABLE;
}

static void items_of(struct hot *base, struct slice user, uint64_t *cursor, uint32_t limit,
                     hot_item_fn *visit, void *arg)
{
    struct hot *real = real_of(base);
    if (real)
        hot_items_of(real, user, cursor, limit, visit, arg);
    else
        *cursor = 0;
}

static enum err recount(struct hot *base, struct slice id, struct number *ret_value)
{
    struct hot *real = real_of(base);
    return real ? hot_recount(real, id, ret_value) : ERR_UNAVAILABLE;
}

static void tick(struct hot *base, int64_t now_ms)
{
    struct hot *real = real_of(base);
    if (real)
        hot_tick(real, now_ms);
}

static enum err reshard(struct hot *base, struct slice id, uint32_t shards, int64_t now_ms)
{
    struct hot *real = real_of(base);
    return real ? hot_reshard(real, id, shards, now_ms) : ERR_UNAVAILABLE;
}

static void begin(struct hot *base, const struct state_mark *mark)
{
    struct hot *real = real_of(base);
    if (real)
        hot_begin(real, mark);
}

static void tell(struct hot *base, enum hot_want_kind kind, uint64_t stable_hash)
{
    struct hot *real = real_of(base);
    if (real)
        hot_tell(real, kind, stable_hash);
}

static void told_all(struct hot *base, enum hot_want_kind kind)
{
    struct hot *real = real_of(base);
    if (real)
        hot_told_all(real, kind);
}

static bool wanted(struct hot *base, struct hot_want *ret_want)
{
    struct hot *real = real_of(base);
    return real && hot_wanted(real, ret_want);
}

static void loaded(struct hot *base, const struct hot_want *want, const struct hot_found *found)
{
    struct hot *real = real_of(base);
    if (real)
        hot_loaded(real, want, found);
}

static void saved(struct hot *base, const uint64_t sequences[LIMIT_CELLS])
{
    struct hot *real = real_of(base);
    if (real)
        hot_saved(real, sequences);
}

static enum err drop(struct hot *base, struct slice id)
{
    struct hot *real = real_of(base);
    return real ? hot_drop(real, id) : ERR_UNAVAILABLE;
}

static enum err inspect(struct hot *base, struct slice id, struct hot_inspection *ret)
{
    struct hot *real = real_of(base);
    return real ? hot_inspect(real, id, ret) : ERR_UNAVAILABLE;
}

static enum err mend(struct hot *base, struct slice id, const struct hot_record *record,
                     uint8_t kind, const struct number *by)
{
    struct hot *real = real_of(base);
    return real ? hot_mend(real, id, record, kind, by) : ERR_UNAVAILABLE;
}

static enum err note(struct hot *base, const struct event *repair, int64_t now_ms)
{
    struct hot *real = real_of(base);
    return real ? hot_note(real, repair, now_ms) : ERR_UNAVAILABLE;
}

static void hottest(struct hot *base, uint32_t limit, hot_shards_fn *visit, void *arg)
{
    struct hot *real = real_of(base);
    if (real)
        hot_hottest(real, limit, visit, arg);
}

static void stats(struct hot *base, struct hot_stats *ret_stats)
{
    struct late_hot *late = (struct late_hot *)base;
    struct hot *real = real_of(base);
    if (real)
        hot_stats(real, ret_stats);
    ret_stats->counters = atomic_load(&late->counters);
    ret_stats->items = atomic_load(&late->items);
    ret_stats->members = atomic_load(&late->members);
}

static void hurry(struct hot *base)
{
    struct hot *real = real_of(base);
    if (real)
        hot_hurry(real);
}

static void close_nothing(struct hot *base)
{
    (void)base; /* the real one is closed by its owner */
}

static const struct hot_ops late_ops = {
    .name = "redis",
    .run = run,
    .collect = collect,
    .replay = replay,
    .scan = scan,
    .peek = peek,
    .items_of = items_of,
    .recount = recount,
    .tick = tick,
    .reshard = reshard,
    .begin = begin,
    .tell = tell,
    .told_all = told_all,
    .wanted = wanted,
    .loaded = loaded,
    .saved = saved,
    .drop = drop,
    .inspect = inspect,
    .mend = mend,
    .note = note,
    .hottest = hottest,
    .stats = stats,
    .hurry = hurry,
    .close = close_nothing,
};

/* --- hooks of the real one --- */

static void arrive(void *arg)
{
    struct late_hot *late = arg;
    atomic_fetch_add(&late->base.arrivals, 1);
    if (late->base.arrive)
        late->base.arrive(late->base.arrive_arg);
}

static void finish(void *arg, unsigned worker)
{
    struct late_hot *late = arg;
    late->base.finish(late->base.finish_arg, worker);
}

void late_hot_init(struct late_hot *late)
{
    assert(late);

    *late = (struct late_hot){.base = {.ops = &late_ops}};
}

void late_hot_note(struct late_hot *late, const struct state_mark *mark)
{
    atomic_store(&late->counters, mark->counters);
    atomic_store(&late->items, mark->items);
    atomic_store(&late->members, mark->members);
}

void late_hot_set(struct late_hot *late, struct hot *real)
{
    assert(late && real && late->base.finish && !late->real);

    real->arrive = arrive;
    real->arrive_arg = late;
    real->finish = finish;
    real->finish_arg = late;
    atomic_store_explicit(&late->real, real, memory_order_release);
}
