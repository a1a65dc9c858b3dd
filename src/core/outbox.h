/* outbox.h - what a hot layer outside of the process has written down and the log does not have
 * yet.
 *
 * Such a hot layer (Redis) puts the events of a change into the outbox of its cell, in the same
 * step as the change. The relay (flow/relay.h) carries them into the log and tells the outbox,
 * which then lets go of them. Nodes share the cells out among them: each cell has one relay at a
 * time, by a lease. A relay that lost its lease and does not know it yet repeats what another has
 * carried over already; that does no harm (core/sequence.h).
 *
 * A hot layer outside may also come back empty, or without what it said last. Then its cell is
 * closed: nobody reads or writes there until it was opened again, in a new epoch:
 *
 *   begin()      the cell is in a new epoch, and still closed; whoever carries events of the old
 *                one over from now on is told by relayed() that they may not count
 *   the relay    carries over what is left in the outbox, then an EVENT_EPOCH, and waits until
 *                the store has all of that
 *   open(keep)   keep, if the cell's data has everything that the store has; else it is empty, and
 *                what is asked for is loaded from the store. Before that the relay appends one more
 *                event: so data that is given up is behind the log for ever, wherever it comes from
 *
 * Masks have a bit for each cell. All calls are made by one thread, the relay's, and may block for
 * a second or two. ERR_UNAVAILABLE: the hot layer does not answer; try again. */
#ifndef CORE_OUTBOX_H
#define CORE_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/callback.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/limits.h"

struct outbox;

/* A section (core/event.h) of the cell's outbox; `last` is the sequence of its last event. */
typedef enum err outbox_visit_fn(void *arg, unsigned cell, struct slice section, uint64_t last,
                                 struct error *error);

struct outbox_ops {
    /* Renews our leases, takes up what is free, gives up what is more than our share; says which
     * cells are ours to relay. Several times a second. A lease that is not renewed for three
     * seconds is free. */
    uint64_t (*leased)(struct outbox *outbox);

    /* Gives up all our leases, so that others take the cells up at once: we end. NULL: they find
     * out by themselves. */
    void (*leave)(struct outbox *outbox);

    /* The cells that this process has written to since it was asked last. Cheap; any thread. */
    uint64_t (*dirty)(struct outbox *outbox);

    /* Visits what is in the outboxes of `cells` behind the sequences `after`, the oldest first,
     * about `limit` entries of each. One round trip for all. ERR_UNAVAILABLE: none of them
     * answered; those that did are visited. What `visit` returns otherwise. */
    enum err (*read)(struct outbox *outbox, uint64_t cells, const uint64_t after[LIMIT_CELLS],
                     uint32_t limit, outbox_visit_fn *visit, void *arg, struct error *error);

    /* The log has everything of `cells` up to these sequences: the outboxes let go of it. Says
     * which cells have answered (`ret_told`; the others are to be told again), and which of these
     * do not have such a sequence in their data: nobody's answer may rest on what was carried over
     * of them. `openings`: 0, or the epoch in which the caller is opening the cell; in any other
     * state it is stale. NULL: it opens none. ERR_UNAVAILABLE: none has answered. */
    enum err (*relayed)(struct outbox *outbox, uint64_t cells,
                        const uint64_t sequences[LIMIT_CELLS], const uint64_t openings[LIMIT_CELLS],
                        uint64_t *ret_told, uint64_t *ret_stale, struct error *error);

    /* The store has come to these sequences of `cells`. One that is open in an earlier epoch is
     * closed: somebody took another process for its server meanwhile, and opened the cell there;
     * what happens here is dropped. So is one whose data is of that epoch and has less: it has gone
     * back, and would give the same sequences to other events. ERR_UNAVAILABLE: none has
     * answered. */
    enum err (*saved)(struct outbox *outbox, uint64_t cells, const uint64_t sequences[LIMIT_CELLS],
                      struct error *error);

    /* How far the log is known to be, by whoever relays them, for those of `cells`, open or
     * closed; 0: it did not answer, or knows nothing. Says nothing about sequences of another
     * epoch. `ret_opening`: those that are being opened. Nobody's answer may rest on what is
     * carried over then; whether it counts is known when the store has it. ERR_UNAVAILABLE: none
     * has answered. */
    enum err (*progress)(struct outbox *outbox, uint64_t cells, uint64_t ret_sequences[LIMIT_CELLS],
                         uint64_t *ret_opening, struct error *error);

    /* The cells that were met closed, and that nobody has opened yet as far as we know. Cheap. */
    uint64_t (*closed)(struct outbox *outbox);

    /* Begins a new epoch, above `epoch`, and says which it is and the last sequence that the cell's
     * data has (of its old epoch; 0: it is empty). ERR_BUSY: another node is opening the cell.
     * ERR_EXISTS: it is open. */
    enum err (*begin)(struct outbox *outbox, unsigned cell, uint64_t epoch, uint64_t *ret_epoch,
                      uint64_t *ret_last, struct error *error);

    /* Opens the cell that begin() has closed. `n`: so many events of the new epoch are in the log
     * already, behind its first one. `incarnations`: as many deletions the store knows of
     * (state_mark), new ones are counted on from there. ERR_BUSY: another has begun anew meanwhile.
     * ERR_EXISTS: its outbox is not empty: carry it over first. */
    enum err (*open)(struct outbox *outbox, unsigned cell, uint64_t epoch, uint64_t n, bool keep,
                     uint32_t incarnations, struct error *error);
};

/* The first member of every outbox's own struct. It lives as long as its hot layer. */
struct outbox {
    const struct outbox_ops *ops;
    struct callback wake; /* called when dirty() or closed() has something new; any thread */
};

#endif
