#include "door/http/http_call.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/message.h"
#include "door/http/http_door.h"
#include "door/http/http_worker.h"

#define DETAIL_SIZE        512u
#define AUTH_FREE_FAILURES 3u
#define HEAD_ROOM_BYTES    1024u /* for the head of an answer, but for what the caller adds */

/* On every answer: nobody guesses types, runs scripts or puts it into a frame. */
#define SECURITY_HEADERS                                                      \
    "X-Content-Type-Options: nosniff\r\n"                                     \
    "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n" \
    "X-Frame-Options: DENY\r\n"                                               \
    "Referrer-Policy: no-referrer\r\n"                                        \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

static struct pass *pass_of(const struct http_call *call)
{
    return &call->client->worker->pass;
}

/* ---- making a call of a request ---- */

static struct http_call *new_call(struct http_client *client)
{
    struct http_worker *worker = client->worker;
    struct http_call *call = room_alloc(&worker->pass.room, sizeof(*call));
    memset(call, 0, sizeof(*call));
    call->client = client;
    if (worker->pass.request_count == 0) /* the first since the last batch */
        http_clock_set(&worker->clock, env_wall_ms(worker->service->env));
    return call;
}

/* "key" is the key itself: some write it as a string of structured fields. */
static struct slice unquote(struct slice key)
{
    if (key.size >= 2 && key.data[0] == '"' && key.data[key.size - 1] == '"')
        return (struct slice){key.data + 1, key.size - 2};
    return key;
}

static struct http_call *call_of_request(struct http_client *client)
{
    const struct http_request *request = &client->parser.request;
    struct http_call *call = new_call(client);
    call->is_head = request->method == HTTP_HEAD;
    call->is_old = request->is_old;
    call->keep_alive = request->keep_alive;
    call->query = request->query;
    call->body = request->body;
    call->key = unquote(request->headers[HTTP_HEADER_IDEMPOTENCY_KEY]);
    call->region = request->headers[HTTP_HEADER_REGION];
    call->if_none_match = request->headers[HTTP_HEADER_IF_NONE_MATCH];
    gauge_add(&client->worker->stats.requests, 1);
    return call;
}

/* ---- who may come in ---- */

static struct slice bearer_of(const struct http_request *request)
{
    struct slice said = request->headers[HTTP_HEADER_AUTHORIZATION];
    if (said.size < 7 || !slice_equal_nocase((struct slice){said.data, 7}, SLICE("bearer ")))
        return (struct slice){"", 0};
    return (struct slice){said.data + 7, said.size - 7};
}

static bool is_known(struct http_client *client)
{
    struct http *http = client->worker->http;
    return !password_is_set(http_door_password(http)) ||
           password_is(http_door_password(http), bearer_of(&client->parser.request));
}

static void note_stranger(struct http_client *client)
{
    struct http_worker *worker = client->worker;
    if (client->parser.request.headers[HTTP_HEADER_AUTHORIZATION].data) {
        gauge_add(&worker->stats.auth_failures, 1);
        if (pass_may_warn(&worker->pass))
            message_warning("wrong password door=http peer=%s", client->peer);
        if (++client->auth_failures > AUTH_FREE_FAILURES)
            pass_hold(&client->base, HTTP_HOLD_AUTH);
    }
}

/* Scripts of other sites may not change anything: they come with an Origin that is
 * neither ours nor one of those that are allowed. */
static bool has_good_origin(struct http_call *call, const struct http_request *request)
{
    struct slice origin = request->headers[HTTP_HEADER_ORIGIN];
    if (!origin.data)
        return true;
    if (http_door_is_origin(call->client->worker->http, origin)) {
        call->origin = origin;
        return true;
    }
    if (request->method == HTTP_GET || request->method == HTTP_HEAD)
        return true;
    struct slice host = request->headers[HTTP_HEADER_HOST];
    for (size_t scheme = 7; scheme <= 8; scheme++) { /* http:// and https:// */
        if (origin.size > scheme &&
            slice_equal_nocase((struct slice){origin.data + scheme, origin.size - scheme}, host))
            return true;
    }
    return false;
}

