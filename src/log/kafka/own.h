/* own.h - the Kafka log as its own files see it.
 *
 * librdkafka brings threads of its own; what it has to say is asked for by threads of ours: the
 * producer's (producer.c), in a process that follows the consumer's (consumer.c), and one that
 * looks around (look.c). Those who call append() and follow() meet them at the queues of the lanes,
 * under a mutex for each side. */
#ifndef LOG_KAFKA_OWN_H
#define LOG_KAFKA_OWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

#include "base/bell.h"
#include "base/buffer.h"
#include "base/env.h"
#include "base/fifo.h"
#include "core/limits.h"
#include "core/log.h"
#include "log/kafka/event_json.h"
#include "log/kafka/kafka.h"
#include "log/kafka/kafka_url.h"

#define MS_NS         1000000u
#define TEXT_BYTES    512u         /* librdkafka's words */
#define MESSAGE_BYTES (512u << 10) /* about the most of one; the brokers' limit is a MiB */

/* A message that Kafka does not have yet; a large section is several. */
struct message {
    struct fifo_node node; /* its size is the text's */
    unsigned lane;
    uint64_t ticket;  /* reached with this message; 0: the section goes on with the next */
    uint32_t pending; /* bytes of sections */
    char data[];
};

/* The producer's side of a lane. */
struct out_lane {
    struct fifo messages;     /* that are not acknowledged */
    struct fifo_node *unsent; /* oldest that librdkafka does not have */
    uint64_t appended;        /* tickets */
    int64_t next_offset;      /* behind what was acknowledged last */
    _Atomic uint64_t alone;   /* log.h; written before `reached` */
    _Atomic uint64_t reached;
};

struct producer {
    pthread_mutex_t mutex; /* guards what follows */
    struct out_lane lanes[LIMIT_CELLS];
    struct buffer json;
    uint64_t pending_bytes;
    struct log_stats stats;
    uint64_t down_ns; /* when it was said to be down, if it is */
    uint64_t sent_ns; /* of the oldest that waits, or when something was last acknowledged */
    bool is_ready;    /* the topic is there, and as it should be */
    bool has_unsent;  /* librdkafka had no room */
    bool has_failed;  /* a message has: all that waits is sent again by a new producer */
    bool has_acked;   /* something, since it was said to be down */
    bool is_stopping;
    bool runs;
    uint64_t stop_ns;
    char reason[200];
    pthread_t thread;
    rd_kafka_t *kafka; /* the thread's, but for producing under the mutex */
    rd_kafka_topic_t *topic;
};

/* A section that was fetched. */
struct fetched {
    struct fifo_node node; /* its size is the section's */
    uint64_t behind;       /* offset */
    char data[];
};

/* The consumer's side of a lane. */
struct in_lane {
    bool is_owned;
    bool is_wanted;   /* somebody follows it */
    bool must_seek;   /* the consumer is to begin at `fetched` */
    bool is_fetching; /* the consumer's: is assigned to the one that fetches */
    bool is_paused;   /* the consumer's */
    bool is_suspect;  /* an offset was missing: began there once more */
    bool is_lost;     /* Kafka does not have `fetched`: to be looked into */
    uint32_t generation;
    uint64_t at;      /* offsets: handed out up to here */
    uint64_t fetched; /* in the queue up to here */
    struct fifo queue;
    uint64_t released; /* offset + 1 that the store has; 0 = not known */
    uint64_t committed;
    enum err fault;
    char fault_text[200];
};

struct consumer {
    pthread_mutex_t mutex; /* guards what follows */
    struct in_lane lanes[LIMIT_CELLS];
    uint64_t ends[LIMIT_CELLS];
    bool is_stopping;
    bool runs;
    pthread_t thread;
    rd_kafka_t *group; /* the thread's, as all below: says which lanes are ours, fetches nothing */
    rd_kafka_t *fetch; /* fetches, from where we say */
    rd_kafka_queue_t *queue;
    struct event_json json;
    uint64_t commit_ns;
};

/* The one who looks around may be in a call that cannot be interrupted when the log is closed: then
 * it is left behind, and frees the log when it comes back. */
enum look_life {
    LOOK_RUNS,
    LOOK_ENDED,
    LOOK_LEFT,
};

