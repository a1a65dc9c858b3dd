/* nodes_run.h - one seed of the simulated deployment, from start to end. */
#ifndef NODES_RUN_H
#define NODES_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nodes/nodes.h"

/* What happened, so that one can see that it did. */
struct nodes_counts {
    uint64_t steps;
    uint64_t ops;
    uint64_t strong;
    uint64_t weak;
    uint64_t unknown;
    uint64_t lost_replies;
    uint64_t loads;
    uint64_t drops;
    uint64_t movers;
    uint64_t mover_steps;
    uint64_t movers_died;
    uint64_t movers_undone;
    uint64_t dissolved;
    uint64_t old_maps; /* ops that a cell has sent away */
    uint64_t opened;
    uint64_t kept;
    uint64_t failovers;
    uint64_t replaced;
    uint64_t ghost_writes;
    uint64_t empties;
    uint64_t migrations;
    uint64_t kills;
    uint64_t store_failovers;
    uint64_t lost_commits;
    uint64_t repeats;
    uint64_t batches;
};

struct nodes_result {
    bool failed;
    char violation[240];
    uint64_t hash; /* of everything at the end */
    struct nodes_counts counts;
};

void nodes_run(uint64_t seed, enum nodes_bug bug, bool trace, struct nodes_result *ret_result);

#endif
