#include "base/decimal.h"

#include <endian.h>
#include <string.h>

/* ---- reading ---- */

/* Are all eight bytes digits? A digit has a high nibble of 3, and still has it
 * after 6 is added. */
static bool are_eight_digits(uint64_t bytes)
{
    uint64_t high = UINT64_C(0xf0f0f0f0f0f0f0f0);
    return ((bytes & high) | (((bytes + UINT64_C(0x0606060606060606)) & high) >> 4)) ==
           UINT64_C(0x3333333333333333);
}

/* Eight digits at once, the first one in the lowest byte: neighbours are joined
 * to numbers of two digits, those to four, those to eight. */
static uint64_t eight_digits(uint64_t bytes)
{
    bytes = (bytes & UINT64_C(0x0f0f0f0f0f0f0f0f)) * (1 + (10 << 8)) >> 8;
    bytes = (bytes & UINT64_C(0x00ff00ff00ff00ff)) * (1 + (100 << 16)) >> 16;
    return (bytes & UINT64_C(0x0000ffff0000ffff)) * (1 + (UINT64_C(10000) << 32)) >> 32;
}

/* Reads exactly `count` digits, at most 19, which always fit. */
static bool read_digits(const char *digits, size_t count, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (; count >= 8; count -= 8, digits += 8) {
        uint64_t bytes;
        memcpy(&bytes, digits, sizeof(bytes));
        bytes = le64toh(bytes);
        if (!are_eight_digits(bytes))
            return false;
        value = value * 100000000 + eight_digits(bytes);
    }
    for (; count > 0; count--, digits++) {
        unsigned digit = (unsigned)(unsigned char)*digits - '0';
        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

bool decimal_parse_unsigned(struct slice text, uint64_t *ret_value)
{
    if (text.size == 0 || text.size > DECIMAL_SIZE_MAX)
        return false;
    if (text.data[0] == '0' && text.size > 1)
        return false;
    if (text.size < DECIMAL_SIZE_MAX)
        return read_digits(text.data, text.size, ret_value);

    uint64_t front, last, value;
    if (!read_digits(text.data, DECIMAL_SIZE_MAX - 1, &front) ||
        !read_digits(text.data + DECIMAL_SIZE_MAX - 1, 1, &last))
        return false;
    if (__builtin_mul_overflow(front, 10, &value) || __builtin_add_overflow(value, last, &value))
        return false;
    *ret_value = value;
    return true;
}

bool decimal_parse(struct slice text, int64_t *ret_value)
{
    bool negative = text.size > 0 && text.data[0] == '-';
    if (negative)
        text = (struct slice){text.data + 1, text.size - 1};

    uint64_t magnitude;
    if (!decimal_parse_unsigned(text, &magnitude))
        return false;
    if (negative && magnitude == 0)
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return false;

    *ret_value = (int64_t)(negative ? 0 - magnitude : magnitude);
    return true;
}

/* ---- writing ---- */

static const char digit_pairs[200] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546"
    "4748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293"
    "949596979899";

static unsigned count_digits(uint64_t value)
{
    static const uint64_t powers[] = {
        UINT64_C(0),
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    /* bits * log10(2) is right or one too small; 1233/4096 is log10(2). */
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    unsigned guess = bits * 1233 >> 12;
    return guess + (value >= powers[guess]);
}

char *decimal_format_unsigned(char *to, uint64_t value)
{
    char *end = to + count_digits(value);
    char *at = end;
    while (value >= 100) {
        at -= 2;
        memcpy(at, &digit_pairs[value % 100 * 2], 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(at - 2, &digit_pairs[value * 2], 2);
    else
        at[-1] = (char)('0' + value);
    return end;
}

char *decimal_format(char *to, int64_t value)
{
    uint64_t magnitude = (uint64_t)value;
    if (value < 0) {
        *to++ = '-';
        magnitude = 0 - magnitude;
    }
    return decimal_format_unsigned(to, magnitude);
}
