#include "door/http/http_parse.h"

#include <string.h>

#define EXTENSION_BYTES_MAX 256u

/* The parts of a request, in order. */
enum { IN_HEAD, AT_BODY, IN_BODY, IN_CHUNKS, AT_END };

static int fail(struct http_parser *parser, unsigned status, const char *error)
{
    if (parser->status == 0) {
        parser->status = status;
        parser->error = error;
    }
    return HPE_USER;
}

static struct http_parser *of(llhttp_t *llhttp)
{
    return llhttp->data;
}

/* A piece of what began at span->at, or its beginning. */
static void extend(const struct http_parser *parser, struct http_span *span, const char *at,
                   size_t size)
{
    if (span->size == 0)
        span->at = (uint32_t)(at - parser->data);
    span->size += (uint32_t)size;
}

static struct slice slice_at(const struct http_parser *parser, struct http_span span)
{
    return (struct slice){parser->data + span.at, span.size};
}

/* ---- what llhttp calls ---- */

static int on_url(llhttp_t *llhttp, const char *at, size_t size)
{
    struct http_parser *parser = of(llhttp);
    extend(parser, &parser->url, at, size);
    return 0;
}

static const struct {
    enum http_header header;
    struct slice name;
} known[] = {
    {HTTP_HEADER_HOST, {"host", 4}},
    {HTTP_HEADER_AUTHORIZATION, {"authorization", 13}},
    {HTTP_HEADER_CONTENT_TYPE, {"content-type", 12}},
    {HTTP_HEADER_IDEMPOTENCY_KEY, {"idempotency-key", 15}},
    {HTTP_HEADER_REGION, {"tally-region", 12}},
    {HTTP_HEADER_IF_NONE_MATCH, {"if-none-match", 13}},
    {HTTP_HEADER_ORIGIN, {"origin", 6}},
    {HTTP_HEADER_SEC_FETCH_SITE, {"sec-fetch-site", 14}},
    {HTTP_HEADER_EXPECT, {"expect", 6}},
    {HTTP_HEADER_TRANSFER_ENCODING, {"transfer-encoding", 17}},
    {HTTP_HEADER_ACCEPT, {"accept", 6}},
    {HTTP_HEADER_ACCEPT_ENCODING, {"accept-encoding", 15}},
};

static int find_header(struct slice name)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].name.size == name.size && (known[i].name.data[0] ^ name.data[0]) % 32 == 0 &&
            slice_equal_nocase(known[i].name, name))
            return (int)known[i].header;
    }
    return HTTP_HEADERS;
}

/* Browsers and proxies may say what they take in several lines; it decides about nothing but how
 * an answer looks. */
static bool may_repeat(int header)
{
    return header == HTTP_HEADER_ACCEPT || header == HTTP_HEADER_ACCEPT_ENCODING;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t size)
{
    struct http_parser *parser = of(llhttp);
    if (parser->state == IN_HEAD)
        extend(parser, &parser->name, at, size);
    return 0;
}

static int on_header_field_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = of(llhttp);
    if (parser->state != IN_HEAD)
        return 0;
    struct slice name = slice_at(parser, parser->name);
    if (name.size == 0 || memchr(name.data, ' ', name.size))
        return fail(parser, 400, "a blank in the name of a header");
    parser->header = find_header(name);
    parser->name.size = 0;
    parser->value = (struct http_span){0, 0};
    return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t size)
{
    struct http_parser *parser = of(llhttp);
    if (parser->state == IN_HEAD)
        extend(parser, &parser->value, at, size);
    return 0;
}

