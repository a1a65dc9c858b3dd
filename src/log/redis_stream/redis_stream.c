#include "log/redis_stream/redis_stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "log/redis_stream/own.h"
#include "net/redis_info.h"

#define PENDING_BYTES_MAX ((uint64_t)64 << 20)
#define KEEP_MS           3600000u
#define CLOSE_MS          2000u
#define GROUP_DEFAULT     "tally"

/* ---- appending ---- */

static uint64_t stream_append(struct log *base, struct slice header, struct slice body)
{
    return writer_append(stream_log_of(base), header, body);
}

static enum err stream_room(struct log *base)
{
    struct stream_log *log = stream_log_of(base);
    struct writer *writer = &log->writer;
    pthread_mutex_lock(&writer->mutex);
    bool is_down = writer->is_down;
    bool is_full = writer->pending_bytes >= log->pending_bytes_max;
    pthread_mutex_unlock(&writer->mutex);
    if (is_down)
        return ERR_UNAVAILABLE;
    return is_full ? ERR_BUSY : ERR_OK;
}

/* What Redis has said that it has is as durable as Redis makes it. */
static uint64_t stream_reached(struct log *base, unsigned lane, enum log_level level)
{
    (void)level;
    return atomic_load_explicit(&stream_log_of(base)->writer.lanes[lane].reached,
                                memory_order_acquire);
}

static uint64_t stream_alone(struct log *base, unsigned lane)
{
    return atomic_load_explicit(&stream_log_of(base)->writer.lanes[lane].alone,
                                memory_order_relaxed);
}

static void stream_stats(struct log *base, struct log_stats *ret_stats)
{
    struct writer *writer = &stream_log_of(base)->writer;
    pthread_mutex_lock(&writer->mutex);
    *ret_stats = writer->stats;
    ret_stats->pending_bytes = writer->pending_bytes;
    pthread_mutex_unlock(&writer->mutex);
}

/* ---- following ---- */

static enum err stream_follow(struct log *base, unsigned lane, struct log_position *at,
                              uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    return reader_follow(stream_log_of(base), lane, at, limit, visit, arg, error);
}

static enum err stream_scan(struct log *base, struct log_scan *scan, struct error *error)
{
    return stream_scan_lanes(stream_log_of(base), scan, error);
}

static struct log_position stream_end(struct log *base, unsigned lane)
{
    struct reader *reader = &stream_log_of(base)->reader;
    pthread_mutex_lock(&reader->mutex);
    struct log_position end = reader->ends[lane];
    pthread_mutex_unlock(&reader->mutex);
    return end;
}

static uint64_t stream_owned(struct log *base)
{
    return leases_lanes(stream_log_of(base));
}

static enum err stream_release(struct log *base, unsigned number, struct log_position position,
                               struct error *error)
{
    (void)error;
    struct reader *reader = &stream_log_of(base)->reader;
    struct in_lane *lane = &reader->lanes[number];
    pthread_mutex_lock(&reader->mutex);
    if (log_position_is_before(lane->released, position))
        lane->released = position;
    pthread_mutex_unlock(&reader->mutex);
    return ERR_OK;
}

/* ---- life ---- */

static void free_log(struct stream_log *log)
{
    links_free(log->writer.links);
    links_free(log->reader.links);
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        stream_entries_free(&log->writer.lanes[i].entries);
    bell_done(&log->writer.bell);
    bell_done(&log->reader.bell);
    pthread_mutex_destroy(&log->writer.mutex);
    pthread_mutex_destroy(&log->reader.mutex);
    free(log);
}

static void stream_close(struct log *base)
{
    struct stream_log *log = stream_log_of(base);
    uint64_t end_ns = env_monotonic_ns(log->env) + log->close_ms * MS_NS;
    links_end_at(log->writer.links, end_ns);
    links_end_at(log->reader.links, end_ns);
    writer_stop(log);
    reader_stop(log);
    free_log(log);
}

static enum err check_version(struct slice version, struct error *error)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(version));
    unsigned long major = strtoul(text, NULL, 10);
    const char *dot = strchr(text, '.');
    if (major < 6 || (major == 6 && dot && strtoul(dot + 1, NULL, 10) < 2))
        return error_set(error, ERR_INVALID,
                         "the log's Redis is version %s; it has to be 6.2 or newer", text);
    return ERR_OK;
}

static enum err check_info(struct slice info, struct error *error)
{
    struct slice version = redis_info_value(info, "redis_version:");
    enum err err = version.size > 0 ? check_version(version, error) : ERR_OK;
    if (err)
        return err;
    if (slice_equal(redis_info_value(info, "aof_enabled:"), SLICE("0")))
        message_warning("the log's Redis forgets events when it restarts: set appendonly to yes");
    struct slice policy = redis_info_value(info, "maxmemory_policy:");
    if (policy.size > 0 && !slice_equal(policy, SLICE("noeviction")))
        return error_set(error, ERR_INVALID,
                         "the log's Redis may throw events away: set maxmemory-policy to "
                         "noeviction (it is %.*s)",
                         SLICE_ARGS(policy));
    return ERR_OK;
}

