/* callback_test.c - calls from one thread while another sets what is called. */
/* threads */
#include "base/callback.h"

#include "unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* What the callback is given: its bytes are written just before it is set, by plain stores, so
 * whoever is called and does not see them has not synchronised. */
struct seen {
    unsigned value;
    _Atomic unsigned calls;
};

static _Atomic bool was_wrong;

static void see(void *arg)
{
    struct seen *seen = arg;
    if (!seen || seen->value != 17)
        atomic_store_explicit(&was_wrong, true, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&seen->calls, 1, memory_order_relaxed);
}

struct caller {
    struct callback *callback;
    _Atomic unsigned rounds;
    _Atomic bool is_stopping;
    pthread_t thread;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    while (!atomic_load_explicit(&caller->is_stopping, memory_order_relaxed)) {
        callback_run(caller->callback);
        atomic_fetch_add_explicit(&caller->rounds, 1, memory_order_relaxed);
    }
    return NULL;
}

static void begin(struct caller *caller, struct callback *callback)
{
    *caller = (struct caller){.callback = callback};
    assert_int_equal(pthread_create(&caller->thread, NULL, call, caller), 0);
    while (atomic_load_explicit(&caller->rounds, memory_order_relaxed) < 100)
        sched_yield(); /* it calls already: what is set now is set late */
}

static void end(struct caller *caller)
{
    atomic_store_explicit(&caller->is_stopping, true, memory_order_relaxed);
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
}

TEST(a_callback_that_nobody_has_set_does_nothing)
{
    struct callback callback = {.call = NULL};
    callback_run(&callback);
    struct caller caller;
    begin(&caller, &callback);
    end(&caller);
    assert_true(atomic_load(&caller.rounds) >= 100);
}

/* Nothing but the callback orders the two threads: all else that they share is relaxed. */
TEST(a_thread_that_calls_already_is_given_what_is_set_late)
{
    for (unsigned round = 0; round < 50; round++) {
        struct callback callback = {.call = NULL};
        struct seen seen = {0};
        struct caller caller;
        begin(&caller, &callback);
        seen.value = 17;
        callback_set(&callback, see, &seen);
        while (atomic_load_explicit(&seen.calls, memory_order_relaxed) == 0 &&
               !atomic_load_explicit(&was_wrong, memory_order_relaxed))
            sched_yield();
        end(&caller);
        assert_false(was_wrong);
        assert_true(atomic_load(&seen.calls) > 0);
    }
}

TEST(it_may_be_taken_away_while_nobody_calls)
{
    struct callback callback = {.call = NULL};
    struct seen seen = {.value = 17};
    callback_set(&callback, see, &seen);
    callback_run(&callback);
    callback_set(&callback, NULL, NULL);
    callback_run(&callback);
    assert_int_equal(seen.calls, 1);
}

RUN(cmocka_unit_test(a_callback_that_nobody_has_set_does_nothing),
    cmocka_unit_test(a_thread_that_calls_already_is_given_what_is_set_late),
    cmocka_unit_test(it_may_be_taken_away_while_nobody_calls))
