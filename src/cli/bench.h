/* bench.h - a short load on ids of its own, to see what this server and this way to it can do. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/command.h"

command_fn bench_run;

#endif
