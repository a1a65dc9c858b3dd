#include "door/resp/resp_worker.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/message.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_pubsub.h"

#define TICK_MS    1000u
#define HOLD_NS    200000u /* what waits to become safe waits no longer: about the time of a sync */
#define WARNING_MS 1000u

/* ---- the batch ---- */

static void free_numbers(struct op *op)
{
    if (__builtin_expect(op->amount.big || op->value.big, 0)) {
        number_done(&op->amount);
        number_done(&op->value);
    }
}

static void answer(struct resp_worker *worker, const struct resp_request *request)
{
    struct op *ops = worker->pass.ops + request->first;
    struct resp_client *client = request->client;

    request->answer(client, request, ops);
    uint64_t ticket = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        if (ops[i].ticket > ticket)
            ticket = ops[i].ticket;
        free_numbers(&ops[i]);
    }
    if (!client)
        return;
    if (ticket > client->ticket)
        client->ticket = ticket;
    client->unanswered--;
    resp_client_touch(client);
}

static void batch_done(struct batch *batch)
{
    struct resp_worker *worker = batch->arg;
    struct resp_pass *pass = &worker->pass;

    for (size_t i = 0; i < pass->request_count; i++)
        answer(worker, &pass->requests[i]);
    gauge_add(&worker->stats.batches, 1);
    gauge_add(&worker->stats.ops, pass->op_count);

    pass->op_count = 0;
    pass->request_count = 0;
    pass->op_limit = LIMIT_BATCH;
    worker->parser.scratch_used = 0;
    if (!worker->running) /* nobody else will see to what was answered */
        waker_wake(worker->waker);
}

/* Changes of passes that follow one another closely become safe together: the
 * log is held before the first, and let go when a pass brings nothing new. */
static void hold(struct resp_worker *worker)
{
    if (worker->held_ns != 0)
        return;
    service_hold(worker->service);
    worker->held_ns = env_monotonic_ns(worker->service->env);
}

static void launch_or_go_on(struct resp_worker *worker, bool brought_something)
{
    if (worker->held_ns == 0)
        return;
    if (brought_something && env_monotonic_ns(worker->service->env) - worker->held_ns < HOLD_NS) {
        loop_go_on(worker->loop);
        return;
    }
    worker->held_ns = 0;
    service_launch(worker->service);
}

bool resp_worker_run(struct resp_worker *worker)
{
    struct resp_pass *pass = &worker->pass;
    if (pass->op_limit == 0)
        return false;
    if (pass->request_count == 0)
        return true;

    pass->op_limit = 0;
    pass->batch.ops = pass->ops;
    pass->batch.count = pass->op_count;
    pass->batch.done = batch_done;
    pass->batch.arg = worker;
    worker->running = true;
    hold(worker);
    service_run(worker->service, &pass->batch);
    worker->running = false;
    worker->late = pass->op_limit == 0;
    return !worker->late;
}

/* ---- the end of a pass ---- */

/* Those that were held with requests left go on; they may well be held again. */
static void resume_clients(struct resp_worker *worker)
{
    struct resp_client *client = worker->resuming;
    worker->resuming = NULL;
    while (client) {
        struct resp_client *next = client->next_resuming;
        client->resuming = false;
        resp_client_resume(client);
        client = next;
    }
}

/* Lets go of those that waited for a batch that took longer than its pass. */
static void unhold_batch(struct resp_worker *worker)
{
    worker->late = false;
    for (struct resp_client *client = worker->clients; client; client = client->next)
        resp_client_unhold(client, RESP_HOLD_BATCH);
}

static void settle_touched(struct resp_worker *worker)
{
    if (!worker->touched)
        return;
    uint64_t safe = service_safe(worker->service);
    for (struct resp_client *client = worker->touched; client; client = client->next_touched)
        resp_client_settle(client, safe);
}

static void keep_promises_to(struct resp_worker *worker, uint64_t safe)
{
    const struct resp_promise *promise;
    while ((promise = resp_promises_first(&worker->promises)) && promise->ticket <= safe) {
        struct resp_client *client = promise->client;
        client->released = promise->end;
        client->promised--;
        resp_client_touch(client);
        resp_promises_drop_first(&worker->promises);
    }
}

/* Says which ticket is waited for before it looks at the log for the last
 * time: what is reached in between is either seen here or wakes us. */
