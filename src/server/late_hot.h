/* late_hot.h - a hot layer that may come later.
 *
 * A node starts whether Redis answers or not: its doors are open, and everything is ERR_UNAVAILABLE
 * until the real layer is there. A node that only aggregates never has one. */
#ifndef SERVER_LATE_HOT_H
#define SERVER_LATE_HOT_H

#include "core/hot.h"

struct late_hot {
    struct hot base;           /* for the doors; its hooks are theirs */
    struct hot *_Atomic real;  /* borrowed; NULL: not there yet */
    _Atomic uint64_t counters; /* as the store has them: all nodes' together */
    _Atomic uint64_t items;
    _Atomic uint64_t members;
};

void late_hot_init(struct late_hot *late);

/* What the store says that there is, for stats(). Any thread. */
void late_hot_note(struct late_hot *late, const struct state_mark *mark);

/* It is there: its `arrive` and `finish` are ours from now on. Once. */
void late_hot_set(struct late_hot *late, struct hot *real);

#endif
