#include "door/pass/client_limits.h"

#include "door/pass/pass.h"
#include "unit/test.h"

#define KIB UINT64_C(1024)

struct fake_client {
    struct client_usage usage;
    struct client_share *share;
    bool evicted;
};

static void set(struct fake_client *client, size_t input, size_t output)
{
    client_usage_set(client->share, &client->usage,
                     (struct client_memory){.input = input, .output = output});
}

static void evict(void *arg)
{
    struct fake_client *client = arg;
    client->evicted = true;
    set(client, 0, 0);
}

/* Two workers, whose passes have no loop: nobody can wake them. */
struct scene {
    struct client_limits limits;
    struct pass passes[2];
    struct client_share shares[2];
    struct fake_client clients[8]; /* in turn of one and the other */
};

static void start(struct scene *scene, uint64_t memory_max)
{
    *scene = (struct scene){.limits = {.share_count = 0}};
    client_limits_init(&scene->limits, 3, memory_max, 7);
    for (int i = 0; i < 2; i++)
        client_share_init(&scene->shares[i], &scene->limits, &scene->passes[i]);
    for (int i = 0; i < 8; i++) {
        scene->clients[i].share = &scene->shares[i % 2];
        scene->clients[i].usage.client = &scene->clients[i];
    }
}

static void stop(struct scene *scene)
{
    for (int i = 0; i < 8; i++)
        set(&scene->clients[i], 0, 0);
    assert_int_equal(atomic_load(&scene->limits.memory), 0);
    for (int i = 0; i < 2; i++)
        client_share_done(&scene->shares[i]);
    client_limits_done(&scene->limits);
}

TEST(connections_are_counted_together_and_refused_beyond_the_limit)
{
    struct scene scene;
    start(&scene, 0);
    for (int i = 0; i < 3; i++)
        assert_true(client_limits_admit(&scene.limits));
    assert_false(client_limits_admit(&scene.limits));
    assert_false(client_limits_admit(&scene.limits)); /* the refused one did not count */
    client_limits_leave(&scene.limits);
    assert_true(client_limits_admit(&scene.limits));
    stop(&scene);
}

TEST(the_worst_client_is_closed_until_the_total_is_below)
{
    struct scene scene;
    start(&scene, 100 * KIB);
    set(&scene.clients[0], 40 * KIB, 0);
    set(&scene.clients[2], 0, 20 * KIB);
    set(&scene.clients[4], 5 * KIB, 5 * KIB);
    assert_false(client_limits_is_over(&scene.limits));
    client_share_evict(&scene.shares[0], evict);
    assert_false(scene.clients[0].evicted);

    set(&scene.clients[4], 5 * KIB, 36 * KIB);
    assert_true(client_limits_is_over(&scene.limits));
    client_share_evict(&scene.shares[0], evict);
    assert_int_equal(scene.clients[0].evicted + scene.clients[4].evicted, 1);
    assert_false(scene.clients[2].evicted);
    assert_int_equal(gauge_read(&scene.shares[0].evicted), 1);
    assert_false(client_limits_is_over(&scene.limits));
    stop(&scene);
}

TEST(a_worker_leaves_its_clients_alone_while_another_has_worse_ones)
{
    struct scene scene;
    start(&scene, 100 * KIB);
    set(&scene.clients[0], 30 * KIB, 0);
    set(&scene.clients[1], 90 * KIB, 0);
    client_share_evict(&scene.shares[0], evict);
    assert_false(scene.clients[0].evicted);
    client_share_evict(&scene.shares[1], evict);
    assert_true(scene.clients[1].evicted);
    assert_false(scene.clients[0].evicted);
    stop(&scene);
}

TEST(who_has_not_authenticated_counts_more)
{
    struct scene scene;
    start(&scene, 100 * KIB);
    set(&scene.clients[0], 80 * KIB, 0);
    client_usage_set(&scene.shares[1], &scene.clients[1].usage,
                     (struct client_memory){.input = 30 * KIB, .is_stranger = true});
    client_share_evict(&scene.shares[0], evict);
    assert_false(scene.clients[0].evicted);
    client_share_evict(&scene.shares[1], evict);
    assert_true(scene.clients[1].evicted);
    stop(&scene);
}