static int on_header_value_complete(llhttp_t *llhttp)
{
    struct http_parser *parser = of(llhttp);
    if (parser->state != IN_HEAD || parser->header == HTTP_HEADERS)
        return 0;
    bool is_seen = parser->headers_seen & 1u << parser->header;
    if (is_seen && may_repeat(parser->header))
        return 0;
    if (is_seen)
        return fail(parser, 400, "a header that may stand once stands twice");
    parser->headers_seen |= 1u << parser->header;

    struct http_span value = parser->value;
    while (value.size > 0 && (parser->data[value.at + value.size - 1] == ' ' ||
                              parser->data[value.at + value.size - 1] == '\t'))
        value.size--;
    parser->headers[parser->header] = value;
    return 0;
}

/* Comes back to us with the place where the head ends. */
static int on_headers_complete(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t size)
{
    struct http_parser *parser = of(llhttp);
    if (parser->body_size + size > parser->body_max)
        return fail(parser, 413, "the body is too large");
    memmove(parser->data + parser->head_size + parser->body_size, at, size);
    parser->body_size += (uint32_t)size;
    return 0;
}

static int on_extension(llhttp_t *llhttp, const char *at, size_t size)
{
    (void)at;
    struct http_parser *parser = of(llhttp);
    parser->extension_size += (uint32_t)size;
    if (parser->extension_size > EXTENSION_BYTES_MAX)
        return fail(parser, 400, "the extensions of the chunks are too long");
    return 0;
}

static int on_message_complete(llhttp_t *llhttp)
{
    of(llhttp)->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_message_complete = on_message_complete,
};

/* ---- life ---- */

void http_parser_next(struct http_parser *parser)
{
    llhttp_init(&parser->llhttp, HTTP_REQUEST, &settings);
    parser->llhttp.data = parser;
    parser->fed = 0;
    parser->state = IN_HEAD;
    parser->url.size = 0;
    parser->name.size = 0;
    parser->headers_seen = 0;
    parser->body_size = 0;
    parser->body_max = 0;
    parser->extension_size = 0;
    parser->is_other = false;
    parser->complete = false;
    parser->has_head = false;
    parser->status = 0;
    parser->need = 0;
}

void http_parser_init(struct http_parser *parser)
{
    memset(parser, 0, sizeof(*parser));
    http_parser_next(parser);
}

/* ---- the head ---- */

static enum http_found broken(struct http_parser *parser, unsigned status, const char *error)
{
    fail(parser, status, error);
    return HTTP_FOUND_BROKEN;
}

