/* lease.h - which cells this node relays: an even share of those that there are.
 *
 * Each node that relays shows up in a hash of cell 0, once a second or so, and learns how many do.
 * It takes up free cells until it has its share, and gives up what is more, a few at a time, so
 * that another takes those up before the next ones are free. A lease ends three seconds after it
 * was last renewed, by the clock of the cell's server; we count from when we asked, so we stop
 * before. The relay's thread only. */
#ifndef HOT_REDIS_LEASE_H
#define HOT_REDIS_LEASE_H

#include "core/outbox.h"
#include "hot/redis/layer.h"

struct leases *leases_new(struct layer *layer);
void leases_free(struct leases *leases);

/* For the table of the outbox. On the way it learns which cells are open, and how many entries
 * wait in each outbox. */
uint64_t leases_leased(struct outbox *outbox);

void leases_leave(struct outbox *outbox);

/* The cells that were ours when leased() was last called. Any thread. */
uint64_t leases_held(struct layer *layer);

/* What waits in the outboxes of all cells, ours or not, and in the fullest, as of the last round.
 * Any thread. */
void leases_entries(struct layer *layer, uint64_t *ret_sum, uint64_t *ret_longest);

#endif
