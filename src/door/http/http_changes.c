#include "door/http/http_changes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"
#include "base/message.h"
#include "door/http/http_call.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"

#define TELL_MS          100u
#define BEAT_MS          15000u /* a comment now and then keeps what lies between us awake */
#define CHAINS           1024u
#define UNREAD_BYTES_MAX (1u << 20) /* who leaves more unread, */
#define UNREAD_MS        5000u      /* and for so long, is closed */

/* A subscription is in two lists: its client's and its channel's. */
struct subscription {
    struct http_client *client;
    struct channel *channel;
    struct subscription *next_of_client;
    struct subscription *next_of_channel;
    struct subscription *previous_of_channel;
};

struct channel {
    struct channel *next; /* in its chain, or in the list of patterns */
    struct subscription *subscriptions;
    bool is_pattern;
    size_t size;
    char name[];
};

/* What a client that listens has beyond a connection. */
struct http_stream {
    struct subscription *subscriptions; /* owned */
    bool has_begun;                     /* its head is written */
    uint64_t events;                    /* told so far */
    uint64_t unread_since_ms;           /* too much is unread; 0 = it is not */
};

struct http_changes {
    struct http_worker *worker; /* borrowed */
    struct timer *timer;        /* runs while somebody listens; made with the first one */
    uint64_t key;               /* of the hash */
    uint64_t beat_ms;           /* of the last comment */
    size_t subscriptions;
    struct channel *patterns;
    struct channel *chains[CHAINS];
};

struct http_changes *http_changes_new(struct http_worker *worker)
{
    struct http_changes *changes = memory_take_zeroed(sizeof(*changes));
    changes->worker = worker;
    changes->key = env_random(worker->service->env);
    return changes;
}

void http_changes_free(struct http_changes *changes)
{
    assert(changes->subscriptions == 0);

    timer_free(changes->timer);
    free(changes);
}

/* The doors have mailboxes of their own: those of the first door come first. */
static unsigned mailbox_of(const struct http_worker *worker)
{
    return LIMIT_WORKERS + worker->index;
}

/* ---- telling ---- */

static struct slice name_of(const struct channel *channel)
{
    return (struct slice){channel->name, channel->size};
}

static struct channel **find(struct http_changes *changes, struct slice name, bool is_pattern)
{
    struct channel **link =
        is_pattern ? &changes->patterns : &changes->chains[hash_keyed(name, changes->key) % CHAINS];
    while (*link && !slice_equal(name_of(*link), name))
        link = &(*link)->next;
    return link;
}

/* data: {...}, and the empty line that ends an event. */
static void write_event(struct http_worker *worker, struct http_text *to, struct slice id,
                        const struct number *value)
{
    HTTP_TEXT(to, "data: {\"id\":");
    http_text_string(to, id);
    HTTP_TEXT(to, ",\"value\":");
    http_text_number(to, value);
    HTTP_TEXT(to, ",\"as_of\":\"");
    http_text_add(to, http_clock_time(&worker->clock));
    HTTP_TEXT(to, "\"}\n\n");
}

static void tell_client(struct http_client *client, struct slice event)
{
    struct http_stream *stream = client->stream;
    if (!stream->has_begun || !client->conn)
        return;
    HTTP_TEXT(&client->output, "id: ");
    http_text_unsigned(&client->output, ++stream->events);
    HTTP_TEXT(&client->output, "\n");
    http_text_add(&client->output, event);
    pass_touch(&client->base);
}

static void tell_channel(const struct channel *channel, struct slice event)
{
    for (struct subscription *one = channel->subscriptions; one; one = one->next_of_channel)
        tell_client(one->client, event);
}

