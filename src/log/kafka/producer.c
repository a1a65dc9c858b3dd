/* producer.c - appending: an idempotent producer, acknowledged by all replicas in sync.
 *
 * librdkafka tries for ever, in order. What it gives up nevertheless (a message that the broker
 * refuses, a fatal error) must not leave a gap: everything of all lanes that was not acknowledged
 * is then sent again, in order, by a new producer. Then some of it may be there twice; its
 * sequences tell. Nothing can be there without what comes before it: the broker takes messages of
 * one producer and partition in the order of their numbers only. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/message.h"
#include "base/varint.h"
#include "log/kafka/own.h"

#define POLL_MS        20
#define STALL_MS       ((uint64_t)1000) /* without an acknowledgement, when closing */
#define AGAIN_MS       200u             /* between one producer and the next */
#define RAW_MAX        (200u << 10)
#define OFFSET_UNKNOWN (-1)

/* ---- appending ---- */

static struct message *message_new(unsigned lane, struct slice text)
{
    struct message *message = memory_take(sizeof(*message) + text.size);
    *message = (struct message){.node.size = text.size, .lane = lane};
    memcpy(message->data, text.data, text.size);
    return message;
}

static void push(struct out_lane *lane, struct message *message)
{
    fifo_push(&lane->messages, &message->node);
    if (!lane->unsent)
        lane->unsent = &message->node;
}

/* Hands what is not yet in librdkafka's hands over, in order, as far as it has room. */
static void pump(struct producer *producer, struct out_lane *lane)
{
    while (lane->unsent) {
        struct message *message = (struct message *)lane->unsent;
        char key[12];
        int size = snprintf(key, sizeof(key), "%u", message->lane);
        if (rd_kafka_produce(producer->topic, (int32_t)message->lane, 0, message->data,
                             message->node.size, key, (size_t)size, message) != 0) {
            producer->has_unsent = true;
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                (void)snprintf(producer->reason, sizeof(producer->reason), "%.199s",
                               rd_kafka_err2str(rd_kafka_last_error()));
            return;
        }
        lane->unsent = message->node.next;
    }
}

static unsigned lane_of(struct slice header)
{
    uint64_t origin = 0;
    const char *at = varint_get(header.data, header.data + header.size, &origin);
    assert(at && origin < LIMIT_CELLS);
    (void)at;
    return (unsigned)origin;
}

/* The messages of a section go to the lane; the last one carries the ticket. */
static void push_section(struct producer *producer, unsigned number, struct slice section,
                         uint64_t ticket)
{
    struct out_lane *lane = &producer->lanes[number];
    struct section_reader reader;
    bool is_sound = section_open(&reader, section, NULL) == ERR_OK;
    do {
        is_sound =
            is_sound && event_json_write(&reader, MESSAGE_BYTES, &producer->json, NULL) == ERR_OK;
        if (!is_sound) {
            size_t size = section.size < RAW_MAX ? section.size : RAW_MAX;
            event_json_write_raw(number, (struct slice){section.data, size}, &producer->json);
        }
        push(lane, message_new(number, buffer_slice(&producer->json)));
    } while (is_sound && reader.left > 0);
    struct message *last = (struct message *)lane->messages.last;
    last->ticket = ticket;
    last->pending = (uint32_t)section.size;
}

uint64_t producer_append(struct kafka_log *log, struct slice header, struct slice body)
{
    struct producer *producer = &log->producer;
    unsigned number = lane_of(header);
    struct out_lane *lane = &producer->lanes[number];
    char *bytes = memory_take(header.size + body.size);
    memcpy(bytes, header.data, header.size);
    if (body.size > 0)
        memcpy(bytes + header.size, body.data, body.size);
    struct slice section = {bytes, header.size + body.size};

    pthread_mutex_lock(&producer->mutex);
    uint64_t ticket = ++lane->appended;
    if (producer->pending_bytes == 0)
        producer->sent_ns = env_monotonic_ns(log->env);
    producer->pending_bytes += section.size;
    push_section(producer, number, section, ticket);
    if (producer->is_ready && !producer->has_failed)
        pump(producer, lane);
    pthread_mutex_unlock(&producer->mutex);
    free(bytes);
    return ticket;
}

/* ---- acknowledgements, on the producer's thread ---- */

/* Offsets have no gaps: one between two of ours is a message of somebody else. An offset that is
 * not known, since the broker had the message already, counts as one. */
static void look_for_others(struct out_lane *lane, int64_t offset)
{
    bool is_known = offset >= 0;
    if (!is_known || offset != lane->next_offset)
        atomic_store_explicit(&lane->alone, lane->reached + 1, memory_order_relaxed);
    lane->next_offset = is_known ? offset + 1 : OFFSET_UNKNOWN;
}

