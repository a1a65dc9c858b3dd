/* recovery.h - brings the hot layer to where the log ends. */
#ifndef FLOW_RECOVERY_H
#define FLOW_RECOVERY_H

#include <stdint.h>

#include "base/env.h"
#include "base/error.h"
#include "core/hot.h"
#include "core/log.h"
#include "core/state.h"
#include "flow/loader.h"

struct recovery {
    uint64_t events;
    uint64_t sections;
    uint64_t bytes;
    uint64_t duration_ns;
};

/* Replays the log into the hot layer from `from` on (all zero: everything).
 * Tells of its progress as a message each second, when it takes more than one.
 * ERR_CORRUPT with a text that names the place in the log when an event cannot
 * be read or cannot follow what came before; ERR_INVALID when the log was trimmed, and is not
 * everything any more; other errors are the log's. */
enum err recovery_run(struct env *env, struct log *log, struct hot *hot, struct log_position from,
                      struct recovery *ret_recovery, struct error *error);

/* The same with a store that is at `mark`: only what is behind is replayed, and what it
 * touches is loaded from the store. ERR_INVALID when store and log do not belong together: the
 * store is further than the log, or the log was trimmed further than the store is. */
enum err recovery_run_behind(struct env *env, struct log *log, struct hot *hot,
                             struct loader *loader, const struct state_mark *mark,
                             struct recovery *ret_recovery, struct error *error);

/* Would these two refuse this log, with a store at `mark` or (NULL) without one? Replays nothing,
 * and changes nothing. */
enum err recovery_check(struct log *log, const struct state_mark *mark, struct error *error);

#endif
