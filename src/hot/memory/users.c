#include "hot/memory/users.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/uuid.h"
#include "core/user.h"
#include "hot/memory/heap.h"
#include "hot/memory/table.h"

/* A hash is cut in two: its high half is the tag within the stripe's table, its
 * lowest bits are the stripe. Numbers are given out in the order in which users
 * first come, over all stripes: a set of new users then grows at its end. */
#define STRIPES      64u
#define CHUNK_USERS  64u
#define GROUP_CHUNKS 1024u
#define GROUP_USERS  (GROUP_CHUNKS * CHUNK_USERS)
#define GROUPS       (1u << 16) /* for 2^32 users */
#define NOBODY       UINT32_MAX /* this number is not given out */

/* ---- a name, as it is kept ---- */

#define INLINE_BYTES 16u
#define FORM_NONE    0u /* nobody is here */
#define FORM_SIZE    1u /* up to FORM_SIZE + INLINE_BYTES: a size, plus this */
#define FORM_UUID    (INLINE_BYTES + 2)
#define FORM_LONG    (INLINE_BYTES + 3)
#define FORM_BITS    0x1fu /* the others say how it stands: */
#define FORM_FRESH   0x20u /* no event has carried it yet */
#define FORM_WRITTEN                                                                           \
    0x40u               /* one has, of the chunk's generation or before; else the store has it \
                         */
#define FORM_USED 0x80u /* since the last look of users_shed() */

/* 17 bytes without gaps, next to one another. Unused bytes are zero, so that
 * names that are not long are equal when form and bytes are. */
struct name {
    _Atomic(uint8_t) form;             /* written last: who sees it sees the bytes */
    unsigned char bytes[INLINE_BYTES]; /* of a long name: address of a struct long_name, stripe */
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
    ret_name->form = (uint8_t)(FORM_SIZE + text.size);
    if (text.size > 0)
        memcpy(ret_name->bytes, text.data, text.size);
    return true;
}

/* Where a long name is: its address in the heap of a stripe. */
struct long_place {
    uint32_t ref;
    uint32_t stripe;
};

static struct long_place long_place(const struct name *name)
{
    struct long_place place;
    memcpy(&place, name->bytes, sizeof(place));
    return place;
}

static size_t long_size(size_t text_size)
{
    return offsetof(struct long_name, bytes) + text_size;
}

/* ---- the parts ---- */

struct chunk {
    _Atomic(uint8_t) generation; /* see saves.h; of the last of its names that was written */
    struct name names[CHUNK_USERS];
};

struct chunk_group {
    _Atomic(struct chunk *) chunks[GROUP_CHUNKS]; /* owned; NULL = nobody of it is here */
};

/* Single-threaded, under its lock. */
struct stripe {
    struct lock lock;
    struct table table; /* from hash to number + 1 */

    /* Where the table's slots are, for those who prefetch without the lock; the
     * two may not belong together for a moment, and the hint is then a bad one. */
    _Atomic(uintptr_t) hint_slots;
    _Atomic(uint32_t) hint_size;

    struct heap long_names;
};

/* A name is written once and stays where it is until users_shed(), during which
 * nobody reads: so reading it needs no lock. Its number may be known before, from a
 * set that was loaded. */
struct users {
    uint64_t hash_key;
    _Atomic(uint64_t) next;        /* the number to be given out next */
    _Atomic(uint64_t) count;       /* names that are here */
    _Atomic(uint32_t) chunk_count; /* that are there */
    _Atomic(uint32_t) group_count;
    _Atomic(struct chunk_group *) *groups; /* owned; GROUPS of them, NULL = not yet needed */
    struct stripe stripes[STRIPES];
};

static void publish_hint(struct stripe *stripe)
{
    atomic_store_explicit(&stripe->hint_slots, (uintptr_t)stripe->table.slots,
                          memory_order_relaxed);
    atomic_store_explicit(&stripe->hint_size, stripe->table.size, memory_order_relaxed);
}

static void stripe_init(struct stripe *stripe, uint32_t salt)
{
    lock_init(&stripe->lock);
    table_init(&stripe->table, salt);
    heap_init(&stripe->long_names);
    publish_hint(stripe);
}

