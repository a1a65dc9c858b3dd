/* histogram.h - how often something took how long.
 *
 * Buckets of fixed bounds, for Prometheus. One thread observes, others read: no
 * lock, no atomic step on the way (each count is a relaxed load and store). */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 16u /* the last one is for all that is larger */

struct histogram {
    _Atomic uint64_t counts[HISTOGRAM_BUCKETS];
    _Atomic uint64_t sum_ns;
};

/* Upper bounds of the buckets in ns; the last is UINT64_MAX. From 50 us to 5 s. */
extern const uint64_t histogram_bounds_ns[HISTOGRAM_BUCKETS];

/* `times` observations of the same duration: a batch is timed once. */
void histogram_observe(struct histogram *histogram, uint64_t ns, uint64_t times);

/* Adds `from` to `to`, which nobody else uses. */
void histogram_merge(struct histogram *to, const struct histogram *from);

uint64_t histogram_count(const struct histogram *histogram);

/* The duration below which a share `quantile` (0 to 1) of them lies: the bound of its
 * bucket. 0 if there are none. */
uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile);

#endif
