#include "flow/suspects.h"

#include <assert.h>
#include <string.h>

#include "base/message.h"

void suspects_queue_init(struct suspects_queue *queue)
{
    lock_init(&queue->lock);
    queue->count = 0;
}

void suspects_queue_done(struct suspects_queue *queue)
{
    lock_done(&queue->lock);
}

/* Its place, or the one behind the last. */
static struct suspect *find(struct suspects_queue *queue, struct slice id)
{
    struct suspect *suspect = queue->list;
    struct suspect *end = suspect + queue->count;
    while (suspect < end && !slice_equal((struct slice){suspect->id, suspect->size}, id))
        suspect++;
    return suspect;
}

bool suspects_queue_add(struct suspects_queue *queue, struct slice id)
{
    assert(queue && id.size <= LIMIT_ID_BYTES);

    lock_take(&queue->lock);
    struct suspect *suspect = find(queue, id);
    bool adds = suspect == queue->list + queue->count && queue->count < SUSPECTS_MAX;
    if (adds) {
        *suspect = (struct suspect){.size = id.size};
        memcpy(suspect->id, id.data, id.size);
        queue->count++;
    }
    lock_release(&queue->lock);
    return adds;
}

bool suspects_queue_report(struct suspects_queue *queue, struct slice id)
{
    char name[128];
    bool adds = suspects_queue_add(queue, id);
    if (adds)
        message_error("a row of the store is not what was written there: it is counted anew from "
                      "the log before it is used id=%s",
                      message_quote(name, sizeof(name), id));
    return adds;
}

bool suspects_queue_has(struct suspects_queue *queue, struct slice id)
{
    assert(queue);

    lock_take(&queue->lock);
    bool has = find(queue, id) < queue->list + queue->count;
    lock_release(&queue->lock);
    return has;
}

bool suspects_queue_take(struct suspects_queue *queue, uint64_t now_ns, struct suspect *ret_suspect)
{
    assert(queue && ret_suspect);

    lock_take(&queue->lock);
    size_t at = queue->count;
    while (at > 0 && queue->list[at - 1].from_ns > now_ns)
        at--;
    if (at > 0) {
        *ret_suspect = queue->list[at - 1];
        queue->count--;
        memmove(&queue->list[at - 1], &queue->list[at],
                (queue->count - (at - 1)) * sizeof(queue->list[0]));
    }
    lock_release(&queue->lock);
    return at > 0;
}

void suspects_queue_put_back(struct suspects_queue *queue, const struct suspect *suspect,
                             uint64_t now_ns)
{
    assert(queue && suspect);

    uint64_t wait_ns = SUSPECT_AGAIN_NS << (suspect->failures < 5 ? suspect->failures : 5);
    lock_take(&queue->lock);
    struct suspect *place = find(queue, (struct slice){suspect->id, suspect->size});
    bool is_new = place == queue->list + queue->count;
    if (!is_new || queue->count < SUSPECTS_MAX) {
        queue->count += is_new;
        *place = *suspect; /* somebody may have named it again meanwhile */
        place->failures++;
        place->from_ns = now_ns + wait_ns;
    }
    lock_release(&queue->lock);
}
