#include "net/redis_url.h"

#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

static struct redis_url url;

static void parse(const char *text)
{
    struct error error = {.text = ""};
    if (redis_url_parse("URL", text, &url, &error))
        fail_msg("%s: %s", text, error.text);
}

static void assert_server(unsigned i, const char *host, unsigned port)
{
    assert_true(i < url.count);
    assert_string_equal(url.servers[i].host, host);
    assert_int_equal(url.servers[i].port, port);
}

TEST(hosts_ports_login_prefix_and_settings_are_found)
{
    parse("ann:p%40ss@one:7000,two,10.0.0.3:7002/shop?more=1");
    assert_int_equal(url.count, 3);
    assert_server(0, "one", 7000);
    assert_server(1, "two", REDIS_URL_PORT);
    assert_server(2, "10.0.0.3", 7002);
    assert_string_equal(url.user, "ann");
    assert_string_equal(url.password, "p@ss");
    assert_string_equal(url.prefix, "shop");
    assert_true(slice_equal(url.settings, SLICE("more=1")));
}

TEST(addresses_with_colons_stand_in_brackets)
{
    parse(":secret@[::1]:7000,[fe80::2]");
    assert_int_equal(url.count, 2);
    assert_server(0, "::1", 7000);
    assert_server(1, "fe80::2", REDIS_URL_PORT);
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "secret");
}

TEST(the_prefix_is_tally_unless_said)
{
    parse("h");
    assert_string_equal(url.prefix, "tally");
    assert_null(url.settings.data);
    parse("h:1/");
    assert_string_equal(url.prefix, "tally");
    parse("h:1?x");
    assert_string_equal(url.prefix, "tally");
    assert_true(slice_equal(url.settings, SLICE("x")));
}

TEST(what_makes_no_sense_is_refused)
{
    static const char *const bad[] = {"",        "/p",       ":1",       "h:",     "h:0",
                                      "h:65536", "h:x",      "h:1,",     ",h:1",   "h,,k",
                                      "::1",     "::1:7000", "[::1",     "[]:1",   "[::1]x:1",
                                      "[::1]:",  "ann@h:1",  ":p%4@h:1", ":%@h:1", ":%zz@h:1",
                                      "h:1/a b", "h:1/a{b}", "h:1/a/b",  "h/a#b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct error error = {.text = ""};
        if (redis_url_parse("URL", bad[i], &url, &error) != ERR_INVALID)
            fail_msg("%s", bad[i]);
        assert_int_equal(strncmp(error.text, "URL", 3), 0);
    }
}

TEST(what_is_too_long_is_refused)
{
    char text[4096];
    static const size_t sizes[] = {258, 300, 2000};
    for (unsigned i = 0; i < 3; i++) {
        memset(text, 'x', sizes[i]);
        text[sizes[i]] = '\0';
        assert_int_equal(redis_url_parse("URL", text, &url, NULL), ERR_INVALID);
        memcpy(text, "h/", 2);
        assert_int_equal(redis_url_parse("URL", text, &url, NULL), ERR_INVALID);
        memcpy(text, "a:", 2);
        memcpy(text + sizes[i], "x@h", 4);
        assert_int_equal(redis_url_parse("URL", text, &url, NULL), ERR_INVALID);
    }
    for (unsigned i = 0; i <= REDIS_URL_SERVERS_MAX; i++)
        memcpy(text + 2 * (size_t)i, "h,", 2);
    text[2 * REDIS_URL_SERVERS_MAX + 1] = '\0';
    assert_int_equal(redis_url_parse("URL", text, &url, NULL), ERR_INVALID);
    text[2 * REDIS_URL_SERVERS_MAX - 1] = '\0';
    parse(text);
    assert_int_equal(url.count, REDIS_URL_SERVERS_MAX);
}

TEST(an_error_does_not_tell_the_password)
{
    static const char *const bad[] = {"ann:secret@h:x", "secret@h:1", "ann:secret%@h:1"};
    for (unsigned i = 0; i < 3; i++) {
        struct error error = {.text = ""};
        assert_int_equal(redis_url_parse("URL", bad[i], &url, &error), ERR_INVALID);
        assert_null(strstr(error.text, "secret"));
    }
}

RUN(cmocka_unit_test(hosts_ports_login_prefix_and_settings_are_found),
    cmocka_unit_test(addresses_with_colons_stand_in_brackets),
    cmocka_unit_test(the_prefix_is_tally_unless_said),
    cmocka_unit_test(what_makes_no_sense_is_refused), cmocka_unit_test(what_is_too_long_is_refused),
    cmocka_unit_test(an_error_does_not_tell_the_password))
