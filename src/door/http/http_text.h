/* http_text.h - what is answered, as it is being written: JSON, mostly.
 *
 * Writing past the maximum sets `overflow` and writes no more; whoever sends the
 * text looks at it once. Ids and users may be any bytes when they came in by
 * another door: what is not UTF-8 in them is written as U+FFFD. */
#ifndef DOOR_HTTP_HTTP_TEXT_H
#define DOOR_HTTP_HTTP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/decimal.h"
#include "base/number.h"
#include "base/slice.h"

struct http_text {
    struct buffer bytes;
    bool overflow;
};

void http_text_init(struct http_text *text, size_t max_bytes);
void http_text_done(struct http_text *text);

static inline void http_text_add(struct http_text *text, struct slice bytes)
{
    if (buffer_append_slice(&text->bytes, bytes) != ERR_OK)
        text->overflow = true;
}

/* A literal, as it stands. */
#define HTTP_TEXT(text, literal) http_text_add(text, SLICE(literal))

void http_text_printf(struct http_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "...", with what JSON wants escaped. */
void http_text_string(struct http_text *text, struct slice value);

/* Digits; of a number of any size; the same in quotes, as counts are. */
void http_text_int(struct http_text *text, int64_t value);
void http_text_unsigned(struct http_text *text, uint64_t value);
void http_text_count(struct http_text *text, int64_t value);
void http_text_number(struct http_text *text, const struct number *value);

/* "2026-01-31T12:00:00.123Z"; null for 0, which stands for "not known". */
void http_text_time(struct http_text *text, int64_t time_ms);

/* Bytes as two digits each, in quotes. */
void http_text_hex(struct http_text *text, struct slice bytes);

/* --- the moment, written once and used for many answers --- */

#define HTTP_TIME_BYTES 24u /* 2026-01-31T12:00:00.123Z */
#define HTTP_DATE_BYTES 29u /* Sat, 31 Jan 2026 12:00:00 GMT */

struct http_clock {
    int64_t now_ms;
    int64_t second; /* that both texts are of */
    char time[HTTP_TIME_BYTES];
    char date[HTTP_DATE_BYTES];
};

void http_clock_set(struct http_clock *clock, int64_t now_ms);

static inline struct slice http_clock_time(const struct http_clock *clock)
{
    return (struct slice){clock->time, HTTP_TIME_BYTES};
}

static inline struct slice http_clock_date(const struct http_clock *clock)
{
    return (struct slice){clock->date, HTTP_DATE_BYTES};
}

/* Reads "2026-01-31T12:00:00Z", with or without a fraction, or milliseconds since
 * 1970 as an integer. */
bool http_clock_parse(struct slice text, int64_t *ret_ms);

#endif
