#include "sim/sim_clients.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_names.h"

#define SETTLE_MAX 1000u /* rounds of loading in which a request must be through */

/* The other half of an op: what its slices and pointers point to. */
struct wire {
    char id[SIM_NAME_BYTES];
    char user[SIM_NAME_BYTES];
    char key[SIM_NAME_BYTES];
    struct op_create create;
    int64_t counts[SIM_KINDS];
};

void clients_init(struct clients *clients, struct world *world, struct model *model,
                  struct report *report)
{
    *clients = (struct clients){
        .world = world,
        .model = model,
        .options = world->options,
        .report = report,
        .rng = {world->options->seed + 3},
    };
}

void clients_done(struct clients *clients)
{
    free(clients->unheard);
    free(clients->retries);
}

static void *make_room(void *array, size_t count, size_t *capacity, size_t item_size)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity > 0 ? *capacity * 2 : 64;
    array = realloc(array, *capacity * item_size);
    if (!array)
        abort();
    return array;
}

/* ---- making up requests ---- */

static enum op_kind pick_kind(struct clients *clients)
{
    const unsigned *weights = clients->options->weights;
    unsigned sum = 0;
    for (unsigned i = 0; i < SIM_OP_KINDS; i++)
        sum += weights[i];
    unsigned at = (unsigned)sim_rng_below(&clients->rng, sum);
    unsigned kind = 0;
    while (at >= weights[kind])
        at -= weights[kind++];
    return (enum op_kind)kind;
}

static sim_wide pick_amount(struct clients *clients)
{
    struct sim_rng *rng = &clients->rng;
    sim_wide amount = 1 + (sim_wide)sim_rng_below(rng, sim_rng_chance(rng, 700) ? 3 : 1000000);
    if (sim_rng_chance(rng, clients->options->big_permille)) {
        amount = (sim_wide)1 << (60 + sim_rng_below(rng, 8));
        amount += (sim_wide)sim_rng_below(rng, 3) - 1;
    }
    return sim_rng_chance(rng, 400) ? -amount : amount;
}

/* Of a reaction's counter only the shards are open. */
static struct op_create pick_create(struct clients *clients, bool names_reaction)
{
    struct sim_rng *rng = &clients->rng;
    static const uint32_t shards[] = {1, 2, 4, 7, 64};
    if (names_reaction)
        return (struct op_create){.shards = shards[sim_rng_below(rng, 5)]};
    return (struct op_create){
        .shards = shards[sim_rng_below(rng, 5)],
        .policy = (enum policy)sim_rng_below(rng, POLICY_COUNT),
        .has_floor = sim_rng_chance(rng, 300),
        .floor = sim_rng_chance(rng, 500) ? 0 : -10,
        .idle_s = sim_rng_chance(rng, 200) ? 1 + (uint32_t)sim_rng_below(rng, 10) : 0,
    };
}

static int64_t pick_deadline(struct clients *clients)
{
    int64_t now_ms = clients->world->wall_ms;
    switch (sim_rng_below(&clients->rng, 4)) {
    case 0:
        return 0;
    case 1:
        return now_ms - (int64_t)sim_rng_below(&clients->rng, 1000);
    default:
        return now_ms + 1 + (int64_t)sim_rng_below(&clients->rng, 5000);
    }
}

/* Items are the first third of the ids, mostly; the others are counters. */
static uint16_t pick_id(struct clients *clients, bool is_item)
{
    unsigned ids = clients->options->ids;
    unsigned items = (ids + 2) / 3;
    if (items == ids || sim_rng_chance(&clients->rng, 20))
        return (uint16_t)sim_rng_below(&clients->rng, ids);
    return (uint16_t)(is_item ? sim_rng_below(&clients->rng, items)
                              : items + sim_rng_below(&clients->rng, ids - items));
}

static bool is_about_item(enum op_kind kind)
{
    return op_has_user(kind) || kind == OP_COUNTS;
}

