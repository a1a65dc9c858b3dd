/* threads */
#include "net/loop.h"

#include <pthread.h>
#include <stdatomic.h>

#include "net/timer.h"
#include "net/waker.h"
#include "unit/test.h"

struct scene {
    struct loop *loop;
    struct timer *timer;
    struct waker *waker;
    struct loop_hook *hook;
    int rings;
    int wakes;
    int passes;
    atomic_uint_fast64_t number; /* grows on the other thread */
};

static void scene_init(struct scene *scene)
{
    *scene = (struct scene){.loop = loop_new(NULL)};
    assert_non_null(scene->loop);
}

static void scene_done(struct scene *scene)
{
    timer_free(scene->timer);
    waker_free(scene->waker);
    loop_hook_free(scene->hook);
    loop_free(scene->loop);
}

static void ring(void *arg)
{
    struct scene *scene = arg;
    if (++scene->rings == 3)
        loop_stop(scene->loop);
}

TEST(a_timer_rings_again_and_again_until_it_is_stopped)
{
    struct scene scene;
    scene_init(&scene);
    scene.timer = timer_new(scene.loop, ring, &scene);
    assert_false(timer_runs(scene.timer));
    timer_start(scene.timer, 1, 1);
    assert_true(timer_runs(scene.timer));
    loop_run(scene.loop);
    assert_int_equal(scene.rings, 3);
    timer_stop(scene.timer);
    assert_false(timer_runs(scene.timer));
    scene_done(&scene);
}

static void count_pass(void *arg)
{
    struct scene *scene = arg;
    scene->passes++;
}

static void stop_when_woken(void *arg)
{
    struct scene *scene = arg;
    scene->wakes++;
    loop_stop(scene->loop);
}

static void *wake_often(void *arg)
{
    struct scene *scene = arg;
    for (int i = 0; i < 1000; i++)
        waker_wake(scene->waker);
    return NULL;
}

TEST(another_thread_makes_the_loop_go_round)
{
    struct scene scene;
    scene_init(&scene);
    scene.waker = waker_new(scene.loop, stop_when_woken, &scene, NULL);
    scene.hook = loop_hook_new(scene.loop, count_pass, &scene);
    pthread_t thread;
    pthread_create(&thread, NULL, wake_often, &scene);
    loop_run(scene.loop);
    pthread_join(thread, NULL);
    assert_true(scene.wakes >= 1);
    assert_true(scene.passes >= 1);
    scene_done(&scene);
}

static void count_wake(void *arg)
{
    struct scene *scene = arg;
    scene->wakes++;
}

TEST(who_waits_for_nothing_is_not_woken)
{
    struct scene scene;
    scene_init(&scene);
    scene.waker = waker_new(scene.loop, count_wake, &scene, NULL);
    waker_reached(scene.waker, 1000);
    waker_wait_for(scene.waker, 50);
    waker_reached(scene.waker, 49);
    loop_stop(scene.loop);
    loop_run(scene.loop);
    assert_int_equal(scene.wakes, 0);

    waker_reached(scene.waker, 50);
    loop_stop(scene.loop);
    loop_run(scene.loop);
    assert_int_equal(scene.wakes, 1);
    scene_done(&scene);
}

/* ---- nothing is missed: the loop waits for 1, 2, 3, ... while they come ---- */

#define STEPS 20000u

static void wait_for_next(struct scene *scene)
{
    for (;;) {
        uint64_t number = atomic_load(&scene->number);
        if (number >= STEPS) {
            loop_stop(scene->loop);
            return;
        }
        waker_wait_for(scene->waker, number + 1);
        if (atomic_load(&scene->number) == number)
            return; /* it will wake us */
    }
}

static void look(void *arg)
{
    wait_for_next(arg);
}

static void *grow(void *arg)
{
    struct scene *scene = arg;
    for (uint64_t i = 1; i <= STEPS; i++) {
        atomic_store(&scene->number, i);
        waker_reached(scene->waker, i);
    }
    return NULL;
}

TEST(a_number_that_grows_meanwhile_is_not_missed)
{
    struct scene scene;
    scene_init(&scene);
    scene.waker = waker_new(scene.loop, look, &scene, NULL);
    wait_for_next(&scene);
    pthread_t thread;
    pthread_create(&thread, NULL, grow, &scene);
    loop_run(scene.loop); /* would never return */
    pthread_join(thread, NULL);
    scene_done(&scene);
}

RUN(cmocka_unit_test(a_timer_rings_again_and_again_until_it_is_stopped),
    cmocka_unit_test(another_thread_makes_the_loop_go_round),
    cmocka_unit_test(who_waits_for_nothing_is_not_woken),
    cmocka_unit_test(a_number_that_grows_meanwhile_is_not_missed))
