/* What may happen to a call on its way: replies are lost, scripts forgotten, servers gone. */
/* servers: redis+proxy */
/* threads */
#include "unit/hot/redis/rig.h"

#include "unit/hot/redis/beside.h"
#include "unit/hot/redis/faults.h"

static struct rig rig;
static struct hot *hot;

static int begin(void **state)
{
    (void)state;
    rig_open(&rig);
    redisFree(rig.redis);
    rig.redis = rig_connect(getenv("TALLY_TEST_REDIS_DIRECT"));
    hot = rig_node(&rig);
    rig_open_all(hot);
    return 0;
}

static int end(void **state)
{
    (void)state;
    make_faults("{}");
    rig_close(&rig);
    return 0;
}

TEST(a_call_whose_reply_is_lost_is_done_once)
{
    make_faults("{\"lose\":\"EVALSHA\",\"lose_every\":3}");
    for (int i = 1; i <= 40; i++) {
        struct op op = rig_run(hot, rig_add("lost", 1));
        assert_int_equal(op.code, ERR_OK);
        assert_int_equal(op.value.small, i);
    }
    for (int i = 0; i < 10; i++)
        assert_true(rig_run(hot, (struct op){.kind = OP_TOGGLE,
                                             .id = SLICE("lost item"),
                                             .user = SLICE("ann"),
                                             .reaction = LIKE})
                        .held == (i % 2 ? 0 : LIKE));
}

TEST(scripts_that_the_server_forgot_are_loaded_again)
{
    rig_run(hot, rig_add("forgot", 1));
    RIG_DO(&rig, "SCRIPT", "FLUSH");
    struct op op = rig_run(hot, rig_add("forgot", 1));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 2);
}

/* How many scripts the server has run. */
static unsigned long scripts_run(void)
{
    redisReply *reply = redisCommand(rig.redis, "INFO commandstats");
    assert_non_null(reply);
    const char *at = strstr(reply->str, "cmdstat_evalsha:calls=");
    unsigned long calls = at ? strtoul(strchr(at, '=') + 1, NULL, 10) : 0;
    freeReplyObject(reply);
    return calls;
}

/* The cell begins anew while nobody knows whether the call was done: what was done in it is gone,
 * or in the log already. */
static struct op run_over_a_new_epoch(struct op op)
{
    const char *key = rig_key(&rig, hot, layer_home(hash_stable(op.id)), "cell");
    char field[64];
    snprintf(field, sizeof(field), "call:%s", layer_of(hot)->node);
    struct beside beside;
    make_faults("{\"lose\":\"EVALSHA\",\"lose_every\":1}");
    unsigned long before = scripts_run();
    beside_start(&beside, hot, op);
    for (unsigned i = 0; i < 1000 && scripts_run() == before; i++)
        usleep(10000); /* on a busy machine it is on its way for longer */
    usleep(300000);
    char epoch[24];
    snprintf(epoch, sizeof(epoch), "%lu",
             strtoul(RIG_DO(&rig, "HGET", key, "epoch"), NULL, 10) + 1);
    RIG_DO(&rig, "HSET", key, "epoch", epoch, "n", "0");
    RIG_DO(&rig, "HDEL", key, field);
    RIG_DO(&rig, "DEL", rig_key(&rig, hot, layer_home(hash_stable(op.id)), "out"));
    make_faults("{}");
    return beside_end(&beside);
}

TEST(what_cannot_be_known_is_said_to_be_unknown)
{
    rig_run(hot, rig_add("unknown", 1));
    assert_int_equal(run_over_a_new_epoch(rig_add("unknown", 1)).code, ERR_TIMEOUT);
    struct op keyed = rig_add("unknown", 5);
    keyed.key = SLICE("k");
    struct op op = run_over_a_new_epoch(keyed);
    assert_int_equal(op.code, ERR_OK);
    assert_true(op.repeated);
    assert_int_equal(run_over_a_new_epoch(rig_like("unknown item", "ann")).code, ERR_OK);
}

TEST(a_server_that_is_gone_is_told_of_soon_and_found_again)
{
    rig_run(hot, rig_add("gone", 1));
    make_faults("{\"refuse\":true,\"reset_all\":true}");
    struct op op = rig_run(hot, rig_add("gone", 1));
    assert_true(op.code == ERR_UNAVAILABLE || op.code == ERR_TIMEOUT);
    uint64_t began = env_monotonic_ns(env_system());
    assert_int_equal(rig_run(hot, rig_add("gone", 1)).code, ERR_UNAVAILABLE);
    assert_true(env_monotonic_ns(env_system()) - began < UINT64_C(2000000000));
    char reason[200];
    assert_false(redis_hot_status(hot, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "127.0.0.1"));

    make_faults("{}");
    for (int i = 0; i < 500 && !redis_hot_status(hot, reason, sizeof(reason)); i++)
        usleep(10000);
    for (int i = 0; i < 100 && (op = rig_run(hot, rig_add("gone", 1))).code; i++)
        usleep(10000);
    assert_int_equal(op.code, ERR_OK);
}

TEST(a_slow_server_is_waited_for)
{
    make_faults("{\"delay_ms\":300}");
    struct op op = rig_run(hot, rig_add("slow", 1));
    assert_int_equal(op.code, ERR_OK);
}

RUN(cmocka_unit_test_setup_teardown(a_call_whose_reply_is_lost_is_done_once, begin, end),
    cmocka_unit_test_setup_teardown(scripts_that_the_server_forgot_are_loaded_again, begin, end),
    cmocka_unit_test_setup_teardown(what_cannot_be_known_is_said_to_be_unknown, begin, end),
    cmocka_unit_test_setup_teardown(a_server_that_is_gone_is_told_of_soon_and_found_again, begin,
                                    end),
    cmocka_unit_test_setup_teardown(a_slow_server_is_waited_for, begin, end))
