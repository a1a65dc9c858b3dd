#include "server/value.h"

#include <string.h>

#include "unit/test.h"

static struct error error;

/* Reads a value that must be right. */
static union value read_value(enum value_kind kind, const char *limits, const char *text)
{
    union value value;
    assert_int_equal(value_parse(kind, limits, slice_of(text), &value, &error), ERR_OK);
    return value;
}

static void assert_refused(enum value_kind kind, const char *limits, const char *text,
                           const char *because)
{
    union value value;
    memset(&value, 0x5a, sizeof(value));
    union value before = value;
    assert_int_equal(value_parse(kind, limits, slice_of(text), &value, &error), ERR_INVALID);
    assert_memory_equal(&value, &before, sizeof(value));
    if (!strstr(error.text, because))
        fail_msg("'%s' does not say '%s'", error.text, because);
}

/* What is written is read as the same value. */
static void assert_written(enum value_kind kind, const char *limits, const char *text,
                           const char *expected)
{
    union value value = read_value(kind, limits, text);
    char written[64];
    assert_string_equal(value_format(kind, limits, &value, written, sizeof(written)), expected);
    union value again = read_value(kind, limits, written);
    assert_memory_equal(&value, &again, sizeof(value));
}

TEST(sizes_have_units_of_1024)
{
    assert_int_equal(read_value(VALUE_BYTES, "", "4096").number, 4096);
    assert_int_equal(read_value(VALUE_BYTES, "", "3KiB").number, 3072);
    assert_int_equal(read_value(VALUE_BYTES, "", "64MiB").number, 64u << 20);
    assert_int_equal(read_value(VALUE_BYTES, "", "2gib").number, 2ull << 30);
    assert_int_equal(read_value(VALUE_BYTES, "", "0").number, 0);
}

