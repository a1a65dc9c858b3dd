/* buffer.h - bytes that grow, up to a maximum that is set at birth.
 *
 * A buffer that would pass its maximum refuses and keeps what it has; being too
 * large is an ordinary error, not a crash. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/slice.h"

struct buffer {
    char *data; /* owned */
    size_t size;
    size_t capacity;
    size_t max;
};

void buffer_init(struct buffer *buffer, size_t max_bytes);
void buffer_done(struct buffer *buffer);

/* Makes room for `extra` more bytes behind `size`. ERR_TOO_LARGE past the
 * maximum, ERR_NO_MEMORY when there is none, and then nothing has changed. */
enum err buffer_grow(struct buffer *buffer, size_t extra);

/* The common case of buffer_grow() costs one comparison. */
static inline enum err buffer_reserve(struct buffer *buffer, size_t extra)
{
    if (__builtin_expect(buffer->capacity - buffer->size >= extra, 1))
        return ERR_OK;
    return buffer_grow(buffer, extra);
}

static inline enum err buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    enum err err = buffer_reserve(buffer, size);
    if (err)
        return err;
    if (size > 0)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return ERR_OK;
}

static inline enum err buffer_append_slice(struct buffer *buffer, struct slice slice)
{
    return buffer_append(buffer, slice.data, slice.size);
}

enum err buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Drops the first `size` bytes and moves the rest to the front. */
void buffer_consume(struct buffer *buffer, size_t size);

/* Gives memory back when the buffer is empty and larger than `keep_bytes`. */
void buffer_shrink(struct buffer *buffer, size_t keep_bytes);

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return (struct slice){buffer->data, buffer->size};
}

#endif
