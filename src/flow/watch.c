#include "flow/watch.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/match.h"

/* A mailbox holds no more than this between two visits of its worker. */
#define IDS_MAX       (64u << 10)
#define IDS_BYTES_MAX (4u << 20)

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        abort();
    return memory;
}

/* ---- ids: what has changed, each once, in order ----
 *
 * The ids lie one behind the other in `bytes`, each behind its size; a table of
 * places in it, by hash and never more than half full, knows which are there. */

struct ids {
    struct buffer bytes;
    uint32_t *places; /* owned; 0 = empty, else the id's place in `bytes` + 1 */
    uint32_t mask;    /* places - 1 */
    uint32_t count;
};

#define PLACES_FIRST 256u

static void ids_init(struct ids *ids)
{
    buffer_init(&ids->bytes, IDS_BYTES_MAX);
    ids->places = allocate(PLACES_FIRST, sizeof(*ids->places));
    ids->mask = PLACES_FIRST - 1;
    ids->count = 0;
}

static void ids_done(struct ids *ids)
{
    buffer_done(&ids->bytes);
    free(ids->places);
}

/* The id at `offset`; moves it behind. */
static struct slice ids_at(const struct ids *ids, size_t *offset)
{
    uint16_t size;
    memcpy(&size, ids->bytes.data + *offset, sizeof(size));
    struct slice id = {ids->bytes.data + *offset + sizeof(size), size};
    *offset += sizeof(size) + size;
    return id;
}

/* The place of `id` in the table, or the empty one where it belongs. */
static uint32_t *ids_find(const struct ids *ids, struct slice id, uint64_t key)
{
    uint32_t slot = (uint32_t)hash_keyed(id, key) & ids->mask;
    while (ids->places[slot] != 0) {
        size_t offset = ids->places[slot] - 1;
        if (slice_equal(ids_at(ids, &offset), id))
            break;
        slot = (slot + 1) & ids->mask;
    }
    return &ids->places[slot];
}

static void ids_resize(struct ids *ids, uint32_t places, uint64_t key)
{
    free(ids->places);
    ids->places = allocate(places, sizeof(*ids->places));
    ids->mask = places - 1;
    for (size_t offset = 0; offset < ids->bytes.size;) {
        uint32_t place = (uint32_t)offset + 1;
        *ids_find(ids, ids_at(ids, &offset), key) = place;
    }
}

/* False when there is no room for it. */
static bool ids_add(struct ids *ids, struct slice id, uint64_t key)
{
    uint32_t *place = ids_find(ids, id, key);
    if (*place != 0)
        return true;

    uint16_t size = (uint16_t)id.size;
    if (ids->count == IDS_MAX || buffer_reserve(&ids->bytes, sizeof(size) + id.size) != ERR_OK)
        return false;
    *place = (uint32_t)ids->bytes.size + 1;
    buffer_append(&ids->bytes, &size, sizeof(size));
    buffer_append_slice(&ids->bytes, id);
    ids->count++;
    if (ids->count > ids->mask / 2)
        ids_resize(ids, 2 * (ids->mask + 1), key);
    return true;
}

/* Empties it, and gives back what only a rush of changes needed. */
static void ids_clear(struct ids *ids)
{
    bool was_large = ids->mask + 1 > 16 * PLACES_FIRST;
    ids->bytes.size = 0;
    ids->count = 0;
    if (was_large) {
        ids_done(ids);
        ids_init(ids);
    } else {
        memset(ids->places, 0, (ids->mask + 1) * sizeof(*ids->places));
    }
}

/* ---- names: what is wanted, each with the number of those who want it ---- */

struct name {
    struct name *next; /* in its chain */
    uint64_t hash;
    size_t wanted;
    size_t size;
    char bytes[];
};

struct names {
    struct name **chains; /* owned, and so are the names */
    size_t mask;          /* chains - 1 */
    size_t count;
};

#define CHAINS_FIRST 16u

static void names_init(struct names *names)
{
    names->chains = allocate(CHAINS_FIRST, sizeof(struct name *));
    names->mask = CHAINS_FIRST - 1;
    names->count = 0;
}

static void names_done(struct names *names)
{
    for (size_t i = 0; i <= names->mask; i++) {
        struct name *next;
        for (struct name *name = names->chains[i]; name; name = next) {
            next = name->next;
            free(name);
        }
    }
    free(names->chains);
}

/* Where the pointer to the name is, or the end of the chain where it belongs. */
static struct name **names_find(const struct names *names, struct slice bytes, uint64_t hash)
{
    struct name **link = &names->chains[hash & names->mask];
    while (*link && !((*link)->hash == hash &&
                      slice_equal((struct slice){(*link)->bytes, (*link)->size}, bytes)))
        link = &(*link)->next;
    return link;
}

static void names_grow(struct names *names)
{
    struct names grown = {
        .chains = allocate(2 * (names->mask + 1), sizeof(struct name *)),
        .mask = 2 * names->mask + 1,
        .count = names->count,
    };
    for (size_t i = 0; i <= names->mask; i++) {
        struct name *next;
        for (struct name *name = names->chains[i]; name; name = next) {
            next = name->next;
            name->next = grown.chains[name->hash & grown.mask];
            grown.chains[name->hash & grown.mask] = name;
        }
    }
    free(names->chains);
    *names = grown;
}

static void names_add(struct names *names, struct slice bytes, uint64_t hash)
{
    struct name **link = names_find(names, bytes, hash);
    if (*link) {
        (*link)->wanted++;
        return;
    }

    struct name *name = allocate(1, sizeof(*name) + bytes.size);
    name->hash = hash;
    name->wanted = 1;
    name->size = bytes.size;
    if (bytes.size > 0)
        memcpy(name->bytes, bytes.data, bytes.size);
    *link = name;
    names->count++;
    if (names->count > names->mask)
        names_grow(names);
}