TEST(who_has_authenticated_since_counts_as_others_do)
{
    struct scene scene;
    start(&scene, 100 * KIB);
    set(&scene.clients[0], 80 * KIB, 0);
    struct client_memory memory = {.input = 30 * KIB, .is_stranger = true};
    client_usage_set(&scene.shares[1], &scene.clients[1].usage, memory);
    memory.is_stranger = false;
    client_usage_set(&scene.shares[1], &scene.clients[1].usage, memory);
    client_share_evict(&scene.shares[1], evict);
    assert_false(scene.clients[1].evicted);
    client_share_evict(&scene.shares[0], evict);
    assert_true(scene.clients[0].evicted);
    stop(&scene);
}

/* Of two workers, one with subscribers: what these share is in the total once. */
TEST(who_lags_behind_what_is_shared_goes_in_the_order_of_its_lag)
{
    struct scene scene;
    start(&scene, 100 * KIB);
    client_share_add(&scene.shares[0], 60 * KIB);
    for (int i = 0; i < 4; i += 2)
        client_usage_set(&scene.shares[0], &scene.clients[i].usage,
                         (struct client_memory){.output = 1 * KIB, .lag = i == 0 ? 60 * KIB : 0});
    set(&scene.clients[1], 70 * KIB, 0);
    assert_true(client_limits_is_over(&scene.limits));
    client_share_evict(&scene.shares[0], evict); /* the other worker has a worse one */
    assert_false(scene.clients[0].evicted);
    client_share_evict(&scene.shares[1], evict);
    assert_true(scene.clients[1].evicted);
    assert_false(client_limits_is_over(&scene.limits));

    set(&scene.clients[3], 0, 50 * KIB);
    client_usage_set(&scene.shares[0], &scene.clients[0].usage,
                     (struct client_memory){.output = 1 * KIB, .lag = 70 * KIB});
    client_share_evict(&scene.shares[1], evict);
    assert_false(scene.clients[3].evicted);
    client_share_evict(&scene.shares[0], evict);
    assert_true(scene.clients[0].evicted);
    assert_false(scene.clients[2].evicted); /* it reads */
    client_share_add(&scene.shares[0], -60 * (int64_t)KIB);
    stop(&scene);
}

TEST(small_clients_are_never_closed_and_do_not_keep_others_busy)
{
    struct scene scene;
    start(&scene, 1 * KIB);
    for (int i = 0; i < 8; i++)
        set(&scene.clients[i], 500, 0);
    assert_true(client_limits_is_over(&scene.limits));
    client_share_evict(&scene.shares[0], evict);
    for (int i = 0; i < 8; i++)
        assert_false(scene.clients[i].evicted);
    stop(&scene);
}

TEST(a_client_that_grows_and_shrinks_is_in_the_class_of_its_size)
{
    struct scene scene;
    start(&scene, 0);
    uint64_t seed = 7;
    for (int round = 0; round < 10000; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
        set(&scene.clients[seed >> 60 & 7], (size_t)(seed >> 33) % (1 << (seed >> 40 & 15)), 0);
        uint64_t total = 0;
        for (int i = 0; i < 2; i++) {
            unsigned worst = 0;
            for (int n = i; n < 8; n += 2) {
                size_t bytes = client_usage_bytes(&scene.clients[n].usage);
                total += bytes;
                unsigned class = bytes < KIB ? 0 : 63U - (unsigned)__builtin_clzll(bytes);
                assert_int_equal(scene.clients[n].usage.class, class);
                worst = class > worst ? class : worst;
            }
            assert_int_equal(gauge_read(&scene.shares[i].worst), worst);
        }
        assert_int_equal(atomic_load(&scene.limits.memory), total);
    }
    stop(&scene);
}

RUN(cmocka_unit_test(connections_are_counted_together_and_refused_beyond_the_limit),
    cmocka_unit_test(the_worst_client_is_closed_until_the_total_is_below),
    cmocka_unit_test(a_worker_leaves_its_clients_alone_while_another_has_worse_ones),
    cmocka_unit_test(who_has_not_authenticated_counts_more),
    cmocka_unit_test(who_has_authenticated_since_counts_as_others_do),
    cmocka_unit_test(who_lags_behind_what_is_shared_goes_in_the_order_of_its_lag),
    cmocka_unit_test(small_clients_are_never_closed_and_do_not_keep_others_busy),
    cmocka_unit_test(a_client_that_grows_and_shrinks_is_in_the_class_of_its_size))
