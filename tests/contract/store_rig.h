/* store_rig.h - a store in a folder of its own, batches made by hand, and what is loaded
 * written as text, so that a test compares one line. */
#ifndef STORE_RIG_H
#define STORE_RIG_H

#include "unit/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "core/raw.h"
#include "core/store.h"
#include "core/user.h"

#define RIG_UNITS     64
#define RIG_REACTIONS 20000

typedef struct store *rig_open_fn(struct env *env, const char *folder);

struct rig {
    rig_open_fn *open;
    struct env env; /* of the system, with a clock of our own */
    int64_t now_ms;
    char folder[64];
    struct store *store;
    struct store_reader *reader;
    bool is_beside;  /* another rig owns the folder */
    bool by_lane;    /* of a log of many lanes, `origin` is ours */
    bool unnumbered; /* users are known by their names: the store gives the numbers */
    uint32_t origin;

    /* the batch being made */
    struct store_unit units[RIG_UNITS];
    size_t unit_count;
    struct store_reaction *reactions[RIG_UNITS];
    struct buffer raws[RIG_UNITS];
    struct state_key keys[8];
    size_t key_count;
    struct store_poison poison[4];
    size_t poison_count;
    struct event repairs[4];
    size_t repair_count;
    struct state_mark mark; /* after the last batch */
    uint64_t sequence;
    uint32_t next_number;
    char names[RIG_REACTIONS][16]; /* of users, by number */
    char text[4096];               /* what was loaded */
};

static struct rig *rig_of_clock;

static inline int64_t rig_clock(struct env *env)
{
    (void)env;
    return rig_of_clock->now_ms;
}

static inline void rig_open(struct rig *rig)
{
    rig->store = rig->open(&rig->env, rig->folder);
    assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL), ERR_OK);
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
}

/* Once more is fine. */
static inline void rig_close(struct rig *rig)
{
    store_reader_close(rig->reader);
    store_close(rig->store);
    rig->reader = NULL;
    rig->store = NULL;
}

static inline void rig_reopen(struct rig *rig)
{
    rig_close(rig);
    rig_open(rig);
}

static inline struct rig *rig_prepare(rig_open_fn *open)
{
    struct rig *rig = memory_take_zeroed(sizeof(*rig));
    rig->open = open;
    rig->env = *env_system();
    rig->env.wall_ms = rig_clock;
    rig->now_ms = 1700000000000;
    for (unsigned i = 0; i < RIG_UNITS; i++) {
        rig->reactions[i] = memory_take(RIG_REACTIONS * sizeof(**rig->reactions));
        buffer_init(&rig->raws[i], 64 << 20);
    }
    return rig;
}

static inline struct rig *rig_new(rig_open_fn *open)
{
    struct rig *rig = rig_prepare(open);
    rig_of_clock = rig;
    snprintf(rig->folder, sizeof(rig->folder), "/tmp/tally-store-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    rig_open(rig);
    return rig;
}

/* Another writer of what `rig` has, with a lane of its own. */
static inline struct rig *rig_new_beside(const struct rig *rig, uint32_t origin)
{
    struct rig *other = rig_prepare(rig->open);
    memcpy(other->folder, rig->folder, sizeof(other->folder));
    other->is_beside = other->by_lane = true;
    other->unnumbered = rig->unnumbered;
    other->origin = origin;
    rig_open(other);
    return other;
}

static inline void rig_free(struct rig *rig)
{
    rig_close(rig);
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", rig->folder);
    if (!rig->is_beside)
        assert_int_equal(system(command), 0); /* NOLINT: our own name */
    for (unsigned i = 0; i < RIG_UNITS; i++) {
        free(rig->reactions[i]);
        buffer_done(&rig->raws[i]);
    }
    free(rig);
}

/* ---- making a batch ---- */

static inline struct store_unit *rig_unit(struct rig *rig, const char *id, bool is_item)
{
    for (size_t i = 0; i < rig->unit_count; i++) {
        if (slice_equal(rig->units[i].id, slice_of(id)))
            return &rig->units[i];
    }
    assert_true(rig->unit_count < RIG_UNITS);
    struct store_unit *unit = &rig->units[rig->unit_count];
    *unit = (struct store_unit){
        .id = slice_of(id),
        .is_item = is_item,
        .may_create = true,
        .first_ms = rig->now_ms,
        .last_ms = rig->now_ms,
        .reactions = rig->reactions[rig->unit_count],
    };
    uint64_t random = env_random(&rig->env);
    memcpy(unit->event_id, &random, sizeof(random));
    memcpy(unit->event_id + 8, &rig->sequence, sizeof(rig->sequence));
    rig->raws[rig->unit_count].size = 0;
    rig->unit_count++;
    return unit;
}

/* Puts the event into the unit's raw ones, too. */
static inline void rig_event(struct rig *rig, struct store_unit *unit, const struct event *event)
{
    struct section section;
    section_init(&section);
    section_event(&section, event);
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, rig->origin, ++rig->sequence, rig->now_ms, header);
    struct buffer *raw = &rig->raws[unit - rig->units];
    assert_int_equal(raw_put(raw, (struct slice){header, size}, buffer_slice(&section.body)),
                     ERR_OK);
    unit->raw = buffer_slice(raw);
    unit->events++;
    section_done(&section);
}

