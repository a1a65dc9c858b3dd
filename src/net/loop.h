/* loop.h - the event loop of one worker thread.
 *
 * A loop goes round in passes: it waits, calls back for everything that is
 * ready (connections, listeners, wakers), then ends the pass by calling the
 * pass hooks. A door gathers work in the callbacks and does it in its hook, so
 * that one batch carries the requests of all connections that were ready.
 * Timers come before the waiting, not in the pass: what they gather they see to
 * themselves.
 *
 *   timer.h     something to do after a while, once or again and again
 *   waker.h     another thread makes the loop go round
 *   listener.h  a port that connections come in by
 *   conn.h      one connection
 *
 * A loop and everything on it belongs to the thread that runs it; before
 * loop_run() and after it has returned, to whoever holds it. Only loop_stop()
 * may be called from any thread at any time. */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdint.h>

#include "base/error.h"

struct loop;
struct loop_hook;

typedef void loop_pass_fn(void *arg);

struct loop *loop_new(struct error *error);

/* Frees a loop that does not run. What was put on it (timers, wakers,
 * listeners, connections, hooks) has to be freed or closed before. */
void loop_free(struct loop *loop);

/* Goes round until loop_stop(). May be run again. */
void loop_run(struct loop *loop);

/* Makes loop_run() return at the end of its pass. */
void loop_stop(struct loop *loop);

/* For a pass hook: the next pass does not wait until something is ready. Holds
 * for one pass. */
void loop_go_on(struct loop *loop);

/* Milliseconds of a clock that never goes back, read once a pass. */
uint64_t loop_now_ms(const struct loop *loop);

/* Calls `pass` at the end of every pass. Hooks are called in no particular
 * order. */
struct loop_hook *loop_hook_new(struct loop *loop, loop_pass_fn *pass, void *arg);
void loop_hook_free(struct loop_hook *hook);

#endif
