#include "cli/export.h"

#include "cli/session.h"

int export_run(struct session *session, const struct command_line *line)
{
    (void)session;
    (void)line;
    return EXIT_FINE;
}
