/* nodes.h - sizes and names of the simulated deployment.
 *
 * Small, so that everything meets everything: a few cells, items that are cut into two slices,
 * a dozen users, some counters without users. */
#ifndef NODES_H
#define NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"
#include "sim/sim_rng.h"

#define CELLS    4u
#define SERVERS  2u /* primaries of the simulated Redis */
#define ITEMS    5u
#define USERS    12u
#define SLICES   2u /* of an item; a user's is user % SLICES */
#define COUNTERS 3u
#define THINGS   (ITEMS + COUNTERS) /* items first */
#define NODES    3u

enum { HELD_NONE, HELD_LIKE, HELD_DISLIKE };
#define HELD_COUNT 3u

struct name {
    char text[8];
};

static inline struct name name_of(char letter, unsigned number)
{
    struct name name;
    (void)snprintf(name.text, sizeof(name.text), "%c%u", letter, number % 1000);
    return name;
}

static inline struct slice held_name(unsigned held)
{
    static const char *const names[HELD_COUNT] = {"", "like", "dislike"};
    return slice_of(names[held]);
}

static inline unsigned held_of(struct slice name)
{
    return name.size == 0 ? HELD_NONE : name.size == 4 ? HELD_LIKE : HELD_DISLIKE;
}

/* The number in "i4". */
static inline unsigned number_in(struct slice name)
{
    unsigned number = 0;
    for (size_t i = 1; i < name.size; i++)
        number = number * 10 + (unsigned)(name.data[i] - '0');
    return number;
}

static inline unsigned slice_of_user(unsigned user)
{
    return user % SLICES;
}

static inline bool is_item(unsigned thing)
{
    return thing < ITEMS;
}

static inline unsigned home_of(unsigned thing)
{
    return (is_item(thing) ? thing : thing - ITEMS) % CELLS;
}

static inline struct name name_of_thing(unsigned thing)
{
    return is_item(thing) ? name_of('i', thing) : name_of('c', thing - ITEMS);
}

/* Bugs that can be put in, to see that the simulator finds them. */
enum nodes_bug {
    NODES_NO_BUG,
    NODES_BUG_EPOCH_AGAIN,     /* an epoch is given twice */
    NODES_BUG_NO_EPOCH,        /* a server that is another now is not noticed */
    NODES_BUG_ALWAYS_KEEP,     /* a cell that lost something is kept */
    NODES_BUG_NO_STALE,        /* the outbox does not say that the epoch is another */
    NODES_BUG_NO_AFTER,        /* members move without an AFTER */
    NODES_BUG_MOVE_AT_ONCE,    /* and before it is in the log */
    NODES_BUG_NO_NEED,         /* a store that went back may be loaded from */
    NODES_BUG_NO_CALLS,        /* a call that is sent again is done again */
    NODES_BUG_NO_CALL_EPOCH,   /* also when it was done in an epoch that is over */
    NODES_BUG_NO_TOKEN,        /* a late loader overwrites */
    NODES_BUG_STORE_NO_CHECK,  /* the store does not look where it is */
    NODES_BUG_MARK_APART,      /* the mark is not in the transaction of the numbers */
    NODES_BUG_LOG_ACK_FIRST,   /* the log acknowledges before it has it */
    NODES_BUG_DROP_UNSAVED,    /* what the store does not have is dropped */
    NODES_BUG_MISSING_IS_ZERO, /* what is not loaded is taken for empty */
    NODES_BUG_NO_OTHERS,       /* the log does not say that somebody else has appended */
    NODES_BUG_NO_ENDED,        /* a cell that was opened elsewhere stays open */
    NODES_BUG_NO_GIVEN,        /* the store does not say which epochs it has given */
    /* of the hand-over */
    NODES_BUG_MADE_AGAIN,     /* a piece that was lost is made again, empty */
    NODES_BUG_SERVE_EARLY,    /* a cell serves before home's map names it */
    NODES_BUG_COPY_RELEASED,  /* slices are copied once more from where they were released */
    NODES_BUG_COPY_REOPENED,  /* and adopted though their source has been reopened */
    NODES_BUG_FORGET_MAP,     /* a home that lost its maps is opened while its pieces serve */
    NODES_BUG_NO_WAIT_HOME,   /* what home's map says is done before the log has it */
    NODES_BUG_SHARD_IS_ZERO,  /* a shard that is missing has counted nothing */
    NODES_BUG_STOP_AT_ONCE,   /* counts go home before the log has that they were stopped */
    NODES_BUG_DISSOLVE_EARLY, /* a whole is loaded before the store has what its pieces wrote */
    NODES_BUG_ADOPT_AGAIN,    /* a cell that was opened anew adopts what was given up */
    NODES_BUG_OLD_RELEASE,    /* pieces were given up for an opening that another node has ended */
    NODES_BUG_WIPE_UNSAID,    /* a piece that was given up comes back with a replica of its cell */
    NODES_BUG_HOME_LACKS,     /* home's map gives it what it has forgotten to have adopted */
    NODES_BUG_ERASE_UNSAID,   /* a piece that was erased comes back with a replica of its cell */
    NODES_BUG_NO_DEBT,        /* the same, and the cell was being opened when it was given up */
    NODES_BUG_OPEN_UNSAID,    /* a home that was lost is loaded without what its pieces wrote */
    NODES_BUG_COUNT,
    NODES_ONLY_MOVES, /* no bug: every seed is one of moves */
};

#define NODES_BUG_OF_MOVES NODES_BUG_MADE_AGAIN /* and those behind it */

const char *nodes_bug_name(enum nodes_bug bug);

/* Then all that happens has to do with moves. */
static inline bool nodes_bug_is_of_moves(enum nodes_bug bug)
{
    return bug >= NODES_BUG_OF_MOVES || bug == NODES_BUG_NO_AFTER || bug == NODES_BUG_MOVE_AT_ONCE;
}

#endif
