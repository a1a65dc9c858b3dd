#include "door/http/http_json.h"

#include <string.h>

#include "door/http/http_scan.h"
#include "door/http/http_url.h"

struct reader {
    char *at;
    char *end;
    struct http_json *values;
    size_t count;
    size_t room;
    const char *why;
};

static bool fail(struct reader *reader, const char *why)
{
    reader->why = why;
    return false;
}

static inline void skip_blanks(struct reader *reader)
{
    while (
        reader->at < reader->end && (unsigned char)*reader->at <= ' ' &&
        (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

static struct http_json *append(struct reader *reader, enum http_json_type type)
{
    if (reader->count == reader->room) {
        fail(reader, "there are too many values");
        return NULL;
    }
    struct http_json *value = &reader->values[reader->count++];
    value->type = type;
    value->count = 0;
    value->size = 1;
    return value;
}

/* ---- strings ---- */

static bool read_hex4(struct reader *reader, unsigned *ret_unit)
{
    if (reader->end - reader->at < 4)
        return fail(reader, "an escape is cut off");
    unsigned unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = *reader->at++;
        if (c >= '0' && c <= '9')
            unit = unit << 4 | (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            unit = unit << 4 | (unsigned)((c | 0x20) - 'a' + 10);
        else
            return fail(reader, "not four hexadecimal digits");
    }
    *ret_unit = unit;
    return true;
}

static char *write_utf8(char *to, unsigned point)
{
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    } else {
        *to++ = (char)(0xf0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 0x3f));
        *to++ = (char)(0x80 | (point >> 6 & 0x3f));
        *to++ = (char)(0x80 | (point & 0x3f));
    }
    return to;
}

/* Behind "\u". */
static bool read_point(struct reader *reader, unsigned *ret_point)
{
    unsigned high;
    if (!read_hex4(reader, &high))
        return false;
    *ret_point = high;
    if (high == 0)
        return fail(reader, "\\u0000 is not allowed");
    if (high < 0xd800 || high > 0xdfff)
        return true;

    unsigned low;
    if (high > 0xdbff || reader->end - reader->at < 2 || reader->at[0] != '\\' ||
        reader->at[1] != 'u')
        return fail(reader, "a lone surrogate");
    reader->at += 2;
    if (!read_hex4(reader, &low))
        return false;
    if (low < 0xdc00 || low > 0xdfff)
        return fail(reader, "a lone surrogate");
    *ret_point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* Behind a backslash; the escaped form is never shorter than what it stands for. */
static bool read_escape(struct reader *reader, char **to)
{
    static const char names[] = "\"\\/bfnrt";
    static const char bytes[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return fail(reader, "a string is not closed");
    char c = *reader->at++;
    if (c == 'u') {
        unsigned point;
        if (!read_point(reader, &point))
            return false;
        *to = write_utf8(*to, point);
        return true;
    }
    const char *found = c ? strchr(names, c) : NULL;
    if (!found)
        return fail(reader, "no such escape");
    *(*to)++ = bytes[found - names];
    return true;
}

/* From the first byte on that needs a closer look; `begin` is where the string began. */
static bool read_string_rest(struct reader *reader, const char *begin, struct slice *ret_text)
{
    char *to = reader->at;
    while (reader->at < reader->end) {
        unsigned char c = (unsigned char)*reader->at;
        if (c == '"') {
            *ret_text = (struct slice){begin, (size_t)(to - begin)};
            reader->at++;
            return true;
        }
        if (c < 0x20)
            return fail(reader, "a control character in a string");
        if (c == '\\') {
            reader->at++;
            if (!read_escape(reader, &to))
                return false;
            continue;
        }
        size_t size = http_url_utf8_size((const unsigned char *)reader->at,
                                         (size_t)(reader->end - reader->at));
        if (size == 0)
            return fail(reader, "not UTF-8");
        memmove(to, reader->at, size);
        to += size;
        reader->at += size;
    }
    return fail(reader, "a string is not closed");
}

/* Behind the opening quote. */
static inline bool read_string(struct reader *reader, struct slice *ret_text)
{
    char *begin = reader->at;
    char *at = begin + http_scan_plain(begin, (size_t)(reader->end - begin));
    reader->at = at;
    if (at < reader->end && *at == '"') {
        *ret_text = (struct slice){begin, (size_t)(at - begin)};
        reader->at++;
        return true;
    }
    return read_string_rest(reader, begin, ret_text);
}

/* ---- numbers and words ---- */

static bool read_digits(struct reader *reader)
{
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return reader->at > begin || fail(reader, "a digit is missing");
}

static bool is_next(const struct reader *reader, char a, char b)
{
    return reader->at < reader->end && (*reader->at == a || *reader->at == b);
}

/* "5.0" is an integer, as JSON Schema has it: many programs write what they hold as a float that
 * way. And "-0" is 0. */
static void trim_integer(struct http_json *value, const char *point)
{
    const char *end = value->text.data + value->text.size;
    for (const char *at = point + 1; at < end; at++) {
        if (*at != '0')
            return;
    }
    value->type = HTTP_JSON_INTEGER;
    value->text.size = (size_t)(point - value->text.data);
    if (slice_equal(value->text, SLICE("-0")))
        value->text = (struct slice){value->text.data + 1, 1};
}

static bool read_number(struct reader *reader)
{
    struct http_json *value = append(reader, HTTP_JSON_INTEGER);
    if (!value)
        return false;
    char *begin = reader->at;
    if (*reader->at == '-')
        reader->at++;
    const char *first = reader->at;
    if (!read_digits(reader))
        return false;
    if (*first == '0' && reader->at - first > 1)
        return fail(reader, "a number begins with 0");
    const char *point = reader->at;
    if (is_next(reader, '.', '.')) {
        value->type = HTTP_JSON_NUMBER;
        reader->at++;
        if (!read_digits(reader))
            return false;
    }
    bool has_exponent = is_next(reader, 'e', 'E');
    if (has_exponent) {
        value->type = HTTP_JSON_NUMBER;
        reader->at++;
        if (is_next(reader, '+', '-'))
            reader->at++;
        if (!read_digits(reader))
            return false;
    }
    value->text = (struct slice){begin, (size_t)(reader->at - begin)};
    if (!has_exponent)
        trim_integer(value, point);
    return true;
}

static bool read_word(struct reader *reader, struct slice word, enum http_json_type type)
{
    size_t left = (size_t)(reader->end - reader->at);
    if (left < word.size || memcmp(reader->at, word.data, word.size) != 0)
        return fail(reader, "not a value");
    reader->at += word.size;
    return append(reader, type) != NULL;
}

/* A value that contains no others. */
static bool read_scalar(struct reader *reader)
{
    switch (*reader->at) {
    case '"': {
        struct http_json *value = append(reader, HTTP_JSON_STRING);
        if (!value)
            return false;
        reader->at++;
        return read_string(reader, &value->text);
    }
    case 't':
        return read_word(reader, SLICE("true"), HTTP_JSON_TRUE);
    case 'f':
        return read_word(reader, SLICE("false"), HTTP_JSON_FALSE);
    case 'n':
        return read_word(reader, SLICE("null"), HTTP_JSON_NULL);
    default:
        if (*reader->at != '-' && (*reader->at < '0' || *reader->at > '9'))
            return fail(reader, "not a value");
        return read_number(reader);
    }
}

/* ---- arrays and objects ---- */

/* Has the object a member of the name that was read last? */
static bool is_repeated(const struct reader *reader, const struct http_json *object)
{
    struct slice name = reader->values[reader->count - 1].text;
    const struct http_json *at = object + 1;
    for (uint32_t i = 1; i < object->count; i++) {
        if (slice_equal(at->text, name))
            return true;
        at += 1 + at[1].size;
    }
    return false;
}

/* A name and its colon. */
static bool read_name(struct reader *reader, struct http_json *object)
{
    if (!is_next(reader, '"', '"'))
        return fail(reader, "a name is missing");
    struct http_json *name = append(reader, HTTP_JSON_STRING);
    if (!name)
        return false;
    reader->at++;
    if (!read_string(reader, &name->text))
        return false;
    if (++object->count > HTTP_JSON_MEMBERS_MAX)
        return fail(reader, "an object has too many members");
    if (is_repeated(reader, object))
        return fail(reader, "a name stands twice in an object");
    skip_blanks(reader);
    if (!is_next(reader, ':', ':'))
        return fail(reader, "a colon is missing");
    reader->at++;
    skip_blanks(reader);
    return true;
}

static bool is_open(struct reader *reader)
{
    return is_next(reader, '[', '{');
}

/* What comes before the next value of an array or object: nothing, or its name. */
static bool read_before_value(struct reader *reader, struct http_json *parent)
{
    if (parent->type == HTTP_JSON_OBJECT)
        return read_name(reader, parent);
    parent->count++;
    return true;
}

/* Reads values until the whole is closed. */
static bool read_values(struct reader *reader)
{
    uint32_t open[HTTP_JSON_DEPTH_MAX]; /* places of what is open */
    unsigned depth = 0;
    for (;;) {
        /* a value */
        if (reader->at == reader->end)
            return fail(reader, "a value is missing");
        bool has_opened = is_open(reader);
        if (has_opened) {
            if (depth == HTTP_JSON_DEPTH_MAX)
                return fail(reader, "it is nested too deeply");
            open[depth++] = (uint32_t)reader->count;
            if (!append(reader, *reader->at == '[' ? HTTP_JSON_ARRAY : HTTP_JSON_OBJECT))
                return false;
            reader->at++;
            skip_blanks(reader);
        } else if (!read_scalar(reader)) {
            return false;
        }

        /* what follows it: the end of what is open, once or more, or the next value */
        for (;;) {
            if (depth == 0)
                return true;
            struct http_json *parent = &reader->values[open[depth - 1]];
            char close = parent->type == HTTP_JSON_ARRAY ? ']' : '}';
            if (!has_opened)
                skip_blanks(reader);
            if (is_next(reader, close, close)) {
                reader->at++;
                parent->size = (uint32_t)(reader->count - open[depth - 1]);
                depth--;
                has_opened = false;
                continue;
            }
            if (!has_opened) {
                if (!is_next(reader, ',', ','))
                    return fail(reader, "a comma is missing");
                reader->at++;
                skip_blanks(reader);
            }
            if (!read_before_value(reader, parent))
                return false;
            break;
        }
    }
}

bool http_json_read(struct slice text, struct http_json *values, size_t room,
                    struct http_json_error *ret_error)
{
    struct reader reader = {
        .at = (char *)text.data, /* the caller's to write to */
        .end = (char *)text.data + text.size,
        .values = values,
        .room = room,
    };
    skip_blanks(&reader);
    bool is_read = read_values(&reader);
    if (is_read) {
        skip_blanks(&reader);
        if (reader.at != reader.end)
            is_read = fail(&reader, "something follows the value");
    }
    if (!is_read)
        *ret_error = (struct http_json_error){(size_t)(reader.at - text.data), reader.why};
    return is_read;
}

/* ---- flat objects ---- */

static bool take_byte(struct reader *reader, char byte, const char *why)
{
    skip_blanks(reader);
    if (!is_next(reader, byte, byte))
        return fail(reader, why);
    reader->at++;
    return true;
}

/* Behind the colon. */
static bool read_flat_value(struct reader *reader, struct http_json_pair *pair)
{
    skip_blanks(reader);
    if (is_next(reader, '"', '"')) { /* nearly always */
        reader->at++;
        pair->type = HTTP_JSON_STRING;
        return read_string(reader, &pair->text);
    }
    if (reader->at == reader->end)
        return fail(reader, "a value is missing");
    if (is_open(reader))
        return fail(reader, "an object or array where none may be");
    struct http_json value;
    struct reader one = {.at = reader->at, .end = reader->end, .values = &value, .room = 1};
    bool is_read = read_scalar(&one);
    reader->at = one.at;
    reader->why = one.why;
    if (!is_read)
        return false;
    pair->type = value.type;
    pair->text = value.type >= HTTP_JSON_NUMBER ? value.text : (struct slice){NULL, 0};
    return true;
}

/* "name":"value" without blanks and escapes, as programs write it. False: it is not,
 * and nothing was read. */
static inline bool read_plain_pair(struct reader *reader, struct http_json_pair *pair)
{
    char *at = reader->at;
    const char *end = reader->end;
    if (at == end || *at++ != '"')
        return false;
    size_t size = http_scan_plain(at, (size_t)(end - at));
    if ((size_t)(end - at) < size + 3 || memcmp(at + size, "\":\"", 3) != 0)
        return false;
    pair->name = (struct slice){at, size};
    at += size + 3;
    size = http_scan_plain(at, (size_t)(end - at));
    if ((size_t)(end - at) == size || at[size] != '"')
        return false;
    pair->text = (struct slice){at, size};
    pair->type = HTTP_JSON_STRING;
    reader->at = at + size + 1;
    return true;
}

static bool read_pair(struct reader *reader, struct http_json_pair *pair)
{
    return take_byte(reader, '"', "a name is missing") && read_string(reader, &pair->name) &&
           take_byte(reader, ':', "a colon is missing") && read_flat_value(reader, pair);
}

static bool read_pairs(struct reader *reader, struct http_json_pair *pairs, size_t room,
                       size_t *ret_count)
{
    size_t count = 0;
    if (!take_byte(reader, '{', "not an object"))
        return false;
    skip_blanks(reader);
    bool is_empty = is_next(reader, '}', '}');
    while (!is_empty) {
        if (count == room)
            return fail(reader, "an object has too many members");
        struct http_json_pair *pair = &pairs[count++];
        if (!read_plain_pair(reader, pair) && !read_pair(reader, pair))
            return false;
        skip_blanks(reader);
        if (!is_next(reader, ',', ','))
            break;
        reader->at++;
    }
    *ret_count = count;
    return take_byte(reader, '}', "a comma is missing");
}

bool http_json_read_flat(struct slice text, struct http_json_pair *pairs, size_t room,
                         size_t *ret_count, struct http_json_error *ret_error)
{
    struct reader reader = {
        .at = (char *)text.data, /* the caller's to write to */
        .end = (char *)text.data + text.size,
    };
    bool is_read = read_pairs(&reader, pairs, room, ret_count);
    if (is_read) {
        skip_blanks(&reader);
        if (reader.at != reader.end)
            is_read = fail(&reader, "something follows the value");
    }
    if (!is_read)
        *ret_error = (struct http_json_error){(size_t)(reader.at - text.data), reader.why};
    return is_read;
}

const struct http_json *http_json_member(const struct http_json *object, struct slice name)
{
    if (object->type != HTTP_JSON_OBJECT)
        return NULL;
    const struct http_json *at = object + 1;
    for (uint32_t i = 0; i < object->count; i++) {
        if (slice_equal(at->text, name))
            return at + 1;
        at += 1 + at[1].size;
    }
    return NULL;
}
