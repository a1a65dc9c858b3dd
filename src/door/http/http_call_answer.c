/* How a call is answered: heads, bodies, tags, and what an answer says of its freshness. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "door/http/http_call.h"
#include "door/http/http_door.h"
#include "door/http/http_worker.h"

#define HEAD_ROOM_BYTES 1024u /* for the head of an answer, but for what the caller adds */
#define TAG_BYTES       64u   /* of a tag that is the content itself */

struct http_text *http_call_body(struct http_call *call)
{
    struct http_text *body = &call->client->worker->body;
    body->bytes.size = 0;
    body->overflow = false;
    return body;
}

/* Inlined, so that literals are stored and not copied. */
static inline __attribute__((always_inline)) char *put(char *to, struct slice bytes)
{
    memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}
#define PUT(to, literal) put(to, SLICE(literal))

static char *put_status(char *to, unsigned status, struct slice security)
{
    if (status == 200 && security.size == 0)
        return PUT(to, "HTTP/1.1 200 OK\r\n" HTTP_SECURITY_USUAL "Date: ");
    to = PUT(to, "HTTP/1.1 ");
    to = decimal_format(to, status);
    to = PUT(to, " ");
    to = put(to, slice_of(http_status_name(status)));
    to = PUT(to, "\r\n");
    to = put(to, security.size > 0 ? security : SLICE(HTTP_SECURITY_USUAL));
    return PUT(to, "Date: ");
}

static char *put_origin(char *to, const struct http_call *call)
{
    if (call->origin.size == 0)
        return to;
    to = PUT(to, "Access-Control-Allow-Origin: ");
    to = put(to, call->origin);
    return PUT(to, "\r\nAccess-Control-Expose-Headers: ETag, Retry-After\r\nVary: Origin\r\n");
}

static char *put_connection(char *to, const struct http_call *call)
{
    const struct http_client *client = call->client;
    bool is_last = client->closing && client->base.unanswered <= 1;
    if (!call->keep_alive || is_last)
        return PUT(to, "Connection: close\r\n");
    return call->is_old ? PUT(to, "Connection: keep-alive\r\n") : to;
}

void http_call_send_as(struct http_call *call, unsigned status, struct slice type,
                       struct slice headers, struct slice body)
{
    struct http_client *client = call->client;
    struct buffer *output = &client->output.bytes;
    if (!client->conn)
        return;
    if (buffer_reserve(output, HEAD_ROOM_BYTES + type.size + headers.size + call->origin.size +
                                   call->security.size + body.size) != ERR_OK) {
        client->output.overflow = true;
        return;
    }
    char *to = output->data + output->size;
    to = put_status(to, status, call->security);
    to = put(to, http_clock_date(&client->worker->clock));
    to = PUT(to, "\r\n");
    if (headers.size > 0)
        to = put(to, headers);
    to = put_origin(to, call);
    to = put_connection(to, call);
    if (type.size > 0) {
        to = PUT(to, "Content-Type: ");
        to = put(to, type);
        to = PUT(to, "\r\n");
    }
    if (status != 304 && status != 204) {
        to = PUT(to, "Content-Length: ");
        to = decimal_format_unsigned(to, body.size);
        to = PUT(to, "\r\n");
    }
    to = PUT(to, "\r\n");
    if (!call->is_head && body.size > 0)
        to = put(to, body);
    output->size = (size_t)(to - output->data);
}

static void send_body(struct http_call *call, unsigned status, struct slice headers)
{
    const struct http_text *body = &call->client->worker->body;
    if (body->overflow)
        call->client->output.overflow = true;
    http_call_send_as(call, status, SLICE("application/json"), headers, buffer_slice(&body->bytes));
}

/* Is `tag` among those that the client has? They are compared as weak ones. */
static bool has_tag(struct slice had, struct slice tag)
{
    if (slice_equal(had, SLICE("*")))
        return true;
    for (size_t i = 0; i + tag.size + 2 <= had.size; i++) {
        if (had.data[i] == '"' && had.data[i + tag.size + 1] == '"' &&
            memcmp(had.data + i + 1, tag.data, tag.size) == 0)
            return true;
    }
    return false;
}

