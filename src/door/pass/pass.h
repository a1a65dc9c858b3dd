/* pass.h - what the clients of a door ask for in one pass of a worker's loop, run
 * as one batch, and answered.
 *
 * It knows no protocol. A door parses, appends ops, then one request that owns
 * them and knows how to answer:
 *
 *   ops       [ADD a][GET b][GET c][REACT v ann]
 *   requests  [incr ][mget        ][like       ]
 *
 * What happens in a pass of the loop:
 *
 *   while the loop calls back  the door reads, parses, and gathers requests
 *   pass_end(), at the end     the batch runs; the requests are answered in this
 *                              order, which is that of every client's requests;
 *                              what may leave is written, the rest is promised
 *   when the log has moved     the waker makes a pass, which keeps promises
 *   when a batch is done later the waker makes a pass, which collects it: a hot layer outside
 *                              of the process decides while the loop goes on
 *
 * Such a batch is an errand. While it is out, others are read from and gathered for, and more than
 * one is out at a time: so the hot layer has the next one when it is done with one. Each is
 * answered as soon as it is done, whichever went out first: one that asks a server which does not
 * answer holds up the requests in it, and no others. A client that has requests out is not
 * read from: what it asks next may rest on what comes back, and that may have to wait. So it is in
 * one errand at a time, and its answers are in order. Who has no client to keep the order for it
 * compares `answering`.
 *
 * Requests that have to wait for something else than the log, cold state or a job
 * on the desk, are parked (park.h); the others go on.
 *
 * What an op points to (slices, counts, create, describe) is copied when it is
 * parked: answers look at the ops, not at what was parsed. What `extra` points to
 * stays where it is.
 *
 * A worker of a door has one pass, and it belongs to the worker's thread. What
 * runs hot allocates nothing once the worker is up. */
#ifndef DOOR_PASS_PASS_H
#define DOOR_PASS_PASS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/op.h"
#include "door/pass/promise.h"
#include "door/pass/room.h"
#include "flow/desk.h"
#include "flow/metrics.h"
#include "flow/service.h"
#include "net/gauge.h"
#include "net/loop.h"
#include "net/timer.h"
#include "net/waker.h"

struct park_room;
struct parked;
struct pass;
struct pass_request;

/* Why a client is not read from. */
enum {
    PASS_HOLD_BATCH = 1,  /* until what it has asked is answered, or there is room for more */
    PASS_HOLD_PARKED = 2, /* until its parked requests are answered (park.h) */
    PASS_HOLD_DOOR = 16,  /* from here on the door's own reasons: 16, 32, ... */
};

/* The first member of every door's client. */
struct pass_client {
    struct pass *pass;   /* borrowed */
    uint64_t ticket;     /* of its last write */
    uint64_t first;      /* lowest ticket of what was answered and not settled, with a relay only */
    bool must_log;       /* one of those may not leave without the log */
    uint64_t settled;    /* bytes of its output, of all that was ever answered: about these it */
    uint64_t released;   /* has been decided when they may leave, and these may leave now */
    unsigned unanswered; /* requests */
    uint64_t group;      /* the last one's: group_number then */
    unsigned parked;     /* of these: parked */
    uint64_t stuck;      /* park.c's own */
    size_t parked_bytes; /* of memory that those take, but for a job */
    unsigned promised;   /* promises that name it */
    unsigned late;       /* of these: stuck, or behind one that is */
    uint64_t late_round; /* pass.c's own */
    unsigned held;       /* PASS_HOLD_; 0 = it is read from */
    bool touched;        /* in the list of those whose output the pass has added to */
    bool resuming;       /* in the list of those that want to be parsed again */
    bool waiting;        /* in the list of those held by PASS_HOLD_BATCH, */
    bool for_room;       /* with nothing to be answered: until there is room for more */
    struct pass_client *next_touched;
    struct pass_client *next_resuming;
    struct pass_client *next_waiting;
    struct pass_job *job; /* that it waits for; NULL: none */
};

/* What a pass asks of its door. */
struct pass_door {
    /* client->held has changed: read from it, or do not. */
    void (*held)(struct pass_client *client);

    /* It was held, and is not any more: takes the requests that lie there unparsed. */
    void (*resume)(struct pass_client *client);

    /* The pass has added to its output: hands the end of it to pass_settle(). */
    void (*settle)(struct pass_client *client, uint64_t safe);

    /* Writes what is released. */
    void (*flush)(struct pass_client *client);

    /* The output from byte `from` up to `to`, of all that it was ever answered, may leave although
     * the log does not have it: it is to say so. NULL: the protocol has no word for it. */
    void (*weaken)(struct pass_client *client, uint64_t from, uint64_t to);