/* Whoever is not allowed to ask is not told. */
static void check_sync(struct stream_log *log)
{
    struct links_call call;
    const char *args[] = {"CONFIG", "GET", "appendfsync"};
    links_call_text(&call, 0, 3, args);
    links_round(log->writer.links, &call, 1);
    const struct redisReply *reply = call.reply;
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[1]->str && strcmp(reply->element[1]->str, "always") != 0)
        message_warning("a power cut can lose what the log's Redis has acknowledged: set "
                        "appendfsync to always (it is %s)",
                        reply->element[1]->str);
    links_call_done(&call);
}

/* A server that does not answer yet is waited for in the background. */
static enum err check_server(struct stream_log *log, struct error *error)
{
    struct links_call call;
    const char *args[] = {"INFO"};
    links_call_text(&call, 0, 1, args);
    links_round(log->writer.links, &call, 1);
    enum err err = ERR_OK;
    if (call.reply && call.reply->type == REDIS_REPLY_STRING) {
        err = check_info((struct slice){call.reply->str, call.reply->len}, error);
        if (!err)
            check_sync(log);
    } else {
        log->writer.is_down = true;
        log->writer.stats.down_since_ms = (uint64_t)env_wall_ms(log->env);
        message_warning("the log does not answer: waiting for it reason=\"%s\"",
                        call.reply && call.reply->str ? call.reply->str
                                                      : links_reason(log->writer.links));
    }
    links_call_done(&call);
    return err;
}

static enum err stream_start(struct log *base, struct error *error)
{
    struct stream_log *log = stream_log_of(base);
    enum err err = check_server(log, error);
    if (err)
        return err;
    if (!log->writer.is_down)
        fetch_ends(log, log->writer.links);
    writer_start(log);
    if (log->follows)
        reader_start(log);
    return ERR_OK;
}

static const struct log_ops stream_ops = {
    .name = "redis-stream",
    .start = stream_start,
    .append = stream_append,
    .room = stream_room,
    .reached = stream_reached,
    .alone = stream_alone,
    .follow = stream_follow,
    .scan = stream_scan,
    .end = stream_end,
    .owned = stream_owned,
    .release = stream_release,
    .stats = stream_stats,
    .close = stream_close,
};

static void set_names(struct stream_log *log, const struct redis_stream_log_options *options)
{
    (void)snprintf(log->group, sizeof(log->group), "%s",
                   options->group ? options->group : GROUP_DEFAULT);
    if (options->consumer)
        (void)snprintf(log->consumer, sizeof(log->consumer), "%s", options->consumer);
    else
        (void)snprintf(log->consumer, sizeof(log->consumer), "%016" PRIx64, env_random(log->env));
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        lane_key(log->keys[i], log->url.redis.prefix, i, "log");
        lane_key(log->marks[i], log->url.redis.prefix, i, "log-marks");
        lane_key(log->waits[i], log->url.redis.prefix, i, "log-wait");
        lane_key(log->leases[i], log->url.redis.prefix, i, "log-lease");
    }
    lane_key(log->followers, log->url.redis.prefix, 0, "log-followers");
}

enum err redis_stream_log_open(struct env *env, const struct redis_stream_log_options *options,
                               struct log **ret_log, struct error *error)
{
    assert(env && options && options->url && ret_log);

    struct stream_log *log = memory_take_zeroed(sizeof(*log));
    enum err err = stream_url_parse(options->url, &log->url, error);
    if (err) {
        free(log);
        return err;
    }
    log->base.ops = &stream_ops;
    log->base.lanes = LIMIT_CELLS;
    log->env = env;
    log->follows = options->follows;
    log->pending_bytes_max =
        options->pending_bytes_max > 0 ? options->pending_bytes_max : PENDING_BYTES_MAX;
    log->keep_ms = options->keep_ms > 0 ? options->keep_ms : KEEP_MS;
    log->close_ms = options->close_ms > 0 ? options->close_ms : CLOSE_MS;
    log->answer_ms = options->answer_ms;
    set_names(log, options);
    pthread_mutex_init(&log->writer.mutex, NULL);
    pthread_mutex_init(&log->reader.mutex, NULL);
    bell_init(&log->writer.bell);
    bell_init(&log->reader.bell);
    log->writer.links = links_new(env, &log->url.redis, log->answer_ms);
    log->reader.links = links_new(env, &log->url.redis, log->answer_ms);
    *ret_log = &log->base;
    return ERR_OK;
}
