#include "log/redis_stream/lane_key.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* CRC-16/XMODEM, which Redis Cluster takes. */
static uint16_t crc16(const char *bytes, size_t size)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint16_t)((unsigned char)bytes[i] << 8);
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

unsigned lane_key_slot(const char *key)
{
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open + 1, '}') : NULL;
    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open - 1)) % LANE_SLOTS;
    return crc16(key, strlen(key)) % LANE_SLOTS;
}

/* The first of "17.0", "17.1", ... whose slot lies in the lane's range. */
static void find_tag(char *to, size_t room, unsigned lane)
{
    for (unsigned i = 0;; i++) {
        int size = snprintf(to, room, "%u.%u", lane, i);
        if (crc16(to, (size_t)size) % LANE_SLOTS / LANE_SLOT_RANGE == lane)
            return;
    }
}

void lane_key(char *to, const char *prefix, unsigned lane, const char *name)
{
    assert(lane < LIMIT_CELLS);

    char tag[16];
    find_tag(tag, sizeof(tag), lane);
    int size = snprintf(to, LANE_KEY_BYTES, "%s:{%s}:%s", prefix, tag, name);
    assert(size > 0 && size < (int)LANE_KEY_BYTES);
}
