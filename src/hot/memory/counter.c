/* counter.c - what a cell does with counters. */
#include "hot/memory/cell_own.h"

#include <assert.h>

#include "base/hash.h"

static void emit_amount(struct cell *cell, const struct cell_turn *turn, const struct op *op,
                        enum event_type type, uint32_t incarnation, const struct number *amount)
{
    if (type == EVENT_ADD && op->key.size == 0 && !amount->big) {
        section_add(turn->section, incarnation, op->id, amount->small, op->region);
        return;
    }
    cell_emit(
        cell, turn, op,
        (struct event){.type = type, .incarnation = incarnation, .id = op->id, .amount = *amount});
}

void counter_add_value(struct cell *cell, struct entry *counter, const struct number *amount)
{
    struct number value = entry_value(counter);
    cell->big -= value.big != NULL;
    number_add(&value, amount);
    cell->big += value.big != NULL;
    entry_set_value(counter, value);
}

void counter_answer(struct op *op, const struct entry *counter)
{
    if (counter->flags & ENTRY_BIG) {
        struct number value = entry_value(counter);
        op->value = number_copy(&value);
    } else {
        op->value = number_of(counter->small);
    }
}

static bool below_floor(const struct rare *rare, const struct entry *counter,
                        const struct number *amount)
{
    if (!rare || !rare->create.has_floor)
        return false;
    struct number zero = number_of(0);
    if (number_compare(amount, &zero) >= 0)
        return false;
    struct number value = entry_value(counter);
    struct number sum = number_copy(&value);
    number_add(&sum, amount);
    struct number floor = number_of(rare->create.floor);
    bool below = number_compare(&sum, &floor) < 0;
    number_done(&sum);
    return below;
}

bool counter_is_spread(const struct cell *cell, const struct entry *entry)
{
    if (!entry || entry->kind != ENTRY_COUNTER)
        return false;
    const struct rare *rare = cell_rare(cell, entry);
    return rare && rare->parts;
}

/* The counter that a write is for: found, expired and made anew, or made. NULL
 * when it is an item: op->code says so. */
static struct entry *counter_for_write(struct cell *cell, const struct cell_turn *turn,
                                       struct op *op, struct entry *entry, bool *ret_created)
{
    if (entry && entry->kind != ENTRY_COUNTER) {
        op->code = ERR_WRONG_TYPE;
        return NULL;
    }
    if (!entry && turn->tight) {
        op->code = ERR_NO_MEMORY;
        return NULL;
    }
    if (entry && cell_is_expired(cell, entry, turn->now_ms)) {
        cell_expire(cell, turn, op->hash, entry);
        entry = NULL;
    }
    *ret_created = !entry;
    return entry ? entry : cell_create(cell, op->hash, op->target, ENTRY_COUNTER);
}

uint8_t cell_pick(const struct cell_turn *turn, const struct op *op, const struct spread *spread)
{
    uint64_t loads[LIMIT_CELLS];
    if (spread->policy == POLICY_LEAST_LOADED)
        for (uint32_t shard = 0; shard < spread->shards; shard++)
            loads[shard] = atomic_load_explicit(
                &turn->cells[spread_cell(spread->home, spread->shards, shard)].writes,
                memory_order_relaxed);
    uint32_t shard = shard_pick(turn->picker, spread->policy, op->hash, spread->shards, loads);
    return spread_cell(spread->home, spread->shards, shard);
}

static void touch_parts(const struct cell *cell, struct parts *parts, int64_t now_ms)
{
    atomic_fetch_add_explicit(&parts->spread.writes, 1, memory_order_relaxed);
    cell_touch_spread(cell, &parts->spread, now_ms);
}

/* Adds to the part of a spread counter that this cell owns. */
static enum cell_result add_to_part(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                    struct parts *parts, uint32_t shard)
{
    if (op->amount.big)
        return CELL_ALONE;

    int64_t total;
    enum err err = parts_add(parts, shard, op->amount.small, &total);
    if (err == ERR_OUT_OF_RANGE)
        return CELL_ALONE;
    if (err)
        return cell_fail(op, err);
    op->changed = op->amount.small != 0;
    op->value = number_of(total);
    cell_note_write(cell, op);
    if (op->changed || op->key.size > 0) {
        touch_parts(cell, parts, turn->now_ms);
        emit_amount(cell, turn, op, EVENT_ADD, parts->spread.incarnation, &op->amount);
    }
    return CELL_DONE;
}

