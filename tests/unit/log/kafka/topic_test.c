/* topic_test.c - the Kafka log and its topic on a real broker: what is created, what is refused,
 * what others see, and what is not there any more. */
/* servers: kafka */
#include "contract/log_lanes_rig.h"

#include <jansson.h>
#include <librdkafka/rdkafka.h>

#include "unit/log/kafka/lines.h"

#define WAIT_MS 15000

static const char *server;
static char topic[64];
static rd_kafka_t *client; /* a producer, for what an operator does */
static struct lane_source source;
static struct lane_view view;

static rd_kafka_t *new_client(rd_kafka_type_t type)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", server + strlen("kafka://"), text, sizeof(text));
    if (type == RD_KAFKA_CONSUMER)
        rd_kafka_conf_set(conf, "group.id", "looking", text, sizeof(text));
    rd_kafka_t *kafka = rd_kafka_new(type, conf, text, sizeof(text));
    assert_non_null(kafka);
    return kafka;
}

static int begin(void **state)
{
    (void)state;
    rig_name(topic, sizeof(topic));
    source_init(&source);
    view = (struct lane_view){0};
    client = new_client(RD_KAFKA_PRODUCER);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rd_kafka_destroy(client);
    return 0;
}

static struct log *open_log(bool follows)
{
    struct log *log = rig_open_kafka(server, topic, follows);
    struct error error = {0};
    if (log_start(log, &error))
        fail_msg("%s", error.text);
    return log;
}

static enum err follow_until_error(struct log *log, unsigned lane, struct error *error)
{
    enum err err = ERR_OK;
    wait_owned(log, LANES);
    uint64_t until_ms = rig_now_ms() + 60000;
    while (!err && rig_now_ms() < until_ms) {
        err = view_follow(&view, log, lane, error);
        usleep(1000);
    }
    return err;
}

/* ---- what an operator does ---- */

static void wait_admin(rd_kafka_queue_t *queue)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, WAIT_MS);
    assert_non_null(event);
    assert_int_equal(rd_kafka_event_error(event), 0);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
}

