/* lock.h - a lock that is held for microseconds, taken often and rarely
 * contended, and that can say whether it was found taken.
 *
 * Free or taken is one word, and taking a free one is one instruction in the
 * caller's code: a request takes several of these, and the call into a library
 * would cost more than the work that the lock protects. Whoever finds it taken
 * sleeps in the kernel (futex). Not recursive. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum lock_state { LOCK_FREE, LOCK_TAKEN, LOCK_WAITED_FOR };

struct lock {
    _Atomic(uint32_t) state;
};

void lock_init(struct lock *lock);
void lock_done(struct lock *lock);

/* The slow halves: somebody else has it, somebody waits for it. */
void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
    uint32_t expected = LOCK_FREE;
    return atomic_compare_exchange_strong_explicit(&lock->state, &expected, LOCK_TAKEN,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void lock_take(struct lock *lock)
{
    if (__builtin_expect(!lock_try(lock), 0))
        lock_wait(lock);
}

static inline void lock_release(struct lock *lock)
{
    uint32_t state = atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release);
    assert(state != LOCK_FREE);
    if (__builtin_expect(state == LOCK_WAITED_FOR, 0))
        lock_wake(lock);
}

#endif
