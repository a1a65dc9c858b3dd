/* cell.c - records, their birth and death, and which file decides what. */
#include "hot/memory/cell_own.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "core/fingerprint.h"
#include "hot/memory/own.h"

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

void cell_retire(struct cell *cell, struct spread *spread)
{
    spread->gone = true;
    spread->next_retired = cell->retired;
    cell->retired = spread;
}

static void free_contents(struct cell *cell, struct entry *entry)
{
    if (entry->kind == ENTRY_ITEM) {
        if (entry->flags & ENTRY_CROWD)
            cell_retire(cell, &entry->crowd->spread);
        else
            own_free(entry->block);
        return;
    }
    struct number value = entry_value(entry);
    number_done(&value);
    struct rare *rare = cell_rare(cell, entry);
    if (rare && rare->parts)
        cell_retire(cell, &rare->parts->spread);
    own_free(rare);
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

static uint32_t find_ref(struct cell *cell, uint64_t hash, struct slice id)
{
    if (hash == cell->last_hash && cell->last_ref != HEAP_NONE &&
        slice_equal(entry_id(heap_at(&cell->heap, cell->last_ref)), id))
        return cell->last_ref;

    uint32_t at = TABLE_START;
    uint32_t ref;
    while ((ref = table_find(&cell->table, hash, &at)) != HEAP_NONE) {
        const struct entry *entry = heap_at(&cell->heap, ref);
        if (slice_equal(entry_id(entry), id)) {
            cell->last_hash = hash;
            cell->last_ref = ref;
            return ref;
        }
    }
    return HEAP_NONE;
}

struct entry *cell_find(struct cell *cell, uint64_t hash, struct slice id)
{
    uint32_t ref = find_ref(cell, hash, id);
    return ref == HEAP_NONE ? NULL : heap_at(&cell->heap, ref);
}

struct entry *cell_put(struct cell *cell, uint64_t hash, struct slice id, uint8_t kind,
                       uint32_t incarnation)
{
    assert(id.size > 0 && id.size <= LIMIT_ID_BYTES);

    uint32_t ref = heap_take(&cell->heap, entry_size(id.size));
    struct entry *entry = heap_at(&cell->heap, ref);
    *entry = (struct entry){.kind = kind,
                            .id_last = (uint8_t)(id.size - 1),
                            .used = cell->clock,
                            .incarnation = incarnation};
    memcpy(entry->id, id.data, id.size);
    table_add(&cell->table, hash, ref);
    if (kind == ENTRY_COUNTER)
        cell->hot_counters++;
    else
        cell->hot_items++;
    return entry;
}

struct entry *cell_create(struct cell *cell, uint64_t hash, struct slice id, uint8_t kind)
{
    struct entry *entry = cell_put(cell, hash, id, kind, cell->incarnation);
    entry_set_generation(entry, cell->generation);
    if (kind == ENTRY_COUNTER)
        cell->counters++;
    else
        cell->items++;
    return entry;
}

struct rare *cell_rare(const struct cell *cell, const struct entry *counter)
{
    return counter->rare == 0 ? NULL : cell->rares[counter->rare].rare;
}

static uint32_t take_rare_place(struct cell *cell)
{
    uint32_t place = cell->rare_free;
    if (place != 0) {
        cell->rare_free = cell->rares[place].next_free;
        return place;
    }
    place = cell->rare_count == 0 ? 1 : cell->rare_count;
    if ((place & (place - 1)) == 0)
        cell->rares = memory_resize(cell->rares, (size_t)place * 2 * sizeof(*cell->rares));
    cell->rare_count = place + 1;
    return place;
}

struct rare *cell_make_rare(struct cell *cell, struct entry *counter)
{
    assert(counter->kind == ENTRY_COUNTER);

    if (counter->rare != 0)
        return cell->rares[counter->rare].rare;

    struct rare *rare = own_take(sizeof(*rare));
    *rare = (struct rare){.create = {.shards = 1}, .reason = heat_reason_text(HEAT_UNCHANGED)};
    counter->rare = take_rare_place(cell);
    cell->rares[counter->rare].rare = rare;
    return rare;
}

bool cell_is_mortal(const struct rare *rare)
{
    return rare && (rare->deadline_ms != 0 || rare->create.idle_s != 0);
}

uint32_t cell_idle_s(const struct cell *cell, const struct rare *rare)
{
    return rare && rare->create.idle_s != 0 ? rare->create.idle_s : cell->idle_s;
}

uint32_t cell_written_s(const struct rare *rare, const struct entry *counter)
{
    if (rare && rare->parts)
        return atomic_load_explicit(&rare->parts->spread.written_s, memory_order_relaxed);
    return counter->written_s;
}

bool cell_is_expired(const struct cell *cell, const struct entry *counter, int64_t now_ms)
{
    if (counter->rare == 0 && cell->idle_s == 0)
        return false;
    const struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts)
        return parts_are_expired(rare->parts, now_ms);
    if (rare && rare->deadline_ms != 0 && now_ms >= rare->deadline_ms)
        return true;
    uint32_t idle_s = cell_idle_s(cell, rare);
    return idle_s != 0 && now_ms / 1000 >= (int64_t)counter->written_s + idle_s;
}

