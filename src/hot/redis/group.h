/* group.h - between group.c, which decides what may share a run of run.lua, and group_put.c, which
 * writes it into the call. */
#ifndef HOT_REDIS_GROUP_H
#define HOT_REDIS_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "hot/redis/run.h"

/* Ops of one id in a row that share a run. */
struct stretch {
    char what; /* as in run.lua: L A G; which become S in an item that is in slices */
    struct slice region;
    int64_t sum;
    struct run_list ops;
};

/* What a run is put together in; kept from one to the next. */
struct group_buffers {
    struct buffer amounts; /* of sums */
    struct buffer codes;   /* of reactions: verb and kind of each, */
    struct buffer places;  /* how many in which slice, */
    struct buffer users;   /* and who */
};

void group_buffers_init(struct group_buffers *buffers);
void group_buffers_done(struct group_buffers *buffers);

/* A call being made. */
struct making {
    const struct layer *layer; /* these are borrowed */
    struct group_buffers *buffers;
    struct call *call;
    struct run_part *parts;
    size_t part_count;
    struct slice id; /* of the record at hand */
};

/* Adds the stretch to the call, if it has any ops, and empties it. `hint` is what is known of the
 * record. */
void group_put(struct making *making, struct stretch *stretch, bool is_last, unsigned hint);

#endif
