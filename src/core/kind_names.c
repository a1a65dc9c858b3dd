#include "core/kind_names.h"

struct slice kind_names_at(const struct kind_names *kinds, unsigned kind)
{
    if (kind == 0 || kind > kinds->count)
        return (struct slice){NULL, 0};
    return (struct slice){kinds->names[kind], kinds->sizes[kind]};
}

unsigned kind_names_find(const struct kind_names *kinds, struct slice name)
{
    if (name.size == 0)
        return 0;
    for (unsigned i = 1; i <= kinds->count; i++) {
        if (slice_equal(name, kind_names_at(kinds, i)))
            return i;
    }
    return SETS_KINDS;
}

bool kind_names_may_add(const struct kind_names *kinds, struct slice name)
{
    if (kinds->count + 1 >= SETS_KINDS || name.size > LIMIT_KIND_BYTES)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        unsigned char byte = (unsigned char)name.data[i];
        if (byte < 0x20 || byte == '"' || byte == '\\')
            return false;
    }
    return true;
}
