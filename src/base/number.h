/* number.h - an integer of any size.
 *
 * Nearly every value fits 64 bits, so that is the fast path: `big` is NULL and
 * `small` is the value. A sum that would overflow moves to a big integer (GMP),
 * and back again as soon as it fits. A number owns its big part. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#define NUMBER_DIGITS_MAX 1000u /* what we are willing to read */

struct number_big;

struct number {
    int64_t small;          /* meaningless while big is set */
    struct number_big *big; /* owned; NULL while the value fits 64 bits */
};

static inline struct number number_of(int64_t value)
{
    return (struct number){.small = value, .big = NULL};
}

/* Frees the big part; the number is 0 afterwards. */
void number_done(struct number *number);

struct number number_copy(const struct number *number);

/* The slow half of number_add(): at least one side is big or the sum is. */
void number_add_big(struct number *sum, const struct number *delta);

static inline void number_add(struct number *sum, const struct number *delta)
{
    int64_t small;
    if (__builtin_expect(!sum->big && !delta->big, 1) &&
        !__builtin_add_overflow(sum->small, delta->small, &small)) {
        sum->small = small;
        return;
    }
    number_add_big(sum, delta);
}

/* sum -= delta */
void number_subtract(struct number *sum, const struct number *delta);

void number_negate(struct number *number);

/* Below, equal or above zero, as a is below, equal to or above b. */
int number_compare(const struct number *a, const struct number *b);

/* Reads `-?[1-9][0-9]*|0`. ERR_INVALID when it is anything else, ERR_TOO_LARGE
 * past NUMBER_DIGITS_MAX digits. */
enum err number_parse(struct slice text, struct number *ret_number);

/* Appends the decimal digits. */
enum err number_format(const struct number *number, struct buffer *to);

/* Bytes on the heap beyond the struct, for memory accounts. */
size_t number_heap_size(const struct number *number);

#endif
