/* pace.h - how much of the audit in the background is done when.
 *
 * A piece that got the processor whenever it wanted it has met a machine with time to spare: the
 * next one is large, and comes after three times as long as this one took, so that the audit has a
 * quarter of one core. One that had to wait, for others or for the disk, is followed by the pause
 * and the size that the operator has set. The thread runs at the lowest priority, so that it is the
 * first to wait.
 *
 * Where the log and the store are outside, a thread waits for answers all the time, and what they
 * cost the servers shows in how long they take: an id that takes twice as long as it did at best
 * lately has met somebody who is busy, here or there. Then the audit has half as much of its time,
 * and as much again for each piece after that; when ids are quick it has twice as much, up to a
 * quarter. Pure. */
#ifndef FLOW_PACE_H
#define FLOW_PACE_H

#include <stdint.h>

struct pace {
    uint64_t pause_ns; /* until the next piece */
    uint64_t ids;      /* in it */
};

/* After a piece of `done` ids that took `wall_ns`, in which the thread ran for `cpu_ns`; one that
 * failed has done none, and is tried again after the pause that was set. `every_ns` and `ids` are
 * those that were set, `ids_max` the most at once. */
struct pace pace_next(uint64_t wall_ns, uint64_t cpu_ns, uint64_t done, uint64_t every_ns,
                      uint64_t ids, uint64_t ids_max);

#define PACE_PIECES 8u

/* What is remembered of pieces outside; zeroed at first. */
struct pace_outside {
    uint64_t took_ns[PACE_PIECES]; /* for an id, of the last pieces; 0 = none */
    unsigned next;
    uint64_t rest; /* parts of rest for one of work */
};

/* After a piece of `done` ids that took `wall_ns`; one that failed has done none. */
struct pace pace_next_outside(struct pace_outside *outside, uint64_t wall_ns, uint64_t done,
                              uint64_t every_ns, uint64_t ids, uint64_t ids_max);

#endif
