/* drop.c - what is saved, what leaves memory, and how much there is of it.
 *
 * Ten times a second: closes a generation of writes now and then (saves.h), moves
 * the clock by which records are idle, adds up what is held, and lets go of records,
 * a few at a time under the lock of one cell. What was idle for the retention goes
 * anyway; when memory is short, so does what was not used for longest. How old that
 * is, a sample of the next records tells. When all of them are equally young, the clock
 * moves on at the end of the tick: the next one then knows who was used in between. */
#include <assert.h>
#include <string.h>

#include "hot/memory/cell_own.h"
#include "hot/memory/layer.h"

#define CLOSE_EVERY_MS 1000
#define STEP_RECORDS   256u   /* under one lock */
#define CALM_RECORDS   16384u /* looked at in one tick */
#define TIGHT_RECORDS  131072u
#define SAMPLE_RECORDS 64u  /* of each cell */
#define SHED_KEYS      256u /* of each stripe in one tick */
#define SHED_USERS     8u   /* chunks of 64 names, with all cells locked */
#define SHED_STEPS     64u  /* such in one tick */
#define MARGIN_BYTES   ((uint64_t)1 << 20)
#define UNIT_MS_LEAST  10u
#define UNIT_MS        20000u /* when nothing is dropped for being idle */

void drop_init(struct memory_hot *hot, const struct memory_hot_options *options)
{
    uint64_t retention_ms = options->retention_ms;
    uint64_t unit_ms = retention_ms / DROP_AGE;
    hot->memory_max = options->memory_max;
    hot->drop = (struct drop){.retention_ms = retention_ms,
                              .keys_kept_ms = options->keys_kept_ms,
                              .unit_ms = retention_ms == 0         ? UNIT_MS
                                         : unit_ms < UNIT_MS_LEAST ? UNIT_MS_LEAST
                                                                   : unit_ms};
}

/* ---- what is saved ---- */

static void sequences_of(const struct memory_hot *hot, uint64_t to[LIMIT_CELLS])
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        to[i] = hot->cells[i].sequence;
}

/* All cells are locked. */
static void close_generation(struct memory_hot *hot)
{
    uint64_t sequences[LIMIT_CELLS];
    sequences_of(hot, sequences);
    if (!saves_close(&hot->saves, sequences))
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        hot->cells[i].generation = hot->saves.now;
}

static bool has_all(const struct memory_hot *hot, const uint64_t sequences[LIMIT_CELLS])
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (hot->cells[i].sequence > sequences[i])
            return false;
    return true;
}

void drop_saved(struct hot *base, const uint64_t sequences[LIMIT_CELLS])
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(hot->cold);

    layer_take_all(hot);
    saves_reach(&hot->saves, sequences);
    if (has_all(hot, sequences)) { /* nobody has written meanwhile: no need to wait */
        close_generation(hot);
        saves_reach(&hot->saves, sequences);
    }
    layer_release_all(hot);
}

void drop_sequences(struct hot *base, uint64_t ret_sequences[LIMIT_CELLS])
{
    struct memory_hot *hot = (struct memory_hot *)base;
    layer_take_all(hot);
    sequences_of(hot, ret_sequences);
    layer_release_all(hot);
}

/* ---- dropping ---- */

enum err drop_id(struct hot *base, struct slice id)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    struct op op = {.kind = OP_GET, .id = id};
    layer_aim(hot, &op, NULL);
    layer_take_all(hot);
    struct cell *cell = &hot->cells[op.cell];
    struct entry *entry = cell_find(cell, op.hash, op.target);
    enum err err = ERR_OK;
    if (!entry) {
        err = ERR_NOT_FOUND;
        if (hot->cold)
            cold_doubt(hot->cold, op.hash, op.stable, &hot->saves);
    } else if (!hot->cold || !cell_forget(cell, op.hash, entry, &hot->saves, true)) {
        err = ERR_BUSY;
    }
    layer_collect(hot, cell);
    layer_release_all(hot);
    layer_free_retired(hot);
    layer_count_own(hot);
    return err;
}

/* Looks at a few records of a cell; says how many, and whether the cell is through. */
static uint32_t step(struct memory_hot *hot, struct cell *cell, uint32_t age, bool *ret_through)
{
    bool stuck;
    layer_take(hot, cell);
    uint32_t seen = cell_forget_idle(cell, &hot->saves, age, STEP_RECORDS, false, &stuck);
    bool collects = cell->retired != NULL;
    layer_collect(hot, cell);
    lock_release(&cell->lock);
    if (stuck) {
        layer_take_all(hot);
        cell_forget_idle(cell, &hot->saves, age, 1, true, &stuck);
        collects |= cell->retired != NULL;
        layer_collect(hot, cell);
        layer_release_all(hot);
        *ret_through = false;
        seen++;
    } else {
        *ret_through = seen < STEP_RECORDS;
    }
    if (collects)
        layer_free_retired(hot);
    return seen + 1; /* an empty cell costs something, too */
}

