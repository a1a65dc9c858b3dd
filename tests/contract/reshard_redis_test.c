/* reshard_redis_test.c - two nodes write to something whose shards change all the time, over Redis.
 *
 * Every writer has users of its own and knows what each of them holds: every answer is checked. The
 * events that came out of the outboxes are then applied as a store would do it, lane by lane in any
 * order that EVENT_AFTER allows: each must find what it says that was held before. */
/* servers: cluster */
/* threads */
#define RIG_REDIS
#include "contract/hot_rig.h"

#include "base/hash.h"
#include "core/bucket.h"
#include "hot/redis/move.h"
#include "hot/redis/move_own.h"
#include "sim/sim_rng.h"

#define NODES      2u
#define WRITERS    4u /* two on each node */
#define USERS_EACH 300u
#define USERS      (WRITERS * USERS_EACH)
#define BATCH      24u
#define EVENTS_MAX 2000000u
#define SECONDS    (TEST_IS_LONG ? 10.0 : 1.5) /* of writing while something changes */
#define ITEM       "item"

static struct rig nodes[NODES];
static _Atomic bool stop;
static _Atomic bool store_ends;
static pthread_t store_thread;
static bool store_runs;

/* ---- what came out of the outboxes ---- */

struct seen {
    struct seen *next;
    enum event_type type;
    uint64_t sequence;
    uint32_t after_origin;
    uint64_t after_sequence;
    uint32_t user;
    uint8_t before;
    uint8_t after;
    int64_t amount;
};

static struct lock lanes_lock;
static struct {
    struct seen *first;
    struct seen *last;
} lanes[LIMIT_CELLS];

static uint8_t kind_of(struct slice name)
{
    return name.size == 0 ? 0 : slice_equal(name, SLICE("like")) ? LIKE : DISLIKE;
}

/* Relays repeat things when leases change hands. */
static void see_event(void *arg, const struct event *event)
{
    (void)arg;
    struct seen *seen = calloc(1, sizeof(*seen));
    assert_non_null(seen);
    *seen = (struct seen){.type = event->type,
                          .sequence = event->sequence,
                          .after_origin = event->after_origin,
                          .after_sequence = event->after_sequence};
    if (event->type == EVENT_REACT) {
        char user[32];
        snprintf(user, sizeof(user), "%.*s", SLICE_ARGS(event->user));
        seen->user = (uint32_t)strtoul(user + 1, NULL, 10);
        seen->before = kind_of(event->before);
        seen->after = kind_of(event->after);
    }
    if (event->type == EVENT_ADD)
        seen->amount = event->amount.small;
    lock_take(&lanes_lock);
    struct seen *last = lanes[event->origin].last;
    if (last && last->sequence >= event->sequence) {
        free(seen);
    } else {
        if (last)
            last->next = seen;
        else
            lanes[event->origin].first = seen;
        lanes[event->origin].last = seen;
    }
    lock_release(&lanes_lock);
}

static void forget_events(void)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        while (lanes[i].first) {
            struct seen *seen = lanes[i].first;
            lanes[i].first = seen->next;
            free(seen);
        }
        lanes[i].last = NULL;
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- writers ---- */

struct writer {
    pthread_t thread;
    unsigned number;
    struct sim_rng rng;
    uint8_t held[USERS_EACH];
    _Atomic uint64_t ops;
    const char *failed; /* at an answer that must not be */
    struct op wrong;
};

static struct writer writers[WRITERS];
static bool they_write;
static char names[USERS][16];

static struct op random_op(struct writer *writer, unsigned user, uint8_t *ret_after)
{
    const char *name = names[writer->number * USERS_EACH + user];
    unsigned kind = 1 + (unsigned)sim_rng_below(&writer->rng, 2);
    uint8_t before = writer->held[user];
    switch (sim_rng_below(&writer->rng, 4)) {
    case 0:
    case 1:
        *ret_after = (uint8_t)kind;
        return react(ITEM, name, kind);
    case 2:
        *ret_after = before == kind ? 0 : before;
        return withdraw(ITEM, name, kind);
    default:
        *ret_after = before == kind ? 0 : (uint8_t)kind;
        return toggle(ITEM, name, kind);
    }
}

/* On a busy machine a reply may be lost: then nobody knows, and the user is asked for. */
static void look_again(struct writer *writer, struct rig *node, unsigned user, uint8_t before,
                       uint8_t after)
{
    struct op op = react(ITEM, names[writer->number * USERS_EACH + user], 0);
    op.kind = OP_REACTION;
    rig_run(node, 1 + writer->number / NODES, &op, 1);
    writer->held[user] = op.held;
    writer->wrong = op;
    if (op.code != ERR_OK || (op.held != before && op.held != after))
        writer->failed = "looked again";
}

static void *write_reactions(void *arg)
{
    struct writer *writer = arg;
    struct rig *node = &nodes[writer->number % NODES];
    while (!atomic_load(&stop) && !writer->failed) {
        struct op ops[BATCH];
        uint8_t before[BATCH];
        uint8_t after[BATCH];
        unsigned user[BATCH];
        unsigned first = (unsigned)sim_rng_below(&writer->rng, USERS_EACH);
        for (unsigned i = 0; i < BATCH; i++) {
            user[i] = (first + i * (USERS_EACH / BATCH)) % USERS_EACH;
            before[i] = writer->held[user[i]];
            ops[i] = random_op(writer, user[i], &after[i]);
            writer->held[user[i]] = after[i];
        }
        rig_run(node, 1 + writer->number / NODES, ops, BATCH);
        for (unsigned i = 0; i < BATCH && !writer->failed; i++) {
            writer->wrong = ops[i];
            if (ops[i].code == ERR_TIMEOUT)
                look_again(writer, node, user[i], before[i], after[i]);
            else if (ops[i].code != ERR_OK)
                writer->failed = "code";
            else if (ops[i].held != after[i])
                writer->failed = "held";
            else if (ops[i].changed != (before[i] != after[i]))
                writer->failed = "changed";
        }
        writer->ops += BATCH;
    }
    return NULL;
}

