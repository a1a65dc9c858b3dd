/* job.c - requests that are answered by work on the desk. */
#include <assert.h>

#include "door/pass/park.h"
#include "door/pass/pass_own.h"

static void run(struct desk_job *base, struct desk_seat *seat)
{
    struct pass_job *job = (struct pass_job *)base;
    job->work(job, seat);
}

/* On a thread of the desk. Once it is done the worker may free it at any moment. */
static void done(struct desk_job *base)
{
    struct pass_job *job = (struct pass_job *)base;
    struct pass *pass = job->pass;
    atomic_store(&job->is_done, true);
    atomic_fetch_add(&pass->jobs_done, 1);
    waker_wake(pass->waker);
}

/* What grows is looked at again in such steps. */
#define GROWTH_BYTES ((size_t)256 << 10)

bool pass_job_uses(struct pass_job *job, size_t bytes)
{
    atomic_store(&job->bytes, bytes);
    if (job->pass && bytes > job->told_bytes + GROWTH_BYTES) {
        job->told_bytes = bytes;
        atomic_fetch_add(&job->pass->growths, 1);
        waker_wake(job->pass->waker);
    }
    return !atomic_load(&job->is_unwanted);
}

bool pass_job(struct pass *pass, void *client, pass_answer_fn *answer, struct pass_job *job)
{
    struct pass_client *base = client;
    assert(pass->service->desk && base->unanswered == 0);

    job->base = (struct desk_job){.run = run, .done = done};
    job->pass = pass;
    atomic_init(&job->is_done, false);
    atomic_init(&job->is_unwanted, false);
    if (!desk_submit(pass->service->desk, &job->base))
        return false;

    base->unanswered++;
    park_job(pass,
             &(struct pass_request){
                 .client = client,
                 .answer = answer,
                 .extra = job,
                 .extra_stays = true,
             },
             job);
    return true;
}

/* It may be running: then its work learns of it by pass_job_uses(). */
static void give_up_job(struct pass *pass, struct pass_job *job, bool all)
{
    if (atomic_load(&job->is_done) || (job->is_write && !all))
        return;
    if (!job->is_write)
        atomic_store(&job->is_unwanted, true);
    if (!desk_withdraw(pass->service->desk, &job->base))
        return;
    error_set(&job->error, ERR_UNAVAILABLE, "the client has gone");
    done(&job->base);
}

void pass_leave(struct pass_client *client, bool all)
{
    if (client->parked == 0)
        return;
    if (client->job)
        give_up_job(client->pass, client->job, all);
    else if (all)
        park_give_up(client);
}
