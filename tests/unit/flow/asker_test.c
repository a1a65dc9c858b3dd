/* A store that takes its time, and one who does not wait for it. */
/* threads */
#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "flow/asker.h"

/* Answers when it is let. */
struct slow_store {
    struct store base;
    struct store_ops ops;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool hangs;
    bool fails;
    unsigned asked; /* questions that have come so far */
    uint64_t counters;
    uint64_t epoch;
    atomic_uint answers; /* that the asker has told of */
};

static void pass_through(struct slow_store *store)
{
    pthread_mutex_lock(&store->mutex);
    store->asked++;
    pthread_cond_broadcast(&store->changed);
    while (store->hangs)
        pthread_cond_wait(&store->changed, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
}

static enum err slow_mark(struct store *base, struct state_mark *ret_mark, struct error *error)
{
    struct slow_store *store = (struct slow_store *)base;
    pass_through(store);
    if (store->fails)
        return error_set(error, ERR_UNAVAILABLE, "gone");
    *ret_mark = (struct state_mark){.counters = store->counters};
    return ERR_OK;
}

static enum err slow_epoch(struct store *base, unsigned origin, uint64_t above, uint64_t *ret_epoch,
                           struct error *error)
{
    struct slow_store *store = (struct slow_store *)base;
    (void)origin;
    pass_through(store);
    if (store->fails)
        return error_set(error, ERR_UNAVAILABLE, "gone");
    store->epoch = (above > store->epoch ? above : store->epoch) + 1;
    *ret_epoch = store->epoch;
    return ERR_OK;
}

static void count_answer(void *arg)
{
    atomic_fetch_add(&((struct slow_store *)arg)->answers, 1);
}

static void store_init(struct slow_store *store)
{
    *store = (struct slow_store){
        .ops = {.name = "slow", .mark = slow_mark, .epoch = slow_epoch},
        .counters = 7,
    };
    store->base.ops = &store->ops;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->changed, NULL);
}

static void store_done(struct slow_store *store)
{
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->mutex);
}

static void let_hang(struct slow_store *store, bool hangs)
{
    pthread_mutex_lock(&store->mutex);
    store->hangs = hangs;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->mutex);
}

static void await_question(struct slow_store *store, unsigned number)
{
    pthread_mutex_lock(&store->mutex);
    while (store->asked < number)
        pthread_cond_wait(&store->changed, &store->mutex);
    pthread_mutex_unlock(&store->mutex);
}

static void await_mark(struct asker *asker, struct asker_mark *last, uint64_t number)
{
    while (last->number < number)
        (void)asker_mark(asker, last);
}

TEST(an_answer_is_found_after_a_step)
{
    struct slow_store store;
    store_init(&store);
    struct asker *asker = asker_new(&store.base, count_answer, &store);
    struct asker_mark said = {0};
    asker_step(asker); /* nobody has asked for anything */
    assert_int_equal(store.asked, 0);
    uint64_t number = asker_want_mark(asker);
    assert_int_equal(asker_want_mark(asker), number); /* the same question will do */
    assert_false(asker_mark(asker, &said));
    asker_step(asker);
    assert_true(asker_mark(asker, &said));
    assert_int_equal(said.number, number);
    assert_true(said.is_known);
    assert_int_equal(said.mark.counters, 7);
    assert_int_equal(store.asked, 1);
    assert_int_equal(store.answers, 1);
    assert_false(asker_mark(asker, &said)); /* it is told once */
    asker_free(asker);
    store_done(&store);
}

TEST(a_store_that_does_not_answer_is_told_as_such)
{
    struct slow_store store;
    store_init(&store);
    store.fails = true;
    struct asker *asker = asker_new(&store.base, count_answer, &store);
    struct asker_mark said = {.is_known = true};
    (void)asker_want_mark(asker);
    asker_want_epoch(asker, 3, 10);
    asker_step(asker);
    assert_true(asker_mark(asker, &said));
    assert_false(said.is_known);
    uint64_t epoch = 0;
    enum err err = ERR_OK;
    struct error error = {.text = ""};
    assert_true(asker_epoch(asker, 3, &epoch, &err, &error));
    assert_int_equal(err, ERR_UNAVAILABLE);
    assert_string_equal(error.text, "gone");
    asker_free(asker);
    store_done(&store);
}

TEST(each_cell_is_given_an_epoch_once)
{
    struct slow_store store;
    store_init(&store);
    struct asker *asker = asker_new(&store.base, count_answer, &store);
    uint64_t epoch = 0;
    enum err err = ERR_OK;
    struct error error = {.text = ""};
    asker_want_epoch(asker, 0, 10);
    asker_want_epoch(asker, LIMIT_CELLS - 1, 0);
    assert_false(asker_epoch(asker, 0, &epoch, &err, &error));
    asker_step(asker);
    assert_true(asker_epoch(asker, 0, &epoch, &err, &error));
    assert_int_equal(epoch, 11);
    assert_false(asker_epoch(asker, 0, &epoch, &err, &error));
    assert_true(asker_epoch(asker, LIMIT_CELLS - 1, &epoch, &err, &error));
    assert_int_equal(epoch, 12);
    assert_false(asker_epoch(asker, 1, &epoch, &err, &error));
    asker_free(asker);
    store_done(&store);
}

TEST(who_asks_a_store_that_hangs_goes_on)
{
    struct slow_store store;
    store_init(&store);
    let_hang(&store, true);
    struct asker *asker = asker_new(&store.base, count_answer, &store);
    assert_int_equal(asker_start(asker, NULL), ERR_OK);
    struct asker_mark said = {0};
    uint64_t first = asker_want_mark(asker);
    await_question(&store, 1);
    assert_false(asker_mark(asker, &said));
    asker_want_epoch(asker, 0, 0);
    /* The question that is out may have been put too early for this one. */
    uint64_t second = asker_want_mark(asker);
    assert_true(second > first);
    assert_int_equal(store.answers, 0);
    let_hang(&store, false);
    await_mark(asker, &said, second);
    uint64_t epoch = 0;
    enum err err = ERR_OK;
    struct error error = {.text = ""};
    while (!asker_epoch(asker, 0, &epoch, &err, &error))
        continue;
    assert_int_equal(epoch, 1);
    asker_stop(asker);
    asker_free(asker);
    store_done(&store);
}

RUN(cmocka_unit_test(an_answer_is_found_after_a_step),
    cmocka_unit_test(a_store_that_does_not_answer_is_told_as_such),
    cmocka_unit_test(each_cell_is_given_an_epoch_once),
    cmocka_unit_test(who_asks_a_store_that_hangs_goes_on))
