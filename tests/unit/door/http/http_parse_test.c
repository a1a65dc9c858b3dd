#include "door/http/http_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

/* What became of some bytes, fed whole or cut. */
struct outcome {
    enum http_found found;
    unsigned status;
    size_t used;
    struct http_request request;
    char *data; /* owned: what the request points into */
};

/* Feeds the bytes in two parts, the second one at another address. */
static struct outcome feed(const char *text, size_t size, size_t cut, size_t body_max)
{
    static struct http_parser parser;
    struct outcome outcome = {.data = malloc(size + 1)};
    char *first = malloc(cut + 1);
    memcpy(first, text, cut);
    http_parser_init(&parser);

    enum http_found found = HTTP_FOUND_MORE;
    if (cut > 0) {
        found = http_parse(&parser, first, cut);
        parser.body_max = body_max;
        if (found == HTTP_FOUND_HEAD)
            found = http_parse(&parser, first, cut);
    }
    memcpy(outcome.data, first, cut);
    memcpy(outcome.data + cut, text + cut, size - cut);
    free(first);
    if (found == HTTP_FOUND_MORE) {
        found = http_parse(&parser, outcome.data, size);
        parser.body_max = body_max;
        if (found == HTTP_FOUND_HEAD)
            found = http_parse(&parser, outcome.data, size);
    } else if (found == HTTP_FOUND_REQUEST) {
        found = http_parse(&parser, outcome.data, size); /* says the same again, moved */
    }
    outcome.found = found;
    outcome.status = parser.status;
    outcome.used = parser.used;
    outcome.request = parser.request;
    return outcome;
}

static struct outcome feed_whole(const char *text)
{
    return feed(text, strlen(text), 0, 1000);
}

/* At every cut the same. */
static void assert_broken(const char *text, unsigned status)
{
    for (size_t cut = 0; cut < strlen(text); cut++) {
        struct outcome outcome = feed(text, strlen(text), cut, 1000);
        free(outcome.data);
        if (outcome.found != HTTP_FOUND_BROKEN || outcome.status != status)
            print_message("cut at %zu of: %s\n", cut, text);
        assert_int_equal(outcome.found, HTTP_FOUND_BROKEN);
        assert_int_equal(outcome.status, status);
    }
}

static void assert_slice(struct slice slice, const char *text)
{
    assert_non_null(slice.data);
    assert_int_equal(slice.size, strlen(text));
    assert_memory_equal(slice.data, text, slice.size);
}

#define HOST "Host: localhost\r\n"

TEST(a_get_has_a_path_a_query_and_headers)
{
    struct outcome outcome = feed_whole("GET /v1/counters/a%2Fb?limit=1&x=2 HTTP/1.1\r\n" HOST
                                        "If-None-Match:  W/\"7\" \t\r\n\r\n");
    assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
    assert_int_equal(outcome.request.method, HTTP_GET);
    assert_slice(outcome.request.path, "/v1/counters/a%2Fb");
    assert_slice(outcome.request.query, "limit=1&x=2");
    assert_slice(outcome.request.headers[HTTP_HEADER_HOST], "localhost");
    assert_slice(outcome.request.headers[HTTP_HEADER_IF_NONE_MATCH], "W/\"7\"");
    assert_null(outcome.request.headers[HTTP_HEADER_ORIGIN].data);
    assert_true(outcome.request.keep_alive);
    assert_false(outcome.request.has_body);
    free(outcome.data);
}

TEST(a_body_of_known_length_is_read_at_every_cut)
{
    const char *text = "PUT /a HTTP/1.1\r\n" HOST "content-length: 5\r\n\r\nhelloGET";
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        struct outcome outcome = feed(text, strlen(text), cut, 1000);
        assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
        assert_slice(outcome.request.body, "hello");
        assert_slice(outcome.request.path, "/a");
        assert_int_equal(outcome.used, strlen(text) - 3);
        free(outcome.data);
    }
}

