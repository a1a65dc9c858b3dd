/* run.c - batches: who runs what, where, under which lock.
 *
 * A batch is sorted by cell, each cell's lock is taken once, and its ops run
 * under it one after the other. What they changed goes to the log as one section
 * before the lock is released, so that the log has everything in the order in
 * which it happened.
 *
 * Three ways for an op:
 *
 *   the common one   to its home cell, in the batch's group for that cell
 *   the routed one   its id is in the directory of hot ids: straight to the cell
 *                    that owns the piece
 *   the slow one     the home cell says that it belongs elsewhere, or that it
 *                    needs all cells: alone, after the groups, in the batch's order */
#include <assert.h>
#include <string.h>

#include "core/bucket.h"
#include "core/fingerprint.h"
#include "hot/memory/layer.h"

/* A section is handed over before it can become too large for the log. */
static void append_if_large(struct memory_hot *hot, struct cell *cell, struct section *section,
                            int64_t now_ms)
{
    if (section->body.size >= LOG_SECTION_BYTES_MAX - 2 * LIMIT_EVENT_BYTES)
        layer_append(hot, cell, section, now_ms);
}

static bool has_id(const struct id_bits *ids, uint64_t hash)
{
    return ids->any && ids->words[hash / 64 % (ID_BITS / 64)] >> hash % 64 & 1;
}

static void add_id(struct id_bits *ids, uint64_t hash)
{
    ids->any = true;
    ids->words[hash / 64 % (ID_BITS / 64)] |= UINT64_C(1) << hash % 64;
}

static void clear_ids(struct id_bits *ids)
{
    if (ids->any)
        *ids = (struct id_bits){.any = false};
}

static void answer_again(const struct kinds *kinds, struct op *op, const struct key_answer *first,
                         bool *ret_repeated)
{
    if (first->fingerprint != fingerprint_of(kinds, op)) {
        op->code = ERR_KEY_REUSED;
        return;
    }
    op->changed = first->changed;
    op->held = first->held;
    op->value = number_copy(&first->value);
    op->repeated = true;
    *ret_repeated = true;
}

/* An op with an idempotency key: look, do and remember, in one step. */
static enum cell_result run_keyed(struct memory_hot *hot, struct worker *worker, struct cell *cell,
                                  const struct cell_turn *turn, struct op *op)
{
    struct key_slot slot;
    const struct key_answer *first = keys_open(hot->keys, op->id, op->key, turn->now_ms, &slot);
    enum cell_result result = CELL_DONE;
    if (first) {
        answer_again(hot->kinds, op, first, &worker->repeated);
    } else if (turn->room) {
        op->code = turn->room;
    } else if (hot->cold && (op->code = cold_ask_key(hot->cold, slot.low, slot.high)) != ERR_OK) {
        result = CELL_DONE; /* whether it was used before is in the store */
    } else {
        uint32_t events = turn->section->count;
        result = cell_run(cell, turn, op);
        if (result == CELL_DONE && op->code == ERR_OK) {
            if (turn->section->count == events)
                cell_remember(cell, turn, op);
            struct key_answer answer = {.fingerprint = fingerprint_of(hot->kinds, op),
                                        .changed = op->changed,
                                        .held = op->held,
                                        .generation = cell->generation,
                                        .value = op->value};
            keys_put(hot->keys, &slot, &answer, turn->now_ms);
        }
    }
    keys_close(hot->keys, &slot);
    return result;
}

/* Does the answer tell a total that other cells have a part in? */
static bool is_shared(const struct op *op)
{
    return op->route && op->kind == OP_ADD;
}

static enum cell_result run_here(struct memory_hot *hot, struct worker *worker, struct cell *cell,
                                 const struct cell_turn *turn, struct op *op)
{
    /* What comes behind an op that has to wait, on the same id, waits with it. */
    if (has_id(&worker->cold_ids, op->hash)) {
        op->code = ERR_COLD;
        return CELL_DONE;
    }
    enum cell_result result = op->key.size > 0 && op_is_write(op->kind)
                                  ? run_keyed(hot, worker, cell, turn, op)
                                  : cell_run(cell, turn, op);
    if (op->code == ERR_COLD)
        add_id(&worker->cold_ids, op->hash);
    if (op->kind == OP_CREATE && op->changed && !op->repeated && op->create->shards > 1)
        layer_publish(hot, cell, op->hash, op->target);
    worker->shared |= is_shared(op);
    append_if_large(hot, cell, turn->section, turn->now_ms);
    return result;
}

