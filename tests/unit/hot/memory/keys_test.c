/* threads */
#include "hot/memory/keys.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

#define KEPT_MS 1000

static const struct slice video = {"video1", 6};

static void remember(struct keys *keys, struct slice id, struct slice key, int64_t value,
                     int64_t now_ms)
{
    struct key_slot slot;
    assert_null(keys_open(keys, id, key, now_ms, &slot));
    struct key_answer answer = {.fingerprint = (uint64_t)value * 3,
                                .changed = value % 2,
                                .held = (uint8_t)(value % 5),
                                .value = number_of(value)};
    keys_put(keys, &slot, &answer, now_ms);
    keys_close(keys, &slot);
}

static bool recalls(struct keys *keys, struct slice id, struct slice key, int64_t value,
                    int64_t now_ms)
{
    struct key_slot slot;
    const struct key_answer *answer = keys_open(keys, id, key, now_ms, &slot);
    if (answer) {
        assert_int_equal(answer->fingerprint, (uint64_t)value * 3);
        assert_int_equal(answer->changed, value % 2);
        assert_int_equal(answer->held, value % 5);
        assert_null(answer->value.big);
        assert_int_equal(answer->value.small, value);
    }
    keys_close(keys, &slot);
    return answer != NULL;
}

TEST(a_key_gives_the_first_answer_again)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    remember(keys, video, SLICE("k"), 7, 0);
    assert_true(recalls(keys, video, SLICE("k"), 7, 0));
    assert_true(recalls(keys, video, SLICE("k"), 7, KEPT_MS));
    assert_int_equal(keys_count(keys), 1);
    keys_free(keys);
}

TEST(a_key_counts_within_its_counter)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    remember(keys, SLICE("ab"), SLICE("c"), 1, 0);
    assert_false(recalls(keys, SLICE("a"), SLICE("bc"), 1, 0));
    assert_false(recalls(keys, SLICE("abc"), SLICE(""), 1, 0));
    assert_false(recalls(keys, SLICE(""), SLICE("abc"), 1, 0));
    assert_true(recalls(keys, SLICE("ab"), SLICE("c"), 1, 0));
    keys_free(keys);
}

TEST(ids_and_keys_at_their_limits_are_told_apart)
{
    char id[256], key[128];
    memset(id, 'i', sizeof(id));
    memset(key, 'k', sizeof(key));
    struct keys *keys = keys_new(1, KEPT_MS);
    remember(keys, (struct slice){id, 256}, (struct slice){key, 128}, 1, 0);
    remember(keys, (struct slice){id, 256}, (struct slice){key, 127}, 2, 0);
    remember(keys, (struct slice){id, 255}, (struct slice){key, 128}, 3, 0);
    assert_true(recalls(keys, (struct slice){id, 256}, (struct slice){key, 128}, 1, 0));
    assert_true(recalls(keys, (struct slice){id, 256}, (struct slice){key, 127}, 2, 0));
    assert_true(recalls(keys, (struct slice){id, 255}, (struct slice){key, 128}, 3, 0));
    keys_free(keys);
}

TEST(an_answer_that_is_too_old_is_never_given)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    remember(keys, video, SLICE("k"), 1, 0);
    /* Nobody has called keys_forget() yet. */
    assert_false(recalls(keys, video, SLICE("k"), 1, KEPT_MS + 1));
    remember(keys, video, SLICE("k"), 2, KEPT_MS + 1);
    assert_true(recalls(keys, video, SLICE("k"), 2, KEPT_MS + 2));
    assert_int_equal(keys_count(keys), 1);

    /* The old entry still stands in the queue; its end is not that of the new one. */
    keys_forget(keys, KEPT_MS + 2, 100);
    assert_true(recalls(keys, video, SLICE("k"), 2, KEPT_MS + 2));
    keys_free(keys);
}

TEST(what_is_too_old_is_forgotten_and_its_memory_used_again)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    size_t bytes = 0;
    for (int round = 0; round < 20; round++) {
        int64_t now_ms = round * (KEPT_MS + 1);
        keys_forget(keys, now_ms, UINT32_MAX);
        assert_int_equal(keys_count(keys), 0);
        for (int i = 0; i < 5000; i++) {
            char key[32];
            int size = snprintf(key, sizeof(key), "%d-%d", round, i);
            remember(keys, video, (struct slice){key, (size_t)size}, i, now_ms);
        }
        if (round == 3)
            bytes = keys_bytes(keys);
    }
    assert_true(keys_bytes(keys) <= bytes * 5 / 4);
    keys_free(keys);
}

