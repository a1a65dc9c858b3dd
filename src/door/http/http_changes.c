#include "door/http/http_changes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"
#include "door/pass/channels.h"

#define BEAT_MS          15000u     /* a comment now and then keeps what lies between us awake */
#define UNREAD_BYTES_MAX (1u << 20) /* who leaves more unread, */
#define UNREAD_MS        5000u      /* and for so long, is closed */

/* What a client that listens has beyond a connection. */
struct http_stream {
    struct subscription *subscriptions; /* owned */
    bool has_begun;                     /* its head is written */
    uint64_t begun;                     /* pass->answering then */
    bool has_missed;                    /* others were told before that */
    uint64_t unread_since_ms;           /* too much is unread; 0 = it is not */
};

struct http_changes {
    struct http_worker *worker; /* borrowed */
    uint64_t beat_ms;           /* of the last comment */
    struct channels_door door;
    struct channels channels;
};

/* ---- telling ---- */

static size_t write_number(uint64_t number, char to[FANOUT_PREFIX_BYTES])
{
    return (size_t)snprintf(to, FANOUT_PREFIX_BYTES, "id: %llu\n", (unsigned long long)number);
}

/* Is there no such counter? An item that nobody reacted to has 0 of each kind. */
static bool is_missing(const struct http_worker *worker, const struct op *op)
{
    struct slice item;
    uint8_t kind;
    return op->code == ERR_NOT_FOUND && !kinds_split(worker->service->kinds, op->id, &item, &kind);
}

/* data: {...}, and the empty line that ends an event. */
static void write_event(struct http_worker *worker, struct http_text *to, const struct op *op)
{
    HTTP_TEXT(to, "data: {\"id\":");
    http_text_string(to, op->id);
    HTTP_TEXT(to, ",\"value\":");
    if (is_missing(worker, op))
        HTTP_TEXT(to, "null");
    else
        http_text_number(to, &op->value);
    HTTP_TEXT(to, ",\"as_of\":\"");
    http_text_add(to, http_clock_time(&worker->clock));
    HTTP_TEXT(to, "\"}\n\n");
}

static void write_change(void *arg, const struct channel *channel, unsigned form,
                         const struct op *op, struct buffer *to)
{
    struct http_changes *changes = arg;
    (void)channel;
    (void)form;
    struct http_text text = {.bytes = *to};
    write_event(changes->worker, &text, op);
    *to = text.bytes;
}

/* What was read before the beginning of the stream is not told. */
static void deliver(void *arg, const struct subscription *one)
{
    struct http_changes *changes = arg;
    struct http_client *client = one->client;
    struct http_stream *stream = client->stream;
    if (!stream->has_begun)
        stream->has_missed = true;
    else if (stream->begun <= one->channel->told)
        fanout_publish(&changes->channels.fanout, &one->channel->streams[0], one->queue,
                       outbound_end(&client->out, &client->output.bytes));
}

static void answer_tell(void *client, const struct pass_request *request, struct op *ops)
{
    (void)client;
    struct http_changes *changes = request->extra;
    channels_tell(&changes->channels, ops);
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
    size_t lost = channels_ask(&changes->channels);
    if (lost > 0 && pass_may_warn(&worker->pass))
        message_warning("too many changes at once, listeners missed some door=http lost=%zu", lost);
    uint64_t now_ms = loop_now_ms(worker->loop);
    drop_deaf(worker, now_ms);
    if (now_ms - changes->beat_ms >= BEAT_MS) {
        changes->beat_ms = now_ms;
        beat(worker);
    }
    http_worker_end_pass(worker);
}

void http_changes_end_pass(struct http_changes *changes)
{
    fanout_new_pass(&changes->channels.fanout);
}

/* ---- life ---- */

struct http_changes *http_changes_new(struct http_worker *worker)
{
    struct http_changes *changes = memory_take_zeroed(sizeof(*changes));
    changes->worker = worker;
    changes->door = (struct channels_door){
        .tell = tell,
        .answer = answer_tell,
        .write = write_change,
        .deliver = deliver,
        .forms = 1,
        .bytes_max = http_door_options(worker->http)->output_bytes_max,
        .prefix = write_number,
    };
    /* The doors have mailboxes of their own: those of the first door come first. */
    channels_init(&changes->channels, &worker->pass, LIMIT_WORKERS + worker->index, &worker->share,
                  &changes->door, changes);
    return changes;
}

void http_changes_free(struct http_changes *changes)
{
    channels_done(&changes->channels);
    free(changes);
}

void http_changes_forget(struct http_client *client)
{
    struct http_stream *stream = client->stream;
    if (!stream)
        return;
    while (stream->subscriptions)
        channels_unsubscribe(&client->worker->changes->channels, stream->subscriptions);
    gauge_add(&client->worker->stats.listeners, (uint64_t)-1);
    fanout_queue_done(&client->feed);
    client->stream = NULL;
    free(stream);
}

/* ---- the handler ---- */

/* The head, and each counter as it is now: who comes back has missed nothing. What others were told
 * while this was out may be newer, and some of it may have been read earlier than the rest, which
 * was cold: then all is read once more, as is what could not be read. And what was read before
 * this, and comes back later, is not told. */
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
    channels_publish(&client->worker->changes->channels);
    HTTP_TEXT(output, "retry: 1000\n\n");
    client->stream->has_begun = true;
    client->stream->begun = client->base.pass->answering;
    struct http_worker *worker = client->worker;
    for (uint64_t i = 0; i < call->number; i++) {
        bool is_known = ops[i].code == ERR_OK || ops[i].code == ERR_NOT_FOUND;
        worker->body.bytes.size = 0;
        write_event(worker, &worker->body, &ops[i]);
        if (is_known) {
            char number[FANOUT_PREFIX_BYTES];
            size_t size = write_number(++client->feed.number, number);
            http_text_add(output, (struct slice){number, size});
            http_text_add(output, buffer_slice(&worker->body.bytes));
        }
        if (!is_known || client->stream->has_missed)
            channels_again(&worker->changes->channels, ops[i].id);
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
    if (values[1].size > 0 && !http_call_check_match(call, values[1]))
        return;
    size_t count = values[0].size > 0 ? http_call_read_ids(call, values[0]) : 0;
    if (values[0].size > 0 && count == 0)
        return;

    struct http_client *client = call->client;
    struct http_changes *changes = client->worker->changes;
    const struct pass *pass = &client->worker->pass;
    struct http_stream *stream = memory_take_zeroed(sizeof(*stream));
    client->stream = stream;
    client->out.shared = &client->feed;
    gauge_add(&client->worker->stats.listeners, 1);
    if (changes->channels.subscriptions == 0)
        changes->beat_ms = loop_now_ms(client->worker->loop);
    for (size_t i = 0; i < count; i++)
        channels_subscribe(&changes->channels, client, &client->feed, &stream->subscriptions,
                           pass->gathered.ops[pass->gathered.op_count - count + i].id, false);
    if (values[1].size > 0)
        channels_subscribe(&changes->channels, client, &client->feed, &stream->subscriptions,
                           values[1], true);
    call->number = count;
    http_call_submit_checked(call, count, answer_begin);
    pass_hold(&client->base, HTTP_HOLD_STREAM);
}
