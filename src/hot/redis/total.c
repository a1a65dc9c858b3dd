/* total.c - sums of what the pieces have counted, and the answers made of them.
 *
 * The total of what is being read is also put where workers can look at it without asking the
 * layer's thread: a small table of slots, each under its own lock. A slot is good for a moment
 * only; while somebody reads it, the layer's thread refreshes it (spread.c). */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/memory.h"
#include "hot/redis/spread.h"

#define TOTAL_SLOTS    1024u
#define TOTAL_PROBES   8u
#define TOTAL_FRESH_NS UINT64_C(300000000)

struct total_slot {
    _Alignas(64) _Atomic uint64_t stable; /* 0 = free */
    _Atomic bool was_read;
    struct lock lock; /* of all that follows */
    uint64_t fresh_until_ns;
    int64_t as_of_ms;
    int64_t over_ms; /* a counter that ends by itself: when; 0 = it does not */
    bool is_item;
    uint8_t missing;
    int64_t value;
    int64_t counts[LIMIT_KINDS];
    size_t id_size;
    char id[LIMIT_ID_BYTES];
};

struct totals {
    _Atomic uint32_t used;
    struct total_slot slots[TOTAL_SLOTS];
};

/* ---- sums ---- */

/* It is about to be changed. */
struct spread_part *total_part(struct spread_entry *entry, unsigned cell)
{
    entry->has_sum = false;
    if (!entry->parts[cell])
        entry->parts[cell] = memory_take_zeroed(sizeof(struct spread_part));
    return entry->parts[cell];
}

void total_forget(struct spread_entry *entry)
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++) {
        if (entry->parts[cell])
            number_done(&entry->parts[cell]->value);
        free(entry->parts[cell]);
        entry->parts[cell] = NULL;
    }
    number_done(&entry->sum.value);
}

/* A piece that is just being made has nothing. */
static uint64_t cells_that_count(const struct spread_entry *entry)
{
    uint64_t reserved = entry->map.change == MAP_JOIN ? entry->reserved & entry->map.slices : 0;
    return entry->map.cells & ~reserved;
}

static void add_part(struct spread_sum *sum, const struct spread_entry *entry,
                     const struct spread_part *part)
{
    if (part->as_of_ms < sum->as_of_ms)
        sum->as_of_ms = part->as_of_ms;
    if (!entry->map.is_item) {
        number_add(&sum->value, &part->value);
        return;
    }
    unsigned kinds = entry->layer->options.kinds->count;
    for (unsigned kind = 0; kind < kinds; kind++)
        sum->counts[kind] += part->counts[kind];
}

/* With parts missing, time changes what is known. */
static const struct spread_sum *sum_up(struct spread_entry *entry)
{
    struct spread_sum *sum = &entry->sum;
    if (entry->has_sum && sum->missing == 0)
        return sum;
    number_done(&sum->value);
    *sum = (struct spread_sum){.as_of_ms = entry->as_of_ms};
    int64_t oldest_ms =
        env_wall_ms(entry->layer->env) - (int64_t)entry->layer->options.totals_ttl_ms;
    for (uint64_t cells = cells_that_count(entry); cells != 0; cells &= cells - 1) {
        unsigned cell = (unsigned)__builtin_ctzll(cells);
        const struct spread_part *part = entry->parts[cell];
        bool is_missing = entry->missing & map_bit(cell);
        bool is_known = part && part->is_known && part->incarnation == entry->incarnation &&
                        !(is_missing && part->as_of_ms < oldest_ms);
        sum->missing += is_missing || !is_known;
        sum->forgotten += !is_known;
        if (is_known)
            add_part(sum, entry, part);
    }
    entry->has_sum = true;
    return sum;
}

bool total_is_fresh(const struct spread_entry *entry)
{
    return entry->asked_ns != 0 &&
           env_monotonic_ns(entry->layer->env) - entry->asked_ns < TOTAL_FRESH_NS;
}

/* ---- answers ---- */

/* When the counter ends by itself, as far as is known; 0 = never. */
static int64_t over_ms(const struct spread_entry *entry)
{
    uint32_t idle_s = entry->create.idle_s ? entry->create.idle_s : entry->layer->options.idle_s;
    if (entry->map.is_item)
        return 0;
    if (idle_s == 0)
        return entry->deadline_ms;
    int64_t idle_ms = (entry->written_ms / 1000 + idle_s) * 1000;
    return entry->deadline_ms != 0 && entry->deadline_ms < idle_ms ? entry->deadline_ms : idle_ms;
}

static bool is_past(int64_t over_ms, struct env *env)
{
    return over_ms != 0 && env_wall_ms(env) >= over_ms;
}

bool total_is_over(const struct spread_entry *entry)
{
    return is_past(over_ms(entry), entry->layer->env);
}

