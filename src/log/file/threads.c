/* threads.c - who does the work: the log thread commits and seals, the preparing
 * thread zeroes the next segment. In manual mode there are no threads, and
 * file_log_step() does the same work with the same functions. */
#include <assert.h>
#include <time.h>

#include "log/file/file_own.h"

static void wait_until(struct file_log *log, pthread_cond_t *condition, uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };
    pthread_cond_timedwait(condition, &log->mutex, &deadline);
}

/* True when there is something to commit, false when it is time to end. */
static bool wait_for_work(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    bool go = false;
    while (!log->broken) {
        bool has_work = log->in_hand || log->pending.first || log->seal_wanted;
        go =
            has_work && !log->blocked && (log->in_hand || log->seal_wanted || !commit_is_held(log));
        if (go || (log->stopping && (!has_work || log->commit_full)))
            break;
        if (log->blocked) {
            wait_until(log, &log->work, env_monotonic_ns(log->env) + RETRY_NS);
            log->blocked = false;
        } else {
            log->idle = true;
            pthread_cond_wait(&log->work, &log->mutex);
            log->idle = false;
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return go;
}

static void *run_log(void *arg)
{
    struct file_log *log = arg;
    while (wait_for_work(log)) {
        commit_some(log);
        seal_if_wanted(log);
    }
    return NULL;
}

/* The size of the segment to prepare, 0 when it is time to end. */
static uint64_t wait_for_want(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    while (!log->quit && !next_may_prepare(log)) {
        if (log->wanted_bytes > 0 && !log->broken)
            wait_until(log, &log->wanted, log->retry_ns);
        else
            pthread_cond_wait(&log->wanted, &log->mutex);
    }
    uint64_t wanted_bytes = log->quit ? 0 : log->wanted_bytes;
    pthread_mutex_unlock(&log->mutex);
    return wanted_bytes;
}

static void *run_prepare(void *arg)
{
    struct file_log *log = arg;
    for (;;) {
        uint64_t wanted_bytes = wait_for_want(log);
        if (wanted_bytes == 0)
            return NULL;
        next_prepare_some(log, wanted_bytes);
    }
}

static void stop_preparing(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->quit = true;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->wanted);
    pthread_join(log->prepare_thread, NULL);
}

enum err threads_start(struct file_log *log, struct error *error)
{
    int errnum = pthread_create(&log->prepare_thread, NULL, run_prepare, log);
    if (errnum == 0) {
        errnum = pthread_create(&log->log_thread, NULL, run_log, log);
        if (errnum != 0)
            stop_preparing(log);
    }
    if (errnum != 0)
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start a thread of the log");

    pthread_setname_np(log->prepare_thread, "log-prepare");
    pthread_setname_np(log->log_thread, "log-commit");
    log->threads_run = true;
    return ERR_OK;
}

void threads_stop(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->stopping = true;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->work);
    pthread_join(log->log_thread, NULL);
    stop_preparing(log);
}

bool file_log_step(struct log *base)
{
    struct file_log *log = file_log_of(base);
    assert(log->options.manual);

    if (log->broken)
        return false;
    bool prepares = next_may_prepare(log);
    if (prepares)
        next_prepare_some(log, log->wanted_bytes);
    bool commits = commit_some(log);
    bool seals = seal_if_wanted(log);
    return commits || seals || prepares ||
           next_may_prepare(log); /* a larger segment may be wanted now */
}
