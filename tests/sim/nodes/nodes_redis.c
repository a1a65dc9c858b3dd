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
    struct release releases[CELLS];
};

/* --- cells --- */

static struct redis_server *server_of(struct redis_model *model, unsigned cell)
{
    return &model->servers[model->server_of[cell]];
}

static struct place real_place(struct redis_model *model, unsigned cell)
{
    const struct redis_server *server = server_of(model, cell);
    return (struct place){&model->cells[cell], server->run, server->down, false};
}

struct place redis_place(struct redis_model *model, unsigned node, unsigned cell)
{
    struct redis_ghost *ghost = &model->ghosts[model->server_of[cell]];
    if (ghost->nodes >> node & 1 && ghost->had >> cell & 1)
        return (struct place){&ghost->cells[cell], ghost->run, !ghost->is_awake, true};
    return real_place(model, cell);
}

bool redis_is_open(const struct redis_model *model, struct place place)
{
    return place.data->state == CELL_OPEN &&
           (place.data->run == place.run || model->bug == NODES_BUG_NO_EPOCH);
}

bool redis_is_known(const struct redis_model *model, struct place place)
{
    return place.data->state == CELL_OPENING || redis_is_open(model, place);
}

uint64_t redis_sequence(const struct cell_data *data)
{
    return sequence_of(data->epoch, data->state == CELL_OPEN ? data->n : 0);
}

uint64_t redis_sequence_with_debt(struct redis_model *model, struct cell_data *data)
{
    if (data->state == CELL_OPEN || model->bug == NODES_BUG_NO_DEBT)
        return redis_sequence(data);
    data->owes = true;
    return sequence_of(data->epoch, 1);
}

struct cell_data *redis_served(struct redis_model *model, unsigned cell)
{
    struct place place = real_place(model, cell);
    return !place.down && redis_is_open(model, place) ? place.data : NULL;
}

uint64_t redis_epoch(struct redis_model *model, unsigned node, unsigned cell)
{
    return redis_place(model, node, cell).data->epoch;
}

bool redis_append(struct redis_model *model, unsigned node, struct cell_data *data, unsigned cell,
                  const struct event *events, size_t count)
{
    if (data->entry_count == OUTBOX_ROOM)
        return false;
    data->n += count;
    data->last = sequence_of(data->epoch, data->n);
    struct section section;
    section_init(&section);
    for (size_t i = 0; i < count; i++)
        section_event(&section, &events[i]);
    struct cell_entry *entry = &data->entries[data->entry_count++];
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, cell, data->last - count + 1, *model->now_ms, header);
    assert(size + section.body.size <= SECTION_BYTES);
    memcpy(entry->bytes, header, size);
    memcpy(entry->bytes + size, section.body.data, section.body.size);
    entry->size = size + section.body.size;
    entry->last = data->last;
    section_done(&section);
    model->outboxes[node]->dirty |= UINT64_C(1) << cell;
    return true;
}

void redis_note_closed(struct redis_model *model, unsigned node, unsigned cell)
{
    struct redis_outbox *outbox = model->outboxes[node];
    outbox->closed |= UINT64_C(1) << cell;
    callback_run(&outbox->base.wake);
}

static bool is_same_call(const struct caller *a, const struct caller *b)
{
    return a->node == b->node && a->life == b->life && a->call == b->call && a->call != 0;
}

/* As run.lua: can it be done here? Else what the caller is told. */
static enum answer refusal(const struct redis_model *model, struct record *record,
                           enum place_known known, unsigned thing, unsigned slice)
{
    bool is_spread = record->type == 'C' || record->type == 'S';
    if (record->type == 0 && known == KNOWN_PIECE)
        return ANSWER_MOVED;
    if (record->type == 0 && model->bug == NODES_BUG_MISSING_IS_ZERO) {
        *record = (struct record){.type = is_item(thing) ? 's' : 'c'};
        memset(record->own, '1', SLICES);
        return ANSWER_DONE;
    }
    if (record->type == 0)
        return ANSWER_COLD;
    if (record->type == 'F' || (is_spread && known == KNOWN_NOT_SPREAD) ||
        (!is_spread && known == KNOWN_PIECE))
        return ANSWER_MOVED;
    if (!is_item(thing) || record->own[slice] == '1')
        return ANSWER_DONE;
    return record->own[slice] == '0' ? ANSWER_COLD : ANSWER_MOVED;
}

