#include "door/http/http_text.h"

#include "unit/test.h"

static const char *written(struct http_text *text)
{
    HTTP_TEXT(text, "\0");
    return text->bytes.data;
}

static void assert_string_written(struct slice value, const char *json)
{
    struct http_text text;
    http_text_init(&text, 1000);
    http_text_string(&text, value);
    assert_string_equal(written(&text), json);
    http_text_done(&text);
}

TEST(strings_are_escaped_and_made_utf8)
{
    assert_string_written(SLICE("plain"), "\"plain\"");
    assert_string_written(SLICE(""), "\"\"");
    assert_string_written(SLICE("a\"b\\c\n\t\r\b\f"), "\"a\\\"b\\\\c\\n\\t\\r\\b\\f\"");
    assert_string_written(SLICE("\0\x1f\x7f"), "\"\\u0000\\u001f\\u007f\"");
    assert_string_written(SLICE("\xe2\x82\xac"), "\"\xe2\x82\xac\"");
    assert_string_written(SLICE("a\xff\xc0z"), "\"a\xef\xbf\xbd\xef\xbf\xbdz\"");
}

TEST(counts_are_digits_in_quotes)
{
    struct http_text text;
    http_text_init(&text, 1000);
    struct number big;
    assert_int_equal(number_parse(SLICE("-123456789012345678901234567890"), &big), ERR_OK);
    http_text_count(&text, INT64_MIN);
    http_text_number(&text, &big);
    assert_string_equal(written(&text),
                        "\"-9223372036854775808\"\"-123456789012345678901234567890\"");
    number_done(&big);
    http_text_done(&text);
}

TEST(writing_past_the_maximum_is_seen)
{
    struct http_text text;
    http_text_init(&text, 4);
    HTTP_TEXT(&text, "1234");
    assert_false(text.overflow);
    HTTP_TEXT(&text, "5");
    assert_true(text.overflow);
    http_text_done(&text);
}

TEST(times_are_written_and_read)
{
    struct http_text text;
    http_text_init(&text, 1000);
    http_text_time(&text, 1769860800123);
    http_text_time(&text, 0);
    http_text_time(&text, INT64_MAX);
    assert_string_equal(written(&text),
                        "\"2026-01-31T12:00:00.123Z\"null\"9999-12-31T23:59:59.999Z\"");
    http_text_done(&text);

    int64_t ms;
    assert_true(http_clock_parse(SLICE("2026-01-31T12:00:00.123Z"), &ms));
    assert_int_equal(ms, 1769860800123);
    assert_true(http_clock_parse(SLICE("2026-01-31T12:00:00Z"), &ms));
    assert_int_equal(ms, 1769860800000);
    assert_true(http_clock_parse(SLICE("1769860800123"), &ms));
    assert_int_equal(ms, 1769860800123);
    static const char *const wrong[] = {"",
                                        "now",
                                        "2026-13-01T00:00:00Z",
                                        "2026-01-31 12:00:00Z",
                                        "2026-01-31T12:00:00",
                                        "2026-01-31T24:00:00Z",
                                        "2026-01-31T12:00:00.Z",
                                        "2026-01-31T12:00:00+01:00"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(http_clock_parse(slice_of(wrong[i]), &ms));
}

TEST(the_moment_is_written_for_bodies_and_for_heads)
{
    struct http_clock clock = {0};
    http_clock_set(&clock, 1769860800123);
    assert_memory_equal(clock.time, "2026-01-31T12:00:00.123Z", HTTP_TIME_BYTES);
    assert_memory_equal(clock.date, "Sat, 31 Jan 2026 12:00:00 GMT", HTTP_DATE_BYTES);
    http_clock_set(&clock, 1769860800124);
    assert_memory_equal(clock.time, "2026-01-31T12:00:00.124Z", HTTP_TIME_BYTES);
    http_clock_set(&clock, 1769860801000);
    assert_memory_equal(clock.time, "2026-01-31T12:00:01.000Z", HTTP_TIME_BYTES);
    assert_memory_equal(clock.date, "Sat, 31 Jan 2026 12:00:01 GMT", HTTP_DATE_BYTES);
}

RUN(cmocka_unit_test(strings_are_escaped_and_made_utf8),
    cmocka_unit_test(counts_are_digits_in_quotes),
    cmocka_unit_test(writing_past_the_maximum_is_seen),
    cmocka_unit_test(times_are_written_and_read),
    cmocka_unit_test(the_moment_is_written_for_bodies_and_for_heads))
