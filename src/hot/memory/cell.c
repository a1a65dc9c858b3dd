#include "hot/memory/cell.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/reaction.h"

/* Every so many writes one is noted for the search for hot ids. */
#define HEAT_EVERY 16u

void cell_init(struct cell *cell, uint8_t number, const struct kinds *kinds, struct users *users,
               uint64_t hash_key, uint32_t idle_s)
{
    memset(cell, 0, sizeof(*cell));
    lock_init(&cell->lock);
    cell->number = number;
    cell->kinds = kinds;
    cell->users = users;
    cell->hash_key = hash_key;
    cell->idle_s = idle_s;
    heap_init(&cell->heap);
    table_init(&cell->table, number);
}

/* Another worker may be on its way to a piece of it: whoever holds the locks
 * takes the list and frees it when that cannot be any more. */
static void retire(struct cell *cell, struct spread *spread)
{
    spread->gone = true;
    spread->next_retired = cell->retired;
    cell->retired = spread;
}

static void free_contents(struct cell *cell, struct entry *entry)
{
    if (entry->kind == ENTRY_ITEM) {
        if (entry->flags & ENTRY_CROWD)
            retire(cell, &entry->crowd->spread);
        else
            free(entry->block);
        return;
    }
    struct number value = entry_value(entry);
    number_done(&value);
    struct rare *rare = cell_rare(cell, entry);
    if (rare && rare->parts)
        retire(cell, &rare->parts->spread);
    free(rare);
}

void cell_done(struct cell *cell)
{
    for (uint32_t ref = heap_next(&cell->heap, HEAP_NONE); ref != HEAP_NONE;
         ref = heap_next(&cell->heap, ref))
        free_contents(cell, heap_at(&cell->heap, ref));
    spread_free_all(cell->retired);
    free(cell->rares);
    table_done(&cell->table);
    heap_done(&cell->heap);
    lock_done(&cell->lock);
}

/* --- records --- */

static uint32_t find_ref(const struct cell *cell, uint64_t hash, struct slice id)
{
    uint32_t at = TABLE_START;
    uint32_t ref;
    while ((ref = table_find(&cell->table, hash, &at)) != HEAP_NONE) {
        const struct entry *entry = heap_at(&cell->heap, ref);
        if (slice_equal(entry_id(entry), id))
            return ref;
    }
    return HEAP_NONE;
}

struct entry *cell_find(const struct cell *cell, uint64_t hash, struct slice id)
{
    uint32_t ref = find_ref(cell, hash, id);
    return ref == HEAP_NONE ? NULL : heap_at(&cell->heap, ref);
}

static struct entry *create(struct cell *cell, uint64_t hash, struct slice id, uint8_t kind)
{
    uint32_t ref = heap_take(&cell->heap, entry_size(id.size));
    struct entry *entry = heap_at(&cell->heap, ref);
    *entry = (struct entry){
        .kind = kind, .id_size = (uint16_t)id.size, .incarnation = cell->incarnation};
    memcpy(entry->id, id.data, id.size);
    table_add(&cell->table, hash, ref);
    if (kind == ENTRY_COUNTER)
        cell->counters++;
    else
        cell->items++;
    return entry;
}

struct rare *cell_rare(const struct cell *cell, const struct entry *counter)
{
    return counter->rare == 0 ? NULL : cell->rares[counter->rare];
}

static struct rare *make_rare(struct cell *cell, struct entry *counter)
{
    assert(counter->kind == ENTRY_COUNTER);

    if (counter->rare != 0)
        return cell->rares[counter->rare];

    uint32_t place = cell->rare_count;
    if (cell->rare_free > 0) {
        for (place = 1; cell->rares[place]; place++)
            ;
        cell->rare_free--;
    } else {
        if (place == 0)
            place = 1;
        if ((place & (place - 1)) == 0)
            cell->rares = memory_resize(cell->rares, (size_t)place * 2 * sizeof(*cell->rares));
        cell->rare_count = place + 1;
    }
    struct rare *rare = memory_take(sizeof(*rare));
    *rare = (struct rare){.create = {.shards = 1}, .reason = heat_reason_text(HEAT_UNCHANGED)};
    cell->rares[place] = rare;
    counter->rare = place;
    return rare;
}

static bool is_mortal(const struct rare *rare)
{
    return rare && (rare->deadline_ms != 0 || rare->create.idle_s != 0);
}

/* When was it written last? A spread counter keeps that with its parts. */
static uint32_t written_s(const struct rare *rare, const struct entry *counter)
{
    if (rare && rare->parts)
        return atomic_load_explicit(&rare->parts->spread.written_s, memory_order_relaxed);
    return counter->written_s;
}

static bool is_expired(const struct cell *cell, const struct entry *counter, int64_t now_ms)
{
    if (counter->rare == 0 && cell->idle_s == 0)
        return false;
    const struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->deadline_ms != 0 && now_ms >= rare->deadline_ms)
        return true;
    uint32_t idle_s = rare && rare->create.idle_s != 0 ? rare->create.idle_s : cell->idle_s;
    return idle_s != 0 && now_ms / 1000 >= (int64_t)written_s(rare, counter) + idle_s;
}

