/* resp_shard.c - counters by our own words: created with shards, written once
 * for each idempotency key, described. */
#include <inttypes.h>

#include "door/resp/resp_answers.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

/* ---- COUNTER.CREATE ---- */

struct create_options {
    struct op_create create;
    struct slice key;
    struct slice region;
};

/* A number from `min` to `max`; what is none is answered with an error. */
static bool read_number(struct resp_client *client, const char *option, struct slice text,
                        int64_t min, int64_t max, int64_t *ret_number)
{
    if (!resp_args_int(client, text, ret_number))
        return false;
    if (*ret_number >= min && *ret_number <= max)
        return true;
    resp_client_fail(client, "ERR %s is %" PRId64 " to %" PRId64, option, min, max);
    return false;
}

/* One option; what is wrong with it is answered with an error. */
static bool read_create_option(struct resp_client *client, struct resp_args *args,
                               struct create_options *options)
{
    struct op_create *create = &options->create;
    struct slice value;
    int64_t number;
    if (resp_args_option(args, SLICE("shards"), &value)) {
        if (!read_number(client, "SHARDS", value, 1, LIMIT_CELLS, &number))
            return false;
        create->shards = (uint32_t)number;
    } else if (resp_args_option(args, SLICE("policy"), &value)) {
        if (!policy_parse(value, &create->policy)) {
            resp_client_fail(client, "ERR POLICY is local, random, round-robin or least-loaded");
            return false;
        }
    } else if (resp_args_option(args, SLICE("floor"), &value)) {
        /* A counter begins at 0, which must not be below its floor. */
        if (!read_number(client, "FLOOR", value, INT64_MIN, 0, &create->floor))
            return false;
        create->has_floor = true;
    } else if (resp_args_option(args, SLICE("idle"), &value)) {
        if (!read_number(client, "IDLE", value, 0, UINT32_MAX, &number))
            return false;
        create->idle_s = (uint32_t)number;
    } else if (!resp_args_option(args, SLICE("id"), &options->key) &&
               !resp_args_option(args, SLICE("region"), &options->region)) {
        resp_client_fail_syntax(client);
        return false;
    }
    return true;
}

void resp_counter_create(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct pass *pass = &client->worker->pass;
    struct resp_args args = resp_args_from(argc, argv, 2);
    struct create_options *options = room_alloc(&pass->gathered.room, sizeof(*options));
    *options = (struct create_options){.create.shards = 1};
    while (args.left > 0) {
        if (!read_create_option(client, &args, options))
            return;
    }

    struct op *op = pass_op(pass, OP_CREATE, argv[1]);
    op->create = &options->create;
    op->key = options->key;
    op->region = options->region;
    resp_client_submit(client, 1, resp_answer_ok, NULL);
}

/* ---- COUNTER.ADD, COUNTER.SET, COUNTER.RESET, COUNTER.DELETE ---- */

/* Takes the options of a write and submits its op. */
static void submit_write(struct resp_client *client, struct resp_args args, struct op *op,
                         pass_answer_fn *answer)
{
    if (!resp_args_write_options(&args, op)) {
        pass_undo(&client->worker->pass, 1);
        resp_client_fail_syntax(client);
        return;
    }
    resp_client_submit(client, 1, answer, NULL);
}

static void write_amount(struct resp_client *client, struct resp_args args, enum op_kind kind,
                         struct slice id, struct number amount)
{
    struct op *op = pass_op(&client->worker->pass, kind, id);
    op->amount = amount;
    submit_write(client, args, op, resp_answer_value);
}

/* DEL of one id, with the options of a write. */
void resp_counter_delete(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct op *op = pass_op(&client->worker->pass, OP_DELETE, argv[1]);
    submit_write(client, resp_args_from(argc, argv, 2), op, resp_answer_changed);
}

void resp_counter_add(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct number amount;
    if (resp_args_number(client, argv[2], &amount))
        write_amount(client, resp_args_from(argc, argv, 3), OP_ADD, argv[1], amount);
}

void resp_counter_set(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct number amount;
    if (resp_args_number(client, argv[2], &amount))
        write_amount(client, resp_args_from(argc, argv, 3), OP_SET, argv[1], amount);
}

/* The value may be left out: then the third word is an option, or missing. */
void resp_counter_reset(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    bool has_value = argc > 2 && !slice_equal_nocase(argv[2], SLICE("id")) &&
                     !slice_equal_nocase(argv[2], SLICE("region"));
    if (has_value)
        resp_counter_set(client, argc, argv);
    else
        write_amount(client, resp_args_from(argc, argv, 2), OP_SET, argv[1], number_of(0));
}

/* ---- COUNTER.INFO ---- */

/* Ops: DESCRIBE, then GET; an item itself has no value, only its kinds have. */
static void answer_info(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (resp_client_answer_error(client, &ops[0]) ||
        (ops[1].code != ERR_WRONG_TYPE && resp_client_answer_error(client, &ops[1])))
        return;
    const struct op_describe *describe = ops[0].describe;
    struct resp_reply *reply = &client->reply;

    resp_reply_map(reply, 13);
    resp_reply_text(reply, "type");
    resp_reply_text(reply, describe->is_item ? "item" : "counter");
    resp_reply_text(reply, "value");
    if (ops[1].code == ERR_OK)
        resp_reply_number(reply, &ops[1].value);
    else
        resp_reply_null(reply);
    resp_reply_text(reply, "shards");
    resp_reply_integer(reply, describe->shards);
    resp_reply_text(reply, "shards_asked");
    resp_reply_integer(reply, describe->shards_asked);
    resp_reply_text(reply, "policy");
    resp_reply_text(reply, policy_name(describe->policy));
    resp_reply_text(reply, "shards_changed_because");
    resp_reply_text(reply, describe->reason ? describe->reason : "");
    resp_reply_text(reply, "shards_changed_ms");
    resp_reply_integer(reply, describe->changed_ms);
    resp_reply_text(reply, "floor");
    if (describe->has_floor)
        resp_reply_integer(reply, describe->floor);
    else
        resp_reply_null(reply);
    resp_reply_text(reply, "idle_s");
    resp_reply_integer(reply, describe->idle_s);
    resp_reply_text(reply, "deadline_ms");
    resp_reply_integer(reply, describe->deadline_ms);
    resp_reply_text(reply, "written_ms");
    resp_reply_integer(reply, describe->written_ms);
    resp_reply_text(reply, "incarnation");
    resp_reply_integer(reply, describe->incarnation);
    resp_reply_text(reply, "home");
    resp_reply_integer(reply, describe->home);
}

void resp_counter_info(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct pass *pass = &client->worker->pass;
    struct op *op = pass_op(pass, OP_DESCRIBE, argv[1]);
    op->describe = room_alloc(&pass->gathered.room, sizeof(*op->describe));
    pass_op(pass, OP_GET, argv[1]);
    resp_client_submit(client, 2, answer_info, NULL);
}
