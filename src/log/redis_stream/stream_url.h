/* stream_url.h - where the log's servers are:
 * redis://[user:password@]host:port[,host:port...][/prefix].
 */
#ifndef LOG_REDIS_STREAM_STREAM_URL_H
#define LOG_REDIS_STREAM_STREAM_URL_H

#include <stdint.h>

#include "base/error.h"

#define STREAM_SERVERS_MAX 16u
#define STREAM_PORT        6379

struct stream_server {
    char host[128];
    uint16_t port;
};

struct stream_url {
    struct stream_server servers[STREAM_SERVERS_MAX];
    unsigned count;
    char user[64];
    char password[128]; /* empty: none */
    char prefix[64];
    unsigned replicas; /* that must have an entry before it counts as appended */
};

/* ERR_INVALID with a text that says what is wrong, but never the password. */
enum err stream_url_parse(const char *text, struct stream_url *ret_url, struct error *error);

#endif
