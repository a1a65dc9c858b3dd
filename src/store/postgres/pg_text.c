#include "store/postgres/pg_text.h"

#include <string.h>

#include "store/postgres/pg_own.h"

/* How many bytes the character at `at` has; 0: it is none. */
static size_t character(const unsigned char *at, size_t left)
{
    unsigned char first = at[0];
    size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 0 || first > 0xf4 || size > left || first == 0)
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    /* longer than it must be, a surrogate, or beyond the last one */
    if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) ||
        (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] > 0x8f))
        return 0;
    return size;
}

bool pg_text_is_plain(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte >= 0x80 || byte == 0 || byte == '\\')
            return false;
    }
    return true;
}

void pg_text_escape(struct slice text, struct buffer *to)
{
    const unsigned char *bytes = (const unsigned char *)text.data;
    pg_keep(buffer_reserve(to, text.size * 4));
    for (size_t i = 0; i < text.size;) {
        size_t size = character(bytes + i, text.size - i);
        char *at = to->data + to->size;
        if (size == 0) {
            static const char digits[] = "0123456789abcdef";
            memcpy(at, "\\x", 2);
            at[2] = digits[bytes[i] >> 4];
            at[3] = digits[bytes[i] & 15];
            to->size += 4;
            i++;
            continue;
        }
        if (bytes[i] == '\\')
            to->data[to->size++] = '\\';
        memcpy(to->data + to->size, bytes + i, size);
        to->size += size;
        i += size;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t pg_text_unescape(struct slice text, char *to)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char *at = text.data + i;
        size_t left = text.size - i;
        if (at[0] == '\\' && left >= 2 && at[1] == '\\') {
            i++;
        } else if (at[0] == '\\' && left >= 4 && at[1] == 'x' && hex_digit(at[2]) >= 0 &&
                   hex_digit(at[3]) >= 0) {
            to[size++] = (char)(hex_digit(at[2]) << 4 | hex_digit(at[3]));
            i += 3;
            continue;
        }
        to[size++] = at[0];
    }
    return size;
}