static void create_topic(int partitions, const char *name, const char *value)
{
    char text[256];
    rd_kafka_NewTopic_t *made = rd_kafka_NewTopic_new(topic, partitions, 1, text, sizeof(text));
    if (name)
        rd_kafka_NewTopic_set_config(made, name, value);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_CreateTopics(client, &made, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_NewTopic_destroy(made);
}

static bool is_topic_there(void)
{
    const struct rd_kafka_metadata *found;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    assert_int_equal(rd_kafka_metadata(client, 0, handle, &found, WAIT_MS), 0);
    bool is_there = found->topics[0].err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    rd_kafka_metadata_destroy(found);
    rd_kafka_topic_destroy(handle);
    return is_there;
}

/* Brokers know of it some time after it was done. */
static void delete_topic(void)
{
    rd_kafka_DeleteTopic_t *which = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteTopics(client, &which, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_DeleteTopic_destroy(which);
    uint64_t until_ms = rig_now_ms() + 60000;
    while (is_topic_there() && rig_now_ms() < until_ms)
        usleep(10000);
}

static void set_topic(const char *name, const char *value)
{
    rd_kafka_ConfigResource_t *which = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    assert_int_equal(rd_kafka_ConfigResource_set_config(which, name, value), 0);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_AlterConfigs(client, &which, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_ConfigResource_destroy(which);
}

/* As retention does it. */
static void delete_before(int32_t partition, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = offset;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteRecords(client, &records, 1, NULL, queue);
    wait_admin(queue);
    rd_kafka_DeleteRecords_destroy(records);
    rd_kafka_topic_partition_list_destroy(list);
}

/* ---- what others see ---- */

/* The first message of a partition from `offset` on. */
static rd_kafka_message_t *consume(const char *name, int32_t partition, int64_t offset)
{
    rd_kafka_t *kafka = new_client(RD_KAFKA_CONSUMER);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, name, partition)->offset = offset;
    assert_int_equal(rd_kafka_assign(kafka, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_message_t *message = NULL;
    for (unsigned i = 0; i < 50 && (!message || message->err); i++) {
        if (message)
            rd_kafka_message_destroy(message);
        message = rd_kafka_consumer_poll(kafka, 300);
    }
    assert_non_null(message);
    assert_int_equal(message->err, 0);
    return message; /* the client is left to the end of the process */
}

static void assert_header(const rd_kafka_message_t *message, const char *name, const char *value)
{
    rd_kafka_headers_t *headers;
    const void *found;
    size_t size;
    assert_int_equal(rd_kafka_message_headers(message, &headers), 0);
    assert_int_equal(rd_kafka_header_get_last(headers, name, &found, &size), 0);
    assert_int_equal(size, strlen(value));
    assert_memory_equal(found, value, size);
}

TEST(others_read_json_with_the_origin_as_the_key)
{
    struct log *log = open_log(false);
    source_append(&source, log, 17, 3);
    source_wait(&source, log);
    rd_kafka_message_t *message = consume(topic, 17, 0);
    assert_int_equal(message->key_len, 2);
    assert_memory_equal(message->key, "17", 2);
    json_t *value = json_loadb(message->payload, message->len, 0, NULL);
    assert_non_null(value);
    assert_int_equal(json_integer_value(json_object_get(value, "v")), 1);
    assert_int_equal(json_integer_value(json_object_get(value, "origin")), 17);
    assert_int_equal(json_integer_value(json_object_get(value, "epoch")), 1);
    assert_int_equal(json_integer_value(json_object_get(value, "seq")), 1);
    assert_int_equal(json_array_size(json_object_get(value, "events")), 3);
    json_decref(value);
    rd_kafka_message_destroy(message);
    log_close(log);
}

TEST(a_dead_letter_is_told_with_where_it_stood_and_why)
{
    struct log *log = open_log(false);
    struct log_letter letter = {.lane = 7,
                                .position = {0, 42},
                                .event_id = SLICE("\x01\xab"),
                                .reason = SLICE("made no sense"),
                                .raw = SLICE("the bytes")};
    log_dead(log, &letter);
    char name[80];
    snprintf(name, sizeof(name), "%s.dlq", topic);
    rd_kafka_message_t *message = consume(name, 0, 0);
    assert_int_equal(message->len, 9);
    assert_memory_equal(message->payload, "the bytes", 9);
    assert_header(message, "topic", topic);
    assert_header(message, "partition", "7");
    assert_header(message, "offset", "41");
    assert_header(message, "reason", "made no sense");
    assert_header(message, "event_id", "01ab");
    rd_kafka_message_destroy(message);
    log_close(log);
}

TEST(what_the_store_has_is_told_to_the_group)
{
    struct log *log = open_log(true);
    source_append(&source, log, 5, 1);
    source_append(&source, log, 5, 1);
    view_all(&view, log, &source);
    assert_int_equal(log_release(log, 5, view.at[5], NULL), ERR_OK);
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char group[80];
    snprintf(group, sizeof(group), "tally-%s", topic);
    rd_kafka_conf_set(conf, "bootstrap.servers", server + strlen("kafka://"), text, sizeof(text));
    rd_kafka_conf_set(conf, "group.id", group, text, sizeof(text));
    rd_kafka_t *tool = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    assert_non_null(tool);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 5);
    for (unsigned i = 0; i < 100 && list->elems[0].offset != (int64_t)view.at[5].offset; i++) {
        assert_int_equal(rd_kafka_committed(tool, list, WAIT_MS), 0);
        usleep(100000);
    }
    assert_int_equal(list->elems[0].offset, view.at[5].offset);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(tool);
    log_close(log);
}

/* ---- topics that are not as they should be ---- */

static void assert_refused(const char *part_of_text)
{
    struct error error = {0};
    struct log *log = NULL;
    enum err err = ERR_OK;
    for (unsigned i = 0; i < 10 && !err; i++) { /* a broker that is slow to answer is waited for */
        log_close(log);
        log = rig_open_kafka(server, topic, false);
        err = log_start(log, &error);
    }
    assert_int_equal(err, ERR_INVALID);
    if (!strstr(error.text, part_of_text))
        fail_msg("%s", error.text);
    log_close(log);
}

TEST(a_topic_of_other_partitions_is_refused)
{
    create_topic(3, NULL, NULL);
    assert_refused("3 partitions and needs 64");
}

TEST(a_topic_that_is_compacted_is_refused)
{
    create_topic((int)LANES, "cleanup.policy", "compact");
    assert_refused("--add-config cleanup.policy=delete");
}

TEST(a_topic_that_may_lose_what_was_acknowledged_is_refused)
{
    create_topic((int)LANES, "unclean.leader.election.enable", "true");
    assert_refused("--add-config unclean.leader.election.enable=false");
}

TEST(a_topic_that_forgets_within_a_day_is_refused)
{
    create_topic((int)LANES, "retention.ms", "3600000");
    assert_refused("--add-config retention.ms=");
}

TEST(a_topic_that_wants_more_replicas_than_it_has_is_refused)
{
    create_topic((int)LANES, "min.insync.replicas", "2");
    assert_refused("--add-config min.insync.replicas=1");
}

TEST(a_good_topic_of_somebody_else_is_taken)
{
    create_topic((int)LANES, NULL, NULL);
    struct log *log = open_log(true);
    source_append(&source, log, 1, 1);
    view_all(&view, log, &source);
    log_close(log);
}

/* ---- what is not there ---- */

TEST(a_position_that_retention_has_passed_is_told)
{
    struct log *log = open_log(true);
    for (unsigned i = 0; i < 10; i++)
        source_append(&source, log, 3, 1);
    source_wait(&source, log);
    delete_before(3, 6);
    struct error error = {0};
    view.at[3].offset = 4;
    assert_int_equal(follow_until_error(log, 3, &error), ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "trimmed"));
    view.at[3].offset = 0; /* the beginning is gone as well */
    assert_int_equal(follow_until_error(log, 3, &error), ERR_NOT_FOUND);
    assert_int_equal(view.sections, 0);
    view.at[3].offset = 6;
    view_all(&view, log, &source);
    assert_int_equal(view.sections, 4);
    log_close(log);
}

TEST(a_position_behind_the_end_is_told)
{
    struct log *log = open_log(true);
    source_append(&source, log, 3, 1);
    source_wait(&source, log);
    struct error error = {0};
    view.at[3].offset = 7;
    assert_int_equal(follow_until_error(log, 3, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "lane 3"));
    view.at[3] = (struct log_position){.segment = 4, .offset = 7};
    assert_int_equal(follow_until_error(log, 3, &error), ERR_INVALID);
    log_close(log);
}

TEST(a_topic_that_was_made_anew_is_noticed)
{
    struct log *log = open_log(true);
    for (unsigned i = 0; i < 5; i++)
        source_append(&source, log, 3, 1);
    view_all(&view, log, &source);
    log_close(log);
    delete_topic();
    log = open_log(true);
    struct error error = {0};
    assert_int_equal(follow_until_error(log, 3, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "another topic"));
    log_close(log);
}

/* ---- what is refused ---- */

static void append_of_every_size(struct log *log)
{
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned lane = 0; lane < LANES; lane += 9)
            source_append(&source, log, lane, 1 + round % 7);
        usleep(1000);
    }
}

