#include "door/http/http_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/message.h"
#include "door/http/http_door.h"
#include "door/http/http_worker.h"
#include "flow/check.h"

#define DETAIL_SIZE        512u
#define AUTH_FREE_FAILURES 3u

static struct pass *pass_of(const struct http_call *call)
{
    return &call->client->worker->pass;
}

/* ---- making a call of a request ---- */

static struct http_call *new_call(struct http_client *client)
{
    struct http_worker *worker = client->worker;
    struct http_call *call = room_alloc(&worker->pass.gathered.room, sizeof(*call));
    memset(call, 0, sizeof(*call));
    call->client = client;
    if (worker->pass.gathered.request_count == 0) /* the first since the last batch */
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
    if (!password_is_set(http_door_password(http)))
        return true;
    bool is_right = password_is(http_door_password(http), bearer_of(&client->parser.request));
    bool has_said = client->parser.request.headers[HTTP_HEADER_AUTHORIZATION].data != NULL;
    if (has_said && (!is_right || !client->is_trusted))
        auth_throttle_used(&client->worker->share.limits->auth, conn_network(client->conn),
                           is_right, &client->auth_turn);
    client->is_trusted = is_right;
    return is_right;
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

/* Is `origin` the scheme and the host that the request was sent to? */
static bool is_origin_of(struct slice origin, struct slice scheme, struct slice host)
{
    return origin.size > scheme.size &&
           slice_equal_nocase((struct slice){origin.data, scheme.size}, scheme) &&
           slice_equal_nocase((struct slice){origin.data + scheme.size, origin.size - scheme.size},
                              host);
}

/* What is sent here is http. Behind a proxy that speaks TLS the browser knows better: it compares
 * scheme, host and port, and no script can forge what it says about that. */
static bool is_same_origin(struct slice origin, const struct http_request *request)
{
    struct slice host = request->headers[HTTP_HEADER_HOST];
    struct slice site = request->headers[HTTP_HEADER_SEC_FETCH_SITE];
    bool is_http = is_origin_of(origin, SLICE("http://"), host);
    if (!site.data)
        return is_http;
    return slice_equal(site, SLICE("same-origin")) &&
           (is_http || is_origin_of(origin, SLICE("https://"), host));
}

/* Does a browser say that a page of another site asks for this? An image or a link sends no Origin.
 * What a person has typed in is of no site. */
static bool is_of_other_site(const struct http_request *request)
{
    struct slice origin = request->headers[HTTP_HEADER_ORIGIN];
    struct slice site = request->headers[HTTP_HEADER_SEC_FETCH_SITE];
    if (origin.data)
        return !is_same_origin(origin, request);
    return site.data && !slice_equal(site, SLICE("same-origin")) &&
           !slice_equal(site, SLICE("none"));
}

/* Pages of other sites may change nothing, and have nothing searched, unless their origin is one of
 * those that are allowed. */
static bool has_good_origin(struct http_call *call, const struct http_request *request,
                            const struct http_route *route)
{
    struct slice origin = request->headers[HTTP_HEADER_ORIGIN];
    if (origin.data && http_door_is_origin(call->client->worker->http, origin)) {
        call->origin = origin;
        return true;
    }
    bool is_read = request->method == HTTP_GET || request->method == HTTP_HEAD;
    bool is_search = route && route->flags & HTTP_ROUTE_SEARCH;
    return (is_read && !is_search) || !is_of_other_site(request);
}

/* A browser says in Host which name it was given, and a target cannot make that good. */
static bool has_good_host(const struct http_call *call, const struct http_request *request)
{
    const struct http *http = call->client->worker->http;
    struct slice host = request->headers[HTTP_HEADER_HOST];
    return http_door_is_host(http, host) &&
           (request->host_sent.data == host.data || http_door_is_host(http, request->host_sent));
}

/* Is there nothing in the header that would have to be understood? */
static bool has_good_expect(const struct http_request *request)
{
    struct slice expect = request->headers[HTTP_HEADER_EXPECT];
    return !expect.data || request->is_old || slice_equal_nocase(expect, SLICE("100-continue"));
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
        memmove(begin, left.data, left.size); /* each with its "&" */
        call->query.size = before + left.size;
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

/* The headers of a write, also where it has no op, or none yet. False with an error. */
static bool has_good_write_headers(const struct http_call *call, struct error *error)
{
    if (!(call->route->flags & HTTP_ROUTE_WRITE))
        return true;
    return !check_key(call->key, error) && !check_region(call->region, error);
}

/* The order is that of what may be known to whom. */
static void handle(struct http_call *call, const struct http_match *match)
{
    struct http_client *client = call->client;
    const struct http_request *request = &client->parser.request;
    if (!has_good_host(call, request)) {
        http_call_fail(call, HTTP_PROBLEM_BAD_HOST, NULL);
        return;
    }
    if (!has_good_origin(call, request, match->route)) {
        http_call_fail(call, HTTP_PROBLEM_DENIED, "the origin is not one of cors-origins");
        return;
    }
    if (request->method == HTTP_OPTIONS) {
        call->number = methods_of(match);
        http_call_answer(call, answer_options);
        return;
    }
    const char *fault;
    struct error error;
    call->route = match->route;
    call->is_known = is_known(client);
    if (!call->is_known) /* also where no password is needed: nobody tries them there */
        note_stranger(client);
    if (!call->is_known && !(call->route && call->route->flags & HTTP_ROUTE_OPEN)) {
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
    } else if (!has_good_write_headers(call, &error)) {
        http_call_fail_with(call, &error);
    } else if (!has_good_expect(request)) {
        http_call_fail(call, HTTP_PROBLEM_EXPECTATION, NULL);
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

void *http_call_alloc(struct http_call *call, size_t size)
{
    return room_alloc(&pass_of(call)->gathered.room, size);
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
