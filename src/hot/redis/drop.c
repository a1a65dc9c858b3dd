#include "hot/redis/drop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/kinds.h"
#include "core/sequence.h"
#include "core/state.h"
#include "hot/redis/ask.h"
#include "hot/redis/keyname.h"
#include "hot/redis/lease.h"
#include "hot/redis/load.h"

#define SCAN_KEYS     100u /* about so many keys are looked at in a step */
#define CALL_MS       2000u
#define PRIMARIES_MAX 256u
#define NEVER_MS      (UINT64_C(1) << 52) /* nothing is ever idle for so long */
#define BUSY_SHARE    4u                  /* one in so many has left: go on at once */
#define STEPS_A_TICK  10u

/* Something that a scan has met. */
struct candidate {
    unsigned cell;
    uint16_t size;
    char id[LIMIT_ID_BYTES];
};

/* The candidates of one cell, next to one another, and the call about them. */
struct lot {
    struct drops *drops; /* borrowed */
    struct call call;
    size_t first;
    size_t count;
};

struct drops {
    struct layer *layer; /* borrowed */
    _Atomic uint64_t saved[LIMIT_CELLS];

    /* the step under way, on the layer's thread */
    _Atomic bool is_busy;
    unsigned primary;
    uint64_t cursors[PRIMARIES_MAX];
    struct call scan;
    struct candidate *candidates; /* owned */
    size_t count;
    size_t room;
    struct lot lots[LIMIT_CELLS];
    unsigned pending;
    size_t *large; /* owned: places of candidates that have slices */
    size_t large_count;
    struct call slices;
    unsigned left; /* of this step's candidates */
    unsigned steps_left;

    uint64_t round_counters; /* since the round began */
    uint64_t round_items;
    _Atomic uint64_t counters;
    _Atomic uint64_t items;
    _Atomic uint64_t dropped;
    _Atomic uint64_t expired;
    _Atomic uint64_t rounds;
};

struct drops *drops_new(struct layer *layer)
{
    struct drops *drops = memory_take_zeroed(sizeof(*drops));
    drops->layer = layer;
    call_init(&drops->scan, layer, 0, SCRIPT_LOOK);
    call_init(&drops->slices, layer, 0, SCRIPT_DROP);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        drops->lots[i].drops = drops;
        call_init(&drops->lots[i].call, layer, i, SCRIPT_DROP);
    }
    return drops;
}

void drops_free(struct drops *drops)
{
    if (!drops)
        return;
    call_done(&drops->scan);
    call_done(&drops->slices);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        call_done(&drops->lots[i].call);
    free(drops->candidates);
    free(drops->large);
    free(drops);
}

/* ---- what is saved ---- */

void drops_saved(struct hot *hot, const uint64_t sequences[LIMIT_CELLS])
{
    struct drops *drops = layer_of(hot)->drops;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        atomic_store_explicit(&drops->saved[i], sequences[i], memory_order_relaxed);
}

uint64_t saves_of(struct layer *layer, unsigned cell)
{
    return atomic_load_explicit(&layer->drops->saved[cell], memory_order_relaxed);
}

/* ---- calls ---- */

static bool is_home(struct slice id, unsigned cell)
{
    return layer_home(hash_stable(id)) == cell;
}

/* What all DROP calls begin with. */
static void begin_call(struct call *call, struct layer *layer, unsigned cell, const char *verb,
                       uint64_t retention_ms)
{
    uint64_t saved = saves_of(layer, cell);
    call_clear(call, cell, SCRIPT_DROP);
    call_arg_text(call, verb);
    call_arg_number(call, retention_ms);
    call_arg_number(call, sequence_epoch(saved));
    call_arg_number(call, sequence_n(saved));
    call_arg_number(call, layer->options.idle_s);
}

static void add_candidate(struct call *call, unsigned cell, struct slice id)
{
    call_key_of(call, "r", id);
    call_key_of(call, "l", id);
    call_arg_number(call, is_home(id, cell));
}

