#include "hot/memory/users.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/uuid.h"
#include "hot/memory/heap.h"
#include "hot/memory/table.h"

/* A hash is cut in two: its high half is the tag within the stripe's table, its
 * lowest bits are the stripe. A number, likewise:
 *
 *   31                    6 5      0
 *   | index in the stripe  | stripe |
 */
#define STRIPES          64u
#define STRIPE_BITS      6u
#define STRIPE_USERS_MAX (UINT32_C(1) << (32 - STRIPE_BITS))
#define CHUNK_USERS      256u

/* ---- a name, as it is kept ---- */

#define INLINE_BYTES 16u
#define FORM_UUID    (INLINE_BYTES + 1) /* a form up to INLINE_BYTES is a size */
#define FORM_LONG    (INLINE_BYTES + 2)

/* 17 bytes without gaps, next to one another. Unused bytes are zero, so that
 * names that are not long are equal when all 17 bytes are. */
struct name {
    uint8_t form;
    unsigned char bytes[INLINE_BYTES]; /* of a long name: the address of a struct long_name */
};

struct long_name {
    uint8_t size; /* not zero, as the heap demands */
    char bytes[LIMIT_USER_BYTES];
};

static_assert(sizeof(struct name) == 17, "names are kept without gaps");
static_assert(UUID_BYTES == INLINE_BYTES, "a UUID fills a name");
static_assert(LIMIT_USER_BYTES <= UINT8_MAX, "a long name's size is one byte");
static_assert(sizeof(struct long_name) <= HEAP_RECORD_BYTES_MAX, "a long name is one record");

/* The name in its short form; false if only the long one will do. */
static bool shorten(struct slice text, struct name *ret_name)
{
    *ret_name = (struct name){.form = FORM_UUID};
    if (text.size == UUID_TEXT_BYTES)
        return uuid_parse(text, ret_name->bytes);
    if (text.size > INLINE_BYTES)
        return false;
    ret_name->form = (uint8_t)text.size;
    if (text.size > 0)
        memcpy(ret_name->bytes, text.data, text.size);
    return true;
}

static uint32_t long_ref(const struct name *name)
{
    uint32_t ref;
    memcpy(&ref, name->bytes, sizeof(ref));
    return ref;
}

static size_t long_size(size_t text_size)
{
    return offsetof(struct long_name, bytes) + text_size;
}

/* ---- a stripe: single-threaded, under its lock ---- */

struct chunk {
    struct name names[CHUNK_USERS];
};

struct stripe {
    struct lock lock;
    struct table table;    /* from hash to index + 1 */
    struct chunk **chunks; /* owned */
    uint32_t chunk_capacity;
    uint32_t count;

    /* Where the table's slots are, for those who prefetch without the lock; the
     * two may not belong together for a moment, and the hint is then a bad one. */
    _Atomic(uintptr_t) hint_slots;
    _Atomic(uint32_t) hint_mask;

    struct heap long_names;
};

struct users {
    uint64_t hash_key;
    struct stripe stripes[STRIPES];
};

static void publish_hint(struct stripe *stripe)
{
    atomic_store_explicit(&stripe->hint_slots, (uintptr_t)stripe->table.slots,
                          memory_order_relaxed);
    atomic_store_explicit(&stripe->hint_mask, stripe->table.mask, memory_order_relaxed);
}

static void stripe_init(struct stripe *stripe, uint32_t salt)
{
    lock_init(&stripe->lock);
    table_init(&stripe->table, salt);
    heap_init(&stripe->long_names);
    publish_hint(stripe);
}

static uint32_t chunk_count(const struct stripe *stripe)
{
    return (stripe->count + CHUNK_USERS - 1) / CHUNK_USERS;
}

static void stripe_done(struct stripe *stripe)
{
    lock_done(&stripe->lock);
    table_done(&stripe->table);
    heap_done(&stripe->long_names);
    for (uint32_t i = 0; i < chunk_count(stripe); i++)
        free(stripe->chunks[i]);
    free(stripe->chunks);
}

static struct name *name_at(const struct stripe *stripe, uint32_t index)
{
    return &stripe->chunks[index / CHUNK_USERS]->names[index % CHUNK_USERS];
}

static bool is_long_text(const struct stripe *stripe, const struct name *name, struct slice text)
{
    if (name->form != FORM_LONG)
        return false;
    const struct long_name *long_name = heap_at(&stripe->long_names, long_ref(name));
    return slice_equal((struct slice){long_name->bytes, long_name->size}, text);
}

/* The index of the name, which is `wanted` if it is short; STRIPE_USERS_MAX if it is not there. */
static uint32_t find(const struct stripe *stripe, struct slice text, uint64_t hash, bool is_short,
                     const struct name *wanted)
{
    uint32_t at = TABLE_START;
    for (uint32_t ref; (ref = table_find(&stripe->table, hash, &at)) != 0;) {
        const struct name *name = name_at(stripe, ref - 1);
        if (is_short ? memcmp(name, wanted, sizeof(*name)) == 0 : is_long_text(stripe, name, text))
            return ref - 1;
    }
    return STRIPE_USERS_MAX;
}

static struct name keep_long(struct stripe *stripe, struct slice text)
{
    uint32_t ref = heap_take(&stripe->long_names, long_size(text.size));
    struct long_name *long_name = heap_at(&stripe->long_names, ref);
    long_name->size = (uint8_t)text.size;
    memcpy(long_name->bytes, text.data, text.size);

    struct name name = {.form = FORM_LONG};
    memcpy(name.bytes, &ref, sizeof(ref));
    return name;
}