/* Small messages would pass all the time, and several requests of a lane are under way: what comes
 * behind one that is refused must not get in before it. */
TEST(what_a_broker_refuses_for_a_while_leaves_no_gap)
{
    struct log *log = open_log(true);
    append_of_every_size(log);
    source_wait(&source, log);

    struct lines lines;
    lines_begin(&lines);
    set_topic("max.message.bytes", "300");
    uint64_t until_ms = rig_now_ms() + 60000;
    while (lines_with(&lines, BEGUN_AGAIN) < 3 && rig_now_ms() < until_ms)
        append_of_every_size(log);
    set_topic("max.message.bytes", "1048588");
    unsigned begun_again = lines_with(&lines, BEGUN_AGAIN);
    append_of_every_size(log);
    source_wait(&source, log);
    lines_end(&lines);
    assert_true(begun_again >= 3);
    view_all(&view, log, &source);
    log_close(log);
}

/* ---- what somebody else has put there ---- */

static enum err keep_bytes(void *arg, struct slice section, struct log_position next,
                           struct error *error)
{
    (void)next;
    struct section_reader reader;
    assert_int_equal(section_open(&reader, section, error), ERR_CORRUPT);
    struct buffer *kept = arg;
    return buffer_append_slice(kept, section);
}

TEST(a_message_that_is_not_ours_is_handed_on_with_the_reason)
{
    struct log *log = open_log(true);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    char text[] = "{\"v\":99}";
    assert_int_equal(
        rd_kafka_produce(handle, 9, RD_KAFKA_MSG_F_COPY, text, strlen(text), NULL, 0, NULL), 0);
    assert_int_equal(rd_kafka_flush(client, WAIT_MS), 0);
    rd_kafka_topic_destroy(handle);
    source_append(&source, log, 9, 1);
    source_wait(&source, log);
    wait_owned(log, LANES);
    struct buffer kept;
    buffer_init(&kept, 1 << 20);
    while (kept.size == 0) {
        struct error error = {0};
        if (log_follow(log, 9, &view.at[9], 1, keep_bytes, &kept, &error))
            fail_msg("%s", error.text);
        usleep(1000);
    }
    assert_int_equal(view.at[9].offset, 1);
    assert_int_equal(buffer_append(&kept, "", 1), ERR_OK);
    assert_non_null(strstr(kept.data, "version"));
    assert_non_null(strstr(kept.data, text));
    view_all(&view, log, &source); /* and what is behind it comes */
    buffer_done(&kept);
    log_close(log);
}

#define PROMISE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    server = getenv("TALLY_TEST_KAFKA");
    if (!server) {
        printf("no server to run against: TALLY_TEST_KAFKA\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        PROMISE(others_read_json_with_the_origin_as_the_key),
        PROMISE(a_dead_letter_is_told_with_where_it_stood_and_why),
        PROMISE(what_the_store_has_is_told_to_the_group),
        PROMISE(a_topic_of_other_partitions_is_refused),
        PROMISE(a_topic_that_is_compacted_is_refused),
        PROMISE(a_topic_that_may_lose_what_was_acknowledged_is_refused),
        PROMISE(a_topic_that_forgets_within_a_day_is_refused),
        PROMISE(a_topic_that_wants_more_replicas_than_it_has_is_refused),
        PROMISE(a_good_topic_of_somebody_else_is_taken),
        PROMISE(a_position_that_retention_has_passed_is_told),
        PROMISE(a_position_behind_the_end_is_told),
        PROMISE(a_topic_that_was_made_anew_is_noticed),
        PROMISE(what_a_broker_refuses_for_a_while_leaves_no_gap),
        PROMISE(a_message_that_is_not_ours_is_handed_on_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
