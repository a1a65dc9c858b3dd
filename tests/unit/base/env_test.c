/* threads */
#include "base/env.h"

#include <pthread.h>
#include <time.h>

#include "unit/test.h"

TEST(the_clock_for_durations_never_goes_back)
{
    struct env *env = env_system();
    uint64_t last = env_monotonic_ns(env);
    for (int i = 0; i < 10000; i++) {
        uint64_t now = env_monotonic_ns(env);
        assert_true(now >= last);
        last = now;
    }
}

TEST(the_wall_clock_counts_milliseconds_since_1970)
{
    int64_t seconds = (int64_t)time(NULL);
    int64_t now_ms = env_wall_ms(env_system());
    assert_true(now_ms / 1000 - seconds >= -1 && now_ms / 1000 - seconds <= 5);
}

TEST(random_numbers_use_all_their_bits_and_do_not_repeat)
{
    struct env *env = env_system();
    uint64_t any = 0;
    uint64_t all = UINT64_MAX;
    uint64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = env_random(env);
        assert_true(value != last);
        any |= value;
        all &= value;
        last = value;
    }
    assert_true(any == UINT64_MAX);
    assert_true(all == 0);
}

static void *draw(void *arg)
{
    *(uint64_t *)arg = env_random(env_system());
    return NULL;
}

TEST(every_thread_draws_numbers_of_its_own)
{
    uint64_t values[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, draw, &values[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++)
            assert_true(values[i] != values[j]);
    }
}

TEST(the_disk_is_the_one_of_this_machine)
{
    assert_ptr_equal(env_system()->disk, disk_posix());
}

RUN(cmocka_unit_test(the_clock_for_durations_never_goes_back),
    cmocka_unit_test(the_wall_clock_counts_milliseconds_since_1970),
    cmocka_unit_test(random_numbers_use_all_their_bits_and_do_not_repeat),
    cmocka_unit_test(every_thread_draws_numbers_of_its_own),
    cmocka_unit_test(the_disk_is_the_one_of_this_machine))