static void names_remove(struct names *names, struct slice bytes, uint64_t hash)
{
    struct name **link = names_find(names, bytes, hash);
    struct name *name = *link;
    assert(name); /* it was added before */
    if (--name->wanted > 0)
        return;
    *link = name->next;
    free(name);
    names->count--;
}

static bool names_match(const struct names *patterns, struct slice id)
{
    if (patterns->count == 0)
        return false;
    for (size_t i = 0; i <= patterns->mask; i++) {
        for (const struct name *name = patterns->chains[i]; name; name = name->next) {
            if (match_glob((struct slice){name->bytes, name->size}, id))
                return true;
        }
    }
    return false;
}

/* ---- mailboxes ---- */

struct mailbox {
    atomic_size_t wanted; /* names and patterns; read without the lock */
    struct lock lock;     /* of all that follows but `taken` */
    struct names exact;
    struct names patterns;
    struct ids changed;
    size_t lost;
    struct ids taken; /* the worker's own: what it is being told of */
};

struct watch {
    atomic_size_t wanted; /* in all mailboxes */
    uint64_t key;         /* of the hashes: random, so that nobody can choose ids that meet */
    unsigned workers;
    struct mailbox mailboxes[];
};

struct watch *watch_new(unsigned workers, struct env *env)
{
    assert(workers > 0 && env);

    struct watch *watch = allocate(1, sizeof(*watch) + workers * sizeof(watch->mailboxes[0]));
    watch->workers = workers;
    watch->key = env_random(env);
    for (unsigned i = 0; i < workers; i++) {
        struct mailbox *mailbox = &watch->mailboxes[i];
        lock_init(&mailbox->lock);
        names_init(&mailbox->exact);
        names_init(&mailbox->patterns);
        ids_init(&mailbox->changed);
        ids_init(&mailbox->taken);
    }
    return watch;
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    for (unsigned i = 0; i < watch->workers; i++) {
        struct mailbox *mailbox = &watch->mailboxes[i];
        names_done(&mailbox->exact);
        names_done(&mailbox->patterns);
        ids_done(&mailbox->changed);
        ids_done(&mailbox->taken);
        lock_done(&mailbox->lock);
    }
    free(watch);
}

void watch_add(struct watch *watch, unsigned worker, struct slice name, bool is_pattern)
{
    assert(watch && worker < watch->workers);

    struct mailbox *mailbox = &watch->mailboxes[worker];
    lock_take(&mailbox->lock);
    names_add(is_pattern ? &mailbox->patterns : &mailbox->exact, name,
              hash_keyed(name, watch->key));
    lock_release(&mailbox->lock);
    atomic_fetch_add_explicit(&mailbox->wanted, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&watch->wanted, 1, memory_order_relaxed);
}

void watch_remove(struct watch *watch, unsigned worker, struct slice name, bool is_pattern)
{
    assert(watch && worker < watch->workers);

    struct mailbox *mailbox = &watch->mailboxes[worker];
    atomic_fetch_sub_explicit(&watch->wanted, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&mailbox->wanted, 1, memory_order_relaxed);
    lock_take(&mailbox->lock);
    names_remove(is_pattern ? &mailbox->patterns : &mailbox->exact, name,
                 hash_keyed(name, watch->key));
    lock_release(&mailbox->lock);
}

bool watch_any(const struct watch *watch)
{
    return atomic_load_explicit(&watch->wanted, memory_order_relaxed) > 0;
}

static bool is_wanted(const struct mailbox *mailbox, struct slice id, uint64_t hash)
{
    return *names_find(&mailbox->exact, id, hash) || names_match(&mailbox->patterns, id);
}

static void drop_into(const struct watch *watch, struct mailbox *mailbox, struct slice id,
                      uint64_t hash)
{
    lock_take(&mailbox->lock);
    if (is_wanted(mailbox, id, hash) && !ids_add(&mailbox->changed, id, watch->key))
        mailbox->lost++;
    lock_release(&mailbox->lock);
}

void watch_changed(struct watch *watch, struct slice id)
{
    assert(watch);
    assert(id.size <= UINT16_MAX);

    uint64_t hash = hash_keyed(id, watch->key);
    for (unsigned i = 0; i < watch->workers; i++) {
        struct mailbox *mailbox = &watch->mailboxes[i];
        if (atomic_load_explicit(&mailbox->wanted, memory_order_relaxed) > 0)
            drop_into(watch, mailbox, id, hash);
    }
}

void watch_again(struct watch *watch, unsigned worker, struct slice id)
{
    assert(watch && worker < watch->workers);
    assert(id.size <= UINT16_MAX);

    drop_into(watch, &watch->mailboxes[worker], id, hash_keyed(id, watch->key));
}

size_t watch_take(struct watch *watch, unsigned worker, watch_visit_fn *visit, void *arg)
{
    assert(watch && worker < watch->workers && visit);

    struct mailbox *mailbox = &watch->mailboxes[worker];
    lock_take(&mailbox->lock);
    struct ids taken = mailbox->changed;
    mailbox->changed = mailbox->taken;
    mailbox->taken = taken;
    size_t lost = mailbox->lost;
    mailbox->lost = 0;
    lock_release(&mailbox->lock);

    for (size_t offset = 0; offset < mailbox->taken.bytes.size;)
        visit(arg, ids_at(&mailbox->taken, &offset));
    ids_clear(&mailbox->taken);
    return lost;
}
