/* fetch.c - reading the streams by their consumer group.
 *
 * A lane that we begin to read is claimed first: what others were given of it and did not
 * acknowledge becomes ours (XAUTOCLAIM). Then the group is set to the position that the store
 * remembers (XGROUP SETID), and read on from there: also if the store has gone back, and knows
 * nothing of what it had acknowledged.
 *
 * That nothing is missing is looked at: sequences follow one another. One that is missing may
 * have been given to a reader who had lost the lane and did not know, so we begin once more from
 * where we are; if it is missing then as well, it is gone, and we say so. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "log/redis_stream/own.h"

#define QUEUE_BYTES (1u << 20) /* of a lane: is not read on past this */
#define COUNT_FIRST 16u
#define COUNT_MAX   512u
#define CLAIM_COUNT "1000"

/* What another reader, who has not heard yet that the lane is ours, is given between our claim and
 * our reading is claimed again, so often. */
#define SUSPICIONS_MAX 16u

/* What a lane asks in this round. */
struct ask {
    unsigned lane;
    uint32_t generation;
    enum phase phase;
    struct log_position end; /* as it was known before */
};

/* ---- asking ---- */

void fetch_id_before(char to[ID_BYTES], struct log_position at)
{
    if (at.offset > 0)
        stream_entry_id(to, at.segment, at.offset - 1);
    else if (at.segment > 0)
        stream_entry_id(to, at.segment - 1, UINT64_MAX);
    else
        stream_entry_id(to, 0, 0);
}

static void ask_claim(struct stream_log *log, unsigned number, struct links_call *call)
{
    const char *cursor = log->reader.lanes[number].cursor;
    const char *args[] = {"XAUTOCLAIM", log->keys[number],          log->group, log->consumer,
                          "0",          cursor[0] ? cursor : "0-0", "COUNT",    CLAIM_COUNT,
                          "JUSTID"};
    links_call_text(call, number, 9, args);
}

/* Processes that are gone for long have left their names in the group: they go on the way. What
 * they were given was claimed before. */
static const char SEEK[] =
    "for _, c in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do\n"
    "if c[2] ~= ARGV[3] and c[4] == 0 and c[6] > 3600000 then\n"
    "redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], c[2]) end end\n"
    "return redis.call('XGROUP', 'SETID', KEYS[1], ARGV[1], ARGV[2])";

static void ask_seek(struct stream_log *log, unsigned number, struct links_call *call)
{
    char id[ID_BYTES];
    fetch_id_before(id, log->reader.lanes[number].fetched);
    const char *args[] = {"EVAL", SEEK, "1", log->keys[number], log->group, id, log->consumer};
    links_call_text(call, number, 7, args);
}

static void ask_read(struct stream_log *log, unsigned number, struct links_call *call)
{
    struct in_lane *lane = &log->reader.lanes[number];
    char count[16];
    (void)snprintf(count, sizeof(count), "%u",
                   lane->fetch_count > 0 ? lane->fetch_count : COUNT_FIRST);
    const char *args[] = {"XREADGROUP",  "GROUP",           log->group,
                          log->consumer, "COUNT",           count,
                          "STREAMS",     log->keys[number], ">"};
    links_call_text(call, number, 9, args);
}

static void ask_next(struct stream_log *log, unsigned number, struct links_call *call)
{
    switch (log->reader.lanes[number].phase) {
    case PHASE_CLAIM:
        ask_claim(log, number, call);
        break;
    case PHASE_SEEK:
        ask_seek(log, number, call);
        break;
    default:
        ask_read(log, number, call);
    }
}

static size_t ask_lanes(struct stream_log *log, struct ask *asks, struct links_call *calls)
{
    struct reader *reader = &log->reader;
    uint64_t now_ns = env_monotonic_ns(log->env);
    size_t count = 0;
    pthread_mutex_lock(&reader->mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        struct in_lane *lane = &reader->lanes[i];
        if (lane->phase == PHASE_NONE || lane->leased_ns <= now_ns || lane->fault ||
            lane->queue.size >= QUEUE_BYTES)
            continue;
        ask_next(log, i, &calls[count]);
        asks[count++] = (struct ask){i, lane->generation, lane->phase, reader->ends[i]};
    }
    pthread_mutex_unlock(&reader->mutex);
    return count;
}

/* ---- what is missing ---- */

