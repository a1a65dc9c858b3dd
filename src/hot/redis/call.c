#include "hot/redis/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/decimal.h"
#include "base/memory.h"
#include "base/message.h"
#include "hot/redis/cluster.h"
#include "hot/redis/layer.h"
#include "net/timer.h"

#define CALL_BYTES_MAX (64u << 20)
#define REDIRECTS_MAX  16u
#define WAIT_MIN_NS    UINT64_C(5000000)
#define WAIT_MAX_NS    UINT64_C(200000000)
#define LOOK_EVERY_MS  5u

struct calls {
    struct layer *layer; /* borrowed */
    struct timer *timer; /* runs while something waits */
    struct call *waiting;
    bool refuse;
};

/* --- building --- */

void call_init(struct call *call, struct layer *layer, unsigned cell, enum script script)
{
    *call = (struct call){.layer = layer};
    buffer_init(&call->keys, CALL_BYTES_MAX);
    buffer_init(&call->args, CALL_BYTES_MAX);
    call_clear(call, cell, script);
}

void call_done(struct call *call)
{
    buffer_done(&call->keys);
    buffer_done(&call->args);
}

void call_clear(struct call *call, unsigned cell, enum script script)
{
    assert(cell < LIMIT_CELLS);

    call->cell = cell;
    call->script = script;
    call->key_count = 0;
    call->arg_count = 1;
    call->keys.size = 0;
    call->args.size = 0;
    call_key(call, "cell");
}

static char *put(char *to, const char *data, size_t size)
{
    memcpy(to, data, size);
    return to + size;
}

/* A bulk string of up to three pieces. A call that grows beyond its maximum is a mistake of ours:
 * callers bound what they put into one. */
static void append_bulk(struct buffer *to, struct slice a, struct slice b, struct slice c)
{
    size_t size = a.size + b.size + c.size;
    enum err err = buffer_reserve(to, size + DECIMAL_SIZE_MAX + 5);
    assert(err == ERR_OK);
    (void)err;
    char *at = to->data + to->size;
    *at++ = '$';
    at = decimal_format_unsigned(at, size);
    at = put(at, "\r\n", 2);
    if (a.size > 0)
        at = put(at, a.data, a.size);
    if (b.size > 0)
        at = put(at, b.data, b.size);
    if (c.size > 0)
        at = put(at, c.data, c.size);
    at = put(at, "\r\n", 2);
    to->size = (size_t)(at - to->data);
}

static void append_key(struct call *call, struct slice name, struct slice id)
{
    char head[sizeof(call->layer->prefix) + sizeof(call->layer->tags.tags[0]) + 4];
    size_t prefix = strlen(call->layer->prefix);
    size_t tag = strlen(call->layer->tags.tags[call->cell]);
    char *at = put(head, call->layer->prefix, prefix);
    *at++ = ':';
    at = put(at, call->layer->tags.tags[call->cell], tag);
    *at++ = ':';
    append_bulk(&call->keys, (struct slice){head, (size_t)(at - head)}, name, id);
    call->key_count++;
}

void call_key(struct call *call, const char *name)
{
    append_key(call, slice_of(name), (struct slice){NULL, 0});
}

void call_key_of(struct call *call, const char *name, struct slice id)
{
    char with_colon[16];
    size_t size = strlen(name);
    assert(size + 1 < sizeof(with_colon));
    memcpy(with_colon, name, size);
    with_colon[size] = ':';
    append_key(call, (struct slice){with_colon, size + 1}, id);
}

void call_arg(struct call *call, struct slice value)
{
    append_bulk(&call->args, value, (struct slice){NULL, 0}, (struct slice){NULL, 0});
    call->arg_count++;
}

void call_arg_pair(struct call *call, struct slice a, struct slice b)
{
    append_bulk(&call->args, a, b, (struct slice){NULL, 0});
    call->arg_count++;
}

void call_arg_text(struct call *call, const char *value)
{
    call_arg(call, slice_of(value));
}

void call_arg_number(struct call *call, uint64_t value)
{
    char digits[DECIMAL_SIZE_MAX];
    char *end = decimal_format_unsigned(digits, value);
    call_arg(call, (struct slice){digits, (size_t)(end - digits)});
}

/* --- on its way --- */

static uint64_t now_ns(const struct call *call)
{
    return env_monotonic_ns(call->layer->env);
}

static void finish(struct call *call, enum err code, const struct redisReply *reply)
{
    call->done(call->arg, code, reply);
}

static void give_up(struct call *call)
{
    finish(call, call->may_be_done ? ERR_TIMEOUT : ERR_UNAVAILABLE, NULL);
}

