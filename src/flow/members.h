/* members.h - who holds what on an item, from the log alone. */
#ifndef FLOW_MEMBERS_H
#define FLOW_MEMBERS_H

#include "flow/desk_own.h"

/* Makes the store's members of an item anew, as of where the store is. On the writer's thread.
 * ERR_UNAVAILABLE when the log does not reach back to its beginning. */
enum err members_mend(struct desk_seat *seat, struct store *store, struct slice item,
                      struct slice text, struct error *error);

/* Does the log reach back to the beginning of everything? ERR_UNAVAILABLE */
enum err members_reach(struct desk_seat *seat, struct error *error);

#endif