/* Keyed reactions answer with the counts of now, not of the first time. */
static void fill_counts_of_repeated(struct memory_hot *hot, const struct cell_turn *turn,
                                    struct op *op)
{
    if (!op->repeated || !op->counts)
        return;
    memset(op->counts, 0, hot->kinds->count * sizeof(*op->counts));
    struct op counts = {.kind = OP_COUNTS,
                        .id = op->id,
                        .target = op->target,
                        .stable = op->stable,
                        .hash = op->hash,
                        .counts = op->counts};
    struct cell *home = &hot->cells[layer_home(op->stable)];
    layer_take(hot, home);
    cell_run(home, turn, &counts);
    lock_release(&home->lock);
    if (counts.code == ERR_OK || counts.code == ERR_WRONG_TYPE)
        return;              /* or all zero: the id has become a counter since */
    number_done(&op->value); /* the whole answer is given when it is there */
    op->code = counts.code;
    op->repeated = false;
}

/* Cells are the bits of a word. */
static uint64_t cells_of(const struct spread *spread)
{
    uint64_t cells = 0;
    for (uint32_t shard = 0; shard < spread->shards; shard++)
        cells |= UINT64_C(1) << spread_cell(spread->home, spread->shards, shard);
    return cells;
}

/* What do answers of the batch rest on beside the cell that gave them? The first
 * answer of a key on the section of any cell; the total of a spread counter on
 * what the other cells have added to it. */
static uint64_t cells_rested_on(const struct worker *worker, const struct batch *batch)
{
    if (worker->repeated)
        return UINT64_MAX;
    uint64_t cells = 0;
    const struct spread *last = NULL;
    for (size_t i = 0; i < batch->count && worker->shared; i++) {
        const struct op *op = &batch->ops[i];
        if (!is_shared(op) || op->route == last)
            continue;
        last = op->route;
        cells |= cells_of(last);
    }
    return cells;
}

/* What was decided may not even be with the log yet: its cell is locked until it
 * is. Whoever has taken each lock once knows a ticket that is not before it. */
static uint64_t ticket_of(struct memory_hot *hot, uint64_t cells)
{
    uint64_t ticket = 0;
    for (; cells != 0; cells &= cells - 1) {
        struct cell *cell = &hot->cells[__builtin_ctzll(cells)];
        lock_take(&cell->lock); /* and not layer_take(): nothing is hot because of us */
        ticket = cell->ticket > ticket ? cell->ticket : ticket;
        lock_release(&cell->lock);
    }
    return ticket;
}

/* The slow way: as many cells, one after the other, as it takes. */
static void run_slow(struct memory_hot *hot, struct worker *worker, struct cell_turn *turn,
                     struct op *op)
{
    enum cell_result result = CELL_ELSEWHERE;
    while (result == CELL_ELSEWHERE) {
        struct cell *cell = &hot->cells[op->cell];
        layer_take(hot, cell);
        result = run_here(hot, worker, cell, turn, op);
        layer_append(hot, cell, turn->section, turn->now_ms);
        op->ticket = op_is_write(op->kind) ? cell->ticket : 0;
        lock_release(&cell->lock);
    }
    if (result == CELL_ALONE) {
        layer_take_all(hot);
        struct cell *cell = &hot->cells[op->cell];
        turn->alone = true;
        op->route = NULL;
        result = run_here(hot, worker, cell, turn, op);
        assert(result == CELL_DONE);
        layer_append(hot, cell, turn->section, turn->now_ms);
        layer_level_tickets(hot);
        op->ticket = op_is_write(op->kind) ? cell->ticket : 0;
        layer_collect(hot, cell);
        turn->alone = false;
        layer_release_all(hot);
    }
}

/* --- batches --- */

static void to_group(struct worker *worker, struct op *op)
{
    struct group *group = &worker->groups[op->cell];
    if (!group->first) {
        group->last = &group->first;
        worker->used[worker->used_count++] = op->cell;
    }
    op->next = NULL;
    *group->last = op;
    group->last = &op->next;
}

static void to_slow(struct worker *worker, struct op *op)
{
    if (!worker->slow)
        worker->slow_last = &worker->slow;
    op->next = NULL;
    *worker->slow_last = op;
    worker->slow_last = &op->next;
    add_id(&worker->slow_ids, op->hash);
}

/* Ops on an id that waits for the slow way wait behind it: order is kept. */
static bool must_wait(const struct worker *worker, const struct op *op)
{
    return has_id(&worker->slow_ids, op->hash);
}