/* Takes the record out; its contents are freed. Pieces in other cells go with
 * it: they must not be in use, or all cells are locked. */
static void drop(struct cell *cell, uint64_t hash, struct entry *entry)
{
    uint32_t ref = find_ref(cell, hash, entry_id(entry));
    assert(ref != HEAP_NONE);

    if (entry->kind == ENTRY_COUNTER) {
        struct rare *rare = cell_rare(cell, entry);
        cell->counters--;
        cell->big -= (entry->flags & ENTRY_BIG) != 0;
        cell->mortal -= is_mortal(rare);
        cell->spread -= rare && rare->parts;
        free_contents(cell, entry);
        if (rare) {
            cell->rares[entry->rare] = NULL;
            cell->rare_free++;
        }
    } else {
        cell->items--;
        cell->spread -= entry->flags & ENTRY_CROWD && entry->crowd->spread.shards > 1;
        cell->members -= entry->flags & ENTRY_CROWD ? (uint64_t)crowd_size(entry->crowd)
                                                    : entry->block_head.count;
        free_contents(cell, entry);
    }
    table_remove(&cell->table, hash, ref);
    heap_give(&cell->heap, ref, entry_size(entry->id_size));
}

/* --- events --- */

uint64_t cell_fingerprint(const struct op *op)
{
    /* What makes two writes the same: what is to be done, to whom, and how much. */
    uint64_t hash = hash_stable_seeded(op->user, (uint64_t)op->kind << 8 | op->reaction);
    if (op->kind == OP_ADD || op->kind == OP_SET) {
        struct buffer digits;
        buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
        number_format(&op->amount, &digits);
        hash = hash_stable_seeded(buffer_slice(&digits), hash);
        buffer_done(&digits);
    } else if (op->kind == OP_EXPIRE) {
        hash = hash_stable_seeded(
            (struct slice){(const char *)&op->deadline_ms, sizeof(op->deadline_ms)}, hash);
    } else if (op->kind == OP_CREATE) {
        uint64_t fields[] = {op->create->shards, op->create->policy, op->create->has_floor,
                             (uint64_t)op->create->floor, op->create->idle_s};
        hash = hash_stable_seeded((struct slice){(const char *)fields, sizeof(fields)}, hash);
    }
    return hash;
}

/* Writes an event down with what every event of an op has. The op's answer is
 * complete by now: an idempotency key takes it along. */
static void emit(struct cell *cell, const struct cell_turn *turn, const struct op *op,
                 struct event event)
{
    event.region = op->region;
    if (op->key.size > 0) {
        event.key = op->key;
        event.answer = (struct event_answer){.fingerprint = cell_fingerprint(op),
                                             .changed = op->changed,
                                             .held = kinds_name(cell->kinds, op->held),
                                             .value = op->value};
    }
    section_event(turn->section, &event);
}

static void emit_amount(struct cell *cell, const struct cell_turn *turn, const struct op *op,
                        enum event_type type, uint32_t incarnation, const struct number *amount)
{
    if (type == EVENT_ADD && op->key.size == 0 && !amount->big) {
        section_add(turn->section, incarnation, op->id, amount->small, op->region);
        return;
    }
    emit(cell, turn, op,
         (struct event){.type = type, .incarnation = incarnation, .id = op->id, .amount = *amount});
}

static void emit_reaction(struct cell *cell, const struct cell_turn *turn, const struct op *op,
                          uint32_t incarnation, uint8_t before, uint8_t after)
{
    struct slice name_before = kinds_name(cell->kinds, before);
    struct slice name_after = kinds_name(cell->kinds, after);
    if (op->key.size == 0) {
        section_react(turn->section, incarnation, op->id, op->user, name_before, name_after,
                      op->region);
        return;
    }
    emit(cell, turn, op,
         (struct event){.type = EVENT_REACT,
                        .incarnation = incarnation,
                        .id = op->id,
                        .user = op->user,
                        .before = name_before,
                        .after = name_after});
}

static void note_write(struct cell *cell, const struct op *op)
{
    uint64_t writes = atomic_load_explicit(&cell->writes, memory_order_relaxed) + 1;
    atomic_store_explicit(&cell->writes, writes, memory_order_relaxed);
    if (writes % HEAT_EVERY == 0)
        heat_note(&cell->heat, op->hash, op->target);
}

/* --- deleting --- */

/* The record goes; what is created in this cell from now on is of a later
 * incarnation, so that late events of this one are known for what they are. */
static void delete_record(struct cell *cell, const struct cell_turn *turn, uint64_t hash,
                          struct entry *entry, struct event event)
{
    cell->incarnation++;
    event.type = EVENT_DELETE;
    event.incarnation = entry->incarnation;
    event.id = entry_id(entry);
    event.next_incarnation = cell->incarnation;
    section_event(turn->section, &event);
    drop(cell, hash, entry);
}