bool http_call_has_tag(const struct http_call *call, struct slice tag)
{
    return call->if_none_match.data && has_tag(call->if_none_match, tag);
}

static void send_fresh(struct http_call *call, unsigned status)
{
    send_body(call, status, SLICE("Cache-Control: no-store\r\n"));
}

#define HASH_DIGITS 16u

static char *put_hash(char *to, struct slice bytes)
{
    uint64_t hash = hash_stable(bytes);
    for (unsigned i = HASH_DIGITS; i-- > 0; hash >>= 4)
        to[i] = "0123456789abcdef"[hash & 15];
    return to + HASH_DIGITS;
}

/* A tag that is too long for a header is replaced by the hash of all of it. */
static char *put_tag(char *to, struct slice tag)
{
    if (tag.size <= TAG_BYTES)
        return put(to, tag);
    return put_hash(to, tag);
}

void http_call_send_tagged(struct http_call *call, struct slice content)
{
    if (__builtin_expect(call->untagged, 0)) {
        send_fresh(call, 200);
        return;
    }
    char line[160];
    char *to = PUT(line, "Cache-Control: no-cache\r\nETag: W/\"");
    char *end = put_tag(to, content);
    struct slice tag = {to, (size_t)(end - to)};
    to = PUT(end, "\"\r\n");
    struct slice headers = {line, (size_t)(to - line)};
    if (http_call_has_tag(call, tag))
        http_call_send_as(call, 304, (struct slice){NULL, 0}, headers, (struct slice){NULL, 0});
    else
        send_body(call, 200, headers);
}

void http_call_send(struct http_call *call, unsigned status)
{
    const struct http_worker *worker = call->client->worker;
    if (status != 200 || !(call->route->flags & HTTP_ROUTE_TAGGED)) {
        send_fresh(call, status);
        return;
    }
    char tag[HASH_DIGITS];
    put_hash(tag, (struct slice){worker->body.bytes.data, worker->as_of_at});
    http_call_send_tagged(call, (struct slice){tag, sizeof(tag)});
}

void http_call_problem(struct http_call *call, enum http_problem problem, const char *detail)
{
    struct http_text *body = http_call_body(call);
    http_problem_write(body, problem, detail);
    unsigned status = http_problems[problem].status;
    struct slice headers = SLICE("Cache-Control: no-store\r\n");
    if (status == 401)
        headers = SLICE("Cache-Control: no-store\r\nWWW-Authenticate: Bearer realm=\"tally\"\r\n");
    else if (status == 429 || status == 503)
        headers = SLICE("Cache-Control: no-store\r\nRetry-After: 1\r\n");
    gauge_add(&call->client->worker->stats.problems, 1);
    http_call_send_as(call, status, SLICE("application/problem+json"), headers,
                      buffer_slice(&body->bytes));
}

enum http_problem http_call_op_problem(const struct http_call *call, const struct op *op)
{
    if (op->code == ERR_OK)
        return op->weak && op->must_log ? HTTP_PROBLEM_UNKNOWN : HTTP_PROBLEMS;
    if (op->code == ERR_NOT_FOUND && op->stale) /* it may have been made since */
        return HTTP_PROBLEM_UNAVAILABLE;
    /* An outbox that is full is none of the client's doing. */
    if (op->code == ERR_BUSY && call->client->worker->service->relay)
        return HTTP_PROBLEM_UNAVAILABLE;
    return http_problem_of(op->code);
}

static const char http_not_all[] = "not all that counts can be asked; without exact=true the "
                                   "answer says what is known, and of when that is";

static const char *meaning_of_gap(const struct op *op, char to[SERVICE_MEANING_BYTES])
{
    struct http_text text;
    http_text_init(&text, SERVICE_MEANING_BYTES - 1);
    HTTP_TEXT(&text, "Redis does not answer, and this is what the store knows, as of ");
    http_text_time(&text, op->as_of_ms);
    memcpy(to, text.bytes.data, text.bytes.size);
    to[text.bytes.size] = '\0';
    http_text_done(&text);
    return to;
}

