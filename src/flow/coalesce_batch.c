/* coalesce_batch.c - the tables as the store takes them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/raw.h"
#include "flow/coalesce_own.h"

/* The raw events of a unit: the store asks for those it could not apply. */
static void write_raw(void *arg, size_t number, struct buffer *to)
{
    const struct coalesce *c = arg;
    assert(number < c->unit_count);
    for (uint32_t at = c->sides[number].first; at != COALESCE_NONE; at = c->traces[at].next) {
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
    if (!coalesce->lanes)
        coalesce->batch.after.position = position;
    for (unsigned lane = 0; coalesce->lanes && lane < LIMIT_CELLS; lane++) {
        bool is_moved = coalesce->lanes >> lane & 1;
        coalesce->batch.before_sequences[lane] = coalesce->before_sequences[lane];
        coalesce->batch.needed_sequences[lane] = is_moved ? 0 : coalesce->needed_sequences[lane];
    }
    return &coalesce->batch;
}

enum err coalesce_raw_unit(struct coalesce *coalesce, struct slice raw,
                           const unsigned char *event_id, struct store_unit **ret_unit,
                           struct error *error)
{
    assert(coalesce && event_id && ret_unit);

    coalesce_begin(coalesce, &(struct state_mark){0});
    coalesce->takes_all = true;
    struct slice kept = blocks_keep(&coalesce->kept, raw);
    struct slice left = kept;
    struct slice section;
    struct slice rest;
    while (raw_next(&left, &section)) {
        enum err err = coalesce_take_section(coalesce, section, &rest, error);
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
