#include "hot/redis/want.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/lock.h"
#include "base/memory.h"

#define BUCKETS      4096u
#define WANTS_MAX    (1u << 16)
#define MS_NS        UINT64_C(1000000)
#define FORGOTTEN_NS (10000 * MS_NS)

enum state { WANT_WANTED, WANT_CLAIMING, WANT_READY, WANT_TAKEN, WANT_WAITING };

struct entry {
    struct want want;
    uint64_t hash;
    enum state state;
    enum err code;      /* WAITING: what who asks is told */
    uint64_t due_ns;    /* WAITING: until then */
    bool was_due;       /* WAITING: wants_is_due() has told */
    struct entry *next; /* of the same bucket */
    struct entry *next_number;
    struct entry *next_queued; /* WANTED, READY */
};

struct queue {
    struct entry *first;
    struct entry **last;
};

struct wants {
    struct env *env;   /* borrowed */
    uint64_t hash_key; /* random: clients choose ids, and with this not where they land */
    char node[40];
    struct lock lock; /* of all that follows */
    struct entry *buckets[BUCKETS];
    struct entry *numbers[BUCKETS];
    struct queue wanted;
    struct queue ready;
    uint64_t next_number;
    uint32_t count;
    uint64_t misses;
};

struct wants *wants_new(struct env *env, const char *node)
{
    struct wants *wants = memory_take_zeroed(sizeof(*wants));
    wants->env = env;
    wants->hash_key = env_random(env);
    (void)snprintf(wants->node, sizeof(wants->node), "%s", node);
    wants->wanted.last = &wants->wanted.first;
    wants->ready.last = &wants->ready.first;
    wants->next_number = 1;
    lock_init(&wants->lock);
    return wants;
}

void wants_free(struct wants *wants)
{
    if (!wants)
        return;
    for (unsigned i = 0; i < BUCKETS; i++)
        while (wants->buckets[i]) {
            struct entry *entry = wants->buckets[i];
            wants->buckets[i] = entry->next;
            free(entry);
        }
    lock_done(&wants->lock);
    free(wants);
}

/* ---- queues ---- */

static void push(struct queue *queue, struct entry *entry)
{
    entry->next_queued = NULL;
    *queue->last = entry;
    queue->last = &entry->next_queued;
}

static struct entry *pop(struct queue *queue)
{
    struct entry *entry = queue->first;
    if (!entry)
        return NULL;
    queue->first = entry->next_queued;
    if (!queue->first)
        queue->last = &queue->first;
    return entry;
}

static bool needs_token(const struct want_question *question)
{
    return !question->is_stale && question->kind != HOT_WANT_KEY;
}

static void to_queue(struct wants *wants, struct entry *entry)
{
    bool needs = needs_token(&entry->want.question);
    entry->state = needs ? WANT_WANTED : WANT_READY;
    push(needs ? &wants->wanted : &wants->ready, entry);
}

/* ---- finding ---- */

static uint64_t hash_of_key(const struct wants *wants, uint64_t low, uint64_t high)
{
    uint64_t key[2] = {low, high};
    return hash_keyed((struct slice){(const char *)key, sizeof(key)}, wants->hash_key);
}

static uint64_t hash_of(const struct wants *wants, const struct want_question *question)
{
    uint64_t what =
        (uint64_t)question->kind << 32 | (uint64_t)question->slice << 1 | question->is_stale;
    return question->kind == HOT_WANT_KEY
               ? hash_of_key(wants, question->key_low, question->key_high)
               : hash_keyed(question->id, wants->hash_key ^ what);
}

static bool is_same(const struct want_question *a, const struct want_question *b)
{
    return a->kind == b->kind && a->is_stale == b->is_stale && a->cell == b->cell &&
           a->slice == b->slice && a->key_low == b->key_low && a->key_high == b->key_high &&
           slice_equal(a->id, b->id);
}

static struct entry *find(struct wants *wants, uint64_t hash, const struct want_question *question)
{
    struct entry *entry = wants->buckets[hash % BUCKETS];
    while (entry && !(entry->hash == hash && is_same(&entry->want.question, question)))
        entry = entry->next;
    return entry;
}

static struct entry *find_number(struct wants *wants, uint64_t number)
{
    struct entry *entry = wants->numbers[number % BUCKETS];
    while (entry && entry->want.number != number)
        entry = entry->next_number;
    return entry;
}

static void remove_entry(struct wants *wants, struct entry *entry)
{
    struct entry **at = &wants->buckets[entry->hash % BUCKETS];
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    at = &wants->numbers[entry->want.number % BUCKETS];
    while (*at != entry)
        at = &(*at)->next_number;
    *at = entry->next_number;
    wants->count--;
    free(entry);
}

static void copy_out(const struct entry *entry, struct want *ret)
{
    *ret = entry->want;
    ret->question.id.data = ret->bytes;
}

/* ---- asking ---- */

static struct entry *add(struct wants *wants, uint64_t hash, const struct want_question *question)
{
    struct entry *entry = memory_take_zeroed(sizeof(*entry));
    struct want *want = &entry->want;
    assert(question->id.size <= sizeof(want->bytes));
    entry->hash = hash;
    want->number = wants->next_number++;
    want->question = *question;
    want->question.id.data = want->bytes;
    if (question->id.size > 0)
        memcpy(want->bytes, question->id.data, question->id.size);
    (void)snprintf(want->token, sizeof(want->token), "%s.%" PRIu64, wants->node, want->number);
    entry->next = wants->buckets[hash % BUCKETS];
    wants->buckets[hash % BUCKETS] = entry;
    entry->next_number = wants->numbers[want->number % BUCKETS];
    wants->numbers[want->number % BUCKETS] = entry;
    wants->count++;
    return entry;
}