/* Each user once in a batch, so that what could not be done can be done again. */
static void *write_patiently(void *arg)
{
    struct writer *writer = arg;
    struct rig *node = &nodes[writer->number % NODES];
    while (!atomic_load(&stop) && !writer->failed) {
        struct op ops[BATCH];
        uint8_t after[BATCH];
        bool changes[BATCH];
        unsigned first = (unsigned)sim_rng_below(&writer->rng, USERS_EACH);
        for (unsigned i = 0; i < BATCH; i++) {
            unsigned user = (first + i * (USERS_EACH / BATCH)) % USERS_EACH;
            uint8_t before = writer->held[user];
            ops[i] = random_op(writer, user, &after[i]);
            changes[i] = before != after[i];
            writer->held[user] = after[i];
        }
        double until = seconds() + 30;
        for (unsigned left = BATCH; left > 0 && !writer->failed;) {
            struct op *waits[BATCH];
            struct op again[BATCH];
            unsigned count = 0;
            for (unsigned i = 0; i < BATCH; i++)
                if (left == BATCH || ops[i].code != ERR_OK) {
                    waits[count] = &ops[i];
                    again[count++] = ops[i];
                }
            rig_run(node, 1 + writer->number / NODES, again, count);
            left = 0;
            for (unsigned i = 0; i < count; i++) {
                *waits[i] = again[i];
                left += again[i].code != ERR_OK;
                bool may_come_again = again[i].code == ERR_COLD || again[i].code == ERR_UNAVAILABLE;
                if ((again[i].code != ERR_OK && !may_come_again) || seconds() > until) {
                    writer->failed = "code";
                    writer->wrong = again[i];
                }
            }
            if (left == BATCH)
                left--; /* some were asked already */
            usleep(left > 0 ? 5000 : 0);
        }
        for (unsigned i = 0; i < BATCH && !writer->failed; i++)
            if (ops[i].held != after[i] || ops[i].changed != changes[i]) {
                writer->failed = "answer";
                writer->wrong = ops[i];
            }
        writer->ops += BATCH;
    }
    return NULL;
}

static void start_nobody(void)
{
    for (unsigned i = 0; i < USERS; i++)
        snprintf(names[i], sizeof(names[i]), "u%u", i);
    for (unsigned i = 0; i < WRITERS; i++)
        writers[i] = (struct writer){.number = i, .rng = {i + 1}};
}

static void start_writers(void *(*run)(void *))
{
    start_nobody();
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&writers[i].thread, NULL, run, &writers[i]), 0);
    }
    they_write = true;
}

static void join_writers(void)
{
    atomic_store(&stop, true);
    for (unsigned i = 0; i < WRITERS && they_write; i++)
        pthread_join(writers[i].thread, NULL);
    they_write = false;
}

static uint64_t end_writers(void)
{
    uint64_t ops = 0;
    join_writers();
    for (unsigned i = 0; i < WRITERS; i++)
        ops += writers[i].ops;
    for (unsigned i = 0; i < WRITERS; i++)
        if (writers[i].failed)
            fail_msg("writer %u after %llu ops: %s: op %d of %.*s: code %d changed %d held %d", i,
                     (unsigned long long)writers[i].ops, writers[i].failed, writers[i].wrong.kind,
                     SLICE_ARGS(writers[i].wrong.user), writers[i].wrong.code,
                     writers[i].wrong.changed, writers[i].wrong.held);
    return ops;
}

/* ---- two nodes ---- */

static int open_nodes(void **state)
{
    (void)state;
    lock_init(&lanes_lock);
    atomic_store(&move_steps_left, -1);
    atomic_store(&stop, false);
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = (struct rig){.real_clock = true,
                                .see_event = see_event,
                                .prefix = i > 0 ? nodes[0].own_prefix : NULL};
        rig_open(&nodes[i]);
    }
    return 0;
}

static void end_store(void)
{
    atomic_store(&store_ends, true);
    if (store_runs)
        pthread_join(store_thread, NULL);
    store_runs = false;
}

static int close_nodes(void **state)
{
    (void)state;
    atomic_store(&move_steps_left, -1);
    join_writers();
    end_store();
    for (unsigned i = 0; i < NODES; i++)
        rig_close(&nodes[i]);
    forget_events();
    return 0;
}

/* On a busy machine a change may not be done in its time; then it is begun, and goes on. */
static enum err reshard(unsigned node, const char *id, uint32_t shards)
{
    double until = seconds() + 120;
    enum err err;
    do {
        err = hot_reshard(nodes[node].hot, slice_of(id), shards, 0);
        if (err == ERR_NOT_FOUND)
            (void)rig_ask(&nodes[node], on(OP_EXISTS, id)); /* its home was lost: it is loaded */
    } while (err != ERR_OK && seconds() < until);
    return err;
}

/* ---- the end ---- */

static uint8_t held_by(unsigned user)
{
    return writers[user / USERS_EACH].held[user % USERS_EACH];
}

static void compare_with_model(struct rig *node)
{
    int64_t counts[2] = {0};
    struct op op = on(OP_COUNTS, ITEM);
    op.counts = counts;
    op.exact = true;
    op = rig_ask(node, op);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.shards_missing, 0);
    for (uint8_t kind = LIKE; kind <= DISLIKE; kind++) {
        struct rig_lines is = rig_members(node, SLICE(ITEM), kind, 500);
        int64_t ought = 0;
        for (unsigned user = 0; user < USERS; user++)
            ought += held_by(user) == kind;
        assert_int_equal(counts[kind - 1], ought);
        assert_int_equal(is.count, ought);
        for (size_t i = 1; i < is.count; i++)
            assert_string_not_equal(is.lines[i - 1], is.lines[i]);
        rig_lines_done(&is);
    }
}

