#include "door/resp/resp_reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_TEXT_SIZE 1024

void resp_reply_init(struct resp_reply *reply, size_t max_bytes)
{
    buffer_init(&reply->bytes, max_bytes);
    reply->version = 2;
    reply->overflow = false;
}

void resp_reply_done(struct resp_reply *reply)
{
    buffer_done(&reply->bytes);
}

/* Room for `size` bytes, or false for ever: half an answer followed by a whole
 * one would be read as something else. */
static bool reserve(struct resp_reply *reply, size_t size)
{
    if (reply->overflow || buffer_reserve(&reply->bytes, size) != ERR_OK)
        reply->overflow = true;
    return !reply->overflow;
}

static void put(struct resp_reply *reply, const void *data, size_t size)
{
    if (size > 0)
        memcpy(reply->bytes.data + reply->bytes.size, data, size);
    reply->bytes.size += size;
}

void resp_reply_raw(struct resp_reply *reply, struct slice bytes)
{
    if (reserve(reply, bytes.size))
        put(reply, bytes.data, bytes.size);
}

void resp_reply_line(struct resp_reply *reply, char type, int64_t number)
{
    if (!reserve(reply, RESP_REPLY_LINE_MAX))
        return;
    char *start = reply->bytes.data + reply->bytes.size;
    *start = type;
    char *at = decimal_format(start + 1, number);
    *at++ = '\r';
    *at++ = '\n';
    reply->bytes.size += (size_t)(at - start);
}

void resp_reply_status(struct resp_reply *reply, const char *text)
{
    size_t size = strlen(text);
    if (!reserve(reply, size + 3))
        return;
    put(reply, "+", 1);
    put(reply, text, size);
    put(reply, "\r\n", 2);
}

void resp_reply_error(struct resp_reply *reply, const char *format, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (wanted < 0)
        return;

    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\r' || text[i] == '\n')
            text[i] = ' ';
    }
    if (!reserve(reply, size + 3))
        return;
    put(reply, "-", 1);
    put(reply, text, size);
    put(reply, "\r\n", 2);
}

void resp_reply_describe(enum err code, const char *text, char *to, size_t size)
{
    const char *word = "ERR";
    if (!text)
        text = err_meaning(code);
    switch (code) {
    case ERR_WRONG_TYPE:
        word = "WRONGTYPE";
        text = "Operation against a key holding the wrong kind of value";
        break;
    case ERR_NOT_FOUND:
        text = "no such key";
        break;
    case ERR_EXISTS:
        word = "BUSYKEY";
        text = "Target key name already exists.";
        break;
    case ERR_OUT_OF_RANGE:
        text = "increment or decrement would overflow";
        break;
    case ERR_BELOW_FLOOR:
        word = "BELOWFLOOR";
        break;
    case ERR_KEY_REUSED:
        word = "IDMISMATCH";
        break;
    case ERR_DENIED:
        word = "NOPERM";
        break;
    case ERR_BUSY:
        word = "BUSY";
        text = "The log does not keep up with the writes. Try again.";
        break;
    case ERR_FULL:
        word = "MISCONF";
        text = "Errors writing to the log: No space left on device. Writes are refused until there "
               "is room, reads go on.";
        break;
    case ERR_NO_FILES:
        word = "MISCONF";
        text = "Errors writing to the log: Too many open files. Raise their limit (ulimit -n, "
               "LimitNOFILE=). Writes are refused until files can be opened, reads go on.";
        break;
    case ERR_UNAVAILABLE:
    case ERR_COLD:
        word = "UNAVAILABLE";
        text = "Redis or the store does not answer. Nothing was done. Try again.";
        break;
    case ERR_MOVED: /* clients know it from replicas, and look for the others */
        word = "READONLY";
        text = "Writes are taken by other nodes from now on. Nothing was done. Try again there.";
        break;
    case ERR_STALE:
        word = "STALE";
        text = "Redis does not answer, or the store is behind: what is known may be old. Try "
               "again, or set stale-reads to serve.";
        break;
    case ERR_TIMEOUT:
        word = "TRYAGAIN";
        break;
    case ERR_NO_KIND:
        word = "NOKIND";
        break;
    case ERR_NO_MEMORY:
        word = "OOM";
        text = "command not allowed when used memory > 'max-memory'.";
        break;
    default:
        break;
    }
    snprintf(to, size, "%s %s", word, text);
}

void resp_reply_null(struct resp_reply *reply)
{
    resp_reply_raw(reply, reply->version == 3 ? SLICE("_\r\n") : SLICE("$-1\r\n"));
}

void resp_reply_bulk(struct resp_reply *reply, struct slice bytes)
{
    if (!reserve(reply, bytes.size + RESP_REPLY_LINE_MAX + 2))
        return;
    resp_reply_line(reply, '$', (int64_t)bytes.size);
    put(reply, bytes.data, bytes.size);
    put(reply, "\r\n", 2);
}

void resp_reply_text(struct resp_reply *reply, const char *text)
{
    resp_reply_bulk(reply, slice_of(text));
}

void resp_reply_pair(struct resp_reply *reply, const char *name, struct slice value)
{
    resp_reply_text(reply, name);
    if (value.size > 0)
        resp_reply_bulk(reply, value);
    else
        resp_reply_null(reply);
}

void resp_reply_pair_integer(struct resp_reply *reply, const char *name, int64_t value)
{
    resp_reply_text(reply, name);
    resp_reply_integer(reply, value);
}

void resp_reply_cursor(struct resp_reply *reply, uint64_t cursor)
{
    char digits[DECIMAL_SIZE_MAX];
    char *end = decimal_format_unsigned(digits, cursor);
    resp_reply_bulk(reply, (struct slice){digits, (size_t)(end - digits)});
}

/* `$size\r\n` can only be written once the digits are there, so they are
 * put together on the side. */
void resp_reply_big(struct resp_reply *reply, const struct number *number)
{
    struct buffer digits;
    buffer_init(&digits, reply->bytes.max);
    if (number_format(number, &digits) == ERR_OK)
        resp_reply_bulk(reply, buffer_slice(&digits));
    else
        reply->overflow = true;
    buffer_done(&digits);
}

void resp_reply_digits(struct resp_reply *reply, const struct number *number)
{
    if (number->big) {
        resp_reply_big(reply, number);
        return;
    }
    char digits[DECIMAL_SIZE_MAX];
    char *end = decimal_format(digits, number->small);
    resp_reply_bulk(reply, (struct slice){digits, (size_t)(end - digits)});
}

void resp_reply_array(struct resp_reply *reply, size_t count)
{
    resp_reply_line(reply, '*', (int64_t)count);
}

void resp_reply_map(struct resp_reply *reply, size_t pairs)
{
    if (reply->version == 3)
        resp_reply_line(reply, '%', (int64_t)pairs);
    else
        resp_reply_line(reply, '*', (int64_t)pairs * 2);
}

void resp_reply_set(struct resp_reply *reply, size_t count)
{
    resp_reply_line(reply, reply->version == 3 ? '~' : '*', (int64_t)count);
}

void resp_reply_push(struct resp_reply *reply, size_t count)
{
    resp_reply_line(reply, reply->version == 3 ? '>' : '*', (int64_t)count);
}
