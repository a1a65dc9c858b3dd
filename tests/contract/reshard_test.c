/* reshard_test.c - items and counters that are spread and folded again and again
 * while several workers write to them. Each user and each sum belongs to one
 * worker, so that the end is known: it must be that of a layer with one shard.
 *
 * Run it under TSan and ASan, too: what it looks for beside wrong counts is a
 * piece that two cells touch at once, or one that was freed too early. */
/* threads */
#include "contract/hot_rig.h"

#include <stdatomic.h>
#include <unistd.h>

#include "sim/sim_rng.h"

#define WORKERS 3u
#define USERS   100000u
#ifdef __SANITIZE_THREAD__
#define ROUNDS      1u    /* ops of each user */
#define SPREAD_RATE 1000u /* of the tests' own time, in which slow workers get less done */
#else
#define ROUNDS      4u
#define SPREAD_RATE 20000u
#endif
#define BATCH      100u
#define POLICIES   POLICY_COUNT
#define PAUSE_US   300 /* between two changes of the shards: the workers get somewhere, too */
#define FLOOR      (-50)
#define ADD_ROUNDS 1500u

/* A thread that holds 64 locks and one more is too much for TSan's search for
 * deadlocks, and for nothing else. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "detect_deadlocks=0";
}

static struct rig rig;
static char users[USERS][12];
static uint8_t held[USERS]; /* what user i holds; touched by worker i % WORKERS only */
static _Atomic unsigned running;

static int open_rig(void **state)
{
    (void)state;
    rig = (struct rig){.workers = WORKERS, .spread_rate = SPREAD_RATE};
    rig_open(&rig);
    memset(held, 0, sizeof(held));
    for (unsigned i = 0; i < USERS; i++)
        snprintf(users[i], sizeof(users[i]), i % 2 ? "u%u" : "%u", i);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* ---- workers ---- */

struct worker {
    pthread_t thread;
    unsigned number;
    struct sim_rng rng;
    int64_t sums[POLICIES]; /* of what was added and not refused */
    unsigned deleted;
};

static unsigned below(struct sim_rng *rng, unsigned count)
{
    return (unsigned)sim_rng_below(rng, count);
}

/* cmocka's asserts are for the thread that runs the test. */
static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        abort();
    }
}

static void start(struct worker *workers, void *(*work)(void *))
{
    atomic_store(&running, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.number = i, .rng = {.state = i + 1}};
        must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread starts");
    }
}

static void join(struct worker *workers)
{
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
}

static void count_done(struct batch *batch)
{
    ++*(unsigned *)batch->arg;
}

static void run(const struct worker *worker, struct op *ops, size_t count)
{
    unsigned done = 0;
    struct batch batch = {.ops = ops,
                          .count = count,
                          .worker = worker->number,
                          .now_ms = RIG_BEGAN_MS,
                          .done = count_done,
                          .arg = &done};
    hot_run(rig.hot, &batch);
    must(done == 1, "a batch is done once");
}

/* ---- an item ---- */

static uint8_t after(const struct op *op, uint8_t before)
{
    if (op->kind == OP_REACT)
        return op->reaction;
    if (op->kind == OP_TOGGLE)
        return before == op->reaction ? 0 : op->reaction;
    return before == op->reaction ? 0 : before;
}

static struct op random_reaction(struct sim_rng *rng, unsigned user)
{
    static const enum op_kind kinds[] = {OP_REACT, OP_REACT, OP_REACT, OP_TOGGLE, OP_WITHDRAW};
    struct op op = react("v", users[user], 1 + below(rng, 2));
    op.kind = kinds[below(rng, 5)];
    return op;
}