    /* What it was promised to be told will not come true. Nobody knows what to say: closes it.
     * NULL if nobody can ask for such a thing. */
    void (*lose)(struct pass_client *client);
};

/* Writes the answer into the client's output. Called once for every request,
 * also when the client has gone meanwhile: what `extra` holds is freed here. */
typedef void pass_answer_fn(void *client, const struct pass_request *request, struct op *ops);

struct pass_request {
    void *client; /* begins with a struct pass_client; NULL: the worker's own */
    pass_answer_fn *answer;
    void *extra;    /* what the answer needs to know beyond the ops: in the room, or on the heap */
    uint32_t first; /* op */
    uint32_t count; /* ops; 0 for an answer that only waits for its turn */
    bool extra_stays; /* and points to nothing in the room: it need not be kept while this waits */
};

/* A request that is answered by work on the desk. Embedded by the door as the first
 * member of what the work needs and finds. */
struct pass_job;
typedef void pass_work_fn(struct pass_job *job, struct desk_seat *seat);
typedef void pass_free_fn(struct pass_job *job);

struct pass_job {
    struct desk_job base;
    pass_work_fn *work; /* on a thread of the desk; may block; touches nothing of the client */
    pass_free_fn *free; /* after the answer */
    bool is_write;      /* it is done although its client goes */
    struct error error; /* the work's to set; code ERR_OK: it went well */

    /* the pass's own */
    struct pass *pass;
    atomic_bool is_done;
    atomic_bool is_unwanted; /* its client has gone */
    _Atomic size_t bytes;    /* pass_job_uses() */
    size_t told_bytes;       /* as of when the worker was woken for them */
};

/* Figures for operators: one thread writes, all may read. Ops, not requests. */
struct pass_stats {
    struct gauge batches; /* since start, as all but `waits` */
    struct gauge ops;
    struct gauge reads[METRICS_RESULTS];
    struct gauge writes[METRICS_RESULTS];
    struct histogram read_time;  /* from the beginning of the batch to the answer, */
    struct histogram write_time; /* and until it may leave */
    struct gauge waits;          /* requests that are parked, now */
    struct gauge stale_served;   /* reads that may lack something acknowledged: answered, */
    struct gauge stale_refused;  /* or refused, by `refuses_stale` */
};

/* Writes that were answered together, and wait for the log together. */
struct pass_flight {
    uint64_t ticket;
    uint64_t start_ns;
    uint64_t writes;
};
#define PASS_FLIGHTS 64u /* what comes beyond is counted with the last one */

/* Ops that were answered and not counted yet. */
struct pass_answered {
    uint64_t ops;
    uint64_t writes;
    uint64_t failed_reads;
    uint64_t failed_writes;
    uint64_t ticket; /* the highest */
};

/* Requests that are run together. */
struct pass_group {
    struct op *ops; /* owned, LIMIT_BATCH; NULL: it was never used */
    size_t op_count;
    struct pass_request *requests; /* owned, LIMIT_BATCH */
    size_t request_count;
    struct room room;       /* what the slices of ops point into */
    struct park_room *kept; /* park.c's; NULL: nothing parked points into the room */
    uint64_t arrivals;      /* hot->arrivals before it was run */
    uint64_t start_ns;      /* when that was */
    uint64_t number;        /* of that run */
};

/* What is to be done with a group that has been run. */
typedef void pass_run_fn(struct pass *pass, struct pass_group *group);

struct pass_errand {
    struct pass *pass; /* borrowed */
    struct batch batch;
    pass_run_fn *done;
    bool is_done; /* before it was out */
    bool is_out;
    struct pass_group group; /* while it is out; else empty */
};
#define PASS_PROMPT \
    3u /* out at a time; more would be smaller ones. Those that are late do not count */
#define PASS_ERRANDS \
    8u /* with those, and one for what was cold: newcomers do not keep it waiting */

struct pass {
    struct service *service;      /* borrowed */
    const struct pass_door *door; /* borrowed */
    unsigned worker;
    bool refuses_stale;  /* the door's: its protocol cannot say that a value may be old */
    struct loop *loop;   /* borrowed; NULL until pass_start() */
    struct waker *waker; /* owned */

    struct pass_group gathered;               /* what is to be run next */
    uint64_t group_number;                    /* of it */
    bool room_was_full;                       /* its room; somebody waits for that */
    struct pass_errand errands[PASS_ERRANDS]; /* in no order */
    size_t errand_count;                      /* of them: out */
    struct timer *patience; /* owned; runs while something waits until an errand is done or late */
    bool collecting;
    uint64_t runs;      /* of batches, so far */
    int64_t now_ms;     /* of the batch that is being answered */
    uint64_t answering; /* its number: of two reads of one id the higher one's is the newer */
    uint64_t held_ns;   /* since when the log is held; 0 = it is not */
    uint64_t warned_ms; /* when the door last warned of something that clients can repeat */

