#include "cli/parse.h"

#include <string.h>

#include "unit/test.h"

#define NOW INT64_C(1800000000000)

static struct error error;

static int64_t time_of(const char *text)
{
    int64_t time_ms = -1;
    if (parse_time(slice_of(text), NOW, &time_ms, &error))
        return -1;
    return time_ms;
}

TEST(times_are_dates_milliseconds_or_back_from_now)
{
    assert_int_equal(time_of("1970-01-02"), 86400000);
    assert_int_equal(time_of("2026-01-31T12:00:00Z"), INT64_C(1769860800000));
    assert_int_equal(time_of("2026-01-31T12:00:00"), INT64_C(1769860800000));
    assert_int_equal(time_of("2026-01-31 12:00:00"), INT64_C(1769860800000));
    assert_int_equal(time_of("2026-01-31T12:00:00.25Z"), INT64_C(1769860800250));
    assert_int_equal(time_of("1769860800000"), INT64_C(1769860800000));
    assert_int_equal(time_of("now"), NOW);
    assert_int_equal(time_of("-90s"), NOW - 90000);
    assert_int_equal(time_of("-15m"), NOW - 15 * 60000);
    assert_int_equal(time_of("-24h"), NOW - 86400000);
    assert_int_equal(time_of("-7d"), NOW - 7 * INT64_C(86400000));
}

TEST(what_is_no_time_is_refused_with_examples)
{
    const char *wrong[] = {"",     "yesterday", "-5",      "-h",          "-1w",
                           "-",    "12:00",     "2026-13", "2026-01-31x", "-9999999999999d",
                           "1e12", "-1",        "+5m"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        if (time_of(wrong[i]) != -1)
            fail_msg("'%s' was taken", wrong[i]);
        assert_non_null(strstr(error.text, "-24h"));
    }
}

static void assert_words(const char *line, int count, const char *const *expected)
{
    struct parse_words words;
    assert_int_equal(parse_words(line, &words, &error), ERR_OK);
    assert_int_equal(words.count, count);
    for (int i = 0; i < count; i++)
        assert_string_equal(words.words[i], expected[i]);
    parse_words_done(&words);
}

TEST(lines_are_taken_apart_as_by_a_shell)
{
    assert_words("", 0, NULL);
    assert_words("  \t ", 0, NULL);
    assert_words("get views", 2, (const char *const[]){"get", "views"});
    assert_words("  get   'a b'  ", 2, (const char *const[]){"get", "a b"});
    assert_words("get \"a \\\"b\\\"\" c\\ d", 3, (const char *const[]){"get", "a \"b\"", "c d"});
    assert_words("x 'a\\b' \"\"", 3, (const char *const[]){"x", "a\\b", ""});
    assert_words("pre'fix'ed", 1, (const char *const[]){"prefixed"});
}

TEST(an_open_quote_is_refused)
{
    struct parse_words words;
    assert_int_equal(parse_words("get 'a", &words, &error), ERR_INVALID);
    assert_int_equal(parse_words("get \"a'", &words, &error), ERR_INVALID);
}

RUN(cmocka_unit_test(times_are_dates_milliseconds_or_back_from_now),
    cmocka_unit_test(what_is_no_time_is_refused_with_examples),
    cmocka_unit_test(lines_are_taken_apart_as_by_a_shell),
    cmocka_unit_test(an_open_quote_is_refused))