static void add_chunk(struct stripe *stripe)
{
    uint32_t count = chunk_count(stripe);
    if (count == stripe->chunk_capacity) {
        stripe->chunk_capacity += stripe->chunk_capacity / 2 + 4;
        stripe->chunks =
            memory_resize(stripe->chunks, stripe->chunk_capacity * sizeof(*stripe->chunks));
    }
    stripe->chunks[count] = memory_take(sizeof(struct chunk));
}

static uint32_t append(struct stripe *stripe, struct name name, uint64_t hash)
{
    if (stripe->count % CHUNK_USERS == 0)
        add_chunk(stripe);
    uint32_t index = stripe->count++;
    *name_at(stripe, index) = name;
    table_add(&stripe->table, hash, index + 1);
    publish_hint(stripe);
    return index;
}

/* ---- users ---- */

static uint32_t stripe_number(uint64_t hash)
{
    return (uint32_t)hash % STRIPES;
}

static struct user named(uint32_t index, uint64_t hash)
{
    return (struct user){.class = USER_NAMED, .number = index << STRIPE_BITS | stripe_number(hash)};
}

struct users *users_new(uint64_t hash_key)
{
    struct users *users = memory_take_zeroed(sizeof(*users));
    users->hash_key = hash_key;
    for (uint32_t i = 0; i < STRIPES; i++)
        stripe_init(&users->stripes[i], i);
    return users;
}

void users_free(struct users *users)
{
    if (!users)
        return;
    for (uint32_t i = 0; i < STRIPES; i++)
        stripe_done(&users->stripes[i]);
    free(users);
}

static bool is_number(struct slice text, uint32_t *ret_number)
{
    uint64_t value;
    if (text.size > sizeof("4294967295") - 1 || !decimal_parse_unsigned(text, &value) ||
        value > UINT32_MAX)
        return false;
    *ret_number = (uint32_t)value;
    return true;
}

bool users_begin(const struct users *users, struct slice name, struct user *ret_user,
                 uint64_t *ret_hash)
{
    assert(users && ret_user && ret_hash);
    assert(name.size <= LIMIT_USER_BYTES);

    uint32_t number;
    if (is_number(name, &number)) {
        *ret_user = (struct user){.class = USER_NUMERIC, .number = number};
        return true;
    }

    uint64_t hash = hash_keyed(name, users->hash_key);
    const struct stripe *stripe = &users->stripes[stripe_number(hash)];
    uintptr_t slots = atomic_load_explicit(&stripe->hint_slots, memory_order_relaxed);
    uint32_t mask = atomic_load_explicit(&stripe->hint_mask, memory_order_relaxed);
    __builtin_prefetch((const void *)(slots + (table_tag(hash) & mask) * sizeof(uint64_t)));
    *ret_hash = hash;
    return false;
}

bool users_find(struct users *users, struct slice name, uint64_t hash, struct user *ret_user)
{
    assert(users && ret_user);

    struct name wanted;
    bool is_short = shorten(name, &wanted);
    struct stripe *stripe = &users->stripes[stripe_number(hash)];

    lock_take(&stripe->lock);
    uint32_t index = find(stripe, name, hash, is_short, &wanted);
    lock_release(&stripe->lock);

    if (index == STRIPE_USERS_MAX)
        return false;
    *ret_user = named(index, hash);
    return true;
}

bool users_take(struct users *users, struct slice name, uint64_t hash, struct user *ret_user)
{
    assert(users && ret_user);
    assert(name.size <= LIMIT_USER_BYTES);

    struct name wanted;
    bool is_short = shorten(name, &wanted);
    struct stripe *stripe = &users->stripes[stripe_number(hash)];

    lock_take(&stripe->lock);
    uint32_t index = find(stripe, name, hash, is_short, &wanted);
    if (index == STRIPE_USERS_MAX && stripe->count < STRIPE_USERS_MAX)
        index = append(stripe, is_short ? wanted : keep_long(stripe, name), hash);
    lock_release(&stripe->lock);

    if (index == STRIPE_USERS_MAX)
        return false;
    *ret_user = named(index, hash);
    return true;
}

static size_t write_name(const struct stripe *stripe, const struct name *name, char *to)
{
    if (name->form == FORM_UUID) {
        uuid_format(name->bytes, to);
        return UUID_TEXT_BYTES;
    }
    if (name->form == FORM_LONG) {
        const struct long_name *long_name = heap_at(&stripe->long_names, long_ref(name));
        memcpy(to, long_name->bytes, long_name->size);
        return long_name->size;
    }
    memcpy(to, name->bytes, name->form);
    return name->form;
}

size_t users_name(struct users *users, struct user user, char to[LIMIT_USER_BYTES])
{
    assert(users && to);

    if (user.class == USER_NUMERIC)
        return (size_t)(decimal_format_unsigned(to, user.number) - to);

    struct stripe *stripe = &users->stripes[user.number % STRIPES];
    uint32_t index = user.number >> STRIPE_BITS;
    lock_take(&stripe->lock);
    assert(index < stripe->count);
    size_t size = write_name(stripe, name_at(stripe, index), to);
    lock_release(&stripe->lock);
    return size;
}

uint64_t users_count(struct users *users)
{
    assert(users);

    uint64_t count = 0;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &users->stripes[i];
        lock_take(&stripe->lock);
        count += stripe->count;
        lock_release(&stripe->lock);
    }
    return count;
}

size_t users_bytes(struct users *users)
{
    assert(users);

    size_t bytes = sizeof(*users);
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &users->stripes[i];
        lock_take(&stripe->lock);
        bytes += table_bytes(&stripe->table) + heap_bytes(&stripe->long_names);
        bytes += chunk_count(stripe) * sizeof(struct chunk);
        bytes += stripe->chunk_capacity * sizeof(*stripe->chunks);
        lock_release(&stripe->lock);
    }
    return bytes;
}