static void expire(struct cell *cell, const struct cell_turn *turn, uint64_t hash,
                   struct entry *entry)
{
    cell->expired++;
    delete_record(cell, turn, hash, entry, (struct event){.type = EVENT_DELETE});
}

/* --- counters --- */

static enum cell_result fail(struct op *op, enum err code)
{
    op->code = code;
    return CELL_DONE;
}

/* Adds to the value of a counter that is in this cell only. */
static void add_value(struct cell *cell, struct entry *counter, const struct number *amount)
{
    struct number value = entry_value(counter);
    cell->big -= value.big != NULL;
    number_add(&value, amount);
    cell->big += value.big != NULL;
    entry_set_value(counter, value);
}

static void answer_value(struct op *op, const struct entry *counter)
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

/* Does the op concern all pieces of a spread counter at once? */
static bool is_spread(const struct cell *cell, const struct entry *entry)
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
    if (entry && is_expired(cell, entry, turn->now_ms)) {
        expire(cell, turn, op->hash, entry);
        entry = NULL;
    }
    *ret_created = !entry;
    return entry ? entry : create(cell, op->hash, op->target, ENTRY_COUNTER);
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

static void touch_parts(struct parts *parts, int64_t now_ms)
{
    atomic_fetch_add_explicit(&parts->spread.writes, 1, memory_order_relaxed);
    atomic_store_explicit(&parts->spread.written_s, (uint32_t)(now_ms / 1000),
                          memory_order_relaxed);
}

/* Adds to the part of a spread counter that this cell owns. */
static enum cell_result add_to_part(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                    struct parts *parts)
{
    uint32_t shard = spread_shard_of(&parts->spread, cell->number);
    assert(shard < parts->spread.shards);
    if (op->amount.big)
        return CELL_ALONE;

    int64_t total;
    enum err err = parts_add(parts, shard, op->amount.small, &total);
    if (err == ERR_OUT_OF_RANGE)
        return CELL_ALONE;
    if (err)
        return fail(op, err);
    op->changed = op->amount.small != 0;
    op->value = number_of(total);
    touch_parts(parts, turn->now_ms);
    note_write(cell, op);
    emit_amount(cell, turn, op, EVENT_ADD, parts->spread.incarnation, &op->amount);
    return CELL_DONE;
}

/* A write to a spread counter belongs to the shard that the policy picks. */
static enum cell_result add_to_a_shard(struct cell *cell, const struct cell_turn *turn,
                                       struct op *op, struct parts *parts)
{
    op->cell = cell_pick(turn, op, &parts->spread);
    if (op->cell == cell->number)
        return add_to_part(cell, turn, op, parts);
    op->route = parts;
    return CELL_ELSEWHERE;
}

static enum cell_result run_add(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    if (turn->room)
        return fail(op, turn->room);

    struct entry *counter = cell_find(cell, op->hash, op->target);
    if (!turn->alone && is_spread(cell, counter)) {
        if (is_expired(cell, counter, turn->now_ms))
            return CELL_ALONE;
        return add_to_a_shard(cell, turn, op, cell_rare(cell, counter)->parts);
    }
    bool created = false;
    counter = counter_for_write(cell, turn, op, counter, &created);
    if (!counter)
        return CELL_DONE;

    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts) /* too large to be spread from now on */
        cell_reshard_counter(cell, counter, 1);
    if (below_floor(rare, counter, &op->amount))
        return fail(op, ERR_BELOW_FLOOR);
    op->changed = created || op->amount.big || op->amount.small != 0;
    add_value(cell, counter, &op->amount);
    counter->written_s = (uint32_t)(turn->now_ms / 1000);
    answer_value(op, counter);
    note_write(cell, op);
    if (op->changed || op->key.size > 0)
        emit_amount(cell, turn, op, EVENT_ADD, counter->incarnation, &op->amount);
    return CELL_DONE;
}

static enum cell_result run_set(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    if (turn->room)
        return fail(op, turn->room);
    struct entry *counter = cell_find(cell, op->hash, op->target);
    if (!turn->alone && is_spread(cell, counter))
        return CELL_ALONE;
    bool created = false;
    counter = counter_for_write(cell, turn, op, counter, &created);
    if (!counter)
        return CELL_DONE;
    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->create.has_floor) {
        struct number floor = number_of(rare->create.floor);
        if (number_compare(&op->amount, &floor) < 0)
            return fail(op, ERR_BELOW_FLOOR);
    }
    uint32_t shards = rare && rare->parts ? rare->parts->spread.shards : 1;
    if (shards > 1)
        cell_reshard_counter(cell, counter, 1);

    struct number value = entry_value(counter);
    struct number difference = number_copy(&op->amount);
    number_subtract(&difference, &value);
    op->changed = created || difference.big || difference.small != 0;
    add_value(cell, counter, &difference);
    counter->written_s = (uint32_t)(turn->now_ms / 1000);
    answer_value(op, counter);
    note_write(cell, op);
    emit_amount(cell, turn, op, EVENT_RESET, counter->incarnation, &difference);
    number_done(&difference);
    if (shards > 1)
        cell_reshard_counter(cell, counter, shards);

    /* A value that is set afresh lives for ever again, as Redis has it. */
    if (rare && rare->deadline_ms != 0) {
        rare->deadline_ms = 0;
        cell->mortal -= !is_mortal(rare);
        section_event(turn->section, &(struct event){.type = EVENT_EXPIRE,
                                                     .incarnation = counter->incarnation,
                                                     .id = op->id});
    }
    return CELL_DONE;
}