    struct promises promises;
    struct promises late;       /* those that are stuck */
    _Atomic size_t late_count;  /* the same for other threads */
    uint64_t late_seen;         /* service_rounds() when they were looked at */
    uint64_t late_round;        /* of looking */
    void (*publish)(void *arg); /* before output is settled, once; NULL: nothing is new */
    void *publish_arg;
    struct pass_client *touched; /* lists of clients */
    struct pass_client *resuming;
    struct pass_client *waiting;

    /* park.c's */
    struct parked *parked; /* owned, the oldest first */
    struct parked *parked_last;
    uint64_t looked; /* hot->arrivals when all cold ones had been run again */
    bool retrying;   /* they are being run again */
    bool tick_waits; /* for the end of that */
    bool has_unseen; /* some were parked since, or did not fit into the batch */
    uint64_t round;  /* of looking through what is parked */
    uint64_t jobs_seen;
    _Atomic uint64_t jobs_done; /* grows on the desk's threads */
    uint64_t growths_seen;
    _Atomic uint64_t growths;   /* of what jobs use; grows there, too */
    _Atomic uint64_t cold_seen; /* wake us when hot->arrivals is beyond; UINT64_MAX = never */

    /* figures.c's */
    struct pass_answered answered;
    struct pass_flight flights[PASS_FLIGHTS]; /* a ring */
    size_t first_flight;
    size_t flight_count;
    struct pass_stats stats;
};

void pass_init(struct pass *pass, struct service *service, unsigned worker,
               const struct pass_door *door);

/* Before anything is asked for. */
enum err pass_start(struct pass *pass, struct loop *loop, struct error *error);

/* When no loop runs, the desk is closed, and the door has closed its clients: forgets all that they
 * still wait for, so that none is named any more. */
void pass_stop(struct pass *pass);

/* After pass_stop(). */
void pass_done(struct pass *pass);

/* --- gathering --- */

/* No command appends more ops than it has arguments, and these. */
#define PASS_OPS_EXTRA 4u

/* Can a command with so many arguments be taken now? If not: pass_wait(). */
static inline bool pass_has_room(const struct pass *pass, unsigned argc)
{
    return pass->gathered.op_count + argc + PASS_OPS_EXTRA <= LIMIT_BATCH &&
           pass->gathered.request_count < LIMIT_BATCH;
}

/* Appends an op. Its question is empty but for kind and id. */
static inline struct op *pass_op(struct pass *pass, enum op_kind kind, struct slice id)
{
    static const struct slice nothing = {NULL, 0};
    struct op *op = &pass->gathered.ops[pass->gathered.op_count++];
    op->kind = kind;
    op->reaction = 0;
    op->silent = false;
    op->exact = false;
    op->must_log = false;
    op->id = id;
    op->user = nothing;
    op->key = nothing;
    op->region = nothing;
    op->amount = number_of(0);
    op->counts = NULL;
    op->code = ERR_OK;
    op->changed = false;
    op->repeated = false;
    op->held = 0;
    op->value = number_of(0);
    op->ticket = 0;
    op->weak = false;
    op->stale = false;
    op->shards_missing = 0;
    op->as_of_ms = 0;
    op->sequence = 0;
    return op;
}

/* Is the last op of `count` a single one of the most frequent kinds, with nothing
 * that service_check() could find fault with? Spares most requests the call. */
static inline bool pass_is_plain(const struct pass *pass, size_t count)
{
    const struct op *op = &pass->gathered.ops[pass->gathered.op_count - 1];
    if (count != 1 || op->id.size - 1 >= LIMIT_ID_BYTES || op->key.data || op->region.size != 0)
        return false;
    if (op->kind == OP_ADD || op->kind == OP_GET)
        return !op->amount.big;
    /* An id that ends as a kind does may be the name of a reaction's counter. */
    return op->kind == OP_REACT && op->user.size - 1 < LIMIT_USER_BYTES &&
           !pass->service->kinds->ends[(unsigned char)op->id.data[op->id.size - 1]];
}

/* Does service_check() find no fault with the last `count` ops? Else says what is
 * wrong, if `error` is given. */
bool pass_check(const struct pass *pass, size_t count, struct error *error);

/* Takes back the last `count` ops. */
void pass_undo(struct pass *pass, size_t count);

/* Appends the request that owns the last `count` ops. There is room for it, and its client has
 * none out: pass_must_wait(). */
