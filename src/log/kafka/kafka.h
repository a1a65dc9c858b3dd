/* kafka.h - an event log in Apache Kafka: a partition for each lane.
 *
 * Values are JSON that others can consume (docs/events.md). Positions are the store's, not Kafka's:
 * segment says which topic of that name it is, offset is Kafka's. Beside the topic is
 * `<topic>.dlq`, which tells of dead letters. */
#ifndef LOG_KAFKA_KAFKA_H
#define LOG_KAFKA_KAFKA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/log.h"

struct kafka_log_options {
    const char *url;            /* kafka://host:port[,host:port...]/topic */
    const char *group;          /* of those who follow; NULL: "tally-<topic>" */
    bool follows;               /* this process wants a share of the lanes */
    uint64_t pending_bytes_max; /* appended and not yet there: ERR_BUSY past it; 0: the usual */
    uint64_t close_ms;          /* how long close() waits for brokers that are down; 0: the usual */
    uint64_t answer_ms;         /* brokers that answer within this are up; 0: the usual */
    unsigned linger_us;         /* the producer waits so long for more; 0: the usual */
    unsigned session_ms; /* a dead follower's lanes are shared out after this; 0: the usual */
    unsigned replicas;   /* of a topic that is created; 0: three, or as many as there are */
};

/* Nothing is connected until log_start(), which succeeds also while the brokers are down: then
 * log_room() says ERR_UNAVAILABLE until they answer. ERR_INVALID for an URL that makes no sense,
 * and, from log_start(), for a topic that is not set up as the promises need it, with a text that
 * says what to do. */
enum err kafka_log_open(struct env *env, const struct kafka_log_options *options,
                        struct log **ret_log, struct error *error);

#endif
