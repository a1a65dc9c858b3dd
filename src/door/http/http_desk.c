/* http_desk.c - calls whose answers are found in the log or in the store, by a
 * thread of the desk: proof, history, the pipeline. */
#include <string.h>

#include "base/decimal.h"
#include "base/uuid.h"
#include "door/http/http_door.h"
#include "door/http/http_handlers.h"
#include "door/http/http_job.h"
#include "door/http/http_worker.h"
#include "flow/check.h"

#define PAGE_DEFAULT 100u

/* A job that answers with a page of things. */
struct page_job {
    struct http_job base;
    uint64_t cursor;
    uint32_t limit;
    bool has_one;
    struct store_life_filter filter;
    struct slice user;
    unsigned char event_id[UUID_BYTES];
    bool is_all;
    struct http *http; /* borrowed; with the claim, for what is written */
    struct http_claim claim;
    int64_t time_ms;
};

static struct page_job *new_job(struct http_call *call, http_find_fn *find, struct slice extra)
{
    return (struct page_job *)http_job_new(call, sizeof(struct page_job), find, extra);
}

static void hand_in(struct http_call *call, struct page_job *job)
{
    http_call_job(call, &job->base);
}

/* The comma between things. */
static struct http_text *next_thing(struct page_job *job)
{
    struct http_text *to = &job->base.text;
    http_job_grown(&job->base);
    if (job->has_one)
        HTTP_TEXT(to, ",");
    job->has_one = true;
    return to;
}

static void write_uuid(struct http_text *to, const unsigned char *id)
{
    char text[UUID_TEXT_BYTES];
    uuid_format(id, text);
    http_text_string(to, (struct slice){text, sizeof(text)});
}

static void write_text_or_null(struct http_text *to, struct slice text)
{
    if (text.size == 0)
        HTTP_TEXT(to, "null");
    else
        http_text_string(to, text);
}

/* Only ?cursor and ?limit. NULL: it has failed. */
static struct page_job *new_page(struct http_call *call, http_find_fn *find)
{
    static const char *const names[] = {"cursor", "limit", NULL};
    struct slice values[2];
    uint64_t cursor;
    uint32_t limit;
    if (!http_call_query(call, names, values) ||
        !http_call_page(call, values[0], values[1], PAGE_DEFAULT, &cursor, &limit))
        return NULL;
    struct page_job *job = new_job(call, find, (struct slice){NULL, 0});
    job->cursor = cursor;
    job->limit = limit;
    return job;
}

static bool has_no_query(struct http_call *call)
{
    static const char *const names[] = {NULL};
    return http_call_query(call, names, NULL);
}

/* Is it one? If not, the call has failed. */
static bool is_counter(struct http_call *call, struct slice id)
{
    struct error error;
    return http_call_accept(call, check_counter(call->client->worker->service->kinds, id, &error),
                            &error);
}

static bool is_item(struct http_call *call, struct slice id)
{
    struct error error;
    return http_call_accept(call, check_id(id, &error), &error);
}

static bool is_user(struct http_call *call, struct slice user)
{
    struct error error;
    return http_call_accept(call, check_user(user, &error), &error);
}

/* ---- proof ---- */

/* What else was looked at, where the log has many lanes. */
static void add_places(struct http_text *to, const struct desk_recount *found)
{
    http_text_add(to, found->by_store ? SLICE(",\"from\":\"store\"") : SLICE(",\"from\":\"log\""));
    if (found->log_begins_ms > 0) {
        HTTP_TEXT(to, ",\"log_begins\":");
        http_text_time(to, found->log_begins_ms);
    }
    http_text_add(to, found->has_hot ? SLICE(",\"hot\":true") : SLICE(",\"hot\":false"));
    HTTP_TEXT(to, ",\"store\":");
    http_text_number(to, &found->store);
    if (!found->has_members)
        return;
    struct number members = number_of(found->members);
    HTTP_TEXT(to, ",\"members\":");
    http_text_number(to, &members);
}

