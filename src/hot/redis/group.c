/* group.c - the ops of a cell, as run.lua wants them: by record, and in runs that cost little. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/log.h"
#include "hot/redis/group.h"
#include "hot/redis/layer.h"

#define RECORD_PLACES (4 * RUN_OPS_MAX) /* of the table of records; a power of two */
#define USER_PLACES   4096u             /* of the table of users in a run */
#define HINT_PLACES   16384u
#define CALL_BYTES    (LOG_SECTION_BYTES_MAX - 4 * LIMIT_EVENT_BYTES) /* go into one call */
#define SUM_MAX       INT64_C(99999999999999) /* beyond it Lua adds digit by digit */

struct record {
    struct slice id;
    uint64_t stable;
    struct run_list ops;
};

struct hint {
    uint64_t stable;
    unsigned bits;
};

struct groups {
    struct layer *layer; /* borrowed */
    struct record records[RUN_OPS_MAX];
    size_t record_count;
    uint32_t places[RECORD_PLACES]; /* record + 1, of this round */
    uint32_t place_rounds[RECORD_PLACES];
    uint64_t users[USER_PLACES]; /* hashes of users in the run */
    uint32_t user_rounds[USER_PLACES];
    uint32_t round;      /* of places */
    uint32_t user_round; /* of users */
    struct hint hints[HINT_PLACES];
    uint64_t hash_key; /* random: clients choose ids, and with this not where they land */
    struct group_buffers buffers;
};

struct groups *groups_new(struct layer *layer)
{
    struct groups *groups = memory_take_zeroed(sizeof(*groups));
    groups->layer = layer;
    groups->hash_key = env_random(layer->env);
    group_buffers_init(&groups->buffers);
    return groups;
}

void groups_free(struct groups *groups)
{
    group_buffers_done(&groups->buffers);
    free(groups);
}

unsigned groups_hint(const struct groups *groups, uint64_t stable)
{
    const struct hint *hint = &groups->hints[hash_slot(stable, groups->hash_key) % HINT_PLACES];
    return hint->stable == stable ? hint->bits : 0;
}

void groups_learn(struct groups *groups, uint64_t stable, unsigned bit, bool is_so)
{
    struct hint *hint = &groups->hints[hash_slot(stable, groups->hash_key) % HINT_PLACES];
    if (hint->stable != stable)
        *hint = (struct hint){.stable = stable};
    hint->bits = is_so ? hint->bits | bit : hint->bits & ~bit;
}

/* --- by record --- */

static struct record *record_of(struct groups *groups, const struct op *op)
{
    for (size_t at = hash_slot(op->stable, groups->hash_key);; at++) {
        size_t place = at % RECORD_PLACES;
        if (groups->place_rounds[place] != groups->round) {
            groups->place_rounds[place] = groups->round;
            struct record *record = &groups->records[groups->record_count++];
            groups->places[place] = (uint32_t)groups->record_count;
            record->id = op->target;
            record->stable = op->stable;
            run_list_clear(&record->ops);
            return record;
        }
        struct record *record = &groups->records[groups->places[place] - 1];
        if (record->stable == op->stable && slice_equal(record->id, op->target))
            return record;
    }
}

/* What the op's events may take in the outbox: an entry has to fit into a section of the log. In
 * front of a write may come the end of what was there, and after a value its deadline. An answer
 * that is kept for a key, and the difference that a value makes, are as long as values are. */
static size_t op_size(const struct op *op)
{
    size_t size = 2 * op->id.size + op->user.size + op->key.size + op->region.size +
                  2 * LIMIT_KIND_BYTES + 64;
    if (op->kind == OP_ADD && op->amount.big)
        size += LIMIT_AMOUNT_DIGITS;
    if (op->kind == OP_SET)
        size += op->id.size + NUMBER_DIGITS_MAX;
    if (op->key.size > 0 && (op->kind == OP_ADD || op->kind == OP_SET))
        size += NUMBER_DIGITS_MAX;
    return size;
}

static void sort_by_record(struct groups *groups, struct run_list *queue)
{
    size_t bytes = 0;
    groups->record_count = 0;
    groups->round++;
    for (size_t taken = 0; queue->first && taken < RUN_OPS_MAX && bytes < CALL_BYTES; taken++) {
        struct op *op = queue->first;
        queue->first = op->next;
        queue->count--;
        bytes += op_size(op);
        run_list_add(&record_of(groups, op)->ops, op);
    }
    if (!queue->first)
        run_list_clear(queue);
}

/* --- what may share a run --- */

static bool is_new_user(struct groups *groups, uint64_t hash)
{
    size_t at = hash_slot(hash, groups->hash_key) % USER_PLACES;
    for (; groups->user_rounds[at] == groups->user_round; at = (at + 1) % USER_PLACES)
        if (groups->users[at] == hash)
            return false;
    groups->user_rounds[at] = groups->user_round;
    groups->users[at] = hash;
    return true;
}

static char way_of(const struct groups *groups, const struct op *op, unsigned hint)
{
    if (hint & HINT_CAREFUL || (op->key.size > 0 && op_is_write(op->kind)))
        return 'G';
    if (op_has_user(op->kind))
        return 'L';
    bool is_sum = op->kind == OP_ADD && !op->amount.big && op->amount.small != 0 &&
                  groups->layer->options.idle_s == 0;
    return is_sum && op->amount.small <= SUM_MAX && op->amount.small >= -SUM_MAX ? 'A' : 'G';
}

static bool fits(struct groups *groups, const struct stretch *stretch, const struct op *op,
                 char what)
{
    if (stretch->ops.count == 0)
        return true;
    if (what == 'G' || what != stretch->what || stretch->ops.count >= RUN_PART_MAX ||
        !slice_equal(op->region, stretch->region))
        return false;
    if (what == 'A') {
        int64_t sum = stretch->sum + op->amount.small;
        return sum <= SUM_MAX && sum >= -SUM_MAX;
    }
    return is_new_user(groups, op->hash);
}

/* --- into the call --- */

static void put_record(struct groups *groups, struct making *making, struct record *record)
{
    unsigned hint = groups_hint(groups, record->stable);
    struct stretch stretch = {.what = 0};
    run_list_clear(&stretch.ops);
    making->id = record->id;
    call_key_of(making->call, "r", record->id);
    call_arg(making->call, record->id);
    for (struct op *op = record->ops.first, *next; op; op = next) {
        next = op->next;
        char what = way_of(groups, op, hint);
        if (!fits(groups, &stretch, op, what))
            group_put(making, &stretch, false, hint);
        if (stretch.ops.count == 0) {
            stretch.what = what;
            stretch.region = op->region;
            groups->user_round++;
            if (what == 'L')
                is_new_user(groups, op->hash);
        }
        if (what == 'A')
            stretch.sum += op->amount.small;
        run_list_add(&stretch.ops, op);
    }
    group_put(making, &stretch, true, hint);
}

size_t groups_make(struct groups *groups, struct call *call, struct run_list *queue,
                   struct run_part *parts)
{
    struct making making = {
        .layer = groups->layer, .buffers = &groups->buffers, .call = call, .parts = parts};
    sort_by_record(groups, queue);
    for (size_t i = 0; i < groups->record_count; i++)
        put_record(groups, &making, &groups->records[i]);
    return making.part_count;
}
