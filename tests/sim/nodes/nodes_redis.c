#include "sim/nodes/nodes_redis.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/event.h"
#include "core/sequence.h"

struct redis_outbox {
    struct outbox base;
    struct redis_model *model;
    unsigned node;
    uint64_t dirty;
    uint64_t closed;
};

/* --- cells --- */

static struct redis_server *server_of(struct redis_model *model, unsigned cell)
{
    return &model->servers[model->server_of[cell]];
}

/* A cell in the process that somebody talks to. */
struct place {
    struct cell_data *data;
    unsigned run;
    bool down;
    bool is_ghost;
};

static struct place real_place(struct redis_model *model, unsigned cell)
{
    const struct redis_server *server = server_of(model, cell);
    return (struct place){&model->cells[cell], server->run, server->down, false};
}

static struct place place_of(struct redis_model *model, unsigned node, unsigned cell)
{
    struct redis_ghost *ghost = &model->ghosts[model->server_of[cell]];
    if (ghost->nodes >> node & 1 && ghost->had >> cell & 1)
        return (struct place){&ghost->cells[cell], ghost->run, !ghost->is_awake, true};
    return real_place(model, cell);
}

static bool is_open_at(const struct redis_model *model, struct place place)
{
    return place.data->exists && place.data->open &&
           (place.data->run == place.run || model->bug == NODES_BUG_NO_EPOCH);
}

static bool is_open(struct redis_model *model, unsigned cell)
{
    return is_open_at(model, real_place(model, cell));
}

uint64_t redis_epoch(struct redis_model *model, unsigned node, unsigned cell)
{
    return place_of(model, node, cell).data->epoch;
}

static void append_to(struct redis_model *model, struct cell_data *data, unsigned cell,
                      const struct event *event)
{
    assert(data->entry_count < OUTBOX_ROOM);
    data->n++;
    data->last = sequence_of(data->epoch, data->n);
    struct section section;
    section_init(&section);
    section_event(&section, event);
    struct cell_entry *entry = &data->entries[data->entry_count++];
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, cell, data->last, *model->now_ms, header);
    assert(size + section.body.size <= SECTION_BYTES);
    memcpy(entry->bytes, header, size);
    memcpy(entry->bytes + size, section.body.data, section.body.size);
    entry->size = size + section.body.size;
    entry->last = data->last;
    section_done(&section);
}

static void append_event(struct redis_model *model, unsigned cell, const struct event *event)
{
    append_to(model, &model->cells[cell], cell, event);
}

static void note_closed(struct redis_model *model, unsigned node, unsigned cell)
{
    struct redis_outbox *outbox = model->outboxes[node];
    outbox->closed |= UINT64_C(1) << cell;
    callback_run(&outbox->base.wake);
}

static bool is_same_call(const struct caller *a, const struct caller *b)
{
    return a->node == b->node && a->life == b->life && a->call == b->call && a->call != 0;
}

/* Can the piece be worked on? Else what the caller is told. */
static bool find_piece(struct redis_model *model, const struct caller *from, unsigned number,
                       struct cell_data **ret_cell, struct piece **ret_piece, struct reply *reply)
{
    unsigned cell = from->cell;
    struct place place = place_of(model, from->node, cell);
    struct cell_data *data = place.data;
    struct piece *piece = &data->pieces[number];
    *reply = (struct reply){.answer = ANSWER_DOWN};
    if (place.down)
        return false;
    reply->answer = ANSWER_CLOSED;
    if (!is_open_at(model, place)) {
        note_closed(model, from->node, cell);
        return false;
    }
    if (is_same_call(&data->calls[from->node].from, from) && model->bug != NODES_BUG_NO_CALLS) {
        *reply = data->calls[from->node].reply;
        return false;
    }
    reply->answer = ANSWER_UNKNOWN;
    if (from->is_again && from->epoch != data->epoch && model->bug != NODES_BUG_NO_CALL_EPOCH)
        return false;
    reply->answer = ANSWER_MOVED;
    if (model->owner[number] != cell || piece->frozen)
        return false;
    reply->answer = ANSWER_COLD;
    if (!piece->loaded && model->bug != NODES_BUG_MISSING_IS_ZERO)
        return false;
    piece->loaded = true;
    reply->answer = ANSWER_FULL;
    if (data->entry_count + 2 > OUTBOX_ROOM)
        return false;
    *ret_cell = data;
    *ret_piece = piece;
    return true;
}

