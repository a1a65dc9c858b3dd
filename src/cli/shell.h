/* shell.h - the interactive mode: commands typed one after the other.
 *
 * In a terminal with history and completion (libedit); from a pipe or a file a
 * command in each line, and # begins a comment. */
#ifndef CLI_SHELL_H
#define CLI_SHELL_H

#include "cli/session.h"

/* Runs one command line, the words behind the program's name; returns the exit code. */
int shell_run_line(struct session *session, int argc, const char *const *argv);

/* Until the end of the input, or exit. The options of `line`, such as --address, count for all of
 * its commands. Returns the exit code of the first that failed in a pipe, 0 in a terminal. */
int shell_run(struct session *session, const struct command_line *line);

#endif
