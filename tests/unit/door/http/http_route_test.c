#include "door/http/http_route.h"

#include <llhttp.h>

#include "door/http/http_problem.h"
#include "unit/test.h"

static struct http_routes routes;

static struct http_match find(unsigned method, const char *path)
{
    struct http_match match = {0};
    http_routes_init(&routes);
    http_routes_find(&routes, method, slice_of(path), &match);
    return match;
}

static void assert_found(unsigned method, const char *path, const char *name)
{
    struct http_match match = find(method, path);
    assert_non_null(match.route);
    assert_string_equal(match.route->name, name);
}

TEST(every_path_leads_to_its_handler)
{
    for (unsigned i = 0; i < http_route_count; i++) {
        const struct http_route *route = &http_route_table[i];
        assert_non_null(route->handle);
        assert_found(route->method, route->path, route->name);
    }
}

TEST(arguments_are_what_stands_in_their_place)
{
    struct http_match match = find(HTTP_PUT, "/v1/items/v%2F1/reactions/ann");
    assert_string_equal(match.route->name, "putReaction");
    assert_true(slice_equal(match.args[0], SLICE("v%2F1")));
    assert_true(slice_equal(match.args[1], SLICE("ann")));
}

TEST(named_segments_win_over_arguments)
{
    assert_found(HTTP_POST, "/v1/dlq/redrive", "redriveLetters");
    assert_found(HTTP_POST, "/v1/dlq/x", "redriveLetter");
    assert_found(HTTP_GET, "/video7/count", "seedVideoCount");
    assert_found(HTTP_GET, "/like/count/7", "seedLikeCount");
    struct http_match match = find(HTTP_DELETE, "/v1/dlq/redrive");
    assert_null(match.route);
    assert_int_equal(match.methods, 1u << HTTP_POST);
}

/* A GET is sent by every page that somebody opens. */
TEST(work_is_never_begun_by_a_get)
{
    struct http_match match = find(HTTP_GET, "/v1/counters/a/recount");
    assert_null(match.route);
    assert_int_equal(match.methods, 1u << HTTP_POST);
    for (unsigned i = 0; i < http_route_count; i++) {
        if (http_route_table[i].method == HTTP_GET)
            assert_false(http_route_table[i].flags & HTTP_ROUTE_WRITE);
    }
}

TEST(a_head_is_a_get)
{
    assert_found(HTTP_HEAD, "/v1/counters/a", "getCounter");
}

TEST(other_methods_are_told)
{
    struct http_match match = find(HTTP_PATCH, "/v1/counters/a");
    assert_null(match.route);
    assert_int_equal(match.methods,
                     1u << HTTP_GET | 1u << HTTP_PUT | 1u << HTTP_POST | 1u << HTTP_DELETE);
    match = find(HTTP_GET, "/v1/nothing");
    assert_null(match.route);
    assert_int_equal(match.methods, 0);
    assert_null(find(HTTP_GET, "/v1/counters/").route);
    assert_null(find(HTTP_GET, "//count").route);
}

TEST(every_code_is_a_problem_with_a_status)
{
    for (int code = ERR_INVALID; code <= ERR_MOVED; code++) {
        enum http_problem problem = http_problem_of((enum err)code);
        assert_true(problem < HTTP_PROBLEMS);
        assert_true(http_problems[problem].status >= 400);
        assert_string_not_equal(http_status_name(http_problems[problem].status), "Unknown");
    }
}

RUN(cmocka_unit_test(every_path_leads_to_its_handler),
    cmocka_unit_test(arguments_are_what_stands_in_their_place),
    cmocka_unit_test(named_segments_win_over_arguments),
    cmocka_unit_test(work_is_never_begun_by_a_get), cmocka_unit_test(a_head_is_a_get),
    cmocka_unit_test(other_methods_are_told),
    cmocka_unit_test(every_code_is_a_problem_with_a_status))
