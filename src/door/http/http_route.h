/* http_route.h - the paths: what may be asked, and who handles it.
 *
 * One table says it all; /openapi.json is written from it. A path is found by its
 * segments; where two fit, the one that names the segment wins over the one that
 * takes anything ("/v1/dlq/redrive" over "/v1/dlq/{event}"), being further up. It wins
 * for all methods: what the other one takes is no method of this path. */
#ifndef DOOR_HTTP_HTTP_ROUTE_H
#define DOOR_HTTP_HTTP_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "door/http/http_url.h"

#define HTTP_ROUTE_ARGS_MAX 2u
#define HTTP_ROUTES_MAX     64u

struct http_call;

/* Appends ops to the pass, or answers, or fails; each ends with one of http_call.h's
 * ways to do that. */
typedef void http_handle_fn(struct http_call *call);

enum {
    HTTP_ROUTE_OPEN = 1,     /* also without the password */
    HTTP_ROUTE_JSON = 2,     /* takes a body of JSON */
    HTTP_ROUTE_LINES = 4,    /* takes a body of lines of JSON, and a large one */
    HTTP_ROUTE_ALONE = 8,    /* waits until the requests before it are answered */
    HTTP_ROUTE_MANY = 16,    /* may append up to HTTP_ROUTE_OPS_MAX ops; others a few */
    HTTP_ROUTE_WRITE = 32,   /* takes an Idempotency-Key */
    HTTP_ROUTE_TAGGED = 64,  /* its answer has an ETag */
    HTTP_ROUTE_SEARCH = 128, /* searches, or has no end: not for pages of other sites */
};

#define HTTP_ROUTE_OPS_MAX 1000u

struct http_route {
    unsigned method; /* HTTP_GET, ... of llhttp */
    const char *path;
    unsigned flags;
    http_handle_fn *handle;
    /* for /openapi.json */
    const char *name;
    const char *tag;
    const char *summary;
    const char *query;  /* names of parameters with blanks between, "!" before those that must be
                           there; NULL = none */
    const char *body;   /* name of a schema; NULL = none */
    unsigned status;    /* when all is well */
    const char *answer; /* name of a schema, or a media type */
};

extern const struct http_route http_route_table[];
extern const unsigned http_route_count;

/* A route taken apart. */
struct http_route_parts {
    unsigned first; /* the first route of the same path */
    unsigned count;
    struct slice segments[HTTP_URL_SEGMENTS_MAX];
    bool is_arg[HTTP_URL_SEGMENTS_MAX];
};

struct http_routes {
    struct http_route_parts parts[HTTP_ROUTES_MAX];
};

void http_routes_init(struct http_routes *routes);

struct http_match {
    const struct http_route *route;         /* NULL = none */
    struct slice args[HTTP_ROUTE_ARGS_MAX]; /* as they were sent */
    unsigned methods; /* bits 1 << method, of routes that fit but for the method */
};

/* HEAD fits where GET does. */
void http_routes_find(const struct http_routes *routes, unsigned method, struct slice path,
                      struct http_match *ret_match);

#endif
