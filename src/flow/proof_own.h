/* proof_own.h - what the files of a proof share.
 *
 *   proof_tasks.c    which ids: all, those of a pattern, the next ones in the background
 *   proof_strays.c   and those that only the log speaks of
 *   proof_waiting.c  and units that wait in the store
 *   proof.c          the check of some ids; it uses what follows, in this order
 *   proof_look.c     what stands where
 *   proof_sums.c     what ought to stand there
 *   proof_drift.c    what is said of a difference
 *   proof_mend.c     how it is put right
 *   compare.c        places against each other, where the log is outside */
#ifndef FLOW_PROOF_OWN_H
#define FLOW_PROOF_OWN_H

#include "flow/proof.h"

#define PROOF_PASS_IDS 50000u /* that share one reading of the log */
#define COUNT_ID_BYTES (LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES)

/* One count in one place, and the events that it is the sum of. */
struct sight {
    struct slice id; /* counter or item; of the ids */
    uint8_t kind;    /* of an item */
    enum event_place place;
    struct number value;
    struct hot_record record; /* which one it was; in the store: its incarnation */
    struct sums_entry *sum;
    bool is_missing;  /* there is no row for the whole id */
    bool is_wrong;    /* in the store: the row's sum is not that of what stands there */
    bool is_unproved; /* what its recount begins with is not what was written there, or the next */
    bool is_of_another_life; /* its row says that it is another one than the log does */
    bool has_new_life;       /* and now it says what the log does */
    bool waits;              /* the store lacked units of the id then, which it had refused */
    bool is_right;           /* when it was judged, or since it was mended */
    bool is_mended;          /* and it was not when it was judged */
};

struct sights {
    struct sight *list; /* owned */
    size_t count;
    size_t room;
    uint64_t (**vectors)[LIMIT_CELLS]; /* owned: sequences that sights are sums of */
    size_t vector_count;
    size_t vector_room;
    struct sums *sums;           /* owned */
    uint64_t until[LIMIT_CELLS]; /* the largest of all */
};

/* --- what stands where: proof_look.c --- */

void sights_init(struct sights *sights, struct desk_seat *seat);
void sights_done(struct sights *sights);

/* Adds what there is of an id. Nothing is there any more, or not yet: nothing to look at. */
enum err sights_look(const struct proof *proof, struct sights *sights, struct slice id,
                     struct error *error);

/* The same, and asks whether units of it wait. */
enum err sights_look_carefully(const struct proof *proof, struct sights *sights, struct slice id,
                               struct error *error);

/* Are there units of the id that the store refused? They explain what it lacks. */
enum err proof_has_waiting(const struct proof *proof, struct slice id, bool *ret_has,
                           struct error *error);

/* Is the sight still what the log was read for? One in a hot layer outside may have moved to other
 * cells since, of whose events nothing is known. */
bool sight_is_still(const struct proof *proof, const struct sight *sight);

/* Is there a row whose sum does not fit? */
enum err proof_is_wrong(const struct proof *proof, struct slice id, bool *ret_is_wrong,
                        struct error *error);

enum err proof_has_row(const struct proof *proof, struct slice id, bool *ret_has,
                       struct error *error);

/* --- what the log says: proof_sums.c --- */

/* Where the log begins, what was before it being in the bases. */
enum err proof_log_begin(const struct proof *proof, struct log_position *ret_from,
                         struct error *error);

/* Reads the log once, for all of them. */
enum err sights_sum(const struct proof *proof, struct sights *sights, struct error *error);

/* By how much the sight is short of what it ought to be; *ret_by is the caller's. */
enum err sight_difference(const struct proof *proof, const struct sight *sight,
                          struct number *ret_by, bool *ret_is_short, struct error *error);

/* Is it wrong, and by how much? *ret_by is the caller's. Units that wait explain what is missing.
 */
enum err sight_judge(const struct proof *proof, const struct sight *sight, struct number *ret_by,
                     bool *ret_differs, struct error *error);

/* --- a difference: proof_drift.c, proof_mend.c --- */

/* The name of the count, of an item with its kind; `to` has COUNT_ID_BYTES. */
struct slice sight_count_id(const struct desk *desk, const struct sight *sight, char *to);

/* Tells of it, and mends it, as the proof was asked to. True: it is right now. */
bool sight_deal_with(struct proof *proof, const struct sight *sight, const struct number *by);

/* A fault, told to everybody: a message, the audit trail, the task, the figures. */
void proof_tell(struct proof *proof, const char *what, struct slice id, const char *line);

/* All of a row is right but its sum, which is written anew. `sight`: any of the row. This is a
 * repair of its own only if `is_recorded`, and else the end of one that was written down. */
void sight_sum_anew(const struct proof *proof, const struct sight *sight, bool is_recorded);

/* The row, whose sum does not fit, gets the incarnation that it ought to have. False: it has not.
 */
bool sight_life_anew(struct proof *proof, const struct sight *sight, uint32_t incarnation);

/* Makes the members of an item's row anew. False: they are not. Where the log does not go back far
 * enough that is told, and they are taken as they stand. */
bool sight_members_anew(struct proof *proof, const struct sight *sight);

/* Has the row say that it is of that incarnation. ERR_BUSY or ERR_NOT_FOUND as below. */
enum err sight_mend_life(const struct proof *proof, const struct sight *sight, uint32_t incarnation,
                         struct slice text, struct error *error);

/* Adds what is short, and writes that into the log. `text` is for the store's audit trail; if it is
 * empty, nothing is written down in either.
 * ERR_BUSY or ERR_NOT_FOUND: it is not the one any more that was looked at. */
enum err sight_mend(const struct proof *proof, const struct sight *sight, const struct number *by,
                    struct slice text, struct error *error);

/* --- what only the log speaks of: proof_strays.c --- */

/* Checks the ids of the log that match the pattern (size 0: all), and have no row. */
enum err proof_check_strays(struct proof *proof, struct slice pattern, struct error *error);

/* --- what waits: proof_waiting.c --- */

/* Compares what the lists say of units that wait with the events that these are made of. */
enum err proof_check_waiting(struct proof *proof, struct error *error);

#endif
