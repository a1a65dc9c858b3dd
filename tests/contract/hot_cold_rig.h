/* hot_cold_rig.h - a hot layer with a store behind it, for the tests of cold state.
 *
 * The log is a list of sections in memory. The shelf is the store: plain arrays that
 * the log's events are applied to, section by section, whenever a test says so, and
 * that answers what the hot layer wants. Time stands still unless a test moves it. */
#ifndef HOT_COLD_RIG_H
#define HOT_COLD_RIG_H

#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "core/bucket.h"
#include "core/hot.h"
#include "core/key.h"
#include "core/kinds.h"
#include "core/user.h"
#include "hot/memory/memory.h"

#define RIG_BEGAN_MS INT64_C(1700000000000)
#define LIKE         1u
#define DISLIKE      2u

/* ---- the log ---- */

struct memory_log {
    struct log base;
    pthread_mutex_t mutex;
    struct slice *sections; /* owned, with their bytes */
    size_t count;
    size_t capacity;
    enum err room;
};

static inline uint64_t memory_log_append(struct log *base, struct slice header, struct slice body)
{
    struct memory_log *log = (struct memory_log *)base;
    char *bytes = malloc(header.size + body.size);
    assert_non_null(bytes);
    memcpy(bytes, header.data, header.size);
    memcpy(bytes + header.size, body.data, body.size);
    pthread_mutex_lock(&log->mutex);
    if (log->count == log->capacity) {
        log->capacity = log->capacity ? log->capacity * 2 : 256;
        log->sections = realloc(log->sections, log->capacity * sizeof(*log->sections));
        assert_non_null(log->sections);
    }
    log->sections[log->count++] = (struct slice){bytes, header.size + body.size};
    uint64_t ticket = log->count;
    pthread_mutex_unlock(&log->mutex);
    return ticket;
}

static inline enum err memory_log_room(struct log *base)
{
    return ((struct memory_log *)base)->room;
}

static inline uint64_t memory_log_reached(struct log *base, unsigned lane, enum log_level level)
{
    (void)lane;
    (void)level;
    return ((struct memory_log *)base)->count;
}

static const struct log_ops memory_log_ops = {.name = "test",
                                              .append = memory_log_append,
                                              .room = memory_log_room,
                                              .reached = memory_log_reached};

/* ---- the shelf ---- */

#define SHELF_IDS   30000u
#define SHELF_SLOTS 65536u
#define SHELF_USERS 20000u
#define SHELF_KEYS  4096u

/* User number i of a test is "i" when i is even, and has a name when it is odd. */
static inline struct slice user_name(unsigned user, char to[32])
{
    int size = snprintf(to, 32, user % 2 == 0 ? "%u" : "user-number-%u-of-many", user);
    return (struct slice){to, (size_t)size};
}

static inline unsigned user_of(struct slice name)
{
    char text[64];
    assert_true(name.size < sizeof(text));
    memcpy(text, name.data, name.size);
    text[name.size] = 0;
    unsigned user;
    assert_true(sscanf(text, "user-number-%u-of-many", &user) == 1 ||
                sscanf(text, "%u", &user) == 1);
    assert_true(user < SHELF_USERS);
    return user;
}

struct shelf_id {
    char id[64];
    bool exists;
    bool is_item;
    bool sliced; /* for ever */
    uint32_t incarnation;
    int64_t written_ms;
    int64_t deadline_ms;
    struct op_create create;
    __int128 value;
    uint8_t *held; /* by user, NULL: nobody */
    int64_t counts[LIMIT_KINDS];
};

struct shelf {
    pthread_mutex_t mutex;
    struct shelf_id ids[SHELF_IDS];
    size_t id_count;
    uint16_t slots[SHELF_SLOTS];     /* number of an id plus one, by its hash */
    uint32_t number_of[SHELF_USERS]; /* plus one; 0 = none */
    struct state_key keys[SHELF_KEYS];
    char held_names[SHELF_KEYS][LIMIT_KIND_BYTES];
    size_t key_count;
    struct state_mark mark; /* its position is the number of sections applied */
    int64_t whole_max;      /* members of an item in one piece */
    enum err down;          /* what it answers instead of anything else */
    unsigned loads;
    const struct kinds *kinds;
};

