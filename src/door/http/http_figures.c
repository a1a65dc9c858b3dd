/* http_figures.c - the figures of the last hour, column by column. */
#include <stdlib.h>

#include "base/memory.h"
#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_worker.h"
#include "flow/pipeline.h"
#include "flow/samples.h"

/* Of the newest sample: "lag_events" is a count on one machine only. */
static bool is_lag_estimated(const struct http_call *call)
{
    struct pipeline_stats stats;
    pipeline_read(call->client->worker->service, &stats);
    return stats.lag_is_estimated;
}

static void write_column(struct http_text *to, const struct sample_column *column,
                         const struct sample *samples, size_t count)
{
    http_text_printf(to, "\"%s\":[", column->name);
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        if (i > 0)
            HTTP_TEXT(to, ",");
        if (sample_read(&samples[i], column, &value))
            http_text_unsigned(to, value);
        else
            HTTP_TEXT(to, "null");
    }
    HTTP_TEXT(to, "]");
}

static void write_columns(struct http_text *to, const struct sample *samples, size_t count)
{
    HTTP_TEXT(to, ",\"columns\":{");
    for (unsigned i = 0; i < sample_column_count; i++) {
        if (i > 0)
            HTTP_TEXT(to, ",");
        write_column(to, &sample_columns[i], samples, count);
    }
    HTTP_TEXT(to, "}");
}

/* `number` of the call is the time after which they are wanted. */
static void answer_figures(struct http_call *call, struct op *ops)
{
    (void)ops;
    struct samples *from = http_door_options(call->client->worker->http)->samples;
    struct sample *samples = memory_take(SAMPLES_MAX * sizeof(*samples));
    size_t count = samples_copy(from, (int64_t)call->number, samples);
    struct http_text *body = http_call_body(call);
    http_text_printf(body, "{\"every_ms\":%u,\"from\":", SAMPLES_EVERY_MS);
    http_text_time(body, count > 0 ? samples[0].time_ms : 0);
    http_text_printf(body, ",\"lag_is_estimated\":%s", is_lag_estimated(call) ? "true" : "false");
    write_columns(body, samples, count);
    free(samples);
    http_call_as_of(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

void http_figures(struct http_call *call)
{
    static const char *const names[] = {"since", NULL};
    struct slice since;
    int64_t since_ms = 0;
    if (!http_call_query(call, names, &since))
        return;
    if (!http_call_time(call, "since", since, &since_ms))
        return;
    if (!http_door_options(call->client->worker->http)->samples) {
        http_call_fail(call, HTTP_PROBLEM_NO_PATH, NULL);
        return;
    }
    call->number = (uint64_t)since_ms;
    http_call_answer(call, answer_figures);
}
