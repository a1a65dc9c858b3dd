/* compare.h - a proof without the log: the places against each other.
 *
 * Where the log is outside of the process, reading all of it is dear. But the store is made of it,
 * event by event, and so a count in the hot layer has to be what the store says as soon as that has
 * the same events, and a count of reactions has to be the number of members. What is written to
 * while it is looked at is looked at again. Where places differ the log is asked (proof.c); if its
 * beginning is gone, the members are what counts, and of a counter the store, unless its row is not
 * what was written there: then the hot layer, or nobody knows. */
#ifndef FLOW_COMPARE_H
#define FLOW_COMPARE_H

#include "flow/proof_own.h"

/* One id, as it stands in all places, of the same events. */
struct places {
    bool is_item;
    bool is_hot;               /* else only the store has it, or can be asked */
    struct hot_inspection hot; /* with is_hot */
    bool has_row;
    bool is_wrong;        /* the row is not what was written there */
    uint32_t incarnation; /* of the row */
    struct number value;  /* a counter's row; this and hot.value are the caller's to free */
    int64_t counts[LIMIT_KINDS];
    int64_t members[LIMIT_KINDS]; /* counted one by one in the store */
};

#define LOOKS_FEW  2u  /* there are others to look at */
#define LOOKS_MANY 20u /* somebody waits for it */

/* ERR_BUSY: it was written to during each of the looks, or the store has units of it that wait;
 * ERR_NOT_FOUND.
 */
enum err places_look(struct desk_seat *seat, struct slice id, unsigned looks, struct places *ret,
                     struct error *error);
void places_done(struct places *places);

/* Looks at all of them, and tells of each that does not agree with itself. What has gone
 * meanwhile, or never stands still, is left for another time. */
typedef void compare_fn(void *arg, struct slice id);
enum err compare_find(struct proof *proof, const struct proof_ids *ids, compare_fn *differs,
                      void *arg, struct error *error);

/* Deals with one that does not. `store_is_right`: the log has proved it; else the store's counts
 * are compared with its members. The hot layer is compared with the store. */
enum err compare_settle(struct proof *proof, struct slice id, bool store_is_right,
                        struct error *error);

#endif