TEST(a_size_that_is_none_is_refused_with_examples)
{
    const char *wrong[] = {"",   "MiB",    "64MB", "64 MiB", "-1",
                           "+1", "1.5GiB", "064",  "0x10",   "99999999999GiB"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(VALUE_BYTES, "", wrong[i], "64MiB");
}

TEST(durations_have_units_and_come_in_milliseconds)
{
    assert_int_equal(read_value(VALUE_DURATION, "", "250ms").number, 250);
    assert_int_equal(read_value(VALUE_DURATION, "", "10s").number, 10000);
    assert_int_equal(read_value(VALUE_DURATION, "", "5m").number, 300000);
    assert_int_equal(read_value(VALUE_DURATION, "", "24h").number, 86400000);
    assert_int_equal(read_value(VALUE_DURATION, "", "7d").number, 7ull * 86400000);
    assert_int_equal(read_value(VALUE_DURATION, "", "0").number, 0);
}

TEST(a_duration_without_a_unit_is_refused)
{
    assert_refused(VALUE_DURATION, "", "10", "10s");
    assert_refused(VALUE_DURATION, "", "10 s", "10s");
    assert_refused(VALUE_DURATION, "", "ten", "10s");
}

TEST(counts_are_whole_numbers)
{
    assert_int_equal(read_value(VALUE_COUNT, "", "18446744073709551615").number, UINT64_MAX);
    assert_refused(VALUE_COUNT, "", "18446744073709551616", "whole number");
    assert_refused(VALUE_COUNT, "", "1e3", "whole number");
    assert_refused(VALUE_COUNT, "", "many", "whole number");
}

TEST(both_ends_of_a_range_belong_to_it)
{
    assert_int_equal(read_value(VALUE_COUNT, "1..64", "1").number, 1);
    assert_int_equal(read_value(VALUE_COUNT, "1..64", "64").number, 64);
    assert_refused(VALUE_COUNT, "1..64", "0", "1..64");
    assert_refused(VALUE_COUNT, "1..64", "65", "1..64");
    assert_refused(VALUE_BYTES, "1MiB..1GiB", "1023KiB", "1MiB..1GiB");
    assert_refused(VALUE_DURATION, "1s..1d", "25h", "1s..1d");
}

TEST(a_choice_is_one_of_its_words)
{
    assert_int_equal(read_value(VALUE_CHOICE, "durable|written|memory", "durable").choice, 0);
    assert_int_equal(read_value(VALUE_CHOICE, "durable|written|memory", "Memory").choice, 2);
    assert_refused(VALUE_CHOICE, "durable|written|memory", "mem", "durable|written|memory");
    assert_refused(VALUE_CHOICE, "durable|written|memory", "", "durable|written|memory");
    assert_refused(VALUE_CHOICE, "durable|written", "durable|written", "none of");
}

TEST(a_boolean_is_yes_or_no_in_four_ways)
{
    const char *yes[] = {"yes", "true", "on", "1", "YES"};
    const char *no[] = {"no", "false", "off", "0", "No"};
    for (size_t i = 0; i < 5; i++) {
        assert_true(read_value(VALUE_BOOLEAN, "", yes[i]).boolean);
        assert_false(read_value(VALUE_BOOLEAN, "", no[i]).boolean);
    }
    assert_refused(VALUE_BOOLEAN, "", "maybe", "neither yes nor no");
    assert_refused(VALUE_BOOLEAN, "", "", "neither yes nor no");
}

TEST(an_address_is_a_host_and_a_port)
{
    struct value_address address = read_value(VALUE_ADDRESS, "", "10.1.2.3:7000").address;
    assert_string_equal(address.host, "10.1.2.3");
    assert_int_equal(address.port, 7000);

    address = read_value(VALUE_ADDRESS, "", "[2001:db8::1]:6380").address;
    assert_string_equal(address.host, "2001:db8::1");
    assert_int_equal(address.port, 6380);
}

TEST(a_port_alone_is_on_loopback)
{
    struct value_address address = read_value(VALUE_ADDRESS, "", "6390").address;
    assert_string_equal(address.host, "127.0.0.1");
    assert_int_equal(address.port, 6390);
    assert_string_equal(read_value(VALUE_ADDRESS, "", "localhost:1").address.host, "127.0.0.1");
}

TEST(an_address_that_is_none_is_refused_with_examples)
{
    const char *wrong[] = {
        "",       ":",          ":6380",         "127.0.0.1",      "127.0.0.1:",  "::1:6380",
        "[::1]",  "[]:6380",    "[127.0.0.1]:1", "example.org:80", "1.2.3.4:-1",  "1.2.3.4:x",
        "*:6380", "1.2.3:6380", "[::1:6380",     "::1]:6380",      "1.2.3.4:007", "1.2.3.4 :1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_refused(VALUE_ADDRESS, "", wrong[i], "127.0.0.1:6380");
    assert_refused(VALUE_ADDRESS, "", "127.0.0.1:65536", "65535");
}

TEST(only_addresses_of_this_machine_are_loopback)
{
    const char *ours[] = {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "1"};
    const char *others[] = {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "128.0.0.1:1", "[fe80::1]:1"};
    for (size_t i = 0; i < 5; i++) {
        union value value = read_value(VALUE_ADDRESS, "", ours[i]);
        assert_true(value_is_loopback(&value.address));
        value = read_value(VALUE_ADDRESS, "", others[i]);
        assert_false(value_is_loopback(&value.address));
    }
}

TEST(text_is_kept_as_it_is_up_to_its_limit)
{
    assert_string_equal(read_value(VALUE_TEXT, "", " a b ").text.text, " a b ");
    assert_string_equal(read_value(VALUE_TEXT, "", "").text.text, "");

    char text[VALUE_TEXT_MAX + 2];
    memset(text, 'x', sizeof(text));
    union value value;
    struct slice longest = {text, VALUE_TEXT_MAX};
    assert_int_equal(value_parse(VALUE_TEXT, "", longest, &value, &error), ERR_OK);
    struct slice too_long = {text, VALUE_TEXT_MAX + 1};
    assert_int_equal(value_parse(VALUE_TEXT, "", too_long, &value, &error), ERR_INVALID);
    assert_int_equal(value_parse(VALUE_TEXT, "", SLICE("a\0b"), &value, &error), ERR_INVALID);
}

TEST(a_value_is_written_the_way_it_is_read)
{
    assert_written(VALUE_BYTES, "", "65536", "64KiB");
    assert_written(VALUE_BYTES, "", "1025", "1025");
    assert_written(VALUE_BYTES, "", "0", "0");
    assert_written(VALUE_DURATION, "", "1500ms", "1500ms");
    assert_written(VALUE_DURATION, "", "24h", "1d");
    assert_written(VALUE_DURATION, "", "90s", "90s");
    assert_written(VALUE_COUNT, "", "10000", "10000");
    assert_written(VALUE_CHOICE, "a|b|c", "b", "b");
    assert_written(VALUE_BOOLEAN, "", "on", "yes");
    assert_written(VALUE_ADDRESS, "", "6380", "127.0.0.1:6380");
    assert_written(VALUE_ADDRESS, "", "[::1]:6380", "[::1]:6380");
    assert_written(VALUE_TEXT, "", "./data", "./data");
}

TEST(a_secret_is_never_shown)
{
    union value value = read_value(VALUE_SECRET, "", "hunter2");
    char written[64];
    value_format(VALUE_SECRET, "", &value, written, sizeof(written));
    assert_null(strstr(written, "hunter2"));
}

TEST(a_written_value_is_cut_to_its_room)
{
    union value value = read_value(VALUE_TEXT, "", "a long text");
    char written[4];
    assert_string_equal(value_format(VALUE_TEXT, "", &value, written, sizeof(written)), "a l");
}

RUN(cmocka_unit_test(sizes_have_units_of_1024),
    cmocka_unit_test(a_size_that_is_none_is_refused_with_examples),
    cmocka_unit_test(durations_have_units_and_come_in_milliseconds),
    cmocka_unit_test(a_duration_without_a_unit_is_refused),
    cmocka_unit_test(counts_are_whole_numbers), cmocka_unit_test(both_ends_of_a_range_belong_to_it),
    cmocka_unit_test(a_choice_is_one_of_its_words),
    cmocka_unit_test(a_boolean_is_yes_or_no_in_four_ways),
    cmocka_unit_test(an_address_is_a_host_and_a_port),
    cmocka_unit_test(a_port_alone_is_on_loopback),
    cmocka_unit_test(an_address_that_is_none_is_refused_with_examples),
    cmocka_unit_test(only_addresses_of_this_machine_are_loopback),
    cmocka_unit_test(text_is_kept_as_it_is_up_to_its_limit),
    cmocka_unit_test(a_value_is_written_the_way_it_is_read),
    cmocka_unit_test(a_secret_is_never_shown), cmocka_unit_test(a_written_value_is_cut_to_its_room))
