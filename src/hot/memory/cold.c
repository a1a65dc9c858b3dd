#include "hot/memory/cold.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"
#include "hot/memory/filter.h"

#define BUCKETS       4096u
#define WANTS_MAX     (1u << 16)
#define SECOND_NS     UINT64_C(1000000000)
#define KEYS_EXPECTED 16384u
#define ABSENT_MIN    1024u /* places */
#define ABSENT_KEPT   4096u /* below it nobody tidies up */
#define ABSENT_S      10u   /* so long what the store does not have is remembered at least */

enum want_state { WANT_WANTED, WANT_TAKEN, WANT_FAILED };

struct want {
    struct hot_want want;
    uint64_t hash;
    enum want_state state;
    uint64_t failed_ns;       /* FAILED: when */
    enum err code;            /* FAILED: what the ops are told */
    struct want *next;        /* of the same bucket */
    struct want *next_wanted; /* in the order of asking */
    uint32_t *numbers;        /* owned; NAMES */
};

/* Open addressing; hash 0 is an empty place. */
struct absent {
    uint64_t hash;
    uint32_t noted_s; /* monotonic */
    uint8_t generation;
};

struct cold {
    struct env *env;        /* borrowed */
    struct filter *targets; /* owned */
    struct filter *users;   /* owned */
    struct filter *keys;    /* owned; those that have left memory */
    struct filter *older_keys;
    _Atomic bool told[HOT_WANT_KINDS];
    _Atomic bool news;

    struct lock lock; /* of all that follows */
    struct want *buckets[BUCKETS];
    struct want *first; /* wanted */
    struct want **last;
    uint32_t want_count;
    uint64_t misses;
    struct absent *absent; /* owned */
    uint32_t absent_size;  /* a power of two */
    uint32_t absent_count;
    uint32_t absent_tidy; /* count at which to tidy up next */
};

static void take_absent(struct cold *cold, uint32_t size)
{
    cold->absent = memory_take_zeroed(size * sizeof(*cold->absent));
    cold->absent_size = size;
    cold->absent_count = 0;
}

/* Nearly every key is a new one, and who has to ask for it holds up a whole batch. */
static struct filter *new_keys(void)
{
    return filter_new(KEYS_EXPECTED, FILTER_BITS_FINE);
}

struct cold *cold_new(struct env *env, uint64_t targets, uint64_t users)
{
    struct cold *cold = memory_take_zeroed(sizeof(*cold));
    cold->env = env;
    cold->targets = filter_new(targets + targets / 4, FILTER_BITS);
    cold->users = filter_new(users + users / 4, FILTER_BITS);
    cold->keys = new_keys();
    cold->older_keys = new_keys();
    cold->last = &cold->first;
    cold->absent_tidy = ABSENT_KEPT;
    lock_init(&cold->lock);
    take_absent(cold, ABSENT_MIN);
    return cold;
}

static void want_free(struct want *want)
{
    free(want->numbers);
    free(want);
}

void cold_free(struct cold *cold)
{
    if (!cold)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct want *want = cold->buckets[i], *next; want; want = next) {
            next = want->next;
            want_free(want);
        }
    filter_free(cold->targets);
    filter_free(cold->users);
    filter_free(cold->keys);
    filter_free(cold->older_keys);
    free(cold->absent);
    lock_done(&cold->lock);
    free(cold);
}

void cold_tell(struct cold *cold, enum hot_want_kind kind, uint64_t stable_hash)
{
    assert(kind == HOT_WANT_TARGET || kind == HOT_WANT_USER);

    filter_add(kind == HOT_WANT_TARGET ? cold->targets : cold->users, stable_hash);
}

void cold_told_all(struct cold *cold, enum hot_want_kind kind)
{
    atomic_store(&cold->told[kind], true);
}

/* ---- what is absent ---- */

/* Users, keys and targets share the table. */
static uint64_t absent_hash(enum hot_want_kind kind, uint64_t hash)
{
    uint64_t mixed = hash ^ (uint64_t)kind * UINT64_C(0x9e3779b97f4a7c15);
    return mixed ? mixed : 1;
}

/* Its place, or the empty one where it would be. */
static uint32_t absent_place(const struct cold *cold, uint64_t hash)
{
    uint32_t mask = cold->absent_size - 1;
    uint32_t at = (uint32_t)(hash >> 32) & mask;
    while (cold->absent[at].hash != 0 && cold->absent[at].hash != hash)
        at = (at + 1) & mask;
    return at;
}

