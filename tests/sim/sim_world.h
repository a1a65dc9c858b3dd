/* sim_world.h - the machine: a disk, a clock, and at times a process on it.
 *
 * The process is the whole embedded system without its doors and threads:
 * memory hot layer, file log, recovery and service; for some seeds a store behind it,
 * too, with aggregator and loader. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "base/env.h"
#include "flow/aggregator.h"
#include "flow/loader.h"
#include "flow/service.h"
#include "sim/sim_disk.h"
#include "sim/sim_journal.h"
#include "sim/sim_options.h"
#include "sim/sim_planted.h"
#include "sim/sim_store.h"

#define WORLD_FOLDER "data"

/* Keys are kept for a day. */
#define WORLD_KEYS_KEPT_MS (INT64_C(24) * 3600 * 1000)

struct world {
    struct env env; /* first: the rest is found through it */
    const struct sim_options *options;
    struct report *report;
    struct sim_rng rng; /* what the system takes for chance */
    int64_t wall_ms;
    int64_t latest_ms; /* that it ever was */
    uint64_t monotonic_ns;
    struct sim_disk *disk;
    struct planted *planted;
    struct kinds kinds;
    struct journal journal;
    struct sim_store *model_store; /* NULL unless the seed has one */

    /* of the process, while it is up */
    bool up;
    bool dying; /* the log has called fatal(), or the power went off */
    struct log *file;
    struct log *log;
    struct hot *hot;
    struct service service;
    struct store *store; /* these three are NULL without */
    struct loader *loader;
    struct aggregator *aggregator;
    bool began_waiting;    /* units waited in the store: the totals of its mark lack them */
    callback_fn *progress; /* called when the log has got on */
    void *progress_arg;
};

void world_init(struct world *world, const struct sim_options *options, enum bug bug,
                struct report *report);
void world_done(struct world *world);

/* Starts the process: reads the log, then is ready to write. An error leaves it
 * down. */
enum err world_start(struct world *world, struct error *error);

/* Ends it in order. */
void world_stop(struct world *world);

/* Ends it at once: nothing more reaches the disk. With the power, or by a kill
 * that leaves the machine running. */
void world_die(struct world *world, bool by_power, struct sim_rng *rng);

/* What the log's threads would do next; false if there was nothing to do. */
bool world_commit(struct world *world);

/* What aggregator and loader would do next. The loader's says whether there was something
 * wanted; telling the hot layer what the store has is work of its own. */
void world_aggregate(struct world *world);
bool world_load(struct world *world);
void world_tell(struct world *world);
void world_tell_all(struct world *world);

/* All that is in the log, into the store; false if it does not answer. */
bool world_flush(struct world *world);

/* Faults of disk and store so far. */
uint64_t world_faults(const struct world *world);

/* How another process fares that wants the same folder. */
enum err world_open_again(struct world *world, struct error *error);

#endif
