/* spread_redis_test.c - what is spread over the primaries of a cluster: where policies send writes,
 * shards that follow the load, and totals while a primary does not answer.
 *
 * A primary is made slow or silent by stopping its process; no replica takes over meanwhile, since
 * that is another story (unit/hot/redis/cluster). */
/* servers: cluster */
/* threads */
#define RIG_REDIS
#include "contract/hot_rig.h"

#include <signal.h>

#include "base/bell.h"
#include "base/hash.h"
#include "hot/redis/layer.h"
#include "hot/redis/run_own.h"

#define WAIT_MS 60000u

static struct rig rig;

/* ---- the servers ---- */

struct server {
    redisContext *redis;
    pid_t pid;
};

static void ask_server(redisContext *redis, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(redis, format, arguments);
    va_end(arguments);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    freeReplyObject(reply);
}

static struct server connect_to(const redisReply *node)
{
    struct server server = {
        .redis = redisConnect(node->element[0]->str, (int)node->element[1]->integer)};
    assert_true(server.redis && !server.redis->err);
    redisReply *info = redisCommand(server.redis, "INFO server");
    const char *pid = strstr(info->str, "process_id:");
    assert_non_null(pid);
    server.pid = (pid_t)strtol(pid + strlen("process_id:"), NULL, 10);
    freeReplyObject(info);
    return server;
}

static redisReply *slots(void)
{
    char host[64];
    int port;
    assert_int_equal(sscanf(rig_server(), "redis://%63[^:]:%d", host, &port), 2);
    redisContext *redis = redisConnect(host, port);
    redisReply *map = redisCommand(redis, "CLUSTER SLOTS");
    assert_true(map && map->type == REDIS_REPLY_ARRAY);
    redisFree(redis);
    return map;
}

/* The one that has the cell. */
static struct server server_of(unsigned cell)
{
    unsigned slot = layer_of(rig.hot)->tags.slots[cell];
    struct server server = {0};
    redisReply *map = slots();
    for (size_t i = 0; i < map->elements; i++)
        if (slot >= map->element[i]->element[0]->integer &&
            slot <= map->element[i]->element[1]->integer)
            server = connect_to(map->element[i]->element[2]);
    freeReplyObject(map);
    assert_non_null(server.redis);
    return server;
}

static void let_nobody_take_over(void)
{
    redisReply *map = slots();
    for (size_t i = 0; i < map->elements; i++)
        for (size_t j = 2; j < map->element[i]->elements; j++) {
            struct server server = connect_to(map->element[i]->element[j]);
            ask_server(server.redis, "CONFIG SET cluster-node-timeout 600000");
            redisFree(server.redis);
        }
    freeReplyObject(map);
}

static pid_t stopped; /* goes on at the end of a test, however that comes */

static void stop_server(const struct server *server)
{
    stopped = server->pid;
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
}

static void let_go_on(void)
{
    if (stopped > 0)
        kill(stopped, SIGCONT);
    stopped = 0;
}

/* ---- life ---- */

static int begin(void **state)
{
    (void)state;
    rig_open(&rig);
    return 0;
}

static int end(void **state)
{
    (void)state;
    let_go_on();
    rig_close(&rig);
    return 0;
}

static int begin_hot(void **state)
{
    rig = (struct rig){.real_clock = true, .spread_rate = 10};
    return begin(state);
}

static int begin_plain(void **state)
{
    rig = (struct rig){
        .real_clock = true, .totals_ttl_ms = 2500, .workers = RIG_WORKERS_MAX, .patience = 1};
    return begin(state);
}

static uint64_t now_ms(void)
{
    return env_monotonic_ns(env_system()) / 1000000;
}

static struct op write_at_last(struct op op)
{
    struct op done = rig_ask(&rig, op);
    for (unsigned i = 0; done.code == ERR_UNAVAILABLE && i < 500; i++) {
        usleep(10000); /* its cell is being opened */
        done = rig_ask(&rig, op);
    }
    return done;
}

static struct op read_exactly(const char *id)
{
    struct op op = get(id);
    op.exact = true;
    return rig_ask(&rig, op);
}

