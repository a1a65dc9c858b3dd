#include "core/log.h"

#include <assert.h>

#include "core/limits.h"

static bool has_lane(const struct log *log, unsigned lane)
{
    return lane == 0 || lane < log->lanes;
}

enum err log_read(struct log *log, struct log_position from, log_visit_fn *visit, void *arg,
                  log_reading_fn *reading, struct error *error)
{
    assert(log && visit);

    return log->ops->read ? log->ops->read(log, from, visit, arg, reading, error) : ERR_OK;
}

enum err log_start(struct log *log, struct error *error)
{
    assert(log);

    return log->ops->start(log, error);
}

uint64_t log_append(struct log *log, struct slice header, struct slice body)
{
    assert(log);
    assert(header.size > 0 && header.size + body.size <= LOG_SECTION_BYTES_MAX);

    uint64_t ticket = log->ops->append(log, header, body);
    assert(ticket > 0); /* 0 means that an answer need not wait */
    return ticket;
}

void log_hold(struct log *log)
{
    assert(log);

    if (log->ops->hold)
        log->ops->hold(log);
}

void log_launch(struct log *log)
{
    assert(log);

    if (log->ops->launch)
        log->ops->launch(log);
}

enum err log_room(struct log *log)
{
    assert(log);

    if (atomic_load(&log->is_shut))
        return ERR_MOVED;
    enum err err = log->ops->room(log);
    assert(err == ERR_OK || err == ERR_FULL || err == ERR_NO_FILES || err == ERR_BUSY ||
           err == ERR_UNAVAILABLE);
    return err;
}

void log_shut(struct log *log, bool is_shut)
{
    assert(log);

    atomic_store(&log->is_shut, is_shut);
}

uint64_t log_reached(struct log *log, unsigned lane, enum log_level level)
{
    assert(log && has_lane(log, lane));
    assert(level == LOG_WRITTEN || level == LOG_DURABLE);

    return log->ops->reached(log, lane, level);
}

uint64_t log_alone(struct log *log, unsigned lane)
{
    assert(log && has_lane(log, lane));

    return log->ops->alone ? log->ops->alone(log, lane) : 0;
}

enum err log_follow(struct log *log, unsigned lane, struct log_position *at, uint64_t limit,
                    log_visit_fn *visit, void *arg, struct error *error)
{
    assert(log && at && visit && has_lane(log, lane));

    return log->ops->follow(log, lane, at, limit, visit, arg, error);
}

enum err log_scan(struct log *log, struct log_scan *scan, struct error *error)
{
    assert(log && log->lanes > 1 && scan && scan->visit);

    scan->cut = log->ops->scan ? 0 : UINT64_MAX;
    if (log->ops->scan)
        return log->ops->scan(log, scan, error);
    return scan->must_be_whole ? error_set(error, ERR_OUT_OF_RANGE, "this log cannot be read again")
                               : ERR_OK;
}

struct log_position log_end(struct log *log, unsigned lane)
{
    assert(log && has_lane(log, lane));

    return log->ops->end(log, lane);
}

static_assert(LIMIT_CELLS == 64, "a bit for each lane");

uint64_t log_owned(struct log *log)
{
    assert(log);

    if (log->ops->owned)
        return log->ops->owned(log);
    return log->lanes == LIMIT_CELLS ? UINT64_MAX : 1;
}

enum err log_release(struct log *log, unsigned lane, struct log_position position,
                     struct error *error)
{
    assert(log && has_lane(log, lane));

    return log->ops->release ? log->ops->release(log, lane, position, error) : ERR_OK;
}

size_t log_segments(struct log *log, struct log_segment *to, size_t room)
{
    assert(log);

    return log->ops->segments ? log->ops->segments(log, to, room) : 0;
}

enum err log_rotate(struct log *log, struct error *error)
{
    assert(log);

    return log->ops->rotate ? log->ops->rotate(log, error) : ERR_OK;
}

enum err log_trim(struct log *log, uint64_t first, struct error *error)
{
    assert(log);

    return log->ops->trim ? log->ops->trim(log, first, error) : ERR_OK;
}

enum err log_scrub(struct log *log, uint64_t segment, log_scrub_fn *scrub, void *arg,
                   uint64_t *ret_changed, struct error *error)
{
    assert(log && scrub && ret_changed);

    if (!log->ops->scrub)
        return error_set(error, ERR_INVALID, "the log %s cannot be changed", log->ops->name);
    return log->ops->scrub(log, segment, scrub, arg, ret_changed, error);
}

void log_dead(struct log *log, const struct log_letter *letter)
{
    assert(log && letter && has_lane(log, letter->lane));

    if (log->ops->dead)
        log->ops->dead(log, letter);
}

void log_stats(struct log *log, struct log_stats *ret_stats)
{
    assert(log && ret_stats);

    *ret_stats = (struct log_stats){0};
    log->ops->stats(log, ret_stats);
}

void log_close(struct log *log)
{
    if (log)
        log->ops->close(log);
}
