/* compare.h - a proof without the log: the places against each other.
 *
 * A log outside of the process is not read behind the backs of those who follow it. But it is what
 * the store is made of, event by event, and so a count in the hot layer has to be what the store
 * says as soon as that has the same events; and a count of reactions has to be the number of
 * members. A count that does not stand still while it is looked at is looked at again. */
#ifndef FLOW_COMPARE_H
#define FLOW_COMPARE_H

#include "flow/proof.h"

/* One count, as it stands in both places. */
struct comparison {
    struct hot_record record; /* of the hot layer */
    struct number hot;        /* these two are the caller's to free */
    struct number store;
    int64_t members; /* of an item's kind: counted one by one in the store */
};

/* `kind` is KIND_NONE for a counter. ERR_BUSY: it is written to all the time, or the store has
 * units of it that wait; ERR_WRONG_TYPE, ERR_NOT_FOUND. */
enum err compare_count(struct desk_seat *seat, struct slice target, uint8_t kind,
                       struct comparison *ret, struct error *error);
void comparison_done(struct comparison *comparison);

/* Instead of proof_check(), where the log has many lanes. */
enum err compare_check(struct proof *proof, const struct proof_ids *ids, struct error *error);

#endif
