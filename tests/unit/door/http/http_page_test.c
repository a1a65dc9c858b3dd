#include "door/http/http_page.h"

#include <string.h>

#include "unit/test.h"

static const struct http_page_file files[] = {
    {"index.html", "text/html", {"<p>", 3}, {NULL, 0}, "1", false},
    {"index-AbCdEfGh.js", "text/javascript", {"x()", 3}, {NULL, 0}, "2", true},
};

TEST(a_file_is_found_by_its_whole_name)
{
    assert_ptr_equal(http_page_find(files, 2, SLICE("index.html")), &files[0]);
    assert_ptr_equal(http_page_find(files, 2, SLICE("index-AbCdEfGh.js")), &files[1]);
    assert_null(http_page_find(files, 1, SLICE("index-AbCdEfGh.js")));
    assert_null(http_page_find(files, 2, SLICE("index")));
    assert_null(http_page_find(files, 2, SLICE("index.html2")));
    assert_null(http_page_find(files, 2, SLICE("../index.html")));
    assert_null(http_page_find(files, 2, SLICE("")));
}

TEST(browsers_want_html_and_others_do_not)
{
    assert_true(http_page_wants_html(SLICE("text/html")));
    assert_true(http_page_wants_html(
        SLICE("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")));
    assert_true(http_page_wants_html(SLICE("image/webp , TEXT/HTML ; q=0.1")));
    assert_true(http_page_wants_html(SLICE("text/html;charset=utf-8;q=1")));
    assert_false(http_page_wants_html((struct slice){NULL, 0}));
    assert_false(http_page_wants_html(SLICE("")));
    assert_false(http_page_wants_html(SLICE("*/*")));
    assert_false(http_page_wants_html(SLICE("application/json, text/plain, */*")));
    assert_false(http_page_wants_html(SLICE("text/html5")));
    assert_false(http_page_wants_html(SLICE("text/*")));
    assert_false(http_page_wants_html(SLICE("text/html;q=0")));
    assert_false(http_page_wants_html(SLICE("text/html; q=0.000, */*")));
}

TEST(gzip_is_for_those_who_take_it)
{
    assert_true(http_page_takes_gzip(SLICE("gzip")));
    assert_true(http_page_takes_gzip(SLICE("gzip, deflate, br, zstd")));
    assert_true(http_page_takes_gzip(SLICE("br;q=1.0, GZIP;q=0.01")));
    assert_true(http_page_takes_gzip(SLICE("*")));
    assert_true(http_page_takes_gzip(SLICE("identity;q=0, *;q=0.5")));
    assert_false(http_page_takes_gzip((struct slice){NULL, 0}));
    assert_false(http_page_takes_gzip(SLICE("")));
    assert_false(http_page_takes_gzip(SLICE("identity")));
    assert_false(http_page_takes_gzip(SLICE("br, gzip;q=0")));
    assert_false(http_page_takes_gzip(SLICE("gzip;q=0, *")));
    assert_false(http_page_takes_gzip(SLICE("*;q=0.0")));
    assert_false(http_page_takes_gzip(SLICE("notgzip")));
}

TEST(odd_lists_do_no_harm)
{
    static const char *const odd[] = {",",   ",,,",     ";",    ";;", " ",      "\t,\t;",
                                      "q=0", "gzip;q=", ";q=0", "=",  "gzip;;;"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        (void)http_page_wants_html(slice_of(odd[i]));
        (void)http_page_takes_gzip(slice_of(odd[i]));
    }
}

/* What is in this very build. */
TEST(the_build_has_an_index_and_every_file_has_a_tag)
{
    assert_non_null(http_page_find(http_page_files, http_page_file_count, SLICE("index.html")));
    for (unsigned i = 0; i < http_page_file_count; i++) {
        const struct http_page_file *file = &http_page_files[i];
        assert_true(file->plain.size > 0);
        assert_true(strlen(file->tag) > 0);
        if (file->gzip.size > 0)
            assert_memory_equal(file->gzip.data, "\x1f\x8b", 2);
    }
}

RUN(cmocka_unit_test(a_file_is_found_by_its_whole_name),
    cmocka_unit_test(browsers_want_html_and_others_do_not),
    cmocka_unit_test(gzip_is_for_those_who_take_it), cmocka_unit_test(odd_lists_do_no_harm),
    cmocka_unit_test(the_build_has_an_index_and_every_file_has_a_tag))
