#include "server/late_hot.h"

#include "unit/test.h"

/* A layer that answers 7, and knows no more than that. */
static void run_seven(struct hot *hot, struct batch *batch)
{
    (void)hot;
    for (size_t i = 0; i < batch->count; i++) {
        batch->ops[i].code = ERR_OK;
        batch->ops[i].value = number_of(7);
    }
    batch->done(batch);
}

static void fill_stats(struct hot *hot, struct hot_stats *ret_stats)
{
    (void)hot;
    ret_stats->hot_counters = 3;
}

static unsigned hurries;

static void note_hurry(struct hot *hot)
{
    (void)hot;
    hurries++;
}

static const struct hot_ops seven_ops = {
    .name = "seven", .run = run_seven, .stats = fill_stats, .hurry = note_hurry};

static unsigned arrivals;
static unsigned finished;

static void note_arrival(void *arg)
{
    (void)arg;
    arrivals++;
}

static void note_finish(void *arg, unsigned worker)
{
    (void)arg;
    finished = worker;
}

static unsigned done;

static void note_done(struct batch *batch)
{
    (void)batch;
    done++;
}

static struct op ask(struct late_hot *late)
{
    struct op op = {.kind = OP_GET, .id = SLICE("a")};
    struct batch batch = {.ops = &op, .count = 1, .done = note_done};
    hot_run(&late->base, &batch);
    return op;
}

static void ignore_entry(void *arg, const struct hot_entry *entry)
{
    (void)arg;
    (void)entry;
}

TEST(what_is_not_there_yet_refuses_everything)
{
    struct late_hot late;
    late_hot_init(&late);
    done = 0;
    assert_int_equal(ask(&late).code, ERR_UNAVAILABLE);
    assert_int_equal(done, 1);
    hot_collect(&late.base, 0);
    hot_tick(&late.base, 1);
    uint64_t cursor = 5;
    hot_scan(&late.base, &cursor, 1, ignore_entry, NULL);
    assert_int_equal(cursor, 0);
    assert_int_equal(hot_drop(&late.base, SLICE("a")), ERR_UNAVAILABLE);
    hot_hurry(&late.base);
    hot_close(&late.base);
}

TEST(what_is_there_answers_and_wakes_the_same_doors)
{
    struct late_hot late;
    late_hot_init(&late);
    late.base.arrive = note_arrival;
    late.base.finish = note_finish;
    struct hot seven = {.ops = &seven_ops};
    late_hot_set(&late, &seven);
    struct op op = ask(&late);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 7);

    hot_hurry(&late.base);
    assert_int_equal(hurries, 1);

    seven.arrive(seven.arrive_arg);
    assert_int_equal(arrivals, 1);
    assert_int_equal(late.base.arrivals, 1);
    seven.finish(seven.finish_arg, 5);
    assert_int_equal(finished, 5);
}

TEST(counts_of_all_are_those_of_the_store)
{
    struct late_hot late;
    late_hot_init(&late);
    late.base.finish = note_finish;
    struct hot seven = {.ops = &seven_ops};
    late_hot_set(&late, &seven);
    late_hot_note(&late, &(struct state_mark){.counters = 10, .items = 20, .members = 30});
    struct hot_stats stats;
    hot_stats(&late.base, &stats);
    assert_int_equal(stats.counters, 10);
    assert_int_equal(stats.items, 20);
    assert_int_equal(stats.members, 30);
    assert_int_equal(stats.hot_counters, 3);
}

RUN(cmocka_unit_test(what_is_not_there_yet_refuses_everything),
    cmocka_unit_test(what_is_there_answers_and_wakes_the_same_doors),
    cmocka_unit_test(counts_of_all_are_those_of_the_store))
