/* import_redis.h - counters and sets of likers, read from a Redis.
 *
 * First all keys are looked at and put to the thing that they belong to (layout.h);
 * then each thing is read and taken. Where a reaction has members as well as counters,
 * the members are taken, and the difference is told. */
#ifndef CLI_IMPORT_REDIS_H
#define CLI_IMPORT_REDIS_H

#include "cli/command.h"

/* As a command: import --from URL. */
int import_redis(struct session *session, const struct command_line *line);

#endif
