/* sim_flip.h - the log changes while nobody looks: a bit turns, a group lands in
 * the place of another, as when a disk writes a block where it does not belong, or
 * a block is zero.
 *
 * What the log rests on is changed, and the next start has to refuse it, naming
 * file and offset: segment headers and groups, the last one too. Left out is what
 * nobody could tell from the unfinished write of a crash: see is_like_torn(). Or
 * something else is changed, and stays so: the next start has to be as always. */
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

/* Something to change, for one of FAULT_FLIP to FAULT_BEHIND; false if there is nothing
 * yet. The process is down. */
bool flip_pick(struct world *world, enum fault fault, struct sim_rng *rng, struct flip *ret_flip);

/* Changes it, has the process try to start, which must fail, and changes it
 * back; FAULT_BEHIND changes it only. Frees the flip. */
void flip_try(struct world *world, struct flip *flip);

#endif
