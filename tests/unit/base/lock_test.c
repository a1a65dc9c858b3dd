/* threads */
#include "base/lock.h"

#include <pthread.h>

#include "unit/test.h"

static struct lock shared;
static long long sum;

static void *count(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100000; i++) {
        lock_take(&shared);
        sum++;
        lock_release(&shared);
    }
    return NULL;
}

TEST(nothing_is_lost_between_threads)
{
    sum = 0;
    lock_init(&shared);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(sum, 400000);
    lock_done(&shared);
}

static void *try_once(void *arg)
{
    bool *taken = arg;
    *taken = lock_try(&shared);
    if (*taken)
        lock_release(&shared);
    return NULL;
}

static bool another_thread_can_take_it(void)
{
    bool taken;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, try_once, &taken), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return taken;
}

TEST(a_try_tells_whether_the_lock_was_free)
{
    lock_init(&shared);
    assert_true(another_thread_can_take_it());
    lock_take(&shared);
    assert_false(another_thread_can_take_it());
    lock_release(&shared);
    assert_true(another_thread_can_take_it());
    lock_done(&shared);
}

RUN(cmocka_unit_test(nothing_is_lost_between_threads),
    cmocka_unit_test(a_try_tells_whether_the_lock_was_free))