static enum err add_locked(struct wants *wants, const struct want_question *question,
                           bool *ret_news)
{
    uint64_t hash = hash_of(wants, question);
    struct entry *entry = find(wants, hash, question);
    wants->misses++;
    if (!entry && wants->count == WANTS_MAX)
        return ERR_BUSY;
    if (entry && entry->state != WANT_WAITING)
        return ERR_COLD;
    if (entry && env_monotonic_ns(wants->env) < entry->due_ns)
        return entry->code;
    to_queue(wants, entry ? entry : add(wants, hash, question));
    *ret_news = true;
    return ERR_COLD;
}

enum err wants_add(struct wants *wants, const struct want_question *question, bool *ret_news)
{
    *ret_news = false;
    lock_take(&wants->lock);
    enum err err = add_locked(wants, question, ret_news);
    lock_release(&wants->lock);
    return err;
}

/* ---- taking ---- */

size_t wants_to_claim(struct wants *wants, struct want *to, size_t room)
{
    size_t count = 0;
    lock_take(&wants->lock);
    while (count < room && wants->wanted.first) {
        struct entry *entry = pop(&wants->wanted);
        entry->state = WANT_CLAIMING;
        copy_out(entry, &to[count++]);
    }
    lock_release(&wants->lock);
    return count;
}

void wants_claimed(struct wants *wants, uint64_t number)
{
    lock_take(&wants->lock);
    struct entry *entry = find_number(wants, number);
    if (entry && entry->state == WANT_CLAIMING) {
        entry->state = WANT_READY;
        push(&wants->ready, entry);
    }
    lock_release(&wants->lock);
}

bool wants_take(struct wants *wants, struct want *ret)
{
    lock_take(&wants->lock);
    struct entry *entry = pop(&wants->ready);
    if (entry) {
        entry->state = WANT_TAKEN;
        copy_out(entry, ret);
    }
    lock_release(&wants->lock);
    return entry != NULL;
}

/* A key's want has no room for a number: low and high are the key's own. */
static struct entry *find_key(struct wants *wants, uint64_t low, uint64_t high)
{
    struct entry *entry = wants->buckets[hash_of_key(wants, low, high) % BUCKETS];
    while (entry && !(entry->want.question.kind == HOT_WANT_KEY && entry->state == WANT_TAKEN &&
                      entry->want.question.key_low == low && entry->want.question.key_high == high))
        entry = entry->next;
    return entry;
}

bool wants_find(struct wants *wants, const struct hot_want *asked, struct want *ret)
{
    lock_take(&wants->lock);
    struct entry *entry = asked->kind == HOT_WANT_KEY
                              ? find_key(wants, asked->key_low, asked->key_high)
                              : find_number(wants, asked->key_low);
    bool is_taken =
        entry && entry->state == WANT_TAKEN && entry->want.question.kind == asked->kind &&
        (asked->kind == HOT_WANT_KEY || slice_equal(entry->want.question.id, asked->id));
    if (is_taken)
        copy_out(entry, ret);
    lock_release(&wants->lock);
    return is_taken;
}

/* ---- the end ---- */

void wants_end(struct wants *wants, uint64_t number)
{
    lock_take(&wants->lock);
    struct entry *entry = find_number(wants, number);
    if (entry && (entry->state == WANT_TAKEN || entry->state == WANT_CLAIMING))
        remove_entry(wants, entry);
    lock_release(&wants->lock);
}

void wants_wait(struct wants *wants, uint64_t number, enum err code, uint64_t wait_ms)
{
    lock_take(&wants->lock);
    struct entry *entry = find_number(wants, number);
    if (entry && (entry->state == WANT_TAKEN || entry->state == WANT_CLAIMING)) {
        entry->state = WANT_WAITING;
        entry->code = code;
        entry->due_ns = env_monotonic_ns(wants->env) + wait_ms * MS_NS;
        entry->was_due = code != ERR_COLD;
    }
    lock_release(&wants->lock);
}

bool wants_is_due(struct wants *wants, bool *ret_more)
{
    bool is_due = false;
    *ret_more = false;
    lock_take(&wants->lock);
    uint64_t now_ns = env_monotonic_ns(wants->env);
    for (unsigned i = 0; i < BUCKETS && wants->count > 0; i++)
        for (struct entry *entry = wants->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            if (entry->state != WANT_WAITING)
                continue;
            if (now_ns >= entry->due_ns + FORGOTTEN_NS) {
                remove_entry(wants, entry);
                continue;
            }
            bool is_new = !entry->was_due && now_ns >= entry->due_ns;
            entry->was_due |= is_new;
            is_due |= is_new;
            *ret_more = true;
        }
    lock_release(&wants->lock);
    return is_due;
}

uint64_t wants_misses(struct wants *wants)
{
    lock_take(&wants->lock);
    uint64_t misses = wants->misses;
    lock_release(&wants->lock);
    return misses;
}
