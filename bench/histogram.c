#include "histogram.h"

#include <assert.h>

#define SPLIT ((uint64_t)1 << HISTOGRAM_SPLIT_BITS)

/* Values below SPLIT have a bucket each. From there on, a value's bucket is its
 * power of two and the HISTOGRAM_SPLIT_BITS bits behind its first one. */
static unsigned bucket_of(uint64_t value)
{
    if (value >> HISTOGRAM_VALUE_BITS)
        return HISTOGRAM_BUCKETS - 1;
    if (value < SPLIT)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SPLIT_BITS;
    return (unsigned)((shift << HISTOGRAM_SPLIT_BITS) + (value >> shift));
}

static uint64_t highest_of(unsigned bucket)
{
    if (bucket < SPLIT)
        return bucket;
    unsigned shift = (bucket >> HISTOGRAM_SPLIT_BITS) - 1;
    uint64_t lowest = ((bucket & (SPLIT - 1)) + SPLIT) << shift;
    return lowest + ((uint64_t)1 << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    if (value > histogram->max)
        histogram->max = value;
}

uint64_t histogram_percentile(const struct histogram *histogram, double fraction)
{
    assert(fraction >= 0 && fraction <= 1);

    uint64_t wanted = (uint64_t)(fraction * (double)histogram->count);
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen > wanted) {
            uint64_t highest = highest_of(bucket);
            return highest < histogram->max ? highest : histogram->max;
        }
    }
    return histogram->max;
}
