#include "hot/memory/spread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "hot/memory/members.h"
#include "sim/sim_rng.h"
#include "unit/test.h"

TEST(the_shard_of_a_cell_is_the_inverse_of_the_cell_of_a_shard)
{
    for (unsigned home = 0; home < LIMIT_CELLS; home++) {
        for (uint32_t shards = 1; shards <= LIMIT_CELLS; shards++) {
            struct spread spread = {.home = (uint8_t)home, .shards = shards};
            uint32_t owner[LIMIT_CELLS];
            memset(owner, 0xff, sizeof(owner));
            for (uint32_t shard = 0; shard < shards; shard++) {
                uint8_t cell = spread_cell(spread.home, shards, shard);
                assert_int_equal(owner[cell], UINT32_MAX); /* a cell holds one shard at most */
                owner[cell] = shard;
            }
            for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
                assert_int_equal(spread_shard_of(&spread, (uint8_t)cell), owner[cell]);
            assert_int_equal(owner[home], 0); /* the first shard stays at home */
        }
    }
}

TEST(every_slice_of_a_crowd_is_owned_by_a_cell_that_holds_a_shard)
{
    for (uint32_t shards = 1; shards <= LIMIT_CELLS; shards++) {
        struct crowd crowd = {.spread = {.home = 37, .shards = shards}, .slice_count = 64};
        unsigned slices[LIMIT_CELLS] = {0};
        for (uint32_t slice = 0; slice < CROWD_SLICES; slice++)
            slices[crowd_cell_of(&crowd, slice)]++;
        for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
            bool holds = spread_shard_of(&crowd.spread, (uint8_t)cell) != UINT32_MAX;
            unsigned least = CROWD_SLICES / shards;
            assert_true(holds ? slices[cell] == least || slices[cell] == least + 1
                              : slices[cell] == 0);
        }
    }
}

TEST(the_total_is_the_sum_of_the_parts)
{
    struct parts *parts = parts_new(SLICE("a"), 1, 0, 7, 100);
    struct sim_rng rng = {.state = 1};
    int64_t sum = 100;
    for (int i = 0; i < 1000; i++) {
        int64_t amount = (int64_t)sim_rng_below(&rng, 200) - 100;
        int64_t total;
        assert_int_equal(parts_add(parts, (uint32_t)sim_rng_below(&rng, 7), amount, &total),
                         ERR_OK);
        sum += amount;
        assert_int_equal(total, sum);
    }
    int64_t of_parts = 0;
    for (uint32_t shard = 0; shard < 7; shard++)
        of_parts += parts->part[shard].value;
    assert_int_equal(of_parts, sum);
    parts_set(parts, -3);
    of_parts = 0;
    for (uint32_t shard = 0; shard < 7; shard++)
        of_parts += parts->part[shard].value;
    assert_int_equal(of_parts, -3);
    assert_int_equal(parts->total, -3);
    parts_free(parts);
}

TEST(a_refused_add_changes_nothing)
{
    struct parts *parts = parts_new(SLICE("a"), 1, 0, 2, 10);
    parts->has_floor = true;
    parts->floor = -5;
    int64_t total = 77;
    assert_int_equal(parts_add(parts, 1, -16, &total), ERR_BELOW_FLOOR);
    assert_int_equal(parts_add(parts, 1, INT64_MAX, &total), ERR_OUT_OF_RANGE);
    assert_int_equal(total, 77);
    assert_int_equal(parts->total, 10);
    assert_int_equal(parts->part[1].value, 0);
    assert_int_equal(parts_add(parts, 1, -15, &total), ERR_OUT_OF_RANGE);
    assert_int_equal(parts_add(parts, 0, -15, &total), ERR_OK);
    assert_int_equal(total, -5);
    parts_free(parts);
}

TEST(what_is_above_the_floor_is_shared_out)
{
    static const struct {
        int64_t floor, total, first, others;
    } rows[] = {
        {0, 0, 0, 0},       {0, 3, 3, 0},
        {0, 7, 4, 1},       {-10, 30, 0, 10},
        {-10, -10, -10, 0}, {INT64_MIN, INT64_MAX, INT64_MIN / 2 + 2, INT64_MAX / 2},
        {0, -3, -3, 0}, /* it never is */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct parts *parts = parts_new(SLICE("a"), 1, 0, 4, rows[i].total);
        parts->has_floor = true;
        parts->floor = rows[i].floor;
        parts_level(parts);
        __int128 sum = 0;
        for (uint32_t shard = 0; shard < 4; shard++) {
            int64_t value = parts->part[shard].value;
            assert_int_equal(value, shard == 0 ? rows[i].first : rows[i].others);
            sum += value;
        }
        assert_true(sum == rows[i].total);
        parts_free(parts);
    }
}

