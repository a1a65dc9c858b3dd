#include "base/near.h"

#include "unit/test.h"

static const char *nearest(const char *given, unsigned limit)
{
    static const char *const names[] = {"workers", "max-connections", "data", "at", "get"};
    struct near near = {.given = slice_of(given), .limit = limit};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        near_offer(&near, names[i]);
    return near.name;
}

TEST(a_letter_may_be_wrong_missing_too_many_or_swapped)
{
    assert_string_equal(nearest("wurkers", 2), "workers");
    assert_string_equal(nearest("worker", 2), "workers");
    assert_string_equal(nearest("workerss", 2), "workers");
    assert_string_equal(nearest("wrokers", 2), "workers");
}

TEST(the_nearest_is_kept_whichever_comes_first)
{
    assert_string_equal(nearest("date", 3), "data");
    assert_string_equal(nearest("gat", 3), "at");
}

TEST(what_is_too_far_away_is_another_word)
{
    assert_null(nearest("wurkerz", 2));
    assert_null(nearest("elephant", 3));
}

TEST(a_short_name_of_which_no_letter_is_right_is_not_near)
{
    assert_null(nearest("xy", 3));
    assert_null(nearest("", 5));
}

TEST(what_is_longer_than_any_name_is_near_to_nothing)
{
    assert_null(nearest("max-connections-max-connections-max-connections", 100));
}

RUN(cmocka_unit_test(a_letter_may_be_wrong_missing_too_many_or_swapped),
    cmocka_unit_test(the_nearest_is_kept_whichever_comes_first),
    cmocka_unit_test(what_is_too_far_away_is_another_word),
    cmocka_unit_test(a_short_name_of_which_no_letter_is_right_is_not_near),
    cmocka_unit_test(what_is_longer_than_any_name_is_near_to_nothing))