enum cell_result counter_run_in_part(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                     struct parts *parts)
{
    uint32_t shard = spread_shard_of(&parts->spread, cell->number);
    if (shard == UINT32_MAX || parts_are_expired(parts, turn->now_ms))
        return CELL_ELSEWHERE;
    if (op->kind == OP_GET) {
        op->value = number_of(atomic_load_explicit(&parts->total, memory_order_relaxed));
        return CELL_DONE;
    }
    assert(op->kind == OP_ADD);
    return turn->room ? cell_fail(op, turn->room) : add_to_part(cell, turn, op, parts, shard);
}

/* A write to a spread counter belongs to the shard that the policy picks. */
static enum cell_result add_to_a_shard(struct cell *cell, const struct cell_turn *turn,
                                       struct op *op, struct parts *parts)
{
    op->cell = cell_pick(turn, op, &parts->spread);
    op->route = parts;
    return op->cell == cell->number ? counter_run_in_part(cell, turn, op, parts) : CELL_ELSEWHERE;
}

/* One part was not enough: all of them together may be. */
static enum cell_result add_to_all(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                   struct parts *parts)
{
    parts_set(parts, atomic_load(&parts->total));
    enum cell_result result = add_to_part(cell, turn, op, parts, 0);
    parts_level(parts);
    return result;
}

enum cell_result counter_run_add(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    if (turn->room)
        return cell_fail(op, turn->room);

    struct entry *counter = cell_use(cell, op);
    if (!counter && cell_is_cold(cell, turn, op))
        return CELL_DONE;
    if (!turn->alone && counter_is_spread(cell, counter)) {
        if (cell_is_expired(cell, counter, turn->now_ms))
            return CELL_ALONE;
        return add_to_a_shard(cell, turn, op, cell_rare(cell, counter)->parts);
    }
    bool created = false;
    counter = counter_for_write(cell, turn, op, counter, &created);
    if (!counter)
        return CELL_DONE;

    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts) {
        if (add_to_all(cell, turn, op, rare->parts) == CELL_DONE)
            return CELL_DONE;
        cell_reshard_counter(cell, counter, 1); /* too large to be spread from now on */
    }
    if (below_floor(rare, counter, &op->amount))
        return cell_fail(op, ERR_BELOW_FLOOR);
    op->changed = created || op->amount.big || op->amount.small != 0;
    counter_add_value(cell, counter, &op->amount);
    counter_answer(op, counter);
    cell_note_write(cell, op);
    if (op->changed || op->key.size > 0) {
        cell_touch(cell, counter, turn->now_ms);
        emit_amount(cell, turn, op, EVENT_ADD, counter->incarnation, &op->amount);
    }
    return CELL_DONE;
}

/* Puts a value in place of the counter's, in all of its pieces. */
static void set_value(struct cell *cell, struct entry *counter, const struct number *value,
                      const struct number *difference, int64_t now_ms)
{
    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts && value->big) /* too large to be spread from now on */
        cell_reshard_counter(cell, counter, 1);
    if (rare && rare->parts) {
        parts_set(rare->parts, value->small);
        touch_parts(cell, rare->parts, now_ms);
        return;
    }
    counter_add_value(cell, counter, difference);
    cell_touch(cell, counter, now_ms);
}

enum cell_result counter_run_set(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    if (turn->room)
        return cell_fail(op, turn->room);
    struct entry *counter = cell_use(cell, op);
    if (!counter && cell_is_cold(cell, turn, op))
        return CELL_DONE;
    if (!turn->alone && counter_is_spread(cell, counter))
        return CELL_ALONE;
    bool created = false;
    counter = counter_for_write(cell, turn, op, counter, &created);
    if (!counter)
        return CELL_DONE;
    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->create.has_floor) {
        struct number floor = number_of(rare->create.floor);
        if (number_compare(&op->amount, &floor) < 0)
            return cell_fail(op, ERR_BELOW_FLOOR);
    }

    struct number before =
        rare && rare->parts ? number_of(atomic_load(&rare->parts->total)) : entry_value(counter);
    struct number difference = number_copy(&op->amount);
    number_subtract(&difference, &before);
    op->changed = created || difference.big || difference.small != 0;
    set_value(cell, counter, &op->amount, &difference, turn->now_ms);
    op->value = number_copy(&op->amount);
    cell_note_write(cell, op);
    emit_amount(cell, turn, op, EVENT_RESET, counter->incarnation, &difference);
    number_done(&difference);

    /* A value that is set afresh lives for ever again, as Redis has it. */
    if (rare && rare->deadline_ms != 0) {
        counter_set_deadline(cell, counter, 0);
        section_event(turn->section, &(struct event){.type = EVENT_EXPIRE,
                                                     .incarnation = counter->incarnation,
                                                     .id = op->id});
    }
    return CELL_DONE;
}