bool http_call_answer_error(struct http_call *call, const struct op *op)
{
    if (__builtin_expect(op->code == ERR_OK && !op->weak, 1))
        return false;
    enum http_problem problem = http_call_op_problem(call, op);
    if (problem == HTTP_PROBLEMS)
        return false;
    char text[SERVICE_MEANING_BYTES];
    const char *detail = NULL;
    if (op->code == ERR_CORRUPT)
        detail = err_meaning(op->code);
    else if (op->code == ERR_NO_KIND)
        detail = service_meaning(call->client->worker->service, op->code, text);
    else if (op->code == ERR_UNAVAILABLE && op_wants_all(op))
        detail = http_not_all;
    else if (op_is_behind(op))
        detail = meaning_of_gap(op, text);
    http_call_problem(call, problem, detail);
    return true;
}

bool http_call_exact(struct http_call *call, struct slice value, bool *ret_exact)
{
    *ret_exact = value.data && slice_equal(value, SLICE("true"));
    if (!value.data || *ret_exact || slice_equal(value, SLICE("false")))
        return true;
    http_call_fail(call, HTTP_PROBLEM_INVALID, "exact: not true or false");
    return false;
}

void http_call_as_of(struct http_call *call, struct http_text *to)
{
    struct http_worker *worker = call->client->worker;
    worker->as_of_at = to->bytes.size;
    HTTP_TEXT(to, ",\"as_of\":\"");
    http_text_add(to, http_clock_time(&worker->clock));
    HTTP_TEXT(to, "\"");
}

static void write_gaps(struct http_text *to, const struct age *age)
{
    if (age->stale)
        HTTP_TEXT(to, ",\"stale\":true");
    if (age->shards_missing > 0)
        http_text_printf(to, ",\"shards_missing\":%u", age->shards_missing);
}

void http_call_as_of_age(struct http_call *call, struct http_text *to, const struct age *age)
{
    struct http_worker *worker = call->client->worker;
    size_t content = to->bytes.size;
    call->untagged = call->untagged || age_is_behind(age);
    write_gaps(to, age);
    if (age->as_of_ms == 0) {
        http_call_as_of(call, to);
    } else {
        HTTP_TEXT(to, ",\"as_of\":");
        http_text_time(to, age->as_of_ms);
    }
    worker->as_of_at = content;
}

void http_call_as_of_op(struct http_call *call, struct http_text *to, const struct op *op)
{
    if (__builtin_expect(op->as_of_ms == 0 && !op->stale && op->shards_missing == 0, 1))
        http_call_as_of(call, to);
    else
        http_call_as_of_age(call, to, &(struct age){op->stale, op->shards_missing, op->as_of_ms});
}

void http_call_write_age(struct age *all, struct http_text *to, const struct age *age)
{
    age_add(all, age);
    if (!age_is_behind(age))
        return;
    write_gaps(to, age);
    HTTP_TEXT(to, ",\"as_of\":");
    http_text_time(to, age->as_of_ms);
}

struct slice http_call_ack_word(const struct http_call *call)
{
    const struct service *service = call->client->worker->service;
    return slice_of(ack_name(call->must_log && service->ack == ACK_HOT ? ACK_LOG : service->ack));
}

void http_call_ack(struct http_call *call, struct http_text *to)
{
    HTTP_TEXT(to, ",\"ack\":\"");
    http_text_add(to, http_call_ack_word(call));
    HTTP_TEXT(to, "\"");
    http_call_as_of(call, to);
}

void http_call_write_kind(struct http_call *call, struct http_text *to, uint8_t kind)
{
    http_text_add(to, call->client->worker->kinds[kind]);
}

void http_call_write_counts(struct http_call *call, struct http_text *to, const int64_t *counts)
{
    const struct kinds *kinds = call->client->worker->service->kinds;
    for (unsigned i = 0; i < kinds->count; i++) {
        http_text_add(to, i == 0 ? SLICE("{") : SLICE(","));
        http_text_add(to, call->client->worker->kinds[i + 1]);
        HTTP_TEXT(to, ":");
        http_text_count(to, counts[i]);
    }
    HTTP_TEXT(to, "}");
}