static void acknowledge(struct kafka_log *log, const rd_kafka_message_t *report)
{
    struct producer *producer = &log->producer;
    struct message *message = report->_private;
    struct out_lane *lane = &producer->lanes[message->lane];
    if (lane->messages.first != &message->node)
        return; /* one before it has failed: it is sent again with that */
    (void)fifo_pop(&lane->messages);
    if (lane->unsent == &message->node)
        lane->unsent = message->node.next;
    producer->sent_ns = env_monotonic_ns(log->env);
    producer->has_acked = true;
    producer->reason[0] = '\0'; /* of an outage that is over */
    producer->stats.groups++;
    producer->stats.bytes += message->node.size;
    look_for_others(lane, report->offset);
    if (message->ticket > 0) {
        producer->pending_bytes -= message->pending;
        producer->stats.sections++;
        atomic_store_explicit(&lane->reached, message->ticket, memory_order_release);
    }
    consumer_note_appended(log, message->lane, report->offset);
    free(message);
}

static void note_report(rd_kafka_t *kafka, const rd_kafka_message_t *report, void *arg)
{
    (void)kafka;
    struct kafka_log *log = arg;
    struct producer *producer = &log->producer;
    pthread_mutex_lock(&producer->mutex);
    if (report->err) {
        if (!producer->has_failed)
            (void)snprintf(producer->reason, sizeof(producer->reason), "%.199s",
                           rd_kafka_err2str(report->err));
        producer->has_failed = true;
    } else {
        acknowledge(log, report);
    }
    pthread_mutex_unlock(&producer->mutex);
}

static void note_error(rd_kafka_t *kafka, int code, const char *reason, void *arg)
{
    (void)kafka;
    struct producer *producer = &((struct kafka_log *)arg)->producer;
    pthread_mutex_lock(&producer->mutex);
    if (code == RD_KAFKA_RESP_ERR__FATAL)
        producer->has_failed = true;
    (void)snprintf(producer->reason, sizeof(producer->reason), "%.199s", reason);
    pthread_mutex_unlock(&producer->mutex);
}

/* ---- a producer of librdkafka ---- */

static enum err make_conf(struct kafka_log *log, rd_kafka_conf_t **ret_conf, struct error *error)
{
    rd_kafka_conf_t *conf;
    char linger[32];
    enum err err = kafka_conf(log, &conf, error);
    if (err)
        return err;
    (void)snprintf(linger, sizeof(linger), "%.3f", log->linger_us / 1000.0);
    kafka_conf_set(conf, "enable.idempotence", "true");
    kafka_conf_set(conf, "enable.gapless.guarantee", "true");
    kafka_conf_set(conf, "acks", "all");
    kafka_conf_set(conf, "message.timeout.ms", "0"); /* never give up */
    kafka_conf_set(conf, "linger.ms", linger);
    kafka_conf_set(conf, "retry.backoff.ms", "50");
    kafka_conf_set(conf, "compression.type", "lz4");
    kafka_conf_set(conf, "queue.buffering.max.messages", "1000000");
    rd_kafka_conf_set_dr_msg_cb(conf, note_report);
    rd_kafka_conf_set_error_cb(conf, note_error);
    rd_kafka_conf_set_opaque(conf, log);
    *ret_conf = conf;
    return ERR_OK;
}

static enum err make_producer(struct kafka_log *log, struct error *error)
{
    rd_kafka_conf_t *conf;
    char text[TEXT_BYTES];
    enum err err = make_conf(log, &conf, error);
    if (err)
        return err;
    rd_kafka_t *kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (!kafka) {
        rd_kafka_conf_destroy(conf);
        return error_set(error, ERR_INVALID, "the log's producer: %s", text);
    }
    log->producer.kafka = kafka;
    log->producer.topic = rd_kafka_topic_new(kafka, log->url.topic, NULL);
    return ERR_OK;
}

static void free_producer(struct producer *producer)
{
    if (!producer->kafka)
        return;
    rd_kafka_topic_destroy(producer->topic);
    rd_kafka_destroy(producer->kafka);
    producer->topic = NULL;
    producer->kafka = NULL;
}

/* Everything that waits goes to a new producer. The old one lets go of our bytes first. */
static void begin_again(struct kafka_log *log)
{
    struct producer *producer = &log->producer;
    message_warning("the log did not take an event: everything that waits is sent again "
                    "reason=\"%s\"",
                    producer->reason);
    (void)rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    (void)rd_kafka_flush(producer->kafka, (int)AGAIN_MS); /* what is known by now */
    struct timespec moment = {.tv_nsec = AGAIN_MS * (long)MS_NS};
    nanosleep(&moment, NULL);

    free_producer(producer); /* nobody produces while has_failed is set */
    struct error error;
    if (make_producer(log, &error)) {
        message_error("%s", error.text);
        abort(); /* the same settings were good before */
    }
    pthread_mutex_lock(&producer->mutex);
    producer->has_failed = false;
    producer->has_unsent = true;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        producer->lanes[i].unsent = producer->lanes[i].messages.first;
    pthread_mutex_unlock(&producer->mutex);
}

