#include "cli/import.h"

#include "cli/session.h"

int import_run(struct session *session, const struct command_line *line)
{
    (void)session;
    (void)line;
    return EXIT_FINE;
}
