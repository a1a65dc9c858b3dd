/* slice.h - a stretch of bytes that belongs to somebody else.
 *
 * Strings from outside are slices from the parser on: they may hold any byte,
 * zero included, and end where their size says. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *data; /* borrowed; may be NULL when size is 0 */
    size_t size;
};

/* For printf: printf("%.*s", SLICE_ARGS(name)). */
#define SLICE_ARGS(slice) (int)(slice).size, (slice).data

/* A slice of a string literal. */
#define SLICE(literal) ((struct slice){"" literal, sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Equal but for the case of ASCII letters. */
static inline bool slice_equal_nocase(struct slice a, struct slice b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++) {
        char x = a.data[i];
        char y = b.data[i];
        if (x >= 'A' && x <= 'Z')
            x = (char)(x | 0x20);
        if (y >= 'A' && y <= 'Z')
            y = (char)(y | 0x20);
        if (x != y)
            return false;
    }
    return true;
}

#endif
