#include "core/heat.h"

#include <stdbool.h>

#include "unit/test.h"

/* ---- how many ---- */

static const struct heat_rule rule = {.spread_rate = 100000, .shards_max = 16};

TEST(one_worker_never_spreads_and_more_have_four_shards_each)
{
    static const unsigned expected[][2] = {{1, 1},  {2, 8},   {3, 16},  {4, 16},  {5, 32}, {8, 32},
                                           {9, 64}, {16, 64}, {17, 64}, {40, 64}, {64, 64}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(heat_shards_max(expected[i][0]), expected[i][1]);
}

TEST(a_window_is_judged_by_rate_contention_and_patience)
{
    static const struct {
        struct heat_window seen; /* writes, duration_ms, taken_per_mille */
        uint32_t shards;
        uint32_t asked;
        uint8_t quiet;
        struct heat_verdict verdict; /* shards, reason, quiet_windows */
    } table[] = {
        /* cold things stay as they are */
        {{0, 1000, 0}, 1, 1, 0, {1, HEAT_UNCHANGED, 0}},
        {{100000, 1000, 0}, 1, 1, 0, {1, HEAT_UNCHANGED, 0}},
        {{12000, 1000, 1000}, 1, 1, 0, {1, HEAT_UNCHANGED, 0}},
        /* busy */
        {{100001, 1000, 0}, 1, 1, 0, {2, HEAT_BUSY, 0}},
        {{10001, 100, 0}, 1, 1, 0, {2, HEAT_BUSY, 0}},
        {{200001, 2000, 0}, 1, 1, 0, {1, HEAT_UNCHANGED, 0}},
        {{100001, 1000, 0}, 2, 1, 9, {2, HEAT_UNCHANGED, 0}},
        {{200002, 1000, 0}, 2, 1, 9, {4, HEAT_BUSY, 0}},
        {{900000, 1000, 0}, 8, 1, 0, {16, HEAT_BUSY, 0}},
        {{99000000, 1000, 999}, 16, 1, 0, {16, HEAT_UNCHANGED, 0}},
        {{99000000, 1000, 0}, 12, 3, 0, {16, HEAT_BUSY, 0}},
        {{99000000, 1000, 0}, 64, 64, 0, {64, HEAT_UNCHANGED, 0}},
        /* contended */
        {{25000, 1000, 50}, 1, 1, 0, {2, HEAT_CONTENDED, 0}},
        {{25000, 1000, 49}, 1, 1, 0, {1, HEAT_UNCHANGED, 0}},
        {{24999, 1000, 50}, 1, 1, 0, {1, HEAT_UNCHANGED, 0}},
        {{25000, 1000, 0}, 2, 1, 5, {2, HEAT_UNCHANGED, 0}}, /* and does not fold at once */
        /* quiet */
        {{0, 1000, 0}, 4, 1, 0, {4, HEAT_UNCHANGED, 1}},
        {{0, 1000, 0}, 4, 1, 8, {4, HEAT_UNCHANGED, 9}},
        {{0, 1000, 0}, 4, 1, 9, {2, HEAT_QUIET, 0}},
        {{49996, 1000, 0}, 4, 1, 9, {2, HEAT_QUIET, 0}},
        {{50000, 1000, 0}, 4, 1, 9, {4, HEAT_UNCHANGED, 0}},
        {{0, 1000, 0}, 7, 1, 9, {3, HEAT_QUIET, 0}},
        /* never below what was asked for */
        {{0, 1000, 0}, 4, 4, 9, {4, HEAT_UNCHANGED, 0}},
        {{0, 1000, 0}, 4, 3, 9, {3, HEAT_QUIET, 0}},
        {{0, 1000, 0}, 2, 8, 0, {8, HEAT_CREATED, 0}},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct heat_verdict verdict =
            heat_judge(&rule, &table[i].seen, table[i].shards, table[i].asked, table[i].quiet);
        assert_int_equal(verdict.shards, table[i].verdict.shards);
        assert_int_equal(verdict.reason, table[i].verdict.reason);
        assert_int_equal(verdict.quiet_windows, table[i].verdict.quiet_windows);
    }
}

TEST(without_a_rate_nothing_spreads)
{
    static const struct heat_rule never = {.spread_rate = 0, .shards_max = 16};
    static const struct heat_window busy = {1000000000, 1000, 1000};
    struct heat_verdict verdict = heat_judge(&never, &busy, 1, 1, 0);
    assert_int_equal(verdict.shards, 1);
}

/* Runs `windows` of them at the same load; returns how often the shards changed. */
static unsigned run(const struct heat_window *window, unsigned windows, uint32_t *shards)
{
    unsigned changes = 0;
    uint8_t quiet = 0;
    for (unsigned i = 0; i < windows; i++) {
        struct heat_verdict verdict = heat_judge(&rule, window, *shards, 1, quiet);
        changes += verdict.shards != *shards;
        *shards = verdict.shards;
        quiet = verdict.quiet_windows;
    }
    return changes;
}

TEST(at_a_steady_load_the_shards_settle)
{
    for (uint64_t writes = 1; writes < 100000000; writes += writes / 3 + 1) {
        for (uint32_t taken = 0; taken <= 100; taken += 100) {
            struct heat_window window = {writes, 1000, taken};
            uint32_t shards = 1;
            run(&window, 100, &shards);
            assert_int_equal(run(&window, 1000, &shards), 0);
        }
    }
}

TEST(what_has_cooled_down_folds_back_to_one)
{
    struct heat_window quiet = {0, 1000, 0};
    uint32_t shards = 16;
    assert_int_equal(run(&quiet, 4 * HEAT_QUIET_WINDOWS, &shards), 4);
    assert_int_equal(shards, 1);
}

TEST(every_reason_has_a_text)
{
    for (unsigned reason = 0; reason < HEAT_REASON_COUNT; reason++)
        assert_true(heat_reason_text((enum heat_reason)reason)[0] != '\0');
}

/* ---- which ---- */

TEST(an_empty_sample_has_no_top)
{
    struct heat_sample sample = {0};
    assert_null(heat_top(&sample));
}

TEST(the_only_id_is_the_top)
{
    struct heat_sample sample = {0};
    for (unsigned i = 0; i < 10; i++)
        heat_note(&sample, 7, SLICE("views"));
    const struct heat_candidate *top = heat_top(&sample);
    assert_non_null(top);
    assert_int_equal(top->count, 10);
    assert_true(slice_equal(heat_candidate_id(top), SLICE("views")));
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

TEST(an_id_with_more_than_a_fifth_of_the_writes_is_always_there)
{
    for (uint64_t seed = 1; seed < 200; seed++) {
        struct heat_sample sample = {0};
        uint64_t random = seed;
        unsigned hot_writes = 0;
        for (unsigned i = 0; i < 5000; i++) {
            bool hot = next_random(&random) % 100 < 24;
            hot_writes += hot;
            if (hot)
                heat_note(&sample, 1, SLICE("hot"));
            else
                heat_note(&sample, 2 + next_random(&random) % 1000, SLICE("other"));
        }
        assert_true(hot_writes * (HEAT_CANDIDATES + 1) > 5000);
        const struct heat_candidate *top = heat_top(&sample);
        assert_non_null(top);
        assert_int_equal(top->hash, 1);
        assert_true(top->count <= hot_writes);
        assert_true(top->count + sample.noted / (HEAT_CANDIDATES + 1) >= hot_writes);
    }
}

TEST(a_cleared_sample_has_forgotten)
{
    struct heat_sample sample = {0};
    heat_note(&sample, 1, SLICE("a"));
    heat_clear(&sample);
    assert_null(heat_top(&sample));
    assert_int_equal(sample.noted, 0);
    heat_note(&sample, 2, SLICE("b"));
    assert_int_equal(heat_top(&sample)->hash, 2);
}

TEST(the_longest_id_fits)
{
    char id[LIMIT_ID_BYTES];
    memset(id, 'x', sizeof(id));
    struct heat_sample sample = {0};
    heat_note(&sample, 1, (struct slice){id, sizeof(id)});
    assert_true(slice_equal(heat_candidate_id(heat_top(&sample)), (struct slice){id, sizeof(id)}));
}

RUN(cmocka_unit_test(one_worker_never_spreads_and_more_have_four_shards_each),
    cmocka_unit_test(a_window_is_judged_by_rate_contention_and_patience),
    cmocka_unit_test(without_a_rate_nothing_spreads),
    cmocka_unit_test(at_a_steady_load_the_shards_settle),
    cmocka_unit_test(what_has_cooled_down_folds_back_to_one),
    cmocka_unit_test(every_reason_has_a_text), cmocka_unit_test(an_empty_sample_has_no_top),
    cmocka_unit_test(the_only_id_is_the_top),
    cmocka_unit_test(an_id_with_more_than_a_fifth_of_the_writes_is_always_there),
    cmocka_unit_test(a_cleared_sample_has_forgotten), cmocka_unit_test(the_longest_id_fits))
