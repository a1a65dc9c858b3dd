/* look.c - a thread that looks around: asking may take a while, and nobody else is to wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "log/kafka/own.h"

#define ENSURE_MS  5000 /* of the topic, at a start */
#define EVERY_MS   1000
#define LOOK_MS    5000 /* at most: the end waits for it */
#define LETTERS_MS 2000 /* to be rid of dead letters, at the end */

/* How long a look may take: the leaders are asked for, and then asked. */
static int look_ms(const struct kafka_log *log)
{
    uint64_t both_ms = 2 * log->answer_ms + EVERY_MS;
    return both_ms < LOOK_MS ? (int)both_ms : LOOK_MS;
}

/* The ends of the lanes, which others append to as well. Who answers is there. */
static void look_at_ends(struct kafka_log *log)
{
    struct producer *producer = &log->producer;
    uint64_t ends[LIMIT_CELLS] = {0};
    bool is_there = topic_ends(log, log->look.kafka, look_ms(log), ends);
    for (unsigned i = 0; i < LIMIT_CELLS && is_there; i++)
        consumer_note_end(log, i, ends[i]);
    pthread_mutex_lock(&producer->mutex);
    bool is_idle = producer->pending_bytes == 0;
    char reason[sizeof(producer->reason)];
    memcpy(reason, producer->reason, sizeof(reason));
    pthread_mutex_unlock(&producer->mutex);
    if (is_idle) /* else acknowledgements tell */
        producer_set_down(log, !is_there, reason[0] ? reason : "no answer");
}

static void *run(void *arg)
{
    struct kafka_log *log = arg;
    bool is_ready = log->producer.is_ready;
    bool is_told = false;
    while (!atomic_load(&log->look.is_stopping)) {
        (void)rd_kafka_poll(log->look.kafka, 0);
        if (is_ready) {
            look_at_ends(log);
        } else {
            struct error error;
            enum err err = topic_ensure(log, log->look.kafka, look_ms(log), &error);
            if (err == ERR_INVALID && !is_told)
                message_error("the log cannot be used: %s", error.text);
            is_told = err == ERR_INVALID;
            is_ready = !err;
            if (is_ready)
                producer_set_ready(log);
        }
        (void)bell_wait(&log->look.bell, EVERY_MS);
    }
    return NULL;
}

static enum err make_client(struct kafka_log *log, struct error *error)
{
    char text[TEXT_BYTES];
    rd_kafka_conf_t *conf;
    enum err err = kafka_conf(log, &conf, error);
    if (err)
        return err;
    log->look.kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof(text));
    if (log->look.kafka)
        return ERR_OK;
    rd_kafka_conf_destroy(conf);
    return error_set(error, ERR_INVALID, "the log's client: %s", text);
}

enum err look_start(struct kafka_log *log, struct error *error)
{
    struct error why;
    enum err err = make_client(log, error);
    if (err)
        return err;
    err = topic_ensure(log, log->look.kafka, ENSURE_MS, &why);
    if (err && err != ERR_UNAVAILABLE)
        return error_set(error, err, "%s", why.text);
    log->producer.is_ready = !err;
    if (err)
        producer_set_down(log, true, why.text);
    else
        look_at_ends(log);
    if (pthread_create(&log->look.thread, NULL, run, log) != 0)
        abort();
    log->look.runs = true;
    return ERR_OK;
}

void look_begin_stop(struct kafka_log *log)
{
    atomic_store(&log->look.is_stopping, true);
    bell_ring(&log->look.bell);
}

void look_stop(struct kafka_log *log)
{
    struct look *look = &log->look;
    if (look->runs) {
        look_begin_stop(log);
        pthread_join(look->thread, NULL);
        look->runs = false;
    }
    if (!look->kafka)
        return;
    (void)rd_kafka_flush(look->kafka, LETTERS_MS);
    (void)rd_kafka_purge(look->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(look->kafka);
    look->kafka = NULL;
}