TEST(a_chunked_body_is_put_together_at_every_cut)
{
    const char *text = "POST /a HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n1;ext=1\r\n,\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\nGET";
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        struct outcome outcome = feed(text, strlen(text), cut, 1000);
        assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
        assert_slice(outcome.request.body, "hello, world");
        assert_slice(outcome.request.headers[HTTP_HEADER_HOST], "localhost");
        assert_int_equal(outcome.used, strlen(text) - 3);
        free(outcome.data);
    }
}

TEST(requests_follow_one_another)
{
    char text[] = "GET /a HTTP/1.1\r\n" HOST "\r\nGET /b HTTP/1.1\r\n" HOST "\r\n";
    struct http_parser parser;
    http_parser_init(&parser);
    assert_int_equal(http_parse(&parser, text, sizeof(text) - 1), HTTP_FOUND_REQUEST);
    assert_slice(parser.request.path, "/a");
    size_t used = parser.used;
    http_parser_next(&parser);
    assert_int_equal(http_parse(&parser, text + used, sizeof(text) - 1 - used), HTTP_FOUND_REQUEST);
    assert_slice(parser.request.path, "/b");
    assert_int_equal(used + parser.used, sizeof(text) - 1);
}

TEST(what_two_servers_could_read_differently_is_refused)
{
    const char *smuggled[] = {
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\n" HOST
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunkedx\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\na",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\na",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\na",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\na",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\na",
        "POST / HTTP/1.1\r\n" HOST "Content-Length : 1\r\n\r\na",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n",
        "GET / HTTP/1.1\n" HOST "\r\n",
        "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHo st: a\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", /* no Host */
        "GET /a b HTTP/1.1\r\n" HOST "\r\n",
        "GET /#x HTTP/1.1\r\n" HOST "\r\n",
        "GET a HTTP/1.1\r\n" HOST "\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "\x16\x03\x01\x02",
    };
    for (size_t i = 0; i < sizeof(smuggled) / sizeof(smuggled[0]); i++)
        assert_broken(smuggled[i], 400);
}

TEST(a_zero_byte_is_refused_anywhere_in_the_head)
{
    static const char whole[] = "GET /a HTTP/1.1\r\nHost: a\r\nOrigin: b\r\n\r\n";
    for (size_t at = 0; at < sizeof(whole) - 3; at++) {
        char text[sizeof(whole)];
        memcpy(text, whole, sizeof(text));
        text[at] = '\0';
        struct outcome outcome = feed(text, sizeof(text) - 1, 0, 1000);
        assert_int_not_equal(outcome.found, HTTP_FOUND_REQUEST);
        free(outcome.data);
    }
}

TEST(other_versions_are_refused)
{
    assert_broken("GET / HTTP/2.0\r\n" HOST "\r\n", 505);
    assert_broken("GET / HTTP/0.9\r\n" HOST "\r\n", 505);
}

TEST(a_head_has_at_most_so_many_bytes)
{
    char text[HTTP_HEAD_BYTES_MAX + 100];
    for (int over = -2; over <= 2; over++) {
        size_t size = (size_t)((int)HTTP_HEAD_BYTES_MAX + over);
        size_t begin = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "X: ");
        memset(text + begin, 'x', size - begin - 4);
        memcpy(text + size - 4, "\r\n\r\n", 4);
        for (size_t cut = 0; cut < size; cut += size / 5) {
            struct outcome outcome = feed(text, size, cut, 1000);
            assert_int_equal(outcome.found, over > 0 ? HTTP_FOUND_BROKEN : HTTP_FOUND_REQUEST);
            assert_int_equal(outcome.status, over > 0 ? 431 : 0);
            free(outcome.data);
        }
    }
}