static void finish(struct redis_model *model, const struct caller *from, struct cell_data *data,
                   struct piece *piece, struct reply *reply)
{
    reply->answer = ANSWER_DONE;
    reply->sequence = data->last;
    if (reply->changed) {
        piece->sequence = data->last;
        model->outboxes[from->node]->dirty |= UINT64_C(1) << from->cell;
        model->ghost_writes += data != &model->cells[from->cell];
    }
    if (from->call == 0)
        return;
    data->calls[from->node].from = *from;
    data->calls[from->node].reply = *reply;
}

struct reply redis_react(struct redis_model *model, struct caller from, unsigned item,
                         unsigned user, unsigned wanted)
{
    struct cell_data *data;
    struct piece *piece;
    struct reply reply;
    if (!find_piece(model, &from, piece_of_item(item, slice_of_user(user)), &data, &piece, &reply))
        return reply;
    reply.changed = piece->held[user] != wanted;
    /* What changes nothing is as old as anything that is read there; nothing is promised of it. */
    if (!reply.changed && place_of(model, from.node, from.cell).is_ghost)
        return (struct reply){.answer = ANSWER_DOWN};
    if (reply.changed) {
        struct name id = name_of('i', item);
        struct name name = name_of('u', user);
        append_to(model, data, from.cell,
                  &(struct event){.type = EVENT_REACT,
                                  .id = slice_of(id.text),
                                  .user = slice_of(name.text),
                                  .user_number = EVENT_NO_NUMBER,
                                  .before = held_name(piece->held[user]),
                                  .after = held_name(wanted)});
        piece->held[user] = (uint8_t)wanted;
    }
    finish(model, &from, data, piece, &reply);
    return reply;
}

struct reply redis_add(struct redis_model *model, struct caller from, unsigned counter,
                       int64_t amount)
{
    struct cell_data *data;
    struct piece *piece;
    struct reply reply;
    if (!find_piece(model, &from, piece_of_counter(counter), &data, &piece, &reply))
        return reply;
    struct name id = name_of('c', counter);
    append_to(
        model, data, from.cell,
        &(struct event){.type = EVENT_ADD, .id = slice_of(id.text), .amount = number_of(amount)});
    piece->value += amount;
    reply.changed = true;
    finish(model, &from, data, piece, &reply);
    return reply;
}

/* --- loading, dropping, moving --- */

uint64_t redis_begin_load(struct redis_model *model, unsigned piece, unsigned *ret_cell)
{
    unsigned cell = model->owner[piece];
    *ret_cell = cell;
    if (server_of(model, cell)->down || !is_open(model, cell) ||
        model->cells[cell].pieces[piece].loaded || model->cells[cell].pieces[piece].frozen)
        return 0;
    return model->cells[cell].pieces[piece].token = ++model->tokens;
}

static void fill_in(struct piece *piece, unsigned number, const struct store_rows *rows)
{
    if (number >= ITEMS * SLICES) {
        piece->value = rows->values[number - ITEMS * SLICES];
        return;
    }
    for (unsigned user = 0; user < USERS; user++) {
        bool is_here = slice_of_user(user) == number % SLICES;
        piece->held[user] = is_here ? rows->held[number / SLICES][user] : HELD_NONE;
    }
}

