/* Opening: which servers will do, and what is said about those that will not. */
/* servers: redis */
/* threads */
#include "unit/hot/redis/rig.h"

static struct rig rig;

static int begin(void **state)
{
    (void)state;
    rig_open(&rig);
    return 0;
}

static int end(void **state)
{
    (void)state;
    RIG_DO(&rig, "CONFIG", "SET", "maxmemory-policy", "noeviction");
    RIG_DO(&rig, "CONFIG", "SET", "requirepass", "");
    rig_close(&rig);
    return 0;
}

static enum err open_at(const char *url, struct error *error)
{
    struct hot *hot = NULL;
    rig.options.url = url;
    enum err err = redis_hot_open(env_system(), &rig.options, &hot, error);
    if (!err)
        hot_close(hot);
    return err;
}

TEST(urls_that_make_no_sense_are_refused)
{
    static const char *const urls[] = {
        "redis:/127.0.0.1:1",     "rediss://127.0.0.1:1", "redis://",
        "redis:///prefix",        "redis://a:1/{x}",      "redis://a:1/p/q",
        "redis://user:%zz@a:1/p", "redis://:1/p",         "redis-stream://a:1",
        "redis://a:1?replicas=1"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct error error = {.text = ""};
        assert_int_equal(open_at(urls[i], &error), ERR_INVALID);
        assert_true(strlen(error.text) > 0);
    }
}

TEST(a_server_that_throws_data_away_is_refused)
{
    struct error error = {.text = ""};
    RIG_DO(&rig, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    assert_int_equal(open_at(rig.url, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "noeviction"));
    RIG_DO(&rig, "CONFIG", "SET", "maxmemory-policy", "noeviction");
    assert_int_equal(open_at(rig.url, &error), ERR_OK);
}

TEST(a_password_is_needed_where_there_is_one_and_told_to_nobody)
{
    struct error error = {.text = ""};
    RIG_DO(&rig, "CONFIG", "SET", "requirepass", "sec:ret");
    RIG_DO(&rig, "AUTH", "sec:ret");
    assert_int_equal(open_at(rig.url, &error), ERR_DENIED);
    char url[2048];
    const char *host = rig.url + strlen("redis://");
    snprintf(url, sizeof(url), "redis://:wrong@%s", host);
    assert_int_equal(open_at(url, &error), ERR_DENIED);
    assert_null(strstr(error.text, "wrong@"));
    snprintf(url, sizeof(url), "redis://:sec%%3Aret@%s", host);
    assert_int_equal(open_at(url, &error), ERR_OK);
    snprintf(url, sizeof(url), "redis://default:sec%%3Aret@%s", host);
    assert_int_equal(open_at(url, &error), ERR_OK);
}

TEST(a_server_that_is_not_there_yet_is_no_reason_to_give_up)
{
    rig.options.url = "redis://127.0.0.1:1/p";
    struct hot *hot;
    assert_int_equal(redis_hot_open(env_system(), &rig.options, &hot, NULL), ERR_OK);
    char reason[200];
    assert_false(redis_hot_status(hot, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "127.0.0.1:1"));
    uint64_t began = env_monotonic_ns(env_system());
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_UNAVAILABLE);
    /* Not the 5 s that an op waits. */
    assert_true(env_monotonic_ns(env_system()) - began < UINT64_C(2500000000));
    hot_close(hot);
}

RUN(cmocka_unit_test_setup_teardown(urls_that_make_no_sense_are_refused, begin, end),
    cmocka_unit_test_setup_teardown(a_server_that_throws_data_away_is_refused, begin, end),
    cmocka_unit_test_setup_teardown(a_password_is_needed_where_there_is_one_and_told_to_nobody,
                                    begin, end),
    cmocka_unit_test_setup_teardown(a_server_that_is_not_there_yet_is_no_reason_to_give_up, begin,
                                    end))
