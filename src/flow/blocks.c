#include "flow/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define BLOCK_BYTES ((size_t)4 << 20)

struct block {
    struct block *next;
    size_t size;
    size_t room; /* BLOCK_BYTES, or more for something larger */
    char bytes[];
};

static void free_list(struct block *block)
{
    while (block) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

void blocks_done(struct blocks *blocks)
{
    free_list(blocks->used);
    free_list(blocks->spare);
}

static struct block *block_with(struct blocks *blocks, size_t size)
{
    struct block *block = blocks->used;
    if (block && block->room - block->size >= size)
        return block;
    block = blocks->spare;
    if (block && block->room >= size) {
        blocks->spare = block->next;
    } else {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = memory_take(sizeof(*block) + room);
        block->room = room;
    }
    block->size = 0;
    block->next = blocks->used;
    blocks->used = block;
    return block;
}

struct slice blocks_keep(struct blocks *blocks, struct slice bytes)
{
    struct block *block = block_with(blocks, bytes.size);
    char *to = block->bytes + block->size;
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    block->size += bytes.size;
    return (struct slice){to, bytes.size};
}

void blocks_clear(struct blocks *blocks)
{
    while (blocks->used) {
        struct block *block = blocks->used;
        blocks->used = block->next;
        if (block->room > BLOCK_BYTES) {
            free(block);
            continue;
        }
        block->next = blocks->spare;
        blocks->spare = block;
    }
}
