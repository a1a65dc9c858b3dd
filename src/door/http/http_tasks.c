/* http_tasks.c - work that goes on by itself: recounts, audits, erasures. */
#include <stdlib.h>

#include "base/memory.h"
#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"
#include "flow/check.h"
#include "flow/desk.h"

#define TASKS_MAX 100u

/* NULL: it has failed. */
static struct desk *desk_of(struct http_call *call)
{
    struct desk *desk = call->client->worker->service->desk;
    if (!desk)
        http_call_fail(call, HTTP_PROBLEM_UNAVAILABLE, "there is no store");
    return desk;
}

/* ---- starting ---- */

static void answer_start(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct http_text *body = http_call_body(call);
    http_text_printf(body, "{\"task\":%llu,\"watch\":\"/v1/tasks/%llu\",\"repeated\":%s",
                     (unsigned long long)call->number, (unsigned long long)call->number,
                     call->extra ? "true" : "false");
    http_call_as_of(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 202);
}

static void start(struct http_call *call, enum desk_task_kind kind, struct slice what, bool repair)
{
    struct http_start task = {.desk = desk_of(call), .kind = kind, .what = what, .repair = repair};
    if (!task.desk)
        return;
    bool repeated;
    struct http *http = call->client->worker->http;
    struct error error = {.text = ""};
    enum err err = http_door_start(http, &task, call->key, &call->number, &repeated, &error);
    call->extra = repeated ? call : NULL; /* all that the answer wants to know */
    if (err && error.text[0])
        http_call_fail_with(call, &error);
    else if (err)
        http_call_fail(call, http_problem_of(err), NULL);
    else
        http_call_answer(call, answer_start);
}

void http_recounts_start(struct http_call *call)
{
    static const char *const names[] = {"match", NULL};
    struct slice match = SLICE("*");
    const struct http_json *object = http_call_object(call, names);
    if (!object || !http_call_string(call, object, "match", &match) ||
        !http_call_check_match(call, match))
        return;
    start(call, DESK_RECOUNT, match, false);
}

void http_audits_start(struct http_call *call)
{
    static const char *const names[] = {"match", "repair", NULL};
    struct slice match = SLICE("*");
    bool repair = true;
    const struct http_json *object = http_call_object(call, names);
    if (!object || !http_call_string(call, object, "match", &match) ||
        !http_call_bool(call, object, "repair", &repair) || !http_call_check_match(call, match))
        return;
    start(call, DESK_AUDIT, match, repair);
}

void http_user_erase(struct http_call *call)
{
    struct error error;
    if (http_call_accept(call, check_user(call->args[0], &error), &error))
        start(call, DESK_ERASE, call->args[0], false);
}

/* ---- looking ---- */

static void write_task(struct http_text *to, const struct desk_task *task)
{
    http_text_printf(to, "{\"id\":%llu,\"kind\":\"%s\",\"state\":\"%s\",\"done\":%llu,\"all\":%llu",
                     (unsigned long long)task->id, desk_task_kind_name(task->kind),
                     desk_task_state_name(task->state), (unsigned long long)task->done,
                     (unsigned long long)task->all);
    HTTP_TEXT(to, ",\"unit\":");
    http_text_string(to, slice_of(task->unit ? task->unit : ""));
    HTTP_TEXT(to, ",\"started\":");
    http_text_time(to, task->started_ms);
    HTTP_TEXT(to, ",\"ended\":");
    http_text_time(to, task->ended_ms);
    HTTP_TEXT(to, ",\"text\":");
    http_text_string(to, slice_of(task->text));
    http_text_printf(to, ",\"found\":%u,\"lines\":[", task->found);
    for (uint32_t i = 0; i < task->found && i < DESK_FOUND_MAX; i++) {
        if (i > 0)
            HTTP_TEXT(to, ",");
        http_text_string(to, slice_of(task->lines[i]));
    }
    HTTP_TEXT(to, "]");
}

static void answer_task(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct desk_task *task = memory_take(sizeof(*task));
    if (!desk_task(call->client->worker->service->desk, call->number, task)) {
        http_call_problem(call, HTTP_PROBLEM_NOT_FOUND, "tasks are remembered for an hour");
    } else {
        struct http_text *body = http_call_body(call);
        write_task(body, task);
        http_call_as_of(call, body);
        HTTP_TEXT(body, "}");
        http_call_send(call, 200);
    }
    free(task);
}

void http_task(struct http_call *call)
{
    if (!decimal_parse_unsigned(call->args[0], &call->number)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "not the number of a task");
        return;
    }
    if (desk_of(call))
        http_call_answer(call, answer_task);
}

static void answer_tasks(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct desk_task *tasks = memory_take(TASKS_MAX * sizeof(*tasks));
    size_t count = desk_tasks(call->client->worker->service->desk, tasks, TASKS_MAX);
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"tasks\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            HTTP_TEXT(body, ",");
        write_task(body, &tasks[i]);
        HTTP_TEXT(body, "}");
    }
    HTTP_TEXT(body, "]");
    http_call_as_of(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
    free(tasks);
}

void http_tasks(struct http_call *call)
{
    if (desk_of(call))
        http_call_answer(call, answer_tasks);
}
