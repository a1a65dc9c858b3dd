#include "net/waker.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/memory.h"
#include "net/loop_uv.h"

struct waker {
    uv_async_t async;
    _Atomic uint64_t waits_for;
    waker_fn *woken;
    void *arg;
};

static void wake_up(uv_async_t *async)
{
    struct waker *waker = (struct waker *)async;
    waker->woken(waker->arg);
}

struct waker *waker_new(struct loop *loop, waker_fn *woken, void *arg, struct error *error)
{
    assert(loop && woken);

    struct waker *waker = memory_take_zeroed(sizeof(*waker));
    atomic_init(&waker->waits_for, WAKER_NEVER);
    waker->woken = woken;
    waker->arg = arg;
    int status = uv_async_init(&loop->uv, &waker->async, wake_up);
    if (status != 0) {
        loop_error(error, status, "cannot make a waker");
        free(waker);
        return NULL;
    }
    return waker;
}

void waker_free(struct waker *waker)
{
    if (waker)
        loop_close_handle((uv_handle_t *)&waker->async);
}

void waker_wake(struct waker *waker)
{
    uv_async_send(&waker->async);
}

/* Both sides write first and read then, so at least one of them sees the
 * other's write: sequential consistency, not less. */
void waker_wait_for(struct waker *waker, uint64_t number)
{
    if (atomic_load_explicit(&waker->waits_for, memory_order_relaxed) != number)
        atomic_store(&waker->waits_for, number);
}

void waker_reached(struct waker *waker, uint64_t number)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t waits_for = atomic_load(&waker->waits_for);
    if (waits_for != WAKER_NEVER && waits_for <= number)
        uv_async_send(&waker->async);
}
