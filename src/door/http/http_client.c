#include "door/http/http_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "door/http/http_call.h"
#include "door/http/http_changes.h"
#include "door/http/http_door.h"
#include "door/http/http_worker.h"

/* A read is offered at least so much space. A tail that leaves less of a block
 * is read on in memory of its own. */
#define READ_BYTES_MIN   (16u << 10)
#define SMALL_TAIL_BYTES (ROOM_BLOCK_BYTES - READ_BYTES_MIN)

#define TAIL_BYTES_MAX \
    (HTTP_HEAD_BYTES_MAX + HTTP_BATCH_BYTES_MAX + HTTP_CHUNK_BYTES_MAX + READ_BYTES_MIN)

/* Not read from while more output than this waits, until it is down to a half. */
#define OUTPUT_HOLD_BYTES (1u << 20)

#define IDLE_BUFFER_MS 5000u /* who is silent for so long keeps no buffers */

/* ---- life ---- */

static void ready(void *arg, int what);

static void link_client(struct http_worker *worker, struct http_client *client)
{
    client->next = worker->clients;
    if (client->next)
        client->next->previous = client;
    worker->clients = client;
    gauge_add(&worker->stats.connections, 1);
    gauge_add(&worker->stats.accepted, 1);
}

static void unlink_client(struct http_worker *worker, struct http_client *client)
{
    if (client->previous)
        client->previous->next = client->next;
    else
        worker->clients = client->next;
    if (client->next)
        client->next->previous = client->previous;
    gauge_add(&worker->stats.connections, (uint64_t)-1);
}

struct http_client *http_client_new(struct http_worker *worker, int descriptor)
{
    struct http_client *client = memory_take_zeroed(sizeof(*client));
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
    http_parser_init(&client->parser);
    buffer_init(&client->tail, TAIL_BYTES_MAX);
    http_text_init(&client->output, http_door_options(worker->http)->output_bytes_max);
    conn_peer(client->conn, client->peer);
    client->active_ms = loop_now_ms(worker->loop);
    link_client(worker, client);
    conn_want(client->conn, CONN_READ);
    return client;
}

/* `lingers`: the other side may still send, and is to get the last answers. */
static void let_go(struct http_client *client, bool lingers)
{
    if (!client->conn)
        return;

    struct http_worker *worker = client->worker;
    pass_leave(&client->base, client->is_evicted);
    http_changes_forget(client);
    unlink_client(worker, client);
    worker->input_bytes -= client->counted;
    client->counted = 0;
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

void http_client_close(struct http_client *client)
{
    let_go(client, false);
}

static size_t input_bytes(const struct http_client *client)
{
    return client->tail.capacity + client->lines_input + pass_waiting_bytes(&client->base);
}

static size_t output_bytes(const struct http_client *client)
{
    return client->output.bytes.capacity + client->lines_output + fanout_queue_bytes(&client->feed);
}

static bool is_stranger(const struct http_client *client)
{
    return !client->is_trusted && password_is_set(http_door_password(client->worker->http));
}

void http_client_measure(struct http_client *client)
{
    client_usage_set(&client->worker->share, &client->usage,
                     (struct client_memory){
                         .input = input_bytes(client),
                         .output = output_bytes(client),
                         .lag = fanout_queue_lag(&client->feed),
                         .is_stranger = is_stranger(client),
                     });
}

static void free_buffers(struct http_client *client)
{
    buffer_done(&client->tail);
    buffer_done(&client->output.bytes);
    client->out.sent = 0;
    client_usage_set(&client->worker->share, &client->usage, (struct client_memory){.input = 0});
}

void http_client_evict(void *arg)
{
    struct http_client *client = arg;
    struct pass *pass = &client->worker->pass;
    if (client->conn && pass_may_warn(pass))
        message_warning("connection closed, all clients together use too much memory door=http "
                        "peer=%s bytes=%zu lag=%zu",
                        client->peer, client_usage_bytes(&client->usage), client->usage.lag);
    client->is_evicted = true;
    let_go(client, false);
    free_buffers(client);
}

bool http_client_bury(struct http_client *client)
{
    if (pass_names(&client->base) || client->base.held & HTTP_HOLD_LINES)
        return false;
    fanout_queue_done(&client->feed);
    free_buffers(client);
    free(client);
    return true;
}

/* What is to be told of: input unless it is held or closing, room for output
 * while something waits to be sent. Of who listens only its leaving is of interest. */
static void update_wants(struct http_client *client)
{
    if (!client->conn)
        return;
    int wants = 0;
    if (!client->closing && (client->base.held & ~(unsigned)HTTP_HOLD_STREAM) == 0)
        wants |= CONN_READ;
    if (outbound_ready(&client->out, client->base.released) > 0)
        wants |= CONN_WRITE;
    conn_want(client->conn, wants);
}

void http_client_finish(struct http_client *client)
{
    if (client->closing)
        return;
    client->closing = true;
    closing_progress(&client->progress, loop_now_ms(client->worker->loop));
    pass_touch(&client->base);
    update_wants(client);
}

static void held(struct pass_client *base)
{
    update_wants((struct http_client *)base);
}

/* ---- input ---- */

/* Keeps what was not taken of `data`, and nothing of it in the room. */
static void keep_tail(struct http_client *client, struct slice data, struct slice rest)
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
        http_client_close(client); /* no memory */
    room_give_back(room, rest.data, rest.data + rest.size);
}