/* Brings what the group will touch towards the cache; for a run of ops on one
 * id the first of them is enough. */
static void prefetch_group(const struct cell *cell, const struct op *first)
{
    uint64_t last = ~first->hash;
    for (const struct op *op = first; op; op = op->next)
        if (op->hash != last) {
            table_prefetch(&cell->table, op->hash);
            last = op->hash;
        }
    last = ~first->hash;
    for (const struct op *op = first; op; op = op->next)
        if (op->hash != last) {
            uint32_t at = TABLE_START;
            uint32_t ref = table_find(&cell->table, op->hash, &at);
            if (ref != HEAP_NONE)
                __builtin_prefetch(heap_at(&cell->heap, ref));
            last = op->hash;
        }
}

static void run_group(struct memory_hot *hot, struct worker *worker, struct cell *cell,
                      const struct cell_turn *turn, struct op *first)
{
    layer_take(hot, cell);
    if (first->next)
        prefetch_group(cell, first);
    struct op *done = NULL; /* the writes, to be given their ticket */
    for (struct op *op = first, *next; op; op = next) {
        next = op->next;
        if (must_wait(worker, op) || run_here(hot, worker, cell, turn, op) != CELL_DONE) {
            to_slow(worker, op);
        } else if (op_is_write(op->kind)) {
            op->next = done;
            done = op;
        }
    }
    layer_append(hot, cell, turn->section, turn->now_ms);
    uint64_t ticket = cell->ticket;
    lock_release(&cell->lock);

    /* Also a write that changed nothing waits: what it rests on must be safe. */
    for (; done; done = done->next)
        done->ticket = ticket;
}

static void run_groups(struct memory_hot *hot, struct worker *worker, struct cell_turn *turn)
{
    for (uint32_t i = 0; i < worker->used_count; i++) {
        struct group *group = &worker->groups[worker->used[i]];
        struct op *first = group->first;
        group->first = NULL;
        run_group(hot, worker, &hot->cells[worker->used[i]], turn, first);
    }
    worker->used_count = 0;
    for (struct op *op = worker->slow, *next; op; op = next) {
        next = op->next;
        run_slow(hot, worker, turn, op);
    }
    worker->slow = NULL;
    clear_ids(&worker->slow_ids);
}

/* The user of an op is looked up in two steps, a little apart, so that the
 * dictionary's slot is on its way to the cache in between. */
static void begin_user(struct memory_hot *hot, struct op *op)
{
    struct user user = {.class = USER_NAMED, .number = 0};
    users_begin(hot->users, op->user, &user, &op->user_hash);
    op->user_class = user.class;
    op->user_number = user.number;
}

static enum err ask_store(void *arg, struct slice name, uint64_t hash)
{
    return cold_ask_user(arg, hash, name);
}

/* A user whom nobody has heard of gets a number, but for REACTION and WITHDRAW, which
 * need none; and not when memory is short: he holds nothing, and may take nothing. Whom the
 * store may know is asked for also then: he may hold something already. */
static enum err find_user(struct memory_hot *hot, const struct cell_turn *turn, const struct op *op,
                          struct user *ret_user)
{
    bool adds = op->kind == OP_REACT || op->kind == OP_TOGGLE;
    if (adds && !turn->tight)
        return users_take_if_new(hot->users, op->user, op->user_hash, hot->cold ? ask_store : NULL,
                                 hot->cold, ret_user);
    if (users_find(hot->users, op->user, op->user_hash, ret_user))
        return ERR_OK;
    ret_user->class = USER_UNKNOWN;
    enum err err = hot->cold && !(adds && turn->full)
                       ? cold_ask_user(hot->cold, op->user_hash, op->user)
                       : ERR_OK;
    return adds && err == ERR_OK ? ERR_NO_MEMORY : err;
}

/* False: op->code. */
static bool number_user(struct memory_hot *hot, const struct cell_turn *turn, struct op *op)
{
    if (op->user_class == USER_NUMERIC)
        return true;
    struct user user;
    op->code = find_user(hot, turn, op, &user);
    op->user_class = user.class;
    op->user_number = user.number;
    return op->code == ERR_OK;
}

/* An op on an id of the directory goes to the cell that owns its piece. False
 * when it concerns the whole: then it has to be run by itself. */
