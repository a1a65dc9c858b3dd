#include "sim/sim_store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/bucket.h"
#include "core/raw.h"
#include "core/user.h"
#include "sim/sim_names.h"

#define USERS_MAX 160u
#define RAW_MAX   ((size_t)16 << 20)

/* A counter or an item; not `exists`: there is no such row. */
struct row {
    bool exists;
    bool is_item;
    uint32_t incarnation;
    int64_t written_ms;
    sim_wide value;
    struct op_create create;
    int64_t deadline_ms;
    uint8_t held[USERS_MAX]; /* kind by user */
};

/* A unit that the store has not applied. */
struct waiting {
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    unsigned id;
    enum lifecycle_state state;
    uint32_t retry_count;
    int64_t created_ms;
    int64_t next_ms;
    char *raw; /* owned */
    size_t raw_size;
};

struct kept_key {
    struct state_key key; /* `held` is NULL: see below */
    uint8_t held;
    sim_wide value;
};

struct sim_store_state {
    const struct sim_options *options; /* borrowed, and so are these */
    const struct kinds *kinds;
    enum bug bug;
    struct sim_rng rng;
    bool is_off; /* the power is */

    struct state_mark mark;
    struct state_mark next_mark; /* BUG_MARK_APART: not yet written */
    bool has_next_mark;
    struct row *rows;            /* owned; by id */
    uint32_t numbers[USERS_MAX]; /* of named users; EVENT_NO_NUMBER = none yet */
    struct waiting *waiting;     /* owned; in order */
    size_t waiting_count;
    size_t waiting_room;
    struct kept_key *keys; /* owned */
    size_t key_count;
    size_t key_room;
    sim_wide (*bases)[SIM_KINDS + 1]; /* owned; by id and kind, 0 being the counter itself */
    struct log_position base_position;
};

/* What a process has of it. */
struct opened {
    struct store base;
    struct sim_store *disk;
};

struct reader {
    struct store_reader base;
};

static struct sim_store *disk_of(struct store *store)
{
    return ((struct opened *)store)->disk;
}

static struct sim_store *disk_of_reader(struct store_reader *reader)
{
    return disk_of(reader->store);
}

static void *allocate(void *old, size_t size)
{
    void *memory = realloc(old, size > 0 ? size : 1);
    if (!memory)
        abort();
    return memory;
}

static void *make_room(void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room > 0 ? *room * 2 : 16;
    return allocate(array, *room * size);
}

/* ---- life ---- */

struct sim_store *sim_store_new(const struct sim_options *options, const struct kinds *kinds,
                                enum bug bug)
{
    assert(options->users <= USERS_MAX);
    struct sim_store *store = calloc(1, sizeof(*store));
    struct sim_store_state *state = calloc(1, sizeof(*state));
    if (!store || !state)
        abort();
    store->state = state;
    state->options = options;
    state->kinds = kinds;
    state->bug = bug;
    state->rng.state = options->seed + 5;
    state->rows = calloc(options->ids, sizeof(*state->rows));
    state->bases = calloc(options->ids, sizeof(*state->bases));
    if (!state->rows || !state->bases)
        abort();
    for (unsigned i = 0; i < USERS_MAX; i++)
        state->numbers[i] = EVENT_NO_NUMBER;
    return store;
}

void sim_store_free(struct sim_store *store)
{
    if (!store)
        return;
    struct sim_store_state *state = store->state;
    for (size_t i = 0; i < state->waiting_count; i++)
        free(state->waiting[i].raw);
    free(state->waiting);
    free(state->rows);
    free(state->keys);
    free(state->bases);
    free(state);
    free(store);
}

void sim_store_power_off(struct sim_store *store)
{
    store->state->is_off = true;
}

