#include "base/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CAPACITY_MIN 64u

void buffer_init(struct buffer *buffer, size_t max_bytes)
{
    assert(buffer);
    assert(max_bytes < SIZE_MAX / 2);

    *buffer = (struct buffer){.max = max_bytes};
}

void buffer_done(struct buffer *buffer)
{
    assert(buffer);

    free(buffer->data);
    *buffer = (struct buffer){.max = buffer->max};
}

/* Doubling keeps the cost of a byte constant; the last step stops at the maximum. */
static size_t next_capacity(const struct buffer *buffer, size_t wanted)
{
    size_t capacity = buffer->capacity < CAPACITY_MIN ? CAPACITY_MIN : buffer->capacity * 2;
    if (capacity < wanted)
        capacity = wanted;
    return capacity < buffer->max ? capacity : buffer->max;
}

enum err buffer_grow(struct buffer *buffer, size_t extra)
{
    assert(buffer);

    if (extra > buffer->max - buffer->size)
        return ERR_TOO_LARGE;
    size_t wanted = buffer->size + extra;
    if (wanted <= buffer->capacity)
        return ERR_OK;

    /* A byte beyond the capacity takes the closing zero of buffer_printf(). */
    size_t capacity = next_capacity(buffer, wanted);
    char *data = realloc(buffer->data, capacity + 1);
    if (!data)
        return ERR_NO_MEMORY;

    buffer->data = data;
    buffer->capacity = capacity;
    return ERR_OK;
}

/* Formats behind what is there, as far as the room goes; the size of the whole. */
__attribute__((format(printf, 2, 0))) static size_t format_behind(struct buffer *buffer,
                                                                  const char *format, va_list args)
{
    char *end = buffer->data ? buffer->data + buffer->size : NULL;
    size_t room = buffer->data ? buffer->capacity - buffer->size + 1 : 0;
    int size = vsnprintf(end, room, format, args);
    assert(size >= 0);
    return (size_t)size;
}

enum err buffer_printf(struct buffer *buffer, const char *format, ...)
{
    assert(buffer);

    va_list args;
    va_start(args, format);
    size_t size = format_behind(buffer, format, args);
    va_end(args);

    if (size > buffer->capacity - buffer->size) {
        enum err err = buffer_grow(buffer, size);
        if (err)
            return err;
        va_start(args, format);
        format_behind(buffer, format, args);
        va_end(args);
    }
    buffer->size += size;
    return ERR_OK;
}

void buffer_consume(struct buffer *buffer, size_t size)
{
    assert(buffer);
    assert(size <= buffer->size);

    if (size == 0)
        return;
    buffer->size -= size;
    memmove(buffer->data, buffer->data + size, buffer->size);
}

void buffer_shrink(struct buffer *buffer, size_t keep_bytes)
{
    assert(buffer);

    if (buffer->size == 0 && buffer->capacity > keep_bytes)
        buffer_done(buffer);
}
