/* http_parse.h - bytes to requests of HTTP/1.1 and 1.0.
 *
 * llhttp reads, one byte once, however the bytes were cut; what it finds is
 * remembered as places in the bytes, which the caller keeps together from the
 * first byte of the request on and may move between calls:
 *
 *   PUT /v1/items/v1/reactions/ann?x=1 HTTP/1.1\r\n Host: ...\r\n \r\n {"kind":"like"}
 *       └──────── path ─────────┘ └q┘                └ headers ┘       └── body ──┘
 *
 * A chunked body is put together in place. Strict where doubt would let two
 * servers see different requests: bare line ends, folded lines, a blank in a
 * header's name, two lengths, a transfer coding other than "chunked", a header
 * that we use and that stands twice, unless it is about the form of the answer.
 *
 * Pure: no I/O, no clock, no memory of its own that a peer could size. */
#ifndef DOOR_HTTP_HTTP_PARSE_H
#define DOOR_HTTP_HTTP_PARSE_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define HTTP_HEAD_BYTES_MAX 8192u /* request line and headers */
#define HTTP_CHUNK_BYTES_MAX                                            \
    65536u /* sizes of chunks, their extensions, trailers: all together \
            */

/* The headers that we look at. */
enum http_header {
    HTTP_HEADER_HOST,
    HTTP_HEADER_AUTHORIZATION,
    HTTP_HEADER_CONTENT_TYPE,
    HTTP_HEADER_IDEMPOTENCY_KEY,
    HTTP_HEADER_REGION,
    HTTP_HEADER_IF_NONE_MATCH,
    HTTP_HEADER_ORIGIN,
    HTTP_HEADER_SEC_FETCH_SITE,
    HTTP_HEADER_EXPECT,
    HTTP_HEADER_TRANSFER_ENCODING,
    HTTP_HEADER_ACCEPT, /* may stand twice, as the next; the first counts */
    HTTP_HEADER_ACCEPT_ENCODING,
    HTTP_HEADERS,
};

/* A method that llhttp does not know. */
#define HTTP_METHOD_OTHER 255u

struct http_request {
    unsigned method; /* HTTP_GET, ... of llhttp, or HTTP_METHOD_OTHER */
    bool is_old;     /* HTTP/1.0 */
    bool keep_alive;
    bool has_body;
    struct slice path;                  /* as it was sent, from its "/" on */
    struct slice query;                 /* behind the "?" */
    struct slice headers[HTTP_HEADERS]; /* data NULL = not there */
    struct slice host_sent;             /* HOST is what the target names, if it does; this is the
                                         * header as it was sent */
    struct slice body;
};

enum http_found {
    HTTP_FOUND_MORE,    /* needed */
    HTTP_FOUND_HEAD,    /* a head whose body follows, until `body_max` is said */
    HTTP_FOUND_REQUEST, /* of `used` bytes */
    HTTP_FOUND_BROKEN,  /* nothing of what follows can be understood */
};

/* A stretch of the request. */
struct http_span {
    uint32_t at;
    uint32_t size;
};

struct http_parser {
    struct http_request request; /* of HEAD and REQUEST; its slices point into the data */
    size_t used;
    size_t need;       /* MORE: fewer bytes than this, all together, are not worth another look */
    bool has_head;     /* the request's; its body may be missing */
    size_t body_max;   /* set by the caller at HEAD */
    unsigned status;   /* BROKEN: the answer */
    const char *error; /* and what is wrong */

    /* its own */
    llhttp_t llhttp;
    char *data;
    size_t fed; /* bytes that llhttp has seen */
    size_t head_size;
    int state;
    struct http_span url;
    struct http_span name;
    struct http_span value;
    int header; /* that `value` belongs to; HTTP_HEADERS = one we do not look at */
    struct http_span headers[HTTP_HEADERS];
    uint32_t headers_seen; /* bits */
    uint32_t body_size;
    uint32_t extension_size;
    bool is_other; /* llhttp was told that the method is GET, since it does not know the real one */
    bool complete;
};

void http_parser_init(struct http_parser *parser);

/* Looks at `data`, which begins with the first byte of a request and holds all
 * that has come since; what was looked at before has not changed but by this
 * function. After REQUEST it says the same again, with slices of where the data is
 * then, until http_parser_next(). */
enum http_found http_parse(struct http_parser *parser, char *data, size_t size);

/* The next request begins behind the `used` bytes of the last. */
void http_parser_next(struct http_parser *parser);

#endif