/* ---- what comes before the handler ---- */

static const char *const method_names[] = {
    [HTTP_DELETE] = "DELETE",
    [HTTP_GET] = "GET",
    [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",
};

static void write_methods(char *to, size_t size, unsigned methods)
{
    size_t used = 0;
    for (unsigned i = 0; i < sizeof(method_names) / sizeof(method_names[0]); i++) {
        if (method_names[i] && methods & 1u << i)
            used += (size_t)snprintf(to + used, size - used, "%s%s", method_names[i],
                                     i == HTTP_GET ? ", HEAD, " : ", ");
    }
    (void)snprintf(to + used, size - used, "OPTIONS");
}

static void answer_method(struct http_call *call, struct op *ops)
{
    (void)ops;
    char methods[64];
    char headers[128];
    write_methods(methods, sizeof(methods), (unsigned)call->number);
    (void)snprintf(headers, sizeof(headers), "Allow: %s\r\nCache-Control: no-store\r\n", methods);
    http_problem_write(http_call_body(call), HTTP_PROBLEM_BAD_METHOD, NULL);
    gauge_add(&call->client->worker->stats.problems, 1);
    http_call_send_as(call, 405, SLICE("application/problem+json"), slice_of(headers),
                      buffer_slice(&call->client->worker->body.bytes));
}

/* What may be asked of this path, and by whose scripts. */
static void answer_options(struct http_call *call, struct op *ops)
{
    (void)ops;
    char methods[64];
    char headers[512];
    write_methods(methods, sizeof(methods), (unsigned)call->number);
    int size = snprintf(headers, sizeof(headers), "Allow: %s\r\n", methods);
    if (call->origin.size > 0)
        (void)snprintf(headers + size, sizeof(headers) - (size_t)size,
                       "Access-Control-Allow-Methods: %s\r\n"
                       "Access-Control-Allow-Headers: authorization, content-type, "
                       "idempotency-key, if-none-match, last-event-id, tally-region\r\n"
                       "Access-Control-Max-Age: 600\r\n",
                       methods);
    http_call_send_as(call, 204, (struct slice){NULL, 0}, slice_of(headers),
                      (struct slice){NULL, 0});
}

static unsigned methods_of(const struct http_match *match)
{
    return match->methods | (match->route ? 1u << match->route->method : 0);
}

static bool is_type(struct slice type, struct slice wanted)
{
    if (type.size < wanted.size ||
        !slice_equal_nocase((struct slice){type.data, wanted.size}, wanted))
        return false;
    return type.size == wanted.size || type.data[wanted.size] == ';' ||
           type.data[wanted.size] == ' ';
}

/* A form of another site cannot say that it sends JSON. */
static bool has_good_type(const struct http_call *call, const struct http_request *request)
{
    struct slice type = request->headers[HTTP_HEADER_CONTENT_TYPE];
    if (call->body.size == 0)
        return true;
    if (call->route->flags & HTTP_ROUTE_LINES)
        return is_type(type, SLICE("application/x-ndjson")) ||
               is_type(type, SLICE("application/jsonl"));
    return !(call->route->flags & HTTP_ROUTE_JSON) || is_type(type, SLICE("application/json"));
}

static bool decode_args(struct http_call *call, const struct http_match *match)
{
    for (unsigned i = 0; i < HTTP_ROUTE_ARGS_MAX; i++) {
        call->args[i] = match->args[i];
        if (!http_url_decode(&call->args[i], false))
            return false;
    }
    return true;
}

/* Takes ?ack=log out of the query of a write. What else it may say is the handler's business. NULL:
 * all is well. */
static const char *take_ack(struct http_call *call)
{
    if (!(call->route->flags & HTTP_ROUTE_WRITE) || call->query.size == 0)
        return NULL;
    struct slice left = call->query;
    struct slice name;
    struct slice value;
    char *begin = (char *)call->query.data;
    while (http_url_cut_field(&left, &name, &value)) {
        char *end = left.size > 0 ? (char *)left.data : begin + (name.size + value.size + 1);
        if (!slice_equal(name, SLICE("ack"))) {
            begin = end;
            continue;
        }
        if (!slice_equal(value, SLICE("log")))
            return "ack: a write may ask for log, and for nothing else";
        call->must_log = true;
        size_t before = (size_t)(begin - call->query.data);
        memmove(begin, left.data, left.size);
        call->query.size = before + left.size;
        if (left.size == 0 && before > 0)
            call->query.size--; /* the "&" before it */
        return NULL;
    }
    return NULL;
}

/* What nobody would look at is a slip of the pen, and could have meant much: ?delta=5, or the kind
 * in the body of a DELETE. Short paths and those for machines are less strict. NULL: all is well.
 */
static const char *surplus(const struct http_call *call)
{
    const struct http_route *route = call->route;
    if (strncmp(route->path, "/v1/", 4) != 0)
        return NULL;
    if (!route->query && call->query.size > 0)
        return "this call takes no parameters";
    if (!(route->flags & (HTTP_ROUTE_JSON | HTTP_ROUTE_LINES)) && call->body.size > 0)
        return "this call takes no body";
    return NULL;
}

/* The order is that of what may be known to whom. */
static void handle(struct http_call *call, const struct http_match *match)
{
    struct http_client *client = call->client;
    const struct http_request *request = &client->parser.request;
    if (!http_door_is_host(client->worker->http, request->headers[HTTP_HEADER_HOST])) {
        http_call_fail(call, HTTP_PROBLEM_BAD_HOST, NULL);
        return;
    }
    if (!has_good_origin(call, request)) {
        http_call_fail(call, HTTP_PROBLEM_DENIED, "the origin is not one of cors-origins");
        return;
    }
    if (request->method == HTTP_OPTIONS) {
        call->number = methods_of(match);
        http_call_answer(call, answer_options);
        return;
    }
    const char *fault;
    call->route = match->route;
    if (!(call->route && call->route->flags & HTTP_ROUTE_OPEN) && !is_known(client)) {
        note_stranger(client);
        http_call_fail(call, HTTP_PROBLEM_UNAUTHORIZED, NULL);
        return;
    }
    if (!call->route && match->methods != 0) {
        call->number = match->methods;
        http_call_answer(call, answer_method);
    } else if (!call->route) {
        http_call_fail(call, HTTP_PROBLEM_NO_PATH, NULL);
    } else if (!decode_args(call, match)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID,
                       "the path is not percent-encoded UTF-8 without zero bytes");
    } else if ((fault = take_ack(call)) || (fault = surplus(call))) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "%s", fault);
    } else if (!has_good_type(call, request)) {
        http_call_fail(call, HTTP_PROBLEM_BAD_TYPE, NULL);
    } else {
        call->route->handle(call);
    }
}

