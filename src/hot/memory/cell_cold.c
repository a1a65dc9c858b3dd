/* cell_cold.c - what a cell does about things that are not in memory, and about those
 * that may leave it. */
#include "hot/memory/cell_own.h"

#include <assert.h>

#include "base/hash.h"

/* ---- asking ---- */

bool cell_ask(struct cell *cell, const struct cell_turn *turn, struct op *op)
{
    op->code = cell_is_too_full(turn, op)
                   ? ERR_NO_MEMORY
                   : cold_ask_target(cell->cold, op->hash, op->stable, op->target);
    return op->code != ERR_OK;
}

enum err cell_ask_to_replay(struct cell *cell, uint64_t hash, struct slice id, struct error *error)
{
    if (!cell->cold)
        return ERR_OK;
    enum err err = cold_ask_target(cell->cold, hash, hash_stable(id), id);
    return err ? error_set(error, err, "'%.*s': %s", SLICE_ARGS(id),
                           err == ERR_COLD      ? "it is in the store"
                           : err == ERR_NO_KIND ? err_meaning(err)
                                                : "the store cannot give it")
               : ERR_OK;
}

enum err cell_ask_members(struct cell *cell, uint64_t hash, struct slice item,
                          const struct members_lack *lack)
{
    if (lack->slice != MEMBERS_NO_SLICE)
        return cold_ask_slice(cell->cold, hash, item, lack->slice);
    enum err err = cold_ask_names(cell->cold, lack->numbers, lack->count);
    return err == ERR_OK ? ERR_UNAVAILABLE : err; /* the store has members without names */
}

/* ---- leaving ---- */

static const struct spread *spread_of(const struct cell *cell, const struct entry *entry)
{
    if (entry->kind == ENTRY_ITEM)
        return entry->flags & ENTRY_CROWD ? &entry->crowd->spread : NULL;
    const struct rare *rare = cell_rare(cell, entry);
    return rare && rare->parts ? &rare->parts->spread : NULL;
}

bool cell_is_saved(const struct cell *cell, const struct entry *entry, const struct saves *saves)
{
    const struct spread *spread = spread_of(cell, entry);
    return saves_has(saves, entry_generation(entry)) &&
           (!spread || saves_has(saves, (uint8_t)atomic_load(&spread->stamp)));
}

static bool is_in_other_cells(const struct cell *cell, const struct entry *entry)
{
    const struct spread *spread = spread_of(cell, entry);
    return spread && (!spread->is_item || spread->shards > 1);
}

bool cell_forget(struct cell *cell, uint64_t hash, struct entry *entry, const struct saves *saves,
                 bool alone)
{
    assert(cell->cold);

    if (!cell_is_saved(cell, entry, saves) || (is_in_other_cells(cell, entry) && !alone) ||
        !cold_let_go(cell->cold, hash, hash_stable(entry_id(entry))))
        return false;
    cell_take_out(cell, hash, entry);
    cell->dropped++;
    return true;
}

/* The clock goes round: what was not used for half of a round stays that old. What is
 * spread is used in other cells, too, which leave their stamp on it. */
static uint32_t age_of(const struct cell *cell, struct entry *entry)
{
    const struct spread *spread = spread_of(cell, entry);
    uint8_t age = (uint8_t)(cell->clock - entry->used);
    if (age > INT8_MAX) {
        age = INT8_MAX;
        entry->used = (uint8_t)(cell->clock - age);
    }
    uint8_t other = spread ? (uint8_t)(cell->clock - (atomic_load(&spread->stamp) >> 8)) : age;
    return other < age ? other : age;
}

void cell_sample_ages(struct cell *cell, const struct saves *saves, uint32_t limit,
                      uint32_t counts[CELL_AGES])
{
    uint32_t ref = cell->drop_at;
    for (uint32_t seen = 0; seen < limit; seen++) {
        ref = heap_next(&cell->heap, ref);
        if (ref == HEAP_NONE)
            return;
        struct entry *entry = heap_at(&cell->heap, ref);
        if (cell_is_saved(cell, entry, saves))
            counts[age_of(cell, entry)]++;
    }
}

uint32_t cell_forget_idle(struct cell *cell, const struct saves *saves, uint32_t age,
                          uint32_t limit, bool alone, bool *ret_stuck)
{
    *ret_stuck = false;
    for (uint32_t seen = 0; seen < limit; seen++) {
        uint32_t ref = heap_next(&cell->heap, cell->drop_at);
        if (ref == HEAP_NONE) {
            cell->drop_at = HEAP_NONE;
            table_fit(&cell->table);
            return seen;
        }
        struct entry *entry = heap_at(&cell->heap, ref);
        bool is_saved = cell_is_saved(cell, entry, saves);
        bool may_go = is_saved && age_of(cell, entry) >= age;
        if (may_go && is_in_other_cells(cell, entry) && !alone) {
            *ret_stuck = true;
            return seen;
        }
        cell->drop_at = ref;
        if (is_saved)
            entry_set_generation(entry, 0);
        if (may_go)
            cell_forget(cell, hash_keyed(entry_id(entry), cell->hash_key), entry, saves, alone);
    }
    return limit;
}