static void stripe_done(struct stripe *stripe)
{
    lock_done(&stripe->lock);
    table_done(&stripe->table);
    heap_done(&stripe->long_names);
}

static struct chunk *chunk_of(const struct users *users, uint32_t number)
{
    struct chunk_group *group =
        atomic_load_explicit(&users->groups[number / GROUP_USERS], memory_order_acquire);
    return group ? atomic_load_explicit(&group->chunks[number / CHUNK_USERS % GROUP_CHUNKS],
                                        memory_order_acquire)
                 : NULL;
}

static struct name *name_at(const struct users *users, uint32_t number)
{
    return &chunk_of(users, number)->names[number % CHUNK_USERS];
}

static uint8_t form_of(const struct name *name)
{
    return atomic_load_explicit(&name->form, memory_order_acquire) & FORM_BITS;
}

static bool is_long_text(const struct stripe *stripe, const struct name *name, struct slice text)
{
    if (form_of(name) != FORM_LONG)
        return false;
    const struct long_name *long_name = heap_at(&stripe->long_names, long_place(name).ref);
    return slice_equal((struct slice){long_name->bytes, long_name->size}, text);
}

/* The number of the name, which is `wanted` if it is short; NOBODY if it is not there. */
static uint32_t find(const struct users *users, const struct stripe *stripe, struct slice text,
                     uint64_t hash, bool is_short, const struct name *wanted, uint32_t *at)
{
    *at = TABLE_START;
    for (uint32_t ref; (ref = table_find(&stripe->table, hash, at)) != 0;) {
        struct name *name = name_at(users, ref - 1);
        uint8_t form = atomic_load_explicit(&name->form, memory_order_relaxed);
        bool is_same = is_short ? (form & FORM_BITS) == wanted->form &&
                                      memcmp(name->bytes, wanted->bytes, INLINE_BYTES) == 0
                                : is_long_text(stripe, name, text);
        if (!is_same)
            continue;
        if (!(form & FORM_USED))
            atomic_fetch_or_explicit(&name->form, FORM_USED, memory_order_relaxed);
        return ref - 1;
    }
    return NOBODY;
}

static struct name keep_long(struct stripe *stripe, uint32_t stripe_number, struct slice text)
{
    uint32_t ref = heap_take(&stripe->long_names, long_size(text.size));
    struct long_name *long_name = heap_at(&stripe->long_names, ref);
    long_name->size = (uint8_t)text.size;
    memcpy(long_name->bytes, text.data, text.size);

    struct name name = {.form = FORM_LONG};
    struct long_place place = {.ref = ref, .stripe = stripe_number};
    memcpy(name.bytes, &place, sizeof(place));
    return name;
}

static struct chunk_group *need_group(struct users *users, uint32_t index)
{
    struct chunk_group *group = atomic_load_explicit(&users->groups[index], memory_order_acquire);
    if (group)
        return group;
    struct chunk_group *made = memory_take_zeroed(sizeof(*made));
    if (atomic_compare_exchange_strong(&users->groups[index], &group, made)) {
        atomic_fetch_add(&users->group_count, 1);
        return made;
    }
    free(made);
    return group;
}

/* Makes sure that a chunk is there; two may try at once, and one of them wins. */
static struct chunk *need_chunk(struct users *users, uint32_t number)
{
    struct chunk *chunk = chunk_of(users, number);
    if (chunk)
        return chunk;
    struct chunk_group *group = need_group(users, number / GROUP_USERS);
    _Atomic(struct chunk *) *place = &group->chunks[number / CHUNK_USERS % GROUP_CHUNKS];
    struct chunk *made = memory_take_zeroed(sizeof(*made));
    if (atomic_compare_exchange_strong(place, &chunk, made)) {
        atomic_fetch_add(&users->chunk_count, 1);
        return made;
    }
    free(made);
    return chunk;
}

