/* varint.h - small numbers in few bytes: seven bits a byte, low bits first,
 * the top bit set on all but the last. Signed numbers are zigzagged, so that
 * -1 is as short as 1. */
#ifndef BASE_VARINT_H
#define BASE_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VARINT_SIZE_MAX 10u

/* Writes `value` at `to`, which has VARINT_SIZE_MAX bytes of room; returns the
 * byte behind it. */
static inline char *varint_put(char *to, uint64_t value)
{
    while (value >= 0x80) {
        *to++ = (char)(value | 0x80);
        value >>= 7;
    }
    *to++ = (char)value;
    return to;
}

/* Reads a number at `from`, not past `end`; returns the byte behind it, or NULL
 * when the number is cut short or does not fit. */
static inline const char *varint_get(const char *from, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; from < end && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*from++;
        if (shift == 63 && byte > 1)
            return NULL;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return from;
        }
    }
    return NULL;
}

static inline uint64_t varint_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t varint_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

#endif
