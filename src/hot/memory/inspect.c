/* inspect.c - looking at one thing closely, and putting it right. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "hot/memory/cell_own.h"
#include "hot/memory/layer.h"

#define COUNTED_MAX 1000000 /* members that are counted one by one, with everybody waiting */

/* The record of an id; all cells are locked. NULL: not in memory, or its time is over. */
static struct entry *look_up(struct memory_hot *hot, struct slice id, struct op *ret_op)
{
    *ret_op = (struct op){.kind = OP_GET, .id = id};
    layer_aim(hot, ret_op, NULL);
    struct cell *cell = &hot->cells[ret_op->cell];
    struct entry *entry = cell_find(cell, ret_op->hash, ret_op->target);
    bool is_other =
        entry && entry->kind == ENTRY_COUNTER &&
        (ret_op->target_kind != 0 || cell_is_expired(cell, entry, atomic_load(&hot->now_ms)));
    return is_other ? NULL : entry;
}

/* Records are many and have no room for a stamp of their own; those that were inspected are
 * few. A record that nobody has seen yet gets a new stamp, which it shares with what has a like
 * hash: one that was put in memory since the inspection has not been seen, or has another. */
static struct hot_record record_of(struct memory_hot *hot, struct entry *entry, uint64_t hash)
{
    uint32_t *stamp = &hot->stamps[hash % INSPECT_STAMPS];
    if (!(entry->flags & ENTRY_SEEN)) {
        entry->flags |= ENTRY_SEEN;
        ++*stamp;
    }
    return (struct hot_record){.incarnation = entry->incarnation, .stamp = *stamp};
}

static bool is_record(struct memory_hot *hot, const struct entry *entry, uint64_t hash,
                      const struct hot_record *record)
{
    return entry->flags & ENTRY_SEEN && entry->incarnation == record->incarnation &&
           hot->stamps[hash % INSPECT_STAMPS] == record->stamp;
}

static void inspect_crowd(struct memory_hot *hot, const struct crowd *crowd,
                          struct hot_inspection *ret)
{
    crowd_counts(crowd, ret->counts);
    ret->complete = atomic_load(&crowd->missing) == 0;
    uint32_t turn = atomic_fetch_add(&hot->inspections, 1) % CROWD_SLICES;
    for (uint8_t kind = 1; kind <= crowd->kinds; kind++)
        ret->members[kind - 1] = crowd_size(crowd) <= COUNTED_MAX
                                     ? crowd_recount(crowd, kind)
                                     : crowd_count_sets(crowd, kind, turn);
}

static void inspect_entry(struct memory_hot *hot, const struct cell *cell,
                          const struct entry *entry, struct hot_inspection *ret)
{
    ret->is_item = entry->kind == ENTRY_ITEM;
    ret->complete = true;
    if (ret->is_item && entry->flags & ENTRY_CROWD) {
        inspect_crowd(hot, entry->crowd, ret);
    } else if (ret->is_item) {
        block_counts(entry, hot->kinds->count, ret->counts);
        memcpy(ret->members, ret->counts, sizeof(ret->members));
    } else {
        const struct rare *rare = cell_rare(cell, entry);
        struct number value =
            rare && rare->parts ? number_of(atomic_load(&rare->parts->total)) : entry_value(entry);
        ret->value = number_copy(&value);
    }
}

enum err inspect_id(struct hot *base, struct slice id, struct hot_inspection *ret)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    *ret = (struct hot_inspection){.is_item = false};
    struct op op;
    layer_take_all(hot);
    struct entry *entry = look_up(hot, id, &op);
    if (entry) {
        ret->record = record_of(hot, entry, op.hash);
        inspect_entry(hot, &hot->cells[op.cell], entry, ret);
    }
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        ret->sequences[i] = hot->cells[i].sequence;
    layer_release_all(hot);
    return entry ? ERR_OK : ERR_NOT_FOUND;
}

static enum err mend_counter(struct cell *cell, struct entry *counter, const struct number *by)
{
    const struct rare *rare = cell_rare(cell, counter);
    if (rare && rare->parts)
        cell_reshard_counter(cell, counter, 1); /* the balancer may spread it again */
    counter_add_value(cell, counter, by);
    return ERR_OK;
}

enum err inspect_mend(struct hot *base, struct slice id, const struct hot_record *record,
                      uint8_t kind, const struct number *by)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct op op;
    layer_take_all(hot);
    struct entry *entry = look_up(hot, id, &op);
    struct cell *cell = &hot->cells[op.cell];
    uint8_t of = kind != KIND_NONE ? kind : op.target_kind;
    enum err err = ERR_INVALID;
    if (!entry)
        err = ERR_NOT_FOUND;
    else if (!is_record(hot, entry, op.hash, record))
        err = ERR_BUSY;
    else if (entry->kind == ENTRY_COUNTER)
        err = mend_counter(cell, entry, by);
    else if (entry->flags & ENTRY_CROWD && of != KIND_NONE && of <= hot->kinds->count && !by->big) {
        atomic_fetch_add(&entry->crowd->counts[of - 1], by->small);
        err = ERR_OK;
    }
    layer_collect(hot, cell);
    layer_release_all(hot);
    return err;
}

enum err inspect_note(struct hot *base, const struct event *repair, int64_t now_ms)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    enum err err = log_room(hot->log);
    if (err)
        return err;
    struct section section;
    section_init(&section);
    section_event(&section, repair);
    struct cell *cell = &hot->cells[layer_home(hash_stable(repair->id))];
    layer_take(hot, cell);
    layer_append(hot, cell, &section, now_ms);
    lock_release(&cell->lock);
    section_done(&section);
    return ERR_OK;
}

/* ---- what is spread ---- */

static int by_writes(const void *a, const void *b)
{
    const struct spread *x = *(struct spread *const *)a;
    const struct spread *y = *(struct spread *const *)b;
    return (x->window_writes < y->window_writes) - (x->window_writes > y->window_writes);
}

static void totals_of(const struct spread *spread, int64_t totals[LIMIT_CELLS])
{
    if (spread->is_item)
        crowd_totals((const struct crowd *)spread, KIND_NONE, totals);
    else
        parts_totals((const struct parts *)spread, totals);
}

void inspect_hottest(struct hot *base, uint32_t limit, hot_shards_fn *visit, void *arg)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    const struct spread *list[DIRECTORY_MAX];
    layer_take_all(hot); /* nobody adds or removes meanwhile */
    uint32_t count = hot->directory.count;
    memcpy(list, hot->directory.list, count * sizeof(list[0]));
    qsort(list, count, sizeof(list[0]), by_writes);
    for (uint32_t i = 0; i < count && i < limit; i++) {
        int64_t totals[LIMIT_CELLS];
        totals_of(list[i], totals);
        visit(arg, spread_id(list[i]), list[i]->is_item, list[i]->shards, totals);
    }
    layer_release_all(hot);
}
