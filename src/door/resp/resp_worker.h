/* resp_worker.h - a worker's part of the door: its clients, and the pass in which
 * their requests are gathered (door/pass/pass.h).
 *
 * Everything here belongs to the worker's thread but what stands under `lock`,
 * and the gauges. */
#ifndef DOOR_RESP_RESP_WORKER_H
#define DOOR_RESP_RESP_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "door/pass/client_limits.h"
#include "door/pass/pass.h"
#include "door/resp/resp.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_command.h"
#include "door/resp/resp_parse.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/timer.h"

struct resp_pubsub;

/* What a worker has counted since start. */
struct resp_worker_stats {
    struct gauge connections; /* now */
    struct gauge accepted;
    struct gauge refused;     /* too many connections */
    struct gauge turned_away; /* for want of a descriptor */
    struct gauge subscribers; /* connections, now */
    struct gauge errors;      /* error answers */
    struct gauge protocol_errors;
    struct gauge auth_failures;
    struct gauge timeouts;
    struct gauge overflows; /* closed because their output passed its limit */
    struct gauge bytes_in;
    struct gauge bytes_out;
    struct gauge rate;                     /* commands a second, lately */
    struct gauge calls[RESP_COMMANDS_MAX]; /* by command */
};

struct resp_worker {
    struct resp *resp;                    /* borrowed */
    struct service *service;              /* borrowed */
    const struct resp_commands *commands; /* borrowed */
    uint8_t like; /* the kinds that have commands of their own; KIND_NONE = not configured */
    uint8_t dislike;
    unsigned index;

    struct loop *loop; /* borrowed; NULL until resp_listen() */
    struct listener *listener;
    struct loop_hook *hook;
    struct timer *tick;

    struct resp_parser parser;
    struct pass pass;
    struct client_share share;  /* what its clients use */
    struct resp_client *dead;   /* closed, and still named by something */
    struct resp_pubsub *pubsub; /* owned */

    uint64_t commands_last; /* at the last tick, for the rate */

    struct lock lock; /* of the list of clients and their texts, and of what is asked */
    struct resp_client *clients;
    bool drain_asked;
    bool draining;
    resp_drained_fn *drained;
    void *drained_arg;
    struct gauge asked; /* grows when somebody asks for something */
    uint64_t asked_seen;

    struct resp_worker_stats stats;
};

void resp_worker_init(struct resp_worker *worker, struct resp *resp, unsigned index);
void resp_worker_done(struct resp_worker *worker);

enum err resp_worker_start(struct resp_worker *worker, struct loop *loop,
                           const struct listener_options *options, struct error *error);

/* All that is to be done at the end of a pass. */
void resp_worker_end_pass(struct resp_worker *worker);

/* Any thread: something was asked of the worker under its lock. */
void resp_worker_ask(struct resp_worker *worker);

/* The commands it has run. */
uint64_t resp_worker_commands(const struct resp_worker *worker);

#endif
