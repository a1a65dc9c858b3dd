/* coalesce.c - tables of a batch: units by id, reactions of units, bytes of sections.
 *
 *   bytes      blocks with copies of the sections; everything below points there
 *   units      one for each id, found through `table` by hash
 *   reactions  as they come; sorted by unit when the batch is finished
 *   traces     where each event of a unit stands in `bytes`: a chain, so that the raw
 *              events of a unit that is refused can be written out; others never are */
#include "flow/coalesce.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/uuid.h"
#include "core/bucket.h"
#include "core/key.h"
#include "core/raw.h"
#include "core/sequence.h"
#include "core/user.h"

#define BLOCK_BYTES ((size_t)4 << 20) /* of copies; a unit's raw events may need more */
#define TABLE_FIRST 1024u
#define NONE        UINT32_MAX

struct block {
    struct block *next;
    size_t size;
    size_t room;
    char bytes[];
};

/* An event, of a unit, where it was read. */
struct trace {
    const char *data;
    uint32_t size;
    uint32_t next; /* of the same unit; NONE = the last */
    uint64_t sequence;
    int64_t time_ms;
    uint32_t origin;
};

/* What we know of a unit beside what the store is told. */
struct side {
    uint64_t hash;   /* for the table */
    uint64_t stable; /* hash_stable(id) */
    uint32_t first;  /* trace */
    uint32_t last;
    uint32_t floor;     /* reactions before this one were undone by a deletion */
    uint32_t reactions; /* so many */
    uint32_t place;     /* of its reactions, when sorted */
};

struct coalesce {
    struct env *env;
    const struct kinds *kinds;
    uint64_t hash_key;

    struct block *blocks; /* owned; the first is being filled */
    struct block *spare;

    struct store_unit *units; /* these are owned, and have room for so many */
    struct side *sides;
    size_t unit_count;
    size_t unit_room;
    uint32_t *table; /* unit + 1; 0 = empty */
    size_t table_size;

    struct store_reaction *reactions;
    uint32_t *reaction_units;
    size_t reaction_count;
    size_t reaction_room;
    struct store_reaction *sorted;
    size_t sorted_room;

    struct trace *traces;
    size_t trace_count;
    size_t trace_room;

    struct state_key *keys;
    size_t key_count;
    size_t key_room;
    struct event *repairs;
    size_t repair_count;
    size_t repair_room;
    struct store_poison *poison;
    char (*reasons)[STORE_REASON_BYTES];
    unsigned char *poison_lanes;
    size_t poison_count;
    size_t poison_room;

    struct state_mark mark; /* where the batch begins, and then how far it is */
    struct log_position before;
    uint64_t before_sequences[LIMIT_CELLS];
    uint64_t lanes; /* that were moved, a bit each */
    unsigned lane;  /* that is being taken */
    bool has_epoch;
    struct store_batch batch;
    uint64_t events;
    uint64_t bytes;
    int64_t oldest_ms;
    int64_t last_ms;
    int64_t now_ms; /* of the batch's beginning: for event ids */
    bool takes_all; /* a retry: sequences are of the past */
};

/* --- memory --- */

static void *grow(void *array, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 256;
    return memory_resize(array, *room * size);
}

#define GROW(array, room, count) ((array) = grow((array), &(room), (count), sizeof(*(array))))

static struct block *block_of(struct coalesce *c, size_t size)
{
    struct block *block = c->blocks;
    if (block && block->room - block->size >= size)
        return block;
    block = c->spare;
    if (block && block->room >= size) {
        c->spare = block->next;
    } else {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = memory_take(sizeof(*block) + room);
        block->room = room;
    }
    block->size = 0;
    block->next = c->blocks;
    c->blocks = block;
    return block;
}

static struct slice keep(struct coalesce *c, struct slice bytes)
{
    struct block *block = block_of(c, bytes.size);
    char *to = block->bytes + block->size;
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    block->size += bytes.size;
    return (struct slice){to, bytes.size};
}

struct coalesce *coalesce_new(struct env *env, const struct kinds *kinds)
{
    assert(env && kinds);

    struct coalesce *c = memory_take_zeroed(sizeof(*c));
    c->env = env;
    c->kinds = kinds;
    c->hash_key = env_random(env);
    c->table_size = TABLE_FIRST;
    c->table = memory_take_zeroed(TABLE_FIRST * sizeof(*c->table));
    return c;
}

static void free_blocks(struct block *block)
{
    while (block) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
}

