/* resp_multi.h - MULTI: commands that are queued, and run in one go when EXEC comes.
 *
 *   MULTI   +OK         from here on every command is checked and queued,
 *   INCR a  +QUEUED     not run; what is refused now makes EXEC refuse all
 *   EXEC    *1 :1       the queue is run as if it had just been sent, behind the
 *                       head of an array that its answers are the elements of
 *
 * What is queued is kept as bytes of RESP, within the limit of one request. EXEC
 * waits until the batch has room for all of it, where a batch can have. What is
 * open costs other commands nothing: `lacks` of the client has a flag that no
 * command has, so all of them come to resp_multi_take().
 *
 * Nothing else may write to a client between the elements of its array: who
 * listens to changes cannot open a transaction, nor begin to listen in one. */
#ifndef DOOR_RESP_RESP_MULTI_H
#define DOOR_RESP_RESP_MULTI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct resp_client;
struct resp_command;

/* Queues the command, or does what it says about the transaction that is open. False, as of
 * resp_command_run(): it has to wait. */
bool resp_multi_take(struct resp_client *client, const struct resp_command *command, unsigned argc,
                     const struct slice *argv);

/* A command was refused before it could be queued: EXEC will be, too. Nothing if none is open. */
void resp_multi_spoil(struct resp_client *client);

/* After EXEC, when the client is held by RESP_HOLD_EXEC: lets go of it, and returns the requests to
 * be run before what follows; they stay until the pass is over. */
struct slice resp_multi_begin(struct resp_client *client);

/* Forgets what is queued; as if MULTI had never been said. */
void resp_multi_forget(struct resp_client *client);

/* The memory that it takes. */
size_t resp_multi_bytes(const struct resp_client *client);

#endif
