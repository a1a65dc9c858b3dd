#include "door/pass/pass.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "door/pass/park.h"
#include "door/pass/pass_own.h"

#define WARNING_MS 1000u

#define HOLD_NS 200000u /* what waits to become safe waits no longer: about the time of a sync */

/* An errand that is out for so long waits for a server that does not answer, most likely: others
 * may go beside it. */
#define LATE_NS     50000000u
#define PATIENCE_MS 25u

/* ---- life ---- */

static void group_init(struct pass_group *group)
{
    *group = (struct pass_group){
        .ops = memory_take_zeroed(LIMIT_BATCH * sizeof(*group->ops)),
        .requests = memory_take_zeroed(LIMIT_BATCH * sizeof(*group->requests)),
    };
    room_init(&group->room);
}

static void group_done(struct pass_group *group)
{
    room_done(&group->room);
    free(group->ops);
    free(group->requests);
}

void pass_init(struct pass *pass, struct service *service, unsigned worker,
               const struct pass_door *door)
{
    assert(service && door);

    *pass = (struct pass){.service = service, .door = door, .worker = worker};
    atomic_init(&pass->cold_seen, UINT64_MAX);
    group_init(&pass->gathered);
    for (size_t i = 0; i < PASS_ERRANDS; i++)
        pass->errands[i].pass = pass;
    promises_init(&pass->promises);
    promises_init(&pass->late);
}

static void woken(void *arg)
{
    (void)arg; /* the end of the pass, which follows, does what is to be done */
}

static void out_of_patience(void *arg)
{
    struct pass *pass = arg;
    waker_wake(pass->waker);
}

enum err pass_start(struct pass *pass, struct loop *loop, struct error *error)
{
    assert(!pass->loop);

    pass->waker = waker_new(loop, woken, pass, error);
    if (!pass->waker)
        return error ? error->code : ERR_IO;
    pass->patience = timer_new(loop, out_of_patience, pass);
    pass->loop = loop;
    return ERR_OK;
}

void pass_done(struct pass *pass)
{
    timer_free(pass->patience);
    waker_free(pass->waker);
    promises_done(&pass->promises);
    promises_done(&pass->late);
    group_done(&pass->gathered);
    for (size_t i = 0; i < PASS_ERRANDS; i++)
        if (pass->errands[i].group.ops)
            group_done(&pass->errands[i].group);
}

/* ---- gathering ---- */

void pass_undo(struct pass *pass, size_t count)
{
    while (count-- > 0)
        number_done(&pass->gathered.ops[--pass->gathered.op_count].amount);
}

bool pass_check(const struct pass *pass, size_t count, struct error *error)
{
    const struct op *op = pass->gathered.ops + pass->gathered.op_count - count;
    for (; count > 0; op++, count--) {
        if (service_check(pass->service, op, error) != ERR_OK)
            return false;
    }
    return true;
}

/* ---- clients ---- */

void pass_hold(struct pass_client *client, unsigned why)
{
    client->held |= why;
    client->pass->door->held(client);
}

void pass_unhold(struct pass_client *client, unsigned why)
{
    if (!(client->held & why))
        return;
    struct pass *pass = client->pass;
    client->held &= ~why;
    if (client->held == 0 && !client->resuming) {
        client->resuming = true;
        client->next_resuming = pass->resuming;
        pass->resuming = client;
        waker_wake(pass->waker);
    }
    pass->door->held(client);
}

/* The tickets have been let go; the log may be down all the same. */
static void release(const struct promise *promise)
{
    struct pass_client *client = promise->client;
    struct pass *pass = client->pass;
    uint64_t from = client->released;
    client->released = promise->end;
    if (__builtin_expect(promise->first == 0, 1) ||
        !service_is_weak(pass->service, promise->first, promise->ticket))
        return;
    if (promise->must_log && pass->door->lose) {
        client->released = from;
        pass->door->lose(client);
    } else if (pass->door->weaken) {
        pass->door->weaken(client, from, promise->end);
    }
}