static bool route(struct worker *worker, const struct cell_turn *turn, struct op *op, int place)
{
    struct spread *spread = worker->directory.slots[place].spread;
    if (spread->is_item) {
        if (!op_has_user(op->kind))
            return false;
        const struct crowd *crowd = (struct crowd *)spread;
        op->route = spread;
        op->cell = crowd_cell_of(crowd, op->bucket / CROWD_BUCKETS_A_SLICE);
        return true;
    }
    if ((op->kind != OP_ADD && op->kind != OP_GET) || op->target_kind != 0)
        return false;
    /* All of a batch's ops on a counter go to one shard, so that they stay in order. */
    if (worker->directory.slots[place].batch != worker->batch) {
        worker->directory.slots[place].batch = worker->batch;
        worker->directory.slots[place].cell = cell_pick(turn, op, spread);
    }
    op->route = spread;
    op->cell = worker->directory.slots[place].cell;
    return true;
}

static void begin_batch(struct memory_hot *hot, struct worker *worker)
{
    /* Shown before anything is looked up: what is retired from now on stays. */
    atomic_store(&worker->epoch, atomic_load(&hot->epoch));
    directory_refresh(&hot->directory, &worker->directory);
    worker->batch++;
    clear_ids(&worker->cold_ids);
}

/* Ops that are aimed together, before the first of them is sent on its way. */
#define STRETCH 32u

static void aim_stretch(struct memory_hot *hot, struct op *ops, size_t count)
{
    const struct op *previous = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!layer_aim(hot, &ops[i], previous))
            continue;
        previous = &ops[i];
        if (op_has_user(ops[i].kind))
            begin_user(hot, &ops[i]);
    }
}

/* To the group of its cell; or at once, if it concerns all of something spread. */
static void send_op(struct memory_hot *hot, struct worker *worker, struct cell_turn *turn,
                    struct op *op)
{
    if (op_has_user(op->kind) && !number_user(hot, turn, op)) {
        if (op->code == ERR_COLD)
            add_id(&worker->cold_ids, op->hash);
        return;
    }
    int place = worker->directory.count == 0
                    ? -1
                    : directory_find(&worker->directory, op->hash, op->target);
    if (place < 0 || route(worker, turn, op, place)) {
        to_group(worker, op);
    } else {
        run_groups(hot, worker, turn);
        run_slow(hot, worker, turn, op);
    }
}

/* What is rare is looked for only when there was some of it. */
static void look_over(struct memory_hot *hot, struct worker *worker, const struct cell_turn *turn,
                      struct batch *batch)
{
    uint64_t refused = 0;
    uint64_t memory_refused = 0;
    uint64_t ticket = ticket_of(hot, cells_rested_on(worker, batch));
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->ops[i];
        if (op->repeated || is_shared(op))
            op->ticket = ticket;
        fill_counts_of_repeated(hot, turn, op);
        refused += op->code == ERR_FULL || op->code == ERR_NO_FILES || op->code == ERR_BUSY;
        memory_refused += op->code == ERR_NO_MEMORY;
    }
    worker->repeated = false;
    worker->shared = false;
    atomic_fetch_add(&worker->refused, refused);
    atomic_fetch_add(&worker->memory_refused, memory_refused);
}

void run_batch(struct hot *base, struct batch *batch)
{
    struct memory_hot *hot = (struct memory_hot *)base;
    assert(batch->worker < hot->runners);
    struct worker *worker = &hot->worker[batch->worker];
    begin_batch(hot, worker);
    struct cell_turn turn = {.section = &worker->section,
                             .now_ms = batch->now_ms,
                             .room = log_room(hot->log),
                             .tight = atomic_load_explicit(&hot->tight, memory_order_relaxed),
                             .full = atomic_load_explicit(&hot->full, memory_order_relaxed),
                             .picker = &worker->picker,
                             .cells = hot->cells};

    layer_note_time(hot, batch->now_ms);
    for (size_t first = 0; first < batch->count; first += STRETCH) {
        size_t count = batch->count - first < STRETCH ? batch->count - first : STRETCH;
        aim_stretch(hot, &batch->ops[first], count);
        for (size_t i = first; i < first + count; i++)
            if (batch->ops[i].code == ERR_OK)
                send_op(hot, worker, &turn, &batch->ops[i]);
    }
    run_groups(hot, worker, &turn);

    if (worker->repeated || worker->shared || turn.room || turn.tight)
        look_over(hot, worker, &turn, batch);
    atomic_store(&worker->epoch, NO_EPOCH);
    layer_count_own(hot);
    layer_tell_wants(hot);
    batch->done(batch);
}
