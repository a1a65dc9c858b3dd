/* script.h - the scripts that run inside of Redis.
 *
 * Their sources are lua/<name>.lua, put into the program when it is built. A server is given all of
 * them once per connection (SCRIPT LOAD); from then on they are called by their checksum. */
#ifndef HOT_REDIS_SCRIPT_H
#define HOT_REDIS_SCRIPT_H

#include "base/slice.h"

/* lua/<file>.lua */
#define SCRIPT_LIST(X) \
    X(RUN, run)        \
    X(OPEN, open)      \
    X(OUTBOX, outbox)  \
    X(LOAD, load)      \
    X(DROP, drop)      \
    X(LOOK, look)      \
    X(MOVE, move)

enum script {
#define X(constant, file) SCRIPT_##constant,
    SCRIPT_LIST(X)
#undef X
};
#define SCRIPT_COUNT 7u

#define SCRIPT_SHA_SIZE 40u

/* What is sent to the server: all but run.lua have common.lua in front, whose functions cost too
 * much to be made anew for each group of likes. */
struct slice script_source(enum script script);

/* Its SHA-1 in hexadecimal, which is what EVALSHA wants. */
const char *script_sha(enum script script);

#endif
