#include "door/resp/resp_job.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_worker.h"

#define THINGS_BYTES_MAX (64u << 20)
#define TEXT_SIZE        512u

#define SUBJECTS_BYTES_MAX ((size_t)LIMIT_PATTERN_BYTES + LIMIT_USER_BYTES)

static void free_job(struct pass_job *base)
{
    struct resp_job *job = (struct resp_job *)base;
    resp_reply_done(&job->things);
    free(job);
}

static struct slice copy(struct slice bytes, char **to)
{
    struct slice copied = {*to, bytes.size};
    if (bytes.size > 0)
        memcpy(*to, bytes.data, bytes.size);
    *to += bytes.size;
    return copied;
}

void *resp_job_new(struct resp_client *client, size_t size, struct slice subject,
                   struct slice other, pass_work_fn *work)
{
    struct service *service = client->worker->service;
    if (!service->desk) {
        resp_client_fail(client, "ERR this needs the store, and the server runs without one");
        return NULL;
    }
    assert(subject.size + other.size <= SUBJECTS_BYTES_MAX);
    size_t head = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    size_t bytes = head + subject.size + other.size;
    char *memory = memory_take_zeroed(bytes);
    char *to = memory + head;

    struct resp_job *job = (struct resp_job *)memory;
    job->base.work = work;
    job->base.free = free_job;
    job->kinds = service->kinds;
    resp_reply_init(&job->things, client->reply.bytes.max < THINGS_BYTES_MAX
                                      ? client->reply.bytes.max
                                      : THINGS_BYTES_MAX);
    job->things.version = client->reply.version;
    job->subject = copy(subject, &to);
    job->other = copy(other, &to);
    job->bytes = bytes;
    pass_job_uses(&job->base, bytes);
    return job;
}

void resp_job_grown(struct resp_job *job)
{
    if (pass_job_uses(&job->base, job->bytes + job->things.bytes.capacity))
        return;
    resp_reply_done(&job->things);
    job->things.overflow = true;
}

void resp_job_fail(struct resp_job *job, enum err code, const char *text)
{
    struct error *error = &job->base.error;
    if (text)
        error_set(error, code, "%s", text);
    else if (error->code != code)
        error_set(error, code, "%s", err_meaning(code));
}

/* The texts of the desk say more than the words of Redis, except where clients know
 * those. */
static void answer_failure(struct resp_client *client, const struct error *error)
{
    char text[TEXT_SIZE];
    if (error->code == ERR_NOT_FOUND || error->code == ERR_OUT_OF_RANGE)
        snprintf(text, sizeof(text), "ERR %s", error->text);
    else
        resp_reply_describe(error->code, error->text, text, sizeof(text));
    resp_reply_error(&client->reply, "%s", text);
    gauge_add(&client->worker->stats.errors, 1);
}

static void answer_job(void *to, const struct pass_request *request, struct op *ops)
{
    (void)ops;
    struct resp_client *client = to;
    const struct resp_job *job = request->extra;
    struct resp_reply *reply = &client->reply;
    if (job->base.error.code != ERR_OK) {
        answer_failure(client, &job->base.error);
        return;
    }
    if (age_is_behind(&job->age) && pass_refuses_stale(&client->worker->pass)) {
        answer_failure(client, &(struct error){.code = ERR_STALE, .text = ""});
        return;
    }
    if (job->things.overflow) {
        resp_reply_error(reply, "ERR the answer is too large, ask for a smaller COUNT");
        return;
    }
    if (job->form == RESP_JOB_PAGE || job->form == RESP_JOB_PAIRS) {
        resp_reply_array(reply, 2);
        resp_reply_cursor(reply, job->cursor);
    }
    if (job->form == RESP_JOB_PAIRS)
        resp_reply_map(reply, job->count);
    else if (job->form != RESP_JOB_WHOLE)
        resp_reply_array(reply, job->count);
    resp_reply_raw(reply, buffer_slice(&job->things.bytes));
}

void resp_job_start(struct resp_client *client, struct resp_job *job)
{
    if (pass_job(&client->worker->pass, client, answer_job, &job->base))
        return;
    free_job(&job->base);
    resp_client_fail(client, "BUSY too many questions of this kind wait already. Try again.");
}
