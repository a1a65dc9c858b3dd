#include "hot/redis/slots.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define POLYNOMIAL 0x1021u

uint16_t slots_crc(struct slice bytes)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        crc ^= (uint32_t)(unsigned char)bytes.data[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000u ? crc << 1 ^ POLYNOMIAL : crc << 1;
    }
    return (uint16_t)crc;
}

/* What counts of a key: its tag, unless that is empty. */
static struct slice hashed_part(struct slice key)
{
    const char *open = key.size > 0 ? memchr(key.data, '{', key.size) : NULL;
    if (!open)
        return key;
    const char *close = memchr(open + 1, '}', (size_t)(key.data + key.size - open - 1));
    if (!close || close == open + 1)
        return key;
    return (struct slice){open + 1, (size_t)(close - open - 1)};
}

uint16_t slots_of(struct slice key)
{
    return slots_crc(hashed_part(key)) % SLOTS_COUNT;
}

void slots_tags_make(struct slots_tags *tags)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        unsigned slot = SLOTS_COUNT;
        for (unsigned i = 0; slot / SLOTS_A_CELL != cell; i++) {
            assert(i < 10000); /* one in 64 will do: that is far away */
            snprintf(tags->tags[cell], sizeof(tags->tags[cell]), "{%u.%u}", cell, i);
            slot = slots_of(slice_of(tags->tags[cell]));
        }
        tags->slots[cell] = (uint16_t)slot;
    }
}