uint64_t sim_store_hash(const struct sim_store *store)
{
    const struct sim_store_state *state = store->state;
    uint64_t hash = hash_stable((struct slice){(const char *)&state->mark, sizeof(state->mark)});
    for (unsigned id = 0; id < state->options->ids; id++) {
        const struct row *row = &state->rows[id];
        hash = hash_stable_seeded((struct slice){(const char *)row->held, sizeof(row->held)}, hash);
        hash += (uint64_t)row->value + row->exists + row->incarnation;
    }
    return hash + state->waiting_count + state->key_count;
}

/* ---- what goes wrong ---- */

static enum err unavailable(struct sim_store *store, const char *why, struct error *error)
{
    store->counts.faults++;
    return error_set(error, ERR_UNAVAILABLE, "the store: %s", why);
}

/* Every call begins with this: ERR_OK, and perhaps `ret_dies`: it is done, and then the
 * power goes off. */
static enum err begin_call(struct sim_store *store, bool *ret_dies, struct error *error)
{
    struct sim_store_faults *faults = &store->faults;
    *ret_dies = false;
    store->counts.calls++;
    if (store->state->is_off)
        return unavailable(store, "the power is off", error);
    if (faults->crash_at_call == store->counts.calls) {
        if (sim_rng_chance(&store->state->rng, 500)) {
            *ret_dies = true;
            return ERR_OK;
        }
        store->state->is_off = true;
        faults->crash(faults->crash_arg);
        return unavailable(store, "the power went off", error);
    }
    if (faults->down)
        return unavailable(store, "it is locked", error);
    if (sim_rng_chance(&store->state->rng, faults->down_permille))
        return unavailable(store, "it is locked for a moment", error);
    return ERR_OK;
}

static enum err end_call(struct sim_store *store, bool dies, enum err err, struct error *error)
{
    if (!dies)
        return err;
    store->state->is_off = true;
    store->faults.crash(store->faults.crash_arg);
    return unavailable(store, "the power went off, and nobody knows what was done", error);
}

/* ---- rows ---- */

static struct row *row_of(struct sim_store_state *state, struct slice id)
{
    unsigned number = sim_id_of(id);
    return number < state->options->ids ? &state->rows[number] : NULL;
}

static void count_all(struct sim_store_state *state)
{
    struct state_mark *mark = &state->mark;
    mark->counters = 0;
    mark->items = 0;
    mark->members = 0;
    for (unsigned id = 0; id < state->options->ids; id++) {
        const struct row *row = &state->rows[id];
        mark->counters += row->exists && !row->is_item;
        mark->items += row->exists && row->is_item;
        for (unsigned user = 0; user < USERS_MAX; user++)
            mark->members += row->exists && row->held[user] != KIND_NONE;
    }
}

static void react(struct sim_store_state *state, struct row *row,
                  const struct store_reaction *reaction)
{
    unsigned user = sim_user_of(reaction->user);
    assert(user < state->options->users);
    row->held[user] = kinds_find(state->kinds, reaction->after);
}

static void apply_unit(struct sim_store_state *state, const struct store_unit *unit)
{
    struct row *row = row_of(state, unit->id);
    assert(row);
    bool is_late =
        row->exists ? unit->incarnation < row->incarnation : !unit->may_create && !unit->is_new;
    if (is_late)
        return;
    if (unit->is_new || (row->exists && unit->incarnation > row->incarnation))
        *row = (struct row){.exists = false};
    if (unit->is_gone)
        return;
    if (!row->exists)
        *row = (struct row){.exists = true, .is_item = unit->is_item, .create.shards = 1};
    row->incarnation = unit->incarnation;
    if (unit->last_ms != 0) /* else nothing was written, only a deadline was set */
        row->written_ms = unit->last_ms;
    if (unit->has_create)
        row->create = unit->create;
    if (unit->has_deadline && state->bug != BUG_DEADLINE_LOST)
        row->deadline_ms = unit->deadline_ms;
    row->value += sim_number_wide(&unit->delta);
    for (size_t i = 0; i < unit->reaction_count; i++)
        react(state, row, &unit->reactions[i]);
}

/* ---- units that wait ---- */

