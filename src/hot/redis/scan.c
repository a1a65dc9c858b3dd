/* scan.c - walking through what is in Redis, for lists.
 *
 * A cursor is a primary and the place that SCAN has come to there. What Redis rehashes meanwhile
 * may come twice. Pieces of something spread are met in their own cells and passed over: the
 * record at home stands for all. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/bucket.h"
#include "hot/redis/ask.h"
#include "hot/redis/keyname.h"
#include "hot/redis/look.h"

#define PRIMARY_SHIFT 56u
#define PLACE_MASK    ((UINT64_C(1) << PRIMARY_SHIFT) - 1)
#define STEPS_MAX     32u

/* ---- the ids of a step ---- */

struct met {
    unsigned cell;
    uint16_t size;
    char id[LIMIT_ID_BYTES];
};

struct mets {
    struct layer *layer;
    struct met *list; /* owned */
    size_t count;
    size_t room;
    uint64_t place; /* where the scan goes on */
};

static void take_keys(void *arg, const struct redisReply *reply)
{
    struct mets *mets = arg;
    bool is_list = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                   reply->element[1]->type == REDIS_REPLY_ARRAY;
    if (!is_list)
        return;
    mets->place = reply_number_at(reply, 0);
    mets->room = (size_t)reply->element[1]->elements;
    mets->list = memory_take(mets->room * sizeof(*mets->list) + 1);
    for (size_t i = 0; i < mets->room; i++) {
        struct keyname name;
        if (!keyname_parse(mets->layer, reply_text_at(reply->element[1], i), &name) ||
            !name.is_record || layer_home(hash_stable(name.id)) != name.cell)
            continue;
        struct met *met = &mets->list[mets->count++];
        met->cell = name.cell;
        met->size = (uint16_t)name.id.size;
        memcpy(met->id, name.id.data, name.id.size);
    }
}

static int by_cell(const void *a, const void *b)
{
    unsigned x = ((const struct met *)a)->cell;
    unsigned y = ((const struct met *)b)->cell;
    return (x > y) - (x < y);
}

static void pass_over(struct layer *layer)
{
    atomic_fetch_add_explicit(&layer->base.passed_over, 1, memory_order_relaxed);
}

/* One SCAN on the primary that the cursor is at; the cursor moves on. A primary that does not
 * answer is passed over. */
static void step(struct layer *layer, uint64_t *cursor, uint32_t limit, struct mets *ret)
{
    unsigned primary = (unsigned)(*cursor >> PRIMARY_SHIFT);
    unsigned cell = 0;
    char pattern[KEYNAME_PATTERN_MAX];
    struct call call;
    *ret = (struct mets){.layer = layer};
    while (cell < LIMIT_CELLS && layer_primary_of(layer, cell) != primary)
        cell++;
    if (cell < LIMIT_CELLS) {
        keyname_pattern(layer, false, pattern);
        call_init(&call, layer, cell, SCRIPT_LOOK);
        call_arg_text(&call, "scan");
        call_arg_number(&call, *cursor & PLACE_MASK);
        call_arg_number(&call, limit);
        call_arg_text(&call, pattern);
        if (ask(&call, take_keys, ret) != ERR_OK)
            pass_over(layer);
        call_done(&call);
    }
    if (ret->count > 0)
        qsort(ret->list, ret->count, sizeof(*ret->list), by_cell);
    if (ret->place == 0)
        primary++;
    *cursor = ret->place == 0 && primary >= layer_primaries(layer)
                  ? 0
                  : (uint64_t)primary << PRIMARY_SHIFT | ret->place;
}

static size_t end_of_cell(const struct mets *mets, size_t first)
{
    size_t end = first + 1;
    while (end < mets->count && mets->list[end].cell == mets->list[first].cell)
        end++;
    return end;
}

static struct slice id_of(const struct met *met)
{
    return (struct slice){met->id, met->size};
}

/* ---- entries ---- */

static void visit_look(struct layer *layer, struct slice id, const struct look *look,
                       hot_visit_fn *visit, void *arg)
{
    struct hot_entry entry = {.id = id,
                              .is_item = look->is_item,
                              .value = look->is_item ? NULL : &look->value,
                              .counts = look->is_item ? look->counts : NULL,
                              .shards = look->is_spread ? look->map.shards : 1,
                              .was_loaded = look->was_loaded};
    for (unsigned i = 0; look->is_item && i < layer->options.kinds->count; i++)
        entry.kinds_seen |= (uint32_t)(look->counts[i] > 0) << i;
    visit(arg, &entry);
}

/* Of one cell. What is spread is looked at once more, with its pieces. */
static void visit_records(struct layer *layer, const struct met *mets, size_t count,
                          hot_visit_fn *visit, void *arg)
{
    struct slice *ids = memory_take(count * sizeof(*ids));
    struct look *looks = memory_take(count * sizeof(*looks));
    int64_t now_ms = env_wall_ms(layer->env);
    for (size_t i = 0; i < count; i++)
        ids[i] = id_of(&mets[i]);
    look_records(layer, mets[0].cell, ids, count, looks);
    for (size_t i = 0; i < count; i++) {
        if (!looks[i].code && looks[i].is_spread) {
            look_done(&looks[i]);
            look_at(layer, ids[i], false, &looks[i]);
        }
        if (looks[i].code == ERR_UNAVAILABLE)
            pass_over(layer);
        if (!looks[i].code && !look_is_over(layer, &looks[i], now_ms))
            visit_look(layer, ids[i], &looks[i], visit, arg);
        look_done(&looks[i]);
    }
    free(ids);
    free(looks);
}

