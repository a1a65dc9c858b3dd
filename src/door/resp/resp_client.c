#include "door/resp/resp_client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/message.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_multi.h"
#include "door/resp/resp_pubsub.h"
#include "door/resp/resp_worker.h"

/* A read is offered at least so much space. A tail that leaves less of a block
 * is read on in memory of its own. */
#define READ_BYTES_MIN   (16u << 10)
#define SMALL_TAIL_BYTES (ROOM_BLOCK_BYTES - READ_BYTES_MIN)

/* Not read from while more output than this waits, until it is down to a half. */
#define OUTPUT_HOLD_BYTES (1u << 20)

#define IDLE_BUFFER_MS 5000u /* who is silent for so long keeps no buffers */

#define STRANGER_REQUEST_BYTES (20u << 10) /* before AUTH: one request with all its arguments */

#define ERROR_TEXT_SIZE 512u

/* ---- life ---- */

static void ready(void *arg, int what);

static void link_client(struct resp_worker *worker, struct resp_client *client)
{
    lock_take(&worker->lock);
    client->next = worker->clients;
    if (client->next)
        client->next->previous = client;
    worker->clients = client;
    lock_release(&worker->lock);
    gauge_add(&worker->stats.connections, 1);
    gauge_add(&worker->stats.accepted, 1);
}

static void unlink_client(struct resp_worker *worker, struct resp_client *client)
{
    lock_take(&worker->lock);
    if (client->previous)
        client->previous->next = client->next;
    else
        worker->clients = client->next;
    if (client->next)
        client->next->previous = client->previous;
    lock_release(&worker->lock);
    gauge_add(&worker->stats.connections, (uint64_t)-1);
}

/* What is not taken fits: a request that is not whole, or the requests of one read. */
static size_t tail_bytes_max(const struct resp_options *options)
{
    size_t bytes = options->query_bytes_max;
    return (bytes > ROOM_BLOCK_BYTES ? bytes : ROOM_BLOCK_BYTES) + READ_BYTES_MIN;
}

struct resp_client *resp_client_new(struct resp_worker *worker, int descriptor)
{
    const struct resp_options *options = resp_door_options(worker->resp);
    struct resp_client *client = memory_take_zeroed(sizeof(*client));
    struct error error;
    client->conn = conn_new(worker->loop, descriptor, ready, client, &error);
    if (!client->conn) {
        message_warning("connection dropped: %s", error.text);
        free(client);
        return NULL;
    }
    client->base.pass = &worker->pass;
    client->worker = worker;
    client->usage.client = client;
    client->id = resp_door_next_id(worker->resp);
    buffer_init(&client->tail, tail_bytes_max(options));
    resp_reply_init(&client->reply, options->output_bytes_max);
    client->lacks = password_is_set(resp_door_password(worker->resp)) ? RESP_COMMAND_STRANGER : 0;

    client->descriptor = descriptor;
    conn_peer(client->conn, client->peer);
    conn_local(client->conn, client->local);
    client->connected_ms = loop_now_ms(worker->loop);
    gauge_set(&client->active_ms, client->connected_ms);
    gauge_set(&client->version, 2);

    link_client(worker, client);
    conn_want(client->conn, CONN_READ);
    return client;
}

/* `lingers`: the other side may still send, and is to get the last answers. */
static void let_go(struct resp_client *client, bool lingers)
{
    if (!client->conn)
        return;

    struct resp_worker *worker = client->worker;
    pass_leave(&client->base, client->is_evicted);
    resp_pubsub_forget(client);
    fanout_queue_done(&client->feed);
    unlink_client(worker, client);
    struct client_limits *limits = worker->share.limits;
    if (lingers) {
        conn_finish(client->conn, client_limits_leave, limits);
    } else {
        conn_close(client->conn);
        client_limits_leave(limits);
    }
    client->conn = NULL;
    client->closing = true;
    client->next_dead = worker->dead;
    worker->dead = client;
}

void resp_client_close(struct resp_client *client)
{
    let_go(client, false);
}

static size_t input_bytes(const struct resp_client *client)
{
    return client->tail.capacity + resp_multi_bytes(client) + pass_waiting_bytes(&client->base);
}

static size_t output_bytes(const struct resp_client *client)
{
    return client->reply.bytes.capacity + fanout_queue_bytes(&client->feed);
}

static bool is_stranger(const struct resp_client *client)
{
    return (client->lacks & RESP_COMMAND_STRANGER) != 0;
}

