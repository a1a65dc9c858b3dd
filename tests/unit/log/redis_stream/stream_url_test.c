#include "log/redis_stream/stream_url.h"

#include "unit/test.h"

#include <stdbool.h>
#include <string.h>

#include "log/redis_stream/lane_key.h"

TEST(hosts_ports_login_and_prefix_are_found)
{
    struct stream_url url;
    assert_int_equal(
        stream_url_parse("redis://ann:p%40ss@one:7000,two,10.0.0.3:7002/shop", &url, NULL), 0);
    assert_int_equal(url.redis.count, 3);
    assert_string_equal(url.redis.servers[0].host, "one");
    assert_int_equal(url.redis.servers[0].port, 7000);
    assert_string_equal(url.redis.servers[1].host, "two");
    assert_int_equal(url.redis.servers[1].port, REDIS_URL_PORT);
    assert_string_equal(url.redis.servers[2].host, "10.0.0.3");
    assert_int_equal(url.redis.servers[2].port, 7002);
    assert_string_equal(url.redis.user, "ann");
    assert_string_equal(url.redis.password, "p@ss");
    assert_string_equal(url.redis.prefix, "shop");
}

TEST(the_prefix_is_tally_unless_said)
{
    struct stream_url url;
    assert_int_equal(stream_url_parse("redis-stream://h:1", &url, NULL), 0);
    assert_string_equal(url.redis.prefix, "tally");
    assert_int_equal(stream_url_parse("redis-stream://h:1/", &url, NULL), 0);
    assert_string_equal(url.redis.prefix, "tally");
    assert_int_equal(url.replicas, 0);
}

TEST(replicas_are_found_with_and_without_a_prefix)
{
    struct stream_url url;
    assert_int_equal(stream_url_parse("redis://h:1/shop?replicas=2", &url, NULL), 0);
    assert_string_equal(url.redis.prefix, "shop");
    assert_int_equal(url.replicas, 2);
    assert_int_equal(stream_url_parse("redis://h:1?replicas=1", &url, NULL), 0);
    assert_string_equal(url.redis.prefix, "tally");
    assert_int_equal(url.replicas, 1);
}

TEST(what_makes_no_sense_is_refused)
{
    static const char *const bad[] = {"",
                                      "http://h:1",
                                      "redis://",
                                      "redis://h:",
                                      "redis://h:0",
                                      "redis://h:65536",
                                      "redis://h:1,",
                                      "redis://,h:1",
                                      "redis://h:x",
                                      "redis://ann@h:1",
                                      "redis://:p%4@h:1",
                                      "redis://h:1/a b",
                                      "redis://h:1/a{b}",
                                      "redis://h:1/a?",
                                      "redis://h:1/a?replicas=x",
                                      "redis://h:1/a?more=1",
                                      "redis://h:1/a/b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct stream_url url;
        struct error error = {0};
        if (stream_url_parse(bad[i], &url, &error) != ERR_INVALID)
            fail_msg("%s", bad[i]);
        assert_true(error.text[0] != '\0');
    }
}

TEST(an_error_does_not_tell_the_password)
{
    struct stream_url url;
    struct error error = {0};
    assert_int_equal(stream_url_parse("redis://ann:secret@h:x", &url, &error), ERR_INVALID);
    assert_null(strstr(error.text, "secret"));
}

/* What CLUSTER KEYSLOT says. */
TEST(slots_are_those_of_redis)
{
    assert_int_equal(lane_key_slot("foo"), 12182);
    assert_int_equal(lane_key_slot("a{foo}b"), 12182);
    assert_int_equal(lane_key_slot("123456789"), 12739);
}

TEST(the_lanes_lie_evenly_over_the_slots)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        char key[LANE_KEY_BYTES];
        lane_key(key, "p", i, "log");
        assert_int_equal(lane_key_slot(key) / LANE_SLOT_RANGE, i);
    }
}

RUN(cmocka_unit_test(hosts_ports_login_and_prefix_are_found),
    cmocka_unit_test(the_prefix_is_tally_unless_said),
    cmocka_unit_test(replicas_are_found_with_and_without_a_prefix),
    cmocka_unit_test(what_makes_no_sense_is_refused),
    cmocka_unit_test(an_error_does_not_tell_the_password),
    cmocka_unit_test(slots_are_those_of_redis),
    cmocka_unit_test(the_lanes_lie_evenly_over_the_slots))
