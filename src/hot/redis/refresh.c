/* refresh.c - asks home and all pieces of something spread: the map, and what they have counted.
 *
 * One at a time for each entry, however many wait for it. The answer of home is enough for those
 * who wait for the map; reads wait for all, or until a piece's time is up: then its last word
 * counts. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "hot/redis/ask.h"
#include "hot/redis/spread.h"

#define REFRESH_MS 400u

struct refresh_ask {
    struct refresh *refresh;
    unsigned cell;
    struct call call;
};

struct refresh {
    struct spread_entry *entry;
    uint64_t cells; /* asked */
    uint64_t answered;
    uint64_t absent;                    /* have no piece of it */
    uint64_t frozen;                    /* have one that takes no writes */
    uint64_t reserved_for[LIMIT_CELLS]; /* versions of the map; 0 = there is no such thing */
    unsigned left;
    bool is_starting;
    int64_t began_ms;
    uint64_t began_ns;
    struct refresh_ask asks[LIMIT_CELLS];
};

/* ---- what they say ---- */

/* "<shards> <policy> <has_floor> <floor> <idle_s> <deadline_ms>", or nothing. */
static void take_options(struct spread_entry *entry, struct slice text)
{
    int64_t words[6] = {1, 0, 0, 0, 0, 0};
    for (unsigned i = 0; i < 6 && text.size > 0; i++) {
        const char *space = memchr(text.data, ' ', text.size);
        size_t size = space ? (size_t)(space - text.data) : text.size;
        decimal_parse((struct slice){text.data, size}, &words[i]);
        text.data += space ? size + 1 : size;
        text.size -= space ? size + 1 : size;
    }
    entry->create = (struct op_create){.shards = (uint32_t)words[0],
                                       .policy = (enum policy)(words[1] & 3),
                                       .has_floor = words[2] != 0,
                                       .floor = words[3],
                                       .idle_s = (uint32_t)words[4]};
    entry->deadline_ms = words[5];
}

static bool is_spread(struct slice type)
{
    return type.size == 1 && (type.data[0] == 'C' || type.data[0] == 'S' || type.data[0] == 'F');
}

/* What the pieces of another map have counted may be in other pieces by now: nobody gets a total
 * before all were asked again. Nor from workers, who would not know that it was folded. */
static void lose_total(struct spread_entry *entry)
{
    entry->asked_ns = 0;
    total_withdraw(entry);
}

static bool is_same_map(const struct spread_entry *entry, const struct map *map)
{
    return entry->has_map && map->version == entry->map.version;
}

static void take_no_map(struct spread_entry *entry)
{
    entry->has_map = false;
    lose_total(entry);
}

/* type, incarnation, map, options, written, (field, value)... */
static void take_home(struct spread_entry *entry, const struct redisReply *record)
{
    struct map map;
    if (!is_spread(reply_text_at(record, 0)) || !map_parse(reply_text_at(record, 2), &map)) {
        take_no_map(entry);
        return;
    }
    if (!is_same_map(entry, &map))
        lose_total(entry);
    entry->has_map = true;
    entry->map = map;
    entry->has_sum = false;
    entry->incarnation = (uint32_t)reply_number_at(record, 1);
    take_options(entry, reply_text_at(record, 3));
}

static void take_field(struct spread_entry *entry, struct spread_part *part, struct slice field,
                       struct slice value)
{
    if (slice_equal(field, slice_of(".v"))) {
        number_done(&part->value);
        if (number_parse(value, &part->value) != ERR_OK)
            part->value = number_of(0);
    } else if (field.size > 3) {
        uint8_t kind =
            kinds_find(entry->layer->options.kinds, (struct slice){field.data + 3, field.size - 3});
        int64_t count;
        if (kind != KIND_NONE && decimal_parse(value, &count))
            part->counts[kind - 1] = count;
    }
}

/* "<ms> <epoch> <n>" */
static int64_t written_ms(struct slice written)
{
    const char *space = memchr(written.data, ' ', written.size);
    int64_t ms = 0;
    if (space)
        decimal_parse((struct slice){written.data, (size_t)(space - written.data)}, &ms);
    return ms;
}

static void take_part(struct refresh *refresh, unsigned cell, const struct redisReply *record)
{
    struct spread_entry *entry = refresh->entry;
    struct spread_part *part = total_part(entry, cell);
    memset(part->counts, 0, sizeof(part->counts));
    number_done(&part->value);
    for (size_t i = 5; i + 1 < record->elements; i += 2)
        take_field(entry, part, reply_text_at(record, i), reply_text_at(record, i + 1));
    part->is_known = true;
    part->incarnation = (uint32_t)reply_number_at(record, 1);
    part->as_of_ms = refresh->began_ms;
    int64_t written = written_ms(reply_text_at(record, 4));
    entry->written_ms = written > entry->written_ms ? written : entry->written_ms;
}

