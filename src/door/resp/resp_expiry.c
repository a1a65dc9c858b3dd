/* resp_expiry.c - when counters end. A deadline that has passed ends the counter
 * at once, as in Redis. */
#include "base/decimal.h"
#include "door/resp/resp_answers.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

static void set_deadline(struct resp_client *client, unsigned argc, const struct slice *argv,
                         int64_t unit_ms, bool from_now)
{
    int64_t deadline_ms;
    if (!resp_args_int(client, argv[2], &deadline_ms))
        return;
    if (argc > 3) {
        int size = (int)(argv[3].size < 64 ? argv[3].size : 64);
        resp_client_fail(client, "ERR Unsupported option %.*s", size, argv[3].data);
        return;
    }
    int64_t since_ms = from_now ? env_wall_ms(client->worker->service->env) : 0;
    if (__builtin_mul_overflow(deadline_ms, unit_ms, &deadline_ms) ||
        __builtin_add_overflow(deadline_ms, since_ms, &deadline_ms) ||
        deadline_ms > LIMIT_TIME_MS) {
        resp_client_fail(client, "ERR invalid expire time in '%s' command", client->last->name);
        return;
    }
    /* 0 would mean never; everything up to it has passed. */
    struct op *op = pass_op(&client->worker->pass, OP_EXPIRE, argv[1]);
    op->deadline_ms = deadline_ms > 0 ? deadline_ms : 1;
    resp_client_submit(client, 1, resp_answer_changed, NULL);
}

void resp_expire(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    set_deadline(client, argc, argv, 1000, true);
}

void resp_pexpire(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    set_deadline(client, argc, argv, 1, true);
}

void resp_expireat(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    set_deadline(client, argc, argv, 1000, false);
}

void resp_pexpireat(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    set_deadline(client, argc, argv, 1, false);
}

/* 1 if there was a deadline to take away. */
static void answer_persist(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (ops[0].code == ERR_NOT_FOUND)
        resp_reply_integer(&client->reply, 0);
    else if (!resp_client_answer_error(client, &ops[0]) &&
             !resp_client_answer_error(client, &ops[1]))
        resp_reply_integer(&client->reply, ops[0].deadline_ms != 0 && ops[1].changed);
}

void resp_persist(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    pass_op(&client->worker->pass, OP_DEADLINE, argv[1]);
    pass_op(&client->worker->pass, OP_EXPIRE, argv[1])->deadline_ms = 0;
    resp_client_submit(client, 2, answer_persist, NULL);
}

/* The time left in units, -1 when it lives for ever, -2 when it is not there. */
static void answer_left(struct resp_client *client, struct op *op, int64_t unit_ms)
{
    if (op->code == ERR_NOT_FOUND) {
        resp_reply_integer(&client->reply, -2);
        return;
    }
    if (resp_client_answer_error(client, op))
        return;
    if (op->deadline_ms == 0) {
        resp_reply_integer(&client->reply, -1);
        return;
    }
    int64_t left_ms = op->deadline_ms - client->worker->pass.now_ms;
    if (left_ms < 0)
        left_ms = 0;
    resp_reply_integer(&client->reply, (left_ms + unit_ms / 2) / unit_ms);
}

static void answer_ttl(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    answer_left(client, ops, 1000);
}

static void answer_pttl(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    answer_left(client, ops, 1);
}

void resp_ttl(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    pass_op(&client->worker->pass, OP_DEADLINE, argv[1]);
    resp_client_submit(client, 1, answer_ttl, NULL);
}

void resp_pttl(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    pass_op(&client->worker->pass, OP_DEADLINE, argv[1]);
    resp_client_submit(client, 1, answer_pttl, NULL);
}
