/* nodes_movers.h - movers: the real decisions of hot/redis/hand_over.c, over nodes_pieces.h.
 *
 * A step of a mover is done cell by cell, and between any two calls it may die, or pause for so
 * long that others take it for dead, go on with what it has begun, and are met by what it sends
 * late. */
#ifndef NODES_MOVERS_H
#define NODES_MOVERS_H

#include "sim/nodes/nodes_pieces.h"

#define MOVERS 4u

struct mover {
    bool is_active;
    unsigned node;
    unsigned life;
    unsigned thing;
    struct hand_over over;
    bool finishes;               /* only what is under way */
    uint8_t goal[BUCKET_SLICES]; /* who is to own which slice */
    uint64_t left;               /* cells, or slices, that the step is still to be done for */
    bool is_in_step;
    int64_t step_began_ms;
    int64_t paused_until_ms;
    struct frozen_slices frozen;
    struct stopped_piece stopped[LIMIT_CELLS];
    uint64_t stopped_cells;
    uint64_t wiped[LIMIT_CELLS];
    uint64_t target_epoch;
    uint64_t home_sequence; /* that is waited for */
};

struct movers {
    struct redis_model *model; /* borrowed */
    struct mover list[MOVERS];
    uint64_t begun;
    uint64_t ended; /* all was done */
    uint64_t died;
    uint64_t undone;
    uint64_t dissolved;
    uint64_t steps;
};

/* Starts one for the thing, if there is room: to new owners (`shards` 1 = all at home), or to go on
 * with what is under way (0), or to give up all pieces. */
void movers_start(struct movers *movers, unsigned node, unsigned life, unsigned thing,
                  unsigned shards);
void movers_dissolve(struct movers *movers, unsigned node, unsigned life, unsigned thing);

/* The next call of that mover, and whatever follows from its answer. False: it waits. */
bool movers_step(struct movers *movers, struct mover *mover);

bool movers_have(const struct movers *movers, unsigned thing);

#endif
