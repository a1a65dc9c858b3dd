/* stale.h - reads that the store answers, since the hot layer cannot be asked.
 *
 * What the store has said is kept for a second, so that reads of the same thing do not all go
 * there; then it is asked again. Such an answer says of itself that it is stale, and up to when it
 * is known to be true: the store has the events of each lane in their order, so that what is
 * written in one lane is true as of the last event that the store has of that lane. Thread-safe. */
#ifndef HOT_REDIS_STALE_H
#define HOT_REDIS_STALE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "core/op.h"
#include "hot/redis/image.h"

#define STALE_WHOLE UINT32_MAX /* in the place of a slice: the target itself */

struct stales;

struct stales *stales_new(struct env *env, uint32_t idle_s);
void stales_free(struct stales *stales);

/* The store said this just now, of a target (STALE_WHOLE) or of a slice, and how far its lanes were
 * then (hot_found.times_ms, may be NULL). Takes the image's contents: it is empty afterwards. */
void stales_put(struct stales *stales, struct slice id, uint32_t slice, struct image *image,
                const int64_t *times_ms);

/* Answers the op, if what it needs is there. Else false, and *ret_slice is what has to be asked
 * for. `cells`: those that have pieces of it, as far as is known, a bit each. */
bool stales_answer(struct stales *stales, struct op *op, uint64_t cells, uint32_t *ret_slice);

/* Lets go of what is too old. Now and then. */
void stales_tidy(struct stales *stales);

#endif
