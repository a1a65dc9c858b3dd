#include "sim/sim_proof.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/event.h"
#include "core/key.h"
#include "core/user.h"
#include "sim/sim_names.h"

#define USERS_MAX    160u
#define KEYS_AT_ONCE 7u

/* What events make of an id. */
struct folded {
    enum { FOLD_NOTHING, FOLD_COUNTER, FOLD_ITEM } thing;
    sim_wide value;
    struct op_create create;
    int64_t deadline_ms;
    uint32_t incarnation;
    uint8_t held[USERS_MAX];
};

/* A member, as the store has it. */
struct listed {
    uint32_t number;
    bool named;
    uint8_t kind;
};

struct proof {
    struct world *world;
    struct store_reader *reader;
    struct state_mark mark;
    unsigned id;
    struct folded folded;
    /* Events that wait in the store: they are no part of its numbers. */
    struct {
        uint32_t origin;
        uint64_t sequence;
    } * waiting;
    size_t waiting_count;

    /* What the store has: the target without its pointers, and what they pointed to. */
    bool found;
    struct state_target target;
    sim_wide value;
    int64_t counts[SIM_KINDS];
    struct listed members[2 * USERS_MAX];
    size_t member_count;
    uint8_t held[USERS_MAX]; /* by user */
    size_t named_count;      /* members whose names were found */
};

static void wrong(const struct proof *proof, const char *what)
{
    report_violation(proof->world->report, "the store at its mark: id %u: %s", proof->id, what);
}

/* ---- what the log says ---- */

static bool is_waiting(const struct proof *proof, const struct event *event)
{
    for (size_t i = 0; i < proof->waiting_count; i++) {
        if (proof->waiting[i].origin == event->origin &&
            proof->waiting[i].sequence == event->sequence)
            return true;
    }
    return false;
}

static void fold(struct proof *proof, const struct event *event)
{
    struct folded *folded = &proof->folded;
    const struct kinds *kinds = &proof->world->kinds;
    if (folded->thing == FOLD_NOTHING && event->type != EVENT_DELETE)
        *folded = (struct folded){.create.shards = 1, .incarnation = event->incarnation};
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        folded->thing = FOLD_COUNTER;
        folded->value += sim_number_wide(&event->amount);
        break;
    case EVENT_DELETE:
        *folded = (struct folded){.thing = FOLD_NOTHING};
        break;
    case EVENT_CREATE: {
        struct slice item;
        uint8_t kind;
        folded->thing = kinds_split(kinds, event->id, &item, &kind) ? FOLD_ITEM : FOLD_COUNTER;
        folded->create = event->create;
        break;
    }
    case EVENT_EXPIRE:
        folded->deadline_ms = event->deadline_ms;
        break;
    case EVENT_REACT: {
        folded->thing = FOLD_ITEM;
        if (event->erased)
            break; /* of somebody who has withdrawn everything since */
        unsigned user = sim_user_of(event->user);
        assert(user < USERS_MAX);
        folded->held[user] = kinds_find(kinds, event->after);
        break;
    }
    case EVENT_NOTHING:
    case EVENT_REPAIR:
    case EVENT_EPOCH:
    case EVENT_AFTER:
        break;
    }
}

static void fold_event(struct proof *proof, const struct event *event)
{
    struct slice item = event->id;
    uint8_t kind;
    kinds_split(&proof->world->kinds, event->id, &item, &kind);
    bool counts = sim_id_of(item) == proof->id && event_changes(event->type) &&
                  event->sequence <= proof->mark.sequences[event->origin];
    if (counts && !is_waiting(proof, event))
        fold(proof, event);
}

static void fold_log(struct proof *proof)
{
    const struct journal *journal = &proof->world->journal;
    proof->folded = (struct folded){.thing = FOLD_NOTHING};
    for (uint64_t i = 0; i < journal->count; i++) {
        struct section_reader reader;
        struct event event;
        struct slice section = {journal->sections[i].bytes, journal->sections[i].size};
        if (section_open(&reader, section, NULL))
            continue;
        while (section_next(&reader, &event, NULL) == ERR_OK) {
            fold_event(proof, &event);
            event_done(&event);
        }
    }
}

