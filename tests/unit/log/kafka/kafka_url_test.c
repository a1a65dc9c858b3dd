#include "log/kafka/kafka_url.h"

#include "unit/test.h"

#include <stdbool.h>
#include <stdio.h>

TEST(brokers_topic_and_settings_are_found)
{
    struct kafka_url url;
    assert_int_equal(
        kafka_url_parse(
            "kafka://a:9092,b:9092/tally.events?security.protocol=SSL&ssl.ca.location=/x", &url,
            NULL),
        ERR_OK);
    assert_string_equal(url.brokers, "a:9092,b:9092");
    assert_string_equal(url.topic, "tally.events");
    assert_int_equal(url.setting_count, 2);
    assert_string_equal(url.settings[0].name, "security.protocol");
    assert_string_equal(url.settings[0].value, "SSL");
    assert_string_equal(url.settings[1].value, "/x");
}

TEST(what_makes_no_sense_is_refused)
{
    static const char *const bad[] = {"",
                                      "redis://a:1/t",
                                      "kafka://",
                                      "kafka:///t",
                                      "kafka://a:1",
                                      "kafka://a:1/",
                                      "kafka://a:1/a b",
                                      "kafka://a:1/..",
                                      "kafka://a:1?x=y/t",
                                      "kafka://a:1/t?x",
                                      "kafka://a:1/t?=y",
                                      "kafka://a:1/t?x="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct kafka_url url;
        struct error error = {0};
        if (kafka_url_parse(bad[i], &url, &error) != ERR_INVALID)
            fail_msg("%s", bad[i]);
        assert_true(error.text[0] != '\0');
    }
}

TEST(what_the_promises_rest_on_cannot_be_set)
{
    static const char *const bad[] = {"acks=1", "enable.idempotence=false",
                                      "enable.auto.commit=true", "auto.offset.reset=latest"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[128];
        snprintf(text, sizeof(text), "kafka://a:1/t?%s", bad[i]);
        struct kafka_url url;
        assert_int_equal(kafka_url_parse(text, &url, NULL), ERR_INVALID);
    }
}

RUN(cmocka_unit_test(brokers_topic_and_settings_are_found),
    cmocka_unit_test(what_makes_no_sense_is_refused),
    cmocka_unit_test(what_the_promises_rest_on_cannot_be_set))