/* As it was when a node last looked at all cells, a quarter of a second ago at most. */
static uint64_t entries_left(void)
{
    struct hot_stats stats;
    hot_stats(nodes[0].hot, &stats);
    return stats.outbox_entries;
}

/* All that was written is in the lanes when the outboxes are empty, and nothing comes any more. A
 * relay that was late may have lost its lease, and another takes it after three seconds. */
static void wait_for_relays(void)
{
    uint64_t before = UINT64_MAX;
    for (unsigned quiet = 0, rounds = 0; quiet < 5; rounds++) {
        assert_true(rounds < 300);
        usleep(100000);
        uint64_t count = 0;
        lock_take(&lanes_lock);
        for (unsigned i = 0; i < LIMIT_CELLS; i++)
            count += lanes[i].last ? lanes[i].last->sequence : 0;
        lock_release(&lanes_lock);
        quiet = count == before && entries_left() == 0 ? quiet + 1 : 0;
        before = count;
    }
}

/* Applies the lanes in some order that is allowed; returns the events. */
static uint64_t apply_lanes(uint8_t held[USERS], int64_t *ret_sum)
{
    struct sim_rng rng = {99};
    const struct seen *at[LIMIT_CELLS];
    uint64_t applied[LIMIT_CELLS] = {0};
    uint64_t events = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        at[i] = lanes[i].first;
    for (unsigned idle = 0; idle < 100 * LIMIT_CELLS;) {
        unsigned lane = (unsigned)sim_rng_below(&rng, LIMIT_CELLS);
        uint64_t stretch = sim_rng_below(&rng, 200);
        idle++;
        for (; at[lane] && stretch > 0; stretch--, idle = 0, events++) {
            const struct seen *event = at[lane];
            if (event->type == EVENT_AFTER && applied[event->after_origin] < event->after_sequence)
                break;
            if (event->type == EVENT_REACT) {
                assert_int_equal(held[event->user], event->before);
                held[event->user] = event->after;
            }
            *ret_sum += event->type == EVENT_ADD ? event->amount : 0;
            applied[lane] = event->sequence;
            at[lane] = event->next;
        }
    }
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        assert_null(at[i]); /* else they wait for each other */
    return events;
}

static void compare_everything(void)
{
    for (unsigned i = 0; i < NODES; i++)
        compare_with_model(&nodes[i]);
    assert_int_equal(reshard(0, ITEM, 1), ERR_OK);
    for (unsigned i = 0; i < NODES; i++)
        compare_with_model(&nodes[i]);
    wait_for_relays();
    static uint8_t held[USERS];
    memset(held, 0, sizeof(held));
    int64_t sum = 0;
    assert_true(apply_lanes(held, &sum) > 0);
    for (unsigned user = 0; user < USERS; user++)
        assert_int_equal(held[user], held_by(user));
}

/* ---- the tests ---- */

TEST(an_item_that_is_spread_and_folded_while_it_is_written_loses_nobody)
{
    start_writers(write_reactions);
    static const uint32_t shards[] = {2, 4, 64, 1, 8, 3, 33, 1};
    double until = seconds() + SECONDS;
    unsigned changes = 0;
    while (rig_ask(&nodes[0], on(OP_EXISTS, ITEM)).changed == false)
        usleep(1000);
    for (unsigned i = 0; seconds() < until || i % 8 != 0; i++, changes++)
        assert_int_equal(reshard(i % NODES, ITEM, shards[i % 8]), ERR_OK);
    uint64_t ops = end_writers();
    print_message("%u changes of shards, %llu ops\n", changes, (unsigned long long)ops);
    compare_everything();
}

static void *reshard_at_random(void *arg)
{
    struct rig *node = arg;
    struct sim_rng rng = {node == nodes ? 7u : 8u};
    while (!atomic_load(&stop))
        hot_reshard(node->hot, SLICE(ITEM), 1 + (uint32_t)sim_rng_below(&rng, 64), 0);
    return NULL;
}

TEST(two_nodes_that_change_shards_at_once_do_not_harm_each_other)
{
    start_writers(write_reactions);
    while (rig_ask(&nodes[0], on(OP_EXISTS, ITEM)).changed == false)
        usleep(1000);
    pthread_t movers[NODES];
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(pthread_create(&movers[i], NULL, reshard_at_random, &nodes[i]), 0);
    usleep((useconds_t)(SECONDS * 1e6));
    end_writers();
    for (unsigned i = 0; i < NODES; i++)
        pthread_join(movers[i], NULL);
    compare_everything();
}

/* False: it died. */
static bool reshard_for_steps(uint32_t shards, int64_t steps)
{
    atomic_store(&move_steps_left, steps);
    bool is_whole = hot_reshard(nodes[0].hot, SLICE(ITEM), shards, 0) == ERR_OK;
    atomic_store(&move_steps_left, -1);
    return is_whole;
}

TEST(a_mover_may_die_at_every_step_and_another_goes_on)
{
    start_writers(write_reactions);
    while (rig_ask(&nodes[0], on(OP_EXISTS, ITEM)).changed == false)
        usleep(1000);
    double until = seconds() + 10 * SECONDS;
    unsigned deaths = 0;
    for (int64_t step = 0; seconds() < until; step++) {
        bool has_grown = reshard_for_steps(3, step);
        /* Now and then the next change begins in the middle of the last one. */
        if (step % 4 != 0)
            assert_int_equal(reshard(1, ITEM, 3), ERR_OK);
        bool has_folded = reshard_for_steps(1, step);
        assert_int_equal(reshard(1, ITEM, 1), ERR_OK);
        deaths += !has_grown + !has_folded;
        if (has_grown && has_folded)
            break;
    }
    uint64_t ops = end_writers();
    print_message("%u deaths, %llu ops\n", deaths, (unsigned long long)ops);
    assert_true(deaths > 5);
    compare_everything();
}

