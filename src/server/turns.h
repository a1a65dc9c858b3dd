/* turns.h - threads that give way to those who serve clients, as long as that does no harm.
 *
 * The aggregator and long work on the desk take a core when nobody else wants it. On a machine
 * whose cores are all busy, with us or with others, they may get next to nothing for minutes: then
 * the log grows, and where memory is limited nothing is saved, so nothing can be dropped, and
 * writes are refused. So they take their turn like everybody else while writes are refused for want
 * of memory, or the store is far behind, and give way again when that is over.
 *
 * Who may not raise the priority of his own threads (no root, LimitNICE= below 0) stays as he is.
 */
#ifndef SERVER_TURNS_H
#define SERVER_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TURNS_THREADS 8u

struct turns {
    _Atomic(pid_t) threads[TURNS_THREADS];
    atomic_uint count;

    bool is_pressed; /* of the one who looks */
    uint64_t refused;
    uint64_t calm_ns; /* not before */
};

/* The calling thread, which never ends before the process does, gives way from now on. */
void turns_join(struct turns *turns);

struct turns_figures {
    uint64_t refused; /* writes, for want of memory, since start */
    int64_t lag_ms;   /* of the store */
    uint64_t now_ns;
};

/* Every now and then, on one thread. True: it has changed who gives way. */
bool turns_look(struct turns *turns, const struct turns_figures *figures);

#endif
