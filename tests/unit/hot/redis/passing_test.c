/* What a single server says while it cannot do what is asked: LOADING, READONLY, NOSCRIPT. What
 * waits is done once when that has passed; what lasts too long is refused, and was not done. */
/* servers: redis */
/* threads */
#include "unit/hot/redis/beside.h"
#include "unit/hot/redis/server.h"

#define WRITERS 4u
#define ROUNDS  300u

static struct server server;
static struct rig rig;
static struct hot *hot;

static int begin(void **state)
{
    (void)state;
    server_new(&server);
    rig_open_at(&rig, server.url);
    rig.options.guests = 1 + WRITERS;
    hot = rig_node(&rig);
    rig_open_all(hot);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rig_close(&rig);
    server_remove(&server);
    return 0;
}

static void assert_next_is(const char *id, int64_t value)
{
    struct op op = {.code = ERR_UNAVAILABLE};
    for (unsigned i = 0; i < 500 && op.code == ERR_UNAVAILABLE; i++) {
        op = rig_run(hot, rig_add(id, 1));
        usleep(10000);
    }
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, value);
}

static void assert_passed(struct beside *beside, int64_t value)
{
    struct op op = beside_end(beside);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, value);
}

/* ---- READONLY ---- */

TEST(a_primary_that_was_made_a_replica_is_waited_for)
{
    rig_run(hot, rig_add("replica", 1));
    RIG_DO(&rig, "REPLICAOF", "127.0.0.1", "1"); /* where nobody is: it keeps what it has */
    struct beside passing;
    beside_start(&passing, hot, rig_add("replica", 1));
    wait_for_error(rig.redis, "READONLY", 0);
    RIG_DO(&rig, "REPLICAOF", "NO", "ONE");
    assert_passed(&passing, 2);

    RIG_DO(&rig, "REPLICAOF", "127.0.0.1", "1");
    assert_int_equal(rig_run(hot, rig_add("replica", 1)).code, ERR_UNAVAILABLE);
    RIG_DO(&rig, "REPLICAOF", "NO", "ONE");
    assert_next_is("replica", 3);
}

/* ---- LOADING ---- */

/* Reads everything from its file again, which takes `ms`, and says so to all who ask. */
static void *load_again(void *arg)
{
    redisContext *redis = rig_connect(server.url);
    redisReply *keys = redisCommand(redis, "DBSIZE");
    redisReply *set = redisCommand(redis, "CONFIG SET key-load-delay %lld",
                                   *(const int *)arg * 1000LL / keys->integer);
    redisReply *reply = redisCommand(redis, "DEBUG RELOAD");
    bool is_done = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    freeReplyObject(set);
    freeReplyObject(keys);
    redisFree(redis);
    return is_done ? arg : NULL;
}

static pthread_t start_loading(int *ms)
{
    unsigned long before = errors_met(rig.redis, "LOADING");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, load_again, ms), 0);
    for (unsigned i = 0; i < 1000; i++) {
        redisReply *reply = redisCommand(rig.redis, "GET nothing");
        bool loads = reply && reply->type == REDIS_REPLY_ERROR;
        freeReplyObject(reply);
        if (loads)
            break;
        usleep(1000);
    }
    assert_true(errors_met(rig.redis, "LOADING") > before);
    return thread;
}

static void end_loading(pthread_t thread)
{
    void *is_done;
    pthread_join(thread, &is_done);
    assert_non_null(is_done);
}

TEST(a_server_that_loads_its_data_is_waited_for)
{
    /* It looks who asks after every so many bytes, which is every few keys. */
    RIG_DO(&rig, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024");
    RIG_DO(&rig, "CONFIG", "SET", "rdbcompression", "no");
    RIG_DO(&rig, "DEBUG", "POPULATE", "30", "filler", "1024");
    rig_run(hot, rig_add("loaded", 1));
    int short_ms = 300;
    pthread_t loading = start_loading(&short_ms);
    struct op op = rig_run(hot, rig_add("loaded", 1));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 2);
    end_loading(loading);

    int long_ms = 8000; /* an op has the patience for 5 to 6 s */
    loading = start_loading(&long_ms);
    assert_int_equal(rig_run(hot, rig_add("loaded", 1)).code, ERR_UNAVAILABLE);
    end_loading(loading);
    assert_next_is("loaded", 3);
}

/* ---- NOSCRIPT ---- */

struct writer {
    pthread_t thread;
    unsigned number;
    unsigned refused;
};

static void *write_all(void *arg)
{
    struct writer *writer = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char user[24];
        bool is_done = false;
        snprintf(user, sizeof(user), "u%u.%u", writer->number, i);
        struct op ops[2] = {rig_add("flushed", 1), rig_like("flushed item", user)};
        struct batch batch = {.ops = ops,
                              .count = 2,
                              .worker = 1 + writer->number,
                              .now_ms = env_wall_ms(env_system()),
                              .done = rig_done,
                              .arg = &is_done};
        hot_run(hot, &batch);
        writer->refused += ops[0].code != ERR_OK || ops[1].code != ERR_OK;
    }
    return NULL;
}

TEST(writers_do_not_notice_that_scripts_are_forgotten)
{
    struct writer writers[WRITERS];
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.number = i};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (unsigned i = 0; i < 50; i++) {
        RIG_DO(&rig, "SCRIPT", "FLUSH");
        usleep(3000);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        assert_int_equal(writers[i].refused, 0);
    }
    assert_true(errors_met(rig.redis, "NOSCRIPT") > 0);
    assert_int_equal(rig_run(hot, rig_get("flushed")).value.small, WRITERS * ROUNDS);
    assert_int_equal(rig_run(hot, rig_get("flushed item/like")).value.small, WRITERS * ROUNDS);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

RUN(PROMISE(a_primary_that_was_made_a_replica_is_waited_for),
    PROMISE(a_server_that_loads_its_data_is_waited_for),
    PROMISE(writers_do_not_notice_that_scripts_are_forgotten))