bool http_call_take(struct http_client *client)
{
    const struct http_request *request = &client->parser.request;
    struct pass *pass = &client->worker->pass;
    struct http_match match = {0};
    http_routes_find(http_door_routes(client->worker->http), request->method, request->path,
                     &match);
    unsigned flags = match.route ? match.route->flags : 0;
    if ((flags & HTTP_ROUTE_ALONE && client->base.unanswered > 0) ||
        !pass_has_room(pass, flags & HTTP_ROUTE_MANY ? HTTP_ROUTE_OPS_MAX : 1))
        return false;

    struct http_call *call = call_of_request(client);
    bool keep_alive = call->keep_alive;
    handle(call, &match);
    if (!keep_alive && !client->stream)
        http_client_finish(client);
    return true;
}

bool http_call_refuse(struct http_client *client, unsigned status, const char *error)
{
    struct http_worker *worker = client->worker;
    if (!pass_has_room(&worker->pass, 1))
        return false;
    gauge_add(&worker->stats.protocol_errors, 1);
    if (pass_may_warn(&worker->pass))
        message_warning("request refused door=http peer=%s: %s", client->peer, error);
    struct http_call *call = new_call(client);
    http_call_fail(call, http_problem_of_status(status), "%s", error);
    http_client_finish(client);
    return true;
}

