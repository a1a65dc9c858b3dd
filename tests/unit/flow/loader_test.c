#include "flow/loader.h"

#include "flow/aggregator.h"
#include "store/sqlite/sqlite.h"
#include "unit/flow/rig.h"

/* The rig with a store behind it, without threads: everything happens when the test says so. */
struct bench {
    struct rig *rig;
    struct store *store;
    struct loader *loader;
    struct aggregator *aggregator;
    struct recovery recovery;
    char path[96];
};

static void open_all(struct bench *bench)
{
    struct rig *rig = bench->rig;
    struct error error = {.text = ""};
    struct sqlite_store_options options = {.path = bench->path};
    struct state_mark mark;
    if (sqlite_store_open(&rig->env, &options, &bench->store, &error) ||
        store_mark(bench->store, &mark, &error))
        fail_msg("%s", error.text);
    bench->loader = loader_new(&(struct loader_options){.env = &rig->env,
                                                        .hot = rig->hot,
                                                        .store = bench->store,
                                                        .keep_keys_ms = 24 * 3600 * 1000});
    if (recovery_run_behind(&rig->env, rig->log, rig->hot, bench->loader, &mark, &bench->recovery,
                            &error) ||
        log_start(rig->log, &error))
        fail_msg("%s", error.text);
    struct aggregator_options flow = {.env = &rig->env,
                                      .log = rig->log,
                                      .store = bench->store,
                                      .hot = rig->hot,
                                      .kinds = &rig->kinds,
                                      .flush_interval_ms = 1000,
                                      .flush_events = 2000};
    bench->aggregator = aggregator_new(&flow, &mark);
}

static void close_all(struct bench *bench)
{
    aggregator_free(bench->aggregator);
    loader_free(bench->loader);
    store_close(bench->store);
}

static struct bench *bench_new(void)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    bench->rig = rig_new();
    snprintf(bench->path, sizeof(bench->path), "%s/tally.db", bench->rig->folder);
    open_all(bench);
    return bench;
}

static void bench_free(struct bench *bench)
{
    close_all(bench);
    rig_free(bench->rig);
    free(bench);
}

/* As after a restart: memory is empty. */
static void restart(struct bench *bench, bool flush)
{
    rig_commit(bench->rig);
    if (flush)
        assert_true(aggregator_flush(bench->aggregator));
    close_all(bench);
    rig_close(bench->rig);
    rig_open(bench->rig);
    open_all(bench);
}

static void tell_all(struct bench *bench)
{
    unsigned steps = 0;
    while (loader_step(bench->loader) != UINT64_MAX)
        assert_true(steps++ < 1000);
}

static struct op run(struct bench *bench, struct op op)
{
    rig_run(bench->rig, &op);
    return op;
}

/* The same, loading what it lacks; says how often it had to. */
static struct op run_loading(struct bench *bench, struct op op, unsigned *ret_loads)
{
    struct error error;
    struct op done = run(bench, op);
    *ret_loads = 0;
    while (done.code == ERR_COLD) {
        assert_true(++*ret_loads < 10);
        (void)loader_serve(bench->loader, &error);
        done = run(bench, op);
    }
    return done;
}

static struct op add(const char *id, int64_t amount)
{
    return (struct op){.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
}

static struct op like(const char *item, const char *user)
{
    return (struct op){
        .kind = OP_REACT, .id = slice_of(item), .user = slice_of(user), .reaction = 1};
}

TEST(a_cold_counter_is_loaded_and_goes_on_from_there)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    assert_int_equal(run(bench, add("views", 41)).code, ERR_OK);
    restart(bench, true);
    assert_int_equal(bench->recovery.events, 0);
    unsigned loads;
    struct op op = run_loading(bench, add("views", 1), &loads);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 42);
    assert_true(loads > 0);
    op = run_loading(bench, add("views", 1), &loads);
    assert_int_equal(op.value.small, 43);
    assert_int_equal(loads, 0);
    bench_free(bench);
}

TEST(who_likes_twice_is_known_after_a_restart)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    unsigned loads;
    assert_true(run(bench, like("video1", "ann")).changed);
    assert_true(run(bench, like("video1", "17")).changed);
    restart(bench, true);
    tell_all(bench);
    assert_false(run_loading(bench, like("video1", "ann"), &loads).changed);
    assert_false(run_loading(bench, like("video1", "17"), &loads).changed);
    assert_true(run_loading(bench, like("video1", "bob"), &loads).changed);
    bench_free(bench);
}