static bool find_record(struct redis_model *model, const struct caller *from,
                        enum place_known known, unsigned thing, unsigned slice,
                        struct cell_data **ret_cell, struct reply *reply)
{
    unsigned cell = from->cell;
    struct place place = redis_place(model, from->node, cell);
    struct cell_data *data = place.data;
    *reply = (struct reply){.answer = ANSWER_DOWN};
    if (place.down)
        return false;
    reply->answer = ANSWER_CLOSED;
    if (!redis_is_open(model, place)) {
        redis_note_closed(model, from->node, cell);
        return false;
    }
    if (is_same_call(&data->calls[from->node].from, from) && model->bug != NODES_BUG_NO_CALLS) {
        *reply = data->calls[from->node].reply;
        return false;
    }
    reply->answer = ANSWER_UNKNOWN;
    if (from->is_again && from->epoch != data->epoch && model->bug != NODES_BUG_NO_CALL_EPOCH)
        return false;
    reply->answer = refusal(model, &data->records[thing], known, thing, slice);
    if (reply->answer != ANSWER_DONE)
        return false;
    reply->answer = ANSWER_FULL;
    if (data->entry_count + 4 > OUTBOX_ROOM)
        return false;
    *ret_cell = data;
    return true;
}

static void finish(struct redis_model *model, const struct caller *from, struct cell_data *data,
                   struct record *record, struct reply *reply)
{
    reply->answer = ANSWER_DONE;
    reply->sequence = data->last;
    if (reply->changed) {
        record->written = data->last;
        model->ghost_writes += data != &model->cells[from->cell];
    }
    if (from->call == 0)
        return;
    data->calls[from->node].from = *from;
    data->calls[from->node].reply = *reply;
}

struct reply redis_react(struct redis_model *model, struct caller from, enum place_known known,
                         unsigned item, unsigned user, unsigned wanted)
{
    struct cell_data *data;
    struct reply reply;
    if (!find_record(model, &from, known, item, slice_of_user(user), &data, &reply))
        return reply;
    struct record *record = &data->records[item];
    unsigned before = record->held[user];
    reply.changed = before != wanted;
    /* What changes nothing is as old as anything that is read there; nothing is promised of it. */
    if (!reply.changed && redis_place(model, from.node, from.cell).is_ghost)
        return (struct reply){.answer = ANSWER_DOWN};
    if (reply.changed) {
        struct name id = name_of('i', item);
        struct name name = name_of('u', user);
        struct event event = {.type = EVENT_REACT,
                              .id = slice_of(id.text),
                              .user = slice_of(name.text),
                              .user_number = EVENT_NO_NUMBER,
                              .before = held_name(before),
                              .after = held_name(wanted)};
        redis_append(model, from.node, data, from.cell, &event, 1);
        record->counts[before]--;
        record->counts[wanted]++;
        record->held[user] = (uint8_t)wanted;
    }
    finish(model, &from, data, record, &reply);
    return reply;
}

struct reply redis_add(struct redis_model *model, struct caller from, enum place_known known,
                       unsigned counter, int64_t amount)
{
    struct cell_data *data;
    struct reply reply;
    if (!find_record(model, &from, known, ITEMS + counter, 0, &data, &reply))
        return reply;
    struct record *record = &data->records[ITEMS + counter];
    struct name id = name_of('c', counter);
    struct event event = {.type = EVENT_ADD, .id = slice_of(id.text), .amount = number_of(amount)};
    redis_append(model, from.node, data, from.cell, &event, 1);
    record->value += amount;
    reply.changed = true;
    finish(model, &from, data, record, &reply);
    return reply;
}

/* --- loading, dropping --- */

static bool is_wanted(const struct record *record, unsigned slice)
{
    if (slice == WHOLE)
        return record->type == 0;
    return (record->type == 's' || record->type == 'S') && record->own[slice] == '0';
}

uint64_t redis_begin_load(struct redis_model *model, unsigned cell, unsigned thing, unsigned slice)
{
    struct cell_data *data = redis_served(model, cell);
    if (!data || !is_wanted(&data->records[thing], slice))
        return 0;
    struct record *record = &data->records[thing];
    uint64_t *token = slice == WHOLE ? &record->token : &record->slice_tokens[slice];
    return *token = ++model->tokens;
}

static void fill_slice(struct record *record, unsigned item, unsigned slice,
                       const struct store_rows *rows)
{
    for (unsigned user = slice; user < USERS; user += SLICES)
        record->held[user] = rows->held[item][user];
    record->own[slice] = '1';
}

