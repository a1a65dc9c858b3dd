/* signals.h - what the outside tells the process to do.
 *
 * A thread of its own takes the signals, so that no handler ever interrupts
 * anything. It hands SIGTERM, SIGINT, SIGHUP and SIGUSR1 to the main thread as requests,
 * and ends the process by itself where the main thread could not:
 *
 *   told to stop while starting     nothing is acknowledged yet: exit 0
 *   told to stop a second time      exit 1
 *   stopping takes too long         exit 1
 *
 * A crash is something the log is made for: leaving at once loses nothing. */
#ifndef SERVER_SIGNALS_H
#define SERVER_SIGNALS_H

#include <stdint.h>

#include "base/error.h"

#define SIGNALS_STOP_WITHIN_S 10

enum signals_request {
    SIGNALS_NONE, /* the time is over */
    SIGNALS_RELOAD,
    SIGNALS_HAND_OVER,
    SIGNALS_STOP,
};

/* To be called before any other thread is started: they inherit what it
 * blocks. */
enum err signals_start(struct error *error);

/* Starting is over: from now on requests are handed over. */
void signals_ready(void);

/* Waits for a request; for ever when `timeout_ms` is 0. */
enum signals_request signals_wait(uint64_t timeout_ms);

#endif