static enum err find_recount(struct http_job *job, struct desk_seat *seat, struct error *error)
{
    struct desk_recount found = {0};
    enum err err = desk_recount(seat, http_job_argument(job), &found, error);
    if (err)
        return err;
    struct http_text *to = &job->text;
    HTTP_TEXT(to, "{\"id\":");
    http_text_string(to, http_job_argument(job));
    HTTP_TEXT(to, ",\"value\":");
    http_text_number(to, &found.value);
    HTTP_TEXT(to, ",\"recount\":");
    http_text_number(to, &found.recount);
    HTTP_TEXT(to, ",\"base\":");
    http_text_number(to, &found.base);
    HTTP_TEXT(to, ",\"discarded\":");
    http_text_number(to, &found.discarded);
    HTTP_TEXT(to, ",\"events\":");
    http_text_unsigned(to, found.events);
    http_text_add(to, found.agrees ? SLICE(",\"agrees\":true") : SLICE(",\"agrees\":false"));
    if (found.has_lanes)
        add_places(to, &found);
    number_done(&found.store);
    number_done(&found.value);
    number_done(&found.recount);
    number_done(&found.base);
    number_done(&found.discarded);
    return ERR_OK;
}

void http_counter_recount(struct http_call *call)
{
    if (has_no_query(call) && is_counter(call, call->args[0]))
        hand_in(call, new_job(call, find_recount, (struct slice){NULL, 0}));
}

static const char *type_name(enum event_type type)
{
    switch (type) {
    case EVENT_ADD:
        return "add";
    case EVENT_RESET:
        return "reset";
    case EVENT_DELETE:
        return "delete";
    case EVENT_CREATE:
        return "create";
    case EVENT_EXPIRE:
        return "expire";
    case EVENT_REACT:
        return "react";
    case EVENT_NOTHING:
        return "nothing";
    case EVENT_EPOCH:
        return "epoch";
    case EVENT_AFTER:
        return "after";
    default:
        return "repair";
    }
}

static void visit_event(void *arg, const struct event *event)
{
    struct page_job *job = arg;
    struct http_text *to = next_thing(job);
    HTTP_TEXT(to, "{\"time\":");
    http_text_time(to, event->time_ms);
    http_text_printf(to, ",\"origin\":%u,\"sequence\":%llu,\"type\":\"%s\"", event->origin,
                     (unsigned long long)event->sequence, type_name(event->type));
    HTTP_TEXT(to, ",\"id\":");
    http_text_string(to, event->id);
    if (event->type == EVENT_ADD || event->type == EVENT_RESET) {
        HTTP_TEXT(to, ",\"delta\":");
        http_text_number(to, &event->amount);
    }
    if (event->type == EVENT_REACT) {
        HTTP_TEXT(to, ",\"user\":");
        write_text_or_null(to, event->erased ? (struct slice){NULL, 0} : event->user);
        HTTP_TEXT(to, ",\"before\":");
        write_text_or_null(to, event->before);
        HTTP_TEXT(to, ",\"after\":");
        write_text_or_null(to, event->after);
    }
    if (event->key.size > 0 && !event->erased) {
        HTTP_TEXT(to, ",\"key\":");
        http_text_string(to, event->key);
    }
    if (event->region.size > 0) {
        HTTP_TEXT(to, ",\"region\":");
        http_text_string(to, event->region);
    }
    HTTP_TEXT(to, "}");
}

