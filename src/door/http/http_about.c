/* http_about.c - what there is to know of the server itself. */
#include <string.h>

#include "base/message.h"
#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"
#include "flow/pipeline.h"

static struct service *service_of(struct http_call *call)
{
    return call->client->worker->service;
}

/* ---- /openapi.json, /metrics ---- */

static void answer_openapi(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct http_text *body = http_call_body(call);
    http_text_add(body, http_door_openapi(call->client->worker->http));
    call->client->worker->as_of_at = body->bytes.size;
    http_call_send(call, 200);
}

void http_openapi(struct http_call *call)
{
    http_call_answer(call, answer_openapi);
}

static void answer_metrics(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct http_text *body = http_call_body(call);
    const struct metrics *metrics = http_door_options(call->client->worker->http)->metrics;
    if (metrics_page(metrics, &body->bytes) != ERR_OK) {
        http_call_problem(call, HTTP_PROBLEM_INTERNAL, "the page of metrics is too large");
        return;
    }
    http_call_send_as(call, 200, SLICE(METRICS_CONTENT_TYPE), SLICE("Cache-Control: no-store\r\n"),
                      buffer_slice(&body->bytes));
}

void http_metrics_page(struct http_call *call)
{
    if (http_door_options(call->client->worker->http)->metrics)
        http_call_answer(call, answer_metrics);
    else
        http_call_fail(call, HTTP_PROBLEM_NO_PATH, NULL);
}

/* ---- /livez, /readyz ---- */

static void send_text(struct http_call *call, unsigned status, struct slice text)
{
    http_call_send_as(call, status, SLICE("text/plain; charset=utf-8"),
                      SLICE("Cache-Control: no-store\r\n"), text);
}

static void answer_livez(struct http_call *call, struct op *ops)
{
    (void)ops;
    send_text(call, 200, SLICE("ok\n"));
}

void http_livez(struct http_call *call)
{
    http_call_answer(call, answer_livez);
}

struct readiness {
    struct http_text *to;
    bool is_verbose;
    bool may_know_why; /* reasons have paths, addresses, and what an engine has said */
    bool is_ready;
};

static void say_ready(void *arg, const char *name, bool is_well, bool is_needed, const char *why)
{
    struct readiness *readiness = arg;
    if (is_needed && !is_well)
        readiness->is_ready = false;
    if (!readiness->is_verbose)
        return;
    if (is_well)
        http_text_printf(readiness->to, "[+] %s ok\n", name);
    else
        http_text_printf(readiness->to, "[-] %s failed: %.300s\n", name,
                         readiness->may_know_why ? why : "who sends the password is told why");
}

static void say_log(struct service *service, service_say_fn *say, void *to)
{
    enum err room = log_room(service->log);
    say(to, "log", room == ERR_OK, true, err_meaning(room));
}

/* Writes are what it has to be ready for: a store that is down holds up nothing. */
static void say_store(struct service *service, service_say_fn *say, void *to)
{
    struct pipeline_stats stats;
    pipeline_read(service, &stats);
    if (stats.runs)
        say(to, "store (not needed for writes)", !stats.paused, false, stats.reason);
}

/* Tells of all parts; or only of those that are needed to serve. */
static void tell_parts(struct http_call *call, bool is_all, service_say_fn *say, void *to)
{
    struct service *service = service_of(call);
    if (service->ready)
        service->ready(service->ready_arg, say, to);
    else
        say_log(service, say, to);
    say(to, "open", !call->client->worker->draining, true, "it ends");
    if (!service->ready && is_all)
        say_store(service, say, to);
    service_ready_fn *more = service->more;
    if (is_all && more)
        more(service->more_arg, say, to);
}

static void answer_readyz(struct http_call *call, struct op *ops)
{
    (void)ops;
    bool is_verbose = call->number != 0;
    struct http_text *body = http_call_body(call);
    struct readiness readiness = {
        .to = body, .is_verbose = is_verbose, .may_know_why = call->is_known, .is_ready = true};
    tell_parts(call, is_verbose, say_ready, &readiness);
    bool is_ready = readiness.is_ready;
    http_text_add(body, is_ready ? SLICE("ready\n") : SLICE("not ready\n"));
    send_text(call, is_ready ? 200 : 503, buffer_slice(&body->bytes));
}

void http_readyz(struct http_call *call)
{
    static const char *const names[] = {"verbose", NULL};
    struct slice verbose;
    if (!http_call_query(call, names, &verbose))
        return;
    call->number = verbose.data != NULL;
    http_call_answer(call, answer_readyz);
}

/* ---- /v1/status ---- */

static void write_hot(struct http_text *to, const struct hot_stats *stats)
{
    http_text_printf(to,
                     ",\"counters\":%llu,\"items\":%llu,\"members\":%llu,\"users\":%llu,"
                     "\"keys\":%llu,\"hot\":{\"counters\":%llu,\"items\":%llu,\"cold_misses\":%llu,"
                     "\"loads\":%llu,\"dropped\":%llu,\"spread\":%llu,\"memory_bytes\":%llu,"
                     "\"memory_max\":%llu,\"refused\":%llu}",
                     (unsigned long long)stats->counters, (unsigned long long)stats->items,
                     (unsigned long long)stats->members, (unsigned long long)stats->users,
                     (unsigned long long)stats->keys, (unsigned long long)stats->hot_counters,
                     (unsigned long long)stats->hot_items, (unsigned long long)stats->cold_misses,
                     (unsigned long long)stats->loads, (unsigned long long)stats->dropped,
                     (unsigned long long)stats->spread, (unsigned long long)stats->memory_bytes,
                     (unsigned long long)stats->memory_max, (unsigned long long)stats->refused);
}

/* A node whose log others carry into the store knows as well how far behind that is, and what waits
 * there for a decision. */