void http_call_time_out(struct http_client *client)
{
    struct http_call *call = new_call(client);
    http_call_problem(call, HTTP_PROBLEM_SLOW, NULL);
    http_client_finish(client);
    pass_touch(&client->base);
    http_worker_end_pass(client->worker);
}

bool http_call_may_send(struct http_client *client)
{
    struct http_parser *parser = &client->parser;
    const struct http_request *request = &parser->request;
    if (!is_known(client)) { /* strangers get no memory */
        if (!pass_has_room(&client->worker->pass, 1))
            return false;
        struct http_call *call = call_of_request(client);
        call->keep_alive = false;
        note_stranger(client);
        http_call_fail(call, HTTP_PROBLEM_UNAUTHORIZED, NULL);
        http_client_finish(client);
        return true;
    }
    bool is_batch = slice_equal(request->path, SLICE("/v1/batch"));
    parser->body_max = is_batch ? HTTP_BATCH_BYTES_MAX : HTTP_BODY_BYTES_MAX;
    client->wants_continue =
        !request->is_old &&
        slice_equal_nocase(request->headers[HTTP_HEADER_EXPECT], SLICE("100-continue"));
    return true;
}

/* ---- in a handler ---- */

bool http_call_check_key(struct http_call *call)
{
    if (!call->key.data || (call->key.size >= 1 && call->key.size <= LIMIT_KEY_BYTES))
        return true;
    http_call_fail(call, HTTP_PROBLEM_INVALID, "an idempotency key has 1 to %u bytes",
                   LIMIT_KEY_BYTES);
    return false;
}

void *http_call_alloc(struct http_call *call, size_t size)
{
    return room_alloc(&pass_of(call)->room, size);
}

int64_t *http_call_counts(struct http_call *call)
{
    return http_call_alloc(call, pass_of(call)->service->kinds->count * sizeof(int64_t));
}

struct op *http_call_op(struct http_call *call, enum op_kind kind, struct slice id)
{
    struct op *op = pass_op(pass_of(call), kind, id);
    if (op_is_write(kind)) {
        op->key = call->key;
        op->region = call->region;
        op->must_log = call->must_log;
    }
    return op;
}

static void answer(void *client, const struct pass_request *request, struct op *ops)
{
    (void)client;
    struct http_call *call = request->extra;
    call->answer(call, ops);
}

void http_call_submit(struct http_call *call, size_t count, http_answer_fn *answer_with)
{
    struct pass *pass = pass_of(call);
    struct error error = {.code = ERR_INVALID};
    if (!pass_is_plain(pass, count) && !pass_check(pass, count, &error)) {
        pass_undo(pass, count);
        http_call_fail_with(call, &error);
        return;
    }
    if (call->must_log && !service_may_log(pass->service)) {
        pass_undo(pass, count);
        http_call_fail(call, HTTP_PROBLEM_UNAVAILABLE, "%s", http_log_is_down);
        return;
    }
    http_call_submit_checked(call, count, answer_with);
}

void http_call_submit_checked(struct http_call *call, size_t count, http_answer_fn *answer_with)
{
    call->answer = answer_with;
    pass_request(pass_of(call), call->client, count, answer, call);
}

void http_call_answer(struct http_call *call, http_answer_fn *answer_with)
{
    http_call_submit_checked(call, 0, answer_with);
}