static bool is_absent(const struct cold *cold, enum hot_want_kind kind, uint64_t hash)
{
    return cold->absent[absent_place(cold, absent_hash(kind, hash))].hash != 0;
}

static void grow_absent(struct cold *cold, uint32_t size)
{
    struct absent *old = cold->absent;
    uint32_t old_size = cold->absent_size;
    take_absent(cold, size);
    for (uint32_t i = 0; i < old_size; i++)
        if (old[i].hash != 0) {
            cold->absent[absent_place(cold, old[i].hash)] = old[i];
            cold->absent_count++;
        }
    free(old);
}

static void put_absent(struct cold *cold, enum hot_want_kind kind, uint64_t hash,
                       uint8_t generation)
{
    if (cold->absent_count >= cold->absent_size / 2)
        grow_absent(cold, cold->absent_size * 2);
    uint64_t mixed = absent_hash(kind, hash);
    struct absent *place = &cold->absent[absent_place(cold, mixed)];
    cold->absent_count += place->hash == 0;
    *place = (struct absent){.hash = mixed,
                             .noted_s = (uint32_t)(env_monotonic_ns(cold->env) / SECOND_NS),
                             .generation = generation};
}

/* Those behind it that would not be found any more move up. */
static void remove_absent(struct cold *cold, enum hot_want_kind kind, uint64_t hash)
{
    uint32_t mask = cold->absent_size - 1;
    uint32_t hole = absent_place(cold, absent_hash(kind, hash));
    if (cold->absent[hole].hash == 0)
        return;
    cold->absent_count--;
    for (uint32_t at = (hole + 1) & mask; cold->absent[at].hash != 0; at = (at + 1) & mask) {
        uint32_t home = (uint32_t)(cold->absent[at].hash >> 32) & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        cold->absent[hole] = cold->absent[at];
        hole = at;
    }
    cold->absent[hole] = (struct absent){0};
}

void cold_bury(struct cold *cold, uint64_t hash, uint8_t generation)
{
    lock_take(&cold->lock);
    put_absent(cold, HOT_WANT_TARGET, hash, generation);
    lock_release(&cold->lock);
}

static void forget_failed(struct cold *cold)
{
    uint64_t now_ns = env_monotonic_ns(cold->env);
    for (uint32_t i = 0; i < BUCKETS; i++)
        for (struct want **at = &cold->buckets[i]; *at;) {
            struct want *want = *at;
            if (want->state != WANT_FAILED || now_ns - want->failed_ns < SECOND_NS) {
                at = &want->next;
                continue;
            }
            *at = want->next;
            cold->want_count--;
            want_free(want);
        }
}

/* A table that grew in a burst would be counted as memory in use for ever. */
static bool is_worth_tidying(const struct cold *cold, bool is_short)
{
    bool has_grown = cold->absent_size > ABSENT_MIN;
    return cold->absent_count >= cold->absent_tidy ||
           (has_grown && (is_short || cold->absent_count < cold->absent_size / 4));
}

void cold_tidy(struct cold *cold, const struct saves *saves, bool is_short)
{
    lock_take(&cold->lock);
    if (cold->want_count > 0)
        forget_failed(cold);
    if (is_worth_tidying(cold, is_short)) {
        uint32_t now_s = (uint32_t)(env_monotonic_ns(cold->env) / SECOND_NS);
        for (uint32_t i = 0; i < cold->absent_size; i++) {
            struct absent *absent = &cold->absent[i];
            if (now_s - absent->noted_s >= ABSENT_S && saves_has(saves, absent->generation))
                *absent = (struct absent){0};
        }
        uint32_t left = 0;
        for (uint32_t i = 0; i < cold->absent_size; i++)
            left += cold->absent[i].hash != 0;
        uint32_t size = ABSENT_MIN;
        while (size / 2 <= left)
            size *= 2;
        grow_absent(cold, size); /* all move: what was behind a hole is found again */
        cold->absent_tidy = left * 2 > ABSENT_KEPT ? left * 2 : ABSENT_KEPT;
    }
    lock_release(&cold->lock);
}

/* ---- wants, under the lock ---- */

static struct want **find_want(struct cold *cold, enum hot_want_kind kind, uint64_t hash,
                               uint32_t slice, struct slice id)
{
    struct want **at = &cold->buckets[hash % BUCKETS];
    for (; *at; at = &(*at)->next) {
        const struct want *want = *at;
        if (want->hash == hash && want->want.kind == kind && want->want.slice == slice &&
            slice_equal(want->want.id, id))
            break;
    }
    return at;
}

