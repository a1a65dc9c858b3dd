#include "door/resp/resp_worker.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/message.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_pubsub.h"

#define TICK_MS 1000u

/* ---- the end of a pass ---- */

static void bury_dead(struct resp_worker *worker)
{
    struct resp_client **link = &worker->dead;
    while (*link) {
        struct resp_client *client = *link;
        struct resp_client *next = client->next_dead;
        if (resp_client_bury(client))
            *link = next;
        else
            link = &client->next_dead;
    }
}

static void look_at_asked(struct resp_worker *worker);
static void look_at_drain(struct resp_worker *worker);

void resp_worker_end_pass(struct resp_worker *worker)
{
    look_at_asked(worker);
    pass_end(&worker->pass);
    if (client_limits_is_over(worker->share.limits))
        client_share_evict(&worker->share, resp_client_evict);
    resp_pubsub_end_pass(worker->pubsub);
    if (worker->dead)
        bury_dead(worker);
    if (worker->draining)
        look_at_drain(worker);
}

static void end_pass(void *arg)
{
    resp_worker_end_pass(arg);
}

/* ---- once a second ---- */

uint64_t resp_worker_commands(const struct resp_worker *worker)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < RESP_COMMANDS_MAX; i++)
        sum += gauge_read(&worker->stats.calls[i]);
    return sum;
}

static void tick(void *arg)
{
    struct resp_worker *worker = arg;
    uint64_t now_ms = loop_now_ms(worker->loop);
    struct resp_client *next;
    for (struct resp_client *client = worker->clients; client; client = next) {
        next = client->next;
        resp_client_tick(client, now_ms);
    }
    pass_tick(&worker->pass);
    if (worker->listener)
        gauge_set(&worker->stats.turned_away, listener_turned_away(worker->listener));
    uint64_t commands = resp_worker_commands(worker);
    gauge_set(&worker->stats.rate, commands - worker->commands_last);
    worker->commands_last = commands;
}

/* ---- newcomers ---- */

static void turn_away(struct resp_worker *worker, int descriptor)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    gauge_add(&worker->stats.refused, 1);
    if (write(descriptor, text, sizeof(text) - 1) < 0) {
        /* It will see the end of the connection, and nothing else. */
    }
    listener_refuse(descriptor);
    if (pass_may_warn(&worker->pass))
        message_warning("too many connections, one was turned away");
}

static void accept_client(void *arg, int descriptor)
{
    struct resp_worker *worker = arg;
    struct client_limits *limits = resp_door_client_limits(worker->resp);
    if (!client_limits_admit(limits))
        turn_away(worker, descriptor);
    else if (!resp_client_new(worker, descriptor))
        client_limits_leave(limits);
}

/* ---- what others ask of us ---- */

void resp_worker_ask(struct resp_worker *worker)
{
    gauge_add(&worker->asked, 1);
    waker_wake(worker->pass.waker);
}

static void close_killed(struct resp_worker *worker)
{
    struct resp_client *next;
    for (struct resp_client *client = worker->clients; client; client = next) {
        next = client->next;
        lock_take(&worker->lock);
        bool killed = client->killed;
        lock_release(&worker->lock);
        if (killed)
            resp_client_finish(client);
    }
}

static void start_draining(struct resp_worker *worker)
{
    worker->draining = true;
    listener_close(worker->listener);
    worker->listener = NULL;
    struct resp_client *next;
    for (struct resp_client *client = worker->clients; client; client = next) {
        next = client->next;
        resp_client_finish(client);
    }
}

static void look_at_asked(struct resp_worker *worker)
{
    uint64_t asked = gauge_read(&worker->asked);
    if (asked == worker->asked_seen)
        return;
    worker->asked_seen = asked;

    lock_take(&worker->lock);
    bool drain = worker->drain_asked;
    lock_release(&worker->lock);
    close_killed(worker);
    if (drain && !worker->draining)
        start_draining(worker);
}

static void look_at_drain(struct resp_worker *worker)
{
    if (worker->clients || worker->dead || !worker->drained)
        return;
    resp_drained_fn *drained = worker->drained;
    worker->drained = NULL;
    drained(worker->drained_arg, worker->index);
}

/* ---- life ---- */

void resp_worker_init(struct resp_worker *worker, struct resp *resp, unsigned index)
{
    worker->resp = resp;
    worker->service = resp_door_service(resp);
    worker->commands = resp_door_commands(resp);
    worker->like = kinds_find(worker->service->kinds, SLICE("like"));
    worker->dislike = kinds_find(worker->service->kinds, SLICE("dislike"));
    worker->index = index;
    lock_init(&worker->lock);
    resp_parser_init(&worker->parser);
    pass_init(&worker->pass, worker->service, index, &resp_client_door);
    worker->pubsub = resp_pubsub_new(worker);
}

enum err resp_worker_start(struct resp_worker *worker, struct loop *loop,
                           const struct listener_options *options, struct error *error)
{
    assert(!worker->loop);

    struct listener_options mine = *options;
    mine.accept = accept_client;
    mine.arg = worker;
    enum err err = pass_start(&worker->pass, loop, error);
    if (err)
        return err;
    client_share_init(&worker->share, resp_door_client_limits(worker->resp), &worker->pass);
    worker->listener = listener_open(loop, &mine, error);
    if (!worker->listener)
        return error ? error->code : ERR_IO;
    worker->loop = loop;
    worker->hook = loop_hook_new(loop, end_pass, worker);
    worker->tick = timer_new(loop, tick, worker);
    timer_start(worker->tick, TICK_MS, TICK_MS);
    return ERR_OK;
}

void resp_worker_done(struct resp_worker *worker)
{
    while (worker->clients)
        resp_client_close(worker->clients);
    pass_stop(&worker->pass);
    resp_pubsub_free(worker->pubsub);
    bury_dead(worker);
    if (worker->loop)
        conn_close_lingering(worker->loop);
    client_share_done(&worker->share);

    listener_close(worker->listener);
    loop_hook_free(worker->hook);
    timer_free(worker->tick);
    pass_done(&worker->pass);
    lock_done(&worker->lock);
}
