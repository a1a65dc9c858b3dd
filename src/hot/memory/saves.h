/* saves.h - is what was written last to a record in the store by now?
 *
 * The store says how far it is as a sequence for each cell. A record cannot afford
 * to remember the sequence of its last write; it keeps four bits instead, the
 * generation in which it was written. About once a second a generation is
 * closed: the sequences of all cells are noted, and the next one begins. When
 * the store has passed what was noted, all that was written in that generation
 * or before is saved.
 *
 *   generations   1    2    3    4        0 = written in none of these
 *                 saved     open
 *                 <---|---------->        a record of generation 3 is not saved yet
 *
 * The numbers go round. A record that keeps one from the last round seems not to
 * be saved for a while, and never the other way. When the store is so far behind
 * that all are open, the youngest simply grows.
 *
 * Whoever changes it holds all cells; whoever asks holds one of them. */
#ifndef HOT_MEMORY_SAVES_H
#define HOT_MEMORY_SAVES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

#define SAVES_GENERATIONS 15u /* numbered from 1 */

struct saves {
    uint8_t oldest;                                    /* the oldest that is not saved */
    uint8_t now;                                       /* that is being written to */
    uint64_t ends[SAVES_GENERATIONS + 1][LIMIT_CELLS]; /* of those before `now` */
    uint64_t noted[LIMIT_CELLS];                       /* when the last one was closed */
};

void saves_init(struct saves *saves, const uint64_t sequences[LIMIT_CELLS]);

/* Closes the generation, unless nothing was written in it or there is no other:
 * `sequences` are those of the cells now. True if it did. */
bool saves_close(struct saves *saves, const uint64_t sequences[LIMIT_CELLS]);

/* The store has everything up to `sequences`. */
void saves_reach(struct saves *saves, const uint64_t sequences[LIMIT_CELLS]);

static inline bool saves_has(const struct saves *saves, uint8_t generation)
{
    if (generation == 0)
        return true;
    unsigned behind = (generation + SAVES_GENERATIONS - saves->oldest) % SAVES_GENERATIONS;
    unsigned open = (saves->now + SAVES_GENERATIONS - saves->oldest) % SAVES_GENERATIONS;
    return behind > open;
}

#endif