/* Frees what the batch owns beyond its arrays, and makes these empty. */
static void clear(struct coalesce *c)
{
    for (size_t i = 0; i < c->unit_count; i++)
        number_done(&c->units[i].delta);
    for (size_t i = 0; i < c->key_count; i++)
        number_done(&c->keys[i].value);
    for (size_t i = 0; i < c->repair_count; i++)
        event_done(&c->repairs[i]);
    if (c->unit_count > 0)
        memset(c->table, 0, c->table_size * sizeof(*c->table));
    c->unit_count = 0;
    c->reaction_count = 0;
    c->trace_count = 0;
    c->key_count = 0;
    c->repair_count = 0;
    c->poison_count = 0;
    while (c->blocks) {
        struct block *block = c->blocks;
        c->blocks = block->next;
        if (block->room > BLOCK_BYTES) {
            free(block);
            continue;
        }
        block->next = c->spare;
        c->spare = block;
    }
}

void coalesce_free(struct coalesce *coalesce)
{
    if (!coalesce)
        return;
    clear(coalesce);
    free_blocks(coalesce->spare);
    free(coalesce->units);
    free(coalesce->sides);
    free(coalesce->table);
    free(coalesce->reactions);
    free(coalesce->reaction_units);
    free(coalesce->sorted);
    free(coalesce->traces);
    free(coalesce->keys);
    free(coalesce->repairs);
    free(coalesce->poison);
    free(coalesce->reasons);
    free(coalesce->poison_lanes);
    free(coalesce);
}

void coalesce_begin(struct coalesce *coalesce, const struct state_mark *mark)
{
    assert(coalesce && mark);

    clear(coalesce);
    coalesce->mark = *mark;
    coalesce->before = mark->position;
    memcpy(coalesce->before_sequences, mark->sequences, sizeof(mark->sequences));
    coalesce->lanes = 0;
    coalesce->lane = 0;
    coalesce->has_epoch = false;
    coalesce->events = 0;
    coalesce->bytes = 0;
    coalesce->oldest_ms = 0;
    coalesce->last_ms = 0;
    coalesce->now_ms = env_wall_ms(coalesce->env);
    coalesce->takes_all = false;
}

/* --- units --- */

