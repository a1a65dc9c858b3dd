/* mock_test.c - the Kafka log beside brokers that fail on demand: librdkafka's mock cluster. What a
 * real broker does is asked in contract/log_lanes and in unit/log/kafka/topic. */
#include <dlfcn.h>

#include "contract/log_lanes_rig.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "log/kafka/own.h"
#include "unit/log/kafka/lines.h"

#define PRODUCE 0 /* the number of that call in Kafka's protocol */
#define FETCH   1

static rd_kafka_t *host; /* of the mock cluster */
static rd_kafka_mock_cluster_t *cluster;
static char server[256];
static struct lane_source source;
static struct lane_view view;

static int begin(void **state)
{
    (void)state;
    char text[256];
    host = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof(text));
    assert_non_null(host);
    cluster = rd_kafka_mock_cluster_new(host, 3);
    assert_non_null(cluster);
    assert_int_equal(rd_kafka_mock_topic_create(cluster, "events", (int)LANES, 3), 0);
    snprintf(server, sizeof(server), "kafka://%s", rd_kafka_mock_cluster_bootstraps(cluster));
    source_init(&source);
    view = (struct lane_view){0};
    return 0;
}

static int end(void **state)
{
    (void)state;
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
    return 0;
}

static struct log *open_log(bool follows)
{
    struct log *log = rig_open_kafka(server, "events", follows);
    struct error error = {0};
    if (log_start(log, &error))
        fail_msg("%s", error.text);
    return log;
}

static void set_brokers(bool are_up)
{
    for (int32_t i = 1; i <= 3; i++) {
        if (are_up)
            rd_kafka_mock_broker_set_up(cluster, i);
        else
            rd_kafka_mock_broker_set_down(cluster, i);
    }
}

/* ---- between the log and librdkafka ---- */

static _Atomic unsigned asking;         /* threads that wait for offsets now */
static _Atomic unsigned never_answered; /* questions about settings that get lost from now on */

rd_kafka_resp_err_t rd_kafka_offsets_for_times(rd_kafka_t *kafka,
                                               rd_kafka_topic_partition_list_t *offsets,
                                               int timeout_ms)
{
    typedef rd_kafka_resp_err_t fn(rd_kafka_t *, rd_kafka_topic_partition_list_t *, int);
    fn *real = (fn *)dlsym(RTLD_NEXT, "rd_kafka_offsets_for_times");
    asking++;
    rd_kafka_resp_err_t code = real(kafka, offsets, timeout_ms);
    asking--;
    return code;
}

void rd_kafka_DescribeConfigs(rd_kafka_t *kafka, rd_kafka_ConfigResource_t **resources,
                              size_t count, const rd_kafka_AdminOptions_t *options,
                              rd_kafka_queue_t *queue)
{
    typedef void fn(rd_kafka_t *, rd_kafka_ConfigResource_t **, size_t,
                    const rd_kafka_AdminOptions_t *, rd_kafka_queue_t *);
    fn *real = (fn *)dlsym(RTLD_NEXT, "rd_kafka_DescribeConfigs");
    if (never_answered > 0)
        never_answered--;
    else
        real(kafka, resources, count, options, queue);
}

/* ---- requests that are answered with an error ---- */

/* The mock brokers do not look at the numbers of a producer's messages: of two requests of one
 * partition under way they append the second although they refused the first, which real brokers
 * never do, and which would be a gap of theirs. So everything of a lane is one request here: it
 * gathers for longer than appending or sending again takes. How a real broker goes on with several
 * under way is asked in unit/log/kafka/topic. */
static struct log *open_log_of_one_request(void)
{
    char url[300];
    snprintf(url, sizeof(url), "%s/events", server);
    struct kafka_log_options options = {
        .url = url, .follows = true, .session_ms = 6000, .linger_us = 1000000};
    struct log *log;
    assert_int_equal(kafka_log_open(env_system(), &options, &log, NULL), ERR_OK);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    return log;
}

static void append_at_once(struct log *log, unsigned lanes)
{
    for (unsigned lane = 0; lane < lanes; lane++)
        for (unsigned i = 0; i < 12; i++)
            source_append(&source, log, lane, 1 + i % 3);
}