/* ---- memory ---- */

static uint64_t measure(struct memory_hot *hot)
{
    layer_count_own(hot);
    uint64_t bytes = users_bytes(hot->users) + keys_bytes(hot->keys);
    bytes += hot->cold ? cold_bytes(hot->cold) : 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct cell *cell = &hot->cells[i];
        lock_take(&cell->lock);
        bytes += cell->heap.live_bytes + table_bytes(&cell->table) +
                 cell->rare_count * sizeof(*cell->rares);
        lock_release(&cell->lock);
    }
    int64_t own = atomic_load(&hot->own_bytes);
    return bytes + (uint64_t)(own > 0 ? own : 0);
}

/* The age from which on records have to go, so that `share` (of 1,000) of the bytes
 * become free; CELL_AGES when nothing may go. */
static uint32_t age_for(struct memory_hot *hot, uint64_t share)
{
    uint32_t counts[CELL_AGES] = {0};
    uint64_t all = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct cell *cell = &hot->cells[i];
        lock_take(&cell->lock);
        cell_sample_ages(cell, &hot->saves, SAMPLE_RECORDS, counts);
        lock_release(&cell->lock);
    }
    for (unsigned i = 0; i < CELL_AGES; i++)
        all += counts[i];
    if (all == 0)
        return CELL_AGES - 1; /* the next ones are all unsaved; what comes then may not be */
    uint64_t older = 0;
    uint32_t age = CELL_AGES;
    while (age > 0 && older * 1000 < all * share)
        older += counts[--age];
    return age;
}

/* Goes on through the cells until so many records were looked at, a round is
 * complete, or enough is free. Returns the bytes that are held now. */
static uint64_t walk(struct memory_hot *hot, uint32_t age, uint32_t budget, uint64_t bytes,
                     uint64_t enough)
{
    uint32_t cells = 0;
    uint32_t since_measured = 0;
    while (budget > 0 && cells <= LIMIT_CELLS && (enough == 0 || bytes > enough)) {
        bool through;
        uint32_t seen = step(hot, &hot->cells[hot->drop.cell], age, &through);
        budget -= seen < budget ? seen : budget;
        since_measured += seen;
        if (through) {
            hot->drop.cell = (uint8_t)((hot->drop.cell + 1) % LIMIT_CELLS);
            cells++;
        }
        if (enough != 0 && since_measured >= 2048) {
            bytes = measure(hot);
            since_measured = 0;
        }
    }
    return measure(hot);
}

static void let_key_go(void *arg, uint64_t low, uint64_t high)
{
    cold_let_go_key(arg, low, high);
}

static void let_user_go(void *arg, struct slice name, uint64_t hash)
{
    cold_let_go_user(arg, hash, name);
}

/* A key comes again soon or never: the oldest go before anything else does. */
static uint64_t shed_keys(struct memory_hot *hot, const struct saves *saves, uint64_t bytes,
                          uint64_t enough)
{
    for (uint32_t steps = 0; bytes > enough && steps < SHED_STEPS; steps++) {
        if (keys_shed(hot->keys, saves, SHED_KEYS, let_key_go, hot->cold) == 0)
            break;
        bytes = measure(hot);
    }
    return bytes;
}

/* Names that were not used since it was last here; a second round takes the others, too. */
static uint64_t shed_users(struct memory_hot *hot, uint64_t bytes, uint64_t enough)
{
    bool through = false;
    for (uint32_t steps = 0; bytes > enough && steps < SHED_STEPS && !through; steps++) {
        layer_take_all(hot);
        through = users_shed(hot->users, &hot->saves, &hot->drop.users, SHED_USERS, let_user_go,
                             hot->cold);
        layer_release_all(hot);
        bytes = measure(hot);
    }
    users_fit(hot->users);
    return measure(hot);
}

/* Where dropping begins, so that there is room for what comes until the next tick. */
static uint64_t enough_of(uint64_t memory_max)
{
    uint64_t margin = memory_max / 4 < MARGIN_BYTES ? memory_max / 4 : MARGIN_BYTES;
    return memory_max - (margin > memory_max / 32 ? margin : memory_max / 32);
}

