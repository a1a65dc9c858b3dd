/* check.h - --check and --repair: a data folder as it lies there, log and store together.
 *
 * What a start would refuse is found, and what it would not look at. Neither changes the store. */
#ifndef SERVER_CHECK_H
#define SERVER_CHECK_H

#include "base/env.h"
#include "base/error.h"
#include "server/config.h"

/* Called for each line that there is to say. */
typedef void check_say_fn(void *arg, const char *line);

/* Reads every byte of log and store, and whether they fit each other; changes nothing.
 * ERR_CORRUPT: something is wrong. ERR_BUSY: the folder is in use. */
enum err check_data(struct env *env, const struct config *config, const char *folder,
                    check_say_fn *say, void *arg, struct error *error);

/* Cuts the log before its first damage, then looks at the store: ERR_CORRUPT if that is damaged, or
 * has what was cut off. */
enum err check_repair(struct env *env, const struct config *config, const char *folder,
                      check_say_fn *say, void *arg, struct error *error);

#endif
