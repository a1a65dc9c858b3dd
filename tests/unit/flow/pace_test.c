#include "flow/pace.h"

#include "unit/test.h"

#define MS   1000000ull
#define HOUR (3600 * 1000 * MS)

TEST(a_machine_with_time_to_spare_gives_the_audit_a_quarter_of_a_core)
{
    struct pace pace = pace_next(1000 * MS, 990 * MS, 1000, HOUR, 1000, 50000);
    assert_int_equal(pace.pause_ns, 3000 * MS);
    assert_int_equal(pace.ids, 50000);
}

TEST(a_busy_one_gives_it_no_more_than_was_set)
{
    struct pace pace = pace_next(1000 * MS, 500 * MS, 1000, HOUR, 1000, 50000);
    assert_int_equal(pace.pause_ns, HOUR);
    assert_int_equal(pace.ids, 1000);
}

TEST(a_pause_is_never_longer_than_was_set_nor_none_at_all)
{
    assert_int_equal(pace_next(2 * HOUR, 2 * HOUR, 1000, HOUR, 1000, 50000).pause_ns, HOUR);
    assert_int_equal(pace_next(UINT64_MAX, UINT64_MAX, 1000, HOUR, 1000, 50000).pause_ns, HOUR);
    assert_int_equal(pace_next(MS, MS, 1000, HOUR, 1000, 50000).pause_ns, 50 * MS);
    assert_int_equal(pace_next(0, 0, 1000, HOUR, 1000, 50000).pause_ns, 50 * MS);
    assert_int_equal(pace_next(MS, MS, 1000, 10 * MS, 1000, 50000).pause_ns, 10 * MS);
    assert_int_equal(pace_next(MS, MS, 1000, HOUR, 100000, 50000).ids, 100000);
}

/* An error comes at once, and comes again. */
TEST(what_failed_is_tried_again_after_the_pause_that_was_set)
{
    struct pace pace = pace_next(MS, MS, 0, HOUR, 1000, 50000);
    assert_int_equal(pace.pause_ns, HOUR);
    assert_int_equal(pace.ids, 1000);
}

/* A clock that is turned by what each piece takes. */
TEST(a_million_counters_take_hours_at_most_when_all_is_idle)
{
    uint64_t clock_ns = 0;
    uint64_t ids = 1000;
    uint64_t done = 0;
    while (done < 1000000) {
        uint64_t took_ns = 60 * 1000 * MS + ids * MS / 50; /* a long log, and each id */
        done += ids;
        struct pace pace = pace_next(took_ns, took_ns, 1000, HOUR, 1000, 50000);
        clock_ns += took_ns + pace.pause_ns;
        ids = pace.ids;
    }
    assert_true(clock_ns < 3 * HOUR);
}

/* Of servers outside: pieces of 4000 ids, each of which takes `ms`. */
static struct pace outside(struct pace_outside *past, uint64_t ms)
{
    return pace_next_outside(past, 4000 * ms * MS, 4000, HOUR, 1000, 4000);
}

TEST(servers_that_answer_as_quickly_as_ever_are_asked_a_quarter_of_the_time)
{
    struct pace_outside past = {.rest = 0};
    struct pace pace = outside(&past, 5);
    for (int i = 0; i < 20; i++, pace = outside(&past, i % 2 ? 5 : 9)) {
        assert_int_equal(pace.ids, 4000);
        assert_true(pace.pause_ns >= 3 * 4000 * 5 * MS && pace.pause_ns <= 3 * 4000 * 9 * MS);
    }
}

TEST(servers_that_answer_slowly_are_asked_less_and_less)
{
    struct pace_outside past = {.rest = 0};
    (void)outside(&past, 5);
    uint64_t pause_ns = 0;
    for (int i = 0; i < 4; i++) {
        struct pace pace = outside(&past, 11);
        assert_int_equal(pace.ids, 1000);
        assert_true(pace.pause_ns > pause_ns);
        pause_ns = pace.pause_ns;
    }
    assert_int_equal(pause_ns, 16 * 3 * 4000 * 11 * MS);
    for (int i = 0; i < 5; i++)
        pause_ns = outside(&past, 5).pause_ns;
    assert_int_equal(pause_ns, 3 * 4000 * 5 * MS);
}

TEST(servers_that_cannot_be_asked_are_left_alone_for_the_pause_that_was_set)
{
    struct pace_outside past = {.rest = 0};
    struct pace pace = pace_next_outside(&past, 100 * MS, 0, HOUR, 1000, 4000);
    assert_int_equal(pace.pause_ns, HOUR);
    assert_int_equal(pace.ids, 1000);
    assert_int_equal(pace_next_outside(&past, UINT64_MAX, 1, HOUR, 1000, 4000).pause_ns, HOUR);
    assert_int_equal(pace_next_outside(&past, 0, 1, HOUR, 1000, 4000).pause_ns, 50 * MS);
}

TEST(a_million_counters_of_nodes_take_hours_when_all_is_idle)
{
    struct pace_outside past = {.rest = 0};
    uint64_t clock_ns = 0;
    uint64_t ids = 1000;
    for (uint64_t done = 0; done < 1000000; done += ids) {
        uint64_t took_ns = ids * 4 * MS;
        struct pace pace = pace_next_outside(&past, took_ns, ids, HOUR, 1000, 4000);
        clock_ns += took_ns + pace.pause_ns;
        ids = pace.ids;
    }
    assert_true(clock_ns < 6 * HOUR);
}

RUN(cmocka_unit_test(a_machine_with_time_to_spare_gives_the_audit_a_quarter_of_a_core),
    cmocka_unit_test(a_busy_one_gives_it_no_more_than_was_set),
    cmocka_unit_test(a_pause_is_never_longer_than_was_set_nor_none_at_all),
    cmocka_unit_test(what_failed_is_tried_again_after_the_pause_that_was_set),
    cmocka_unit_test(a_million_counters_take_hours_at_most_when_all_is_idle),
    cmocka_unit_test(servers_that_answer_as_quickly_as_ever_are_asked_a_quarter_of_the_time),
    cmocka_unit_test(servers_that_answer_slowly_are_asked_less_and_less),
    cmocka_unit_test(servers_that_cannot_be_asked_are_left_alone_for_the_pause_that_was_set),
    cmocka_unit_test(a_million_counters_of_nodes_take_hours_when_all_is_idle))