TEST(when_all_is_told_what_is_new_waits_for_nothing)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    for (unsigned i = 0; i < 100; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%u", i);
        assert_int_equal(run(bench, add(id, 1)).code, ERR_OK);
    }
    restart(bench, true);
    assert_int_equal(run(bench, add("new", 1)).code, ERR_COLD); /* not told yet: who knows */
    tell_all(bench);
    assert_int_equal(run(bench, add("new", 1)).code, ERR_OK);
    unsigned cold = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "new%u", i);
        cold += run(bench, add(id, 1)).code == ERR_COLD;
    }
    assert_true(cold < 100); /* a filter errs now and then */
    bench_free(bench);
}

TEST(keys_are_known_when_they_are_told)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    struct op keyed = add("views", 5);
    keyed.key = SLICE("k");
    assert_int_equal(run(bench, keyed).value.small, 5);
    assert_int_equal(run(bench, add("views", 1)).value.small, 6);
    restart(bench, true);
    tell_all(bench);
    unsigned loads;
    struct op op = run_loading(bench, keyed, &loads);
    assert_true(op.repeated);
    assert_int_equal(op.value.small, 5);
    bench_free(bench);
}

TEST(all_is_told_although_somebody_always_wants_something)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    struct op keyed = add("views", 5);
    keyed.key = SLICE("k");
    assert_int_equal(run(bench, keyed).value.small, 5);
    restart(bench, true);
    struct op fresh = add("other", 1);
    fresh.key = SLICE("never used");
    assert_int_equal(run(bench, fresh).code, ERR_COLD);
    unsigned steps = 0;
    enum err err;
    do {
        char id[16];
        snprintf(id, sizeof(id), "new%u", steps);
        err = run(bench, add(id, 1)).code; /* one more is wanted each time */
        (void)loader_step(bench->loader);
        assert_true(steps++ < 1000);
    } while (err == ERR_COLD);
    unsigned loads;
    assert_int_equal(run_loading(bench, fresh, &loads).value.small, 1);
    assert_true(run_loading(bench, keyed, &loads).repeated);
    bench_free(bench);
}

TEST(a_restart_replays_what_the_store_lacks_on_top_of_what_it_has)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    assert_int_equal(run(bench, add("views", 40)).code, ERR_OK);
    assert_true(run(bench, like("video1", "ann")).changed);
    rig_commit(bench->rig);
    assert_true(aggregator_flush(bench->aggregator));
    assert_int_equal(run(bench, add("views", 2)).code, ERR_OK);
    assert_true(run(bench, like("video1", "bob")).changed);
    restart(bench, false);
    assert_int_equal(bench->recovery.events, 2);
    unsigned loads;
    struct op op = run_loading(bench, add("views", 0), &loads);
    assert_int_equal(op.value.small, 42);
    assert_false(run_loading(bench, like("video1", "ann"), &loads).changed);
    assert_false(run_loading(bench, like("video1", "bob"), &loads).changed);
    restart(bench, true);
    assert_int_equal(run_loading(bench, add("views", 0), &loads).value.small, 42);
    bench_free(bench);
}

TEST(a_store_that_cannot_answer_refuses_the_cold_and_nobody_else)
{
    struct bench *bench = bench_new();
    tell_all(bench);
    assert_int_equal(run(bench, add("cold", 1)).code, ERR_OK);
    restart(bench, true);
    tell_all(bench);
    assert_int_equal(run(bench, add("hot", 1)).code, ERR_OK);
    loader_free(bench->loader); /* its reader is open already */
    bench->loader = loader_new(&(struct loader_options){
        .env = &bench->rig->env, .hot = bench->rig->hot, .store = bench->store});
    char gone[128];
    snprintf(gone, sizeof(gone), "%s.gone", bench->path);
    assert_int_equal(rename(bench->path, gone), 0);
    assert_int_equal(run(bench, add("cold", 1)).code, ERR_COLD);
    struct error error = {.text = ""};
    assert_int_equal(loader_serve(bench->loader, &error), ERR_UNAVAILABLE);
    assert_int_equal(run(bench, add("cold", 1)).code, ERR_UNAVAILABLE);
    struct op hot = run(bench, add("hot", 1));
    assert_int_equal(hot.code, ERR_OK);
    assert_int_equal(hot.value.small, 2);
    assert_int_equal(rename(gone, bench->path), 0);
    unsigned loads;
    struct op op = run_loading(bench, add("cold", 1), &loads);
    for (unsigned i = 0; i < 10 && op.code == ERR_UNAVAILABLE;
         i++) { /* asked again after a while */
        bench->rig->now_ms += 1000;
        bench->rig->monotonic_ns += 1000000000;
        hot_tick(bench->rig->hot, bench->rig->now_ms);
        op = run_loading(bench, add("cold", 1), &loads);
    }
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 2);
    bench_free(bench);
}