static void add_slices(struct call *call, struct slice id)
{
    for (unsigned slice = 0; slice < STATE_SLICES; slice++) {
        char name[4] = {'m', (char)('0' + slice / 10), (char)('0' + slice % 10), 0};
        call_key_of(call, name, id);
    }
}

/* ---- one id, at once ---- */

static void take_letter(void *arg, const struct redisReply *reply)
{
    struct slice text = reply_text(reply);
    *(char *)arg = text.size == 1 ? text.data[0] : 0;
}

enum err drops_id(struct hot *hot, struct slice id)
{
    struct layer *layer = layer_of(hot);
    struct slice target = id;
    uint8_t kind;
    char letter = 0;
    struct call call;
    (void)kinds_split(layer->options.kinds, id, &target, &kind);
    unsigned cell = layer_home(hash_stable(target));
    call_init(&call, layer, cell, SCRIPT_DROP);
    begin_call(&call, layer, cell, "sweep", 0);
    add_candidate(&call, cell, target);
    enum err err = ask(&call, take_letter, &letter);
    if (!err && letter == 's') {
        begin_call(&call, layer, cell, "slices", 0);
        add_candidate(&call, cell, target);
        add_slices(&call, target);
        err = ask(&call, take_letter, &letter);
    }
    call_done(&call);
    if (!err && letter == 'd')
        atomic_fetch_add(&layer->drops->dropped, 1);
    return err || (letter != 'd' && letter != 'g') ? ERR_BUSY
           : letter == 'd'                         ? ERR_OK
                                                   : ERR_NOT_FOUND;
}

/* ---- the end of a step ---- */

static void begin_step(struct drops *drops);

static void end_step(struct drops *drops)
{
    bool goes_on =
        drops->steps_left > 1 && drops->count > 0 && drops->left * BUSY_SHARE >= drops->count;
    drops->steps_left = goes_on ? drops->steps_left - 1 : 0;
    if (goes_on)
        begin_step(drops);
    else
        atomic_store(&drops->is_busy, false);
}

static void note_letter(struct drops *drops, char letter, size_t place)
{
    const struct candidate *candidate = &drops->candidates[place];
    switch (letter) {
    case 'd':
        atomic_fetch_add_explicit(&drops->dropped, 1, memory_order_relaxed);
        drops->left++;
        break;
    case 'g':
        drops->left++;
        break;
    case 'c':
        drops->round_counters++;
        break;
    case 'i':
        drops->round_items++;
        break;
    case 'x':
        atomic_fetch_add_explicit(&drops->expired, 1, memory_order_relaxed);
        runs_sweep(drops->layer, (struct slice){candidate->id, candidate->size});
        break;
    case 's':
        drops->large[drops->large_count++] = place;
        break;
    default:
        break;
    }
}

/* ---- those with slices, one by one ---- */

static void drop_large(struct drops *drops);

static void took_large(void *arg, enum err code, const struct redisReply *reply)
{
    struct drops *drops = arg;
    size_t place = drops->large[--drops->large_count];
    char letter = 0;
    if (code == ERR_OK)
        take_letter(&letter, reply);
    if (letter != 's')
        note_letter(drops, letter, place);
    drop_large(drops);
}

static void drop_large(struct drops *drops)
{
    if (drops->large_count == 0) {
        end_step(drops);
        return;
    }
    const struct candidate *candidate = &drops->candidates[drops->large[drops->large_count - 1]];
    struct slice id = {candidate->id, candidate->size};
    uint64_t retention_ms = drops->layer->options.retention_ms;
    begin_call(&drops->slices, drops->layer, candidate->cell, "slices",
               retention_ms != 0 ? retention_ms : NEVER_MS);
    add_candidate(&drops->slices, candidate->cell, id);
    add_slices(&drops->slices, id);
    call_start(&drops->slices, CALL_MS, took_large, drops);
}