static inline void pass_request(struct pass *pass, void *client, size_t count,
                                pass_answer_fn *answer, void *extra)
{
    struct pass_group *group = &pass->gathered;
    assert(group->request_count < LIMIT_BATCH);
    group->requests[group->request_count++] = (struct pass_request){
        .client = client,
        .answer = answer,
        .extra = extra,
        .first = (uint32_t)(group->op_count - count),
        .count = (uint32_t)count,
    };
    if (client) {
        struct pass_client *base = client;
        assert(base->unanswered == base->parked || base->group == pass->group_number);
        base->unanswered++;
        base->group = pass->group_number;
    }
}

/* What `extra` of the last request points to is not in the room. */
static inline void pass_extra_stays(struct pass *pass)
{
    pass->gathered.requests[pass->gathered.request_count - 1].extra_stays = true;
}

/* A request that the job will answer; the client is held until then. The client has
 * no unanswered request, and service->desk is there. False: the desk has too much to do,
 * and the job is still the caller's. */
bool pass_job(struct pass *pass, void *client, pass_answer_fn *answer, struct pass_job *job);

/* So much memory the job takes now: whoever makes it says so, and then its work, on a thread of the
 * desk, whenever its answer has grown. False: nobody waits for that answer any more. */
bool pass_job_uses(struct pass_job *job, size_t bytes);

/* --- running --- */

/* Runs the ops gathered so far and answers their requests. False when they are out now, with the
 * memory that they point into, or have to wait until they can go. */
bool pass_run(struct pass *pass);

/* The batch is full, or a request has to wait for the answers before it. Runs what
 * was gathered; the client is held if that is not done at once. */
void pass_wait(struct pass_client *client);

void pass_hold_until_answered(struct pass_client *client);

/* What was read and gathered may take so much memory, and one request more. Of interest when it
 * cannot go out: it is no larger than what has come in one pass otherwise. */
#define PASS_ROOM_BYTES_MAX (16u << 20)

/* Before it is read from: does it have requests out, or is there no memory for what it says? Then
 * it is held until they are answered, or until there is. */
static inline bool pass_must_wait(struct pass_client *client)
{
    struct pass *pass = client->pass;
    bool is_full = pass->gathered.room.bytes > PASS_ROOM_BYTES_MAX;
    if (__builtin_expect(
            (client->unanswered == 0 || client->group == pass->group_number) && !is_full, 1))
        return false;
    pass->room_was_full = pass->room_was_full || is_full;
    pass_hold_until_answered(client);
    return true;
}

/* All that is to be done at the end of a pass; for a hook of the loop. */
void pass_end(struct pass *pass);

/* About once a second. */
void pass_tick(struct pass *pass);

/* May the door warn of something that clients can repeat? Once a second. */
bool pass_may_warn(struct pass *pass);

/* Any thread: service_safe() may have grown, and now is `safe`; hot->arrivals may
 * have grown. */
void pass_reached(struct pass *pass, uint64_t safe);

/* Any thread: a batch of this worker can be collected (core/hot.h). */
void pass_finished(struct pass *pass);

/* A client's read is about to be answered with what may lack acknowledged writes: counts it. True:
 * it is to be refused. */
bool pass_refuses_stale(struct pass *pass);

/* Adds what the pass has counted. Any thread. */
void pass_add_figures(const struct pass *pass, struct metrics_door *to);

/* --- clients --- */

void pass_hold(struct pass_client *client, unsigned why);
void pass_unhold(struct pass_client *client, unsigned why);

/* Notes that the client's output was added to. */
static inline void pass_touch(struct pass_client *client)
{
    if (client->touched)
        return;
    client->touched = true;
    client->next_touched = client->pass->touched;
    client->pass->touched = client;
}

/* The client's output ends at byte `end` of all that it was ever answered. What is
 * new is released if the client's ticket is safe and not stuck, else promised: false then. */
bool pass_settle(struct pass_client *client, uint64_t end, uint64_t safe);

/* How much memory do its requests take that wait beside the pass? */
static inline size_t pass_waiting_bytes(const struct pass_client *client)
{
    if (__builtin_expect(client->parked == 0, 1))
        return 0;
    return client->parked_bytes + (client->job ? atomic_load(&client->job->bytes) : 0);
}

/* It is closed: what nobody will hear an answer to is given up, unless it writes. `all`: also
 * writes that were not begun, since its memory is wanted. */
void pass_leave(struct pass_client *client, bool all);

/* Does something of the pass still point to the client? */
static inline bool pass_names(const struct pass_client *client)
{
    return client->unanswered > 0 || client->promised > 0 || client->touched || client->resuming ||
           client->waiting;
}

#endif
