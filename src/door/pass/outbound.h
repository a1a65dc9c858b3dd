/* outbound.h - answers on their way out of a connection.
 *
 * Answers are appended to a buffer of the door; what may leave is sent from its front, and is
 * dropped there now and then. Places in it are counted over all that the client was ever answered,
 * so that a promise (promise.h) need not know of that. What is shared with other clients (fanout.h)
 * has its place between them. */
#ifndef DOOR_PASS_OUTBOUND_H
#define DOOR_PASS_OUTBOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "door/pass/fanout.h"
#include "net/conn.h"

struct outbound {
    struct fanout_queue *shared; /* borrowed: messages that go in between; NULL: never any */
    bool is_full;                /* the connection took no more of them: wait until it is ready */
    uint64_t dropped;            /* the first byte of the buffer is this one of all */
    size_t sent;                 /* of the buffer */
};

/* Where the output ends. */
static inline uint64_t outbound_end(const struct outbound *out, const struct buffer *bytes)
{
    return out->dropped + bytes->size;
}

/* Output that waits to be sent. */
static inline size_t outbound_waiting(const struct outbound *out, const struct buffer *bytes)
{
    return bytes->size - out->sent + (out->shared ? out->shared->bytes : 0);
}

/* What may leave, up to `released`, and has not. */
static inline size_t outbound_ready(const struct outbound *out, uint64_t released)
{
    size_t own = (size_t)(released - out->dropped) - out->sent;
    if (__builtin_expect(out->shared != NULL, 0) && fanout_next(out->shared) <= released)
        own += out->shared->bytes;
    return own;
}

/* Sends of that as much as the connection takes: so many bytes, or CONN_BROKEN. */
ssize_t outbound_send(struct outbound *out, struct buffer *bytes, uint64_t released,
                      struct conn *conn);

#endif