static size_t slot_of(const struct coalesce *c, uint64_t hash, struct slice id)
{
    size_t mask = c->table_size - 1;
    size_t slot = (size_t)hash & mask;
    while (c->table[slot] != 0) {
        uint32_t unit = c->table[slot] - 1;
        if (c->sides[unit].hash == hash && slice_equal(c->units[unit].id, id))
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static void widen_table(struct coalesce *c)
{
    size_t size = c->table_size * 2;
    free(c->table);
    c->table = memory_take_zeroed(size * sizeof(*c->table));
    c->table_size = size;
    for (uint32_t unit = 0; unit < c->unit_count; unit++) {
        size_t slot = (size_t)c->sides[unit].hash & (size - 1);
        while (c->table[slot] != 0)
            slot = (slot + 1) & (size - 1);
        c->table[slot] = unit + 1;
    }
}

/* The cell that deletions of an id are counted in; as the hot layer has it. */
static uint32_t home_of(uint64_t stable_hash)
{
    return (uint32_t)(stable_hash >> 58);
}

static uint32_t add_unit(struct coalesce *c, size_t slot, uint64_t hash, struct slice id,
                         const struct event *event)
{
    if (c->unit_count == c->unit_room) {
        c->unit_room = c->unit_room ? c->unit_room * 2 : 256;
        c->units = memory_resize(c->units, c->unit_room * sizeof(*c->units));
        c->sides = memory_resize(c->sides, c->unit_room * sizeof(*c->sides));
    }
    uint32_t number = (uint32_t)c->unit_count++;
    struct store_unit *unit = &c->units[number];
    struct side *side = &c->sides[number];
    *side = (struct side){
        .hash = hash, .stable = hash_stable(id), .first = NONE, .last = NONE, .floor = 0};

    memset(unit, 0, offsetof(struct store_unit, reason));
    unit->reason[0] = '\0';
    uuid_make7(unit->event_id, c->now_ms, number, env_random(c->env));
    unit->id = id;
    unit->first_ms = event->time_ms;
    unit->incarnation = event->incarnation;
    unit->may_create = event->incarnation >= c->mark.incarnations[home_of(side->stable)];
    c->table[slot] = number + 1;
    if (c->unit_count * 2 > c->table_size)
        widen_table(c);
    return number;
}

static uint32_t unit_of(struct coalesce *c, struct slice id, const struct event *event)
{
    uint64_t hash = hash_keyed(id, c->hash_key);
    size_t slot = slot_of(c, hash, id);
    return c->table[slot] != 0 ? c->table[slot] - 1 : add_unit(c, slot, hash, id, event);
}

/* What the unit did so far is of no account any more: it was deleted. */
static void forget_past(struct coalesce *c, uint32_t number)
{
    struct store_unit *unit = &c->units[number];
    struct side *side = &c->sides[number];
    number_done(&unit->delta);
    unit->is_item = false;
    unit->has_create = false;
    unit->has_deadline = false;
    side->floor = (uint32_t)c->reaction_count;
    side->reactions = 0;
}

/* The unit goes on as a thing of this incarnation. False: the event is late. */
static bool enter_incarnation(struct coalesce *c, uint32_t number, uint32_t incarnation)
{
    struct store_unit *unit = &c->units[number];
    if (incarnation < unit->incarnation)
        return false;
    if (incarnation > unit->incarnation || unit->is_gone) {
        forget_past(c, number);
        unit->is_new = true;
        unit->is_gone = false;
        unit->incarnation = incarnation;
    }
    return true;
}

static void trace_event(struct coalesce *c, uint32_t number, const struct event *event,
                        struct slice bytes)
{
    GROW(c->traces, c->trace_room, c->trace_count);
    uint32_t place = (uint32_t)c->trace_count++;
    c->traces[place] = (struct trace){
        .data = bytes.data,
        .size = (uint32_t)bytes.size,
        .next = NONE,
        .sequence = event->sequence,
        .time_ms = event->time_ms,
        .origin = event->origin,
    };
    struct side *side = &c->sides[number];
    if (side->first == NONE)
        side->first = place;
    else
        c->traces[side->last].next = place;
    side->last = place;
}

/* --- events --- */

static void add_reaction(struct coalesce *c, uint32_t number, const struct event *event)
{
    if (c->reaction_count == c->reaction_room) {
        c->reaction_room = c->reaction_room ? c->reaction_room * 2 : 1024;
        c->reactions = memory_resize(c->reactions, c->reaction_room * sizeof(*c->reactions));
        c->reaction_units =
            memory_resize(c->reaction_units, c->reaction_room * sizeof(*c->reaction_units));
    }
    struct side *side = &c->sides[number];
    uint32_t numeric = EVENT_NO_NUMBER;
    bool is_numeric = !event->erased && event->user_number == EVENT_NO_NUMBER &&
                      user_is_numeric(event->user, &numeric);
    c->reaction_units[c->reaction_count] = number;
    c->reactions[c->reaction_count++] = (struct store_reaction){
        .user = event->user,
        .named = !is_numeric,
        .number = is_numeric ? numeric : event->user_number,
        .erased = event->erased,
        .bucket = event->erased ? (uint16_t)0 : bucket_of_hashed(side->stable, event->user),
        .before = event->before,
        .after = event->after,
        .region = event->region,
        .time_ms = event->time_ms,
        .origin = event->origin,
        .sequence = event->sequence,
    };
    side->reactions++;
    c->units[number].is_item = true;
    if (!event->erased && event->user_number != EVENT_NO_NUMBER &&
        event->user_number >= c->mark.next_user)
        c->mark.next_user = event->user_number + 1;
}

static void delete_unit(struct coalesce *c, uint32_t number, const struct event *event)
{
    struct store_unit *unit = &c->units[number];
    c->mark.incarnations[event->origin] = event->next_incarnation;
    if (event->incarnation < unit->incarnation)
        return;
    forget_past(c, number);
    unit->is_gone = true;
    unit->is_new = true;
    unit->incarnation = event->next_incarnation;
}

static void apply_event(struct coalesce *c, uint32_t number, const struct event *event)
{
    struct store_unit *unit = &c->units[number];
    if (event->type == EVENT_DELETE) {
        delete_unit(c, number, event);
        return;
    }
    if (!enter_incarnation(c, number, event->incarnation))
        return;
    /* The last write in the log's order, not the latest: as the hot layer has it. */
    if (event->type != EVENT_EXPIRE)
        unit->last_ms = event->time_ms;
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        number_add(&unit->delta, &event->amount);
        break;
    case EVENT_CREATE:
        unit->has_create = true;
        unit->create = event->create;
        unit->is_item = unit->is_item || unit->id.size != event->id.size;
        break;
    case EVENT_EXPIRE:
        unit->has_deadline = true;
        unit->deadline_ms = event->deadline_ms;
        break;
    case EVENT_REACT:
        add_reaction(c, number, event);
        break;
    case EVENT_DELETE:
    case EVENT_NOTHING:
    case EVENT_REPAIR:
    case EVENT_EPOCH:
    case EVENT_AFTER:
        break;
    }
}

static void add_key(struct coalesce *c, const struct event *event)
{
    GROW(c->keys, c->key_room, c->key_count);
    struct hash128 hash = key_hash(event->id, event->key);
    c->keys[c->key_count++] = (struct state_key){
        .low = hash.low,
        .high = hash.high,
        .fingerprint = event->answer.fingerprint,
        .changed = event->answer.changed,
        .held = event->answer.held,
        .value = number_copy(&event->answer.value),
        .time_ms = event->time_ms,
    };
}

/* Takes the event over; its slices point into what we keep. */
static void take_event(struct coalesce *c, struct event *event, struct slice bytes)
{
    c->events++;
    if (c->oldest_ms == 0 || event->time_ms < c->oldest_ms)
        c->oldest_ms = event->time_ms;
    c->last_ms = event->time_ms;
    if (event->key.size > 0 && !event->erased && !c->takes_all)
        add_key(c, event);
    if (event->type == EVENT_REPAIR) {
        GROW(c->repairs, c->repair_room, c->repair_count);
        c->repairs[c->repair_count++] = *event;
        return;
    }
    if (event_changes(event->type)) {
        struct slice id = event->id;
        uint8_t kind;
        if (event->type == EVENT_CREATE)
            kinds_split(c->kinds, event->id, &id, &kind);
        uint32_t number = unit_of(c, id, event);
        apply_event(c, number, event);
        c->units[number].events++;
        trace_event(c, number, event, bytes);
    }
    event_done(event);
}

/* --- sections --- */

static void add_poison(struct coalesce *c, struct slice raw, struct log_position position,
                       const struct error *error)
{
    if (c->poison_count == c->poison_room) {
        c->poison_room = c->poison_room ? c->poison_room * 2 : 4;
        c->poison = memory_resize(c->poison, c->poison_room * sizeof(*c->poison));
        c->reasons = memory_resize(c->reasons, c->poison_room * sizeof(*c->reasons));
        c->poison_lanes = memory_resize(c->poison_lanes, c->poison_room);
    }
    struct store_poison *poison = &c->poison[c->poison_count];
    *poison = (struct store_poison){.position = position, .raw = raw, .time_ms = c->now_ms};
    uuid_make7(poison->event_id, c->now_ms, (uint32_t)c->poison_count, env_random(c->env));
    (void)snprintf(c->reasons[c->poison_count], STORE_REASON_BYTES, "%.190s", error->text);
    c->poison_lanes[c->poison_count] = (unsigned char)c->lane;
    c->poison_count++;
}

/* The origin begins anew: what was its last event? One that began and then had none has ended
 * nothing. */
static void end_epoch(struct coalesce *c, uint32_t origin)
{
    uint64_t last = c->mark.sequences[origin];
    if (last == 0 || sequence_n(last) > 0)
        c->mark.ended[origin] = last;
    c->has_epoch = true;
}

/* Does the store have this event? Whatever is behind counts as seen from now on. */
static bool is_old(struct coalesce *c, const struct event *event)
{
    if (c->takes_all)
        return false;
    uint64_t *seen = &c->mark.sequences[event->origin];
    if (event->sequence <= *seen)
        return true;
    if (event->type == EVENT_EPOCH)
        end_epoch(c, event->origin);
    *seen = event->sequence;
    return false;
}

static enum err take_section(struct coalesce *c, struct slice kept, struct slice *ret_rest,
                             struct error *error)
{
    struct section_reader reader;
    *ret_rest = kept;
    enum err err = section_open(&reader, kept, error);
    if (err)
        return err;
    if (reader.origin >= LIMIT_CELLS)
        return error_set(error, ERR_CORRUPT, "origin %u: there are %u cells", reader.origin,
                         LIMIT_CELLS);
    for (;;) {
        struct event event;
        const char *begin = reader.at;
        *ret_rest = (struct slice){begin, (size_t)(kept.data + kept.size - begin)};
        err = section_next(&reader, &event, error);
        if (err)
            return err == ERR_NOT_FOUND ? ERR_OK : err;
        if (is_old(c, &event))
            event_done(&event);
        else
            take_event(c, &event, (struct slice){begin, (size_t)(reader.at - begin)});
    }
}

void coalesce_take(struct coalesce *coalesce, struct slice section, struct log_position next)
{
    assert(coalesce);

    struct slice kept = keep(coalesce, section);
    struct slice rest;
    struct error error = {.text = ""};
    if (take_section(coalesce, kept, &rest, &error))
        add_poison(coalesce, rest.size < kept.size ? rest : kept, next, &error);
    coalesce->bytes += section.size;
}

/* --- lanes --- */

/* Does anything in the section have to come after something that is not there yet? What cannot be
 * read is met again when it is taken. */
static bool must_wait(const struct coalesce *c, struct section_reader reader)
{
    struct event event;
    while (!section_next(&reader, &event, NULL)) {
        bool waits = event.type == EVENT_AFTER && event.after_origin < LIMIT_CELLS &&
                     event.after_origin != event.origin &&
                     event.sequence > c->mark.sequences[event.origin] &&
                     c->mark.sequences[event.after_origin] < event.after_sequence;
        event_done(&event);
        if (waits)
            return true;
    }
    return false;
}

/* Has the section's turn come? */
static enum err check_turn(struct coalesce *c, unsigned lane, const struct section_reader *reader,
                           uint64_t last, struct error *error)
{
    uint64_t seen = c->mark.sequences[lane];
    uint64_t first = reader->first_sequence;
    if (first > seen && !sequence_follows(seen, first))
        return error_set(error, ERR_CORRUPT,
                         "lane %u: events are missing between epoch %" PRIu64 ", number %" PRIu64
                         " and epoch %" PRIu64 ", number %" PRIu64,
                         lane, sequence_epoch(seen), sequence_n(seen), sequence_epoch(first),
                         sequence_n(first));
    return last > seen && must_wait(c, *reader) ? ERR_BUSY : ERR_OK;
}

static void move_lane(struct coalesce *c, unsigned lane, struct log_position next)
{
    c->mark.lanes[lane] = next;
    c->lanes |= UINT64_C(1) << lane;
}

/* Bytes that are no section of this lane have no place among its events. */
static void take_stray(struct coalesce *c, unsigned lane, struct slice bytes,
                       struct log_position next, const struct error *error)
{
    c->lane = lane;
    add_poison(c, keep(c, bytes), next, error);
    c->bytes += bytes.size;
    move_lane(c, lane, next);
}

enum err coalesce_take_lane(struct coalesce *coalesce, unsigned lane, struct slice section,
                            struct log_position next, struct error *error)
{
    assert(coalesce && lane < LIMIT_CELLS);

    struct section_reader reader;
    struct error cause = {.text = ""};
    if (section_open(&reader, section, &cause) || reader.left == 0) {
        take_stray(coalesce, lane, section, next, &cause);
        return ERR_OK;
    }
    if (reader.origin != lane) {
        error_set(&cause, ERR_CORRUPT, "a section of cell %u in lane %u", reader.origin, lane);
        take_stray(coalesce, lane, section, next, &cause);
        return ERR_OK;
    }
    uint64_t last = reader.first_sequence + reader.left - 1;
    enum err err = check_turn(coalesce, lane, &reader, last, error);
    if (err)
        return err;
    coalesce->lane = lane;
    uint64_t *seen = &coalesce->mark.sequences[lane];
    if (last > *seen) {
        coalesce_take(coalesce, section, next);
        *seen = last; /* also when some of it is a dead letter now: what follows does follow */
    }
    move_lane(coalesce, lane, next);
    return ERR_OK;
}

void coalesce_see(struct coalesce *coalesce, const struct state_mark *mark, uint64_t owned)
{
    assert(coalesce && mark);

    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (owned >> lane & 1)
            continue;
        coalesce->mark.lanes[lane] = mark->lanes[lane];
        coalesce->mark.sequences[lane] = mark->sequences[lane];
        coalesce->mark.ended[lane] = mark->ended[lane];
        coalesce->mark.incarnations[lane] = mark->incarnations[lane];
    }
}

