/* rows.h - a row of the store that is not there any more, made anew from the log. */
#ifndef FLOW_ROWS_H
#define FLOW_ROWS_H

#include "flow/desk_own.h"

/* Makes the row as of where the store is, without members: members_mend() does those. On the
 * writer's thread. `incarnation` is for what the log holds no event of any more. ERR_NOT_FOUND when
 * the log does not say that there is one, ERR_EXISTS when there is, ERR_UNAVAILABLE when the log
 * does not reach back to the beginning of an item. */
enum err rows_make(struct desk_seat *seat, struct store *store, struct slice id,
                   uint32_t incarnation, struct slice text, bool *ret_is_item, struct error *error);

#endif
