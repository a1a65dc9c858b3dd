/* fifo.h - things in a row, first in, first out, each with a size.
 *
 * A thing has a node as its first member, and belongs to the row while it is in it. Somebody may
 * take a part of the row away, work on it elsewhere, and put back what is left. Knows no lock. */
#ifndef BASE_FIFO_H
#define BASE_FIFO_H

#include <stddef.h>
#include <stdint.h>

struct fifo_node {
    struct fifo_node *next;
    size_t size; /* that it counts for; stays as it is in the row */
};

/* All zeroes is an empty one. */
struct fifo {
    struct fifo_node *first;
    struct fifo_node *last;
    uint64_t size; /* of all */
};

void fifo_push(struct fifo *fifo, struct fifo_node *node);

/* The first, or NULL. */
struct fifo_node *fifo_pop(struct fifo *fifo);

/* The first ones until `limit` is reached, at least one if there is any, as a row of their own. */
struct fifo fifo_take(struct fifo *fifo, uint64_t limit);

/* They are the first again. `taken` is empty then. */
void fifo_put_back(struct fifo *fifo, struct fifo *taken);

#endif
