#include "log/kafka/kafka.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "log/kafka/own.h"

#define PENDING_BYTES_MAX ((uint64_t)64 << 20)
#define CLOSE_MS          10000u
#define ANSWER_MS         2000u
#define PROBE_MS          5000u  /* down for so long, with nothing under way: try one event */
#define GREETING_MS       10000u /* a new connection's first answer, at least */
#define LINGER_US         500u
#define PATIENCE_MS       1000u /* beside what the two answers may take */
#define SESSION_MS        10000u

/* ---- settings ---- */

void kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[TEXT_BYTES];
    if (rd_kafka_conf_set(conf, name, value, text, sizeof(text)) != RD_KAFKA_CONF_OK) {
        message_error("a setting of librdkafka is not known to it name=%s reason=\"%s\"", name,
                      text);
        abort();
    }
}

int kafka_patience_ms(const struct kafka_log *log)
{
    return (int)(2 * log->answer_ms + PATIENCE_MS);
}

/* librdkafka's own lines: what matters of them we say ourselves, once. */
static void say(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
    (void)kafka;
    if (level <= 2)
        message_warning("kafka: %s facility=%s", text, facility);
    else
        message_debug("kafka: %s facility=%s", text, facility);
}

enum err kafka_conf(const struct kafka_log *log, rd_kafka_conf_t **ret_conf, struct error *error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    uint64_t greeting_ms = log->answer_ms > GREETING_MS ? log->answer_ms : GREETING_MS;
    char greeting[24];
    (void)snprintf(greeting, sizeof(greeting), "%" PRIu64, greeting_ms);
    kafka_conf_set(conf, "bootstrap.servers", log->url.brokers);
    kafka_conf_set(conf, "client.id", "tally");
    kafka_conf_set(conf, "socket.keepalive.enable", "true");
    kafka_conf_set(conf, "reconnect.backoff.ms", "50");
    kafka_conf_set(conf, "reconnect.backoff.max.ms", "1000");
    kafka_conf_set(conf, "log.connection.close", "false");
    kafka_conf_set(conf, "api.version.request.timeout.ms", greeting);
    rd_kafka_conf_set_log_cb(conf, say);
    for (unsigned i = 0; i < log->url.setting_count; i++) {
        char text[TEXT_BYTES];
        if (rd_kafka_conf_set(conf, log->url.settings[i].name, log->url.settings[i].value, text,
                              sizeof(text)) != RD_KAFKA_CONF_OK) {
            rd_kafka_conf_destroy(conf);
            return error_set(error, ERR_INVALID, "the log's URL: %s", text);
        }
    }
    *ret_conf = conf;
    return ERR_OK;
}

/* ---- the port ---- */

static uint64_t kafka_append(struct log *base, struct slice header, struct slice body)
{
    return producer_append(kafka_log_of(base), header, body);
}

/* A log that is down comes back with an acknowledgement, so something must be under way: when
 * nothing is, one event is let in from time to time. Under the producer's mutex. */
static bool may_probe(const struct kafka_log *log)
{
    const struct producer *producer = &log->producer;
    return producer->pending_bytes == 0 && producer->is_ready &&
           env_monotonic_ns(log->env) - producer->down_ns > (uint64_t)PROBE_MS * MS_NS;
}

static enum err kafka_room(struct log *base)
{
    struct kafka_log *log = kafka_log_of(base);
    struct producer *producer = &log->producer;
    pthread_mutex_lock(&producer->mutex);
    bool is_down = producer->stats.down_since_ms != 0 && !may_probe(log);
    bool is_full = producer->pending_bytes >= log->pending_bytes_max;
    pthread_mutex_unlock(&producer->mutex);
    if (is_down)
        return ERR_UNAVAILABLE;
    return is_full ? ERR_BUSY : ERR_OK;
}

/* What all replicas in sync have is what Kafka calls durable. */
static uint64_t kafka_reached(struct log *base, unsigned lane, enum log_level level)
{
    (void)level;
    return atomic_load_explicit(&kafka_log_of(base)->producer.lanes[lane].reached,
                                memory_order_acquire);
}

static uint64_t kafka_alone(struct log *base, unsigned lane)
{
    return atomic_load_explicit(&kafka_log_of(base)->producer.lanes[lane].alone,
                                memory_order_relaxed);
}

static enum err kafka_follow(struct log *base, unsigned lane, struct log_position *at,
                             uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    return lane_queue_follow(kafka_log_of(base), lane, at, limit, visit, arg, error);
}

static enum err kafka_scan(struct log *base, struct log_scan *scan, struct error *error)
{
    return kafka_scan_lanes(kafka_log_of(base), scan, error);
}

