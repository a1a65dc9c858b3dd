#include "sim/sim_names.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DECIMAL_USERS 1000000u

static const char *const kind_names[SIM_KINDS] = {"like", "dislike", "wow"};

struct slice sim_id_name(const struct sim_options *options, unsigned id, uint8_t kind,
                         char to[SIM_NAME_BYTES])
{
    size_t size = (size_t)snprintf(to, SIM_NAME_BYTES, "n%u", id);
    size_t padded = size + (id * 7919u) % options->id_bytes;
    memset(to + size, '.', padded - size);
    size = padded;
    if (kind != 0)
        size += (size_t)snprintf(to + size, SIM_NAME_BYTES - size, "/%s", kind_names[kind - 1]);
    return (struct slice){to, size};
}

/* The number at the front of `text`; UINT_MAX if there is none. */
static unsigned number_at(struct slice text)
{
    unsigned number = 0;
    size_t i = 0;
    for (; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; i++)
        number = number * 10 + (unsigned)(text.data[i] - '0');
    return i > 0 ? number : UINT_MAX;
}

unsigned sim_id_of(struct slice name)
{
    if (name.size < 2 || name.data[0] != 'n')
        return UINT_MAX;
    return number_at((struct slice){name.data + 1, name.size - 1});
}

struct slice sim_user_name(unsigned user, char to[SIM_NAME_BYTES])
{
    const char *prefix = user % 2 == 0 ? "" : "u";
    size_t size = (size_t)snprintf(to, SIM_NAME_BYTES, "%s%u", prefix, user + DECIMAL_USERS);
    return (struct slice){to, size};
}

unsigned sim_user_of(struct slice name)
{
    bool is_word = name.size > 0 && name.data[0] == 'u';
    unsigned number = number_at((struct slice){name.data + is_word, name.size - is_word});
    if (number == UINT_MAX || number < DECIMAL_USERS || is_word != (number % 2 == 1))
        return UINT_MAX;
    return number - DECIMAL_USERS;
}

struct slice sim_key_name(uint32_t key, char to[SIM_NAME_BYTES])
{
    return (struct slice){to, (size_t)snprintf(to, SIM_NAME_BYTES, "key-%u", key)};
}

sim_wide sim_wide_of(struct slice digits)
{
    sim_wide wide = 0;
    bool is_negative = digits.size > 0 && digits.data[0] == '-';
    for (size_t i = is_negative; i < digits.size; i++)
        wide = wide * 10 + (digits.data[i] - '0');
    return is_negative ? -wide : wide;
}

struct number sim_wide_number(sim_wide wide)
{
    if (wide >= INT64_MIN && wide <= INT64_MAX)
        return number_of((int64_t)wide);
    char digits[SIM_DIGITS];
    struct number number;
    enum err err = number_parse(slice_of(sim_digits(wide, digits)), &number);
    assert(err == ERR_OK);
    (void)err;
    return number;
}

sim_wide sim_number_wide(const struct number *number)
{
    if (!number->big)
        return number->small;
    struct buffer digits;
    buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
    number_format(number, &digits);
    sim_wide wide = sim_wide_of(buffer_slice(&digits));
    buffer_done(&digits);
    return wide;
}
