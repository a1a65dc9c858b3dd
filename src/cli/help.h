/* help.h - the table of commands in all the forms in which people and shells want it. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/command.h"

void help_print(bool colours);
void help_print_command(const struct command *command, bool colours);

/* What --print makes: "man", "man-tallyd" (of the text of tallyd --help, read from `from`),
 * "bash", "zsh". False: there is no such thing. */
bool help_generate(const char *what, FILE *from, FILE *to);

#endif
