/* http_counters.c - /v1/counters: numbers with an id. */
#include <string.h>

#include "door/http/http_call.h"
#include "door/http/http_handlers.h"
#include "door/http/http_job.h"
#include "door/http/http_worker.h"

/* ---- reading one ---- */

static void write_counter(struct http_text *to, struct slice id, const struct number *value)
{
    HTTP_TEXT(to, "{\"id\":");
    http_text_string(to, id);
    HTTP_TEXT(to, ",\"value\":");
    http_text_number(to, value);
}

static void answer_get(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"id\":");
    http_text_string(body, ops->id);
    HTTP_TEXT(body, ",\"value\":");
    size_t begin = body->bytes.size;
    http_text_number(body, &ops->value);
    size_t end = body->bytes.size;
    http_call_as_of_op(call, body, ops);
    HTTP_TEXT(body, "}");
    /* The digits, without their quotes. */
    http_call_send_tagged(call, (struct slice){body->bytes.data + begin + 1, end - begin - 2});
}

/* On one node every read is exact: it is taken where the counter lives. */
static bool read_exact(struct http_call *call, bool *ret_exact)
{
    static const char *const names[] = {"consistency", "exact", NULL};
    struct slice values[2];
    if (!http_call_query(call, names, values) || !http_call_exact(call, values[1], ret_exact))
        return false;
    if (!values[0].data || slice_equal(values[0], SLICE("any")))
        return true;
    *ret_exact = true;
    if (slice_equal(values[0], SLICE("exact")))
        return true;
    http_call_fail(call, HTTP_PROBLEM_INVALID, "consistency: not exact or any");
    return false;
}

void http_counter_get(struct http_call *call)
{
    bool exact = false;
    if (call->query.size > 0 && !read_exact(call, &exact))
        return;
    http_call_op(call, OP_GET, call->args[0])->exact = exact;
    http_call_submit(call, 1, answer_get);
}

/* ---- writing ---- */

static void answer_change(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    write_counter(body, ops->id, &ops->value);
    HTTP_TEXT(body, ",\"changed\":");
    http_text_add(body, ops->changed ? SLICE("true") : SLICE("false"));
    HTTP_TEXT(body, ",\"repeated\":");
    http_text_add(body, ops->repeated ? SLICE("true") : SLICE("false"));
    http_call_ack(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, call->route->status);
}

static bool take_region(struct http_call *call, const struct http_json *object)
{
    return http_call_string(call, object, "region", &call->region);
}

void http_counter_add(struct http_call *call)
{
    static const char *const names[] = {"delta", "region", NULL};
    const struct http_json *object = http_call_object(call, names);
    if (!object || !take_region(call, object))
        return;
    struct number delta = number_of(1);
    if (!http_call_number(call, object, "delta", &delta))
        return;
    http_call_op(call, OP_ADD, call->args[0])->amount = delta;
    http_call_submit(call, 1, answer_change);
}

void http_counter_reset(struct http_call *call)
{
    static const char *const names[] = {"value", "region", NULL};
    const struct http_json *object = http_call_object(call, names);
    if (!object || !take_region(call, object))
        return;
    struct number value = number_of(0);
    if (!http_call_number(call, object, "value", &value))
        return;
    http_call_op(call, OP_SET, call->args[0])->amount = value;
    http_call_submit(call, 1, answer_change);
}

static bool read_create(struct http_call *call, struct op_create *create)
{
    static const char *const names[] = {"shards", "policy", "floor", "idle_s", "region", NULL};
    const struct http_json *object = http_call_object(call, names);
    if (!object || !take_region(call, object))
        return false;

    int64_t shards = 1;
    int64_t idle_s = 0;
    struct slice policy = SLICE("local");
    *create = (struct op_create){.has_floor = http_json_member(object, SLICE("floor")) != NULL};
    if (!http_call_int(call, object, "shards", 1, LIMIT_CELLS, &shards) ||
        !http_call_int(call, object, "idle_s", 0, UINT32_MAX, &idle_s) ||
        !http_call_int(call, object, "floor", INT64_MIN, INT64_MAX, &create->floor) ||
        !http_call_string(call, object, "policy", &policy))
        return false;
    if (!policy_parse(policy, &create->policy)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID,
                       "policy: not local, random, round-robin or least-loaded");
        return false;
    }
    create->shards = (uint32_t)shards;
    create->idle_s = (uint32_t)idle_s;
    return true;
}

