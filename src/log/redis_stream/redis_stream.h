/* redis_stream.h - an event log in Redis Streams, for those who have no Kafka.
 *
 * A stream for each lane, on a single Redis (or Valkey) or on a cluster. Needs Redis 6.2, and one
 * that does not forget: appendonly, noeviction. */
#ifndef LOG_REDIS_STREAM_REDIS_STREAM_H
#define LOG_REDIS_STREAM_REDIS_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/log.h"

struct redis_stream_log_options {
    const char *url;   /* redis://[user:password@]host:port[,host:port...][/prefix]; redis-stream://
                          is   the same */
    const char *group; /* of those who follow; NULL: "tally" */
    const char *consumer;       /* a name of this process that no other has; NULL: a random one */
    bool follows;               /* this process wants a share of the lanes */
    uint64_t pending_bytes_max; /* appended and not yet there: ERR_BUSY past it; 0: the usual */
    uint64_t keep_ms;           /* what was released is kept for so long, since a store may go back
                                   (failover, backup); 0: the usual, an hour */
    uint64_t answer_ms;         /* a server that answers within this is up; 0: the usual */
    uint64_t close_ms;          /* how long close() waits for a server that is down; 0: the usual */
};

/* Nothing is connected until log_start(), which succeeds also while the servers are down: then
 * log_room() says ERR_UNAVAILABLE until they answer. ERR_INVALID for an URL that makes no sense,
 * or, from log_start(), for a server that is too old. */
enum err redis_stream_log_open(struct env *env, const struct redis_stream_log_options *options,
                               struct log **ret_log, struct error *error);

#endif
