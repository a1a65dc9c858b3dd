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

ssize_t outbound_send(struct outbound *out, struct buffer *bytes, uint64_t released,
                      struct conn *conn)
{
    size_t size = outbound_ready(out, released);
    if (size == 0)
        return 0;
    ssize_t sent = conn_write(conn, (struct slice){bytes->data + out->sent, size});
    if (sent == CONN_LATER)
        return 0;
    if (sent == CONN_BROKEN)
        return CONN_BROKEN;
    out->sent += (size_t)sent;
    tidy(out, bytes);
    return sent;
}
