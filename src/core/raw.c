#include "core/raw.h"

#include <string.h>

#include "core/event.h"
#include "core/user.h"

/* Overwrites what looks like the name, in either case. */
static bool blank_bytes(struct buffer *raw, struct slice user)
{
    bool is_changed = false;
    for (size_t at = 0; at + user.size <= raw->size; at++) {
        if (!slice_equal_nocase((struct slice){raw->data + at, user.size}, user))
            continue;
        memset(raw->data + at, '~', user.size);
        is_changed = true;
    }
    return is_changed;
}

bool raw_erase(struct buffer *raw, struct slice user)
{
    struct slice left = buffer_slice(raw);
    struct slice section;
    uint64_t changed = 0;
    bool is_read = true;
    while (raw_next(&left, &section)) {
        uint64_t events = 0;
        is_read &= !section_erase(raw->data + (section.data - raw->data), section.size, user,
                                  &events, NULL);
        changed += events;
    }
    if (is_read && left.size == 0)
        return changed > 0; /* what it still says is the id, without which it is nothing */
    uint32_t number;
    return (!user_is_numeric(user, &number) && blank_bytes(raw, user)) || changed > 0;
}