/* Past this nothing is loaded to be written to. Writes of a tick fit in between. */
static uint64_t full_of(uint64_t memory_max)
{
    uint64_t more = memory_max / 8 > MARGIN_BYTES ? memory_max / 8 : MARGIN_BYTES;
    return more < UINT64_MAX - memory_max ? memory_max + more : UINT64_MAX;
}

/* All cells are locked. */
static void move_clock(struct memory_hot *hot, unsigned units)
{
    hot->drop.clock = (uint8_t)(hot->drop.clock + units);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        hot->cells[i].clock = hot->drop.clock;
}

/* What was not used for longest, then idle names, then what was not used since the last
 * tick. The rest of what is saved goes only when that is known, and was not enough. */
static uint64_t drop_records(struct memory_hot *hot, uint64_t bytes, uint64_t enough,
                             bool tells_apart)
{
    uint32_t unused = hot->drop.units + 1u < CELL_AGES ? hot->drop.units + 1u : CELL_AGES - 1;
    uint32_t age = age_for(hot, (bytes - enough) * 1500 / bytes + 1);
    bytes = walk(hot, age > unused ? age : unused, TIGHT_RECORDS, bytes, enough);
    if (bytes > enough)
        bytes = shed_users(hot, bytes, enough);
    if (bytes > hot->memory_max && age > unused)
        bytes = walk(hot, unused, TIGHT_RECORDS, bytes, enough);
    if (bytes > hot->memory_max && tells_apart)
        bytes = walk(hot, 0, TIGHT_RECORDS, bytes, enough);
    if (age <= unused || bytes > hot->memory_max) {
        layer_take_all(hot);
        move_clock(hot, 1);
        layer_release_all(hot);
        hot->drop.tells_apart = true;
    }
    return bytes;
}

static void make_room(struct memory_hot *hot, const struct saves *saves)
{
    uint64_t bytes = measure(hot);
    uint64_t enough = enough_of(hot->memory_max);
    bool is_short = hot->cold && hot->memory_max != 0 && bytes > enough;
    bool tells_apart = hot->drop.tells_apart;
    hot->drop.tells_apart = false;
    if (is_short) /* the keys first */
        bytes = shed_keys(hot, saves, bytes, enough);
    if (is_short && bytes > enough)
        bytes = drop_records(hot, bytes, enough, tells_apart);
    else if (!is_short && hot->cold && hot->drop.retention_ms != 0)
        bytes = walk(hot, DROP_AGE, CALM_RECORDS, bytes, 0);
    atomic_store(&hot->memory_bytes, bytes);
    atomic_store(&hot->tight, hot->memory_max != 0 && bytes > hot->memory_max);
    atomic_store(&hot->full, hot->memory_max != 0 && bytes > full_of(hot->memory_max));
}

/* ---- the tick ---- */

/* Wall-clock time may jump either way: back counts as nothing. */
static unsigned units_passed(struct drop *drop, int64_t now_ms)
{
    int64_t passed_ms = drop->ticked_ms == 0 ? 0 : now_ms - drop->ticked_ms;
    drop->ticked_ms = now_ms;
    drop->passed_ms += passed_ms > 0 ? (uint64_t)passed_ms : 0;
    drop->all_ms += passed_ms > 0 ? (uint64_t)passed_ms : 0;
    uint64_t units = drop->passed_ms / drop->unit_ms;
    drop->passed_ms %= drop->unit_ms;
    return units < INT8_MAX ? (unsigned)units : INT8_MAX;
}

void drop_tick(struct memory_hot *hot, int64_t now_ms)
{
    struct drop *drop = &hot->drop;
    unsigned units = units_passed(drop, now_ms);
    bool is_time = now_ms - drop->closed_ms >= CLOSE_EVERY_MS || now_ms < drop->closed_ms;
    bool is_short =
        hot->memory_max != 0 && atomic_load(&hot->memory_bytes) > enough_of(hot->memory_max);
    struct saves saves = {.oldest = 0};
    if (hot->cold) {
        drop->units = (uint8_t)units;
        layer_take_all(hot);
        move_clock(hot, units);
        if (is_time || is_short)
            close_generation(hot);
        saves = hot->saves;
        if (drop->all_ms - drop->keys_turned_ms > drop->keys_kept_ms) {
            drop->keys_turned_ms = drop->all_ms;
            cold_turn_keys(hot->cold);
        }
        layer_release_all(hot);
        if (is_time) {
            drop->closed_ms = now_ms;
            cold_tidy(hot->cold, &saves, is_short);
        }
    }
    make_room(hot, &saves);
}
