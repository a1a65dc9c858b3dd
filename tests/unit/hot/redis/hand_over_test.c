/* hand_over_test.c - the order of a mover's steps, and what follows when one of them fails. */
#include "unit/test.h"

#include <string.h>

#include "hot/redis/hand_over.h"

#define NOW_MS INT64_C(1700000000000)
#define HOME   3u
#define OTHER  5u

static struct hand_over over;

/* Half of an item's slices are to be in another cell. */
static void plan_half(struct map *map)
{
    uint8_t owner[BUCKET_SLICES];
    memset(owner, (int)HOME, sizeof(owner));
    memset(owner, (int)OTHER, BUCKET_SLICES / 2);
    over.is_done = !map_next(map, HOME, owner, BUCKET_SLICES);
}

/* A driver of which every step succeeds but for what `outcome` is; what home has is in `home`. */
static struct map home;

static void take(enum err outcome)
{
    switch (over.step) {
    case HAND_OVER_READ:
        over.map = home;
        break;
    case HAND_OVER_PLAN:
        plan_half(&over.map);
        break;
    case HAND_OVER_WRITE:
    case HAND_OVER_TAKE:
        if (outcome == ERR_OK)
            home = over.map;
        break;
    default:
        break;
    }
    hand_over_take(&over, outcome, NOW_MS);
}

static void begin(void)
{
    map_init(&home, true, HOME);
    hand_over_init(&over, HOME, true);
}

static void go_to(enum hand_over_step step)
{
    for (unsigned i = 0; i < 100 && over.step != step; i++)
        take(ERR_OK);
    assert_string_equal(hand_over_step_name(over.step), hand_over_step_name(step));
}

static void expect(const enum hand_over_step *steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(hand_over_step_name(over.step), hand_over_step_name(steps[i]));
        take(ERR_OK);
    }
}

TEST(a_cell_is_reserved_before_it_is_named_and_serves_when_the_log_has_the_map)
{
    begin();
    static const enum hand_over_step steps[] = {
        HAND_OVER_READ,      HAND_OVER_PLAN,    HAND_OVER_RESERVE, HAND_OVER_WRITE,
        HAND_OVER_WAIT_HOME, HAND_OVER_PREPARE, HAND_OVER_WRITE};
    expect(steps, sizeof(steps) / sizeof(steps[0]));
    assert_int_equal(home.cells, map_bit(HOME) | map_bit(OTHER));
}

TEST(slices_are_copied_when_the_log_has_that_they_are_frozen_and_what_home_says)
{
    begin();
    go_to(HAND_OVER_FREEZE);
    static const enum hand_over_step steps[] = {
        HAND_OVER_FREEZE, HAND_OVER_WAIT_SOURCE, HAND_OVER_WAIT_HOME, HAND_OVER_COPY,
        HAND_OVER_ADOPT,  HAND_OVER_RELEASE,     HAND_OVER_WRITE,     HAND_OVER_PLAN,
    };
    expect(steps, sizeof(steps) / sizeof(steps[0]));
    assert_int_equal(over.step, HAND_OVER_END);
    assert_int_equal(over.code, ERR_OK);
    assert_int_equal(home.owner[0], OTHER);
}

TEST(a_cell_is_off_the_map_when_the_log_has_that_its_piece_is_gone)
{
    begin();
    home.cells |= map_bit(OTHER);
    home.change = MAP_DRAIN;
    home.slices = map_bit(OTHER);
    home.version = 1;
    go_to(HAND_OVER_STOP);
    static const enum hand_over_step steps[] = {
        HAND_OVER_STOP,  HAND_OVER_WAIT_STOPPED, HAND_OVER_TAKE,  HAND_OVER_WAIT_HOME,
        HAND_OVER_ERASE, HAND_OVER_WAIT_ERASED,  HAND_OVER_WRITE,
    };
    expect(steps, sizeof(steps) / sizeof(steps[0]));
    assert_int_equal(home.change, MAP_STEADY);
    assert_int_equal(home.cells, map_bit(HOME));
}

TEST(what_was_adopted_is_not_copied_again)
{
    begin();
    go_to(HAND_OVER_ADOPT);
    hand_over_init(&over, HOME, true); /* the mover has died, and another goes on */
    go_to(HAND_OVER_PREPARE);
    over.adopted = home.version;
    take(ERR_OK);
    assert_int_equal(over.step, HAND_OVER_RELEASE);
}