void redis_load(struct redis_model *model, unsigned cell, unsigned piece, uint64_t token,
                const struct store_rows *rows)
{
    struct cell_data *data = &model->cells[cell];
    struct piece *to = &data->pieces[piece];
    if (server_of(model, cell)->down || !is_open(model, cell))
        return;
    if (model->bug != NODES_BUG_NO_TOKEN && (to->token != token || to->loaded))
        return;
    if (model->owner[piece] != cell || to->frozen)
        return;
    to->token = 0;
    if (rows->mark.sequences[cell] < data->need && model->bug != NODES_BUG_NO_NEED)
        return;
    fill_in(to, piece, rows);
    to->loaded = true;
    to->sequence = 0;
}

void redis_drop(struct redis_model *model, unsigned piece, const uint64_t saved[LIMIT_CELLS])
{
    unsigned cell = model->owner[piece];
    struct cell_data *data = &model->cells[cell];
    struct piece *from = &data->pieces[piece];
    if (server_of(model, cell)->down || !is_open(model, cell) || !from->loaded || from->frozen)
        return;
    if (from->sequence > saved[cell] && model->bug != NODES_BUG_DROP_UNSAVED)
        return;
    if (from->sequence > data->need && model->bug != NODES_BUG_DROP_UNSAVED)
        data->need = from->sequence;
    *from = (struct piece){.loaded = false};
}

static bool can_move(struct redis_model *model, unsigned from, unsigned to)
{
    return from != to && !server_of(model, from)->down && !server_of(model, to)->down &&
           is_open(model, from) && is_open(model, to);
}

static void append_after(struct redis_model *model, unsigned cell, struct name id, unsigned origin)
{
    append_event(model, cell,
                 &(struct event){.type = EVENT_AFTER,
                                 .id = slice_of(id.text),
                                 .after_origin = origin,
                                 .after_sequence = model->cells[origin].last});
}

void redis_begin_move(struct redis_model *model, unsigned piece, unsigned to)
{
    struct move *move = &model->moves[sim_rng_below(model->rng, MOVES)];
    unsigned from = model->owner[piece];
    struct cell_data *source = &model->cells[from];
    struct cell_data *target = &model->cells[to];
    if (move->is_active || source->pieces[piece].frozen || !can_move(model, from, to) ||
        target->entry_count + 2 > OUTBOX_ROOM || source->entry_count + 2 > OUTBOX_ROOM)
        return;
    struct name id = name_of('i', piece / SLICES);
    append_after(model, from, id, from);
    if (model->bug != NODES_BUG_NO_AFTER)
        append_after(model, to, id, from);
    source->pieces[piece].frozen = true;
    source->pieces[piece].token = 0;
    if (target->last > target->need)
        target->need = target->last;
    *move = (struct move){.is_active = true,
                          .piece = piece,
                          .to = to,
                          .from_epoch = source->epoch,
                          .to_epoch = target->epoch,
                          .note = source->last,
                          .after = target->last};
}

static void end_move(struct redis_model *model, struct move *move)
{
    struct cell_data *source = &model->cells[model->owner[move->piece]];
    struct piece *from = &source->pieces[move->piece];
    struct piece *to = &model->cells[move->to].pieces[move->piece];
    *to = *from;
    to->frozen = false;
    to->sequence = move->after;
    *from = (struct piece){.loaded = false};
    model->owner[move->piece] = move->to;
    move->is_active = false;
}

/* The log has the note of the source: so it was no process that had been replaced before. */
static bool may_end(const struct redis_model *model, const struct move *move,
                    const struct cell_data *source, const struct cell_data *target)
{
    if (model->bug == NODES_BUG_MOVE_AT_ONCE)
        return true;
    return source->relayed >= move->note && target->relayed >= move->after;
}

