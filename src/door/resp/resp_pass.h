/* resp_pass.h - what the requests of one pass ask for, gathered into a batch.
 *
 * A command's handler appends ops, then one request that owns them and knows
 * how to answer:
 *
 *   ops       [ADD a][GET b][GET c][REACT v ann]
 *   requests  [incr ][mget        ][like       ]
 *
 * When the pass ends the ops run as one batch through the service; then each
 * request is answered in this order, which is the order of every client's
 * requests. Nothing here is allocated once the worker is up. */
#ifndef DOOR_RESP_RESP_PASS_H
#define DOOR_RESP_RESP_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/op.h"
#include "door/resp/resp_room.h"
#include "flow/service.h"

struct resp_client;
struct resp_request;

/* Writes the answer into the client's reply. Called once for every request,
 * also when the client has gone meanwhile: what `extra` holds is freed here. */
typedef void resp_answer_fn(struct resp_client *client, const struct resp_request *request,
                            struct op *ops);

struct resp_request {
    struct resp_client *client; /* NULL: the worker's own */
    resp_answer_fn *answer;
    void *extra;    /* what the answer needs to know beyond the ops; often in the room */
    uint32_t first; /* op */
    uint32_t count; /* ops; 0 for an answer that only waits for its turn */
};

struct resp_pass {
    struct service *service; /* borrowed */
    struct op *ops;          /* owned, LIMIT_BATCH */
    size_t op_count;
    size_t op_limit;               /* LIMIT_BATCH, or 0 while a batch is under way */
    struct resp_request *requests; /* owned, LIMIT_BATCH */
    size_t request_count;
    struct resp_room room; /* what the slices of ops point into */
    struct batch batch;
};

void resp_pass_init(struct resp_pass *pass, struct service *service, unsigned worker);
void resp_pass_done(struct resp_pass *pass);

/* No command appends more ops than it has arguments, and these. */
#define RESP_PASS_OPS_EXTRA 4u

/* Can a command with so many arguments be taken now? */
static inline bool resp_pass_has_room(const struct resp_pass *pass, unsigned argc)
{
    return pass->op_count + argc + RESP_PASS_OPS_EXTRA <= pass->op_limit &&
           pass->request_count < LIMIT_BATCH;
}

/* Appends an op. Its question is empty but for kind and id. */
static inline struct op *resp_pass_op(struct resp_pass *pass, enum op_kind kind, struct slice id)
{
    static const struct slice nothing = {NULL, 0};
    struct op *op = &pass->ops[pass->op_count++];
    op->kind = kind;
    op->reaction = 0;
    op->silent = false;
    op->id = id;
    op->user = nothing;
    op->key = nothing;
    op->region = nothing;
    op->amount = number_of(0);
    op->counts = NULL;
    op->code = ERR_OK;
    op->changed = false;
    op->repeated = false;
    op->held = 0;
    op->value = number_of(0);
    op->ticket = 0;
    return op;
}

/* Is the last op of `count` a single one of the most frequent kinds, with nothing
 * that service_check() could find fault with? Spares most requests the call. */
static inline bool resp_pass_is_plain(const struct resp_pass *pass, size_t count)
{
    const struct op *op = &pass->ops[pass->op_count - 1];
    if (count != 1 || op->id.size - 1 >= LIMIT_ID_BYTES || op->key.data || op->region.size != 0)
        return false;
    if (op->kind == OP_ADD || op->kind == OP_GET)
        return !op->amount.big;
    /* An id that ends as a kind does may be the name of a reaction's counter. */
    return op->kind == OP_REACT && op->user.size - 1 < LIMIT_USER_BYTES &&
           !pass->service->kinds->ends[(unsigned char)op->id.data[op->id.size - 1]];
}

/* Does service_check() find no fault with the last `count` ops? Else says what is
 * wrong, if `error` is given. */
bool resp_pass_check(const struct resp_pass *pass, size_t count, struct error *error);

/* Takes back the last `count` ops. */
void resp_pass_undo(struct resp_pass *pass, size_t count);

/* Appends the request that owns the last `count` ops. */
static inline void resp_pass_request(struct resp_pass *pass, struct resp_client *client,
                                     size_t count, resp_answer_fn *answer, void *extra)
{
    pass->requests[pass->request_count++] = (struct resp_request){
        .client = client,
        .answer = answer,
        .extra = extra,
        .first = (uint32_t)(pass->op_count - count),
        .count = (uint32_t)count,
    };
}

#endif