static enum cell_result run_delete(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_find(cell, op->hash, op->target);
    if (!entry)
        return CELL_DONE;
    if (turn->room)
        return fail(op, turn->room);
    bool is_counter = entry->kind == ENTRY_COUNTER;
    bool pieces = is_counter ? is_spread(cell, entry) : (entry->flags & ENTRY_CROWD) != 0;
    if (pieces && !turn->alone)
        return CELL_ALONE;
    op->changed = !is_counter || !is_expired(cell, entry, turn->now_ms);
    note_write(cell, op);

    struct event event = {.region = op->region};
    if (op->key.size > 0) {
        event.key = op->key;
        event.answer =
            (struct event_answer){.fingerprint = cell_fingerprint(op), .changed = op->changed};
    }
    delete_record(cell, turn, op->hash, entry, event);
    return CELL_DONE;
}

/* What creation asks for, in a new record; live and in replay. */
static void create_as_asked(struct cell *cell, uint64_t hash, struct entry *entry,
                            const struct op_create *asked, int64_t now_ms)
{
    if (entry->kind == ENTRY_ITEM) {
        if (asked->shards > 1) {
            struct crowd *crowd = cell_crowd(cell, entry, hash);
            cell_reshard_item(cell, entry, asked->shards);
            crowd->spread.asked = asked->shards;
            crowd->spread.reason = heat_reason_text(HEAT_CREATED);
            crowd->spread.changed_ms = now_ms;
        }
        return;
    }
    entry->written_s = (uint32_t)(now_ms / 1000);
    struct rare *rare = make_rare(cell, entry);
    rare->create = *asked;
    cell->mortal += is_mortal(rare);
    if (asked->shards > 1) {
        cell_reshard_counter(cell, entry, asked->shards);
        rare->reason = heat_reason_text(HEAT_CREATED);
        rare->changed_ms = now_ms;
    }
}

static enum cell_result run_create(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_find(cell, op->hash, op->target);
    if (entry && entry->kind == ENTRY_COUNTER && is_expired(cell, entry, turn->now_ms)) {
        if (!turn->alone && is_spread(cell, entry))
            return CELL_ALONE;
        if (turn->room)
            return fail(op, turn->room);
        expire(cell, turn, op->hash, entry);
        entry = NULL;
    }
    if (entry)
        return fail(op, ERR_EXISTS);
    if (op->create->has_floor && op->create->floor > 0)
        return fail(op, ERR_INVALID); /* it would begin below its floor */
    if (turn->room)
        return fail(op, turn->room);

    entry = create(cell, op->hash, op->target, op->target_kind ? ENTRY_ITEM : ENTRY_COUNTER);
    create_as_asked(cell, op->hash, entry, op->create, turn->now_ms);
    op->changed = true;
    note_write(cell, op);
    emit(cell, turn, op,
         (struct event){.type = EVENT_CREATE,
                        .incarnation = entry->incarnation,
                        .id = op->id,
                        .create = *op->create});
    return CELL_DONE;
}

static void set_deadline(struct cell *cell, struct entry *counter, int64_t deadline_ms)
{
    struct rare *rare = cell_rare(cell, counter);
    if (!rare && deadline_ms == 0)
        return;
    rare = make_rare(cell, counter);
    cell->mortal -= is_mortal(rare);
    rare->deadline_ms = deadline_ms;
    cell->mortal += is_mortal(rare);
}

static enum cell_result run_expire(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_find(cell, op->hash, op->target);
    if (!entry)
        return CELL_DONE;
    if (entry->kind != ENTRY_COUNTER)
        return fail(op, ERR_WRONG_TYPE);
    if (is_expired(cell, entry, turn->now_ms))
        return CELL_DONE;
    if (op->deadline_ms != 0 && op->deadline_ms <= turn->now_ms)
        return run_delete(cell, turn, op);
    const struct rare *rare = cell_rare(cell, entry);
    if (op->deadline_ms == (rare ? rare->deadline_ms : 0)) {
        op->changed = op->deadline_ms != 0;
        return CELL_DONE;
    }
    if (turn->room)
        return fail(op, turn->room);

    set_deadline(cell, entry, op->deadline_ms);
    op->changed = true;
    note_write(cell, op);
    emit(cell, turn, op,
         (struct event){.type = EVENT_EXPIRE,
                        .incarnation = entry->incarnation,
                        .id = op->id,
                        .deadline_ms = op->deadline_ms});
    return CELL_DONE;
}

/* --- reading --- */

