#include "base/histogram.h"

#include <assert.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const uint64_t histogram_bounds_ns[HISTOGRAM_BUCKETS] = {
    50 * US, 100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US, 5 * MS,    10 * MS,
    25 * MS, 50 * MS,  100 * MS, 250 * MS, 500 * MS, 1000 * MS, 5000 * MS, UINT64_MAX,
};

static uint64_t read_count(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void add_to(_Atomic uint64_t *count, uint64_t by)
{
    atomic_store_explicit(count, read_count(count) + by, memory_order_relaxed);
}

void histogram_observe(struct histogram *histogram, uint64_t ns, uint64_t times)
{
    assert(histogram);

    unsigned bucket = 0;
    while (ns > histogram_bounds_ns[bucket])
        bucket++;
    add_to(&histogram->counts[bucket], times);
    add_to(&histogram->sum_ns, ns * times);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    assert(to && from);

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        add_to(&to->counts[i], read_count(&from->counts[i]));
    add_to(&to->sum_ns, read_count(&from->sum_ns));
}

uint64_t histogram_count(const struct histogram *histogram)
{
    assert(histogram);

    uint64_t all = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        all += read_count(&histogram->counts[i]);
    return all;
}

uint64_t histogram_quantile_ns(const struct histogram *histogram, double quantile)
{
    assert(quantile >= 0 && quantile <= 1);

    uint64_t all = histogram_count(histogram);
    uint64_t below = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && all > 0; i++) {
        below += read_count(&histogram->counts[i]);
        if (below > 0 && (double)below >= quantile * (double)all)
            return histogram_bounds_ns[i];
    }
    return 0;
}
