/* balance.c - ten times a second: expiry, old keys, and whether something has
 * become hot enough to be spread, or quiet enough to be folded. */
#include <assert.h>
#include <string.h>

#include "hot/memory/layer.h"

static uint32_t shards_of(const struct cell *cell, const struct entry *entry)
{
    const struct spread *spread = layer_spread(cell, entry);
    return spread ? spread->shards : 1;
}

/* With all cells locked. */
static enum err reshard_entry(struct memory_hot *hot, struct cell *cell, struct entry *entry,
                              uint64_t hash, uint32_t shards, const char *reason, int64_t now_ms)
{
    bool is_big = entry->kind == ENTRY_COUNTER && entry->flags & ENTRY_BIG;
    if (is_big || shards_of(cell, entry) == shards)
        return ERR_OK; /* a big counter stays in one piece */
    struct spread *spread;
    if (entry->kind == ENTRY_ITEM) {
        struct crowd *crowd = cell_crowd(cell, entry, hash);
        if (!crowd)
            return ERR_COLD; /* names have to be loaded first */
        spread = &crowd->spread;
        directory_remove(&hot->directory, spread);
        cell_reshard_item(cell, entry, shards);
        spread->reason = reason;
        spread->changed_ms = now_ms;
    } else {
        cell_reshard_counter(cell, entry, shards);
        layer_collect(hot, cell);
        struct rare *rare = cell_rare(cell, entry);
        rare->reason = reason;
        rare->changed_ms = now_ms;
        spread = rare->parts ? &rare->parts->spread : NULL;
    }
    layer_level_tickets(hot);
    hot->spread_events++;
    if (spread && spread->shards > 1)
        directory_add(&hot->directory, spread);
    return ERR_OK;
}

enum err balance_reshard(struct hot *base, struct slice id, uint32_t shards, int64_t now_ms)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(shards >= 1 && shards <= LIMIT_CELLS);
    struct op op = {.kind = OP_GET, .id = id};
    layer_aim(hot, &op, NULL);
    layer_take_all(hot);
    struct cell *cell = &hot->cells[op.cell];
    struct entry *entry = cell_find(cell, op.hash, op.target);
    enum err err = ERR_NOT_FOUND;
    if (entry)
        err = reshard_entry(hot, cell, entry, op.hash, shards, heat_reason_text(HEAT_BY_HAND),
                            now_ms);
    layer_release_all(hot);
    layer_count_own(hot);
    layer_tell_wants(hot);
    return err;
}

void balance_spread_as_asked(struct memory_hot *hot, struct cell *home, uint64_t hash,
                             struct slice target)
{
    layer_take_all(hot);
    struct entry *entry = cell_find(home, hash, target);
    uint32_t owed = entry ? layer_owed(home, entry) : 1;
    if (owed > 1)
        reshard_entry(hot, home, entry, hash, owed, heat_reason_text(HEAT_CREATED),
                      env_wall_ms(hot->env));
    layer_release_all(hot);
}

/* What one look at the cells has found to be hot; looked at again under all locks. */
struct hot_id {
    uint8_t cell;
    uint64_t hash;
    uint64_t writes;
    uint32_t taken_per_mille;
    uint32_t owed; /* shards, see layer.h */
    uint16_t id_size;
    char id[LIMIT_ID_BYTES];
};

/* The top id of a cell, with an estimate of its writes; then the cell begins anew. */
static bool look_at_cell(struct memory_hot *hot, struct cell *cell, struct hot_id *ret_top)
{
    layer_take(hot, cell);
    uint64_t writes = atomic_load_explicit(&cell->writes, memory_order_relaxed);
    const struct heat_candidate *top = heat_top(&cell->heat);
    bool found = top && cell->heat.noted > 0;
    if (found) {
        *ret_top = (struct hot_id){
            .cell = cell->number,
            .hash = top->hash,
            .writes = writes * top->count / cell->heat.noted,
            .taken_per_mille = cell->tries ? (uint32_t)(cell->waits * 1000 / cell->tries) : 0,
            .id_size = top->id_size};
        memcpy(ret_top->id, top->id, top->id_size);
        const struct entry *entry =
            cell_find(cell, top->hash, (struct slice){ret_top->id, ret_top->id_size});
        ret_top->owed = entry ? layer_owed(cell, entry) : 1;
    }
    heat_clear(&cell->heat);
    atomic_store_explicit(&cell->writes, 0, memory_order_relaxed);
    cell->tries = 0;
    cell->waits = 0;
    lock_release(&cell->lock);
    return found;
}