static struct op_describe describe(struct rig *node)
{
    struct op_describe is = {0};
    struct op op = on(OP_DESCRIBE, ITEM);
    op.describe = &is;
    assert_int_equal(rig_ask(node, op).code, ERR_OK);
    return is;
}

static uint32_t shards_of(struct rig *node)
{
    return describe(node).shards;
}

TEST(what_a_dead_mover_has_left_is_finished_by_whoever_meets_it)
{
    start_writers(write_reactions);
    while (rig_ask(&nodes[0], on(OP_EXISTS, ITEM)).changed == false)
        usleep(1000);
    for (int64_t step = 8; step < 40; step += 9) {
        atomic_store(&move_steps_left, step);
        assert_int_not_equal(hot_reshard(nodes[0].hot, SLICE(ITEM), 4, 0), ERR_OK);
        atomic_store(&move_steps_left, -1);
        uint64_t ops = writers[0].ops;
        for (unsigned i = 0; i < 200 && writers[0].ops < ops + 20 * BATCH; i++)
            usleep(100000);
        assert_true(writers[0].ops >= ops + 20 * BATCH); /* nobody is stuck */
        assert_int_equal(reshard(1, ITEM, 1), ERR_OK);
        assert_int_equal(shards_of(&nodes[1]), 1);
    }
    end_writers();
    compare_everything();
}

TEST(a_fold_that_another_mover_finishes_says_why_and_since_when)
{
    start_writers(write_reactions);
    while (rig_ask(&nodes[0], on(OP_EXISTS, ITEM)).changed == false)
        usleep(1000);
    end_writers();
    assert_int_equal(reshard(0, ITEM, 4), ERR_OK);
    int64_t spread_ms = describe(&nodes[0]).changed_ms;
    atomic_store(&move_steps_left, 8);
    assert_int_not_equal(hot_reshard(nodes[0].hot, SLICE(ITEM), 1, 0), ERR_OK);
    atomic_store(&move_steps_left, -1);
    double until = seconds() + 120;
    while (move_go_on(layer_of(nodes[1].hot), SLICE(ITEM)) != ERR_OK)
        assert_true(seconds() < until);
    struct op_describe is = describe(&nodes[0]);
    assert_int_equal(is.shards, 1);
    assert_string_equal(is.reason, "asked for by hand");
    assert_true(is.changed_ms > spread_ms);
    compare_everything();
}

TEST(while_the_log_is_down_nothing_moves_and_writers_go_on)
{
    start_writers(write_reactions);
    while (rig_ask(&nodes[0], on(OP_EXISTS, ITEM)).changed == false)
        usleep(1000);
    assert_int_equal(reshard(0, ITEM, 4), ERR_OK);
    for (unsigned i = 0; i < NODES; i++)
        atomic_store(&nodes[i].log_is_down, true);
    usleep(50000);
    assert_int_equal(hot_reshard(nodes[0].hot, SLICE(ITEM), 16, 0), ERR_TIMEOUT);
    assert_int_equal(hot_reshard(nodes[0].hot, SLICE(ITEM), 2, 0), ERR_TIMEOUT);
    uint64_t ops = writers[0].ops;
    for (unsigned i = 0; i < 200 && writers[0].ops <= ops + BATCH; i++)
        usleep(100000);
    assert_true(writers[0].ops > ops + BATCH);
    for (unsigned i = 0; i < NODES; i++)
        atomic_store(&nodes[i].log_is_down, false);
    assert_int_equal(reshard(0, ITEM, 2), ERR_OK);
    end_writers();
    compare_everything();
}

/* ---- counters ---- */

static _Atomic int64_t added;
static const char *const counters[] = {"local", "random", "round-robin", "least-loaded"};

static void *write_sums(void *arg)
{
    struct writer *writer = arg;
    struct rig *node = &nodes[writer->number % NODES];
    while (!atomic_load(&stop) && !writer->failed) {
        struct op ops[BATCH];
        for (unsigned i = 0; i < BATCH; i++)
            ops[i] = add(counters[i % 4], (int64_t)sim_rng_below(&writer->rng, 100) - 30);
        rig_run(node, 1 + writer->number / NODES, ops, BATCH);
        for (unsigned i = 0; i < BATCH; i++) {
            if (ops[i].code == ERR_OK)
                atomic_fetch_add(&added, ops[i].amount.small);
            else
                writer->failed = "code";
            writer->wrong = ops[i];
        }
        writer->ops += BATCH;
    }
    return NULL;
}

TEST(counters_of_every_policy_are_the_sum_of_what_was_added)
{
    atomic_store(&added, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct op_create as = {.shards = 1 + i, .policy = (enum policy)i};
        assert_int_equal(rig_ask(&nodes[0], create(counters[i], &as)).code, ERR_OK);
    }
    start_writers(write_sums);
    static const uint32_t shards[] = {2, 8, 64, 3, 1};
    double until = seconds() + SECONDS;
    for (unsigned i = 0; seconds() < until; i++)
        assert_int_equal(reshard(i % NODES, counters[i % 4], shards[i % 5]), ERR_OK);
    end_writers();
    int64_t sum = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct op op = get(counters[i]);
        op.exact = true;
        op = rig_ask(&nodes[1], op);
        assert_int_equal(op.code, ERR_OK);
        sum += op.value.small;
    }
    assert_int_equal(sum, atomic_load(&added));
    wait_for_relays();
    static uint8_t nobody[USERS];
    int64_t in_events = 0;
    apply_lanes(nobody, &in_events);
    assert_int_equal(in_events, sum);
}

