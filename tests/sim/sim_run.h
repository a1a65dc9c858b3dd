/* sim_run.h - one seed, from an empty disk to the last check. */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "sim/sim_options.h"
#include "sim/sim_planted.h"
#include "sim/sim_report.h"

/* One call of the disk or of the store that shall go wrong, for those who try them all. */
struct injection {
    uint64_t call;    /* 0 = none */
    enum fault fault; /* one of those at a call */
};

struct run_result {
    uint64_t hash;        /* of everything: two runs of a seed have the same */
    uint64_t calls;       /* of the disk */
    uint64_t store_calls; /* of the model store, if there is one */
};

struct run_result sim_run(const struct sim_options *options, enum bug bug,
                          struct injection injection, struct report *report);

#endif