/* llhttp has stopped, and not because it was asked to. */
static enum http_found stopped(struct http_parser *parser, enum llhttp_errno code)
{
    if (code == HPE_PAUSED_H2_UPGRADE || code == HPE_INVALID_VERSION)
        return broken(parser, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    const char *reason = llhttp_get_error_reason(&parser->llhttp);
    return broken(parser, 400, reason ? reason : "not a request of HTTP");
}

/* Do its lines end in CR LF, all of them, and does no line go on in the next? */
static bool has_clean_lines(const char *data, size_t size)
{
    const char *end = data + size;
    size_t lines = 0;
    for (const char *at = data; (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        if (at == data || at[-1] != '\r' || (at + 1 < end && (at[1] == ' ' || at[1] == '\t')))
            return false;
        lines++;
    }
    for (const char *at = data; (at = memchr(at, '\r', (size_t)(end - at))); at++)
        lines--;
    return lines == 0;
}

/* "http://host/path" stands for "/path" of that host. */
static bool take_target(struct http_parser *parser)
{
    struct http_request *request = &parser->request;
    struct slice url = slice_at(parser, parser->url);
    request->host_sent = request->headers[HTTP_HEADER_HOST];
    if (url.size > 7 && slice_equal_nocase((struct slice){url.data, 7}, SLICE("http://"))) {
        const char *host = url.data + 7;
        const char *path = memchr(host, '/', url.size - 7);
        if (!path)
            return false;
        request->headers[HTTP_HEADER_HOST] = (struct slice){host, (size_t)(path - host)};
        url = (struct slice){path, (size_t)(url.data + url.size - path)};
    }
    bool is_star = slice_equal(url, SLICE("*")) && request->method == HTTP_OPTIONS;
    if (url.size == 0 || (url.data[0] != '/' && !is_star) || memchr(url.data, '#', url.size))
        return false;

    const char *mark = memchr(url.data, '?', url.size);
    size_t path_size = mark ? (size_t)(mark - url.data) : url.size;
    request->path = (struct slice){url.data, path_size};
    request->query =
        mark ? (struct slice){mark + 1, url.size - path_size - 1} : (struct slice){NULL, 0};
    return true;
}

/* The slices of the request, of the data as it lies now. False: it has no target. */
static bool take_slices(struct http_parser *parser)
{
    struct http_request *request = &parser->request;
    request->body = (struct slice){parser->data + parser->head_size, parser->body_size};
    for (unsigned i = 0; i < HTTP_HEADERS; i++)
        request->headers[i] = parser->headers_seen & 1u << i ? slice_at(parser, parser->headers[i])
                                                             : (struct slice){NULL, 0};
    return take_target(parser);
}

static enum http_found check_head(struct http_parser *parser)
{
    struct http_request *request = &parser->request;
    llhttp_t *llhttp = &parser->llhttp;
    if (!has_clean_lines(parser->data, parser->head_size))
        return broken(parser, 400, "a line does not end in CR LF, or goes on in the next");
    if (llhttp->http_major != 1 || llhttp->http_minor > 1)
        return broken(parser, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");

    request->method = parser->is_other ? HTTP_METHOD_OTHER : llhttp->method;
    request->is_old = llhttp->http_minor == 0;
    request->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
    if (!take_slices(parser))
        return broken(parser, 400, "the target of the request is none");
    if (!request->is_old && !request->headers[HTTP_HEADER_HOST].data)
        return broken(parser, 400, "there is no Host");

    struct slice coding = request->headers[HTTP_HEADER_TRANSFER_ENCODING];
    bool is_chunked = (llhttp->flags & F_CHUNKED) != 0;
    if (coding.data &&
        (request->is_old || !is_chunked || !slice_equal_nocase(coding, SLICE("chunked"))))
        return broken(parser, 400, "a transfer coding other than chunked");
    request->has_body = is_chunked || llhttp->content_length > 0;
    parser->state = request->has_body ? AT_BODY : AT_END;
    return HTTP_FOUND_MORE;
}

#define METHOD_BYTES_MAX 32u

static bool is_token(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_served(struct slice method)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (slice_equal(method, slice_of(names[i])))
            return true;
    }
    return false;
}

/* llhttp refuses methods that it does not know, or knows of other protocols. The rest of such a
 * request is as good as any: it is read once more from its beginning, as if it were a GET. False:
 * that is not what is wrong with it. */
static bool begin_as_other(struct http_parser *parser, size_t size)
{
    const char *data = parser->data;
    size_t begin = 0;
    while (begin < size && (data[begin] == '\r' || data[begin] == '\n'))
        begin++;
    size_t end = begin;
    while (end < size && end - begin < METHOD_BYTES_MAX && is_token(data[end]))
        end++;
    bool is_cut = end == size;
    if (parser->is_other || end == begin ||
        (!is_cut && (data[end] != ' ' || is_served((struct slice){data + begin, end - begin}))))
        return false;
    http_parser_next(parser);
    if (is_cut) {
        parser->need = size + 1;
        return true;
    }
    parser->is_other = true;
    (void)llhttp_execute(&parser->llhttp, "GET", 3);
    parser->fed = end;
    return true;
}

/* Feeds the head to llhttp, and not a byte more than it may have. */
static enum http_found parse_head(struct http_parser *parser, size_t size)
{
    size_t end = size < HTTP_HEAD_BYTES_MAX ? size : HTTP_HEAD_BYTES_MAX;
    if (end > parser->fed) {
        enum llhttp_errno code =
            llhttp_execute(&parser->llhttp, parser->data + parser->fed, end - parser->fed);
        if (code == HPE_PAUSED) {
            parser->head_size = (size_t)(llhttp_get_error_pos(&parser->llhttp) - parser->data);
            parser->fed = parser->head_size;
            parser->has_head = true;
            return check_head(parser);
        }
        if (code != HPE_OK && code != HPE_PAUSED_H2_UPGRADE && begin_as_other(parser, end))
            return parser->is_other ? parse_head(parser, size) : HTTP_FOUND_MORE;
        if (code != HPE_OK)
            return stopped(parser, code);
        parser->fed = end;
    }
    if (end == HTTP_HEAD_BYTES_MAX)
        return broken(parser, 431, "the request line and the headers are too long");
    parser->need = parser->fed + 1;
    return HTTP_FOUND_MORE;
}

/* ---- the body ---- */

/* The caller has said how large it may be. */
static enum http_found begin_body(struct http_parser *parser)
{
    bool is_chunked = (parser->llhttp.flags & F_CHUNKED) != 0;
    if (!is_chunked && parser->llhttp.content_length > parser->body_max)
        return broken(parser, 413, "the body is too large");
    parser->state = is_chunked ? IN_CHUNKS : IN_BODY;
    if (is_chunked)
        llhttp_resume(&parser->llhttp);
    return HTTP_FOUND_MORE;
}

/* A body of known size is not looked at. */
static void parse_body(struct http_parser *parser, size_t size)
{
    size_t end = parser->head_size + (size_t)parser->llhttp.content_length;
    if (size < end) {
        parser->need = end;
        return;
    }
    parser->body_size = (uint32_t)parser->llhttp.content_length;
    parser->fed = end;
    parser->state = AT_END;
}

static enum http_found parse_chunks(struct http_parser *parser, size_t size)
{
    size_t max = parser->head_size + parser->body_max + HTTP_CHUNK_BYTES_MAX;
    size_t end = size < max ? size : max;
    if (end > parser->fed) {
        enum llhttp_errno code =
            llhttp_execute(&parser->llhttp, parser->data + parser->fed, end - parser->fed);
        if (code == HPE_PAUSED && parser->complete) {
            parser->fed = (size_t)(llhttp_get_error_pos(&parser->llhttp) - parser->data);
            parser->state = AT_END;
            return HTTP_FOUND_MORE;
        }
        if (code != HPE_OK)
            return stopped(parser, code);
        parser->fed = end;
    }
    if (end == max)
        return broken(parser, 413, "the body has too many chunks, or too long ones");
    parser->need = parser->fed + 1;
    return HTTP_FOUND_MORE;
}

/* ---- all of it ---- */

enum http_found http_parse(struct http_parser *parser, char *data, size_t size)
{
    if (parser->status != 0)
        return HTTP_FOUND_BROKEN;
    bool was_whole = parser->state == AT_END;
    parser->data = data;
    if (parser->state == IN_HEAD) {
        enum http_found found = parse_head(parser, size);
        if (found == HTTP_FOUND_BROKEN || parser->state == IN_HEAD)
            return found;
        if (parser->state == AT_BODY)
            return HTTP_FOUND_HEAD;
    }
    if (parser->state == AT_BODY && parser->body_max == 0) { /* nobody has decided about it yet */
        (void)take_slices(parser);
        return HTTP_FOUND_HEAD;
    }
    if (parser->state == AT_BODY && begin_body(parser) == HTTP_FOUND_BROKEN)
        return HTTP_FOUND_BROKEN;
    if (parser->state == IN_BODY)
        parse_body(parser, size);
    else if (parser->state == IN_CHUNKS && parse_chunks(parser, size) == HTTP_FOUND_BROKEN)
        return HTTP_FOUND_BROKEN;
    if (parser->state != AT_END)
        return HTTP_FOUND_MORE;

    parser->used = parser->fed;
    if (parser->request.has_body || was_whole) /* the data may have moved since its head came */
        (void)take_slices(parser);
    return HTTP_FOUND_REQUEST;
}