/* Writes the name of a number and lets it be found. */
static inline void put_name(struct users *users, struct stripe *stripe, const struct name *name,
                            uint64_t hash, uint32_t number, uint32_t at, uint8_t standing)
{
    struct chunk *chunk = need_chunk(users, number);
    struct name *place = &chunk->names[number % CHUNK_USERS];
    memcpy(place->bytes, name->bytes, sizeof(place->bytes));
    uint8_t form = (uint8_t)(name->form | standing | FORM_USED);
    atomic_store_explicit(&place->form, form, memory_order_release);
    const uint64_t *slots = stripe->table.slots;
    table_add_behind(&stripe->table, hash, number + 1, at);
    if (stripe->table.slots != slots)
        publish_hint(stripe);
    atomic_fetch_add_explicit(&users->count, 1, memory_order_relaxed);
}

static uint32_t append(struct users *users, struct stripe *stripe, const struct name *name,
                       uint64_t hash, uint32_t at)
{
    uint64_t next = atomic_fetch_add_explicit(&users->next, 1, memory_order_relaxed);
    if (next >= NOBODY) {
        atomic_fetch_sub_explicit(&users->next, 1, memory_order_relaxed);
        return NOBODY;
    }
    put_name(users, stripe, name, hash, (uint32_t)next, at, FORM_FRESH);
    return (uint32_t)next;
}

/* ---- users ---- */

static uint32_t stripe_number(uint64_t hash)
{
    return (uint32_t)hash % STRIPES;
}

struct users *users_new(uint64_t hash_key)
{
    struct users *users = memory_take_zeroed(sizeof(*users));
    users->hash_key = hash_key;
    users->groups = memory_take_zeroed(GROUPS * sizeof(*users->groups));
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
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct chunk_group *group = atomic_load(&users->groups[i]);
        for (uint32_t j = 0; group && j < GROUP_CHUNKS; j++)
            free(atomic_load(&group->chunks[j]));
        free(group);
    }
    free(users->groups);
    free(users);
}

bool users_begin(const struct users *users, struct slice name, struct user *ret_user,
                 uint64_t *ret_hash)
{
    assert(users && ret_user && ret_hash);
    assert(name.size <= LIMIT_USER_BYTES);

    uint32_t number;
    if (user_is_numeric(name, &number)) {
        *ret_user = (struct user){.class = USER_NUMERIC, .number = number};
        return true;
    }

    uint64_t hash = hash_keyed(name, users->hash_key);
    const struct stripe *stripe = &users->stripes[stripe_number(hash)];
    uintptr_t slots = atomic_load_explicit(&stripe->hint_slots, memory_order_relaxed);
    uint32_t size = atomic_load_explicit(&stripe->hint_size, memory_order_relaxed);
    __builtin_prefetch(
        (const void *)(slots + table_place(table_tag(hash), size) * sizeof(uint64_t)));
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
    uint32_t at;
    uint32_t number = find(users, stripe, name, hash, is_short, &wanted, &at);
    lock_release(&stripe->lock);

    *ret_user = (struct user){.class = USER_NAMED, .number = number};
    return number != NOBODY;
}

enum err users_take_if_new(struct users *users, struct slice name, uint64_t hash,
                           users_new_fn *is_new, void *arg, struct user *ret_user)
{
    assert(users && ret_user);
    assert(name.size <= LIMIT_USER_BYTES);

    struct name wanted;
    bool is_short = shorten(name, &wanted);
    struct stripe *stripe = &users->stripes[stripe_number(hash)];

    lock_take(&stripe->lock);
    uint32_t at;
    uint32_t number = find(users, stripe, name, hash, is_short, &wanted, &at);
    enum err err = ERR_OK;
    if (number == NOBODY && (!is_new || (err = is_new(arg, name, hash)) == ERR_OK)) {
        if (!is_short)
            wanted = keep_long(stripe, stripe_number(hash), name);
        number = append(users, stripe, &wanted, hash, at);
        err = number == NOBODY ? ERR_TOO_LARGE : ERR_OK;
    }
    lock_release(&stripe->lock);

    *ret_user = (struct user){.class = USER_NAMED, .number = number};
    return err;
}

