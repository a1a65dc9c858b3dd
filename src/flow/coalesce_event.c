/* coalesce_event.c - what an event does to its unit. */
#include "core/bucket.h"
#include "core/key.h"
#include "core/user.h"
#include "flow/coalesce_own.h"

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
    coalesce_forget_past(c, number);
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
    if (!coalesce_enter_incarnation(c, number, event->incarnation))
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
    COALESCE_GROW(c->keys, c->key_room, c->key_count);
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

/* The store wrote that down itself, together with the repair. */
static bool is_of_store(const struct event *repair)
{
    return repair->place == PLACE_STORE || repair->place == PLACE_STORE_MEMBERS;
}

void coalesce_take_event(struct coalesce *c, struct event *event, struct slice bytes)
{
    c->events++;
    if (c->oldest_ms == 0 || event->time_ms < c->oldest_ms)
        c->oldest_ms = event->time_ms;
    c->last_ms = event->time_ms;
    if (event->key.size > 0 && !event->erased && !c->takes_all)
        add_key(c, event);
    if (event->type == EVENT_REPAIR && is_of_store(event)) {
        event_done(event);
        return;
    }
    if (event->type == EVENT_REPAIR) {
        COALESCE_GROW(c->repairs, c->repair_room, c->repair_count);
        c->repairs[c->repair_count++] = *event;
        return;
    }
    if (event_changes(event->type)) {
        struct slice id = event->id;
        uint8_t kind;
        if (event->type == EVENT_CREATE)
            kinds_split(c->kinds, event->id, &id, &kind);
        uint32_t number = coalesce_unit_of(c, id, event);
        apply_event(c, number, event);
        c->units[number].events++;
        coalesce_trace_event(c, number, event, bytes);
    }
    event_done(event);
}