static void to_queue(struct cold *cold, struct want *want)
{
    want->state = WANT_WANTED;
    want->next_wanted = NULL;
    *cold->last = want;
    cold->last = &want->next_wanted;
    atomic_store(&cold->news, true);
}

/* What is asked for: everything of a want but its state. */
struct question {
    enum hot_want_kind kind;
    uint64_t hash;
    uint32_t slice;
    struct slice id;
    uint64_t low;
    uint64_t high;
    const uint32_t *numbers;
    size_t number_count;
};

static struct want *want_new(const struct question *question)
{
    struct want *want = memory_take_zeroed(sizeof(*want));
    want->hash = question->hash;
    want->want.kind = question->kind;
    want->want.slice = question->slice;
    want->want.key_low = question->low;
    want->want.key_high = question->high;
    want->want.id = (struct slice){want->want.bytes, question->id.size};
    if (question->id.size > 0)
        memcpy(want->want.bytes, question->id.data, question->id.size);
    if (question->number_count > 0) {
        size_t size = question->number_count * sizeof(*want->numbers);
        want->numbers = memory_take(size);
        memcpy(want->numbers, question->numbers, size);
        want->want.numbers = want->numbers;
        want->want.number_count = question->number_count;
    }
    return want;
}

static enum err ask_locked(struct cold *cold, const struct question *question)
{
    if (is_absent(cold, question->kind, question->hash) && question->kind != HOT_WANT_SLICE)
        return ERR_OK;
    cold->misses++;
    struct want **at =
        find_want(cold, question->kind, question->hash, question->slice, question->id);
    struct want *want = *at;
    if (!want) {
        if (cold->want_count == WANTS_MAX)
            return ERR_BUSY;
        want = want_new(question);
        *at = want;
        cold->want_count++;
        to_queue(cold, want);
    } else if (want->state == WANT_FAILED) {
        if (env_monotonic_ns(cold->env) - want->failed_ns < SECOND_NS)
            return want->code;
        to_queue(cold, want);
    }
    return ERR_COLD;
}

static enum err ask(struct cold *cold, const struct question *question)
{
    assert(question->id.size <= LIMIT_ID_BYTES);

    lock_take(&cold->lock);
    enum err err = ask_locked(cold, question);
    lock_release(&cold->lock);
    return err;
}

enum err cold_ask_target(struct cold *cold, uint64_t hash, uint64_t stable_hash, struct slice id)
{
    if (atomic_load(&cold->told[HOT_WANT_TARGET]) && !filter_may_have(cold->targets, stable_hash))
        return ERR_OK;
    return ask(cold, &(struct question){.kind = HOT_WANT_TARGET, .hash = hash, .id = id});
}

bool cold_may_have(struct cold *cold, uint64_t hash, uint64_t stable_hash)
{
    if (atomic_load(&cold->told[HOT_WANT_TARGET]) && !filter_may_have(cold->targets, stable_hash))
        return false;
    lock_take(&cold->lock);
    bool may = !is_absent(cold, HOT_WANT_TARGET, hash);
    lock_release(&cold->lock);
    return may;
}

enum err cold_ask_user(struct cold *cold, uint64_t hash, struct slice name)
{
    if (atomic_load(&cold->told[HOT_WANT_USER]) && !filter_may_have(cold->users, hash_stable(name)))
        return ERR_OK;
    return ask(cold, &(struct question){.kind = HOT_WANT_USER, .hash = hash, .id = name});
}

enum err cold_ask_key(struct cold *cold, uint64_t low, uint64_t high)
{
    if (atomic_load(&cold->told[HOT_WANT_KEY]) && !filter_may_have(cold->keys, low) &&
        !filter_may_have(cold->older_keys, low))
        return ERR_OK;
    return ask(cold, &(struct question){.kind = HOT_WANT_KEY,
                                        .hash = cold_key_hash(low, high),
                                        .low = low,
                                        .high = high});
}

enum err cold_ask_slice(struct cold *cold, uint64_t hash, struct slice item, uint32_t slice)
{
    return ask(
        cold, &(struct question){.kind = HOT_WANT_SLICE, .hash = hash, .slice = slice, .id = item});
}

enum err cold_ask_names(struct cold *cold, const uint32_t *numbers, size_t count)
{
    assert(count > 0 && count <= HOT_NAMES_MAX);

    return ask(cold, &(struct question){.kind = HOT_WANT_NAMES,
                                        .hash = cold_names_hash(numbers, count),
                                        .numbers = numbers,
                                        .number_count = count});
}

uint64_t cold_key_hash(uint64_t low, uint64_t high)
{
    return low ^ (high << 32 | high >> 32);
}

