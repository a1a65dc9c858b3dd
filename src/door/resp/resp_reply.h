/* resp_reply.h - answers as bytes, in the second or the third version of RESP.
 *
 * A reply is a buffer that knows its connection's version. Whoever writes says
 * what it means (a map, a number, nothing), and each version gets its form of
 * it. Writing past the buffer's maximum sets `overflow` and writes no more: the
 * connection is of no use then.
 *
 *               RESP2                RESP3
 *   null        $-1                  _
 *   map, set    *n, flat             %n  ~n
 *   push        *n                   >n
 *   integer     :n                   :n
 *     beyond 64 bits, in both: $n, digits */
#ifndef DOOR_RESP_RESP_REPLY_H
#define DOOR_RESP_RESP_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/decimal.h"
#include "base/number.h"
#include "base/slice.h"

struct resp_reply {
    struct buffer bytes;
    uint8_t version; /* 2 or 3 */
    bool overflow;
};

void resp_reply_init(struct resp_reply *reply, size_t max_bytes);
void resp_reply_done(struct resp_reply *reply);

/* "+OK" */
void resp_reply_status(struct resp_reply *reply, const char *text);
static inline void resp_reply_ok(struct resp_reply *reply)
{
    resp_reply_status(reply, "OK");
}

/* "-ERR ...": the text begins with the word that clients branch on. Line
 * breaks in it become blanks. */
void resp_reply_error(struct resp_reply *reply, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The text of an error answer for one of our codes: the one place where they
 * become words of Redis. `text` may be NULL: the code's meaning then. */
void resp_reply_describe(enum err code, const char *text, char *to, size_t size);

void resp_reply_null(struct resp_reply *reply);
void resp_reply_bulk(struct resp_reply *reply, struct slice bytes);
void resp_reply_text(struct resp_reply *reply, const char *text); /* a bulk, too */

/* A pair of a map. A bulk of size 0 is nil. */
void resp_reply_pair(struct resp_reply *reply, const char *name, struct slice value);
void resp_reply_pair_integer(struct resp_reply *reply, const char *name, int64_t value);

/* Where a page ends, as SCAN has it: a bulk of digits. */
void resp_reply_cursor(struct resp_reply *reply, uint64_t cursor);

/* An integer of any size as a bulk of its digits; see also resp_reply_number(). */
void resp_reply_digits(struct resp_reply *reply, const struct number *number);

/* Heads: `count` things follow, or pairs of things in a map. */
void resp_reply_array(struct resp_reply *reply, size_t count);
void resp_reply_map(struct resp_reply *reply, size_t pairs);
void resp_reply_set(struct resp_reply *reply, size_t count);
void resp_reply_push(struct resp_reply *reply, size_t count);

/* Bytes that are RESP already. */
void resp_reply_raw(struct resp_reply *reply, struct slice bytes);

/* A letter, a number and the line's end. */
#define RESP_REPLY_LINE_MAX (1 + DECIMAL_SIZE_MAX + 2)
void resp_reply_line(struct resp_reply *reply, char type, int64_t number);

/* The most frequent answer of all. */
static inline void resp_reply_integer(struct resp_reply *reply, int64_t number)
{
    struct buffer *bytes = &reply->bytes;
    if ((uint64_t)number <= 9 && bytes->capacity - bytes->size >= 4) {
        char line[4] = {':', (char)('0' + number), '\r', '\n'};
        memcpy(bytes->data + bytes->size, line, 4);
        bytes->size += 4;
        return;
    }
    resp_reply_line(reply, ':', number);
}

/* An integer of any size. One beyond 64 bits is a bulk string in both versions:
 * clients that know RESP3 well, redis-cli 7.0 among them, end the connection, or
 * themselves, over its big numbers. */
void resp_reply_big(struct resp_reply *reply, const struct number *number);
static inline void resp_reply_number(struct resp_reply *reply, const struct number *number)
{
    if (number->big)
        resp_reply_big(reply, number);
    else
        resp_reply_integer(reply, number->small);
}

#endif