/* A counter that is gone is told as 0. */
static void answer_tell(void *client, const struct pass_request *request, struct op *ops)
{
    (void)client;
    struct http_changes *changes = request->extra;
    struct http_worker *worker = changes->worker;
    worker->body.bytes.size = 0;
    write_event(worker, &worker->body, ops->id, &ops->value);
    struct slice event = buffer_slice(&worker->body.bytes);
    const struct channel *channel = *find(changes, ops->id, false);
    if (channel)
        tell_channel(channel, event);
    for (channel = changes->patterns; channel; channel = channel->next) {
        if (match_glob(name_of(channel), ops->id))
            tell_channel(channel, event);
    }
}

static void ask_value(void *arg, struct slice id)
{
    struct http_changes *changes = arg;
    struct pass *pass = &changes->worker->pass;
    if (!pass_has_room(pass, 1) && !pass_run(pass))
        return; /* it is told when it changes the next time */
    char *copy = room_alloc(&pass->room, id.size);
    memcpy(copy, id.data, id.size);
    pass_op(pass, OP_GET, (struct slice){copy, id.size});
    pass_request(pass, NULL, 1, answer_tell, changes);
}

static void beat(struct http_worker *worker)
{
    for (struct http_client *client = worker->clients; client; client = client->next) {
        if (client->stream && client->stream->has_begun) {
            HTTP_TEXT(&client->output, ":\n\n");
            pass_touch(&client->base);
        }
    }
}

/* A burst of changes may be long; who reads gets through it. */
static void drop_deaf(struct http_worker *worker, uint64_t now_ms)
{
    for (struct http_client *client = worker->clients; client; client = client->next) {
        struct http_stream *stream = client->stream;
        if (!stream)
            continue;
        if (http_client_waiting(client) <= UNREAD_BYTES_MAX)
            stream->unread_since_ms = 0;
        else if (stream->unread_since_ms == 0)
            stream->unread_since_ms = now_ms;
        else if (now_ms - stream->unread_since_ms > UNREAD_MS) {
            client->output.overflow = true;
            pass_touch(&client->base);
        }
    }
}

static void tell(void *arg)
{
    struct http_changes *changes = arg;
    struct http_worker *worker = changes->worker;
    if (pass_is_busy(&worker->pass))
        return;
    size_t lost = watch_take(worker->service->watch, mailbox_of(worker), ask_value, changes);
    if (lost > 0 && http_worker_may_warn(worker))
        message_warning("too many changes at once, listeners missed some door=http lost=%zu", lost);
    uint64_t now_ms = loop_now_ms(worker->loop);
    drop_deaf(worker, now_ms);
    if (now_ms - changes->beat_ms >= BEAT_MS) {
        changes->beat_ms = now_ms;
        beat(worker);
    }
    http_worker_end_pass(worker);
}

/* ---- subscribing ---- */

static struct channel *open_channel(struct http_changes *changes, struct slice name,
                                    bool is_pattern)
{
    struct channel **link = find(changes, name, is_pattern);
    if (!*link) {
        struct channel *channel = memory_take_zeroed(sizeof(*channel) + name.size);
        channel->is_pattern = is_pattern;
        channel->size = name.size;
        memcpy(channel->name, name.data, name.size);
        *link = channel;
    }
    return *link;
}

static void start_timer(struct http_changes *changes)
{
    struct http_worker *worker = changes->worker;
    if (!changes->timer)
        changes->timer = timer_new(worker->loop, tell, changes);
    if (!timer_runs(changes->timer)) {
        changes->beat_ms = loop_now_ms(worker->loop);
        timer_start(changes->timer, TELL_MS, TELL_MS);
    }
}

static void subscribe(struct http_client *client, struct slice name, bool is_pattern)
{
    struct http_worker *worker = client->worker;
    struct http_changes *changes = worker->changes;
    struct subscription *one = memory_take_zeroed(sizeof(*one));
    one->client = client;
    one->channel = open_channel(changes, name, is_pattern);
    one->next_of_client = client->stream->subscriptions;
    client->stream->subscriptions = one;
    one->next_of_channel = one->channel->subscriptions;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one;
    one->channel->subscriptions = one;

    watch_add(worker->service->watch, mailbox_of(worker), name, is_pattern);
    changes->subscriptions++;
    start_timer(changes);
}