static void answer_failure(struct http_call *call, struct op *ops)
{
    (void)ops;
    http_call_problem(call, call->problem, call->detail);
}

void http_call_fail(struct http_call *call, enum http_problem problem, const char *format, ...)
{
    call->problem = problem;
    if (format) {
        call->detail = http_call_alloc(call, DETAIL_SIZE);
        va_list args;
        va_start(args, format);
        (void)vsnprintf(call->detail, DETAIL_SIZE, format, args);
        va_end(args);
    }
    http_call_answer(call, answer_failure);
}

void http_call_fail_with(struct http_call *call, const struct error *error)
{
    http_call_fail(call, http_problem_of(error->code), "%s", error->text);
}

/* ---- the query ---- */

bool http_call_query(struct http_call *call, const char *const *names, struct slice *ret_values)
{
    for (unsigned i = 0; names[i]; i++)
        ret_values[i] = (struct slice){NULL, 0};

    struct slice name;
    struct slice value;
    while (http_url_cut_field(&call->query, &name, &value)) {
        bool is_good = http_url_decode(&name, true);
        unsigned i = 0;
        while (is_good && names[i] && !slice_equal(slice_of(names[i] + (*names[i] == '=')), name))
            i++;
        if (is_good && names[i] && *names[i] != '=')
            is_good = http_url_decode(&value, true);
        if (!is_good) {
            http_call_fail(call, HTTP_PROBLEM_INVALID,
                           "the query is not percent-encoded UTF-8 without zero bytes");
            return false;
        }
        if (!names[i] || ret_values[i].data) {
            int size = (int)(name.size < 64 ? name.size : 64);
            http_call_fail(call, HTTP_PROBLEM_INVALID, "the parameter '%.*s' %s", size, name.data,
                           names[i] ? "stands twice" : "is not known here");
            return false;
        }
        ret_values[i] = value;
    }
    return true;
}

size_t http_call_read_ids(struct http_call *call, struct slice ids)
{
    struct pass *pass = pass_of(call);
    struct error error = {.code = ERR_INVALID, .text = "ids: there is none"};
    size_t count = 0;
    while (ids.size > 0) {
        const char *comma = memchr(ids.data, ',', ids.size);
        struct slice id = {ids.data, comma ? (size_t)(comma - ids.data) : ids.size};
        size_t skip = id.size + (comma != NULL);
        ids.data += skip;
        ids.size -= skip;
        bool is_good = count < HTTP_ROUTE_OPS_MAX && http_url_decode(&id, true);
        if (is_good) {
            http_call_op(call, OP_GET, id);
            count++;
            is_good = pass_check(pass, 1, &error);
        } else {
            error_set(&error, ERR_INVALID, "ids: more than %u, or not percent-encoded UTF-8",
                      HTTP_ROUTE_OPS_MAX);
        }
        if (!is_good) {
            pass_undo(pass, count);
            http_call_fail_with(call, &error);
            return 0;
        }
    }
    if (count == 0)
        http_call_fail_with(call, &error);
    return count;
}

#define PAGE_MAX 10000u

bool http_call_page(struct http_call *call, struct slice cursor, struct slice limit,
                    uint32_t limit_default, uint64_t *ret_cursor, uint32_t *ret_limit)
{
    uint64_t number = limit_default;
    *ret_cursor = 0;
    if (cursor.data && !decimal_parse_unsigned(cursor, ret_cursor)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "cursor: not one that an answer has given");
        return false;
    }
    if (limit.data &&
        (!decimal_parse_unsigned(limit, &number) || number == 0 || number > PAGE_MAX)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "limit: not a whole number from 1 to %u",
                       PAGE_MAX);
        return false;
    }
    *ret_limit = (uint32_t)number;
    return true;
}

/* ---- the body ---- */

static bool is_among(struct slice name, const char *const *names)
{
    for (; *names; names++) {
        if (slice_equal(slice_of(*names), name))
            return true;
    }
    return false;
}

