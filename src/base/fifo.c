#include "base/fifo.h"

#include <assert.h>

void fifo_push(struct fifo *fifo, struct fifo_node *node)
{
    assert(fifo && node);

    node->next = NULL;
    if (fifo->last)
        fifo->last->next = node;
    else
        fifo->first = node;
    fifo->last = node;
    fifo->size += node->size;
}

struct fifo_node *fifo_pop(struct fifo *fifo)
{
    struct fifo_node *node = fifo->first;
    if (!node)
        return NULL;
    fifo->first = node->next;
    if (!fifo->first)
        fifo->last = NULL;
    fifo->size -= node->size;
    return node;
}

struct fifo fifo_take(struct fifo *fifo, uint64_t limit)
{
    struct fifo taken = {.first = NULL};
    while (fifo->first && (taken.size < limit || !taken.first))
        fifo_push(&taken, fifo_pop(fifo));
    return taken;
}

void fifo_put_back(struct fifo *fifo, struct fifo *taken)
{
    if (!taken->first)
        return;
    taken->last->next = fifo->first;
    if (!fifo->last)
        fifo->last = taken->last;
    fifo->first = taken->first;
    fifo->size += taken->size;
    *taken = (struct fifo){.first = NULL};
}