static bool is_stuck(struct service *service, const struct promise *promise)
{
    return __builtin_expect(promise->first != 0, 0) &&
           service_is_stuck(service, promise->first, promise->ticket);
}

bool pass_settle(struct pass_client *client, uint64_t end, uint64_t safe)
{
    if (end == client->settled)
        return true;
    client->settled = end;
    struct promise promise = {
        .client = client,
        .ticket = client->ticket,
        .first = client->first,
        .must_log = client->must_log,
        .end = end,
    };
    client->first = 0;
    client->must_log = false;
    if (client->promised == 0 && client->ticket <= safe &&
        !is_stuck(client->pass->service, &promise)) {
        release(&promise);
        return true;
    }
    client->promised++;
    promises_add(&client->pass->promises, promise);
    return false;
}

/* ---- the batch ---- */

/* Which tickets the client's next promise will rest on. Of no interest as long as the log is our
 * own: that is either there, or nothing is. */
static void note_tickets(const struct pass_request *request, const struct op *ops)
{
    struct pass_client *client = request->client;
    for (uint32_t i = 0; client && i < request->count; i++) {
        if (ops[i].ticket == 0)
            continue;
        if (client->first == 0 || ops[i].ticket < client->first)
            client->first = ops[i].ticket;
        client->must_log = client->must_log || ops[i].must_log;
    }
}

/* Only a hot layer that is elsewhere can be behind. What the worker reads for its subscribers is no
 * request of a client: it is not told until it is up to date (channels_tell()). */
static void note_stale(struct pass *pass, const struct pass_request *request, struct op *ops)
{
    for (uint32_t i = 0; request->client && i < request->count; i++) {
        if (op_is_behind(&ops[i]) && pass_refuses_stale(pass))
            ops[i].code = ERR_STALE;
    }
}

void pass_answer(struct pass *pass, const struct pass_request *request, struct op *ops)
{
    struct pass_answered *answered = &pass->answered;
    if (pass->service->relay) {
        note_tickets(request, ops);
        note_stale(pass, request, ops);
    }
    uint64_t ticket = 0;
    request->answer(request->client, request, ops);
    for (uint32_t i = 0; i < request->count; i++)
        pass_op_answered(pass, &ops[i], &ticket, &answered->writes);
    answered->ops += request->count;
    if (ticket > answered->ticket)
        answered->ticket = ticket;
    pass_client_answered(request->client, ticket);
}

/* The usual case: nothing is cold, nothing parked, and most requests have one op. Says
 * where it ends. */
static size_t answer_until_cold(struct pass *pass, const struct pass_group *group)
{
    uint64_t singles = 0;
    uint64_t writes = 0;
    uint64_t highest = pass->answered.ticket;
    bool has_relay = pass->service->relay != NULL;
    size_t i = 0;
    for (; i < group->request_count; i++) {
        const struct pass_request *request = &group->requests[i];
        struct op *ops = group->ops + request->first;
        if (request->count != 1 || has_relay) {
            if (pass_is_cold(request, ops))
                break;
            pass_answer(pass, request, ops);
            continue;
        }
        if (__builtin_expect(ops->code == ERR_COLD, 0))
            break;
        uint64_t ticket = 0;
        request->answer(request->client, request, ops);
        pass_op_answered(pass, ops, &ticket, &writes);
        if (ticket > highest)
            highest = ticket;
        pass_client_answered(request->client, ticket);
        singles++;
    }
    pass->answered.ops += singles;
    pass->answered.writes += writes;
    if (highest > pass->answered.ticket)
        pass->answered.ticket = highest;
    return i;
}

static void answer_all(struct pass *pass, struct pass_group *group)
{
    gauge_add(&pass->stats.batches, 1);
    gauge_add(&pass->stats.ops, group->op_count);
    size_t i = pass->parked ? 0 : answer_until_cold(pass, group);
    if (__builtin_expect(i < group->request_count, 0))
        park_requests(pass, group, i);
    group->op_count = 0;
    group->request_count = 0;
}

