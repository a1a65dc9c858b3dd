#include "base/message.h"

#include <regex.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "unit/test.h"

/* ---- what came out of stderr ---- */

static int real_stderr;
static int pipe_ends[2];

static void catch_stderr(void)
{
    assert_int_equal(pipe(pipe_ends), 0);
    real_stderr = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
}

static const char *caught(void)
{
    static char text[16384];
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(pipe_ends[1]);
    size_t size = 0;
    ssize_t got;
    while ((got = read(pipe_ends[0], text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)got;
    close(pipe_ends[0]);
    text[size] = '\0';
    return text;
}

/* The line that `text` makes, without its time. */
static const char *line_of(const char *text)
{
    catch_stderr();
    message_info("%s", text);
    const char *line = caught();
    return line + strlen("2026-01-31T12:00:00.123Z ");
}

static const char *quoted(struct slice text)
{
    static char to[256];
    return message_quote(to, sizeof(to), text);
}

/* ---- tests ---- */

TEST(a_line_is_time_level_and_text)
{
    catch_stderr();
    message_info("listening door=%s", "resp");
    const char *line = caught();

    regex_t shape;
    assert_int_equal(regcomp(&shape,
                             "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
                             "\\.[0-9]{3}Z info  listening door=resp\n$",
                             REG_EXTENDED),
                     0);
    assert_int_equal(regexec(&shape, line, 0, NULL, 0), 0);
    regfree(&shape);
}

TEST(lines_below_the_level_are_dropped)
{
    catch_stderr();
    message_debug("one");
    message_set_level(MESSAGE_ERROR);
    message_warning("two");
    message_error("three");
    message_set_level(MESSAGE_DEBUG);
    message_debug("four");
    message_set_level(MESSAGE_INFO);
    const char *lines = caught();

    assert_null(strstr(lines, "one"));
    assert_null(strstr(lines, "two"));
    assert_non_null(strstr(lines, "Z error three\n"));
    assert_non_null(strstr(lines, "Z debug four\n"));
}

TEST(nothing_from_outside_can_forge_a_line)
{
    assert_string_equal(line_of("a\nb\rc"), "info  a\\nb\\rc\n");
    assert_string_equal(line_of("\x1b[2J\x7f"), "info  \\x1b[2J\\x7f\n");
    assert_string_equal(line_of("next\xc2\x85line"), "info  next\\xc2\\x85line\n");
    assert_string_equal(line_of("\xe2\x80\xa8"), "info  \\xe2\\x80\\xa8\n");
    assert_string_equal(line_of("\xe2\x80\xae"), "info  \\xe2\\x80\\xae\n");
}

TEST(good_utf8_stays_and_bad_is_escaped)
{
    assert_string_equal(line_of("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x91\x8d"),
                        "info  \xc3\xa4 \xe2\x82\xac \xf0\x9f\x91\x8d\n");
    assert_string_equal(line_of("\xff"), "info  \\xff\n");
    assert_string_equal(line_of("\xc3"), "info  \\xc3\n");
    assert_string_equal(line_of("\xc0\xaf"), "info  \\xc0\\xaf\n");
    assert_string_equal(line_of("\xed\xa0\x80"), "info  \\xed\\xa0\\x80\n");
    assert_string_equal(line_of("\xf4\x90\x80\x80"), "info  \\xf4\\x90\\x80\\x80\n");
    assert_string_equal(line_of("\x80x"), "info  \\x80x\n");
}

TEST(a_line_too_long_is_cut_and_says_so)
{
    static char text[10000];
    memset(text, '\x01', sizeof(text) - 1);
    const char *line = line_of(text);
    size_t size = strlen(line);
    assert_true(size > 8000 && size < 9000);
    assert_string_equal(line + size - 8, "\\x01...\n");
}

TEST(a_quoted_word_ends_where_its_quote_does)
{
    assert_string_equal(quoted(SLICE("plain")), "\"plain\"");
    assert_string_equal(quoted(SLICE("")), "\"\"");
    assert_string_equal(quoted((struct slice){NULL, 0}), "\"\"");
    assert_string_equal(quoted(SLICE("a \"b\" \\")), "\"a \\\"b\\\" \\\\\"");
    assert_string_equal(quoted(SLICE("a\0b\t\xff")), "\"a\\x00b\\t\\xff\"");
    assert_string_equal(quoted(SLICE("\xc3\xa4")), "\"\xc3\xa4\"");
}

TEST(a_quoted_word_is_not_escaped_twice)
{
    assert_string_equal(line_of(quoted(SLICE("a\n\"\xff"))), "info  \"a\\n\\\"\\xff\"\n");
}

TEST(a_word_too_long_is_cut_before_a_whole_character)
{
    struct slice text = SLICE("ab\xc3\xa4\ncd");
    const char *const expected[] = {
        "\"\"",           "\"a\"",          "\"ab\"",           "\"ab\"",
        "\"ab\xc3\xa4\"", "\"ab\xc3\xa4\"", "\"ab\xc3\xa4\\n\""};
    for (size_t room = 0; room < sizeof(expected) / sizeof(expected[0]); room++) {
        char to[16];
        memset(to, '#', sizeof(to));
        assert_string_equal(message_quote(to, room + 3, text), expected[room]);
        assert_int_equal(to[room + 3], '#');
    }
}

RUN(cmocka_unit_test(a_line_is_time_level_and_text),
    cmocka_unit_test(lines_below_the_level_are_dropped),
    cmocka_unit_test(nothing_from_outside_can_forge_a_line),
    cmocka_unit_test(good_utf8_stays_and_bad_is_escaped),
    cmocka_unit_test(a_line_too_long_is_cut_and_says_so),
    cmocka_unit_test(a_quoted_word_ends_where_its_quote_does),
    cmocka_unit_test(a_quoted_word_is_not_escaped_twice),
    cmocka_unit_test(a_word_too_long_is_cut_before_a_whole_character))