static enum err find_events(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    HTTP_TEXT(&base->text, "{\"id\":");
    http_text_string(&base->text, http_job_argument(base));
    HTTP_TEXT(&base->text, ",\"events\":[");
    enum err err = desk_events(seat, http_job_argument(base), &job->cursor, job->limit, visit_event,
                               job, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_counter_events(struct http_call *call)
{
    if (!is_counter(call, call->args[0]))
        return;
    struct page_job *job = new_page(call, find_events);
    if (job)
        hand_in(call, job);
}

static enum err find_at(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    struct number value = number_of(0);
    enum err err = desk_value_at(seat, http_job_argument(base), job->time_ms, &value, error);
    if (err)
        return err;
    struct http_text *to = &base->text;
    HTTP_TEXT(to, "{\"id\":");
    http_text_string(to, http_job_argument(base));
    HTTP_TEXT(to, ",\"time\":");
    http_text_time(to, job->time_ms);
    HTTP_TEXT(to, ",\"value\":");
    http_text_number(to, &value);
    number_done(&value);
    return ERR_OK;
}

void http_counter_at(struct http_call *call)
{
    static const char *const names[] = {"time", NULL};
    struct slice time;
    int64_t time_ms;
    if (!is_counter(call, call->args[0]) || !http_call_query(call, names, &time) ||
        !http_call_time(call, "time", time, &time_ms))
        return;
    if (!time.data) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "time is missing");
        return;
    }
    struct page_job *job = new_job(call, find_at, (struct slice){NULL, 0});
    job->time_ms = time_ms;
    hand_in(call, job);
}

/* ---- values over time ---- */

#define POINTS_DEFAULT 25u
#define POINTS_MAX     500u

static void write_moment(struct page_job *job, const struct desk_moment *moment)
{
    struct http_text *to = next_thing(job);
    HTTP_TEXT(to, "{\"time\":");
    http_text_time(to, moment->time_ms);
    HTTP_TEXT(to, ",\"value\":");
    if (moment->exists)
        http_text_number(to, &moment->value);
    else
        HTTP_TEXT(to, "null");
    HTTP_TEXT(to, "}");
}

/* Evenly spread, the first at `since`, the last at `until`; none if these are the wrong way
 * round. */
static void spread_moments(const struct page_job *job, struct desk_moment *moments)
{
    int64_t first_ms = job->filter.since_ms;
    int64_t span_ms = job->filter.until_ms - first_ms;
    int64_t steps = (int64_t)job->limit - 1;
    for (int64_t i = 0; i <= steps; i++)
        moments[i] = (struct desk_moment){.time_ms = first_ms + span_ms / steps * i +
                                                     span_ms % steps * i / steps,
                                          .value = number_of(0)};
}

static enum err find_values(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    struct desk_moment moments[POINTS_MAX];
    spread_moments(job, moments);
    enum err err = ERR_OK;
    if (job->limit > 0)
        err = desk_values_at(seat, http_job_argument(base), moments, job->limit, error);
    HTTP_TEXT(&base->text, "{\"id\":");
    http_text_string(&base->text, http_job_argument(base));
    HTTP_TEXT(&base->text, ",\"values\":[");
    bool is_complete = true;
    for (uint32_t i = 0; i < job->limit; i++) {
        if (!err && moments[i].is_known)
            write_moment(job, &moments[i]);
        is_complete = is_complete && moments[i].is_known;
        number_done(&moments[i].value);
    }
    http_text_printf(&base->text, "],\"complete\":%s", is_complete ? "true" : "false");
    return err;
}

static bool read_points(struct http_call *call, struct slice text, uint32_t *ret_points)
{
    uint64_t points = POINTS_DEFAULT;
    bool is_number = !text.data || decimal_parse_unsigned(text, &points);
    *ret_points = (uint32_t)points;
    if (is_number && points >= 2 && points <= POINTS_MAX)
        return true;
    http_call_fail(call, HTTP_PROBLEM_INVALID, "points: not a whole number from 2 to %u",
                   POINTS_MAX);
    return false;
}

