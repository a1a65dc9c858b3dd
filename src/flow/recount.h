/* recount.h - the recount of one count where the log has many lanes: hot layer, row and members,
 * each against just those events that it is the sum of. */
#ifndef FLOW_RECOUNT_H
#define FLOW_RECOUNT_H

#include "flow/desk_own.h"

/* As desk_recount(). If the log's beginning is gone, the places are compared with each other. */
enum err recount_lanes(struct desk_seat *seat, struct slice id, struct desk_recount *ret,
                       struct error *error);

#endif
