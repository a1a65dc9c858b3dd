#include "core/kinds.h"

#include <assert.h>

#include "base/message.h"

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           (unsigned char)c > 0x7f;
}

static enum err check_name(const struct kinds *kinds, struct slice name, struct error *error)
{
    char quoted[4 * LIMIT_KIND_BYTES];
    message_quote(quoted, sizeof(quoted), name);
    if (name.size == 0)
        return error_set(error, ERR_INVALID, "a reaction kind has no name");
    if (name.size > LIMIT_KIND_BYTES)
        return error_set(error, ERR_TOO_LARGE, "reaction kind %s: more than %u bytes", quoted,
                         LIMIT_KIND_BYTES);
    for (size_t i = 0; i < name.size; i++) {
        if (!is_name_byte(name.data[i]))
            return error_set(error, ERR_INVALID,
                             "reaction kind %s: only a-z, 0-9, _, - and emoji may stand there",
                             quoted);
    }
    if (kinds_find(kinds, name) != KIND_NONE)
        return error_set(error, ERR_INVALID, "reaction kind %s: stands there twice", quoted);
    if (kinds->count == LIMIT_KINDS)
        return error_set(error, ERR_TOO_LARGE, "more than %u reaction kinds", LIMIT_KINDS);
    return ERR_OK;
}

static void add_name(struct kinds *kinds, struct slice name)
{
    memcpy(kinds->names[kinds->count], name.data, name.size);
    kinds->sizes[kinds->count] = (uint8_t)name.size;
    kinds->ends[(unsigned char)name.data[name.size - 1]] = true;
    kinds->count++;
}

enum err kinds_parse(struct kinds *kinds, struct slice list, struct error *error)
{
    assert(kinds);

    struct kinds parsed = {0};
    bool more = true;
    while (more) {
        const char *comma = list.size > 0 ? memchr(list.data, ',', list.size) : NULL;
        more = comma;
        struct slice name = {list.data, more ? (size_t)(comma - list.data) : list.size};
        enum err err = check_name(&parsed, name, error);
        if (err)
            return err;
        add_name(&parsed, name);
        if (more)
            list = (struct slice){comma + 1, list.size - name.size - 1};
    }
    *kinds = parsed;
    return ERR_OK;
}

uint8_t kinds_find(const struct kinds *kinds, struct slice name)
{
    assert(kinds);

    for (unsigned i = 0; i < kinds->count; i++) {
        if (name.size == kinds->sizes[i] && memcmp(name.data, kinds->names[i], name.size) == 0)
            return (uint8_t)(i + 1);
    }
    return KIND_NONE;
}

bool kinds_split_ending(const struct kinds *kinds, struct slice id, struct slice *ret_item,
                        uint8_t *ret_kind)
{
    assert(kinds && ret_item && ret_kind);

    for (unsigned i = 0; i < kinds->count; i++) {
        size_t size = kinds->sizes[i];
        if (id.size < size + 2)
            continue;
        const char *slash = id.data + id.size - size - 1;
        if (*slash == '/' && memcmp(slash + 1, kinds->names[i], size) == 0) {
            *ret_item = (struct slice){id.data, (size_t)(slash - id.data)};
            *ret_kind = (uint8_t)(i + 1);
            return true;
        }
    }
    return false;
}