static void keep_promises(struct resp_worker *worker)
{
    const struct resp_promise *promise = resp_promises_first(&worker->promises);
    while (promise && promise->ticket <= service_safe(worker->service)) {
        keep_promises_to(worker, service_safe(worker->service));
        promise = resp_promises_first(&worker->promises);
        waker_wait_for(worker->waker, promise ? promise->ticket : WAKER_NEVER);
    }
}

static void flush_touched(struct resp_worker *worker)
{
    struct resp_client *client = worker->touched;
    worker->touched = NULL;
    while (client) {
        struct resp_client *next = client->next_touched;
        client->touched = false;
        resp_client_flush(client);
        client = next;
    }
}

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
    bool is_free = worker->pass.op_limit != 0;
    if (is_free && worker->late)
        unhold_batch(worker);
    if (is_free && worker->resuming)
        resume_clients(worker);
    bool brings_something = worker->pass.request_count > 0;
    bool is_done = resp_worker_run(worker);
    launch_or_go_on(worker, brings_something);
    settle_touched(worker);
    const struct resp_promise *promise = resp_promises_first(&worker->promises);
    if (promise) {
        waker_wait_for(worker->waker, promise->ticket);
        keep_promises(worker);
    }
    flush_touched(worker);
    if (worker->dead)
        bury_dead(worker);
    if (is_done)
        resp_room_clear(&worker->pass.room);
    if (worker->draining)
        look_at_drain(worker);
}

static void end_pass(void *arg)
{
    resp_worker_end_pass(arg);
}

static void woken(void *arg)
{
    (void)arg; /* the end of the pass, which follows, does what is to be done */
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
    uint64_t commands = resp_worker_commands(worker);
    gauge_set(&worker->stats.rate, commands - worker->commands_last);
    worker->commands_last = commands;
}

bool resp_worker_may_warn(struct resp_worker *worker)
{
    uint64_t now_ms = loop_now_ms(worker->loop);
    if (worker->warned_ms != 0 && now_ms - worker->warned_ms < WARNING_MS)
        return false;
    worker->warned_ms = now_ms;
    return true;
}

/* ---- newcomers ---- */

static void turn_away(struct resp_worker *worker, int descriptor)
{
    static const char text[] = "-ERR max number of clients reached\r\n";
    gauge_add(&worker->stats.refused, 1);
    if (write(descriptor, text, sizeof(text) - 1) < 0) {
        /* It will see the end of the connection, and nothing else. */
    }
    close(descriptor);
    if (resp_worker_may_warn(worker))
        message_warning("too many connections, one was turned away");
}

static void accept_client(void *arg, int descriptor)
{
    struct resp_worker *worker = arg;
    if (resp_door_is_full(worker->resp))
        turn_away(worker, descriptor);
    else
        resp_client_new(worker, descriptor);
}

/* ---- what others ask of us ---- */

void resp_worker_ask(struct resp_worker *worker)
{
    gauge_add(&worker->asked, 1);
    waker_wake(worker->waker);
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
    resp_pass_init(&worker->pass, worker->service, index);
    resp_promises_init(&worker->promises);
    worker->pubsub = resp_pubsub_new(worker);
}

enum err resp_worker_start(struct resp_worker *worker, struct loop *loop,
                           const struct listener_options *options, struct error *error)
{
    assert(!worker->loop);

    struct listener_options mine = *options;
    mine.accept = accept_client;
    mine.arg = worker;
    worker->waker = waker_new(loop, woken, worker, error);
    if (!worker->waker)
        return error ? error->code : ERR_IO;
    worker->listener = listener_open(loop, &mine, error);
    if (!worker->listener) {
        waker_free(worker->waker);
        worker->waker = NULL;
        return error ? error->code : ERR_IO;
    }
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
    resp_pubsub_free(worker->pubsub);
    while (resp_promises_first(&worker->promises)) {
        resp_promises_first(&worker->promises)->client->promised--;
        resp_promises_drop_first(&worker->promises);
    }
    flush_touched(worker);
    worker->pass.op_limit = 0; /* what is left in the pass is never run */
    for (struct resp_client *client = worker->resuming; client; client = client->next_resuming)
        client->resuming = false;
    bury_dead(worker);

    listener_close(worker->listener);
    loop_hook_free(worker->hook);
    timer_free(worker->tick);
    waker_free(worker->waker);
    resp_promises_done(&worker->promises);
    resp_pass_done(&worker->pass);
    lock_done(&worker->lock);
}
