#include "core/sets.h"

#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

#define USERS 600u
#define KINDS 4u

/* The oracle: what each user holds, by class and place; numbers are spread out by `stretch`. */
static uint8_t held[2][USERS];

static uint32_t number_of_user(unsigned user, uint64_t stretch)
{
    return (uint32_t)(user * stretch);
}

static void assert_same(struct slice sets, uint64_t stretch)
{
    static struct sets_list list;
    assert_int_equal(sets_read(sets, &list), ERR_OK);
    size_t expected = 0;
    for (unsigned named = 0; named < 2; named++) {
        for (unsigned user = 0; user < USERS; user++)
            expected += held[named][user] != 0;
    }
    assert_int_equal(list.number_count, expected);
    for (size_t g = 0; g < list.group_count; g++) {
        for (size_t i = 0; i < list.groups[g].count; i++) {
            uint32_t number = list.numbers[list.groups[g].first + i];
            assert_int_equal(number % stretch, 0);
            assert_int_equal(held[list.groups[g].named][number / stretch], list.groups[g].kind);
        }
    }
    sets_list_done(&list);
}

static void run_against_oracle(uint64_t stretch, unsigned rounds, unsigned touches_max)
{
    memset(held, 0, sizeof(held));
    struct buffer sets;
    struct buffer next;
    buffer_init(&sets, 1 << 20);
    buffer_init(&next, 1 << 20);
    struct sets_touch touches[256];
    struct sets_touch spare[256];
    for (unsigned round = 0; round < rounds; round++) {
        size_t count = (size_t)(rand() % (int)touches_max);
        int64_t expected[SETS_KINDS] = {0};
        for (size_t i = 0; i < count; i++) {
            unsigned user = (unsigned)rand() % USERS;
            uint8_t named = (uint8_t)(rand() % 2);
            uint8_t kind = (uint8_t)(rand() % (int)KINDS);
            touches[i] = (struct sets_touch){number_of_user(user, stretch), named, kind};
            expected[held[named][user]]--;
            expected[kind]++;
            held[named][user] = kind;
        }
        expected[0] = 0;
        count = sets_sort(touches, count, spare);
        int64_t deltas[SETS_KINDS] = {0};
        next.size = 0;
        assert_int_equal(sets_merge(buffer_slice(&sets), touches, count, &next, deltas), ERR_OK);
        assert_memory_equal(deltas, expected, sizeof(deltas));
        struct buffer old = sets;
        sets = next;
        next = old;
        assert_same(buffer_slice(&sets), stretch);
    }
    buffer_done(&sets);
    buffer_done(&next);
}

TEST(sets_hold_what_the_touches_say)
{
    test_draw_lots();
    run_against_oracle(1, 400, 60);
    run_against_oracle(977, 400, 200);
    run_against_oracle(UINT32_MAX / (USERS - 1), 400, 5);
}

TEST(nobody_is_no_bytes)
{
    struct buffer one;
    struct buffer none;
    buffer_init(&one, 100);
    buffer_init(&none, 100);
    int64_t deltas[SETS_KINDS] = {0};
    struct sets_touch touch = {.number = 7, .kind = 1};
    assert_int_equal(sets_merge((struct slice){NULL, 0}, &touch, 1, &one, deltas), ERR_OK);
    assert_int_equal(one.size, 8);
    touch.kind = 0;
    assert_int_equal(sets_merge(buffer_slice(&one), &touch, 1, &none, deltas), ERR_OK);
    assert_int_equal(none.size, 0);
    assert_int_equal(deltas[1], 0);
    buffer_done(&one);
    buffer_done(&none);
}

static void make_sample(struct buffer *sets)
{
    struct sets_touch touches[] = {{1, 0, 1}, {500, 0, 2}, {UINT32_MAX, 0, 1},
                                   {0, 1, 1}, {1, 1, 1},   {70000, 1, 3}};
    int64_t deltas[SETS_KINDS] = {0};
    buffer_init(sets, 1000);
    assert_int_equal(sets_merge((struct slice){NULL, 0}, touches, 6, sets, deltas), ERR_OK);
}

TEST(a_user_is_found_with_the_kind_held)
{
    struct buffer sets;
    make_sample(&sets);
    uint8_t kind;
    assert_int_equal(sets_find(buffer_slice(&sets), false, UINT32_MAX, &kind), ERR_OK);
    assert_int_equal(kind, 1);
    assert_int_equal(sets_find(buffer_slice(&sets), true, 70000, &kind), ERR_OK);
    assert_int_equal(kind, 3);
    assert_int_equal(sets_find(buffer_slice(&sets), true, 500, &kind), ERR_OK);
    assert_int_equal(kind, 0);
    int64_t counts[SETS_KINDS] = {0};
    int64_t all = 0;
    assert_int_equal(sets_count(buffer_slice(&sets), counts, &all), ERR_OK);
    assert_int_equal(all, 6);
    assert_int_equal(counts[1], 4);
    buffer_done(&sets);
}

/* Every bit turned, and every length cut: never taken for the truth. */
TEST(damage_is_noticed)
{
    struct buffer sets;
    make_sample(&sets);
    struct sets_list list = {.numbers = NULL};
    for (size_t bit = 0; bit < sets.size * 8; bit++) {
        sets.data[bit / 8] = (char)(sets.data[bit / 8] ^ (1 << bit % 8));
        assert_int_equal(sets_read(buffer_slice(&sets), &list), ERR_CORRUPT);
        int64_t deltas[SETS_KINDS] = {0};
        struct buffer to;
        buffer_init(&to, 1000);
        assert_int_equal(sets_merge(buffer_slice(&sets), NULL, 0, &to, deltas), ERR_CORRUPT);
        assert_int_equal(to.size, 0);
        buffer_done(&to);
        sets.data[bit / 8] = (char)(sets.data[bit / 8] ^ (1 << bit % 8));
    }
    for (size_t size = 1; size < sets.size; size++)
        assert_int_equal(sets_read((struct slice){sets.data, size}, &list), ERR_CORRUPT);
    sets_list_done(&list);
    buffer_done(&sets);
}

RUN(cmocka_unit_test(sets_hold_what_the_touches_say), cmocka_unit_test(nobody_is_no_bytes),
    cmocka_unit_test(a_user_is_found_with_the_kind_held), cmocka_unit_test(damage_is_noticed))
