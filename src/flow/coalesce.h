/* coalesce.h - what a stretch of the log does to each counter: the batch for the store.
 *
 * Sections of the log go in, in order; out comes a store_batch in which everything that
 * happens to one id is one unit. What the store has already (by sequence) is left
 * out, and so is what is late: of an incarnation that is gone.
 *
 * The bytes of the sections are copied once, and all slices of the batch point
 * there. Memory is kept from batch to batch: after the first few nothing is
 * allocated for an event. Belongs to one thread. Pure but for chance in event ids. */
#ifndef FLOW_COALESCE_H
#define FLOW_COALESCE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/env.h"
#include "core/kinds.h"
#include "core/store.h"

struct coalesce;

struct coalesce *coalesce_new(struct env *env, const struct kinds *kinds);
void coalesce_free(struct coalesce *coalesce);

/* Begins a new batch on top of `mark`. */
void coalesce_begin(struct coalesce *coalesce, const struct state_mark *mark);

/* Takes a section, a copy of it; `next` is the position behind it. What cannot be read
 * becomes poison: the whole section, or the rest of it from the first bad event on. */
void coalesce_take(struct coalesce *coalesce, struct slice section, struct log_position next);

/* The same of a log of many lanes, where nothing may be missing: what is there already is left
 * out, an epoch is noted, and what has to come after something else waits for it.
 *   ERR_OK       it was taken, or has been before
 *   ERR_BUSY     its turn has not come (EVENT_AFTER): nothing was taken; offer it again
 *   ERR_CORRUPT  events are missing before it: nothing was taken
 * The batch is then one of lanes. */
enum err coalesce_take_lane(struct coalesce *coalesce, unsigned lane, struct slice section,
                            struct log_position next, struct error *error);

/* Lanes that others carry may have come further: so says the store. `owned`: ours, which are as
 * far as the batch is. */
void coalesce_see(struct coalesce *coalesce, const struct state_mark *mark, uint64_t owned);

/* Did an origin begin a new epoch in this batch? Somebody waits for the store to know it. */
bool coalesce_has_epoch(const struct coalesce *coalesce);

/* The lane of a poison of the batch. */
unsigned coalesce_poison_lane(const struct coalesce *coalesce, size_t poison);

/* Events taken so far (late ones and mere keys included, those the store has not), bytes
 * of the log, and the times of the oldest and of the last event; 0 = none. */
uint64_t coalesce_events(const struct coalesce *coalesce);
uint64_t coalesce_bytes(const struct coalesce *coalesce);
int64_t coalesce_oldest_ms(const struct coalesce *coalesce);
int64_t coalesce_last_ms(const struct coalesce *coalesce);

/* Is there anything that the store has to be told? How far a lane is counts, too, also when
 * nothing but repetitions stood there: somebody may wait for that place. */
bool coalesce_is_empty(const struct coalesce *coalesce);

/* The batch, which lives until the next begin, and goes up to `position`; of lanes: as far as was
 * taken of each. */
struct store_batch *coalesce_finish(struct coalesce *coalesce, struct log_position position,
                                    int64_t now_ms);

/* For a retry: the one unit that these bytes (core/raw.h) are about, with this event id. Lives
 * until the next call of any of these. ERR_CORRUPT. Whatever the mark says, all of
 * them count. */
enum err coalesce_raw_unit(struct coalesce *coalesce, struct slice raw,
                           const unsigned char *event_id, struct store_unit **ret_unit,
                           struct error *error);

#endif