static void react_for(struct worker *worker, unsigned first_user)
{
    struct op ops[BATCH + 1];
    unsigned count = 0;
    for (unsigned user = first_user; user < USERS && count < BATCH; user += WORKERS)
        ops[count++] = random_reaction(&worker->rng, user);
    int64_t counts[2] = {-1, -1};
    ops[count] = on(OP_COUNTS, "v");
    ops[count].counts = counts;
    run(worker, ops, count + 1);

    for (unsigned i = 0; i < count; i++) {
        uint8_t *held_now = &held[first_user + i * WORKERS];
        uint8_t ought = after(&ops[i], *held_now);
        must(ops[i].code == ERR_OK, "a reaction is taken");
        must(ops[i].held == ought, "a user holds what he asked for");
        must(ops[i].changed == (ought != *held_now), "the answer tells whether it changed");
        must(ops[i].ticket > 0 || !ops[i].changed, "a change has a ticket");
        *held_now = ought;
    }
    must(ops[count].code == ERR_OK && counts[0] >= 0 && counts[1] >= 0, "no count is negative");
    must(counts[0] + counts[1] <= USERS, "nobody counts twice");
}

static void *react_all(void *arg)
{
    struct worker *worker = arg;
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned user = worker->number; user < USERS; user += BATCH * WORKERS)
            react_for(worker, user);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void assert_item_is_the_model(void)
{
    int64_t ought[2] = {0};
    for (unsigned i = 0; i < USERS; i++)
        if (held[i])
            ought[held[i] - 1]++;
    int64_t counts[2];
    struct op op = on(OP_COUNTS, "v");
    op.counts = counts;
    rig_ask(&rig, op);
    for (unsigned kind = 1; kind <= 2; kind++) {
        assert_int_equal(counts[kind - 1], ought[kind - 1]);
        struct number recounted;
        assert_int_equal(
            hot_recount(rig.hot, kind == 1 ? SLICE("v/like") : SLICE("v/dislike"), &recounted),
            ERR_OK);
        assert_int_equal(recounted.small, ought[kind - 1]);
    }
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.members, ought[0] + ought[1]);
}

static void assert_members_are_the_model(void)
{
    for (uint8_t kind = 1; kind <= 2; kind++) {
        struct rig_lines is = rig_members(&rig, SLICE("v"), kind, 5000);
        struct rig_lines ought = {0};
        for (unsigned i = 0; i < USERS; i++)
            if (held[i] == kind)
                rig_line(&ought, slice_of(users[i]));
        rig_sort(&ought);
        assert_int_equal(is.count, ought.count);
        for (size_t i = 0; i < is.count; i++)
            assert_string_equal(is.lines[i], ought.lines[i]);
        rig_lines_done(&is);
        rig_lines_done(&ought);
    }
}

TEST(an_item_that_is_spread_and_folded_while_it_is_written_loses_nobody)
{
    struct worker workers[WORKERS];
    rig_ask(&rig, react("v", "the first", LIKE));
    rig_ask(&rig, withdraw("v", "the first", LIKE));
    start(workers, react_all);
    struct sim_rng rng = {.state = 42};
    int64_t now_ms = RIG_BEGAN_MS;
    unsigned resharded = 0;
    while (atomic_load(&running) > 0) {
        uint32_t shards = below(&rng, 3) ? 1 + below(&rng, 64) : 1;
        assert_int_equal(hot_reshard(rig.hot, SLICE("v"), shards, now_ms), ERR_OK);
        now_ms += 250;
        hot_tick(rig.hot, now_ms);
        resharded++;
        usleep(PAUSE_US);
    }
    join(workers);
    assert_true(resharded > 10);
    assert_item_is_the_model();
    for (uint32_t shards = 1; shards <= 64; shards = shards * 3 + 1) {
        assert_int_equal(hot_reshard(rig.hot, SLICE("v"), shards, now_ms), ERR_OK);
        assert_item_is_the_model();
    }
    assert_members_are_the_model();
    rig_stop(&rig);
    rig_start(&rig);
    assert_item_is_the_model();
    assert_members_are_the_model();
}