static void item_counts(const struct cell *cell, const struct entry *item, int64_t *ret_counts)
{
    if (item->flags & ENTRY_CROWD)
        crowd_counts(item->crowd, ret_counts);
    else
        block_counts(item, cell->kinds->count, ret_counts);
}

/* A record that is there and of the kind that is asked for, or NULL. */
static struct entry *entry_for_read(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_find(cell, op->hash, op->target);
    if (!entry || (entry->kind == ENTRY_COUNTER && is_expired(cell, entry, turn->now_ms))) {
        op->code = ERR_NOT_FOUND;
        return NULL;
    }
    /* "item/kind" names an item's counter; a plain counter may have no such name. */
    if ((op->target_kind != 0) != (entry->kind == ENTRY_ITEM) && op->kind != OP_EXISTS &&
        op->kind != OP_DESCRIBE) {
        op->code = ERR_WRONG_TYPE;
        return NULL;
    }
    return entry;
}

static enum cell_result run_get(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = entry_for_read(cell, turn, op);
    if (!entry)
        return CELL_DONE;
    if (entry->kind == ENTRY_ITEM) {
        int64_t counts[LIMIT_KINDS];
        item_counts(cell, entry, counts);
        op->value = number_of(counts[op->target_kind - 1]);
        return CELL_DONE;
    }
    const struct rare *rare = cell_rare(cell, entry);
    if (rare && rare->parts)
        op->value = number_of(atomic_load(&rare->parts->total));
    else
        answer_value(op, entry);
    return CELL_DONE;
}

static enum cell_result run_deadline(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    const struct entry *entry = entry_for_read(cell, turn, op);
    const struct rare *rare = entry && entry->kind == ENTRY_COUNTER ? cell_rare(cell, entry) : NULL;
    op->deadline_ms = rare ? rare->deadline_ms : 0;
    return CELL_DONE;
}

static void describe_item(const struct entry *item, struct op_describe *describe)
{
    describe->is_item = true;
    describe->written_ms = (int64_t)item->written_s * 1000;
    if (!(item->flags & ENTRY_CROWD))
        return;
    const struct spread *spread = &item->crowd->spread;
    describe->shards = spread->shards;
    describe->shards_asked = spread->asked;
    describe->reason = spread->reason;
    describe->changed_ms = spread->changed_ms;
    describe->written_ms = 1000 * (int64_t)atomic_load(&spread->written_s);
}

static void describe_counter(const struct cell *cell, const struct entry *counter,
                             struct op_describe *describe)
{
    const struct rare *rare = cell_rare(cell, counter);
    describe->written_ms = (int64_t)written_s(rare, counter) * 1000;
    if (!rare)
        return;
    describe->shards = rare->parts ? rare->parts->spread.shards : 1;
    describe->shards_asked = rare->create.shards;
    describe->policy = rare->create.policy;
    describe->has_floor = rare->create.has_floor;
    describe->floor = rare->create.floor;
    describe->idle_s = rare->create.idle_s;
    describe->deadline_ms = rare->deadline_ms;
    describe->reason = rare->reason;
    describe->changed_ms = rare->changed_ms;
}

static enum cell_result run_describe(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    const struct entry *entry = entry_for_read(cell, turn, op);
    if (!entry)
        return CELL_DONE;
    *op->describe = (struct op_describe){.shards = 1,
                                         .shards_asked = 1,
                                         .incarnation = entry->incarnation,
                                         .home = cell->number,
                                         .reason = heat_reason_text(HEAT_UNCHANGED)};
    if (entry->kind == ENTRY_ITEM)
        describe_item(entry, op->describe);
    else
        describe_counter(cell, entry, op->describe);
    return CELL_DONE;
}

static enum cell_result run_counts(struct cell *cell, struct op *op)
{
    assert(op->counts);

    const struct entry *item = cell_find(cell, op->hash, op->target);
    if (!item) {
        memset(op->counts, 0, cell->kinds->count * sizeof(*op->counts));
        return CELL_DONE;
    }
    if (item->kind != ENTRY_ITEM)
        return fail(op, ERR_WRONG_TYPE);
    item_counts(cell, item, op->counts);
    op->changed = true; /* it is there */
    return CELL_DONE;
}

static enum cell_result run_members(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    const struct entry *item = cell_find(cell, op->hash, op->target);
    if (!item) {
        op->page->cursor = 0;
        return CELL_DONE;
    }
    if (item->kind != ENTRY_ITEM)
        return fail(op, ERR_WRONG_TYPE);
    if (item->flags & ENTRY_CROWD && item->crowd->spread.shards > 1 && !turn->alone)
        return CELL_ALONE;
    members_page(item, op->reaction, cell->users, op->page);
    return CELL_DONE;
}

/* --- reactions --- */

static struct user op_user(const struct op *op)
{
    return (struct user){.class = op->user_class, .number = op->user_number};
}

/* The answer to a reaction that is decided: held, changed and counts. */
static void answer_reaction(struct op *op, uint8_t before, uint8_t after)
{
    op->held = after;
    op->changed = before != after;
}

