/* http_scan.h - how far a string of JSON is plain: ASCII that stands for itself.
 * Many bytes at a time: reading and writing strings is most of the work with
 * JSON. */
#ifndef DOOR_HTTP_HTTP_SCAN_H
#define DOOR_HTTP_HTTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline bool http_scan_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

#ifdef __SSE2__

#define HTTP_SCAN_STEP 16u

/* A bit for each byte that is not plain. Bytes from 0x80 on are negative, and so
 * below the blank as control characters are. */
static inline unsigned http_scan_specials(const char *at)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    __m128i low = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
    __m128i marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                 _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    __m128i end = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(low, marks), end));
}

#else

#define HTTP_SCAN_STEP 1u

static inline unsigned http_scan_specials(const char *at)
{
    return !http_scan_is_plain((unsigned char)*at);
}

#endif

/* The number of plain bytes at the beginning. */
static inline size_t http_scan_plain(const char *at, size_t size)
{
    size_t done = 0;
    while (size - done >= HTTP_SCAN_STEP) {
        unsigned specials = http_scan_specials(at + done);
        if (specials != 0)
            return done + (size_t)__builtin_ctz(specials);
        done += HTTP_SCAN_STEP;
    }
    while (done < size && http_scan_is_plain((unsigned char)at[done]))
        done++;
    return done;
}

#endif
