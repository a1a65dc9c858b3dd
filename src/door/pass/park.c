#include "door/pass/park.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "door/pass/pass_own.h"

/* Then the store will not be waited for any longer; with many nodes others can be asked. */
#define COLD_MAX_NS       UINT64_C(10000000000)
#define COLD_MAX_NODES_NS UINT64_C(5000000000)

/* What one pass has parked. Behind it, in the same piece of memory: the ops, the
 * requests, and the things that ops point to. */
struct parked {
    struct parked *next;
    uint64_t seen; /* hot->arrivals before its cold ops were last run */
    uint64_t since_ns;
    bool retrying;          /* its cold ops are in the batch under way */
    struct park_room *room; /* what `extra` of a request points into; NULL: nothing does */
    struct pass_job *job;   /* of its only request; NULL: no job */
    size_t cold;            /* ops */
    size_t op_count;
    size_t request_count;
    struct op *ops;
    struct pass_request *requests; /* `answer` NULL: answered */
};

/* The room of a group of which something is parked that points into it. */
struct park_room {
    unsigned users; /* the group, while it lasts, and what is parked of it */
    struct room room;
};

static struct park_room *room_use(struct pass_group *group)
{
    if (!group->kept) {
        group->kept = memory_take(sizeof(*group->kept));
        group->kept->users = 1;
        room_init(&group->kept->room);
    }
    group->kept->users++;
    return group->kept;
}

static void room_let_go(struct park_room *kept)
{
    if (!kept || --kept->users > 0)
        return;
    room_done(&kept->room);
    free(kept);
}

void park_clear_room(struct pass_group *group)
{
    struct park_room *kept = group->kept;
    group->kept = NULL;
    if (kept && kept->users > 1)
        room_move(&group->room, &kept->room);
    else
        room_clear(&group->room);
    room_let_go(kept);
}

/* ---- parking ---- */