static void claim_again(struct in_lane *lane)
{
    lane->suspicions++;
    lane->phase = PHASE_CLAIM;
    lane->cursor[0] = '\0';
    lane->given_count = 0;
}

static void set_fault(struct stream_log *log, unsigned number, const char *what, uint64_t sequence)
{
    struct in_lane *lane = &log->reader.lanes[number];
    lane->fault = ERR_NOT_FOUND;
    (void)snprintf(lane->fault_text, sizeof(lane->fault_text),
                   "lane %u of the log was trimmed or has lost events: behind %" PRIu64 "-%" PRIu64
                   " %s %" PRIu64 "-%" PRIu64,
                   number, lane->fetched.segment, lane->fetched.offset, what,
                   sequence_epoch(sequence), sequence_n(sequence));
}

/* May an entry that begins with `first` come right behind what was fetched? */
static bool is_next(const struct in_lane *lane, uint64_t first)
{
    if (position_is_zero(lane->fetched))
        return sequence_n(first) <= 1;
    if (lane->fetched.offset == 0) /* the beginning of an epoch */
        return first <= sequence_of(lane->fetched.segment, 0);
    uint64_t last = sequence_of(lane->fetched.segment, lane->fetched.offset - 1);
    return first <= last + 1 || sequence_follows(last, first);
}

/* ---- answers ---- */

static void note_given(struct in_lane *lane, uint64_t last)
{
    if (lane->given_count > 0 && lane->given[lane->given_count - 1] >= last)
        return; /* was noted when it was claimed */
    if (lane->given_count == lane->given_room) {
        lane->given_room = lane->given_room == 0 ? 256 : lane->given_room * 2;
        lane->given = memory_resize(lane->given, lane->given_room * sizeof(*lane->given));
    }
    lane->given[lane->given_count++] = last;
}

static void take_claim(struct in_lane *lane, const struct redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    const struct redisReply *ids = reply->element[1];
    for (size_t i = 0; i < ids->elements; i++) {
        uint64_t last;
        if (ids->element[i]->type == REDIS_REPLY_STRING &&
            stream_entry_parse_id(ids->element[i]->str, &last))
            note_given(lane, last);
    }
    (void)snprintf(lane->cursor, sizeof(lane->cursor), "%s", reply->element[0]->str);
    if (strcmp(lane->cursor, "0-0") == 0)
        lane->phase = PHASE_SEEK;
}

/* Puts an entry into the queue. False: something is missing before it. */
static bool take_entry(struct in_lane *lane, const struct redisReply *reply, uint64_t *ret_last)
{
    struct stream_entry *entry = stream_entry_of_reply(reply, ret_last);
    uint64_t last = *ret_last;
    if (last > 0)
        note_given(lane, last);
    if (!entry)
        return true; /* deleted meanwhile: if it matters, the next one tells */
    if (!log_position_is_before(lane->fetched, position_behind(last))) {
        stream_entry_free(entry); /* the store has it already */
        return true;
    }
    if (!is_next(lane, entry->first)) {
        stream_entry_free(entry);
        return false;
    }
    entry->node.size = entry->bytes.size;
    fifo_push(&lane->queue, &entry->node);
    lane->fetched = position_behind(last);
    lane->suspicions = 0;
    return true;
}

/* About as many entries as a queue holds. */
static void learn_count(struct in_lane *lane, size_t entries, uint64_t bytes)
{
    uint64_t count = entries * (uint64_t)QUEUE_BYTES / (bytes + 1);
    uint64_t most = entries * 4 > COUNT_FIRST ? entries * 4 : COUNT_FIRST;
    count = count < most ? count : most;
    count = count < COUNT_MAX ? count : COUNT_MAX;
    lane->fetch_count = count > 0 ? (uint32_t)count : 1;
}

/* Nothing is new: are we where the stream ends? `end` was known before we asked. */
static void look_at_end(struct stream_log *log, unsigned number, struct log_position end)
{
    struct in_lane *lane = &log->reader.lanes[number];
    if (!log_position_is_before(lane->fetched, end)) {
        lane->suspicions = 0;
        return;
    }
    if (lane->suspicions < SUSPICIONS_MAX)
        claim_again(lane);
    else
        set_fault(log, number, "is nothing, and the stream ends with",
                  sequence_of(end.segment, end.offset - 1));
}

