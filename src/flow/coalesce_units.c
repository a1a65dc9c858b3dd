/* coalesce_units.c - units by id, as the events of a batch meet them. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/uuid.h"
#include "flow/coalesce_own.h"

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
    *side = (struct side){.hash = hash,
                          .stable = hash_stable(id),
                          .first = COALESCE_NONE,
                          .last = COALESCE_NONE,
                          .floor = 0};

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

uint32_t coalesce_unit_of(struct coalesce *c, struct slice id, const struct event *event)
{
    uint64_t hash = hash_keyed(id, c->hash_key);
    size_t slot = slot_of(c, hash, id);
    return c->table[slot] != 0 ? c->table[slot] - 1 : add_unit(c, slot, hash, id, event);
}

void coalesce_forget_past(struct coalesce *c, uint32_t number)
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

bool coalesce_enter_incarnation(struct coalesce *c, uint32_t number, uint32_t incarnation)
{
    struct store_unit *unit = &c->units[number];
    if (incarnation < unit->incarnation)
        return false;
    if (incarnation > unit->incarnation || unit->is_gone) {
        coalesce_forget_past(c, number);
        unit->is_new = true;
        unit->is_gone = false;
        unit->incarnation = incarnation;
    }
    return true;
}

void coalesce_trace_event(struct coalesce *c, uint32_t number, const struct event *event,
                          struct slice bytes)
{
    COALESCE_GROW(c->traces, c->trace_room, c->trace_count);
    uint32_t place = (uint32_t)c->trace_count++;
    c->traces[place] = (struct trace){
        .data = bytes.data,
        .size = (uint32_t)bytes.size,
        .next = COALESCE_NONE,
        .sequence = event->sequence,
        .time_ms = event->time_ms,
        .origin = event->origin,
    };
    struct side *side = &c->sides[number];
    if (side->first == COALESCE_NONE)
        side->first = place;
    else
        c->traces[side->last].next = place;
    side->last = place;
}
