/* watch.h - who wants to hear that a counter has changed.
 *
 * Each worker has a mailbox. A door subscribes its connections in the worker's
 * own mailbox to an id or to a pattern; whoever changes a counter drops its id
 * into the mailboxes that want it; ten times a second a worker empties its
 * mailbox and tells its subscribers, so that a counter that changes a thousand
 * times a second is told ten times.
 *
 * Ids are those of counters: a reaction is heard of as "item/kind". */
#ifndef FLOW_WATCH_H
#define FLOW_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/slice.h"

struct watch;

struct watch *watch_new(unsigned workers, struct env *env);
void watch_free(struct watch *watch);

/* One more, or one less, connection of `worker` wants `name`: an id, or a glob
 * pattern. What is removed was added before. Thread-safe. */
void watch_add(struct watch *watch, unsigned worker, struct slice name, bool is_pattern);
void watch_remove(struct watch *watch, unsigned worker, struct slice name, bool is_pattern);

/* Does anybody want to hear anything? Cheap: asked for every batch. */
bool watch_any(const struct watch *watch);

/* `id` has changed. Thread-safe. Ids are kept once until the mailbox is
 * emptied; a mailbox is bounded, and past its bound forgets the newest ids and
 * says so in watch_take()'s `lost`. */
void watch_changed(struct watch *watch, struct slice id);

/* The worker itself: it wants to hear of `id` once more, as if it had changed for it alone. */
void watch_again(struct watch *watch, unsigned worker, struct slice id);

/* Empties the mailbox of `worker`: calls `visit` for each id, in the order in
 * which they changed first. Returns how many changes were forgotten since the
 * last call. Only the worker itself takes from its mailbox; `visit` may add and
 * remove and ask again, and no lock is held meanwhile. */
typedef void watch_visit_fn(void *arg, struct slice id);
size_t watch_take(struct watch *watch, unsigned worker, watch_visit_fn *visit, void *arg);

#endif
