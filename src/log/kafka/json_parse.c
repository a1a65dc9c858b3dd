#include "log/kafka/json_parse.h"

#include <string.h>

#include "base/decimal.h"

bool json_refuse(struct json_parse *parse, const char *fault)
{
    if (!parse->fault)
        parse->fault = fault;
    return false;
}

static void skip_blanks(struct json_parse *parse)
{
    while (parse->at < parse->end &&
           (*parse->at == ' ' || *parse->at == '\n' || *parse->at == '\t' || *parse->at == '\r'))
        parse->at++;
}

bool json_meet(struct json_parse *parse, char c)
{
    skip_blanks(parse);
    if (parse->at == parse->end || *parse->at != c)
        return false;
    parse->at++;
    return true;
}

bool json_take(struct json_parse *parse, char c)
{
    return json_meet(parse, c) || json_refuse(parse, "is not what is expected here");
}

bool json_field(struct json_parse *parse, bool *is_first, struct slice *ret_name)
{
    if (json_meet(parse, '}'))
        return false;
    if (!*is_first && !json_take(parse, ','))
        return false;
    *is_first = false;
    return json_string(parse, ret_name) && json_take(parse, ':');
}

/* ---- strings ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* XXXX behind \u. */
static bool take_unit(struct json_parse *parse, uint32_t *ret_unit)
{
    uint32_t unit = 0;
    if (parse->end - parse->at < 4)
        return json_refuse(parse, "is cut short");
    for (unsigned i = 0; i < 4; i++) {
        int digit = hex_digit(*parse->at++);
        if (digit < 0)
            return json_refuse(parse, "is not a character's number");
        unit = unit << 4 | (uint32_t)digit;
    }
    *ret_unit = unit;
    return true;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

static bool take_character(struct json_parse *parse, char **to)
{
    uint32_t c;
    uint32_t low;
    if (!take_unit(parse, &c))
        return false;
    if (c >= 0xdc00 && c <= 0xdfff)
        return json_refuse(parse, "is half a character");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (parse->end - parse->at < 2 || parse->at[0] != '\\' || parse->at[1] != 'u')
            return json_refuse(parse, "is half a character");
        parse->at += 2;
        if (!take_unit(parse, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return json_refuse(parse, "is half a character");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, c);
    return true;
}

static bool take_escape(struct json_parse *parse, char **to)
{
    static const char names[] = "\"\\/bfnrt";
    static const char bytes[] = "\"\\/\b\f\n\r\t";
    if (parse->at == parse->end)
        return json_refuse(parse, "is cut short");
    char c = *parse->at++;
    if (c == 'u')
        return take_character(parse, to);
    const char *name = c ? strchr(names, c) : NULL;
    if (!name)
        return json_refuse(parse, "is not an escape");
    *(*to)++ = bytes[name - names];
    return true;
}

static bool take_escaped(struct json_parse *parse, const char *begin, struct slice *ret_text)
{
    char *text = parse->scratch;
    char *to = text + (parse->at - begin);
    memcpy(text, begin, (size_t)(parse->at - begin));
    while (parse->at < parse->end && *parse->at != '"') {
        unsigned char c = (unsigned char)*parse->at++;
        if (c < 0x20)
            return json_refuse(parse, "is a control character");
        if (c != '\\')
            *to++ = (char)c;
        else if (!take_escape(parse, &to))
            return false;
    }
    if (parse->at == parse->end)
        return json_refuse(parse, "is cut short");
    parse->at++;
    parse->scratch = to;
    *ret_text = (struct slice){text, (size_t)(to - text)};
    return true;
}

bool json_string(struct json_parse *parse, struct slice *ret_text)
{
    if (!json_take(parse, '"'))
        return false;
    const char *begin = parse->at;
    const char *at = begin;
    while (at < parse->end && (unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
        at++;
    parse->at = at;
    if (at < parse->end && *at == '"') {
        parse->at++;
        *ret_text = (struct slice){begin, (size_t)(at - begin)};
        return true;
    }
    return take_escaped(parse, begin, ret_text);
}

bool json_hex(struct json_parse *parse, struct slice digits, struct slice *ret_bytes)
{
    char *to = parse->scratch;
    if (digits.size % 2 != 0)
        return json_refuse(parse, "has an odd number of hexadecimal digits");
    for (size_t i = 0; i < digits.size; i += 2) {
        int high = hex_digit(digits.data[i]);
        int low = hex_digit(digits.data[i + 1]);
        if (high < 0 || low < 0)
            return json_refuse(parse, "is not hexadecimal");
        *to++ = (char)(high << 4 | low);
    }
    *ret_bytes = (struct slice){parse->scratch, digits.size / 2};
    parse->scratch = to;
    return true;
}

/* ---- the rest ---- */

static bool take_word(struct json_parse *parse, const char *word)
{
    size_t size = strlen(word);
    skip_blanks(parse);
    if ((size_t)(parse->end - parse->at) < size || memcmp(parse->at, word, size) != 0)
        return false;
    parse->at += size;
    return true;
}

bool json_null(struct json_parse *parse)
{
    return take_word(parse, "null");
}

bool json_bool(struct json_parse *parse, bool *ret_value)
{
    *ret_value = take_word(parse, "true");
    return *ret_value || take_word(parse, "false") || json_refuse(parse, "is not true or false");
}

static struct slice take_digits(struct json_parse *parse)
{
    skip_blanks(parse);
    const char *begin = parse->at;
    while (parse->at < parse->end &&
           ((*parse->at >= '0' && *parse->at <= '9') || *parse->at == '-'))
        parse->at++;
    return (struct slice){begin, (size_t)(parse->at - begin)};
}

bool json_signed(struct json_parse *parse, int64_t *ret_value)
{
    return decimal_parse(take_digits(parse), ret_value) ||
           json_refuse(parse, "is not an integer that fits");
}

bool json_unsigned(struct json_parse *parse, uint64_t max, uint64_t *ret_value)
{
    return (decimal_parse_unsigned(take_digits(parse), ret_value) && *ret_value <= max) ||
           json_refuse(parse, "is not an integer that fits");
}