void cell_take_out(struct cell *cell, uint64_t hash, struct entry *entry)
{
    uint32_t ref = find_ref(cell, hash, entry_id(entry));
    assert(ref != HEAP_NONE);

    if (entry->kind == ENTRY_COUNTER) {
        struct rare *rare = cell_rare(cell, entry);
        cell->hot_counters--;
        cell->big -= (entry->flags & ENTRY_BIG) != 0;
        cell->mortal -= cell_is_mortal(rare);
        cell->spread -= rare && rare->parts;
        free_contents(cell, entry);
        if (rare) {
            cell->rares[entry->rare].next_free = cell->rare_free;
            cell->rare_free = entry->rare;
        }
    } else {
        cell->hot_items--;
        cell->spread -= entry->flags & ENTRY_CROWD && entry->crowd->spread.shards > 1;
        free_contents(cell, entry);
    }
    cell->last_ref = HEAP_NONE;
    table_remove(&cell->table, hash, ref);
    heap_give(&cell->heap, ref, entry_size(entry_id_size(entry)));
}

void cell_drop(struct cell *cell, uint64_t hash, struct entry *entry)
{
    if (entry->kind == ENTRY_COUNTER) {
        cell->counters--;
    } else {
        cell->items--;
        cell->members -= entry->flags & ENTRY_CROWD ? (uint64_t)crowd_size(entry->crowd)
                                                    : entry->block_head.count;
    }
    cell_take_out(cell, hash, entry);
    if (cell->cold)
        cold_bury(cell->cold, hash, cell->generation);
}

void cell_emit(struct cell *cell, const struct cell_turn *turn, const struct op *op,
               struct event event)
{
    event.region = op->region;
    if (op->key.size > 0) {
        event.key = op->key;
        event.answer = (struct event_answer){.fingerprint = fingerprint_of(cell->kinds, op),
                                             .changed = op->changed,
                                             .held = kinds_name(cell->kinds, op->held),
                                             .value = op->value};
    }
    section_event(turn->section, &event);
}

void cell_note_write(struct cell *cell, const struct op *op)
{
    uint64_t writes = atomic_load_explicit(&cell->writes, memory_order_relaxed) + 1;
    atomic_store_explicit(&cell->writes, writes, memory_order_relaxed);
    if (writes % HEAT_EVERY == 0)
        heat_note(&cell->heat, op->hash, op->target);
}

/* The record goes; what is created in this cell from now on is of a later
 * incarnation, so that late events of this one are known for what they are. */
static void delete_record(struct cell *cell, const struct cell_turn *turn, uint64_t hash,
                          struct entry *entry, struct event event)
{
    cell->incarnation += cell->incarnation < UINT32_MAX; /* the last one is for all that follow */
    event.type = EVENT_DELETE;
    event.incarnation = entry->incarnation;
    event.id = entry_id(entry);
    event.next_incarnation = cell->incarnation;
    section_event(turn->section, &event);
    cell_drop(cell, hash, entry);
}

void cell_expire(struct cell *cell, const struct cell_turn *turn, uint64_t hash,
                 struct entry *entry)
{
    cell->expired++;
    delete_record(cell, turn, hash, entry, (struct event){.type = EVENT_DELETE});
}

enum cell_result cell_fail(struct op *op, enum err code)
{
    op->code = code;
    return CELL_DONE;
}

struct entry *cell_entry_for_read(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_use(cell, op);
    if (!entry && cell_is_cold(cell, turn, op))
        return NULL;
    /* "item/kind" names an item's counter; a plain counter has none of that name. */
    if (!entry || (entry->kind == ENTRY_COUNTER &&
                   (op->target_kind != 0 || cell_is_expired(cell, entry, turn->now_ms)))) {
        op->code = ERR_NOT_FOUND;
        return NULL;
    }
    if (entry->kind == ENTRY_ITEM && op->target_kind == 0 && op->kind == OP_GET) {
        op->code = ERR_WRONG_TYPE;
        return NULL;
    }
    return entry;
}

