/* server.h - the parts of tallyd, put together: the only place that knows all
 * of their names, and in which order they start and stop. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "server/config.h"

struct server;

/* Recovers the data, starts the workers and listens. Says what it does as
 * messages. `config` is copied. */
enum err server_start(const struct config *config, struct server **ret_server, struct error *error);

/* The port of the door for Redis clients; the configured one unless that is 0. */
uint16_t server_port(const struct server *server);

/* Takes over what may change while running; says what changed, and what needs
 * a restart. As config_update(): all, or nothing with an error. */
enum err server_reload(struct server *server, const struct config *next, struct error *error);

/* Has the server moved since the last call? For the watchdog; a moment of at
 * least a second should lie between. */
bool server_moves(struct server *server);

/* Somebody wants the nodes that it moves to to take over: move.h. */
void server_hand_over(struct server *server);

/* Answers what has come in, makes the log durable, frees everything. */
void server_stop(struct server *server);

#endif