static inline struct store_unit *rig_add(struct rig *rig, const char *id, int64_t delta)
{
    struct store_unit *unit = rig_unit(rig, id, false);
    struct number amount = number_of(delta);
    number_add(&unit->delta, &amount);
    rig_event(rig, unit, &(struct event){.type = EVENT_ADD, .id = slice_of(id), .amount = amount});
    return unit;
}

/* The number of a named user: known ones keep theirs. */
static inline uint32_t rig_number(struct rig *rig, const char *user)
{
    for (uint32_t i = 0; i < rig->next_number; i++) {
        if (strcmp(rig->names[i], user) == 0)
            return i;
    }
    assert_true(rig->next_number < RIG_REACTIONS);
    snprintf(rig->names[rig->next_number], sizeof(rig->names[0]), "%s", user);
    return rig->next_number++;
}

static inline void rig_react(struct rig *rig, const char *item, const char *user,
                             const char *before, const char *after)
{
    struct store_unit *unit = rig_unit(rig, item, true);
    assert_true(unit->reaction_count < RIG_REACTIONS);
    struct store_reaction *reaction = &rig->reactions[unit - rig->units][unit->reaction_count++];
    *reaction = (struct store_reaction){
        .user = slice_of(user),
        .bucket = bucket_of(slice_of(item), slice_of(user)),
        .before = slice_of(before),
        .after = slice_of(after),
        .time_ms = rig->now_ms,
        .origin = rig->origin,
        .sequence = rig->sequence + 1,
    };
    reaction->named = !user_is_numeric(reaction->user, &reaction->number);
    if (reaction->named)
        reaction->number = rig->unnumbered ? EVENT_NO_NUMBER : rig_number(rig, user);
    rig_event(rig, unit,
              &(struct event){.type = EVENT_REACT,
                              .id = slice_of(item),
                              .user = reaction->user,
                              .user_number = reaction->named ? reaction->number : EVENT_NO_NUMBER,
                              .before = reaction->before,
                              .after = reaction->after});
}

static inline struct store_batch rig_batch(struct rig *rig)
{
    struct store_batch batch = {
        .units = rig->units,
        .unit_count = rig->unit_count,
        .keys = rig->keys,
        .key_count = rig->key_count,
        .poison = rig->poison,
        .poison_count = rig->poison_count,
        .repairs = rig->repairs,
        .repair_count = rig->repair_count,
        .before = rig->mark.position,
        .after = rig->mark,
        .now_ms = rig->now_ms,
    };
    batch.after.sequences[rig->origin] = rig->sequence;
    if (!rig->by_lane) {
        batch.after.position.offset += 100;
        return batch;
    }
    batch.lanes = UINT64_C(1) << rig->origin;
    batch.after.lanes[rig->origin].offset += 100;
    memcpy(batch.before_sequences, rig->mark.sequences, sizeof(batch.before_sequences));
    return batch;
}

static inline void rig_forget(struct rig *rig)
{
    for (size_t i = 0; i < rig->unit_count; i++)
        number_done(&rig->units[i].delta);
    rig->unit_count = rig->key_count = rig->poison_count = rig->repair_count = 0;
}

/* Applies what was made; what it answers. The next batch starts empty. */
static inline enum err rig_apply(struct rig *rig, struct error *error)
{
    struct store_batch batch = rig_batch(rig);
    enum err err = store_apply(rig->store, &batch, error);
    if (!err)
        rig->mark = batch.after;
    rig_forget(rig);
    return err;
}

static inline void rig_apply_ok(struct rig *rig)
{
    struct error error = {.text = ""};
    if (rig_apply(rig, &error))
        fail_msg("%s", error.text);
}

/* ---- what is loaded, as text ---- */

