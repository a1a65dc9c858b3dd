/* fuzz_json.c - any bytes as JSON.
 *
 * What we read, jansson, which others have looked at for long, must read as well, to
 * the same value; what it refuses we refuse. What we have read and write again is
 * read again as the same. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "door/http/http_json.h"
#include "door/http/http_text.h"

#define VALUES 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static bool read_copy(const char *data, size_t size, char **ret_copy, struct http_json *values)
{
    struct http_json_error error = {0, NULL};
    *ret_copy = malloc(size > 0 ? size : 1); /* of its own size: no byte too far */
    memcpy(*ret_copy, data, size);
    bool is_read = http_json_read((struct slice){*ret_copy, size}, values, VALUES, &error);
    check(is_read || (error.why && error.at <= size));
    return is_read;
}

static const struct http_json *write(struct http_text *to, const struct http_json *value)
{
    const struct http_json *at = value + 1;
    switch (value->type) {
    case HTTP_JSON_NULL:
        HTTP_TEXT(to, "null");
        break;
    case HTTP_JSON_TRUE:
        HTTP_TEXT(to, "true");
        break;
    case HTTP_JSON_FALSE:
        HTTP_TEXT(to, "false");
        break;
    case HTTP_JSON_NUMBER:
    case HTTP_JSON_INTEGER:
        http_text_add(to, value->text);
        break;
    case HTTP_JSON_STRING:
        http_text_string(to, value->text);
        break;
    case HTTP_JSON_ARRAY:
    case HTTP_JSON_OBJECT:
        http_text_add(to, value->type == HTTP_JSON_ARRAY ? SLICE("[") : SLICE("{"));
        for (uint32_t i = 0; i < value->count; i++) {
            if (i > 0)
                HTTP_TEXT(to, ",");
            at = write(to, at);
            if (value->type == HTTP_JSON_OBJECT) {
                HTTP_TEXT(to, ":");
                at = write(to, at);
            }
        }
        http_text_add(to, value->type == HTTP_JSON_ARRAY ? SLICE("]") : SLICE("}"));
        break;
    }
    check(at == value + value->size);
    return at;
}

/* 5.0 is an integer of ours, too. */
static bool is_whole(const json_t *theirs)
{
    double value = json_real_value(theirs);
    return json_is_real(theirs) &&
           (value >= 1e15 || value <= -1e15 || value == (double)(int64_t)value);
}

static const struct http_json *compare(const struct http_json *ours, const json_t *theirs);

static const struct http_json *compare_inner(const struct http_json *ours, const json_t *theirs)
{
    const struct http_json *at = ours + 1;
    for (uint32_t i = 0; i < ours->count; i++) {
        if (ours->type == HTTP_JSON_ARRAY) {
            at = compare(at, json_array_get(theirs, i));
        } else {
            check(http_json_member(ours, at->text) == at + 1);
            at = compare(at + 1, json_object_getn(theirs, at->text.data, at->text.size));
        }
    }
    return at;
}

/* Returns what follows ours. */
static const struct http_json *compare(const struct http_json *ours, const json_t *theirs)
{
    check(theirs != NULL);
    switch (ours->type) {
    case HTTP_JSON_NULL:
        check(json_is_null(theirs));
        break;
    case HTTP_JSON_TRUE:
        check(json_is_true(theirs));
        break;
    case HTTP_JSON_FALSE:
        check(json_is_false(theirs));
        break;
    case HTTP_JSON_NUMBER:
        check(json_is_real(theirs));
        break;
    case HTTP_JSON_INTEGER:
        check(json_is_integer(theirs) || is_whole(theirs));
        break;
    case HTTP_JSON_STRING:
        check(json_is_string(theirs) && json_string_length(theirs) == ours->text.size &&
              memcmp(json_string_value(theirs), ours->text.data, ours->text.size) == 0);
        break;
    case HTTP_JSON_ARRAY:
        check(json_is_array(theirs) && json_array_size(theirs) == ours->count);
        return compare_inner(ours, theirs);
    case HTTP_JSON_OBJECT:
        check(json_is_object(theirs) && json_object_size(theirs) == ours->count);
        return compare_inner(ours, theirs);
    }
    return ours + 1;
}

static void check_again(const struct http_json *values)
{
    static struct http_json again[VALUES];
    struct http_text text;
    char *copy;
    http_text_init(&text, 1 << 20);
    write(&text, values);
    if (!text.overflow) {
        check(read_copy(text.bytes.data, text.bytes.size, &copy, again));
        check(again[0].size == values[0].size);
        for (uint32_t i = 0; i < values[0].size; i++) {
            check(again[i].type == values[i].type && again[i].count == values[i].count);
            if (values[i].type >= HTTP_JSON_NUMBER && values[i].type <= HTTP_JSON_STRING)
                check(slice_equal(again[i].text, values[i].text));
        }
        free(copy);
    }
    http_text_done(&text);
}

static bool is_flat(const struct http_json *values)
{
    if (values[0].type != HTTP_JSON_OBJECT)
        return false;
    for (uint32_t i = 1; i < values[0].size; i++) {
        if (values[i].type == HTTP_JSON_ARRAY || values[i].type == HTTP_JSON_OBJECT)
            return false;
    }
    return true;
}

/* The quick way to read flat objects reads what the other way reads; names that stand
 * twice are the one thing that it takes beyond. */
static void check_flat(const uint8_t *data, size_t size, const struct http_json *values)
{
    static struct http_json_pair pairs[HTTP_JSON_MEMBERS_MAX];
    struct http_json_error error = {0, NULL};
    size_t count = 0;
    char *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, data, size);
    bool is_read = http_json_read_flat((struct slice){copy, size}, pairs, HTTP_JSON_MEMBERS_MAX,
                                       &count, &error);
    check(is_read || (error.why && error.at <= size));
    check(is_read == is_flat(values));
    for (size_t i = 0; is_read && i < count; i++) {
        const struct http_json *name = values + 1 + 2 * i;
        check(count == values[0].count && slice_equal(name->text, pairs[i].name));
        check(name[1].type == pairs[i].type);
        if (pairs[i].type >= HTTP_JSON_NUMBER)
            check(slice_equal(name[1].text, pairs[i].text));
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_json values[VALUES];
    char *copy;
    bool is_read = read_copy((const char *)data, size, &copy, values);

    json_error_t error;
    json_t *theirs =
        json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (is_read) {
        check_flat(data, size, values);
        check_again(values);
        /* Numbers that jansson cannot hold are the one thing that it may refuse. */
        check(theirs || json_error_code(&error) == json_error_numeric_overflow);
    }
    if (is_read && theirs)
        check(compare(values, theirs) == values + values[0].size);
    json_decref(theirs);
    free(copy);
    return 0;
}