static bool waits(const struct sim_store_state *state, unsigned id, size_t before)
{
    for (size_t i = 0; i < before; i++) {
        if (state->waiting[i].id == id)
            return true;
    }
    return false;
}

static bool is_refused(struct sim_store *store, unsigned id)
{
    return (store->faults.refuses_id && store->faults.refused_id == id) ||
           sim_rng_chance(&store->state->rng, store->faults.refuse_permille);
}

static void write_down(struct sim_store *store, struct store_batch *batch, size_t number,
                       enum lifecycle_state lifecycle)
{
    struct sim_store_state *state = store->state;
    struct store_unit *unit = &batch->units[number];
    struct buffer raw;
    buffer_init(&raw, RAW_MAX);
    if (batch->raw)
        batch->raw(batch->raw_arg, number, &raw);
    else
        buffer_append_slice(&raw, unit->raw);
    state->waiting = make_room(state->waiting, state->waiting_count, &state->waiting_room,
                               sizeof(*state->waiting));
    struct waiting *waiting = &state->waiting[state->waiting_count++];
    *waiting = (struct waiting){
        .id = sim_id_of(unit->id),
        .state = lifecycle,
        .created_ms = batch->now_ms,
        .raw = allocate(NULL, raw.size),
        .raw_size = raw.size,
    };
    memcpy(waiting->event_id, unit->event_id, sizeof(waiting->event_id));
    if (raw.size > 0)
        memcpy(waiting->raw, raw.data, raw.size);
    buffer_done(&raw);
    if (lifecycle == LIFECYCLE_RETRYING) {
        waiting->retry_count = 1;
        waiting->next_ms = batch->now_ms + lifecycle_delay_ms(1);
    }
    unit->code = lifecycle == LIFECYCLE_RETRYING ? ERR_REFUSED : ERR_BUSY;
    snprintf(unit->reason, sizeof(unit->reason), "not wanted");
}

/* Their numbers were given out, whatever becomes of the unit. */
static void note_users(struct sim_store_state *state, const struct store_unit *unit)
{
    for (size_t i = 0; i < unit->reaction_count; i++) {
        const struct store_reaction *reaction = &unit->reactions[i];
        if (reaction->named && reaction->number != EVENT_NO_NUMBER)
            state->numbers[sim_user_of(reaction->user)] = reaction->number;
    }
}

static void take_unit(struct sim_store *store, struct store_batch *batch, size_t number)
{
    struct sim_store_state *state = store->state;
    struct store_unit *unit = &batch->units[number];
    unsigned id = sim_id_of(unit->id);
    unit->code = ERR_OK;
    note_users(state, unit);
    if (waits(state, id, state->waiting_count) && state->bug != BUG_OVERTAKES) {
        write_down(store, batch, number, LIFECYCLE_PENDING);
        return;
    }
    if (is_refused(store, id)) {
        store->counts.refused++;
        unit->code = ERR_REFUSED;
        if (state->bug != BUG_REFUSED_LOST)
            write_down(store, batch, number, LIFECYCLE_RETRYING);
        return;
    }
    apply_unit(state, unit);
}

/* ---- the writer ---- */

static enum err store_mark_(struct store *base, struct state_mark *ret_mark, struct error *error)
{
    struct sim_store *store = disk_of(base);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    count_all(store->state);
    *ret_mark = store->state->mark;
    return end_call(store, dies, ERR_OK, error);
}

static void keep_key(struct sim_store_state *state, const struct state_key *key)
{
    state->keys = make_room(state->keys, state->key_count, &state->key_room, sizeof(*state->keys));
    struct kept_key *kept = &state->keys[state->key_count++];
    *kept = (struct kept_key){.key = *key,
                              .held = kinds_find(state->kinds, key->held),
                              .value = sim_number_wide(&key->value)};
    kept->key.held = (struct slice){NULL, 0};
    kept->key.value = number_of(0);
}

static bool is_at(struct log_position a, struct log_position b)
{
    return a.segment == b.segment && a.offset == b.offset;
}

