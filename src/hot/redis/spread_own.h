/* spread_own.h - how the files about ops of spread things hand these to one another.
 *
 *   spread.c         entries, and what is seen to ten times a second
 *   spread_route.c   where an op goes; reads
 *   spread_wait.c    ops that wait: for the map, for writes before them, for their batch
 *   spread_change.c  what is asked of the mover: folds, creations, changes that somebody left
 *   spread_note.c    what answers tell */
#ifndef HOT_REDIS_SPREAD_OWN_H
#define HOT_REDIS_SPREAD_OWN_H

#include "hot/redis/spread.h"

#define SPREAD_TICK_MS 100u
#define SPREAD_REST_NS UINT64_C(3000000) /* before the map is read again */

/* --- spread_wait.c --- */

/* Does one of them come before the op in the same batch? A batch is an array, and ops of one id
 * happen in its order. */
bool spread_ops_have_earlier(const struct spread_ops *ops, const struct op *op);

/* All of them are run again, from the beginning. */
void spread_go_again(struct spread_entry *entry, struct spread_ops *ops);

/* The op goes again when the map was read: now, or after a rest. */
void spread_wait_for_map(struct spread_entry *entry, struct op *op, bool at_once);

/* The op is a write under way from now on; spreads_ended() says that it is none any more. */
void spread_count_in(struct spread_entry *entry, struct op *op);
/* The entry of such an op; NULL: it is none. */
struct spread_entry *spread_entry_of(const struct op *op);

/* A read that comes behind writes waits for these. */
bool spread_waits_behind(struct spread_entry *entry, struct op *op);

/* An op waits for those before it in its batch that wait for something themselves. */
bool spread_waits_for_earlier(struct spread_entry *entry, struct op *op, bool is_read);

/* --- spread_route.c --- */

/* Reads, and sums that go elsewhere, which have waited for the writes before them. */
void spread_read_on(struct spread_entry *entry, struct spread_ops *reads);

/* An op that only the whole in one piece can take. */
bool spread_needs_fold(const struct spread_entry *entry, const struct op *op);

/* The slice that a page of members begins in. */
unsigned spread_slice_of_cursor(const struct op *op);

/* --- spread_change.c --- */

/* The op needs the whole in one piece. */
void spread_wait_for_fold(struct spread_entry *entry, struct op *op);
/* Asks for the fold that somebody waits for, once nothing is under way. */
void spread_fold_if_quiet(struct spread_entry *entry);

/* Answers those who have waited for a fold or for shards, and have no more patience. */
void spread_let_go(struct spread_entry *entry);

/* A change that was begun a while ago, and is not ours, may have been left by somebody who died. */
void spread_take_over_if_left(struct spread_entry *entry);

#endif