static inline uint16_t *shelf_slot(struct shelf *shelf, struct slice id)
{
    size_t at = hash_stable(id) % SHELF_SLOTS;
    while (shelf->slots[at] != 0 && !slice_equal(slice_of(shelf->ids[shelf->slots[at] - 1].id), id))
        at = (at + 1) % SHELF_SLOTS;
    return &shelf->slots[at];
}

static inline struct shelf_id *shelf_find(struct shelf *shelf, struct slice id)
{
    uint16_t slot = *shelf_slot(shelf, id);
    return slot == 0 ? NULL : &shelf->ids[slot - 1];
}

static inline struct shelf_id *shelf_make(struct shelf *shelf, struct slice id)
{
    uint16_t *slot = shelf_slot(shelf, id);
    if (*slot != 0)
        return &shelf->ids[*slot - 1];
    assert_true(shelf->id_count < SHELF_IDS && id.size < sizeof(shelf->ids[0].id));
    *slot = (uint16_t)(shelf->id_count + 1);
    struct shelf_id *made = &shelf->ids[shelf->id_count++];
    memcpy(made->id, id.data, id.size);
    return made;
}

static inline int64_t shelf_members(const struct shelf_id *id)
{
    int64_t members = 0;
    for (unsigned i = 0; i < LIMIT_KINDS; i++)
        members += id->counts[i];
    return members;
}

static inline void shelf_bring(struct shelf *shelf, struct shelf_id *id, bool is_item,
                               uint32_t incarnation)
{
    if (id->exists)
        return;
    uint8_t *held = id->held;
    char name[64];
    memcpy(name, id->id, sizeof(name));
    *id = (struct shelf_id){.exists = true, .is_item = is_item, .incarnation = incarnation};
    id->create.shards = 1;
    memcpy(id->id, name, sizeof(name));
    id->held = held;
    if (held)
        memset(held, 0, SHELF_USERS);
    if (is_item)
        shelf->mark.items++;
    else
        shelf->mark.counters++;
}

static inline void shelf_remove(struct shelf *shelf, struct shelf_id *id)
{
    if (!id->exists)
        return;
    id->exists = false;
    if (id->is_item)
        shelf->mark.items--;
    else
        shelf->mark.counters--;
    shelf->mark.members -= (uint64_t)shelf_members(id);
    memset(id->counts, 0, sizeof(id->counts));
}

static inline void shelf_react(struct shelf *shelf, struct shelf_id *id, const struct event *event)
{
    unsigned user = user_of(event->user);
    if (event->user_number != EVENT_NO_NUMBER) {
        assert_true(shelf->number_of[user] == 0 ||
                    shelf->number_of[user] == event->user_number + 1);
        shelf->number_of[user] = event->user_number + 1;
        if (shelf->mark.next_user <= event->user_number)
            shelf->mark.next_user = event->user_number + 1;
    }
    if (!id->held)
        id->held = calloc(1, SHELF_USERS);
    assert_non_null(id->held);
    uint8_t before = kinds_find(shelf->kinds, event->before);
    uint8_t after = kinds_find(shelf->kinds, event->after);
    assert_int_equal(id->held[user], before);
    id->held[user] = after;
    if (before)
        id->counts[before - 1]--;
    if (after)
        id->counts[after - 1]++;
    shelf->mark.members += (uint64_t)((after != 0) - (before != 0));
    if (shelf_members(id) > shelf->whole_max)
        id->sliced = true;
}