/* The head is there, and it may send the body: says so if it waits for that. False:
 * the answers before that have to be given first. */
static bool tell_to_continue(struct http_client *client)
{
    if (client->base.unanswered > 0)
        return false;
    HTTP_TEXT(&client->output, "HTTP/1.1 100 Continue\r\n\r\n");
    pass_touch(&client->base);
    client->wants_continue = false;
    return true;
}

/* A password from an address from which wrong ones came has to wait for its turn; not that of who
 * has said it on this connection before. False: the client is held, or was refused. */
static bool may_authenticate(struct http_client *client)
{
    struct http_worker *worker = client->worker;
    if (client->is_trusted || !password_is_set(http_door_password(worker->http)) ||
        !client->parser.request.headers[HTTP_HEADER_AUTHORIZATION].data)
        return true;
    uint64_t wait_ms = auth_throttle_wait(&worker->share.limits->auth, conn_network(client->conn),
                                          loop_now_ms(worker->loop), &client->auth_turn);
    if (wait_ms == 0)
        return true;
    if (wait_ms != AUTH_NEVER) {
        pass_hold(&client->base, HTTP_HOLD_AUTH);
        return false;
    }
    gauge_add(&worker->stats.auth_failures, 1);
    if (!http_call_refuse(client, 429, "too many wrong passwords came from this address"))
        pass_wait(&client->base);
    return false;
}

/* One step with what lies at `at`. False: it goes on when more has come, or when it
 * is not held any more. */
static bool take_step(struct http_client *client, char **at, char *end)
{
    struct http_parser *parser = &client->parser;
    if (client->wants_continue && !tell_to_continue(client)) {
        pass_wait(&client->base);
        return true;
    }
    switch (http_parse(parser, *at, (size_t)(end - *at))) {
    case HTTP_FOUND_MORE:
        return false;
    case HTTP_FOUND_HEAD:
        if (may_authenticate(client) && !http_call_may_send(client))
            pass_wait(&client->base);
        return true;
    case HTTP_FOUND_BROKEN:
        if (!http_call_refuse(client, parser->status, parser->error))
            pass_wait(&client->base);
        return true;
    case HTTP_FOUND_REQUEST:
        if (!may_authenticate(client))
            return true;
        if (!http_call_take(client)) {
            pass_wait(&client->base);
            return true;
        }
        *at += parser->used;
        http_parser_next(parser);
        if (http_client_waiting(client) > OUTPUT_HOLD_BYTES)
            pass_hold(&client->base, HTTP_HOLD_OUTPUT);
        return true;
    }
    abort(); /* nothing else is found */
}

/* Takes requests until the bytes end or the client is held. The bytes stay
 * where they are until the pass is over; the tail is empty. */
static void take_requests(struct http_client *client, char *data, size_t size)
{
    char *at = data;
    char *end = data + size;
    while (at < end && !client->closing && client->base.held == 0) {
        if (!take_step(client, &at, end))
            break;
    }
    if (client->conn)
        keep_tail(client, (struct slice){data, size}, (struct slice){at, (size_t)(end - at)});
}

/* Takes what lies in the tail. */
static void take_tail(struct http_client *client)
{
    struct room *room = &client->worker->pass.gathered.room;
    size_t size = client->tail.size;
    char *data = client->tail.data;
    if (size <= SMALL_TAIL_BYTES) {
        size_t space;
        char *copy = room_look(room, size, &space);
        memcpy(copy, data, size);
        room_take(room, size);
        data = copy;
        client->tail.size = 0;
    } else {
        room_adopt(room, &client->tail);
    }
    take_requests(client, data, size);
}

/* Who sends a large body when many do already is refused: each may, all at once may
 * not. In its turn: who is not read from will not send more. */
