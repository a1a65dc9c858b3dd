/* look.c - a thread that looks around: asking may take a while, and nobody else is to wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "log/kafka/own.h"

#define START_MS   5000 /* at most: a start goes on without an answer */
#define EVERY_MS   1000
#define STOP_MS    2000 /* a look that takes longer is left behind */
#define LETTERS_MS 2000 /* to be rid of dead letters, at the end */

/* ---- one look ---- */

/* The ends of the lanes, which others append to as well. Who answers is there. */
static void look_at_ends(struct kafka_log *log, int timeout_ms)
{
    struct producer *producer = &log->producer;
    uint64_t ends[LIMIT_CELLS] = {0};
    bool is_there = topic_ends(log, log->look.kafka, timeout_ms, ends);
    if (look_is_stopping(log))
        return;
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

/* True once the topic is as it should be. */
static bool look_at_topic(struct kafka_log *log, bool *is_told)
{
    struct error error;
    enum err err = topic_ensure(log, log->look.kafka, kafka_patience_ms(log), &error);
    if (err == ERR_INVALID && !*is_told)
        message_error("the log cannot be used: %s", error.text);
    *is_told = err == ERR_INVALID;
    if (err || look_is_stopping(log))
        return false;
    producer_set_ready(log);
    return true;
}

/* ---- the thread ---- */

static void free_client(struct look *look)
{
    (void)rd_kafka_purge(look->kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_destroy(look->kafka);
    look->kafka = NULL;
}

static void end(struct kafka_log *log)
{
    struct look *look = &log->look;
    if (atomic_exchange(&look->life, LOOK_ENDED) != LOOK_LEFT) {
        bell_ring(&look->ended);
        return;
    }
    free_client(look);
    kafka_free(log);
}

static void *run(void *arg)
{
    struct kafka_log *log = arg;
    bool is_ready = log->producer.is_ready;
    bool is_told = false;
    while (!look_is_stopping(log)) {
        (void)rd_kafka_poll(log->look.kafka, 0);
        if (is_ready) {
            look_at_ends(log, kafka_patience_ms(log));
            consumer_find_lost(log, log->look.kafka);
        } else {
            is_ready = look_at_topic(log, &is_told);
        }
        if (!look_is_stopping(log))
            (void)bell_wait(&log->look.bell, EVERY_MS);
    }
    end(log);
    return NULL;
}

/* ---- life ---- */

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
    int patience_ms = kafka_patience_ms(log) < START_MS ? kafka_patience_ms(log) : START_MS;
    enum err err = make_client(log, error);
    if (err)
        return err;
    err = topic_ensure(log, log->look.kafka, START_MS, &why);
    if (err && err != ERR_UNAVAILABLE)
        return error_set(error, err, "%s", why.text);
    log->producer.is_ready = !err;
    if (err)
        producer_set_down(log, true, why.text);
    else
        look_at_ends(log, patience_ms);
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

bool look_stop(struct kafka_log *log)
{
    struct look *look = &log->look;
    if (look->runs) {
        pthread_t thread = look->thread;
        look_begin_stop(log);
        (void)bell_wait(&look->ended, STOP_MS);
        (void)rd_kafka_flush(look->kafka, LETTERS_MS);
        if (atomic_exchange(&look->life, LOOK_LEFT) == LOOK_RUNS) {
            pthread_detach(thread);
            return false;
        }
        pthread_join(thread, NULL);
        look->runs = false;
    }
    if (look->kafka)
        free_client(look);
    return true;
}
