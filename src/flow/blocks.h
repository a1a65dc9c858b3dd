/* blocks.h - bytes kept until all of them are let go at once, in a few large blocks.
 *
 * What is kept stays where it is. The blocks are used again; after the first few nothing is
 * allocated. */
#ifndef FLOW_BLOCKS_H
#define FLOW_BLOCKS_H

#include "base/slice.h"

struct block;

struct blocks {
    struct block *used; /* owned; the first is being filled */
    struct block *spare;
};

/* All zeroes is an empty one. */
void blocks_done(struct blocks *blocks);

/* A copy of the bytes. */
struct slice blocks_keep(struct blocks *blocks, struct slice bytes);

/* Lets go of all of them. */
void blocks_clear(struct blocks *blocks);

#endif