static bool has_only(struct http_call *call, const struct http_json *object,
                     const char *const *names)
{
    const struct http_json *member = object + 1;
    for (uint32_t i = 0; i < object->count; i++) {
        if (!is_among(member->text, names)) {
            int size = (int)(member->text.size < 64 ? member->text.size : 64);
            http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "the member '%.*s' is not known here", size,
                           member->text.data);
            return false;
        }
        member += 1 + member[1].size;
    }
    return true;
}

const struct http_json *http_call_object(struct http_call *call, const char *const *names)
{
    static const struct http_json nothing = {.type = HTTP_JSON_OBJECT, .size = 1};
    if (call->body.size == 0)
        return &nothing;

    struct http_json *values = call->client->worker->values;
    struct http_json_error error;
    if (!http_json_read(call->body, values, HTTP_JSON_VALUES, &error)) {
        http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "byte %zu: %s", error.at, error.why);
        return NULL;
    }
    if (values[0].type != HTTP_JSON_OBJECT) {
        http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "the body is not an object");
        return NULL;
    }
    return has_only(call, values, names) ? values : NULL;
}

static bool fail_member(struct http_call *call, const char *name, const char *what)
{
    http_call_fail(call, HTTP_PROBLEM_BAD_JSON, "%s: not %s", name, what);
    return false;
}

bool http_call_string(struct http_call *call, const struct http_json *object, const char *name,
                      struct slice *value)
{
    const struct http_json *member = http_json_member(object, slice_of(name));
    if (!member)
        return true;
    if (member->type != HTTP_JSON_STRING)
        return fail_member(call, name, "a string");
    *value = member->text;
    return true;
}

bool http_call_id(struct http_call *call, const struct http_json *object, const char *name,
                  struct slice *value)
{
    const struct http_json *member = http_json_member(object, slice_of(name));
    if (!member)
        return true;
    if (member->type != HTTP_JSON_STRING && member->type != HTTP_JSON_INTEGER)
        return fail_member(call, name, "a string or an integer");
    *value = member->text;
    return true;
}

bool http_call_number(struct http_call *call, const struct http_json *object, const char *name,
                      struct number *value)
{
    struct slice digits = {NULL, 0};
    if (!http_call_id(call, object, name, &digits))
        return false;
    if (digits.data && number_parse(digits, value) != ERR_OK)
        return fail_member(call, name, "an integer of at most 900 digits");
    return true;
}

bool http_call_int(struct http_call *call, const struct http_json *object, const char *name,
                   int64_t min, int64_t max, int64_t *value)
{
    struct slice digits = {NULL, 0};
    if (!http_call_id(call, object, name, &digits))
        return false;
    if (digits.data && (!decimal_parse(digits, value) || *value < min || *value > max)) {
        http_call_fail(call, HTTP_PROBLEM_INVALID, "%s: not an integer from %lld to %lld", name,
                       (long long)min, (long long)max);
        return false;
    }
    return true;
}

bool http_call_bool(struct http_call *call, const struct http_json *object, const char *name,
                    bool *value)
{
    const struct http_json *member = http_json_member(object, slice_of(name));
    if (!member)
        return true;
    if (member->type != HTTP_JSON_TRUE && member->type != HTTP_JSON_FALSE)
        return fail_member(call, name, "true or false");
    *value = member->type == HTTP_JSON_TRUE;
    return true;
}

bool http_call_kind(struct http_call *call, struct slice name, uint8_t *ret_kind)
{
    const struct kinds *kinds = pass_of(call)->service->kinds;
    *ret_kind = kinds_find(kinds, name);
    if (*ret_kind != KIND_NONE)
        return true;

    char list[LIMIT_KINDS * (LIMIT_KIND_BYTES + 2) + 1] = "";
    size_t used = 0;
    for (unsigned i = 0; i < kinds->count && used < 256; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                                 kinds->names[i]);
    int size = (int)(name.size < LIMIT_KIND_BYTES ? name.size : LIMIT_KIND_BYTES);
    http_call_fail(call, HTTP_PROBLEM_INVALID, "unknown reaction '%.*s', configured are: %s", size,
                   name.data, list);
    return false;
}