static void take_reply(struct refresh *refresh, unsigned cell, const struct redisReply *reply)
{
    struct spread_entry *entry = refresh->entry;
    if (reply_is(reply, "closed")) {
        opens_met_closed(entry->layer, cell);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1)
        return;
    const struct redisReply *record = reply->element[0];
    bool is_there = record->type == REDIS_REPLY_ARRAY && record->elements >= 5;
    if (cell == entry->home) {
        refresh->answered |= map_bit(cell);
        if (is_there)
            take_home(entry, record);
        else
            take_no_map(entry);
    }
    if (is_there && slice_equal(reply_text_at(record, 0), SLICE("R")))
        refresh->reserved_for[cell] = reply_number_at(record, 2);
    if (is_there && slice_equal(reply_text_at(record, 0), SLICE("F")))
        refresh->frozen |= map_bit(cell);
    /* A piece that is not there is being made, or was drained, or lost: home knows. */
    if (is_there && is_spread(reply_text_at(record, 0))) {
        take_part(refresh, cell, record);
        refresh->answered |= map_bit(cell);
    } else {
        refresh->absent |= map_bit(cell);
    }
}

/* Of cells that join: those that are reserved by this very map have counted nothing yet. One that
 * is frozen has been there before, and home has its counts; others serve, or were lost. */
static void look_at_joining(struct refresh *refresh)
{
    struct spread_entry *entry = refresh->entry;
    entry->reserved = 0;
    if (!entry->has_map || entry->map.change != MAP_JOIN)
        return;
    for (uint64_t joining = entry->map.slices; joining != 0; joining &= joining - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(joining);
        if (refresh->reserved_for[cell] == entry->map.version)
            entry->reserved |= map_bit(cell);
    }
    refresh->answered |= entry->reserved;
    refresh->answered &= ~(refresh->frozen & entry->map.slices);
}

/* A shard was lost. What stands in its place, and in the others, may be of the past: home may have
 * the same counts. */
static void look_at_dissolving(struct refresh *refresh)
{
    const struct spread_entry *entry = refresh->entry;
    if (entry->has_map && entry->map.change == MAP_DISSOLVE)
        refresh->answered = 0;
}

/* ---- asking ---- */

static void finish(struct refresh *refresh)
{
    struct spread_entry *entry = refresh->entry;
    entry->refresh = NULL;
    uint64_t lacks = entry->has_map ? entry->map.cells & ~refresh->cells : 0;
    if (lacks) { /* there are more than we knew: once more, for the same readers */
        for (struct op *op = spread_ops_take(&entry->for_refresh); op;
             op = spread_ops_take(&entry->for_refresh))
            spread_ops_add(&entry->for_next, op);
        entry->wants_refresh = true;
    } else {
        look_at_joining(refresh);
        look_at_dissolving(refresh);
        entry->missing = entry->has_map ? entry->map.cells & ~refresh->answered : 0;
        entry->asked_ns = refresh->began_ns;
        entry->as_of_ms = refresh->began_ms;
        entry->has_sum = false;
        total_publish(entry);
        entry->lacks_pieces = entry->has_map && entry->map.change == MAP_STEADY &&
                              (refresh->absent & entry->map.cells) != 0;
        if (entry->lacks_pieces)
            spread_note_strange(entry);
    }
    refresh_free(refresh);
    for (struct op *op = spread_ops_take(&entry->for_refresh); op;
         op = spread_ops_take(&entry->for_refresh)) {
        if (entry->has_map) {
            total_answer(entry, op);
            op->route = NULL;
            runs_finish_op(entry->layer, op);
        } else {
            op->route = NULL;
            runs_again(entry->layer, op);
        }
    }
    spread_was_read(entry);
    if (!entry->refresh && (entry->wants_refresh || entry->for_next.first))
        refresh_start(entry);
}

static void answered(void *arg, enum err code, const struct redisReply *reply)
{
    struct refresh_ask *ask = arg;
    struct refresh *refresh = ask->refresh;
    struct spread_entry *entry = refresh->entry;
    if (code == ERR_OK)
        take_reply(refresh, ask->cell, reply);
    refresh->left--;
    if (ask->cell == entry->home)
        spread_met_map(entry);
    if (refresh->left == 0 && !refresh->is_starting)
        finish(refresh);
}

void refresh_start(struct spread_entry *entry)
{
    if (entry->refresh) {
        entry->wants_refresh = true;
        return;
    }
    struct layer *layer = entry->layer;
    struct refresh *refresh = memory_take_zeroed(sizeof(*refresh));
    refresh->entry = entry;
    refresh->cells = map_bit(entry->home) | (entry->has_map ? entry->map.cells : 0);
    refresh->left = (unsigned)__builtin_popcountll(refresh->cells);
    refresh->began_ms = env_wall_ms(layer->env);
    refresh->began_ns = env_monotonic_ns(layer->env);
    refresh->is_starting = true;
    entry->refresh = refresh;
    entry->wants_refresh = false;
    entry->for_refresh = entry->for_next;
    entry->for_next = (struct spread_ops){0};
    for (uint64_t cells = refresh->cells; cells != 0; cells &= cells - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(cells);
        struct refresh_ask *ask = &refresh->asks[cell];
        *ask = (struct refresh_ask){.refresh = refresh, .cell = cell};
        call_init(&ask->call, layer, cell, SCRIPT_MOVE);
        call_key_of(&ask->call, "r", entry->id);
        call_arg_text(&ask->call, "tell");
        call_start(&ask->call, REFRESH_MS, answered, ask);
    }
    refresh->is_starting = false;
    if (refresh->left == 0)
        finish(refresh);
}

void refresh_free(struct refresh *refresh)
{
    for (uint64_t cells = refresh->cells; cells != 0; cells &= cells - 1)
        call_done(&refresh->asks[__builtin_ctzll(cells)].call);
    free(refresh);
}