/* ---- what the store says ---- */

static void list_members(struct proof *proof, const struct state_members *sets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t kind = kinds_find(&proof->world->kinds, sets[i].kind);
        for (size_t k = 0; k < sets[i].count; k++) {
            if (proof->member_count == sizeof(proof->members) / sizeof(proof->members[0])) {
                wrong(proof, "it has more members than there are users");
                return;
            }
            proof->members[proof->member_count++] =
                (struct listed){sets[i].numbers[k], sets[i].named, kind};
        }
    }
}

static void keep_slice(void *arg, const struct state_members *sets, size_t count,
                       const struct event *pending, size_t pending_count)
{
    (void)pending;
    (void)pending_count;
    list_members(arg, sets, count);
}

static void keep_waiting(struct proof *proof, const struct state_target *target)
{
    proof->waiting = realloc(proof->waiting, (target->pending_count + 1) * sizeof(*proof->waiting));
    if (!proof->waiting)
        abort();
    proof->waiting_count = target->pending_count;
    for (size_t i = 0; i < target->pending_count; i++) {
        proof->waiting[i].origin = target->pending[i].origin;
        proof->waiting[i].sequence = target->pending[i].sequence;
    }
}

static void keep_target(void *arg, const struct state_target *target)
{
    struct proof *proof = arg;
    proof->found = true;
    proof->target = *target;
    proof->value = sim_number_wide(&target->value);
    for (size_t i = 0; i < target->kind_count; i++) {
        uint8_t kind = kinds_find(&proof->world->kinds, target->kinds[i]);
        if (kind != KIND_NONE)
            proof->counts[kind - 1] = target->counts[i];
    }
    keep_waiting(proof, target);
    list_members(proof, target->members, target->member_count);
}

/* All of the id; in calls one after the other, since a reader does one thing at a time. */
static void read_id(struct proof *proof, struct slice name)
{
    struct error error = {.text = ""};
    proof->found = false;
    proof->waiting_count = 0;
    proof->member_count = 0;
    memset(proof->counts, 0, sizeof(proof->counts));
    enum err err = store_load(proof->reader, name, keep_target, proof, &error);
    bool is_cut = proof->found && proof->target.is_item && proof->target.slices > 1;
    for (uint32_t slice = 0; is_cut && slice < proof->target.slices; slice++) {
        enum err slice_err =
            store_load_slice(proof->reader, name, slice, keep_slice, proof, &error);
        if (slice_err && slice_err != ERR_NOT_FOUND)
            err = slice_err;
    }
    if (err && err != ERR_NOT_FOUND)
        report_violation(proof->world->report, "the store cannot be read: %s", error.text);
}

/* ---- comparing ---- */

static void note_member(struct proof *proof, struct slice name, uint8_t kind)
{
    unsigned user = sim_user_of(name);
    if (user >= proof->world->options->users) {
        wrong(proof, "a member whom nobody knows");
        return;
    }
    if (proof->held[user] != KIND_NONE)
        wrong(proof, "a user is in its sets twice");
    proof->held[user] = kind;
}

static void note_name(void *arg, uint32_t number, struct slice name)
{
    struct proof *proof = arg;
    for (size_t i = 0; i < proof->member_count; i++) {
        if (proof->members[i].named && proof->members[i].number == number) {
            note_member(proof, name, proof->members[i].kind);
            proof->named_count++;
        }
    }
}

static void name_members(struct proof *proof)
{
    uint32_t numbers[2 * USERS_MAX];
    size_t count = 0;
    memset(proof->held, 0, sizeof(proof->held));
    proof->named_count = 0;
    for (size_t i = 0; i < proof->member_count; i++) {
        const struct listed *member = &proof->members[i];
        char digits[16];
        int size = snprintf(digits, sizeof(digits), "%" PRIu32, member->number);
        if (member->named)
            numbers[count++] = member->number;
        else
            note_member(proof, (struct slice){digits, (size_t)size}, member->kind);
    }
    if (count > 0 && store_names(proof->reader, numbers, count, note_name, proof, NULL))
        wrong(proof, "the names of its members cannot be read");
    else if (proof->named_count != count)
        wrong(proof, "a member has no name, or several");
}