static enum cell_result run_in_slice(struct cell *cell, const struct cell_turn *turn, struct op *op,
                                     struct crowd *crowd)
{
    uint32_t slice = crowd_slice_of(crowd, op->bucket);
    uint8_t owner = crowd_cell_of(crowd, slice);
    if (owner != cell->number) {
        op->cell = owner;
        op->route = crowd;
        return CELL_ELSEWHERE;
    }
    bool known = op->user_class != USER_UNKNOWN;
    uint8_t before = known ? crowd_held(crowd, slice, op_user(op)) : KIND_NONE;
    if (op->kind == OP_REACTION) {
        op->held = before;
        return CELL_DONE;
    }
    uint8_t after = reaction_after(op->kind, before, op->reaction);
    if (before != after) {
        if (turn->room)
            return fail(op, turn->room);
        crowd_change(crowd, slice, op_user(op), before, after);
        cell->members += (uint64_t)((after != KIND_NONE) - (before != KIND_NONE));
        atomic_fetch_add_explicit(&crowd->spread.writes, 1, memory_order_relaxed);
        atomic_store_explicit(&crowd->spread.written_s, (uint32_t)(turn->now_ms / 1000),
                              memory_order_relaxed);
    }
    answer_reaction(op, before, after);
    if (op->counts)
        crowd_counts(crowd, op->counts);
    note_write(cell, op);
    if (before != after)
        emit_reaction(cell, turn, op, crowd->spread.incarnation, before, after);
    return CELL_DONE;
}

/* Puts a change into the item's members, which grow into another form when they
 * must. The item is in this cell only. */
static void change_members(struct cell *cell, struct entry *item, uint64_t hash, struct user user,
                           uint16_t bucket, uint8_t before, uint8_t after)
{
    cell->members += (uint64_t)((after != KIND_NONE) - (before != KIND_NONE));
    if (!(item->flags & ENTRY_CROWD)) {
        if (before != KIND_NONE || !block_full(item)) {
            block_change(item, user, before, after);
            return;
        }
        crowd_from_block(item, hash, cell->number, cell->kinds->count);
    }
    struct crowd *crowd = item->crowd;
    crowd_change(crowd, crowd_slice_of(crowd, bucket), user, before, after);
}

/* A crowd that has outgrown one slice is cut into 64 before the next change. */
static void split_if_large(struct cell *cell, struct entry *item)
{
    if (item->flags & ENTRY_CROWD && item->crowd->slice_count == 1 &&
        crowd_size(item->crowd) >= CROWD_WHOLE_MAX)
        crowd_split(item->crowd, cell->users);
}

static enum cell_result run_reaction(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *item = cell_find(cell, op->hash, op->target);
    if (item && item->kind != ENTRY_ITEM)
        return fail(op, ERR_WRONG_TYPE);
    if (item && item->flags & ENTRY_CROWD) {
        split_if_large(cell, item);
        return run_in_slice(cell, turn, op, item->crowd);
    }

    bool known = op->user_class != USER_UNKNOWN;
    uint8_t before = item && known ? block_held(item, op_user(op)) : KIND_NONE;
    if (op->kind == OP_REACTION) {
        op->held = before;
        return CELL_DONE;
    }
    uint8_t after = reaction_after(op->kind, before, op->reaction);
    if (before != after) {
        if (turn->room)
            return fail(op, turn->room);
        if (!item)
            item = create(cell, op->hash, op->target, ENTRY_ITEM);
        change_members(cell, item, op->hash, op_user(op), op->bucket, before, after);
        item->written_s = (uint32_t)(turn->now_ms / 1000);
    }
    answer_reaction(op, before, after);
    if (op->counts) {
        if (item)
            item_counts(cell, item, op->counts);
        else
            memset(op->counts, 0, cell->kinds->count * sizeof(*op->counts));
    }
    note_write(cell, op);
    if (before != after)
        emit_reaction(cell, turn, op, item->incarnation, before, after);
    return CELL_DONE;
}

/* --- the op as a whole --- */

/* The op was sent here because this cell owns a piece of something spread. The
 * piece may have moved since: then its home cell knows more. */
static enum cell_result run_routed(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct spread *spread = op->route;
    if (!spread->gone && spread->is_item)
        return run_in_slice(cell, turn, op, (struct crowd *)spread);
    if (!spread->gone && op->kind == OP_GET) {
        op->value = number_of(atomic_load(&((struct parts *)spread)->total));
        return CELL_DONE;
    }
    if (!spread->gone && spread_shard_of(spread, cell->number) != UINT32_MAX) {
        if (turn->room)
            return fail(op, turn->room);
        enum cell_result result = add_to_part(cell, turn, op, (struct parts *)spread);
        if (result != CELL_ALONE)
            return result;
        op->route = NULL;
        op->cell = spread->home;
        return CELL_ALONE;
    }
    op->cell = spread->home;
    op->route = NULL;
    return CELL_ELSEWHERE;
}

