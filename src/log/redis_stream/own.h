/* own.h - the Redis stream log as its own files see it.
 *
 * Two threads of the log's own talk to Redis: the writer (writer.c) and, in a process that
 * follows, the reader (reader.c, with leases.c). Those who call append() and follow() meet them at
 * the queues of the lanes, under a mutex for each side.
 *
 * An entry of a stream has the id of its last event, "<epoch>-<n>", and holds sections that follow
 * one another:
 *
 *   3-1007  first 1001  count 7  s <section> [s <section>...]
 *
 * Redis refuses an id that is not above the last one. So an entry that is sent again, after a lost
 * reply or by another node, is there once; and positions are the events' own sequences. */
#ifndef LOG_REDIS_STREAM_OWN_H
#define LOG_REDIS_STREAM_OWN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bell.h"
#include "base/buffer.h"
#include "base/env.h"
#include "base/fifo.h"
#include "core/limits.h"
#include "core/log.h"
#include "core/sequence.h"
#include "log/redis_stream/lane_key.h"
#include "log/redis_stream/links.h"
#include "log/redis_stream/redis_stream.h"
#include "log/redis_stream/stream_url.h"

#define ENTRY_SECTIONS_MAX 256u
#define ENTRY_BYTES_MAX    (256u << 10) /* more sections are not put together; one may be larger */
#define ID_BYTES           48u
#define MS_NS              1000000u

/* Sections that are or will be one entry. */
struct stream_entry {
    struct fifo_node node; /* the reader's has its size, the writer's grows */
    uint64_t first;        /* sequences */
    uint64_t last;
    uint64_t ticket; /* of the last section; writer only */
    uint32_t count;  /* sections */
    uint32_t sizes[ENTRY_SECTIONS_MAX];
    struct buffer bytes;
};

/* The writer's side of a lane. */
struct out_lane {
    struct fifo entries;
    bool is_sent;           /* the first one is under way: it stays as it is until it is there */
    bool is_old;            /* Redis has refused its id; the thread's */
    uint64_t appended;      /* tickets */
    _Atomic uint64_t alone; /* log.h; written before `reached` */
    _Atomic uint64_t reached;
    uint64_t try_ns; /* the server did not take it: not before */
    uint32_t failures;
};

struct writer {
    pthread_mutex_t mutex; /* guards what follows, but for what the thread has under way */
    struct bell bell;
    struct out_lane lanes[LIMIT_CELLS];
    uint64_t pending_bytes;
    struct log_stats stats;
    bool is_down; /* nobody answers */
    bool is_stopping;
    bool runs;
    uint64_t stop_ns; /* not later than this */
    pthread_t thread;
    struct links *links; /* the thread's */
    char reason[192];    /* the thread's: why an entry of the last round is not there */
    uint64_t probe_ns;   /* the thread's: next looks */
    uint64_t ends_ns;
};

/* How far the reader is with a lane. */
enum phase {
    PHASE_NONE,  /* nobody has asked for it yet, or it is not ours */
    PHASE_CLAIM, /* takes over what others were given and did not acknowledge */
    PHASE_SEEK,  /* sets the group to where we begin */
    PHASE_READ,
};

/* The reader's side of a lane. */
struct in_lane {
    uint64_t leased_ns; /* until then; 0 = not ours */
    enum phase phase;
    unsigned suspicions;    /* times that something seemed to be missing, one after the other */
    uint32_t generation;    /* grows when it begins anew */
    struct log_position at; /* handed out up to here */
    struct log_position fetched; /* in the queue up to here */
    struct fifo queue;
    uint32_t fetch_count;  /* entries to ask for */
    char cursor[ID_BYTES]; /* of claiming */
    uint64_t *given;       /* last sequences of entries that are not acknowledged, growing */
    size_t given_count;
    size_t given_room;
    struct log_position released;
    enum err fault;
    char fault_text[200];
};

struct reader {
    pthread_mutex_t mutex; /* guards what follows */
    struct bell bell;
    struct in_lane lanes[LIMIT_CELLS];
    struct log_position ends[LIMIT_CELLS];
    bool is_stopping;
    bool is_down;
    bool runs;
    pthread_t thread;
    struct links *links; /* the thread's, as all below */
    uint64_t lease_ns;   /* next looks */
    uint64_t tidy_ns;
    uint64_t trim_ns;
    unsigned share;
    uint64_t answer_ns; /* how long the last answer took */
};