static void compare_item(struct proof *proof)
{
    name_members(proof);
    int64_t counts[SIM_KINDS] = {0};
    for (unsigned user = 0; user < proof->world->options->users; user++) {
        if (proof->held[user] != proof->folded.held[user])
            wrong(proof, "a user holds something else than the log says");
        if (proof->held[user] != KIND_NONE)
            counts[proof->held[user] - 1]++;
    }
    if (memcmp(counts, proof->counts, sizeof(counts)) != 0)
        wrong(proof, "a count is not the number of members");
}

static void compare_counter(struct proof *proof)
{
    const struct folded *folded = &proof->folded;
    if (proof->value != folded->value)
        wrong(proof, "the events of the log add up to another value");
    if (proof->target.deadline_ms != folded->deadline_ms)
        wrong(proof, "it has another deadline");
    const struct op_create *a = &proof->target.create;
    const struct op_create *b = &folded->create;
    if (a->shards != b->shards || a->policy != b->policy || a->has_floor != b->has_floor ||
        (a->has_floor && a->floor != b->floor) || a->idle_s != b->idle_s)
        wrong(proof, "it is not as it was created");
}

static void prove_id(struct proof *proof, unsigned id)
{
    char name[SIM_NAME_BYTES];
    proof->id = id;
    read_id(proof, sim_id_name(proof->world->options, id, 0, name));
    fold_log(proof);
    const struct folded *folded = &proof->folded;
    const struct state_target *target = &proof->target;
    if (!proof->found || target->absent) {
        if (folded->thing != FOLD_NOTHING)
            wrong(proof, "it is not there");
    } else if (folded->thing == FOLD_NOTHING) {
        wrong(proof, "it should not be there");
    } else if (target->is_item != (folded->thing == FOLD_ITEM)) {
        wrong(proof, "it is something else");
    } else if (target->incarnation != folded->incarnation) {
        wrong(proof, "it is of another incarnation");
    } else if (target->is_item) {
        compare_item(proof);
    } else {
        compare_counter(proof);
    }
}

/* ---- the base of recounts ---- */

static sim_wide amount_of(const struct proof *proof, const struct event *event, uint8_t kind)
{
    const struct kinds *kinds = &proof->world->kinds;
    if (kind == KIND_NONE && (event->type == EVENT_ADD || event->type == EVENT_RESET))
        return sim_number_wide(&event->amount);
    if (kind == KIND_NONE || event->type != EVENT_REACT)
        return 0;
    return (kinds_find(kinds, event->after) == kind) - (kinds_find(kinds, event->before) == kind);
}

/* The sum of the events of the sections `from` up to `to`; begins anew with a deletion. */
static sim_wide sum_of(struct proof *proof, uint8_t kind, sim_wide sum, uint64_t from, uint64_t to)
{
    const struct journal *journal = &proof->world->journal;
    for (uint64_t i = from; i < to; i++) {
        struct section_reader reader;
        struct event event;
        struct slice section = {journal->sections[i].bytes, journal->sections[i].size};
        if (section_open(&reader, section, NULL))
            continue;
        while (section_next(&reader, &event, NULL) == ERR_OK) {
            struct slice item = event.id;
            uint8_t ignored;
            kinds_split(&proof->world->kinds, event.id, &item, &ignored);
            if (sim_id_of(item) == proof->id)
                sum = event.type == EVENT_DELETE ? 0 : sum + amount_of(proof, &event, kind);
            event_done(&event);
        }
    }
    return sum;
}

