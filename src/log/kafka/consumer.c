/* consumer.c - following: the lanes that are ours, and what is new in them.
 *
 * Two clients: one is a member of the group, and learns from it which lanes are ours; it fetches
 * nothing. The other has no group, and fetches from where the store is: where we begin is never
 * Kafka's decision. An offset that Kafka does not have is an error, never a jump. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "log/kafka/own.h"

#define POLL_MS         10
#define BATCH           1000u
#define QUEUE_BYTES     (4u << 20) /* of a lane: is paused past this */
#define COMMIT_EVERY_MS 1000u
#define NONSENSE        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" /* begins no section */

void consumer_note_end(struct kafka_log *log, unsigned lane, uint64_t end)
{
    struct consumer *consumer = &log->consumer;
    pthread_mutex_lock(&consumer->mutex);
    if (consumer->ends[lane] < end)
        consumer->ends[lane] = end;
    pthread_mutex_unlock(&consumer->mutex);
}

void consumer_note_appended(struct kafka_log *log, unsigned lane, int64_t offset)
{
    if (offset >= 0)
        consumer_note_end(log, lane, (uint64_t)offset + 1);
}

/* ---- whose lanes ---- */

static void set_owned(struct consumer *consumer, const rd_kafka_topic_partition_list_t *partitions,
                      bool is_owned)
{
    pthread_mutex_lock(&consumer->mutex);
    for (int i = 0; i < partitions->cnt; i++) {
        int32_t number = partitions->elems[i].partition;
        if (number < 0 || number >= (int)LIMIT_CELLS)
            continue;
        struct in_lane *lane = &consumer->lanes[number];
        lane_queue_forget(lane);
        lane->is_owned = is_owned;
        lane->released = 0;
        lane->committed = 0;
    }
    pthread_mutex_unlock(&consumer->mutex);
}

