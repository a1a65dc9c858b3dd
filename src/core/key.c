#include "core/key.h"

#include <stdio.h>

#include "base/decimal.h"

enum err key_check(struct slice key, struct error *error)
{
    /* A client that sends an empty key has lost it: the write would count each time. */
    if (key.size == 0)
        return error_set(error, ERR_INVALID, "the idempotency key is empty");
    if (key.size > LIMIT_KEY_BYTES)
        return error_set(error, ERR_TOO_LARGE, "an idempotency key of %zu bytes: more than %u",
                         key.size, LIMIT_KEY_BYTES);
    if (key.data[0] == KEY_DERIVED)
        return error_set(error, ERR_INVALID, "an idempotency key does not begin with byte 01");
    return ERR_OK;
}

void key_line_prefix(struct slice batch_key, char to[KEY_LINE_PREFIX_BYTES])
{
    struct hash128 hash = hash128_keyed(batch_key, 0);
    char text[KEY_LINE_PREFIX_BYTES + 1];
    (void)snprintf(text, sizeof(text), "%c%016llx%016llx:", KEY_DERIVED,
                   (unsigned long long)hash.high, (unsigned long long)hash.low);
    memcpy(to, text, KEY_LINE_PREFIX_BYTES);
}

struct slice key_of_line(const char prefix[KEY_LINE_PREFIX_BYTES], uint64_t line, char *to)
{
    memcpy(to, prefix, KEY_LINE_PREFIX_BYTES);
    const char *end = decimal_format_unsigned(to + KEY_LINE_PREFIX_BYTES, line);
    return (struct slice){to, (size_t)(end - to)};
}
