/* hot_cold_model_test.c - cold state against a model of plain arrays.
 *
 * Random ops in batches, while the store takes sections or does not, things are
 * dropped, spread and folded, time passes and the process starts again behind the
 * store's mark: each answer must be what the model says, in the order of the batch. A
 * seed makes the run; it is printed, and TALLY_SEED in the environment runs it again. Then
 * threads do the same at once, and the sums must be right. */
/* threads */
#include "contract/hot_cold_rig.h"

#include <sched.h>
#include <time.h>

#include "sim/sim_rng.h"

#define COUNTERS  10u
#define ITEMS     6u
#define IDS       (COUNTERS + ITEMS)
#define USERS     400u
#define KEYS      5u
#define BATCH_MAX 24u
#define SECONDS   3.0

struct model_id {
    bool exists;
    int64_t value;
    uint8_t held[USERS];
    bool key_used[KEYS];
    int64_t key_value[KEYS];
    int64_t key_amount[KEYS];
};

static struct model_id model[IDS];
static char ids[IDS][16];
static char names[USERS][32];
static struct slice users[USERS];
static struct sim_rng rng;
static struct cold_rig rig;

static uint32_t below(uint32_t count)
{
    return (uint32_t)sim_rng_below(&rng, count);
}

static bool is_item(unsigned id)
{
    return id >= COUNTERS;
}

/* ---- an op and what the model says to it ---- */

struct trial {
    unsigned id;
    unsigned user;
    int key;
    int64_t counts[LIMIT_KINDS];
};

static struct op random_counter_op(struct trial *trial)
{
    struct op op = {.id = slice_of(ids[trial->id])};
    uint32_t what = below(100);
    trial->key = -1;
    if (what < 55) {
        op.kind = OP_ADD;
        op.amount = number_of((int64_t)below(20) - 5);
        if (below(6) == 0) {
            static const char *const keys[KEYS] = {"k0", "k1", "k2", "k3", "k4"};
            trial->key = (int)below(KEYS);
            op.key = slice_of(keys[trial->key]);
        }
    } else if (what < 65) {
        op.kind = OP_SET;
        op.amount = number_of(below(1000));
    } else if (what < 85) {
        op.kind = OP_GET;
    } else if (what < 92) {
        op.kind = OP_EXISTS;
    } else {
        op.kind = OP_DELETE;
    }
    return op;
}

static struct op random_item_op(struct trial *trial)
{
    struct op op = {.id = slice_of(ids[trial->id]), .user = users[trial->user]};
    uint32_t what = below(1000);
    op.reaction = (uint8_t)(1 + below(2));
    op.kind = what < 500   ? OP_REACT
              : what < 650 ? OP_TOGGLE
              : what < 750 ? OP_WITHDRAW
              : what < 900 ? OP_REACTION
              : what < 996 ? OP_COUNTS
                           : OP_DELETE;
    if (op.kind == OP_COUNTS)
        op.counts = trial->counts;
    return op;
}

static void check_counter(const struct trial *trial, const struct op *op)
{
    struct model_id *id = &model[trial->id];
    if (op->kind == OP_ADD && trial->key >= 0 && id->key_used[trial->key]) {
        if (id->key_amount[trial->key] != op->amount.small) {
            assert_int_equal(op->code, ERR_KEY_REUSED);
            return;
        }
        assert_true(op->repeated);
        assert_int_equal(op->value.small, id->key_value[trial->key]);
        return;
    }
    bool existed = id->exists;
    switch (op->kind) {
    case OP_ADD:
        id->value = op->amount.small + (existed ? id->value : 0);
        id->exists = true;
        break;
    case OP_SET:
        id->value = op->amount.small;
        id->exists = true;
        break;
    case OP_EXISTS:
    case OP_DELETE:
        assert_int_equal(op->code, ERR_OK);
        assert_int_equal(op->changed, existed);
        id->exists = existed && op->kind == OP_EXISTS;
        return;
    default:
        assert_int_equal(op->code, existed ? ERR_OK : ERR_NOT_FOUND);
        if (!existed)
            return;
    }
    assert_int_equal(op->code, ERR_OK);
    assert_int_equal(op->value.small, id->value);
    if (trial->key >= 0) {
        id->key_used[trial->key] = true;
        id->key_value[trial->key] = id->value;
        id->key_amount[trial->key] = op->amount.small;
    }
}

