#include "door/pass/room.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/memory.h"

#define SPARES_MAX 64u /* 4 MiB; what a rush needed beyond is given back */

struct room_block {
    struct room_block *next;
    size_t used;   /* or the size of what was adopted */
    char *adopted; /* owned; a buffer's memory, and then `data` is not there */
    alignas(max_align_t) char data[];
};

void room_init(struct room *room)
{
    *room = (struct room){0};
}

static void free_blocks(struct room_block *block)
{
    while (block) {
        struct room_block *next = block->next;
        free(block->adopted);
        free(block);
        block = next;
    }
}

void room_done(struct room *room)
{
    free_blocks(room->blocks);
    free_blocks(room->spare);
    free_blocks(room->adopted);
}

static void add_block(struct room *room)
{
    struct room_block *block = room->spare;
    if (block) {
        room->spare = block->next;
        room->spare_count--;
    } else {
        block = memory_take(sizeof(*block) + ROOM_BLOCK_BYTES);
        block->adopted = NULL;
    }
    block->used = 0;
    block->next = room->blocks;
    room->blocks = block;
    room->bytes += ROOM_BLOCK_BYTES;
}

char *room_look(struct room *room, size_t size, size_t *ret_size)
{
    assert(size <= ROOM_BLOCK_BYTES);

    if (!room->blocks || ROOM_BLOCK_BYTES - room->blocks->used < size)
        add_block(room);
    *ret_size = ROOM_BLOCK_BYTES - room->blocks->used;
    return room->blocks->data + room->blocks->used;
}

void room_take(struct room *room, size_t size)
{
    assert(size <= ROOM_BLOCK_BYTES - room->blocks->used);

    room->blocks->used += size;
}

void room_give_back(struct room *room, const char *from, const char *end)
{
    struct room_block *block = room->blocks;
    if (!block || block->data + block->used != end)
        return;
    assert(from >= block->data && from <= end);
    block->used = (size_t)(from - block->data);
}

void *room_alloc(struct room *room, size_t size)
{
    size_t left;
    char *start = room_look(room, size + alignof(max_align_t), &left);
    size_t skip = -(uintptr_t)start % alignof(max_align_t);
    room_take(room, skip + size);
    return start + skip;
}

void room_adopt(struct room *room, struct buffer *buffer)
{
    struct room_block *block = memory_take(sizeof(*block));
    block->adopted = buffer->data;
    block->used = buffer->capacity;
    block->next = room->adopted;
    room->adopted = block;
    room->bytes += buffer->capacity;
    buffer_init(buffer, buffer->max);
}

bool room_return(struct room *room, const char *memory, struct buffer *buffer)
{
    assert(!buffer->data);

    struct room_block *block = room->adopted;
    if (!block || block->adopted != memory)
        return false;
    buffer->data = block->adopted;
    buffer->capacity = block->used;
    room->bytes -= block->used;
    room->adopted = block->next;
    free(block);
    return true;
}

void room_move(struct room *from, struct room *to)
{
    to->blocks = from->blocks;
    to->adopted = from->adopted;
    to->bytes = from->bytes;
    from->blocks = NULL;
    from->adopted = NULL;
    from->bytes = 0;
}

void room_clear(struct room *room)
{
    if (room->adopted) {
        free_blocks(room->adopted);
        room->adopted = NULL;
    }
    while (room->blocks && room->blocks->next) {
        struct room_block *block = room->blocks;
        room->blocks = block->next;
        if (room->spare_count < SPARES_MAX) {
            block->next = room->spare;
            room->spare = block;
            room->spare_count++;
        } else {
            free(block);
        }
    }
    if (room->blocks)
        room->blocks->used = 0;
    room->bytes = room->blocks ? ROOM_BLOCK_BYTES : 0;
}