/* What an op points to, in the order in which it is copied. */
static size_t aligned(size_t size)
{
    return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

static size_t things_size(const struct pass *pass, const struct op *op)
{
    size_t size = op->counts ? pass->service->kinds->count * sizeof(*op->counts) : 0;
    if (op->kind == OP_CREATE)
        size = aligned(size) + sizeof(*op->create);
    if (op->kind == OP_DESCRIBE)
        size = aligned(size) + sizeof(*op->describe);
    return aligned(size + op->id.size + op->user.size + op->key.size + op->region.size);
}

static void copy_bytes(struct slice *slice, char **to)
{
    if (!slice->data)
        return;
    memcpy(*to, slice->data, slice->size);
    slice->data = *to;
    *to += slice->size;
}

static void *copy_thing(const void *thing, size_t size, char *start, char **to)
{
    *to = start + aligned((size_t)(*to - start));
    void *copy = memcpy(*to, thing, size);
    *to += size;
    return copy;
}

/* The op's own copies of what it points to. A page is the request's, and stays. */
static void copy_things(const struct pass *pass, struct op *op, char *start)
{
    char *to = start;
    if (op->counts)
        op->counts =
            copy_thing(op->counts, pass->service->kinds->count * sizeof(*op->counts), start, &to);
    if (op->kind == OP_CREATE)
        op->create = copy_thing(op->create, sizeof(*op->create), start, &to);
    if (op->kind == OP_DESCRIBE)
        op->describe = copy_thing(op->describe, sizeof(*op->describe), start, &to);
    copy_bytes(&op->id, &to);
    copy_bytes(&op->user, &to);
    copy_bytes(&op->key, &to);
    copy_bytes(&op->region, &to);
}

/* All parts in one piece. */
static struct parked *parked_new(size_t op_count, size_t request_count, size_t things_bytes,
                                 char **ret_things)
{
    size_t head = aligned(sizeof(struct parked));
    size_t ops = aligned(op_count * sizeof(struct op));
    size_t requests = aligned(request_count * sizeof(struct pass_request));
    char *memory = memory_take(head + ops + requests + things_bytes);
    struct parked *parked = (struct parked *)memory;
    *parked = (struct parked){
        .ops = (struct op *)(memory + head),
        .requests = (struct pass_request *)(memory + head + ops),
    };
    *ret_things = memory + head + ops + requests;
    return parked;
}

static void append(struct pass *pass, struct parked *parked)
{
    struct parked **link = &pass->parked;
    if (pass->parked_last)
        link = &pass->parked_last->next;
    *link = parked;
    pass->parked_last = parked;
    pass->has_unseen = pass->has_unseen || parked->cold > 0;
    gauge_add(&pass->stats.waits, parked->request_count);
}

static void hold_client(struct pass_client *client)
{
    if (!client)
        return;
    client->parked++;
    pass_hold(client, PASS_HOLD_PARKED);
    pass_touch(client); /* it uses more memory */
}

/* Its share of what is kept of the pass. */
static void count_bytes(const struct pass_request *request, size_t things_bytes)
{
    struct pass_client *client = request->client;
    if (client)
        client->parked_bytes += sizeof(struct parked) + sizeof(*request) +
                                request->count * sizeof(struct op) + things_bytes;
}

static void take_in(const struct pass *pass, struct pass_group *group, struct parked *parked,
                    const struct pass_request *request, char **things)
{
    struct pass_request *copy = &parked->requests[parked->request_count++];
    *copy = *request;
    copy->first = (uint32_t)parked->op_count;
    for (uint32_t i = 0; i < request->count; i++) {
        struct op *op = &parked->ops[parked->op_count++];
        *op = group->ops[request->first + i];
        size_t size = things_size(pass, op);
        copy_things(pass, op, *things);
        *things += size;
        parked->cold += op->code == ERR_COLD;
    }
    if (request->extra && !request->extra_stays && !parked->room)
        parked->room = room_use(group);
}

/* Its client has something parked already, or its own ops are cold. */
static bool must_wait(const struct pass_request *request, const struct op *ops)
{
    const struct pass_client *client = request->client;
    return (client && client->parked > 0) || pass_is_cold(request, ops);
}

void park_requests(struct pass *pass, struct pass_group *group, size_t from)
{
    size_t ops = 0;
    size_t requests = 0;
    size_t bytes = 0;
    for (size_t i = from; i < group->request_count; i++) {
        struct pass_request *request = &group->requests[i];
        if (!must_wait(request, group->ops + request->first)) {
            pass_answer(pass, request, group->ops + request->first);
            request->answer = NULL;
            continue;
        }
        size_t things = 0;
        for (uint32_t k = 0; k < request->count; k++)
            things += things_size(pass, &group->ops[request->first + k]);
        hold_client(request->client);
        count_bytes(request, things);
        requests++;
        ops += request->count;
        bytes += things;
    }
    if (requests == 0)
        return;

    char *things;
    struct parked *parked = parked_new(ops, requests, bytes, &things);
    parked->seen = group->arrivals;
    parked->since_ns = env_monotonic_ns(pass->service->env);
    for (size_t i = from; i < group->request_count; i++) {
        if (group->requests[i].answer)
            take_in(pass, group, parked, &group->requests[i], &things);
    }
    append(pass, parked);
}

void park_job(struct pass *pass, const struct pass_request *request, struct pass_job *job)
{
    char *things;
    struct parked *parked = parked_new(0, 1, 0, &things);
    struct pass_client *client = request->client;
    parked->job = job;
    parked->request_count = 1;
    parked->requests[0] = *request;
    client->job = job;
    hold_client(client);
    count_bytes(request, 0);
    append(pass, parked);
}

/* ---- answering ---- */

static bool is_decided(const struct parked *parked, const struct pass_request *request)
{
    if (parked->job)
        return atomic_load(&parked->job->is_done);
    return parked->cold == 0 || !pass_is_cold(request, parked->ops + request->first);
}

static void answer_parked(struct pass *pass, struct parked *parked, struct pass_request *request)
{
    struct pass_client *client = request->client;
    pass_answer(pass, request, parked->ops + request->first);
    request->answer = NULL;
    if (parked->job) {
        client->job = NULL;
        parked->job->free(parked->job);
    }
    gauge_add(&pass->stats.waits, (uint64_t)-1);
    if (!client || --client->parked > 0)
        return;
    client->parked_bytes = 0;
    pass_unhold(client, PASS_HOLD_PARKED);
}

/* Answers what can be; says how many wait on. */
static size_t answer_decided(struct pass *pass, struct parked *parked)
{
    size_t waiting = 0;
    for (size_t i = 0; i < parked->request_count; i++) {
        struct pass_request *request = &parked->requests[i];
        struct pass_client *client = request->client;
        if (!request->answer)
            continue;
        bool in_turn = !client || client->stuck != pass->round;
        if (in_turn && is_decided(parked, request)) {
            answer_parked(pass, parked, request);
            continue;
        }
        if (client)
            client->stuck = pass->round;
        waiting++;
    }
    return waiting;
}

/* From the oldest on, so that `stuck` keeps the order of a client's answers also from
 * one parked pass to the next. */
static void sweep(struct pass *pass)
{
    pass->round++;
    pass->parked_last = NULL;
    struct parked **link = &pass->parked;
    while (*link) {
        struct parked *parked = *link;
        size_t waiting = answer_decided(pass, parked);
        if (pass->answered.ops > 0)
            pass_count_answered(pass, parked->since_ns, env_monotonic_ns(pass->service->env));
        if (waiting > 0) {
            pass->parked_last = parked;
            link = &parked->next;
            continue;
        }
        *link = parked->next;
        room_let_go(parked->room);
        free(parked);
    }
}

/* Their clients use more memory. */
static void touch_jobs(struct pass *pass)
{
    for (struct parked *parked = pass->parked; parked; parked = parked->next) {
        if (parked->job)
            pass_touch(parked->requests[0].client);
    }
}

/* ---- running again ---- */

/* Copies the cold ops of as many as fit into the empty pass. All of one go together:
 * ops on the same id keep their order. */
static void gather_cold(struct pass *pass, struct pass_group *group)
{
    for (struct parked *parked = pass->parked; parked; parked = parked->next) {
        if (parked->cold == 0 || parked->seen == group->arrivals ||
            group->op_count + parked->cold > LIMIT_BATCH)
            continue;
        parked->retrying = true;
        parked->seen = group->arrivals;
        for (size_t i = 0; i < parked->op_count; i++) {
            if (parked->ops[i].code == ERR_COLD)
                group->ops[group->op_count++] = parked->ops[i];
        }
    }
}

/* Back to where they came from, in the same order. */
static void return_cold(struct pass *pass, struct pass_group *group)
{
    const struct op *next = group->ops;
    for (struct parked *parked = pass->parked; parked; parked = parked->next) {
        if (!parked->retrying)
            continue;
        parked->retrying = false;
        for (size_t i = 0; i < parked->op_count; i++) {
            if (parked->ops[i].code != ERR_COLD)
                continue;
            parked->ops[i] = *next++;
            parked->cold -= parked->ops[i].code != ERR_COLD;
        }
    }
    group->op_count = 0;
}

static void retried(struct pass *pass, struct pass_group *group)
{
    pass->retrying = false;
    return_cold(pass, group);
    sweep(pass);
}

/* What the oldest of the cold ones has seen: pass_reached() wakes us when there is
 * more. */
static uint64_t oldest_seen(const struct pass *pass)
{
    uint64_t seen = UINT64_MAX;
    for (const struct parked *parked = pass->parked; parked; parked = parked->next) {
        if (parked->cold > 0 && parked->seen < seen)
            seen = parked->seen;
    }
    return seen;
}

void park_look(struct pass *pass)
{
    if (pass->answered.ops > 0) /* of the batch that has just run: timed by itself */
        pass_count_answered(pass, pass->gathered.start_ns, env_monotonic_ns(pass->service->env));
    uint64_t jobs_done = atomic_load(&pass->jobs_done);
    if (jobs_done != pass->jobs_seen) {
        pass->jobs_seen = jobs_done;
        sweep(pass);
    }
    uint64_t growths = atomic_load(&pass->growths);
    if (growths != pass->growths_seen) {
        pass->growths_seen = growths;
        touch_jobs(pass);
    }
    if (pass->retrying)
        return;
    uint64_t arrivals = atomic_load(&pass->service->hot->arrivals);
    if (arrivals == pass->looked && !pass->has_unseen)
        return;
    struct pass_errand *errand = pass_next_errand(pass);
    errand->group.arrivals = arrivals;
    gather_cold(pass, &errand->group);
    pass->retrying = errand->group.op_count > 0;
    if (pass->retrying && !pass_send(pass, errand, &errand->group, retried))
        return;

    /* Said before the last look: what is loaded in between is seen, or wakes us. */
    uint64_t seen = oldest_seen(pass);
    atomic_store(&pass->cold_seen, seen);
    pass->looked = arrivals;
    pass->has_unseen = seen < arrivals;
    if (seen != UINT64_MAX && seen != atomic_load(&pass->service->hot->arrivals))
        waker_wake(pass->waker);
}

/* ---- giving up ---- */

static void refuse_cold(struct parked *parked)
{
    for (size_t i = 0; i < parked->op_count; i++) {
        if (parked->ops[i].code == ERR_COLD)
            parked->ops[i].code = ERR_UNAVAILABLE;
    }
    parked->cold = 0;
}

static void refuse_request(struct parked *parked, const struct pass_request *request)
{
    for (uint32_t i = 0; i < request->count; i++) {
        struct op *op = &parked->ops[request->first + i];
        if (op->code != ERR_COLD)
            continue;
        op->code = ERR_UNAVAILABLE;
        parked->cold--;
    }
}

void park_give_up(struct pass_client *client)
{
    struct pass *pass = client->pass;
    for (struct parked *parked = pass->parked; parked; parked = parked->next) {
        for (size_t i = 0; !parked->retrying && i < parked->request_count; i++) {
            const struct pass_request *request = &parked->requests[i];
            if (request->answer && request->client == client)
                refuse_request(parked, request);
        }
    }
    atomic_fetch_add(&pass->jobs_done, 1); /* has them answered at the end of a pass */
    waker_wake(pass->waker);
}

void park_tick(struct pass *pass)
{
    pass->tick_waits = pass->parked && pass->retrying;
    if (!pass->parked || pass->retrying)
        return;
    uint64_t now_ns = env_monotonic_ns(pass->service->env);
    uint64_t max_ns = pass->service->relay ? COLD_MAX_NODES_NS : COLD_MAX_NS;
    for (struct parked *parked = pass->parked; parked; parked = parked->next) {
        if (parked->cold > 0 && now_ns - parked->since_ns > max_ns)
            refuse_cold(parked);
    }
    sweep(pass);
    atomic_store(&pass->cold_seen, oldest_seen(pass));
    waker_wake(pass->waker); /* for the end of a pass, which sees to what was answered */
}

void park_stop(struct pass *pass)
{
    for (struct parked *parked = pass->parked; parked; parked = parked->next) {
        refuse_cold(parked);
        if (parked->job && !atomic_exchange(&parked->job->is_done, true))
            error_set(&parked->job->error, ERR_UNAVAILABLE, "the server stops");
    }
    sweep(pass);
    assert(!pass->parked);
    park_clear_room(&pass->gathered);
}
