#include "core/hot.h"

#include <assert.h>

void hot_run(struct hot *hot, struct batch *batch)
{
    assert(hot && batch && batch->done);
    assert(batch->count <= LIMIT_BATCH && (batch->ops || batch->count == 0));
    assert(batch->worker < LIMIT_WORKERS);

    hot->ops->run(hot, batch);
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

void hot_stats(struct hot *hot, struct hot_stats *ret_stats)
{
    assert(hot && ret_stats);

    *ret_stats = (struct hot_stats){0};
    hot->ops->stats(hot, ret_stats);
}

void hot_close(struct hot *hot)
{
    if (hot)
        hot->ops->close(hot);
}
