/* manual.h - man pages and completion for shells, made from the table of commands.
 *
 * The build runs the program to make them, so that they cannot differ from it. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include <stdio.h>

/* tally(1) */
void manual_write(FILE *to);

/* tallyd(8), from the text that tallyd --help prints. */
void manual_write_tallyd(FILE *from, FILE *to);

void manual_write_bash(FILE *to);
void manual_write_zsh(FILE *to);

#endif
