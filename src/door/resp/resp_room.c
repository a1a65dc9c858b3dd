#include "door/resp/resp_room.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/memory.h"

#define SPARES_MAX 64u /* 4 MiB; what a rush needed beyond is given back */

struct resp_room_block {
    struct resp_room_block *next;
    size_t used;
    char *adopted; /* owned; a buffer's memory, and then `data` is not there */
    alignas(max_align_t) char data[];
};

void resp_room_init(struct resp_room *room)
{
    *room = (struct resp_room){0};
}

static void free_blocks(struct resp_room_block *block)
{
    while (block) {
        struct resp_room_block *next = block->next;
        free(block->adopted);
        free(block);
        block = next;
    }
}

void resp_room_done(struct resp_room *room)
{
    free_blocks(room->blocks);
    free_blocks(room->spare);
    free_blocks(room->adopted);
}

static void add_block(struct resp_room *room)
{
    struct resp_room_block *block = room->spare;
    if (block) {
        room->spare = block->next;
        room->spare_count--;
    } else {
        block = memory_take(sizeof(*block) + RESP_ROOM_BLOCK_BYTES);
        block->adopted = NULL;
    }
    block->used = 0;
    block->next = room->blocks;
    room->blocks = block;
}

char *resp_room_look(struct resp_room *room, size_t size, size_t *ret_size)
{
    assert(size <= RESP_ROOM_BLOCK_BYTES);

    if (!room->blocks || RESP_ROOM_BLOCK_BYTES - room->blocks->used < size)
        add_block(room);
    *ret_size = RESP_ROOM_BLOCK_BYTES - room->blocks->used;
    return room->blocks->data + room->blocks->used;
}

void resp_room_take(struct resp_room *room, size_t size)
{
    assert(size <= RESP_ROOM_BLOCK_BYTES - room->blocks->used);

    room->blocks->used += size;
}

void *resp_room_alloc(struct resp_room *room, size_t size)
{
    size_t left;
    char *start = resp_room_look(room, size + alignof(max_align_t), &left);
    size_t skip = -(uintptr_t)start % alignof(max_align_t);
    resp_room_take(room, skip + size);
    return start + skip;
}

void resp_room_adopt(struct resp_room *room, struct buffer *buffer)
{
    struct resp_room_block *block = memory_take(sizeof(*block));
    block->adopted = buffer->data;
    block->next = room->adopted;
    room->adopted = block;
    buffer_init(buffer, buffer->max);
}

void resp_room_clear(struct resp_room *room)
{
    if (room->adopted) {
        free_blocks(room->adopted);
        room->adopted = NULL;
    }
    while (room->blocks && room->blocks->next) {
        struct resp_room_block *block = room->blocks;
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
}
