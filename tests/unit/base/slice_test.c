#include "base/slice.h"

#include "unit/test.h"

TEST(slices_are_equal_when_their_bytes_are)
{
    assert_true(slice_equal(SLICE("abc"), slice_of("abc")));
    assert_false(slice_equal(SLICE("abc"), SLICE("abd")));
    assert_false(slice_equal(SLICE("abc"), SLICE("ab")));
}

TEST(a_zero_byte_is_a_byte_like_any_other)
{
    assert_int_equal(SLICE("a\0b").size, 3);
    assert_false(slice_equal(SLICE("a\0b"), SLICE("a\0c")));
}

TEST(empty_slices_are_equal_wherever_they_point)
{
    struct slice nowhere = {NULL, 0};
    assert_true(slice_equal(nowhere, SLICE("")));
    assert_true(slice_equal_nocase(nowhere, SLICE("")));
}

TEST(case_is_ignored_for_ascii_letters_only)
{
    assert_true(slice_equal_nocase(SLICE("IncrBy"), SLICE("INCRBY")));
    assert_false(slice_equal_nocase(SLICE("incr"), SLICE("incrby")));
    assert_false(slice_equal_nocase(SLICE("@"), SLICE("`")));
    assert_false(slice_equal_nocase(SLICE("["), SLICE("{")));
    assert_false(slice_equal_nocase(SLICE("\xc4"), SLICE("\xe4")));
}

RUN(cmocka_unit_test(slices_are_equal_when_their_bytes_are),
    cmocka_unit_test(a_zero_byte_is_a_byte_like_any_other),
    cmocka_unit_test(empty_slices_are_equal_wherever_they_point),
    cmocka_unit_test(case_is_ignored_for_ascii_letters_only))