static inline void rig_print(struct rig *rig, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void rig_print(struct rig *rig, const char *format, ...)
{
    size_t size = strlen(rig->text);
    va_list args;
    va_start(args, format);
    vsnprintf(rig->text + size, sizeof(rig->text) - size, format, args);
    va_end(args);
}

static inline void rig_print_members(struct rig *rig, const struct state_members *members,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rig_print(rig, " %.*s%s:", SLICE_ARGS(members[i].kind), members[i].named ? "*" : "");
        if (members[i].count > 8)
            rig_print(rig, "<%zu>", members[i].count);
        for (size_t j = 0; j < members[i].count && members[i].count <= 8; j++) {
            rig_print(rig, "%s", j > 0 ? "," : "");
            if (members[i].names)
                rig_print(rig, "%.*s", SLICE_ARGS(members[i].names[j]));
            else
                rig_print(rig, "%u", members[i].numbers[j]);
        }
    }
}

/* "c value=3 inc=0" or "v like=2 dislike=0 slices=1 like:1,2 like*:0 pending=1" */
static inline void rig_print_target(void *arg, const struct state_target *target)
{
    struct rig *rig = arg;
    rig_print(rig, "%s%.*s", rig->text[0] ? " | " : "", SLICE_ARGS(target->id));
    if (target->absent) {
        rig_print(rig, " absent");
    } else if (target->is_item) {
        for (size_t i = 0; i < target->kind_count; i++)
            rig_print(rig, " %.*s=%lld", SLICE_ARGS(target->kinds[i]),
                      (long long)target->counts[i]);
        rig_print(rig, " slices=%u", target->slices);
        rig_print_members(rig, target->members, target->member_count);
        if (target->create.shards != 1)
            rig_print(rig, " shards=%u", target->create.shards);
    } else {
        struct buffer digits;
        buffer_init(&digits, 4096);
        assert_int_equal(number_format(&target->value, &digits), ERR_OK);
        rig_print(rig, " value=%.*s", SLICE_ARGS(buffer_slice(&digits)));
        buffer_done(&digits);
        if (target->create.shards != 1 || target->create.has_floor || target->create.idle_s)
            rig_print(rig, " shards=%u policy=%s floor=%lld idle=%u", target->create.shards,
                      policy_name(target->create.policy), (long long)target->create.floor,
                      target->create.idle_s);
        if (target->deadline_ms)
            rig_print(rig, " deadline=%lld", (long long)target->deadline_ms);
    }
    if (target->incarnation)
        rig_print(rig, " inc=%u", target->incarnation);
    if (target->pending_count)
        rig_print(rig, " pending=%zu", target->pending_count);
}

/* What load_many() says of the ids at three places, of which the one in the middle has never been
 * there. */
struct rig_many {
    struct rig *rig;
    char *texts[3];
};

static inline void rig_keep_one_of_many(void *arg, size_t place, const struct state_target *target)
{
    struct rig_many *many = arg;
    many->rig->text[0] = 0;
    if (target)
        rig_print_target(many->rig, target);
    assert_true(place < 3);
    assert_null(many->texts[place]);
    many->texts[place] = strdup(target ? many->rig->text : "none");
}

/* A store that can load many at once says of each what load() says. */
static inline void rig_load_many(struct rig *rig, const char *id, const char *expected)
{
    struct rig_many many = {.rig = rig};
    struct slice ids[3] = {slice_of(id), SLICE("never there"), slice_of(id)};
    struct error error = {.text = ""};
    char *kept = strdup(expected);
    if (store_load_many(rig->reader, ids, 3, rig_keep_one_of_many, &many, &error))
        fail_msg("%s", error.text);
    assert_string_equal(many.texts[0], kept);
    assert_string_equal(many.texts[1], "none");
    assert_string_equal(many.texts[2], kept);
    for (unsigned i = 0; i < 3; i++)
        free(many.texts[i]);
    snprintf(rig->text, sizeof(rig->text), "%s", kept);
    free(kept);
}

static inline const char *rig_load(struct rig *rig, const char *id)
{
    rig->text[0] = 0;
    struct error error = {.text = ""};
    enum err err = store_load(rig->reader, slice_of(id), rig_print_target, rig, &error);
    if (err == ERR_NOT_FOUND)
        snprintf(rig->text, sizeof(rig->text), "none");
    else if (err)
        snprintf(rig->text, sizeof(rig->text), "%d: %s", (int)err, error.text);
    if ((!err || err == ERR_NOT_FOUND) && store_loads_many(rig->reader->store))
        rig_load_many(rig, id, rig->text);
    return rig->text;
}

#endif
