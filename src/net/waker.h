/* waker.h - another thread makes a loop go round.
 *
 * waker_wake() calls `woken` on the loop's thread soon; many calls before that
 * are one. A waker can also wait for a number that grows, such as how far a log
 * has come: the loop's thread says from which number on it wants to be woken,
 * the other thread says how far things are, and nobody is woken in vain.
 *
 * Nothing is missed if both sides keep the order:
 *
 *   the loop's thread                      the other thread
 *     waker_wait_for(waker, ticket)          the number grows
 *     looks at the number once more          waker_reached(waker, number) */
#ifndef NET_WAKER_H
#define NET_WAKER_H

#include <stdint.h>

#include "net/loop.h"

#define WAKER_NEVER UINT64_MAX

struct waker;

typedef void waker_fn(void *arg);

struct waker *waker_new(struct loop *loop, waker_fn *woken, void *arg, struct error *error);

/* On the loop's thread, when no other thread uses the waker any more; NULL does
 * nothing. */
void waker_free(struct waker *waker);

/* Any thread. */
void waker_wake(struct waker *waker);

/* Wants to be woken once `number` is reached; WAKER_NEVER, as at first: not at
 * all. */
void waker_wait_for(struct waker *waker, uint64_t number);

/* Any thread: wakes the loop if it waits for this or less. */
void waker_reached(struct waker *waker, uint64_t number);

#endif
