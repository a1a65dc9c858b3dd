#include "door/resp/resp_parse.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

/* "-9223372036854775808\r": no length line is longer. */
#define LENGTH_SIZE_MAX 21

void resp_parser_init(struct resp_parser *parser)
{
    parser->argc = 0;
    parser->stranger = false;
    parser->used = 0;
    parser->need = 0;
    parser->scratch_used = 0;
    parser->error[0] = '\0';
}

/* Off the path that requests take, so that it stays short. */
#define COLD __attribute__((cold, noinline))

static COLD enum resp_found broken(struct resp_parser *parser, const char *why)
{
    snprintf(parser->error, sizeof(parser->error), "Protocol error: %s", why);
    return RESP_BROKEN;
}

static COLD enum resp_found more(struct resp_parser *parser, size_t need)
{
    parser->need = need;
    return RESP_MORE;
}

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

static inline bool is_line_end(const char *at)
{
    uint16_t here;
    uint16_t wanted;
    memcpy(&here, at, 2);
    memcpy(&wanted, "\r\n", 2);
    return here == wanted;
}

/* Where the reading of a length stands: behind its line, or one of these. */
static const char *const CUT = NULL;
static const char not_a_length[1];

static COLD const char *read_long_length(const char *at, const char *end, int64_t *ret_length)
{
    size_t left = (size_t)(end - at);
    const char *cr = memchr(at, '\r', left < LENGTH_SIZE_MAX ? left : LENGTH_SIZE_MAX);
    if (!cr)
        return left < LENGTH_SIZE_MAX ? CUT : not_a_length;
    if (cr + 1 == end)
        return CUT;
    if (cr[1] != '\n' || !decimal_parse((struct slice){at, (size_t)(cr - at)}, ret_length))
        return not_a_length;
    return cr + 2;
}

static COLD enum resp_found no_dollar(struct resp_parser *parser, char got)
{
    char why[32];
    snprintf(why, sizeof(why), "expected '$', got '%c'", got >= ' ' && got <= '~' ? got : '?');
    return broken(parser, why);
}

/* A length that was read, and what is behind it; `next` NULL: `found` says why
 * there is none. Comes back in registers: the path of a request takes the
 * address of nothing, and so needs no stack. */
struct length {
    const char *next;
    union {
        size_t value;
        enum resp_found found;
    };
};

static struct length no_length(enum resp_found found)
{
    return (struct length){.next = NULL, .found = found};
}

/* Nearly all lengths have one digit or two: reads such a one and the line's end
 * behind it. Anything else, and what is cut, is not for here. */
static inline struct length read_short_length(const char *at, const char *end)
{
    if (end - at >= 4 && is_digit(at[0])) {
        if (is_line_end(at + 1))
            return (struct length){.next = at + 3, .value = (size_t)(at[0] - '0')};
        if (is_line_end(at + 2) && is_digit(at[1]) && at[0] != '0')
            return (struct length){.next = at + 4,
                                   .value = (size_t)((at[0] - '0') * 10 + (at[1] - '0'))};
    }
    return (struct length){.next = NULL, .value = 0};
}

/* The other lengths, with the limits that they may pass. */
static COLD struct length read_count(struct resp_parser *parser, struct slice data, const char *at)
{
    int64_t count = 0;
    const char *next = read_long_length(at, data.data + data.size, &count);
    if (next == CUT)
        return no_length(more(parser, data.size + 1));
    if (next == not_a_length || count > (int64_t)RESP_ARGS_MAX)
        return no_length(broken(parser, "invalid multibulk length"));
    return (struct length){.next = next, .value = count > 0 ? (size_t)count : 0};
}

static COLD struct length read_size(struct resp_parser *parser, struct slice data, const char *at)
{
    int64_t size = 0;
    const char *next = read_long_length(at, data.data + data.size, &size);
    if (next == CUT)
        return no_length(more(parser, data.size + 1));
    if (next == not_a_length || (uint64_t)size > RESP_BULK_BYTES_MAX)
        return no_length(broken(parser, "invalid bulk length"));
    if (parser->stranger && size > (int64_t)RESP_STRANGER_BYTES_MAX)
        return no_length(broken(parser, "unauthenticated bulk length"));
    return (struct length){.next = next, .value = (size_t)size};
}

static enum resp_found parse_array(struct resp_parser *parser, struct slice data)
{
    const char *const end = data.data + data.size;
    struct length count = read_short_length(data.data + 1, end);
    if (!count.next) {
        count = read_count(parser, data, data.data + 1);
        if (!count.next)
            return count.found;
    }
    if (parser->stranger && count.value > RESP_STRANGER_ARGS_MAX)
        return broken(parser, "unauthenticated multibulk length");

