/* topic.c - the topic: created when it is missing, else looked at.
 *
 * What is acknowledged must not get lost, and what the store has not read must not be thrown away;
 * so a topic with other settings than these is refused, with the command that mends it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "log/kafka/own.h"

#define RETENTION_MS     604800000 /* a week, of a topic that we create */
#define RETENTION_MS_MIN 86400000  /* a store may come back from yesterday's copy */
#define REPLICAS_USUAL   3u
#define SLICE_MS         50 /* between two looks at whether the log is being closed */

/* ---- asking ---- */

static bool is_silence(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__TRANSPORT ||
           code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
           code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT;
}

/* The result of an admin call, or NULL: ERR_UNAVAILABLE when nobody answers or the log is being
 * closed, ERR_DENIED when the answer is no. */
static rd_kafka_event_t *wait_event(const struct kafka_log *log, rd_kafka_queue_t *queue,
                                    int timeout_ms, enum err *ret_err, struct error *error)
{
    rd_kafka_event_t *event = NULL;
    for (int left_ms = timeout_ms + 500; !event && left_ms > 0 && !look_is_stopping(log);
         left_ms -= SLICE_MS)
        event = rd_kafka_queue_poll(queue, SLICE_MS);
    if (event && !rd_kafka_event_error(event)) {
        *ret_err = ERR_OK;
        return event;
    }
    bool is_silent = !event || is_silence(rd_kafka_event_error(event));
    *ret_err = error_set(error, is_silent ? ERR_UNAVAILABLE : ERR_DENIED, "Kafka: %s",
                         event ? rd_kafka_event_error_string(event) : "no answer");
    if (event)
        rd_kafka_event_destroy(event);
    return NULL;
}

static rd_kafka_AdminOptions_t *admin_options(rd_kafka_t *kafka, rd_kafka_admin_op_t op,
                                              int timeout_ms)
{
    char text[TEXT_BYTES];
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(kafka, op);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, text, sizeof(text));
    return options;
}

/* ---- creating ---- */

static rd_kafka_NewTopic_t *new_topic(const char *name, int partitions, unsigned replicas)
{
    char text[TEXT_BYTES];
    char retention[32];
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(name, partitions, (int)replicas, text, sizeof(text));
    if (!topic)
        return NULL;
    (void)snprintf(retention, sizeof(retention), "%d", RETENTION_MS);
    (void)rd_kafka_NewTopic_set_config(topic, "cleanup.policy", "delete");
    (void)rd_kafka_NewTopic_set_config(topic, "retention.ms", retention);
    (void)rd_kafka_NewTopic_set_config(topic, "retention.bytes", "-1");
    (void)rd_kafka_NewTopic_set_config(topic, "unclean.leader.election.enable", "false");
    (void)rd_kafka_NewTopic_set_config(topic, "min.insync.replicas", replicas >= 3 ? "2" : "1");
    return topic;
}

/* Another node may have been quicker: that is fine. */
static enum err look_at_created(rd_kafka_event_t *event, bool *ret_was_us, struct error *error)
{
    size_t count;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[i]);
        if (code && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
            const char *why = rd_kafka_topic_result_error_string(results[i]);
            return error_set(error, ERR_INVALID, "Kafka does not create the topic %s: %s",
                             rd_kafka_topic_result_name(results[i]),
                             why ? why : rd_kafka_err2str(code));
        }
        if (i == 0)
            *ret_was_us = !code;
    }
    return ERR_OK;
}

/* The topic and, beside it, that of dead letters. */
static enum err create(const struct kafka_log *log, rd_kafka_t *kafka, unsigned brokers,
                       int timeout_ms, struct error *error)
{
    unsigned usual = brokers < REPLICAS_USUAL ? brokers : REPLICAS_USUAL;
    unsigned replicas = log->replicas > 0 ? log->replicas : usual;
    char letters[sizeof(log->url.topic) + 8];
    (void)snprintf(letters, sizeof(letters), "%s.dlq", log->url.topic);
    rd_kafka_NewTopic_t *topics[2] = {new_topic(log->url.topic, LIMIT_CELLS, replicas),
                                      new_topic(letters, 1, replicas)};
    enum err err = ERR_OK;
    if (!topics[0] || !topics[1]) {
        err = error_set(error, ERR_INVALID, "%s cannot be a topic of Kafka", log->url.topic);
    } else {
        rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka);
        rd_kafka_AdminOptions_t *options =
            admin_options(kafka, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout_ms);
        rd_kafka_CreateTopics(kafka, topics, 2, options, queue);
        rd_kafka_event_t *event = wait_event(log, queue, timeout_ms, &err, error);
        bool was_us = false;
        if (event)
            err = look_at_created(event, &was_us, error);
        if (event)
            rd_kafka_event_destroy(event);
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_queue_destroy(queue);
        if (was_us)
            message_info("the log's topic is there now topic=%s partitions=%u replicas=%u",
                         log->url.topic, LIMIT_CELLS, replicas);
    }
    for (unsigned i = 0; i < 2; i++)
        if (topics[i])
            rd_kafka_NewTopic_destroy(topics[i]);
    return err;
}