static int64_t model_count(const struct model_id *id, unsigned kind)
{
    int64_t count = 0;
    for (unsigned user = 0; user < USERS; user++)
        count += id->held[user] == kind;
    return count;
}

static void check_item(const struct trial *trial, const struct op *op)
{
    struct model_id *id = &model[trial->id];
    uint8_t *held = &id->held[trial->user];
    uint8_t before = *held;
    assert_int_equal(op->code, ERR_OK);
    if (op->kind == OP_DELETE) {
        assert_int_equal(op->changed, id->exists);
        id->exists = false;
        memset(id->held, 0, sizeof(id->held));
        return;
    }
    if (op->kind == OP_COUNTS) {
        assert_int_equal(op->changed, id->exists);
        return; /* the counts are of some moment between its neighbours: see check_all() */
    }
    if (op->kind == OP_REACT)
        *held = op->reaction;
    else if (op->kind == OP_TOGGLE)
        *held = before == op->reaction ? 0 : op->reaction;
    else if (op->kind == OP_WITHDRAW && before == op->reaction)
        *held = 0;
    id->exists |= *held != before;
    assert_int_equal(op->held, *held);
    if (op->kind != OP_REACTION)
        assert_int_equal(op->changed, *held != before);
}

static void run_batch(void)
{
    struct op ops[BATCH_MAX];
    struct trial trials[BATCH_MAX];
    unsigned count = 1 + below(BATCH_MAX);
    for (unsigned i = 0; i < count; i++) {
        trials[i] = (struct trial){.id = below(IDS), .user = below(USERS)};
        if (is_item(trials[i].id) && trials[i].id % 2 == 0)
            trials[i].user = below(20); /* some items stay small */
        ops[i] = is_item(trials[i].id) ? random_item_op(&trials[i]) : random_counter_op(&trials[i]);
    }
    cold_finish(&rig, below(2), ops, count);
    for (unsigned i = 0; i < count; i++)
        if (is_item(trials[i].id))
            check_item(&trials[i], &ops[i]);
        else
            check_counter(&trials[i], &ops[i]);
}

/* ---- everything ---- */

static void see_member(void *arg, struct slice user)
{
    ++((unsigned *)arg)[user_of(user)];
}

static void check_members(unsigned id, uint8_t kind)
{
    static unsigned seen[SHELF_USERS];
    memset(seen, 0, sizeof(seen));
    struct op_page page = {.limit = 1 + below(200), .visit = see_member, .arg = seen};
    do {
        struct op op = {
            .kind = OP_MEMBERS, .id = slice_of(ids[id]), .reaction = kind, .page = &page};
        assert_int_equal(cold_ask(&rig, op).code, ERR_OK);
    } while (page.cursor != 0);
    for (unsigned user = 0; user < USERS; user++)
        assert_int_equal(seen[user], model[id].held[user] == kind);
}

static void check_all(void)
{
    uint64_t counters = 0;
    uint64_t items = 0;
    uint64_t members = 0;
    for (unsigned id = 0; id < IDS; id++) {
        if (!is_item(id)) {
            struct op op = cold_ask(&rig, get(ids[id]));
            assert_int_equal(op.code, model[id].exists ? ERR_OK : ERR_NOT_FOUND);
            if (model[id].exists)
                assert_int_equal(op.value.small, model[id].value);
            counters += model[id].exists;
            continue;
        }
        items += model[id].exists;
        int64_t counts[LIMIT_KINDS];
        struct op op = on(OP_COUNTS, ids[id]);
        op.counts = counts;
        assert_int_equal(cold_ask(&rig, op).code, ERR_OK);
        for (unsigned kind = 1; kind <= 2; kind++) {
            assert_int_equal(counts[kind - 1], model_count(&model[id], kind));
            members += (uint64_t)counts[kind - 1];
        }
        if (below(4) == 0)
            check_members(id, (uint8_t)(1 + below(2)));
        struct hot_inspection seen;
        if (hot_inspect(rig.hot, slice_of(ids[id]), &seen) == ERR_OK && seen.complete)
            for (unsigned kind = 1; kind <= 2; kind++)
                assert_int_equal(seen.members[kind - 1], seen.counts[kind - 1]);
    }
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.counters, counters);
    assert_int_equal(stats.items, items);
    assert_int_equal(stats.members, members);
}

