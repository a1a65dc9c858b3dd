/* move.h - things get more shards, or fewer, while they are being written.
 *
 * Every change of a map is done in steps that are written down first: a node that dies in between
 * leaves something that any other goes on with, by the same functions. Which step is next is
 * decided in hand_over.h; here, and in lua/move.lua, is how it is done.
 *
 * What has moved must not be forgotten where it came from. So a step waits until the log has what
 * its cell wrote before: a cell that comes back without that is behind the log, is emptied, and
 * then the whole thing is dissolved: every piece is given up, and it is loaded from the store.
 *
 * These functions block for as long as it takes, which is some milliseconds for each slice. Any
 * thread but the layer's. */
#ifndef HOT_REDIS_MOVE_H
#define HOT_REDIS_MOVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"
#include "core/heat.h"
#include "hot/redis/hand_over.h"
#include "hot/redis/layer.h"
#include "hot/redis/map.h"
#include "hot/redis/words.h"

/* For tests: the mover dies after so many steps. Below zero = it does not. */
extern _Atomic int64_t move_steps_left;

/* One thing whose shards are being changed. */
struct move {
    struct layer *layer; /* borrowed, and so is the id */
    struct slice id;
    unsigned home;
    uint64_t deadline_ns;

    struct call call; /* these are owned */
    struct words words;

    /* as read from home */
    char type; /* of the record, as run.lua has it */
    uint32_t incarnation;
    uint32_t asked;          /* shards, by creation */
    bool stays;              /* a counter with a floor: never spread */
    char text[MAP_TEXT_MAX]; /* of the map, as it was written last */
    uint64_t hot_ms;         /* when some node has found it hot */
    uint8_t primary_of[LIMIT_CELLS];

    /* what is asked for */
    uint32_t shards; /* 0 = as many as the map says */
    enum heat_reason reason;

    struct hand_over over;       /* what is to be done next, and the map */
    struct frozen *frozen;       /* these are owned; NULL until they are needed */
    struct many *noted;          /* what cells have said that stopped or erased pieces */
    uint64_t wiped[LIMIT_CELLS]; /* how far the cells were when their pieces were given up */
    uint64_t target_epoch;       /* of the cell that a move was prepared in */
};

void move_init(struct move *move, struct layer *layer, struct slice id, uint64_t timeout_ms);
void move_done(struct move *move);

/* Gives it `shards` shards; a change that is under way is finished first. ERR_NOT_FOUND;
 * ERR_BUSY: others change it all the time; ERR_UNAVAILABLE, ERR_TIMEOUT: cells or the log do not
 * answer. A counter with a floor stays in one piece. */
enum err move_reshard(struct layer *layer, struct slice id, uint32_t shards,
                      enum heat_reason reason);

/* Finishes what is under way. */
enum err move_go_on(struct layer *layer, struct slice id);

/* --- for dissolve.c --- */

/* Does step after step until it is done, or its time is up. */
enum err move_run(struct move *move);

/* Reads what home has. */
enum err move_read(struct move *move);

/* Starts a call of move.lua with this verb, for record `id` in the cell. */
void move_call(struct move *move, unsigned cell, const char *verb);
void move_slice_keys(struct move *move, const char *letter, uint64_t slices);

/* Asks, again and again while the cell is closed or does not answer, until the deadline. */
enum err move_ask(struct move *move);

bool move_is_late(const struct move *move);
void move_pause(uint64_t ms);

#endif