/* Its buffers have changed, maybe. */
static void measure(struct resp_client *client)
{
    client_usage_set(&client->worker->share, &client->usage,
                     (struct client_memory){
                         .input = input_bytes(client),
                         .output = output_bytes(client),
                         .lag = fanout_queue_lag(&client->feed),
                         .is_stranger = is_stranger(client),
                     });
}

static void free_buffers(struct resp_client *client)
{
    resp_multi_forget(client);
    buffer_done(&client->tail);
    buffer_done(&client->reply.bytes);
    client->out.sent = 0;
    client_usage_set(&client->worker->share, &client->usage, (struct client_memory){.input = 0});
}

void resp_client_evict(void *arg)
{
    struct resp_client *client = arg;
    struct pass *pass = &client->worker->pass;
    if (client->conn && pass_may_warn(pass))
        message_warning("connection closed, all clients together use too much memory door=resp "
                        "peer=%s bytes=%zu lag=%zu",
                        client->peer, client_usage_bytes(&client->usage), client->usage.lag);
    client->is_evicted = true;
    let_go(client, false);
    free_buffers(client);
}

bool resp_client_bury(struct resp_client *client)
{
    if (pass_names(&client->base))
        return false;
    fanout_queue_done(&client->feed);
    free_buffers(client);
    free(client);
    return true;
}

/* What is to be told of: input unless it is held or closing, room for output
 * while something waits to be sent. */
static void update_wants(struct resp_client *client)
{
    if (!client->conn)
        return;
    int wants = 0;
    if (!client->closing && client->base.held == 0)
        wants |= CONN_READ;
    if (outbound_ready(&client->out, client->base.released) > 0)
        wants |= CONN_WRITE;
    conn_want(client->conn, wants);
}

void resp_client_finish(struct resp_client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    closing_progress(&client->progress, loop_now_ms(client->worker->loop));
    resp_client_touch(client);
    update_wants(client);
}

static void held(struct pass_client *base)
{
    update_wants((struct resp_client *)base);
}

/* ---- input ---- */

static void refuse(struct resp_client *client, const char *why)
{
    struct resp_worker *worker = client->worker;
    gauge_add(&worker->stats.protocol_errors, 1);
    if (pass_may_warn(&worker->pass))
        message_warning("protocol error peer=%s: %s", client->peer, why);
    resp_client_fail(client, "ERR %s", why);
    resp_client_finish(client);
}

/* Keeps what was not taken of `data`, and nothing of it in the room. */
static void keep_tail(struct resp_client *client, struct slice data, struct slice rest)
{
    struct room *room = &client->worker->pass.gathered.room;
    bool some_taken = rest.size < data.size;
    if (client->closing || rest.size == 0) {
        client->tail.size = 0;
        client->partial_since_ms = 0;
        return;
    }
    if (some_taken || client->partial_since_ms == 0)
        client->partial_since_ms = loop_now_ms(client->worker->loop);
    if (!some_taken && !client->tail.data && room_return(room, data.data, &client->tail)) {
        client->tail.size = rest.size;
        return;
    }
    if (buffer_append_slice(&client->tail, rest) != ERR_OK)
        resp_client_close(client); /* no memory */
    room_give_back(room, rest.data, rest.data + rest.size);
}

/* Words that the parser has unquoted lie in its scratch: they get a place beside the others. */
static void move_words(struct resp_client *client, struct resp_parser *parser)
{
    const char *scratch = parser->scratch;
    for (unsigned i = 0; i < parser->argc; i++) {
        struct slice *word = &parser->argv[i];
        if (word->data < scratch || word->data >= scratch + sizeof(parser->scratch))
            continue;
        size_t size;
        char *copy = room_look(&client->worker->pass.gathered.room, word->size, &size);
        room_take(&client->worker->pass.gathered.room, word->size);
        word->data = memcpy(copy, word->data, word->size);
    }
}

/* What the parser has found instead of a request is refused, or there is more to come. False: it
 * cannot be refused yet, since a refusal stands behind the answers before it. */
static __attribute__((cold, noinline)) bool end_requests(struct resp_client *client,
                                                         enum resp_found found)
{
    const struct resp_parser *parser = &client->worker->parser;
    size_t max = parser->stranger ? STRANGER_REQUEST_BYTES
                                  : resp_door_options(client->worker->resp)->query_bytes_max;
    if (found == RESP_MORE && parser->need <= max) {
        client->need = parser->need;
        return true;
    }
    if (!pass_has_room(&client->worker->pass, 0))
        return false;
    refuse(client, found == RESP_MORE ? "Protocol error: too big request" : parser->error);
    return true;
}