/* The member of the group takes its partitions, and pauses them before it fetches anything. */
static void rebalance(rd_kafka_t *group, rd_kafka_resp_err_t code,
                      rd_kafka_topic_partition_list_t *partitions, void *arg)
{
    struct consumer *consumer = &((struct kafka_log *)arg)->consumer;
    bool is_ours = code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    rd_kafka_error_t *error;
    if (is_ours) {
        for (int i = 0; i < partitions->cnt; i++)
            partitions->elems[i].offset = RD_KAFKA_OFFSET_END;
        error = rd_kafka_incremental_assign(group, partitions);
        (void)rd_kafka_pause_partitions(group, partitions);
    } else {
        set_owned(consumer, partitions, false);
        error = rd_kafka_incremental_unassign(group, partitions);
    }
    if (error) {
        message_warning("kafka: %s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
    if (is_ours)
        set_owned(consumer, partitions, true);
}

/* ---- where to fetch ---- */

/* Lanes that are to begin somewhere, and such that are not wanted any more. */
static void list_changes(struct kafka_log *log, rd_kafka_topic_partition_list_t *leave,
                         rd_kafka_topic_partition_list_t *begin)
{
    struct consumer *consumer = &log->consumer;
    pthread_mutex_lock(&consumer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct in_lane *lane = &consumer->lanes[i];
        bool is_fetching = lane->is_fetching;
        if (is_fetching && (lane->must_seek || !lane->is_wanted || !lane->is_owned)) {
            rd_kafka_topic_partition_list_add(leave, log->url.topic, (int32_t)i);
            lane->is_fetching = false;
        }
        if (lane->must_seek && lane->is_owned) {
            rd_kafka_topic_partition_list_add(begin, log->url.topic, (int32_t)i)->offset =
                (int64_t)lane->fetched;
            lane->must_seek = false;
            lane->is_fetching = true;
            lane->is_paused = false;
        }
    }
    pthread_mutex_unlock(&consumer->mutex);
}

static void say_error(rd_kafka_error_t *error)
{
    if (!error)
        return;
    message_warning("kafka: %s", rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

static void change_lanes(struct kafka_log *log)
{
    rd_kafka_topic_partition_list_t *leave = rd_kafka_topic_partition_list_new(8);
    rd_kafka_topic_partition_list_t *begin = rd_kafka_topic_partition_list_new(8);
    list_changes(log, leave, begin);
    if (leave->cnt > 0)
        say_error(rd_kafka_incremental_unassign(log->consumer.fetch, leave));
    if (begin->cnt > 0)
        say_error(rd_kafka_incremental_assign(log->consumer.fetch, begin));
    rd_kafka_topic_partition_list_destroy(leave);
    rd_kafka_topic_partition_list_destroy(begin);
}

/* A lane that nobody reads on must not fill memory, nor keep others from being fetched. */
static void pause_lanes(struct kafka_log *log)
{
    struct consumer *consumer = &log->consumer;
    rd_kafka_topic_partition_list_t *pause = rd_kafka_topic_partition_list_new(8);
    rd_kafka_topic_partition_list_t *resume = rd_kafka_topic_partition_list_new(8);
    pthread_mutex_lock(&consumer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct in_lane *lane = &consumer->lanes[i];
        if (!lane->is_fetching)
            continue;
        if (!lane->is_paused && lane->queue.size > QUEUE_BYTES)
            rd_kafka_topic_partition_list_add(pause, log->url.topic, (int32_t)i);
        else if (lane->is_paused && lane->queue.size < QUEUE_BYTES / 2)
            rd_kafka_topic_partition_list_add(resume, log->url.topic, (int32_t)i);
        else
            continue;
        lane->is_paused = !lane->is_paused;
    }
    pthread_mutex_unlock(&consumer->mutex);
    if (pause->cnt > 0)
        (void)rd_kafka_pause_partitions(consumer->fetch, pause);
    if (resume->cnt > 0)
        (void)rd_kafka_resume_partitions(consumer->fetch, resume);
    rd_kafka_topic_partition_list_destroy(pause);
    rd_kafka_topic_partition_list_destroy(resume);
}

/* ---- what comes ---- */

/* Kafka does not have the offset. Why, the one who looks around finds out. */
static void meet_no_offset(struct kafka_log *log, unsigned number)
{
    struct consumer *consumer = &log->consumer;
    struct in_lane *lane = &consumer->lanes[number];
    pthread_mutex_lock(&consumer->mutex);
    lane->is_lost = lane->is_fetching && !lane->must_seek; /* else it is of an earlier beginning */
    pthread_mutex_unlock(&consumer->mutex);
    bell_ring(&log->look.bell);
}

/* What Kafka has of the lane begins with `low`, and its end is `high`. */
static void judge_lost(struct in_lane *lane, unsigned number, uint64_t low, uint64_t high)
{
    uint64_t at = lane->fetched;
    lane->is_lost = false;
    if (at < low)
        lane_queue_fault(lane, ERR_NOT_FOUND,
                         "lane %u of the log was trimmed: offset %" PRIu64
                         " is wanted, the topic begins with %" PRIu64 " (retention)",
                         number, at, low);
    else if (at > high)
        lane_queue_fault(lane, ERR_INVALID,
                         "lane %u of the log ends with offset %" PRIu64 " and %" PRIu64
                         " is wanted: another topic of the same name, or it has lost events",
                         number, high, at);
    else
        lane->must_seek = true; /* it is there after all: try again */
}

/* The answer says something about those that were lost before it was asked for. */
static uint64_t list_lost(struct consumer *consumer, uint32_t generations[LIMIT_CELLS])
{
    uint64_t lost = 0;
    pthread_mutex_lock(&consumer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        generations[i] = consumer->lanes[i].generation;
        lost |= (uint64_t)consumer->lanes[i].is_lost << i;
    }
    pthread_mutex_unlock(&consumer->mutex);
    return lost;
}

void consumer_find_lost(struct kafka_log *log, rd_kafka_t *kafka)
{
    struct consumer *consumer = &log->consumer;
    uint32_t generations[LIMIT_CELLS];
    uint64_t begins[LIMIT_CELLS];
    uint64_t ends[LIMIT_CELLS];
    uint64_t lost = list_lost(consumer, generations);
    if (lost == 0 || look_is_stopping(log))
        return;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        begins[i] = ends[i] = UINT64_MAX;
    (void)topic_bounds(log, kafka, kafka_patience_ms(log), begins, ends);
    if (look_is_stopping(log))
        return;
    pthread_mutex_lock(&consumer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct in_lane *lane = &consumer->lanes[i];
        bool is_known = begins[i] != UINT64_MAX && ends[i] != UINT64_MAX;
        bool is_same = lane->is_lost && lane->generation == generations[i];
        if ((lost >> i & 1) && is_known && is_same)
            judge_lost(lane, i, begins[i], ends[i]);
    }
    pthread_mutex_unlock(&consumer->mutex);
}

static bool is_no_offset(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
           code == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE;
}

static void meet_error(struct kafka_log *log, const rd_kafka_message_t *message)
{
    if (message->rkt && message->partition >= 0 && message->partition < (int)LIMIT_CELLS &&
        is_no_offset(message->err))
        meet_no_offset(log, (unsigned)message->partition);
    else
        message_debug("kafka: %s", rd_kafka_message_errstr(message));
}

/* Offsets follow one another: nothing else writes to the topic than producers like ours. */
static bool is_expected(struct in_lane *lane, unsigned number, uint64_t offset)
{
    if (!lane->is_fetching || lane->must_seek || lane->fault || offset < lane->fetched)
        return false; /* of an earlier beginning */
    if (offset == lane->fetched) {
        lane->is_suspect = false;
        return true;
    }
    if (lane->is_suspect)
        lane_queue_fault(lane, ERR_NOT_FOUND,
                         "lane %u of the log has a gap: offset %" PRIu64 " comes behind %" PRIu64,
                         number, offset, lane->fetched);
    lane->is_suspect = true;
    lane->must_seek = true;
    return false;
}

void consumer_make_nonsense(struct buffer *to, struct slice raw, const char *reason)
{
    size_t room = LOG_SECTION_BYTES_MAX - 1024;
    buffer_init(to, LOG_SECTION_BYTES_MAX);
    if (buffer_append_slice(to, SLICE(NONSENSE)) || buffer_append_slice(to, slice_of(reason)) ||
        buffer_append_slice(to, SLICE("\n")) ||
        buffer_append(to, raw.data, raw.size < room ? raw.size : room))
        abort(); /* no memory */
}

static void take_message(struct kafka_log *log, const rd_kafka_message_t *message)
{
    struct consumer *consumer = &log->consumer;
    unsigned number = (unsigned)message->partition;
    struct slice text = {message->payload ? message->payload : "", message->len};
    struct slice section;
    struct error error;
    struct buffer nonsense = {0};
    enum err err = event_json_read(&consumer->json, text, &section, &error);
    if (err) {
        consumer_make_nonsense(&nonsense, text, error.text);
        section = buffer_slice(&nonsense);
    }
    uint64_t offset = (uint64_t)message->offset;
    pthread_mutex_lock(&consumer->mutex);
    struct in_lane *lane = &consumer->lanes[number];
    if (is_expected(lane, number, offset))
        lane_queue_put(lane, offset + 1, section);
    if (consumer->ends[number] <= offset)
        consumer->ends[number] = offset + 1;
    pthread_mutex_unlock(&consumer->mutex);
    if (err) {
        message_warning("a message of the log is not an event partition=%u offset=%" PRIu64
                        " reason=\"%s\"",
                        number, offset, error.text);
        buffer_done(&nonsense);
    }
}

static void fetch(struct kafka_log *log)
{
    static _Thread_local rd_kafka_message_t *messages[BATCH];
    ssize_t count = rd_kafka_consume_batch_queue(log->consumer.queue, POLL_MS, messages, BATCH);
    for (ssize_t i = 0; i < count; i++) {
        if (messages[i]->err)
            meet_error(log, messages[i]);
        else if (messages[i]->partition >= 0 && messages[i]->partition < (int)LIMIT_CELLS)
            take_message(log, messages[i]);
        rd_kafka_message_destroy(messages[i]);
    }
}

/* ---- the group's view, for tools ---- */

static void commit(struct kafka_log *log)
{
    struct consumer *consumer = &log->consumer;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    pthread_mutex_lock(&consumer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct in_lane *lane = &consumer->lanes[i];
        if (!lane->is_owned || lane->released == lane->committed)
            continue;
        lane->committed = lane->released;
        rd_kafka_topic_partition_list_add(list, log->url.topic, (int32_t)i)->offset =
            (int64_t)lane->released;
    }
    pthread_mutex_unlock(&consumer->mutex);
    if (list->cnt > 0)
        (void)rd_kafka_commit(consumer->group, list, 1);
    rd_kafka_topic_partition_list_destroy(list);
}

/* ---- the thread ---- */

static bool is_stopping(struct consumer *consumer)
{
    pthread_mutex_lock(&consumer->mutex);
    bool is_stopping = consumer->is_stopping;
    pthread_mutex_unlock(&consumer->mutex);
    return is_stopping;
}

static void *run(void *arg)
{
    struct kafka_log *log = arg;
    struct consumer *consumer = &log->consumer;
    while (!is_stopping(consumer)) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer->group, 0);
        if (message)
            rd_kafka_message_destroy(message); /* only errors can come */
        change_lanes(log);
        fetch(log);
        pause_lanes(log);
        uint64_t now_ns = env_monotonic_ns(log->env);
        if (now_ns >= consumer->commit_ns) {
            commit(log);
            consumer->commit_ns = now_ns + (uint64_t)COMMIT_EVERY_MS * MS_NS;
        }
    }
    commit(log);
    return NULL;
}

/* ---- life ---- */

static void check_setting(const rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[64];
    size_t size = sizeof(text);
    bool is_set =
        rd_kafka_conf_get(conf, name, text, &size) == RD_KAFKA_CONF_OK && strcmp(text, value) == 0;
    assert(is_set);
    (void)is_set;
}

static enum err make_conf(struct kafka_log *log, const char *group, rd_kafka_conf_t **ret_conf,
                          struct error *error)
{
    rd_kafka_conf_t *conf;
    char session[16];
    char heartbeat[16];
    enum err err = kafka_conf(log, &conf, error);
    if (err)
        return err;
    (void)snprintf(session, sizeof(session), "%u", log->session_ms);
    (void)snprintf(heartbeat, sizeof(heartbeat), "%u", log->session_ms / 5);
    kafka_conf_set(conf, "group.id", group);
    kafka_conf_set(conf, "session.timeout.ms", session);
    kafka_conf_set(conf, "heartbeat.interval.ms", heartbeat);
    kafka_conf_set(conf, "partition.assignment.strategy", "cooperative-sticky");
    kafka_conf_set(conf, "enable.auto.commit", "false");
    kafka_conf_set(conf, "enable.auto.offset.store", "false");
    kafka_conf_set(conf, "auto.offset.reset", "error");
    kafka_conf_set(conf, "fetch.wait.max.ms", "100");
    kafka_conf_set(conf, "fetch.error.backoff.ms", "100");
    kafka_conf_set(conf, "queued.max.messages.kbytes", "32768");
    kafka_conf_set(conf, "allow.auto.create.topics", "false");
    /* Where the store is, is where we go on: Kafka's own positions decide nothing. */
    check_setting(conf, "enable.auto.commit", "false");
    check_setting(conf, "auto.offset.reset", "error");
    *ret_conf = conf;
    return ERR_OK;
}

static enum err make_client(struct kafka_log *log, const char *group, bool is_member,
                            rd_kafka_t **ret_kafka, struct error *error)
{
    char text[TEXT_BYTES];
    rd_kafka_conf_t *conf;
    enum err err = make_conf(log, group, &conf, error);
    if (err)
        return err;
    if (is_member) {
        rd_kafka_conf_set_opaque(conf, log);
        rd_kafka_conf_set_rebalance_cb(conf, rebalance);
    }
    rd_kafka_t *kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
    if (!kafka) {
        rd_kafka_conf_destroy(conf);
        return error_set(error, ERR_INVALID, "the log's consumer: %s", text);
    }
    (void)rd_kafka_poll_set_consumer(kafka);
    *ret_kafka = kafka;
    return ERR_OK;
}

enum err consumer_make_reader(struct kafka_log *log, rd_kafka_t **ret_kafka, struct error *error)
{
    char group[sizeof(log->group) + 16];
    (void)snprintf(group, sizeof(group), "%s-scan", log->group);
    return make_client(log, group, false, ret_kafka, error);
}

static enum err subscribe(struct kafka_log *log, struct error *error)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, log->url.topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(log->consumer.group, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    return code ? error_set(error, ERR_INVALID, "the log's consumer: %s", rd_kafka_err2str(code))
                : ERR_OK;
}

enum err consumer_start(struct kafka_log *log, struct error *error)
{
    struct consumer *consumer = &log->consumer;
    char fetch_group[sizeof(log->group) + 16];
    (void)snprintf(fetch_group, sizeof(fetch_group), "%s-fetch", log->group);
    enum err err = make_client(log, log->group, true, &consumer->group, error);
    if (!err)
        err = make_client(log, fetch_group, false, &consumer->fetch, error);
    if (!err)
        err = subscribe(log, error);
    if (err)
        return err;
    consumer->queue = rd_kafka_queue_get_consumer(consumer->fetch);
    if (pthread_create(&consumer->thread, NULL, run, log) != 0)
        abort();
    consumer->runs = true;
    return ERR_OK;
}

void consumer_stop(struct kafka_log *log)
{
    struct consumer *consumer = &log->consumer;
    if (consumer->runs) {
        pthread_mutex_lock(&consumer->mutex);
        consumer->is_stopping = true;
        pthread_mutex_unlock(&consumer->mutex);
        pthread_join(consumer->thread, NULL);
        consumer->runs = false;
    }
    if (consumer->queue)
        rd_kafka_queue_destroy(consumer->queue);
    if (consumer->group) {
        (void)rd_kafka_consumer_close(consumer->group); /* leaves the group */
        rd_kafka_destroy(consumer->group);
    }
    if (consumer->fetch) {
        (void)rd_kafka_consumer_close(consumer->fetch);
        rd_kafka_destroy(consumer->fetch);
    }
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        lane_queue_forget(&consumer->lanes[i]);
}
