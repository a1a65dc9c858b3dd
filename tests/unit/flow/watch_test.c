/* The lengths of its lists are looked at from the inside. */
/* threads */
#include "flow/watch.c" // NOLINT(bugprone-suspicious-include)

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/test.h"

/* ---- what was taken, as "a b c" ---- */

struct taken {
    char text[4096];
    size_t size;
    size_t count;
};

static void note(void *arg, struct slice id)
{
    struct taken *taken = arg;
    taken->count++;
    if (taken->size + id.size + 2 > sizeof(taken->text))
        return;
    if (taken->size > 0)
        taken->text[taken->size++] = ' ';
    memcpy(taken->text + taken->size, id.data, id.size);
    taken->size += id.size;
    taken->text[taken->size] = '\0';
}

static void assert_takes(struct watch *watch, unsigned worker, const char *expected)
{
    struct taken taken = {.text = ""};
    assert_int_equal(watch_take(watch, worker, note, &taken), 0);
    assert_string_equal(taken.text, expected);
}

/* ---- tests ---- */

TEST(nobody_wants_anything_at_first)
{
    struct watch *watch = watch_new(2, env_system());
    assert_false(watch_any(watch));
    watch_changed(watch, SLICE("views"));
    assert_takes(watch, 0, "");
    watch_free(watch);
    watch_free(NULL);
}

TEST(a_watched_id_is_told_to_its_worker_once_until_taken)
{
    struct watch *watch = watch_new(2, env_system());
    watch_add(watch, 1, SLICE("views"), false);
    assert_true(watch_any(watch));
    for (unsigned i = 0; i < 1000; i++)
        watch_changed(watch, SLICE("views"));
    watch_changed(watch, SLICE("view"));
    watch_changed(watch, SLICE("views2"));

    assert_takes(watch, 0, "");
    assert_takes(watch, 1, "views");
    assert_takes(watch, 1, "");
    watch_changed(watch, SLICE("views"));
    assert_takes(watch, 1, "views");
    watch_free(watch);
}

static void ask_again(void *arg, struct slice id)
{
    watch_again(arg, 1, id);
}

TEST(a_worker_may_ask_again_for_itself)
{
    struct watch *watch = watch_new(2, env_system());
    watch_add(watch, 0, SLICE("views"), false);
    watch_add(watch, 1, SLICE("v*"), true);
    watch_again(watch, 1, SLICE("views"));
    watch_again(watch, 1, SLICE("other")); /* nobody wants it */
    assert_takes(watch, 0, "");
    assert_int_equal(watch_take(watch, 1, ask_again, watch), 0);
    assert_takes(watch, 1, "views");
    assert_takes(watch, 1, "");
    watch_free(watch);
}