/* ---- in an answer ---- */

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

static char *put_status(char *to, unsigned status)
{
    if (status == 200)
        return PUT(to, "HTTP/1.1 200 OK\r\n" SECURITY_HEADERS "Date: ");
    to = PUT(to, "HTTP/1.1 ");
    to = decimal_format(to, status);
    to = PUT(to, " ");
    to = put(to, slice_of(http_status_name(status)));
    return PUT(to, "\r\n" SECURITY_HEADERS "Date: ");
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
                                   body.size) != ERR_OK) {
        client->output.overflow = true;
        return;
    }
    char *to = output->data + output->size;
    to = put_status(to, status);
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

void http_call_send_tagged(struct http_call *call, struct slice tag)
{
    char line[160];
    char *to = line;
    if (tag.size > 64) /* a number of many digits: its end is enough to tell it from others */
        tag = (struct slice){tag.data + tag.size - 64, 64};
    to = PUT(to, "Cache-Control: no-cache\r\nETag: W/\"");
    to = put(to, tag);
    to = PUT(to, "\"\r\n");
    struct slice headers = {line, (size_t)(to - line)};
    if (call->if_none_match.data && has_tag(call->if_none_match, tag))
        http_call_send_as(call, 304, (struct slice){NULL, 0}, headers, (struct slice){NULL, 0});
    else
        send_body(call, 200, headers);
}

void http_call_send(struct http_call *call, unsigned status)
{
    const struct http_worker *worker = call->client->worker;
    if (status != 200 || !(call->route->flags & HTTP_ROUTE_TAGGED)) {
        send_body(call, status, SLICE("Cache-Control: no-store\r\n"));
        return;
    }
    char tag[2 * sizeof(uint64_t) + 1];
    struct slice core = {worker->body.bytes.data, worker->as_of_at};
    int size = snprintf(tag, sizeof(tag), "%016llx", (unsigned long long)hash_stable(core));
    http_call_send_tagged(call, (struct slice){tag, (size_t)size});
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
    /* An outbox that is full is none of the client's doing. */
    if (op->code == ERR_BUSY && call->client->worker->service->relay)
        return HTTP_PROBLEM_UNAVAILABLE;
    return http_problem_of(op->code);
}

bool http_call_answer_error(struct http_call *call, const struct op *op)
{
    if (__builtin_expect(op->code == ERR_OK && !op->weak, 1))
        return false;
    enum http_problem problem = http_call_op_problem(call, op);
    if (problem == HTTP_PROBLEMS)
        return false;
    char meaning[SERVICE_MEANING_BYTES];
    const char *detail = op->code == ERR_NO_KIND
                             ? service_meaning(call->client->worker->service, op->code, meaning)
                             : NULL;
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

void http_call_as_of_op(struct http_call *call, struct http_text *to, const struct op *op)
{
    if (__builtin_expect(op->as_of_ms == 0 && !op->stale && op->shards_missing == 0, 1)) {
        http_call_as_of(call, to);
        return;
    }
    call->client->worker->as_of_at = to->bytes.size;
    if (op->stale)
        HTTP_TEXT(to, ",\"stale\":true");
    if (op->shards_missing > 0)
        http_text_printf(to, ",\"shards_missing\":%u", op->shards_missing);
    if (op->as_of_ms == 0) {
        size_t content = call->client->worker->as_of_at;
        http_call_as_of(call, to);
        call->client->worker->as_of_at = content;
        return;
    }
    HTTP_TEXT(to, ",\"as_of\":");
    http_text_time(to, op->as_of_ms);
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
