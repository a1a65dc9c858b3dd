/* gauge.h - a number that one thread writes and every thread may read.
 *
 * What an operator looks at: the reader may be a moment late, and the writer
 * pays no more than for an ordinary variable. */
#ifndef NET_GAUGE_H
#define NET_GAUGE_H

#include <stdatomic.h>
#include <stdint.h>

struct gauge {
    _Atomic uint64_t value;
};

static inline uint64_t gauge_read(const struct gauge *gauge)
{
    return atomic_load_explicit(&gauge->value, memory_order_relaxed);
}

static inline void gauge_set(struct gauge *gauge, uint64_t value)
{
    atomic_store_explicit(&gauge->value, value, memory_order_relaxed);
}

static inline void gauge_add(struct gauge *gauge, uint64_t delta)
{
    gauge_set(gauge, gauge_read(gauge) + delta);
}

#endif
