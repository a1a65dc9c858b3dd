/* seal.c - ending a segment when it is asked for. */
#include "log/file/file_own.h"

static void end_sealing(struct file_log *log, enum err result)
{
    pthread_mutex_lock(&log->mutex);
    log->seal_wanted = false;
    log->seal_result = result;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_broadcast(&log->sealed);
}

/* Is it time? Not before what was appended until then is durable; ERR_FULL when
 * that cannot be. */
static enum err may_seal(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    enum err err = ERR_OK;
    if (log->commit_full)
        err = ERR_FULL;
    else if (log->in_hand || atomic_load(&log->durable) < log->seal_ticket)
        err = ERR_BUSY;
    pthread_mutex_unlock(&log->mutex);
    return err;
}

static bool is_seal_wanted(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    bool wanted = log->seal_wanted && !log->broken;
    pthread_mutex_unlock(&log->mutex);
    return wanted;
}

bool seal_if_wanted(struct file_log *log)
{
    if (!is_seal_wanted(log))
        return false;
    bool has_groups = log->writer.file && log->writer.at > SEGMENT_HEADER_BYTES;
    struct error error;
    enum err err = may_seal(log);
    if (err == ERR_BUSY)
        return false;
    if (!err && has_groups)
        err = next_rotate(log, 0, &error);
    if (err == ERR_BUSY) {
        commit_block(log, NULL);
        return false;
    }
    if (err && err != ERR_FULL)
        file_log_fail(log, &error);
    end_sealing(log, err);
    return true;
}

/* ---- asking for it ---- */

/* Waits until the log thread has done it, or does its work. */
static enum err wait_for_seal(struct file_log *log, struct error *error)
{
    while (log->options.manual && log->seal_wanted && file_log_step(&log->base))
        ;
    pthread_mutex_lock(&log->mutex);
    while (!log->options.manual && log->seal_wanted && !log->broken)
        pthread_cond_wait(&log->sealed, &log->mutex);
    bool broken = log->broken;
    enum err err = log->seal_wanted ? ERR_FULL : log->seal_result;
    log->seal_wanted = false;
    pthread_mutex_unlock(&log->mutex);
    if (broken)
        return error_set(error, ERR_IO, "the log has failed and takes nothing more");
    return err ? error_set(error, err, "there is no space for the next segment of the log") : err;
}

enum err seal_rotate(struct log *base, struct error *error)
{
    struct file_log *log = file_log_of(base);
    pthread_mutex_lock(&log->upkeep);
    pthread_mutex_lock(&log->mutex);
    log->seal_wanted = true;
    log->seal_ticket = log->last_ticket;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->work);
    enum err err = wait_for_seal(log, error);
    pthread_mutex_unlock(&log->upkeep);
    return err;
}
