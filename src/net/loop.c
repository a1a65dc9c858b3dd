#include "net/loop.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "net/loop_uv.h"

struct loop_hook {
    uv_check_t check;
    loop_pass_fn *pass;
    void *arg;
};

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

void loop_close_handle(uv_handle_t *handle)
{
    uv_close(handle, free_handle);
}

enum err loop_error(struct error *error, int status, const char *what)
{
    enum err code = ERR_IO;
    if (status == UV_EADDRINUSE)
        code = ERR_BUSY;
    else if (status == UV_EACCES || status == UV_EPERM)
        code = ERR_DENIED;
    else if (status == UV_EINVAL || status == UV_EADDRNOTAVAIL)
        code = ERR_INVALID;
    return error_set(error, code, "%s: %s", what, uv_strerror(status));
}

static void stop_now(uv_async_t *async)
{
    uv_stop(async->loop);
}

static void do_nothing(uv_idle_t *idle)
{
    (void)idle;
}

void loop_go_on(struct loop *loop)
{
    loop->going_on = true;
    uv_idle_start(&loop->idle, do_nothing);
}

/* Comes behind the hooks: one of them has asked to go on, or the loop waits again. */
static void decide_to_wait(uv_check_t *check)
{
    struct loop *loop = check->data;
    if (!loop->going_on)
        uv_idle_stop(&loop->idle);
    loop->going_on = false;
}

static void start_own_handles(struct loop *loop)
{
    uv_idle_init(&loop->uv, &loop->idle);
    uv_check_init(&loop->uv, &loop->check);
    loop->check.data = loop;
    uv_check_start(&loop->check, decide_to_wait);
}

struct loop *loop_new(struct error *error)
{
    struct loop *loop = memory_take_zeroed(sizeof(*loop));

    int status = uv_loop_init(&loop->uv);
    if (status == 0) {
        status = uv_async_init(&loop->uv, &loop->stop, stop_now);
        if (status == 0) {
            start_own_handles(loop);
            return loop;
        }
        uv_loop_close(&loop->uv);
    }
    loop_error(error, status, "cannot make an event loop");
    free(loop);
    return NULL;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;

    uv_close((uv_handle_t *)&loop->stop, NULL);
    uv_close((uv_handle_t *)&loop->idle, NULL);
    uv_close((uv_handle_t *)&loop->check, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT); /* until every handle has been let go of */
    int status = uv_loop_close(&loop->uv);
    assert(status == 0 && "something on the loop was not freed");
    (void)status;
    free(loop);
}

void loop_run(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *loop)
{
    uv_async_send(&loop->stop);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return uv_now(&loop->uv);
}

static void end_pass(uv_check_t *check)
{
    struct loop_hook *hook = (struct loop_hook *)check;
    hook->pass(hook->arg);
}

struct loop_hook *loop_hook_new(struct loop *loop, loop_pass_fn *pass, void *arg)
{
    assert(loop && pass);

    struct loop_hook *hook = memory_take_zeroed(sizeof(*hook));
    hook->pass = pass;
    hook->arg = arg;
    uv_check_init(&loop->uv, &hook->check);
    uv_check_start(&hook->check, end_pass);
    return hook;
}

void loop_hook_free(struct loop_hook *hook)
{
    if (hook)
        loop_close_handle((uv_handle_t *)&hook->check);
}