static inline void shelf_key(struct shelf *shelf, const struct event *event)
{
    assert_true(shelf->key_count < SHELF_KEYS);
    struct hash128 hash = key_hash(event->id, event->key);
    char *held = shelf->held_names[shelf->key_count];
    if (event->answer.held.size > 0)
        memcpy(held, event->answer.held.data, event->answer.held.size);
    shelf->keys[shelf->key_count++] =
        (struct state_key){.low = hash.low,
                           .high = hash.high,
                           .fingerprint = event->answer.fingerprint,
                           .changed = event->answer.changed,
                           .held = {held, event->answer.held.size},
                           .value = number_of(event->answer.value.small),
                           .time_ms = event->time_ms};
}

static inline void shelf_event(struct shelf *shelf, const struct event *event)
{
    assert_int_equal(event->sequence, shelf->mark.sequences[event->origin] + 1);
    shelf->mark.sequences[event->origin] = event->sequence;
    if (event->key.size > 0)
        shelf_key(shelf, event);
    struct slice item;
    uint8_t kind;
    bool of_kind = kinds_split(shelf->kinds, event->id, &item, &kind);
    struct shelf_id *id = shelf_make(shelf, of_kind ? item : event->id);
    bool is_item = of_kind || event->type == EVENT_REACT;
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        shelf_bring(shelf, id, false, event->incarnation);
        id->value += event->amount.small;
        break;
    case EVENT_DELETE:
        shelf_remove(shelf, id);
        shelf->mark.incarnations[hash_stable(slice_of(id->id)) >> 58] = event->next_incarnation;
        return;
    case EVENT_CREATE:
        shelf_bring(shelf, id, is_item, event->incarnation);
        id->create = event->create;
        break;
    case EVENT_EXPIRE:
        id->deadline_ms = event->deadline_ms;
        break;
    case EVENT_REACT:
        shelf_bring(shelf, id, true, event->incarnation);
        shelf_react(shelf, id, event);
        break;
    case EVENT_NOTHING:
    case EVENT_REPAIR:
    case EVENT_EPOCH:
    case EVENT_AFTER:
        return;
    }
    id->written_ms = event->time_ms;
}

static inline void shelf_section(struct shelf *shelf, struct slice section)
{
    struct section_reader reader;
    struct event event;
    struct error error;
    assert_int_equal(section_open(&reader, section, &error), ERR_OK);
    while (section_next(&reader, &event, &error) == ERR_OK) {
        shelf_event(shelf, &event);
        event_done(&event);
    }
    shelf->mark.position.offset++;
}

/* ---- the rig ---- */

struct cold_rig {
    /* set before cold_open() */
    unsigned workers; /* 0 = 2 */
    uint64_t retention_ms;
    uint64_t memory_max;
    uint64_t spread_rate;
    const char *kind_list;

    int64_t now_ms;
    struct env env;
    struct kinds kinds;
    struct memory_log log;
    struct shelf *shelf;
    struct hot *hot;
    unsigned cold; /* times an op had to wait */
};

static _Atomic uint64_t rig_monotonic_ns = 1000000000;

static inline uint64_t rig_monotonic(struct env *env)
{
    (void)env;
    return atomic_load(&rig_monotonic_ns);
}

static inline void cold_open_hot(struct cold_rig *rig)
{
    struct memory_hot_options options = {.kinds = &rig->kinds,
                                         .log = &rig->log.base,
                                         .workers = rig->workers,
                                         .guests = 1,
                                         .keys_kept_ms = 24 * 3600 * 1000,
                                         .spread_rate = rig->spread_rate,
                                         .retention_ms = rig->retention_ms,
                                         .memory_max = rig->memory_max};
    rig->hot = memory_hot_open(&rig->env, &options);
    hot_begin(rig->hot, &rig->shelf->mark);
}