void redis_go_on_moving(struct redis_model *model)
{
    struct move *move = &model->moves[sim_rng_below(model->rng, MOVES)];
    unsigned from = model->owner[move->piece];
    struct cell_data *source = &model->cells[from];
    struct cell_data *target = &model->cells[move->to];
    if (!move->is_active || server_of(model, from)->down || !is_open(model, from))
        return;
    bool is_possible = can_move(model, from, move->to) || !sim_rng_chance(model->rng, 50);
    if (!is_possible || source->epoch != move->from_epoch || target->epoch != move->to_epoch) {
        source->pieces[move->piece].frozen = false;
        move->is_active = false;
    } else if (!can_move(model, from, move->to)) {
        return;
    } else if (may_end(model, move, source, target)) {
        end_move(model, move);
    }
}

/* --- what happens to the servers --- */

void redis_replicate(struct redis_model *model, unsigned server)
{
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (model->server_of[cell] == server)
            model->replicas[cell] = model->cells[cell];
}

void redis_fail_over(struct redis_model *model, unsigned server)
{
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (model->server_of[cell] == server)
            model->cells[cell] = model->replicas[cell];
    model->servers[server] = (struct redis_server){.run = ++model->runs};
}

void redis_replace(struct redis_model *model, unsigned server, uint64_t nodes)
{
    struct redis_ghost *ghost = &model->ghosts[server];
    *ghost = (struct redis_ghost){.nodes = nodes, .run = model->servers[server].run};
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (model->server_of[cell] == server)
            ghost->had |= UINT64_C(1) << cell;
    memcpy(ghost->cells, model->cells, sizeof(ghost->cells));
    redis_fail_over(model, server);
}

void redis_restart_empty(struct redis_model *model, unsigned server)
{
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (model->server_of[cell] == server)
            model->cells[cell] = model->replicas[cell] = (struct cell_data){.exists = false};
    model->servers[server] = (struct redis_server){.run = ++model->runs};
}

void redis_migrate(struct redis_model *model, unsigned cell, unsigned server)
{
    if (model->servers[server].down || server_of(model, cell)->down)
        return;
    model->server_of[cell] = server;
    model->replicas[cell] = model->cells[cell];
}

/* --- the outbox --- */

static struct redis_outbox *outbox_of(struct outbox *outbox)
{
    return (struct redis_outbox *)outbox;
}

static enum err down(struct error *error)
{
    return error_set(error, ERR_UNAVAILABLE, "the simulated Redis is down");
}

static uint64_t outbox_leased(struct outbox *base)
{
    struct redis_outbox *outbox = outbox_of(base);
    struct redis_model *model = outbox->model;
    uint64_t leased = 0;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = place_of(model, outbox->node, cell);
        struct cell_data *data = place.data;
        if (!place.down && !is_open_at(model, place))
            note_closed(model, outbox->node, cell); /* whoever looks at a cell sees that */
        if (place.down || !data->exists)
            continue;
        bool is_ours = data->lease == outbox->node + 1;
        if (!is_ours && data->lease != 0 && *model->now_ms - data->lease_ms < LEASE_MS)
            continue;
        data->lease = outbox->node + 1;
        data->lease_ms = *model->now_ms;
        leased |= UINT64_C(1) << cell;
    }
    return leased;
}

static uint64_t outbox_dirty(struct outbox *base)
{
    uint64_t dirty = outbox_of(base)->dirty;
    outbox_of(base)->dirty = 0;
    return dirty;
}

static enum err outbox_read(struct outbox *base, uint64_t cells, const uint64_t after[LIMIT_CELLS],
                            uint32_t limit, outbox_visit_fn *visit, void *arg, struct error *error)
{
    struct redis_model *model = outbox_of(base)->model;
    bool has_answered = false;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = place_of(model, outbox_of(base)->node, cell);
        const struct cell_data *data = place.data;
        if (!(cells >> cell & 1) || place.down)
            continue;
        has_answered = true;
        uint32_t left = limit;
        for (size_t i = 0; i < data->entry_count && left > 0; i++) {
            const struct cell_entry *entry = &data->entries[i];
            if (entry->last <= after[cell])
                continue;
            enum err err =
                visit(arg, cell, (struct slice){entry->bytes, entry->size}, entry->last, error);
            if (err)
                return err;
            left--;
        }
    }
    return has_answered ? ERR_OK : down(error);
}

