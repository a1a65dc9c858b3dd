/* key.h - idempotency keys: which ones a client may send, the keys of the lines of a batch, and
 * the hash that is kept of a key and of the id that it counts within.
 *
 * All of it is the same in every process and for ever, since log and store keep it. */
#ifndef CORE_KEY_H
#define CORE_KEY_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/slice.h"
#include "core/limits.h"

/* The first byte of keys that the server derives. No client may send such a key, so a derived one
 * is never equal to it. */
#define KEY_DERIVED '\x01'

/* The rule for keys that clients send, of all protocols: 1 to LIMIT_KEY_BYTES bytes, the first of
 * them not KEY_DERIVED. ERR_INVALID or ERR_TOO_LARGE with a text. */
enum err key_check(struct slice key, struct error *error);

/* The keys of the lines of a batch that has a key itself, in a space of their own:
 *
 *   01  hash of the batch's key, 32 hexadecimal digits  :  number of the line
 *
 * Short, however long the batch's key is, and without any text of it. */
#define KEY_LINE_PREFIX_BYTES (1u + 32u + 1u)
#define KEY_LINE_BYTES_MAX    (KEY_LINE_PREFIX_BYTES + 20u)

void key_line_prefix(struct slice batch_key, char to[KEY_LINE_PREFIX_BYTES]);

/* Writes the key of a line into `to`, of KEY_LINE_BYTES_MAX bytes, and returns it. */
struct slice key_of_line(const char prefix[KEY_LINE_PREFIX_BYTES], uint64_t line, char *to);

/* Two different pairs never make the same bytes: the id's size stands in front. */
static inline struct hash128 key_hash(struct slice id, struct slice key)
{
    char bytes[2 + LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES + LIMIT_KEY_BYTES];
    assert(2 + id.size + key.size <= sizeof(bytes));
    bytes[0] = (char)(id.size & 0xff);
    bytes[1] = (char)(id.size >> 8);
    memcpy(bytes + 2, id.data, id.size);
    memcpy(bytes + 2 + id.size, key.data, key.size);
    return hash128_keyed((struct slice){bytes, 2 + id.size + key.size}, 0);
}

#endif
