/* key.h - what is kept of an idempotency key: a hash of it and of the id that it counts
 * within. The same in every process and for ever, since the store keeps it. */
#ifndef CORE_KEY_H
#define CORE_KEY_H

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/slice.h"
#include "core/limits.h"

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
