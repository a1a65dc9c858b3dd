/* nodes_store.h - a model of PostgreSQL, as several aggregators and a failover see it.
 *
 * What is committed is in one place; every node has a view (struct store) of it. It can be down,
 * lose the answer of a commit that was done, and be replaced by a standby that lags behind: then
 * rows and mark go back together. */
#ifndef NODES_STORE_H
#define NODES_STORE_H

#include "core/store.h"
#include "sim/nodes/nodes.h"

struct store_rows {
    uint8_t held[ITEMS][USERS];
    int64_t values[COUNTERS];
    struct state_mark mark;
};

struct store_model {
    struct sim_rng *rng;
    enum nodes_bug bug;
    bool down;
    unsigned lost_permille; /* of the answers to commits */
    unsigned down_permille; /* of the calls, each by itself */
    struct store_rows rows;
    struct store_rows standby;
    uint64_t epochs[LIMIT_CELLS]; /* given; a failover does not lose these */
    uint64_t batches;
    uint64_t losses;
    struct store *views[NODES]; /* owned */
};

void store_model_init(struct store_model *model, struct sim_rng *rng, enum nodes_bug bug);
void store_model_done(struct store_model *model);

/* The standby has caught up. */
void store_model_replicate(struct store_model *model);
/* The standby takes over, as it is. */
void store_model_fail_over(struct store_model *model);

#endif