/* The mark that BUG_MARK_APART has put off is written when the next call comes. */
static void write_late_mark(struct sim_store_state *state)
{
    if (state->has_next_mark)
        state->mark = state->next_mark;
    state->has_next_mark = false;
}

static enum err apply(struct store *base, struct store_batch *batch, struct error *error)
{
    struct sim_store *store = disk_of(base);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    write_late_mark(state);
    if (!is_at(batch->before, state->mark.position))
        return error_set(error, ERR_INVALID, "the store is at %" PRIu64 ":%" PRIu64,
                         state->mark.position.segment, state->mark.position.offset);
    if (batch->poison_count > 0)
        return error_set(error, ERR_CORRUPT, "there is no poison in the simulator");
    store->counts.batches++;
    for (size_t i = 0; i < batch->unit_count; i++)
        take_unit(store, batch, i);
    for (size_t i = 0; i < batch->key_count; i++)
        keep_key(state, &batch->keys[i]);
    state->next_mark = batch->after;
    state->has_next_mark = true;
    if (state->bug != BUG_MARK_APART)
        write_late_mark(state);
    count_all(state);
    batch->after.counters = state->mark.counters;
    batch->after.items = state->mark.items;
    batch->after.members = state->mark.members;
    if (state->bug == BUG_NOT_COMPARED)
        memset(batch->after.sequences, 0, sizeof(batch->after.sequences));
    return end_call(store, dies, ERR_OK, error);
}

static struct store_letter letter_of(const struct sim_store_state *state,
                                     const struct waiting *waiting, char name[SIM_NAME_BYTES])
{
    struct store_letter letter = {
        .row = (uint64_t)(waiting - state->waiting) + 1,
        .id = sim_id_name(state->options, waiting->id, 0, name),
        .reason = SLICE("not wanted"),
        .raw = {waiting->raw, waiting->raw_size},
        .retry_count = waiting->retry_count,
        .created_ms = waiting->created_ms,
    };
    memcpy(letter.event_id, waiting->event_id, sizeof(letter.event_id));
    return letter;
}

static bool is_due(const struct sim_store_state *state, size_t index, int64_t now_ms)
{
    const struct waiting *waiting = &state->waiting[index];
    if (waits(state, waiting->id, index))
        return false;
    bool clock_went_back = waiting->next_ms > now_ms + lifecycle_delay_ms(LIFECYCLE_RETRIES);
    return waiting->state == LIFECYCLE_PENDING || (waiting->state == LIFECYCLE_RETRYING &&
                                                   (waiting->next_ms <= now_ms || clock_went_back));
}

static enum err due(struct store *base, int64_t now_ms, store_letter_fn *visit, void *arg,
                    struct error *error)
{
    struct sim_store *store = disk_of(base);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    for (size_t i = 0; i < state->waiting_count; i++) {
        char name[SIM_NAME_BYTES];
        if (!is_due(state, i, now_ms))
            continue;
        struct store_letter letter = letter_of(state, &state->waiting[i], name);
        visit(arg, &letter);
        return end_call(store, dies, ERR_OK, error);
    }
    return end_call(store, dies, ERR_NOT_FOUND, error);
}

static struct waiting *find_waiting(struct sim_store_state *state, const unsigned char *event_id)
{
    for (size_t i = 0; i < state->waiting_count; i++) {
        if (memcmp(state->waiting[i].event_id, event_id, STORE_EVENT_ID_BYTES) == 0)
            return &state->waiting[i];
    }
    return NULL;
}

static void remove_waiting(struct sim_store_state *state, struct waiting *waiting)
{
    free(waiting->raw);
    size_t index = (size_t)(waiting - state->waiting);
    state->waiting_count--;
    memmove(waiting, waiting + 1, (state->waiting_count - index) * sizeof(*waiting));
}

