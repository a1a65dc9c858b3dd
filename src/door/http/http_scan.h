/* http_scan.h - how far a string of JSON is plain: ASCII that stands for itself.
 * Eight bytes at a time: reading and writing strings is most of the work with
 * JSON. */
#ifndef DOOR_HTTP_HTTP_SCAN_H
#define DOOR_HTTP_HTTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool http_scan_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* The high bit of each byte that is zero, and perhaps of some above it. */
static inline uint64_t http_scan_zeros(uint64_t word)
{
    return (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
}

/* The number of plain bytes at the beginning. */
static inline size_t http_scan_plain(const char *at, size_t size)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t done = 0;
    while (size - done >= 8) {
        uint64_t word;
        memcpy(&word, at + done, 8);
        uint64_t control = (word - ones * 0x20) & ~word;
        uint64_t special = (control | word) & (ones * 0x80);
        special |= http_scan_zeros(word ^ ones * '"') | http_scan_zeros(word ^ ones * '\\') |
                   http_scan_zeros(word ^ ones * 0x7f);
        if (special != 0)
            return done + (size_t)__builtin_ctzll(special) / 8;
        done += 8;
    }
    while (done < size && http_scan_is_plain((unsigned char)at[done]))
        done++;
    return done;
}

#endif
