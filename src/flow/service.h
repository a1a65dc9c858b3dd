/* service.h - the one entrance for all doors.
 *
 * A door hands over a batch; the service has it decided by the hot layer and
 * calls back. An answer whose `ticket` is not 0 may leave only when
 * service_safe() has reached it: that is the promise of durability, and where
 * --ack decides what "safe" means. */
#ifndef FLOW_SERVICE_H
#define FLOW_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "core/hot.h"
#include "core/kinds.h"
#include "core/log.h"
#include "flow/watch.h"

/* What an answer to a write waits for. The last two are of a hot layer outside of the process. */
enum ack { ACK_DURABLE, ACK_WRITTEN, ACK_MEMORY, ACK_LOG, ACK_HOT };

/* "durable", "written", "memory", "log", "hot" */
const char *ack_name(enum ack ack);

/* Says of one thing that is needed, or of use, whether it is well; `why` if it is not. */
typedef void service_say_fn(void *to, const char *name, bool is_well, bool is_needed,
                            const char *why);
typedef void service_ready_fn(void *arg, service_say_fn *say, void *to);

struct service {
    struct env *env; /* all borrowed */
    struct hot *hot;
    struct log *log;
    const struct kinds *kinds;
    enum ack ack;
    struct watch *watch; /* owned: who wants to hear of changes */

    /* Set by the owner; before the first batch, or before the hot layer does any (a node may start
     * while others do not answer). */
    struct relay *_Atomic relay; /* flow/relay.h; NULL: the hot layer writes to the log itself */
    struct desk *_Atomic desk; /* flow/desk.h: questions that take a while; NULL without a store */
    struct pipeline *_Atomic pipeline; /* flow/pipeline.h: the way to the store; likewise */
    service_ready_fn *ready; /* tells what is needed to serve, and how it is; NULL: the log is */
    void *ready_arg;
    service_ready_fn
        *_Atomic more; /* tells of what is under way, and is not needed; NULL: nothing */
    void *more_arg;
    atomic_bool is_moving;     /* all there is is being copied elsewhere: nobody can be erased */
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
bool service_holds(const struct service *service); /* else there is no point in it */
void service_launch(struct service *service);

/* Answers with a ticket up to this may leave, but for those that service_is_stuck() names. */
uint64_t service_safe(struct service *service);

/* Does one of the tickets from `first` to `last` wait for a part of the hot layer that does not
 * answer? It is not waited for by those behind it. Cheap as long as none does. */
bool service_is_stuck(struct service *service, uint64_t first, uint64_t last);

/* Grows when some of those that were stuck may leave. */
uint64_t service_rounds(struct service *service);

/* Has one of the tickets from `first` to `last`, which all may leave, not come to the log, because
 * that is down? Then what it stands for is in the hot layer only, and the answer has to say so. */
bool service_is_weak(struct service *service, uint64_t first, uint64_t last);

/* Can an answer be promised that waits for the log, whatever it takes? If not, such a write
 * (op->must_log) is not even tried. */
bool service_may_log(const struct service *service);

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