static inline void cold_open(struct cold_rig *rig)
{
    rig->workers = rig->workers ? rig->workers : 2;
    rig->now_ms = RIG_BEGAN_MS;
    rig->env = *env_system();
    rig->env.monotonic_ns = rig_monotonic;
    rig->log.base.ops = &memory_log_ops;
    pthread_mutex_init(&rig->log.mutex, NULL);
    assert_int_equal(
        kinds_parse(&rig->kinds, slice_of(rig->kind_list ? rig->kind_list : "like,dislike"), NULL),
        ERR_OK);
    rig->shelf = calloc(1, sizeof(*rig->shelf));
    assert_non_null(rig->shelf);
    pthread_mutex_init(&rig->shelf->mutex, NULL);
    rig->shelf->whole_max = STATE_WHOLE_MAX;
    rig->shelf->kinds = &rig->kinds;
    cold_open_hot(rig);
}

static inline void cold_close(struct cold_rig *rig)
{
    hot_close(rig->hot);
    for (size_t i = 0; i < rig->log.count; i++)
        free((char *)rig->log.sections[i].data);
    free(rig->log.sections);
    for (size_t i = 0; i < rig->shelf->id_count; i++)
        free(rig->shelf->ids[i].held);
    free(rig->shelf);
    *rig = (struct cold_rig){0};
}

/* The store takes up to `count` sections; nothing is said to the hot layer. */
static inline void cold_store(struct cold_rig *rig, size_t count)
{
    pthread_mutex_lock(&rig->shelf->mutex);
    for (; count > 0; count--) {
        pthread_mutex_lock(&rig->log.mutex);
        uint64_t next = rig->shelf->mark.position.offset;
        bool any = next < rig->log.count;
        struct slice section = any ? rig->log.sections[next] : (struct slice){NULL, 0};
        pthread_mutex_unlock(&rig->log.mutex);
        if (!any)
            break;
        shelf_section(rig->shelf, section);
    }
    pthread_mutex_unlock(&rig->shelf->mutex);
}

static inline void cold_tell_saved(struct cold_rig *rig)
{
    uint64_t sequences[LIMIT_CELLS];
    pthread_mutex_lock(&rig->shelf->mutex);
    memcpy(sequences, rig->shelf->mark.sequences, sizeof(sequences));
    pthread_mutex_unlock(&rig->shelf->mutex);
    hot_saved(rig->hot, sequences);
}

/* Everything is in the store, and the hot layer knows it. */
static inline void cold_save(struct cold_rig *rig)
{
    cold_store(rig, SIZE_MAX);
    cold_tell_saved(rig);
}

/* All ids and users of the store are told. */
static inline void cold_tell_all(struct cold_rig *rig)
{
    char name[32];
    for (size_t i = 0; i < rig->shelf->id_count; i++)
        if (rig->shelf->ids[i].exists)
            hot_tell(rig->hot, HOT_WANT_TARGET, hash_stable(slice_of(rig->shelf->ids[i].id)));
    for (unsigned user = 1; user < SHELF_USERS; user += 2)
        if (rig->shelf->number_of[user] != 0)
            hot_tell(rig->hot, HOT_WANT_USER, hash_stable(user_name(user, name)));
    hot_told_all(rig->hot, HOT_WANT_TARGET);
    hot_told_all(rig->hot, HOT_WANT_USER);
}

/* ---- answers ---- */

/* The members of an item, as the store keeps them: by kind and class. */
struct shelf_sets {
    struct state_members sets[LIMIT_KINDS * 2];
    uint32_t *numbers; /* owned */
    size_t count;
};

static inline int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Of one slice, or of all: STATE_SLICES. */
static inline void shelf_sets(const struct shelf *shelf, const struct shelf_id *id, uint32_t slice,
                              struct shelf_sets *ret)
{
    *ret = (struct shelf_sets){.numbers = malloc((size_t)SHELF_USERS * sizeof(uint32_t) + 4)};
    assert_non_null(ret->numbers);
    uint32_t *next = ret->numbers;
    for (uint8_t kind = 1; kind <= shelf->kinds->count; kind++)
        for (unsigned named = 0; named < 2; named++) {
            uint32_t *first = next;
            for (unsigned user = named; id->held && user < SHELF_USERS; user += 2) {
                char name[32];
                if (id->held[user] != kind ||
                    (slice < STATE_SLICES &&
                     bucket_slice(bucket_of(slice_of(id->id), user_name(user, name))) != slice))
                    continue;
                *next++ = named ? shelf->number_of[user] - 1 : user;
            }
            qsort(first, (size_t)(next - first), sizeof(*first), compare_numbers);
            ret->sets[ret->count++] = (struct state_members){.kind = kinds_name(shelf->kinds, kind),
                                                             .named = named == 1,
                                                             .numbers = first,
                                                             .count = (size_t)(next - first)};
        }
}

