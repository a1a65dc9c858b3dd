/* Clients choose the ids, names and keys whose hashes stand in this table. */
#include "store/sqlite/ids.h"

#include "unit/test.h"

#include "base/env.h"

#define MANY 500u

/* Slots that lie behind one another, at most. */
static size_t longest_stretch(const struct ids *ids)
{
    size_t longest = 0;
    size_t length = 0;
    for (size_t i = 0; i <= ids->mask; i++) {
        length = ids->slots[i].number == 0 ? 0 : length + 1;
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* They meet in one slot for whoever knows no key. */
static uint64_t chosen(uint64_t i)
{
    return i << 32 | 17;
}

TEST(hashes_that_meet_without_the_key_do_not_meet_in_the_table)
{
    struct ids ids;
    ids_init(&ids, 0, env_random(env_system()));
    for (uint64_t i = 1; i <= MANY; i++)
        ids_put(&ids, chosen(i), i);
    assert_true(longest_stretch(&ids) < 100);
    for (uint64_t i = 1; i <= MANY; i++)
        assert_int_equal(ids_get(&ids, chosen(i)), i);
    assert_int_equal(ids_get(&ids, chosen(MANY + 1)), 0);
    ids_done(&ids);
}

TEST(a_table_that_grows_keeps_everything)
{
    struct ids ids;
    ids_init(&ids, 0, env_random(env_system()));
    for (uint64_t i = 1; i <= 20 * MANY; i++)
        ids_set(&ids, chosen(i), i);
    ids_set(&ids, chosen(7), 8);
    for (uint64_t i = 1; i <= 20 * MANY; i++)
        assert_int_equal(ids_get(&ids, chosen(i)), i == 7 ? 8 : i);
    ids_done(&ids);
}

TEST(two_things_of_one_hash_are_both_found)
{
    struct ids ids;
    size_t at = SIZE_MAX;
    ids_init(&ids, 0, env_random(env_system()));
    ids_put(&ids, 17, 1);
    ids_put(&ids, 17, 2);
    assert_int_equal(ids_next(&ids, 17, &at) + ids_next(&ids, 17, &at), 3);
    assert_int_equal(ids_next(&ids, 17, &at), 0);
    ids_done(&ids);
}

TEST(a_table_that_may_forget_is_emptied_when_it_is_full)
{
    struct ids ids;
    ids_init(&ids, 3, env_random(env_system()));
    for (uint64_t i = 1; i <= 4; i++)
        ids_put(&ids, chosen(i), i);
    assert_int_equal(ids.count, 1);
    assert_int_equal(ids_get(&ids, chosen(4)), 4);
    assert_int_equal(ids_get(&ids, chosen(1)), 0);
    ids_done(&ids);
}

RUN(cmocka_unit_test(hashes_that_meet_without_the_key_do_not_meet_in_the_table),
    cmocka_unit_test(a_table_that_grows_keeps_everything),
    cmocka_unit_test(two_things_of_one_hash_are_both_found),
    cmocka_unit_test(a_table_that_may_forget_is_emptied_when_it_is_full))
