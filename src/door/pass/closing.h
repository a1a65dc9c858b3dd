/* closing.h - has a client that is being closed stopped reading its last answers?
 *
 * A client that reads, however slowly, gets all of them. Progress is what the connection takes, and
 * what the other side acknowledges of what the connection has: a large socket buffer may take
 * nothing for long although the other side reads. */
#ifndef DOOR_PASS_CLOSING_H
#define DOOR_PASS_CLOSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/conn.h"

#define CLOSING_SILENT_MS 10000u /* without any progress */

struct closing {
    uint64_t progress_ms; /* loop clock */
    size_t in_flight;     /* as of the last look */
};

/* It begins to close, or has made progress. */
static inline void closing_progress(struct closing *closing, uint64_t now_ms)
{
    closing->progress_ms = now_ms;
}

/* About once a second. `ready`: bytes that may be sent and that the connection has not taken. */
static inline bool closing_is_stuck(struct closing *closing, const struct conn *conn, size_t ready,
                                    uint64_t now_ms)
{
    size_t in_flight = conn_in_flight(conn);
    if (ready == 0 || in_flight < closing->in_flight)
        closing->progress_ms = now_ms;
    closing->in_flight = in_flight;
    return now_ms > closing->progress_ms && now_ms - closing->progress_ms > CLOSING_SILENT_MS;
}

#endif
