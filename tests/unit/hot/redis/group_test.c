/* Records and users of a call are found in tables that clients fill with ids of their choice. Which
 * places they take is looked at from the inside. */
#include "hot/redis/group.c" // NOLINT(bugprone-suspicious-include)

#include "unit/test.h"

#define MANY (RUN_OPS_MAX / 2)

/* They meet in one place for whoever knows no key. */
static uint64_t chosen(uint64_t i)
{
    return i << 32 | 17 * LIMIT_CELLS;
}

/* Places of one round that lie behind one another, at most. */
static unsigned longest_stretch(const uint32_t *rounds, size_t places, uint32_t round)
{
    unsigned longest = 0;
    unsigned length = 0;
    for (size_t i = 0; i < places; i++) {
        length = rounds[i] == round ? length + 1 : 0;
        longest = length > longest ? length : longest;
    }
    return longest;
}

TEST(what_meets_without_the_key_does_not_meet_in_the_tables_of_a_call)
{
    struct layer layer = {.env = env_system()};
    struct groups *groups = groups_new(&layer);
    groups->round++;
    groups->user_round++;
    for (uint64_t i = 0; i < MANY; i++) {
        struct op op = {.target = SLICE("id"), .stable = chosen(i)};
        assert_non_null(record_of(groups, &op));
        assert_true(is_new_user(groups, chosen(i)));
        assert_false(is_new_user(groups, chosen(i)));
        groups_learn(groups, chosen(i), 1, true);
    }
    assert_int_equal(groups->record_count, MANY);
    assert_true(longest_stretch(groups->place_rounds, RECORD_PLACES, groups->round) < MANY / 4);
    assert_true(longest_stretch(groups->user_rounds, USER_PLACES, groups->user_round) < MANY / 4);
    unsigned known = 0;
    for (uint64_t i = 0; i < MANY; i++)
        known += groups_hint(groups, chosen(i)) == 1;
    assert_true(known > MANY / 2);
    groups_free(groups);
}

RUN(cmocka_unit_test(what_meets_without_the_key_does_not_meet_in_the_tables_of_a_call))
