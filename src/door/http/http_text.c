#include "door/http/http_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/limits.h"
#include "door/http/http_scan.h"
#include "door/http/http_url.h"

void http_text_init(struct http_text *text, size_t max_bytes)
{
    buffer_init(&text->bytes, max_bytes);
    text->overflow = false;
}

void http_text_done(struct http_text *text)
{
    buffer_done(&text->bytes);
}

void http_text_printf(struct http_text *text, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(line))
        text->overflow = true;
    else
        http_text_add(text, (struct slice){line, (size_t)size});
}

/* ---- strings ---- */

/* One byte or sequence that is not plain; returns how many bytes it was. */
static size_t add_special(struct http_text *text, const char *at, size_t left)
{
    static const char escapes[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    unsigned char c = (unsigned char)*at;
    const char *found = c ? strchr(escapes, c) : NULL;
    if (found) {
        char escape[2] = {'\\', letters[found - escapes]};
        http_text_add(text, (struct slice){escape, 2});
        return 1;
    }
    if (c < 0x20 || c == 0x7f) {
        http_text_printf(text, "\\u%04x", c);
        return 1;
    }
    size_t size = http_url_utf8_size((const unsigned char *)at, left);
    if (size == 0) {
        HTTP_TEXT(text, "\xef\xbf\xbd");
        return 1;
    }
    http_text_add(text, (struct slice){at, size});
    return size;
}

void http_text_string(struct http_text *text, struct slice value)
{
    HTTP_TEXT(text, "\"");
    size_t done = 0;
    while (done < value.size) {
        const char *at = value.data + done;
        size_t plain = http_scan_plain(at, value.size - done);
        http_text_add(text, (struct slice){at, plain});
        done += plain;
        if (done < value.size)
            done += add_special(text, at + plain, value.size - done);
    }
    HTTP_TEXT(text, "\"");
}

void http_text_hex(struct http_text *text, struct slice bytes)
{
    static const char digits[] = "0123456789abcdef";
    HTTP_TEXT(text, "\"");
    for (size_t i = 0; i < bytes.size; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        char pair[2] = {digits[c >> 4], digits[c & 15]};
        http_text_add(text, (struct slice){pair, 2});
    }
    HTTP_TEXT(text, "\"");
}

/* ---- numbers ---- */

void http_text_int(struct http_text *text, int64_t value)
{
    char digits[DECIMAL_SIZE_MAX];
    char *end = decimal_format(digits, value);
    http_text_add(text, (struct slice){digits, (size_t)(end - digits)});
}

void http_text_unsigned(struct http_text *text, uint64_t value)
{
    char digits[DECIMAL_SIZE_MAX];
    char *end = decimal_format_unsigned(digits, value);
    http_text_add(text, (struct slice){digits, (size_t)(end - digits)});
}

void http_text_count(struct http_text *text, int64_t value)
{
    char digits[DECIMAL_SIZE_MAX + 2];
    char *end = decimal_format(digits + 1, value);
    digits[0] = '"';
    *end++ = '"';
    http_text_add(text, (struct slice){digits, (size_t)(end - digits)});
}

void http_text_number(struct http_text *text, const struct number *value)
{
    if (!value->big) {
        http_text_count(text, value->small);
        return;
    }
    HTTP_TEXT(text, "\"");
    if (number_format(value, &text->bytes) != ERR_OK)
        text->overflow = true;
    HTTP_TEXT(text, "\"");
}

/* ---- time ---- */

static void write_digits(char *to, unsigned value, int count)
{
    while (count-- > 0) {
        to[count] = (char)('0' + value % 10);
        value /= 10;
    }
}

/* Years beyond 9999 and before 0 are no times of ours. */
static void write_time(char to[HTTP_TIME_BYTES], const struct tm *tm, unsigned ms)
{
    memcpy(to, "0000-00-00T00:00:00.000Z", HTTP_TIME_BYTES);
    write_digits(to, (unsigned)(tm->tm_year + 1900) % 10000, 4);
    write_digits(to + 5, (unsigned)tm->tm_mon + 1, 2);
    write_digits(to + 8, (unsigned)tm->tm_mday, 2);
    write_digits(to + 11, (unsigned)tm->tm_hour, 2);
    write_digits(to + 14, (unsigned)tm->tm_min, 2);
    write_digits(to + 17, (unsigned)tm->tm_sec, 2);
    write_digits(to + 20, ms, 3);
}

static void split_ms(int64_t time_ms, time_t *ret_second, unsigned *ret_ms)
{
    int64_t ms = time_ms % 1000;
    if (ms < 0)
        ms += 1000;
    *ret_ms = (unsigned)ms;
    *ret_second = (time_t)((time_ms - ms) / 1000);
}

void http_text_time(struct http_text *text, int64_t time_ms)
{
    if (time_ms == 0) {
        HTTP_TEXT(text, "null");
        return;
    }
    time_t second;
    unsigned ms;
    struct tm tm;
    char time[HTTP_TIME_BYTES];
    /* A deadline from before there was a limit may be later than what four digits can say. */
    split_ms(time_ms < LIMIT_TIME_MS ? time_ms : LIMIT_TIME_MS, &second, &ms);
    gmtime_r(&second, &tm);
    write_time(time, &tm, ms);
    HTTP_TEXT(text, "\"");
    http_text_add(text, (struct slice){time, sizeof(time)});
    HTTP_TEXT(text, "\"");
}

void http_clock_set(struct http_clock *clock, int64_t now_ms)
{
    if (clock->now_ms == now_ms)
        return;
    time_t second;
    unsigned ms;
    split_ms(now_ms, &second, &ms);
    if (clock->second != second || clock->now_ms == 0) {
        static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
        static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
        struct tm tm;
        gmtime_r(&second, &tm);
        write_time(clock->time, &tm, ms);
        memcpy(clock->date, "Sun, 00 Jan 0000 00:00:00 GMT", HTTP_DATE_BYTES);
        memcpy(clock->date, days[tm.tm_wday % 7], 3);
        write_digits(clock->date + 5, (unsigned)tm.tm_mday, 2);
        memcpy(clock->date + 8, months[tm.tm_mon % 12], 3);
        memcpy(clock->date + 12, clock->time, 4);
        memcpy(clock->date + 17, clock->time + 11, 8);
        clock->second = second;
    }
    write_digits(clock->time + 20, ms, 3);
    clock->now_ms = now_ms;
}

static bool read_digits(struct slice text, size_t at, int count, int *ret_value)
{
    *ret_value = 0;
    for (int i = 0; i < count; i++, at++) {
        if (at >= text.size || text.data[at] < '0' || text.data[at] > '9')
            return false;
        *ret_value = *ret_value * 10 + (text.data[at] - '0');
    }
    return true;
}

/* ".123Z", ".5Z" or "Z": the milliseconds, -1 when it is something else. */
static int read_fraction(struct slice text)
{
    if (slice_equal(text, SLICE("Z")))
        return 0;
    if (text.size < 3 || text.size > 11 || text.data[0] != '.' || text.data[text.size - 1] != 'Z')
        return -1;
    int ms = 0;
    int scale = 100;
    for (size_t i = 1; i < text.size - 1; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        ms += scale * (text.data[i] - '0');
        scale /= 10;
    }
    return ms;
}

bool http_clock_parse(struct slice text, int64_t *ret_ms)
{
    if (decimal_parse(text, ret_ms))
        return true;

    struct tm tm = {0};
    int ms;
    if (text.size < 20 || !read_digits(text, 0, 4, &tm.tm_year) || text.data[4] != '-' ||
        !read_digits(text, 5, 2, &tm.tm_mon) || text.data[7] != '-' ||
        !read_digits(text, 8, 2, &tm.tm_mday) || text.data[10] != 'T' ||
        !read_digits(text, 11, 2, &tm.tm_hour) || text.data[13] != ':' ||
        !read_digits(text, 14, 2, &tm.tm_min) || text.data[16] != ':' ||
        !read_digits(text, 17, 2, &tm.tm_sec) ||
        (ms = read_fraction((struct slice){text.data + 19, text.size - 19})) < 0)
        return false;
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return true;
}
