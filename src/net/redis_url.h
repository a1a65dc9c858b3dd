/* redis_url.h - where servers of Redis are, and how to log in there:
 *
 *   redis://[[user]:password@]host[:port][,host[:port]...][/prefix][?settings]
 *
 * An address with colons stands in brackets: [::1]:6379. %41 in user or password is an A. */
#ifndef NET_REDIS_URL_H
#define NET_REDIS_URL_H

#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define REDIS_URL_SERVERS_MAX 256u
#define REDIS_URL_PORT        6379

struct redis_url_server {
    char host[256]; /* without brackets */
    uint16_t port;
};

struct redis_url {
    struct redis_url_server servers[REDIS_URL_SERVERS_MAX];
    unsigned count; /* at least 1 */
    char user[128]; /* empty: none, as all of these */
    char password[256];
    char prefix[64];       /* of keys; "tally" unless it is said */
    struct slice settings; /* behind the ?; of the text that was parsed */
};

/* `text` begins behind the scheme and its "//"; `what` begins the error: "the log's URL".
 * ERR_INVALID with a text that says what is wrong, but never the password. */
enum err redis_url_parse(const char *what, const char *text, struct redis_url *ret_url,
                         struct error *error);

#endif
