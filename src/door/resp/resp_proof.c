/* resp_proof.c - numbers that can be proved: recounts and events from the log,
 * audits, the erasure of users. */
#include <stdlib.h>

#include "base/decimal.h"
#include "base/memory.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_job.h"
#include "door/resp/resp_worker.h"

#define PAGE_COUNT_DEFAULT 100u
#define TASKS_MAX          64u

static const struct slice nothing = {NULL, 0};

static void reply_number(struct resp_reply *reply, const char *name, const struct number *value)
{
    resp_reply_text(reply, name);
    resp_reply_number(reply, value);
}

/* ---- COUNTER.RECOUNT ---- */

/* Where the log has many lanes. */
static void reply_places(struct resp_reply *reply, const struct desk_recount *recount)
{
    resp_reply_pair(reply, "from", recount->by_store ? SLICE("store") : SLICE("log"));
    resp_reply_pair_integer(reply, "log_begins_ms", recount->log_begins_ms);
    resp_reply_pair_integer(reply, "hot", recount->has_hot);
    reply_number(reply, "store", &recount->store);
    resp_reply_pair_integer(reply, "agrees", recount->agrees);
}

static void reply_recount(struct resp_job *job, struct desk_recount *recount)
{
    struct resp_reply *reply = &job->things;
    resp_reply_map(reply, recount->has_lanes ? 12 : 7);
    resp_reply_pair(reply, "id", job->subject);
    reply_number(reply, "value", &recount->value);
    reply_number(reply, "recount", &recount->recount);
    reply_number(reply, "base", &recount->base);
    reply_number(reply, "discarded", &recount->discarded);
    resp_reply_pair_integer(reply, "events", (int64_t)recount->events);
    number_subtract(&recount->value, &recount->recount);
    reply_number(reply, "drift", &recount->value);
    if (recount->has_lanes)
        reply_places(reply, recount);
    number_done(&recount->store);
    number_done(&recount->value);
    number_done(&recount->recount);
    number_done(&recount->base);
    number_done(&recount->discarded);
}

static void work_recount(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    struct desk_recount recount = {.value = number_of(0)};
    enum err err = desk_recount(seat, job->subject, &recount, &base->error);
    if (err)
        resp_job_fail(job, err, err == ERR_NOT_FOUND ? "no such key" : NULL);
    else
        reply_recount(job, &recount);
}

void resp_counter_recount(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    if (!resp_args_counter(client, argv[1]))
        return;
    struct resp_job *job = resp_job_new(client, sizeof(*job), argv[1], nothing, work_recount);
    if (job)
        resp_job_start(client, job);
}

/* ---- COUNTER.EVENTS ---- */

static const char *const type_names[] = {
    [EVENT_ADD] = "add",       [EVENT_RESET] = "reset",   [EVENT_DELETE] = "delete",
    [EVENT_CREATE] = "create", [EVENT_EXPIRE] = "expire", [EVENT_REACT] = "react",
    [EVENT_NOTHING] = "none",  [EVENT_REPAIR] = "repair", [EVENT_EPOCH] = "epoch",
    [EVENT_AFTER] = "after",
};

/* What the event has added to the counter that was asked for; an item as a whole has
 * no value. */
static void reply_delta(struct resp_job *job, const struct event *event)
{
    struct slice item;
    uint8_t kind;
    resp_reply_text(&job->things, "delta");
    if (event->type == EVENT_ADD || event->type == EVENT_RESET || event->type == EVENT_REPAIR) {
        resp_reply_number(&job->things, &event->amount);
    } else if (event->type == EVENT_REACT && kinds_split(job->kinds, job->subject, &item, &kind)) {
        struct slice name = kinds_name(job->kinds, kind);
        resp_reply_integer(&job->things,
                           slice_equal(event->after, name) - slice_equal(event->before, name));
    } else {
        resp_reply_null(&job->things);
    }
}