static void refuse_again(struct sim_store *store, struct waiting *waiting, int64_t now_ms,
                         struct store_unit *unit)
{
    enum lifecycle_move move = waiting->state == LIFECYCLE_PENDING
                                   ? LIFECYCLE_SET_RETRYING
                                   : lifecycle_refused(waiting->retry_count);
    enum lifecycle_action action;
    enum err err = lifecycle_move(waiting->state, move, &waiting->state, &action);
    assert(err == ERR_OK);
    (void)err;
    if (action == LIFECYCLE_WAIT) {
        waiting->retry_count++;
        waiting->next_ms = now_ms + lifecycle_delay_ms(waiting->retry_count);
        unit->code = ERR_REFUSED;
    } else {
        store->counts.letters++;
        unit->code = ERR_DENIED;
    }
}

static enum err retry(struct store *base, struct store_unit *unit, int64_t now_ms,
                      struct error *error)
{
    struct sim_store *store = disk_of(base);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    struct waiting *waiting = find_waiting(state, unit->event_id);
    if (!waiting || waiting->state == LIFECYCLE_FAILED)
        return end_call(store, dies, ERR_NOT_FOUND, error);
    if (waits(state, waiting->id, (size_t)(waiting - state->waiting)))
        return end_call(store, dies, ERR_BUSY, error);
    store->counts.retries++;
    if (is_refused(store, waiting->id)) {
        refuse_again(store, waiting, now_ms, unit);
    } else {
        unit->code = ERR_OK;
        apply_unit(state, unit);
        remove_waiting(state, waiting);
    }
    return end_call(store, dies, ERR_OK, error);
}

static enum err redrive(struct store *base, const unsigned char *event_id, int64_t now_ms,
                        uint64_t *ret_count, struct error *error)
{
    struct sim_store *store = disk_of(base);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    *ret_count = 0;
    for (size_t i = 0; i < state->waiting_count; i++) {
        struct waiting *waiting = &state->waiting[i];
        if (waiting->state != LIFECYCLE_FAILED ||
            (event_id && memcmp(event_id, waiting->event_id, STORE_EVENT_ID_BYTES) != 0))
            continue;
        waiting->state = LIFECYCLE_RETRYING;
        waiting->retry_count = 0;
        waiting->next_ms = now_ms;
        ++*ret_count;
    }
    return end_call(store, dies, *ret_count > 0 || !event_id ? ERR_OK : ERR_NOT_FOUND, error);
}

static enum err thin(struct store *base, int64_t lives_before_ms, int64_t history_before_ms,
                     int64_t keys_before_ms, uint32_t limit, uint64_t *ret_removed,
                     struct error *error)
{
    struct sim_store *store = disk_of(base);
    struct sim_store_state *state = store->state;
    (void)lives_before_ms;
    (void)history_before_ms;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    *ret_removed = 0;
    for (size_t i = 0; i < state->key_count && *ret_removed < limit;) {
        if (keys_before_ms == 0 || state->keys[i].key.time_ms >= keys_before_ms) {
            i++;
            continue;
        }
        state->keys[i] = state->keys[--state->key_count];
        ++*ret_removed;
    }
    return end_call(store, dies, ERR_OK, error);
}

static enum err note(struct store *base, const struct store_audit *audit, struct error *error)
{
    (void)audit;
    bool dies;
    enum err err = begin_call(disk_of(base), &dies, error);
    return err ? err : end_call(disk_of(base), dies, ERR_OK, error);
}

static enum err rest(struct store *base, struct error *error)
{
    return note(base, NULL, error);
}

static sim_wide *base_of(struct sim_store_state *state, struct slice id)
{
    struct slice item = id;
    uint8_t kind = KIND_NONE;
    kinds_split(state->kinds, id, &item, &kind);
    unsigned number = sim_id_of(item);
    return number < state->options->ids ? &state->bases[number][kind] : NULL;
}

