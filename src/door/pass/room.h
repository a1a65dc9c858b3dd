/* room.h - the memory of one pass of a worker.
 *
 * What connections send is read into blocks that they all share, and is parsed
 * where it lies; the few things that a request needs beyond its bytes are taken
 * from the same blocks. All of it is let go of at once, when the pass is over
 * and nobody points into it any more. Blocks are used again: after the first
 * passes nothing is allocated, and an idle connection holds no memory at all. */
#ifndef DOOR_PASS_ROOM_H
#define DOOR_PASS_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define ROOM_BLOCK_BYTES (64u << 10)

struct room_block;

struct room {
    struct room_block *blocks; /* in use, the current one first */
    struct room_block *spare;
    size_t spare_count;
    struct room_block *adopted;
    size_t bytes; /* in use: of whole blocks, and of what was adopted */
};

void room_init(struct room *room);
void room_done(struct room *room);

/* Free space of at least `size` bytes, at most ROOM_BLOCK_BYTES; says how much
 * it is. It is not taken yet. */
char *room_look(struct room *room, size_t size, size_t *ret_size);

/* Takes the first `size` bytes of what room_look() has shown. */
void room_take(struct room *room, size_t size);

/* Gives back what was taken from `from` up to `end`, unless something was taken since. */
void room_give_back(struct room *room, const char *from, const char *end);

/* Memory for a thing, well aligned, not cleared. */
void *room_alloc(struct room *room, size_t size);

/* Takes over the buffer's memory, which stays where it is until the pass is
 * over; the buffer is empty afterwards. */
void room_adopt(struct room *room, struct buffer *buffer);

/* Nothing points to the memory that was adopted from this buffer, which is empty: gives it back, as
 * if it had never been used. False: something was adopted since, and it stays. */
bool room_return(struct room *room, const char *memory, struct buffer *buffer);

/* Moves what is in use to another room, which is new; what is spare stays. */
void room_move(struct room *from, struct room *to);

/* The pass is over. */
void room_clear(struct room *room);

#endif