TEST(a_body_has_at_most_so_many_bytes)
{
    const char *known = "POST / HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\n";
    const char *chunked = "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                          "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
    for (size_t cut = 0; cut < strlen(known); cut++) {
        struct outcome outcome = feed(known, strlen(known), cut, 5);
        assert_int_equal(outcome.status, 413); /* from the length, before the body comes */
        free(outcome.data);
    }
    for (size_t cut = 0; cut < strlen(chunked); cut++) {
        struct outcome outcome = feed(chunked, strlen(chunked), cut, 5);
        assert_int_equal(outcome.status, 413);
        free(outcome.data);
        outcome = feed(chunked, strlen(chunked), cut, 6);
        assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
        free(outcome.data);
    }
}

TEST(extensions_of_chunks_are_bounded)
{
    char text[1000];
    size_t size = (size_t)snprintf(text, sizeof(text),
                                   "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                                   "1;%0300d\r\na\r\n0\r\n\r\n",
                                   1);
    struct outcome outcome = feed(text, size, 0, 1000);
    assert_int_equal(outcome.found, HTTP_FOUND_BROKEN);
    assert_int_equal(outcome.status, 400);
    free(outcome.data);
}

TEST(the_older_version_closes_unless_it_is_asked_not_to)
{
    struct outcome outcome = feed_whole("GET / HTTP/1.0\r\n\r\n");
    assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
    assert_false(outcome.request.keep_alive);
    assert_true(outcome.request.is_old);
    free(outcome.data);
    outcome = feed_whole("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(outcome.request.keep_alive);
    free(outcome.data);
    outcome = feed_whole("GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_false(outcome.request.keep_alive);
    free(outcome.data);
}

TEST(a_target_may_name_the_host)
{
    struct outcome outcome =
        feed_whole("GET http://example.com/a?b HTTP/1.1\r\nHost: other\r\n\r\n");
    assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
    assert_slice(outcome.request.path, "/a");
    assert_slice(outcome.request.query, "b");
    assert_slice(outcome.request.headers[HTTP_HEADER_HOST], "example.com");
    free(outcome.data);
}

TEST(the_host_that_was_sent_is_known_where_the_target_names_another)
{
    struct outcome outcome =
        feed_whole("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n");
    assert_slice(outcome.request.headers[HTTP_HEADER_HOST], "a.example");
    assert_slice(outcome.request.host_sent, "b.example");
    free(outcome.data);
    outcome = feed_whole("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
    assert_ptr_equal(outcome.request.host_sent.data,
                     outcome.request.headers[HTTP_HEADER_HOST].data);
    free(outcome.data);
}

/* Those of other protocols that llhttp knows are among them. */
TEST(a_request_of_an_unknown_method_is_read_like_any_other)
{
    static const char *const methods[] = {"QUERY",    "get",    "GETX", "G",          "PRI",
                                          "DESCRIBE", "SETUP",  "FOO",  "M-SEARCHES", "!#$%&'*+",
                                          "REPORTS",  "PATCHY", "PUTS", "DELETES"};
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text),
                       "%s /a?b HTTP/1.1\r\nHost: c\r\nContent-Length: 4\r\n\r\nbody", methods[i]);
        for (size_t cut = 0; cut <= strlen(text); cut++) {
            struct outcome outcome = feed(text, strlen(text), cut, 1000);
            if (outcome.found != HTTP_FOUND_REQUEST)
                print_message("%s cut at %zu\n", methods[i], cut);
            assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
            assert_int_equal(outcome.request.method, HTTP_METHOD_OTHER);
            assert_slice(outcome.request.path, "/a");
            assert_slice(outcome.request.query, "b");
            assert_slice(outcome.request.headers[HTTP_HEADER_HOST], "c");
            assert_slice(outcome.request.body, "body");
            free(outcome.data);
        }
    }
}