static void something_happens(void)
{
    uint32_t what = below(100);
    unsigned id = below(IDS);
    if (what < 30)
        cold_store(&rig, below(40));
    else if (what < 45)
        cold_tell_saved(&rig);
    else if (what < 75)
        hot_drop(rig.hot, slice_of(ids[id]));
    else if (what < 85)
        hot_reshard(rig.hot, slice_of(ids[id]), 1u << below(5), rig.now_ms);
    else if (what < 97) {
        rig.now_ms += below(700);
        atomic_fetch_add(&rig_monotonic_ns, UINT64_C(300000000));
        hot_tick(rig.hot, rig.now_ms);
    } else if (what == 97)
        cold_restart(&rig);
    else if (what == 98)
        cold_tell_all(&rig);
    else
        check_all();
}

static void begin_model(uint64_t seed)
{
    rng = (struct sim_rng){seed};
    memset(model, 0, sizeof(model));
    for (unsigned id = 0; id < IDS; id++)
        snprintf(ids[id], sizeof(ids[id]), "%s%u", is_item(id) ? "item" : "counter", id);
    for (unsigned user = 0; user < USERS; user++)
        users[user] = user_name(user, names[user]);
}

static uint64_t first_seed(void)
{
    const char *given = getenv("TALLY_SEED");
    return given ? strtoull(given, NULL, 10) : 1;
}

static double seconds_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

TEST(random_ops_with_loading_and_dropping_agree_with_the_model)
{
    uint64_t seed = first_seed();
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (unsigned run = 0; run == 0 || seconds_since(&began) < SECONDS; run++) {
        fprintf(stderr, "TALLY_SEED=%llu\n", (unsigned long long)(seed + run));
        begin_model(seed + run);
        rig.retention_ms = below(2) ? 3000 : 0;
        rig.memory_max = 0;
        cold_open(&rig);
        rig.shelf->whole_max = below(2) ? 60 : STATE_WHOLE_MAX;
        for (unsigned step = 0; step < 1500 && rig.shelf->key_count < SHELF_KEYS - 100; step++) {
            run_batch();
            if (below(2) == 0)
                something_happens();
        }
        cold_save(&rig);
        check_all();
        cold_restart(&rig);
        check_all();
        assert_true(rig.cold > 0);
        cold_close(&rig);
    }
}

/* ---- at once ---- */

#define THREAD_COUNTERS   300u
#define THREAD_ITEMS      40u
#define THREAD_ROUNDS     4000u
#define THREAD_ROUNDS_MAX 400000u

static _Atomic bool over;

struct writer {
    unsigned worker;
    uint64_t added[THREAD_COUNTERS];
    uint64_t liked[THREAD_ITEMS];
};

/* Waits for the loader as a door does: runs again what was cold. */
static void finish_patiently(unsigned worker, struct op *op)
{
    for (unsigned round = 0; round < 1000000; round++) {
        cold_run(&rig, worker, op, 1);
        if (op->code != ERR_COLD)
            return;
        sched_yield();
    }
    abort(); /* it waits for ever */
}

/* On a busy machine the writers may be through before anything was dropped. */
static bool has_moved(void)
{
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    return stats.dropped > 0 && stats.loads > 0;
}