TEST(a_piece_that_is_missing_when_asked_twice_was_lost_and_is_never_made_again)
{
    begin();
    go_to(HAND_OVER_FREEZE);
    hand_over_init(&over, HOME, true);
    go_to(HAND_OVER_PREPARE);
    take(ERR_CORRUPT);
    assert_int_equal(over.step, HAND_OVER_READ); /* others may have finished it */
    go_to(HAND_OVER_PREPARE);
    take(ERR_CORRUPT);
    static const enum hand_over_step steps[] = {
        HAND_OVER_WRITE, HAND_OVER_WIPE, HAND_OVER_WAIT_SAVED, HAND_OVER_UNLIST, HAND_OVER_GONE};
    assert_int_equal(over.map.change, MAP_DISSOLVE);
    expect(steps, sizeof(steps) / sizeof(steps[0]));
    assert_int_equal(over.step, HAND_OVER_END);
}

/* Home has adopted slices, and has forgotten it since: each map that says it has them is refused.
 */
TEST(a_map_that_home_refuses_twice_is_dissolved)
{
    begin();
    go_to(HAND_OVER_RELEASE);
    go_to(HAND_OVER_WRITE);
    take(ERR_CORRUPT);
    assert_int_equal(over.step, HAND_OVER_READ);
    go_to(HAND_OVER_WRITE);
    take(ERR_CORRUPT);
    assert_int_equal(over.step, HAND_OVER_WRITE);
    assert_int_equal(over.map.change, MAP_DISSOLVE);
}

TEST(without_a_store_what_has_lost_a_piece_stays_as_it_is)
{
    begin();
    go_to(HAND_OVER_FREEZE);
    over.can_dissolve = false;
    take(ERR_CORRUPT);
    go_to(HAND_OVER_FREEZE);
    take(ERR_CORRUPT);
    assert_int_equal(over.step, HAND_OVER_END);
    assert_int_equal(over.code, ERR_UNAVAILABLE);
}

TEST(a_move_that_the_log_does_not_confirm_is_undone)
{
    begin();
    go_to(HAND_OVER_WAIT_SOURCE);
    uint64_t version = home.version;
    take(ERR_TIMEOUT);
    assert_int_equal(over.map.change, MAP_UNDO);
    assert_int_equal(over.map.base, version);
    static const enum hand_over_step steps[] = {HAND_OVER_WRITE, HAND_OVER_PREPARE, HAND_OVER_THAW,
                                                HAND_OVER_WRITE};
    expect(steps, sizeof(steps) / sizeof(steps[0]));
    assert_int_equal(over.code, ERR_TIMEOUT);
    assert_int_equal(home.change, MAP_STEADY);
    assert_int_equal(home.owner[0], HOME);
}

TEST(a_cell_that_knows_a_later_version_than_home_is_given_one_that_is_later_still)
{
    begin();
    go_to(HAND_OVER_FREEZE);
    take(ERR_BUSY);
    go_to(HAND_OVER_PREPARE);
    over.last_version = (uint64_t)NOW_MS + 1000; /* as it has said */
    take(ERR_BUSY);
    assert_int_equal(over.step, HAND_OVER_WRITE);
    assert_int_equal(over.map.change, MAP_UNDO);
    assert_true(over.map.version > (uint64_t)NOW_MS + 1000);
}

TEST(versions_grow_though_the_clock_stands_still)
{
    begin();
    go_to(HAND_OVER_WRITE);
    uint64_t before = over.map.version;
    take(ERR_OK);
    go_to(HAND_OVER_WRITE);
    assert_true(over.map.version > before);
}

RUN(cmocka_unit_test(a_cell_is_reserved_before_it_is_named_and_serves_when_the_log_has_the_map),
    cmocka_unit_test(slices_are_copied_when_the_log_has_that_they_are_frozen_and_what_home_says),
    cmocka_unit_test(a_cell_is_off_the_map_when_the_log_has_that_its_piece_is_gone),
    cmocka_unit_test(what_was_adopted_is_not_copied_again),
    cmocka_unit_test(a_piece_that_is_missing_when_asked_twice_was_lost_and_is_never_made_again),
    cmocka_unit_test(a_map_that_home_refuses_twice_is_dissolved),
    cmocka_unit_test(without_a_store_what_has_lost_a_piece_stays_as_it_is),
    cmocka_unit_test(a_move_that_the_log_does_not_confirm_is_undone),
    cmocka_unit_test(a_cell_that_knows_a_later_version_than_home_is_given_one_that_is_later_still),
    cmocka_unit_test(versions_grow_though_the_clock_stands_still))