bool coalesce_has_epoch(const struct coalesce *coalesce)
{
    return coalesce->has_epoch;
}

unsigned coalesce_poison_lane(const struct coalesce *coalesce, size_t poison)
{
    assert(poison < coalesce->poison_count);

    return coalesce->poison_lanes[poison];
}

/* --- figures --- */

uint64_t coalesce_events(const struct coalesce *coalesce)
{
    return coalesce->events;
}

uint64_t coalesce_bytes(const struct coalesce *coalesce)
{
    return coalesce->bytes;
}

int64_t coalesce_oldest_ms(const struct coalesce *coalesce)
{
    return coalesce->oldest_ms;
}

int64_t coalesce_last_ms(const struct coalesce *coalesce)
{
    return coalesce->last_ms;
}

bool coalesce_is_empty(const struct coalesce *coalesce)
{
    return coalesce->events == 0 && coalesce->poison_count == 0 && coalesce->lanes == 0;
}

/* --- the batch --- */

/* The raw events of a unit: the store asks for those it could not apply. */
static void write_raw(void *arg, size_t number, struct buffer *to)
{
    const struct coalesce *c = arg;
    assert(number < c->unit_count);
    for (uint32_t at = c->sides[number].first; at != NONE; at = c->traces[at].next) {
        const struct trace *trace = &c->traces[at];
        struct section one = {.count = 1};
        char header[SECTION_HEADER_MAX];
        size_t size = section_header(&one, trace->origin, trace->sequence, trace->time_ms, header);
        if (raw_put(to, (struct slice){header, size}, (struct slice){trace->data, trace->size}))
            return; /* as much as the store is willing to hold */
    }
}

