#include "net/timer.h"

#include <assert.h>

#include "base/memory.h"
#include "net/loop_uv.h"

struct timer {
    uv_timer_t uv;
    timer_fn *ring;
    void *arg;
};

struct timer *timer_new(struct loop *loop, timer_fn *ring, void *arg)
{
    assert(loop && ring);

    struct timer *timer = memory_take_zeroed(sizeof(*timer));
    timer->ring = ring;
    timer->arg = arg;
    uv_timer_init(&loop->uv, &timer->uv);
    return timer;
}

void timer_free(struct timer *timer)
{
    if (timer)
        loop_close_handle((uv_handle_t *)&timer->uv);
}

static void ring(uv_timer_t *uv)
{
    struct timer *timer = (struct timer *)uv;
    timer->ring(timer->arg);
}

void timer_start(struct timer *timer, uint64_t after_ms, uint64_t every_ms)
{
    uv_timer_start(&timer->uv, ring, after_ms, every_ms);
}

void timer_stop(struct timer *timer)
{
    uv_timer_stop(&timer->uv);
}

bool timer_runs(const struct timer *timer)
{
    return uv_is_active((const uv_handle_t *)&timer->uv) != 0;
}
