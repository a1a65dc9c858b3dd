#include "sim/sim_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/reaction.h"

enum change_kind { CHANGE_RECORD, CHANGE_HOLD, CHANGE_KEY };

/* What was there before, and which section took it away. */
struct model_change {
    enum change_kind kind;
    uint32_t index;
    uint64_t section;
    union {
        struct model_record record;
        struct model_hold hold;
    };
};

static void *allocate(void *old, size_t size)
{
    void *memory = realloc(old, size);
    if (!memory)
        abort();
    return memory;
}

void model_init(struct model *model, const struct sim_options *options)
{
    *model = (struct model){
        .ids = options->ids,
        .users = options->users,
        .idle_s = options->idle_s,
        .records = calloc(options->ids, sizeof(struct model_record)),
        .holds = calloc((size_t)options->ids * options->users, sizeof(struct model_hold)),
    };
    if (!model->records || !model->holds)
        abort();
}

void model_done(struct model *model)
{
    free(model->records);
    free(model->holds);
    free(model->keys);
    free(model->changes);
}

/* ---- changes that can be taken back ---- */

static struct model_change *note_change(struct model *model, enum change_kind kind, uint32_t index,
                                        uint64_t section)
{
    if (model->change_count == model->change_capacity) {
        model->change_capacity = model->change_capacity > 0 ? model->change_capacity * 2 : 64;
        model->changes = allocate(model->changes, model->change_capacity * sizeof(*model->changes));
    }
    struct model_change *change = &model->changes[model->change_count++];
    *change = (struct model_change){.kind = kind, .index = index, .section = section};
    return change;
}

static void set_record(struct model *model, unsigned id, struct model_record record,
                       uint64_t section)
{
    note_change(model, CHANGE_RECORD, id, section)->record = model->records[id];
    record.since = section;
    model->records[id] = record;
}

static void set_hold(struct model *model, uint32_t place, uint8_t kind, uint64_t section)
{
    note_change(model, CHANGE_HOLD, place, section)->hold = model->holds[place];
    model->holds[place] = (struct model_hold){.kind = kind, .since = section};
}

static void take_back(struct model *model, const struct model_change *change)
{
    switch (change->kind) {
    case CHANGE_RECORD:
        model->records[change->index] = change->record;
        break;
    case CHANGE_HOLD:
        model->holds[change->index] = change->hold;
        break;
    case CHANGE_KEY:
        model->keys[change->index].known = false;
        break;
    }
}

uint64_t model_rollback(struct model *model, uint64_t section)
{
    uint64_t count = 0;
    for (size_t i = model->change_count; i-- > 0;) {
        if (model->changes[i].section > section) {
            take_back(model, &model->changes[i]);
            count++;
        }
    }
    model->change_count = 0;
    return count;
}

/* ---- looking ---- */

static bool is_expired(const struct model *model, const struct model_record *record, int64_t now_ms)
{
    if (record->thing != THING_COUNTER)
        return false;
    if (record->deadline_ms != 0 && now_ms >= record->deadline_ms)
        return true;
    uint32_t idle_s = record->create.idle_s != 0 ? record->create.idle_s : model->idle_s;
    return idle_s != 0 && now_ms / 1000 >= record->written_s + idle_s;
}

const struct model_record *model_record(const struct model *model, unsigned id)
{
    return &model->records[id];
}

enum thing model_thing(const struct model *model, unsigned id, int64_t now_ms)
{
    const struct model_record *record = &model->records[id];
    return is_expired(model, record, now_ms) ? THING_NONE : record->thing;
}

uint8_t model_held(const struct model *model, unsigned id, unsigned user)
{
    return model->holds[id * model->users + user].kind;
}

void model_counts(const struct model *model, unsigned id, int64_t counts[SIM_KINDS])
{
    memset(counts, 0, SIM_KINDS * sizeof(*counts));
    for (unsigned user = 0; user < model->users; user++) {
        uint8_t kind = model_held(model, id, user);
        if (kind != KIND_NONE)
            counts[kind - 1]++;
    }
}

/* ---- keys ---- */

uint32_t model_new_key(struct model *model, const struct request *request)
{
    uint32_t count = model->key_count;
    if ((count & (count - 1)) == 0)
        model->keys = allocate(model->keys, (count > 0 ? count * 2 : 1) * sizeof(*model->keys));
    model->keys[count] = (struct model_key){.request = *request};
    model->keys[count].request.key = count;
    model->key_count++;
    return count;
}

