#include "cli/bench.h"

#include "cli/session.h"

int bench_run(struct session *session, const struct command_line *line)
{
    (void)session;
    (void)line;
    return EXIT_FINE;
}
