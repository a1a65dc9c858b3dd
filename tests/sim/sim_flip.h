/* sim_flip.h - a bit of the log turns while nobody looks.
 *
 * Only bits are turned that the log cannot mistake for the unfinished write of
 * a crash: those of segment headers and of groups that something sound follows.
 * The next start has to refuse them, naming file and offset. */
#ifndef SIM_FLIP_H
#define SIM_FLIP_H

#include "sim/sim_world.h"

#define FLIP_PATH_BYTES 64u

struct flip {
    char path[FLIP_PATH_BYTES];
    uint64_t byte;
    unsigned bit;
};

/* A bit to turn; false if there is none yet. The process is down. */
bool flip_pick(struct world *world, struct sim_rng *rng, struct flip *ret_flip);

/* Turns it, has the process try to start, which must fail, and turns it back. */
void flip_try(struct world *world, const struct flip *flip);

#endif