/* Reactions of one unit next to one another, in their order. */
static void sort_reactions(struct coalesce *c)
{
    if (c->sorted_room < c->reaction_count) {
        c->sorted_room = c->reaction_room;
        free(c->sorted);
        c->sorted = memory_take(c->sorted_room * sizeof(*c->sorted));
    }
    uint32_t place = 0;
    for (size_t i = 0; i < c->unit_count; i++) {
        c->sides[i].place = place;
        c->units[i].reactions = c->sorted + place;
        c->units[i].reaction_count = c->sides[i].reactions;
        place += c->sides[i].reactions;
    }
    for (size_t i = 0; i < c->reaction_count; i++) {
        struct side *side = &c->sides[c->reaction_units[i]];
        if (i >= side->floor)
            c->sorted[side->place++] = c->reactions[i];
    }
}

static void place_reactions(struct coalesce *c)
{
    if (c->unit_count == 1 && c->sides[0].floor == 0) {
        c->units[0].reactions = c->reactions;
        c->units[0].reaction_count = c->reaction_count;
    } else if (c->reaction_count > 0) {
        sort_reactions(c);
    }
}

struct store_batch *coalesce_finish(struct coalesce *coalesce, struct log_position position,
                                    int64_t now_ms)
{
    assert(coalesce);

    place_reactions(coalesce);
    for (size_t i = 0; i < coalesce->poison_count; i++)
        coalesce->poison[i].reason = coalesce->reasons[i];
    coalesce->batch = (struct store_batch){
        .units = coalesce->units,
        .unit_count = coalesce->unit_count,
        .keys = coalesce->keys,
        .key_count = coalesce->key_count,
        .poison = coalesce->poison,
        .poison_count = coalesce->poison_count,
        .repairs = coalesce->repairs,
        .repair_count = coalesce->repair_count,
        .raw = write_raw,
        .raw_arg = coalesce,
        .before = coalesce->before,
        .after = coalesce->mark,
        .now_ms = now_ms,
    };
    coalesce->batch.lanes = coalesce->lanes;
    if (coalesce->lanes)
        memcpy(coalesce->batch.before_sequences, coalesce->before_sequences,
               sizeof(coalesce->before_sequences));
    else
        coalesce->batch.after.position = position;
    return &coalesce->batch;
}

enum err coalesce_raw_unit(struct coalesce *coalesce, struct slice raw,
                           const unsigned char *event_id, struct store_unit **ret_unit,
                           struct error *error)
{
    assert(coalesce && event_id && ret_unit);

    coalesce_begin(coalesce, &(struct state_mark){0});
    coalesce->takes_all = true;
    struct slice kept = keep(coalesce, raw);
    struct slice left = kept;
    struct slice section;
    struct slice rest;
    while (raw_next(&left, &section)) {
        enum err err = take_section(coalesce, section, &rest, error);
        if (err)
            return err;
    }
    if (left.size > 0 || coalesce->unit_count != 1)
        return error_set(error, ERR_CORRUPT, "these are not the events of one unit");
    place_reactions(coalesce);
    struct store_unit *unit = &coalesce->units[0];
    memcpy(unit->event_id, event_id, sizeof(unit->event_id));
    unit->raw = kept;
    *ret_unit = unit;
    return ERR_OK;
}
