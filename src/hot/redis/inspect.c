/* inspect.c - what the audit asks of the port: a close look at one thing, and putting it right. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/event.h"
#include "hot/redis/ask.h"
#include "hot/redis/drop.h"
#include "hot/redis/lease.h"
#include "hot/redis/load.h"
#include "hot/redis/look.h"
#include "hot/redis/spread.h"

/* A record that was loaded anew, or made anew, has another time of loading or generation. */
static struct hot_record record_of(const struct look *look)
{
    char text[64];
    int size = snprintf(text, sizeof(text), "%s %s", look->generation, look->used);
    uint64_t hash = hash_stable((struct slice){text, (size_t)size});
    return (struct hot_record){.incarnation = look->incarnation, .stamp = (uint32_t)hash};
}

/* A look that an id of this form is about. */
static bool fits(struct layer *layer, const struct look *look, uint8_t kind)
{
    return !look->code && (look->is_item || (kind == KIND_NONE &&
                                             !look_is_over(layer, look, env_wall_ms(layer->env))));
}

enum err scans_inspect(struct hot *hot, struct slice id, struct hot_inspection *ret)
{
    struct layer *layer = layer_of(hot);
    uint8_t kind;
    struct slice target = look_target(layer, id, &kind);
    struct look look;
    *ret = (struct hot_inspection){.is_item = false};
    look_at(layer, target, true, &look);
    memcpy(ret->sequences, look.sequences, sizeof(ret->sequences));
    bool is_steady = !look.is_spread || look.map.change == MAP_STEADY;
    if (!fits(layer, &look, kind) || !is_steady) {
        look_done(&look);
        return is_steady ? ERR_NOT_FOUND : ERR_BUSY;
    }
    ret->record = record_of(&look);
    ret->is_item = look.is_item;
    ret->complete = look.is_complete;
    ret->writes = look.writes;
    ret->value = look.value; /* the caller's from now on */
    memcpy(ret->counts, look.counts, sizeof(ret->counts));
    memcpy(ret->members, look.members, sizeof(ret->members));
    return ERR_OK;
}

enum err scans_recount(struct hot *hot, struct slice id, struct number *ret_value)
{
    struct layer *layer = layer_of(hot);
    uint8_t kind;
    struct slice target = look_target(layer, id, &kind);
    struct look look;
    enum err err = ERR_OK;
    look_at(layer, target, true, &look);
    if (look.code == ERR_UNAVAILABLE)
        err = ERR_UNAVAILABLE;
    else if (!fits(layer, &look, kind) || look.is_item != (kind != KIND_NONE))
        err = ERR_NOT_FOUND;
    else if (look.is_item && !look.is_complete)
        err = ERR_UNAVAILABLE; /* members are in the store only */
    else
        *ret_value = look.is_item ? number_of(look.members[kind - 1]) : number_copy(&look.value);
    look_done(&look);
    return err;
}

/* ---- putting right ---- */

static void take_mended(void *arg, const struct redisReply *reply)
{
    *(bool *)arg = reply_is(reply, "ok");
}

/* Sets a field of the home record, if it is still what we saw. */
static enum err set_field(struct layer *layer, struct slice target, const struct look *look,
                          const char *field, const struct number *is, const struct number *shall)
{
    unsigned home = layer_home(hash_stable(target));
    bool is_done = false;
    struct call call;
    struct buffer text;
    buffer_init(&text, 2 * NUMBER_DIGITS_MAX + 4);
    call_init(&call, layer, home, SCRIPT_LOOK);
    call_key_of(&call, "r", target);
    call_arg_text(&call, "mend");
    call_arg_text(&call, look->generation);
    call_arg_text(&call, look->used);
    call_arg_text(&call, field);
    (void)number_format(is, &text);
    call_arg(&call, buffer_slice(&text));
    text.size = 0;
    (void)number_format(shall, &text);
    call_arg(&call, buffer_slice(&text));
    enum err err = ask(&call, take_mended, &is_done);
    call_done(&call);
    buffer_done(&text);
    return !err && is_done ? ERR_OK : ERR_BUSY;
}

static enum err mend(struct layer *layer, struct slice target, const struct look *look,
                     uint8_t kind, const struct number *by)
{
    char field[LIMIT_KIND_BYTES + 4] = ".v";
    struct number is = number_copy(&look->value);
    if (look->is_item) {
        struct slice name = kinds_name(layer->options.kinds, kind);
        (void)snprintf(field, sizeof(field), ".c:%.*s", SLICE_ARGS(name));
        is = number_of(look->counts[kind - 1]);
    }
    struct number shall = number_copy(&is);
    number_add(&shall, by);
    enum err err = set_field(layer, target, look, field, &is, &shall);
    number_done(&is);
    number_done(&shall);
    return err;
}

/* Of something spread the home has a part: what is missing is added there. */
enum err scans_mend(struct hot *hot, struct slice id, const struct hot_record *record, uint8_t kind,
                    const struct number *by)
{
    struct layer *layer = layer_of(hot);
    uint8_t named;
    struct slice target = look_target(layer, id, &named);
    uint8_t of = kind != KIND_NONE ? kind : named;
    struct look look;
    look_records(layer, layer_home(hash_stable(target)), &target, 1, &look);
    struct hot_record is = record_of(&look);
    enum err err = ERR_NOT_FOUND;
    if (look.code == ERR_UNAVAILABLE)
        err = ERR_BUSY;
    else if (fits(layer, &look, KIND_NONE) &&
             (is.incarnation != record->incarnation || is.stamp != record->stamp))
        err = ERR_BUSY;
    else if (fits(layer, &look, KIND_NONE))
        err = look.is_item && (of == KIND_NONE || of > layer->options.kinds->count || by->big)
                  ? ERR_INVALID
                  : mend(layer, target, &look, of, by);
    look_done(&look);
    return err;
}

/* ---- telling ---- */

enum err scans_note(struct hot *hot, const struct event *repair, int64_t now_ms)
{
    struct layer *layer = layer_of(hot);
    unsigned cell = layer_home(hash_stable(repair->id));
    bool is_done = false;
    struct section section;
    struct call call;
    section_init(&section);
    section_event(&section, repair);
    call_init(&call, layer, cell, SCRIPT_OUTBOX);
    call_key(&call, "out");
    call_arg_text(&call, "note");
    call_arg_number(&call, (uint64_t)now_ms);
    call_arg(&call, buffer_slice(&section.body));
    enum err err = ask(&call, take_mended, &is_done);
    call_done(&call);
    section_done(&section);
    if (err || !is_done)
        return ERR_UNAVAILABLE;
    outbox_note_written(layer, cell);
    return ERR_OK;
}

void scans_stats(struct hot *hot, struct hot_stats *ret)
{
    struct layer *layer = layer_of(hot);
    struct drops_figures figures;
    drops_figures(layer, &figures);
    ret->hot_counters = figures.counters;
    ret->hot_items = figures.items;
    ret->dropped = figures.dropped;
    ret->expired = figures.expired;
    ret->loads = loads_count(layer);
    ret->cold_misses = loads_misses(layer);
    spreads_figures(layer, &ret->spread, &ret->spread_events);
    leases_entries(layer, &ret->outbox_entries, &ret->outbox_longest);
    ret->outbox_max = layer->options.outbox_max;
}