/* ---- a cell loses what it has ---- */

/* The store: what each user holds, of the events that were applied so far. */
static struct {
    const struct seen *last[LIMIT_CELLS]; /* applied, of each lane */
    uint64_t sequences[LIMIT_CELLS];
    uint64_t afters[LIMIT_CELLS]; /* by lane: the others that it has come after, a bit each */
    uint8_t held[USERS];
} store;

static void advance_lane(unsigned lane)
{
    const struct seen *next = store.last[lane] ? store.last[lane]->next : lanes[lane].first;
    for (; next; next = next->next) {
        if (next->type == EVENT_AFTER && store.sequences[next->after_origin] < next->after_sequence)
            return;
        if (next->type == EVENT_REACT)
            store.held[next->user] = next->after;
        if (next->type == EVENT_AFTER && next->after_sequence > 0)
            store.afters[lane] |= UINT64_C(1) << next->after_origin;
        store.sequences[lane] = next->sequence;
        store.last[lane] = next;
    }
}

static void advance_store(void)
{
    lock_take(&lanes_lock);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        advance_lane(lane);
    lock_release(&lanes_lock);
    for (unsigned i = 0; i < NODES; i++)
        hot_saved(nodes[i].hot, store.sequences);
}

static void load_item(struct rig *node, const struct hot_want *want)
{
    static const struct slice kinds[] = {SLICE("like"), SLICE("dislike")};
    struct slice *held[2] = {calloc(USERS, sizeof(struct slice)),
                             calloc(USERS, sizeof(struct slice))};
    int64_t counts[2] = {0};
    for (unsigned user = 0; user < USERS; user++)
        if (store.held[user] > 0) {
            unsigned kind = store.held[user] - 1u;
            held[kind][counts[kind]++] = slice_of(names[user]);
        }
    struct state_members members[2];
    for (unsigned kind = 0; kind < 2; kind++)
        members[kind] = (struct state_members){
            .kind = kinds[kind], .named = true, .names = held[kind], .count = (size_t)counts[kind]};
    struct state_target target = {.id = want->id,
                                  .is_item = true,
                                  .create = {.shards = 1},
                                  .kinds = kinds,
                                  .counts = counts,
                                  .kind_count = 2,
                                  .slices = 1,
                                  .members = members,
                                  .member_count = 2};
    struct hot_found found = {.code = ERR_OK, .target = &target, .sequences = store.sequences};
    hot_loaded(node->hot, want, &found);
    free(held[0]);
    free(held[1]);
}

static void *run_store(void *arg)
{
    (void)arg;
    while (!atomic_load(&store_ends)) {
        advance_store();
        for (unsigned i = 0; i < NODES; i++) {
            struct hot_want want;
            while (hot_wanted(nodes[i].hot, &want)) {
                struct hot_found none = {.code = ERR_NOT_FOUND, .sequences = store.sequences};
                if (want.kind == HOT_WANT_TARGET && slice_equal(want.id, SLICE(ITEM)))
                    load_item(&nodes[i], &want);
                else
                    hot_loaded(nodes[i].hot, &want, &none);
            }
        }
        usleep(5000);
    }
    return NULL;
}

/* The shell's way to the server, or to whichever of the cluster has the key. */
static const char *cli(void)
{
    static char command[96];
    const char *host = strstr(rig_server(), "://") + 3;
    const char *port = strchr(host, ':') + 1;
    snprintf(command, sizeof(command), "redis-cli -c -h %.*s -p %.*s", (int)(port - host - 1), host,
             (int)strspn(port, "0123456789"), port);
    return command;
}

/* As when its server has come back empty. */
static void wipe_cell(unsigned cell)
{
    const char *tag = layer_of(nodes[0].hot)->tags.tags[cell];
    char command[512];
    snprintf(command, sizeof(command),
             "%s EVAL \"for _, key in ipairs(redis.call('KEYS', ARGV[1])) do "
             "redis.call('DEL', key) end\" 1 '%s:%s:cell' '%s:%s:*' > /dev/null",
             cli(), nodes[0].own_prefix, tag, nodes[0].own_prefix, tag);
    assert_int_equal(system(command), 0); /* NOLINT: our own names */
}

static uint64_t all_ops(void)
{
    uint64_t ops = 0;
    for (unsigned i = 0; i < WRITERS; i++)
        ops += writers[i].ops;
    return ops;
}

static void write_for(double duration)
{
    atomic_store(&stop, false);
    uint64_t before = all_ops();
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_patiently, &writers[i]), 0);
    they_write = true;
    usleep((useconds_t)(duration * 1e6));
    for (unsigned i = 0; i < 1200 && all_ops() == before; i++)
        usleep(100000);
    assert_true(end_writers() > before);
}

static unsigned home(void)
{
    return layer_home(hash_stable(SLICE(ITEM)));
}

/* A store that goes back must not be loaded from until it has what the pieces have written. */
static void check_that_home_came_after(uint64_t lost)
{
    uint64_t others = ~(lost | UINT64_C(1) << home());
    assert_true((store.afters[home()] & others) == others);
}

static void begin_store(void)
{
    memset(&store, 0, sizeof(store));
    atomic_store(&store_ends, false);
    struct state_mark mark = {0};
    for (unsigned i = 0; i < NODES; i++)
        hot_begin(nodes[i].hot, &mark);
    assert_int_equal(pthread_create(&store_thread, NULL, run_store, NULL), 0);
    store_runs = true;
}

