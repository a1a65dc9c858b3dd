/* server_own.h - what the files of this folder that put the parts together share.
 *
 * There are two ways to put them together: all in this process (embedded.c), or over Redis, a log
 * and a store that many nodes share (distributed.c). Doors, workers and loops are the same
 * (server.c). */
#ifndef SERVER_SERVER_OWN_H
#define SERVER_SERVER_OWN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/env.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"
#include "core/store.h"
#include "door/http/http.h"
#include "door/pass/client_limits.h"
#include "door/resp/resp.h"
#include "flow/metrics.h"
#include "flow/pipeline.h"
#include "flow/relay.h"
#include "flow/service.h"
#include "net/loop.h"
#include "net/timer.h"
#include "server/late_hot.h"
#include "server/move.h"
#include "server/sampler.h"
#include "server/server.h"
#include "server/turns.h"

/* A store that is slow must not keep us from ending; what it lacks is carried over later. */
#define FLUSH_WITHIN_MS 4000u

struct worker {
    struct server *server;
    unsigned number;
    struct loop *loop; /* owned */
    pthread_t thread;
    bool runs;
};

struct server {
    struct env *env;
    struct config config;
    pthread_mutex_t config_mutex; /* doors ask for the configuration from their threads */
    struct kinds kinds;
    struct log *log; /* these are owned */
    struct store *store;
    struct hot *hot;
    struct pipeline *pipeline;       /* NULL without a store */
    struct distributed *distributed; /* what is of many nodes; NULL: there is one */
    struct move *move;               /* to many nodes; NULL: not under way */
    struct service service;
    bool has_service;
    struct client_limits limits; /* of the clients of both */
    bool has_limits;
    struct resp *resp; /* NULL if it only aggregates */
    struct http *http; /* NULL if it is off */
    struct metrics metrics;
    struct samples *samples;
    struct sampler *sampler; /* NULL: does not run */
    unsigned worker_count;
    struct worker workers[LIMIT_WORKERS];
    struct turns turns;
    struct timer *tick;  /* on the first worker's loop */
    atomic_bool is_open; /* the doors have loops, and can be woken */
    atomic_ulong ticks;
    unsigned long ticks_seen; /* by the watchdog */

    pthread_mutex_t drain_mutex;
    pthread_cond_t drain_moved;
    unsigned drained; /* workers whose clients are gone */
};

/* Steps of a start: each needs those before it. */
typedef enum err server_step_fn(struct server *server, struct error *error);

/* embedded.c */
server_step_fn embedded_open; /* log, store, hot layer; recovers */
server_step_fn embedded_start;

/* Where the store of a data folder is, if it is a file: false if it is none. */
bool embedded_find_store(const struct config *config, const char *folder, char *path, size_t size);

/* Begins to move to where `config` says, if that is set and it is not under way. */
enum err embedded_move(struct server *server, const struct config *config, struct error *error);
void embedded_stop(struct server *server); /* after the workers have ended */

/* distributed.c */
server_step_fn distributed_open;  /* the log, and the place of what comes later */
server_step_fn distributed_start; /* begins to look for Redis and PostgreSQL, for as long as it
                                     takes */
server_step_fn distributed_wait;  /* for them, a moment: if they are there, so are we */
void distributed_drain(struct server *server); /* before the clients go: opens nothing more */
void distributed_stop(struct server *server);  /* after the workers have ended */
void distributed_close(struct server *server);

/* On threads that should give way to others; `arg`: the server's turns, or NULL for one that always
 * gives way. */
void server_give_way(void *arg);

/* Somebody's answer may leave, or can be found now. Any thread; `arg` is the server. */
void server_wake_doors(void *arg);

/* As pipeline_new() wants them, but for what differs. */
struct pipeline_options server_pipeline_options(struct server *server);

#endif