/* ---- looking ---- */

static bool is_missing(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
}

struct settings {
    char cleanup[32];
    char unclean[16];
    int64_t retention_ms;
    int64_t in_sync;
};

/* ERR_NOT_FOUND: the broker that was asked has not heard of a topic that is new. */
static enum err take_settings(rd_kafka_event_t *event, struct settings *settings,
                              struct error *error)
{
    size_t count;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result(event), &count);
    if (count == 0)
        return error_set(error, ERR_DENIED, "Kafka says nothing about them");
    rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resources[0]);
    if (code)
        return error_set(error,
                         is_missing(code)   ? ERR_NOT_FOUND
                         : is_silence(code) ? ERR_UNAVAILABLE
                                            : ERR_DENIED,
                         "%s", rd_kafka_ConfigResource_error_string(resources[0]));
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resources[0], &count);
    for (size_t i = 0; i < count; i++) {
        const char *name = rd_kafka_ConfigEntry_name(entries[i]);
        const char *value = rd_kafka_ConfigEntry_value(entries[i]);
        if (!value)
            continue;
        if (strcmp(name, "cleanup.policy") == 0)
            (void)snprintf(settings->cleanup, sizeof(settings->cleanup), "%s", value);
        else if (strcmp(name, "unclean.leader.election.enable") == 0)
            (void)snprintf(settings->unclean, sizeof(settings->unclean), "%s", value);
        else if (strcmp(name, "retention.ms") == 0)
            settings->retention_ms = strtoll(value, NULL, 10);
        else if (strcmp(name, "min.insync.replicas") == 0)
            settings->in_sync = strtoll(value, NULL, 10);
    }
    return ERR_OK;
}

/* Any broker knows them. Not every Kafka says who its controller is, whom librdkafka would ask. */
static enum err ask_settings(const struct kafka_log *log, rd_kafka_t *kafka, int32_t broker,
                             int timeout_ms, struct settings *settings, struct error *error)
{
    char text[TEXT_BYTES];
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, log->url.topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka);
    rd_kafka_AdminOptions_t *options =
        admin_options(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout_ms);
    (void)rd_kafka_AdminOptions_set_broker(options, broker, text, sizeof(text));
    rd_kafka_DescribeConfigs(kafka, &resource, 1, options, queue);
    enum err err;
    rd_kafka_event_t *event = wait_event(log, queue, timeout_ms, &err, error);
    if (event) {
        err = take_settings(event, settings, error);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(resource);
    return err;
}

static enum err wrong(const struct kafka_log *log, struct error *error, const char *has,
                      const char *setting)
{
    return error_set(error, ERR_INVALID,
                     "the log's topic %s %s: kafka-configs --alter --entity-type topics "
                     "--entity-name %s --add-config %s",
                     log->url.topic, has, log->url.topic, setting);
}

static enum err check_settings(const struct kafka_log *log, const struct settings *settings,
                               int replicas, struct error *error)
{
    if (settings->cleanup[0] && strcmp(settings->cleanup, "delete") != 0)
        return wrong(log, error, "is compacted, which loses events", "cleanup.policy=delete");
    if (strcmp(settings->unclean, "true") == 0)
        return wrong(log, error, "may lose what was acknowledged",
                     "unclean.leader.election.enable=false");
    if (settings->retention_ms >= 0 && settings->retention_ms < RETENTION_MS_MIN)
        return wrong(log, error, "keeps events for less than a day", "retention.ms=604800000");
    if (settings->in_sync > replicas)
        return wrong(log, error, "wants more replicas in sync than it has",
                     "min.insync.replicas=1");
    if (replicas >= 3 && settings->in_sync < 2)
        return wrong(log, error, "acknowledges what one broker has", "min.insync.replicas=2");
    if (replicas < 3)
        message_warning("the log's topic has few replicas: what is lost with them is lost topic=%s "
                        "replicas=%d",
                        log->url.topic, replicas);
    return ERR_OK;
}

