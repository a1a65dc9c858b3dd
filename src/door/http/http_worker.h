/* http_worker.h - a worker's part of the door.
 *
 * In a pass of the loop clients read, parse, and gather their ops; at its end
 * door/pass runs the batch, has the calls answered, and writes what may leave.
 *
 * Everything here belongs to the worker's thread but what stands under `lock`,
 * and the gauges. */
#ifndef DOOR_HTTP_HTTP_WORKER_H
#define DOOR_HTTP_HTTP_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "door/http/http.h"
#include "door/http/http_client.h"
#include "door/http/http_json.h"
#include "door/http/http_text.h"
#include "door/pass/client_limits.h"
#include "door/pass/pass.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/timer.h"

#define HTTP_JSON_VALUES 4096u /* of one body */

struct http_changes;
struct http_lines;

/* What a worker has counted since start. */
struct http_worker_stats {
    struct gauge connections; /* now */
    struct gauge accepted;
    struct gauge refused;     /* too many connections */
    struct gauge turned_away; /* for want of a descriptor */
    struct gauge listeners;   /* connections that listen to changes, now */
    struct gauge requests;
    struct gauge problems; /* answers */
    struct gauge protocol_errors;
    struct gauge auth_failures;
    struct gauge timeouts;
    struct gauge overflows; /* closed because their output passed its limit */
    struct gauge bytes_in;
    struct gauge bytes_out;
};

struct http_worker {
    struct http *http;       /* borrowed */
    struct service *service; /* borrowed */
    uint8_t like;            /* the kind that is meant where none is named; KIND_NONE = none */
    struct slice kinds[LIMIT_KINDS + 1]; /* as JSON: null, "like", ... */
    struct http_text kinds_text;         /* what they point into */
    unsigned index;

    struct loop *loop; /* borrowed; NULL until http_listen() */
    struct listener *listener;
    struct loop_hook *hook;
    struct timer *tick;

    struct pass pass;
    struct client_share share; /* what its clients use */
    struct http_clock clock;
    size_t as_of_at;       /* where the moment begins in `body`: what is before it is the content */
    struct http_text body; /* of the answer that is being written */
    struct http_json *values;    /* owned, HTTP_JSON_VALUES: of the body that is being read */
    size_t input_bytes;          /* that lie in tails */
    struct http_client *clients; /* lists */
    struct http_client *dead;
    struct http_lines *lines;      /* batches that go on in the next pass: a queue */
    struct http_lines *lines_last; /* valid while there are any */
    struct http_text lines_spare;  /* http_lines.c's */
    struct http_changes *changes;  /* owned */

    struct lock lock; /* of what is asked */
    bool drain_asked;
    bool draining; /* the worker's own */
    http_drained_fn *drained;
    void *drained_arg;
    struct gauge asked; /* grows when somebody asks for something */
    uint64_t asked_seen;

    struct http_worker_stats stats;
};

void http_worker_init(struct http_worker *worker, struct http *http, struct service *service,
                      unsigned index);
void http_worker_done(struct http_worker *worker);

enum err http_worker_start(struct http_worker *worker, struct loop *loop,
                           const struct listener_options *options, struct error *error);

/* All that is to be done at the end of a pass. Frees clients that are closed: not for who goes
 * through them. */
void http_worker_end_pass(struct http_worker *worker);

/* Any thread: something was asked of the worker under its lock. */
void http_worker_ask(struct http_worker *worker);

#endif
