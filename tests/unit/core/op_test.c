#include "core/op.h"

#include "unit/test.h"

TEST(a_policy_is_found_by_its_name)
{
    for (unsigned i = 0; i < POLICY_COUNT; i++) {
        enum policy policy;
        assert_true(policy_parse(slice_of(policy_name((enum policy)i)), &policy));
        assert_int_equal(policy, i);
    }
}

TEST(a_policy_may_be_written_in_capitals)
{
    enum policy policy;
    assert_true(policy_parse(SLICE("ROUND-ROBIN"), &policy));
    assert_int_equal(policy, POLICY_ROUND_ROBIN);
}

TEST(another_word_is_no_policy)
{
    enum policy policy = POLICY_RANDOM;
    assert_false(policy_parse(SLICE("loca"), &policy));
    assert_false(policy_parse(SLICE(""), &policy));
    assert_int_equal(policy, POLICY_RANDOM);
}

RUN(cmocka_unit_test(a_policy_is_found_by_its_name),
    cmocka_unit_test(a_policy_may_be_written_in_capitals),
    cmocka_unit_test(another_word_is_no_policy))