bool users_take(struct users *users, struct slice name, uint64_t hash, struct user *ret_user)
{
    return users_take_if_new(users, name, hash, NULL, NULL, ret_user) == ERR_OK;
}

void users_skip(struct users *users, uint64_t next)
{
    assert(users);

    uint64_t now = atomic_load(&users->next);
    while (now < next && !atomic_compare_exchange_weak(&users->next, &now, next)) {
    }
}

bool users_know(const struct users *users, uint32_t number)
{
    assert(users);

    const struct chunk *chunk = chunk_of(users, number);
    return chunk && form_of(&chunk->names[number % CHUNK_USERS]) != FORM_NONE;
}

void users_note(struct users *users, uint32_t number, uint8_t generation)
{
    struct chunk *chunk = chunk_of(users, number);
    if (!chunk)
        return; /* the store has it, else it would be here */
    struct name *name = &chunk->names[number % CHUNK_USERS];
    if (!(atomic_load_explicit(&name->form, memory_order_relaxed) & FORM_FRESH))
        return;
    atomic_store_explicit(&chunk->generation, generation, memory_order_relaxed);
    atomic_fetch_or_explicit(&name->form, FORM_WRITTEN, memory_order_relaxed);
    atomic_fetch_and_explicit(&name->form, (uint8_t)~FORM_FRESH, memory_order_relaxed);
}

bool users_put(struct users *users, struct slice name, uint64_t hash, uint32_t number,
               uint8_t generation)
{
    assert(users);
    assert(name.size <= LIMIT_USER_BYTES);

    if (number == NOBODY)
        return false;
    struct name wanted;
    bool is_short = shorten(name, &wanted);
    struct stripe *stripe = &users->stripes[stripe_number(hash)];

    lock_take(&stripe->lock);
    uint32_t at;
    uint32_t found = find(users, stripe, name, hash, is_short, &wanted, &at);
    bool fits = found == number || (found == NOBODY && !users_know(users, number));
    if (fits && found == NOBODY) {
        if (!is_short)
            wanted = keep_long(stripe, stripe_number(hash), name);
        put_name(users, stripe, &wanted, hash, number, at, generation == 0 ? 0 : FORM_FRESH);
        users_skip(users, (uint64_t)number + 1);
    }
    lock_release(&stripe->lock);
    if (fits && generation != 0)
        users_note(users, number, generation);
    return fits;
}

/* The heap of long names may move its own index while it grows: that takes the lock. */
static size_t write_long(struct users *users, const struct name *name, char *to)
{
    struct long_place place = long_place(name);
    struct stripe *stripe = &users->stripes[place.stripe];
    lock_take(&stripe->lock);
    const struct long_name *long_name = heap_at(&stripe->long_names, place.ref);
    memcpy(to, long_name->bytes, long_name->size);
    size_t size = long_name->size;
    lock_release(&stripe->lock);
    return size;
}

size_t users_name(struct users *users, struct user user, char to[LIMIT_USER_BYTES])
{
    assert(users && to);

    if (user.class == USER_NUMERIC)
        return (size_t)(decimal_format_unsigned(to, user.number) - to);

    assert(users_know(users, user.number));
    const struct name *name = name_at(users, user.number);
    uint8_t form = form_of(name);
    if (form == FORM_LONG)
        return write_long(users, name, to);
    if (form == FORM_UUID) {
        uuid_format(name->bytes, to);
        return UUID_TEXT_BYTES;
    }
    memcpy(to, name->bytes, form - FORM_SIZE);
    return form - FORM_SIZE;
}

uint64_t users_count(struct users *users)
{
    assert(users);

    return atomic_load_explicit(&users->count, memory_order_relaxed);
}

size_t users_bytes(struct users *users)
{
    assert(users);

    size_t bytes = sizeof(*users);
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &users->stripes[i];
        lock_take(&stripe->lock);
        bytes += table_bytes(&stripe->table) + stripe->long_names.live_bytes;
        lock_release(&stripe->lock);
    }
    return bytes + atomic_load(&users->chunk_count) * memory_cost(sizeof(struct chunk)) +
           atomic_load(&users->group_count) * sizeof(struct chunk_group);
}

