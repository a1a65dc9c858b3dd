/* lanes.h - follows those lanes of a log that this process carries into the store.
 *
 * A log of many lanes is shared out among processes (log_owned()). Each lane is read on from where
 * the store is in it; who owns a lane may change at any time, and then everything begins anew from
 * the store: what was gathered and not applied yet is forgotten. The other owner, if there still
 * is one, is told by the store that it is late.
 *
 * Nothing is ever left out: a lane in which events are missing is stuck, and the others go on.
 * A lane in which something waits for another lane (EVENT_AFTER) is held there, and the others go
 * on. Belongs to one thread. */
#ifndef FLOW_LANES_H
#define FLOW_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/log.h"
#include "core/state.h"
#include "flow/coalesce.h"

struct lanes {
    struct log *log;           /* borrowed */
    struct coalesce *gathered; /* borrowed */
    uint64_t owned;            /* a bit each */
    uint64_t held;             /* of them: the next section waits for another lane */
    uint64_t stuck;            /* of them: what follows is not in the log */
    struct error why;          /* of one that is stuck */
    uint64_t entered;          /* of them: the log was told where the store is */
    unsigned first;            /* the next to be read, so that all have their turn */
    struct log_position at[LIMIT_CELLS];
};

void lanes_init(struct lanes *lanes, struct log *log, struct coalesce *gathered);

/* Asks the log who owns what. True: that has changed; lanes_begin() has to follow. */
bool lanes_look(struct lanes *lanes);

/* Begins anew from where the store is, as `gathered` does. */
void lanes_begin(struct lanes *lanes, const struct state_mark *mark);

/* Reads on, one lane after another, about `limit` bytes of each. Says whether anything was
 * found. A lane in which events are missing, or that does not go back so far, is stuck: it is not
 * read until lanes_begin(). */
enum err lanes_gather(struct lanes *lanes, uint64_t limit, bool *ret_found, struct error *error);

/* The store has what the batch had: the log may let go of it. */
void lanes_applied(struct lanes *lanes, const struct store_batch *batch);

/* Is the store elsewhere than `mine` in a lane that is ours? */
bool lanes_differ(const struct lanes *lanes, const struct state_mark *mine,
                  const struct state_mark *stores);

#endif