static struct log_position kafka_end(struct log *base, unsigned lane)
{
    struct consumer *consumer = &kafka_log_of(base)->consumer;
    pthread_mutex_lock(&consumer->mutex);
    struct log_position end = {.offset = consumer->ends[lane]};
    pthread_mutex_unlock(&consumer->mutex);
    return end;
}

static uint64_t kafka_owned(struct log *base)
{
    struct consumer *consumer = &kafka_log_of(base)->consumer;
    uint64_t lanes = 0;
    pthread_mutex_lock(&consumer->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (consumer->lanes[i].is_owned)
            lanes |= UINT64_C(1) << i;
    pthread_mutex_unlock(&consumer->mutex);
    return lanes;
}

/* Kafka lets go of events by their age. What the store has is told to the group, for those who
 * look at its lag; nothing of ours reads it. */
static enum err kafka_release(struct log *base, unsigned number, struct log_position position,
                              struct error *error)
{
    (void)error;
    struct consumer *consumer = &kafka_log_of(base)->consumer;
    pthread_mutex_lock(&consumer->mutex);
    consumer->lanes[number].released = position.offset;
    pthread_mutex_unlock(&consumer->mutex);
    return ERR_OK;
}

static void kafka_dead(struct log *base, const struct log_letter *letter)
{
    letters_tell(kafka_log_of(base), letter);
}

static void kafka_stats(struct log *base, struct log_stats *ret_stats)
{
    struct producer *producer = &kafka_log_of(base)->producer;
    pthread_mutex_lock(&producer->mutex);
    *ret_stats = producer->stats;
    ret_stats->pending_bytes = producer->pending_bytes;
    pthread_mutex_unlock(&producer->mutex);
}

/* ---- life ---- */

void kafka_free(struct kafka_log *log)
{
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        for (struct fifo *messages = &log->producer.lanes[i].messages; messages->first;)
            free(fifo_pop(messages));
    buffer_done(&log->producer.json);
    event_json_done(&log->consumer.json);
    bell_done(&log->look.bell);
    bell_done(&log->look.ended);
    pthread_mutex_destroy(&log->producer.mutex);
    pthread_mutex_destroy(&log->consumer.mutex);
    free(log);
}

static void kafka_close(struct log *base)
{
    struct kafka_log *log = kafka_log_of(base);
    look_begin_stop(log);
    producer_stop(log);
    consumer_stop(log);
    if (look_stop(log))
        kafka_free(log);
}

static enum err kafka_start(struct log *base, struct error *error)
{
    struct kafka_log *log = kafka_log_of(base);
    enum err err = look_start(log, error);
    if (!err)
        err = producer_start(log, error);
    if (!err && log->follows)
        err = consumer_start(log, error);
    return err;
}

static const struct log_ops kafka_ops = {
    .name = "kafka",
    .start = kafka_start,
    .append = kafka_append,
    .room = kafka_room,
    .reached = kafka_reached,
    .alone = kafka_alone,
    .follow = kafka_follow,
    .scan = kafka_scan,
    .end = kafka_end,
    .owned = kafka_owned,
    .release = kafka_release,
    .dead = kafka_dead,
    .stats = kafka_stats,
    .close = kafka_close,
};

static void set_options(struct kafka_log *log, const struct kafka_log_options *options)
{
    if (options->group)
        (void)snprintf(log->group, sizeof(log->group), "%s", options->group);
    else
        (void)snprintf(log->group, sizeof(log->group), "tally-%s", log->url.topic);
    log->follows = options->follows;
    log->pending_bytes_max =
        options->pending_bytes_max > 0 ? options->pending_bytes_max : PENDING_BYTES_MAX;
    log->close_ms = options->close_ms > 0 ? options->close_ms : CLOSE_MS;
    log->answer_ms = options->answer_ms > 0 ? options->answer_ms : ANSWER_MS;
    log->linger_us = options->linger_us > 0 ? options->linger_us : LINGER_US;
    log->session_ms = options->session_ms > 0 ? options->session_ms : SESSION_MS;
    log->replicas = options->replicas;
}

enum err kafka_log_open(struct env *env, const struct kafka_log_options *options,
                        struct log **ret_log, struct error *error)
{
    assert(env && options && options->url && ret_log);

    struct kafka_url url;
    enum err err = kafka_url_parse(options->url, &url, error);
    if (err)
        return err;
    struct kafka_log *log = memory_take_zeroed(sizeof(*log));
    log->base.ops = &kafka_ops;
    log->base.lanes = LIMIT_CELLS;
    log->env = env;
    log->url = url;
    set_options(log, options);
    pthread_mutex_init(&log->producer.mutex, NULL);
    pthread_mutex_init(&log->consumer.mutex, NULL);
    bell_init(&log->look.bell);
    bell_init(&log->look.ended);
    buffer_init(&log->producer.json, 16 << 20);
    event_json_init(&log->consumer.json);
    *ret_log = &log->base;
    return ERR_OK;
}