/* ---- a lot: what was met of one cell ---- */

static void took_lot(void *arg, enum err code, const struct redisReply *reply)
{
    struct lot *lot = arg;
    struct drops *drops = lot->drops;
    struct slice letters = code == ERR_OK ? reply_text(reply) : (struct slice){NULL, 0};
    if (letters.size == lot->count)
        for (size_t i = 0; i < lot->count; i++)
            note_letter(drops, letters.data[i], lot->first + i);
    if (--drops->pending == 0)
        drop_large(drops);
}

static void start_lot(struct drops *drops, size_t first, size_t count)
{
    unsigned cell = drops->candidates[first].cell;
    struct lot *lot = &drops->lots[cell];
    uint64_t retention_ms = drops->layer->options.retention_ms;
    lot->first = first;
    lot->count = count;
    begin_call(&lot->call, drops->layer, cell, "sweep",
               retention_ms != 0 ? retention_ms : NEVER_MS);
    for (size_t i = first; i < first + count; i++)
        add_candidate(&lot->call, cell,
                      (struct slice){drops->candidates[i].id, drops->candidates[i].size});
    call_start(&lot->call, CALL_MS, took_lot, lot);
}

static size_t lot_end(const struct drops *drops, size_t first)
{
    size_t end = first + 1;
    while (end < drops->count && drops->candidates[end].cell == drops->candidates[first].cell)
        end++;
    return end;
}

/* A call may end before the next one is started: all are counted first. */
static void start_lots(struct drops *drops)
{
    drops->pending = 0;
    for (size_t at = 0; at < drops->count; at = lot_end(drops, at))
        drops->pending++;
    if (drops->pending == 0) {
        end_step(drops);
        return;
    }
    for (size_t at = 0, end; at < drops->count; at = end) {
        end = lot_end(drops, at);
        start_lot(drops, at, end - at);
    }
}

/* ---- the scan ---- */

static void add_met(struct drops *drops, const struct keyname *name)
{
    if (drops->count == drops->room) {
        drops->room = drops->room ? drops->room * 2 : 128;
        drops->candidates =
            memory_resize(drops->candidates, drops->room * sizeof(*drops->candidates));
        drops->large = memory_resize(drops->large, drops->room * sizeof(*drops->large));
    }
    struct candidate *candidate = &drops->candidates[drops->count++];
    candidate->cell = name->cell;
    candidate->size = (uint16_t)name->id.size;
    memcpy(candidate->id, name->id.data, name->id.size);
}

static int by_cell_and_id(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->cell != y->cell)
        return x->cell < y->cell ? -1 : 1;
    int order = memcmp(x->id, y->id, x->size < y->size ? x->size : y->size);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

/* The slices of a large item are met one by one. */
static void sort_and_dedupe(struct drops *drops)
{
    size_t kept = 0;
    if (drops->count == 0)
        return;
    qsort(drops->candidates, drops->count, sizeof(*drops->candidates), by_cell_and_id);
    for (size_t i = 1; i < drops->count; i++)
        if (by_cell_and_id(&drops->candidates[kept], &drops->candidates[i]) != 0)
            drops->candidates[++kept] = drops->candidates[i];
    drops->count = kept + 1;
}

/* When the last primary is through, so is the round. */
static void end_round(struct drops *drops)
{
    atomic_store_explicit(&drops->counters, drops->round_counters, memory_order_relaxed);
    atomic_store_explicit(&drops->items, drops->round_items, memory_order_relaxed);
    drops->round_counters = drops->round_items = 0;
    atomic_fetch_add_explicit(&drops->rounds, 1, memory_order_relaxed);
}