    const char *at = count.next;
    struct slice *arg = parser->argv;
    struct slice *const args_end = arg + count.value;
    for (; arg < args_end; arg++) {
        if (at == end)
            return more(parser, data.size + 1);
        if (*at != '$')
            return no_dollar(parser, *at);
        struct length size = read_short_length(at + 1, end);
        if (!size.next) {
            size = read_size(parser, data, at + 1);
            if (!size.next)
                return size.found;
        }
        if ((size_t)(end - size.next) < size.value + 2)
            return more(parser, (size_t)(size.next - data.data) + size.value + 2);
        at = size.next + size.value;
        if (!is_line_end(at))
            return broken(parser, "expected CRLF behind a bulk string");
        *arg = (struct slice){size.next, size.value};
        at += 2;
    }
    parser->argc = (unsigned)count.value;
    parser->used = (size_t)(at - data.data);
    return RESP_REQUEST;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that stands behind a backslash between double quotes; moves *at
 * behind what it has read. */
static char unescape(const char **at, const char *end)
{
    char c = *(*at)++;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    case 'x':
        if (end - *at >= 2 && hex_digit((*at)[0]) >= 0 && hex_digit((*at)[1]) >= 0) {
            c = (char)(hex_digit((*at)[0]) << 4 | hex_digit((*at)[1]));
            *at += 2;
        }
        return c;
    default:
        return c;
    }
}

/* Copies what stands between quotes to `to`; `*at` is behind the opening quote
 * and moves behind the closing one. Returns the end of the copy, NULL when the
 * quotes do not close or the word goes on behind them. */
static char *unquote(const char **at, const char *end, char quote, char *to)
{
    const char *from = *at;
    while (from < end && *from != quote) {
        if (*from == '\\' && from + 1 < end && quote == '"') {
            from++;
            *to++ = unescape(&from, end);
        } else if (*from == '\\' && from + 1 < end && from[1] == '\'') {
            *to++ = '\'';
            from += 2;
        } else {
            *to++ = *from++;
        }
    }
    if (from == end)
        return NULL;
    from++;
    if (from < end && !is_space(*from))
        return NULL;
    *at = from;
    return to;
}

/* Reads a word with quotes in it: it is put together in `to`. Returns the end
 * of it, or NULL. */
static char *read_quoted_word(const char **at, const char *end, char *to)
{
    while (*at < end && !is_space(**at)) {
        char c = *(*at)++;
        if (c == '"' || c == '\'')
            to = unquote(at, end, c, to);
        else
            *to++ = c;
        if (!to)
            return NULL;
    }
    return to;
}

static enum resp_found parse_words(struct resp_parser *parser, const char *at, const char *end)
{
    size_t scratch_used = 0;
    parser->argc = 0;
    for (;;) {
        while (at < end && is_space(*at))
            at++;
        if (at == end)
            break;
        if (parser->argc == RESP_ARGS_MAX)
            return broken(parser, "too many words in a line");

        const char *word = at;
        while (at < end && !is_space(*at) && *at != '"' && *at != '\'')
            at++;
        if (at == end || is_space(*at)) {
            parser->argv[parser->argc++] = (struct slice){word, (size_t)(at - word)};
            continue;
        }
        /* Unquoting makes nothing longer: what a line holds fits. */
        char *copy = parser->scratch + scratch_used;
        at = word;
        char *copy_end = read_quoted_word(&at, end, copy);
        if (!copy_end)
            return broken(parser, "unbalanced quotes in request");
        parser->argv[parser->argc++] = (struct slice){copy, (size_t)(copy_end - copy)};
        scratch_used += (size_t)(copy_end - copy);
    }
    parser->scratch_used = scratch_used;
    return RESP_REQUEST;
}

static COLD enum resp_found parse_line(struct resp_parser *parser, struct slice data)
{
    size_t look = data.size < RESP_INLINE_BYTES_MAX ? data.size : RESP_INLINE_BYTES_MAX;
    const char *newline = memchr(data.data, '\n', look);
    if (!newline && data.size >= RESP_INLINE_BYTES_MAX)
        return broken(parser, "too big inline request");
    if (!newline)
        return more(parser, data.size + 1);

    parser->used = (size_t)(newline + 1 - data.data);
    const char *end = newline;
    if (end > data.data && end[-1] == '\r')
        end--;
    return parse_words(parser, data.data, end);
}

enum resp_found resp_parse(struct resp_parser *parser, struct slice data)
{
    parser->scratch_used = 0;
    if (data.size == 0)
        return more(parser, 1);
    if (data.data[0] == '*')
        return parse_array(parser, data);
    return parse_line(parser, data);
}
