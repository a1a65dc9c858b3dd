/* resp_room.h - the memory of one pass of a worker.
 *
 * What connections send is read into blocks that they all share, and is parsed
 * where it lies; the few things that a request needs beyond its bytes are taken
 * from the same blocks. All of it is let go of at once, when the pass is over
 * and nobody points into it any more. Blocks are used again: after the first
 * passes nothing is allocated, and an idle connection holds no memory at all. */
#ifndef DOOR_RESP_RESP_ROOM_H
#define DOOR_RESP_RESP_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define RESP_ROOM_BLOCK_BYTES (64u << 10)

struct resp_room_block;

struct resp_room {
    struct resp_room_block *blocks; /* in use, the current one first */
    struct resp_room_block *spare;
    size_t spare_count;
    struct resp_room_block *adopted;
};

void resp_room_init(struct resp_room *room);
void resp_room_done(struct resp_room *room);

/* Free space of at least `size` bytes, at most RESP_ROOM_BLOCK_BYTES; says how much
 * it is. It is not taken yet. */
char *resp_room_look(struct resp_room *room, size_t size, size_t *ret_size);

/* Takes the first `size` bytes of what resp_room_look() has shown. */
void resp_room_take(struct resp_room *room, size_t size);

/* Memory for a thing, well aligned, not cleared. */
void *resp_room_alloc(struct resp_room *room, size_t size);

/* Takes over the buffer's memory, which stays where it is until the pass is
 * over; the buffer is empty afterwards. */
void resp_room_adopt(struct resp_room *room, struct buffer *buffer);

/* The pass is over. */
void resp_room_clear(struct resp_room *room);

#endif