void http_counter_values(struct http_call *call)
{
    static const char *const names[] = {"since", "until", "points", NULL};
    struct slice values[3];
    struct store_life_filter filter = {0};
    uint32_t points;
    if (!is_counter(call, call->args[0]) || !http_call_query(call, names, values) ||
        !http_call_time(call, "since", values[0], &filter.since_ms) ||
        !http_call_time(call, "until", values[1], &filter.until_ms) ||
        !read_points(call, values[2], &points))
        return;
    if (!values[0].data || !values[1].data) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "since and until are needed");
        return;
    }
    struct page_job *job = new_job(call, find_values, (struct slice){NULL, 0});
    job->filter = filter;
    job->limit = filter.since_ms <= filter.until_ms ? points : 0;
    hand_in(call, job);
}

/* ---- history ---- */

static void visit_past(void *arg, const struct store_past *past)
{
    struct http_text *to = next_thing(arg);
    HTTP_TEXT(to, "{\"time\":");
    http_text_time(to, past->time_ms);
    HTTP_TEXT(to, ",\"item\":");
    http_text_string(to, past->item);
    HTTP_TEXT(to, ",\"user\":");
    http_text_string(to, past->user);
    HTTP_TEXT(to, ",\"kind\":");
    write_text_or_null(to, past->kind);
    HTTP_TEXT(to, "}");
}

