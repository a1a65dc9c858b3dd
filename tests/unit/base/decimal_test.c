#include "base/decimal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

static void assert_reads(const char *text, int64_t expected)
{
    int64_t value = ~expected;
    if (!decimal_parse(slice_of(text), &value))
        fail_msg("%s was refused", text);
    assert_true(value == expected);
}

static void assert_refuses(struct slice text)
{
    int64_t value = 42;
    if (decimal_parse(text, &value))
        fail_msg("%.*s was read as %" PRId64, SLICE_ARGS(text), value);
    assert_int_equal(value, 42);
}

/* Writes `value` as we do and as printf does, and reads it back. */
static void assert_round_trip(int64_t value)
{
    char expected[32];
    int size = snprintf(expected, sizeof(expected), "%" PRId64, value);
    char text[DECIMAL_SIZE_MAX];
    char *end = decimal_format(text, value);
    assert_int_equal(end - text, size);
    assert_memory_equal(text, expected, (size_t)size);

    int64_t back;
    assert_true(decimal_parse((struct slice){text, (size_t)size}, &back));
    assert_true(back == value);
}

static void assert_round_trip_unsigned(uint64_t value)
{
    char expected[32];
    int size = snprintf(expected, sizeof(expected), "%" PRIu64, value);
    char text[DECIMAL_SIZE_MAX];
    char *end = decimal_format_unsigned(text, value);
    assert_int_equal(end - text, size);
    assert_memory_equal(text, expected, (size_t)size);

    uint64_t back;
    assert_true(decimal_parse_unsigned((struct slice){text, (size_t)size}, &back));
    assert_true(back == value);
}

TEST(numbers_are_read_as_written)
{
    assert_reads("0", 0);
    assert_reads("7", 7);
    assert_reads("-1", -1);
    assert_reads("12345678", 12345678);
    assert_reads("-1234567890123456", -1234567890123456);
    assert_reads("1000000000000000000", 1000000000000000000);
}

TEST(the_ends_of_the_range_are_read_and_one_beyond_is_refused)
{
    assert_reads("9223372036854775807", INT64_MAX);
    assert_reads("-9223372036854775808", INT64_MIN);
    assert_refuses(SLICE("9223372036854775808"));
    assert_refuses(SLICE("-9223372036854775809"));
    assert_refuses(SLICE("9999999999999999999"));
    assert_refuses(SLICE("-9999999999999999999"));
    assert_refuses(SLICE("10000000000000000000"));
    assert_refuses(SLICE("-10000000000000000000"));
    assert_refuses(SLICE("18446744073709551616"));
    assert_refuses(SLICE("99999999999999999999"));
    assert_refuses(SLICE("100000000000000000000"));
}

TEST(the_end_of_the_unsigned_range_is_read_and_one_beyond_is_refused)
{
    uint64_t value;
    assert_true(decimal_parse_unsigned(SLICE("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);
    assert_false(decimal_parse_unsigned(SLICE("18446744073709551616"), &value));
    assert_false(decimal_parse_unsigned(SLICE("18446744073709551620"), &value));
    assert_false(decimal_parse_unsigned(SLICE("99999999999999999999"), &value));
    assert_false(decimal_parse_unsigned(SLICE("-1"), &value));
}

TEST(there_is_one_way_to_write_a_number)
{
    assert_refuses(SLICE(""));
    assert_refuses((struct slice){NULL, 0});
    assert_refuses(SLICE("-"));
    assert_refuses(SLICE("+1"));
    assert_refuses(SLICE(" 1"));
    assert_refuses(SLICE("1 "));
    assert_refuses(SLICE("-0"));
    assert_refuses(SLICE("00"));
    assert_refuses(SLICE("007"));
    assert_refuses(SLICE("-007"));
    assert_refuses(SLICE("--1"));
    assert_refuses(SLICE("1.0"));
    assert_refuses(SLICE("1e3"));
    assert_refuses(SLICE("0x10"));
    assert_refuses(SLICE("1\0"));
    assert_refuses(SLICE("00000000000000000001"));
}

TEST(a_byte_that_is_no_digit_is_refused_wherever_it_stands)
{
    for (size_t size = 1; size <= DECIMAL_SIZE_MAX; size++) {
        for (size_t at = 0; at < size; at++) {
            for (int byte = 0; byte < 256; byte++) {
                if ((byte >= '0' && byte <= '9') || (byte == '-' && at == 0))
                    continue;
                char text[DECIMAL_SIZE_MAX];
                memset(text, '1', sizeof(text));
                text[at] = (char)byte;
                assert_refuses((struct slice){text, size});
            }
        }
    }
}

TEST(numbers_around_every_power_come_back)
{
    uint64_t power = 1;
    for (int digits = 1; digits <= 20; digits++, power *= 10) {
        for (int around = -2; around <= 2; around++) {
            assert_round_trip((int64_t)power + around);
            assert_round_trip(-((int64_t)(power / 2) + around));
            assert_round_trip_unsigned(power + (uint64_t)around);
        }
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_round_trip_unsigned(UINT64_C(1) << bit);
        assert_round_trip_unsigned((UINT64_C(1) << bit) - 1);
    }
    assert_round_trip(INT64_MIN);
    assert_round_trip(INT64_MAX);
    assert_round_trip_unsigned(UINT64_MAX);
}

TEST(random_numbers_of_every_length_come_back)
{
    struct sim_rng rng = {1};
    for (int i = 0; i < 200000; i++) {
        uint64_t value = sim_rng_next(&rng) >> sim_rng_below(&rng, 64);
        assert_round_trip((int64_t)value);
        assert_round_trip_unsigned(value);
    }
}

RUN(cmocka_unit_test(numbers_are_read_as_written),
    cmocka_unit_test(the_ends_of_the_range_are_read_and_one_beyond_is_refused),
    cmocka_unit_test(the_end_of_the_unsigned_range_is_read_and_one_beyond_is_refused),
    cmocka_unit_test(there_is_one_way_to_write_a_number),
    cmocka_unit_test(a_byte_that_is_no_digit_is_refused_wherever_it_stands),
    cmocka_unit_test(numbers_around_every_power_come_back),
    cmocka_unit_test(random_numbers_of_every_length_come_back))
