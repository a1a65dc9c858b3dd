#include "base/varint.h"

#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

/* Writes `value`, expects `size` bytes, reads them whole, and cut at every byte. */
static void assert_round_trip(uint64_t value, size_t size)
{
    char bytes[VARINT_SIZE_MAX];
    char *end = varint_put(bytes, value);
    assert_int_equal(end - bytes, size);

    uint64_t back = ~value;
    assert_ptr_equal(varint_get(bytes, end, &back), end);
    assert_int_equal(back, value);

    for (size_t cut = 0; cut < size; cut++) {
        uint64_t untouched = 42;
        assert_null(varint_get(bytes, bytes + cut, &untouched));
        assert_int_equal(untouched, 42);
    }
}

TEST(every_width_is_as_short_as_it_can_be_and_comes_back)
{
    assert_round_trip(0, 1);
    for (unsigned bits = 1; bits <= 64; bits++) {
        size_t size = (bits + 6) / 7;
        uint64_t lowest = UINT64_C(1) << (bits - 1);
        uint64_t highest = lowest | (lowest - 1);
        assert_round_trip(lowest, size);
        assert_round_trip(highest, size);
    }
}

TEST(what_stands_behind_a_number_is_left_alone)
{
    const char bytes[] = {(char)0x96, 0x01, 0x7f};
    uint64_t value;
    assert_ptr_equal(varint_get(bytes, bytes + 3, &value), bytes + 2);
    assert_int_equal(value, 150);
}

TEST(more_than_64_bits_are_refused)
{
    char bytes[11];
    memset(bytes, 0xff, sizeof(bytes));
    uint64_t value;
    bytes[9] = 0x01;
    assert_non_null(varint_get(bytes, bytes + 10, &value));
    assert_true(value == UINT64_MAX);

    bytes[9] = 0x02;
    assert_null(varint_get(bytes, bytes + 10, &value));
    bytes[9] = (char)0x81;
    bytes[10] = 0x00;
    assert_null(varint_get(bytes, bytes + 11, &value));
}

TEST(zigzag_keeps_small_numbers_of_both_signs_small)
{
    assert_int_equal(varint_zigzag(0), 0);
    assert_int_equal(varint_zigzag(-1), 1);
    assert_int_equal(varint_zigzag(1), 2);
    assert_int_equal(varint_zigzag(-2), 3);
    assert_true(varint_zigzag(INT64_MAX) == UINT64_MAX - 1);
    assert_true(varint_zigzag(INT64_MIN) == UINT64_MAX);
}

TEST(zigzag_comes_back)
{
    struct sim_rng rng = {1};
    for (int i = 0; i < 100000; i++) {
        int64_t value = (int64_t)(sim_rng_next(&rng) >> sim_rng_below(&rng, 64));
        assert_true(varint_unzigzag(varint_zigzag(value)) == value);
        assert_true(varint_unzigzag(varint_zigzag(-value)) == -value);
    }
    assert_true(varint_unzigzag(varint_zigzag(INT64_MIN)) == INT64_MIN);
}

RUN(cmocka_unit_test(every_width_is_as_short_as_it_can_be_and_comes_back),
    cmocka_unit_test(what_stands_behind_a_number_is_left_alone),
    cmocka_unit_test(more_than_64_bits_are_refused),
    cmocka_unit_test(zigzag_keeps_small_numbers_of_both_signs_small),
    cmocka_unit_test(zigzag_comes_back))
