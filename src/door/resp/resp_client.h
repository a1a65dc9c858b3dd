/* resp_client.h - one connection of the door, and what is known of who is at
 * the other end.
 *
 *   socket → room of the pass, or `tail` → parser → command → ops of the pass
 *                                                     ↓ answers, in order
 *   socket ← what the log has made safe ←───────── reply
 *
 * The life of a client:
 *
 *  1. It belongs to one worker, and to its thread.
 *  2. Its requests are taken in the order in which they came; an answer that
 *     is ready at once (PING) is given when the ones before it are.
 *  3. While it is held it is not read from: too much output waits, the batch
 *     is under way, or it has said the wrong password too often.
 *  4. Once it is closing no more of its requests are taken; it is closed when
 *     its last answer is out.
 *  5. Once it is closed (conn is NULL) it stays until the pass and the promises
 *     that name it are through. */
#ifndef DOOR_RESP_RESP_CLIENT_H
#define DOOR_RESP_RESP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "door/pass/client_limits.h"
#include "door/pass/closing.h"
#include "door/pass/outbound.h"
#include "door/pass/pass.h"
#include "door/resp/resp_reply.h"
#include "net/conn.h"
#include "net/gauge.h"

#define RESP_CLIENT_NAME_MAX 64u

struct resp_command;
struct resp_multi;
struct resp_worker;
struct subscription;

enum resp_hold {
    RESP_HOLD_OUTPUT = PASS_HOLD_DOOR,   /* until its output has gone down */
    RESP_HOLD_AUTH = PASS_HOLD_DOOR * 2, /* until the next tick */
    RESP_HOLD_EXEC = PASS_HOLD_DOOR * 4, /* until what it has queued was taken, which is at once */
};

struct resp_client {
    struct pass_client base;
    struct resp_worker *worker; /* borrowed */
    struct conn *conn;          /* owned; NULL once closed */
    uint64_t id;

    /* input */
    struct buffer tail;        /* a request that is not whole, and what could not be taken yet */
    size_t need;               /* the tail is not worth looking at with less */
    uint64_t partial_since_ms; /* 0 = the tail is empty */

    /* output */
    struct resp_reply reply;
    struct outbound out; /* of reply.bytes */

    /* state */
    unsigned lacks;           /* RESP_COMMAND_ flags that a command must have to be run now */
    struct resp_multi *multi; /* owned; resp_multi.h. NULL: no MULTI is open */
    bool closing;
    bool is_evicted;
    unsigned auth_failures;
    struct auth_turn auth_turn; /* of the next password */
    struct closing progress;    /* while it is closing */
    struct client_usage usage;
    struct fanout_queue feed; /* what it is sent of the changes that it listens to */

    struct subscription *subscriptions; /* owned */
    unsigned channels;
    unsigned patterns;

    struct resp_client *next_dead;

    /* For CLIENT LIST, which other workers may ask: the texts and the links
     * change under the worker's lock only. */
    struct resp_client *next;
    struct resp_client *previous;
    char name[RESP_CLIENT_NAME_MAX + 1];
    char library[RESP_CLIENT_NAME_MAX + 1];
    char library_version[RESP_CLIENT_NAME_MAX + 1];
    char peer[CONN_ADDRESS_SIZE];
    char local[CONN_ADDRESS_SIZE];
    int descriptor;
    bool killed;
    uint64_t connected_ms;  /* loop clock */
    struct gauge active_ms; /* loop clock: when it last said or took something */
    struct gauge version;
    struct gauge subscribed;
    _Atomic(const struct resp_command *) last; /* what it asked for last; NULL = nothing yet */
};

/* Takes over the descriptor. NULL when it cannot be watched. */
struct resp_client *resp_client_new(struct resp_worker *worker, int descriptor);

/* Closes at once: nothing more is read or written. */
void resp_client_close(struct resp_client *client);

/* A client_evict_fn: closes it at once, and frees what its buffers hold. */
void resp_client_evict(void *client);

/* Answers what is under way, then closes. */
void resp_client_finish(struct resp_client *client);

/* Frees a closed client that nothing names any more; false if something does. */
bool resp_client_bury(struct resp_client *client);

/* What the pass asks of clients. */
extern const struct pass_door resp_client_door;

/* Once a second: timeouts, and memory that is not needed any more. */
void resp_client_tick(struct resp_client *client, uint64_t now_ms);

/* ---- for the handlers of commands ---- */

/* Notes that the client's reply was written to. */
static inline void resp_client_touch(struct resp_client *client)
{
    pass_touch(&client->base);
}

/* The last `count` ops of the pass are a request of this client. Checks them
 * first, and answers the error if they make no sense: false then. */
bool resp_client_submit(struct resp_client *client, size_t count, pass_answer_fn *answer,
                        void *extra);

/* Answers with an error, in its turn. The text begins with the word that
 * clients branch on. */
void resp_client_fail(struct resp_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void resp_client_fail_with(struct resp_client *client, const struct error *error);

/* "ERR syntax error" and "ERR value is not an integer or out of range". */
void resp_client_fail_syntax(struct resp_client *client);
void resp_client_fail_integer(struct resp_client *client);

/* Answers an op's error, if it has one. */
void resp_client_answer_code(struct resp_client *client, enum err code);
static inline bool resp_client_answer_error(struct resp_client *client, const struct op *op)
{
    if (__builtin_expect(op->code == ERR_OK, 1))
        return false;
    resp_client_answer_code(client, op->code);
    return true;
}

#endif