/* A large item comes without its members: they are loaded slice by slice. */
static void fill_in(struct redis_model *model, struct record *record, unsigned thing,
                    const struct store_rows *rows)
{
    *record = (struct record){.type = is_item(thing) ? 's' : 'c'};
    if (!is_item(thing)) {
        record->value = rows->values[thing - ITEMS];
        return;
    }
    for (unsigned user = 0; user < USERS; user++)
        record->counts[rows->held[thing][user]]++;
    memset(record->own, '0', SLICES);
    if (sim_rng_chance(model->rng, 500))
        for (unsigned slice = 0; slice < SLICES; slice++)
            fill_slice(record, thing, slice, rows);
}

void redis_load(struct redis_model *model, unsigned cell, unsigned thing, unsigned slice,
                uint64_t token, const struct store_rows *rows)
{
    struct cell_data *data = redis_served(model, cell);
    if (!data)
        return;
    struct record *to = &data->records[thing];
    uint64_t *holder = slice == WHOLE ? &to->token : &to->slice_tokens[slice];
    bool is_late = !is_wanted(to, slice) || *holder != token;
    bool may_be_late = model->bug == NODES_BUG_NO_TOKEN && slice == WHOLE && !to->has_map &&
                       (to->type == 's' || to->type == 'c');
    if (is_late && !may_be_late)
        return;
    *holder = 0;
    if (rows->mark.sequences[cell] < data->need && model->bug != NODES_BUG_NO_NEED)
        return;
    if (slice == WHOLE)
        fill_in(model, to, thing, rows);
    else
        fill_slice(to, thing, slice, rows);
}

void redis_drop(struct redis_model *model, unsigned thing)
{
    unsigned cell = home_of(thing);
    struct cell_data *data = redis_served(model, cell);
    if (!data)
        return;
    struct record *record = &data->records[thing];
    bool is_whole = (record->type == 's' || record->type == 'c') && !record->has_map;
    if (!is_whole || (record->written > model->saved[cell] && model->bug != NODES_BUG_DROP_UNSAVED))
        return;
    if (record->written > data->need && model->bug != NODES_BUG_DROP_UNSAVED)
        data->need = record->written;
    *record = (struct record){.type = 0};
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
            model->cells[cell] = model->replicas[cell] = (struct cell_data){.state = CELL_NOTHING};
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
        struct place place = redis_place(model, outbox->node, cell);
        struct cell_data *data = place.data;
        if (!place.down && !redis_is_open(model, place))
            redis_note_closed(model, outbox->node, cell); /* whoever looks at a cell sees that */
        if (place.down || data->state == CELL_NOTHING)
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
        struct place place = redis_place(model, outbox_of(base)->node, cell);
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

static bool has_gone_back(const struct cell_data *data, uint64_t sequence)
{
    return sequence_epoch(data->last) == sequence_epoch(sequence) && sequence > data->last;
}

static enum err outbox_relayed(struct outbox *base, uint64_t cells,
                               const uint64_t sequences[LIMIT_CELLS],
                               const uint64_t openings[LIMIT_CELLS], uint64_t *ret_told,
                               uint64_t *ret_stale, struct error *error)
{
    struct redis_model *model = outbox_of(base)->model;
    *ret_told = *ret_stale = 0;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = redis_place(model, outbox_of(base)->node, cell);
        struct cell_data *data = place.data;
        if (!(cells >> cell & 1) || place.down)
            continue;
        *ret_told |= UINT64_C(1) << cell;
        bool is_another =
            openings[cell] > 0 && (data->state != CELL_OPENING || data->epoch != openings[cell]);
        if ((is_another || is_stale(data, sequences[cell])) && model->bug != NODES_BUG_NO_STALE) {
            *ret_stale |= UINT64_C(1) << cell;
            if (!is_another && data->state == CELL_OPEN && has_gone_back(data, sequences[cell]))
                data->state = CELL_LOST;
        } else {
            let_go(data, sequences[cell]);
        }
    }
    return *ret_told ? ERR_OK : down(error);
}

static enum err outbox_saved(struct outbox *base, uint64_t cells,
                             const uint64_t sequences[LIMIT_CELLS], struct error *error)
{
    struct redis_model *model = outbox_of(base)->model;
    bool has_answered = false;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        struct place place = redis_place(model, outbox_of(base)->node, cell);
        if (!(cells >> cell & 1) || place.down)
            continue;
        has_answered = true;
        bool is_behind = sequence_of(place.data->epoch, place.data->n) < sequences[cell];
        if (place.data->state == CELL_OPEN && is_behind && model->bug != NODES_BUG_NO_ENDED)
            place.data->state = CELL_LOST;
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
        struct place place = redis_place(model, outbox_of(base)->node, cell);
        ret_sequences[cell] = 0;
        if (place.down)
            continue;
        has_answered = true;
        ret_sequences[cell] = place.data->relayed;
        if (place.data->state == CELL_OPENING)
            *ret_opening |= UINT64_C(1) << cell;
    }
    return has_answered ? ERR_OK : down(error);
}

