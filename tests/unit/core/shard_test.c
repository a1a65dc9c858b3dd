#include "core/shard.h"

#include "unit/test.h"

#define HASH 12345u

static struct shard_picker picker_of(uint32_t worker)
{
    struct shard_picker picker;
    shard_picker_init(&picker, worker, 42 + worker);
    return picker;
}

TEST(local_stays_with_the_worker)
{
    for (uint32_t worker = 0; worker < LIMIT_WORKERS; worker++) {
        struct shard_picker picker = picker_of(worker);
        for (uint32_t shards = 1; shards <= LIMIT_CELLS; shards++)
            assert_int_equal(shard_pick(&picker, POLICY_LOCAL, HASH, shards, NULL),
                             worker % shards);
    }
}

TEST(random_uses_all_shards_about_equally)
{
    struct shard_picker picker = picker_of(3);
    for (uint32_t shards = 1; shards <= LIMIT_CELLS; shards++) {
        unsigned picked[LIMIT_CELLS] = {0};
        for (unsigned i = 0; i < 1000 * shards; i++) {
            uint32_t shard = shard_pick(&picker, POLICY_RANDOM, HASH, shards, NULL);
            assert_true(shard < shards);
            picked[shard]++;
        }
        for (uint32_t shard = 0; shard < shards; shard++)
            assert_in_range(picked[shard], 850, 1150);
    }
}

TEST(random_differs_from_worker_to_worker)
{
    struct shard_picker a = picker_of(0);
    struct shard_picker b = picker_of(1);
    unsigned same = 0;
    for (unsigned i = 0; i < 6400; i++)
        same += shard_pick(&a, POLICY_RANDOM, HASH, 64, NULL) ==
                shard_pick(&b, POLICY_RANDOM, HASH, 64, NULL);
    assert_in_range(same, 50, 150);
}

TEST(a_round_visits_every_shard_once)
{
    for (uint32_t shards = 1; shards <= LIMIT_CELLS; shards++) {
        struct shard_picker picker = picker_of(shards % LIMIT_WORKERS);
        unsigned picked[LIMIT_CELLS] = {0};
        for (unsigned i = 0; i < 300 * shards; i++)
            picked[shard_pick(&picker, POLICY_ROUND_ROBIN, HASH, shards, NULL)]++;
        for (uint32_t shard = 0; shard < shards; shard++)
            assert_int_equal(picked[shard], 300);
    }
}

TEST(rounds_of_two_counters_do_not_disturb_each_other)
{
    struct shard_picker picker = picker_of(0);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(shard_pick(&picker, POLICY_ROUND_ROBIN, 1, 2, NULL), i % 2);
        assert_int_equal(shard_pick(&picker, POLICY_ROUND_ROBIN, 2, 2, NULL), i % 2);
    }
}

TEST(workers_start_their_rounds_at_different_shards)
{
    for (uint32_t worker = 0; worker < 8; worker++) {
        struct shard_picker picker = picker_of(worker);
        assert_int_equal(shard_pick(&picker, POLICY_ROUND_ROBIN, HASH, 8, NULL), worker);
    }
}

TEST(a_round_goes_on_after_folding)
{
    struct shard_picker picker = picker_of(0);
    for (unsigned i = 0; i < 7; i++)
        shard_pick(&picker, POLICY_ROUND_ROBIN, HASH, 8, NULL);
    unsigned picked[2] = {0};
    for (unsigned i = 0; i < 10; i++)
        picked[shard_pick(&picker, POLICY_ROUND_ROBIN, HASH, 2, NULL)]++;
    assert_int_equal(picked[0], 5);
    assert_int_equal(picked[1], 5);
}

TEST(least_loaded_takes_the_least)
{
    struct shard_picker picker = picker_of(5);
    uint64_t loads[LIMIT_CELLS];
    for (uint32_t least = 0; least < LIMIT_CELLS; least++) {
        for (uint32_t shard = 0; shard < LIMIT_CELLS; shard++)
            loads[shard] = 1000 + shard;
        loads[least] = 999;
        assert_int_equal(shard_pick(&picker, POLICY_LEAST_LOADED, HASH, LIMIT_CELLS, loads), least);
    }
}

TEST(least_loaded_with_equal_loads_stays_with_the_worker)
{
    static const uint64_t loads[8];
    for (uint32_t worker = 0; worker < 16; worker++) {
        struct shard_picker picker = picker_of(worker);
        assert_int_equal(shard_pick(&picker, POLICY_LEAST_LOADED, HASH, 8, loads), worker % 8);
    }
}

TEST(least_loaded_evens_loads_out)
{
    struct shard_picker picker = picker_of(0);
    uint64_t loads[7] = {500, 3, 70, 0, 500, 20, 1};
    for (unsigned i = 0; i < 7 * 1000; i++)
        loads[shard_pick(&picker, POLICY_LEAST_LOADED, HASH, 7, loads)]++;
    for (unsigned i = 0; i < 7; i++)
        assert_in_range(loads[i], 1156, 1157);
}

RUN(cmocka_unit_test(local_stays_with_the_worker),
    cmocka_unit_test(random_uses_all_shards_about_equally),
    cmocka_unit_test(random_differs_from_worker_to_worker),
    cmocka_unit_test(a_round_visits_every_shard_once),
    cmocka_unit_test(rounds_of_two_counters_do_not_disturb_each_other),
    cmocka_unit_test(workers_start_their_rounds_at_different_shards),
    cmocka_unit_test(a_round_goes_on_after_folding), cmocka_unit_test(least_loaded_takes_the_least),
    cmocka_unit_test(least_loaded_with_equal_loads_stays_with_the_worker),
    cmocka_unit_test(least_loaded_evens_loads_out))