static enum err rebase(struct store *base, const struct slice *ids, const struct number *sums,
                       size_t count, struct log_position position, struct error *error)
{
    struct sim_store *store = disk_of(base);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    for (size_t i = 0; i < count; i++) {
        sim_wide *sum = base_of(store->state, ids[i]);
        assert(sum);
        *sum += sim_number_wide(&sums[i]);
    }
    store->state->base_position = position;
    return end_call(store, dies, ERR_OK, error);
}

/* ---- readers ---- */

static enum err reader_open(struct store *base, struct store_reader **ret, struct error *error)
{
    (void)error;
    struct reader *reader = allocate(NULL, sizeof(*reader));
    reader->base.store = base;
    *ret = &reader->base;
    return ERR_OK;
}

static void reader_close(struct store_reader *reader)
{
    free(reader);
}

/* Members of a row, of all slices or of one; each user is in one place only. */
struct listed {
    struct state_members sets[SIM_KINDS * 2];
    uint32_t numbers[SIM_KINDS * 2][USERS_MAX];
    size_t count;
};

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void list_members(struct sim_store_state *state, const struct row *row, struct slice item,
                         int slice, struct listed *listed)
{
    size_t counts[SIM_KINDS * 2] = {0};
    for (unsigned user = 0; user < state->options->users; user++) {
        char name[SIM_NAME_BYTES];
        struct slice text = sim_user_name(user, name);
        if (row->held[user] == KIND_NONE ||
            (slice >= 0 && bucket_slice(bucket_of(item, text)) != (uint32_t)slice))
            continue;
        uint32_t number = state->numbers[user];
        bool named = !user_is_numeric(text, &number);
        size_t set = (row->held[user] - 1u) * 2 + named;
        listed->numbers[set][counts[set]++] = number;
    }
    listed->count = 0;
    for (size_t set = 0; set < SIM_KINDS * 2; set++) {
        if (counts[set] == 0)
            continue;
        qsort(listed->numbers[set], counts[set], sizeof(uint32_t), compare_numbers);
        listed->sets[listed->count++] = (struct state_members){
            .kind = kinds_name(state->kinds, (uint8_t)(set / 2 + 1)),
            .named = set % 2,
            .numbers = listed->numbers[set],
            .count = counts[set],
        };
    }
}

/* The events of an id that wait, decoded. */
struct pending {
    struct event *events; /* owned */
    size_t count;
    size_t room;
};

static void add_pending(struct pending *pending, struct slice raw)
{
    struct slice section;
    while (raw_next(&raw, &section)) {
        struct section_reader reader;
        struct event event;
        enum err err = section_open(&reader, section, NULL);
        assert(err == ERR_OK);
        (void)err;
        while (section_next(&reader, &event, NULL) == ERR_OK) {
            pending->events = make_room(pending->events, pending->count, &pending->room,
                                        sizeof(*pending->events));
            pending->events[pending->count++] = event;
        }
    }
    assert(raw.size == 0);
}

static void find_pending(struct sim_store_state *state, unsigned id, struct pending *pending)
{
    *pending = (struct pending){0};
    for (size_t i = 0; i < state->waiting_count; i++) {
        const struct waiting *waiting = &state->waiting[i];
        if (waiting->id == id)
            add_pending(pending, (struct slice){waiting->raw, waiting->raw_size});
    }
}

static void pending_done(struct pending *pending)
{
    for (size_t i = 0; i < pending->count; i++)
        event_done(&pending->events[i]);
    free(pending->events);
}