static void write_pipeline(struct http_text *to, const struct pipeline_stats *stats)
{
    if (!stats->runs && !stats->form) {
        HTTP_TEXT(to, ",\"pipeline\":null");
        return;
    }
    http_text_printf(
        to,
        ",\"pipeline\":{\"paused\":%s,\"lag_events\":%llu,"
        "\"lag_is_estimated\":%s,\"lag_bytes\":%llu,"
        "\"lag_ms\":%lld,\"events\":%llu,\"batches\":%llu,\"retrying\":%llu,"
        "\"dead_letters\":%llu,\"pending\":%llu,\"succeeded\":%llu,"
        "\"drifts\":%llu,\"repairs\":%llu,\"store_bytes\":%llu,\"reason\":",
        stats->paused ? "true" : "false", (unsigned long long)stats->lag_events,
        stats->lag_is_estimated ? "true" : "false", (unsigned long long)stats->lag_bytes,
        (long long)stats->lag_ms, (unsigned long long)stats->events,
        (unsigned long long)stats->batches, (unsigned long long)stats->store.retrying,
        (unsigned long long)stats->store.failed, (unsigned long long)stats->store.pending,
        (unsigned long long)stats->store.succeeded, (unsigned long long)stats->drifts,
        (unsigned long long)stats->repairs, (unsigned long long)stats->store.bytes);
    http_text_string(to, slice_of(stats->reason));
    HTTP_TEXT(to, "}");
}

static void write_kinds(struct http_text *to, const struct kinds *kinds)
{
    HTTP_TEXT(to, ",\"kinds\":[");
    for (unsigned i = 0; i < kinds->count; i++) {
        if (i > 0)
            HTTP_TEXT(to, ",");
        http_text_string(to, kinds_name(kinds, (uint8_t)(i + 1)));
    }
    HTTP_TEXT(to, "]");
}

static void write_door(struct http_text *to, struct http *http)
{
    uint64_t connections = 0;
    uint64_t listeners = 0;
    uint64_t requests = 0;
    for (unsigned i = 0; i < http_door_workers(http); i++) {
        const struct http_worker_stats *stats = &http_door_worker(http, i)->stats;
        connections += gauge_read(&stats->connections);
        listeners += gauge_read(&stats->listeners);
        requests += gauge_read(&stats->requests);
    }
    http_text_printf(to, ",\"http\":{\"connections\":%llu,\"listeners\":%llu,\"requests\":%llu}",
                     (unsigned long long)connections, (unsigned long long)listeners,
                     (unsigned long long)requests);
}

/* Which form each of the three places has. */
static void write_forms(struct http_text *to, const struct service *service,
                        const struct pipeline_stats *pipeline)
{
    http_text_printf(to,
                     ",\"forms\":{\"hot\":\"%s\",\"log\":\"%s\",\"store\":", hot_name(service->hot),
                     log_name(service->log));
    if (pipeline->form)
        http_text_string(to, slice_of(pipeline->form));
    else
        HTTP_TEXT(to, "null");
    HTTP_TEXT(to, "}");
}

/* Where the data lies; null if that cannot be said. */
static void write_disk(struct http_text *to, const struct metrics *metrics)
{
    struct metrics_process process = {0};
    if (metrics && metrics->brief)
        metrics->brief(metrics->process_arg, &process);
    if (process.disk_bytes > 0)
        http_text_printf(to, ",\"disk\":{\"free_bytes\":%llu,\"size_bytes\":%llu}",
                         (unsigned long long)process.disk_free_bytes,
                         (unsigned long long)process.disk_bytes);
    else
        HTTP_TEXT(to, ",\"disk\":null");
    http_text_printf(to, ",\"resident_bytes\":%llu", (unsigned long long)process.resident_bytes);
}

struct parts {
    struct http_text *to;
    unsigned count;
};

/* Of a name like "store (not needed for writes)" the first word. */
static void write_part(void *arg, const char *name, bool is_well, bool is_needed, const char *why)
{
    struct parts *parts = arg;
    http_text_add(parts->to, parts->count++ > 0 ? SLICE(",{\"name\":") : SLICE("{\"name\":"));
    http_text_string(parts->to, (struct slice){name, strcspn(name, " ")});
    http_text_printf(parts->to, ",\"ok\":%s,\"needed\":%s,\"reason\":", is_well ? "true" : "false",
                     is_needed ? "true" : "false");
    http_text_string(parts->to, slice_of(is_well ? "" : why));
    HTTP_TEXT(parts->to, "}");
}

static void write_parts(struct http_call *call, struct http_text *to)
{
    struct parts parts = {.to = to};
    HTTP_TEXT(to, ",\"parts\":[");
    tell_parts(call, true, write_part, &parts);
    HTTP_TEXT(to, "]");
}

static void answer_status(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct service *service = service_of(call);
    struct http *http = call->client->worker->http;
    struct hot_stats hot;
    struct pipeline_stats pipeline;
    hot_stats(service->hot, &hot);
    pipeline_read(service, &pipeline);

    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"version\":");
    http_text_string(body, slice_of(http_door_options(http)->version));
    HTTP_TEXT(body, ",\"started\":");
    http_text_time(body, http_door_options(http)->started_ms);
    http_text_printf(body, ",\"workers\":%u,\"demo\":%s", http_door_workers(http),
                     http_door_options(http)->has_demo ? "true" : "false");
    write_kinds(body, service->kinds);
    write_hot(body, &hot);
    write_pipeline(body, &pipeline);
    write_door(body, http);
    write_forms(body, service, &pipeline);
    write_disk(body, http_door_options(http)->metrics);
    write_parts(call, body);
    http_call_ack(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

void http_status(struct http_call *call)
{
    http_call_answer(call, answer_status);
}