static void took_scan(void *arg, enum err code, const struct redisReply *reply)
{
    struct drops *drops = arg;
    uint64_t *cursor = &drops->cursors[drops->primary];
    bool is_list = code == ERR_OK && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                   reply->element[1]->type == REDIS_REPLY_ARRAY;
    drops->count = drops->large_count = 0;
    *cursor = is_list ? reply_number_at(reply, 0) : 0;
    for (size_t i = 0; is_list && i < (size_t)reply->element[1]->elements; i++) {
        struct keyname name;
        if (keyname_parse(drops->layer, reply_text_at(reply->element[1], i), &name))
            add_met(drops, &name);
    }
    sort_and_dedupe(drops);
    if (*cursor == 0 && ++drops->primary >= layer_primaries(drops->layer)) {
        drops->primary = 0;
        end_round(drops);
    }
    start_lots(drops);
}

/* The first cell of a primary; LIMIT_CELLS: it has none. */
static unsigned first_cell(struct layer *layer, unsigned primary)
{
    unsigned cell = 0;
    while (cell < LIMIT_CELLS && layer_primary_of(layer, cell) != primary)
        cell++;
    return cell;
}

static void begin_step(struct drops *drops)
{
    char pattern[KEYNAME_PATTERN_MAX];
    struct layer *layer = drops->layer;
    unsigned primaries = layer_primaries(layer);
    drops->left = 0;
    if (drops->primary >= primaries || drops->primary >= PRIMARIES_MAX)
        drops->primary = 0;
    unsigned cell = first_cell(layer, drops->primary);
    if (cell == LIMIT_CELLS) {
        drops->primary++;
        atomic_store(&drops->is_busy, false);
        return;
    }
    keyname_pattern(layer, true, pattern);
    call_clear(&drops->scan, cell, SCRIPT_LOOK);
    call_arg_text(&drops->scan, "scan");
    call_arg_number(&drops->scan, drops->cursors[drops->primary]);
    call_arg_number(&drops->scan, SCAN_KEYS);
    call_arg_text(&drops->scan, pattern);
    call_start(&drops->scan, CALL_MS, took_scan, drops);
}

/* ---- when ---- */

/* Ours, or else the next primary's turn comes. */
static bool is_our_turn(struct drops *drops)
{
    unsigned primaries = layer_primaries(drops->layer);
    for (unsigned i = 0; i < primaries; i++) {
        unsigned cell = first_cell(drops->layer, drops->primary % primaries);
        if (cell < LIMIT_CELLS && leases_held(drops->layer) & UINT64_C(1) << cell)
            return true;
        drops->primary = (drops->primary + 1) % primaries;
    }
    return false;
}

static void sweep(void *arg)
{
    struct drops *drops = arg;
    if (!atomic_load(&drops->is_busy) && is_our_turn(drops)) {
        atomic_store(&drops->is_busy, true);
        drops->steps_left = STEPS_A_TICK;
        begin_step(drops);
    }
}

static void sweep_now(void *arg)
{
    struct drops *drops = arg;
    drops->steps_left = 1;
    begin_step(drops);
}

void drops_step(struct layer *layer)
{
    if (!atomic_exchange(&layer->drops->is_busy, true) &&
        !layer_post(layer, sweep_now, layer->drops))
        atomic_store(&layer->drops->is_busy, false);
}

bool drops_is_busy(struct layer *layer)
{
    return atomic_load(&layer->drops->is_busy);
}

void drops_tick(struct layer *layer, int64_t now_ms)
{
    (void)now_ms;
    loads_tick(layer);
    if (atomic_load(&layer->has_store))
        (void)layer_post(layer, sweep, layer->drops);
}

void drops_figures(struct layer *layer, struct drops_figures *ret)
{
    struct drops *drops = layer->drops;
    *ret = (struct drops_figures){.counters = atomic_load(&drops->counters),
                                  .items = atomic_load(&drops->items),
                                  .dropped = atomic_load(&drops->dropped),
                                  .expired = atomic_load(&drops->expired),
                                  .rounds = atomic_load(&drops->rounds)};
}
