/* stream_url.h - where the log's servers are: a URL of Redis (net/redis_url.h), that may also be
 * written redis-stream://, and may end with ?replicas=n. */
#ifndef LOG_REDIS_STREAM_STREAM_URL_H
#define LOG_REDIS_STREAM_STREAM_URL_H

#include "base/error.h"
#include "net/redis_url.h"

#define STREAM_SERVERS_MAX 16u

struct stream_url {
    struct redis_url redis; /* up to STREAM_SERVERS_MAX servers */
    unsigned replicas;      /* that must have an entry before it counts as appended */
};

/* ERR_INVALID with a text that says what is wrong, but never the password. */
enum err stream_url_parse(const char *text, struct stream_url *ret_url, struct error *error);

#endif
