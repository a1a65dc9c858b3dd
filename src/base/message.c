#include "base/message.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define TEXT_SIZE_MAX   2048u /* of a line before it is escaped; the rest is cut */
#define PREFIX_SIZE_MAX 64u
#define ESCAPE_SIZE_MAX 4u /* \x00 */

static int least_level = MESSAGE_INFO;

void message_set_level(enum message_level level)
{
    __atomic_store_n(&least_level, (int)level, __ATOMIC_RELAXED);
}

/* ---- what may stand in a line as it is ---- */

/* The size of the UTF-8 character at `bytes`, and its number; 0 when it is none:
 * cut, longer than it need be, a surrogate or past the end of Unicode. */
static size_t decode_utf8(const unsigned char *bytes, size_t size, uint32_t *ret_rune)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {
        {0x80, 0x00, 0},
        {0xe0, 0xc0, 0x80},
        {0xf0, 0xe0, 0x800},
        {0xf8, 0xf0, 0x10000},
    };
    size_t more = 0;
    while (more < 4 && (bytes[0] & forms[more].mask) != forms[more].lead)
        more++;
    if (more == 4 || more >= size)
        return 0;

    uint32_t rune = bytes[0] & (unsigned char)~forms[more].mask;
    for (size_t i = 1; i <= more; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        rune = rune << 6 | (bytes[i] & 0x3f);
    }
    if (rune < forms[more].least || rune > 0x10ffff || (rune >= 0xd800 && rune <= 0xdfff))
        return 0;
    *ret_rune = rune;
    return more + 1;
}

/* Controls move the cursor or end the line; so do the separators, and the marks
 * of direction turn what follows around. */
static bool is_confusing(uint32_t rune)
{
    return rune < 0x20 || (rune >= 0x7f && rune <= 0x9f) || rune == 0x200e || rune == 0x200f ||
           (rune >= 0x2028 && rune <= 0x202e) || (rune >= 0x2066 && rune <= 0x2069);
}

/* The size of the character at `bytes` if it may be shown as it is, else 0. */
static size_t plain_size(const unsigned char *bytes, size_t size)
{
    uint32_t rune;
    size_t taken = decode_utf8(bytes, size, &rune);
    return taken > 0 && is_confusing(rune) ? 0 : taken;
}

/* ---- escaping ---- */

/* Writes one byte in letters, no closing zero; returns how many. */
static size_t escape_byte(char *to, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    to[0] = '\\';
    switch (byte) {
    case '\n':
        to[1] = 'n';
        return 2;
    case '\r':
        to[1] = 'r';
        return 2;
    case '\t':
        to[1] = 't';
        return 2;
    case '"':
    case '\\':
        to[1] = (char)byte;
        return 2;
    default:
        to[1] = 'x';
        to[2] = hex[byte >> 4];
        to[3] = hex[byte & 0xf];
        return ESCAPE_SIZE_MAX;
    }
}

/* The next character of `from`, escaped if need be, to `to` (at least four
 * bytes); how many were taken and written. */
static size_t escape_next(struct slice from, char *to, size_t *ret_written)
{
    const unsigned char *bytes = (const unsigned char *)from.data;
    size_t taken = plain_size(bytes, from.size);
    if (taken == 0) {
        *ret_written = escape_byte(to, bytes[0]);
        return 1;
    }
    memcpy(to, bytes, taken);
    *ret_written = taken;
    return taken;
}

const char *message_quote(char *to, size_t size, struct slice text)
{
    assert(to && size >= 3); /* the quotes and the closing zero */

    char *at = to;
    char *end = to + size - 2;
    *at++ = '"';
    while (text.size > 0) {
        char piece[ESCAPE_SIZE_MAX];
        size_t written;
        size_t taken = 1;
        if (text.data[0] == '"' || text.data[0] == '\\')
            written = escape_byte(piece, (unsigned char)text.data[0]);
        else
            taken = escape_next(text, piece, &written);
        if (written > (size_t)(end - at))
            break;
        memcpy(at, piece, written);
        at += written;
        text = (struct slice){text.data + taken, text.size - taken};
    }
    *at++ = '"';
    *at = '\0';
    return to;
}

/* ---- lines ---- */

/* Time and level; returns the size. */
static size_t format_prefix(char *to, size_t size, const char *level)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(to, size, "%Y-%m-%dT%H:%M:%S", &utc);
    int rest = snprintf(to + used, size - used, ".%03ldZ %-5s ", now.tv_nsec / 1000000, level);
    return used + (size_t)rest;
}

/* A line goes out in one call, so that lines of several threads do not mix.
 * When stderr takes nothing there is nobody left to tell. */
static void write_line(const char *line, size_t size)
{
    ssize_t written;
    do
        written = write(STDERR_FILENO, line, size);
    while (written < 0 && errno == EINTR);
}

__attribute__((format(printf, 2, 0))) static void message(enum message_level level,
                                                          const char *format, va_list args)
{
    static const char *const levels[] = {"debug", "info", "warning", "error"};
    if ((int)level < __atomic_load_n(&least_level, __ATOMIC_RELAXED))
        return;

    char raw[TEXT_SIZE_MAX];
    int wanted = vsnprintf(raw, sizeof(raw), format, args);
    if (wanted < 0)
        return;
    bool cut = (size_t)wanted >= sizeof(raw);
    struct slice text = {raw, cut ? sizeof(raw) - 1 : (size_t)wanted};

    char line[PREFIX_SIZE_MAX + TEXT_SIZE_MAX * ESCAPE_SIZE_MAX + sizeof("...\n")];
    size_t size = format_prefix(line, PREFIX_SIZE_MAX, levels[level]);
    while (text.size > 0) {
        size_t written;
        size_t taken = escape_next(text, line + size, &written);
        size += written;
        text = (struct slice){text.data + taken, text.size - taken};
    }
    if (cut) {
        memcpy(line + size, "...", 3);
        size += 3;
    }
    line[size++] = '\n';
    write_line(line, size);
}

#define MESSAGE_AT(level)               \
    do {                                \
        va_list args;                   \
        va_start(args, format);         \
        message((level), format, args); \
        va_end(args);                   \
    } while (0)

void message_debug(const char *format, ...)
{
    MESSAGE_AT(MESSAGE_DEBUG);
}

void message_info(const char *format, ...)
{
    MESSAGE_AT(MESSAGE_INFO);
}

void message_warning(const char *format, ...)
{
    MESSAGE_AT(MESSAGE_WARNING);
}

void message_error(const char *format, ...)
{
    MESSAGE_AT(MESSAGE_ERROR);
}
