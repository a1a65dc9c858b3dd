#include "base/hash.h"

#include "unit/test.h"

/* Data folders depend on these values: they may never change. */
TEST(the_stable_hash_is_the_same_for_ever)
{
    assert_true(hash_stable(SLICE("")) == UINT64_C(0x2d06800538d394c2));
    assert_true(hash_stable((struct slice){NULL, 0}) == hash_stable(SLICE("")));
    assert_true(hash_stable(SLICE("video123")) == UINT64_C(0xd1a32e5bbc49de08));
    assert_true(hash_stable_seeded(SLICE("video123"), 42) == UINT64_C(0x3fa1601155647a1a));
}

TEST(the_keyed_hash_depends_on_its_key)
{
    assert_true(hash_keyed(SLICE("a"), 1) == hash_keyed(SLICE("a"), 1));
    assert_true(hash_keyed(SLICE("a"), 1) != hash_keyed(SLICE("a"), 2));
    assert_true(hash_keyed(SLICE("a"), 1) != hash_keyed(SLICE("b"), 1));

    struct hash128 one = hash128_keyed(SLICE("a"), 1);
    struct hash128 two = hash128_keyed(SLICE("a"), 2);
    assert_true(one.low != two.low && one.high != two.high);
}

RUN(cmocka_unit_test(the_stable_hash_is_the_same_for_ever),
    cmocka_unit_test(the_keyed_hash_depends_on_its_key))
