/* scan.c - reading all that the topic has, beside those who follow it.
 *
 * A client of its own, without a group and without a thread of ours: it is told where the lanes
 * begin, and reads until it is where they ended when it was asked. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "log/kafka/own.h"

#define BOUNDS_MS  5000u /* at least */
#define POLL_MS    100
#define SILENCE_MS 15000u /* at least; nothing has come for so long: nobody answers */
#define BATCH      1000u

struct reading {
    struct kafka_log *log;
    struct log_scan *scan;
    rd_kafka_t *kafka;       /* owned */
    rd_kafka_queue_t *queue; /* owned */
    struct event_json json;
    uint64_t next[LIMIT_CELLS]; /* offsets */
    uint64_t ends[LIMIT_CELLS];
    unsigned left; /* lanes that are not at their end yet */
    uint64_t visited;
};

/* Brokers that answer as slowly as they may are waited for. */
static uint64_t at_least(const struct reading *reading, uint64_t ms)
{
    uint64_t patience_ms = (uint64_t)kafka_patience_ms(reading->log);
    return patience_ms > ms ? patience_ms : ms;
}

/* ---- where ---- */

/* A topic that is new has its leaders a moment later. */
static enum err ask_bounds(struct reading *reading, uint64_t begins[LIMIT_CELLS],
                           struct error *error)
{
    struct env *env = reading->log->env;
    uint64_t until_ns = env_monotonic_ns(env) + at_least(reading, SILENCE_MS) * MS_NS;
    int bounds_ms = (int)at_least(reading, BOUNDS_MS);
    while (!topic_bounds(reading->log, reading->kafka, bounds_ms, begins, reading->ends)) {
        if (env_monotonic_ns(env) > until_ns)
            return error_set(error, ERR_UNAVAILABLE, "the log does not answer");
        struct timespec moment = {.tv_nsec = 50 * (long)MS_NS};
        nanosleep(&moment, NULL);
    }
    return ERR_OK;
}

static enum err set_bounds(struct reading *reading, struct error *error)
{
    struct log_scan *scan = reading->scan;
    uint64_t begins[LIMIT_CELLS] = {0};
    enum err err = ask_bounds(reading, begins, error);
    if (err)
        return err;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        uint64_t at = scan->at[lane].offset;
        if (at == 0 && begins[lane] > 0)
            scan->cut |= UINT64_C(1) << lane;
        else if (at < begins[lane])
            return error_set(error, ERR_NOT_FOUND,
                             "lane %u of the log was trimmed: offset %" PRIu64
                             " is wanted, the topic begins with %" PRIu64 " (retention)",
                             lane, at, begins[lane]);
        reading->next[lane] = at > begins[lane] ? at : begins[lane];
        reading->left += reading->next[lane] < reading->ends[lane];
    }
    if (scan->must_be_whole && scan->cut != 0)
        return error_set(error, ERR_OUT_OF_RANGE, "the log does not reach back to its beginning");
    return ERR_OK;
}

static enum err assign(struct reading *reading, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(LIMIT_CELLS);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        if (reading->next[lane] < reading->ends[lane])
            rd_kafka_topic_partition_list_add(list, reading->log->url.topic, (int32_t)lane)
                ->offset = (int64_t)reading->next[lane];
    rd_kafka_resp_err_t code = rd_kafka_assign(reading->kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code ? error_set(error, ERR_UNAVAILABLE, "the log: %s", rd_kafka_err2str(code)) : ERR_OK;
}

/* ---- what comes ---- */

static enum err visit(struct reading *reading, unsigned lane, const rd_kafka_message_t *message,
                      struct error *error)
{
    struct log_scan *scan = reading->scan;
    struct slice text = {message->payload ? message->payload : "", message->len};
    struct log_position next = {.offset = (uint64_t)message->offset + 1};
    struct slice section;
    struct error why;
    struct buffer nonsense = {0};
    bool makes_sense = !event_json_read(&reading->json, text, &section, &why);
    if (!makes_sense) {
        consumer_make_nonsense(&nonsense, text, why.text);
        section = buffer_slice(&nonsense);
    }
    enum err err = scan->visit(scan->arg, lane, section, next, error);
    if (!makes_sense)
        buffer_done(&nonsense);
    return err;
}

static enum err take(struct reading *reading, const rd_kafka_message_t *message,
                     struct error *error)
{
    if (message->partition < 0 || message->partition >= (int)LIMIT_CELLS)
        return ERR_OK;
    unsigned lane = (unsigned)message->partition;
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        message->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        return error_set(error, ERR_NOT_FOUND, "lane %u of the log was trimmed while it was read",
                         lane);
    uint64_t offset = (uint64_t)message->offset;
    if (message->err || offset < reading->next[lane] || offset >= reading->ends[lane])
        return ERR_OK;
    if (offset > reading->next[lane])
        return error_set(error, ERR_NOT_FOUND,
                         "lane %u of the log has a gap: offset %" PRIu64 " comes behind %" PRIu64,
                         lane, offset, reading->next[lane]);
    enum err err = visit(reading, lane, message, error);
    if (err)
        return err;
    reading->visited++;
    reading->next[lane] = offset + 1;
    reading->scan->at[lane] = (struct log_position){.offset = offset + 1};
    reading->left -= offset + 1 == reading->ends[lane];
    return ERR_OK;
}

static enum err read_all(struct reading *reading, struct error *error)
{
    struct env *env = reading->log->env;
    rd_kafka_message_t *messages[BATCH];
    uint64_t heard_ns = env_monotonic_ns(env);
    enum err err = ERR_OK;
    while (!err && reading->left > 0) {
        ssize_t count = rd_kafka_consume_batch_queue(reading->queue, POLL_MS, messages, BATCH);
        uint64_t before = reading->visited;
        for (ssize_t i = 0; i < count; i++) {
            err = err ? err : take(reading, messages[i], error);
            rd_kafka_message_destroy(messages[i]);
        }
        if (reading->visited > before)
            heard_ns = env_monotonic_ns(env);
        else if (!err && env_monotonic_ns(env) > heard_ns + at_least(reading, SILENCE_MS) * MS_NS)
            err = error_set(error, ERR_UNAVAILABLE, "the log does not answer");
    }
    return err;
}

enum err kafka_scan_lanes(struct kafka_log *log, struct log_scan *scan, struct error *error)
{
    struct reading reading = {.log = log, .scan = scan};
    enum err err = consumer_make_reader(log, &reading.kafka, error);
    if (err)
        return err;
    event_json_init(&reading.json);
    reading.queue = rd_kafka_queue_get_consumer(reading.kafka);
    err = set_bounds(&reading, error);
    if (!err && reading.left > 0) {
        err = assign(&reading, error);
        if (!err)
            err = read_all(&reading, error);
    }
    rd_kafka_queue_destroy(reading.queue);
    (void)rd_kafka_consumer_close(reading.kafka);
    rd_kafka_destroy(reading.kafka);
    event_json_done(&reading.json);
    return err;
}