/* SCAN looks at keys of all sorts: it goes on until there are about as many as were asked for. */
static bool goes_on(uint64_t cursor, uint32_t *limit, uint32_t *steps, size_t met)
{
    *limit -= met < *limit ? (uint32_t)met : *limit;
    return cursor != 0 && *limit > 0 && ++*steps < STEPS_MAX;
}

void scans_scan(struct hot *hot, uint64_t *cursor, uint32_t limit, hot_visit_fn *visit, void *arg)
{
    struct layer *layer = layer_of(hot);
    uint32_t steps = 0;
    struct mets mets;
    do {
        step(layer, cursor, limit, &mets);
        for (size_t at = 0, end; at < mets.count; at = end) {
            end = end_of_cell(&mets, at);
            visit_records(layer, &mets.list[at], end - at, visit, arg);
        }
        free(mets.list);
    } while (goes_on(*cursor, &limit, &steps, mets.count));
}

enum err scans_peek(struct hot *hot, struct slice id, hot_visit_fn *visit, void *arg)
{
    struct layer *layer = layer_of(hot);
    uint8_t kind;
    struct slice target = look_target(layer, id, &kind);
    struct look look;
    look_at(layer, target, false, &look);
    enum err err = look.code;
    if (err == ERR_COLD && !atomic_load(&layer->has_store))
        err = ERR_NOT_FOUND;
    if (!err && ((kind != KIND_NONE && !look.is_item) ||
                 look_is_over(layer, &look, env_wall_ms(layer->env))))
        err = ERR_NOT_FOUND;
    if (!err)
        visit_look(layer, target, &look, visit, arg);
    look_done(&look);
    return err;
}

/* ---- the items of a user ---- */

#define ELSEWHERE UINT8_MAX

struct helds {
    struct layer *layer;
    size_t count;
    uint8_t *kinds; /* of each that was asked for; ELSEWHERE */
};

static void take_held(void *arg, const struct redisReply *reply)
{
    struct helds *helds = arg;
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < helds->count; i++) {
        struct slice held = reply_text_at(reply, i);
        helds->kinds[i] = slice_equal(held, SLICE("*"))
                              ? ELSEWHERE
                              : kinds_find(helds->layer->options.kinds, held);
    }
}

static void add_member(struct call *call, struct slice id, struct slice user)
{
    unsigned slice = bucket_slice(bucket_of(id, user));
    char name[4] = {'m', (char)('0' + slice / 10), (char)('0' + slice % 10), 0};
    char first = (char)('0' + slice);
    call_key_of(call, "r", id);
    call_key_of(call, name, id);
    call_arg_pair(call, (struct slice){&first, 1}, user);
}

/* The user's slice of something spread is where the map says. */
static uint8_t held_elsewhere(struct layer *layer, struct slice id, struct slice user)
{
    uint8_t kind = KIND_NONE;
    struct helds helds = {.layer = layer, .count = 1, .kinds = &kind};
    struct look look;
    look_records(layer, layer_home(hash_stable(id)), &id, 1, &look);
    if (!look.code && look.is_spread) {
        struct call call;
        call_init(&call, layer, look.map.owner[bucket_slice(bucket_of(id, user))], SCRIPT_LOOK);
        call_arg_text(&call, "held");
        add_member(&call, id, user);
        (void)ask(&call, take_held, &helds);
        call_done(&call);
    }
    look_done(&look);
    return kind == ELSEWHERE ? KIND_NONE : kind; /* it has just moved: the store knows it */
}

static void visit_held(struct layer *layer, const struct met *mets, size_t count, struct slice user,
                       hot_item_fn *visit, void *arg)
{
    struct helds helds = {.layer = layer, .count = count};
    struct call call;
    helds.kinds = memory_take_zeroed(count);
    call_init(&call, layer, mets[0].cell, SCRIPT_LOOK);
    call_arg_text(&call, "held");
    for (size_t i = 0; i < count; i++)
        add_member(&call, id_of(&mets[i]), user);
    if (ask(&call, take_held, &helds) != ERR_OK)
        pass_over(layer);
    call_done(&call);
    for (size_t i = 0; i < count; i++) {
        uint8_t kind = helds.kinds[i];
        if (kind == ELSEWHERE)
            kind = held_elsewhere(layer, id_of(&mets[i]), user);
        if (kind != KIND_NONE)
            visit(arg, id_of(&mets[i]), kind);
    }
    free(helds.kinds);
}

void scans_items_of(struct hot *hot, struct slice user, uint64_t *cursor, uint32_t limit,
                    hot_item_fn *visit, void *arg)
{
    struct layer *layer = layer_of(hot);
    uint32_t steps = 0;
    struct mets mets;
    if (user.size == 0 || user.size > LIMIT_USER_BYTES) {
        *cursor = 0;
        return;
    }
    do {
        step(layer, cursor, limit, &mets);
        for (size_t at = 0, end; at < mets.count; at = end) {
            end = end_of_cell(&mets, at);
            visit_held(layer, &mets.list[at], end - at, user, visit, arg);
        }
        free(mets.list);
    } while (goes_on(*cursor, &limit, &steps, mets.count));
}