static inline void answer_target(struct cold_rig *rig, const struct hot_want *want)
{
    struct shelf *shelf = rig->shelf;
    const struct shelf_id *id = shelf_find(shelf, want->id);
    struct hot_found found = {.code = ERR_NOT_FOUND};
    struct state_target target = {0};
    struct shelf_sets sets = {0};
    struct slice kinds[LIMIT_KINDS];
    for (unsigned i = 0; i < rig->kinds.count; i++)
        kinds[i] = kinds_name(&rig->kinds, (uint8_t)(i + 1));
    if (id && id->exists) {
        target = (struct state_target){.id = want->id,
                                       .is_item = id->is_item,
                                       .incarnation = id->incarnation,
                                       .written_ms = id->written_ms,
                                       .value = number_of((int64_t)id->value),
                                       .create = id->create,
                                       .deadline_ms = id->deadline_ms,
                                       .kinds = kinds,
                                       .counts = id->counts,
                                       .kind_count = rig->kinds.count,
                                       .slices = id->sliced ? STATE_SLICES : 1};
        if (id->is_item && !id->sliced) {
            shelf_sets(shelf, id, STATE_SLICES, &sets);
            target.members = sets.sets;
            target.member_count = sets.count;
        }
        found = (struct hot_found){.code = ERR_OK, .target = &target};
    }
    hot_loaded(rig->hot, want, &found);
    free(sets.numbers);
}

static inline void answer_names(struct cold_rig *rig, const struct hot_want *want)
{
    struct slice *names = calloc(want->number_count, sizeof(*names));
    char(*texts)[32] = calloc(want->number_count, sizeof(*texts));
    assert_non_null(names);
    assert_non_null(texts);
    for (size_t i = 0; i < want->number_count; i++)
        for (unsigned user = 1; user < SHELF_USERS; user += 2)
            if (rig->shelf->number_of[user] == want->numbers[i] + 1)
                names[i] = user_name(user, texts[i]);
    hot_loaded(rig->hot, want, &(struct hot_found){.code = ERR_OK, .names = names});
    free(names);
    free(texts);
}

static inline void answer_slice(struct cold_rig *rig, const struct hot_want *want)
{
    const struct shelf_id *id = shelf_find(rig->shelf, want->id);
    assert_true(id && id->exists && id->sliced);
    struct shelf_sets sets;
    shelf_sets(rig->shelf, id, want->slice, &sets);
    hot_loaded(
        rig->hot, want,
        &(struct hot_found){.code = ERR_OK, .members = sets.sets, .member_count = sets.count});
    free(sets.numbers);
}

static inline void answer_key(struct cold_rig *rig, const struct hot_want *want)
{
    struct hot_found found = {.code = ERR_NOT_FOUND};
    for (size_t i = 0; i < rig->shelf->key_count; i++)
        if (rig->shelf->keys[i].low == want->key_low && rig->shelf->keys[i].high == want->key_high)
            found = (struct hot_found){.code = ERR_OK, .key = &rig->shelf->keys[i]};
    hot_loaded(rig->hot, want, &found);
}

