/* watch.h - values as they change: a live table in a terminal, lines in a pipe.
 *
 * Subscribes, so that the server is asked nothing while nothing changes. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/command.h"

command_fn watch_run;

#endif
