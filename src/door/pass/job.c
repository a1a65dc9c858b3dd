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

bool pass_job(struct pass *pass, void *client, pass_answer_fn *answer, struct pass_job *job)
{
    struct pass_client *base = client;
    assert(pass->service->desk && base->unanswered == 0);

    job->base = (struct desk_job){.run = run, .done = done};
    job->pass = pass;
    atomic_init(&job->is_done, false);
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
