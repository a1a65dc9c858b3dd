/* sim_faults.h - what goes wrong, and when. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "sim/sim_world.h"

struct faults {
    struct world *world; /* borrowed */
    const struct sim_options *options;
    struct report *report;
    struct sim_rng rng;
    bool dies_by_power;    /* at the call of the disk that was chosen */
    enum fault at_call;    /* what happens there */
    unsigned full_steps;   /* until there is space again */
    unsigned slow_steps;   /* until the disk works again */
    unsigned down_steps;   /* until the store answers again */
    unsigned poison_steps; /* until it takes everything again */
    int64_t forward_ms;    /* by which the clock has jumped ahead, all together */
};

/* What the run has to do about a fault that has struck. */
enum strike {
    STRIKE_NOTHING,
    STRIKE_DEATH,   /* the process dies here and now, as dies_by_power says */
    STRIKE_RESTART, /* the process is to be ended in order */
    STRIKE_SCRUB,   /* a user is to be taken out of the log */
    STRIKE_DAY,     /* so much time has gone by that keys may be forgotten */
};

void faults_init(struct faults *faults, struct world *world, struct report *report);

/* Before each step: perhaps something happens. */
enum strike faults_strike(struct faults *faults);

/* Before each start: perhaps it will be cut short. True if it may be. */
bool faults_arm_start(struct faults *faults);

/* A call of the disk shall go wrong: `call` counts from the disk's first. */
void faults_arm(struct faults *faults, enum fault fault, uint64_t call);

/* The process is gone: notes what killed it, if that was a call. */
void faults_note_death(struct faults *faults);

/* From now on all is well. */
void faults_end(struct faults *faults);

/* Nothing goes wrong with the store in between. */
struct sim_store_faults faults_hold(struct faults *faults);
void faults_go_on(struct faults *faults, struct sim_store_faults held);

#endif
