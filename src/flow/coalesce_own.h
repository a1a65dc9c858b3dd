/* coalesce_own.h - tables of a batch: units by id, reactions of units, bytes of sections.
 *
 *   kept       copies of the sections; everything below points there
 *   units      one for each id, found through `table` by hash
 *   reactions  as they come; sorted by unit when the batch is finished
 *   traces     where each event of a unit stands in `kept`: a chain, so that the raw
 *              events of a unit that is refused can be written out; others never are
 *
 * Which file has which part:
 *   coalesce.c         life, sections and what cannot be read, figures
 *   coalesce_lanes.c   sections of a log of many lanes: gaps, turns
 *   coalesce_event.c   what an event does to its unit
 *   coalesce_units.c   the table of units
 *   coalesce_batch.c   the batch, and one unit out of its raw events */
#ifndef FLOW_COALESCE_OWN_H
#define FLOW_COALESCE_OWN_H

#include "base/memory.h"
#include "flow/blocks.h"
#include "flow/coalesce.h"

#define COALESCE_NONE UINT32_MAX

/* An event, of a unit, where it was read. */
struct trace {
    const char *data;
    uint32_t size;
    uint32_t next; /* of the same unit; COALESCE_NONE = the last */
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

    struct blocks kept; /* the sections */

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
    uint64_t needed_sequences[LIMIT_CELLS]; /* of other lanes, by what was taken */
    uint64_t lanes;                         /* that were moved, a bit each */
    unsigned lane;                          /* that is being taken */
    bool has_epoch;
    struct store_batch batch;
    uint64_t events;
    uint64_t bytes;
    int64_t oldest_ms;
    int64_t last_ms;
    int64_t now_ms; /* of the batch's beginning: for event ids */
    bool takes_all; /* a retry: sequences are of the past */
};

static inline void *coalesce_grow(void *array, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 256;
    return memory_resize(array, *room * size);
}

#define COALESCE_GROW(array, room, count) \
    ((array) = coalesce_grow((array), &(room), (count), sizeof(*(array))))

/* --- coalesce.c --- */

/* Takes what is kept of a section. On an error the rest of it is what could not be read. */
enum err coalesce_take_section(struct coalesce *c, struct slice kept, struct slice *ret_rest,
                               struct error *error);
void coalesce_add_poison(struct coalesce *c, struct slice raw, struct log_position position,
                         const struct error *error);

/* --- coalesce_event.c --- */

/* Takes the event over; its slices, and `bytes`, point into what we keep. */
void coalesce_take_event(struct coalesce *c, struct event *event, struct slice bytes);

/* --- coalesce_units.c --- */

/* The unit of an id; makes one if there is none. */
uint32_t coalesce_unit_of(struct coalesce *c, struct slice id, const struct event *event);
/* What the unit did so far is of no account any more: it was deleted. */
void coalesce_forget_past(struct coalesce *c, uint32_t number);
/* The unit goes on as a thing of this incarnation. False: the event is late. */
bool coalesce_enter_incarnation(struct coalesce *c, uint32_t number, uint32_t incarnation);
/* The event belongs to the unit, and stands there. */
void coalesce_trace_event(struct coalesce *c, uint32_t number, const struct event *event,
                          struct slice bytes);

#endif
