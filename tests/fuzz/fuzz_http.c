/* fuzz_http.c - any bytes as what somebody might send to the HTTP door.
 *
 * The first byte says where the rest is cut. Whole or cut, and wherever the bytes
 * lie, the same requests and the same refusal must come out, and no byte outside
 * may be read. What is found is then taken apart as the door does it. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "door/http/http_parse.h"
#include "door/http/http_route.h"
#include "door/http/http_url.h"

#define BODY_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

struct seen {
    uint64_t digest;
    size_t taken;
    size_t requests;
    unsigned status; /* 0 = not broken */
};

static void note(struct seen *seen, struct slice bytes)
{
    seen->digest = hash_stable_seeded(bytes, seen->digest + 1);
}

static void check_within(struct slice part, const char *data, size_t size)
{
    check(!part.data || (part.data >= data && part.data + part.size <= data + size));
}

/* As http_call.c does: routes, decodes, reads the query. */
static void take_apart(struct seen *seen, const struct http_request *request)
{
    static struct http_routes routes;
    http_routes_init(&routes);
    struct http_match match = {0};
    http_routes_find(&routes, request->method, request->path, &match);
    note(seen, slice_of(match.route ? match.route->name : "-"));
    for (unsigned i = 0; match.route && i < HTTP_ROUTE_ARGS_MAX; i++) {
        if (!match.args[i].data || !http_url_decode(&match.args[i], false))
            continue;
        check(http_url_is_utf8(match.args[i]));
        check(!memchr(match.args[i].data, 0, match.args[i].size));
        note(seen, match.args[i]);
    }
    struct slice query = request->query;
    struct slice name;
    struct slice value;
    while (http_url_cut_field(&query, &name, &value)) {
        if (http_url_decode(&name, true) && http_url_decode(&value, true)) {
            check(http_url_is_utf8(name) && http_url_is_utf8(value));
            note(seen, name);
            note(seen, value);
        }
    }
}

static void note_request(struct seen *seen, struct http_parser *parser, const char *data,
                         size_t size)
{
    struct http_request *request = &parser->request;
    check(parser->used > 0 && parser->used <= size);
    check_within(request->path, data, size);
    check_within(request->query, data, size);
    check_within(request->body, data, size);
    check(request->body.size <= BODY_MAX);
    check(request->path.size > 0);
    note(seen, request->path);
    note(seen, request->query);
    note(seen, request->body);
    for (unsigned i = 0; i < HTTP_HEADERS; i++) {
        check_within(request->headers[i], data, size);
        note(seen, request->headers[i]);
    }
    take_apart(seen, request);
    seen->taken += parser->used;
    seen->requests++;
}

/* The door's view: what has come since the request began, at another place each
 * time; `*begun` are bytes that the parser has written to. */
static void feed(struct http_parser *parser, char **begun, size_t *begun_size, const uint8_t *data,
                 size_t size, struct seen *seen)
{
    while (seen->status == 0) {
        size_t left = size - seen->taken;
        char *copy = malloc(left > 0 ? left : 1); /* of its own size: no byte too far */
        memcpy(copy, *begun, *begun_size);
        memcpy(copy + *begun_size, data + seen->taken + *begun_size, left - *begun_size);
        enum http_found found = left == 0 ? HTTP_FOUND_MORE : http_parse(parser, copy, left);
        free(*begun);
        *begun = copy;
        *begun_size = left;
        if (found == HTTP_FOUND_MORE) {
            check(left == 0 || parser->need > left);
            return;
        }
        if (found == HTTP_FOUND_HEAD) {
            parser->body_max = BODY_MAX;
            continue;
        }
        if (found == HTTP_FOUND_BROKEN) {
            seen->status = parser->status;
            check(parser->error && parser->status >= 400);
            return;
        }
        note_request(seen, parser, copy, left);
        http_parser_next(parser);
        *begun_size = 0;
    }
}

static struct seen run(const uint8_t *data, size_t size, size_t cut)
{
    struct http_parser parser;
    struct seen seen = {0};
    char *begun = malloc(1);
    size_t begun_size = 0;
    http_parser_init(&parser);
    feed(&parser, &begun, &begun_size, data, cut, &seen);
    feed(&parser, &begun, &begun_size, data, size, &seen);
    free(begun);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t cut = size > 1 ? data[0] % size : 0;
    struct seen whole = run(data + 1, size - 1, 0);
    struct seen halves = run(data + 1, size - 1, cut);
    check(whole.digest == halves.digest && whole.taken == halves.taken &&
          whole.requests == halves.requests && whole.status == halves.status);
    return 0;
}