/* What is refused for good is told, and everything that waits goes to a new producer: how often
 * that was. A single lane meets the errors in turn, so when the last one was told all were met. */
static unsigned begun_again(struct log *log, unsigned lanes)
{
    struct lines lines;
    lines_begin(&lines);
    append_at_once(log, lanes);
    source_wait(&source, log);
    unsigned count = lines_with(&lines, BEGUN_AGAIN);
    lines_end(&lines);
    return count;
}

static void assert_no_gap(struct log *log)
{
    view_all(&view, log, &source);
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.pending_bytes, 0);
    log_close(log);
}

TEST(errors_that_pass_are_waited_out_without_a_gap)
{
    struct log *log = open_log_of_one_request();
    rd_kafka_mock_push_request_errors(
        cluster, PRODUCE, 7, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR__TRANSPORT,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(begun_again(log, 1), 1); /* the last one */
    assert_no_gap(log);
}

TEST(what_is_refused_for_good_is_sent_again_with_all_that_came_behind_it)
{
    struct log *log = open_log_of_one_request();
    assert_int_equal(begun_again(log, 10), 0);
    for (unsigned i = 0; i < 2; i++) {
        rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1,
                                          RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
        assert_int_equal(begun_again(log, 10), 1);
    }
    assert_no_gap(log);
}

TEST(a_sequence_that_the_broker_does_not_expect_leaves_no_gap)
{
    struct log *log = open_log_of_one_request();
    assert_int_equal(begun_again(log, 1), 0);
    rd_kafka_mock_push_request_errors(
        cluster, PRODUCE, 3, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
        RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(begun_again(log, 1), 2); /* the one in the middle is an error that passes */
    assert_no_gap(log);
}

/* ---- brokers that are not there ---- */

TEST(brokers_that_go_and_come_back_are_told_and_waited_for)
{
    struct log *log = open_log(true);
    source_append_some(&source, log, 5);
    source_wait(&source, log);
    set_brokers(false);
    source_append_some(&source, log, 5);
    rig_wait_room(log, ERR_UNAVAILABLE);
    struct log_stats stats;
    log_stats(log, &stats);
    assert_true(stats.down_since_ms > 0 && stats.pending_bytes > 0);
    set_brokers(true);
    rig_wait_room(log, ERR_OK);
    source_append_some(&source, log, 5);
    source_wait(&source, log);
    view_all(&view, log, &source);
    log_close(log);
}

TEST(an_idle_log_notices_too)
{
    struct log *log = open_log(false);
    assert_int_equal(log_room(log), ERR_OK);
    set_brokers(false);
    rig_wait_room(log, ERR_UNAVAILABLE);
    set_brokers(true);
    rig_wait_room(log, ERR_OK);
    log_close(log);
}

static void set_round_trip(int ms)
{
    for (int32_t i = 1; i <= 3; i++)
        assert_int_equal(rd_kafka_mock_broker_set_rtt(cluster, i, ms), 0);
}

/* Once they were refused, the other time they only say nothing. */
TEST(an_outage_is_told_with_a_reason_of_its_own)
{
    struct lines lines;
    struct log *log = open_log(false);
    set_brokers(false);
    rig_wait_room(log, ERR_UNAVAILABLE);
    set_brokers(true);
    rig_wait_room(log, ERR_OK);
    source_append_some(&source, log, 1);
    source_wait(&source, log);
    lines_begin(&lines);
    set_round_trip(30000);
    rig_wait_room(log, ERR_UNAVAILABLE);
    uint64_t until_ms = rig_now_ms() + 30000; /* it is told a moment later */
    while (lines_with(&lines, "they wait reason=") == 0 && rig_now_ms() < until_ms)
        usleep(1000);
    unsigned refused = lines_with(&lines, "refused");
    unsigned silent = lines_with(&lines, "they wait reason=\"no answer\"");
    lines_end(&lines);
    assert_int_equal(refused, 0);
    assert_int_equal(silent, 1);
    set_round_trip(0);
    log_close(log);
}

/* Looks begin every second: what was said of the log after several of them. */
static void watch_looks(struct log *log, unsigned looks, int round_trip_ms)
{
    uint64_t until_ms = rig_now_ms() + looks * (1000 + 2 * (uint64_t)round_trip_ms);
    while (rig_now_ms() < until_ms) {
        assert_int_equal(log_room(log), ERR_OK);
        usleep(1000);
    }
}

TEST(an_idle_log_whose_brokers_answer_slowly_takes_events)
{
    struct log *log = open_log(false);
    set_round_trip(1150);
    watch_looks(log, 2, 1150);
    source_append_some(&source, log, 1);
    source_wait(&source, log);
    set_round_trip(0);
    log_close(log);
}

static struct log *open_patient(uint64_t answer_ms, const char *settings)
{
    char url[400];
    snprintf(url, sizeof(url), "%s/events%s", server, settings);
    struct kafka_log_options options = {.url = url, .answer_ms = answer_ms};
    struct log *log;
    assert_int_equal(kafka_log_open(env_system(), &options, &log, NULL), ERR_OK);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    return log;
}

/* The leaders are asked for, and then asked. That takes longer than a start or a stop may. */
TEST(an_idle_log_waits_for_its_brokers_as_long_as_it_was_told)
{
    struct log *log = open_patient(6000, "?metadata.max.age.ms=500");
    struct log *other = open_patient(6000, "");
    set_round_trip(2700);
    source_append(&source, other, 3, 1);
    uint64_t until_ms = rig_now_ms() + 60000;
    while (log_end(log, 3).offset == 0) {
        assert_int_equal(log_room(log), ERR_OK);
        assert_true(rig_now_ms() < until_ms);
        usleep(1000);
    }
    set_round_trip(0);
    log_close(other);
    log_close(log);
}

TEST(a_log_that_waits_for_an_answer_is_closed_without_it)
{
    struct log *log = open_patient(20000, "");
    set_round_trip(60000);
    uint64_t until_ms = rig_now_ms() + 60000;
    uint64_t asked_ms = 0; /* the same question has been open for so long that it is a slow one */
    while (asked_ms == 0 || rig_now_ms() < asked_ms + 500) {
        asked_ms = asking == 0 ? 0 : asked_ms > 0 ? asked_ms : rig_now_ms();
        assert_true(rig_now_ms() < until_ms);
        usleep(1000);
    }
    uint64_t began_ms = rig_now_ms();
    log_close(log);
    assert_true(rig_now_ms() - began_ms < 15000);
    assert_int_equal(asking, 1); /* nobody will answer for as long as the log was patient */
}

TEST(a_log_is_not_used_before_its_settings_are_known)
{
    never_answered = 1;
    struct log *log = open_log(false);
    assert_int_equal(never_answered, 0);
    assert_int_equal(log_room(log), ERR_UNAVAILABLE);
    rig_wait_room(log, ERR_OK);
    source_append_some(&source, log, 1);
    source_wait(&source, log);
    log_close(log);
}

/* The brokers are slow, and the consumer does not wait for them. */
TEST(an_offset_that_the_topic_does_not_have_is_told)
{
    struct error error = {0};
    struct log *log = open_log(true);
    wait_owned(log, LANES);
    set_round_trip(1150);
    view.at[3].offset = 1000000;
    enum err err = ERR_OK;
    for (uint64_t until_ms = rig_now_ms() + 60000; !err && rig_now_ms() < until_ms; usleep(1000))
        err = view_follow(&view, log, 3, &error);
    assert_int_equal(err, ERR_INVALID);
    assert_non_null(strstr(error.text, "ends with offset 0 and 1000000 is wanted"));
    set_round_trip(0);
    log_close(log);
}

/* The event that finds out may be the first for a long time. */
TEST(a_log_that_is_down_and_has_nothing_under_way_lets_an_event_in)
{
    struct log *log = open_log(false);
    set_brokers(false);
    rig_wait_room(log, ERR_UNAVAILABLE);
    rig_wait_room(log, ERR_OK);
    source_append(&source, log, 3, 1);
    assert_int_equal(log_room(log), ERR_UNAVAILABLE);
    set_brokers(true);
    source_wait(&source, log);
    rig_wait_room(log, ERR_OK);
    log_close(log);
}

/* librdkafka says so of a message that the broker had already, before an answer was lost. */
TEST(an_offset_that_is_not_known_does_not_move_the_end)
{
    struct log *log = open_log(false);
    struct log_position end = log_end(log, 3);
    consumer_note_appended((struct kafka_log *)log, 3, RD_KAFKA_OFFSET_INVALID);
    assert_int_equal(log_end(log, 3).offset, end.offset);
    consumer_note_appended((struct kafka_log *)log, 3, 41);
    assert_int_equal(log_end(log, 3).offset, 42);
    log_close(log);
}

TEST(one_broker_of_three_may_bounce)
{
    struct log *log = open_log(true);
    for (int32_t broker = 1; broker <= 3; broker++) {
        rd_kafka_mock_broker_set_down(cluster, broker);
        source_append_some(&source, log, 10);
        rd_kafka_mock_broker_set_up(cluster, broker);
        source_append_some(&source, log, 10);
    }
    source_wait(&source, log);
    view_all(&view, log, &source);
    log_close(log);
}

TEST(a_log_may_start_before_its_brokers)
{
    set_brokers(false);
    struct log *log = open_log(true);
    assert_int_equal(log_room(log), ERR_UNAVAILABLE);
    source_append_some(&source, log, 3);
    set_brokers(true);
    rig_wait_room(log, ERR_OK);
    source_wait(&source, log);
    view_all(&view, log, &source);
    log_close(log);
}

static void assert_closing_ends(bool follows)
{
    char url[300];
    snprintf(url, sizeof(url), "%s/events", server);
    struct kafka_log_options options = {
        .url = url, .close_ms = 500, .answer_ms = 500, .follows = follows, .session_ms = 6000};
    struct log *log;
    assert_int_equal(kafka_log_open(env_system(), &options, &log, NULL), ERR_OK);
    assert_int_equal(log_start(log, NULL), ERR_OK);
    if (follows)
        wait_owned(log, LANES);
    set_brokers(false);
    source_append_some(&source, log, 1);
    uint64_t began_ms = rig_now_ms();
    log_close(log);
    assert_true(rig_now_ms() - began_ms < 15000);
}

TEST(closing_without_brokers_ends)
{
    assert_closing_ends(false);
}

TEST(a_follower_closes_without_brokers_too)
{
    assert_closing_ends(true);
}

TEST(fetching_goes_on_after_errors)
{
    struct log *log = open_log(true);
    rd_kafka_mock_push_request_errors(
        cluster, FETCH, 4, RD_KAFKA_RESP_ERR__TRANSPORT, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, RD_KAFKA_RESP_ERR__TRANSPORT);
    source_append_some(&source, log, 20);
    view_all(&view, log, &source);
    assert_int_equal(view.repeated, 0);
    log_close(log);
}

TEST(a_topic_with_too_few_partitions_is_refused)
{
    assert_int_equal(rd_kafka_mock_topic_create(cluster, "small", 12, 3), 0);
    struct log *log = rig_open_kafka(server, "small", false);
    struct error error = {0};
    assert_int_equal(log_start(log, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "12 partitions and needs 64"));
    log_close(log);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

RUN(PROMISE(errors_that_pass_are_waited_out_without_a_gap),
    PROMISE(what_is_refused_for_good_is_sent_again_with_all_that_came_behind_it),
    PROMISE(a_sequence_that_the_broker_does_not_expect_leaves_no_gap),
    PROMISE(brokers_that_go_and_come_back_are_told_and_waited_for),
    PROMISE(a_log_that_waits_for_an_answer_is_closed_without_it), PROMISE(an_idle_log_notices_too),
    PROMISE(an_idle_log_whose_brokers_answer_slowly_takes_events),
    PROMISE(an_idle_log_waits_for_its_brokers_as_long_as_it_was_told),
    PROMISE(a_log_is_not_used_before_its_settings_are_known),
    PROMISE(an_offset_that_the_topic_does_not_have_is_told),
    PROMISE(a_log_that_is_down_and_has_nothing_under_way_lets_an_event_in),
    PROMISE(an_outage_is_told_with_a_reason_of_its_own),
    PROMISE(an_offset_that_is_not_known_does_not_move_the_end),
    PROMISE(one_broker_of_three_may_bounce), PROMISE(a_log_may_start_before_its_brokers),
    PROMISE(closing_without_brokers_ends), PROMISE(a_follower_closes_without_brokers_too),
    PROMISE(fetching_goes_on_after_errors), PROMISE(a_topic_with_too_few_partitions_is_refused))
