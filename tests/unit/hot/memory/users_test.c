/* threads */
#include "hot/memory/users.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/uuid.h"
#include "sim/sim_rng.h"
#include "unit/test.h"

static struct user take(struct users *users, struct slice name)
{
    struct user user;
    uint64_t hash;
    if (!users_begin(users, name, &user, &hash))
        assert_true(users_take(users, name, hash, &user));
    return user;
}

static bool find(struct users *users, struct slice name, struct user *ret_user)
{
    uint64_t hash;
    return users_begin(users, name, ret_user, &hash) || users_find(users, name, hash, ret_user);
}

static void assert_name(struct users *users, struct user user, struct slice expected)
{
    char name[LIMIT_USER_BYTES];
    size_t size = users_name(users, user, name);
    assert_int_equal(size, expected.size);
    assert_memory_equal(name, expected.data, size);
}

TEST(a_decimal_id_below_2_to_the_32_stands_for_itself)
{
    const struct {
        const char *text;
        uint32_t number;
    } ids[] = {{"0", 0},
               {"7", 7},
               {"10", 10},
               {"12345678", 12345678},
               {"999999999", 999999999},
               {"1000000000", 1000000000},
               {"4294967295", UINT32_MAX}};
    struct users *users = users_new(1);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct user user;
        uint64_t hash;
        assert_true(users_begin(users, slice_of(ids[i].text), &user, &hash));
        assert_int_equal(user.class, USER_NUMERIC);
        assert_int_equal(user.number, ids[i].number);
        assert_name(users, user, slice_of(ids[i].text));
    }
    assert_int_equal(users_count(users), 0);
    users_free(users);
}

TEST(what_is_nearly_a_number_is_a_name)
{
    const char *const names[] = {
        "",   "00",   "01", "007",        "-1",          "-0",           "+1",
        " 1", "1 ",   "1a", "4294967296", "04294967295", "99999999999",  "18446744073709551617",
        "1.", "12e3", "٣",  "1234567/",   "12345678:",   "1000000000x0",
    };
    struct users *users = users_new(1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct user user = take(users, slice_of(names[i]));
        assert_int_equal(user.class, USER_NAMED);
        assert_name(users, user, slice_of(names[i]));
        assert_int_equal(users_count(users), i + 1);
    }
    users_free(users);
}

TEST(a_name_has_one_number_for_ever)
{
    struct users *users = users_new(1);
    struct user ann = take(users, SLICE("ann"));
    struct user bob = take(users, SLICE("bob"));
    assert_int_equal(take(users, SLICE("ann")).number, ann.number);
    assert_int_not_equal(bob.number, ann.number);
    assert_int_equal(users_count(users), 2);

    struct user user;
    assert_true(find(users, SLICE("bob"), &user));
    assert_int_equal(user.number, bob.number);
    assert_false(find(users, SLICE("carol"), &user));
    assert_int_equal(users_count(users), 2); /* looking gives no number */
    users_free(users);
}

TEST(names_of_every_size_come_back_byte_by_byte)
{
    char bytes[LIMIT_USER_BYTES];
    struct sim_rng rng = {4};
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)sim_rng_next(&rng);
    bytes[0] = 'x';

    struct users *users = users_new(1);
    struct user by_size[LIMIT_USER_BYTES + 1];
    for (size_t size = 0; size <= LIMIT_USER_BYTES; size++)
        by_size[size] = take(users, (struct slice){bytes, size});
    for (size_t size = 0; size <= LIMIT_USER_BYTES; size++) {
        struct slice name = {bytes, size};
        assert_int_equal(take(users, name).number, by_size[size].number);
        assert_name(users, by_size[size], name);
    }
    assert_int_equal(users_count(users), LIMIT_USER_BYTES + 1);
    users_free(users);
}

TEST(zero_bytes_at_the_end_of_a_name_count)
{
    struct users *users = users_new(1);
    struct user plain = take(users, SLICE("ann"));
    struct user with_zero = take(users, SLICE("ann\0"));
    assert_true(plain.number != with_zero.number);
    assert_name(users, with_zero, SLICE("ann\0"));
    users_free(users);
}

TEST(a_uuid_and_its_other_spellings_are_different_users)
{
    struct users *users = users_new(1);
    struct user lower = take(users, SLICE("550e8400-e29b-41d4-a716-44665544000a"));
    struct user upper = take(users, SLICE("550E8400-E29B-41D4-A716-44665544000A"));
    struct user bytes =
        take(users, SLICE("\x55\x0e\x84\x00\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\x00\x0a"));
    assert_true(lower.number != upper.number && upper.number != bytes.number &&
                bytes.number != lower.number);
    assert_name(users, lower, SLICE("550e8400-e29b-41d4-a716-44665544000a"));
    assert_name(users, upper, SLICE("550E8400-E29B-41D4-A716-44665544000A"));
    assert_int_equal(users_count(users), 3);
    users_free(users);
}

TEST(equal_hashes_do_not_make_equal_users)
{
    struct users *users = users_new(1);
    const char *const names[] = {"ann", "bob", "550e8400-e29b-41d4-a716-446655440000",
                                 "a name that is longer than sixteen bytes",
                                 "a name as long as the one that is above it"};
    struct user given[5];
    for (int i = 0; i < 5; i++)
        assert_true(users_take(users, slice_of(names[i]), 77, &given[i]));
    assert_int_equal(users_count(users), 5);
    for (int i = 0; i < 5; i++) {
        struct user user;
        assert_true(users_find(users, slice_of(names[i]), 77, &user));
        assert_int_equal(user.number, given[i].number);
        assert_name(users, user, slice_of(names[i]));
    }
    users_free(users);
}