/* Returns how much was added: shards of every primary have some of it, and latencies are known. One
 * that is slow for a while is left out by the least loaded at first. */
static int64_t create_counter(const char *id, enum policy policy)
{
    struct op_create as = {.shards = 12, .policy = policy};
    int64_t added = 0;
    uint64_t met = 0;
    assert_int_equal(write_at_last(create(id, &as)).code, ERR_OK);
    for (; added < 60 || met != (UINT64_C(1) << layer_primaries(layer_of(rig.hot))) - 1; added++) {
        struct op op = write_at_last(add(id, 1));
        assert_int_equal(op.code, ERR_OK);
        assert_true(added < 100000);
        met |= UINT64_C(1) << layer_primary_of(layer_of(rig.hot), op.cell);
    }
    return added;
}

/* A home cell that is on another primary, so that only shards are in trouble and not the map. */
static unsigned other_primary(const char *id)
{
    struct layer *layer = layer_of(rig.hot);
    unsigned home = layer_home(hash_stable(slice_of(id)));
    unsigned cell = 0;
    while (layer_primary_of(layer, cell) == layer_primary_of(layer, home))
        cell++;
    return cell;
}

/* ---- policies ---- */

static _Atomic bool stop_limping;

/* Stopped for most of the time. */
static void *limp(void *arg)
{
    const struct server *server = arg;
    while (!atomic_load(&stop_limping)) {
        kill(server->pid, SIGSTOP);
        usleep(80000);
        kill(server->pid, SIGCONT);
        usleep(1000);
    }
    return NULL;
}

/* How many of the next writes, all in turn, each of the counters sends to the primary. */
static void write_in_turn(const char *const ids[3], unsigned rounds, unsigned primary,
                          unsigned met[3])
{
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < 3; i++) {
            struct op op = rig_ask(&rig, add(ids[i], 1));
            assert_int_equal(op.code, ERR_OK);
            met[i] += layer_primary_of(layer_of(rig.hot), op.cell) == primary;
        }
}

TEST(a_slow_primary_is_avoided_by_the_least_loaded_and_by_no_others)
{
    static const char *const ids[3] = {"at random", "in turn", "least loaded"};
    int64_t added[3] = {create_counter(ids[0], POLICY_RANDOM),
                        create_counter(ids[1], POLICY_ROUND_ROBIN),
                        create_counter(ids[2], POLICY_LEAST_LOADED)};
    unsigned cell = other_primary(ids[2]);
    unsigned primary = layer_primary_of(layer_of(rig.hot), cell);
    struct server slow = server_of(cell);
    pthread_t limping;
    stopped = slow.pid;
    atomic_store(&stop_limping, false);
    assert_int_equal(pthread_create(&limping, NULL, limp, &slow), 0);
    unsigned met[3] = {0};
    write_in_turn(ids, 10, primary, met); /* until it is known to be slow */
    memset(met, 0, sizeof(met));
    write_in_turn(ids, 50, primary, met);
    atomic_store(&stop_limping, true);
    pthread_join(limping, NULL);
    assert_true(met[0] >= 7 && met[1] >= 13); /* of 50, where a third would be 17 */
    assert_true(met[2] <= 7);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(read_exactly(ids[i]).value.small, added[i] + 60);
    redisFree(slow.redis);
}

/* ---- a primary that does not answer ---- */

