/* sim_check.h - is everything there, and nothing else? Compares all that the
 * system holds with the model, with the sum of the log's events, and with
 * itself: members with counts, shards with totals. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "sim/sim_clients.h"

/* `with_keys`: every idempotency key is sent again, else only some. */
void check_all(struct clients *clients, bool with_keys);

/* The same, and that the log, as the last recovery read it, adds up to what the
 * system holds. Right after a start only. */
void check_recovered(struct clients *clients);

#endif
