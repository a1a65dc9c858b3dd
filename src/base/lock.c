#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Turns to wait for a holder that is at work on another core, before sleeping. */
#define SPINS 100

void lock_init(struct lock *lock)
{
    atomic_init(&lock->state, LOCK_FREE);
}

void lock_done(struct lock *lock)
{
    assert(atomic_load(&lock->state) == LOCK_FREE);
    (void)lock;
}

static void pause_a_moment(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

void lock_wait(struct lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        if (lock_try(lock))
            return;
        pause_a_moment();
    }
    /* From here on the lock is marked as waited for, also while we hold it: its
     * release then wakes one sleeper too many rather than one too few. */
    while (atomic_exchange_explicit(&lock->state, LOCK_WAITED_FOR, memory_order_acquire) !=
           LOCK_FREE)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, LOCK_WAITED_FOR, NULL, NULL, 0);
}

void lock_wake(struct lock *lock)
{
    syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
