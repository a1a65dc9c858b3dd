#include "flow/pace.h"

#include "unit/test.h"

#define MS   1000000ull
#define HOUR (3600 * 1000 * MS)

TEST(a_machine_with_time_to_spare_gives_the_audit_a_quarter_of_a_core)
{
    struct pace pace = pace_next(1000 * MS, 990 * MS, HOUR, 1000, 50000);
    assert_int_equal(pace.pause_ns, 3000 * MS);
    assert_int_equal(pace.ids, 50000);
}

TEST(a_busy_one_gives_it_no_more_than_was_set)
{
    struct pace pace = pace_next(1000 * MS, 500 * MS, HOUR, 1000, 50000);
    assert_int_equal(pace.pause_ns, HOUR);
    assert_int_equal(pace.ids, 1000);
}

TEST(a_pause_is_never_longer_than_was_set_nor_none_at_all)
{
    assert_int_equal(pace_next(2 * HOUR, 2 * HOUR, HOUR, 1000, 50000).pause_ns, HOUR);
    assert_int_equal(pace_next(UINT64_MAX, UINT64_MAX, HOUR, 1000, 50000).pause_ns, HOUR);
    assert_int_equal(pace_next(MS, MS, HOUR, 1000, 50000).pause_ns, 50 * MS);
    assert_int_equal(pace_next(0, 0, HOUR, 1000, 50000).pause_ns, 50 * MS);
    assert_int_equal(pace_next(MS, MS, 10 * MS, 1000, 50000).pause_ns, 10 * MS);
    assert_int_equal(pace_next(MS, MS, HOUR, 100000, 50000).ids, 100000);
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
        struct pace pace = pace_next(took_ns, took_ns, HOUR, 1000, 50000);
        clock_ns += took_ns + pace.pause_ns;
        ids = pace.ids;
    }
    assert_true(clock_ns < 3 * HOUR);
}

RUN(cmocka_unit_test(a_machine_with_time_to_spare_gives_the_audit_a_quarter_of_a_core),
    cmocka_unit_test(a_busy_one_gives_it_no_more_than_was_set),
    cmocka_unit_test(a_pause_is_never_longer_than_was_set_nor_none_at_all),
    cmocka_unit_test(a_million_counters_take_hours_at_most_when_all_is_idle))