TEST(a_log_of_many_days_does_not_bring_back_all_of_its_keys)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    for (int i = 0; i < 100000; i++) {
        char key[32];
        int size = snprintf(key, sizeof(key), "%d", i);
        remember(keys, video, (struct slice){key, (size_t)size}, i, (int64_t)i * KEPT_MS / 5000);
    }
    assert_true(keys_count(keys) >= 5000 && keys_count(keys) < 6000);
    keys_free(keys);
}

TEST(forgetting_keeps_to_its_limit_for_each_stripe)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    for (int i = 0; i < 10000; i++) {
        char key[32];
        int size = snprintf(key, sizeof(key), "%d", i);
        remember(keys, video, (struct slice){key, (size_t)size}, i, 0);
    }
    keys_forget(keys, KEPT_MS, 1);
    assert_int_equal(keys_count(keys), 10000); /* not too old yet */
    keys_forget(keys, KEPT_MS + 1, 1);
    assert_int_equal(keys_count(keys), 10000 - 64);
    keys_forget(keys, KEPT_MS + 1, 2);
    assert_int_equal(keys_count(keys), 10000 - 3 * 64);
    keys_free(keys);
}

TEST(a_clock_that_jumps_back_keeps_keys_for_longer_but_not_for_ever)
{
    const int64_t year_ms = INT64_C(365) * 24 * 3600 * 1000;
    struct keys *keys = keys_new(1, KEPT_MS);
    char key[16];
    for (int i = 0; i < 200; i++) {
        int size = snprintf(key, sizeof(key), "future%d", i);
        remember(keys, video, (struct slice){key, (size_t)size}, i, year_ms);
    }
    keys_forget(keys, 0, UINT32_MAX); /* the clock was a year ahead */
    remember(keys, video, SLICE("now"), 5, 10);
    assert_true(recalls(keys, video, SLICE("future3"), 3, 20));
    assert_true(recalls(keys, video, SLICE("now"), 5, 20));

    keys_forget(keys, 2 * KEPT_MS, UINT32_MAX);
    assert_int_equal(keys_count(keys), 201);
    assert_true(recalls(keys, video, SLICE("future3"), 3, 2 * KEPT_MS));
    keys_forget(keys, 2 * KEPT_MS + 1, UINT32_MAX);
    assert_int_equal(keys_count(keys), 0);
    keys_free(keys);
}

TEST(a_clock_that_jumps_back_and_forth_loses_no_key)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    remember(keys, video, SLICE("k"), 1, 10 * KEPT_MS);
    keys_forget(keys, 9 * KEPT_MS + 1, UINT32_MAX);
    keys_forget(keys, 11 * KEPT_MS, UINT32_MAX);
    assert_true(recalls(keys, video, SLICE("k"), 1, 11 * KEPT_MS));
    keys_free(keys);
}

TEST(a_big_answer_is_a_copy_of_its_own)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    struct number big;
    assert_int_equal(number_parse(SLICE("123456789012345678901234567890"), &big), ERR_OK);
    struct number same = number_copy(&big);
    struct key_slot slot;
    assert_null(keys_open(keys, video, SLICE("k"), 0, &slot));
    keys_put(keys, &slot, &(struct key_answer){.value = big}, 0);
    keys_close(keys, &slot);
    number_done(&big);

    const struct key_answer *answer = keys_open(keys, video, SLICE("k"), 0, &slot);
    assert_non_null(answer);
    assert_int_equal(number_compare(&answer->value, &same), 0);
    keys_close(keys, &slot);
    number_done(&same);
    keys_free(keys);
}

TEST(a_big_answer_that_is_too_old_is_freed)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    struct number big;
    assert_int_equal(number_parse(SLICE("-123456789012345678901234567890"), &big), ERR_OK);
    size_t bytes = 0;
    for (int round = 0; round < 10; round++) {
        int64_t now_ms = round * (KEPT_MS + 1);
        struct key_slot slot;
        assert_null(keys_open(keys, video, SLICE("k"), now_ms, &slot));
        keys_put(keys, &slot, &(struct key_answer){.value = big}, now_ms);
        keys_close(keys, &slot);
        if (round == 0)
            bytes = keys_bytes(keys);
        assert_int_equal(keys_bytes(keys), bytes);
    }
    number_done(&big);
    keys_free(keys);
}

