/* nodes_log.h - a model of Kafka: lanes, each with an order of its own, which several nodes append
 * to and follow.
 *
 * A node's sections go into its producer first; from there they get into the lanes in the node's
 * order, at some later time, perhaps twice, perhaps without the node hearing of it (then it
 * sends them again). A node that dies leaves a producer behind that may still deliver. Who
 * follows which lane changes, and for a while two may believe that a lane is theirs. */
#ifndef NODES_LOG_H
#define NODES_LOG_H

#include "core/limits.h"
#include "core/log.h"
#include "sim/nodes/nodes.h"

struct log_section {
    size_t size;
    char *bytes; /* owned */
};

struct log_lane {
    struct log_section *sections; /* owned */
    size_t count;
    size_t room;
};

struct producer;

struct log_model {
    struct sim_rng *rng;
    enum nodes_bug bug;
    bool down;
    unsigned repeat_permille;  /* of deliveries that come twice */
    unsigned unheard_permille; /* of acknowledgements that are lost */
    struct log_lane lanes[LIMIT_CELLS];
    struct producer *producers[NODES]; /* owned: what the nodes' logs are */
    struct producer *left;             /* owned: of nodes that have died, a list */
    uint64_t owned[NODES];             /* lanes that a node believes to be its own */
    int64_t *now_ms;                   /* borrowed */
    int64_t down_since_ms;
    uint64_t repeats;
};

void log_model_init(struct log_model *model, struct sim_rng *rng, enum nodes_bug bug,
                    int64_t *now_ms);
void log_model_done(struct log_model *model);

/* The log as node `node` has it, now that it starts. */
struct log *log_model_open(struct log_model *model, unsigned node);

/* The node has died; its producer may go on for a while. */
void log_model_leave(struct log_model *model, unsigned node);

/* Delivers something of somebody. */
void log_model_deliver(struct log_model *model);

/* Everything that is on its way arrives, once. */
void log_model_settle(struct log_model *model);

#endif
