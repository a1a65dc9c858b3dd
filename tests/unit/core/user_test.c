#include "core/user.h"

#include <stdio.h>

#include "unit/test.h"

static void assert_numeric(const char *name, uint32_t expected)
{
    uint32_t number = expected + 1;
    assert_true(user_is_numeric(slice_of(name), &number));
    assert_int_equal(number, expected);
}

TEST(a_decimal_below_2_to_the_32_stands_for_itself)
{
    assert_numeric("0", 0);
    assert_numeric("7", 7);
    assert_numeric("4294967295", UINT32_MAX);
}

TEST(no_other_name_is_a_number)
{
    const char *names[] = {"",   "ann", "07",         "00",          "+7",   "-0",
                           "-7", "7 ",  "4294967296", "99999999999", "7ann", "0x7"};
    uint32_t number = 42;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_false(user_is_numeric(slice_of(names[i]), &number));
    assert_int_equal(number, 42);
}

RUN(cmocka_unit_test(a_decimal_below_2_to_the_32_stands_for_itself),
    cmocka_unit_test(no_other_name_is_a_number))
