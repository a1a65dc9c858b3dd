#include "base/number.h"

#include "sim/sim_rng.h"
#include "unit/test.h"

typedef __int128 wide;

static struct number number_from(const char *text)
{
    struct number number;
    assert_int_equal(number_parse(slice_of(text), &number), ERR_OK);
    return number;
}

static void assert_number(const struct number *number, const char *expected)
{
    struct buffer text;
    buffer_init(&text, 4096);
    assert_int_equal(number_format(number, &text), ERR_OK);
    assert_int_equal(buffer_append(&text, "", 1), ERR_OK);
    assert_string_equal(text.data, expected);
    buffer_done(&text);
}

/* The oracle's way to write a number: digit by digit from the end. */
static void assert_equals_wide(const struct number *number, wide value)
{
    bool fits = value >= INT64_MIN && value <= INT64_MAX;
    assert_int_equal(number->big == NULL, fits);
    assert_int_equal(number_heap_size(number) == 0, fits);

    char text[48];
    char *at = text + sizeof(text);
    *--at = '\0';
    unsigned __int128 left = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    do {
        *--at = (char)('0' + (int)(left % 10));
        left /= 10;
    } while (left > 0);
    if (value < 0)
        *--at = '-';
    assert_number(number, at);
}

TEST(a_sum_that_overflows_goes_on_as_a_big_integer_and_comes_back)
{
    struct number sum = number_of(INT64_MAX);
    struct number one = number_of(1);
    number_add(&sum, &one);
    assert_non_null(sum.big);
    assert_number(&sum, "9223372036854775808");

    number_subtract(&sum, &one);
    assert_null(sum.big);
    assert_true(sum.small == INT64_MAX);
}

TEST(a_difference_below_the_range_goes_on_too)
{
    struct number sum = number_of(INT64_MIN);
    struct number one = number_of(1);
    number_subtract(&sum, &one);
    assert_number(&sum, "-9223372036854775809");
    number_add(&sum, &one);
    assert_null(sum.big);
    assert_true(sum.small == INT64_MIN);
}

TEST(the_lowest_small_number_has_a_big_opposite)
{
    struct number number = number_of(INT64_MIN);
    number_negate(&number);
    assert_number(&number, "9223372036854775808");
    number_negate(&number);
    assert_null(number.big);
    assert_true(number.small == INT64_MIN);
}

TEST(a_number_may_be_added_to_and_taken_from_itself)
{
    struct number number = number_of(INT64_MAX);
    number_add(&number, &number);
    assert_number(&number, "18446744073709551614");
    number_add(&number, &number);
    assert_number(&number, "36893488147419103228");
    number_subtract(&number, &number);
    assert_null(number.big);
    assert_int_equal(number.small, 0);
}

TEST(a_copy_lives_on_its_own)
{
    struct number number = number_from("123456789012345678901234567890");
    struct number copy = number_copy(&number);
    struct number one = number_of(1);
    number_add(&number, &one);
    assert_number(&copy, "123456789012345678901234567890");
    number_done(&number);
    assert_int_equal(number.small, 0);
    assert_null(number.big);
    assert_number(&copy, "123456789012345678901234567890");
    number_done(&copy);
}

TEST(there_is_one_way_to_write_a_big_number)
{
    static const struct slice refused[] = {
        {NULL, 0},
        {"-", 1},
        {"-0", 2},
        {"+100000000000000000000", 22},
        {" 100000000000000000000", 22},
        {"100000000000000000000 ", 22},
        {"0100000000000000000000", 22},
        {"-0100000000000000000000", 23},
        {"--100000000000000000000", 23},
        {"10000000000\00000000000", 20},
        {"1000000000000000000000x", 23},
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct number number = number_of(42);
        assert_int_equal(number_parse(refused[i], &number), ERR_INVALID);
        assert_int_equal(number.small, 42);
    }
}