TEST(an_item_that_turns_hot_spreads_by_itself_and_loses_nobody)
{
    struct worker workers[WORKERS];
    hot_tick(rig.hot, RIG_BEGAN_MS);
    start(workers, react_all);
    int64_t now_ms = RIG_BEGAN_MS;
    bool was_spread = false;
    while (atomic_load(&running) > 0) {
        now_ms += 200;
        hot_tick(rig.hot, now_ms);
        struct hot_stats stats;
        hot_stats(rig.hot, &stats);
        was_spread = was_spread || stats.spread > 0;
        usleep(PAUSE_US);
    }
    join(workers);
    assert_true(was_spread);
    assert_item_is_the_model();
}

/* ---- counters ---- */

static const char *const counters[POLICIES] = {"local", "random", "in turn", "least loaded"};

/* Every add of a key is sent twice, and counts once. */
static void add_some(struct worker *worker, unsigned round)
{
    enum { ADDS = 8, ALL = POLICIES * ADDS };
    struct op ops[ALL];
    char names[ALL][32];
    for (unsigned i = 0; i < ALL; i++) {
        ops[i] = add(counters[i % POLICIES], (int64_t)below(&worker->rng, 21) - 10);
        if (i >= ALL - 2 * POLICIES) {
            unsigned twin = i >= ALL - POLICIES ? i - POLICIES : i;
            snprintf(names[i], sizeof(names[i]), "%u:%u:%u", worker->number, round, twin);
            ops[i].key = slice_of(names[i]);
            ops[i].amount = twin == i ? ops[i].amount : ops[twin].amount;
        }
    }
    run(worker, ops, ALL);
    for (unsigned i = 0; i < ALL; i++) {
        if (ops[i].code == ERR_BELOW_FLOOR)
            continue;
        must(ops[i].code == ERR_OK, "an add is taken or below the floor");
        must(ops[i].value.small >= FLOOR, "no answer is below the floor");
        if (!ops[i].repeated)
            worker->sums[i % POLICIES] += ops[i].amount.small;
    }
    for (unsigned i = ALL - POLICIES; i < ALL; i++)
        if (ops[i - POLICIES].code == ERR_OK)
            must(ops[i].repeated && ops[i].value.small == ops[i - POLICIES].value.small &&
                     ops[i].ticket >= ops[i - POLICIES].ticket,
                 "a repeated key gets the first answer, and not earlier");
}

