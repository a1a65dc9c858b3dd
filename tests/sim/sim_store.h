/* sim_store.h - a store in plain arrays: rows by id, who holds what by user.
 *
 * It fulfils core/store.h as far as the pipeline needs it. A struct sim_store is what
 * lies on its disk, and outlives processes: a call is done as a whole or not at
 * all, and what was done stays. It can be down for a while, refuse units, and the power
 * can go off just before or just after any of its calls.
 *
 * Unlike SQLite it gives an item in slices at whatever size it is told, so that
 * a few members are enough to load them piece by piece. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include "core/kinds.h"
#include "core/store.h"
#include "sim/sim_options.h"
#include "sim/sim_planted.h"
#include "sim/sim_rng.h"

/* Set and changed by the owner at any time; zero means never. */
struct sim_store_faults {
    bool down;                /* every call is ERR_UNAVAILABLE */
    unsigned down_permille;   /* of the calls, each by itself */
    unsigned refuse_permille; /* of the units of a batch, each by itself */
    bool refuses_id;          /* all units of `refused_id`, at retries, too */
    unsigned refused_id;

    /* The power goes off at this call, counted from 1 for the life of the store; then
     * `crash` is called, and everything is ERR_UNAVAILABLE until sim_store_open(). */
    uint64_t crash_at_call;
    void (*crash)(void *arg);
    void *crash_arg;
};

struct sim_store_counts {
    uint64_t calls;
    uint64_t faults; /* calls that were made to fail */
    uint64_t batches;
    uint64_t refused; /* units */
    uint64_t retries;
    uint64_t letters;
    uint64_t loads;
};

struct sim_store {
    struct sim_store_faults faults;
    struct sim_store_counts counts;
    struct sim_store_state *state; /* private */
};

struct sim_store *sim_store_new(const struct sim_options *options, const struct kinds *kinds,
                                enum bug bug);
void sim_store_free(struct sim_store *store);

/* A process opens it; store_close() ends that, the rows stay. */
struct store *sim_store_open(struct sim_store *store);

/* Nothing reaches it any more until it is opened anew. */
void sim_store_power_off(struct sim_store *store);

uint64_t sim_store_hash(const struct sim_store *store);

#endif