static uint64_t outbox_closed(struct outbox *base)
{
    struct redis_outbox *outbox = outbox_of(base);
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (redis_is_open(outbox->model, redis_place(outbox->model, outbox->node, cell)))
            outbox->closed &= ~(UINT64_C(1) << cell);
    return outbox->closed;
}

static enum err outbox_begin(struct outbox *base, unsigned cell, uint64_t epoch,
                             uint64_t *ret_epoch, uint64_t *ret_last, struct error *error)
{
    struct redis_outbox *outbox = outbox_of(base);
    struct redis_model *model = outbox->model;
    struct place place = redis_place(model, outbox->node, cell);
    struct cell_data *data = place.data;
    if (place.down)
        return down(error);
    if (redis_is_open(model, place))
        return error_set(error, ERR_EXISTS, "cell %u is open", cell);
    bool is_opening = data->state == CELL_OPENING;
    if (is_opening && data->opener != outbox->node + 1 &&
        *model->now_ms - data->opener_ms < OPENER_MS)
        return error_set(error, ERR_BUSY, "another opens cell %u", cell);
    if (!is_opening) {
        data->opening_since = ++model->openings;
        data->owes = false;
    }
    data->state = CELL_OPENING;
    data->epoch = (data->epoch > epoch ? data->epoch : epoch) + 1;
    data->opener = outbox->node + 1;
    data->opener_ms = *model->now_ms;
    data->opening_run = place.run;
    *ret_epoch = data->epoch;
    *ret_last = data->last;
    return ERR_OK;
}

/* A note is written, so that a cell which comes back with the piece is behind the log. */
static void wipe_record(struct redis_outbox *outbox, struct cell_data *data, unsigned cell,
                        unsigned thing)
{
    data->records[thing] = (struct record){.type = 0};
    struct name id = name_of_thing(thing);
    struct event event = {.type = EVENT_AFTER, .id = slice_of(id.text), .after_origin = cell};
    if (data->state == CELL_OPEN && outbox->model->bug != NODES_BUG_WIPE_UNSAID)
        redis_append(outbox->model, outbox->node, data, cell, &event, 1);
}

/* ERR_BUSY: a piece is there again. */
static enum err give_up_in(struct redis_outbox *outbox, unsigned home, unsigned cell, bool is_saved)
{
    struct place place = redis_place(outbox->model, outbox->node, cell);
    struct cell_data *data = place.data;
    if (place.down || !redis_is_known(outbox->model, place) ||
        data->entry_count + COUNTERS + ITEMS > OUTBOX_ROOM)
        return ERR_UNAVAILABLE;
    for (unsigned thing = 0; thing < THINGS; thing++) {
        const struct record *record = &data->records[thing];
        if (!data->listed[thing] || home_of(thing) != home)
            continue;
        bool is_piece = record->is_piece || record->rv > 0;
        bool looks_again = outbox->model->bug != NODES_BUG_WIPE_UNSAID &&
                           outbox->model->bug != NODES_BUG_OLD_RELEASE;
        if (is_saved && is_piece && looks_again)
            return ERR_BUSY;
        if (is_saved)
            data->listed[thing] = is_piece;
        else if (is_piece)
            wipe_record(outbox, data, cell, thing);
    }
    if (!is_saved)
        outbox->releases[home].sequences[cell] = redis_sequence_with_debt(outbox->model, data);
    return ERR_OK;
}

static enum err give_all_up(struct redis_outbox *outbox, unsigned home, bool is_saved)
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < CELLS && !err; cell++)
        if (cell != home)
            err = give_up_in(outbox, home, cell, is_saved);
    return err;
}

enum err redis_are_saved(const struct redis_model *model, const uint64_t sequences[LIMIT_CELLS])
{
    enum err err = ERR_OK;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        uint64_t saved = model->saved[cell];
        if (sequences[cell] > 0 && sequence_epoch(saved) > sequence_epoch(sequences[cell]) &&
            model->bug != NODES_BUG_WIPE_UNSAID)
            return ERR_BUSY;
        if (saved < sequences[cell])
            err = ERR_COLD;
    }
    return err;
}

