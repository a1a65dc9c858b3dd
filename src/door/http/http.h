/* http.h - the door for the web: JSON over HTTP/1.1.
 *
 * One door object serves all workers; each worker listens on its own loop, and
 * a connection stays with the worker that accepted it. What the requests of one
 * pass of a loop ask for goes through flow/service.h as one batch (door/pass);
 * what takes a while goes to the desk.
 *
 * The order of a life is that of door/resp/resp.h:
 *
 *   http_new        before the log starts
 *   log->progress   set to a function that calls http_wake_all()
 *   http_listen     once for each worker, before its loop runs
 *   http_drain      once for each worker; its `drained` comes back on its thread
 *   http_free       when no loop runs and the log is closed, before loop_free() */
#ifndef DOOR_HTTP_HTTP_H
#define DOOR_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "flow/metrics.h"
#include "flow/samples.h"
#include "flow/service.h"
#include "net/loop.h"

struct client_limits;
struct http;

/* What may change while the door is open. */
struct http_limits {
    uint32_t connections_max;   /* of all workers, or of all listeners, together */
    uint32_t idle_timeout_s;    /* closes who says nothing; 0 = never */
    uint32_t partial_timeout_s; /* closes who does not finish a body; 0 = never */
};

/* Texts are copied. */
struct http_options {
    const char *address;  /* numeric, IPv4 or IPv6 */
    uint16_t port;        /* 0 = any that is free, see http_port() */
    const char *password; /* NULL = nobody needs one; up to PASSWORD_BYTES_MAX bytes */

    struct http_limits limits;
    struct client_limits *shared; /* borrowed: limits of all listeners together; NULL: its own */
    size_t output_bytes_max;      /* answers of one connection that wait; closed beyond */
    size_t input_bytes_max;       /* bodies that are not whole yet, of a worker; refused beyond */
    uint32_t head_timeout_s;      /* for the request line and headers; 0 = never */

    const char *cors_origins; /* "https://a.example,https://b.example"; empty = none */
    const char *hosts;        /* names that Host may hold, beside ours; "*" = any */

    const struct metrics *metrics; /* borrowed; NULL: there is no /metrics */
    struct samples *samples;       /* borrowed; NULL: there is no /v1/figures */
    const char *version;
    int64_t started_ms; /* wall clock */
    bool has_demo;      /* the web page offers its demo; says /v1/status */
};

#define HTTP_OPTIONS_DEFAULT                                                                  \
    {                                                                                         \
        .address = "127.0.0.1", .port = 3001,                                                 \
        .limits = {.connections_max = 10000, .idle_timeout_s = 300, .partial_timeout_s = 30}, \
        .output_bytes_max = 64u << 20, .input_bytes_max = 256u << 20, .head_timeout_s = 10,   \
        .cors_origins = "", .hosts = "", .version = "0",                                      \
    }

/* NULL with an error when the options make no sense. `service` is borrowed. */
struct http *http_new(struct service *service, const struct http_options *options, unsigned workers,
                      struct error *error);

/* Opens the port for one worker on its loop. The first call fails when another
 * program listens there; call for the workers one after the other. */
enum err http_listen(struct http *http, struct loop *loop, unsigned worker, struct error *error);

/* Was the web page built into the program? */
bool http_has_page(void);

/* Where it listens, after the first http_listen(). */
uint16_t http_port(const struct http *http);

/* Any thread: stops accepting, answers what has come in, closes every
 * connection of the worker, then calls `drained` on the worker's thread, once.
 * A client that does not take its answers can hold this up: set a deadline. */
typedef void http_drained_fn(void *arg, unsigned worker);
void http_drain(struct http *http, unsigned worker, http_drained_fn *drained, void *arg);

/* Any thread. NULL: none is needed from now on. */
void http_set_password(struct http *http, const char *password);

/* One thread at a time. Counts for the connections that are there as well, but
 * closes none for being too many. */
void http_set_limits(struct http *http, const struct http_limits *limits);

/* Any thread: service_safe() may have grown. */
void http_wake_all(struct http *http);

/* Any thread: a batch of this worker can be collected (hot->finish). */
void http_finished(struct http *http, unsigned worker);

/* A metrics_door_fn: `arg` is the door. Any thread. */
void http_metrics(void *arg, struct metrics_door *ret_door);

/* NULL does nothing. */
void http_free(struct http *http);

#endif