TEST(what_is_no_method_is_no_request)
{
    static const char *const texts[] = {
        "\x16\x03\x01\x02 / HTTP/1.1\r\nHost: a\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "FO(O / HTTP/1.1\r\nHost: a\r\n\r\n",
        "FOO\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        " / HTTP/1.1\r\nHost: a\r\n\r\n",
        "A-METHOD-OF-MORE-BYTES-THAN-ANY-HAS / HTTP/1.1\r\nHost: a\r\n\r\n",
        "FOO nothing HTTP/1.1\r\nHost: a\r\n\r\n",
        "FOO / HTTQ/1.1\r\nHost: a\r\n\r\n",
        "FOO / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_broken(texts[i], 400);
}

/* Until then it may have to wait, and the bytes may be moved. */
TEST(a_body_is_not_looked_at_before_its_limit_is_said)
{
    static const char text[] = "POST /a HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nbody";
    char *first = strdup(text);
    struct http_parser parser;
    http_parser_init(&parser);
    assert_int_equal(http_parse(&parser, first, strlen(first)), HTTP_FOUND_HEAD);
    free(first);
    char *second = strdup(text);
    assert_int_equal(http_parse(&parser, second, strlen(second)), HTTP_FOUND_HEAD);
    assert_slice(parser.request.path, "/a");
    parser.body_max = 4;
    assert_int_equal(http_parse(&parser, second, strlen(second)), HTTP_FOUND_REQUEST);
    assert_slice(parser.request.body, "body");
    free(second);
}

TEST(requests_of_unknown_methods_are_followed_by_others)
{
    static const char text[] =
        "FOO / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    char *data = strdup(text);
    struct http_parser parser;
    http_parser_init(&parser);
    assert_int_equal(http_parse(&parser, data, strlen(data)), HTTP_FOUND_REQUEST);
    assert_int_equal(parser.request.method, HTTP_METHOD_OTHER);
    size_t used = parser.used;
    http_parser_next(&parser);
    assert_int_equal(http_parse(&parser, data + used, strlen(data) - used), HTTP_FOUND_REQUEST);
    assert_int_equal(parser.request.method, HTTP_GET);
    assert_slice(parser.request.path, "/b");
    free(data);
}

TEST(what_the_client_takes_may_stand_twice_and_the_first_counts)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n"
                               "Accept-Encoding: gzip\r\nACCEPT: application/json\r\n"
                               "Accept-Encoding: br\r\n\r\n";
    for (size_t cut = 0; cut < strlen(text); cut++) {
        struct outcome outcome = feed(text, strlen(text), cut, 1000);
        const struct slice *headers = outcome.request.headers;
        assert_int_equal(outcome.found, HTTP_FOUND_REQUEST);
        assert_true(slice_equal(headers[HTTP_HEADER_ACCEPT], SLICE("text/html")));
        assert_true(slice_equal(headers[HTTP_HEADER_ACCEPT_ENCODING], SLICE("gzip")));
        free(outcome.data);
    }
}

RUN(cmocka_unit_test(a_get_has_a_path_a_query_and_headers),
    cmocka_unit_test(a_body_of_known_length_is_read_at_every_cut),
    cmocka_unit_test(a_chunked_body_is_put_together_at_every_cut),
    cmocka_unit_test(requests_follow_one_another),
    cmocka_unit_test(what_two_servers_could_read_differently_is_refused),
    cmocka_unit_test(a_zero_byte_is_refused_anywhere_in_the_head),
    cmocka_unit_test(other_versions_are_refused),
    cmocka_unit_test(a_head_has_at_most_so_many_bytes),
    cmocka_unit_test(a_body_has_at_most_so_many_bytes),
    cmocka_unit_test(extensions_of_chunks_are_bounded),
    cmocka_unit_test(the_older_version_closes_unless_it_is_asked_not_to),
    cmocka_unit_test(a_target_may_name_the_host),
    cmocka_unit_test(the_host_that_was_sent_is_known_where_the_target_names_another),
    cmocka_unit_test(a_request_of_an_unknown_method_is_read_like_any_other),
    cmocka_unit_test(what_is_no_method_is_no_request),
    cmocka_unit_test(a_body_is_not_looked_at_before_its_limit_is_said),
    cmocka_unit_test(requests_of_unknown_methods_are_followed_by_others),
    cmocka_unit_test(what_the_client_takes_may_stand_twice_and_the_first_counts))
