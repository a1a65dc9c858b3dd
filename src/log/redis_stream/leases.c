/* leases.c - the lanes are shared out among the processes that follow.
 *
 * Each process says now and then that it is there, and so learns how many there are and what its
 * share is. A lane is taken by a lease, a key of Redis that goes away by itself: what a dead
 * process had is free after LEASE_MS, and whoever has more than its share gives some back. A lease
 * saves double work and no more than that: two who believe that a lane is theirs do no harm, since
 * the store takes a batch only from where it is itself.
 *
 * Between one renewal and the next several other questions are asked, each after the other. Of a
 * server that answers slowly leases are longer, or they would end before anything was read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/redis_stream/own.h"

#define LEASE_MS      3000u /* at least */
#define LEASE_ANSWERS 12u   /* as long as so many answers take */
#define MARGIN_MS     500u  /* ours ends so much earlier than that of Redis */

/* How many follow, and the how-manieth we are. */
static const char PRESENT[] =
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "redis.call('ZADD', KEYS[1], now, ARGV[1])\n"
    "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])\n"
    "local rank = 0\n"
    "local all = redis.call('ZRANGE', KEYS[1], 0, -1)\n"
    "for _, name in ipairs(all) do if name < ARGV[1] then rank = rank + 1 end end\n"
    "return {#all, rank}";

static const char TAKE[] = "local owner = redis.call('GET', KEYS[1])\n"
                           "if owner and owner ~= ARGV[1] then return 0 end\n"
                           "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n"
                           "return 1";

static const char GIVE[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then\n"
                           "return redis.call('DEL', KEYS[1]) end\n"
                           "return 0";

static uint64_t lease_ms(const struct stream_log *log)
{
    uint64_t slow_ms = LEASE_ANSWERS * log->reader.answer_ns / MS_NS;
    return slow_ms > LEASE_MS ? slow_ms : LEASE_MS;
}

uint64_t leases_every_ms(const struct stream_log *log)
{
    return lease_ms(log) / 6;
}

static void eval(const struct stream_log *log, struct links_call *call, unsigned lane,
                 const char *script, const char *key)
{
    char lease[24];
    (void)snprintf(lease, sizeof(lease), "%" PRIu64, lease_ms(log));
    const char *args[] = {"EVAL", script, "1", key, log->consumer, lease};
    links_call_text(call, lane, 6, args);
}

/* 64 lanes over 3: 22, 21, 21. And how long an answer takes. */
static void learn_share(struct stream_log *log)
{
    struct links_call call;
    eval(log, &call, 0, PRESENT, log->followers);
    uint64_t asked_ns = env_monotonic_ns(log->env);
    links_round(log->reader.links, &call, 1);
    const struct redisReply *reply = call.reply;
    if (reply)
        log->reader.answer_ns = env_monotonic_ns(log->env) - asked_ns;
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->integer > 0) {
        unsigned count = (unsigned)reply->element[0]->integer;
        unsigned rank = (unsigned)reply->element[1]->integer;
        log->reader.share = LIMIT_CELLS / count + (rank < LIMIT_CELLS % count);
    }
    links_call_done(&call);
}

uint64_t leases_lanes(struct stream_log *log)
{
    uint64_t now_ns = env_monotonic_ns(log->env);
    uint64_t lanes = 0;
    pthread_mutex_lock(&log->reader.mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (log->reader.lanes[i].leased_ns > now_ns)
            lanes |= UINT64_C(1) << i;
    pthread_mutex_unlock(&log->reader.mutex);
    return lanes;
}

static void set_leased(struct stream_log *log, unsigned number, uint64_t until_ns)
{
    struct in_lane *lane = &log->reader.lanes[number];
    pthread_mutex_lock(&log->reader.mutex);
    if (lane->leased_ns <= env_monotonic_ns(log->env) || until_ns == 0)
        reader_forget(lane); /* somebody else may have had it in between */
    lane->leased_ns = until_ns;
    pthread_mutex_unlock(&log->reader.mutex);
}

/* Takes or renews the leases of `lanes`, in one round. */
static void take(struct stream_log *log, uint64_t lanes)
{
    struct links_call calls[LIMIT_CELLS];
    size_t count = 0;
    uint64_t until_ns = env_monotonic_ns(log->env) + (lease_ms(log) - MARGIN_MS) * MS_NS;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (lanes >> i & 1)
            eval(log, &calls[count++], i, TAKE, log->leases[i]);
    links_round(log->reader.links, calls, count);
    for (size_t i = 0; i < count; i++) {
        const struct redisReply *reply = calls[i].reply;
        if (reply && reply->type == REDIS_REPLY_INTEGER)
            set_leased(log, calls[i].lane, reply->integer == 1 ? until_ns : 0);
        links_call_done(&calls[i]);
    }
}

/* Nobody hands a lane out any more before its lease goes back. */
static void give(struct stream_log *log, uint64_t lanes)
{
    struct links_call calls[LIMIT_CELLS];
    size_t count = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        if (lanes >> i & 1) {
            set_leased(log, i, 0);
            eval(log, &calls[count++], i, GIVE, log->leases[i]);
        }
    links_round(log->reader.links, calls, count);
    for (size_t i = 0; i < count; i++)
        links_call_done(&calls[i]);
}

static unsigned count_of(uint64_t lanes)
{
    return (unsigned)__builtin_popcountll(lanes);
}

/* Up to `count` of the lanes, from one that differs from process to process. */
static uint64_t some_of(struct stream_log *log, uint64_t lanes, unsigned count)
{
    unsigned begin = (unsigned)(env_random(log->env) % LIMIT_CELLS);
    uint64_t some = 0;
    for (unsigned i = 0; i < LIMIT_CELLS && count > 0; i++) {
        uint64_t bit = UINT64_C(1) << (begin + i) % LIMIT_CELLS;
        if (!(lanes & bit))
            continue;
        some |= bit;
        count--;
    }
    return some;
}

void leases_tick(struct stream_log *log)
{
    learn_share(log);
    unsigned share = log->reader.share;
    take(log, leases_lanes(log));
    uint64_t ours = leases_lanes(log);
    if (count_of(ours) > share)
        give(log, some_of(log, ours, count_of(ours) - share));
    for (unsigned i = 0; i < 4 && count_of(leases_lanes(log)) < share; i++)
        take(log, some_of(log, ~leases_lanes(log), share - count_of(leases_lanes(log))));
}

void leases_give_back(struct stream_log *log)
{
    give(log, leases_lanes(log));
    struct links_call call;
    const char *args[] = {"ZREM", log->followers, log->consumer};
    links_call_text(&call, 0, 3, args);
    links_round(log->reader.links, &call, 1);
    links_call_done(&call);
}