static void close_channel(struct http_changes *changes, struct channel *channel)
{
    struct channel **link = find(changes, name_of(channel), channel->is_pattern);
    assert(*link == channel);
    *link = channel->next;
    free(channel);
}

static void unsubscribe(struct subscription *one)
{
    struct http_worker *worker = one->client->worker;
    struct http_changes *changes = worker->changes;
    struct channel *channel = one->channel;
    if (one->previous_of_channel)
        one->previous_of_channel->next_of_channel = one->next_of_channel;
    else
        channel->subscriptions = one->next_of_channel;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one->previous_of_channel;
    free(one);

    watch_remove(worker->service->watch, mailbox_of(worker), name_of(channel), channel->is_pattern);
    if (!channel->subscriptions)
        close_channel(changes, channel);
    if (--changes->subscriptions == 0)
        timer_stop(changes->timer);
}

void http_changes_forget(struct http_client *client)
{
    struct http_stream *stream = client->stream;
    if (!stream)
        return;
    while (stream->subscriptions) {
        struct subscription *one = stream->subscriptions;
        stream->subscriptions = one->next_of_client;
        unsubscribe(one);
    }
    gauge_add(&client->worker->stats.listeners, (uint64_t)-1);
    client->stream = NULL;
    free(stream);
}

/* ---- the handler ---- */

/* The head, and each counter as it is now: who comes back has missed nothing. */
static void answer_begin(struct http_call *call, struct op *ops)
{
    struct http_client *client = call->client;
    if (!client->conn || !client->stream)
        return;
    struct http_text *output = &client->output;
    HTTP_TEXT(output, "HTTP/1.1 200 OK\r\n"
                      "Content-Type: text/event-stream\r\n"
                      "Cache-Control: no-store\r\n"
                      "X-Content-Type-Options: nosniff\r\n"
                      "X-Accel-Buffering: no\r\n");
    if (call->origin.size > 0) {
        HTTP_TEXT(output, "Access-Control-Allow-Origin: ");
        http_text_add(output, call->origin);
        HTTP_TEXT(output, "\r\nVary: Origin\r\n");
    }
    HTTP_TEXT(output, "Connection: close\r\n\r\n");
    if (call->is_head) {
        http_client_finish(client);
        return;
    }
    HTTP_TEXT(output, "retry: 1000\n\n");
    client->stream->has_begun = true;
    struct http_worker *worker = client->worker;
    for (uint64_t i = 0; i < call->number; i++) {
        worker->body.bytes.size = 0;
        write_event(worker, &worker->body, ops[i].id, &ops[i].value);
        tell_client(client, buffer_slice(&worker->body.bytes));
    }
}

void http_changes(struct http_call *call)
{
    static const char *const names[] = {"=ids", "match", NULL};
    struct slice values[2];
    if (!http_call_query(call, names, values))
        return;
    if (values[0].size == 0 && values[1].size == 0) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "wanted are ids, or match, or both");
        return;
    }
    if (values[1].size > LIMIT_ID_BYTES) {
        http_call_fail(call, HTTP_PROBLEM_TOO_LONG, "match: more than %u bytes", LIMIT_ID_BYTES);
        return;
    }
    size_t count = values[0].size > 0 ? http_call_read_ids(call, values[0]) : 0;
    if (values[0].size > 0 && count == 0)
        return;

    struct http_client *client = call->client;
    const struct pass *pass = &client->worker->pass;
    client->stream = memory_take_zeroed(sizeof(*client->stream));
    gauge_add(&client->worker->stats.listeners, 1);
    for (size_t i = 0; i < count; i++)
        subscribe(client, pass->ops[pass->op_count - count + i].id, false);
    if (values[1].size > 0)
        subscribe(client, values[1], true);
    call->number = count;
    http_call_submit_checked(call, count, answer_begin);
    pass_hold(&client->base, HTTP_HOLD_STREAM);
}
