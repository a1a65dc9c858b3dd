#include "hot/memory/set.h"

#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

TEST(zeroed_memory_is_an_empty_set)
{
    struct set set = {0};
    assert_false(set_has(&set, 0));
    assert_false(set_remove(&set, 0));
    uint32_t page[1];
    assert_int_equal(set_page(&set, 0, page, 1), 0);
    assert_int_equal(set_recount(&set), 0);
    assert_int_equal(set_bytes(&set), 0);
    set_done(&set);
}

TEST(a_member_is_added_once_and_removed_once)
{
    struct set set = {0};
    assert_true(set_add(&set, 7));
    assert_false(set_add(&set, 7));
    assert_int_equal(set.count, 1);
    assert_true(set_remove(&set, 7));
    assert_false(set_remove(&set, 7));
    assert_int_equal(set.count, 0);
    assert_null(set.body); /* an emptied set holds no memory */
}

TEST(an_array_becomes_gaps_when_it_is_full_and_stays_until_it_is_empty)
{
    struct set set = {0};
    for (uint32_t i = 0; i < SET_ARRAY_MAX; i++)
        assert_true(set_add(&set, i * 10));
    assert_int_not_equal(set.capacity, SET_GAPS);
    assert_false(set_add(&set, 0)); /* nothing new: no reason to change */
    assert_int_not_equal(set.capacity, SET_GAPS);
    assert_true(set_add(&set, 5));
    assert_int_equal(set.capacity, SET_GAPS);

    for (uint32_t i = 0; i < SET_ARRAY_MAX; i++)
        assert_true(set_remove(&set, i * 10));
    assert_int_equal(set.capacity, SET_GAPS);
    assert_true(set_has(&set, 5));
    assert_true(set_remove(&set, 5));
    assert_int_equal(set.capacity, 0);
    assert_null(set.body);
    assert_true(set_add(&set, 1));
    set_done(&set);
}

TEST(the_ends_of_the_range_are_members_like_others)
{
    struct set set = {0};
    assert_true(set_add(&set, UINT32_MAX));
    assert_true(set_add(&set, 0));
    for (uint32_t i = 1; i <= SET_ARRAY_MAX; i++) {
        uint32_t page[1];
        assert_int_equal(set_page(&set, UINT32_MAX, page, 1), 1);
        assert_int_equal(page[0], UINT32_MAX);
        assert_true(set_add(&set, i));
        assert_int_equal(set_recount(&set), i + 2);
    }
    assert_true(set_has(&set, 0));
    assert_true(set_has(&set, UINT32_MAX));
    set_done(&set);
}

TEST(ten_members_cost_less_than_fifty_bytes)
{
    struct set set = {0};
    for (uint32_t i = 0; i < 10; i++)
        set_add(&set, i * 0x10000000);
    assert_in_range(set_bytes(&set), 40, 49);
    set_done(&set);
}

TEST(an_array_that_shrinks_gives_memory_back)
{
    struct set set = {0};
    for (uint32_t i = 0; i < 200; i++)
        set_add(&set, i);
    size_t full = set_bytes(&set);
    for (uint32_t i = 0; i < 190; i++)
        assert_true(set_remove(&set, i));
    assert_true(set_bytes(&set) < full / 4);
    assert_int_equal(set_recount(&set), 10);
    set_done(&set);
}

TEST(pages_put_together_are_the_set)
{
    struct sim_rng rng = {9};
    struct set set = {0};
    for (uint32_t members = 1; members <= 100000; members *= 10) {
        while (set.count < members)
            set_add(&set, (uint32_t)sim_rng_next(&rng));
        uint32_t seen = 0;
        uint32_t page[33];
        uint64_t from = 0;
        for (uint32_t found; from <= UINT32_MAX; from = (uint64_t)page[found - 1] + 1) {
            found = set_page(&set, (uint32_t)from, page, 33);
            if (found == 0)
                break;
            for (uint32_t i = 0; i < found; i++) {
                assert_true(page[i] >= from);
                assert_true(i == 0 || page[i] > page[i - 1]);
                assert_true(set_has(&set, page[i]));
            }
            seen += found;
        }
        assert_int_equal(seen, set.count);
        assert_int_equal(set_page(&set, 0, page, 0), 0);
    }
    set_done(&set);
}

/* What the README says of memory: a million likers of one item, out of a hundred
 * million ids, cut into 64 slices by a hash. */
TEST(a_slice_of_a_large_crowd_takes_less_than_three_bytes_a_member)
{
    struct sim_rng rng = {5};
    struct set set = {0};
    for (uint32_t i = 0; i < 1000000 / 64; i++)
        set_add(&set, (uint32_t)sim_rng_below(&rng, 100000000));
    assert_true(set_bytes(&set) < 3 * set.count);
    set_done(&set);
}

/* The model: a byte for each number of a small range. */
#define RANGE 3000u

static bool model[RANGE];

static void assert_equals_model(const struct set *set)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RANGE; i++) {
        assert_int_equal(set_has(set, i), model[i]);
        count += model[i];
    }
    assert_int_equal(set->count, count);
    assert_int_equal(set_recount(set), count);
}

TEST(random_adding_and_removing_agrees_with_an_array_of_flags)
{
    struct sim_rng rng = {11};
    struct set set = {0};
    memset(model, 0, sizeof(model));
    /* The set swells and empties again and again, through both forms. */
    for (int wave = 0; wave < 12; wave++) {
        unsigned permille = wave % 2 ? 30 : 700;
        uint32_t range = wave % 3 ? RANGE : SET_ARRAY_MAX;
        for (int step = 0; step < 6000; step++) {
            uint32_t i = (uint32_t)sim_rng_below(&rng, wave % 2 ? RANGE : range);
            if (sim_rng_chance(&rng, permille)) {
                assert_int_equal(set_add(&set, i), !model[i]);
                model[i] = true;
            } else {
                assert_int_equal(set_remove(&set, i), model[i]);
                model[i] = false;
            }
        }
        assert_equals_model(&set);
    }
    set_done(&set);
}

RUN(cmocka_unit_test(zeroed_memory_is_an_empty_set),
    cmocka_unit_test(a_member_is_added_once_and_removed_once),
    cmocka_unit_test(an_array_becomes_gaps_when_it_is_full_and_stays_until_it_is_empty),
    cmocka_unit_test(the_ends_of_the_range_are_members_like_others),
    cmocka_unit_test(ten_members_cost_less_than_fifty_bytes),
    cmocka_unit_test(an_array_that_shrinks_gives_memory_back),
    cmocka_unit_test(pages_put_together_are_the_set),
    cmocka_unit_test(a_slice_of_a_large_crowd_takes_less_than_three_bytes_a_member),
    cmocka_unit_test(random_adding_and_removing_agrees_with_an_array_of_flags))
