/* loop_uv.h - what the files of net/ know of one another. No other folder
 * includes this: libuv ends here. */
#ifndef NET_LOOP_UV_H
#define NET_LOOP_UV_H

#include <stdbool.h>
#include <uv.h>

#include "net/loop.h"

struct conn;

struct loop {
    uv_loop_t uv;
    uv_async_t stop;
    uv_idle_t idle;   /* while it is active, a pass does not wait */
    uv_check_t check; /* started first, and so called last at the end of a pass */
    bool going_on;
    struct conn *lingering; /* connections that conn_finish() has taken over */
};

/* Closes a handle that is the first member of heap memory, and frees that
 * memory once libuv has let go of it. */
void loop_close_handle(uv_handle_t *handle);

/* A libuv or system error (negative errno) as one of ours. */
enum err loop_error(struct error *error, int status, const char *what);

#endif
