#include "hot/memory/table.h"

#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

/* A hash with the given tag; the low half does not matter. */
static uint64_t hash_with_tag(uint32_t tag)
{
    return (uint64_t)tag << 32 | 0x5eed;
}

static bool is_there(const struct table *table, uint64_t hash, uint32_t wanted)
{
    unsigned times = 0;
    uint32_t at = TABLE_START;
    for (uint32_t ref; (ref = table_find(table, hash, &at)) != 0;)
        times += ref == wanted;
    assert_true(times <= 1);
    return times == 1;
}

TEST(an_empty_table_finds_nothing)
{
    struct table table;
    table_init(&table, 0);
    for (uint32_t tag = 0; tag < 1000; tag++)
        assert_false(is_there(&table, hash_with_tag(tag), 1));
    table_prefetch(&table, hash_with_tag(UINT32_MAX));
    table_done(&table);
}

TEST(records_with_equal_hash_bits_are_walked_one_by_one)
{
    struct table table;
    table_init(&table, 0);
    for (uint32_t ref = 1; ref <= 200; ref++)
        table_add(&table, hash_with_tag(7), ref);

    bool seen[201] = {false};
    uint32_t at = TABLE_START;
    for (uint32_t ref; (ref = table_find(&table, hash_with_tag(7), &at)) != 0;) {
        assert_false(seen[ref]);
        seen[ref] = true;
    }
    for (uint32_t ref = 1; ref <= 200; ref++)
        assert_true(seen[ref]);
    table_done(&table);
}

TEST(a_gone_record_is_not_taken_for_one_with_its_hash)
{
    /* Whatever stands for "gone" must not look like a record of any tag. */
    for (uint32_t tag = 0; tag < 4; tag++) {
        struct table table;
        table_init(&table, 0);
        table_add(&table, hash_with_tag(tag), 5);
        table_add(&table, hash_with_tag(tag), 6);
        table_add(&table, hash_with_tag(tag), 7);
        table_remove(&table, hash_with_tag(tag), 5);
        assert_false(is_there(&table, hash_with_tag(tag), 5));
        assert_true(is_there(&table, hash_with_tag(tag), 6));
        assert_true(is_there(&table, hash_with_tag(tag), 7));
        assert_int_equal(table.count, 2);
        table_done(&table);
    }
}

TEST(a_walk_goes_around_the_end)
{
    struct table table;
    table_init(&table, 0);
    uint64_t hash = hash_with_tag(UINT32_MAX); /* the last slot */
    table_add(&table, hash, 1);
    table_add(&table, hash, 2);
    table_add(&table, hash, 3);
    assert_true(is_there(&table, hash, 3));
    table_remove(&table, hash, 2);
    assert_true(is_there(&table, hash, 3));
    table_remove(&table, hash, 3);
    assert_int_equal(table.used, 1); /* gone slots at a walk's end are empty again */
    table_done(&table);
}

TEST(coming_and_going_does_not_make_it_grow)
{
    struct table table;
    table_init(&table, 0);
    struct sim_rng rng = {3};
    uint64_t hashes[20];
    for (uint32_t i = 0; i < 20; i++) {
        hashes[i] = sim_rng_next(&rng);
        table_add(&table, hashes[i], i + 1);
    }
    size_t bytes = table_bytes(&table);
    for (int round = 0; round < 100000; round++) {
        uint32_t i = (uint32_t)sim_rng_below(&rng, 20);
        table_remove(&table, hashes[i], i + 1);
        hashes[i] = sim_rng_next(&rng);
        table_add(&table, hashes[i], i + 1);
    }
    assert_int_equal(table_bytes(&table), bytes);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(is_there(&table, hashes[i], i + 1));
    table_done(&table);
}

TEST(tables_of_different_salt_grow_at_different_moments)
{
    unsigned grown_at[16];
    for (uint32_t salt = 0; salt < 16; salt++) {
        struct table table;
        table_init(&table, salt);
        struct sim_rng rng = {salt};
        while (table.size <= 4096)
            table_add(&table, sim_rng_next(&rng), table.count + 1);
        grown_at[salt] = table.count;
        assert_in_range(table.count, 4096 * 60 / 100, 4096 * 75 / 100 + 1);
        table_done(&table);
    }
    for (unsigned salt = 1; salt < 16; salt++)
        assert_true(grown_at[salt] > grown_at[salt - 1]);
}

/* The model: for each ref the hash it was added with, or nothing. */
#define REFS 4000

static uint64_t model_hash[REFS + 1];
static bool model_live[REFS + 1];

static void assert_equals_model(const struct table *table)
{
    uint32_t live = 0;
    for (uint32_t ref = 1; ref <= REFS; ref++) {
        assert_int_equal(is_there(table, model_hash[ref], ref), model_live[ref]);
        live += model_live[ref];
    }
    assert_int_equal(table->count, live);
    assert_true(table->used >= table->count && table->used <= table->limit);
}

TEST(random_adding_and_removing_agrees_with_a_list)
{
    for (uint32_t seed = 1; seed <= 6; seed++) {
        memset(model_live, 0, sizeof(model_live));
        struct sim_rng rng = {seed};
        struct table table;
        table_init(&table, seed);
        /* Some seeds have few tags, so that most records collide. */
        uint64_t tags = seed % 2 ? UINT64_C(1) << 32 : 1000;
        for (int step = 0; step < 30000; step++) {
            uint32_t ref = 1 + (uint32_t)sim_rng_below(&rng, REFS);
            if (model_live[ref]) {
                table_remove(&table, model_hash[ref], ref);
            } else {
                model_hash[ref] = hash_with_tag((uint32_t)sim_rng_below(&rng, tags));
                table_add(&table, model_hash[ref], ref);
            }
            model_live[ref] = !model_live[ref];
            if (step % 6000 == 0)
                assert_equals_model(&table);
        }
        assert_equals_model(&table);
        table_done(&table);
    }
}

TEST(a_table_that_has_become_empty_gives_slots_back_and_loses_nothing)
{
    struct table table;
    table_init(&table, 3);
    for (uint32_t ref = 1; ref <= 100000; ref++)
        table_add(&table, hash_with_tag(ref * 40503u), ref);
    size_t full = table_bytes(&table);
    table_fit(&table);
    assert_int_equal(table_bytes(&table), full);

    for (uint32_t ref = 1; ref <= 99000; ref++)
        table_remove(&table, hash_with_tag(ref * 40503u), ref);
    table_fit(&table);
    assert_true(table_bytes(&table) < full / 20);
    for (uint32_t ref = 1; ref <= 100000; ref++)
        assert_int_equal(is_there(&table, hash_with_tag(ref * 40503u), ref), ref > 99000);
    table_done(&table);
}

RUN(cmocka_unit_test(an_empty_table_finds_nothing),
    cmocka_unit_test(records_with_equal_hash_bits_are_walked_one_by_one),
    cmocka_unit_test(a_gone_record_is_not_taken_for_one_with_its_hash),
    cmocka_unit_test(a_walk_goes_around_the_end),
    cmocka_unit_test(coming_and_going_does_not_make_it_grow),
    cmocka_unit_test(tables_of_different_salt_grow_at_different_moments),
    cmocka_unit_test(a_table_that_has_become_empty_gives_slots_back_and_loses_nothing),
    cmocka_unit_test(random_adding_and_removing_agrees_with_a_list))