TEST(the_least_loaded_leave_a_silent_primary_alone_and_its_totals_grow_old)
{
    int64_t added = create_counter("silent", POLICY_LEAST_LOADED);
    struct op op = read_exactly("silent");
    assert_int_equal(op.value.small, added);
    assert_int_equal(op.shards_missing, 0);
    unsigned cell = other_primary("silent");
    struct server silent = server_of(cell);
    int64_t stopped_ms = env_wall_ms(env_system());
    stop_server(&silent);

    op = rig_ask(&rig, get("silent"));
    while (op.shards_missing == 0 && env_wall_ms(env_system()) - stopped_ms < WAIT_MS)
        op = rig_ask(&rig, get("silent"));
    assert_int_equal(op.code, ERR_OK);
    assert_true(op.shards_missing > 0 && op.shards_missing < 12);
    assert_int_equal(op.value.small, added);                   /* their last word, */
    assert_true(op.as_of_ms > 0 && op.as_of_ms <= stopped_ms); /* of before */

    int64_t known_ms = op.as_of_ms;
    unsigned refused = 0;
    for (unsigned i = 0; i < 40; i++)
        refused += rig_ask(&rig, add("silent", 1)).code != ERR_OK;
    assert_true(refused <= 2); /* were on their way there when nobody knew */

    int64_t all = added + 40 - (int64_t)refused;
    do {
        usleep(20000);
        op = rig_ask(&rig, get("silent"));
    } while (op.value.small >= all && env_wall_ms(env_system()) - stopped_ms < WAIT_MS);
    assert_true(op.value.small < all); /* their last word is too old by now */
    assert_true(op.shards_missing > 0);
    assert_true(env_wall_ms(env_system()) - known_ms >= (int64_t)rig.totals_ttl_ms);

    let_go_on();
    uint64_t until_ms = now_ms() + WAIT_MS;
    do
        op = read_exactly("silent");
    while ((op.code || op.shards_missing > 0) && now_ms() < until_ms);
    assert_int_equal(op.shards_missing, 0);
    assert_true(op.value.small >= all && op.value.small <= added + 40);
    redisFree(silent.redis);
}

/* ---- many readers ---- */

struct reader {
    pthread_t thread;
    unsigned worker;
    int64_t value;
    unsigned wrong;
};

static void *read_some(void *arg)
{
    struct reader *reader = arg;
    struct op ops[8];
    for (unsigned i = 0; i < 8; i++)
        ops[i] = get("read by many");
    rig_run(&rig, reader->worker, ops, 8);
    for (unsigned i = 0; i < 8; i++)
        reader->wrong += ops[i].code != ERR_OK || ops[i].value.small != reader->value;
    return NULL;
}

struct counting {
    struct bell bell;
    uint64_t batches;
};

static void count_batches(void *arg)
{
    struct counting *counting = arg;
    counting->batches = layer_of(rig.hot)->runs->batches;
    bell_ring(&counting->bell);
}

/* Those that the layer's thread has begun with. */
static uint64_t batches_so_far(void)
{
    struct counting counting = {.batches = 0};
    bell_init(&counting.bell);
    assert_true(layer_post(layer_of(rig.hot), count_batches, &counting));
    bell_wait(&counting.bell, UINT64_MAX);
    bell_done(&counting.bell);
    return counting.batches;
}

/* How often a server was asked what a cell has of the id, by what it has told until now. */
static unsigned count_asked(redisContext *monitor, const struct server *server, unsigned cell)
{
    char key[64];
    snprintf(key, sizeof(key), "%s:r:read by many", layer_of(rig.hot)->tags.tags[cell]);
    ask_server(server->redis, "ECHO that-was-all");
    unsigned count = 0;
    for (;;) {
        redisReply *line;
        assert_int_equal(redisGetReply(monitor, (void **)&line), REDIS_OK);
        bool was_all = strstr(line->str, "that-was-all");
        count += strstr(line->str, key) && strstr(line->str, "\"tell\"");
        freeReplyObject(line);
        if (was_all)
            return count;
    }
}

TEST(readers_who_come_at_once_share_what_the_shards_are_asked)
{
    int64_t added = create_counter("read by many", POLICY_ROUND_ROBIN);
    assert_int_equal(read_exactly("read by many").value.small, added);
    unsigned home = layer_home(hash_stable(SLICE("read by many")));
    struct server server = server_of(home);
    usleep(1000000); /* nobody reads it: what is known of it is too old for an answer */
    struct server watched = server_of(home);
    ask_server(watched.redis, "MONITOR");
    stop_server(&server);
    uint64_t before = batches_so_far();
    struct reader readers[RIG_WORKERS_MAX];
    for (unsigned i = 0; i < RIG_WORKERS_MAX; i++) {
        readers[i] = (struct reader){.worker = i, .value = added};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_some, &readers[i]), 0);
    }
    for (unsigned i = 0; batches_so_far() < before + RIG_WORKERS_MAX; i++) {
        assert_true(i < WAIT_MS);
        usleep(1000);
    }
    let_go_on();
    for (unsigned i = 0; i < RIG_WORKERS_MAX; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].wrong, 0);
    }
    unsigned asked = count_asked(watched.redis, &server, home);
    assert_true(asked >= 1 && asked <= 4); /* for 64 reads */
    redisFree(server.redis);
    redisFree(watched.redis);
}