static enum cell_result run_get(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_entry_for_read(cell, turn, op);
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
        counter_answer(op, entry);
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
    describe->written_ms = (int64_t)cell_written_s(rare, counter) * 1000;
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

static void describe_item_shards(const struct cell *cell, const struct entry *item, uint8_t kind,
                                 struct op_describe *describe)
{
    if (item->flags & ENTRY_CROWD && atomic_load(&item->crowd->missing) != 0)
        return;
    describe->total_count = describe->shards;
    if (item->flags & ENTRY_CROWD) {
        crowd_totals(item->crowd, kind, describe->totals);
        return;
    }
    int64_t counts[LIMIT_KINDS];
    item_counts(cell, item, counts);
    describe->totals[0] = 0;
    for (uint8_t of = 1; of <= cell->kinds->count; of++)
        if (kind == KIND_NONE || kind == of)
            describe->totals[0] += counts[of - 1];
}

static void describe_counter_shards(const struct cell *cell, const struct entry *counter,
                                    struct op_describe *describe)
{
    const struct rare *rare = cell_rare(cell, counter);
    if (!(rare && rare->parts) && counter->flags & ENTRY_BIG)
        return;
    describe->total_count = describe->shards;
    if (rare && rare->parts)
        parts_totals(rare->parts, describe->totals);
    else
        describe->totals[0] = counter->small;
}

static enum cell_result run_describe(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    const struct entry *entry = cell_entry_for_read(cell, turn, op);
    struct op_describe *describe = op->describe;
    if (!entry)
        return CELL_DONE;
    *describe = (struct op_describe){.shards = 1,
                                     .shards_asked = 1,
                                     .incarnation = entry->incarnation,
                                     .home = cell->number,
                                     .reason = heat_reason_text(HEAT_UNCHANGED)};
    bool is_item = entry->kind == ENTRY_ITEM;
    if (is_item)
        describe_item(entry, describe);
    else
        describe_counter(cell, entry, describe);
    if (!op->exact)
        return CELL_DONE;
    if (describe->shards > 1 && !turn->alone)
        return CELL_ALONE; /* what the others hold is theirs */
    if (is_item)
        describe_item_shards(cell, entry, op->target_kind, describe);
    else
        describe_counter_shards(cell, entry, describe);
    return CELL_DONE;
}

enum cell_result cell_run_delete(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_use(cell, op);
    if (!entry) {
        cell_is_cold(cell, turn, op);
        return CELL_DONE;
    }
    if (turn->room)
        return cell_fail(op, turn->room);
    bool is_counter = entry->kind == ENTRY_COUNTER;
    bool pieces = is_counter ? counter_is_spread(cell, entry) : (entry->flags & ENTRY_CROWD) != 0;
    if (pieces && !turn->alone)
        return CELL_ALONE;
    op->changed = !is_counter || !cell_is_expired(cell, entry, turn->now_ms);
    cell_note_write(cell, op);

    struct event event = {.region = op->region};
    if (op->key.size > 0) {
        event.key = op->key;
        event.answer = (struct event_answer){.fingerprint = fingerprint_of(cell->kinds, op),
                                             .changed = op->changed};
    }
    delete_record(cell, turn, op->hash, entry, event);
    return CELL_DONE;
}

void cell_create_as_asked(struct cell *cell, uint64_t hash, struct entry *entry,
                          const struct op_create *asked, int64_t now_ms)
{
    if (entry->kind == ENTRY_ITEM) {
        if (asked->shards > 1) {
            struct crowd *crowd = cell_crowd(cell, entry, hash);
            assert(crowd); /* nobody is in it yet */
            cell_reshard_item(cell, entry, asked->shards);
            crowd->spread.asked = asked->shards;
            crowd->spread.reason = heat_reason_text(HEAT_CREATED);
            crowd->spread.changed_ms = now_ms;
        }
        return;
    }
    cell_touch(cell, entry, now_ms);
    struct rare *rare = cell_make_rare(cell, entry);
    rare->create = *asked;
    cell->mortal += cell_is_mortal(rare);
    if (asked->shards > 1) {
        cell_reshard_counter(cell, entry, asked->shards);
        rare->reason = heat_reason_text(HEAT_CREATED);
        rare->changed_ms = now_ms;
    }
}

static enum cell_result run_create(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct entry *entry = cell_use(cell, op);
    if (!entry && cell_is_cold(cell, turn, op))
        return CELL_DONE;
    bool is_over =
        entry && entry->kind == ENTRY_COUNTER && cell_is_expired(cell, entry, turn->now_ms);
    if (entry && !is_over)
        return cell_fail(op, ERR_EXISTS);
    if (turn->tight && !entry)
        return cell_fail(op, ERR_NO_MEMORY);
    if (op->create->has_floor && op->create->floor > 0)
        return cell_fail(op, ERR_INVALID); /* it would begin below its floor */
    if (turn->room)
        return cell_fail(op, turn->room);
    /* What begins spread is decided upon in many cells at once: all of them wait
     * for what was decided here, such as the deletion before it. */
    if (!turn->alone && (op->create->shards > 1 || counter_is_spread(cell, entry)))
        return CELL_ALONE;

    if (is_over)
        cell_expire(cell, turn, op->hash, entry);
    entry = cell_create(cell, op->hash, op->target, op->target_kind ? ENTRY_ITEM : ENTRY_COUNTER);
    cell_create_as_asked(cell, op->hash, entry, op->create, turn->now_ms);
    op->changed = true;
    cell_note_write(cell, op);
    cell_emit(cell, turn, op,
              (struct event){.type = EVENT_CREATE,
                             .incarnation = entry->incarnation,
                             .id = op->id,
                             .create = *op->create});
    return CELL_DONE;
}

/* The op was sent here because this cell owns a piece of something spread. The
 * piece may have moved since: then its home cell knows more. */
static enum cell_result run_routed(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    struct spread *spread = op->route;
    enum cell_result result = CELL_ELSEWHERE;
    bool gone = atomic_load_explicit(&spread->gone, memory_order_relaxed);
    if (!gone)
        result = spread->is_item ? item_run_in_slice(cell, turn, op, (struct crowd *)spread)
                                 : counter_run_in_part(cell, turn, op, (struct parts *)spread);
    if (gone || (result != CELL_DONE && !spread->is_item)) {
        op->cell = spread->home;
        op->route = NULL;
    }
    return result;
}

enum cell_result cell_run(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    if (op->route)
        return run_routed(cell, turn, op);
    switch (op->kind) {
    case OP_ADD:
        return counter_run_add(cell, turn, op);
    case OP_GET:
        return run_get(cell, turn, op);
    case OP_REACT:
    case OP_WITHDRAW:
    case OP_TOGGLE:
    case OP_REACTION:
        return item_run(cell, turn, op);
    case OP_SET:
        return counter_run_set(cell, turn, op);
    case OP_DELETE:
        return cell_run_delete(cell, turn, op);
    case OP_CREATE:
        return run_create(cell, turn, op);
    case OP_EXPIRE:
        return counter_run_expire(cell, turn, op);
    case OP_EXISTS:
        op->changed = cell_entry_for_read(cell, turn, op) != NULL;
        if (op->code == ERR_NOT_FOUND)
            op->code = ERR_OK;
        return CELL_DONE;
    case OP_DEADLINE:
        return counter_run_deadline(cell, turn, op);
    case OP_DESCRIBE:
        return run_describe(cell, turn, op);
    case OP_COUNTS:
        return item_run_counts(cell, turn, op);
    case OP_MEMBERS:
        return item_run_members(cell, turn, op);
    }
    abort(); /* not an op of a known kind */
}

void cell_remember(struct cell *cell, const struct cell_turn *turn, const struct op *op)
{
    cell_emit(cell, turn, op, (struct event){.type = EVENT_NOTHING, .id = op->id});
}

bool cell_sweep(struct cell *cell, const struct cell_turn *turn, uint32_t limit)
{
    if (cell->mortal == 0 && cell->idle_s == 0)
        return true;
    for (uint32_t seen = 0; seen < limit; seen++) {
        uint32_t ref = heap_next(&cell->heap, cell->sweep);
        struct entry *entry = ref == HEAP_NONE ? NULL : heap_at(&cell->heap, ref);
        bool over =
            entry && entry->kind == ENTRY_COUNTER && cell_is_expired(cell, entry, turn->now_ms);
        if (over && counter_is_spread(cell, entry) && !turn->alone)
            return false;
        cell->sweep = ref;
        if (!entry)
            return true;
        if (over)
            cell_expire(cell, turn, hash_keyed(entry_id(entry), cell->hash_key), entry);
    }
    return true;
}