/* Changes of passes that follow one another closely become safe together: the
 * log is held before the first, and let go when a pass brings nothing new. */
static void hold(struct pass *pass, const struct pass_group *group)
{
    if (pass->held_ns != 0 || !service_holds(pass->service))
        return;
    service_hold(pass->service);
    pass->held_ns = group->start_ns;
}

static void launch_or_go_on(struct pass *pass, bool brought_something, uint64_t now_ns)
{
    if (pass->held_ns == 0)
        return;
    if (brought_something && now_ns - pass->held_ns < HOLD_NS) {
        loop_go_on(pass->loop);
        return;
    }
    pass->held_ns = 0;
    service_launch(pass->service);
}

/* ---- errands ---- */

static void answer_errand(struct pass *pass, struct pass_errand *errand, struct pass_group *group)
{
    pass->now_ms = errand->batch.now_ms;
    pass->answering = group->number;
    errand->done(pass, group);
}

/* Also times what it has answered. */
static void finish_errand(struct pass *pass, struct pass_errand *errand)
{
    answer_errand(pass, errand, &errand->group);
    if (pass->answered.ops > 0)
        pass_count_answered(pass, errand->group.start_ns, env_monotonic_ns(pass->service->env));
    park_clear_room(&errand->group);
    errand->is_out = false;
    pass->errand_count--;
}

static void batch_done(struct batch *batch)
{
    struct pass_errand *errand = batch->arg;
    struct pass *pass = errand->pass;
    if (!errand->is_out) {
        errand->is_done = true;
        return;
    }
    finish_errand(pass, errand);
    if (!pass->collecting)
        waker_wake(pass->waker); /* nobody else will see to what was answered */
}

size_t pass_count_prompt(const struct pass *pass)
{
    size_t count = 0;
    uint64_t now_ns = env_monotonic_ns(pass->service->env);
    for (const struct pass_errand *errand = pass->errands; errand < pass->errands + PASS_ERRANDS;
         errand++)
        count += errand->is_out && errand->group.request_count > 0 &&
                 now_ns - errand->group.start_ns < LATE_NS;
    return count;
}

struct pass_errand *pass_next_errand(struct pass *pass)
{
    assert(pass->errand_count < PASS_ERRANDS);

    struct pass_errand *errand = pass->errands;
    while (errand->is_out)
        errand++;
    if (!errand->group.ops)
        group_init(&errand->group);
    return errand;
}

/* What was gathered becomes the errand's; what comes now is gathered anew. What was answered before
 * in this pass is timed as if it had begun now. */
static void take_gathered(struct pass *pass, struct pass_errand *errand)
{
    struct pass_group empty = errand->group;
    errand->group = pass->gathered;
    pass->gathered = empty;
    pass->gathered.start_ns = errand->group.start_ns;
    pass->group_number++;
}

bool pass_send(struct pass *pass, struct pass_errand *errand, struct pass_group *group,
               pass_run_fn *done)
{
    errand->batch = (struct batch){
        .ops = group->ops,
        .count = group->op_count,
        .worker = pass->worker,
        .done = batch_done,
        .arg = errand,
    };
    errand->done = done;
    errand->is_done = false;
    group->start_ns = env_monotonic_ns(pass->service->env);
    group->number = ++pass->runs;
    hold(pass, group);
    service_run(pass->service, &errand->batch);
    if (errand->is_done) {
        answer_errand(pass, errand, group);
        return true;
    }
    if (group == &pass->gathered)
        take_gathered(pass, errand);
    errand->is_out = true;
    pass->errand_count++;
    return false;
}

bool pass_run(struct pass *pass)
{
    if (pass->gathered.request_count == 0)
        return true;
    if (!pass_may_run(pass))
        return false;
    pass->gathered.arrivals =
        atomic_load_explicit(&pass->service->hot->arrivals, memory_order_acquire);
    return pass_send(pass, pass_next_errand(pass), &pass->gathered, answer_all);
}