/* ---- shards follow the load ---- */

static struct op_describe shards_of(const char *id)
{
    struct op_describe describe = {.reason = ""};
    struct op op = on(OP_DESCRIBE, id);
    op.describe = &describe;
    write_at_last(op);
    return describe;
}

enum { MANY = 20 };

/* Adds to a counter, and likes an item in the names of so many new users; returns how many. */
static int64_t write_some(int64_t from, unsigned count)
{
    struct op ops[2 * MANY];
    char users[MANY][24];
    for (unsigned i = 0; i < count; i++) {
        snprintf(users[i], sizeof(users[i]), "u%ld", (long)from + i);
        ops[2 * i] = add("growing", 1);
        ops[2 * i + 1] = react("growing item", users[i], LIKE);
    }
    rig_run(&rig, 0, ops, (size_t)2 * count);
    for (unsigned i = 0; i < 2 * count; i++)
        assert_int_equal(ops[i].code, ERR_OK);
    return count;
}

static void assert_all_counted(int64_t written)
{
    struct op op = read_exactly("growing");
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, written);
    op = read_exactly("growing item/like");
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, written);
}

/* Whoever likes again changes nothing. */
static void assert_known(int64_t written)
{
    for (int64_t i = 0; i < written; i += 97) {
        char user[24];
        snprintf(user, sizeof(user), "u%ld", (long)i);
        struct op op = rig_ask(&rig, react("growing item", user, LIKE));
        assert_int_equal(op.code, ERR_OK);
        assert_false(op.changed);
    }
}

TEST(shards_grow_from_1_to_64_by_load_alone_and_fold_when_it_is_over)
{
    write_at_last(add("growing", 0));
    assert_int_equal(shards_of("growing").shards, 1);
    int64_t written = 0;
    uint64_t until_ms = now_ms() + WAIT_MS;
    while (now_ms() < until_ms &&
           (shards_of("growing").shards < 64 || shards_of("growing item").shards < 64)) {
        written += write_some(written, MANY);
        usleep(5000);
    }
    assert_int_equal(shards_of("growing").shards, 64);
    assert_int_equal(shards_of("growing item").shards, 64);
    assert_string_equal(shards_of("growing").reason, "more writes than spread-rate");
    assert_all_counted(written);

    /* It is quiet for a minute, which goes by quickly; one still writes now and then: many at
     * once would be hot again for two shards. */
    for (unsigned i = 0;
         i < 6000 && (shards_of("growing").shards > 1 || shards_of("growing item").shards > 1);
         i++) {
        usleep(10000);
        atomic_fetch_add(&rig.ahead_ms, 60);
        if (i % 200 == 100)
            written += write_some(written, 1);
    }
    assert_int_equal(shards_of("growing").shards, 1);
    assert_int_equal(shards_of("growing item").shards, 1);
    assert_string_equal(shards_of("growing").reason, "quiet for 10 s");
    assert_string_equal(shards_of("growing item").reason, "quiet for 10 s");
    assert_all_counted(written);
    assert_known(written);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin_plain, end)

int main(void)
{
    if (!rig_server()) {
        printf("no server to run against: TALLY_TEST_CLUSTER\n");
        return 77;
    }
    let_nobody_take_over();
    const struct CMUnitTest tests[] = {
        PROMISE(a_slow_primary_is_avoided_by_the_least_loaded_and_by_no_others),
        PROMISE(the_least_loaded_leave_a_silent_primary_alone_and_its_totals_grow_old),
        PROMISE(readers_who_come_at_once_share_what_the_shards_are_asked),
        cmocka_unit_test_setup_teardown(
            shards_grow_from_1_to_64_by_load_alone_and_fold_when_it_is_over, begin_hot, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