/* The model: for each key when it was put in, and what. Time goes on in steps,
 * and now and then back a little: a key that was too old at some moment may then
 * be known or not. */
TEST(random_keys_agree_with_a_list)
{
    enum { NAMES = 3000 };
    static struct {
        bool known;
        int64_t put_ms, value;
    } model[NAMES];
    struct keys *keys = keys_new(77, KEPT_MS);
    struct sim_rng rng = {12};
    int64_t now_ms = 1000000;
    int64_t latest_ms = now_ms;
    for (int step = 0; step < 150000; step++) {
        uint32_t i = (uint32_t)sim_rng_below(&rng, NAMES);
        char text[16];
        int size = snprintf(text, sizeof(text), "%u", i);
        struct slice key = {text, (size_t)size};

        bool known = recalls(keys, video, key, model[i].value, now_ms);
        if (!model[i].known || now_ms - model[i].put_ms > KEPT_MS)
            assert_false(known);
        else if (latest_ms - model[i].put_ms <= KEPT_MS)
            assert_true(known);
        if (!known) {
            model[i].known = true;
            model[i].put_ms = now_ms;
            model[i].value = step;
            remember(keys, video, key, step, now_ms);
        }

        if (sim_rng_chance(&rng, 300))
            now_ms += 1;
        if (sim_rng_chance(&rng, 1))
            now_ms -= (int64_t)sim_rng_below(&rng, 100);
        latest_ms = now_ms > latest_ms ? now_ms : latest_ms;
        if (step % 500 == 0)
            keys_forget(keys, now_ms, 1 + (uint32_t)sim_rng_below(&rng, 30));
    }
    keys_forget(keys, latest_ms + KEPT_MS + 1, UINT32_MAX);
    assert_int_equal(keys_count(keys), 0);
    keys_free(keys);
}

enum { THREADS = 2, SHARED_KEYS = 20000 };

struct writer {
    struct keys *keys;
    uint32_t done; /* writes that this one really did */
};

static void *write_all(void *arg)
{
    struct writer *writer = arg;
    for (uint32_t i = 0; i < SHARED_KEYS; i++) {
        char text[16];
        int size = snprintf(text, sizeof(text), "%u", i);
        struct key_slot slot;
        if (!keys_open(writer->keys, video, (struct slice){text, (size_t)size}, 0, &slot)) {
            writer->done++;
            keys_put(writer->keys, &slot, &(struct key_answer){.value = number_of(i)}, 0);
        }
        keys_close(writer->keys, &slot);
        if (i % 1000 == 0)
            keys_forget(writer->keys, 1, 10);
    }
    return NULL;
}

TEST(of_two_threads_with_the_same_key_one_does_the_write)
{
    struct keys *keys = keys_new(1, KEPT_MS);
    struct writer writers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){.keys = keys};
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(writers[0].done + writers[1].done, SHARED_KEYS);
    assert_int_equal(keys_count(keys), SHARED_KEYS);
    keys_free(keys);
}

RUN(cmocka_unit_test(a_key_gives_the_first_answer_again),
    cmocka_unit_test(a_key_counts_within_its_counter),
    cmocka_unit_test(ids_and_keys_at_their_limits_are_told_apart),
    cmocka_unit_test(an_answer_that_is_too_old_is_never_given),
    cmocka_unit_test(what_is_too_old_is_forgotten_and_its_memory_used_again),
    cmocka_unit_test(a_log_of_many_days_does_not_bring_back_all_of_its_keys),
    cmocka_unit_test(forgetting_keeps_to_its_limit_for_each_stripe),
    cmocka_unit_test(a_clock_that_jumps_back_keeps_keys_for_longer_but_not_for_ever),
    cmocka_unit_test(a_clock_that_jumps_back_and_forth_loses_no_key),
    cmocka_unit_test(a_big_answer_is_a_copy_of_its_own),
    cmocka_unit_test(a_big_answer_that_is_too_old_is_freed),
    cmocka_unit_test(random_keys_agree_with_a_list),
    cmocka_unit_test(of_two_threads_with_the_same_key_one_does_the_write))
