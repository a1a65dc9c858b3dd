/* outbox.h - what the relay reads from the outboxes of the cells, and how far the log is.
 *
 * core/outbox.h has the contract. All but outbox_note_written() and dirty() belong to the relay's
 * thread. Entries are copied out of the replies as they are and decoded on that thread: the
 * layer's own has enough to do. */
#ifndef HOT_REDIS_OUTBOX_H
#define HOT_REDIS_OUTBOX_H

#include "hot/redis/layer.h"

struct outboxes *outboxes_new(struct layer *layer);
void outboxes_free(struct outboxes *outboxes);

#endif