/* Looks around, and tells of dead letters. */
struct look {
    rd_kafka_t *kafka; /* a producer without promises */
    struct bell bell;
    struct bell ended;
    _Atomic bool is_stopping; /* from then on only what the log itself owns is there */
    _Atomic enum look_life life;
    bool runs;
    pthread_t thread;
};

struct kafka_log {
    struct log base;
    struct env *env; /* borrowed */
    struct kafka_url url;
    char group[256];
    bool follows;
    uint64_t pending_bytes_max;
    uint64_t close_ms;
    uint64_t answer_ms;
    unsigned linger_us;
    unsigned session_ms;
    unsigned replicas;
    struct producer producer;
    struct consumer consumer;
    struct look look;
};

static inline struct kafka_log *kafka_log_of(struct log *base)
{
    return (struct kafka_log *)base;
}

/* kafka.c: settings that all clients of the log have; aborts on one that librdkafka does not know,
 * unless the URL brought it. */
enum err kafka_conf(const struct kafka_log *log, rd_kafka_conf_t **ret_conf, struct error *error);
/* How long brokers are waited for that are asked two things in turn: who leads, and then them. */
int kafka_patience_ms(const struct kafka_log *log);
/* Once nobody uses it. */
void kafka_free(struct kafka_log *log);
void kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value);

/* topic.c: creates or checks the topic. ERR_UNAVAILABLE: nobody answers, or the log is being
 * closed; ERR_INVALID: it is not as it should be. */
enum err topic_ensure(struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms,
                      struct error *error);
/* Where the partitions end; false: nobody answers. */
bool topic_ends(const struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms,
                uint64_t ends[LIMIT_CELLS]);
/* Where each of them begins and ends; false: not all of that was answered, and the others are as
 * they were. */
bool topic_bounds(const struct kafka_log *log, rd_kafka_t *kafka, int timeout_ms,
                  uint64_t begins[LIMIT_CELLS], uint64_t ends[LIMIT_CELLS]);

/* producer.c */
enum err producer_start(struct kafka_log *log, struct error *error);
void producer_stop(struct kafka_log *log);
void producer_set_ready(struct kafka_log *log);
void producer_set_down(struct kafka_log *log, bool is_down, const char *reason);
uint64_t producer_append(struct kafka_log *log, struct slice header, struct slice body);

/* consumer.c */
enum err consumer_start(struct kafka_log *log, struct error *error);
void consumer_stop(struct kafka_log *log);
void consumer_note_end(struct kafka_log *log, unsigned lane, uint64_t end);
/* A message of ours is there; `offset` is negative where the broker had it already, and nobody
 * knows. */
void consumer_note_appended(struct kafka_log *log, unsigned lane, int64_t offset);
/* Lanes whose offset Kafka does not have: was it thrown away, or is the topic another one? Asks
 * with the client, and waits for it. */
void consumer_find_lost(struct kafka_log *log, rd_kafka_t *kafka);
/* Another client that fetches from where it is told, for who reads beside those who follow. */
enum err consumer_make_reader(struct kafka_log *log, rd_kafka_t **ret_kafka, struct error *error);
/* Bytes that make no sense go on as such, with the reason in front: they become a dead letter. */
void consumer_make_nonsense(struct buffer *to, struct slice raw, const char *reason);

/* scan.c */
enum err kafka_scan_lanes(struct kafka_log *log, struct log_scan *scan, struct error *error);

/* lane_queue.c: the queues. All under the mutex but lane_queue_follow(). */
enum err lane_queue_follow(struct kafka_log *log, unsigned number, struct log_position *at,
                           uint64_t limit, log_visit_fn *visit, void *arg, struct error *error);
void lane_queue_forget(struct in_lane *lane);
void lane_queue_put(struct in_lane *lane, uint64_t behind, struct slice section);
void lane_queue_fault(struct in_lane *lane, enum err fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* look.c: the topic, at the start and until it is there; where it ends; whether anybody answers. */
enum err look_start(struct kafka_log *log, struct error *error);
/* A look takes a while to end: say so first, end the others, then wait for it for a moment. False:
 * it goes on and frees the log, which is not the caller's any more. */
void look_begin_stop(struct kafka_log *log);
bool look_stop(struct kafka_log *log);
static inline bool look_is_stopping(const struct kafka_log *log)
{
    return atomic_load(&log->look.is_stopping);
}

/* letters.c */
void letters_tell(struct kafka_log *log, const struct log_letter *letter);

#endif
