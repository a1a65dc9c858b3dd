#include "core/bucket.h"

#include <stdio.h>

#include "unit/test.h"

/* These are for ever: if one of them fails, users who have liked could like
 * again. */
TEST(a_user_has_always_been_in_this_bucket)
{
    static const struct {
        const char *item;
        const char *user;
        uint16_t bucket;
    } table[] = {
        {"video1", "ann", 376},
        {"video1", "bob", 422},
        {"video2", "ann", 2268},
        {"", "", 2035},
        {"app1:post/42", "0f8fad5b-d9cb-469f-a165-70867728950e", 1470},
        {"video1", "4294967295", 2700},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(bucket_of(slice_of(table[i].item), slice_of(table[i].user)),
                         table[i].bucket);
}

TEST(the_hash_of_the_item_may_be_handed_in)
{
    assert_int_equal(bucket_of_hashed(hash_stable(SLICE("video1")), SLICE("ann")),
                     bucket_of(SLICE("video1"), SLICE("ann")));
}

TEST(users_fall_evenly_into_the_slices)
{
    enum { USERS = 64000 };
    unsigned users[BUCKET_SLICES] = {0};
    for (unsigned i = 0; i < USERS; i++) {
        char user[16];
        snprintf(user, sizeof(user), "%u", i);
        uint16_t bucket = bucket_of(SLICE("video1"), slice_of(user));
        assert_true(bucket < LIMIT_BUCKETS);
        users[bucket_slice(bucket)]++;
    }
    for (unsigned slice = 0; slice < BUCKET_SLICES; slice++)
        assert_in_range(users[slice], 850, 1150); /* 1000 and not 5 standard deviations off */
}

TEST(slices_are_ranges_of_the_same_size)
{
    assert_int_equal(bucket_slice(0), 0);
    assert_int_equal(bucket_slice(BUCKETS_A_SLICE - 1), 0);
    assert_int_equal(bucket_slice(BUCKETS_A_SLICE), 1);
    assert_int_equal(bucket_slice(LIMIT_BUCKETS - 1), BUCKET_SLICES - 1);
}

RUN(cmocka_unit_test(a_user_has_always_been_in_this_bucket),
    cmocka_unit_test(the_hash_of_the_item_may_be_handed_in),
    cmocka_unit_test(users_fall_evenly_into_the_slices),
    cmocka_unit_test(slices_are_ranges_of_the_same_size))
