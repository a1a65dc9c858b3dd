#include "server/signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "server/process.h"

#define SAME_WISH_MS 300

static struct {
    sigset_t set;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool running; /* starting is over */
    bool wants_reload;
    bool wants_hand_over;
    bool wants_stop;
} signals = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void ask_to_reload(void)
{
    pthread_mutex_lock(&signals.mutex);
    signals.wants_reload = signals.running; /* what is starting has read it all just now */
    pthread_cond_signal(&signals.changed);
    pthread_mutex_unlock(&signals.mutex);
}

static void ask_to_hand_over(void)
{
    pthread_mutex_lock(&signals.mutex);
    signals.wants_hand_over = signals.running;
    pthread_cond_signal(&signals.changed);
    pthread_mutex_unlock(&signals.mutex);
}

static void ask_to_stop(void)
{
    pthread_mutex_lock(&signals.mutex);
    if (!signals.running) {
        message_info("stopped before it was ready");
        _exit(PROCESS_FINE);
    }
    signals.wants_stop = true;
    pthread_cond_signal(&signals.changed);
    pthread_mutex_unlock(&signals.mutex);
}

/* Waits so long for one of the signals; 0 when none comes. */
static int wait_signal(const sigset_t *set, long ms)
{
    const struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int number;
    do
        number = sigtimedwait(set, NULL, &limit);
    while (number < 0 && errno == EINTR);
    return number > 0 ? number : 0;
}

/* The main thread is stopping: ends the process if that takes too long, or is
 * too slow for somebody. One wish to stop may arrive twice, sent to the process
 * and to its group: that is not impatience. */
static _Noreturn void guard_the_stop(void)
{
    sigset_t impatience = signals.set;
    (void)sigdelset(&impatience, SIGHUP);
    (void)sigdelset(&impatience, SIGUSR1);

    (void)nanosleep(&(struct timespec){.tv_nsec = SAME_WISH_MS * 1000000L}, NULL);
    while (wait_signal(&impatience, 0))
        continue;

    if (wait_signal(&impatience, SIGNALS_STOP_WITHIN_S * 1000 - SAME_WISH_MS))
        message_error("told to stop again: leaving at once");
    else
        message_error("did not stop in time: leaving at once seconds=%d", SIGNALS_STOP_WITHIN_S);
    _exit(PROCESS_FAILED);
}

static void *take_signals(void *arg)
{
    (void)arg;
    for (;;) {
        int number = sigwaitinfo(&signals.set, NULL);
        if (number == SIGHUP) {
            ask_to_reload();
        } else if (number == SIGUSR1) {
            ask_to_hand_over();
        } else if (number > 0) {
            ask_to_stop();
            guard_the_stop();
        }
    }
}

enum err signals_start(struct error *error)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&signals.set);
    (void)sigaddset(&signals.set, SIGTERM);
    (void)sigaddset(&signals.set, SIGINT);
    (void)sigaddset(&signals.set, SIGHUP);
    (void)sigaddset(&signals.set, SIGUSR1);

    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&signals.changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);

    pthread_t thread;
    int errnum = pthread_sigmask(SIG_BLOCK, &signals.set, NULL);
    if (errnum == 0)
        errnum = pthread_create(&thread, NULL, take_signals, NULL);
    if (errnum != 0)
        return error_set_errno(error, ERR_NO_MEMORY, errnum, "cannot start the signal thread");
    (void)pthread_setname_np(thread, "signals");
    (void)pthread_detach(thread);
    return ERR_OK;
}

void signals_ready(void)
{
    pthread_mutex_lock(&signals.mutex);
    signals.running = true;
    pthread_mutex_unlock(&signals.mutex);
}

static enum signals_request take_request(void)
{
    if (signals.wants_stop)
        return SIGNALS_STOP;
    if (signals.wants_reload) {
        signals.wants_reload = false;
        return SIGNALS_RELOAD;
    }
    if (signals.wants_hand_over) {
        signals.wants_hand_over = false;
        return SIGNALS_HAND_OVER;
    }
    return SIGNALS_NONE;
}

static void wait_for_change(const struct timespec *until)
{
    if (until)
        (void)pthread_cond_timedwait(&signals.changed, &signals.mutex, until);
    else
        (void)pthread_cond_wait(&signals.changed, &signals.mutex);
}

enum signals_request signals_wait(uint64_t timeout_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    long ns = until.tv_nsec + (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += (time_t)(timeout_ms / 1000) + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;

    pthread_mutex_lock(&signals.mutex);
    enum signals_request request = take_request();
    if (request == SIGNALS_NONE) {
        wait_for_change(timeout_ms > 0 ? &until : NULL);
        request = take_request();
    }
    pthread_mutex_unlock(&signals.mutex);
    return request;
}
