/* raw.h - a unit's events as they are kept for a retry: sections, one behind the other.
 *
 *   raw = (size(varint) section)*
 *
 * A unit's events come from several sections of the log; here each has one of its own
 * (core/event.h), with its origin, sequence and time. Pure. */
#ifndef CORE_RAW_H
#define CORE_RAW_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "base/varint.h"

/* Appends a section that comes in two pieces. */
static inline enum err raw_put(struct buffer *to, struct slice header, struct slice body)
{
    char size[VARINT_SIZE_MAX];
    char *end = varint_put(size, header.size + body.size);
    enum err err = buffer_append(to, size, (size_t)(end - size));
    if (!err)
        err = buffer_append_slice(to, header);
    return err ? err : buffer_append_slice(to, body);
}

/* Takes the next section off the front of *raw. False: that was all, or what is left makes no
 * sense, and then *raw is not empty. */
static inline bool raw_next(struct slice *raw, struct slice *ret_section)
{
    uint64_t size;
    const char *end = raw->data + raw->size;
    const char *at = raw->size > 0 ? varint_get(raw->data, end, &size) : NULL;
    if (!at || size > (uint64_t)(end - at))
        return false;
    *ret_section = (struct slice){at, (size_t)size};
    *raw = (struct slice){at + size, (size_t)(end - at) - (size_t)size};
    return true;
}

/* Takes a user out, in place; ids stay. What cannot be read has no users, only bytes: those that
 * look like the name are overwritten. False: nothing of it names the user. */
bool raw_erase(struct buffer *raw, struct slice user);

#endif