void model_retire_keys(struct model *model)
{
    for (uint32_t i = 0; i < model->key_count; i++)
        model->keys[i].retired = true;
}

static void remember(struct model *model, const struct request *request,
                     const struct answer *answer, uint64_t section)
{
    struct model_key *key = &model->keys[request->key];
    note_change(model, CHANGE_KEY, request->key, section);
    key->known = true;
    key->request = *request;
    key->answer = *answer;
    key->since = section;
}

static void answer_again(const struct model *model, const struct model_key *key,
                         const struct request *request, struct answer *answer)
{
    if (!request_same(&key->request, request)) {
        answer->code = ERR_KEY_REUSED;
        return;
    }
    *answer = key->answer;
    answer->repeated = true;
    if (op_has_user(request->kind))
        model_counts(model, request->id, answer->counts); /* of now */
}

/* ---- counters ---- */

static void delete_all(struct model *model, unsigned id, uint64_t section)
{
    if (model->records[id].thing == THING_ITEM) {
        for (unsigned user = 0; user < model->users; user++) {
            uint32_t place = id * model->users + user;
            if (model->holds[place].kind != KIND_NONE)
                set_hold(model, place, KIND_NONE, section);
        }
    }
    set_record(model, id, (struct model_record){.thing = THING_NONE}, section);
}

/* The counter as a write finds it: what has expired is gone. */
static struct model_record for_write(struct model *model, unsigned id, int64_t now_ms,
                                     uint64_t section)
{
    if (is_expired(model, &model->records[id], now_ms))
        delete_all(model, id, section);
    return model->records[id];
}

static void apply_amount(struct model *model, const struct request *request, int64_t now_ms,
                         uint64_t section, struct answer *answer)
{
    struct model_record record = for_write(model, request->id, now_ms, section);
    if (record.thing == THING_ITEM) {
        answer->code = ERR_WRONG_TYPE;
        return;
    }
    bool sets = request->kind == OP_SET;
    sim_wide value = sets ? request->amount : record.value + request->amount;
    if (record.create.has_floor && value < record.create.floor && (sets || request->amount < 0)) {
        answer->code = ERR_BELOW_FLOOR;
        return;
    }
    answer->changed =
        record.thing == THING_NONE || value != record.value || (!sets && request->amount != 0);
    answer->value = value;
    if (record.thing == THING_NONE)
        record.create.shards = 1;
    record.thing = THING_COUNTER;
    record.value = value;
    record.written_s = now_ms / 1000;
    if (sets)
        record.deadline_ms = 0;
    set_record(model, request->id, record, section);
}

static void apply_delete(struct model *model, const struct request *request, int64_t now_ms,
                         uint64_t section, struct answer *answer)
{
    if (model->records[request->id].thing == THING_NONE)
        return;
    answer->changed = model_thing(model, request->id, now_ms) != THING_NONE;
    delete_all(model, request->id, section);
}

static void apply_create(struct model *model, const struct request *request, int64_t now_ms,
                         uint64_t section, struct answer *answer)
{
    if (for_write(model, request->id, now_ms, section).thing != THING_NONE) {
        answer->code = ERR_EXISTS;
        return;
    }
    answer->changed = true;
    struct model_record record = {.thing = THING_ITEM};
    if (request->id_kind == 0)
        record = (struct model_record){
            .thing = THING_COUNTER,
            .create = request->create,
            .written_s = now_ms / 1000,
        };
    set_record(model, request->id, record, section);
}

static void apply_expire(struct model *model, const struct request *request, int64_t now_ms,
                         uint64_t section, struct answer *answer)
{
    struct model_record record = model->records[request->id];
    if (record.thing == THING_ITEM)
        answer->code = ERR_WRONG_TYPE;
    if (model_thing(model, request->id, now_ms) != THING_COUNTER)
        return;
    int64_t deadline_ms = request->deadline_ms;
    answer->changed = true; /* it is there */
    if (deadline_ms != 0 && deadline_ms <= now_ms) {
        delete_all(model, request->id, section);
    } else if (deadline_ms != record.deadline_ms) {
        record.deadline_ms = deadline_ms;
        set_record(model, request->id, record, section);
    }
}