static void visit_event(void *arg, const struct event *event)
{
    struct resp_job *job = arg;
    struct resp_reply *reply = &job->things;
    bool hides = event->erased;
    job->count++;
    resp_reply_map(reply, 10);
    resp_reply_pair_integer(reply, "time_ms", event->time_ms);
    resp_reply_pair_integer(reply, "origin", event->origin);
    resp_reply_pair_integer(reply, "sequence", (int64_t)event->sequence);
    resp_reply_pair(reply, "type", slice_of(type_names[event->type]));
    reply_delta(job, event);
    resp_reply_pair(reply, "user", hides ? (struct slice){NULL, 0} : event->user);
    resp_reply_pair(reply, "before", event->before);
    resp_reply_pair(reply, "after", event->after);
    resp_reply_pair(reply, "key", hides ? (struct slice){NULL, 0} : event->key);
    resp_reply_pair(reply, "region", event->region);
    resp_job_grown(job);
}

static void work_events(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    enum err err =
        desk_events(seat, job->subject, &job->cursor, job->limit, visit_event, job, &base->error);
    if (err)
        resp_job_fail(job, err, err == ERR_NOT_FOUND ? "no such key" : NULL);
}

/* A job that gives a page about something; [CURSOR c] [COUNT n] stand from word `from` on. */
static struct resp_job *page_job(struct resp_client *client, unsigned argc,
                                 const struct slice *argv, unsigned from, struct slice subject,
                                 pass_work_fn *work)
{
    struct resp_args args = resp_args_from(argc, argv, from);
    uint64_t cursor = 0;
    uint32_t limit = PAGE_COUNT_DEFAULT;
    if (!resp_args_page(&args, &cursor, &limit)) {
        resp_client_fail_syntax(client);
        return NULL;
    }
    struct resp_job *job = resp_job_new(client, sizeof(*job), subject, nothing, work);
    if (job) {
        job->form = RESP_JOB_PAGE;
        job->cursor = cursor;
        job->limit = limit;
    }
    return job;
}

void resp_counter_events(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (!resp_args_counter(client, argv[1]))
        return;
    struct resp_job *job = page_job(client, argc, argv, 2, argv[1], work_events);
    if (job)
        resp_job_start(client, job);
}

/* ---- COUNTER.AT ---- */

static void work_at(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    struct number value = number_of(0);
    int64_t time_ms = (int64_t)job->cursor;
    enum err err = desk_value_at(seat, job->subject, time_ms, &value, &base->error);
    if (err == ERR_NOT_FOUND)
        resp_reply_null(&job->things);
    else if (err)
        resp_job_fail(job, err, NULL);
    else
        resp_reply_number(&job->things, &value);
    if (err == ERR_NOT_FOUND)
        base->error.code = ERR_OK;
    number_done(&value);
}

void resp_counter_at(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    int64_t time_ms;
    if (!resp_args_int(client, argv[2], &time_ms) || !resp_args_counter(client, argv[1]) ||
        !resp_args_time(client, time_ms))
        return;
    struct resp_job *job = resp_job_new(client, sizeof(*job), argv[1], nothing, work_at);
    if (!job)
        return;
    job->cursor = (uint64_t)time_ms;
    resp_job_start(client, job);
}

/* ---- AUDITS ---- */

static void visit_audit(void *arg, const struct store_audit *audit)
{
    struct resp_job *job = arg;
    job->count++;
    resp_reply_map(&job->things, 4);
    resp_reply_pair_integer(&job->things, "time_ms", audit->time_ms);
    resp_reply_pair(&job->things, "what", audit->what);
    resp_reply_pair(&job->things, "id", audit->id);
    resp_reply_pair(&job->things, "text", audit->text);
    resp_job_grown(job);
}

static void work_audits(struct pass_job *base, struct desk_seat *seat)
{
    struct resp_job *job = (struct resp_job *)base;
    enum err err = desk_audits(seat, &job->cursor, job->limit, visit_audit, job, &base->error);
    if (err)
        resp_job_fail(job, err, NULL);
}

void resp_audits(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_job *job = page_job(client, argc, argv, 1, nothing, work_audits);
    if (job)
        resp_job_start(client, job);
}

/* ---- tasks ---- */

