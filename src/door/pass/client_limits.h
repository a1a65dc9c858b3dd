/* client_limits.h - limits that hold for the clients of all listeners together: how many
 * connections there may be, how much memory their buffers may use, and how often they may guess
 * passwords (auth_throttle.h).
 *
 * One object serves all protocols and all workers. Connections are counted by one atomic number.
 * Memory is counted by each client where its buffers change (client_usage_set()), which costs an
 * atomic addition only when the size of a buffer has changed. When the total is over the limit,
 * each worker closes its worst clients at the end of its pass, but only while no other worker has
 * worse ones: that one is woken instead. "Worse" means a higher class of size, which are powers of
 * two. To the size of a client that lags behind what many are sent (fanout.h) belongs what is kept
 * for it, which is counted once in the total; clients that have not authenticated count as
 * CLIENT_STRANGER_FACTOR times their size. */
#ifndef DOOR_PASS_CLIENT_LIMITS_H
#define DOOR_PASS_CLIENT_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "core/limits.h"
#include "door/pass/auth_throttle.h"
#include "net/gauge.h"

#define CLIENT_CLASSES         48u
#define CLIENT_CLASS_LEAST     10u /* 1 KiB: who uses less is never closed for it */
#define CLIENT_STRANGER_FACTOR 8u
#define CLIENT_SHARES_MAX      (4u * LIMIT_WORKERS)

struct client_share;
struct pass;

/* What is known of a client's memory, in bytes. */
struct client_memory {
    size_t input;     /* of requests that are not whole or not taken, */
    size_t output;    /* and of answers that are not sent, with the space behind them */
    size_t lag;       /* of what it shares with others, and should have taken */
    bool is_stranger; /* it has not authenticated */
};

/* The same as of the last time; a member of the client. The worker's thread writes it. */
struct client_usage {
    void *client; /* for client_evict_fn */
    struct gauge input;
    struct gauge output;
    size_t lag;
    bool is_stranger;
    unsigned class;            /* 0 = in no list */
    struct client_usage *next; /* in the list of its class */
    struct client_usage *previous;
};

struct client_limits {
    _Atomic uint64_t connections;
    struct gauge connections_max;
    _Atomic uint64_t memory;
    struct gauge memory_max; /* 0 = no limit */

    struct auth_throttle auth;

    struct lock lock; /* of what follows */
    struct client_share *shares[CLIENT_SHARES_MAX];
    unsigned share_count;
};

/* The clients of one worker of one protocol. Belongs to the worker's thread but for the gauges. */
struct client_share {
    struct client_limits *limits; /* borrowed */
    struct pass *pass;            /* borrowed: to wake its worker */
    struct client_usage *classes[CLIENT_CLASSES];
    struct gauge worst;   /* the highest class that has a client; 0 = none */
    struct gauge bytes;   /* of all its clients */
    struct gauge evicted; /* clients, since start */
};

/* `key` is random: it is that of a hash. */
void client_limits_init(struct client_limits *limits, uint64_t connections_max, uint64_t memory_max,
                        uint64_t key);
void client_limits_done(struct client_limits *limits);

/* ---- connections; any thread ---- */

/* Counts one more. False: there are as many as there may be. */
bool client_limits_admit(struct client_limits *limits);

/* Its descriptor is closed. `limits` is a struct client_limits: a conn_closed_fn. */
void client_limits_leave(void *limits);

/* ---- memory ---- */

/* Is the total over the limit? Any thread; cheap. */
static inline bool client_limits_is_over(const struct client_limits *limits)
{
    uint64_t max = gauge_read(&limits->memory_max);
    return __builtin_expect(
        max != 0 && atomic_load_explicit(&limits->memory, memory_order_relaxed) > max, 0);
}

/* Adds the share of a worker, whose pass has started; and takes it out again, when it has no
 * clients any more and does not run. */
void client_share_init(struct client_share *share, struct client_limits *limits, struct pass *pass);
void client_share_done(struct client_share *share);

/* Memory that no single client is charged with. */
void client_share_add(struct client_share *share, int64_t bytes);

/* What the client uses now. All zero before it is freed. */
void client_usage_change(struct client_share *share, struct client_usage *usage,
                         struct client_memory now);
static inline void client_usage_set(struct client_share *share, struct client_usage *usage,
                                    struct client_memory now)
{
    if (__builtin_expect(gauge_read(&usage->input) != now.input ||
                             gauge_read(&usage->output) != now.output || usage->lag != now.lag ||
                             usage->is_stranger != now.is_stranger,
                         0))
        client_usage_change(share, usage, now);
}

/* Without what it shares. */
static inline size_t client_usage_bytes(const struct client_usage *usage)
{
    return (size_t)(gauge_read(&usage->input) + gauge_read(&usage->output));
}

/* At the end of a pass, when the total is over the limit: has the worst clients of all closed by
 * `evict`, which sets their usage to zero, or wakes the worker that has worse ones. */
typedef void client_evict_fn(void *client);
void client_share_evict(struct client_share *share, client_evict_fn *evict);

#endif