enum cell_result cell_run(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    if (op->route)
        return run_routed(cell, turn, op);
    switch (op->kind) {
    case OP_ADD:
        return run_add(cell, turn, op);
    case OP_GET:
        return run_get(cell, turn, op);
    case OP_REACT:
    case OP_WITHDRAW:
    case OP_TOGGLE:
    case OP_REACTION:
        return run_reaction(cell, turn, op);
    case OP_SET:
        return run_set(cell, turn, op);
    case OP_DELETE:
        return run_delete(cell, turn, op);
    case OP_CREATE:
        return run_create(cell, turn, op);
    case OP_EXPIRE:
        return run_expire(cell, turn, op);
    case OP_EXISTS:
        op->changed = entry_for_read(cell, turn, op) != NULL;
        op->code = ERR_OK;
        return CELL_DONE;
    case OP_DEADLINE:
        return run_deadline(cell, turn, op);
    case OP_DESCRIBE:
        return run_describe(cell, turn, op);
    case OP_COUNTS:
        return run_counts(cell, op);
    case OP_MEMBERS:
        return run_members(cell, turn, op);
    }
    assert(!"an op of a known kind");
    return CELL_DONE;
}

void cell_remember(struct cell *cell, const struct cell_turn *turn, const struct op *op)
{
    emit(cell, turn, op, (struct event){.type = EVENT_NOTHING, .id = op->id});
}

/* --- spreading --- */

static void take_parts(struct rare *rare, struct entry *counter, struct parts *parts)
{
    parts->spread.incarnation = counter->incarnation;
    parts->spread.asked = rare->create.shards;
    parts->spread.policy = rare->create.policy;
    parts->spread.reason = rare->reason;
    parts->spread.changed_ms = rare->changed_ms;
    parts->has_floor = rare->create.has_floor;
    parts->floor = rare->create.floor;
    atomic_store(&parts->spread.written_s, counter->written_s);
    rare->parts = parts;
}

void cell_reshard_counter(struct cell *cell, struct entry *counter, uint32_t shards)
{
    assert(counter->kind == ENTRY_COUNTER);

    struct rare *rare = make_rare(cell, counter);
    struct parts *old = rare->parts;
    if (old) {
        counter->small = atomic_load(&old->total);
        counter->written_s = atomic_load(&old->spread.written_s);
        rare->parts = NULL;
        cell->spread--;
        retire(cell, &old->spread);
    }
    if (shards == 1 || counter->flags & ENTRY_BIG)
        return;
    cell->spread++;
    uint64_t hash = hash_keyed(entry_id(counter), cell->hash_key);
    take_parts(rare, counter,
               parts_new(entry_id(counter), hash, cell->number, shards, counter->small));
}

void cell_reshard_item(struct cell *cell, struct entry *item, uint32_t shards)
{
    assert(item->flags & ENTRY_CROWD && item->crowd->slice_count == CROWD_SLICES);

    cell->spread -= item->crowd->spread.shards > 1;
    item->crowd->spread.shards = shards;
    cell->spread += shards > 1;
}

struct crowd *cell_crowd(struct cell *cell, struct entry *item, uint64_t hash)
{
    assert(item->kind == ENTRY_ITEM);

    if (!(item->flags & ENTRY_CROWD))
        crowd_from_block(item, hash, cell->number, cell->kinds->count);
    if (item->crowd->slice_count == 1)
        crowd_split(item->crowd, cell->users);
    return item->crowd;
}

/* --- expiry --- */

void cell_sweep(struct cell *cell, const struct cell_turn *turn, uint32_t limit)
{
    if (cell->mortal == 0 && cell->idle_s == 0)
        return;
    for (uint32_t seen = 0; seen < limit; seen++) {
        cell->sweep = heap_next(&cell->heap, cell->sweep);
        if (cell->sweep == HEAP_NONE)
            return;
        struct entry *entry = heap_at(&cell->heap, cell->sweep);
        if (entry->kind != ENTRY_COUNTER || !is_expired(cell, entry, turn->now_ms))
            continue;
        if (is_spread(cell, entry) && !turn->alone)
            continue; /* the balancer folds what is quiet first */
        expire(cell, turn, hash_keyed(entry_id(entry), cell->hash_key), entry);
    }
}

/* --- replay --- */

static enum err cannot_follow(const struct event *event, const char *why, struct error *error)
{
    return error_set(error, ERR_CORRUPT, "event %llu of origin %u on '%.*s' cannot follow: %s",
                     (unsigned long long)event->sequence, event->origin, SLICE_ARGS(event->id),
                     why);
}

/* The record that an event is about, made if the event is what made it. NULL
 * with ERR_OK: the event is late, its incarnation is gone. */