static void lose_cells(uint64_t cells)
{
    uint64_t lost = cells;
    begin_store();
    start_nobody();
    write_for(1);
    assert_int_equal(reshard(0, ITEM, 64), ERR_OK);
    write_for(1);
    wait_for_relays(); /* all that was answered is in the log: nothing may be lost */
    for (; cells != 0; cells &= cells - 1)
        wipe_cell((unsigned)__builtin_ctzll(cells));
    write_for(2 * SECONDS);
    compare_with_model(&nodes[0]);
    compare_with_model(&nodes[1]);
    wait_for_relays();
    for (unsigned user = 0; user < USERS; user++) {
        for (unsigned i = 0; i < 1000 && store.held[user] != held_by(user); i++)
            usleep(10000); /* its thread has yet to take the last of it */
        assert_int_equal(store.held[user], held_by(user));
    }
    check_that_home_came_after(lost);
    assert_int_equal(reshard(1, ITEM, 4), ERR_OK);
    compare_with_model(&nodes[0]);
    end_store();
}

TEST(an_item_that_has_lost_a_piece_is_what_it_was)
{
    lose_cells(UINT64_C(1) << (home() + 7) % LIMIT_CELLS);
}

TEST(an_item_whose_home_was_lost_is_what_it_was)
{
    lose_cells(UINT64_C(1) << home());
}

TEST(an_item_that_has_lost_home_and_pieces_is_what_it_was)
{
    lose_cells(UINT64_C(0xf0) | UINT64_C(1) << home());
}

/* "<command> <hash of the cell> <rest>" for each cell, or for that of the tag. */
static FILE *tell_cells(const char *command, const char *rest, const char *mode, const char *tag)
{
    static char line[LIMIT_CELLS * 96 + 256];
    size_t size = 0;
    size += (size_t)snprintf(line, sizeof(line), "printf '");
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        if (!tag || strcmp(tag, layer_of(nodes[0].hot)->tags.tags[cell]) == 0)
            size += (size_t)snprintf(line + size, sizeof(line) - size, "%s %s:%s:cell %s\\n",
                                     command, nodes[0].own_prefix,
                                     layer_of(nodes[0].hot)->tags.tags[cell], rest);
    snprintf(line + size, sizeof(line) - size, "' | %s%s", cli(),
             mode[0] == 'w' ? " > /dev/null" : "");
    FILE *answers = popen(line, mode); /* NOLINT: our own names */
    assert_non_null(answers);
    return answers;
}

static uint64_t closed_in(unsigned node)
{
    struct outbox *outbox = redis_hot_outbox(nodes[node].hot);
    return outbox->ops->closed(outbox);
}

/* As when all cells have moved to another server: they are opened anew, with their data. */
static void change_process(void)
{
    assert_int_equal(pclose(tell_cells("HSET", "run another", "w", NULL)), 0);
    bool knows[NODES] = {false}; /* from its next round of leases on */
    unsigned known = 0;
    for (unsigned ms = 0; ms < 3000 && known < NODES; ms++, usleep(1000))
        for (unsigned i = 0; i < NODES; i++) {
            bool was_known = knows[i];
            knows[i] |= closed_in(i) != 0;
            known += knows[i] && !was_known;
        }
    for (unsigned i = 0; i < NODES; i++)
        while (closed_in(i) != 0)
            usleep(10000);
}

/* Whoever has lost keys asks the store for them. So does who gets users of such a cell. */
TEST(users_who_move_bring_along_that_keys_were_lost)
{
    start_nobody();
    write_for(0.3);
    const char *home_tag = layer_of(nodes[0].hot)->tags.tags[layer_home(hash_stable(SLICE(ITEM)))];
    assert_int_equal(pclose(tell_cells("HDEL", "lost_ms", "w", NULL)), 0);
    assert_int_equal(pclose(tell_cells("HSET", "lost_ms 1700000000000", "w", home_tag)), 0);
    assert_int_equal(reshard(0, ITEM, 4), ERR_OK);
    FILE *answers = tell_cells("HGET", "lost_ms", "r", NULL);
    char word[64];
    unsigned found = 0;
    while (fgets(word, sizeof(word), answers))
        found += strcmp(word, "1700000000000\n") == 0;
    assert_int_equal(pclose(answers), 0);
    assert_int_equal(found, 4);
}

TEST(a_change_of_shards_goes_on_in_cells_that_were_opened_anew_in_its_middle)
{
    start_nobody();
    write_for(0.3);
    for (int64_t step = 4; step < 24; step += 4) {
        (void)reshard_for_steps(3, step);
        change_process();
        assert_int_equal(reshard(1, ITEM, 3), ERR_OK);
        write_for(0.2);
        (void)reshard_for_steps(1, step);
        change_process();
        assert_int_equal(reshard(1, ITEM, 1), ERR_OK);
        write_for(0.2);
    }
    compare_everything();
}

/* All cells are open, and the item is there: what was lost is loaded again. */
static void wait_until_whole(void)
{
    unsigned open = 0;
    bool is_there = false;
    for (unsigned rounds = 0; open < LIMIT_CELLS || !is_there; rounds++) {
        assert_true(rounds < 3000);
        FILE *answers = tell_cells("HGET", "state", "r", NULL);
        char word[64];
        open = 0;
        while (fgets(word, sizeof(word), answers))
            open += strcmp(word, "open\n") == 0;
        assert_int_equal(pclose(answers), 0);
        int64_t counts[2];
        struct op op = on(OP_COUNTS, ITEM);
        op.counts = counts;
        op.exact = true;
        op = rig_ask(&nodes[0], op);
        is_there = op.code == ERR_OK && op.shards_missing == 0;
    }
}

static void compare_when_whole(void)
{
    wait_until_whole();
    compare_with_model(&nodes[0]);
    compare_with_model(&nodes[1]);
}

