#include "door/http/http_url.h"

#include "unit/test.h"

static char copy[256];

/* Decodes a copy; NULL if it is refused. */
static const char *decode(const char *text, bool is_query)
{
    struct slice slice = {copy, strlen(text)};
    memcpy(copy, text, slice.size);
    if (!http_url_decode(&slice, is_query))
        return NULL;
    copy[slice.size] = '\0';
    return copy;
}

TEST(percent_signs_are_decoded_once)
{
    assert_string_equal(decode("video1%2Flike", false), "video1/like");
    assert_string_equal(decode("%252F", false), "%2F");
    assert_string_equal(decode("%e2%82%AC", false), "\xe2\x82\xac");
    assert_string_equal(decode("a+b", false), "a+b");
    assert_string_equal(decode("a+b%2B", true), "a b+");
    assert_string_equal(decode("", false), "");
}

TEST(what_is_not_well_formed_is_refused)
{
    static const char *const wrong[] = {"%",         "%2",           "%g0",    "%0g",
                                        "a%00b",     "%ff",          "%c0%80", "%c0%af",
                                        "%ed%a0%80", "%f5%80%80%80", "\xff",   "%e2%82"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_null(decode(wrong[i], false));
}

TEST(a_path_is_cut_at_its_slashes)
{
    struct slice segments[HTTP_URL_SEGMENTS_MAX];
    assert_int_equal(http_url_split(SLICE("/v1/counters/a%2Fb"), segments), 3);
    assert_true(slice_equal(segments[0], SLICE("v1")));
    assert_true(slice_equal(segments[2], SLICE("a%2Fb")));
    assert_int_equal(http_url_split(SLICE("/"), segments), 1);
    assert_int_equal(segments[0].size, 0);
    assert_int_equal(http_url_split(SLICE("/a/"), segments), 2);
    assert_int_equal(segments[1].size, 0);
    assert_int_equal(http_url_split(SLICE("/1/2/3/4/5/6/7/8/9"), segments), 9);
}

TEST(fields_of_a_query_come_one_by_one_and_still_encoded)
{
    struct slice query = SLICE("&a=1&&b&c=x%3Dy+z&=5");
    struct slice name;
    struct slice value;
    assert_true(http_url_cut_field(&query, &name, &value));
    assert_true(slice_equal(name, SLICE("a")) && slice_equal(value, SLICE("1")));
    assert_true(http_url_cut_field(&query, &name, &value));
    assert_true(slice_equal(name, SLICE("b")) && value.size == 0 && value.data);
    assert_true(http_url_cut_field(&query, &name, &value));
    assert_true(slice_equal(name, SLICE("c")) && slice_equal(value, SLICE("x%3Dy+z")));
    assert_true(http_url_cut_field(&query, &name, &value));
    assert_true(name.size == 0 && slice_equal(value, SLICE("5")));
    assert_false(http_url_cut_field(&query, &name, &value));
}

RUN(cmocka_unit_test(percent_signs_are_decoded_once),
    cmocka_unit_test(what_is_not_well_formed_is_refused),
    cmocka_unit_test(a_path_is_cut_at_its_slashes),
    cmocka_unit_test(fields_of_a_query_come_one_by_one_and_still_encoded))
