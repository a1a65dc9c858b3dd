#include "cli/print.h"

#include <string.h>

#include "cli/progress.h"
#include "unit/test.h"

static void assert_escaped(struct slice text, const char *expected)
{
    struct buffer to;
    buffer_init(&to, 1024);
    print_escaped(&to, text);
    assert_int_equal(to.size, strlen(expected));
    if (to.size > 0)
        assert_memory_equal(to.data, expected, to.size);
    buffer_done(&to);
}

TEST(nothing_that_a_terminal_obeys_gets_through)
{
    assert_escaped(SLICE("plain"), "plain");
    assert_escaped(SLICE("caf\xc3\xa9"), "caf\xc3\xa9");
    assert_escaped(SLICE("a\033[2Jb"), "a\\x1b[2Jb");
    assert_escaped(SLICE("a\nb\r\t\x7f"), "a\\x0ab\\x0d\\x09\\x7f");
    assert_escaped(SLICE("\xc2\x9b"
                         "2J"),
                   "\\xc2\\x9b"
                   "2J");
    assert_escaped(SLICE("\xff\xc0\x80"), "\\xff\\xc0\\x80");
    assert_escaped(SLICE("\xe2\x82"), "\\xe2\\x82");
    assert_escaped((struct slice){"a\0b", 3}, "a\\x00b");
}

static void assert_json(struct slice text, const char *expected)
{
    struct buffer to;
    buffer_init(&to, 1024);
    print_json_append(&to, text);
    assert_int_equal(to.size, strlen(expected));
    assert_memory_equal(to.data, expected, to.size);
    /* A reader of JSON gets the same. */
    json_t *root = json_loadb(to.data, to.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    json_t *other = print_json_bytes(text);
    assert_true(json_equal(root, other));
    json_decref(root);
    json_decref(other);
    buffer_done(&to);
}

TEST(texts_are_json_strings_and_other_bytes_are_hex)
{
    assert_json(SLICE(""), "\"\"");
    assert_json(SLICE("a\"b\\c"), "\"a\\\"b\\\\c\"");
    assert_json(SLICE("a\nb"), "\"a\\u000ab\"");
    assert_json(SLICE("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
    assert_json((struct slice){"a\0b", 3}, "\"a\\u0000b\"");
    assert_json(SLICE("\xff\x01"), "{\"hex\":\"ff01\"}");
}

TEST(times_are_utc_to_the_millisecond)
{
    char text[PRINT_TIME_BYTES];
    assert_string_equal(print_time(INT64_C(1769860800250), text), "2026-01-31T12:00:00.250Z");
    assert_string_equal(print_time(0, text), "-");
}

TEST(a_bar_of_progress_fits_its_columns)
{
    struct progress progress = {.what = "import", .unit = "lines"};
    char text[256];
    progress_format(text, sizeof(text), &progress, 50, 100, 25, 200);
    assert_string_equal(text, "import [###############---------------]  50%  50 of 100 lines, "
                              "25/s, 2 s left");
    progress_format(text, sizeof(text), &progress, 100, 100, 25, 200);
    assert_non_null(strstr(text, "[##############################] 100%"));
    progress_format(text, sizeof(text), &progress, 7, 0, 2, 200);
    assert_string_equal(text, "import  7 lines, 2/s");
    progress_format(text, sizeof(text), &progress, 50, 100, 25, 10);
    assert_int_equal(strlen(text), 10);
}

RUN(cmocka_unit_test(nothing_that_a_terminal_obeys_gets_through),
    cmocka_unit_test(texts_are_json_strings_and_other_bytes_are_hex),
    cmocka_unit_test(times_are_utc_to_the_millisecond),
    cmocka_unit_test(a_bar_of_progress_fits_its_columns))
