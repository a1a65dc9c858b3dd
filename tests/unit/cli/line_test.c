#include "cli/line.h"

#include <string.h>

#include "unit/test.h"

static struct error error;
static struct line line;

static void read_line(const char *text)
{
    if (line_parse(slice_of(text), &line, &error))
        fail_msg("%s: %s", text, error.text);
}

static void assert_slice(struct slice slice, const char *expected)
{
    assert_int_equal(slice.size, strlen(expected));
    if (slice.size > 0)
        assert_memory_equal(slice.data, expected, slice.size);
}

TEST(a_counter_has_a_value_and_may_have_settings)
{
    read_line("{\"counter\":\"views\",\"value\":\"42\"}");
    assert_int_equal(line.kind, LINE_COUNTER);
    assert_slice(line.id, "views");
    assert_slice(line.value, "42");
    assert_slice(line.shards, "");
    line_done(&line);

    read_line("{\"counter\":\"c\",\"value\":-7,\"shards\":4,\"policy\":\"random\",\"floor\":\"-9\","
              "\"idle_s\":60,\"deadline_ms\":1900000000000}");
    assert_slice(line.value, "-7");
    assert_slice(line.shards, "4");
    assert_slice(line.policy, "random");
    assert_slice(line.floor, "-9");
    assert_slice(line.idle_s, "60");
    assert_slice(line.deadline_ms, "1900000000000");
    line_done(&line);
}

TEST(values_may_be_larger_than_any_register)
{
    read_line("{\"counter\":\"c\",\"value\":\"100000000000000000000000000000\"}");
    assert_slice(line.value, "100000000000000000000000000000");
    line_done(&line);
}

TEST(a_reaction_has_item_user_and_kind)
{
    read_line("{\"item\":\"video1\",\"user\":\"ann\",\"kind\":\"like\"}");
    assert_int_equal(line.kind, LINE_REACTION);
    assert_slice(line.id, "video1");
    assert_slice(line.user, "ann");
    assert_slice(line.reaction, "like");
    line_done(&line);

    read_line("{\"item\":123,\"user\":456,\"kind\":\"like\"}");
    assert_slice(line.id, "123");
    assert_slice(line.user, "456");
    line_done(&line);
}

TEST(bytes_that_are_no_text_come_in_hex)
{
    read_line("{\"item\":{\"hex\":\"ff00\"},\"user\":{\"hex\":\"8081\"},\"kind\":\"like\"}");
    assert_int_equal(line.id.size, 2);
    assert_memory_equal(line.id.data, "\xff\x00", 2);
    assert_memory_equal(line.user.data, "\x80\x81", 2);
    line_done(&line);
}

TEST(lines_about_the_export_itself_ask_for_nothing)
{
    read_line("{\"tally\":\"export\",\"version\":1,\"kinds\":[\"like\"]}");
    assert_int_equal(line.kind, LINE_NOTHING);
    line_done(&line);
    read_line("{\"cursor\":{\"phase\":\"items\"}}");
    assert_int_equal(line.kind, LINE_NOTHING);
    line_done(&line);
    read_line("{\"end\":{\"counters\":1}}");
    assert_int_equal(line.kind, LINE_END);
    line_done(&line);
    read_line("{\"item\":\"video1\",\"shards\":8}");
    assert_int_equal(line.kind, LINE_ITEM);
    assert_slice(line.shards, "8");
    line_done(&line);
}

TEST(bad_lines_are_refused)
{
    const char *bad[] = {
        "",
        "x",
        "[]",
        "5",
        "{}",
        "{\"counter\":\"c\"}",
        "{\"counter\":\"c\",\"value\":1.5}",
        "{\"counter\":\"c\",\"value\":\"1.5\"}",
        "{\"counter\":\"c\",\"value\":\"+1\"}",
        "{\"counter\":\"c\",\"value\":\"\"}",
        "{\"counter\":\"c\",\"value\":\"01\"}",
        "{\"counter\":\"c\",\"value\":\"-\"}",
        "{\"counter\":\"\",\"value\":\"1\"}",
        "{\"counter\":[],\"value\":\"1\"}",
        "{\"counter\":\"c\",\"value\":\"1\",\"policy\":5}",
        "{\"counter\":\"c\",\"value\":\"1\",\"value\":\"2\"}",
        "{\"item\":\"v\",\"user\":\"u\"}",
        "{\"item\":\"v\",\"kind\":\"like\"}",
        "{\"item\":{\"hex\":\"f\"},\"user\":\"u\",\"kind\":\"like\"}",
        "{\"item\":{\"hex\":\"xx\"},\"user\":\"u\",\"kind\":\"like\"}",
        "{\"tally\":\"export\",\"version\":2}",
        "{\"counter\":\"c\",\"value\":\"1\"} x",
        "{\"counter\":\"\xff\",\"value\":\"1\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (line_parse(slice_of(bad[i]), &line, &error) != ERR_INVALID)
            fail_msg("taken: %s", bad[i]);
}

RUN(cmocka_unit_test(a_counter_has_a_value_and_may_have_settings),
    cmocka_unit_test(values_may_be_larger_than_any_register),
    cmocka_unit_test(a_reaction_has_item_user_and_kind),
    cmocka_unit_test(bytes_that_are_no_text_come_in_hex),
    cmocka_unit_test(lines_about_the_export_itself_ask_for_nothing),
    cmocka_unit_test(bad_lines_are_refused))
