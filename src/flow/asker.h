/* asker.h - asks the store beside the one who wants to know.
 *
 * A store may take its time, or not answer at all. Who must not wait for it, since the answers of
 * clients wait for him (relay.h), leaves his question here, goes on, and finds the answer later.
 *
 * Two things can be asked: how far the store is, and for an epoch of a cell.
 *
 * It has a thread of its own, or is driven step by step (tests, the simulator). One thread leaves
 * questions and finds answers. */
#ifndef FLOW_ASKER_H
#define FLOW_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/state.h"
#include "core/store.h"

struct asker;

/* `answered` is called on the asker's thread after each answer. */
struct asker *asker_new(struct store *store, void (*answered)(void *arg), void *arg);
void asker_free(struct asker *asker);

enum err asker_start(struct asker *asker, struct error *error);

/* Waits for the answer that is due, and asks nothing more. */
void asker_stop(struct asker *asker);

/* Asks everything that was left here. Without a thread only. */
void asker_step(struct asker *asker);

/* How far is the store? Returns a number: answers of this number and of higher ones were asked for
 * after this call. */
uint64_t asker_want_mark(struct asker *asker);

struct asker_mark {
    uint64_t number; /* 0 = none yet */
    bool is_known;   /* else the store did not answer, or had none */
    struct state_mark mark;
};

/* The newest answer, if it is newer than the one in `*last`, which it takes the place of. */
bool asker_mark(struct asker *asker, struct asker_mark *last);

/* An epoch of this cell above `above`, please. One question for each cell at a time. */
void asker_want_epoch(struct asker *asker, unsigned cell, uint64_t above);

/* The answer to it, once; false: it is not there yet. */
bool asker_epoch(struct asker *asker, unsigned cell, uint64_t *ret_epoch, enum err *ret_err,
                 struct error *error);

#endif
