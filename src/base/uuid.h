/* uuid.h - a UUID between its text and its 16 bytes, and new ones.
 *
 * Only the canonical text counts, 8-4-4-4-12 digits in lower case, so that text
 * and bytes stand for one another exactly. */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define UUID_BYTES      16u
#define UUID_TEXT_BYTES 36u

/* False, with `to` in any state, when `text` is anything else. */
bool uuid_parse(struct slice text, unsigned char to[UUID_BYTES]);

/* A UUIDv7: sorts by time, then by the low 12 bits of `order`, and the rest is chance. */
void uuid_make7(unsigned char to[UUID_BYTES], int64_t time_ms, uint32_t order, uint64_t random);

/* Writes the UUID_TEXT_BYTES of text; no closing zero. */
void uuid_format(const unsigned char from[UUID_BYTES], char *to);

#endif
