#include "door/http/http_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "door/http/http_worker.h"

#define TEXT_BYTES_MAX (16u << 20)

static struct slice copy(char **memory, struct slice bytes)
{
    char *to = *memory;
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    *memory += bytes.size;
    return (struct slice){to, bytes.size};
}

struct http_job *http_job_new(struct http_call *call, size_t size, http_find_fn *find,
                              struct slice extra)
{
    struct http_job *job = memory_take_zeroed(size);
    job->call = *call;
    job->find = find;
    http_text_init(&job->text, TEXT_BYTES_MAX);
    size_t bytes = call->args[0].size + extra.size + call->origin.size + call->if_none_match.size;
    char *memory = job->memory = memory_take(bytes + 1);
    job->bytes = size + bytes;
    pass_job_uses(&job->base, job->bytes);
    job->argument = copy(&memory, call->args[0]);
    job->extra = copy(&memory, extra);
    job->call.origin = copy(&memory, call->origin);
    if (call->if_none_match.data)
        job->call.if_none_match = copy(&memory, call->if_none_match);
    return job;
}

void http_job_free(struct http_job *job)
{
    http_text_done(&job->text);
    free(job->memory);
    free(job);
}

void http_job_grown(struct http_job *job)
{
    if (pass_job_uses(&job->base, job->bytes + job->text.bytes.capacity))
        return;
    http_text_done(&job->text);
    http_text_init(&job->text, 0);
}

void http_job_cursor(struct http_job *job, uint64_t cursor)
{
    if (cursor == 0)
        HTTP_TEXT(&job->text, "],\"cursor\":null");
    else
        http_text_printf(&job->text, "],\"cursor\":\"%llu\"", (unsigned long long)cursor);
}

/* ---- on a thread of the desk ---- */

static void work(struct pass_job *base, struct desk_seat *seat)
{
    struct http_job *job = (struct http_job *)base;
    struct error error = {.code = ERR_OK};
    enum err err = job->find(job, seat, &error);
    if (err && !error.code)
        error_set(&error, err, "%s", err_meaning(err));
    if (!err && job->text.overflow)
        error_set(&error, ERR_TOO_LARGE, "the answer is too large: ask for a smaller page");
    base->error = error;
}

/* ---- back with the worker ---- */

static void answer_job(void *client, const struct pass_request *request, struct op *ops)
{
    (void)client;
    (void)ops;
    struct http_job *job = request->extra;
    struct http_call *call = &job->call;
    const struct error *error = &job->base.error;
    if (error->code) {
        http_call_problem(call, http_problem_of(error->code), error->text);
        return;
    }
    struct http_text *body = http_call_body(call);
    if (age_is_behind(&job->age))
        (void)pass_refuses_stale(&call->client->worker->pass); /* it never does: it says so */
    http_text_add(body, buffer_slice(&job->text.bytes));
    if (job->is_write)
        http_call_ack(call, body);
    else
        http_call_as_of_age(call, body, &job->age);
    HTTP_TEXT(body, "}");
    http_call_send(call, call->route->status);
}

static void free_job(struct pass_job *base)
{
    http_job_free((struct http_job *)base);
}

void http_call_job(struct http_call *call, struct http_job *job)
{
    struct http_client *client = call->client;
    if (!client->worker->service->desk) {
        http_job_free(job);
        http_call_fail(call, HTTP_PROBLEM_UNAVAILABLE, "there is no store");
        return;
    }
    job->base.work = work;
    job->base.free = free_job;
    if (pass_job(&client->worker->pass, client, answer_job, &job->base))
        return;
    http_job_free(job);
    http_call_fail(call, HTTP_PROBLEM_BUSY, "too many questions that take a while");
}