void pass_hold_until_answered(struct pass_client *client)
{
    struct pass *pass = client->pass;
    client->for_room = client->unanswered == client->parked;
    pass_hold(client, PASS_HOLD_BATCH);
    if (!client->waiting) {
        client->waiting = true;
        client->next_waiting = pass->waiting;
        pass->waiting = client;
    }
}

void pass_wait(struct pass_client *client)
{
    if (!pass_run(client->pass))
        pass_hold_until_answered(client);
}

/* ---- the end of a pass ---- */

/* Lets go of those that have waited for their answers, or for room only. */
static void unhold_answered(struct pass *pass)
{
    bool has_room = pass->gathered.request_count == 0 || pass_may_run(pass);
    struct pass_client **link = &pass->waiting;
    while (*link) {
        struct pass_client *client = *link;
        if (client->unanswered > client->parked || (client->for_room && !has_room)) {
            link = &client->next_waiting;
            continue;
        }
        *link = client->next_waiting;
        client->waiting = false;
        pass_unhold(client, PASS_HOLD_BATCH);
    }
}

/* Those that were held with requests left go on; they may well be held again. */
static void resume_clients(struct pass *pass)
{
    struct pass_client *client = pass->resuming;
    pass->resuming = NULL;
    while (client) {
        struct pass_client *next = client->next_resuming;
        client->resuming = false;
        pass->door->resume(client);
        client = next;
    }
}

static void settle_touched(struct pass *pass)
{
    if (!pass->touched)
        return;
    uint64_t safe = service_safe(pass->service);
    for (struct pass_client *client = pass->touched; client; client = client->next_touched)
        pass->door->settle(client, safe);
}

static void keep_promise(const struct promise *promise)
{
    promise->client->promised--;
    pass_touch(promise->client);
    release(promise);
}

/* Counted before it is looked at again: what is let go in between is either seen there or wakes us.
 */
static void keep_later(struct pass *pass, const struct promise *promise)
{
    promise->client->late++;
    promises_add(&pass->late, *promise);
    atomic_store(&pass->late_count, pass->late.count);
}

static void keep_promises_to(struct pass *pass, uint64_t safe)
{
    const struct promise *promise;
    uint64_t rounds = service_rounds(pass->service);
    while ((promise = promises_first(&pass->promises)) && promise->ticket <= safe) {
        if (pass->late.count == 0)
            pass->late_seen = rounds;
        if (promise->client->late > 0 || is_stuck(pass->service, promise))
            keep_later(pass, promise);
        else
            keep_promise(promise);
        promises_drop_first(&pass->promises);
    }
}

/* Those of each client in their order. */
static void keep_late_promises(struct pass *pass)
{
    if (pass->late.count == 0 || service_rounds(pass->service) == pass->late_seen)
        return;
    pass->late_seen = service_rounds(pass->service);
    pass->late_round++;
    for (size_t left = pass->late.count; left > 0; left--) {
        struct promise promise = *promises_first(&pass->late);
        struct pass_client *client = promise.client;
        promises_drop_first(&pass->late);
        if (client->late_round == pass->late_round || is_stuck(pass->service, &promise)) {
            client->late_round = pass->late_round;
            promises_add(&pass->late, promise);
        } else {
            client->late--;
            keep_promise(&promise);
        }
    }
    atomic_store(&pass->late_count, pass->late.count);
}

/* Says which ticket is waited for before it looks at the log for the last
 * time: what is reached in between is either seen here or wakes us. */
static void keep_promises(struct pass *pass)
{
    const struct promise *promise = promises_first(&pass->promises);
    if (!promise)
        return;
    waker_wait_for(pass->waker, promise->ticket);
    while (promise && promise->ticket <= service_safe(pass->service)) {
        keep_promises_to(pass, service_safe(pass->service));
        promise = promises_first(&pass->promises);
        waker_wait_for(pass->waker, promise ? promise->ticket : WAKER_NEVER);
    }
}