static void give_row(struct sim_store_state *state, unsigned id, bool with_members,
                     store_target_fn *visit, void *arg)
{
    static struct listed listed;
    const struct row *row = &state->rows[id];
    char name[SIM_NAME_BYTES];
    struct slice kinds[SIM_KINDS];
    int64_t counts[SIM_KINDS] = {0};
    struct pending pending;
    find_pending(state, id, &pending);
    struct state_target target = {
        .id = sim_id_name(state->options, id, 0, name),
        .absent = !row->exists,
        .is_item = row->is_item,
        .incarnation = row->incarnation,
        .written_ms = row->written_ms,
        .value = sim_wide_number(row->value),
        .create = row->create,
        .deadline_ms = row->deadline_ms,
        .slices = state->options->store_sliced ? STATE_SLICES : 1,
        .pending = pending.events,
        .pending_count = pending.count,
    };
    if (row->is_item) {
        for (unsigned user = 0; user < state->options->users; user++) {
            if (row->held[user] != KIND_NONE)
                counts[row->held[user] - 1]++;
        }
        for (uint8_t kind = 1; kind <= SIM_KINDS; kind++)
            kinds[kind - 1] = kinds_name(state->kinds, kind);
        target.kinds = kinds;
        target.counts = counts;
        target.kind_count = SIM_KINDS;
        if (with_members && target.slices == 1) {
            list_members(state, row, target.id, -1, &listed);
            target.members = listed.sets;
            target.member_count = listed.count;
        }
    }
    visit(arg, &target);
    number_done(&target.value);
    pending_done(&pending);
}

/* An id of which only waiting units exist is there, too: they are replayed on nothing. */
static bool is_known(struct sim_store_state *state, unsigned id)
{
    return id < state->options->ids &&
           (state->rows[id].exists || waits(state, id, state->waiting_count));
}

static enum err load(struct store_reader *reader, struct slice id, store_target_fn *visit,
                     void *arg, struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    unsigned number = sim_id_of(id);
    store->counts.loads++;
    if (!is_known(store->state, number))
        return end_call(store, dies, ERR_NOT_FOUND, error);
    give_row(store->state, number, true, visit, arg);
    return end_call(store, dies, ERR_OK, error);
}

static enum err load_slice(struct store_reader *reader, struct slice item, uint32_t slice,
                           store_members_fn *visit, void *arg, struct error *error)
{
    static struct listed listed;
    struct sim_store *store = disk_of_reader(reader);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    const struct row *row = row_of(store->state, item);
    if (!row || !row->exists || !row->is_item)
        return end_call(store, dies, ERR_NOT_FOUND, error);
    list_members(store->state, row, item, (int)slice, &listed);
    struct pending pending;
    find_pending(store->state, sim_id_of(item), &pending);
    visit(arg, listed.sets, listed.count, pending.events, pending.count);
    pending_done(&pending);
    return end_call(store, dies, ERR_OK, error);
}

static enum err find_user(struct store_reader *reader, struct slice name, uint32_t *ret_number,
                          struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    unsigned user = sim_user_of(name);
    if (user >= USERS_MAX || store->state->numbers[user] == EVENT_NO_NUMBER)
        return end_call(store, dies, ERR_NOT_FOUND, error);
    *ret_number = store->state->numbers[user];
    return end_call(store, dies, ERR_OK, error);
}

static enum err names(struct store_reader *reader, const uint32_t *numbers, size_t count,
                      store_name_fn *visit, void *arg, struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    for (size_t i = 0; i < count; i++) {
        for (unsigned user = 0; user < USERS_MAX; user++) {
            char name[SIM_NAME_BYTES];
            if (store->state->numbers[user] == numbers[i])
                visit(arg, numbers[i], sim_user_name(user, name));
        }
    }
    return end_call(store, dies, ERR_OK, error);
}

static void give_key(struct sim_store_state *state, const struct kept_key *kept,
                     store_key_fn *visit, void *arg)
{
    struct state_key key = kept->key;
    key.held = kinds_name(state->kinds, kept->held);
    key.value = sim_wide_number(kept->value);
    visit(arg, &key);
    number_done(&key.value);
}

static enum err find_key(struct store_reader *reader, uint64_t low, uint64_t high,
                         store_key_fn *visit, void *arg, struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    for (size_t i = state->key_count; i-- > 0;) { /* the newest */
        if (state->keys[i].key.low != low || state->keys[i].key.high != high)
            continue;
        give_key(state, &state->keys[i], visit, arg);
        return end_call(store, dies, ERR_OK, error);
    }
    return end_call(store, dies, ERR_NOT_FOUND, error);
}

