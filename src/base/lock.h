/* lock.h - the lock of a cell: held for microseconds, taken often, rarely
 * contended, and able to say whether it was found taken. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct lock {
    pthread_mutex_t mutex;
};

void lock_init(struct lock *lock);
void lock_done(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
    return pthread_mutex_trylock(&lock->mutex) == 0;
}

static inline void lock_take(struct lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void lock_release(struct lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

#endif
