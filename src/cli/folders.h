/* folders.h - where the program keeps what it wants to know the next time. */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

/* $XDG_STATE_HOME/tally/NAME or ~/.local/state/tally/NAME, with the folders made. False: there
 * is no such place. */
bool folders_state(const char *name, char *to, size_t size);

#endif