void http_counter_create(struct http_call *call)
{
    struct op_create *create = http_call_alloc(call, sizeof(*create));
    if (!read_create(call, create))
        return;
    http_call_op(call, OP_CREATE, call->args[0])->create = create;
    http_call_submit(call, 1, answer_change);
}

static void answer_delete(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"id\":");
    http_text_string(body, ops->id);
    HTTP_TEXT(body, ",\"deleted\":");
    http_text_add(body, ops->changed ? SLICE("true") : SLICE("false"));
    HTTP_TEXT(body, ",\"repeated\":");
    http_text_add(body, ops->repeated ? SLICE("true") : SLICE("false"));
    http_call_ack(call, body);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

void http_counter_delete(struct http_call *call)
{
    http_call_op(call, OP_DELETE, call->args[0]);
    http_call_submit(call, 1, answer_delete);
}

/* ---- describing ---- */

static void write_shards(struct http_text *to, const struct op_describe *about)
{
    if (about->total_count == 0) {
        HTTP_TEXT(to, ",\"shard_values\":null");
        return;
    }
    HTTP_TEXT(to, ",\"shard_values\":[");
    for (uint32_t i = 0; i < about->total_count; i++) {
        if (i > 0)
            HTTP_TEXT(to, ",");
        http_text_count(to, about->totals[i]);
    }
    HTTP_TEXT(to, "]");
}