static void wait_for(struct call *call, uint64_t wait_ns)
{
    struct calls *calls = call->layer->calls;
    if (calls->refuse) {
        give_up(call);
        return;
    }
    call->wait_until_ns = now_ns(call) + wait_ns;
    call->next = calls->waiting;
    calls->waiting = call;
    if (!timer_runs(calls->timer))
        timer_start(calls->timer, LOOK_EVERY_MS, LOOK_EVERY_MS);
}

static void wait_longer(struct call *call)
{
    uint64_t wait_ns = WAIT_MIN_NS << (call->waits < 6 ? call->waits : 6);
    call->waits++;
    wait_for(call, wait_ns > WAIT_MAX_NS ? WAIT_MAX_NS : wait_ns);
}

static void got_reply(void *arg, struct link *link, const struct redisReply *reply);

static void got_asking(void *arg, struct link *link, const struct redisReply *reply)
{
    (void)arg, (void)link, (void)reply;
}

static void send_on(struct call *call, struct link *link)
{
    char head[160];
    const char *run_id = link_run_id(link);
    if (call->ask) {
        call->ask = NULL;
        link_put(link, SLICE("*1\r\n$6\r\nASKING\r\n"));
        link_expect(link, got_asking, NULL);
    }
    char keys[DECIMAL_SIZE_MAX + 1];
    *decimal_format_unsigned(keys, call->key_count) = '\0';
    int size = snprintf(head, sizeof(head), "*%u\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$%zu\r\n%s\r\n",
                        3 + call->key_count + call->arg_count, script_sha(call->script),
                        strlen(keys), keys);
    link_put(link, (struct slice){head, (size_t)size});
    link_put(link, buffer_slice(&call->keys));
    size = snprintf(head, sizeof(head), "$%zu\r\n%s\r\n", strlen(run_id), run_id);
    link_put(link, (struct slice){head, (size_t)size});
    link_put(link, buffer_slice(&call->args));
    link_expect(link, got_reply, call);
}

/* There is nobody to send it to, and that will not change in time. */
static bool is_hopeless(const struct call *call)
{
    return !call->may_be_done && cluster_is_down(call->layer->cluster, call->cell);
}

static void try_to_send(struct call *call)
{
    if (call->layer->calls->refuse || now_ns(call) >= call->deadline_ns || is_hopeless(call)) {
        give_up(call);
        return;
    }
    struct link *link = call->ask ? call->ask : cluster_link(call->layer->cluster, call->cell);
    if (link && link_is_ready(link))
        send_on(call, link);
    else
        wait_for(call, WAIT_MAX_NS); /* or until a connection is there */
}

