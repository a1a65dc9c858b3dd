/* entry.h - what an outbox holds, and the events that it stands for.
 *
 * An entry of the stream P:T:out has the id "<epoch>-<n of its last event>" and the fields
 *
 *   f  n of its first event      t  time, ms      d  events as run.lua packs them,
 *                                             or  b  events as core/event.h writes them
 *
 * `d` is msgpack: strings in a row, with numbers where something is counted; where run.lua has
 * packed some of them stands the head of an array, which says nothing. Likes of one item that came
 * together are one group, so that Redis has little to do for each:
 *
 *   "l" id incarnation region before after <count> user...     a REACT for each user; the first
 *                                                     byte of a user is his slice, then his name
 *   "a" id incarnation region amounts                 an ADD for each; zigzag varints in a row
 *   "x" <words of rest> type id incarnation region key fingerprint changed held value rest...
 *       one event of any type (a decimal of enum event_type). Without a key the four behind it are
 *       empty. rest: ADD RESET amount; DELETE next incarnation; CREATE shards policy idle_s
 *       has_floor floor; EXPIRE deadline_ms; REACT user before after; NOTHING none; AFTER origin
 *       sequence; REPAIR kind amount place
 *
 * Pure. */
#ifndef HOT_REDIS_ENTRY_H
#define HOT_REDIS_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "core/op.h"

/* Appends the whole section of an entry: `bytes` is d, or b if `is_raw`. ERR_CORRUPT when it makes
 * no sense, or is not of last - first + 1 events. */
enum err entry_section(unsigned cell, uint64_t first_sequence, uint64_t last_sequence,
                       int64_t time_ms, struct slice bytes, bool is_raw, struct buffer *to,
                       struct error *error);

/* Visits the names in a packed array of users, and counts them. False: it is not such an array. */
bool entry_users(struct slice packed, op_member_fn *visit, void *arg, uint32_t *ret_count);

#endif
