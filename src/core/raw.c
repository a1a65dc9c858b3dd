#include "core/raw.h"

#include <string.h>

#include "core/event.h"
#include "core/user.h"

void raw_erase(struct buffer *raw, struct slice user)
{
    struct slice left = buffer_slice(raw);
    struct slice section;
    uint64_t changed;
    bool is_read = true;
    while (raw_next(&left, &section))
        is_read &= !section_erase(raw->data + (section.data - raw->data), section.size, user,
                                  &changed, NULL);
    if (is_read && left.size == 0)
        return; /* what it still says is the id, without which it could not be applied */
    char *at = raw->data;
    char *end = at + raw->size;
    uint32_t number;
    while (!user_is_numeric(user, &number) &&
           (at = memmem(at, (size_t)(end - at), user.data, user.size)) != NULL)
        memset(at, '~', user.size);
}