static struct request make_request(struct clients *clients)
{
    struct sim_rng *rng = &clients->rng;
    struct request request = {.kind = pick_kind(clients), .key = SIM_NO_KEY};
    enum op_kind kind = request.kind;
    bool names_reaction =
        (kind == OP_GET && sim_rng_chance(rng, 400)) ||
        (kind == OP_CREATE && sim_rng_chance(rng, 300)) ||
        ((kind == OP_ADD || kind == OP_SET || kind == OP_DELETE) && sim_rng_chance(rng, 10));
    request.id = pick_id(clients, is_about_item(kind) || names_reaction);
    if (names_reaction)
        request.id_kind = (uint8_t)(1 + sim_rng_below(rng, SIM_KINDS));
    if (op_has_user(kind))
        request.user = (uint16_t)sim_rng_below(rng, clients->options->users);
    if (op_has_user(kind) && kind != OP_REACTION)
        request.reaction = (uint8_t)(1 + sim_rng_below(rng, SIM_KINDS));
    if (kind == OP_WITHDRAW && sim_rng_chance(rng, 200))
        request.reaction = KIND_NONE;
    if (kind == OP_ADD || kind == OP_SET)
        request.amount = pick_amount(clients);
    if (kind == OP_CREATE)
        request.create = pick_create(clients, names_reaction);
    if (kind == OP_EXPIRE)
        request.deadline_ms = pick_deadline(clients);
    request.regional = sim_rng_chance(rng, clients->options->regional_permille);
    if (op_is_write(kind) && sim_rng_chance(rng, clients->options->keyed_permille))
        request.key = model_new_key(clients->model, &request);
    return request;
}

/* The same key with other content has to be refused. */
static void change_content(struct request *request)
{
    if (request->kind == OP_ADD || request->kind == OP_SET)
        request->amount++;
    else if (op_has_user(request->kind))
        request->reaction = (uint8_t)(request->reaction % SIM_KINDS + 1);
    else if (request->kind == OP_CREATE)
        request->create.shards = request->create.shards % LIMIT_CELLS + 1;
    else if (request->kind == OP_EXPIRE)
        request->deadline_ms++;
}

static struct request next_request(struct clients *clients)
{
    struct sim_rng *rng = &clients->rng;
    struct model *model = clients->model;
    if (clients->retry_count > 0 && sim_rng_chance(rng, 700)) {
        uint32_t key = clients->retries[--clients->retry_count];
        if (!model->keys[key].retired)
            return model->keys[key].request;
    }
    if (model->key_count > 0 && sim_rng_chance(rng, clients->options->repeat_permille)) {
        const struct model_key *key = &model->keys[sim_rng_below(rng, model->key_count)];
        if (!key->retired) {
            struct request request = key->request;
            if (sim_rng_chance(rng, 100))
                change_content(&request);
            return request;
        }
    }
    return make_request(clients);
}

/* ---- requests and ops ---- */

static void fill_op(struct clients *clients, const struct request *request, struct wire *wire,
                    struct op *op)
{
    *op = (struct op){
        .kind = request->kind,
        .reaction = request->reaction,
        .id = sim_id_name(clients->options, request->id, request->id_kind, wire->id),
        .deadline_ms = request->deadline_ms,
        .amount = sim_wide_number(request->amount),
    };
    if (op_has_user(request->kind))
        op->user = sim_user_name(request->user, wire->user);
    if (request->key != SIM_NO_KEY)
        op->key = sim_key_name(request->key, wire->key);
    if (request->regional)
        op->region = SLICE("eu-west");
    if (op_has_user(request->kind) || request->kind == OP_COUNTS)
        op->counts = wire->counts;
    if (request->kind == OP_CREATE) {
        wire->create = request->create;
        op->create = &wire->create;
    }
    struct error error;
    if (service_check(&clients->world->service, op, &error))
        report_violation(clients->report, "the service refuses a good op: %s", error.text);
}

static struct answer answer_of(const struct op *op)
{
    struct answer answer = {
        .code = op->code,
        .changed = op->changed,
        .repeated = op->repeated,
        .held = op->held,
        .value = op->value.small,
    };
    if (op->value.big) {
        struct buffer digits;
        buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
        number_format(&op->value, &digits);
        answer.value = sim_wide_of(buffer_slice(&digits));
        buffer_done(&digits);
    }
    if (op->counts)
        memcpy(answer.counts, op->counts, sizeof(answer.counts));
    return answer;
}

/* ---- judging answers ---- */

static bool has_value(enum op_kind kind)
{
    return kind == OP_ADD || kind == OP_SET || kind == OP_GET;
}

/* Counts of an item that others of the batch are about as well may be from
 * before or after those. */