/* A field of the item's record in a cell; empty if there is none. */
static void read_field(unsigned cell, const char *field, char text[MAP_TEXT_MAX])
{
    char command[512];
    snprintf(command, sizeof(command), "%s HGET '%s:%s:r:%s' %s", cli(), nodes[0].own_prefix,
             layer_of(nodes[0].hot)->tags.tags[cell], ITEM, field);
    FILE *answer = popen(command, "r"); /* NOLINT: our own names */
    assert_non_null(answer);
    text[0] = 0;
    if (fgets(text, MAP_TEXT_MAX, answer))
        text[strcspn(text, "\n")] = 0;
    assert_int_equal(pclose(answer), 0);
}

static bool read_map(struct map *ret_map)
{
    char text[MAP_TEXT_MAX];
    read_field(home(), ".map", text);
    return map_parse(slice_of(text), ret_map);
}

/* Its target serves the slices of the move, and home does not know it yet. */
static bool is_adopted(struct map *ret_map)
{
    char adopted[MAP_TEXT_MAX];
    if (!read_map(ret_map) || ret_map->change != MAP_MOVE)
        return false;
    read_field(ret_map->to, ".av", adopted);
    return strtoull(adopted, NULL, 10) == ret_map->version;
}

/* All movers of this process are dead from now on. */
static void die_behind_adopt(struct map *ret_map)
{
    for (int64_t steps = 3; steps < 500; steps++) {
        atomic_store(&move_steps_left, steps);
        (void)hot_reshard(nodes[0].hot, SLICE(ITEM), 2, 0);
        atomic_store(&move_steps_left, 0);
        if (is_adopted(ret_map))
            return;
        if (ret_map->change == MAP_STEADY && map_owners(ret_map) != map_bit(home())) {
            atomic_store(&move_steps_left, -1);
            assert_int_equal(reshard(0, ITEM, 1), ERR_OK); /* went past it: from the beginning */
        }
    }
    fail_msg("no mover has died there");
}

/* By the node that remembers where they once were. */
static unsigned write_to_adopted(const struct map *map)
{
    unsigned written = 0;
    for (unsigned user = 0; user < USERS && written < 8; user++) {
        uint16_t bucket = bucket_of(SLICE(ITEM), slice_of(names[user]));
        if (!(map->slices & map_bit(bucket_slice(bucket))))
            continue;
        uint8_t *held = &writers[user / USERS_EACH].held[user % USERS_EACH];
        *held = *held == LIKE ? DISLIKE : LIKE;
        struct op op = rig_ask(&nodes[1], react(ITEM, names[user], *held));
        assert_int_equal(op.code, ERR_OK);
        assert_true(op.changed);
        written++;
    }
    return written;
}

TEST(a_target_that_comes_back_empty_behind_its_adoption_loses_nothing)
{
    begin_store();
    start_nobody();
    write_for(0.5);
    wait_until_whole();
    assert_int_equal(reshard(0, ITEM, 2), ERR_OK);
    write_for(0.3); /* now both nodes know where the slices are, */
    assert_int_equal(reshard(0, ITEM, 1), ERR_OK);
    struct map map = {0};
    die_behind_adopt(&map); /* and one of them does not hear of what happens then */
    assert_true(write_to_adopted(&map) > 0);
    wait_for_relays();
    wipe_cell(map.to);
    atomic_store(&move_steps_left, -1);
    assert_int_equal(reshard(0, ITEM, 2), ERR_OK);
    compare_when_whole();
    write_for(0.3);
    compare_when_whole();
    end_store();
}

/* The mover has died after so many steps; then one of the two cells is empty. */
static bool empty_after_steps(uint32_t shards, int64_t steps, bool is_target)
{
    bool is_whole = reshard_for_steps(shards, steps);
    struct map map;
    atomic_store(&move_steps_left, 0);
    wait_for_relays();
    if (read_map(&map) && map.change != MAP_STEADY) {
        bool is_move = map.change == MAP_MOVE || map.change == MAP_UNDO;
        unsigned of_piece =
            is_move ? (is_target ? map.to : map.from) : (unsigned)__builtin_ctzll(map.slices);
        wipe_cell(of_piece);
    }
    atomic_store(&move_steps_left, -1);
    assert_int_equal(reshard(1, ITEM, shards), ERR_OK);
    compare_when_whole();
    return is_whole;
}

TEST(a_cell_that_is_emptied_at_any_step_of_a_mover_that_died_loses_nothing)
{
    begin_store();
    start_nobody();
    write_for(0.3);
    wait_until_whole(); /* a dead mover opens no cell that was never opened */
    unsigned rounds = 0;
    for (int64_t step = 3; step < (TEST_IS_LONG ? 200 : 27); step += TEST_IS_LONG ? 1 : 4) {
        bool has_grown = empty_after_steps(2, step, rounds % 3 != 2);
        write_for(0.05);
        bool has_folded = empty_after_steps(1, step, rounds % 3 != 2);
        write_for(0.05);
        rounds++;
        if (has_grown && has_folded)
            break;
    }
    end_store();
}

/* Whoever wants something there meets that the cell is closed. */
static void want_in(unsigned cell)
{
    char id[16];
    unsigned number = 0;
    do
        snprintf(id, sizeof(id), "other%u", number++);
    while (layer_home(hash_stable(slice_of(id))) != cell);
    (void)rig_ask(&nodes[0], on(OP_EXISTS, id));
}

static void open_again(unsigned cell)
{
    want_in(cell);
    bool is_open = false;
    for (unsigned rounds = 0; !is_open; rounds++) {
        assert_true(rounds < 3000);
        FILE *answer = tell_cells("HGET", "state", "r", layer_of(nodes[0].hot)->tags.tags[cell]);
        char word[64];
        while (fgets(word, sizeof(word), answer))
            is_open = is_open || strcmp(word, "open\n") == 0;
        assert_int_equal(pclose(answer), 0);
        usleep(10000);
    }
}