/* Something is missing before an entry that ends with `last`. */
static void meet_gap(struct stream_log *log, unsigned number, uint64_t last)
{
    struct in_lane *lane = &log->reader.lanes[number];
    if (lane->suspicions < SUSPICIONS_MAX)
        claim_again(lane);
    else
        set_fault(log, number, "comes", last);
}

static bool take_entries(struct stream_log *log, unsigned number, const struct redisReply *reply,
                         struct log_position end)
{
    struct in_lane *lane = &log->reader.lanes[number];
    const struct redisReply *entries = NULL;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
        reply->element[0]->elements == 2)
        entries = reply->element[0]->element[1];
    if (!entries || entries->elements == 0) {
        look_at_end(log, number, end);
        return false;
    }
    uint64_t before = lane->queue.size;
    for (size_t i = 0; i < entries->elements; i++) {
        uint64_t last;
        if (take_entry(lane, entries->element[i], &last))
            continue;
        meet_gap(log, number, last);
        return true;
    }
    learn_count(lane, entries->elements, lane->queue.size - before);
    return true;
}

static bool take_answer(struct stream_log *log, const struct ask *ask,
                        const struct redisReply *reply)
{
    struct in_lane *lane = &log->reader.lanes[ask->lane];
    if (lane->generation != ask->generation || lane->phase != ask->phase)
        return true; /* began anew meanwhile */
    if (ask->phase == PHASE_READ)
        return take_entries(log, ask->lane, reply, ask->end);
    if (ask->phase == PHASE_CLAIM)
        take_claim(lane, reply);
    else
        lane->phase = PHASE_READ;
    return true;
}

static void make_groups(struct stream_log *log, const unsigned *lanes, size_t count)
{
    struct links_call calls[LIMIT_CELLS];
    for (size_t i = 0; i < count; i++) {
        const char *args[] = {"XGROUP", "CREATE", log->keys[lanes[i]], log->group, "0", "MKSTREAM"};
        links_call_text(&calls[i], lanes[i], 6, args);
    }
    links_round(log->reader.links, calls, count);
    for (size_t i = 0; i < count; i++)
        links_call_done(&calls[i]);
}

static bool is_without_group(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && (strncmp(reply->str, "NOGROUP", 7) == 0 ||
                                                strncmp(reply->str, "ERR no such key", 15) == 0);
}

bool fetch_round(struct stream_log *log)
{
    struct reader *reader = &log->reader;
    struct ask asks[LIMIT_CELLS];
    struct links_call calls[LIMIT_CELLS];
    unsigned without[LIMIT_CELLS];
    size_t without_count = 0;
    bool is_more = false;
    bool is_down = false;
    size_t count = ask_lanes(log, asks, calls);
    links_round(reader->links, calls, count);

    pthread_mutex_lock(&reader->mutex);
    for (size_t i = 0; i < count; i++) {
        const struct redisReply *reply = calls[i].reply;
        if (!reply)
            is_down = true;
        else if (is_without_group(reply))
            without[without_count++] = asks[i].lane;
        else if (reply->type != REDIS_REPLY_ERROR)
            is_more |= take_answer(log, &asks[i], reply);
    }
    reader->is_down = is_down;
    pthread_mutex_unlock(&reader->mutex);
    for (size_t i = 0; i < count; i++)
        links_call_done(&calls[i]);
    make_groups(log, without, without_count);
    return (is_more && !is_down) || without_count > 0;
}

/* ---- the ends ---- */

static const char *last_id(const struct redisReply *reply)
{
    if (!reply || reply->type != REDIS_REPLY_ARRAY)
        return NULL;
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->str && strcmp(reply->element[i]->str, "last-generated-id") == 0)
            return reply->element[i + 1]->str;
    return NULL;
}

/* An end that goes back is one that has lost events: those who follow notice. */
void fetch_ends(struct stream_log *log, struct links *links)
{
    struct links_call calls[LIMIT_CELLS];
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const char *args[] = {"XINFO", "STREAM", log->keys[i]};
        links_call_text(&calls[i], i, 3, args);
    }
    links_round(links, calls, LIMIT_CELLS);
    pthread_mutex_lock(&log->reader.mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        const char *id = last_id(calls[i].reply);
        uint64_t last;
        if (id && stream_entry_parse_id(id, &last) && last > 0 &&
            log_position_is_before(log->reader.ends[i], position_behind(last)))
            log->reader.ends[i] = position_behind(last);
    }
    pthread_mutex_unlock(&log->reader.mutex);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        links_call_done(&calls[i]);
}