static void *add_all(void *arg)
{
    struct worker *worker = arg;
    for (unsigned round = 0; round < ADD_ROUNDS; round++)
        add_some(worker, round);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void assert_sum(const char *id, int64_t sum)
{
    struct number recounted;
    assert_int_equal(hot_recount(rig.hot, slice_of(id), &recounted), ERR_OK);
    assert_int_equal(recounted.small, sum);
    assert_int_equal(rig_ask(&rig, get(id)).value.small, sum);
}

/* Wherever a power cut ends the log: what is left is not below the floor. */
static enum err sum_up(void *arg, struct slice section, struct log_position next,
                       struct error *error)
{
    (void)next;
    int64_t *sums = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    struct event event;
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        for (unsigned i = 0; i < POLICIES && event.type == EVENT_ADD; i++)
            if (slice_equal(event.id, slice_of(counters[i])))
                sums[i] += event.amount.small;
        event_done(&event);
    }
    for (unsigned i = 0; i < POLICIES; i++)
        assert_true(sums[i] >= FLOOR);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void assert_no_beginning_is_below_the_floor(void)
{
    int64_t sums[POLICIES] = {0};
    struct error error;
    rig_open_log(&rig);
    assert_int_equal(log_read(&rig.log->base, (struct log_position){0}, sum_up, sums, NULL, &error),
                     ERR_OK);
    log_close(&rig.log->base);
}

TEST(counters_of_every_policy_are_the_sum_of_what_was_added)
{
    for (unsigned i = 0; i < POLICIES; i++) {
        struct op_create as = {
            .shards = 4, .policy = (enum policy)i, .has_floor = true, .floor = FLOOR};
        assert_int_equal(rig_ask(&rig, create(counters[i], &as)).code, ERR_OK);
    }
    struct worker workers[WORKERS];
    start(workers, add_all);
    struct sim_rng rng = {.state = 43};
    int64_t now_ms = RIG_BEGAN_MS;
    while (atomic_load(&running) > 0) {
        for (unsigned i = 0; i < POLICIES; i++)
            assert_int_equal(
                hot_reshard(rig.hot, slice_of(counters[i]), 1 + below(&rng, 64), now_ms), ERR_OK);
        now_ms += 100;
        hot_tick(rig.hot, now_ms);
        usleep(PAUSE_US);
    }
    join(workers);
    int64_t sums[POLICIES] = {0};
    for (unsigned i = 0; i < POLICIES; i++)
        for (unsigned n = 0; n < WORKERS; n++)
            sums[i] += workers[n].sums[i];
    for (unsigned i = 0; i < POLICIES; i++)
        assert_sum(counters[i], sums[i]);
    rig_stop(&rig);
    assert_no_beginning_is_below_the_floor();
    rig_start(&rig);
    for (unsigned i = 0; i < POLICIES; i++)
        assert_sum(counters[i], sums[i]);
}

/* ---- what goes while others write to it ---- */

static void *come_and_go(void *arg)
{
    struct worker *worker = arg;
    struct op_create as = {.shards = 16, .policy = POLICY_RANDOM};
    for (unsigned round = 0; round < 400; round++) {
        struct op ops[24];
        unsigned count = sizeof(ops) / sizeof(ops[0]);
        for (unsigned i = 0; i < count; i++) {
            const char *user = users[below(&worker->rng, USERS)];
            struct op choices[] = {add("c", 1),
                                   add("c", 1),
                                   get("c"),
                                   set("c", 7),
                                   create("c", &as),
                                   on(OP_DELETE, "c"),
                                   react("i", user, LIKE),
                                   toggle("i", user, DISLIKE),
                                   withdraw("i", user, 0),
                                   get("i/like"),
                                   create("i/like", &as),
                                   on(OP_DELETE, "i")};
            ops[i] = choices[below(&worker->rng, sizeof(choices) / sizeof(choices[0]))];
        }
        run(worker, ops, count);
        for (unsigned i = 0; i < count; i++) {
            must(ops[i].code == ERR_OK || ops[i].code == ERR_NOT_FOUND || ops[i].code == ERR_EXISTS,
                 "it is there or it is not");
            worker->deleted += ops[i].kind == OP_DELETE && ops[i].changed;
        }
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

TEST(what_is_deleted_while_others_write_to_it_is_gone_for_all)
{
    struct worker workers[WORKERS];
    start(workers, come_and_go);
    struct sim_rng rng = {.state = 44};
    int64_t now_ms = RIG_BEGAN_MS;
    while (atomic_load(&running) > 0) {
        hot_reshard(rig.hot, SLICE("c"), 1 + below(&rng, 64), now_ms);
        hot_reshard(rig.hot, SLICE("i"), 1 + below(&rng, 64), now_ms);
        now_ms += 100;
        hot_tick(rig.hot, now_ms);
        usleep(PAUSE_US);
    }
    join(workers);
    unsigned deleted = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        deleted += workers[i].deleted;
    assert_true(deleted > 0);
    rig_restart(&rig);
}

#define SCENARIO(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

RUN(SCENARIO(an_item_that_is_spread_and_folded_while_it_is_written_loses_nobody),
    SCENARIO(an_item_that_turns_hot_spreads_by_itself_and_loses_nobody),
    SCENARIO(counters_of_every_policy_are_the_sum_of_what_was_added),
    SCENARIO(what_is_deleted_while_others_write_to_it_is_gone_for_all))