TEST(a_number_is_read_up_to_the_most_digits_and_no_further)
{
    char text[1 + NUMBER_DIGITS_MAX + 1];
    memset(text, '9', sizeof(text));
    text[0] = '-';

    struct number number;
    struct slice longest = {text, 1 + NUMBER_DIGITS_MAX};
    assert_int_equal(number_parse(longest, &number), ERR_OK);
    struct buffer back;
    buffer_init(&back, 4096);
    assert_int_equal(number_format(&number, &back), ERR_OK);
    assert_true(slice_equal(buffer_slice(&back), longest));
    buffer_done(&back);
    number_done(&number);

    struct slice too_long = {text, 1 + NUMBER_DIGITS_MAX + 1};
    assert_int_equal(number_parse(too_long, &number), ERR_TOO_LARGE);
}

TEST(formatting_into_a_full_buffer_is_refused_and_changes_nothing)
{
    struct number number = number_from("123456789012345678901234567890");
    struct number small = number_of(12345);
    struct buffer buffer;
    buffer_init(&buffer, 4);
    assert_int_equal(number_format(&number, &buffer), ERR_TOO_LARGE);
    assert_int_equal(number_format(&small, &buffer), ERR_TOO_LARGE);
    assert_int_equal(buffer.size, 0);
    buffer_done(&buffer);
    number_done(&number);
}

/* Numbers of all sizes, many of them close to where small ends. */
static int64_t random_delta(struct sim_rng *rng)
{
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    if (sim_rng_chance(rng, 300))
        return edges[sim_rng_below(rng, sizeof(edges) / sizeof(edges[0]))];
    int64_t value = (int64_t)(sim_rng_next(rng) >> sim_rng_below(rng, 64));
    return sim_rng_chance(rng, 500) ? value : -(value == INT64_MIN ? 0 : value);
}

TEST(random_arithmetic_agrees_with_128_bits)
{
    struct sim_rng rng = {1};
    struct number numbers[4] = {{0}};
    wide model[4] = {0};
    const wide limit = (wide)1 << 100;

    for (int step = 0; step < 100000; step++) {
        size_t a = sim_rng_below(&rng, 4);
        size_t b = sim_rng_below(&rng, 4);
        switch (sim_rng_below(&rng, 6)) {
        case 0: {
            int64_t value = random_delta(&rng);
            struct number delta = number_of(value);
            number_add(&numbers[a], &delta);
            model[a] += value;
            break;
        }
        case 1: {
            int64_t value = random_delta(&rng);
            struct number delta = number_of(value);
            number_subtract(&numbers[a], &delta);
            model[a] -= value;
            break;
        }
        case 2:
            number_add(&numbers[a], &numbers[b]);
            model[a] += model[b];
            break;
        case 3:
            number_subtract(&numbers[a], &numbers[b]);
            model[a] -= model[b];
            break;
        case 4:
            number_negate(&numbers[a]);
            model[a] = -model[a];
            break;
        default:
            number_done(&numbers[a]);
            numbers[a] = number_copy(&numbers[b]);
            model[a] = a == b ? 0 : model[b];
            break;
        }
        assert_equals_wide(&numbers[a], model[a]);
        int expected = (model[a] > model[b]) - (model[a] < model[b]);
        int order = number_compare(&numbers[a], &numbers[b]);
        assert_int_equal((order > 0) - (order < 0), expected);
        if (model[a] > limit || model[a] < -limit) {
            number_done(&numbers[a]);
            model[a] = 0;
        }
    }
    for (size_t i = 0; i < 4; i++)
        number_done(&numbers[i]);
}

RUN(cmocka_unit_test(a_sum_that_overflows_goes_on_as_a_big_integer_and_comes_back),
    cmocka_unit_test(a_difference_below_the_range_goes_on_too),
    cmocka_unit_test(the_lowest_small_number_has_a_big_opposite),
    cmocka_unit_test(a_number_may_be_added_to_and_taken_from_itself),
    cmocka_unit_test(a_copy_lives_on_its_own),
    cmocka_unit_test(there_is_one_way_to_write_a_big_number),
    cmocka_unit_test(a_number_is_read_up_to_the_most_digits_and_no_further),
    cmocka_unit_test(formatting_into_a_full_buffer_is_refused_and_changes_nothing),
    cmocka_unit_test(random_arithmetic_agrees_with_128_bits))
