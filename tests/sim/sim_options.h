/* sim_options.h - what a seed decides before its run begins.
 *
 * In swarm style: each seed switches every kind of operation and every fault on
 * or off and picks its rates, since a run in which everything happens all the
 * time hides what happens only when something does not. */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "core/op.h"
#include "flow/service.h"
#include "sim/sim_report.h"

#define SIM_OP_KINDS (OP_MEMBERS + 1)

/* What is behind the log. */
enum sim_form { SIM_NO_STORE, SIM_MODEL_STORE, SIM_SQLITE };

struct sim_options {
    uint64_t seed;
    unsigned steps; /* what the run does, one after the other: a batch, a commit, a fault ... */

    unsigned ids;
    unsigned id_bytes; /* the longest one's */
    unsigned users;
    unsigned workers;
    unsigned batch_max;
    unsigned weights[SIM_OP_KINDS]; /* of each kind of op; 0 = never */
    unsigned keyed_permille;        /* of the writes */
    unsigned repeat_permille;       /* of the keyed ones: a key that was used before */
    unsigned big_permille;          /* of the amounts: near or past 64 bits */
    unsigned regional_permille;

    uint64_t segment_bytes;
    uint64_t pending_bytes_max;
    enum ack ack; /* anything but durable only where no power is cut */
    uint32_t idle_s;
    uint64_t spread_rate;

    unsigned commit_permille; /* chances of a step */
    unsigned tick_permille;
    unsigned reshard_permille;

    enum sim_form store;
    bool store_sliced;   /* the store gives every item in slices */
    uint64_t memory_max; /* of the hot layer; 0 = none */
    uint64_t retention_ms;
    uint64_t flush_interval_ms;
    uint64_t flush_events;
    uint64_t batch_events_max;
    uint64_t log_keep_bytes; /* 0 = all of it */
    unsigned flush_permille; /* chances of a step: the aggregator works, the loader does */
    unsigned load_permille;

    unsigned faults[FAULT_COUNT]; /* likewise; those of recovery and of the log: of a start */
};

void sim_options_of_seed(struct sim_options *options, uint64_t seed);
void sim_options_print(const struct sim_options *options, FILE *to);

#endif