static void prove_base(struct proof *proof, unsigned id, uint8_t kind)
{
    char name[SIM_NAME_BYTES];
    struct number base = number_of(0);
    struct number discarded = number_of(0);
    struct log_position position = {0};
    struct slice text = sim_id_name(proof->world->options, id, kind, name);
    enum err err = store_base(proof->reader, text, &base, &discarded, &position, NULL);
    if (err && err != ERR_NOT_FOUND)
        report_violation(proof->world->report, "the base cannot be read");
    proof->id = id;
    const struct journal *journal = &proof->world->journal;
    uint64_t begin = 0;
    while (begin < journal->count && journal->sections[begin].next.segment != 0 &&
           journal->sections[begin].next.segment < position.segment)
        begin++;
    if (sum_of(proof, kind, 0, 0, begin) != sim_number_wide(&base))
        wrong(proof, "the recorded base is not the sum of what was trimmed");
    number_done(&base);
    number_done(&discarded);
}

/* ---- keys ---- */

/* Halves of the hashes that the store tells when it is asked for all of them. */
struct told {
    uint64_t *keys; /* owned */
    size_t count;
};

static void note_key(void *arg, const struct state_key *key)
{
    struct told *told = arg;
    told->keys = realloc(told->keys, (told->count + 1) * sizeof(*told->keys));
    if (!told->keys)
        abort();
    told->keys[told->count++] = key->low;
}

static void list_keys(struct proof *proof, int64_t since_ms, struct told *told)
{
    struct error error = {.text = ""};
    uint64_t cursor = 0;
    do {
        if (store_keys(proof->reader, since_ms, &cursor, KEYS_AT_ONCE, note_key, told, &error)) {
            report_violation(proof->world->report, "the keys cannot be listed: %s", error.text);
            return;
        }
    } while (cursor != 0);
}

static bool is_told(const struct told *told, uint64_t low)
{
    for (size_t i = 0; i < told->count; i++) {
        if (told->keys[i] == low)
            return true;
    }
    return false;
}

static void ignore_key(void *arg, const struct state_key *key)
{
    (void)arg;
    (void)key;
}

/* What was written with a key can be asked for, as long as keys are kept. */
static void prove_key(struct proof *proof, const struct told *told, const struct event *event)
{
    struct hash128 hash = key_hash(event->id, event->key);
    if (!is_told(told, hash.low))
        report_violation(proof->world->report, "the store at its mark: key '%.*s' is not told",
                         SLICE_ARGS(event->key));
    struct error error = {.text = ""};
    enum err err = store_find_key(proof->reader, hash.low, hash.high, ignore_key, NULL, &error);
    if (err)
        report_violation(proof->world->report, "the store at its mark: key '%.*s': %s",
                         SLICE_ARGS(event->key), err == ERR_NOT_FOUND ? "not there" : error.text);
}

static void prove_keys(struct proof *proof)
{
    const struct journal *journal = &proof->world->journal;
    int64_t since_ms = proof->world->latest_ms - WORLD_KEYS_KEPT_MS;
    struct told told = {0};
    list_keys(proof, since_ms, &told);
    for (uint64_t i = 0; i < journal->count && !proof->world->report->failed; i++) {
        struct section_reader reader;
        struct event event;
        struct slice section = {journal->sections[i].bytes, journal->sections[i].size};
        if (section_open(&reader, section, NULL))
            continue;
        while (section_next(&reader, &event, NULL) == ERR_OK) {
            if (event.key.size > 0 && !event.erased && event.time_ms > since_ms &&
                event.sequence <= proof->mark.sequences[event.origin])
                prove_key(proof, &told, &event);
            event_done(&event);
        }
    }
    free(told.keys);
}

/* ---- all of it ---- */

void proof_of_store(struct world *world)
{
    struct proof proof = {.world = world};
    struct error error = {.text = ""};
    enum err err = store_reader_open(world->store, &proof.reader, &error);
    if (!err)
        err = store_mark(world->store, &proof.mark, &error);
    if (err) {
        report_violation(world->report, "the store cannot be opened: %s", error.text);
        return;
    }
    world->report->proofs++;
    for (unsigned id = 0; id < world->options->ids && !world->report->failed; id++) {
        prove_id(&proof, id);
        for (uint8_t kind = 0; kind <= SIM_KINDS && !world->report->failed; kind++)
            prove_base(&proof, id, kind);
    }
    prove_keys(&proof);
    free(proof.waiting);
    store_reader_close(proof.reader);
}
