#include "flow/suspects.h"

#include <assert.h>
#include <string.h>

void suspects_queue_init(struct suspects_queue *queue)
{
    lock_init(&queue->lock);
    queue->count = 0;
}

void suspects_queue_done(struct suspects_queue *queue)
{
    lock_done(&queue->lock);
}

static bool is_waiting(const struct suspects_queue *queue, struct slice id)
{
    for (size_t i = 0; i < queue->count; i++)
        if (slice_equal((struct slice){queue->ids[i], queue->sizes[i]}, id))
            return true;
    return false;
}

bool suspects_queue_add(struct suspects_queue *queue, struct slice id)
{
    assert(queue && id.size <= LIMIT_ID_BYTES);

    lock_take(&queue->lock);
    bool adds = queue->count < SUSPECTS_MAX && !is_waiting(queue, id);
    if (adds) {
        memcpy(queue->ids[queue->count], id.data, id.size);
        queue->sizes[queue->count++] = id.size;
    }
    lock_release(&queue->lock);
    return adds;
}

size_t suspects_queue_take(struct suspects_queue *queue, char *to)
{
    assert(queue && to);

    size_t size = 0;
    lock_take(&queue->lock);
    if (queue->count > 0) {
        size = queue->sizes[--queue->count];
        memcpy(to, queue->ids[queue->count], size);
    }
    lock_release(&queue->lock);
    return size;
}
