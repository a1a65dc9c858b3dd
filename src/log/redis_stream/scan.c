/* scan.c - reading all that the streams have, beside those who follow them.
 *
 * XRANGE by connections of its own: the consumer group does not hear of it. A stream that has had
 * more entries than it has now was trimmed. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/redis_stream/own.h"

#define COUNT        200u /* entries of a lane at once */
#define TRIES_MAX    20u
#define TRY_AGAIN_MS 250u

struct reading {
    struct stream_log *log;
    struct log_scan *scan;
    struct links *links; /* owned */
    struct log_position ends[LIMIT_CELLS];
    uint64_t left; /* lanes that are not at their end yet, a bit each */
};

typedef void make_call_fn(const struct reading *reading, unsigned lane, struct links_call *call);
typedef enum err take_reply_fn(struct reading *reading, unsigned lane, const redisReply *reply,
                               struct error *error);

/* One call for each of the lanes; says which were not answered. */
static enum err ask_once(struct reading *reading, uint64_t *lanes, make_call_fn *make,
                         take_reply_fn *take, struct error *error)
{
    struct links_call calls[LIMIT_CELLS];
    size_t count = 0;
    enum err err = ERR_OK;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        if (*lanes >> lane & 1)
            make(reading, lane, &calls[count++]);
    links_round(reading->links, calls, count);
    for (size_t i = 0; i < count; i++) {
        unsigned lane = calls[i].lane;
        if (calls[i].reply)
            *lanes &= ~(UINT64_C(1) << lane);
        if (calls[i].reply && !err)
            err = take(reading, lane, calls[i].reply, error);
        links_call_done(&calls[i]);
    }
    return err;
}

static enum err ask_lanes(struct reading *reading, uint64_t lanes, make_call_fn *make,
                          take_reply_fn *take, struct error *error)
{
    struct bell bell;
    bell_init(&bell);
    enum err err = ask_once(reading, &lanes, make, take, error);
    for (unsigned i = 1; !err && lanes != 0 && i < TRIES_MAX; i++) {
        (void)bell_wait(&bell, TRY_AGAIN_MS);
        err = ask_once(reading, &lanes, make, take, error);
    }
    bell_done(&bell);
    if (!err && lanes != 0)
        err = error_set(error, ERR_UNAVAILABLE, "the log does not answer: %.100s",
                        links_reason(reading->links));
    return err;
}

/* ---- where ---- */

static void ask_info(const struct reading *reading, unsigned lane, struct links_call *call)
{
    const char *args[] = {"XINFO", "STREAM", reading->log->keys[lane]};
    links_call_text(call, lane, 3, args);
}

static const redisReply *field_of(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->str && strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1];
    return NULL;
}

/* A server before Redis 7 does not tell how many entries there were: who knows what is gone? */
static bool is_cut(const redisReply *info)
{
    const redisReply *length = field_of(info, "length");
    const redisReply *added = field_of(info, "entries-added");
    return !length || !added || added->integer > length->integer;
}

static enum err take_info(struct reading *reading, unsigned lane, const redisReply *reply,
                          struct error *error)
{
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "ERR no such key", 15) == 0)
        return ERR_OK; /* nothing was ever appended */
    if (reply->type != REDIS_REPLY_ARRAY)
        return error_set(error, ERR_UNAVAILABLE, "the log: %.100s",
                         reply->str ? reply->str : "no answer");
    const redisReply *id = field_of(reply, "last-generated-id");
    uint64_t last = 0;
    if (!id || !id->str || !stream_entry_parse_id(id->str, &last))
        return error_set(error, ERR_CORRUPT, "lane %u of the log is not ours", lane);
    struct log_scan *scan = reading->scan;
    if (last == 0)
        return ERR_OK;
    if (position_is_zero(scan->at[lane]) && is_cut(reply))
        scan->cut |= UINT64_C(1) << lane;
    reading->ends[lane] = position_behind(last);
    if (log_position_is_before(scan->at[lane], reading->ends[lane]))
        reading->left |= UINT64_C(1) << lane;
    return ERR_OK;
}

/* ---- what comes ---- */

struct visit {
    struct reading *reading;
    unsigned lane;
};

static enum err visit_section(void *arg, struct slice section, struct log_position next,
                              struct error *error)
{
    const struct visit *visit = arg;
    const struct log_scan *scan = visit->reading->scan;
    return scan->visit(scan->arg, visit->lane, section, next, error);
}

static void ask_range(const struct reading *reading, unsigned lane, struct links_call *call)
{
    char from[ID_BYTES + 1] = "(";
    char count[16];
    fetch_id_before(from + 1, reading->scan->at[lane]);
    if (position_is_zero(reading->scan->at[lane]))
        (void)snprintf(from, sizeof(from), "-");
    (void)snprintf(count, sizeof(count), "%u", COUNT);
    const char *args[] = {"XRANGE", reading->log->keys[lane], from, "+", "COUNT", count};
    links_call_text(call, lane, 6, args);
}

static enum err take_entry(struct reading *reading, unsigned lane, const redisReply *reply,
                           struct error *error)
{
    uint64_t last;
    struct visit visit = {reading, lane};
    struct stream_entry *entry = stream_entry_of_reply(reply, &last);
    if (!entry)
        return ERR_OK;
    enum err err =
        reader_visit_entry(entry, &reading->scan->at[lane], visit_section, &visit, error);
    stream_entry_free(entry);
    return err;
}

static enum err take_range(struct reading *reading, unsigned lane, const redisReply *reply,
                           struct error *error)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return error_set(error, ERR_UNAVAILABLE, "the log: %.100s",
                         reply->str ? reply->str : "no answer");
    struct log_position *at = &reading->scan->at[lane];
    enum err err = ERR_OK;
    for (size_t i = 0; i < reply->elements && !err; i++)
        if (log_position_is_before(*at, reading->ends[lane]))
            err = take_entry(reading, lane, reply->element[i], error);
    if (reply->elements < COUNT || !log_position_is_before(*at, reading->ends[lane]))
        reading->left &= ~(UINT64_C(1) << lane); /* trimmed meanwhile, or done */
    return err;
}

enum err stream_scan_lanes(struct stream_log *log, struct log_scan *scan, struct error *error)
{
    struct reading reading = {
        .log = log, .scan = scan, .links = links_new(log->env, &log->url.redis, log->answer_ms)};
    enum err err = ask_lanes(&reading, UINT64_MAX, ask_info, take_info, error);
    if (!err && scan->must_be_whole && scan->cut != 0)
        err = error_set(error, ERR_OUT_OF_RANGE, "the log does not reach back to its beginning");
    while (!err && reading.left != 0)
        err = ask_lanes(&reading, reading.left, ask_range, take_range, error);
    links_free(reading.links);
    return err;
}