/* What is known of a part: false if that is nothing, or beyond 64 bits. */
static bool part_total(const struct spread_entry *entry, unsigned cell, uint8_t kind,
                       int64_t *ret_total)
{
    const struct spread_part *part = entry->parts[cell];
    if (!part || !part->is_known || part->value.big)
        return false;
    *ret_total = entry->map.is_item ? 0 : part->value.small;
    for (uint8_t of = 1; entry->map.is_item && of <= LIMIT_KINDS; of++)
        if (kind == KIND_NONE || kind == of)
            *ret_total += part->counts[of - 1];
    return true;
}

/* As it was when they were last asked, which is soon again now that somebody looks. */
static void describe_shards(struct spread_entry *entry, uint8_t kind, struct op_describe *is)
{
    uint32_t count = 0;
    entry->is_read = true;
    for (uint64_t cells = entry->map.cells; cells != 0; cells &= cells - 1)
        if (!part_total(entry, (unsigned)__builtin_ctzll(cells), kind, &is->totals[count++]))
            return;
    is->total_count = count;
}

static void describe(const struct spread_entry *entry, struct op_describe *is)
{
    *is = (struct op_describe){.is_item = entry->map.is_item,
                               .shards = entry->map.shards,
                               .shards_asked = entry->create.shards,
                               .policy = entry->create.policy,
                               .has_floor = entry->create.has_floor,
                               .floor = entry->create.floor,
                               .idle_s = entry->create.idle_s,
                               .deadline_ms = entry->deadline_ms,
                               .incarnation = entry->incarnation,
                               .home = entry->home,
                               .written_ms = entry->written_ms / 1000 * 1000,
                               .reason = heat_reason_text(entry->map.reason),
                               .changed_ms = entry->map.changed_ms};
}

static void answer_describe(struct spread_entry *entry, struct op *op)
{
    describe(entry, op->describe);
    if (op->exact)
        describe_shards(entry, op->target_kind, op->describe);
}

static void answer_sum(struct spread_entry *entry, struct op *op)
{
    const struct spread_sum *sum = sum_up(entry);
    if (sum->forgotten == (unsigned)__builtin_popcountll(cells_that_count(entry))) {
        loads_answer_stale(entry->layer, op);
        return;
    }
    op->as_of_ms = sum->as_of_ms;
    op->shards_missing = (uint8_t)sum->missing;
    if (sum->missing > 0 && op_wants_all(op)) {
        op->code = ERR_UNAVAILABLE;
        return;
    }
    if (op->kind == OP_COUNTS) {
        memcpy(op->counts, sum->counts, entry->layer->options.kinds->count * sizeof(*op->counts));
        op->changed = true; /* it is there */
    } else if (entry->map.is_item) {
        op->value = number_of(sum->counts[op->target_kind - 1]);
    } else {
        op->value = number_copy(&sum->value);
    }
}

/* What concerns the other sort of thing. */
static enum err refusal(const struct spread_entry *entry, const struct op *op)
{
    bool is_item = entry->map.is_item;
    if (op->kind == OP_CREATE)
        return ERR_EXISTS;
    if (op->kind == OP_GET && is_item != (op->target_kind != KIND_NONE))
        return is_item ? ERR_WRONG_TYPE : ERR_NOT_FOUND;
    if (op->kind == OP_COUNTS && !is_item)
        return ERR_WRONG_TYPE;
    bool is_look = op->kind == OP_GET || op->kind == OP_COUNTS || op->kind == OP_EXISTS ||
                   op->kind == OP_DESCRIBE || op->kind == OP_DEADLINE;
    return is_look ? ERR_OK : ERR_WRONG_TYPE;
}

/* "counter/kind" names nothing. */
static bool is_nothing(const struct spread_entry *entry, const struct op *op)
{
    return total_is_over(entry) || (!entry->map.is_item && op->target_kind != KIND_NONE);
}

void total_answer(struct spread_entry *entry, struct op *op)
{
    bool is_there = !is_nothing(entry, op);
    op->code = is_there ? refusal(entry, op) : ERR_OK;
    if (op->code == ERR_WRONG_TYPE && op->kind == OP_MEMBERS)
        op->page->cursor = 0;
    if (op->counts && (op->code || !is_there))
        memset(op->counts, 0, entry->layer->options.kinds->count * sizeof(*op->counts));
    if (op->code)
        return;
    if (op->kind == OP_EXISTS)
        op->changed = is_there;
    else if (!is_there && op->kind != OP_COUNTS)
        op->code = ERR_NOT_FOUND;
    else if (op->kind == OP_DESCRIBE)
        answer_describe(entry, op);
    else if (op->kind == OP_DEADLINE)
        op->deadline_ms = entry->deadline_ms;
    else if (is_there)
        answer_sum(entry, op);
}

/* ---- for workers ---- */

