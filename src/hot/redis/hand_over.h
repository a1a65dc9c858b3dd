/* hand_over.h - the steps of a mover: what is asked of which cell next, when shards change.
 *
 * Pure: it decides, and its driver talks to the cells. The real driver is move.c, over
 * lua/move.lua; the simulator of many nodes (tests/sim/nodes) drives the same code over a model of
 * the scripts, with movers that die between any two steps. README.md shows the steps as messages.
 *
 *     hand_over_init(&over, home, can_dissolve);
 *     while (over.step != HAND_OVER_END)
 *         hand_over_take(&over, do_step(over.step, over.cells), now_ms);
 *
 * What makes it safe, whoever dies or is emptied:
 *   - a piece is reserved before home's map names it, and made only where it was reserved: so a
 *     piece that the map names and that is missing was lost, and is never made again, empty;
 *   - what has lost a piece is dissolved: it is loaded from the store, which has the log;
 *   - nothing serves in a new place before the log has home's map that says so, and nothing is
 *     copied from a place that has not been frozen since, in the log;
 *   - each step names the map's version: cells refuse those that come too late. */
#ifndef HOT_REDIS_HAND_OVER_H
#define HOT_REDIS_HAND_OVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "hot/redis/map.h"

enum hand_over_step {
    HAND_OVER_READ,    /* home says which map it has: set `map` and `last_version` */
    HAND_OVER_PLAN,    /* nothing is under way: change `map` by map_next(), or set `is_done` */
    HAND_OVER_RESERVE, /* `cells`: a record that does not serve yet, for map.version */
    HAND_OVER_WRITE,   /* home: `map` instead of the one of version `before` */
    HAND_OVER_WAIT_HOME,
    HAND_OVER_PREPARE, /* `cells`: pieces know the version; those that were reserved serve. Of a
                        * move's target set `adopted` */
    HAND_OVER_FREEZE,  /* map.from: the slices take no writes */
    HAND_OVER_WAIT_SOURCE,
    HAND_OVER_COPY,
    HAND_OVER_ADOPT,   /* map.to: serves the slices. ERR_COLD: the copy is not whole */
    HAND_OVER_RELEASE, /* map.from: removes them */
    HAND_OVER_THAW,    /* map.from: takes writes again; map.change = MAP_MOVE if it was adopted */
    HAND_OVER_STOP,    /* `cells`: pieces take no writes, and tell their counts */
    HAND_OVER_WAIT_STOPPED,
    HAND_OVER_TAKE,  /* home: as WRITE, and adds these counts */
    HAND_OVER_ERASE, /* `cells`: pieces go */
    HAND_OVER_WAIT_ERASED,
    HAND_OVER_WIPE, /* `cells`: the pieces go, and say how far their cells are; so does home */
    HAND_OVER_WAIT_SAVED,
    HAND_OVER_UNLIST,
    HAND_OVER_GONE, /* home has nothing any more: it is loaded when it is asked for */
    HAND_OVER_END,  /* `code` */
};

struct hand_over {
    enum hand_over_step step; /* to be done next */
    uint64_t cells;           /* by these cells, a bit each; 0 where there is one by its nature */
    struct map map;           /* home's, or what is to be written there */
    uint64_t before;          /* the version that it replaces */
    uint64_t last_version;    /* the highest that is known of */
    unsigned home;
    bool can_dissolve; /* there is a store */
    bool is_done;
    uint64_t adopted; /* the last version of which the move's target has adopted slices */

    enum err code;   /* at the end */
    bool dissolves;  /* that is all that was wanted */
    bool gives_up;   /* the log did not answer: the move is undone */
    unsigned copies; /* tries */
    bool has_lost;
    uint64_t lost_version; /* a piece was missing at this version of the map */
    uint64_t busy_version; /* and a step came too late for some cell */
};

void hand_over_init(struct hand_over *over, unsigned home, bool can_dissolve);

/* The same, to give up all pieces: one was lost. */
void hand_over_init_dissolve(struct hand_over *over, unsigned home, bool can_dissolve);

/* How the step ended. ERR_BUSY: it came too late, somebody has gone on. ERR_CORRUPT: a piece is
 * missing, or makes no sense. ERR_COLD: see ADOPT. Anything else is the end, but that a move which
 * the log does not confirm in time (ERR_TIMEOUT) is undone. */
void hand_over_take(struct hand_over *over, enum err outcome, int64_t now_ms);

const char *hand_over_step_name(enum hand_over_step step);

#endif