static bool has_password(const struct resp_parser *parser)
{
    return parser->argc > 0 &&
           (slice_equal_nocase(parser->argv[0], SLICE("auth")) ||
            (slice_equal_nocase(parser->argv[0], SLICE("hello")) && parser->argc > 2));
}

/* A password of somebody from whose address wrong ones came has to wait for its turn. False: the
 * client is held, or was refused. */
static __attribute__((cold, noinline)) bool may_authenticate(struct resp_client *client)
{
    struct auth_throttle *throttle = &client->worker->share.limits->auth;
    if (!has_password(&client->worker->parser))
        return true;
    uint64_t wait_ms = auth_throttle_wait(throttle, conn_network(client->conn),
                                          loop_now_ms(client->worker->loop), &client->auth_turn);
    if (wait_ms == 0)
        return true;
    if (wait_ms != AUTH_NEVER) {
        pass_hold(&client->base, RESP_HOLD_AUTH);
        return false;
    }
    gauge_add(&client->worker->stats.auth_failures, 1);
    resp_client_fail(client,
                     "ERR too many wrong passwords came from this address. Try again later.");
    resp_client_finish(client);
    return false;
}

/* Takes requests from `at` on until the bytes end or the client is held. Returns where that is. */
static const char *take_some(struct resp_client *client, const char *at, const char *end)
{
    struct resp_parser *parser = &client->worker->parser;
    while (at < end && !client->closing && client->base.held == 0) {
        parser->stranger = (client->lacks & RESP_COMMAND_STRANGER) != 0;
        enum resp_found found = resp_parse(parser, (struct slice){at, (size_t)(end - at)});
        if (found != RESP_REQUEST) {
            if (end_requests(client, found))
                break;
            pass_wait(&client->base);
            continue;
        }
        if (parser->scratch_used > 0)
            move_words(client, parser);
        if (__builtin_expect(parser->stranger, 0) && !may_authenticate(client))
            continue;
        if (!resp_command_run(client, parser->argc, parser->argv)) {
            pass_wait(&client->base);
            continue;
        }
        at += parser->used;
        if (outbound_waiting(&client->out, &client->reply.bytes) > OUTPUT_HOLD_BYTES)
            pass_hold(&client->base, RESP_HOLD_OUTPUT);
    }
    return at;
}

/* What could not be taken of a transaction goes before what follows it, as if it had come so. */
static void keep_both(struct resp_client *client, struct slice queued, struct slice rest)
{
    struct buffer *tail = &client->tail;
    if (client->closing) {
        client->partial_since_ms = 0;
        return;
    }
    client->partial_since_ms = loop_now_ms(client->worker->loop);
    if (tail->max < queued.size + rest.size + READ_BYTES_MIN)
        tail->max = queued.size + rest.size + READ_BYTES_MIN;
    if (buffer_append_slice(tail, queued) || buffer_append_slice(tail, rest))
        resp_client_close(client); /* no memory */
}

/* EXEC was taken, and the client is held: takes what was queued, then what follows up to the next
 * EXEC. Returns where that is; NULL: the rest is in the tail already. */
static __attribute__((cold, noinline)) const char *take_queued(struct resp_client *client,
                                                               const char *at, const char *end)
{
    struct slice queued = resp_multi_begin(client);
    const char *queued_end = queued.data + queued.size;
    const char *next = take_some(client, queued.data, queued_end);
    if (next == queued_end)
        return take_some(client, at, end);
    keep_both(client, (struct slice){next, (size_t)(queued_end - next)},
              (struct slice){at, (size_t)(end - at)});
    return NULL;
}

/* Takes requests until the bytes end or the client is held. The bytes stay
 * where they are until the pass is over; the tail is empty. */
static void take_requests(struct resp_client *client, struct slice data)
{
    const char *end = data.data + data.size;
    client->need = 0;
    const char *at = take_some(client, data.data, end);
    while (at && (client->base.held & RESP_HOLD_EXEC))
        at = take_queued(client, at, end);
    if (at)
        keep_tail(client, data, (struct slice){at, (size_t)(end - at)});
}

/* Takes what lies in the tail. */
static void take_tail(struct resp_client *client)
{
    struct room *room = &client->worker->pass.gathered.room;
    struct slice data = buffer_slice(&client->tail);
    if (data.size <= SMALL_TAIL_BYTES) {
        size_t size;
        char *copy = room_look(room, data.size, &size);
        memcpy(copy, data.data, data.size);
        room_take(room, data.size);
        data.data = copy;
        client->tail.size = 0;
    } else {
        room_adopt(room, &client->tail);
    }
    take_requests(client, data);
}