static enum err find_history(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    HTTP_TEXT(&base->text, "{\"item\":");
    http_text_string(&base->text, http_job_argument(base));
    HTTP_TEXT(&base->text, ",\"history\":[");
    enum err err = desk_past(seat, http_job_argument(base), http_job_text(base), &job->cursor,
                             job->limit, visit_past, job, &base->age, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_item_history(struct http_call *call)
{
    static const char *const names[] = {"user", "cursor", "limit", NULL};
    struct slice values[3];
    uint64_t cursor;
    uint32_t limit;
    if (!is_item(call, call->args[0]) || !http_call_query(call, names, values) ||
        (values[0].data && !is_user(call, values[0])) ||
        !http_call_page(call, values[1], values[2], PAGE_DEFAULT, &cursor, &limit))
        return;
    struct page_job *job = new_job(call, find_history, values[0]);
    job->cursor = cursor;
    job->limit = limit;
    hand_in(call, job);
}

/* ---- users ---- */

static void visit_item(void *arg, struct slice item, struct slice kind)
{
    struct http_text *to = next_thing(arg);
    HTTP_TEXT(to, "{\"item\":");
    http_text_string(to, item);
    HTTP_TEXT(to, ",\"reaction\":");
    http_text_string(to, kind);
    HTTP_TEXT(to, "}");
}

static enum err find_items(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    HTTP_TEXT(&base->text, "{\"user\":");
    http_text_string(&base->text, http_job_argument(base));
    HTTP_TEXT(&base->text, ",\"reactions\":[");
    enum err err = desk_items_of(seat, http_job_argument(base), &job->cursor, job->limit,
                                 visit_item, job, &base->age, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_user_reactions(struct http_call *call)
{
    if (!is_user(call, call->args[0]))
        return;
    struct page_job *job = new_page(call, find_items);
    if (job)
        hand_in(call, job);
}

/* ---- the lifecycle ---- */

static void visit_life(void *arg, const struct store_life *life)
{
    struct http_text *to = next_thing(arg);
    HTTP_TEXT(to, "{\"event_id\":");
    write_uuid(to, life->event_id);
    HTTP_TEXT(to, ",\"counter\":");
    http_text_string(to, life->id);
    HTTP_TEXT(to, ",\"delta\":");
    http_text_string(to, life->delta);
    http_text_printf(to, ",\"state\":\"%s\",\"retry_count\":%u,\"events\":%u,\"created\":",
                     lifecycle_name(life->state), life->retry_count, life->events);
    http_text_time(to, life->created_ms);
    HTTP_TEXT(to, ",\"processed\":");
    http_text_time(to, life->processed_ms);
    HTTP_TEXT(to, ",\"next\":");
    http_text_time(to, life->next_ms);
    HTTP_TEXT(to, ",\"reason\":");
    write_text_or_null(to, life->reason);
    HTTP_TEXT(to, "}");
}

static enum err find_lives(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    job->filter.id = http_job_text(base);
    HTTP_TEXT(&base->text, "{\"events\":[");
    enum err err = desk_lives(seat, &job->filter, &job->cursor, job->limit, visit_life, job, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_lives(struct http_call *call)
{
    static const char *const names[] = {"state",  "counter", "since", "until",
                                        "cursor", "limit",   NULL};
    struct slice values[6];
    struct store_life_filter filter = {0};
    uint64_t cursor;
    uint32_t limit;
    if (!http_call_query(call, names, values) || (values[1].data && !is_counter(call, values[1])) ||
        !http_call_time(call, "since", values[2], &filter.since_ms) ||
        !http_call_time(call, "until", values[3], &filter.until_ms) ||
        !http_call_page(call, values[4], values[5], PAGE_DEFAULT, &cursor, &limit))
        return;
    filter.has_state = values[0].data != NULL;
    if (filter.has_state && !lifecycle_parse(values[0], &filter.state)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID,
                       "state: not PENDING, RETRYING, SUCCESS, FAILED or DISCARDED");
        return;
    }
    struct page_job *job = new_job(call, find_lives, values[1]);
    job->filter = filter;
    job->cursor = cursor;
    job->limit = limit;
    hand_in(call, job);
}

/* ---- dead letters ---- */

static void write_letter(struct http_text *to, const struct store_letter *letter)
{
    HTTP_TEXT(to, "\"event_id\":");
    write_uuid(to, letter->event_id);
    HTTP_TEXT(to, ",\"counter\":");
    write_text_or_null(to, letter->id);
    HTTP_TEXT(to, ",\"delta\":");
    write_text_or_null(to, letter->delta);
    HTTP_TEXT(to, ",\"reason\":");
    http_text_string(to, letter->reason);
    http_text_printf(to, ",\"retry_count\":%u,\"created\":", letter->retry_count);
    http_text_time(to, letter->created_ms);
    HTTP_TEXT(to, ",\"failed\":");
    http_text_time(to, letter->failed_ms);
    HTTP_TEXT(to, ",\"size_bytes\":");
    http_text_unsigned(to, letter->raw.size);
}

static void visit_letter(void *arg, const struct store_letter *letter)
{
    struct http_text *to = next_thing(arg);
    HTTP_TEXT(to, "{");
    write_letter(to, letter);
    HTTP_TEXT(to, "}");
}

static enum err find_letters(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    HTTP_TEXT(&base->text, "{\"letters\":[");
    enum err err = desk_letters(seat, &job->cursor, job->limit, visit_letter, job, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_letters(struct http_call *call)
{
    struct page_job *job = new_page(call, find_letters);
    if (job)
        hand_in(call, job);
}

static void visit_one_letter(void *arg, const struct store_letter *letter)
{
    struct page_job *job = arg;
    struct http_text *to = &job->base.text;
    HTTP_TEXT(to, "{");
    write_letter(to, letter);
    HTTP_TEXT(to, ",\"raw\":");
    http_text_hex(to, letter->raw);
}

static enum err find_letter(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    return desk_letter(seat, job->event_id, visit_one_letter, job, error);
}

/* For the letter that the path names. NULL: it has failed. */
static struct page_job *new_letter_job(struct http_call *call, http_find_fn *find)
{
    unsigned char id[UUID_BYTES];
    if (!has_no_query(call))
        return NULL;
    if (!uuid_parse(call->args[0], id)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "not the event_id of a dead letter");
        return NULL;
    }
    struct page_job *job = new_job(call, find, (struct slice){NULL, 0});
    memcpy(job->event_id, id, sizeof(id));
    return job;
}

void http_letter(struct http_call *call)
{
    struct page_job *job = new_letter_job(call, find_letter);
    if (job)
        hand_in(call, job);
}

typedef enum err letter_fn(struct desk_seat *seat, const unsigned char *event_id,
                           uint64_t *ret_count, struct error *error);

/* Letters that were dealt with stay so, even if something fails behind them: a repetition
 * must not deal with those that have come since. */
static enum err deal_once(struct page_job *job, struct desk_seat *seat, letter_fn *with,
                          uint64_t *ret_count, struct error *error)
{
    enum err err = with(seat, job->is_all ? NULL : job->event_id, ret_count, error);
    if (job->is_all && err == ERR_NOT_FOUND)
        err = ERR_OK;
    http_door_settle(job->http, &job->claim, !err || *ret_count > 0, *ret_count);
    return err;
}

static enum err deal(struct page_job *job, struct desk_seat *seat, letter_fn *with,
                     struct error *error)
{
    uint64_t count = 0;
    bool repeated;
    enum err err = http_door_claim(job->http, &job->claim, &count, &repeated);
    if (err == ERR_BUSY)
        return error_set(error, err, "the same call with this key is under way");
    if (!err && !repeated)
        err = deal_once(job, seat, with, &count, error);
    http_text_printf(&job->base.text, "{\"count\":%llu,\"repeated\":%s", (unsigned long long)count,
                     repeated ? "true" : "false");
    return err;
}

static enum err redrive(struct http_job *job, struct desk_seat *seat, struct error *error)
{
    return deal((struct page_job *)job, seat, desk_redrive, error);
}

static enum err discard(struct http_job *job, struct desk_seat *seat, struct error *error)
{
    return deal((struct page_job *)job, seat, desk_discard, error);
}

static void hand_in_write(struct http_call *call, struct page_job *job, enum http_verb verb)
{
    struct slice what = {(const char *)job->event_id, job->is_all ? 0 : UUID_BYTES};
    job->http = call->client->worker->http;
    job->claim = http_claim_of(call->key, verb, what);
    job->base.is_write = job->base.base.is_write = true;
    hand_in(call, job);
}

static void ask_letter(struct http_call *call, http_find_fn *find, enum http_verb verb)
{
    struct page_job *job = new_letter_job(call, find);
    if (job)
        hand_in_write(call, job, verb);
}

void http_letter_redrive(struct http_call *call)
{
    ask_letter(call, redrive, HTTP_VERB_REDRIVE);
}

void http_letter_discard(struct http_call *call)
{
    ask_letter(call, discard, HTTP_VERB_DISCARD);
}

static void ask_all_letters(struct http_call *call, http_find_fn *find, enum http_verb verb)
{
    if (!has_no_query(call))
        return;
    struct page_job *job = new_job(call, find, (struct slice){NULL, 0});
    job->is_all = true;
    hand_in_write(call, job, verb);
}

void http_letters_redrive(struct http_call *call)
{
    ask_all_letters(call, redrive, HTTP_VERB_REDRIVE);
}

void http_letters_discard(struct http_call *call)
{
    ask_all_letters(call, discard, HTTP_VERB_DISCARD);
}

/* ---- the audit trail ---- */

static void visit_audit(void *arg, const struct store_audit *audit)
{
    struct http_text *to = next_thing(arg);
    HTTP_TEXT(to, "{\"time\":");
    http_text_time(to, audit->time_ms);
    HTTP_TEXT(to, ",\"what\":");
    http_text_string(to, audit->what);
    HTTP_TEXT(to, ",\"id\":");
    write_text_or_null(to, audit->id);
    HTTP_TEXT(to, ",\"text\":");
    http_text_string(to, audit->text);
    HTTP_TEXT(to, "}");
}

static enum err find_audits(struct http_job *base, struct desk_seat *seat, struct error *error)
{
    struct page_job *job = (struct page_job *)base;
    HTTP_TEXT(&base->text, "{\"audits\":[");
    enum err err = desk_audits(seat, &job->cursor, job->limit, visit_audit, job, error);
    http_job_cursor(base, job->cursor);
    return err;
}

void http_audits(struct http_call *call)
{
    struct page_job *job = new_page(call, find_audits);
    if (job)
        hand_in(call, job);
}
