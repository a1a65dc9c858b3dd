#include "cli/server_run.h"

#include <stdlib.h>
#include <string.h>

static int64_t info_number(const char *info, const char *name)
{
    const char *at = strstr(info, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

int server_run_read(struct session *session, struct server_run *ret_run)
{
    int code = EXIT_FINE;
    redisReply *reply = session_call(session, &code, "INFO", "server", NULL);
    if (!reply)
        return code;
    const char *info = reply->str ? reply->str : "";
    ret_run->process_id = info_number(info, "process_id:");
    ret_run->started_s =
        info_number(info, "server_time_usec:") / 1000000 - info_number(info, "uptime_in_seconds:");
    freeReplyObject(reply);
    return EXIT_FINE;
}

bool server_run_same(const struct server_run *a, const struct server_run *b)
{
    /* Both ends of the difference are cut to seconds. */
    int64_t apart = a->started_s - b->started_s;
    return a->process_id == b->process_id && apart >= -1 && apart <= 1;
}
