/* histogram.h - latencies in log-linear buckets.
 *
 * Each power of two is cut into 64 equal buckets, so a percentile is off by
 * less than 1.6 % whether it is a microsecond or a minute, and adding a value is
 * a few instructions and no allocation. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SPLIT_BITS 6
#define HISTOGRAM_VALUE_BITS 42 /* over an hour in nanoseconds */
#define HISTOGRAM_BUCKETS \
    ((HISTOGRAM_VALUE_BITS - HISTOGRAM_SPLIT_BITS + 1) << HISTOGRAM_SPLIT_BITS)

struct histogram {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* A value that `fraction` (0 to 1) of those added do not exceed; 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *histogram, double fraction);

#endif