static void load_again(struct call *call, struct link *link)
{
    struct slice source = script_source(call->script);
    char head[80];
    int size =
        snprintf(head, sizeof(head), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", source.size);
    link_put(link, (struct slice){head, (size_t)size});
    link_put(link, source);
    link_put(link, SLICE("\r\n"));
    link_expect(link, got_asking, NULL);
}

/* "MOVED 3999 127.0.0.1:6381" */
static struct slice redirected_to(const struct redisReply *reply)
{
    const char *space = strrchr(reply->str, ' ');
    return space ? slice_of(space + 1) : (struct slice){NULL, 0};
}

static void redirect(struct call *call, struct link *link, const struct redisReply *reply,
                     bool is_ask)
{
    if (call->redirects++ >= REDIRECTS_MAX) {
        wait_longer(call); /* they do not agree with one another yet */
        call->redirects = REDIRECTS_MAX / 2;
        return;
    }
    struct cluster *cluster = call->layer->cluster;
    struct slice address = redirected_to(reply);
    if (!is_ask) {
        cluster_moved(cluster, call->cell, link, address);
        try_to_send(call);
        return;
    }
    call->ask = cluster_link_at(cluster, link, address);
    if (call->ask)
        try_to_send(call);
    else
        wait_longer(call); /* we only begin to know each other; the old place tells again */
}

static bool begins(const struct redisReply *reply, const char *word)
{
    return strncmp(reply->str, word, strlen(word)) == 0;
}

/* Says that it was not done, and might be if it is asked for again. */
static bool is_passing(const struct redisReply *reply)
{
    static const char *const words[] = {"TRYAGAIN",   "LOADING", "CLUSTERDOWN", "READONLY", "BUSY ",
                                        "MASTERDOWN", "MISCONF", "NOREPLICAS",  "UNBLOCKED"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (begins(reply, words[i]))
            return true;
    return false;
}

static void got_error(struct call *call, struct link *link, const struct redisReply *reply)
{
    if (begins(reply, "MOVED ")) {
        redirect(call, link, reply, false);
    } else if (begins(reply, "ASK ")) {
        redirect(call, link, reply, true);
    } else if (begins(reply, "NOSCRIPT")) {
        load_again(call, link);
        if (call->redirects++ < REDIRECTS_MAX)
            try_to_send(call);
        else
            wait_longer(call);
    } else if (is_passing(reply)) {
        if (!begins(reply, "TRYAGAIN"))
            cluster_doubt(call->layer->cluster);
        wait_longer(call);
    } else if (begins(reply, "OOM")) {
        finish(call, ERR_NO_MEMORY, NULL);
    } else {
        message_error("redis: a script has failed address=%s cell=%u reason=\"%s\"",
                      link_address(link), call->cell, reply->str);
        finish(call, ERR_REFUSED, reply);
    }
}

static void got_reply(void *arg, struct link *link, const struct redisReply *reply)
{
    struct call *call = arg;
    if (!reply) {
        call->may_be_done = true;
        if (call->ask == link)
            call->ask = NULL;
        try_to_send(call);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        got_error(call, link, reply);
    } else {
        finish(call, ERR_OK, reply);
    }
}

void call_start(struct call *call, uint64_t timeout_ms, call_done_fn *done, void *arg)
{
    assert(layer_is_own_thread(call->layer));

    call->deadline_ns = now_ns(call) + timeout_ms * 1000000;
    call->done = done;
    call->arg = arg;
    call->redirects = 0;
    call->waits = 0;
    call->ask = NULL;
    call->may_be_done = false;
    try_to_send(call);
}

/* --- those that wait --- */

static void look(struct calls *calls, bool all)
{
    struct call *list = calls->waiting;
    calls->waiting = NULL;
    while (list) {
        struct call *call = list;
        list = call->next;
        uint64_t now = now_ns(call);
        if (all || now >= call->wait_until_ns || now >= call->deadline_ns) {
            try_to_send(call);
        } else {
            call->next = calls->waiting;
            calls->waiting = call;
        }
    }
    if (!calls->waiting)
        timer_stop(calls->timer);
}

static void ring(void *arg)
{
    struct calls *calls = arg;
    look(calls, false);
    cluster_flush(calls->layer->cluster);
}

struct calls *calls_new(struct layer *layer)
{
    struct calls *calls = memory_take_zeroed(sizeof(*calls));
    calls->layer = layer;
    calls->timer = timer_new(layer->loop, ring, calls);
    return calls;
}

void calls_free(struct calls *calls)
{
    if (!calls)
        return;
    assert(!calls->waiting);
    timer_free(calls->timer);
    free(calls);
}

void calls_refuse(struct calls *calls)
{
    calls->refuse = true;
    look(calls, true);
}

void calls_go_on(struct calls *calls)
{
    if (calls)
        look(calls, true);
}

void calls_forget_link(struct calls *calls, const struct link *link)
{
    for (struct call *call = calls->waiting; call; call = call->next)
        if (call->ask == link)
            call->ask = NULL;
}

/* --- from other threads --- */

struct group {
    struct call **calls;
    size_t count;
    uint64_t timeout_ms;
    call_done_fn *done;
    void **args;
    size_t left;
    struct bell bell;
};

struct member {
    struct group *group;
    size_t index;
};

static void member_done(void *arg, enum err code, const struct redisReply *reply)
{
    struct member *member = arg;
    struct group *group = member->group;
    group->done(group->args[member->index], code, reply);
    free(member);
    if (--group->left == 0)
        bell_ring(&group->bell);
}

static void start_group(void *arg)
{
    struct group *group = arg;
    size_t count = group->count; /* the group may be gone with its last call */
    for (size_t i = 0; i < count; i++) {
        struct member *member = memory_take(sizeof(*member));
        *member = (struct member){group, i};
        call_start(group->calls[i], group->timeout_ms, member_done, member);
    }
}

void call_wait(struct call **calls, size_t count, uint64_t timeout_ms, call_done_fn *done,
               void **args)
{
    if (count == 0)
        return;
    struct layer *layer = calls[0]->layer;
    assert(!layer_is_own_thread(layer));

    struct group group = {.calls = calls,
                          .count = count,
                          .timeout_ms = timeout_ms,
                          .done = done,
                          .args = args,
                          .left = count};
    bell_init(&group.bell);
    if (layer_post(layer, start_group, &group))
        bell_wait(&group.bell, UINT64_MAX);
    else
        for (size_t i = 0; i < count; i++)
            done(args[i], ERR_UNAVAILABLE, NULL);
    bell_done(&group.bell);
}
