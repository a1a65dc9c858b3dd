/* service.h - the one entrance for all doors.
 *
 * A door hands over a batch; the service has it decided by the hot layer and
 * calls back. An answer whose `ticket` is not 0 may leave only when
 * service_safe() has reached it: that is the promise of durability, and where
 * --ack decides what "safe" means. */
#ifndef FLOW_SERVICE_H
#define FLOW_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"
#include "flow/watch.h"

enum ack { ACK_DURABLE, ACK_WRITTEN, ACK_MEMORY };

/* "durable", "written", "memory" */
const char *ack_name(enum ack ack);

struct service {
    struct env *env; /* all borrowed */
    struct hot *hot;
    struct log *log;
    const struct kinds *kinds;
    enum ack ack;
    struct watch *watch; /* owned: who wants to hear of changes */

    /* Set by the owner before the first batch; both NULL without a store. */
    struct desk *desk;         /* flow/desk.h: questions that take a while */
    struct pipeline *pipeline; /* flow/pipeline.h: the way to the store */
    const char *foreign_kinds; /* that the store has and nobody configured; NULL or "" = none */
};

void service_init(struct service *service, struct env *env, struct hot *hot, struct log *log,
                  const struct kinds *kinds, enum ack ack);
void service_done(struct service *service);

/* Runs the batch; batch->now_ms is filled in. Then batch->done is called, once,
 * on this thread, perhaps before this returns; until then batch and ops stay
 * put. Who watches a counter that has changed is told before that. */
void service_run(struct service *service, struct batch *batch);

/* Around batches that follow one another closely: their changes are to become
 * safe together. A door holds before the first and launches when it has nothing
 * else to do, or when the first has waited for long enough. */
void service_hold(struct service *service);
void service_launch(struct service *service);

/* Answers with a ticket up to this may leave. */
uint64_t service_safe(struct service *service);

/* What a code says to whoever asked: err_meaning(), and what to do where that depends on how the
 * server is set up. Up to SERVICE_MEANING_BYTES in `to`, or a text that stays. */
#define SERVICE_MEANING_BYTES 320u
const char *service_meaning(const struct service *service, enum err code,
                            char to[SERVICE_MEANING_BYTES]);

/* Checks an op before it is run: the sizes of id, user, key, region and amount;
 * that there is an id, and a user and a kind where they are needed; that a key, if
 * there is one, is not empty; that an item is not the name of a reaction's counter;
 * that the shards asked for can be had. ERR_INVALID or ERR_TOO_LARGE with a text.
 * The counters of an item with the longest id can be read: their "/kind" does not
 * count towards the limit. */
enum err service_check(const struct service *service, const struct op *op, struct error *error);

#endif
