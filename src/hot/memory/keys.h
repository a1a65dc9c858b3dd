/* keys.h - which writes were answered already: idempotency keys.
 *
 * A key counts within its counter or item. What is kept is a 128-bit hash of
 * both, a fingerprint of the write's content, and the first answer, until the
 * key is older than the time to keep it.
 *
 * A key's stripe is locked from the look-up until the answer is put in, so that
 * looking and doing are one step even when two workers bring the same key at
 * once. The lock is a leaf: whoever holds it takes no other. */
#ifndef HOT_MEMORY_KEYS_H
#define HOT_MEMORY_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/number.h"
#include "base/slice.h"
#include "hot/memory/saves.h"

struct keys;

struct key_answer {
    uint64_t fingerprint;
    bool changed;
    uint8_t held;        /* a kind's number */
    uint8_t generation;  /* of the event that carries it, see saves.h; 0 = the store has it */
    struct number value; /* big ones: keys_put() takes a copy, keys_open() gives a borrowed one */
};

struct keys *keys_new(uint64_t hash_key, uint64_t kept_ms);
void keys_free(struct keys *keys);

/* A key under lock. */
struct key_slot {
    uint32_t stripe;
    uint64_t low;
    uint64_t high;
    uint64_t place; /* in the table */
};

/* Locks the key's stripe and looks it up. The answer, if there is one that is
 * not older than the time to keep, else NULL; valid until keys_close(). */
const struct key_answer *keys_open(struct keys *keys, struct slice id, struct slice key,
                                   int64_t now_ms, struct key_slot *ret_slot);

/* The same by the key's hash, core/key.h. */
const struct key_answer *keys_open_hashed(struct keys *keys, uint64_t low, uint64_t high,
                                          int64_t now_ms, struct key_slot *ret_slot);

/* Remembers the answer of an open key that had none, and forgets one or two that
 * are too old. */
void keys_put(struct keys *keys, const struct key_slot *slot, const struct key_answer *answer,
              int64_t now_ms);

/* A key that was put in before, in another process; nothing if it is here already. It
 * goes to the end of the queue, and so may be kept for longer than its time. False: it is
 * too old to count. */
bool keys_load(struct keys *keys, uint64_t low, uint64_t high, const struct key_answer *answer,
               int64_t put_ms, int64_t now_ms);

/* Lets the oldest ones go that the store has, at most `limit` of each stripe, and tells
 * of each before it goes, with a lock held. Returns how many. */
typedef void keys_gone_fn(void *arg, uint64_t low, uint64_t high);
uint32_t keys_shed(struct keys *keys, const struct saves *saves, uint32_t limit, keys_gone_fn *gone,
                   void *arg);

void keys_close(struct keys *keys, const struct key_slot *slot);

/* Forgets what is too old: at most `limit` keys of each stripe in one call.
 * Wall-clock time that jumps back only keeps keys for longer. */
void keys_forget(struct keys *keys, int64_t now_ms, uint32_t limit);

uint64_t keys_count(struct keys *keys);
size_t keys_bytes(struct keys *keys);

#endif
