/* call.h - a script call on a cell, with all that may happen on the way.
 *
 * A call is built up (keys, arguments), started, and ends once, with the server's reply or a code.
 * In between it may be redirected (MOVED, ASK), told to wait (TRYAGAIN, LOADING, CLUSTERDOWN,
 * READONLY ...), sent again after a lost connection, or after the script was forgotten (NOSCRIPT).
 * All of that is bounded by the call's deadline.
 *
 * A call that writes must be safe to be sent twice: its script either gives the same answer to the
 * same call number, or does nothing the second time.
 *
 * Calls belong to the layer's thread. Other threads use call_wait(). */
#ifndef HOT_REDIS_CALL_H
#define HOT_REDIS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "hot/redis/script.h"

struct layer;
struct link;

/* On the layer's thread. `reply` is hiredis' and lives during the call; NULL unless ERR_OK or:
 *   ERR_REFUSED      an error of the script itself, in `reply`
 *   ERR_NO_MEMORY    the server is at its limit; nothing was done
 *   ERR_UNAVAILABLE  it was never sent, or surely not done
 *   ERR_TIMEOUT      nobody knows whether it was done */
typedef void call_done_fn(void *arg, enum err code, const struct redisReply *reply);

struct call {
    struct layer *layer; /* borrowed */
    unsigned cell;
    enum script script;
    uint32_t key_count;
    uint32_t arg_count;
    struct buffer keys; /* as RESP bulk strings */
    struct buffer args; /* the same; the first argument, the server's run id, is not among them: it
                         * is put in front when the call is sent, since it is the connection's */
    uint64_t deadline_ns;
    call_done_fn *done;
    void *arg;

    /* call.c's own */
    struct call *next; /* of those that wait */
    uint64_t wait_until_ns;
    unsigned redirects;
    unsigned waits;
    struct link *ask; /* where to ask this time, NULL = where the slot is */
    bool may_be_done; /* it was sent, and the reply was lost */
};

/* Calls that wait, and their timer. */
struct calls *calls_new(struct layer *layer);
void calls_free(struct calls *calls);

/* Ends all that wait, and from now on every call that is started: the layer is being closed. */
void calls_refuse(struct calls *calls);

/* A connection has become ready: what waits may go. */
void calls_go_on(struct calls *calls);

/* Connections are about to go: nobody may be asked there any more. */
void calls_forget_link(struct calls *calls, const struct link *link);

/* An empty call: KEYS[1] is the cell's own hash, ARGV[1] the run id of the server. */
void call_init(struct call *call, struct layer *layer, unsigned cell, enum script script);
void call_done(struct call *call);

/* Makes it empty again, for another cell or script; keeps its memory. */
void call_clear(struct call *call, unsigned cell, enum script script);

/* KEYS: "prefix:{tag}:name" and "prefix:{tag}:name:id". */
void call_key(struct call *call, const char *name);
void call_key_of(struct call *call, const char *name, struct slice id);

void call_arg(struct call *call, struct slice value);
/* The two put together. */
void call_arg_pair(struct call *call, struct slice a, struct slice b);
void call_arg_text(struct call *call, const char *value);
void call_arg_number(struct call *call, uint64_t value);

/* Starts it; `done` is called once, later. The call stays put until then. The layer's thread only.
 */
void call_start(struct call *call, uint64_t timeout_ms, call_done_fn *done, void *arg);

/* Starts `count` calls and waits for all of them; each one's code and reply are handed to `done` on
 * the caller's thread's behalf while it waits (on the layer's thread). Any other thread. */
void call_wait(struct call **calls, size_t count, uint64_t timeout_ms, call_done_fn *done,
               void **args);

#endif
