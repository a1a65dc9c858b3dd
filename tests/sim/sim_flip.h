/* sim_flip.h - the log changes while nobody looks: a bit turns, or a group lands
 * in the place of another, as when a disk writes a block where it does not belong.
 *
 * Only what the log cannot mistake for the unfinished write of a crash is
 * changed: segment headers, and groups that something sound follows. The next
 * start has to refuse it, naming file and offset. */
#ifndef SIM_FLIP_H
#define SIM_FLIP_H

#include "sim/sim_world.h"

#define FLIP_PATH_BYTES 64u

struct flip {
    enum fault fault;
    char path[FLIP_PATH_BYTES];
    uint64_t offset;
    size_t size;
    char *mask; /* owned; a set bit turns */
};

/* Something to change, FAULT_FLIP or FAULT_MISPLACED; false if there is nothing
 * yet. The process is down. */
bool flip_pick(struct world *world, enum fault fault, struct sim_rng *rng, struct flip *ret_flip);

/* Changes it, has the process try to start, which must fail, and changes it
 * back; frees the flip. */
void flip_try(struct world *world, struct flip *flip);

#endif