struct totals *totals_new(void)
{
    struct totals *totals = memory_take_aligned(sizeof(*totals));
    for (unsigned i = 0; i < TOTAL_SLOTS; i++)
        lock_init(&totals->slots[i].lock);
    return totals;
}

void totals_free(struct totals *totals)
{
    free(totals);
}

static uint64_t mark_of(uint64_t stable)
{
    return stable ? stable : 1;
}

/* The slot of an id, or a free one; only the layer's thread fills slots. */
static struct total_slot *slot_for(struct totals *totals, const struct spread_entry *entry,
                                   bool or_free)
{
    struct total_slot *found = NULL;
    for (unsigned i = 0; i < TOTAL_PROBES; i++) {
        struct total_slot *slot = &totals->slots[(entry->stable / LIMIT_CELLS + i) % TOTAL_SLOTS];
        uint64_t stable = atomic_load_explicit(&slot->stable, memory_order_relaxed);
        if (stable == mark_of(entry->stable) && slot->id_size == entry->id.size &&
            memcmp(slot->id, entry->id.data, entry->id.size) == 0)
            return slot;
        if (stable == 0 && !found && or_free)
            found = slot;
    }
    return found;
}

void total_withdraw(struct spread_entry *entry)
{
    struct totals *totals = entry->layer->spreads->totals;
    struct total_slot *slot = slot_for(totals, entry, false);
    if (!slot)
        return;
    lock_take(&slot->lock);
    atomic_store(&slot->stable, 0);
    lock_release(&slot->lock);
    atomic_fetch_sub(&totals->used, 1);
}

void total_publish(struct spread_entry *entry)
{
    const struct spread_sum *sum = entry->has_map ? sum_up(entry) : NULL;
    if (!sum || sum->value.big || sum->forgotten > 0 || entry->asked_ns == 0) {
        total_withdraw(entry);
        return;
    }
    struct totals *totals = entry->layer->spreads->totals;
    struct total_slot *slot = slot_for(totals, entry, true);
    if (!slot)
        return;
    lock_take(&slot->lock);
    slot->fresh_until_ns = entry->asked_ns + TOTAL_FRESH_NS;
    slot->over_ms = over_ms(entry);
    slot->as_of_ms = sum->as_of_ms;
    slot->is_item = entry->map.is_item;
    slot->missing = (uint8_t)sum->missing;
    slot->value = sum->value.small;
    memcpy(slot->counts, sum->counts, sizeof(sum->counts));
    slot->id_size = entry->id.size;
    memcpy(slot->id, entry->id.data, entry->id.size);
    if (atomic_load(&slot->stable) == 0)
        atomic_fetch_add(&totals->used, 1);
    atomic_store(&slot->stable, mark_of(entry->stable));
    lock_release(&slot->lock);
}

bool total_was_read(struct spread_entry *entry)
{
    struct total_slot *slot = slot_for(entry->layer->spreads->totals, entry, false);
    return slot && atomic_exchange(&slot->was_read, false);
}

/* With the slot's lock held. */
static bool answer_from(const struct total_slot *slot, const struct layer *layer, struct op *op)
{
    bool fits = slot->id_size == op->target.size &&
                memcmp(slot->id, op->target.data, op->target.size) == 0 &&
                slot->fresh_until_ns > env_monotonic_ns(layer->env) &&
                !is_past(slot->over_ms, layer->env);
    if (!fits)
        return false;
    if (op->kind == OP_COUNTS && slot->is_item) {
        memcpy(op->counts, slot->counts, layer->options.kinds->count * sizeof(*op->counts));
        op->changed = true;
    } else if (op->kind == OP_GET && slot->is_item == (op->target_kind != KIND_NONE)) {
        op->value = number_of(slot->is_item ? slot->counts[op->target_kind - 1] : slot->value);
    } else {
        return false;
    }
    op->code = ERR_OK;
    op->as_of_ms = slot->as_of_ms;
    op->shards_missing = slot->missing;
    return true;
}

bool spreads_answer(struct layer *layer, struct op *op)
{
    struct totals *totals = layer->spreads->totals;
    if (atomic_load_explicit(&totals->used, memory_order_relaxed) == 0 || op->exact)
        return false;
    for (unsigned i = 0; i < TOTAL_PROBES; i++) {
        struct total_slot *slot = &totals->slots[(op->stable / LIMIT_CELLS + i) % TOTAL_SLOTS];
        if (atomic_load_explicit(&slot->stable, memory_order_relaxed) != mark_of(op->stable))
            continue;
        lock_take(&slot->lock);
        bool is_answered =
            atomic_load(&slot->stable) == mark_of(op->stable) && answer_from(slot, layer, op);
        lock_release(&slot->lock);
        if (!is_answered)
            continue;
        if (!atomic_load_explicit(&slot->was_read, memory_order_relaxed))
            atomic_store_explicit(&slot->was_read, true, memory_order_relaxed);
        return true;
    }
    return false;
}
