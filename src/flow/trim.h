/* trim.h - lets go of the oldest part of the log, as far as the settings allow.
 *
 * Only what the store is past goes, a sealed segment at a time: its events are summed up by
 * counter and added to the recorded base first, so that a recount can begin there.
 * Belongs to the store's writer. */
#ifndef FLOW_TRIM_H
#define FLOW_TRIM_H

#include <stdint.h>

#include "base/env.h"
#include "core/kinds.h"
#include "core/log.h"
#include "core/store.h"

struct trim;

struct trim_rule {
    uint64_t keep_ms;    /* segments that are older go; 0 = none goes for its age */
    uint64_t keep_bytes; /* the oldest go while there is more; 0 = none goes for its size */
};

struct trim *trim_new(struct env *env, struct log *log, struct store *store,
                      const struct kinds *kinds, const struct trim_rule *rule);
void trim_free(struct trim *trim);

/* Removes the oldest segment if it may go; says how many bytes that gave, 0 = none. `position` is
 * where the store is. */
enum err trim_step(struct trim *trim, struct log_position position, uint64_t *ret_bytes,
                   struct error *error);

#endif