static bool is_alone(const struct request *requests, unsigned count, unsigned index)
{
    for (unsigned i = 0; i < count; i++) {
        if (i != index && requests[i].id == requests[index].id && op_is_write(requests[i].kind))
            return false;
    }
    return true;
}

static bool agree(const struct request *request, const struct answer *got,
                  const struct answer *wanted, bool with_counts)
{
    if (got->code != wanted->code)
        return false;
    if (got->code != ERR_OK)
        return true;
    if (got->changed != wanted->changed || got->repeated != wanted->repeated)
        return false;
    if (has_value(request->kind) && got->value != wanted->value)
        return false;
    if (op_has_user(request->kind) && got->held != wanted->held)
        return false;
    return !with_counts || !is_about_item(request->kind) || request->kind == OP_REACTION ||
           memcmp(got->counts, wanted->counts, sizeof(got->counts)) == 0;
}

static void judge(struct clients *clients, const struct request *request, const struct op *op,
                  bool alone)
{
    struct world *world = clients->world;
    struct answer got = answer_of(op);
    uint64_t section = journal_section_of(&world->journal, op->ticket);
    struct answer wanted;
    uint64_t rests_on;
    model_apply(clients->model, request, world->wall_ms, section, &wanted, &rests_on);

    char asked[REQUEST_TEXT];
    char heard[REQUEST_TEXT];
    char right[REQUEST_TEXT];
    if (!agree(request, &got, &wanted, alone))
        report_violation(clients->report, "op %" PRIu64 ": %s: answered %s instead of %s",
                         clients->report->ops, request_text(request, asked),
                         answer_text(&got, heard), answer_text(&wanted, right));
    else if (clients->report->trace)
        report_trace(clients->report, "  %s: %s ticket=%" PRIu64, request_text(request, asked),
                     answer_text(&got, heard), op->ticket);

    clients->report->repeated += got.repeated;
    report_mix(clients->report, (uint64_t)got.value << 8 | (uint64_t)got.code << 4 | got.held);
    if (!op_is_write(request->kind))
        return;
    clients->unheard = make_room(clients->unheard, clients->unheard_count,
                                 &clients->unheard_capacity, sizeof(*clients->unheard));
    clients->unheard[clients->unheard_count++] =
        (struct unheard){.ticket = op->ticket, .rests_on = rests_on, .key = request->key};
}

/* With a store behind: it could not say, too much is wanted, or memory is full of what
 * is not saved yet. */
static bool is_refused_for_store(const struct clients *clients, const struct op *op)
{
    if (!clients->world->store)
        return false;
    if (op->code == ERR_NO_MEMORY)
        return clients->options->memory_max > 0;
    return !clients->patient && (op->code == ERR_UNAVAILABLE || op->code == ERR_BUSY);
}

/* Refused for want of room or of the store: nothing has happened, and it may be tried
 * again. */
static bool is_refused(struct clients *clients, const struct request *request, const struct op *op,
                       enum err room)
{
    bool refused = is_refused_for_store(clients, op) ||
                   (room != ERR_OK && op_is_write(request->kind) && op->code == room);
    clients->report->refused += refused;
    return refused;
}

static bool is_parked(struct clients *clients, const struct request *request, const struct op *op)
{
    if (op->code != ERR_COLD || !clients->world->store)
        return false;
    clients->report->cold++;
    assert(clients->parked_count < CLIENTS_PARKED_MAX);
    clients->parked[clients->parked_count++] = *request;
    return true;
}

/* ---- sending ---- */

static void batch_done(struct batch *batch)
{
    *(bool *)batch->arg = true;
}

void clients_send(struct clients *clients, const struct request *requests, unsigned count,
                  struct answer *ret_answers)
{
    assert(count <= CLIENTS_BATCH_MAX);

    static struct wire wires[CLIENTS_BATCH_MAX];
    static struct op ops[CLIENTS_BATCH_MAX];
    struct world *world = clients->world;
    for (unsigned i = 0; i < count; i++)
        fill_op(clients, &requests[i], &wires[i], &ops[i]);

    bool done = false;
    struct batch batch = {
        .ops = ops,
        .count = count,
        .worker = (unsigned)sim_rng_below(&clients->rng, clients->options->workers),
        .done = batch_done,
        .arg = &done,
    };
    enum err room = log_room(world->file);
    uint64_t sections = world->journal.count;
    service_run(&world->service, &batch);
    if (!done)
        report_violation(clients->report, "a batch was not answered");
    if (room != ERR_OK && world->journal.count > sections)
        report_violation(clients->report, "the log had no room (%s), but more was appended",
                         err_meaning(room));