/* The i-th user of the tests: a UUID, a short name or a long one. */
static struct slice nth_name(uint32_t i, char to[LIMIT_USER_BYTES])
{
    int size = 0;
    if (i % 3 == 0) {
        struct sim_rng rng = {i};
        uint64_t bytes[2] = {sim_rng_next(&rng), sim_rng_next(&rng)};
        uuid_format((const unsigned char *)bytes, to);
        return (struct slice){to, UUID_TEXT_BYTES};
    }
    if (i % 3 == 1)
        size = snprintf(to, LIMIT_USER_BYTES, "user%u", i);
    else
        size = snprintf(to, LIMIT_USER_BYTES, "somebody.number%u@mail.example.org", i);
    return (struct slice){to, (size_t)size};
}

TEST(random_users_agree_with_a_list)
{
    enum { NAMES = 30000 };
    static struct user model[NAMES];
    static bool known[NAMES];
    struct users *users = users_new(99);
    struct sim_rng rng = {6};
    uint32_t count = 0;
    char text[LIMIT_USER_BYTES];
    for (int step = 0; step < 100000; step++) {
        uint32_t i = (uint32_t)sim_rng_below(&rng, NAMES);
        struct slice name = nth_name(i, text);
        struct user user;
        assert_int_equal(find(users, name, &user), known[i]);
        if (known[i]) {
            assert_int_equal(user.number, model[i].number);
            assert_name(users, user, name);
        } else {
            model[i] = take(users, name);
            known[i] = true;
            count++;
        }
    }
    assert_int_equal(users_count(users), count);
    users_free(users);
}

TEST(numbers_are_distinct_and_dense)
{
    enum { NAMES = 64000 };
    static uint8_t seen[NAMES * 5 / 4];
    struct users *users = users_new(5);
    char text[LIMIT_USER_BYTES];
    for (uint32_t i = 0; i < NAMES; i++) {
        struct user user = take(users, nth_name(i, text));
        assert_in_range(user.number, 0, sizeof(seen) - 1);
        assert_int_equal(seen[user.number], 0);
        seen[user.number] = 1;
    }
    users_free(users);
}

TEST(a_uuid_costs_less_than_48_bytes_whatever_the_number_of_users)
{
    struct users *users = users_new(5);
    struct sim_rng rng = {8};
    for (uint32_t i = 1; i <= 300000; i++) {
        char text[UUID_TEXT_BYTES];
        uint64_t bytes[2] = {sim_rng_next(&rng), sim_rng_next(&rng)};
        uuid_format((const unsigned char *)bytes, text);
        take(users, (struct slice){text, sizeof(text)});
        if (i >= 100000 && i % 5000 == 0)
            assert_true(users_bytes(users) < i * UINT64_C(48));
    }
    users_free(users);
}

enum { THREADS = 2, SHARED_NAMES = 20000 };

struct taker {
    struct users *users;
    uint64_t seed;
    struct user got[SHARED_NAMES];
};

static void *take_all(void *arg)
{
    struct taker *taker = arg;
    struct sim_rng rng = {taker->seed};
    char text[LIMIT_USER_BYTES];
    uint32_t start = (uint32_t)sim_rng_below(&rng, SHARED_NAMES);
    for (uint32_t n = 0; n < SHARED_NAMES; n++) {
        uint32_t i = (start + n * 7919) % SHARED_NAMES;
        struct slice name = nth_name(i, text);
        taker->got[i] = take(taker->users, name);
        assert_name(taker->users, taker->got[i], name);
    }
    return NULL;
}

TEST(threads_that_bring_the_same_names_get_the_same_numbers)
{
    static struct taker takers[THREADS];
    struct users *users = users_new(5);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        takers[i].users = users;
        takers[i].seed = (uint64_t)i;
        assert_int_equal(pthread_create(&threads[i], NULL, take_all, &takers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int name = 0; name < SHARED_NAMES; name++)
        assert_int_equal(takers[0].got[name].number, takers[1].got[name].number);
    assert_int_equal(users_count(users), SHARED_NAMES);
    users_free(users);
}

RUN(cmocka_unit_test(a_decimal_id_below_2_to_the_32_stands_for_itself),
    cmocka_unit_test(what_is_nearly_a_number_is_a_name),
    cmocka_unit_test(a_name_has_one_number_for_ever),
    cmocka_unit_test(names_of_every_size_come_back_byte_by_byte),
    cmocka_unit_test(zero_bytes_at_the_end_of_a_name_count),
    cmocka_unit_test(a_uuid_and_its_other_spellings_are_different_users),
    cmocka_unit_test(equal_hashes_do_not_make_equal_users),
    cmocka_unit_test(random_users_agree_with_a_list),
    cmocka_unit_test(numbers_are_distinct_and_dense),
    cmocka_unit_test(a_uuid_costs_less_than_48_bytes_whatever_the_number_of_users),
    cmocka_unit_test(threads_that_bring_the_same_names_get_the_same_numbers))
