/* http_client.h - one connection of the door.
 *
 *   socket → room of the pass, or `tail` → parser → route → handler → ops of the pass
 *                                                              ↓ answers, in order
 *   socket ← what the log has made safe ←────────────────── output
 *
 * The life of a client is that of door/resp/resp_client.h: it belongs to one
 * worker; its requests are taken in their order; while it is held it is not read
 * from; once it is closing no more of its requests are taken, and it is closed
 * when its last answer is out; once it is closed (conn is NULL) it stays until the
 * pass no longer names it. */
#ifndef DOOR_HTTP_HTTP_CLIENT_H
#define DOOR_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "door/http/http_parse.h"
#include "door/http/http_text.h"
#include "door/pass/client_limits.h"
#include "door/pass/closing.h"
#include "door/pass/outbound.h"
#include "door/pass/pass.h"
#include "net/conn.h"

#define HTTP_BODY_BYTES_MAX  (1u << 20)
#define HTTP_BATCH_BYTES_MAX (8u << 20) /* of the lines of /v1/batch */

struct http_stream;
struct http_worker;

enum {
    HTTP_HOLD_OUTPUT = PASS_HOLD_DOOR,      /* until its output has gone down */
    HTTP_HOLD_AUTH = PASS_HOLD_DOOR << 1,   /* until the next tick */
    HTTP_HOLD_LINES = PASS_HOLD_DOOR << 2,  /* until all lines of its batch are answered */
    HTTP_HOLD_STREAM = PASS_HOLD_DOOR << 3, /* for good: it listens to changes */
};

struct http_client {
    struct pass_client base;
    struct http_worker *worker; /* borrowed */
    struct conn *conn;          /* owned; NULL once closed */

    /* input */
    struct http_parser parser;
    struct buffer tail;        /* a request that is not whole, and what could not be taken yet */
    uint64_t partial_since_ms; /* 0 = the tail is empty */
    size_t counted;            /* of the tail, in the worker's account */
    size_t lines_input;        /* memory of its batch of lines that goes on: of the text, */
    size_t lines_output;       /* and of the answers */
    bool wants_continue;       /* before it sends the body */

    /* output */
    struct http_text output;
    struct outbound out; /* of output.bytes */

    bool closing;
    bool is_evicted;
    bool is_trusted; /* it has said the password */
    unsigned auth_failures;
    struct auth_turn auth_turn; /* of the next password */
    struct closing progress;    /* while it is closing */
    struct client_usage usage;
    struct fanout_queue feed;   /* what it is sent of the changes that it listens to */
    uint64_t active_ms;         /* loop clock: when it last said or took something */
    struct http_stream *stream; /* owned by http_changes.c; NULL = it does not listen */
    char peer[CONN_ADDRESS_SIZE];

    struct http_client *next;
    struct http_client *previous;
    struct http_client *next_dead;
};

extern const struct pass_door http_client_door;

/* Takes over the descriptor. NULL when it cannot be watched. */
struct http_client *http_client_new(struct http_worker *worker, int descriptor);

/* Closes at once: nothing more is read or written. */
void http_client_close(struct http_client *client);

/* A client_evict_fn: closes it at once, and frees what its buffers hold. */
void http_client_evict(void *client);

/* Answers what is under way, then closes. */
void http_client_finish(struct http_client *client);

/* Frees a closed client that nothing names any more; false if something does. */
bool http_client_bury(struct http_client *client);

/* Once a second: timeouts, and memory that is not needed any more. */
void http_client_tick(struct http_client *client, uint64_t now_ms);

/* What its buffers use may have changed. */
void http_client_measure(struct http_client *client);

/* Output that waits to be sent. */
static inline size_t http_client_waiting(const struct http_client *client)
{
    return outbound_waiting(&client->out, &client->output.bytes);
}

#endif
