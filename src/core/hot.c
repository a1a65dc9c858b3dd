#include "core/hot.h"

#include <assert.h>

void hot_run(struct hot *hot, struct batch *batch)
{
    assert(hot && batch && batch->done);
    assert(batch->count <= LIMIT_BATCH && (batch->ops || batch->count == 0));
    assert(batch->worker < LIMIT_WORKERS);

    hot->ops->run(hot, batch);
}

void hot_collect(struct hot *hot, unsigned worker)
{
    assert(hot);

    if (hot->ops->collect)
        hot->ops->collect(hot, worker);
}

enum err hot_replay(struct hot *hot, const struct event *event, struct error *error)
{
    assert(hot && event);

    return hot->ops->replay(hot, event, error);
}

void hot_replay_ahead(struct hot *hot, const struct event *event)
{
    assert(hot && event);

    if (hot->ops->replay_ahead)
        hot->ops->replay_ahead(hot, event);
}

void hot_scan(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg)
{
    assert(hot && cursor && visit);
    assert(limit > 0);

    hot->ops->scan(hot, cursor, limit, visit, arg);
}

enum err hot_peek(struct hot *hot, struct slice id, hot_visit_fn *visit, void *arg)
{
    assert(hot && visit);

    return hot->ops->peek(hot, id, visit, arg);
}

void hot_items_of(struct hot *hot, struct slice user, uint64_t *cursor, uint32_t limit,
                  hot_item_fn *visit, void *arg)
{
    assert(hot && cursor && visit);
    assert(limit > 0);

    hot->ops->items_of(hot, user, cursor, limit, visit, arg);
}

enum err hot_recount(struct hot *hot, struct slice id, struct number *ret_value)
{
    assert(hot && ret_value);

    return hot->ops->recount(hot, id, ret_value);
}

void hot_tick(struct hot *hot, int64_t now_ms)
{
    assert(hot);

    hot->ops->tick(hot, now_ms);
}

enum err hot_reshard(struct hot *hot, struct slice id, uint32_t shards, int64_t now_ms)
{
    assert(hot);

    if (shards < 1 || shards > LIMIT_CELLS)
        return ERR_INVALID;
    return hot->ops->reshard(hot, id, shards, now_ms);
}

void hot_begin(struct hot *hot, const struct state_mark *mark)
{
    assert(hot && mark);

    hot->ops->begin(hot, mark);
}

void hot_tell(struct hot *hot, enum hot_want_kind kind, uint64_t stable_hash)
{
    assert(hot);

    hot->ops->tell(hot, kind, stable_hash);
}

void hot_told_all(struct hot *hot, enum hot_want_kind kind)
{
    assert(hot);

    hot->ops->told_all(hot, kind);
}

bool hot_wanted(struct hot *hot, struct hot_want *ret_want)
{
    assert(hot && ret_want);

    return hot->ops->wanted(hot, ret_want);
}

void hot_loaded(struct hot *hot, const struct hot_want *want, const struct hot_found *found)
{
    assert(hot && want && found);

    hot->ops->loaded(hot, want, found);
    if (found->unasked || found->more)
        return;
    atomic_fetch_add(&hot->arrivals, 1);
    if (hot->arrive)
        hot->arrive(hot->arrive_arg);
}

void hot_saved(struct hot *hot, const uint64_t sequences[LIMIT_CELLS])
{
    assert(hot && sequences);

    hot->ops->saved(hot, sequences);
}

bool hot_sequences(struct hot *hot, uint64_t ret_sequences[LIMIT_CELLS])
{
    assert(hot && ret_sequences);

    if (!hot->ops->sequences)
        return false;
    hot->ops->sequences(hot, ret_sequences);
    return true;
}

enum err hot_drop(struct hot *hot, struct slice id)
{
    assert(hot);

    return hot->ops->drop(hot, id);
}

enum err hot_inspect(struct hot *hot, struct slice id, struct hot_inspection *ret)
{
    assert(hot && ret);

    return hot->ops->inspect(hot, id, ret);
}

enum err hot_mend(struct hot *hot, struct slice id, const struct hot_record *record, uint8_t kind,
                  const struct number *by)
{
    assert(hot && by);

    return hot->ops->mend(hot, id, record, kind, by);
}

enum err hot_note(struct hot *hot, const struct event *repair, int64_t now_ms)
{
    assert(hot && repair);
    assert(repair->type == EVENT_REPAIR);

    return hot->ops->note(hot, repair, now_ms);
}

void hot_hottest(struct hot *hot, uint32_t limit, hot_shards_fn *visit, void *arg)
{
    assert(hot && visit);

    if (hot->ops->hottest)
        hot->ops->hottest(hot, limit, visit, arg);
}

void hot_stats(struct hot *hot, struct hot_stats *ret_stats)
{
    assert(hot && ret_stats);

    *ret_stats = (struct hot_stats){0};
    hot->ops->stats(hot, ret_stats);
}

void hot_settle(struct hot *hot)
{
    assert(hot && hot->ops->settle);

    hot->ops->settle(hot);
}

void hot_hurry(struct hot *hot)
{
    assert(hot);

    if (hot->ops->hurry)
        hot->ops->hurry(hot);
}

void hot_close(struct hot *hot)
{
    if (hot)
        hot->ops->close(hot);
}
