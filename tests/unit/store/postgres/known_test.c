/* Clients choose the ids whose hashes stand in this table. */
#include "store/postgres/known.h"

#include "unit/test.h"

#include "base/env.h"

#define MANY 500u

/* Slots that lie behind one another, at most. */
static size_t longest_stretch(const struct known *known)
{
    size_t longest = 0;
    size_t length = 0;
    for (size_t i = 0; i <= known->mask; i++) {
        length = known->slots[i] == 0 ? 0 : length + 1;
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
    struct known known;
    known_init(&known, env_random(env_system()));
    for (uint64_t i = 0; i < MANY; i++)
        known_add(&known, chosen(i));
    assert_true(longest_stretch(&known) < 100);
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(known_has(&known, chosen(i)));
    assert_false(known_has(&known, chosen(MANY)));
    known_done(&known);
}

TEST(a_table_that_grows_keeps_everything)
{
    struct known known;
    known_init(&known, env_random(env_system()));
    for (uint64_t i = 0; i < 20 * MANY; i++)
        known_add(&known, i);
    assert_int_equal(known.count, 20 * MANY - 1); /* 0 stands for 1 as well */
    for (uint64_t i = 0; i < 20 * MANY; i++)
        assert_true(known_has(&known, i));
    known_clear(&known);
    assert_false(known_has(&known, 5));
    known_done(&known);
}

RUN(cmocka_unit_test(hashes_that_meet_without_the_key_do_not_meet_in_the_table),
    cmocka_unit_test(a_table_that_grows_keeps_everything))
