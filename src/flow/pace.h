/* pace.h - how much of the audit in the background is done when.
 *
 * A piece that got the processor whenever it wanted it has met a machine with time to spare: the
 * next one is large, and comes after three times as long as this one took, so that the audit has a
 * quarter of one core. One that had to wait, for others or for the disk, is followed by the pause
 * and the size that the operator has set. The thread runs at the lowest priority, so that it is the
 * first to wait. Pure. */
#ifndef FLOW_PACE_H
#define FLOW_PACE_H

#include <stdint.h>

struct pace {
    uint64_t pause_ns; /* until the next piece */
    uint64_t ids;      /* in it */
};

/* After a piece that took `wall_ns`, in which the thread ran for `cpu_ns`; `every_ns` and `ids` are
 * those that were set, `ids_max` the most at once. */
struct pace pace_next(uint64_t wall_ns, uint64_t cpu_ns, uint64_t every_ns, uint64_t ids,
                      uint64_t ids_max);

#endif
