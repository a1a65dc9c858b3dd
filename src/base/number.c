#include "base/number.h"

#include <assert.h>
#include <stdlib.h>

#include <gmp.h>

#include "base/decimal.h"

static_assert(sizeof(long) == sizeof(int64_t), "GMP takes and gives a small value as a long");

struct number_big {
    mpz_t value; /* never fits 64 bits, but for the moment within an operation */
};

/* ---- between small and big ---- */

static struct number_big *big_of(int64_t value)
{
    struct number_big *big = malloc(sizeof(*big));
    if (!big)
        abort();
    mpz_init_set_si(big->value, value);
    return big;
}

static void big_free(struct number_big *big)
{
    if (!big)
        return;
    mpz_clear(big->value);
    free(big);
}

static void make_big(struct number *number)
{
    if (!number->big)
        number->big = big_of(number->small);
}

/* Ends every operation on a big part: a value that fits is small. */
static void settle(struct number *number)
{
    if (!mpz_fits_slong_p(number->big->value))
        return;
    number->small = mpz_get_si(number->big->value);
    big_free(number->big);
    number->big = NULL;
}

void number_done(struct number *number)
{
    assert(number);

    big_free(number->big);
    *number = number_of(0);
}

struct number number_copy(const struct number *number)
{
    assert(number);

    struct number copy = *number;
    if (number->big) {
        copy.big = big_of(0);
        mpz_set(copy.big->value, number->big->value);
    }
    return copy;
}

/* ---- arithmetic ---- */

typedef void combine_fn(mpz_ptr result, mpz_srcptr a, mpz_srcptr b);

/* sum = sum `combine` delta. Both may be the same number: a small one is kept
 * until settle(), a big one GMP lets stand on both sides. */
static void combine_big(struct number *sum, const struct number *delta, combine_fn *combine)
{
    make_big(sum);
    if (delta->big) {
        combine(sum->big->value, sum->big->value, delta->big->value);
    } else {
        struct number_big *big = big_of(delta->small);
        combine(sum->big->value, sum->big->value, big->value);
        big_free(big);
    }
    settle(sum);
}

void number_add_big(struct number *sum, const struct number *delta)
{
    assert(sum && delta);

    combine_big(sum, delta, mpz_add);
}

void number_subtract(struct number *sum, const struct number *delta)
{
    assert(sum && delta);

    int64_t small;
    if (!sum->big && !delta->big && !__builtin_sub_overflow(sum->small, delta->small, &small))
        sum->small = small;
    else
        combine_big(sum, delta, mpz_sub);
}

void number_negate(struct number *number)
{
    assert(number);

    if (!number->big && number->small != INT64_MIN) {
        number->small = -number->small;
        return;
    }
    make_big(number);
    mpz_neg(number->big->value, number->big->value);
    settle(number);
}

int number_compare(const struct number *a, const struct number *b)
{
    assert(a && b);

    /* A big number lies beyond every small one, on the side of its sign. */
    if (a->big && b->big)
        return mpz_cmp(a->big->value, b->big->value);
    if (a->big)
        return mpz_sgn(a->big->value);
    if (b->big)
        return -mpz_sgn(b->big->value);
    return (a->small > b->small) - (a->small < b->small);
}

/* ---- text ---- */

static bool is_decimal(struct slice digits)
{
    if (digits.size == 0 || digits.data[0] == '0')
        return false;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return false;
    }
    return true;
}

enum err number_parse(struct slice text, struct number *ret_number)
{
    assert(ret_number);

    int64_t small;
    if (decimal_parse(text, &small)) {
        *ret_number = number_of(small);
        return ERR_OK;
    }

    if (text.size == 0)
        return ERR_INVALID;
    bool negative = text.data[0] == '-';
    struct slice digits = {text.data + negative, text.size - negative};
    if (!is_decimal(digits))
        return ERR_INVALID;
    if (digits.size > NUMBER_DIGITS_MAX)
        return ERR_TOO_LARGE;

    char closed[1 + NUMBER_DIGITS_MAX + 1];
    memcpy(closed, text.data, text.size);
    closed[text.size] = '\0';

    struct number number = {.big = big_of(0)};
    int failed = mpz_set_str(number.big->value, closed, 10);
    assert(!failed);
    *ret_number = number;
    return ERR_OK;
}

enum err number_format(const struct number *number, struct buffer *to)
{
    assert(number && to);

    if (!number->big) {
        char digits[DECIMAL_SIZE_MAX];
        char *end = decimal_format(digits, number->small);
        return buffer_append(to, digits, (size_t)(end - digits));
    }

    /* GMP wants room for a sign and a closing zero, and may guess a digit too many. */
    enum err err = buffer_reserve(to, mpz_sizeinbase(number->big->value, 10) + 2);
    if (err)
        return err;
    char *digits = to->data + to->size;
    mpz_get_str(digits, 10, number->big->value);
    to->size += strlen(digits);
    return ERR_OK;
}

size_t number_heap_size(const struct number *number)
{
    assert(number);

    if (!number->big)
        return 0;
    return sizeof(*number->big) + (size_t)number->big->value->_mp_alloc * sizeof(mp_limb_t);
}
