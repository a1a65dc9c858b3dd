#include "door/pass/outbound.h"

#include "door/pass/room.h"

/* Drops what was sent once it is the larger part, so that bytes move rarely. */
static void tidy(struct outbound *out, struct buffer *bytes)
{
    if (out->sent == bytes->size) {
        out->dropped += bytes->size;
        bytes->size = 0;
        out->sent = 0;
        buffer_shrink(bytes, ROOM_BLOCK_BYTES);
    } else if (out->sent > bytes->size / 2) {
        buffer_consume(bytes, out->sent);
        out->dropped += out->sent;
        out->sent = 0;
    }
}

/* Own output and shared messages, each in its place. */
static __attribute__((noinline)) ssize_t send_mixed(struct outbound *out, struct buffer *bytes,
                                                    uint64_t released, struct conn *conn)
{
    ssize_t total = 0;
    bool shared = false; /* its turn is over */
    while (!out->is_full && !shared) {
        uint64_t position = out->dropped + out->sent;
        uint64_t next = fanout_next(out->shared);
        uint64_t until = next < released ? next : released;
        ssize_t sent = 0;
        bool all;
        if (until > position) {
            size_t size = (size_t)(until - position);
            sent = conn_write(conn, (struct slice){bytes->data + out->sent, size});
            all = sent == (ssize_t)size;
            out->sent += sent > 0 ? (size_t)sent : 0;
        } else if (next <= position) {
            sent = fanout_send(out->shared, position, conn, &all);
            shared = true;
        } else {
            break;
        }
        if (sent == CONN_BROKEN)
            return CONN_BROKEN;
        out->is_full = !all;
        total += sent > 0 ? sent : 0;
    }
    tidy(out, bytes);
    return total;
}

ssize_t outbound_send(struct outbound *out, struct buffer *bytes, uint64_t released,
                      struct conn *conn)
{
    size_t size = outbound_ready(out, released);
    if (size == 0)
        return 0;
    if (__builtin_expect(out->shared != NULL, 0))
        return send_mixed(out, bytes, released, conn);
    ssize_t sent = conn_write(conn, (struct slice){bytes->data + out->sent, size});
    if (sent == CONN_LATER)
        return 0;
    if (sent == CONN_BROKEN)
        return CONN_BROKEN;
    out->sent += (size_t)sent;
    tidy(out, bytes);
    return sent;
}