    clients->report->batches++;
    for (unsigned i = 0; i < count; i++) {
        clients->report->ops++;
        if (!is_parked(clients, &requests[i], &ops[i]) &&
            !is_refused(clients, &requests[i], &ops[i], room))
            judge(clients, &requests[i], &ops[i], is_alone(requests, count, i));
        if (ret_answers)
            ret_answers[i] = answer_of(&ops[i]);
        number_done(&ops[i].value);
        number_done(&ops[i].amount);
    }
    clients_listen(clients);
    if (clients->patient && !clients->settling)
        clients_settle(clients);
}

void clients_wake(struct clients *clients)
{
    struct hot *hot = clients->world->hot;
    if (clients->parked_count == 0 || clients->arrivals == hot->arrivals)
        return;
    clients->arrivals = hot->arrivals;
    struct request again[CLIENTS_PARKED_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < clients->parked_count; i++) {
        uint32_t key = clients->parked[i].key;
        if (key == SIM_NO_KEY || !clients->model->keys[key].retired)
            again[count++] = clients->parked[i]; /* others have waited for too long */
    }
    clients->parked_count = 0;
    for (unsigned from = 0; from < count && !clients->report->failed; from += CLIENTS_BATCH_MAX) {
        unsigned left = count - from;
        clients_send(clients, again + from, left < CLIENTS_BATCH_MAX ? left : CLIENTS_BATCH_MAX,
                     NULL);
    }
}

void clients_settle(struct clients *clients)
{
    bool was_settling = clients->settling;
    clients->settling = true;
    for (unsigned i = 0; clients->parked_count > 0 && !clients->report->failed; i++) {
        if (i == SETTLE_MAX)
            report_violation(clients->report, "what is cold is not loaded, or not for long");
        while (world_load(clients->world))
            ;
        clients->arrivals = 0;
        clients_wake(clients);
    }
    clients->settling = was_settling;
}

void clients_ask(struct clients *clients, struct op *op)
{
    bool done = false;
    struct batch batch = {.ops = op, .count = 1, .done = batch_done, .arg = &done};
    for (unsigned i = 0; i < SETTLE_MAX; i++) {
        service_run(&clients->world->service, &batch);
        if (op->code != ERR_COLD)
            return;
        while (world_load(clients->world))
            ;
    }
}

void clients_batch(struct clients *clients)
{
    if (clients->parked_count + clients->options->batch_max > CLIENTS_PARKED_MAX)
        return; /* enough of them wait */
    struct request requests[CLIENTS_BATCH_MAX];
    unsigned count = 1 + (unsigned)sim_rng_below(&clients->rng, clients->options->batch_max);
    for (unsigned i = 0; i < count; i++)
        requests[i] = next_request(clients);
    clients_send(clients, requests, count, NULL);
}

void clients_repeat(struct clients *clients, uint32_t key)
{
    struct request request = clients->model->keys[key].request;
    clients_send(clients, &request, 1, NULL);
}

/* ---- hearing ---- */

void clients_listen(struct clients *clients)
{
    struct journal *journal = &clients->world->journal;
    uint64_t safe = service_safe(&clients->world->service);
    size_t left = 0;
    for (size_t i = 0; i < clients->unheard_count; i++) {
        struct unheard unheard = clients->unheard[i];
        if (unheard.ticket > safe) {
            clients->unheard[left++] = unheard;
            continue;
        }
        clients->report->acknowledged++;
        if (unheard.rests_on > journal->relied)
            journal->relied = unheard.rests_on;
    }
    clients->unheard_count = left;
}

void clients_hung_up(struct clients *clients)
{
    for (size_t i = 0; i < clients->unheard_count; i++) {
        if (clients->unheard[i].key == SIM_NO_KEY)
            continue;
        clients->retries = make_room(clients->retries, clients->retry_count,
                                     &clients->retry_capacity, sizeof(*clients->retries));
        clients->retries[clients->retry_count++] = clients->unheard[i].key;
    }
    clients->unheard_count = 0;
    clients->parked_count = 0; /* nothing has come of these */
}