/* As spreads_release(): what is spread from here has pieces elsewhere, which nobody will find any
 * more. */
static bool release(struct redis_outbox *outbox, unsigned home)
{
    struct redis_model *model = outbox->model;
    struct release *release = &outbox->releases[home];
    uint64_t since = redis_place(model, outbox->node, home).data->opening_since;
    if (release->opening_since != since && model->bug != NODES_BUG_OLD_RELEASE)
        *release = (struct release){.opening_since = since, .patience_ms = 10000};
    if (release->is_waiting && *model->now_ms - release->began_ms > release->patience_ms &&
        model->bug != NODES_BUG_OLD_RELEASE) {
        release->is_waiting = false;
        release->patience_ms *= 2;
    }
    if (!release->is_waiting) {
        if (give_all_up(outbox, home, false))
            return false;
        release->is_waiting = true;
        release->began_ms = *model->now_ms;
    }
    enum err err = redis_are_saved(model, release->sequences);
    if (err == ERR_COLD)
        return false;
    err = err ? err : give_all_up(outbox, home, true);
    release->is_waiting = err == ERR_UNAVAILABLE;
    return err == ERR_OK;
}

/* A store that fails over may forget what the pieces have written: home comes after that. */
static void append_after_events(struct redis_outbox *outbox, struct cell_data *data, unsigned home)
{
    const struct release *release = &outbox->releases[home];
    struct event events[CELLS];
    size_t count = 0;
    for (unsigned cell = 0; cell < CELLS; cell++)
        if (release->sequences[cell] > 0)
            events[count++] = (struct event){.type = EVENT_AFTER,
                                             .id = slice_of(EVENT_EPOCH_ID),
                                             .after_origin = cell,
                                             .after_sequence = release->sequences[cell]};
    if (count == 0 || outbox->model->bug == NODES_BUG_OPEN_UNSAID)
        return;
    redis_append(outbox->model, outbox->node, data, home, events, count);
    data->need = data->last;
}

static enum err outbox_open(struct outbox *base, unsigned cell, uint64_t epoch, uint64_t n,
                            bool keep, uint32_t incarnations, struct error *error)
{
    (void)incarnations;
    struct redis_outbox *outbox = outbox_of(base);
    struct redis_model *model = outbox->model;
    struct place place = redis_place(model, outbox->node, cell);
    struct cell_data *data = place.data;
    if (model->bug == NODES_BUG_ALWAYS_KEEP)
        keep = true;
    if (place.down)
        return down(error);
    if (!keep && model->bug != NODES_BUG_FORGET_MAP && !release(outbox, cell))
        return error_set(error, ERR_UNAVAILABLE, "pieces of cell %u are not given up", cell);
    if (data->state != CELL_OPENING || data->epoch != epoch || data->opener != outbox->node + 1 ||
        data->opening_run != place.run)
        return error_set(error, ERR_BUSY, "cell %u was begun anew", cell);
    if (data->entry_count > 0)
        return error_set(error, ERR_EXISTS, "the outbox of cell %u is not empty", cell);
    if (!keep) {
        memset(data->records, 0, sizeof(data->records));
        memset(data->listed, 0, sizeof(data->listed));
        memset(data->calls, 0, sizeof(data->calls));
        data->need = sequence_of(epoch, 0);
    }
    data->state = CELL_OPEN;
    data->n = n;
    data->last = sequence_of(epoch, n);
    data->relayed = data->last;
    data->run = place.run;
    struct event event = {
        .type = EVENT_AFTER, .id = slice_of(EVENT_EPOCH_ID), .after_origin = cell};
    if (keep && data->owes)
        redis_append(model, outbox->node, data, cell, &event, 1);
    data->owes = false;
    if (!keep)
        append_after_events(outbox, data, cell);
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
                      int64_t *now_ms, const uint64_t *saved)
{
    *model = (struct redis_model){
        .rng = rng, .bug = bug, .now_ms = now_ms, .saved = saved, .runs = SERVERS};
    for (unsigned server = 0; server < SERVERS; server++)
        model->servers[server].run = server + 1;
    for (unsigned cell = 0; cell < CELLS; cell++)
        model->server_of[cell] = cell % SERVERS;
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
    memset(outbox->releases, 0, sizeof(outbox->releases));
    callback_set(&outbox->base.wake, NULL, NULL);
    return &outbox->base;
}