TEST(ids_are_told_in_the_order_of_their_first_change)
{
    struct watch *watch = watch_new(1, env_system());
    watch_add(watch, 0, SLICE("*"), true);
    const char *const changes[] = {"c", "a", "c", "b", "a", "d"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        watch_changed(watch, slice_of(changes[i]));
    assert_takes(watch, 0, "c a b d");
    watch_free(watch);
}

TEST(a_pattern_wants_what_it_matches)
{
    struct watch *watch = watch_new(1, env_system());
    watch_add(watch, 0, SLICE("video?/like"), true);
    watch_changed(watch, SLICE("video1/like"));
    watch_changed(watch, SLICE("video1/dislike"));
    watch_changed(watch, SLICE("video?/like"));
    assert_takes(watch, 0, "video1/like video?/like");
    watch_free(watch);
}

TEST(a_name_that_looks_like_a_pattern_is_only_itself)
{
    struct watch *watch = watch_new(1, env_system());
    watch_add(watch, 0, SLICE("a*"), false);
    watch_changed(watch, SLICE("ab"));
    watch_changed(watch, SLICE("a*"));
    assert_takes(watch, 0, "a*");
    watch_free(watch);
}

TEST(what_is_wanted_twice_is_wanted_until_both_are_gone)
{
    struct watch *watch = watch_new(1, env_system());
    watch_add(watch, 0, SLICE("x"), false);
    watch_add(watch, 0, SLICE("x"), false);
    watch_add(watch, 0, SLICE("x"), true);

    watch_remove(watch, 0, SLICE("x"), false);
    watch_remove(watch, 0, SLICE("x"), true);
    watch_changed(watch, SLICE("x"));
    assert_takes(watch, 0, "x");

    watch_remove(watch, 0, SLICE("x"), false);
    assert_false(watch_any(watch));
    watch_changed(watch, SLICE("x"));
    assert_takes(watch, 0, "");
    watch_free(watch);
}

TEST(a_full_mailbox_forgets_the_newest_and_says_how_many)
{
    enum { BOUND = 65536, MORE = 100 };
    struct watch *watch = watch_new(1, env_system());
    watch_add(watch, 0, SLICE("*"), true);
    for (unsigned i = 0; i < BOUND + MORE; i++) {
        char id[16];
        snprintf(id, sizeof(id), "%u", i);
        watch_changed(watch, slice_of(id));
    }
    watch_changed(watch, SLICE("0")); /* is there already: not lost */

    struct taken taken = {.text = ""};
    assert_int_equal(watch_take(watch, 0, note, &taken), MORE);
    assert_int_equal(taken.count, BOUND);
    assert_memory_equal(taken.text, "0 1 2 3", 7);

    watch_changed(watch, SLICE("new"));
    assert_takes(watch, 0, "new");
    watch_free(watch);
}

TEST(a_mailbox_is_bounded_in_bytes_too)
{
    char id[290];
    memset(id, 'x', sizeof(id));
    struct watch *watch = watch_new(1, env_system());
    watch_add(watch, 0, SLICE("*"), true);
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(id, 8, "%07u", i);
        id[7] = 'x';
        watch_changed(watch, (struct slice){id, sizeof(id)});
    }
    struct taken taken = {.text = ""};
    size_t lost = watch_take(watch, 0, note, &taken);
    assert_int_equal(taken.count + lost, 20000);
    assert_true(taken.count * sizeof(id) <= 4u << 20);
    assert_true((taken.count + 2) * sizeof(id) > 4000000);
    watch_free(watch);
}

struct resubscriber {
    struct watch *watch;
    unsigned told;
};

static void resubscribe(void *arg, struct slice id)
{
    struct resubscriber *subscriber = arg;
    subscriber->told++;
    watch_remove(subscriber->watch, 0, id, false);
    watch_add(subscriber->watch, 0, id, false);
    watch_changed(subscriber->watch, id);
}

TEST(who_is_told_may_change_what_is_wanted)
{
    struct watch *watch = watch_new(1, env_system());
    struct resubscriber subscriber = {.watch = watch};
    watch_add(watch, 0, SLICE("x"), false);
    watch_changed(watch, SLICE("x"));
    watch_take(watch, 0, resubscribe, &subscriber);
    assert_int_equal(subscriber.told, 1);
    assert_takes(watch, 0, "x");
    watch_free(watch);
}

/* ---- against a model ---- */

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

TEST(it_agrees_with_a_simple_model_under_random_use)
{
    enum { NAMES = 600 };
    struct watch *watch = watch_new(1, env_system());
    unsigned wanted[NAMES] = {0};
    bool changed[NAMES] = {false};
    uint64_t random = 1;
    for (unsigned i = 0; i < 200000; i++) {
        unsigned number = (unsigned)(next_random(&random) % NAMES);
        char text[16];
        snprintf(text, sizeof(text), "id%u", number);
        struct slice id = slice_of(text);
        switch (next_random(&random) % 4) {
        case 0:
            watch_add(watch, 0, id, false);
            wanted[number]++;
            break;
        case 1:
            if (wanted[number] > 0) {
                watch_remove(watch, 0, id, false);
                wanted[number]--;
            }
            break;
        default:
            watch_changed(watch, id);
            changed[number] |= wanted[number] > 0;
        }
        if (next_random(&random) % 1000 == 0) {
            size_t expected = 0;
            for (unsigned name = 0; name < NAMES; name++) {
                expected += changed[name];
                changed[name] = false;
            }
            struct taken taken = {.text = ""};
            assert_int_equal(watch_take(watch, 0, note, &taken), 0);
            assert_int_equal(taken.count, expected);
        }
    }
    watch_free(watch);
}

