/* open.h - what is known of each cell: open or closed; and how a closed one is opened.
 *
 * A cell is closed when its hash is missing, was left by another process of Redis, or is being
 * opened (lua/open.lua). Whoever meets that says so here; the relay (core/outbox.h) then opens it,
 * or another node does. */
#ifndef HOT_REDIS_OPEN_H
#define HOT_REDIS_OPEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/outbox.h"
#include "hot/redis/layer.h"

struct outboxes; /* outbox.h: what the relay's thread reads into */
struct leases;   /* lease.h */

struct opens {
    _Atomic uint64_t closed; /* masks of cells */
    _Atomic uint64_t untold; /* open, but the layer's thread has not heard of it */
    _Atomic uint64_t dirty;
    _Atomic uint64_t down_ns[LIMIT_CELLS]; /* ask.h: when to try again; 0 = it answers */
    /* When a look at the cell began that was answered. Written after what it has shown. */
    _Atomic uint64_t looked_ns[LIMIT_CELLS];
    /* Of cells that we open: when that was begun first, by whoever it was. The relay's thread. */
    uint64_t since[LIMIT_CELLS];
    struct outboxes *outboxes; /* owned, and so is this */
    struct leases *leases;
};

struct opens *opens_new(struct layer *layer);
void opens_free(struct opens *opens);

/* What the cell's hash has said just now. Any thread. */
void opens_saw(struct layer *layer, unsigned cell, bool is_open);

/* The cells that are closed as far as we know. Any thread. */
uint64_t opens_closed_now(struct layer *layer);

/* The cells that are closed, that may be, since nobody has looked at them since they have the
 * servers that they have, or that the layer still refuses ops of. Any thread. */
uint64_t opens_doubtful(struct layer *layer);

/* For the table of the outbox. */
uint64_t opens_closed(struct outbox *outbox);
enum err opens_begin(struct outbox *outbox, unsigned cell, uint64_t epoch, uint64_t *ret_epoch,
                     uint64_t *ret_last, struct error *error);
enum err opens_open(struct outbox *outbox, unsigned cell, uint64_t epoch, uint64_t n, bool keep,
                    uint32_t incarnations, struct error *error);

#endif
