#include "flow/coalesce.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/uuid.h"
#include "core/sequence.h"
#include "flow/coalesce_own.h"

#define TABLE_FIRST 1024u

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
    blocks_clear(&c->kept);
}

void coalesce_free(struct coalesce *coalesce)
{
    if (!coalesce)
        return;
    clear(coalesce);
    blocks_done(&coalesce->kept);
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
    memset(coalesce->needed_sequences, 0, sizeof(coalesce->needed_sequences));
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

/* --- sections --- */

void coalesce_add_poison(struct coalesce *c, struct slice raw, struct log_position position,
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

static void need(struct coalesce *c, const struct event *event)
{
    bool is_other = event->after_origin < LIMIT_CELLS && event->after_origin != event->origin;
    if (is_other && event->after_sequence > c->needed_sequences[event->after_origin])
        c->needed_sequences[event->after_origin] = event->after_sequence;
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
    if (event->type == EVENT_AFTER)
        need(c, event);
    *seen = event->sequence;
    c->mark.times_ms[event->origin] = event->time_ms;
    return false;
}

enum err coalesce_take_section(struct coalesce *c, struct slice kept, struct slice *ret_rest,
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
            coalesce_take_event(c, &event, (struct slice){begin, (size_t)(reader.at - begin)});
    }
}

void coalesce_take(struct coalesce *coalesce, struct slice section, struct log_position next)
{
    assert(coalesce);

    struct slice kept = blocks_keep(&coalesce->kept, section);
    struct slice rest;
    struct error error = {.text = ""};
    if (coalesce_take_section(coalesce, kept, &rest, &error))
        coalesce_add_poison(coalesce, rest.size < kept.size ? rest : kept, next, &error);
    coalesce->bytes += section.size;
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