uint64_t cold_names_hash(const uint32_t *numbers, size_t count)
{
    return hash_stable((struct slice){(const char *)numbers, count * sizeof(*numbers)});
}

bool cold_has_news(struct cold *cold)
{
    return atomic_load_explicit(&cold->news, memory_order_relaxed) &&
           atomic_exchange(&cold->news, false);
}

bool cold_take(struct cold *cold, struct hot_want *ret_want)
{
    lock_take(&cold->lock);
    struct want *want = cold->first;
    if (want) {
        cold->first = want->next_wanted;
        if (!cold->first)
            cold->last = &cold->first;
        want->state = WANT_TAKEN;
        *ret_want = want->want;
        ret_want->id.data = ret_want->bytes;
    }
    lock_release(&cold->lock);
    return want != NULL;
}

bool cold_is_taken(struct cold *cold, const struct hot_want *asked, uint64_t hash)
{
    lock_take(&cold->lock);
    const struct want *want = *find_want(cold, asked->kind, hash, asked->slice, asked->id);
    bool is_taken = want && want->state == WANT_TAKEN;
    lock_release(&cold->lock);
    return is_taken;
}

void cold_answer(struct cold *cold, const struct hot_want *asked, uint64_t hash, enum err code)
{
    lock_take(&cold->lock);
    struct want **at = find_want(cold, asked->kind, hash, asked->slice, asked->id);
    struct want *want = *at;
    if (want && want->state == WANT_TAKEN) {
        if (code == ERR_OK || code == ERR_NOT_FOUND) {
            *at = want->next;
            cold->want_count--;
            want_free(want);
        } else {
            want->state = WANT_FAILED;
            want->failed_ns = env_monotonic_ns(cold->env);
            want->code = code == ERR_NO_KIND || code == ERR_CORRUPT ? code : ERR_UNAVAILABLE;
        }
        if (code == ERR_NOT_FOUND)
            put_absent(cold, asked->kind, hash, 0);
    }
    lock_release(&cold->lock);
}

void cold_doubt(struct cold *cold, uint64_t hash, uint64_t stable_hash, const struct saves *saves)
{
    lock_take(&cold->lock);
    uint64_t mixed = absent_hash(HOT_WANT_TARGET, hash);
    if (saves_has(saves, cold->absent[absent_place(cold, mixed)].generation))
        remove_absent(cold, HOT_WANT_TARGET, hash); /* its deletion is not on its way */
    lock_release(&cold->lock);
    filter_add(cold->targets, stable_hash);
}

/* ---- dropping ---- */

static bool is_being_loaded(const struct cold *cold, uint64_t hash)
{
    for (const struct want *want = cold->buckets[hash % BUCKETS]; want; want = want->next)
        if (want->hash == hash && want->state != WANT_FAILED)
            return true;
    return false;
}

bool cold_let_go(struct cold *cold, uint64_t hash, uint64_t stable_hash)
{
    lock_take(&cold->lock);
    bool may_go = !is_being_loaded(cold, hash);
    if (may_go)
        remove_absent(cold, HOT_WANT_TARGET, hash);
    lock_release(&cold->lock);
    if (may_go)
        filter_add(cold->targets, stable_hash);
    return may_go;
}

void cold_let_go_user(struct cold *cold, uint64_t hash, struct slice name)
{
    lock_take(&cold->lock);
    remove_absent(cold, HOT_WANT_USER, hash);
    lock_release(&cold->lock);
    filter_add(cold->users, hash_stable(name));
}

void cold_let_go_key(struct cold *cold, uint64_t low, uint64_t high)
{
    lock_take(&cold->lock);
    remove_absent(cold, HOT_WANT_KEY, cold_key_hash(low, high));
    lock_release(&cold->lock);
    filter_add(cold->keys, low);
}

void cold_turn_keys(struct cold *cold)
{
    filter_free(cold->older_keys);
    cold->older_keys = cold->keys;
    cold->keys = new_keys();
}

/* ---- figures ---- */

uint64_t cold_misses(struct cold *cold)
{
    lock_take(&cold->lock);
    uint64_t misses = cold->misses;
    lock_release(&cold->lock);
    return misses;
}

size_t cold_bytes(struct cold *cold)
{
    lock_take(&cold->lock);
    size_t bytes = sizeof(*cold) + cold->want_count * sizeof(struct want) +
                   cold->absent_size * sizeof(*cold->absent);
    lock_release(&cold->lock);
    return bytes + filter_bytes(cold->targets) + filter_bytes(cold->users) +
           filter_bytes(cold->keys) + filter_bytes(cold->older_keys);
}
