#include "core/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

void settings_format(const struct op_create *create, struct buffer *to)
{
    (void)buffer_printf(to, "{\"shards\":%u,\"policy\":\"%s\"", create->shards,
                        policy_name(create->policy));
    if (create->has_floor)
        (void)buffer_printf(to, ",\"floor\":%lld", (long long)create->floor);
    if (create->idle_s)
        (void)buffer_printf(to, ",\"idle_s\":%u", create->idle_s);
    (void)buffer_append(to, "}", 1);
}

/* The text behind "name": up to the next comma or brace, without quotes. */
static bool setting(struct slice text, const char *name, struct slice *ret_value)
{
    char key[24];
    int size = snprintf(key, sizeof(key), "\"%s\":", name);
    const char *at = memmem(text.data, text.size, key, (size_t)size);
    if (!at)
        return false;
    at += size;
    const char *stop = at;
    while (stop < text.data + text.size && *stop != ',' && *stop != '}')
        stop++;
    if (stop - at >= 2 && *at == '"' && stop[-1] == '"') {
        at++;
        stop--;
    }
    *ret_value = (struct slice){at, (size_t)(stop - at)};
    return true;
}

enum err settings_parse(struct slice text, struct op_create *ret_create)
{
    *ret_create = (struct op_create){.shards = 1};
    if (text.size == 0)
        return ERR_OK;
    struct slice value;
    int64_t number;
    if (!setting(text, "shards", &value) || !decimal_parse(value, &number) || number < 1 ||
        number > (int64_t)LIMIT_CELLS)
        return ERR_CORRUPT;
    ret_create->shards = (uint32_t)number;
    if (!setting(text, "policy", &value) || !policy_parse(value, &ret_create->policy))
        return ERR_CORRUPT;
    ret_create->has_floor = setting(text, "floor", &value);
    if (ret_create->has_floor && !decimal_parse(value, &ret_create->floor))
        return ERR_CORRUPT;
    if (setting(text, "idle_s", &value)) {
        if (!decimal_parse(value, &number) || number < 0 || number > UINT32_MAX)
            return ERR_CORRUPT;
        ret_create->idle_s = (uint32_t)number;
    }
    return ERR_OK;
}
