/* stores.h - what every store does in the same way, whatever its tables are. Pure. */
#ifndef CORE_STORES_H
#define CORE_STORES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "core/event.h"
#include "core/kind_names.h"
#include "core/limits.h"
#include "core/store.h"

/* Does it add to a counter, and nothing else? Then it need not wait for a dead letter before it. */
bool stores_adds_only(const struct store_unit *unit);

/* The raw events of a unit of the batch; written to `scratch` if they are not there yet. */
struct slice stores_raw_of(const struct store_batch *batch, size_t unit, struct buffer *scratch);

/* Moves counts, by kind, as the reaction says of itself: of an erased user, and of a unit that is
 * not applied, only these can be followed. */
void stores_count_claimed(const struct kind_names *kinds, const struct store_reaction *reaction,
                          int64_t *deltas);

/* The id of an item's count: item/kind, written to `to`. Ids may hold any byte. */
#define STORES_COUNT_ID_BYTES (LIMIT_ID_BYTES + 1 + LIMIT_KIND_BYTES)
struct slice stores_count_id(struct slice item, struct slice kind, char to[STORES_COUNT_ID_BYTES]);

bool stores_life_matches(const struct store_life *life, const struct store_life_filter *filter);

/* --- event ids, as bytes of a row --- */

struct slice stores_event_slice(const unsigned char *event_id);
/* All zeroes if it is none. */
void stores_copy_event_id(struct slice from, unsigned char *to);

/* --- what the audit trail says --- */

/* Of a repair. `to` is emptied first. */
void stores_repair_text(const struct event *repair, struct buffer *to);
/* Of a dead letter that was dealt with. */
#define STORES_LETTER_TEXT_BYTES (2 * STORE_EVENT_ID_BYTES + 7)
struct slice stores_letter_text(const unsigned char *event_id, char to[STORES_LETTER_TEXT_BYTES]);

#endif
