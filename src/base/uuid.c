#include "base/uuid.h"

/* Sixteen digits make a row, and are worked on together; the compiler has
 * instructions for that on every machine we know.
 *
 *   text   xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
 *   row    00000000 0000 0000 1111 111111111111
 */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pairs of digits are taken as such");

typedef uint8_t row __attribute__((vector_size(16)));
typedef uint16_t pairs __attribute__((vector_size(16)));
typedef uint8_t half __attribute__((vector_size(8)));

/* From values of 0 to 15 to their digits. */
static row digits_of(row values)
{
    row letters = (row)(values > 9); /* all bits of a byte, or none */
    return values + '0' + (letters & ('a' - '0' - 10));
}

/* Whatever is not a digit comes out as the value of some other byte. */
static row values_of(row digits)
{
    row letters = (row)(digits > '9');
    return ((digits & 0x0f) + (letters & 9)) & 0x0f;
}

static bool parse_row(const char *from, unsigned char to[8])
{
    row digits;
    memcpy(&digits, from, sizeof(digits));
    row values = values_of(digits);
    row wrong = digits_of(values) ^ digits;
    uint64_t halves[2];
    memcpy(halves, &wrong, sizeof(halves));
    if ((halves[0] | halves[1]) != 0)
        return false;

    /* The first digit of a pair is its low byte, and the upper half of the value. */
    pairs both = (pairs)values;
    half bytes = __builtin_convertvector((both << 4 | both >> 8) & 0xff, half);
    memcpy(to, &bytes, sizeof(bytes));
    return true;
}

bool uuid_parse(struct slice text, unsigned char to[UUID_BYTES])
{
    if (text.size != UUID_TEXT_BYTES)
        return false;
    const char *data = text.data;
    if (data[8] != '-' || data[13] != '-' || data[18] != '-' || data[23] != '-')
        return false;

    char digits[32];
    memcpy(digits, data, 8);
    memcpy(digits + 8, data + 9, 4);
    memcpy(digits + 12, data + 14, 4);
    memcpy(digits + 16, data + 19, 4);
    memcpy(digits + 20, data + 24, 12);

    return parse_row(digits, to) && parse_row(digits + 16, to + 8);
}

void uuid_format(const unsigned char from[UUID_BYTES], char *to)
{
    for (unsigned i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *to++ = '-';
        *to++ = "0123456789abcdef"[from[i] >> 4];
        *to++ = "0123456789abcdef"[from[i] & 0x0f];
    }
}

void uuid_make7(unsigned char to[UUID_BYTES], int64_t time_ms, uint32_t order, uint64_t random)
{
    uint64_t time = (uint64_t)time_ms;
    for (unsigned i = 0; i < 6; i++)
        to[i] = (unsigned char)(time >> (40 - 8 * i));
    to[6] = (unsigned char)(0x70 | (order >> 8 & 0x0f));
    to[7] = (unsigned char)order;
    memcpy(to + 8, &random, sizeof(random));
    to[8] = (unsigned char)(0x80 | (to[8] & 0x3f));
}
