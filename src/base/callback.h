/* callback.h - a function to call when something happened, which another thread may set late.
 *
 * Threads that call it may run before it is set; until then a call does nothing. It is set once
 * while they run; set it again, or to NULL, only while nobody calls. */
#ifndef BASE_CALLBACK_H
#define BASE_CALLBACK_H

#include <stdatomic.h>
#include <stddef.h>

typedef void callback_fn(void *arg);

struct callback {
    _Atomic(callback_fn *) call; /* written after `arg` */
    void *arg;
};

static inline void callback_set(struct callback *callback, callback_fn *call, void *arg)
{
    callback->arg = arg;
    atomic_store_explicit(&callback->call, call, memory_order_release);
}

static inline void callback_run(struct callback *callback)
{
    callback_fn *call = atomic_load_explicit(&callback->call, memory_order_acquire);
    if (call)
        call(callback->arg);
}

#endif
