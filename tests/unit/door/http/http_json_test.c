#include "door/http/http_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

#define VALUES 256

static struct http_json values[VALUES];
static char copy[4096];

/* Reads a copy, since reading may write. */
static const char *read_text(const char *text, size_t size)
{
    struct http_json_error error = {0, NULL};
    memcpy(copy, text, size);
    return http_json_read((struct slice){copy, size}, values, VALUES, &error) ? NULL : error.why;
}

static void assert_read(const char *text)
{
    const char *why = read_text(text, strlen(text));
    if (why)
        print_message("%s: %s\n", text, why);
    assert_null(why);
}

static void assert_refused(const char *text)
{
    if (!read_text(text, strlen(text)))
        print_message("%s\n", text);
    assert_non_null(read_text(text, strlen(text)));
}

static void assert_string(const struct http_json *value, const char *text)
{
    assert_non_null(value);
    assert_int_equal(value->type, HTTP_JSON_STRING);
    assert_int_equal(value->text.size, strlen(text));
    assert_memory_equal(value->text.data, text, value->text.size);
}

TEST(an_object_is_read_with_all_that_it_contains)
{
    assert_read(" { \"a\" : [ 1 , -2.5e+3 , { } , [ ] ] , \"b\":\"x\",\"c\":null, \"d\" : true } ");
    assert_int_equal(values[0].type, HTTP_JSON_OBJECT);
    assert_int_equal(values[0].count, 4);
    const struct http_json *list = http_json_member(values, SLICE("a"));
    assert_int_equal(list->type, HTTP_JSON_ARRAY);
    assert_int_equal(list->count, 4);
    assert_int_equal(list->size, 5);
    assert_int_equal(list[1].type, HTTP_JSON_INTEGER);
    assert_int_equal(list[2].type, HTTP_JSON_NUMBER);
    assert_int_equal(list[3].type, HTTP_JSON_OBJECT);
    assert_string(http_json_member(values, SLICE("b")), "x");
    assert_int_equal(http_json_member(values, SLICE("c"))->type, HTTP_JSON_NULL);
    assert_int_equal(http_json_member(values, SLICE("d"))->type, HTTP_JSON_TRUE);
    assert_null(http_json_member(values, SLICE("e")));
}

