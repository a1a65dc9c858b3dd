#include "flow/service.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "flow/check.h"
#include "flow/relay.h"

/* ---- acknowledgement ---- */

static const char *const ack_names[] = {
    [ACK_DURABLE] = "durable", [ACK_WRITTEN] = "written", [ACK_MEMORY] = "memory",
    [ACK_LOG] = "log",         [ACK_HOT] = "hot",
};
#define ACK_COUNT (sizeof(ack_names) / sizeof(ack_names[0]))

const char *ack_name(enum ack ack)
{
    assert((unsigned)ack < ACK_COUNT);

    return ack_names[ack];
}

uint64_t service_safe(struct service *service)
{
    assert(service);

    if (service->relay)
        return relay_safe(service->relay);
    switch (service->ack) {
    case ACK_DURABLE:
        return log_reached(service->log, 0, LOG_DURABLE);
    case ACK_WRITTEN:
        return log_reached(service->log, 0, LOG_WRITTEN);
    case ACK_MEMORY:
    case ACK_LOG: /* before there is a relay: nothing was written either */
    case ACK_HOT:
        return UINT64_MAX;
    }
    abort(); /* not an acknowledgement */
}

bool service_is_stuck(struct service *service, uint64_t first, uint64_t last)
{
    assert(service && first <= last);

    return service->relay && relay_any_stuck(service->relay, first, last);
}

uint64_t service_rounds(struct service *service)
{
    return service->relay ? relay_rounds(service->relay) : 0;
}

bool service_is_weak(struct service *service, uint64_t first, uint64_t last)
{
    assert(service && first <= last);

    return service->relay && relay_any_weak(service->relay, first, last);
}

bool service_may_log(const struct service *service)
{
    assert(service);

    return !service->relay || relay_is_up(service->relay);
}

/* ---- life ---- */

void service_init(struct service *service, struct env *env, struct hot *hot, struct log *log,
                  const struct kinds *kinds, enum ack ack)
{
    assert(service && env && hot && log && kinds);

    *service = (struct service){
        .env = env,
        .hot = hot,
        .log = log,
        .kinds = kinds,
        .ack = ack,
        .watch = watch_new(2 * LIMIT_WORKERS, env), /* for two doors that tell of changes */
    };
}

void service_done(struct service *service)
{
    assert(service);

    watch_free(service->watch);
    service->watch = NULL;
}

/* ---- telling of changes ---- */

static void announce_reaction(struct service *service, struct slice item, uint8_t kind)
{
    struct slice name = kinds_name(service->kinds, kind);
    char id[LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES];
    memcpy(id, item.data, item.size);
    id[item.size] = '/';
    memcpy(id + item.size + 1, name.data, name.size);
    watch_changed(service->watch, (struct slice){id, item.size + 1 + name.size});
}

static void announce_reactions(struct service *service, struct slice item)
{
    for (unsigned kind = 1; kind <= service->kinds->count; kind++)
        announce_reaction(service, item, (uint8_t)kind);
}

/* An op tells which reaction is held afterwards, not which was before. Where any
 * may have been, all kinds are announced: to hear a count that has stayed the
 * same does no harm, to miss one does. */
static void announce(struct service *service, const struct op *op)
{
    if (op->code != ERR_OK || !op->changed || op->repeated)
        return;

    switch (op->kind) {
    case OP_ADD:
    case OP_SET:
    case OP_CREATE:
        watch_changed(service->watch, op->id);
        break;
    case OP_DELETE: /* of a counter or of an item */
        watch_changed(service->watch, op->id);
        announce_reactions(service, op->id);
        break;
    case OP_REACT:
    case OP_WITHDRAW:
    case OP_TOGGLE:
        if (op->held == KIND_NONE && op->reaction != KIND_NONE)
            announce_reaction(service, op->id, op->reaction);
        else
            announce_reactions(service, op->id);
        break;
    default: /* reads, and OP_EXPIRE, which leaves the value alone */
        break;
    }
}

/* ---- running ---- */

/* What the events of each op have to wait for. With --ack=hot only who has asked for the log does.
 */
static void give_tickets(struct service *service, struct batch *batch)
{
    if (service->ack != ACK_HOT) {
        relay_tickets(service->relay, batch->ops, batch->count);
        return;
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->ops[i].must_log)
            relay_tickets(service->relay, &batch->ops[i], 1);
    }
}

