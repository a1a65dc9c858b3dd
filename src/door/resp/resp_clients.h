/* resp_clients.h - CLIENT: who is connected, by what name. */
#ifndef DOOR_RESP_RESP_CLIENTS_H
#define DOOR_RESP_RESP_CLIENTS_H

#include <stdbool.h>

#include "base/slice.h"

struct resp_client;

#define RESP_CLIENTS_BAD_NAME \
    "ERR Client names cannot contain spaces, newlines or special characters, or exceed 64 bytes."

/* False when it is no name: printable, without blanks, not too long; empty is
 * fine. */
bool resp_clients_set_name(struct resp_client *client, struct slice name);

#endif