static struct desk *desk_of(struct resp_client *client)
{
    struct desk *desk = client->worker->service->desk;
    if (!desk)
        resp_client_fail(client, "ERR this needs the store, and the server runs without one");
    return desk;
}

/* `id` is read once `err` is known. */
static void answer_start(struct resp_client *client, enum err err, const uint64_t *id,
                         const struct error *error)
{
    if (err == ERR_BUSY)
        resp_client_fail(client, "BUSY too many tasks are running. Try again.");
    else if (err)
        resp_client_fail_with(client, error);
    else
        resp_reply_integer(&client->reply, (int64_t)*id);
}

void resp_recount(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct desk *desk = desk_of(client);
    struct error error;
    uint64_t id = 0;
    if (desk)
        answer_start(client, desk_start_recount(desk, argv[1], &id, &error), &id, &error);
}

/* AUDIT [pattern] [REPAIR yes|no] */
void resp_audit(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct slice pattern = SLICE("*");
    unsigned from = 1;
    if (argc == 2 || argc == 4)
        pattern = argv[from++];
    struct resp_args args = resp_args_from(argc, argv, from);
    struct slice repair = SLICE("yes");
    resp_args_option(&args, SLICE("repair"), &repair);
    bool repairs = slice_equal_nocase(repair, SLICE("yes"));
    if (args.left > 0 || (!repairs && !slice_equal_nocase(repair, SLICE("no")))) {
        resp_client_fail_syntax(client);
        return;
    }
    struct desk *desk = desk_of(client);
    struct error error;
    uint64_t id = 0;
    if (desk)
        answer_start(client, desk_start_audit(desk, pattern, repairs, &id, &error), &id, &error);
}

void resp_user_erase(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    struct desk *desk = desk_of(client);
    struct error error;
    uint64_t id = 0;
    if (desk)
        answer_start(client, desk_start_erase(desk, argv[1], &id, &error), &id, &error);
}

static void reply_task(struct resp_reply *reply, const struct desk_task *task)
{
    unsigned lines = task->found < DESK_FOUND_MAX ? task->found : DESK_FOUND_MAX;
    resp_reply_map(reply, 11);
    resp_reply_pair_integer(reply, "id", (int64_t)task->id);
    resp_reply_pair(reply, "kind", slice_of(desk_task_kind_name(task->kind)));
    resp_reply_pair(reply, "state", slice_of(desk_task_state_name(task->state)));
    resp_reply_pair_integer(reply, "done", (int64_t)task->done);
    resp_reply_pair_integer(reply, "all", (int64_t)task->all);
    resp_reply_pair(reply, "unit", slice_of(task->unit ? task->unit : ""));
    resp_reply_pair(reply, "text", slice_of(task->text));
    resp_reply_pair_integer(reply, "started_ms", task->started_ms);
    resp_reply_pair_integer(reply, "ended_ms", task->ended_ms);
    resp_reply_pair_integer(reply, "drifts", task->found);
    resp_reply_text(reply, "found");
    resp_reply_array(reply, lines);
    for (unsigned i = 0; i < lines; i++)
        resp_reply_text(reply, task->lines[i]);
}

void resp_task(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    uint64_t id;
    struct desk *desk = desk_of(client);
    if (!desk)
        return;
    struct desk_task *task = memory_take_zeroed(sizeof(*task));
    if (decimal_parse_unsigned(argv[1], &id) && desk_task(desk, id, task))
        reply_task(&client->reply, task);
    else
        resp_client_fail(client, "ERR no such task");
    free(task);
}

void resp_tasks(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    struct desk *desk = desk_of(client);
    if (!desk)
        return;
    struct desk_task *tasks = memory_take_zeroed(TASKS_MAX * sizeof(*tasks));
    size_t count = desk_tasks(desk, tasks, TASKS_MAX);
    if (count > TASKS_MAX)
        count = TASKS_MAX;
    resp_reply_array(&client->reply, count);
    for (size_t i = 0; i < count; i++)
        reply_task(&client->reply, &tasks[i]);
    free(tasks);
}