struct stream_log {
    struct log base;
    struct env *env; /* borrowed */
    struct stream_url url;
    char group[64];
    char consumer[64];
    bool follows;
    uint64_t pending_bytes_max;
    uint64_t keep_ms;
    uint64_t answer_ms;
    uint64_t close_ms;
    char keys[LIMIT_CELLS][LANE_KEY_BYTES];   /* of the streams */
    char marks[LIMIT_CELLS][LANE_KEY_BYTES];  /* of what was released when */
    char leases[LIMIT_CELLS][LANE_KEY_BYTES]; /* of the leases */
    char waits[LIMIT_CELLS][LANE_KEY_BYTES];  /* written to wait for replicas */
    char followers[LANE_KEY_BYTES];           /* who follows; beside lane 0 */
    struct writer writer;
    struct reader reader;
};

static inline struct stream_log *stream_log_of(struct log *base)
{
    return (struct stream_log *)base;
}

/* A position is the place behind its last event: segment is its epoch, offset its n + 1. */
static inline struct log_position position_behind(uint64_t sequence)
{
    return (struct log_position){sequence_epoch(sequence), sequence_n(sequence) + 1};
}

static inline bool position_is_zero(struct log_position at)
{
    return at.segment == 0 && at.offset == 0;
}

static inline struct stream_entry *stream_entry_at(struct fifo_node *node)
{
    return (struct stream_entry *)node;
}

/* stream_entry.c: `take` reads the header of a section: its first and last sequence. */
struct stream_entry *stream_entry_new(uint64_t first);
void stream_entry_free(struct stream_entry *entry);
void stream_entries_free(struct fifo *entries); /* all of them */
bool stream_entry_has_room(const struct stream_entry *entry, size_t size);
void stream_entry_add(struct stream_entry *entry, struct slice header, struct slice body,
                      uint64_t last);
bool stream_entry_look(struct slice section, unsigned *ret_lane, uint64_t *ret_first,
                       uint64_t *ret_last);

/* Of an XREAD entry: ["<id>", [field, value, ...]]. NULL for one that was deleted. *ret_last is the
 * id in any case. An entry that is not ours comes with its values as one section. */
struct stream_entry *stream_entry_of_reply(const struct redisReply *reply, uint64_t *ret_last);

void stream_entry_id(char to[ID_BYTES], uint64_t epoch, uint64_t n);
bool stream_entry_parse_id(const char *text, uint64_t *ret_sequence);

/* writer.c */
uint64_t writer_append(struct stream_log *log, struct slice header, struct slice body);
void writer_start(struct stream_log *log);
void writer_stop(struct stream_log *log);

/* reader.c */
void reader_start(struct stream_log *log);
void reader_stop(struct stream_log *log);
enum err reader_follow(struct stream_log *log, unsigned number, struct log_position *at,
                       uint64_t limit, log_visit_fn *visit, void *arg, struct error *error);
void reader_forget(struct in_lane *lane);
/* Visits the sections of an entry; *at is behind the last that was taken. */
enum err reader_visit_entry(const struct stream_entry *entry, struct log_position *at,
                            log_visit_fn *visit, void *arg, struct error *error);

/* fetch.c: one round of reading for the lanes that want it; says whether something came. */
bool fetch_round(struct stream_log *log);
/* Learns where the streams end. */
void fetch_ends(struct stream_log *log, struct links *links);

/* The id behind which the position goes on. */
void fetch_id_before(char to[ID_BYTES], struct log_position at);

/* scan.c */
enum err stream_scan_lanes(struct stream_log *log, struct log_scan *scan, struct error *error);

/* leases.c */
void leases_tick(struct stream_log *log);
uint64_t leases_every_ms(const struct stream_log *log); /* between two ticks */
void leases_give_back(struct stream_log *log);
uint64_t leases_lanes(struct stream_log *log); /* the lanes that are ours, by bit. Any thread */

/* tidy.c: acknowledges what was released; marks it, and trims what was released long enough ago. */
void tidy_acknowledge(struct stream_log *log);
void tidy_trim(struct stream_log *log);
/* How often that is worth it. */
uint64_t tidy_trim_every_ms(const struct stream_log *log);

#endif