static void let_go(struct cell_data *data, uint64_t sequence)
{
    if (sequence > data->relayed)
        data->relayed = sequence;
    size_t gone = 0;
    while (gone < data->entry_count && data->entries[gone].last <= sequence)
        gone++;
    data->entry_count -= gone;
    memmove(data->entries, data->entries + gone, data->entry_count * sizeof(*data->entries));
}

/* Does the cell's data have it? What it has and the log has stands there before any new epoch,
 * since whoever opens the cell carries over all that is left first. */
static bool is_stale(const struct cell_data *data, uint64_t sequence)
{
    return sequence_epoch(data->last) != sequence_epoch(sequence) || sequence > data->last;
}

static enum err outbox_relayed(struct outbox *base, uint64_t cells,
                               const uint64_t sequences[LIMIT_CELLS],
                               const uint64_t openings[LIMIT_CELLS], uint64_t *ret_told,
                               uint64_t *ret_stale, struct error *error)
{
    struct redis_model *model = outbox_of(base)->model;
    *ret_told = *ret_stale = 0;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = place_of(model, outbox_of(base)->node, cell);
        struct cell_data *data = place.data;
        if (!(cells >> cell & 1) || place.down)
            continue;
        *ret_told |= UINT64_C(1) << cell;
        bool is_another = openings[cell] > 0 && (data->open || data->epoch != openings[cell]);
        if ((is_another || is_stale(data, sequences[cell])) && model->bug != NODES_BUG_NO_STALE)
            *ret_stale |= UINT64_C(1) << cell;
        else
            let_go(data, sequences[cell]);
    }
    return *ret_told ? ERR_OK : down(error);
}

static enum err outbox_saved(struct outbox *base, uint64_t cells,
                             const uint64_t sequences[LIMIT_CELLS], struct error *error)
{
    struct redis_model *model = outbox_of(base)->model;
    bool has_answered = false;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = place_of(model, outbox_of(base)->node, cell);
        if (!(cells >> cell & 1) || place.down)
            continue;
        has_answered = true;
        bool is_behind = sequence_of(place.data->epoch, place.data->n) < sequences[cell];
        if (place.data->open && is_behind && model->bug != NODES_BUG_NO_ENDED)
            place.data->open = false;
    }
    return has_answered ? ERR_OK : down(error);
}

static enum err outbox_progress(struct outbox *base, uint64_t cells,
                                uint64_t ret_sequences[LIMIT_CELLS], uint64_t *ret_opening,
                                struct error *error)
{
    struct redis_model *model = outbox_of(base)->model;
    bool has_answered = false;
    *ret_opening = 0;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        if (!(cells >> cell & 1))
            continue;
        struct place place = place_of(model, outbox_of(base)->node, cell);
        ret_sequences[cell] = 0;
        if (place.down)
            continue;
        has_answered = true;
        ret_sequences[cell] = place.data->relayed;
        if (!place.data->open)
            *ret_opening |= UINT64_C(1) << cell;
    }
    return has_answered ? ERR_OK : down(error);
}

static uint64_t outbox_closed(struct outbox *base)
{
    struct redis_outbox *outbox = outbox_of(base);
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (is_open_at(outbox->model, place_of(outbox->model, outbox->node, cell)))
            outbox->closed &= ~(UINT64_C(1) << cell);
    return outbox->closed;
}

