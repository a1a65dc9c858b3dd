#include "core/log.h"

#include <assert.h>

enum err log_read(struct log *log, struct log_position from, log_visit_fn *visit, void *arg,
                  log_reading_fn *reading, struct error *error)
{
    assert(log && visit);

    return log->ops->read(log, from, visit, arg, reading, error);
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

    enum err err = log->ops->room(log);
    assert(err == ERR_OK || err == ERR_FULL || err == ERR_BUSY);
    return err;
}

uint64_t log_reached(struct log *log, enum log_level level)
{
    assert(log);
    assert(level == LOG_WRITTEN || level == LOG_DURABLE);

    return log->ops->reached(log, level);
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