/* ---- health ---- */

void producer_set_down(struct kafka_log *log, bool is_down, const char *reason)
{
    struct producer *producer = &log->producer;
    uint64_t now_ms = (uint64_t)env_wall_ms(log->env);
    pthread_mutex_lock(&producer->mutex);
    uint64_t since_ms = producer->stats.down_since_ms;
    producer->stats.down_since_ms = !is_down ? 0 : since_ms > 0 ? since_ms : now_ms;
    if (is_down && since_ms == 0)
        producer->down_ns = env_monotonic_ns(log->env);
    producer->has_acked = false;
    if (!is_down)
        producer->reason[0] = '\0';
    pthread_mutex_unlock(&producer->mutex);
    if (is_down && since_ms == 0)
        message_warning("the log does not take events: they wait reason=\"%s\"", reason);
    if (!is_down && since_ms > 0)
        message_info("the log takes events again seconds=%.1f",
                     (double)(now_ms - since_ms) / 1000.0);
}

/* Acknowledgements that stay out for long, while something waits for them. */
static void look_at_health(struct kafka_log *log, uint64_t now_ns)
{
    struct producer *producer = &log->producer;
    char reason[sizeof(producer->reason)];
    pthread_mutex_lock(&producer->mutex);
    bool is_late =
        producer->pending_bytes > 0 && now_ns - producer->sent_ns > log->answer_ms * MS_NS;
    bool is_back = producer->stats.down_since_ms > 0 && producer->has_acked;
    memcpy(reason, producer->reason, sizeof(reason));
    pthread_mutex_unlock(&producer->mutex);
    if (is_late)
        producer_set_down(log, true, reason[0] ? reason : "no acknowledgement");
    else if (is_back)
        producer_set_down(log, false, "");
}

/* ---- the thread ---- */

/* What librdkafka had no room for, or what has to be sent again. */
static void pump_all(struct producer *producer)
{
    pthread_mutex_lock(&producer->mutex);
    if (producer->has_unsent && producer->is_ready && !producer->has_failed) {
        producer->has_unsent = false;
        for (unsigned i = 0; i < LIMIT_CELLS; i++)
            pump(producer, &producer->lanes[i]);
    }
    pthread_mutex_unlock(&producer->mutex);
}

static bool is_finished(struct producer *producer, uint64_t now_ns, bool *ret_failed)
{
    pthread_mutex_lock(&producer->mutex);
    *ret_failed = producer->has_failed;
    /* While acknowledgements come, more of them are worth waiting for. */
    bool is_hopeless =
        now_ns >= producer->stop_ns && now_ns >= producer->sent_ns + STALL_MS * MS_NS;
    bool is_finished = producer->is_stopping && (producer->pending_bytes == 0 || is_hopeless);
    pthread_mutex_unlock(&producer->mutex);
    return is_finished;
}

static void *run(void *arg)
{
    struct kafka_log *log = arg;
    struct producer *producer = &log->producer;
    for (;;) {
        int reports = rd_kafka_poll(producer->kafka, POLL_MS);
        if (reports > 0)
            callback_run(&log->base.progress);
        uint64_t now_ns = env_monotonic_ns(log->env);
        bool has_failed;
        if (is_finished(producer, now_ns, &has_failed))
            return NULL;
        if (has_failed)
            begin_again(log);
        look_at_health(log, now_ns);
        pump_all(producer);
    }
}

enum err producer_start(struct kafka_log *log, struct error *error)
{
    enum err err = make_producer(log, error);
    if (err)
        return err;
    if (pthread_create(&log->producer.thread, NULL, run, log) != 0)
        abort();
    log->producer.runs = true;
    return ERR_OK;
}

void producer_set_ready(struct kafka_log *log)
{
    struct producer *producer = &log->producer;
    pthread_mutex_lock(&producer->mutex);
    producer->is_ready = true;
    producer->has_unsent = true;
    producer->sent_ns = env_monotonic_ns(log->env);
    pthread_mutex_unlock(&producer->mutex);
}

void producer_stop(struct kafka_log *log)
{
    struct producer *producer = &log->producer;
    if (producer->runs) {
        pthread_mutex_lock(&producer->mutex);
        producer->is_stopping = true;
        producer->stop_ns = env_monotonic_ns(log->env) + log->close_ms * MS_NS;
        pthread_mutex_unlock(&producer->mutex);
        pthread_join(producer->thread, NULL);
        producer->runs = false;
    }
    if (producer->pending_bytes > 0) {
        message_error("the log ends without what was not acknowledged yet bytes=%" PRIu64,
                      producer->pending_bytes);
        (void)rd_kafka_purge(producer->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    }
    free_producer(producer);
}
