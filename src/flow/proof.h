/* proof.h - are counts what the log says that they are?
 *
 * An audit looks at the places where a count stands: the hot value, the hot members, the store's
 * row, the store's members. It notes of what events each is the sum (sequences by origin, of
 * one moment), reads the log once, sums up for each place just those events, and compares.
 * Nothing is stopped for it, and nothing that happens meanwhile can look like a drift. What
 * differs is looked at once more before it is believed.
 *
 * A repair adds the difference that was found: whatever happens in between, the
 * value is right afterwards, and one that was right is never touched. */
#ifndef FLOW_PROOF_H
#define FLOW_PROOF_H

#include "flow/desk_own.h"

/* What an audit of some ids is asked for, and what came of it. */
struct proof {
    struct desk_seat *seat;
    struct desk_work *work; /* told of what is found; NULL: nobody */
    bool values_only;       /* a recount: of one place each, and no members */
    bool repair;
    bool in_background; /* with a log of many lanes: it is asked only about what differs */
    bool is_expected;   /* we know that they differ, and why: nobody is told */
    uint64_t looked_at; /* ids */
    uint64_t drifts;
    uint64_t repairs;
    log_reading_fn *reading; /* may be NULL */
    void *reading_arg;
};

/* The ids of counters and items, one behind the other: a size (2 bytes) and the bytes. */
struct proof_ids {
    struct buffer bytes;
    size_t count;
};

void proof_ids_init(struct proof_ids *ids);
void proof_ids_done(struct proof_ids *ids);
void proof_ids_clear(struct proof_ids *ids);
void proof_ids_add(struct proof_ids *ids, struct slice id);
struct slice proof_ids_next(const struct proof_ids *ids, size_t *at); /* *at = 0 at first */

/* Among all who might put counts right at once, here and in other processes: one at a time, since
 * each adds what it has found missing. ERR_BUSY: another one does not come to an end. */
enum err proof_begin_mending(struct desk_seat *seat, struct error *error);
void proof_end_mending(struct desk_seat *seat);

/* Looks at all of them. An error is the store's or the log's; a drift is none. */
enum err proof_check(struct proof *proof, const struct proof_ids *ids, struct error *error);

/* Has the rows that recovery has used although they are not what was written there, and what came
 * of them in memory, put right from the log. Before anybody is served, and before the desk starts.
 * ERR_CORRUPT: they cannot be. */
enum err proof_settle_suspects(struct desk *desk, struct error *error);

#endif