static enum err record_for_event(struct cell *cell, const struct event *event, struct slice target,
                                 uint64_t hash, uint8_t kind, struct entry **ret_entry,
                                 struct error *error)
{
    struct entry *entry = cell_find(cell, hash, target);
    *ret_entry = NULL;
    if (!entry) {
        if (event->incarnation == cell->incarnation)
            *ret_entry = create(cell, hash, target, kind);
        else if (event->incarnation > cell->incarnation)
            return cannot_follow(event, "it is of an incarnation yet to come", error);
        return ERR_OK;
    }
    if (entry->kind != kind)
        return cannot_follow(event, "it is of another type", error);
    if (event->incarnation > entry->incarnation)
        return cannot_follow(event, "its incarnation was never created", error);
    if (event->incarnation == entry->incarnation)
        *ret_entry = entry;
    return ERR_OK;
}

static enum err replay_amount(struct cell *cell, const struct event *event, struct slice target,
                              uint64_t hash, struct error *error)
{
    struct entry *counter;
    enum err err = record_for_event(cell, event, target, hash, ENTRY_COUNTER, &counter, error);
    if (err || !counter)
        return err;

    uint32_t written = (uint32_t)(event->time_ms / 1000);
    struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts) {
        int64_t total;
        bool had_floor = rare->parts->has_floor;
        rare->parts->has_floor = false; /* it was obeyed when this was decided */
        err = event->amount.big ? ERR_OUT_OF_RANGE
                                : parts_add(rare->parts, 0, event->amount.small, &total);
        rare->parts->has_floor = had_floor;
        atomic_store(&rare->parts->spread.written_s, written);
        if (!err)
            return ERR_OK;
        cell_reshard_counter(cell, counter, 1);
    }
    add_value(cell, counter, &event->amount);
    counter->written_s = written;
    return ERR_OK;
}

static enum err replay_reaction(struct cell *cell, const struct event *event, struct slice target,
                                uint64_t hash, struct user user, uint16_t bucket,
                                struct error *error)
{
    uint8_t before = kinds_find(cell->kinds, event->before);
    uint8_t after = kinds_find(cell->kinds, event->after);
    if ((event->before.size > 0 && before == KIND_NONE) ||
        (event->after.size > 0 && after == KIND_NONE))
        return error_set(error, ERR_INVALID,
                         "the log holds reactions of the kind '%.*s', which is not configured: "
                         "add it to the setting kinds",
                         SLICE_ARGS(before == KIND_NONE && event->before.size > 0 ? event->before
                                                                                  : event->after));
    struct entry *item;
    enum err err = record_for_event(cell, event, target, hash, ENTRY_ITEM, &item, error);
    if (err || !item)
        return err;

    split_if_large(cell, item);
    uint8_t held = item->flags & ENTRY_CROWD
                       ? crowd_held(item->crowd, crowd_slice_of(item->crowd, bucket), user)
                       : block_held(item, user);
    if (held != before || before == after)
        return cannot_follow(event, "the user holds another reaction", error);
    change_members(cell, item, hash, user, bucket, before, after);
    item->written_s = (uint32_t)(event->time_ms / 1000);
    if (item->flags & ENTRY_CROWD)
        atomic_store_explicit(&item->crowd->spread.written_s, item->written_s,
                              memory_order_relaxed);
    return ERR_OK;
}

static enum err replay_delete(struct cell *cell, const struct event *event, struct slice target,
                              uint64_t hash, struct error *error)
{
    if (event->next_incarnation <= cell->incarnation && cell->incarnation != 0)
        return cannot_follow(event, "a later deletion came before it", error);
    struct entry *entry = cell_find(cell, hash, target);
    if (entry && entry->incarnation == event->incarnation)
        drop(cell, hash, entry);
    cell->incarnation = event->next_incarnation;
    return ERR_OK;
}

static enum err replay_create(struct cell *cell, const struct event *event, struct slice target,
                              uint8_t target_kind, uint64_t hash, struct error *error)
{
    if (cell_find(cell, hash, target))
        return cannot_follow(event, "it exists already", error);
    if (event->incarnation != cell->incarnation)
        return cannot_follow(event, "it is of another incarnation", error);
    struct entry *entry = create(cell, hash, target, target_kind ? ENTRY_ITEM : ENTRY_COUNTER);
    create_as_asked(cell, hash, entry, &event->create, event->time_ms);
    return ERR_OK;
}

enum err cell_replay(struct cell *cell, const struct event *event, const struct cell_target *target,
                     struct error *error)
{
    struct slice id = target->id;
    uint64_t hash = target->hash;
    switch (event->type) {
    case EVENT_ADD:
    case EVENT_RESET:
        return replay_amount(cell, event, id, hash, error);
    case EVENT_REACT:
        return replay_reaction(cell, event, id, hash, target->user, target->bucket, error);
    case EVENT_DELETE:
        return replay_delete(cell, event, id, hash, error);
    case EVENT_CREATE:
        return replay_create(cell, event, id, target->kind, hash, error);
    case EVENT_EXPIRE: {
        struct entry *counter = cell_find(cell, hash, id);
        if (counter && counter->kind == ENTRY_COUNTER && counter->incarnation == event->incarnation)
            set_deadline(cell, counter, event->deadline_ms);
        return ERR_OK;
    }
    case EVENT_NOTHING:
        return ERR_OK;
    }
    return cannot_follow(event, "its type is not known", error);
}
