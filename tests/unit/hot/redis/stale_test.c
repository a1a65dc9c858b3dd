/* What the store has said, and how old it is. It is found in a table that clients fill with ids of
 * their choice: the lengths of its lists are looked at from the inside. */
#include "hot/redis/stale.c" // NOLINT(bugprone-suspicious-include)

#include <stdio.h>

#include "unit/test.h"

#define MANY 200u

static struct kinds kinds;

/* Ids that meet in one list for whoever knows no key. */
static void make_ids(char ids[MANY][16], uint64_t seed, unsigned lists)
{
    unsigned found = 0;
    for (unsigned n = 0; found < MANY; n++) {
        snprintf(ids[found], sizeof(ids[0]), "id-%u", n);
        found += hash_keyed(slice_of(ids[found]), seed) % lists == 17;
    }
}

TEST(ids_that_meet_without_the_key_do_not_meet_among_stale_answers)
{
    char ids[MANY][16];
    make_ids(ids, STALE_WHOLE, BUCKETS);
    struct stales *stales = stales_new(env_system(), 0);
    for (unsigned i = 0; i < MANY; i++) {
        struct image image;
        image_init(&image, &kinds);
        stales_put(stales, slice_of(ids[i]), STALE_WHOLE, &image, NULL);
    }
    unsigned longest = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        unsigned length = 0;
        for (const struct answer *answer = stales->buckets[i]; answer; answer = answer->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(longest < 8);
    stales_free(stales);
}

/* ---- how old ---- */

#define HOME  UINT64_C(1)
#define CELLS (HOME | UINT64_C(1) << 5 | UINT64_C(1) << 7)

/* As of when a counter of 5 is answered, that is in these cells. */
static int64_t as_of(const int64_t *times_ms, int64_t written_ms, uint32_t shards, uint64_t cells)
{
    struct stales *stales = stales_new(env_system(), 0);
    struct image image;
    image_init(&image, &kinds);
    image.is_there = true;
    image.written_ms = written_ms;
    image.create.shards = shards;
    image.value = number_of(5);
    stales_put(stales, SLICE("c"), STALE_WHOLE, &image, times_ms);
    uint32_t slice;
    struct op op = {.kind = OP_GET, .id = SLICE("c"), .target = SLICE("c")};
    assert_true(stales_answer(stales, &op, cells, &slice));
    assert_int_equal(op.code, ERR_OK);
    assert_true(op.stale);
    assert_int_equal(op.value.small, 5);
    stales_free(stales);
    return op.as_of_ms;
}

TEST(what_is_in_one_lane_is_true_as_of_the_last_event_that_the_store_has_of_that_lane)
{
    int64_t times_ms[LIMIT_CELLS] = {[0] = 900, [5] = 300};
    assert_int_equal(as_of(times_ms, 200, 1, HOME), 900);
}

TEST(or_as_of_its_own_last_event_where_lanes_are_not_known)
{
    assert_int_equal(as_of(NULL, 200, 1, HOME), 200);
}

TEST(what_is_in_many_lanes_is_true_as_of_the_slowest)
{
    int64_t times_ms[LIMIT_CELLS] = {[0] = 900, [5] = 300, [7] = 500};
    assert_int_equal(as_of(times_ms, 800, 3, CELLS), 300);
    assert_int_equal(as_of(times_ms, 800, 1, CELLS), 300); /* it was spread since */
}

TEST(what_was_to_be_spread_may_be_in_any_lane)
{
    int64_t times_ms[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        times_ms[i] = 400 + i;
    times_ms[40] = 100;
    assert_int_equal(as_of(times_ms, 800, 3, HOME), 100);
}

TEST(what_nobody_knows_is_as_old_as_time)
{
    int64_t times_ms[LIMIT_CELLS] = {[0] = 900, [5] = 300};
    assert_int_equal(as_of(times_ms, 800, 1, CELLS), 1);
}

RUN(cmocka_unit_test(ids_that_meet_without_the_key_do_not_meet_among_stale_answers),
    cmocka_unit_test(
        what_is_in_one_lane_is_true_as_of_the_last_event_that_the_store_has_of_that_lane),
    cmocka_unit_test(or_as_of_its_own_last_event_where_lanes_are_not_known),
    cmocka_unit_test(what_is_in_many_lanes_is_true_as_of_the_slowest),
    cmocka_unit_test(what_was_to_be_spread_may_be_in_any_lane),
    cmocka_unit_test(what_nobody_knows_is_as_old_as_time))