static void read_counter(const struct model *model, const struct request *request, int64_t now_ms,
                         struct answer *answer)
{
    enum thing thing = model_thing(model, request->id, now_ms);
    if (thing == THING_NONE || (thing == THING_COUNTER && request->id_kind != 0)) {
        answer->code = ERR_NOT_FOUND;
    } else if (thing == THING_ITEM && request->id_kind == 0) {
        answer->code = ERR_WRONG_TYPE;
    } else if (thing == THING_ITEM) {
        int64_t counts[SIM_KINDS];
        model_counts(model, request->id, counts);
        answer->value = counts[request->id_kind - 1];
    } else {
        answer->value = model->records[request->id].value;
    }
}

/* ---- reactions ---- */

static void apply_reaction(struct model *model, const struct request *request, int64_t now_ms,
                           uint64_t section, struct answer *answer)
{
    enum thing thing = model_thing(model, request->id, now_ms);
    if (thing == THING_COUNTER) {
        answer->code = ERR_WRONG_TYPE;
        return;
    }
    uint32_t place = request->id * model->users + request->user;
    uint8_t before = model->holds[place].kind;
    uint8_t after = before;
    if (request->kind != OP_REACTION)
        after = reaction_after(request->kind, before, request->reaction);
    answer->held = after;
    answer->changed = before != after;
    if (answer->changed) {
        if (thing == THING_NONE)
            set_record(model, request->id, (struct model_record){.thing = THING_ITEM}, section);
        set_hold(model, place, after, section);
    }
    model_counts(model, request->id, answer->counts);
}

static void read_counts(const struct model *model, const struct request *request, int64_t now_ms,
                        struct answer *answer)
{
    enum thing thing = model_thing(model, request->id, now_ms);
    answer->changed = thing == THING_ITEM;
    if (thing == THING_COUNTER)
        answer->code = ERR_WRONG_TYPE;
    else
        model_counts(model, request->id, answer->counts);
}

/* ---- all of it ---- */

static void apply(struct model *model, const struct request *request, int64_t now_ms,
                  uint64_t section, struct answer *answer)
{
    switch (request->kind) {
    case OP_ADD:
    case OP_SET:
        apply_amount(model, request, now_ms, section, answer);
        return;
    case OP_DELETE:
        apply_delete(model, request, now_ms, section, answer);
        return;
    case OP_CREATE:
        apply_create(model, request, now_ms, section, answer);
        return;
    case OP_EXPIRE:
        apply_expire(model, request, now_ms, section, answer);
        return;
    case OP_REACT:
    case OP_WITHDRAW:
    case OP_TOGGLE:
    case OP_REACTION:
        apply_reaction(model, request, now_ms, section, answer);
        return;
    case OP_COUNTS:
        read_counts(model, request, now_ms, answer);
        return;
    case OP_GET:
        read_counter(model, request, now_ms, answer);
        return;
    case OP_EXISTS:
        answer->changed = model_thing(model, request->id, now_ms) != THING_NONE;
        return;
    default:
        abort(); /* not an op that the simulator sends */
    }
}

static bool is_refused_by_name(const struct request *request)
{
    return request->id_kind != 0 && op_is_write(request->kind) && request->kind != OP_CREATE;
}

/* What a client that has heard the answer may rely on. */
static uint64_t rests_on(const struct model *model, const struct request *request, uint64_t section,
                         const struct answer *answer)
{
    if (answer->code != ERR_OK || !op_is_write(request->kind))
        return 0;
    if (request->key != SIM_NO_KEY)
        return model->keys[request->key].since;
    if (op_has_user(request->kind))
        return model->holds[request->id * model->users + request->user].since;
    uint64_t since = model->records[request->id].since;
    return request->kind == OP_DELETE || since == section ? since : 0;
}

void model_apply(struct model *model, const struct request *request, int64_t now_ms,
                 uint64_t section, struct answer *ret_answer, uint64_t *ret_rests_on)
{
    bool keyed = request->key != SIM_NO_KEY;
    struct answer answer = {.code = ERR_OK};
    if (is_refused_by_name(request)) {
        answer.code = ERR_WRONG_TYPE;
    } else if (keyed && model->keys[request->key].known) {
        answer_again(model, &model->keys[request->key], request, &answer);
    } else {
        apply(model, request, now_ms, section, &answer);
        if (keyed && answer.code == ERR_OK)
            remember(model, request, &answer, section);
    }
    *ret_answer = answer;
    *ret_rests_on = rests_on(model, request, section, &answer);
}

bool model_expire(struct model *model, unsigned id, int64_t now_ms, uint64_t section)
{
    if (!is_expired(model, &model->records[id], now_ms))
        return false;
    delete_all(model, id, section);
    return true;
}
