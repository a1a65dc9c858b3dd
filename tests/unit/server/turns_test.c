/* When the store's threads give way, and when they do not. */
#include "unit/test.h"

#include <sched.h>

#include "server/process.h"
#include "server/turns.h"

#define SECOND UINT64_C(1000000000)

static bool look(struct turns *turns, uint64_t second, uint64_t refused, int64_t lag_ms)
{
    struct turns_figures figures = {
        .refused = refused, .lag_ms = lag_ms, .now_ns = second * SECOND};
    return turns_look(turns, &figures);
}

TEST(they_give_way_as_long_as_nobody_minds)
{
    struct turns turns = {0};
    assert_false(look(&turns, 1, 0, 0));
    assert_false(look(&turns, 2, 0, 29000));
    assert_false(turns.is_pressed);
}

TEST(they_take_their_turn_when_writes_are_refused)
{
    struct turns turns = {0};
    assert_true(look(&turns, 1, 5, 100));
    assert_true(turns.is_pressed);
    assert_false(look(&turns, 9, 6, 100));  /* still */
    assert_false(look(&turns, 18, 6, 100)); /* the last one was nine seconds ago */
    assert_true(look(&turns, 19, 6, 100));
    assert_false(turns.is_pressed);
}

TEST(they_take_their_turn_when_the_store_is_far_behind_until_it_is_not)
{
    struct turns turns = {0};
    assert_true(look(&turns, 1, 0, 30001));
    assert_false(look(&turns, 20, 0, 20000));
    assert_true(turns.is_pressed);
    assert_false(look(&turns, 25, 0, 1000));
    assert_true(look(&turns, 30, 0, 1000));
    assert_false(turns.is_pressed);
}

TEST(a_thread_that_joins_gives_way)
{
    struct turns turns = {0};
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER);
    turns_join(&turns);
    assert_int_equal(sched_getscheduler(0), SCHED_IDLE);
    assert_true(look(&turns, 1, 1, 0));
    int policy = sched_getscheduler(0); /* only who is allowed to comes back */
    assert_true(policy == SCHED_OTHER || policy == SCHED_IDLE);
}

RUN(cmocka_unit_test(they_give_way_as_long_as_nobody_minds),
    cmocka_unit_test(they_take_their_turn_when_writes_are_refused),
    cmocka_unit_test(they_take_their_turn_when_the_store_is_far_behind_until_it_is_not),
    cmocka_unit_test(a_thread_that_joins_gives_way))
