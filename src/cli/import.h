/* import.h - what export wrote, or what a Redis holds, becomes counters and reactions. */
#ifndef CLI_IMPORT_H
#define CLI_IMPORT_H

#include "cli/command.h"

command_fn import_run;

#endif
