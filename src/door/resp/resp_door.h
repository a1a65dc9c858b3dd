/* resp_door.h - what the parts of the door ask of the whole. The door itself,
 * and what others may know of it, is in resp.h. */
#ifndef DOOR_RESP_RESP_DOOR_H
#define DOOR_RESP_RESP_DOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "door/pass/client_limits.h"
#include "door/pass/password.h"
#include "door/resp/resp.h"

struct resp_commands;
struct resp_worker;

struct service *resp_door_service(struct resp *resp);
const struct resp_options *resp_door_options(const struct resp *resp);
const struct resp_commands *resp_door_commands(const struct resp *resp);
unsigned resp_door_workers(const struct resp *resp);
struct resp_worker *resp_door_worker(struct resp *resp, unsigned index);

/* Any thread, each of these. */
struct resp_limits resp_door_limits(const struct resp *resp);
uint64_t resp_door_next_id(struct resp *resp);
struct client_limits *resp_door_client_limits(const struct resp *resp);
struct password *resp_door_password(struct resp *resp);

#endif