static void resume(struct pass_client *base)
{
    struct resp_client *client = (struct resp_client *)base;
    if (client->conn && client->base.held == 0 && !client->closing &&
        client->tail.size > client->need && !pass_must_wait(base))
        take_tail(client);
}

/* False when nothing was read: not yet, or never again. */
static bool has_read(struct resp_client *client, ssize_t got)
{
    if (got > 0) {
        gauge_set(&client->active_ms, loop_now_ms(client->worker->loop));
        gauge_add(&client->worker->stats.bytes_in, (uint64_t)got);
        return true;
    }
    if (got == 0)
        resp_client_finish(client);
    else if (got == CONN_BROKEN)
        resp_client_close(client);
    return false;
}

/* The usual way: behind the tail's bytes in the room of the pass. */
static void read_into_room(struct resp_client *client)
{
    struct room *room = &client->worker->pass.gathered.room;
    struct buffer *tail = &client->tail;
    size_t size;
    char *space = room_look(room, tail->size + READ_BYTES_MIN, &size);
    ssize_t got = conn_read(client->conn, space + tail->size, size - tail->size);
    if (!has_read(client, got))
        return;

    size_t whole = tail->size + (size_t)got;
    if (whole < client->need) {
        if (buffer_append(tail, space + tail->size, (size_t)got) != ERR_OK)
            resp_client_close(client); /* no memory */
        return;
    }
    if (tail->size > 0)
        memcpy(space, tail->data, tail->size);
    tail->size = 0;
    room_take(room, whole);
    take_requests(client, (struct slice){space, whole});
}

/* A large request: it gathers in the tail. */
static void read_into_tail(struct resp_client *client)
{
    struct buffer *tail = &client->tail;
    if (buffer_reserve(tail, READ_BYTES_MIN) != ERR_OK) {
        resp_client_close(client); /* no memory */
        return;
    }
    ssize_t got = conn_read(client->conn, tail->data + tail->size, tail->capacity - tail->size);
    if (!has_read(client, got))
        return;

    tail->size += (size_t)got;
    if (tail->size >= client->need)
        take_tail(client);
}

/* ---- output ---- */

static void settle(struct pass_client *base, uint64_t safe)
{
    struct resp_client *client = (struct resp_client *)base;
    if (!client->conn)
        return;
    struct resp_worker *worker = client->worker;
    if (client->reply.overflow || client->feed.is_dropped) {
        gauge_add(&worker->stats.overflows, 1);
        if (pass_may_warn(&worker->pass))
            message_warning("connection closed, its answers pile up peer=%s", client->peer);
        resp_client_close(client);
        return;
    }

    bool is_released = pass_settle(base, outbound_end(&client->out, &client->reply.bytes), safe);
    if (!is_released && outbound_waiting(&client->out, &client->reply.bytes) > OUTPUT_HOLD_BYTES)
        pass_hold(base, RESP_HOLD_OUTPUT);
}

/* False when the connection is gone. */
static bool send_released(struct resp_client *client)
{
    size_t size = outbound_ready(&client->out, client->base.released);
    if (size == 0)
        return true;
    ssize_t sent =
        outbound_send(&client->out, &client->reply.bytes, client->base.released, client->conn);
    if (sent == CONN_BROKEN) {
        resp_client_close(client);
        return false;
    }
    gauge_add(&client->worker->stats.bytes_out, (uint64_t)sent);
    if (sent > 0 && ((size_t)sent < size || client->closing)) {
        uint64_t now_ms = loop_now_ms(client->worker->loop);
        gauge_set(&client->active_ms, now_ms);
        closing_progress(&client->progress, now_ms);
    }
    return true;
}

static void flush(struct pass_client *base)
{
    struct resp_client *client = (struct resp_client *)base;
    if (!client->conn || !send_released(client))
        return;

    size_t waiting = outbound_waiting(&client->out, &client->reply.bytes);
    if (client->closing && waiting == 0 && client->base.unanswered == 0) {
        let_go(client, true);
        return;
    }
    if (waiting <= OUTPUT_HOLD_BYTES / 2)
        pass_unhold(base, RESP_HOLD_OUTPUT);
    measure(client);
    update_wants(client);
}

const struct pass_door resp_client_door = {
    .held = held,
    .resume = resume,
    .settle = settle,
    .flush = flush,
};

