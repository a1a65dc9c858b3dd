/* help.h - the text of --help, made from the tables of the configuration. */
#ifndef SERVER_HELP_H
#define SERVER_HELP_H

#include "base/buffer.h"

/* Appends the text. */
void help_write(struct buffer *to);

#endif
