#include "hot/memory/saves.h"

#include <string.h>

#include "unit/test.h"

static uint64_t cells[LIMIT_CELLS];

static void begin(struct saves *saves)
{
    memset(cells, 0, sizeof(cells));
    saves_init(saves, cells);
}

TEST(what_was_never_written_is_saved_and_what_is_being_written_is_not)
{
    struct saves saves;
    begin(&saves);
    assert_true(saves_has(&saves, 0));
    assert_false(saves_has(&saves, saves.now));
}

TEST(a_generation_is_saved_when_every_cell_has_passed_its_end)
{
    struct saves saves;
    begin(&saves);
    uint8_t generation = saves.now;
    cells[3] = 10;
    cells[9] = 4;
    assert_true(saves_close(&saves, cells));
    assert_true(saves.now != generation);

    uint64_t stored[LIMIT_CELLS] = {[3] = 10, [9] = 3};
    saves_reach(&saves, stored);
    assert_false(saves_has(&saves, generation));
    stored[9] = 4;
    saves_reach(&saves, stored);
    assert_true(saves_has(&saves, generation));
    assert_false(saves_has(&saves, saves.now));
}

TEST(nothing_written_closes_nothing)
{
    struct saves saves;
    begin(&saves);
    assert_false(saves_close(&saves, cells));
    cells[0]++;
    assert_true(saves_close(&saves, cells));
    assert_false(saves_close(&saves, cells));
}

TEST(a_store_that_is_far_behind_makes_the_last_generation_grow)
{
    struct saves saves;
    begin(&saves);
    for (int i = 0; i < 100; i++) {
        cells[0]++;
        saves_close(&saves, cells);
        for (uint8_t generation = 1; generation <= saves.now; generation++)
            assert_false(saves_has(&saves, generation));
    }
    saves_reach(&saves, cells);
    assert_false(saves_has(&saves, saves.now));
    assert_true(saves_close(&saves, cells));
    saves_reach(&saves, cells);
    for (uint8_t generation = 1; generation <= SAVES_GENERATIONS; generation++)
        assert_int_equal(saves_has(&saves, generation), generation != saves.now);
}

TEST(the_numbers_go_round_and_nothing_seems_saved_too_early)
{
    struct saves saves;
    begin(&saves);
    uint64_t stored[LIMIT_CELLS] = {0};
    for (int i = 0; i < 1000; i++) {
        uint8_t generation = saves.now;
        cells[i % 64]++;
        bool closed = saves_close(&saves, cells);
        assert_false(saves_has(&saves, generation));
        if (i % 3 == 0) {
            memcpy(stored, cells, sizeof(stored));
            saves_reach(&saves, stored);
            assert_int_equal(saves_has(&saves, generation), closed);
        }
    }
}

RUN(cmocka_unit_test(what_was_never_written_is_saved_and_what_is_being_written_is_not),
    cmocka_unit_test(a_generation_is_saved_when_every_cell_has_passed_its_end),
    cmocka_unit_test(nothing_written_closes_nothing),
    cmocka_unit_test(a_store_that_is_far_behind_makes_the_last_generation_grow),
    cmocka_unit_test(the_numbers_go_round_and_nothing_seems_saved_too_early))
