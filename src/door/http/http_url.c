#include "door/http/http_url.h"

#include <string.h>

unsigned http_url_split(struct slice path, struct slice segments[HTTP_URL_SEGMENTS_MAX])
{
    unsigned count = 0;
    const char *end = path.data + path.size;
    const char *at = path.data;
    while (at < end) {
        const char *begin = ++at; /* behind a slash */
        at = memchr(at, '/', (size_t)(end - at));
        if (!at)
            at = end;
        if (count < HTTP_URL_SEGMENTS_MAX)
            segments[count] = (struct slice){begin, (size_t)(at - begin)};
        count++;
    }
    return count;
}

/* ---- UTF-8 ---- */

static bool is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* By the table of the standard: the second byte decides what is overlong, a
 * surrogate, or beyond the last code point. */
size_t http_url_utf8_size(const unsigned char *at, size_t left)
{
    unsigned char a = at[0];
    if (a < 0x80)
        return 1;
    if (a < 0xc2 || a > 0xf4 || left < 2 || !is_tail(at[1]))
        return 0;
    if (a < 0xe0)
        return 2;
    if (left < 3 || !is_tail(at[2]) || (a == 0xe0 && at[1] < 0xa0) || (a == 0xed && at[1] > 0x9f))
        return 0;
    if (a < 0xf0)
        return 3;
    if (left < 4 || !is_tail(at[3]) || (a == 0xf0 && at[1] < 0x90) || (a == 0xf4 && at[1] > 0x8f))
        return 0;
    return 4;
}

bool http_url_is_utf8(struct slice text)
{
    const unsigned char *at = (const unsigned char *)text.data;
    size_t left = text.size;
    while (left > 0) {
        size_t size = http_url_utf8_size(at, left);
        if (size == 0)
            return false;
        at += size;
        left -= size;
    }
    return true;
}

/* ---- percent signs ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool needs_work(struct slice text, bool is_query)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '%' || c == '\0' || c >= 0x80 || (c == '+' && is_query))
            return true;
    }
    return false;
}

bool http_url_decode(struct slice *text, bool is_query)
{
    if (!needs_work(*text, is_query))
        return true;

    char *to = (char *)text->data; /* the caller's to write to */
    const char *at = text->data;
    const char *end = text->data + text->size;
    while (at < end) {
        char c = *at++;
        if (c == '%') {
            if (end - at < 2 || hex(at[0]) < 0 || hex(at[1]) < 0)
                return false;
            c = (char)(hex(at[0]) << 4 | hex(at[1]));
            at += 2;
        } else if (c == '+' && is_query) {
            c = ' ';
        }
        if (c == '\0')
            return false;
        *to++ = c;
    }
    text->size = (size_t)(to - text->data);
    return http_url_is_utf8(*text);
}

bool http_url_cut_field(struct slice *query, struct slice *ret_name, struct slice *ret_value)
{
    while (query->size > 0 && query->data[0] == '&') {
        query->data++;
        query->size--;
    }
    if (query->size == 0)
        return false;

    const char *end = memchr(query->data, '&', query->size);
    size_t size = end ? (size_t)(end - query->data) : query->size;
    const char *equals = memchr(query->data, '=', size);
    size_t name_size = equals ? (size_t)(equals - query->data) : size;
    *ret_name = (struct slice){query->data, name_size};
    *ret_value = equals ? (struct slice){equals + 1, size - name_size - 1}
                        : (struct slice){query->data + size, 0};
    query->data += size;
    query->size -= size;
    return true;
}