void counter_set_deadline(struct cell *cell, struct entry *counter, int64_t deadline_ms)
{
    struct rare *rare = cell_rare(cell, counter);
    if (!rare && deadline_ms == 0)
        return;
    rare = cell_make_rare(cell, counter);
    entry_set_generation(counter, cell->generation);
    cell->mortal -= cell_is_mortal(rare);
    rare->deadline_ms = deadline_ms;
    if (rare->parts)
        atomic_store_explicit(&rare->parts->deadline_ms, deadline_ms, memory_order_relaxed);
    cell->mortal += cell_is_mortal(rare);
}

enum cell_result counter_run_expire(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_use(cell, op);
    if (!entry) {
        cell_is_cold(cell, turn, op);
        return CELL_DONE;
    }
    if (entry->kind != ENTRY_COUNTER)
        return cell_fail(op, ERR_WRONG_TYPE);
    if (cell_is_expired(cell, entry, turn->now_ms))
        return CELL_DONE;
    if (op->deadline_ms != 0 && op->deadline_ms <= turn->now_ms)
        return cell_run_delete(cell, turn, op);
    const struct rare *rare = cell_rare(cell, entry);
    if (op->deadline_ms == (rare ? rare->deadline_ms : 0)) {
        op->changed = true; /* it is there */
        return CELL_DONE;
    }
    if (turn->room)
        return cell_fail(op, turn->room);

    op->changed = true;
    counter_set_deadline(cell, entry, op->deadline_ms);
    cell_note_write(cell, op);
    cell_emit(cell, turn, op,
              (struct event){.type = EVENT_EXPIRE,
                             .incarnation = entry->incarnation,
                             .id = op->id,
                             .deadline_ms = op->deadline_ms});
    return CELL_DONE;
}

enum cell_result counter_run_deadline(struct cell *cell, const struct cell_turn *turn,
                                      struct op *op)
{
    const struct entry *entry = cell_entry_for_read(cell, turn, op);
    const struct rare *rare = entry && entry->kind == ENTRY_COUNTER ? cell_rare(cell, entry) : NULL;
    op->deadline_ms = rare ? rare->deadline_ms : 0;
    return CELL_DONE;
}

static void take_parts(const struct cell *cell, struct rare *rare, struct entry *counter,
                       struct parts *parts)
{
    parts->spread.incarnation = counter->incarnation;
    parts->spread.asked = rare->create.shards;
    parts->spread.policy = rare->create.policy;
    parts->spread.reason = rare->reason;
    parts->spread.changed_ms = rare->changed_ms;
    parts->has_floor = rare->create.has_floor;
    parts->floor = rare->create.floor;
    parts->idle_s = cell_idle_s(cell, rare);
    atomic_store(&parts->deadline_ms, rare->deadline_ms);
    atomic_store(&parts->spread.written_s, counter->written_s);
    atomic_store(&parts->spread.stamp, (uint16_t)(counter->used << 8 | entry_generation(counter)));
    rare->parts = parts;
}

void cell_reshard_counter(struct cell *cell, struct entry *counter, uint32_t shards)
{
    assert(counter->kind == ENTRY_COUNTER);

    struct rare *rare = cell_make_rare(cell, counter);
    struct parts *old = rare->parts;
    if (old) {
        counter->small = atomic_load(&old->total);
        counter->written_s = atomic_load(&old->spread.written_s);
        entry_set_generation(counter, cell->generation); /* of any of its cells: not saved yet */
        rare->parts = NULL;
        cell->spread--;
        cell_retire(cell, &old->spread);
    }
    if (shards == 1 || counter->flags & ENTRY_BIG)
        return;
    cell->spread++;
    uint64_t hash = hash_keyed(entry_id(counter), cell->hash_key);
    take_parts(cell, rare, counter,
               parts_new(entry_id(counter), hash, cell->number, shards, counter->small));
}