static void account(struct http_client *client)
{
    struct http_worker *worker = client->worker;
    worker->input_bytes += client->tail.size - client->counted;
    client->counted = client->tail.size;
    if (client->counted > SMALL_TAIL_BYTES && !client->closing && client->base.held == 0 &&
        worker->input_bytes > http_door_options(worker->http)->input_bytes_max &&
        !pass_must_wait(&client->base))
        (void)http_call_refuse(client, 429, "too many large bodies at once");
}

static void resume(struct pass_client *base)
{
    struct http_client *client = (struct http_client *)base;
    if (client->conn && client->base.held == 0 && !client->closing && client->tail.size > 0 &&
        client->tail.size >= client->parser.need && !pass_must_wait(base))
        take_tail(client);
    if (client->conn)
        account(client);
}

/* False when nothing was read: not yet, or never again. */
static bool has_read(struct http_client *client, ssize_t got)
{
    if (got > 0) {
        client->active_ms = loop_now_ms(client->worker->loop);
        gauge_add(&client->worker->stats.bytes_in, (uint64_t)got);
        return true;
    }
    if (got == 0)
        http_client_finish(client);
    else if (got == CONN_BROKEN)
        http_client_close(client);
    return false;
}

/* The usual way: behind the tail's bytes in the room of the pass. */
static void read_into_room(struct http_client *client)
{
    struct room *room = &client->worker->pass.gathered.room;
    struct buffer *tail = &client->tail;
    size_t size;
    char *space = room_look(room, tail->size + READ_BYTES_MIN, &size);
    ssize_t got = conn_read(client->conn, space + tail->size, size - tail->size);
    if (!has_read(client, got))
        return;

    size_t whole = tail->size + (size_t)got;
    if (whole < client->parser.need) {
        if (buffer_append(tail, space + tail->size, (size_t)got) != ERR_OK)
            http_client_close(client); /* no memory */
        return;
    }
    if (tail->size > 0)
        memcpy(space, tail->data, tail->size);
    tail->size = 0;
    room_take(room, whole);
    take_requests(client, space, whole);
}

/* A large request: it gathers in the tail. */
static void read_into_tail(struct http_client *client)
{
    struct buffer *tail = &client->tail;
    size_t need = client->parser.need > tail->size ? client->parser.need - tail->size : 0;
    size_t extra = need > READ_BYTES_MIN ? need : READ_BYTES_MIN;
    if (tail->size + extra > TAIL_BYTES_MAX)
        extra = TAIL_BYTES_MAX - tail->size;
    if (buffer_reserve(tail, extra) != ERR_OK) {
        http_client_close(client); /* no memory */
        return;
    }
    ssize_t got = conn_read(client->conn, tail->data + tail->size, tail->capacity - tail->size);
    if (!has_read(client, got))
        return;

    tail->size += (size_t)got;
    if (tail->size >= client->parser.need)
        take_tail(client);
}

/* Who listens to changes has nothing more to say. */
static void read_away(struct http_client *client)
{
    char bytes[4096];
    has_read(client, conn_read(client->conn, bytes, sizeof(bytes)));
}

/* ---- output ---- */

static void settle(struct pass_client *base, uint64_t safe)
{
    struct http_client *client = (struct http_client *)base;
    if (!client->conn)
        return;
    struct http_worker *worker = client->worker;
    if (client->output.overflow || client->feed.is_dropped) {
        gauge_add(&worker->stats.overflows, 1);
        if (pass_may_warn(&worker->pass))
            message_warning("connection closed, its answers pile up peer=%s", client->peer);
        http_client_close(client);
        return;
    }

    bool is_released = pass_settle(base, outbound_end(&client->out, &client->output.bytes), safe);
    if (!is_released && http_client_waiting(client) > OUTPUT_HOLD_BYTES)
        pass_hold(base, HTTP_HOLD_OUTPUT);
}

/* False when the connection is gone. */
static bool send_released(struct http_client *client)
{
    size_t size = outbound_ready(&client->out, client->base.released);
    if (size == 0)
        return true;
    ssize_t sent =
        outbound_send(&client->out, &client->output.bytes, client->base.released, client->conn);
    if (sent == CONN_BROKEN) {
        http_client_close(client);
        return false;
    }
    gauge_add(&client->worker->stats.bytes_out, (uint64_t)sent);
    if (sent > 0 && ((size_t)sent < size || client->closing)) {
        client->active_ms = loop_now_ms(client->worker->loop);
        closing_progress(&client->progress, client->active_ms);
    }
    return true;
}

