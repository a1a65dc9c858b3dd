/* slots.h - which hash slot of a Redis Cluster a key is in, and the tags of our cells.
 *
 * A key's slot is a checksum of the part between its first '{' and the next '}', if there is one.
 * All keys of a cell carry the same tag, "{17.139}", so that they are in one slot and one script
 * may touch them. Tags are chosen so that the cells are spread evenly: cell c is in one of the
 * slots 256c to 256c + 255. Pure. */
#ifndef HOT_REDIS_SLOTS_H
#define HOT_REDIS_SLOTS_H

#include <stdint.h>

#include "base/slice.h"
#include "core/limits.h"

#define SLOTS_COUNT  16384u
#define SLOTS_A_CELL (SLOTS_COUNT / LIMIT_CELLS)

/* CRC16 (XMODEM) of the bytes. */
uint16_t slots_crc(struct slice bytes);

/* The slot of a key. */
uint16_t slots_of(struct slice key);

struct slots_tags {
    char tags[LIMIT_CELLS][12]; /* with braces, closed by a zero */
    uint16_t slots[LIMIT_CELLS];
};

/* The same in every process and version: what is in Redis is found by them. */
void slots_tags_make(struct slots_tags *tags);

#endif
