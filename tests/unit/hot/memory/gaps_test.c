#include "hot/memory/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

static struct gaps *gaps_of_one(uint32_t number)
{
    return gaps_new(&number, 1);
}

static void assert_numbers(const struct gaps *gaps, const uint32_t *expected, uint32_t count)
{
    uint32_t page[64];
    assert_in_range(count, 0, 63);
    assert_int_equal(gaps_page(gaps, 0, page, 64), count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(page[i], expected[i]);
}

TEST(the_ends_of_the_range_are_numbers_like_others)
{
    struct gaps *gaps = gaps_of_one(5);
    assert_true(gaps_add(gaps, UINT32_MAX));
    assert_true(gaps_add(gaps, 0));
    assert_false(gaps_add(gaps, 0));
    assert_false(gaps_add(gaps, UINT32_MAX));
    assert_numbers(gaps, (uint32_t[]){0, 5, UINT32_MAX}, 3);
    assert_true(gaps_remove(gaps, 5));
    assert_numbers(gaps, (uint32_t[]){0, UINT32_MAX}, 2); /* the widest gap there is */
    assert_true(gaps_has(gaps, UINT32_MAX));
    assert_false(gaps_has(gaps, UINT32_MAX - 1));
    gaps_free(gaps);
}

TEST(gaps_of_every_width_lie_side_by_side)
{
    /* A byte holds seven bits: the last gap of each width and the first of the next. */
    uint32_t gap_sizes[] = {1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455, 268435456};
    uint32_t numbers[20];
    uint32_t count = 0;
    for (uint32_t number = 0; count < 20; count++) {
        numbers[count] = number;
        number += gap_sizes[(count * 5) % 9];
    }
    struct gaps *gaps = gaps_new(numbers, count);
    assert_numbers(gaps, numbers, count);
    for (uint32_t i = 1; i < count; i++) {
        assert_true(gaps_has(gaps, numbers[i]));
        bool is_next = numbers[i] - 1 == numbers[i - 1];
        assert_int_equal(gaps_has(gaps, numbers[i] - 1), is_next);
    }
    gaps_free(gaps);
}

TEST(the_first_the_last_and_an_inner_number_can_be_removed)
{
    struct gaps *gaps = gaps_new((uint32_t[]){10, 20, 30, 40}, 4);
    assert_true(gaps_remove(gaps, 10));
    assert_numbers(gaps, (uint32_t[]){20, 30, 40}, 3);
    assert_true(gaps_remove(gaps, 40));
    assert_false(gaps_remove(gaps, 40));
    assert_false(gaps_remove(gaps, 25));
    assert_true(gaps_add(gaps, 35)); /* behind the new last one */
    assert_true(gaps_remove(gaps, 30));
    assert_numbers(gaps, (uint32_t[]){20, 35}, 2);
    gaps_free(gaps);
}

TEST(removing_whole_blocks_leaves_the_others)
{
    enum { COUNT = 20000 };
    struct gaps *gaps = gaps_of_one(0);
    for (uint32_t i = 1; i < COUNT; i++)
        assert_true(gaps_add(gaps, i * 3));
    size_t full = gaps_bytes(gaps);

    for (uint32_t i = COUNT - 1; i >= COUNT / 2; i--) /* from the end */
        assert_true(gaps_remove(gaps, i * 3));
    for (uint32_t i = 0; i < COUNT / 4; i++) /* from the beginning */
        assert_true(gaps_remove(gaps, i * 3));
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(gaps_has(gaps, i * 3), i >= COUNT / 4 && i < COUNT / 2);
    assert_true(gaps_bytes(gaps) < full / 2);
    gaps_free(gaps);
}

TEST(numbers_in_order_fill_their_blocks)
{
    struct gaps *gaps = gaps_of_one(0);
    for (uint32_t i = 1; i < 100000; i++)
        assert_true(gaps_add(gaps, i * 64));
    assert_true(gaps_bytes(gaps) < 100000 * 5 / 4);
    gaps_free(gaps);
}

/* The model: a bit for each number of a window; numbers are the window's
 * numbers times a factor, so that gaps of all widths come up. */
#define WINDOW 20000u

static bool model[WINDOW];

static uint32_t next_in_model(uint32_t from)
{
    while (from < WINDOW && !model[from])
        from++;
    return from;
}

static void assert_page_equals_model(const struct gaps *gaps, uint32_t factor, uint32_t from)
{
    uint32_t page[50];
    uint32_t count = gaps_page(gaps, from * factor, page, 50);
    uint32_t number = from;
    for (uint32_t i = 0; i < count; i++, number++) {
        number = next_in_model(number);
        assert_int_equal(page[i], number * factor);
    }
    assert_true(count == 50 || next_in_model(number) == WINDOW);
}

static void run_random(uint32_t seed, uint32_t factor)
{
    struct sim_rng rng = {seed};
    memset(model, 0, sizeof(model));
    model[WINDOW / 2] = true;
    uint32_t count = 1;
    struct gaps *gaps = gaps_of_one(WINDOW / 2 * factor);

    for (int step = 0; step < 40000; step++) {
        /* First it mostly grows, then it mostly shrinks. */
        bool adds = sim_rng_chance(&rng, step < 25000 ? 800 : 200);
        uint32_t i = (uint32_t)sim_rng_below(&rng, WINDOW);
        if (!adds && sim_rng_chance(&rng, 700))
            i = next_in_model(i) % WINDOW;
        if (adds) {
            assert_int_equal(gaps_add(gaps, i * factor), !model[i]);
            count += !model[i];
            model[i] = true;
        } else if (count > 1) {
            assert_int_equal(gaps_remove(gaps, i * factor), model[i]);
            count -= model[i];
            model[i] = false;
        }
        assert_int_equal(gaps_has(gaps, i * factor), model[i]);
        if (step % 100 == 0)
            assert_page_equals_model(gaps, factor, (uint32_t)sim_rng_below(&rng, WINDOW));
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        assert_int_equal(gaps_has(gaps, i * factor), model[i]);
    gaps_free(gaps);
}

TEST(random_adding_and_removing_agrees_with_a_bit_array)
{
    const uint32_t factors[] = {1, 7, 100, 1000, 20000, UINT32_MAX / WINDOW};
    for (uint32_t i = 0; i < 6; i++)
        run_random(i + 1, factors[i]);
}

RUN(cmocka_unit_test(the_ends_of_the_range_are_numbers_like_others),
    cmocka_unit_test(gaps_of_every_width_lie_side_by_side),
    cmocka_unit_test(the_first_the_last_and_an_inner_number_can_be_removed),
    cmocka_unit_test(removing_whole_blocks_leaves_the_others),
    cmocka_unit_test(numbers_in_order_fill_their_blocks),
    cmocka_unit_test(random_adding_and_removing_agrees_with_a_bit_array))