static void spread_if_hot(struct memory_hot *hot, const struct hot_id *top, uint32_t duration_ms,
                          int64_t now_ms)
{
    struct heat_window window = {
        .writes = top->writes, .duration_ms = duration_ms, .taken_per_mille = top->taken_per_mille};
    struct heat_verdict verdict = heat_judge(&hot->rule, &window, 1, top->owed, 0);
    if (verdict.shards == 1)
        return;
    layer_take_all(hot);
    struct cell *cell = &hot->cells[top->cell];
    struct entry *entry = cell_find(cell, top->hash, (struct slice){top->id, top->id_size});
    /* What is spread already is seen to by look_at_spread(), as long as the directory
     * knows it: for more than it can hold, spreading is not worth it. */
    if (entry && !layer_spread(cell, entry) &&
        (top->owed > 1 || directory_has_room(&hot->directory)))
        reshard_entry(hot, cell, entry, top->hash, verdict.shards, heat_reason_text(verdict.reason),
                      now_ms);
    layer_release_all(hot);
}

/* More or fewer shards for what is spread and in the directory. */
static void look_at_spread(struct memory_hot *hot, uint32_t duration_ms, uint32_t taken_per_mille,
                           int64_t now_ms)
{
    layer_take_all(hot); /* nobody adds or removes meanwhile */
    for (uint32_t i = hot->directory.count; i-- > 0;) {
        struct spread *spread = hot->directory.list[i];
        spread->window_writes = atomic_exchange(&spread->writes, 0);
        struct heat_window window = {.writes = (uint64_t)spread->window_writes,
                                     .duration_ms = duration_ms,
                                     .taken_per_mille = taken_per_mille};
        struct heat_verdict verdict =
            heat_judge(&hot->rule, &window, spread->shards, spread->asked, (uint8_t)spread->quiet);
        spread->quiet = verdict.quiet_windows;
        if (verdict.shards == spread->shards)
            continue;
        struct cell *cell = &hot->cells[spread->home];
        uint64_t hash = spread->hash;
        struct entry *entry = cell_find(cell, hash, spread_id(spread));
        assert(entry);
        reshard_entry(hot, cell, entry, hash, verdict.shards, heat_reason_text(verdict.reason),
                      now_ms);
    }
    layer_release_all(hot);
}

static void balance(struct memory_hot *hot, int64_t now_ms)
{
    int64_t duration_ms = now_ms - hot->window_began_ms;
    if (duration_ms >= 0 && duration_ms < HEAT_WINDOW_MS)
        return;
    hot->window_began_ms = now_ms;
    if (duration_ms < 0 || duration_ms > 10 * HEAT_WINDOW_MS)
        return; /* the clock has jumped, or nobody has looked for long */

    uint32_t taken_max = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct hot_id top;
        if (!look_at_cell(hot, &hot->cells[i], &top))
            continue;
        taken_max = top.taken_per_mille > taken_max ? top.taken_per_mille : taken_max;
        spread_if_hot(hot, &top, (uint32_t)duration_ms, now_ms);
    }
    look_at_spread(hot, (uint32_t)duration_ms, taken_max, now_ms);
}

#define SWEEP_RECORDS 256u /* of each cell in one tick */

static void sweep(struct memory_hot *hot, struct cell *cell, struct cell_turn *turn)
{
    layer_take(hot, cell);
    bool done = cell_sweep(cell, turn, SWEEP_RECORDS);
    layer_append(hot, cell, turn->section, turn->now_ms);
    lock_release(&cell->lock);
    if (done)
        return;

    layer_take_all(hot);
    turn->alone = true;
    cell_sweep(cell, turn, SWEEP_RECORDS);
    turn->alone = false;
    layer_append(hot, cell, turn->section, turn->now_ms);
    layer_collect(hot, cell);
    layer_release_all(hot);
}

void balance_tick(struct hot *base, int64_t now_ms)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct worker *worker = &hot->worker[hot->runners];
    layer_note_time(hot, now_ms);
    struct cell_turn turn = {.section = &worker->section,
                             .now_ms = now_ms,
                             .room = log_room(hot->log),
                             .picker = &worker->picker,
                             .cells = hot->cells};
    for (unsigned i = 0; i < LIMIT_CELLS && turn.room == ERR_OK; i++)
        sweep(hot, &hot->cells[i], &turn);
    keys_forget(hot->keys, now_ms, SWEEP_RECORDS);
    balance(hot, now_ms);
    layer_free_retired(hot);
    layer_count_own(hot);
    drop_tick(hot, now_ms);
    layer_tell_wants(hot);
}
