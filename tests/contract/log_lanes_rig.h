/* log_lanes_rig.h - logs of many lanes for tests: sections with sequences that follow one another,
 * and a view that follows lanes and notices what is missing, out of order or changed. */
#ifndef LOG_LANES_RIG_H
#define LOG_LANES_RIG_H

#include "unit/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "core/event.h"
#include "core/log.h"
#include "core/sequence.h"
#include "log/kafka/kafka.h"
#include "log/redis_stream/redis_stream.h"

#define LANES LIMIT_CELLS

struct form {
    const char *name;
    const char *variable; /* where its server is told */
    struct log *(*open)(const char *server, const char *where, bool follows);
    bool trims; /* what was released is gone */
};

static inline struct log *rig_open_stream(const char *server, const char *where, bool follows)
{
    char url[512];
    snprintf(url, sizeof(url), "%s/%s", server, where);
    struct redis_stream_log_options options = {.url = url, .follows = follows, .keep_ms = 1};
    struct log *log;
    struct error error;
    if (redis_stream_log_open(env_system(), &options, &log, &error))
        fail_msg("%s", error.text);
    return log;
}

static inline struct log *rig_open_kafka(const char *server, const char *where, bool follows)
{
    char url[512];
    snprintf(url, sizeof(url), "%s/%s", server, where);
    struct kafka_log_options options = {.url = url, .follows = follows, .session_ms = 6000};
    struct log *log;
    struct error error;
    if (kafka_log_open(env_system(), &options, &log, &error))
        fail_msg("%s", error.text);
    return log;
}

static inline uint64_t rig_now_ms(void)
{
    return env_monotonic_ns(env_system()) / 1000000;
}

/* A name that no other test has. */
static inline void rig_name(char *to, size_t room)
{
    static unsigned count;
    snprintf(to, room, "t%d-%u-%u", (int)getpid(), count++, (unsigned)time(NULL) % 100000);
}

/* ---- appending ---- */

struct lane_source {
    uint64_t next[LANES];   /* sequences */
    uint64_t ticket[LANES]; /* last */
};

static inline void source_init(struct lane_source *source)
{
    for (unsigned i = 0; i < LANES; i++) {
        source->next[i] = sequence_of(1, 1);
        source->ticket[i] = 0;
    }
}

static inline void source_append(struct lane_source *source, struct log *log, unsigned lane,
                                 unsigned events)
{
    struct section section;
    section_init(&section);
    for (unsigned i = 0; i < events; i++) {
        char id[32];
        int size = snprintf(id, sizeof(id), "lane%u", lane);
        section_add(&section, 0, (struct slice){id, (size_t)size},
                    (int64_t)sequence_n(source->next[lane] + i), (struct slice){0});
    }
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, lane, source->next[lane], 1700000000000, header);
    uint64_t ticket = log_append(log, (struct slice){header, size}, buffer_slice(&section.body));
    assert_true(ticket > source->ticket[lane]);
    source->ticket[lane] = ticket;
    source->next[lane] += events;
    section_done(&section);
}

/* One to three events a round, in every seventh lane. */
static inline void source_append_some(struct lane_source *source, struct log *log, unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned lane = 0; lane < LANES; lane += 7)
            source_append(source, log, lane, 1 + round % 3);
        usleep(1000);
    }
}

/* Until the log says that it can be appended to, or why not. */
static inline void rig_wait_room(struct log *log, enum err expected)
{
    uint64_t until_ms = rig_now_ms() + 30000;
    while (log_room(log) != expected) {
        if (rig_now_ms() > until_ms)
            fail_msg("room is %d, not %d", log_room(log), expected);
        usleep(1000);
    }
}

static inline void source_wait(const struct lane_source *source, struct log *log)
{
    uint64_t until_ms = rig_now_ms() + 60000;
    for (unsigned i = 0; i < LANES; i++)
        while (log_reached(log, i, LOG_DURABLE) < source->ticket[i]) {
            if (rig_now_ms() > until_ms)
                fail_msg("lane %u does not get on", i);
            usleep(500);
        }
}

/* ---- following ---- */

struct lane_view {
    struct log_position at[LANES];
    uint64_t last[LANES]; /* sequences */
    uint64_t sections;
    uint64_t repeated; /* events */
    unsigned lane;     /* being visited */
    struct log_position before;
};

static inline enum err view_section(void *arg, struct slice section, struct log_position next,
                                    struct error *error)
{
    struct lane_view *view = arg;
    unsigned lane = view->lane;
    assert_true(next.segment > view->before.segment ||
                (next.segment == view->before.segment && next.offset >= view->before.offset));
    view->before = next;
    struct section_reader reader;
    if (section_open(&reader, section, error))
        fail_msg("%s", error->text);
    assert_int_equal(reader.origin, lane);
    for (;;) {
        struct event event;
        enum err err = section_next(&reader, &event, error);
        if (err == ERR_NOT_FOUND)
            break;
        if (err)
            fail_msg("%s", error->text);
        assert_int_equal(event.amount.small, sequence_n(event.sequence));
        if (event.sequence <= view->last[lane])
            view->repeated++;
        else if (view->last[lane] > 0 && !sequence_follows(view->last[lane], event.sequence))
            fail_msg("lane %u: %" PRIx64 " comes behind %" PRIx64, lane, event.sequence,
                     view->last[lane]);
        else
            view->last[lane] = event.sequence;
    }
    view->sections++;
    return ERR_OK;
}

static inline enum err view_follow(struct lane_view *view, struct log *log, unsigned lane,
                                   struct error *error)
{
    view->lane = lane;
    view->before = view->at[lane];
    return log_follow(log, lane, &view->at[lane], 64 << 10, view_section, view, error);
}

/* Follows the lanes that are ours once. */
static inline void view_step(struct lane_view *view, struct log *log)
{
    uint64_t owned = log_owned(log);
    for (unsigned i = 0; i < LANES; i++) {
        struct error error = {0};
        if ((owned >> i & 1) && view_follow(view, log, i, &error))
            fail_msg("lane %u: %s", i, error.text);
    }
}

static inline bool view_has(const struct lane_view *view, const struct lane_source *source)
{
    for (unsigned i = 0; i < LANES; i++)
        if (source->next[i] > sequence_of(1, 1) && view->last[i] + 1 < source->next[i])
            return false;
    return true;
}

/* Until everything is seen. */
static inline void view_all(struct lane_view *view, struct log *log,
                            const struct lane_source *source)
{
    uint64_t until_ms = rig_now_ms() + 60000;
    while (!view_has(view, source)) {
        view_step(view, log);
        if (rig_now_ms() > until_ms)
            fail_msg("not everything comes");
        usleep(1000);
    }
}

/* Waits until the log has its share of the lanes. */
static inline void wait_owned(struct log *log, unsigned at_least)
{
    uint64_t until_ms = rig_now_ms() + 60000;
    while ((unsigned)__builtin_popcountll(log_owned(log)) < at_least) {
        if (rig_now_ms() > until_ms)
            fail_msg("only %d lanes are ours", __builtin_popcountll(log_owned(log)));
        usleep(10000);
    }
}

#endif
