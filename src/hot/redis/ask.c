#include "hot/redis/ask.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "base/message.h"
#include "hot/redis/open.h"

#define SECOND_NS UINT64_C(1000000000)
#define PROBE_NS  SECOND_NS /* between two tries */
#define ALONE_NS  (2 * SECOND_NS)
#define PROBE_MS  700u

struct question {
    ask_take_fn *take;
    void *arg;
    enum err *code;
};

static void tell_failed(const struct redisReply *reply)
{
    struct slice text = reply_text(reply);
    message_error("a script has failed in Redis reply=%.*s", SLICE_ARGS(text));
}

static void take_answer(void *arg, enum err code, const struct redisReply *reply)
{
    struct question *question = arg;
    if (code == ERR_REFUSED && reply)
        tell_failed(reply);
    if (code == ERR_OK)
        question->take(question->arg, reply);
    *question->code = code;
}

enum err ask(struct call *call, ask_take_fn *take, void *arg)
{
    enum err code = ERR_UNAVAILABLE;
    ask_all(call, 1, &code, take, &arg);
    return code;
}

static _Atomic uint64_t *down_of(const struct call *call)
{
    return &call->layer->opens->down_ns[call->cell];
}

static uint64_t now_ns(const struct call *call)
{
    return env_monotonic_ns(call->layer->env);
}

static bool may_try(const struct call *call, bool probes, bool *ret_is_down)
{
    uint64_t down_ns = atomic_load(down_of(call));
    *ret_is_down |= down_ns != 0;
    return down_ns == 0 || now_ns(call) >= down_ns + (probes ? 0 : ALONE_NS);
}

static void note_answer(const struct call *call, enum err code)
{
    bool is_down = code == ERR_UNAVAILABLE || code == ERR_TIMEOUT;
    uint64_t down_ns = is_down ? now_ns(call) + PROBE_NS : 0;
    if (is_down || atomic_load(down_of(call)) != 0)
        atomic_store(down_of(call), down_ns);
}

static void ask_some(struct call *calls, size_t count, bool probes, enum err *codes,
                     ask_take_fn *take, void **args)
{
    struct question *questions = memory_take(count * sizeof(*questions));
    struct call **list = memory_take(count * sizeof(struct call *));
    void **list_args = memory_take(count * sizeof(void *));
    size_t asked = 0;
    bool is_down = false;
    for (size_t i = 0; i < count; i++) {
        codes[i] = ERR_UNAVAILABLE;
        if (!may_try(&calls[i], probes, &is_down))
            continue;
        questions[i] = (struct question){.take = take, .arg = args[i], .code = &codes[i]};
        list[asked] = &calls[i];
        list_args[asked++] = &questions[i];
    }
    if (asked > 0) {
        unsigned patience = calls->layer->options.patience;
        call_wait(list, asked, is_down ? PROBE_MS : ASK_MS * patience, take_answer, list_args);
    }
    for (size_t i = 0; i < asked; i++)
        note_answer(list[i], *((struct question *)list_args[i])->code);
    free(questions);
    free(list);
    free(list_args);
}

void ask_all(struct call *calls, size_t count, enum err *codes, ask_take_fn *take, void **args)
{
    assert(count > 0);

    ask_some(calls, count, false, codes, take, args);
}

void ask_probing(struct call *calls, size_t count, enum err *codes, ask_take_fn *take, void **args)
{
    assert(count > 0);

    ask_some(calls, count, true, codes, take, args);
}

struct layer *ask_layer(struct outbox *outbox)
{
    return (struct layer *)((char *)outbox - offsetof(struct layer, outbox));
}

struct slice reply_text(const struct redisReply *reply)
{
    bool is_text = reply && (reply->type == REDIS_REPLY_STRING ||
                             reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_ERROR);
    return is_text ? (struct slice){reply->str, (size_t)reply->len} : (struct slice){NULL, 0};
}

static const struct redisReply *at(const struct redisReply *reply, size_t index)
{
    bool has = reply && reply->type == REDIS_REPLY_ARRAY && index < (size_t)reply->elements;
    return has ? reply->element[index] : NULL;
}

struct slice reply_text_at(const struct redisReply *reply, size_t index)
{
    return reply_text(at(reply, index));
}

uint64_t reply_number(const struct redisReply *reply)
{
    uint64_t value;
    if (reply && reply->type == REDIS_REPLY_INTEGER)
        return reply->integer > 0 ? (uint64_t)reply->integer : 0;
    return decimal_parse_unsigned(reply_text(reply), &value) ? value : 0;
}

uint64_t reply_number_at(const struct redisReply *reply, size_t index)
{
    return reply_number(at(reply, index));
}

bool reply_is(const struct redisReply *reply, const char *text)
{
    const struct redisReply *first =
        reply && reply->type == REDIS_REPLY_ARRAY ? at(reply, 0) : reply;
    return slice_equal(reply_text(first), slice_of(text));
}