static enum err check(const struct kafka_log *log, rd_kafka_t *kafka,
                      const rd_kafka_metadata_topic_t *topic, int timeout_ms, struct error *error)
{
    if (topic->partition_cnt != (int)LIMIT_CELLS)
        return error_set(error, ERR_INVALID,
                         "the log's topic %s has %d partitions and needs %u: let Tally create one, "
                         "under another name",
                         log->url.topic, topic->partition_cnt, LIMIT_CELLS);
    struct settings settings = {.retention_ms = -1, .in_sync = 1};
    int32_t broker = topic->partitions[0].leader;
    enum err err = ask_settings(log, kafka, broker, timeout_ms, &settings, error);
    if (err == ERR_NOT_FOUND || err == ERR_UNAVAILABLE)
        return err;
    if (err) {
        message_warning("the settings of the log's topic cannot be looked at topic=%s "
                        "reason=\"%s\"",
                        log->url.topic, error->text);
        return ERR_OK;
    }
    return check_settings(log, &settings, topic->partitions[0].replica_cnt, error);
}

/* A topic that is new has them a moment later. */
static bool has_leaders(const rd_kafka_metadata_topic_t *topic)
{
    for (int i = 0; i < topic->partition_cnt; i++)
        if (topic->partitions[i].err && topic->partitions[i].leader < 0)
            return false;
    return topic->partition_cnt > 0;
}

/* ERR_NOT_FOUND: it was missing and is being created, or is so new that not everybody knows of it;
 * look again. */
static enum err look(struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms, struct error *error)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(kafka, log->url.topic, NULL);
    rd_kafka_resp_err_t code = rd_kafka_metadata(kafka, 0, handle, &metadata, timeout_ms);
    rd_kafka_topic_destroy(handle);
    if (code)
        return error_set(error, ERR_UNAVAILABLE, "Kafka does not answer: %s",
                         rd_kafka_err2str(code));
    if (look_is_stopping(log)) {
        rd_kafka_metadata_destroy(metadata);
        return error_set(error, ERR_UNAVAILABLE, "the log is being closed");
    }
    enum err err = ERR_NOT_FOUND;
    const rd_kafka_metadata_topic_t *topic = metadata->topic_cnt > 0 ? &metadata->topics[0] : NULL;
    if (topic && is_missing(topic->err)) {
        err = create(log, kafka, (unsigned)metadata->broker_cnt, timeout_ms, error);
        err = err ? err : ERR_NOT_FOUND;
    } else if (topic && topic->err && topic->err != RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) {
        err = error_set(error, ERR_UNAVAILABLE, "the log's topic %s: %s", log->url.topic,
                        rd_kafka_err2str(topic->err));
    } else if (topic && !topic->err && has_leaders(topic)) {
        err = check(log, kafka, topic, timeout_ms, error);
    }
    rd_kafka_metadata_destroy(metadata);
    return err;
}

enum err topic_ensure(struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms, struct error *error)
{
    uint64_t until_ns = env_monotonic_ns(log->env) + (uint64_t)timeout_ms * MS_NS;
    for (;;) {
        enum err err = look(log, kafka, timeout_ms, error);
        if (err != ERR_NOT_FOUND)
            return err;
        if (env_monotonic_ns(log->env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE, "the log's topic %s is not there yet",
                             log->url.topic);
        struct timespec moment = {.tv_nsec = 50 * (long)MS_NS};
        nanosleep(&moment, NULL);
    }
}

/* ListOffsets for the time "latest" or "earliest": one call to each leader. */
static bool list_offsets(const struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms,
                         int64_t time, uint64_t offsets[LIMIT_CELLS], bool *ret_has_all)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(LIMIT_CELLS);
    unsigned found = 0;
    for (int i = 0; i < (int)LIMIT_CELLS; i++)
        rd_kafka_topic_partition_list_add(list, log->url.topic, i)->offset = time;
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(kafka, list, timeout_ms);
    for (int i = 0; i < list->cnt && !code; i++)
        if (!list->elems[i].err && list->elems[i].offset >= 0 &&
            list->elems[i].partition < (int)LIMIT_CELLS) {
            offsets[list->elems[i].partition] = (uint64_t)list->elems[i].offset;
            found++;
        }
    rd_kafka_topic_partition_list_destroy(list);
    *ret_has_all = found == LIMIT_CELLS;
    return !is_silence(code);
}

bool topic_ends(const struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms,
                uint64_t ends[LIMIT_CELLS])
{
    bool has_all;
    return list_offsets(log, kafka, timeout_ms, RD_KAFKA_OFFSET_END, ends, &has_all);
}

bool topic_bounds(const struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms,
                  uint64_t begins[LIMIT_CELLS], uint64_t ends[LIMIT_CELLS])
{
    bool has_begins = false;
    bool has_ends = false;
    return list_offsets(log, kafka, timeout_ms, RD_KAFKA_OFFSET_BEGINNING, begins, &has_begins) &&
           list_offsets(log, kafka, timeout_ms, RD_KAFKA_OFFSET_END, ends, &has_ends) &&
           has_begins && has_ends;
}
