#include "base/lock.h"

#include <assert.h>

void lock_init(struct lock *lock)
{
    assert(lock);

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
    /* Spins a little before it sleeps: a cell is held for less than a sleep costs. */
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    int failed = pthread_mutex_init(&lock->mutex, &attributes);
    assert(!failed);
    pthread_mutexattr_destroy(&attributes);
}

void lock_done(struct lock *lock)
{
    assert(lock);

    int failed = pthread_mutex_destroy(&lock->mutex);
    assert(!failed); /* or somebody holds it still */
}
