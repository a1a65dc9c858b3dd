/* timer.h - something to do after a while.
 *
 * A timer belongs to its loop's thread. It is made stopped; it can be started,
 * stopped and started again at will, also from its own callback. */
#ifndef NET_TIMER_H
#define NET_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct timer;

typedef void timer_fn(void *arg);

struct timer *timer_new(struct loop *loop, timer_fn *ring, void *arg);

/* Never calls back after this; NULL does nothing. */
void timer_free(struct timer *timer);

/* Rings in `after_ms`, then every `every_ms`; 0 = once only. */
void timer_start(struct timer *timer, uint64_t after_ms, uint64_t every_ms);
void timer_stop(struct timer *timer);
bool timer_runs(const struct timer *timer);

#endif