static void flush(struct pass_client *base)
{
    struct http_client *client = (struct http_client *)base;
    if (!client->conn || !send_released(client))
        return;

    size_t waiting = http_client_waiting(client);
    if (client->closing && waiting == 0 && client->base.unanswered == 0 &&
        !(client->base.held & HTTP_HOLD_LINES)) {
        let_go(client, true);
        return;
    }
    if (waiting <= OUTPUT_HOLD_BYTES / 2)
        pass_unhold(base, HTTP_HOLD_OUTPUT);
    http_client_measure(client);
    update_wants(client);
}

static void ready(void *arg, int what)
{
    struct http_client *client = arg;
    if (what & CONN_WRITE) {
        client->out.is_full = false;
        flush(&client->base);
    }
    if (!(what & CONN_READ) || !client->conn || client->closing)
        return;
    if (client->stream)
        read_away(client);
    else if (client->base.held != 0 || client->base.resuming || pass_must_wait(&client->base))
        return;
    else if (client->tail.size <= SMALL_TAIL_BYTES)
        read_into_room(client);
    else if (!client_limits_is_over(client->worker->share.limits))
        read_into_tail(client); /* else when the worst ones are closed */
    if (client->conn && client->tail.size != client->counted)
        account(client);
    if (client->conn)
        http_client_measure(client);
}

/* An answer says "ack":"log" where it is made, and "ack":"hot" where that turns out to be too
 * much: the word is as long. No text of a user's can be these bytes, since a quote within a string
 * is escaped. */
static void weaken(struct pass_client *base, uint64_t from, uint64_t to)
{
    static const char strong[] = "\"ack\":\"log\"";
    static const char weak[] = "\"ack\":\"hot\"";
    struct http_client *client = (struct http_client *)base;
    if (!client->conn)
        return;
    assert(from >= client->out.dropped + client->out.sent && to >= from);
    char *at = client->output.bytes.data + (from - client->out.dropped);
    char *end = client->output.bytes.data + (to - client->out.dropped);
    while ((at = memmem(at, (size_t)(end - at), strong, sizeof(strong) - 1)))
        at = memcpy(at, weak, sizeof(weak) - 1);
}

static void lose(struct pass_client *base)
{
    http_client_close((struct http_client *)base);
}

const struct pass_door http_client_door = {
    .held = held,
    .resume = resume,
    .settle = settle,
    .flush = flush,
    .weaken = weaken,
    .lose = lose,
};

/* ---- time ---- */

static bool is_overdue(uint64_t since_ms, uint64_t now_ms, uint64_t limit_s)
{
    return limit_s > 0 && since_ms > 0 && now_ms - since_ms > limit_s * UINT64_C(1000);
}

/* Does it not finish what it has begun to send? */
static bool is_slow(const struct http_client *client, uint64_t now_ms)
{
    if (client->base.held != 0 || client->base.unanswered > 0)
        return false;
    const struct http *http = client->worker->http;
    uint64_t limit_s = client->parser.has_head ? http_door_limits(http).partial_timeout_s
                                               : http_door_options(http)->head_timeout_s;
    return is_overdue(client->partial_since_ms, now_ms, limit_s);
}

static bool is_silent(const struct http_client *client, uint64_t now_ms)
{
    bool waits = client->base.promised > 0 || client->base.unanswered > 0 || client->stream ||
                 client->base.held & HTTP_HOLD_LINES;
    return !waits && is_overdue(client->active_ms, now_ms,
                                http_door_limits(client->worker->http).idle_timeout_s);
}

/* Does it not take its last answers? */
static bool is_stuck(struct http_client *client, uint64_t now_ms)
{
    size_t unsent = outbound_ready(&client->out, client->base.released);
    return client->closing && closing_is_stuck(&client->progress, client->conn, unsent, now_ms);
}

void http_client_tick(struct http_client *client, uint64_t now_ms)
{
    if (is_stuck(client, now_ms)) {
        http_client_close(client);
        return;
    }
    if (!client->closing && is_slow(client, now_ms)) {
        gauge_add(&client->worker->stats.timeouts, 1);
        http_call_time_out(client);
        return;
    }
    if (is_silent(client, now_ms)) {
        gauge_add(&client->worker->stats.timeouts, 1);
        http_client_close(client);
        return;
    }
    if (now_ms - client->active_ms > IDLE_BUFFER_MS) {
        buffer_shrink(&client->tail, 0);
        buffer_shrink(&client->output.bytes, 0);
    }
    fanout_queue_tick(&client->feed);
    http_client_measure(client);
    if (now_ms >= client->auth_turn.at_ms)
        pass_unhold(&client->base, HTTP_HOLD_AUTH);
}
