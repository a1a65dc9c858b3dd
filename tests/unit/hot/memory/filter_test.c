/* threads */
#include "hot/memory/filter.h"

#include <pthread.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

TEST(what_was_added_is_always_found)
{
    struct filter *filter = filter_new(0, FILTER_BITS);
    struct sim_rng rng = {7};
    for (int i = 0; i < 300000; i++)
        filter_add(filter, sim_rng_next(&rng));
    rng = (struct sim_rng){7};
    for (int i = 0; i < 300000; i++)
        assert_true(filter_may_have(filter, sim_rng_next(&rng)));
    filter_free(filter);
}

static double strangers_taken(const struct filter *filter, uint64_t seed)
{
    struct sim_rng rng = {seed};
    int taken = 0;
    for (int i = 0; i < 100000; i++)
        taken += filter_may_have(filter, sim_rng_next(&rng));
    return taken / 100000.0;
}

TEST(one_stranger_in_a_hundred_is_taken_for_known)
{
    struct filter *filter = filter_new(200000, FILTER_BITS);
    struct sim_rng rng = {11};
    assert_true(strangers_taken(filter, 12) == 0);
    for (int i = 0; i < 199000; i++)
        filter_add(filter, sim_rng_next(&rng));
    assert_true(strangers_taken(filter, 12) < 0.012);
    assert_true(filter_bytes(filter) < 200000 * 13 / 8);
    filter_free(filter);
}

TEST(a_fine_filter_takes_one_in_thousands)
{
    struct filter *filter = filter_new(200000, FILTER_BITS_FINE);
    struct sim_rng rng = {21};
    for (int i = 0; i < 199000; i++)
        filter_add(filter, sim_rng_next(&rng));
    assert_true(strangers_taken(filter, 22) < 0.001);
    filter_free(filter);
}

TEST(a_filter_that_has_grown_eightfold_still_tells_strangers_apart)
{
    struct filter *filter = filter_new(20000, FILTER_BITS);
    struct sim_rng rng = {13};
    for (int i = 0; i < 160000; i++)
        filter_add(filter, sim_rng_next(&rng));
    assert_true(strangers_taken(filter, 14) < 0.04);
    filter_free(filter);
}

TEST(adding_the_same_again_costs_no_room)
{
    struct filter *filter = filter_new(5000, FILTER_BITS);
    size_t bytes = filter_bytes(filter);
    for (int round = 0; round < 100; round++)
        for (uint64_t i = 0; i < 4000; i++)
            filter_add(filter, i * UINT64_C(0x9e3779b97f4a7c15));
    assert_int_equal(filter_bytes(filter), bytes);
    filter_free(filter);
}

static void *add_many(void *arg)
{
    struct filter *filter = arg;
    struct sim_rng rng = {99};
    for (int i = 0; i < 100000; i++)
        filter_add(filter, sim_rng_next(&rng));
    return NULL;
}

TEST(threads_may_add_while_others_ask)
{
    struct filter *filter = filter_new(0, FILTER_BITS);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, add_many, filter), 0);
    struct sim_rng rng = {100};
    for (int i = 0; i < 100000; i++) {
        uint64_t hash = sim_rng_next(&rng);
        filter_add(filter, hash);
        assert_true(filter_may_have(filter, hash));
    }
    pthread_join(thread, NULL);
    rng = (struct sim_rng){99};
    for (int i = 0; i < 100000; i++)
        assert_true(filter_may_have(filter, sim_rng_next(&rng)));
    filter_free(filter);
}

RUN(cmocka_unit_test(what_was_added_is_always_found),
    cmocka_unit_test(one_stranger_in_a_hundred_is_taken_for_known),
    cmocka_unit_test(a_fine_filter_takes_one_in_thousands),
    cmocka_unit_test(a_filter_that_has_grown_eightfold_still_tells_strangers_apart),
    cmocka_unit_test(adding_the_same_again_costs_no_room),
    cmocka_unit_test(threads_may_add_while_others_ask))
