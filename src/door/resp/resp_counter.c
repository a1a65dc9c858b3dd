/* resp_counter.c - counters, by the words of Redis. */
#include "door/resp/resp_answers.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

/* ---- answers ---- */

void resp_answer_value(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (!resp_client_answer_error(client, ops))
        resp_reply_number(&client->reply, &ops->value);
}

void resp_answer_digits(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (ops->code == ERR_NOT_FOUND)
        resp_reply_null(&client->reply);
    else if (!resp_client_answer_error(client, ops))
        resp_reply_digits(&client->reply, &ops->value);
}

void resp_answer_changed(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)request;
    if (!resp_client_answer_error(client, ops))
        resp_reply_integer(&client->reply, ops->changed);
}

void resp_answer_sum(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    int64_t sum = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        if (resp_client_answer_error(client, &ops[i]))
            return;
        sum += ops[i].changed;
    }
    resp_reply_integer(&client->reply, sum);
}

void resp_answer_ok(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    for (uint32_t i = 0; i < request->count; i++) {
        if (resp_client_answer_error(client, &ops[i]))
            return;
    }
    resp_reply_ok(&client->reply);
}

/* ---- one counter ---- */

static void add(struct resp_client *client, struct slice id, struct number amount)
{
    struct op *op = pass_op(&client->worker->pass, OP_ADD, id);
    op->amount = amount;
    resp_client_submit(client, 1, resp_answer_value, NULL);
}

void resp_incr(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    add(client, argv[1], number_of(1));
}

void resp_decr(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    add(client, argv[1], number_of(-1));
}

void resp_incrby(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct number amount;
    if (resp_args_number(client, argv[2], &amount))
        add(client, argv[1], amount);
}

void resp_decrby(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct number amount;
    if (!resp_args_number(client, argv[2], &amount))
        return;
    number_negate(&amount);
    add(client, argv[1], amount);
}

void resp_get(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    pass_op(&client->worker->pass, OP_GET, argv[1]);
    resp_client_submit(client, 1, resp_answer_digits, NULL);
}

/* ---- SET ---- */

struct set_options {
    bool get;            /* answer the value before */
    int64_t deadline_ms; /* 0 = none */
};

/* A lifetime, or a time, as a deadline; what is no sensible one is answered with
 * an error. */
static bool read_deadline(struct resp_client *client, struct slice text, int64_t unit_ms,
                          int64_t since_ms, int64_t *ret_deadline_ms)
{
    int64_t number;
    if (!resp_args_int(client, text, &number))
        return false;
    if (number > 0 && !__builtin_mul_overflow(number, unit_ms, ret_deadline_ms) &&
        !__builtin_add_overflow(*ret_deadline_ms, since_ms, ret_deadline_ms) &&
        *ret_deadline_ms <= LIMIT_TIME_MS)
        return true;
    resp_client_fail(client, "ERR invalid expire time in 'set' command");
    return false;
}

/* What is wrong is answered with an error. NX, XX and KEEPTTL would need to look
 * before they write, and are refused. */
static bool read_set_options(struct resp_client *client, struct resp_args args,
                             struct set_options *options)
{
    int64_t now_ms = env_wall_ms(client->worker->service->env);
    int64_t *deadline_ms = &options->deadline_ms;
    while (args.left > 0) {
        struct slice value;
        bool good = true;
        if (resp_args_word(&args, SLICE("get"))) {
            options->get = true;
        } else if (*deadline_ms == 0 && resp_args_option(&args, SLICE("ex"), &value)) {
            good = read_deadline(client, value, 1000, now_ms, deadline_ms);
        } else if (*deadline_ms == 0 && resp_args_option(&args, SLICE("px"), &value)) {
            good = read_deadline(client, value, 1, now_ms, deadline_ms);
        } else if (*deadline_ms == 0 && resp_args_option(&args, SLICE("exat"), &value)) {
            good = read_deadline(client, value, 1000, 0, deadline_ms);
        } else if (*deadline_ms == 0 && resp_args_option(&args, SLICE("pxat"), &value)) {
            good = read_deadline(client, value, 1, 0, deadline_ms);
        } else {
            resp_client_fail_syntax(client);
            return false;
        }
        if (!good)
            return false;
    }
    return true;
}

/* The value before, if the write went well. */
static void answer_set_get(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    for (uint32_t i = 1; i < request->count; i++) {
        if (resp_client_answer_error(client, &ops[i]))
            return;
    }
    resp_answer_digits(client, request, ops);
}

void resp_set(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct pass *pass = &client->worker->pass;
    struct resp_args args = resp_args_from(argc, argv, 3);
    struct set_options options = {0};
    struct number amount;
    if (args.left > 0 && !read_set_options(client, args, &options))
        return;
    if (!resp_args_number(client, argv[2], &amount))
        return;

    size_t count = 0;
    if (options.get) {
        pass_op(pass, OP_GET, argv[1]);
        count++;
    }
    struct op *op = pass_op(pass, OP_SET, argv[1]);
    op->amount = amount;
    op->silent = true;
    count++;
    if (options.deadline_ms != 0) {
        pass_op(pass, OP_EXPIRE, argv[1])->deadline_ms = options.deadline_ms;
        count++;
    }
    resp_client_submit(client, count, options.get ? answer_set_get : resp_answer_ok, NULL);
}

/* ---- many ---- */

static void for_each(struct resp_client *client, unsigned argc, const struct slice *argv,
                     enum op_kind kind, pass_answer_fn *answer)
{
    for (unsigned i = 1; i < argc; i++)
        pass_op(&client->worker->pass, kind, argv[i]);
    resp_client_submit(client, argc - 1, answer, NULL);
}

/* As Redis has it, what has no value to show is nil. What could not be looked at is
 * another thing. */
static void answer_mget(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    for (uint32_t i = 0; i < request->count; i++) {
        bool is_nil = ops[i].code == ERR_NOT_FOUND || ops[i].code == ERR_WRONG_TYPE;
        if (!is_nil && resp_client_answer_error(client, &ops[i]))
            return;
    }
    resp_reply_array(&client->reply, request->count);
    for (uint32_t i = 0; i < request->count; i++) {
        if (ops[i].code == ERR_OK)
            resp_reply_digits(&client->reply, &ops[i].value);
        else
            resp_reply_null(&client->reply);
    }
}

void resp_mget(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    for_each(client, argc, argv, OP_GET, answer_mget);
}

void resp_del(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    for_each(client, argc, argv, OP_DELETE, resp_answer_sum);
}

void resp_exists(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    for_each(client, argc, argv, OP_EXISTS, resp_answer_sum);
}
