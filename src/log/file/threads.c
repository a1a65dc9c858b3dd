/* threads.c - who does the work: the log thread commits and seals, the preparing
 * thread zeroes the next segment, the verifying thread reads old ones. In manual mode there are no
 * threads, and file_log_step() does the same work with the same functions. */
#include <assert.h>
#include <time.h>

#include "base/message.h"
#include "log/file/file_own.h"

#define VERIFY_PAUSE_NS (UINT64_C(3600) * 1000 * 1000 * 1000) /* when all was looked at */

static void wait_until(struct file_log *log, pthread_cond_t *condition, uint64_t deadline_ns)
{
    struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };
    pthread_cond_timedwait(condition, &log->mutex, &deadline);
}

/* Sleeps until there is work, or until the note of what was synced is to be made durable. True:
 * that is now. */
static bool sleep_idle(struct file_log *log)
{
    uint64_t at_ns = commit_settles_at(log, false);
    if (at_ns > 0 && env_monotonic_ns(log->env) >= at_ns)
        return true;
    log->idle = true;
    if (at_ns > 0)
        wait_until(log, &log->work, at_ns);
    else
        pthread_cond_wait(&log->work, &log->mutex);
    log->idle = false;
    return false;
}

/* True when there is something to do, false when it is time to end. */
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
            go = sleep_idle(log);
            if (go)
                break;
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return go;
}

static void *run_log(void *arg)
{
    struct file_log *log = arg;
    while (wait_for_work(log)) {
        if (commit_settle(log, false))
            continue;
        bool commits = commit_some(log);
        bool seals = seal_if_wanted(log);
        (void)commit_settle(log, commits || seals);
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

/* ---- verifying ---- */

/* What was found on the way to the end holds until the next time. */
static void note_verified(struct file_log *log, const struct verify_step *step)
{
    log->damaged += step->is_damaged;
    pthread_mutex_lock(&log->mutex);
    log->stats.verified_bytes += step->bytes;
    if (step->is_all || log->damaged > log->stats.damaged_segments)
        log->stats.damaged_segments = log->damaged;
    if (step->is_all)
        log->stats.verified_ms = (uint64_t)env_wall_ms(log->env);
    pthread_mutex_unlock(&log->mutex);
    if (step->is_all)
        log->damaged = 0;
}

static struct verify_step verify_step(struct file_log *log)
{
    struct verify_step step;
    struct error error;
    enum err err = verify_some(&log->verify, &step, &error);
    if (step.is_damaged)
        message_error("the log is damaged where the store has it already reason=\"%s\"",
                      error.text);
    else if (err)
        message_warning("a segment of the log cannot be looked at reason=\"%s\"", error.text);
    note_verified(log, &step);
    return step;
}

bool file_log_verify_step(struct log *base)
{
    struct file_log *log = file_log_of(base);
    assert(log->options.manual);
    return verify_step(log).is_all;
}

/* False when it is time to end. */
static bool wait_to_verify(struct file_log *log, uint64_t until_ns)
{
    pthread_mutex_lock(&log->mutex);
    while (!log->quit && !log->broken && env_monotonic_ns(log->env) < until_ns)
        wait_until(log, &log->ending, until_ns);
    bool go = !log->quit && !log->broken;
    pthread_mutex_unlock(&log->mutex);
    return go;
}

static void *run_verify(void *arg)
{
    struct file_log *log = arg;
    uint64_t next_ns = env_monotonic_ns(log->env);
    while (wait_to_verify(log, next_ns)) {
        struct verify_step step = verify_step(log);
        uint64_t rest_ns = step.bytes * 1000000000 / log->options.verify_bytes_per_s;
        next_ns = env_monotonic_ns(log->env) + (step.is_all ? VERIFY_PAUSE_NS : rest_ns);
    }
    return NULL;
}

/* ---- all of them ---- */

static void stop_helpers(struct file_log *log)
{
    pthread_mutex_lock(&log->mutex);
    log->quit = true;
    pthread_mutex_unlock(&log->mutex);
    pthread_cond_signal(&log->wanted);
    pthread_cond_signal(&log->ending);
    pthread_join(log->prepare_thread, NULL);
    if (log->verify_runs)
        pthread_join(log->verify_thread, NULL);
}

static int start_verifying(struct file_log *log)
{
    if (log->options.verify_bytes_per_s == 0)
        return 0;
    int errnum = pthread_create(&log->verify_thread, NULL, run_verify, log);
    log->verify_runs = errnum == 0;
    if (log->verify_runs)
        pthread_setname_np(log->verify_thread, "log-verify");
    return errnum;
}

enum err threads_start(struct file_log *log, struct error *error)
{
    int errnum = pthread_create(&log->prepare_thread, NULL, run_prepare, log);
    if (errnum == 0) {
        errnum = start_verifying(log);
        if (errnum == 0)
            errnum = pthread_create(&log->log_thread, NULL, run_log, log);
        if (errnum != 0)
            stop_helpers(log);
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
    stop_helpers(log);
}

bool file_log_settle_step(struct log *base, bool is_busy)
{
    struct file_log *log = file_log_of(base);
    assert(log->options.manual);
    return !log->broken && commit_settle(log, is_busy);
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