/* ---- leaving ---- */

/* May all of a chunk go? What was used since the last time has another chance. */
static bool may_go(struct chunk *chunk, const struct saves *saves)
{
    bool is_saved = saves_has(saves, atomic_load(&chunk->generation));
    bool may = true;
    for (uint32_t i = 0; i < CHUNK_USERS; i++) {
        uint8_t form = atomic_load_explicit(&chunk->names[i].form, memory_order_relaxed);
        may &= !(form & (FORM_USED | FORM_FRESH)) && (is_saved || !(form & FORM_WRITTEN));
        form &= (uint8_t) ~(FORM_USED | (is_saved ? FORM_WRITTEN : 0));
        atomic_store_explicit(&chunk->names[i].form, form, memory_order_relaxed);
    }
    return may;
}

static void drop_name(struct users *users, struct name *name, uint32_t number, users_gone_fn *gone,
                      void *arg)
{
    char text[LIMIT_USER_BYTES];
    size_t size;
    uint8_t form = form_of(name);
    struct long_place place = long_place(name);
    if (form == FORM_LONG) {
        const struct long_name *long_name =
            heap_at(&users->stripes[place.stripe].long_names, place.ref);
        size = long_name->size;
        memcpy(text, long_name->bytes, size);
        heap_give(&users->stripes[place.stripe].long_names, place.ref, long_size(size));
    } else if (form == FORM_UUID) {
        uuid_format(name->bytes, text);
        size = UUID_TEXT_BYTES;
    } else {
        size = form - FORM_SIZE;
        memcpy(text, name->bytes, size);
    }
    uint64_t hash = hash_keyed((struct slice){text, size}, users->hash_key);
    gone(arg, (struct slice){text, size}, hash);
    table_remove(&users->stripes[stripe_number(hash)].table, hash, number + 1);
    atomic_fetch_sub_explicit(&users->count, 1, memory_order_relaxed);
}

static void drop_chunk(struct users *users, struct chunk_group *group, uint32_t index,
                       users_gone_fn *gone, void *arg)
{
    _Atomic(struct chunk *) *place = &group->chunks[index % GROUP_CHUNKS];
    struct chunk *chunk = atomic_load(place);
    for (uint32_t i = 0; i < CHUNK_USERS; i++)
        if (form_of(&chunk->names[i]) != FORM_NONE)
            drop_name(users, &chunk->names[i], index * CHUNK_USERS + i, gone, arg);
    atomic_store(place, NULL);
    atomic_fetch_sub(&users->chunk_count, 1);
    free(chunk);
}

bool users_shed(struct users *users, const struct saves *saves, uint32_t *cursor, uint32_t limit,
                users_gone_fn *gone, void *arg)
{
    assert(users && saves && cursor && gone);

    uint64_t end = (atomic_load(&users->next) + CHUNK_USERS - 1) / CHUNK_USERS;
    for (uint32_t i = 0; i < STRIPES; i++)
        lock_take(&users->stripes[i].lock);
    uint32_t index = *cursor;
    for (uint32_t looked = 0; index < end && limit > 0 && looked < GROUP_CHUNKS; looked++) {
        struct chunk_group *group = atomic_load(&users->groups[index / GROUP_CHUNKS]);
        if (!group) {
            index = (index / GROUP_CHUNKS + 1) * GROUP_CHUNKS;
            continue;
        }
        struct chunk *chunk = atomic_load(&group->chunks[index % GROUP_CHUNKS]);
        limit -= chunk != NULL;
        if (chunk && may_go(chunk, saves))
            drop_chunk(users, group, index, gone, arg);
        index++;
    }
    bool through = index >= end;
    *cursor = through ? 0 : index;
    for (uint32_t i = 0; i < STRIPES; i++)
        lock_release(&users->stripes[i].lock);
    return through;
}

void users_fit(struct users *users)
{
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = &users->stripes[i];
        lock_take(&stripe->lock);
        table_fit(&stripe->table);
        publish_hint(stripe);
        lock_release(&stripe->lock);
    }
}
