/* fanout.h - what many clients of a worker are sent is kept once.
 *
 * A stream is a sequence of messages, in blocks. Publishing it to a client adds a range of a block
 * to the client's queue: a reference and two places, whatever the number of messages. A block is
 * freed when no client has to send anything of it, so memory grows with the messages that the
 * slowest client has not read, not with the number of clients. It has a limit for all streams
 * together: past it the clients that lag most are dropped. A client lags by what it has not taken
 * although it was published a second ago, or two: who reads promptly has much to read after a
 * burst, and does not lag.
 *
 * Belongs to one worker's thread. */
#ifndef DOOR_PASS_FANOUT_H
#define DOOR_PASS_FANOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/slice.h"
#include "net/conn.h"

#define FANOUT_BLOCK_BYTES  (64u << 10) /* a larger message has a block of its own */
#define FANOUT_SEND_BYTES   (64u << 10) /* to one client at once: others have their turn */
#define FANOUT_SENDS        32u         /* in one pass of the loop: requests have their turn */
#define FANOUT_PREFIX_BYTES 32u

struct client_share;
struct fanout_block;
struct fanout_queue;

/* What stands before the client's message of this number, counted from 1; its size. */
typedef size_t fanout_prefix_fn(uint64_t number, char to[FANOUT_PREFIX_BYTES]);

struct fanout {
    struct client_share *share;  /* borrowed: what the blocks use is counted there */
    fanout_prefix_fn *prefix;    /* NULL: nothing */
    size_t bytes_max;            /* of all blocks */
    size_t client_bytes_max;     /* that one client has not read */
    size_t bytes;                /* of all blocks, now */
    unsigned sends;              /* in this pass */
    char *scratch;               /* owned, FANOUT_SEND_BYTES; made with the first message */
    struct fanout_queue *queues; /* those that have something to send */
};

struct fanout_stream {
    struct fanout_block *block; /* owned, with those who have to send of it; NULL = nothing yet */
};

/* A member of a client, zero at first. */
struct fanout_queue {
    void *client; /* begins with a struct pass_client */
    struct fanout *fanout;
    struct fanout_range *ranges; /* owned, a ring */
    uint32_t first;
    uint32_t count;
    uint32_t capacity;
    uint32_t sent;             /* of the first message, with its prefix */
    size_t bytes;              /* that wait, without prefixes */
    uint64_t published;        /* bytes so far, */
    uint64_t published_before; /* and as of the last tick, */
    uint64_t published_long;   /* and as of the one before that */
    size_t subscription_bytes; /* of memory: what the client listens to; channels.c's */
    uint64_t number;           /* of the last message that was sent whole */
    bool is_dropped;           /* it lagged too much, and has missed messages: to be closed */
    struct fanout_queue *next;
    struct fanout_queue *previous;
};

void fanout_init(struct fanout *fanout, struct client_share *share, size_t bytes_max,
                 fanout_prefix_fn *prefix);
void fanout_done(struct fanout *fanout);

/* Does the message fit behind what is not published? If not, that is to be published first. */
bool fanout_fits(const struct fanout_stream *stream, size_t size);

/* Adds a message, which fits. False: there is no memory for it, whoever is dropped. */
bool fanout_add(struct fanout *fanout, struct fanout_stream *stream, struct slice message);

/* What was added and not published is to be sent to the client behind byte `after` of its own
 * output. For each client of the stream; then fanout_published(). */
void fanout_publish(struct fanout *fanout, const struct fanout_stream *stream,
                    struct fanout_queue *queue, uint64_t after);
void fanout_published(struct fanout *fanout, struct fanout_stream *stream);
void fanout_stream_done(struct fanout *fanout, struct fanout_stream *stream);

/* Drops a client: it has missed something. */
void fanout_drop(struct fanout_queue *queue);

/* Where in the client's own output the first thing that waits has its place; UINT64_MAX: nothing
 * waits. */
uint64_t fanout_next(const struct fanout_queue *queue);

/* A new pass begins. */
static inline void fanout_new_pass(struct fanout *fanout)
{
    fanout->sends = 0;
}

/* Sends of what has its place at `position` as much as the connection takes, up to
 * FANOUT_SEND_BYTES: so many bytes, 0 if others have had the turns of this pass, CONN_LATER or
 * CONN_BROKEN. `ret_all`: the connection has taken all that it was given. */
ssize_t fanout_send(struct fanout_queue *queue, uint64_t position, struct conn *conn,
                    bool *ret_all);

/* Memory of the queue itself, and of its subscriptions. */
size_t fanout_queue_bytes(const struct fanout_queue *queue);

/* Once a second. */
void fanout_queue_tick(struct fanout_queue *queue);

/* Bytes that wait and were published before the last tick but one. */
static inline size_t fanout_queue_lag(const struct fanout_queue *queue)
{
    uint64_t newer = queue->published - queue->published_long;
    return queue->bytes > newer ? queue->bytes - (size_t)newer : 0;
}

/* Nothing of it is sent any more. */
void fanout_queue_done(struct fanout_queue *queue);

#endif