TEST(parts_end_at_their_deadline_or_when_they_are_idle)
{
    struct parts *parts = parts_new(SLICE("a"), 1, 0, 2, 0);
    parts->spread.written_s = 1000;
    assert_false(parts_are_expired(parts, INT64_MAX));
    parts->idle_s = 10;
    assert_false(parts_are_expired(parts, 1009999));
    assert_true(parts_are_expired(parts, 1010000));
    parts->deadline_ms = 1005500;
    assert_false(parts_are_expired(parts, 1005499));
    assert_true(parts_are_expired(parts, 1005500));
    parts_free(parts);
}

/* ---- the directory ---- */

#define MANY 300u

struct crowded {
    struct directory directory;
    struct directory_copy copy;
    struct parts *parts[MANY];
};

static struct crowded *crowded_new(void)
{
    struct crowded *crowded = calloc(1, sizeof(*crowded));
    assert_non_null(crowded);
    directory_init(&crowded->directory);
    for (unsigned i = 0; i < MANY; i++) {
        char id[256];
        int size = snprintf(id, sizeof(id), "id%u", i);
        struct slice name = {id, (size_t)size};
        crowded->parts[i] = parts_new(name, hash_keyed(name, 5), 0, 2, 0);
    }
    return crowded;
}

static void crowded_free(struct crowded *crowded)
{
    for (unsigned i = 0; i < MANY; i++)
        parts_free(crowded->parts[i]);
    directory_done(&crowded->directory);
    free(crowded);
}

static bool is_found(const struct crowded *crowded, unsigned i)
{
    const struct spread *wanted = &crowded->parts[i]->spread;
    int at = directory_find(&crowded->copy, wanted->hash, spread_id(wanted));
    assert_true(at < 0 || crowded->copy.slots[at].spread == wanted);
    return at >= 0;
}

TEST(a_copy_finds_what_the_directory_holds_and_nothing_else)
{
    struct crowded *crowded = crowded_new();
    struct sim_rng rng = {.state = 3};
    bool in[MANY] = {false};
    unsigned count = 0;
    for (unsigned round = 0; round < 3000; round++) {
        unsigned i = (unsigned)sim_rng_below(&rng, MANY);
        if (in[i]) {
            directory_remove(&crowded->directory, &crowded->parts[i]->spread);
            in[i] = false;
            count--;
        } else if (directory_has_room(&crowded->directory)) {
            directory_add(&crowded->directory, &crowded->parts[i]->spread);
            in[i] = true;
            count++;
        }
        if (round % 100 != 0)
            continue;
        directory_refresh(&crowded->directory, &crowded->copy);
        assert_int_equal(crowded->copy.count, count);
        for (unsigned n = 0; n < MANY; n++)
            assert_int_equal(is_found(crowded, n), in[n]);
    }
    crowded_free(crowded);
}

TEST(a_full_directory_takes_no_more)
{
    struct crowded *crowded = crowded_new();
    for (unsigned i = 0; i < MANY; i++)
        directory_add(&crowded->directory, &crowded->parts[i]->spread);
    assert_false(directory_has_room(&crowded->directory));
    directory_refresh(&crowded->directory, &crowded->copy);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(is_found(crowded, i), i < DIRECTORY_MAX);
    crowded_free(crowded);
}

RUN(cmocka_unit_test(the_shard_of_a_cell_is_the_inverse_of_the_cell_of_a_shard),
    cmocka_unit_test(every_slice_of_a_crowd_is_owned_by_a_cell_that_holds_a_shard),
    cmocka_unit_test(the_total_is_the_sum_of_the_parts),
    cmocka_unit_test(a_refused_add_changes_nothing),
    cmocka_unit_test(what_is_above_the_floor_is_shared_out),
    cmocka_unit_test(parts_end_at_their_deadline_or_when_they_are_idle),
    cmocka_unit_test(a_copy_finds_what_the_directory_holds_and_nothing_else),
    cmocka_unit_test(a_full_directory_takes_no_more))
