/* relay.h - carries what a hot layer outside of the process has written down into the log.
 *
 *   outbox of a cell ──read──→ log, lane of the cell ──reached──→ outbox lets go, answers leave
 *
 * Nodes share the cells out (core/outbox.h). For the cells that this node relays it knows how far
 * the log is; for the others it asks the outbox, while somebody here waits.
 *
 * Answers wait for it with tickets, which grow: a ticket stands for a sequence of a cell. When the
 * log does not move for `ack_timeout_ms` it is down: then the tickets are let go as weak ones, and
 * answers say that the change is in the hot layer only. The same goes for a change that was in the
 * hot layer when that lost its memory.
 *
 * It also opens cells that are closed, in the steps that outbox.h describes.
 *
 * It has a thread of its own, or is driven step by step (tests, the simulator). */
#ifndef FLOW_RELAY_H
#define FLOW_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/log.h"
#include "core/op.h"
#include "core/outbox.h"
#include "core/store.h"

struct relay;

struct relay_options {
    struct env *env; /* all borrowed */
    struct outbox *outbox;
    struct log *log;     /* of LIMIT_CELLS lanes, started */
    struct store *store; /* asked for its mark and for epochs only, by a thread of its own */
    uint64_t ack_timeout_ms;
    void (*progress)(void *arg); /* relay_safe() has grown; any thread; may be NULL */
    void *progress_arg;
    void (*mark)(void *arg,
                 const struct state_mark *mark); /* what the store has said; may be NULL */
    void *mark_arg;
};

struct relay_stats {
    uint64_t leased;       /* cells, a bit each */
    uint64_t opening;      /* cells, a bit each: closed, and being opened */
    uint64_t sections;     /* carried over since start */
    uint64_t waiting;      /* tickets that wait now */
    uint64_t weak;         /* tickets that were let go without the log, since start */
    uint64_t opened;       /* cells, since start */
    uint64_t kept;         /* of these: nothing was missing */
    int64_t down_since_ms; /* the log; 0 = it moves */
    char reason[160];      /* what the opening waits for; "" = nothing */
};

struct relay *relay_new(const struct relay_options *options);
void relay_free(struct relay *relay);

enum err relay_start(struct relay *relay, struct error *error);

/* Carries over what is there, for up to `within_ms`, and ends the thread. Nobody takes tickets any
 * more. */
void relay_stop(struct relay *relay, uint64_t within_ms);

/* One round. Returns how many milliseconds to wait until there may be more; 0 = go on. Without a
 * thread only. */
uint64_t relay_step(struct relay *relay);

/* Something may have come: wakes the thread. Any thread; fits outbox->wake and log->progress. */
void relay_wake(void *relay);

/* Gives tickets to those of the ops whose answers rest on events: op->sequence of op->cell. Any
 * thread. */
void relay_tickets(struct relay *relay, struct op *ops, size_t count);

/* Answers with tickets up to this may leave, but for those that wait for a cell that is stuck. Any
 * thread; cheap. */
uint64_t relay_safe(const struct relay *relay);

/* Does one of those from `first` to `last`? Any thread; cheap as long as none does. */
bool relay_any_stuck(struct relay *relay, uint64_t first, uint64_t last);

/* Grows when some of those may leave. Any thread; cheap. */
uint64_t relay_rounds(const struct relay *relay);

/* Was one of those from `first` to `last`, which may leave, let go without the log? Any thread;
 * cheap as long as none was. */
bool relay_any_weak(struct relay *relay, uint64_t first, uint64_t last);

/* Does the log move? If not, answers leave at once, and are weak. Any thread; cheap. */
bool relay_is_up(const struct relay *relay);

void relay_stats(struct relay *relay, struct relay_stats *ret_stats);

#endif