/* ---- threads ---- */

enum { WORKERS = 3, CHANGES = 20000, IDS = 50 };

struct party {
    struct watch *watch;
    atomic_bool stop;
};

static void *keep_changing(void *arg)
{
    struct party *party = arg;
    for (unsigned i = 0; i < CHANGES; i++) {
        char id[16];
        snprintf(id, sizeof(id), "id%u", i % IDS);
        if (watch_any(party->watch))
            watch_changed(party->watch, slice_of(id));
    }
    return NULL;
}

static void *come_and_go(void *arg)
{
    struct party *party = arg;
    struct taken taken = {.text = ""};
    for (unsigned i = 0; !atomic_load(&party->stop); i++) {
        char id[16];
        snprintf(id, sizeof(id), "id%u", i % IDS);
        watch_add(party->watch, 1, slice_of(id), i % 2);
        watch_take(party->watch, 1, note, &taken);
        watch_remove(party->watch, 1, slice_of(id), i % 2);
    }
    return NULL;
}

TEST(many_threads_may_change_subscribe_and_take_at_once)
{
    struct party party = {.watch = watch_new(WORKERS, env_system())};
    watch_add(party.watch, 0, SLICE("id7"), false);
    watch_add(party.watch, 2, SLICE("id*"), true);

    pthread_t changers[2];
    pthread_t visitor;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&changers[i], NULL, keep_changing, &party), 0);
    assert_int_equal(pthread_create(&visitor, NULL, come_and_go, &party), 0);

    struct taken early = {.text = ""};
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(watch_take(party.watch, 2, note, &early), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(changers[i], NULL);
    atomic_store(&party.stop, true);
    pthread_join(visitor, NULL);

    /* Whatever was not taken early is still there. */
    assert_takes(party.watch, 0, "id7");
    struct taken late = {.text = ""};
    assert_int_equal(watch_take(party.watch, 2, note, &late), 0);
    assert_true(early.count + late.count >= IDS);
    assert_true(late.count <= IDS);
    watch_free(party.watch);
}

static uint64_t four(struct env *env)
{
    (void)env;
    return 4;
}

/* Nobody outside knows where names lie, since that follows from a random number and nothing else:
 * an address can be guessed. */
TEST(where_names_lie_follows_from_a_random_number)
{
    struct env env = *env_system();
    env.random = four;
    struct watch *watch = watch_new(1, &env);
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "name-%u", i);
        watch_add(watch, 0, slice_of(name), false);
    }
    const struct names *names = &watch->mailboxes[0].exact;
    for (size_t i = 0; i <= names->mask; i++)
        for (const struct name *name = names->chains[i]; name; name = name->next)
            assert_true(name->hash == hash_keyed((struct slice){name->bytes, name->size}, 4));
    watch_free(watch);
}

RUN(cmocka_unit_test(where_names_lie_follows_from_a_random_number),
    cmocka_unit_test(nobody_wants_anything_at_first),
    cmocka_unit_test(a_watched_id_is_told_to_its_worker_once_until_taken),
    cmocka_unit_test(a_worker_may_ask_again_for_itself),
    cmocka_unit_test(ids_are_told_in_the_order_of_their_first_change),
    cmocka_unit_test(a_pattern_wants_what_it_matches),
    cmocka_unit_test(a_name_that_looks_like_a_pattern_is_only_itself),
    cmocka_unit_test(what_is_wanted_twice_is_wanted_until_both_are_gone),
    cmocka_unit_test(a_full_mailbox_forgets_the_newest_and_says_how_many),
    cmocka_unit_test(a_mailbox_is_bounded_in_bytes_too),
    cmocka_unit_test(who_is_told_may_change_what_is_wanted),
    cmocka_unit_test(it_agrees_with_a_simple_model_under_random_use),
    cmocka_unit_test(many_threads_may_change_subscribe_and_take_at_once))