TEST(escapes_stand_for_what_they_stand_for)
{
    assert_read("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"");
    assert_string(values, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_read("\"a\xc3\xa9z\\n\xf0\x9f\x98\x80\"");
    assert_string(values, "a\xc3\xa9z\n\xf0\x9f\x98\x80");
}

TEST(integers_of_any_size_stay_what_they_are)
{
    assert_read("123456789012345678901234567890");
    assert_int_equal(values[0].type, HTTP_JSON_INTEGER);
    assert_int_equal(values[0].text.size, 30);
    assert_read("9007199254740993");
    assert_memory_equal(values[0].text.data, "9007199254740993", 16);
    assert_read("1e400");
    assert_int_equal(values[0].type, HTTP_JSON_NUMBER);
}

TEST(an_integer_may_be_written_as_a_float)
{
    static const struct {
        const char *text;
        enum http_json_type type;
        const char *number;
    } table[] = {
        {"5.0", HTTP_JSON_INTEGER, "5"},
        {"-5.000", HTTP_JSON_INTEGER, "-5"},
        {"0.0", HTTP_JSON_INTEGER, "0"},
        {"-0.0", HTTP_JSON_INTEGER, "0"},
        {"-0", HTTP_JSON_INTEGER, "0"},
        {"5.01", HTTP_JSON_NUMBER, "5.01"},
        {"-0.1", HTTP_JSON_NUMBER, "-0.1"},
        {"5.0e1", HTTP_JSON_NUMBER, "5.0e1"},
        {"5e0", HTTP_JSON_NUMBER, "5e0"},
        {"10.10", HTTP_JSON_NUMBER, "10.10"},
        {"1000000000000000000000.0", HTTP_JSON_INTEGER, "1000000000000000000000"},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_read(table[i].text);
        assert_int_equal(values[0].type, table[i].type);
        assert_true(slice_equal(values[0].text, slice_of(table[i].number)));
    }
}

TEST(what_is_no_json_is_refused)
{
    static const char *const wrong[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "{1:1}",
        "[1}",
        "{\"a\":1]",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "\"\x1f\"",
        "tru",
        "True",
        "nul",
        "nan",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x1",
        "1 2",
        "{} {}",
        "1,",
        "/**/1",
        "\xef\xbb\xbf{}",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\"\\u0000\"",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"x\":{\"a\":1,\"b\":2,\"a\":3}}",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(wrong[i]);
    assert_non_null(read_text("\"a\0b\"", 5));
}

TEST(names_may_stand_again_in_other_objects)
{
    assert_read("{\"a\":{\"a\":1},\"b\":{\"a\":2}}");
    assert_read("[{\"a\":1},{\"a\":1}]");
}

TEST(nesting_is_bounded)
{
    char text[2 * HTTP_JSON_DEPTH_MAX + 8];
    for (unsigned depth = HTTP_JSON_DEPTH_MAX; depth <= HTTP_JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        bool is_refused = read_text(text, 2 * depth) != NULL;
        assert_int_equal(is_refused, depth > HTTP_JSON_DEPTH_MAX);
    }
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    struct http_json_error error;
    assert_false(http_json_read((struct slice){deep, 100000}, values, VALUES, &error));
    free(deep);
}

TEST(members_and_values_are_bounded)
{
    char text[4096];
    size_t size = 0;
    for (unsigned i = 0; i <= HTTP_JSON_MEMBERS_MAX; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s\"n%u\":0",
                                 i == 0 ? "{" : ",", i);
    text[size++] = '}';
    assert_non_null(read_text(text, size));

    memset(text, '1', sizeof(text));
    for (unsigned i = 1; i < 2 * VALUES; i += 2)
        text[i] = ',';
    text[0] = '[';
    text[1] = '1';
    for (unsigned i = 2; i < 2 * VALUES; i += 2)
        text[i] = ',';
    for (unsigned i = 3; i < 2 * VALUES; i += 2)
        text[i] = '1';
    text[2 * VALUES] = ']';
    assert_non_null(read_text(text, 2 * VALUES + 1));
}

TEST(a_flat_object_is_read_as_pairs)
{
    struct http_json_pair pairs[4];
    struct http_json_error error;
    size_t count;
    char text[] = " { \"op\" : \"li\\u006be\" ,\"delta\":-5,\"x\":null } ";
    assert_true(
        http_json_read_flat((struct slice){text, sizeof(text) - 1}, pairs, 4, &count, &error));
    assert_int_equal(count, 3);
    assert_true(slice_equal(pairs[0].name, SLICE("op")) &&
                slice_equal(pairs[0].text, SLICE("like")));
    assert_int_equal(pairs[1].type, HTTP_JSON_INTEGER);
    assert_true(slice_equal(pairs[1].text, SLICE("-5")));
    assert_int_equal(pairs[2].type, HTTP_JSON_NULL);

    static const char *const wrong[] = {"",
                                        "{",
                                        "[]",
                                        "5",
                                        "{}x",
                                        "{\"a\":1,}",
                                        "{\"a\":[]}",
                                        "{\"a\":{}}",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1 \"b\":2}",
                                        "{\"a\":01}",
                                        "{,}",
                                        "{\"a\":\"\xff\"}",
                                        "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5}"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        size_t size = strlen(wrong[i]);
        memcpy(copy, wrong[i], size);
        assert_false(http_json_read_flat((struct slice){copy, size}, pairs, 4, &count, &error));
    }
    memcpy(copy, "{}", 2);
    assert_true(http_json_read_flat((struct slice){copy, 2}, pairs, 4, &count, &error));
    assert_int_equal(count, 0);
}

TEST(an_error_says_where)
{
    struct http_json_error error;
    memcpy(copy, "{\"a\":x}", 7);
    assert_false(http_json_read((struct slice){copy, 7}, values, VALUES, &error));
    assert_int_equal(error.at, 5);
}

RUN(cmocka_unit_test(an_object_is_read_with_all_that_it_contains),
    cmocka_unit_test(escapes_stand_for_what_they_stand_for),
    cmocka_unit_test(integers_of_any_size_stay_what_they_are),
    cmocka_unit_test(an_integer_may_be_written_as_a_float),
    cmocka_unit_test(what_is_no_json_is_refused),
    cmocka_unit_test(names_may_stand_again_in_other_objects), cmocka_unit_test(nesting_is_bounded),
    cmocka_unit_test(members_and_values_are_bounded),
    cmocka_unit_test(a_flat_object_is_read_as_pairs), cmocka_unit_test(an_error_says_where))
