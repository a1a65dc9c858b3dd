#include "cli/import_redis.h"

#include "cli/session.h"

int import_redis(struct session *session, const struct command_line *line)
{
    (void)session;
    (void)line;
    return EXIT_FINE;
}