static inline void answer(struct cold_rig *rig, const struct hot_want *want)
{
    pthread_mutex_lock(&rig->shelf->mutex);
    rig->shelf->loads++;
    if (rig->shelf->down) {
        hot_loaded(rig->hot, want, &(struct hot_found){.code = rig->shelf->down});
    } else if (want->kind == HOT_WANT_TARGET) {
        answer_target(rig, want);
    } else if (want->kind == HOT_WANT_SLICE) {
        answer_slice(rig, want);
    } else if (want->kind == HOT_WANT_NAMES) {
        answer_names(rig, want);
    } else if (want->kind == HOT_WANT_KEY) {
        answer_key(rig, want);
    } else {
        uint32_t number = rig->shelf->number_of[user_of(want->id)];
        hot_loaded(rig->hot, want,
                   &(struct hot_found){.code = number ? ERR_OK : ERR_NOT_FOUND,
                                       .user_number = number - 1});
    }
    pthread_mutex_unlock(&rig->shelf->mutex);
}

/* Answers everything that is wanted; how many that were. */
static inline unsigned cold_load(struct cold_rig *rig)
{
    struct hot_want want;
    unsigned count = 0;
    for (; hot_wanted(rig->hot, &want); count++)
        answer(rig, &want);
    return count;
}

/* ---- ops ---- */

static inline void cold_done(struct batch *batch)
{
    ++*(unsigned *)batch->arg;
}

/* Runs the ops once. */
static inline void cold_run(struct cold_rig *rig, unsigned worker, struct op *ops, size_t count)
{
    unsigned done = 0;
    struct batch batch = {.ops = ops,
                          .count = count,
                          .worker = worker,
                          .now_ms = rig->now_ms,
                          .done = cold_done,
                          .arg = &done};
    hot_run(rig->hot, &batch);
    assert_int_equal(done, 1);
}

/* Runs them until none of them waits any more, as a door does. */
static inline void cold_finish(struct cold_rig *rig, unsigned worker, struct op *ops, size_t count)
{
    struct op *waiting = malloc(count * sizeof(*waiting));
    size_t *places = malloc(count * sizeof(*places));
    assert_true(waiting && places);
    cold_run(rig, worker, ops, count);
    for (unsigned round = 0;; round++) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++)
            if (ops[i].code == ERR_COLD) {
                waiting[left] = ops[i];
                places[left++] = i;
            }
        if (left == 0)
            break;
        assert_true(round < 1000); /* it would wait for ever */
        rig->cold++;
        cold_load(rig);
        cold_run(rig, worker, waiting, left);
        for (size_t i = 0; i < left; i++)
            ops[places[i]] = waiting[i];
    }
    free(waiting);
    free(places);
}

static inline struct op cold_ask(struct cold_rig *rig, struct op op)
{
    cold_finish(rig, 0, &op, 1);
    return op;
}

/* Once, without waiting. */
static inline struct op cold_try(struct cold_rig *rig, struct op op)
{
    cold_run(rig, 0, &op, 1);
    return op;
}

static inline struct op on(enum op_kind kind, const char *id)
{
    return (struct op){.kind = kind, .id = slice_of(id)};
}

static inline struct op get(const char *id)
{
    return on(OP_GET, id);
}

static inline struct op add(const char *id, int64_t amount)
{
    return (struct op){.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
}

static inline struct op reaction(enum op_kind kind, const char *item, struct slice user,
                                 unsigned what)
{
    return (struct op){.kind = kind, .id = slice_of(item), .user = user, .reaction = (uint8_t)what};
}

/* ---- starting again ---- */

/* A new process: begins at the store's mark and replays what is behind it. */
static inline void cold_restart(struct cold_rig *rig)
{
    hot_close(rig->hot);
    cold_open_hot(rig);
    for (size_t i = rig->shelf->mark.position.offset; i < rig->log.count; i++) {
        struct section_reader reader;
        struct event event;
        struct error error = {.text = ""};
        assert_int_equal(section_open(&reader, rig->log.sections[i], &error), ERR_OK);
        while (section_next(&reader, &event, &error) == ERR_OK) {
            enum err err;
            unsigned tries = 0;
            while ((err = hot_replay(rig->hot, &event, &error)) == ERR_COLD) {
                assert_true(cold_load(rig) > 0 && ++tries < 10);
            }
            if (err)
                fail_msg("%s", error.text);
            event_done(&event);
        }
    }
}

#endif