static void batch_finished(struct batch *batch)
{
    struct service *service = batch->service;
    if (service->relay)
        give_tickets(service, batch);

    /* Asked after the change, not before: whoever reads a counter after
     * subscribing to it either reads the new value or is told of it. */
    if (watch_any(service->watch)) {
        for (size_t i = 0; i < batch->count; i++)
            announce(service, &batch->ops[i]);
    }

    batch->done = batch->door_done;
    batch->done(batch);
}

void service_run(struct service *service, struct batch *batch)
{
    assert(service && batch && batch->done);

    batch->now_ms = env_wall_ms(service->env);
    batch->service = service;
    batch->door_done = batch->done;
    batch->done = batch_finished;
    hot_run(service->hot, batch);
}

bool service_holds(const struct service *service)
{
    return service->log->ops->hold != NULL;
}

void service_hold(struct service *service)
{
    log_hold(service->log);
}

void service_launch(struct service *service)
{
    log_launch(service->log);
}

/* ---- checking ---- */

static bool is_about_item(enum op_kind kind)
{
    return kind == OP_REACT || kind == OP_WITHDRAW || kind == OP_TOGGLE || kind == OP_REACTION ||
           kind == OP_COUNTS || kind == OP_MEMBERS;
}

static bool needs_user(enum op_kind kind)
{
    return kind == OP_REACT || kind == OP_WITHDRAW || kind == OP_TOGGLE || kind == OP_REACTION;
}

static bool needs_reaction(enum op_kind kind)
{
    return kind == OP_REACT || kind == OP_TOGGLE || kind == OP_MEMBERS;
}

static enum err check_subject(const struct service *service, const struct op *op,
                              struct error *error)
{
    struct slice item;
    uint8_t kind;
    if (is_about_item(op->kind) && kinds_split(service->kinds, op->id, &item, &kind))
        return error_set(error, ERR_INVALID, "the id ends in \"/%.*s\": that is not an item",
                         SLICE_ARGS(kinds_name(service->kinds, kind)));
    return op_is_write(op->kind) ? check_id(op->id, error)
                                 : check_counter(service->kinds, op->id, error);
}

static enum err check_amount(const struct op *op, struct error *error)
{
    if (!op->amount.big)
        return ERR_OK;

    struct buffer digits;
    buffer_init(&digits, NUMBER_DIGITS_MAX + 8);
    enum err err = number_format(&op->amount, &digits);
    bool is_negative = digits.size > 0 && digits.data[0] == '-';
    bool fits = !err && digits.size - is_negative <= LIMIT_AMOUNT_DIGITS;
    buffer_done(&digits);
    if (fits)
        return ERR_OK;
    return error_set(error, ERR_TOO_LARGE, "an amount of more than %u digits", LIMIT_AMOUNT_DIGITS);
}

/* The counters of an item follow its members: only how they are spread is open. */
static enum err check_create(const struct service *service, const struct op *op,
                             struct error *error)
{
    const struct op_create *create = op->create;
    if (create->shards < 1 || create->shards > LIMIT_CELLS)
        return error_set(error, ERR_INVALID, "%u shards: not 1 to %u", create->shards, LIMIT_CELLS);
    struct slice item;
    uint8_t kind;
    if (kinds_split(service->kinds, op->id, &item, &kind) &&
        (create->policy != POLICY_LOCAL || create->has_floor || create->idle_s != 0))
        return error_set(error, ERR_INVALID,
                         "a reaction's counter can be created with a number of shards only");
    return ERR_OK;
}

const char *service_meaning(const struct service *service, enum err code,
                            char to[SERVICE_MEANING_BYTES])
{
    assert(service && to);

    if (code != ERR_NO_KIND || !service->foreign_kinds || !service->foreign_kinds[0])
        return err_meaning(code);
    (void)snprintf(to, SERVICE_MEANING_BYTES, "%s (%s): put it back into the setting kinds",
                   err_meaning(code), service->foreign_kinds);
    return to;
}

enum err service_check(const struct service *service, const struct op *op, struct error *error)
{
    assert(service && op);

    enum err err = check_subject(service, op, error);
    if (!err && (needs_user(op->kind) || op->user.size > 0))
        err = check_user(op->user, error);
    if (!err)
        err = check_key(op->key, error);
    if (!err)
        err = check_region(op->region, error);
    if (!err)
        err = check_amount(op, error);
    if (!err && op->kind == OP_EXPIRE)
        err = check_time(op->deadline_ms, error);
    if (err)
        return err;

    if (op->reaction > service->kinds->count ||
        (op->reaction == KIND_NONE && needs_reaction(op->kind)))
        return error_set(error, ERR_INVALID, "there is no such reaction");
    return op->kind == OP_CREATE ? check_create(service, op, error) : ERR_OK;
}