/* A store that can load many at once, and what it was asked for. */
static struct {
    unsigned calls;
    size_t ids;
    enum err after_first; /* what comes after the first of a call */
} many;

struct one_of_many {
    store_targets_fn *visit;
    void *arg;
    size_t place;
};

static void pass_on(void *arg, const struct state_target *target)
{
    struct one_of_many *one = arg;
    one->visit(one->arg, one->place, target);
}

static enum err load_many(struct store_reader *reader, const struct slice *ids, size_t count,
                          store_targets_fn *visit, void *arg, struct error *error)
{
    many.calls++;
    many.ids += count;
    for (size_t i = 0; i < count; i++) {
        struct one_of_many one = {visit, arg, i};
        enum err err = i > 0 ? many.after_first : ERR_OK;
        err = err ? err : store_load(reader, ids[i], pass_on, &one, error);
        if (err == ERR_NOT_FOUND)
            visit(arg, i, NULL);
        else if (err)
            return err;
    }
    return ERR_OK;
}

static void load_many_from(struct bench *bench, struct store_ops *ops)
{
    *ops = *bench->store->ops;
    ops->load_many = load_many;
    bench->store->ops = ops;
    loader_free(bench->loader);
    bench->loader = loader_new(&(struct loader_options){
        .env = &bench->rig->env, .hot = bench->rig->hot, .store = bench->store});
    memset(&many, 0, sizeof(many));
}

/* Ten counters of 1 that are cold, and wanted. */
static void want_ten(struct bench *bench, char ids[10][16])
{
    tell_all(bench);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(ids[i], sizeof(ids[i]), "cold%u", i);
        assert_int_equal(run(bench, add(ids[i], 1)).code, ERR_OK);
    }
    restart(bench, true);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(run(bench, add(ids[i], 1)).code, ERR_COLD);
}

TEST(many_wants_are_one_question_and_one_arrival)
{
    struct bench *bench = bench_new();
    struct store_ops ops;
    char ids[10][16];
    want_ten(bench, ids);
    load_many_from(bench, &ops);
    uint64_t arrivals = atomic_load(&bench->rig->hot->arrivals);
    (void)loader_step(bench->loader);
    assert_int_equal(many.calls, 1);
    assert_int_equal(many.ids, 10);
    assert_int_equal(atomic_load(&bench->rig->hot->arrivals), arrivals + 1);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(run(bench, add(ids[i], 1)).value.small, 2);
    bench_free(bench);
}

TEST(what_one_row_is_to_blame_for_does_not_hold_up_the_others)
{
    struct bench *bench = bench_new();
    struct store_ops ops;
    char ids[10][16];
    want_ten(bench, ids);
    load_many_from(bench, &ops);
    many.after_first = ERR_CORRUPT;
    struct error error = {.text = ""};
    assert_int_equal(loader_serve(bench->loader, &error), ERR_CORRUPT);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(run(bench, add(ids[i], 1)).value.small, 2);
    bench_free(bench);
}

TEST(an_outage_in_the_middle_is_told_to_all_that_are_left)
{
    struct bench *bench = bench_new();
    struct store_ops ops;
    char ids[10][16];
    want_ten(bench, ids);
    load_many_from(bench, &ops);
    many.after_first = ERR_UNAVAILABLE;
    struct error error = {.text = ""};
    assert_int_equal(loader_serve(bench->loader, &error), ERR_UNAVAILABLE);
    assert_int_equal(many.calls, 1);
    unsigned done = 0;
    for (unsigned i = 0; i < 10; i++) {
        enum err code = run(bench, add(ids[i], 1)).code;
        done += code == ERR_OK;
        assert_true(code == ERR_OK || code == ERR_UNAVAILABLE);
    }
    assert_int_equal(done, 1);
    bench_free(bench);
}

RUN(cmocka_unit_test(many_wants_are_one_question_and_one_arrival),
    cmocka_unit_test(what_one_row_is_to_blame_for_does_not_hold_up_the_others),
    cmocka_unit_test(an_outage_in_the_middle_is_told_to_all_that_are_left),
    cmocka_unit_test(a_cold_counter_is_loaded_and_goes_on_from_there),
    cmocka_unit_test(who_likes_twice_is_known_after_a_restart),
    cmocka_unit_test(when_all_is_told_what_is_new_waits_for_nothing),
    cmocka_unit_test(keys_are_known_when_they_are_told),
    cmocka_unit_test(all_is_told_although_somebody_always_wants_something),
    cmocka_unit_test(a_restart_replays_what_the_store_lacks_on_top_of_what_it_has),
    cmocka_unit_test(a_store_that_cannot_answer_refuses_the_cold_and_nobody_else))
