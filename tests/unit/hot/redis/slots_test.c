#include "hot/redis/slots.h"

#include <stdio.h>

#include "unit/test.h"

TEST(the_checksum_is_the_one_of_redis_cluster)
{
    assert_int_equal(slots_crc(SLICE("123456789")), 0x31c3);
    assert_int_equal(slots_of(SLICE("foo")), 12182);
    assert_int_equal(slots_of(SLICE("bar")), 5061);
    assert_int_equal(slots_of(SLICE("")), 0);
}

TEST(only_the_tag_counts_if_there_is_one)
{
    assert_int_equal(slots_of(SLICE("{user1000}.following")), slots_of(SLICE("user1000")));
    assert_int_equal(slots_of(SLICE("foo{{bar}}zap")), slots_of(SLICE("{bar")));
    assert_int_equal(slots_of(SLICE("foo{bar}{zap}")), slots_of(SLICE("bar")));
    assert_int_not_equal(slots_of(SLICE("foo{}{bar}")), slots_of(SLICE("bar")));
}

TEST(cells_are_spread_evenly_over_the_slots)
{
    struct slots_tags tags;
    slots_tags_make(&tags);
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        char key[64];
        snprintf(key, sizeof(key), "tally:%s:r:}{hostile}", tags.tags[cell]);
        assert_int_equal(slots_of(slice_of(key)), tags.slots[cell]);
        assert_int_equal(tags.slots[cell] / SLOTS_A_CELL, cell);
    }
}

/* What is in Redis is found by its tag: the tags may never change. */
TEST(tags_are_the_same_for_ever)
{
    struct slots_tags tags;
    slots_tags_make(&tags);
    assert_string_equal(tags.tags[0], "{0.178}");
    assert_string_equal(tags.tags[17], "{17.139}");
    assert_string_equal(tags.tags[63], "{63.28}");
}

RUN(cmocka_unit_test(the_checksum_is_the_one_of_redis_cluster),
    cmocka_unit_test(only_the_tag_counts_if_there_is_one),
    cmocka_unit_test(cells_are_spread_evenly_over_the_slots),
    cmocka_unit_test(tags_are_the_same_for_ever))
