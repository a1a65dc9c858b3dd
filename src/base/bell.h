/* bell.h - one thread sleeps until another rings, or until its time is up.
 *
 * A ring that comes before the sleep is not lost: the next wait returns at once. Any
 * number of rings are one. For threads that work beside the loops. */
#ifndef BASE_BELL_H
#define BASE_BELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct bell {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool rung;
};

void bell_init(struct bell *bell);
void bell_done(struct bell *bell);

/* Any thread. */
void bell_ring(struct bell *bell);

/* Sleeps for up to `wait_ms` (UINT64_MAX: for ever); true if it was rung. */
bool bell_wait(struct bell *bell, uint64_t wait_ms);

#endif
