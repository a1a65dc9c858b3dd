#include "flow/check.h"

#include <inttypes.h>

#include "core/key.h"

static enum err check_size(const char *what, struct slice bytes, size_t max, struct error *error)
{
    if (bytes.size <= max)
        return ERR_OK;
    return error_set(error, ERR_TOO_LARGE, "%s of %zu bytes: more than %zu", what, bytes.size, max);
}

enum err check_id(struct slice id, struct error *error)
{
    if (id.size == 0)
        return error_set(error, ERR_INVALID, "the id is empty");
    return check_size("an id", id, LIMIT_ID_BYTES, error);
}

enum err check_counter(const struct kinds *kinds, struct slice id, struct error *error)
{
    struct slice item = id;
    uint8_t kind;
    kinds_split(kinds, id, &item, &kind);
    return check_id(item, error);
}

enum err check_user(struct slice user, struct error *error)
{
    if (user.size == 0)
        return error_set(error, ERR_INVALID, "the user is empty");
    return check_size("a user", user, LIMIT_USER_BYTES, error);
}

enum err check_key(struct slice key, struct error *error)
{
    return key.data ? key_check(key, error) : ERR_OK;
}

enum err check_region(struct slice region, struct error *error)
{
    return check_size("a region", region, LIMIT_REGION_BYTES, error);
}

enum err check_pattern(struct slice pattern, struct error *error)
{
    return check_size("a pattern", pattern, LIMIT_PATTERN_BYTES, error);
}

enum err check_time(int64_t time_ms, struct error *error)
{
    if (time_ms >= 0 && time_ms <= LIMIT_TIME_MS)
        return ERR_OK;
    return error_set(error, ERR_INVALID,
                     "a time is 0 to %" PRId64
                     ", in milliseconds: 1970 to the end of the year 9999",
                     LIMIT_TIME_MS);
}
