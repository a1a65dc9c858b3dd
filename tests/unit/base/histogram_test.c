#include "base/histogram.h"

#include "unit/test.h"

#define MS UINT64_C(1000000)

TEST(bounds_grow_from_50_us_to_5_s_and_the_last_takes_the_rest)
{
    assert_int_equal(histogram_bounds_ns[0], 50000);
    assert_int_equal(histogram_bounds_ns[HISTOGRAM_BUCKETS - 2], 5000 * MS);
    assert_true(histogram_bounds_ns[HISTOGRAM_BUCKETS - 1] == UINT64_MAX);
    for (unsigned i = 1; i < HISTOGRAM_BUCKETS; i++)
        assert_true(histogram_bounds_ns[i - 1] < histogram_bounds_ns[i]);
}

TEST(a_bound_belongs_to_its_bucket)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        struct histogram histogram = {0};
        histogram_observe(&histogram, histogram_bounds_ns[i], 1);
        assert_int_equal(histogram.counts[i], 1);
        if (i + 1 < HISTOGRAM_BUCKETS) {
            histogram_observe(&histogram, histogram_bounds_ns[i] + 1, 1);
            assert_int_equal(histogram.counts[i + 1], 1);
        }
    }
}

TEST(a_batch_counts_as_often_as_it_says)
{
    struct histogram histogram = {0};
    histogram_observe(&histogram, 3 * MS, 100);
    histogram_observe(&histogram, 1, 0);
    assert_int_equal(histogram_count(&histogram), 100);
    assert_int_equal(histogram.sum_ns, 300 * MS);
}

TEST(merging_adds_every_bucket_and_the_sum)
{
    struct histogram to = {0};
    struct histogram from = {0};
    histogram_observe(&to, 1, 1);
    histogram_observe(&from, 1, 2);
    histogram_observe(&from, 100 * MS, 3);
    histogram_merge(&to, &from);
    assert_int_equal(histogram_count(&to), 6);
    assert_int_equal(to.counts[0], 3);
    assert_int_equal(to.sum_ns, 300 * MS + 3);
    assert_int_equal(histogram_count(&from), 5);
}

TEST(a_quantile_is_the_bound_of_its_bucket)
{
    struct histogram histogram = {0};
    assert_int_equal(histogram_quantile_ns(&histogram, 0.5), 0);

    histogram_observe(&histogram, 40000, 90);
    histogram_observe(&histogram, 4 * MS, 9);
    histogram_observe(&histogram, 9000 * MS, 1);
    assert_int_equal(histogram_quantile_ns(&histogram, 0), 50000);
    assert_int_equal(histogram_quantile_ns(&histogram, 0.9), 50000);
    assert_int_equal(histogram_quantile_ns(&histogram, 0.95), 5 * MS);
    assert_true(histogram_quantile_ns(&histogram, 1) == UINT64_MAX);
}

RUN(cmocka_unit_test(bounds_grow_from_50_us_to_5_s_and_the_last_takes_the_rest),
    cmocka_unit_test(a_bound_belongs_to_its_bucket),
    cmocka_unit_test(a_batch_counts_as_often_as_it_says),
    cmocka_unit_test(merging_adds_every_bucket_and_the_sum),
    cmocka_unit_test(a_quantile_is_the_bound_of_its_bucket))