static enum err hashes(struct store_reader *reader, bool users, uint64_t *cursor, uint32_t limit,
                       store_hash_fn *visit, void *arg, struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    char name[SIM_NAME_BYTES];
    unsigned count = users ? state->options->users : state->options->ids;
    unsigned at = (unsigned)*cursor;
    for (; at < count && limit > 0; at++, limit--) {
        if (users && state->numbers[at] != EVENT_NO_NUMBER)
            visit(arg, hash_stable(sim_user_name(at, name)));
        else if (!users && is_known(state, at))
            visit(arg, hash_stable(sim_id_name(state->options, at, 0, name)));
    }
    *cursor = at < count ? at : 0;
    return end_call(store, dies, ERR_OK, error);
}

static enum err keys(struct store_reader *reader, int64_t since_ms, uint64_t *cursor,
                     uint32_t limit, store_key_fn *visit, void *arg, struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    size_t at = (size_t)*cursor;
    for (; at < state->key_count && limit > 0; at++, limit--) {
        if (state->keys[at].key.time_ms >= since_ms)
            give_key(state, &state->keys[at], visit, arg);
    }
    *cursor = at < state->key_count ? at : 0;
    return end_call(store, dies, ERR_OK, error);
}

static enum err scan(struct store_reader *reader, uint64_t *cursor, uint32_t limit,
                     store_target_fn *visit, void *arg, struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    struct sim_store_state *state = store->state;
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    unsigned at = (unsigned)*cursor;
    for (; at < state->options->ids && limit > 0; at++, limit--) {
        if (state->rows[at].exists)
            give_row(state, at, false, visit, arg);
    }
    *cursor = at < state->options->ids ? at : 0;
    return end_call(store, dies, ERR_OK, error);
}

static enum err base_sum(struct store_reader *reader, struct slice id, struct number *ret_sum,
                         struct number *ret_discarded, struct log_position *ret_position,
                         struct error *error)
{
    struct sim_store *store = disk_of_reader(reader);
    bool dies;
    enum err err = begin_call(store, &dies, error);
    if (err)
        return err;
    const sim_wide *sum = base_of(store->state, id);
    *ret_sum = sim_wide_number(sum ? *sum : 0);
    *ret_discarded = number_of(0);
    *ret_position = store->state->base_position;
    return end_call(store, dies, ERR_OK, error);
}

/* ---- any thread ---- */

static void stats(struct store *base, struct store_stats *ret_stats)
{
    const struct sim_store_state *state = disk_of(base)->state;
    for (size_t i = 0; i < state->waiting_count; i++) {
        ret_stats->pending += state->waiting[i].state == LIFECYCLE_PENDING;
        ret_stats->retrying += state->waiting[i].state == LIFECYCLE_RETRYING;
        ret_stats->failed += state->waiting[i].state == LIFECYCLE_FAILED;
    }
}

static void close_store(struct store *base)
{
    free(base);
}

/* What is not here is not asked for by anything that the simulator runs. */
static const struct store_ops sim_store_ops = {
    .name = "sim",
    .mark = store_mark_,
    .apply = apply,
    .due = due,
    .retry = retry,
    .redrive = redrive,
    .thin = thin,
    .note = note,
    .rebase = rebase,
    .rest = rest,
    .reader_open = reader_open,
    .reader_close = reader_close,
    .load = load,
    .load_slice = load_slice,
    .find_user = find_user,
    .names = names,
    .find_key = find_key,
    .hashes = hashes,
    .keys = keys,
    .scan = scan,
    .base = base_sum,
    .stats = stats,
    .close = close_store,
};

struct store *sim_store_open(struct sim_store *store)
{
    struct opened *opened = allocate(NULL, sizeof(*opened));
    opened->base.ops = &sim_store_ops;
    opened->disk = store;
    store->state->is_off = false;
    store->state->has_next_mark = false; /* lost with the process that had put it off */
    return &opened->base;
}
