/* lifecycle.h - the states of what is applied to the store, and how they follow.
 *
 *              applied
 *   PENDING ───────────────→ SUCCESS ←─┐ applied
 *      │ refused                       │
 *      └──────→ RETRYING ──────────────┤
 *                 ↺ refused again      │ refused for the last time
 *                                      └→ FAILED ──redrive──→ RETRYING
 *                                            └────discard───→ DISCARDED
 *
 * A pure table: which move leads where, what is to be done on it, and what is not
 * allowed. An outage is no move at all. */
#ifndef CORE_LIFECYCLE_H
#define CORE_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/slice.h"

#define LIFECYCLE_RETRIES 5u /* after 1, 2, 4, 8 and 16 seconds */

enum lifecycle_state {
    LIFECYCLE_PENDING,
    LIFECYCLE_RETRYING,
    LIFECYCLE_SUCCESS,
    LIFECYCLE_FAILED,
    LIFECYCLE_DISCARDED,
};
#define LIFECYCLE_STATES 5u

enum lifecycle_move {
    LIFECYCLE_SET_SUCCESS,  /* the store has taken it */
    LIFECYCLE_SET_RETRYING, /* the store has refused it, and there are retries left */
    LIFECYCLE_SET_FAILED,   /* the store has refused it for the last time */
    LIFECYCLE_REDRIVE,      /* an operator wants it tried again */
    LIFECYCLE_DISCARD,      /* an operator gives it up */
};
#define LIFECYCLE_MOVES 5u

/* What has to happen with a move, in the same transaction. */
enum lifecycle_action {
    LIFECYCLE_APPLY,      /* the numbers change */
    LIFECYCLE_WAIT,       /* retry_count grows, the time of the next attempt is set */
    LIFECYCLE_TO_LETTERS, /* a dead letter is written */
    LIFECYCLE_RESTART,    /* the letter goes, retry_count begins anew */
    LIFECYCLE_GIVE_UP,    /* the letter goes, the audit trail says so */
};

/* ERR_INVALID: this move is not allowed in this state. */
enum err lifecycle_move(enum lifecycle_state state, enum lifecycle_move move,
                        enum lifecycle_state *ret_state, enum lifecycle_action *ret_action);

/* The move that a refusal is, after so many retries. */
enum lifecycle_move lifecycle_refused(uint32_t retry_count);

/* How long to wait before retry number `retry_count` (1 to LIFECYCLE_RETRIES). */
int64_t lifecycle_delay_ms(uint32_t retry_count);

/* Has the time of the next attempt come? No delay is longer than the last one: if it seems so, the
 * clock has gone back. */
bool lifecycle_is_due(int64_t next_ms, int64_t now_ms);

/* What the earlier units of an id mean for a later one; all zeroes when there are none. */
struct lifecycle_queue {
    bool waits;       /* one is PENDING or RETRYING */
    bool has_letter;  /* one is a dead letter that only adds */
    bool has_barrier; /* one is a dead letter that does more */
};

/* One more that is not done. */
void lifecycle_queue_add(struct lifecycle_queue *queue, enum lifecycle_state state, bool adds_only);
/* Must one that comes behind them wait? */
bool lifecycle_queue_blocks(const struct lifecycle_queue *queue, bool adds_only);

/* "PENDING", ... */
const char *lifecycle_name(enum lifecycle_state state);
bool lifecycle_parse(struct slice name, enum lifecycle_state *ret_state);

#endif
