/* links.h - one thread's connections to the servers that hold the lanes.
 *
 * Calls are made in rounds: all of a round are sent before the first reply is read, so a round
 * costs one round trip. A lane's server is learnt on the way: MOVED and ASK are followed, and when
 * a server does not answer the next one that is known is asked, which says who has the lane now.
 *
 * Belongs to one thread. Blocks for as long as a server may take to answer, but not beyond
 * links_end_at(). */
#ifndef LOG_REDIS_STREAM_LINKS_H
#define LOG_REDIS_STREAM_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include <hiredis/hiredis.h>

#include "base/env.h"
#include "core/limits.h"
#include "net/redis_url.h"

#define LINKS_ARGS_MAX 1024u

struct links;

struct links_call {
    unsigned lane; /* whose key it names */
    char *command; /* owned, formatted */
    size_t size;
    redisReply *reply; /* owned; NULL: was not sent, or nobody knows whether it was done */
    int server;        /* ASK: there, once; -1 = where the lane is */
    bool is_open;      /* no answer yet */
};

/* A server that answers within `answer_ms` is waited for; 0: the usual time. */
struct links *links_new(struct env *env, const struct redis_url *url, uint64_t answer_ms);
void links_free(struct links *links);

/* From this moment (of env_monotonic_ns()) on nobody is waited for: calls have no reply. Any
 * thread. */
void links_end_at(struct links *links, uint64_t end_ns);

/* Makes a call of `count` arguments. */
void links_call_init(struct links_call *call, unsigned lane, int count, const char **args,
                     const size_t *sizes);
/* The same, of closed strings. */
void links_call_text(struct links_call *call, unsigned lane, int count, const char **args);
void links_call_done(struct links_call *call);

/* Makes the calls; each has its reply afterwards, or NULL. Replies that only mean "not now" (the
 * server is loading, the cluster is down) are NULL as well. */
void links_round(struct links *links, struct links_call *calls, size_t count);

/* Why calls of the last round have no reply; "" if all have. */
const char *links_reason(const struct links *links);

/* How long an answer is waited for. */
uint64_t links_answer_ms(const struct links *links);

#endif
