#include "hot/memory/keys.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "core/key.h"
#include "hot/memory/heap.h"
#include "hot/memory/table.h"

#define STRIPES       64u
#define FORGET_AT_PUT 2u /* so that a log of years does not come back with all its keys */

/* An entry is in the table until its time is over and its key comes again; it
 * is in the queue until its turn comes. Never zero, as the heap demands. */
enum entry_state { ENTRY_IN_TABLE = 1, ENTRY_IN_QUEUE };

/* What is remembered of a key: 48 bytes of the stripe's heap. */
struct key_entry {
    uint8_t state; /* enum entry_state */
    bool changed : 1;
    bool is_big : 1;
    uint8_t held;
    uint8_t generation;
    uint32_t next; /* the one put in behind it, HEAP_NONE for the newest */
    int64_t put_ms;
    uint64_t low;
    uint64_t high;
    uint64_t fingerprint;
    union {
        int64_t small;
        struct number_big *big; /* owned */
    };
};

static_assert(sizeof(struct key_entry) == 48, "an entry has no gaps");

/* The entries are a queue in the order in which they were put in, which is that
 * of time unless the wall clock jumps back. A small jump makes them wait for one
 * another a little. After a large one, entries of a future that is far away would
 * block the queue until it comes; so those up to `capped` count as put in at
 * `cap_ms`. */
struct stripe {
    struct lock lock;
    struct table table; /* by place_of() */
    uint32_t oldest;
    uint32_t newest;
    int64_t latest_ms;
    uint32_t capped; /* HEAP_NONE: no entry is */
    int64_t cap_ms;
    size_t big_bytes;
    struct key_answer answer; /* what keys_open() lends */
    struct heap heap;
};

struct keys {
    uint64_t hash_key;
    uint64_t kept_ms;
    struct stripe stripes[STRIPES];
};

/* ---- an entry and its value ---- */

static struct number entry_value(const struct key_entry *entry)
{
    if (entry->is_big)
        return (struct number){.big = entry->big};
    return number_of(entry->small);
}

static void keep_value(struct stripe *stripe, struct key_entry *entry, const struct number *value)
{
    struct number copy = number_copy(value);
    entry->is_big = copy.big != NULL;
    if (entry->is_big)
        entry->big = copy.big;
    else
        entry->small = copy.small;
    stripe->big_bytes += number_heap_size(&copy);
}

static void drop_value(struct stripe *stripe, struct key_entry *entry)
{
    struct number value = entry_value(entry);
    stripe->big_bytes -= number_heap_size(&value);
    number_done(&value);
    entry->is_big = false;
    entry->small = 0;
}

static bool is_too_old(const struct keys *keys, int64_t put_ms, int64_t now_ms)
{
    return now_ms > put_ms && (uint64_t)now_ms - (uint64_t)put_ms > keys->kept_ms;
}

/* A key's hash is the same in every process, so that anybody could pick keys whose
 * slots are close to one another: the table goes by one that nobody knows. */
static uint64_t place_of(const struct keys *keys, uint64_t low, uint64_t high)
{
    uint64_t halves[] = {low, high};
    return hash_keyed((struct slice){(const char *)halves, sizeof(halves)}, keys->hash_key);
}

/* ---- a stripe, under its lock ---- */

static struct key_entry *entry_at(const struct stripe *stripe, uint32_t ref)
{
    return heap_at(&stripe->heap, ref);
}

static uint32_t find(const struct stripe *stripe, uint64_t place, uint64_t low, uint64_t high)
{
    uint32_t at = TABLE_START;
    for (uint32_t ref; (ref = table_find(&stripe->table, place, &at)) != 0;) {
        const struct key_entry *entry = entry_at(stripe, ref);
        if (entry->low == low && entry->high == high)
            return ref;
    }
    return HEAP_NONE;
}

/* The key may be used anew; its entry goes when its turn comes in the queue. */
static void take_from_table(const struct keys *keys, struct stripe *stripe, uint32_t ref)
{
    struct key_entry *entry = entry_at(stripe, ref);
    table_remove(&stripe->table, place_of(keys, entry->low, entry->high), ref);
    drop_value(stripe, entry);
    entry->state = ENTRY_IN_QUEUE;
}

