#include "base/uuid.h"

#include <endian.h>
#include <stdint.h>

/* Eight digits make a word, the first one in the lowest byte, and are worked on
 * together:
 *
 *   text   xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
 *   word   00000000 1111 1111 2222 222233333333
 */
#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* From values of 0 to 15 to their digits. */
static uint64_t digits_of(uint64_t values)
{
    uint64_t letters = ((values + EACH_BYTE(6)) >> 4) & EACH_BYTE(1);
    return values + EACH_BYTE('0') + letters * ('a' - '0' - 10);
}

/* Whatever is not a digit comes out as the value of some other byte. */
static uint64_t values_of(uint64_t digits)
{
    uint64_t letters = (digits >> 6) & EACH_BYTE(1);
    return ((digits & EACH_BYTE(0x0f)) + letters * 9) & EACH_BYTE(0x0f);
}

static bool parse_word(uint64_t digits, unsigned char to[4])
{
    digits = le64toh(digits);
    uint64_t values = values_of(digits);
    if (digits_of(values) != digits)
        return false;

    uint64_t bytes = (values << 4 | values >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    bytes = (bytes | bytes >> 8) & UINT64_C(0x0000ffff0000ffff);
    uint32_t packed = htole32((uint32_t)(bytes | bytes >> 16));
    memcpy(to, &packed, sizeof(packed));
    return true;
}

static uint64_t format_word(const unsigned char from[4])
{
    uint32_t packed;
    memcpy(&packed, from, sizeof(packed));
    uint64_t bytes = le32toh(packed);
    bytes = (bytes | bytes << 16) & UINT64_C(0x0000ffff0000ffff);
    bytes = (bytes | bytes << 8) & UINT64_C(0x00ff00ff00ff00ff);
    return htole64(digits_of((bytes >> 4 | bytes << 8) & EACH_BYTE(0x0f)));
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

    uint64_t words[4];
    memcpy(words, digits, sizeof(words));
    return parse_word(words[0], to) && parse_word(words[1], to + 4) &&
           parse_word(words[2], to + 8) && parse_word(words[3], to + 12);
}

void uuid_format(const unsigned char from[UUID_BYTES], char *to)
{
    uint64_t words[4];
    for (int i = 0; i < 4; i++)
        words[i] = format_word(from + (size_t)i * 4);

    char digits[32];
    memcpy(digits, words, sizeof(words));
    memcpy(to, digits, 8);
    memcpy(to + 9, digits + 8, 4);
    memcpy(to + 14, digits + 12, 4);
    memcpy(to + 19, digits + 16, 4);
    memcpy(to + 24, digits + 20, 12);
    to[8] = to[13] = to[18] = to[23] = '-';
}