static void answer_describe(struct http_call *call, struct op *ops)
{
    if (http_call_answer_error(call, ops))
        return;
    const struct op_describe *about = ops->describe;
    struct http_text *body = http_call_body(call);
    HTTP_TEXT(body, "{\"id\":");
    http_text_string(body, ops->id);
    http_text_printf(body, ",\"kind\":\"%s\",\"shards\":%u,\"shards_asked\":%u,\"policy\":\"%s\"",
                     about->is_item ? "item" : "counter", about->shards, about->shards_asked,
                     policy_name(about->policy));
    HTTP_TEXT(body, ",\"floor\":");
    if (about->has_floor)
        http_text_count(body, about->floor);
    else
        HTTP_TEXT(body, "null");
    http_text_printf(body,
                     ",\"idle_s\":%u,\"incarnation\":%u,\"home\":%u,\"expires\":", about->idle_s,
                     about->incarnation, about->home);
    http_text_time(body, about->deadline_ms);
    HTTP_TEXT(body, ",\"written\":");
    http_text_time(body, about->written_ms);
    HTTP_TEXT(body, ",\"shards_changed\":");
    http_text_time(body, about->changed_ms);
    HTTP_TEXT(body, ",\"shards_reason\":");
    http_text_string(body, slice_of(about->reason ? about->reason : ""));
    write_shards(body, about);
    http_call_as_of_op(call, body, ops);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

void http_counter_describe(struct http_call *call)
{
    struct op_describe *describe = http_call_alloc(call, sizeof(*describe));
    memset(describe, 0, sizeof(*describe));
    struct op *op = http_call_op(call, OP_DESCRIBE, call->args[0]);
    op->describe = describe;
    op->exact = true;
    http_call_submit(call, 1, answer_describe);
}

/* ---- many ---- */

static void answer_many(struct http_call *call, struct op *ops)
{
    struct http_text *body = http_call_body(call);
    struct age all = {0};
    HTTP_TEXT(body, "{\"counters\":[");
    for (uint64_t i = 0; i < call->number; i++) {
        if (i > 0)
            HTTP_TEXT(body, ",");
        HTTP_TEXT(body, "{\"id\":");
        http_text_string(body, ops[i].id);
        HTTP_TEXT(body, ",\"value\":");
        if (ops[i].code == ERR_OK)
            http_text_number(body, &ops[i].value);
        else
            HTTP_TEXT(body, "null");
        if (ops[i].code != ERR_OK && ops[i].code != ERR_NOT_FOUND) {
            HTTP_TEXT(body, ",\"problem\":\"/problems/");
            http_text_add(body, slice_of(http_problems[http_problem_of(ops[i].code)].slug));
            HTTP_TEXT(body, "\"");
        }
        struct age age = age_of(&ops[i]);
        http_call_write_age(&all, body, &age);
        HTTP_TEXT(body, "}");
    }
    HTTP_TEXT(body, "],\"cursor\":null");
    http_call_as_of_age(call, body, &all);
    HTTP_TEXT(body, "}");
    http_call_send(call, 200);
}

static void get_many(struct http_call *call, struct slice ids)
{
    call->number = http_call_read_ids(call, ids);
    if (call->number > 0)
        http_call_submit_checked(call, call->number, answer_many);
}

/* ---- all that match ---- */

struct match_job {
    struct http_job base;
    const struct kinds *kinds;
    struct slice pattern;
    uint64_t cursor;
    uint32_t limit;
    bool has_one;
};

static void write_entry_counts(const struct match_job *job, struct http_text *to,
                               const int64_t *counts)
{
    HTTP_TEXT(to, ",\"counts\":{");
    for (unsigned i = 0; i < job->kinds->count; i++) {
        if (i > 0)
            HTTP_TEXT(to, ",");
        http_text_string(to, kinds_name(job->kinds, (uint8_t)(i + 1)));
        HTTP_TEXT(to, ":");
        http_text_count(to, counts ? counts[i] : 0);
    }
    HTTP_TEXT(to, "}");
}

static void visit_entry(void *arg, const struct desk_entry *entry)
{
    struct match_job *job = arg;
    struct http_text *to = &job->base.text;
    http_job_grown(&job->base);
    if (job->has_one)
        HTTP_TEXT(to, ",");
    job->has_one = true;
    HTTP_TEXT(to, "{\"id\":");
    http_text_string(to, entry->id);
    if (entry->is_damaged) {
        HTTP_TEXT(to, ",\"value\":null,\"problem\":\"/problems/");
        http_text_add(to, slice_of(http_problems[http_problem_of(ERR_CORRUPT)].slug));
        HTTP_TEXT(to, "\"");
    } else if (entry->is_item) {
        write_entry_counts(job, to, entry->counts);
    } else {
        HTTP_TEXT(to, ",\"value\":");
        http_text_number(to, entry->value);
    }
    if (entry->written_ms != 0) {
        HTTP_TEXT(to, ",\"written\":");
        http_text_time(to, entry->written_ms);
    }
    HTTP_TEXT(to, ",\"hot\":");
    http_text_add(to, entry->is_hot ? SLICE("true") : SLICE("false"));
    http_call_write_age(&job->base.age, to, &entry->age);
    HTTP_TEXT(to, "}");
}

static enum err find_matches(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct match_job *job = (struct match_job *)base;
    HTTP_TEXT(&base->text, "{\"counters\":[");
    enum err err = desk_scan(seat, job->pattern, &job->cursor, job->limit, visit_entry, job,
                             &base->age, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_counters_list(struct http_call *call)
{
    static const char *const names[] = {"=ids", "match", "cursor", "limit", NULL};
    struct slice values[4];
    if (!http_call_query(call, names, values))
        return;
    if (values[0].data) {
        if (values[1].data || values[2].data || values[3].data)
            http_call_fail(call, HTTP_PROBLEM_INVALID, "ids stands alone");
        else
            get_many(call, values[0]);
        return;
    }

    if (values[1].data && !http_call_check_match(call, values[1]))
        return;
    struct match_job *job =
        (struct match_job *)http_job_new(call, sizeof(*job), find_matches, values[1]);
    job->kinds = call->client->worker->service->kinds;
    job->pattern = http_job_text(&job->base);
    if (!http_call_page(call, values[2], values[3], 100, &job->cursor, &job->limit)) {
        http_job_free(&job->base);
        return;
    }
    http_call_job(call, &job->base);
}