static void *write_much(void *arg)
{
    struct writer *writer = arg;
    struct sim_rng own = {writer->worker + 77};
    for (unsigned i = 0; i < THREAD_ROUNDS || (i < THREAD_ROUNDS_MAX && !has_moved()); i++) {
        char id[16];
        char name[32];
        unsigned which = (unsigned)sim_rng_below(&own, THREAD_COUNTERS);
        snprintf(id, sizeof(id), "c%u", which);
        struct op op = add(id, 1);
        char key[32];
        if (i % 10 == 0) {
            snprintf(key, sizeof(key), "key-%u-%u", writer->worker, i);
            op.key = slice_of(key);
        }
        finish_patiently(writer->worker, &op);
        writer->added[which] += op.code == ERR_OK;
        if (i % 10 == 0 && op.code == ERR_OK) {
            struct op again = op;
            finish_patiently(writer->worker, &again);
            if (again.code != ERR_OK || !again.repeated || again.value.small != op.value.small)
                abort(); /* counted twice */
        }
        which = (unsigned)sim_rng_below(&own, THREAD_ITEMS);
        snprintf(id, sizeof(id), "i%u", which);
        unsigned user = (unsigned)sim_rng_below(&own, 3000);
        op = reaction(OP_REACT, id, user_name(user, name), LIKE);
        finish_patiently(writer->worker, &op);
        writer->liked[which] += op.code == ERR_OK && op.changed;
    }
    return NULL;
}

static void *load_things(void *arg)
{
    (void)arg;
    while (!atomic_load(&over))
        if (cold_load(&rig) == 0)
            sched_yield();
    return NULL;
}

static void *store_and_drop(void *arg)
{
    (void)arg;
    struct sim_rng own = {5};
    int64_t now_ms = RIG_BEGAN_MS;
    while (!atomic_load(&over)) {
        cold_store(&rig, 50);
        cold_tell_saved(&rig);
        for (unsigned i = 0; i < 20; i++) {
            char id[16];
            bool drops_item = sim_rng_below(&own, 3) == 0;
            snprintf(id, sizeof(id), "%s%u", drops_item ? "i" : "c",
                     (unsigned)sim_rng_below(&own, drops_item ? THREAD_ITEMS : THREAD_COUNTERS));
            hot_drop(rig.hot, slice_of(id));
            if (sim_rng_below(&own, 20) == 0)
                hot_reshard(rig.hot, slice_of(id), 1u << sim_rng_below(&own, 4), now_ms);
        }
        now_ms += 100;
        hot_tick(rig.hot, now_ms);
    }
    return NULL;
}

static void run_threads(uint64_t memory_max)
{
    rig.retention_ms = 1000;
    rig.memory_max = memory_max;
    cold_open(&rig);
    rig.shelf->whole_max = 100;
    atomic_store(&over, false);
    static struct writer writers[2];
    pthread_t threads[4];
    for (unsigned i = 0; i < 2; i++) {
        writers[i] = (struct writer){.worker = i};
        assert_int_equal(pthread_create(&threads[i], NULL, write_much, &writers[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[2], NULL, load_things, NULL), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, store_and_drop, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&over, true);
    for (unsigned i = 2; i < 4; i++)
        pthread_join(threads[i], NULL);

    char id[16];
    for (unsigned i = 0; i < THREAD_COUNTERS; i++) {
        snprintf(id, sizeof(id), "c%u", i);
        uint64_t sum = writers[0].added[i] + writers[1].added[i];
        struct op op = cold_ask(&rig, get(id));
        assert_int_equal(op.code == ERR_NOT_FOUND ? 0 : (uint64_t)op.value.small, sum);
    }
    for (unsigned i = 0; i < THREAD_ITEMS; i++) {
        snprintf(id, sizeof(id), "i%u", i);
        int64_t counts[LIMIT_KINDS];
        struct op op = on(OP_COUNTS, id);
        op.counts = counts;
        cold_ask(&rig, op);
        assert_int_equal(counts[0], writers[0].liked[i] + writers[1].liked[i]);
    }
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_true(stats.dropped > 0 && stats.loads > 0);
    if (memory_max != 0)
        assert_true(stats.users < 1500); /* and not all of those who have names */
    cold_close(&rig);
}

TEST(threads_load_and_drop_at_once_and_nothing_is_lost)
{
    run_threads(0);
}

TEST(nothing_is_lost_when_memory_is_short_either)
{
    rig.memory_max = 1;
    cold_open(&rig);
    hot_tick(rig.hot, rig.now_ms);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    cold_close(&rig);
    run_threads(stats.memory_bytes + 100000);
}

RUN(cmocka_unit_test(random_ops_with_loading_and_dropping_agree_with_the_model),
    cmocka_unit_test(threads_load_and_drop_at_once_and_nothing_is_lost),
    cmocka_unit_test(nothing_is_lost_when_memory_is_short_either))
