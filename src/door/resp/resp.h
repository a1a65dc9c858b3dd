/* resp.h - the door for Redis clients.
 *
 * One door object serves all workers; each worker listens on its own loop, and
 * a connection stays with the worker that accepted it. What the requests of
 * one pass of a loop ask for goes through flow/service.h as one batch; the
 * answers are written in the order of each connection's requests, as soon as
 * service_safe() says that they may leave.
 *
 * The order of a life:
 *
 *   resp_new        before the log starts
 *   log->progress   set to a function that calls resp_wake_all()
 *   resp_listen     once for each worker, before its loop runs
 *   resp_drain      once for each worker; its `drained` comes back on its thread
 *   resp_free       when no loop runs and the log is closed, before loop_free() */
#ifndef DOOR_RESP_RESP_H
#define DOOR_RESP_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "flow/metrics.h"
#include "flow/service.h"
#include "net/loop.h"

struct client_limits;
struct resp;

/* One line of the configuration, said to whoever asks with CONFIG GET. */
typedef void resp_config_say_fn(void *to, const char *name, const char *value);
typedef void resp_config_fn(void *arg, resp_config_say_fn *say, void *to);

/* Texts are copied. */
struct resp_options {
    const char *address;  /* numeric, IPv4 or IPv6 */
    uint16_t port;        /* 0 = any that is free, see resp_port() */
    const char *password; /* NULL = nobody needs one; up to PASSWORD_BYTES_MAX bytes */

    struct client_limits *limits; /* borrowed: of all listeners together; NULL: its own */
    uint32_t connections_max;     /* of all workers, or of all listeners, together */
    size_t output_bytes_max;      /* answers of one connection that wait; closed beyond */
    size_t query_bytes_max;       /* one request with all its arguments */
    uint32_t idle_timeout_s;      /* closes who says nothing; 0 = never */
    uint32_t partial_timeout_s;   /* closes who does not finish a request; 0 = never */
    bool serves_stale;            /* reads that may be old are answered, and not refused */

    /* Calls `say` for every setting, secrets left out; any thread; may be NULL. */
    resp_config_fn *config;
    void *config_arg;

    /* facts for INFO */
    const char *version;
    const char *data_folder; /* may be NULL */
    int64_t started_ms;      /* wall clock */
};

#define RESP_OPTIONS_DEFAULT                                                               \
    {                                                                                      \
        .address = "127.0.0.1", .port = 6380, .connections_max = 10000,                    \
        .output_bytes_max = 64u << 20, .query_bytes_max = 4u << 20, .idle_timeout_s = 300, \
        .partial_timeout_s = 30, .version = "0",                                           \
    }

/* NULL with an error when the options make no sense. `service` is borrowed. */
struct resp *resp_new(struct service *service, const struct resp_options *options, unsigned workers,
                      struct error *error);

/* Opens the port for one worker on its loop. The first call fails when another
 * program listens there; call for the workers one after the other. */
enum err resp_listen(struct resp *resp, struct loop *loop, unsigned worker, struct error *error);

/* Where it listens, after the first resp_listen(). */
uint16_t resp_port(const struct resp *resp);

/* Any thread: stops accepting, answers what has come in, closes every
 * connection of the worker, then calls `drained` on the worker's thread, once.
 * A client that does not take its answers can hold this up: set a deadline. */
typedef void resp_drained_fn(void *arg, unsigned worker);
void resp_drain(struct resp *resp, unsigned worker, resp_drained_fn *drained, void *arg);

/* Any thread. NULL: none is needed from now on. Who is in stays in. */
void resp_set_password(struct resp *resp, const char *password);

/* What may change while the door is open. */
struct resp_limits {
    uint32_t connections_max;
    uint32_t idle_timeout_s;
    uint32_t partial_timeout_s;
};

/* One thread at a time. Counts for the connections that are there as well, but
 * closes none for being too many. */
void resp_set_limits(struct resp *resp, const struct resp_limits *limits);

/* Any thread: service_safe() may have grown. */
void resp_wake_all(struct resp *resp);

/* Any thread: a batch of this worker can be collected (hot->finish). */
void resp_finished(struct resp *resp, unsigned worker);

/* What it has done so far; `resp` is a struct resp. Any thread. */
metrics_door_fn resp_metrics;

/* NULL does nothing. */
void resp_free(struct resp *resp);

#endif
