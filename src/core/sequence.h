/* sequence.h - the place of an event among those of its origin.
 *
 *   sequence = epoch (24 bits) | n (40 bits)
 *
 * A sequence grows by one from event to event. A hot layer outside of the process may forget
 * what it has said last; then the origin begins a new epoch, with an EVENT_EPOCH whose n is 0, and
 * a second one if nothing of its data is kept.
 * Whatever comes later from an earlier epoch has a lower sequence, and so counts as a repetition
 * of something that was decided already: nobody was told that it is in the log. The hot layer
 * inside of the process never forgets: its epoch is 0 for ever. Pure. */
#ifndef CORE_SEQUENCE_H
#define CORE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#define SEQUENCE_N_BITS 40u

static inline uint64_t sequence_of(uint64_t epoch, uint64_t n)
{
    return epoch << SEQUENCE_N_BITS | n;
}

static inline uint64_t sequence_epoch(uint64_t sequence)
{
    return sequence >> SEQUENCE_N_BITS;
}

static inline uint64_t sequence_n(uint64_t sequence)
{
    return sequence & ((UINT64_C(1) << SEQUENCE_N_BITS) - 1);
}

/* May an event with `next` come right after `last`? 0 = there was none. */
static inline bool sequence_follows(uint64_t last, uint64_t next)
{
    return next == last + 1 || (sequence_n(next) == 0 && next > last);
}

#endif
