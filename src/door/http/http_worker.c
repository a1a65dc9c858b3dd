#include "door/http/http_worker.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/message.h"
#include "door/http/http_changes.h"
#include "door/http/http_door.h"
#include "door/http/http_lines.h"

#define TICK_MS 1000u

#define BODY_BYTES_MAX (16u << 20) /* an answer; what is longer is written elsewhere */

/* ---- the end of a pass ---- */

static void bury_dead(struct http_worker *worker)
{
    struct http_client **link = &worker->dead;
    while (*link) {
        struct http_client *client = *link;
        struct http_client *next = client->next_dead;
        if (http_client_bury(client))
            *link = next;
        else
            link = &client->next_dead;
    }
}

static void look_at_asked(struct http_worker *worker);
static void look_at_drain(struct http_worker *worker);

void http_worker_end_pass(struct http_worker *worker)
{
    look_at_asked(worker);
    http_clock_set(&worker->clock, env_wall_ms(worker->service->env));
    if (worker->lines && pass_has_room(&worker->pass, 1))
        http_lines_go_on(worker);
    pass_end(&worker->pass);
    if (worker->lines && pass_has_room(&worker->pass, 1)) /* else who makes room wakes us */
        waker_wake(worker->pass.waker);
    if (client_limits_is_over(worker->share.limits))
        client_share_evict(&worker->share, http_client_evict);
    http_changes_end_pass(worker->changes);
    if (worker->dead)
        bury_dead(worker);
    if (worker->draining)
        look_at_drain(worker);
}

static void end_pass(void *arg)
{
    http_worker_end_pass(arg);
}

/* ---- once a second ---- */

static void tick(void *arg)
{
    struct http_worker *worker = arg;
    uint64_t now_ms = loop_now_ms(worker->loop);
    struct http_client *next;
    for (struct http_client *client = worker->clients; client; client = next) {
        next = client->next;
        http_client_tick(client, now_ms);
    }
    buffer_shrink(&worker->body.bytes, ROOM_BLOCK_BYTES);
    pass_tick(&worker->pass);
    if (worker->listener)
        gauge_set(&worker->stats.turned_away, listener_turned_away(worker->listener));
    http_worker_end_pass(worker);
}

/* ---- newcomers ---- */

static void turn_away(struct http_worker *worker, int descriptor)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
                               "Content-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
    gauge_add(&worker->stats.refused, 1);
    if (write(descriptor, text, sizeof(text) - 1) < 0) {
        /* It will see the end of the connection, and nothing else. */
    }
    listener_refuse(descriptor);
    if (pass_may_warn(&worker->pass))
        message_warning("too many connections, one was turned away door=http");
}

static void accept_client(void *arg, int descriptor)
{
    struct http_worker *worker = arg;
    struct client_limits *limits = http_door_client_limits(worker->http);
    if (!client_limits_admit(limits))
        turn_away(worker, descriptor);
    else if (!http_client_new(worker, descriptor))
        client_limits_leave(limits);
}

/* ---- what others ask of us ---- */

void http_worker_ask(struct http_worker *worker)
{
    gauge_add(&worker->asked, 1);
    if (worker->pass.waker)
        waker_wake(worker->pass.waker);
}

static void start_draining(struct http_worker *worker)
{
    worker->draining = true;
    listener_close(worker->listener);
    worker->listener = NULL;
    struct http_client *next;
    for (struct http_client *client = worker->clients; client; client = next) {
        next = client->next;
        http_client_finish(client);
    }
}

static void look_at_asked(struct http_worker *worker)
{
    uint64_t asked = gauge_read(&worker->asked);
    if (asked == worker->asked_seen)
        return;
    worker->asked_seen = asked;

    lock_take(&worker->lock);
    bool drain = worker->drain_asked;
    lock_release(&worker->lock);
    if (drain && !worker->draining)
        start_draining(worker);
}

static void look_at_drain(struct http_worker *worker)
{
    if (worker->clients || worker->dead || !worker->drained)
        return;
    http_drained_fn *drained = worker->drained;
    worker->drained = NULL;
    drained(worker->drained_arg, worker->index);
}

/* ---- life ---- */

/* The names of the kinds as they stand in every answer about reactions. */
static void write_kinds(struct http_worker *worker)
{
    const struct kinds *kinds = worker->service->kinds;
    size_t ends[LIMIT_KINDS + 1];
    struct http_text *text = &worker->kinds_text;
    http_text_init(text, ROOM_BLOCK_BYTES);
    for (unsigned kind = 0; kind <= kinds->count; kind++) {
        if (kind == KIND_NONE)
            HTTP_TEXT(text, "null");
        else
            http_text_string(text, kinds_name(kinds, (uint8_t)kind));
        ends[kind] = text->bytes.size;
    }
    for (unsigned kind = 0; kind <= kinds->count; kind++) {
        size_t begin = kind == 0 ? 0 : ends[kind - 1];
        worker->kinds[kind] = (struct slice){text->bytes.data + begin, ends[kind] - begin};
    }
}

void http_worker_init(struct http_worker *worker, struct http *http, struct service *service,
                      unsigned index)
{
    worker->http = http;
    worker->service = service;
    worker->like = kinds_find(service->kinds, SLICE("like"));
    worker->index = index;
    write_kinds(worker);
    lock_init(&worker->lock);
    pass_init(&worker->pass, service, index, &http_client_door);
    http_text_init(&worker->body, BODY_BYTES_MAX);
    http_lines_init(worker);
    worker->values = memory_take(HTTP_JSON_VALUES * sizeof(*worker->values));
    worker->changes = http_changes_new(worker);
}

enum err http_worker_start(struct http_worker *worker, struct loop *loop,
                           const struct listener_options *options, struct error *error)
{
    assert(!worker->loop);

    struct listener_options mine = *options;
    mine.accept = accept_client;
    mine.arg = worker;
    enum err err = pass_start(&worker->pass, loop, error);
    if (err)
        return err;
    client_share_init(&worker->share, http_door_client_limits(worker->http), &worker->pass);
    worker->listener = listener_open(loop, &mine, error);
    if (!worker->listener)
        return error ? error->code : ERR_IO;
    worker->loop = loop;
    worker->hook = loop_hook_new(loop, end_pass, worker);
    worker->tick = timer_new(loop, tick, worker);
    timer_start(worker->tick, TICK_MS, TICK_MS);
    return ERR_OK;
}

void http_worker_done(struct http_worker *worker)
{
    while (worker->clients)
        http_client_close(worker->clients);
    http_lines_stop(worker);
    pass_stop(&worker->pass);
    bury_dead(worker);
    http_changes_free(worker->changes);
    if (worker->loop)
        conn_close_lingering(worker->loop);
    client_share_done(&worker->share);

    listener_close(worker->listener);
    if (worker->hook)
        loop_hook_free(worker->hook);
    timer_free(worker->tick);
    pass_done(&worker->pass);
    http_text_done(&worker->body);
    http_text_done(&worker->kinds_text);
    http_text_done(&worker->lines_spare);
    free(worker->values);
    lock_done(&worker->lock);
}
