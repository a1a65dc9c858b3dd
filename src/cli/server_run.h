/* server_run.h - which life of the server this is.
 *
 * Cursors of SCAN and MEMBERS do not outlive a restart, so that who keeps one keeps
 * this as well. */
#ifndef CLI_SERVER_RUN_H
#define CLI_SERVER_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/session.h"

struct server_run {
    int64_t process_id;
    int64_t started_s; /* since 1970; to the second, or nearly */
};

int server_run_read(struct session *session, struct server_run *ret_run);
bool server_run_same(const struct server_run *a, const struct server_run *b);

#endif
