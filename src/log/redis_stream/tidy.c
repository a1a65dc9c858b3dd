/* tidy.c - what the store has is acknowledged, and trimmed. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "log/redis_stream/own.h"

#define ACKS_MAX    500u
#define TRIM_MIN_MS 250u
#define TRIM_MAX_MS 60000u

/* Takes the ids of up to ACKS_MAX entries that were released off the list. */
static size_t take_released(struct in_lane *lane, uint64_t *ids)
{
    size_t count = 0;
    while (count < lane->given_count && count < ACKS_MAX &&
           !log_position_is_before(lane->released, position_behind(lane->given[count])))
        count++;
    if (count == 0)
        return 0;
    memcpy(ids, lane->given, count * sizeof(*ids));
    memmove(lane->given, lane->given + count, (lane->given_count - count) * sizeof(*ids));
    lane->given_count -= count;
    return count;
}

static void make_ack(const struct stream_log *log, unsigned lane, const uint64_t *ids, size_t count,
                     struct links_call *call)
{
    static _Thread_local char texts[ACKS_MAX][ID_BYTES];
    const char *args[ACKS_MAX + 3] = {"XACK", log->keys[lane], log->group};
    for (size_t i = 0; i < count; i++) {
        stream_entry_id(texts[i], sequence_epoch(ids[i]), sequence_n(ids[i]));
        args[3 + i] = texts[i];
    }
    links_call_text(call, lane, (int)(3 + count), args);
}

/* True if there may be more. An acknowledgement that is lost is made up for by whoever claims the
 * lane next: what is below the store's position is not handed out. */
static bool acknowledge(struct stream_log *log)
{
    struct links_call calls[LIMIT_CELLS];
    size_t count = 0;
    bool is_more = false;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        uint64_t ids[ACKS_MAX];
        pthread_mutex_lock(&log->reader.mutex);
        size_t released = take_released(&log->reader.lanes[i], ids);
        pthread_mutex_unlock(&log->reader.mutex);
        if (released == 0)
            continue;
        make_ack(log, i, ids, released, &calls[count++]);
        is_more |= released == ACKS_MAX;
    }
    links_round(log->reader.links, calls, count);
    for (size_t i = 0; i < count; i++)
        links_call_done(&calls[i]);
    return is_more;
}

void tidy_acknowledge(struct stream_log *log)
{
    while (acknowledge(log))
        ;
}

/* ---- trimming ----
 *
 * A store may go back: to a standby that lagged, to a backup. So what was released is kept for a
 * while. When it was released stands beside the stream, where all who follow the lane find it. */

static const char TRIM[] =
    "local t = redis.call('TIME')\n"
    "local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"
    "redis.call('ZADD', KEYS[2], 'NX', now, ARGV[1])\n"
    "local old = redis.call('ZREVRANGEBYSCORE', KEYS[2], now - ARGV[2], '-inf', 'LIMIT', 0, 1)\n"
    "if not old[1] then return 0 end\n"
    "redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2])\n"
    "redis.call('XTRIM', KEYS[1], 'MINID', old[1])\n"
    "return redis.call('ZCARD', KEYS[2])";

static void make_trim(const struct stream_log *log, unsigned lane, struct log_position to,
                      struct links_call *call)
{
    char id[ID_BYTES];
    char keep_ms[24];
    stream_entry_id(id, to.segment, to.offset);
    (void)snprintf(keep_ms, sizeof(keep_ms), "%" PRIu64, log->keep_ms);
    const char *args[] = {"EVAL", TRIM, "2", log->keys[lane], log->marks[lane], id, keep_ms};
    links_call_text(call, lane, 7, args);
}

/* Also a lane where nothing is new: something may have become old enough. */
void tidy_trim(struct stream_log *log)
{
    struct links_call calls[LIMIT_CELLS];
    size_t count = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        pthread_mutex_lock(&log->reader.mutex);
        struct log_position to = log->reader.lanes[i].released;
        pthread_mutex_unlock(&log->reader.mutex);
        if (!position_is_zero(to))
            make_trim(log, i, to, &calls[count++]);
    }
    links_round(log->reader.links, calls, count);
    for (size_t i = 0; i < count; i++)
        links_call_done(&calls[i]);
}

uint64_t tidy_trim_every_ms(const struct stream_log *log)
{
    uint64_t every_ms = log->keep_ms / 32;
    if (every_ms < TRIM_MIN_MS)
        return TRIM_MIN_MS;
    return every_ms < TRIM_MAX_MS ? every_ms : TRIM_MAX_MS;
}
