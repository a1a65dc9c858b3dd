/* threads */
#include "base/bell.h"

#include "unit/test.h"

TEST(a_ring_before_the_wait_is_not_lost_and_many_are_one)
{
    struct bell bell;
    bell_init(&bell);
    bell_ring(&bell);
    bell_ring(&bell);
    assert_true(bell_wait(&bell, UINT64_MAX));
    assert_false(bell_wait(&bell, 1));
    bell_done(&bell);
}

static void *ring(void *arg)
{
    bell_ring(arg);
    return NULL;
}

TEST(a_sleeper_is_woken_from_another_thread)
{
    struct bell bell;
    bell_init(&bell);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ring, &bell), 0);
    assert_true(bell_wait(&bell, UINT64_MAX));
    pthread_join(thread, NULL);
    bell_done(&bell);
}

RUN(cmocka_unit_test(a_ring_before_the_wait_is_not_lost_and_many_are_one),
    cmocka_unit_test(a_sleeper_is_woken_from_another_thread))
