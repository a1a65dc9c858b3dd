/* Not by uv_async_send(): a loop that wakes up before that call is over waits for its end,
 * spinning. Where both threads share a core, the one that spins keeps the other from coming to that
 * end. */
#include "net/waker.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/loop_uv.h"

struct waker {
    uv_poll_t poll;
    int fd;
    atomic_bool is_called; /* and `woken` has not begun yet */
    _Atomic uint64_t waits_for;
    waker_fn *woken;
    void *arg;
};

static void wake_up(uv_poll_t *poll, int status, int events)
{
    struct waker *waker = (struct waker *)poll;
    (void)status, (void)events;
    uint64_t calls;
    ssize_t size = read(waker->fd, &calls, sizeof(calls));
    (void)size;                                /* what counts is that it can be written again */
    atomic_exchange(&waker->is_called, false); /* and sees what was written before the call */
    waker->woken(waker->arg);
}

struct waker *waker_new(struct loop *loop, waker_fn *woken, void *arg, struct error *error)
{
    assert(loop && woken);

    struct waker *waker = memory_take_zeroed(sizeof(*waker));
    atomic_init(&waker->waits_for, WAKER_NEVER);
    waker->woken = woken;
    waker->arg = arg;
    waker->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int status = waker->fd < 0 ? -errno : uv_poll_init(&loop->uv, &waker->poll, waker->fd);
    if (status != 0) {
        loop_error(error, status, "cannot make a waker");
        if (waker->fd >= 0)
            close(waker->fd);
        free(waker);
        return NULL;
    }
    uv_poll_start(&waker->poll, UV_READABLE, wake_up);
    return waker;
}

void waker_free(struct waker *waker)
{
    if (!waker)
        return;
    uv_poll_stop(&waker->poll);
    close(waker->fd);
    loop_close_handle((uv_handle_t *)&waker->poll);
}

void waker_wake(struct waker *waker)
{
    if (atomic_exchange(&waker->is_called, true))
        return;
    uint64_t once = 1;
    ssize_t size = write(waker->fd, &once, sizeof(once));
    assert(size == (ssize_t)sizeof(once));
    (void)size;
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
        waker_wake(waker);
}