static void append(struct stripe *stripe, uint32_t ref)
{
    entry_at(stripe, ref)->next = HEAP_NONE;
    if (stripe->newest == HEAP_NONE)
        stripe->oldest = ref;
    else
        entry_at(stripe, stripe->newest)->next = ref;
    stripe->newest = ref;
}

static void drop_oldest(const struct keys *keys, struct stripe *stripe)
{
    uint32_t ref = stripe->oldest;
    struct key_entry *entry = entry_at(stripe, ref);
    if (entry->state == ENTRY_IN_TABLE)
        take_from_table(keys, stripe, ref);

    stripe->oldest = entry->next;
    if (stripe->oldest == HEAP_NONE)
        stripe->newest = HEAP_NONE;
    if (stripe->capped == ref)
        stripe->capped = HEAP_NONE;
    heap_give(&stripe->heap, ref, sizeof(*entry));
}

static void notice_jump_back(const struct keys *keys, struct stripe *stripe, int64_t now_ms)
{
    int64_t cap_ms = now_ms + (int64_t)keys->kept_ms;
    if (stripe->latest_ms <= cap_ms)
        return;
    stripe->capped = stripe->newest;
    stripe->cap_ms = cap_ms;
    stripe->latest_ms = cap_ms;
}

static bool oldest_is_over(const struct keys *keys, const struct stripe *stripe, int64_t now_ms)
{
    const struct key_entry *entry = entry_at(stripe, stripe->oldest);
    int64_t put_ms = entry->put_ms;
    if (stripe->capped != HEAP_NONE && put_ms > stripe->cap_ms)
        put_ms = stripe->cap_ms;
    return entry->state == ENTRY_IN_QUEUE || is_too_old(keys, put_ms, now_ms);
}

static void forget(const struct keys *keys, struct stripe *stripe, int64_t now_ms, uint32_t limit)
{
    notice_jump_back(keys, stripe, now_ms);
    for (; limit > 0 && stripe->oldest != HEAP_NONE; limit--) {
        if (!oldest_is_over(keys, stripe, now_ms))
            break;
        drop_oldest(keys, stripe);
    }
}

/* ---- keys ---- */

struct keys *keys_new(uint64_t hash_key, uint64_t kept_ms)
{
    assert(kept_ms < INT64_MAX / 2);

    struct keys *keys = memory_take_zeroed(sizeof(*keys));
    keys->hash_key = hash_key;
    keys->kept_ms = kept_ms;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &keys->stripes[i];
        lock_init(&stripe->lock);
        table_init(&stripe->table, i);
        heap_init(&stripe->heap);
        stripe->latest_ms = INT64_MIN;
    }
    return keys;
}

void keys_free(struct keys *keys)
{
    if (!keys)
        return;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &keys->stripes[i];
        while (stripe->oldest != HEAP_NONE)
            drop_oldest(keys, stripe);
        heap_done(&stripe->heap);
        table_done(&stripe->table);
        lock_done(&stripe->lock);
    }
    free(keys);
}

const struct key_answer *keys_open(struct keys *keys, struct slice id, struct slice key,
                                   int64_t now_ms, struct key_slot *ret_slot)
{
    struct hash128 hash = key_hash(id, key);
    return keys_open_hashed(keys, hash.low, hash.high, now_ms, ret_slot);
}

const struct key_answer *keys_open_hashed(struct keys *keys, uint64_t low, uint64_t high,
                                          int64_t now_ms, struct key_slot *ret_slot)
{
    assert(keys && ret_slot);

    uint64_t place = place_of(keys, low, high);
    uint32_t number = (uint32_t)place % STRIPES;
    *ret_slot = (struct key_slot){.stripe = number, .low = low, .high = high, .place = place};

    struct stripe *stripe = &keys->stripes[number];
    lock_take(&stripe->lock);
    uint32_t ref = find(stripe, place, low, high);
    if (ref == HEAP_NONE)
        return NULL;
    const struct key_entry *entry = entry_at(stripe, ref);
    if (is_too_old(keys, entry->put_ms, now_ms)) {
        take_from_table(keys, stripe, ref);
        return NULL;
    }
    stripe->answer = (struct key_answer){.fingerprint = entry->fingerprint,
                                         .changed = entry->changed,
                                         .held = entry->held,
                                         .value = entry_value(entry)};
    return &stripe->answer;
}