static enum err outbox_begin(struct outbox *base, unsigned cell, uint64_t epoch,
                             uint64_t *ret_epoch, uint64_t *ret_last, struct error *error)
{
    struct redis_outbox *outbox = outbox_of(base);
    struct redis_model *model = outbox->model;
    struct place place = place_of(model, outbox->node, cell);
    struct cell_data *data = place.data;
    if (place.down)
        return down(error);
    if (is_open_at(model, place))
        return error_set(error, ERR_EXISTS, "cell %u is open", cell);
    if (data->exists && !data->open && data->opener != outbox->node + 1 &&
        *model->now_ms - data->opener_ms < OPENER_MS)
        return error_set(error, ERR_BUSY, "another opens cell %u", cell);
    data->exists = true;
    data->open = false;
    data->epoch = (data->epoch > epoch ? data->epoch : epoch) + 1;
    data->opener = outbox->node + 1;
    data->opener_ms = *model->now_ms;
    data->opening_run = place.run;
    *ret_epoch = data->epoch;
    *ret_last = data->last;
    return ERR_OK;
}

static enum err outbox_open(struct outbox *base, unsigned cell, uint64_t epoch, bool keep,
                            uint32_t incarnations, struct error *error)
{
    (void)incarnations;
    struct redis_outbox *outbox = outbox_of(base);
    struct redis_model *model = outbox->model;
    struct place place = place_of(model, outbox->node, cell);
    struct cell_data *data = place.data;
    if (place.down)
        return down(error);
    if (!data->exists || data->open || data->epoch != epoch || data->opener != outbox->node + 1 ||
        data->opening_run != place.run)
        return error_set(error, ERR_BUSY, "cell %u was begun anew", cell);
    if (data->entry_count > 0)
        return error_set(error, ERR_EXISTS, "the outbox of cell %u is not empty", cell);
    if (model->bug == NODES_BUG_ALWAYS_KEEP)
        keep = true;
    if (!keep) {
        memset(data->pieces, 0, sizeof(data->pieces));
        memset(data->calls, 0, sizeof(data->calls));
        data->need = sequence_of(epoch, 0);
    }
    for (unsigned piece = 0; piece < PIECES; piece++)
        data->pieces[piece].frozen = false; /* moves of the old epoch are given up */
    data->open = true;
    data->n = 0;
    data->last = sequence_of(epoch, 0);
    data->relayed = data->last;
    data->run = place.run;
    model->opened++;
    model->kept += keep;
    return ERR_OK;
}

static const struct outbox_ops outbox_ops = {
    .leased = outbox_leased,
    .dirty = outbox_dirty,
    .read = outbox_read,
    .relayed = outbox_relayed,
    .saved = outbox_saved,
    .progress = outbox_progress,
    .closed = outbox_closed,
    .begin = outbox_begin,
    .open = outbox_open,
};

/* --- life --- */

void redis_model_init(struct redis_model *model, struct sim_rng *rng, enum nodes_bug bug,
                      int64_t *now_ms)
{
    *model = (struct redis_model){.rng = rng, .bug = bug, .now_ms = now_ms, .runs = SERVERS};
    for (unsigned server = 0; server < SERVERS; server++)
        model->servers[server].run = server + 1;
    for (unsigned cell = 0; cell < CELLS; cell++)
        model->server_of[cell] = cell % SERVERS;
    for (unsigned piece = 0; piece < PIECES; piece++)
        model->owner[piece] =
            piece < ITEMS * SLICES ? home_of(piece / SLICES) : (piece - ITEMS * SLICES) % CELLS;
    for (unsigned node = 0; node < NODES; node++) {
        model->outboxes[node] = memory_take_zeroed(sizeof(struct redis_outbox));
        *model->outboxes[node] =
            (struct redis_outbox){.base.ops = &outbox_ops, .model = model, .node = node};
    }
}

void redis_model_done(struct redis_model *model)
{
    for (unsigned node = 0; node < NODES; node++)
        free(model->outboxes[node]);
}

struct outbox *redis_model_outbox(struct redis_model *model, unsigned node)
{
    struct redis_outbox *outbox = model->outboxes[node];
    outbox->dirty = outbox->closed = 0;
    callback_set(&outbox->base.wake, NULL, NULL);
    return &outbox->base;
}
