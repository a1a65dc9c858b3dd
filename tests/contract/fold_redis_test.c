/* fold_redis_test.c - ops that need something spread in one piece, while the log is down: nothing
 * folds then, and nobody waits for long. */
/* servers: redis */
/* threads */
#define RIG_REDIS
#include "contract/hot_rig.h"

#define WRITE_MS 9000u /* a write is refused after 5 s; on a busy machine a little later */
#define READ_MS  3000u

static struct rig rig;

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

static void let_log_be_down(bool is_down)
{
    atomic_store(&rig.log_is_down, is_down);
    usleep(50000); /* what the relay is at is done */
}

/* A counter with 60 in it, and the log goes down. */
static int begin(void **state)
{
    (void)state;
    rig = (struct rig){.real_clock = true, .patience = 1};
    rig_open(&rig);
    struct op_create as = {.shards = 8, .policy = POLICY_ROUND_ROBIN};
    assert_int_equal(write_at_last(create("c", &as)).code, ERR_OK);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(write_at_last(add("c", 1)).code, ERR_OK);
    let_log_be_down(true);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* ---- an op beside others ---- */

struct beside {
    pthread_t thread;
    struct op op;
    uint64_t took_ms;
};

static void *run_beside(void *arg)
{
    struct beside *beside = arg;
    uint64_t began_ms = now_ms();
    rig_run(&rig, 1, &beside->op, 1);
    beside->took_ms = now_ms() - began_ms;
    return NULL;
}

static void start_beside(struct beside *beside, struct op op)
{
    *beside = (struct beside){.op = op};
    assert_int_equal(pthread_create(&beside->thread, NULL, run_beside, beside), 0);
    usleep(100000); /* it waits by now */
}

static struct op end_beside(struct beside *beside)
{
    pthread_join(beside->thread, NULL);
    return beside->op;
}

static struct op read_exactly(void)
{
    struct op op = get("c");
    op.exact = true;
    return rig_ask(&rig, op);
}

/* ---- tests ---- */

TEST(a_write_that_waits_for_the_log_is_refused_as_soon_as_any_other)
{
    struct op writes[] = {set("c", 7), on(OP_DELETE, "c"), expire("c", INT64_C(4000000000000))};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t began_ms = now_ms();
        assert_int_equal(rig_ask(&rig, writes[i]).code, ERR_UNAVAILABLE);
        assert_true(now_ms() - began_ms < WRITE_MS);
    }
    assert_int_equal(read_exactly().value.small, 60); /* and it was not done */
    let_log_be_down(false);
    assert_int_equal(write_at_last(set("c", 7)).code, ERR_OK);
    assert_int_equal(read_exactly().value.small, 7);
}

TEST(reads_do_not_wait_for_a_fold)
{
    struct beside beside;
    start_beside(&beside, set("c", 7));
    for (unsigned i = 0; i < 3; i++) {
        uint64_t began_ms = now_ms();
        struct op op = read_exactly();
        assert_true(now_ms() - began_ms < READ_MS);
        assert_int_equal(op.code, ERR_OK);
        assert_int_equal(op.value.small, 60);
        assert_int_equal(op.shards_missing, 0);
    }
    assert_int_equal(end_beside(&beside).code, ERR_UNAVAILABLE);
}

TEST(what_is_added_meanwhile_is_added_when_nobody_needs_the_fold_any_more)
{
    struct beside beside;
    start_beside(&beside, set("c", 7));
    usleep(2000000); /* it is refused while the other still has patience */
    uint64_t began_ms = now_ms();
    assert_int_equal(rig_ask(&rig, add("c", 1)).code, ERR_OK);
    assert_true(now_ms() - began_ms < WRITE_MS);
    assert_int_equal(end_beside(&beside).code, ERR_UNAVAILABLE);
    assert_int_equal(read_exactly().value.small, 61);
}

TEST(a_read_behind_a_write_of_its_batch_sees_what_became_of_it)
{
    struct op ops[] = {set("c", 7), get("c")};
    rig_run(&rig, 0, ops, 2);
    assert_int_equal(ops[0].code, ERR_UNAVAILABLE);
    assert_int_equal(ops[1].code, ERR_OK);
    assert_int_equal(ops[1].value.small, 60);
    let_log_be_down(false);
    rig_run(&rig, 0, ops, 2);
    assert_int_equal(ops[0].code, ERR_OK);
    assert_int_equal(ops[1].value.small, 7);
}

TEST(what_is_created_with_shards_is_there_before_these_are)
{
    struct op_create as = {.shards = 8};
    uint64_t began_ms = now_ms();
    struct op op = rig_ask(&rig, create("other", &as));
    assert_int_equal(op.code, ERR_OK);
    assert_true(now_ms() - began_ms < WRITE_MS);
    assert_int_equal(rig_ask(&rig, add("other", 5)).code, ERR_OK);
}

TEST(when_the_server_stops_nobody_waits_and_the_rest_goes_on)
{
    struct beside beside;
    start_beside(&beside, set("c", 7));
    hot_hurry(rig.hot);
    assert_int_equal(end_beside(&beside).code, ERR_UNAVAILABLE);
    assert_true(beside.took_ms < 2500);
    assert_int_equal(rig_ask(&rig, add("plain", 5)).code, ERR_OK);
    assert_int_equal(read_exactly().value.small, 60);
    uint64_t began_ms = now_ms();
    assert_int_equal(rig_ask(&rig, on(OP_DELETE, "c")).code, ERR_UNAVAILABLE);
    assert_true(now_ms() - began_ms < 2500);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    if (!rig_server()) {
        printf("no server to run against: TALLY_TEST_REDIS\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        PROMISE(a_write_that_waits_for_the_log_is_refused_as_soon_as_any_other),
        PROMISE(reads_do_not_wait_for_a_fold),
        PROMISE(what_is_added_meanwhile_is_added_when_nobody_needs_the_fold_any_more),
        PROMISE(a_read_behind_a_write_of_its_batch_sees_what_became_of_it),
        PROMISE(what_is_created_with_shards_is_there_before_these_are),
        PROMISE(when_the_server_stops_nobody_waits_and_the_rest_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