static void flush_touched(struct pass *pass)
{
    struct pass_client *client = pass->touched;
    pass->touched = NULL;
    while (client) {
        struct pass_client *next = client->next_touched;
        client->touched = false;
        pass->door->flush(client);
        client = next;
    }
}

/* One worker of several doors has one hot_collect(): whichever of its passes ends first collects
 * for all. */
static void collect(struct pass *pass)
{
    if (pass->errand_count == 0)
        return;
    pass->collecting = true;
    hot_collect(pass->service->hot, pass->worker);
    pass->collecting = false;
}

static void publish(struct pass *pass)
{
    void (*all)(void *arg) = pass->publish;
    pass->publish = NULL;
    all(pass->publish_arg);
}

void pass_end(struct pass *pass)
{
    collect(pass);
    if (pass->tick_waits)
        park_tick(pass);
    if (pass->waiting)
        unhold_answered(pass);
    if (pass->resuming)
        resume_clients(pass);
    bool brings_something = pass->gathered.request_count > 0;
    pass_run(pass);
    if (pass->parked)
        park_look(pass);
    uint64_t now_ns = 0;
    if (brings_something || pass->answered.ops > 0)
        now_ns = env_monotonic_ns(pass->service->env);
    if (pass->answered.ops > 0)
        pass_count_answered(pass, pass->gathered.start_ns, now_ns);
    launch_or_go_on(pass, brings_something, now_ns);
    if (pass->publish)
        publish(pass);
    settle_touched(pass);
    keep_promises(pass);
    keep_late_promises(pass);
    if (pass->flight_count > 0)
        pass_count_safe(pass, service_safe(pass->service));
    flush_touched(pass);
    if (pass->gathered.request_count > 0) {
        if (!timer_runs(pass->patience))
            timer_start(pass->patience, PATIENCE_MS, 0);
        return;
    }
    park_clear_room(&pass->gathered);
    if (pass->room_was_full) {
        pass->room_was_full = false;
        waker_wake(pass->waker);
    }
}

void pass_tick(struct pass *pass)
{
    park_tick(pass);
}

bool pass_may_warn(struct pass *pass)
{
    uint64_t now_ms = loop_now_ms(pass->loop);
    if (pass->warned_ms != 0 && now_ms - pass->warned_ms < WARNING_MS)
        return false;
    pass->warned_ms = now_ms;
    return true;
}

void pass_reached(struct pass *pass, uint64_t safe)
{
    if (!pass->waker)
        return;
    waker_reached(pass->waker, safe);
    if (atomic_load(&pass->late_count) > 0)
        waker_wake(pass->waker);
    if (atomic_load(&pass->cold_seen) < atomic_load(&pass->service->hot->arrivals))
        waker_wake(pass->waker);
}

void pass_finished(struct pass *pass)
{
    if (pass->waker)
        waker_wake(pass->waker);
}

/* The hot layer writes into our ops until it is done with them, which it is soon: nothing that it
 * waits for is waited for without end. */
static void await_errands(struct pass *pass)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    while (pass->errand_count > 0) {
        collect(pass);
        (void)nanosleep(&moment, NULL);
    }
}

static void forget_promises(struct promises *promises)
{
    while (promises_first(promises)) {
        promises_first(promises)->client->promised--;
        promises_drop_first(promises);
    }
}

void pass_stop(struct pass *pass)
{
    await_errands(pass);
    forget_promises(&pass->promises);
    forget_promises(&pass->late);
    for (size_t i = 0; i < pass->gathered.op_count; i++) /* they are never run */
        pass->gathered.ops[i].code = ERR_UNAVAILABLE;
    answer_all(pass, &pass->gathered);
    park_stop(pass);
    for (struct pass_client *client = pass->touched; client; client = client->next_touched)
        client->touched = false;
    for (struct pass_client *client = pass->resuming; client; client = client->next_resuming)
        client->resuming = false;
    for (struct pass_client *client = pass->waiting; client; client = client->next_waiting)
        client->waiting = false;
    pass->touched = pass->resuming = pass->waiting = NULL;
}