static void ready(void *arg, int what)
{
    struct resp_client *client = arg;
    if (what & CONN_WRITE) {
        client->out.is_full = false;
        flush(&client->base);
    }
    if (!(what & CONN_READ) || !client->conn || client->closing || client->base.held != 0 ||
        client->base.resuming || pass_must_wait(&client->base))
        return;
    if (client->tail.size <= SMALL_TAIL_BYTES)
        read_into_room(client);
    else if (!client_limits_is_over(client->worker->share.limits))
        read_into_tail(client); /* else when the worst ones are closed */
    if (client->conn)
        measure(client);
}

/* ---- time ---- */

static bool is_overdue(uint64_t since_ms, uint64_t now_ms, uint64_t limit_ms)
{
    return limit_ms > 0 && since_ms > 0 && now_ms - since_ms > limit_ms;
}

static bool is_timed_out(struct resp_client *client, uint64_t now_ms)
{
    struct resp_limits limits = resp_door_limits(client->worker->resp);
    bool subscribed = client->subscriptions != NULL;
    size_t unsent = outbound_ready(&client->out, client->base.released);
    return (client->closing && closing_is_stuck(&client->progress, client->conn, unsent, now_ms)) ||
           (!subscribed && client->base.promised == 0 && client->base.unanswered == 0 &&
            is_overdue(gauge_read(&client->active_ms), now_ms,
                       limits.idle_timeout_s * UINT64_C(1000))) ||
           (client->base.held == 0 && is_overdue(client->partial_since_ms, now_ms,
                                                 limits.partial_timeout_s * UINT64_C(1000)));
}

void resp_client_tick(struct resp_client *client, uint64_t now_ms)
{
    if (is_timed_out(client, now_ms)) {
        gauge_add(&client->worker->stats.timeouts, 1);
        resp_client_close(client);
        return;
    }
    if (now_ms - gauge_read(&client->active_ms) > IDLE_BUFFER_MS) {
        buffer_shrink(&client->tail, 0);
        buffer_shrink(&client->reply.bytes, 0);
    }
    fanout_queue_tick(&client->feed);
    measure(client);
    if (now_ms >= client->auth_turn.at_ms)
        pass_unhold(&client->base, RESP_HOLD_AUTH);
}

/* ---- for the handlers of commands ---- */

/* Takes back the last `count` ops and answers what is wrong with them. */
static __attribute__((cold, noinline)) void refuse_ops(struct resp_client *client, size_t count)
{
    struct pass *pass = &client->worker->pass;
    struct error error = {.code = ERR_INVALID};
    pass_check(pass, count, &error);
    pass_undo(pass, count);
    resp_client_fail_with(client, &error);
}

bool resp_client_submit(struct resp_client *client, size_t count, pass_answer_fn *answer,
                        void *extra)
{
    struct pass *pass = &client->worker->pass;
    if (!pass_is_plain(pass, count) && !pass_check(pass, count, NULL)) {
        refuse_ops(client, count);
        return false;
    }
    pass_request(pass, client, count, answer, extra);
    return true;
}

static void answer_failure(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)ops;
    resp_reply_error(&client->reply, "%s", (const char *)request->extra);
}

/* Errors are the one answer that is ready at once and does not wait for the
 * requests before it to run: they are put into their place in the pass. */
static void fail(struct resp_client *client, const char *text)
{
    gauge_add(&client->worker->stats.errors, 1);
    if (client->base.unanswered == 0) {
        resp_reply_error(&client->reply, "%s", text);
        resp_client_touch(client);
        return;
    }
    struct pass *pass = &client->worker->pass;
    size_t size = strlen(text) + 1;
    char *copy = room_alloc(&pass->gathered.room, size);
    memcpy(copy, text, size);
    pass_request(pass, client, 0, answer_failure, copy);
}

void resp_client_fail(struct resp_client *client, const char *format, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fail(client, text);
}

void resp_client_fail_with(struct resp_client *client, const struct error *error)
{
    char text[ERROR_TEXT_SIZE];
    resp_reply_describe(error->code, error->text, text, sizeof(text));
    fail(client, text);
}

void resp_client_fail_syntax(struct resp_client *client)
{
    fail(client, "ERR syntax error");
}

void resp_client_fail_integer(struct resp_client *client)
{
    fail(client, "ERR value is not an integer or out of range");
}

void resp_client_answer_code(struct resp_client *client, enum err code)
{
    char text[ERROR_TEXT_SIZE];
    char meaning[SERVICE_MEANING_BYTES];
    resp_reply_describe(code, service_meaning(client->worker->service, code, meaning), text,
                        sizeof(text));
    resp_reply_error(&client->reply, "%s", text);
    gauge_add(&client->worker->stats.errors, 1);
}