static void put(struct stripe *stripe, const struct key_slot *slot, const struct key_answer *answer,
                int64_t put_ms)
{
    uint32_t ref = heap_take(&stripe->heap, sizeof(struct key_entry));
    struct key_entry *entry = entry_at(stripe, ref);
    *entry = (struct key_entry){.state = ENTRY_IN_TABLE,
                                .changed = answer->changed,
                                .held = answer->held,
                                .generation = answer->generation,
                                .put_ms = put_ms,
                                .low = slot->low,
                                .high = slot->high,
                                .fingerprint = answer->fingerprint};
    keep_value(stripe, entry, &answer->value);
    table_add(&stripe->table, slot->place, ref);
    append(stripe, ref);
    if (stripe->latest_ms < put_ms)
        stripe->latest_ms = put_ms;
}

void keys_put(struct keys *keys, const struct key_slot *slot, const struct key_answer *answer,
              int64_t now_ms)
{
    assert(keys && slot && answer);

    struct stripe *stripe = &keys->stripes[slot->stripe];
    assert(find(stripe, slot->place, slot->low, slot->high) == HEAP_NONE);
    forget(keys, stripe, now_ms, FORGET_AT_PUT);

    put(stripe, slot, answer, now_ms);
}

bool keys_load(struct keys *keys, uint64_t low, uint64_t high, const struct key_answer *answer,
               int64_t put_ms, int64_t now_ms)
{
    if (is_too_old(keys, put_ms, now_ms))
        return false;
    struct key_slot slot;
    if (!keys_open_hashed(keys, low, high, put_ms, &slot))
        put(&keys->stripes[slot.stripe], &slot, answer, put_ms);
    keys_close(keys, &slot);
    return true;
}

static uint32_t shed(const struct keys *keys, struct stripe *stripe, const struct saves *saves,
                     uint32_t limit, keys_gone_fn *gone, void *arg)
{
    uint32_t gone_count = 0;
    for (; gone_count < limit && stripe->oldest != HEAP_NONE; gone_count++) {
        const struct key_entry *entry = entry_at(stripe, stripe->oldest);
        if (!saves_has(saves, entry->generation))
            break;
        if (entry->state == ENTRY_IN_TABLE)
            gone(arg, entry->low, entry->high);
        drop_oldest(keys, stripe);
    }
    table_fit(&stripe->table);
    return gone_count;
}

uint32_t keys_shed(struct keys *keys, const struct saves *saves, uint32_t limit, keys_gone_fn *gone,
                   void *arg)
{
    assert(keys && saves && gone);

    uint32_t gone_count = 0;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &keys->stripes[i];
        lock_take(&stripe->lock);
        gone_count += shed(keys, stripe, saves, limit, gone, arg);
        lock_release(&stripe->lock);
    }
    return gone_count;
}

void keys_close(struct keys *keys, const struct key_slot *slot)
{
    assert(keys && slot);

    lock_release(&keys->stripes[slot->stripe].lock);
}

void keys_forget(struct keys *keys, int64_t now_ms, uint32_t limit)
{
    assert(keys);

    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &keys->stripes[i];
        lock_take(&stripe->lock);
        forget(keys, stripe, now_ms, limit);
        lock_release(&stripe->lock);
    }
}

uint64_t keys_count(struct keys *keys)
{
    assert(keys);

    uint64_t count = 0;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &keys->stripes[i];
        lock_take(&stripe->lock);
        count += stripe->table.count;
        lock_release(&stripe->lock);
    }
    return count;
}

size_t keys_bytes(struct keys *keys)
{
    assert(keys);

    size_t bytes = sizeof(*keys);
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &keys->stripes[i];
        lock_take(&stripe->lock);
        bytes += table_bytes(&stripe->table) + stripe->heap.live_bytes + stripe->big_bytes;
        lock_release(&stripe->lock);
    }
    return bytes;
}