/* What a mover that was asleep does behind all others. */
static void reserve_late(unsigned cell)
{
    const char *tag = layer_of(nodes[0].hot)->tags.tags[cell];
    const char *prefix = nodes[0].own_prefix;
    char incarnation[MAP_TEXT_MAX];
    char command[1024];
    read_field(home(), ".i", incarnation);
    snprintf(command, sizeof(command),
             "%s EVAL \"return redis.call('HSET', KEYS[2], '.g', "
             "redis.call('HGET', KEYS[1], 'gen') .. 'F', '.i', ARGV[1], '.rv', '1')\" "
             "2 '%s:%s:cell' '%s:%s:r:%s' '%s' > /dev/null",
             cli(), prefix, tag, prefix, tag, ITEM, incarnation[0] ? incarnation : "0");
    assert_int_equal(system(command), 0); /* NOLINT: our own names */
}

TEST(a_reservation_that_came_late_is_not_taken_for_the_piece_that_was_lost)
{
    begin_store();
    start_nobody();
    write_for(0.3);
    wait_until_whole();
    assert_int_equal(reshard(0, ITEM, 2), ERR_OK);
    wait_for_relays();
    struct map map;
    assert_true(read_map(&map));
    unsigned lost = (unsigned)__builtin_ctzll(map_owners(&map) & ~map_bit(home()));
    wipe_cell(lost);
    open_again(lost);
    reserve_late(lost); /* nobody has noticed yet that it is lost */
    assert_int_equal(reshard(1, ITEM, 1), ERR_OK);
    compare_when_whole();
    end_store();
}

/* A mover that comes late does not know that home has forgotten what it had adopted. */
TEST(home_takes_no_map_that_gives_it_slices_which_it_does_not_have)
{
    start_nobody();
    write_for(0.3);
    assert_int_equal(reshard(0, ITEM, 2), ERR_OK);
    struct move move;
    move_init(&move, layer_of(nodes[0].hot), SLICE(ITEM), 10000);
    assert_int_equal(move_read(&move), ERR_OK);
    struct hand_over *over = &move.over;
    over->before = over->map.version;
    over->map.version = over->last_version + 1;
    memset(over->map.owner, (int)home(), sizeof(over->map.owner));
    assert_int_equal(move_write(&move), ERR_CORRUPT);
    move_done(&move);
    write_for(0.3);
    assert_int_equal(reshard(1, ITEM, 1), ERR_OK);
    compare_everything();
}

/* As a mover does that has found a piece missing, and dies. */
static void begin_to_dissolve(void)
{
    struct move move;
    move_init(&move, layer_of(nodes[0].hot), SLICE(ITEM), 10000);
    assert_int_equal(move_read(&move), ERR_OK);
    struct hand_over *over = &move.over;
    over->before = over->map.version;
    over->map.version = over->last_version + 1;
    over->map.change = MAP_DISSOLVE;
    assert_int_equal(move_write(&move), ERR_OK);
    atomic_store(&move_steps_left, 0);
    move_done(&move);
}

TEST(what_has_lost_a_piece_is_not_read_as_if_it_were_whole)
{
    begin_store();
    start_nobody();
    write_for(0.3);
    wait_until_whole();
    assert_int_equal(reshard(0, ITEM, 4), ERR_OK);
    begin_to_dissolve();
    int64_t counts[2];
    struct op op = on(OP_COUNTS, ITEM);
    op.counts = counts;
    op.exact = true;
    op = rig_ask(&nodes[1], op);
    assert_int_equal(op.code, ERR_UNAVAILABLE);
    atomic_store(&move_steps_left, -1);
    assert_int_equal(reshard(1, ITEM, 1), ERR_OK);
    compare_when_whole();
    end_store();
}

#define ON_TWO_NODES(name) cmocka_unit_test_setup_teardown(name, open_nodes, close_nodes)

RUN(ON_TWO_NODES(an_item_that_is_spread_and_folded_while_it_is_written_loses_nobody),
    ON_TWO_NODES(two_nodes_that_change_shards_at_once_do_not_harm_each_other),
    ON_TWO_NODES(a_mover_may_die_at_every_step_and_another_goes_on),
    ON_TWO_NODES(what_a_dead_mover_has_left_is_finished_by_whoever_meets_it),
    ON_TWO_NODES(a_fold_that_another_mover_finishes_says_why_and_since_when),
    ON_TWO_NODES(while_the_log_is_down_nothing_moves_and_writers_go_on),
    ON_TWO_NODES(counters_of_every_policy_are_the_sum_of_what_was_added),
    ON_TWO_NODES(users_who_move_bring_along_that_keys_were_lost),
    ON_TWO_NODES(a_change_of_shards_goes_on_in_cells_that_were_opened_anew_in_its_middle),
    ON_TWO_NODES(an_item_that_has_lost_a_piece_is_what_it_was),
    ON_TWO_NODES(an_item_whose_home_was_lost_is_what_it_was),
    ON_TWO_NODES(an_item_that_has_lost_home_and_pieces_is_what_it_was),
    ON_TWO_NODES(a_target_that_comes_back_empty_behind_its_adoption_loses_nothing),
    ON_TWO_NODES(a_cell_that_is_emptied_at_any_step_of_a_mover_that_died_loses_nothing),
    ON_TWO_NODES(a_reservation_that_came_late_is_not_taken_for_the_piece_that_was_lost),
    ON_TWO_NODES(home_takes_no_map_that_gives_it_slices_which_it_does_not_have),
    ON_TWO_NODES(what_has_lost_a_piece_is_not_read_as_if_it_were_whole))
