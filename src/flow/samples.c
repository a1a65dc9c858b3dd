#include "flow/samples.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/lock.h"
#include "base/memory.h"

/* What only grows, as it was at some moment. */
struct totals {
    uint64_t monotonic_ns;
    uint64_t writes;
    uint64_t reads;
    uint64_t refused;
    uint64_t errors;
    struct histogram write_time;
    struct histogram read_time;
    uint64_t events; /* that went to the store */
    uint64_t flushes;
    uint64_t flush_ns;
    uint64_t syncs;
    uint64_t sync_ns;
};

struct samples {
    const struct metrics *metrics; /* borrowed */
    bool has_before;
    struct totals before; /* the taker's */

    struct lock lock; /* of what follows */
    uint32_t first;
    uint32_t count;
    struct sample ring[SAMPLES_MAX];
};

/* ---- columns ---- */

#define NARROW(name)                                \
    {                                               \
#name, offsetof(struct sample, name), false \
    }
#define WIDE(name)                                 \
    {                                              \
#name, offsetof(struct sample, name), true \
    }
#define WIDE_AS(name, member)                       \
    {                                               \
        name, offsetof(struct sample, member), true \
    }

const struct sample_column sample_columns[] = {
    WIDE_AS("time", time_ms), NARROW(writes),       NARROW(reads),         NARROW(refused),
    NARROW(errors),           NARROW(write_p50_us), NARROW(write_p90_us),  NARROW(write_p99_us),
    NARROW(read_p50_us),      NARROW(read_p90_us),  NARROW(read_p99_us),   NARROW(connections),
    NARROW(lag_events),       NARROW(lag_ms),       NARROW(flushes),       NARROW(flush_events),
    NARROW(flush_us),         NARROW(pending),      NARROW(retrying),      NARROW(dead_letters),
    NARROW(sync_us),          NARROW(outbox),       WIDE(resident_bytes),  WIDE(hot_bytes),
    WIDE(log_bytes),          WIDE(store_bytes),    WIDE(disk_free_bytes), WIDE(disk_bytes),
};
const unsigned sample_column_count = sizeof(sample_columns) / sizeof(sample_columns[0]);

bool sample_read(const struct sample *sample, const struct sample_column *column,
                 uint64_t *ret_value)
{
    const char *at = (const char *)sample + column->offset;
    if (column->is_wide) {
        memcpy(ret_value, at, sizeof(*ret_value));
        return true;
    }
    uint32_t narrow;
    memcpy(&narrow, at, sizeof(narrow));
    *ret_value = narrow;
    return narrow != SAMPLES_NONE;
}

/* ---- arithmetic ---- */

static uint32_t narrow(uint64_t value)
{
    return value < SAMPLES_NONE ? (uint32_t)value : SAMPLES_NONE - 1;
}

static uint32_t rate(uint64_t before, uint64_t after, uint64_t elapsed_ns)
{
    return narrow((uint64_t)((double)(after - before) * 1e9 / (double)elapsed_ns + 0.5));
}

static uint32_t mean(uint64_t sum, uint64_t count)
{
    return count > 0 ? narrow(sum / count) : SAMPLES_NONE;
}

static uint64_t bucket(const struct histogram *histogram, unsigned index)
{
    return atomic_load_explicit(&histogram->counts[index], memory_order_relaxed);
}

/* Where a share of what was observed between two moments lies. Within its bucket they are taken to
 * lie evenly; what is beyond the last bound is said to be there. */
static uint32_t quantile_us(const struct histogram *before, const struct histogram *after,
                            double share)
{
    uint64_t all = histogram_count(after) - histogram_count(before);
    if (all == 0)
        return SAMPLES_NONE;
    double wanted = share * (double)all;
    double below = 0;
    uint64_t low_ns = 0;
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        double here = (double)(bucket(after, i) - bucket(before, i));
        uint64_t high_ns = histogram_bounds_ns[i];
        if (here > 0 && below + here >= wanted) {
            double within = (wanted - below) / here * (double)(high_ns - low_ns);
            return narrow((low_ns + (uint64_t)within) / 1000);
        }
        below += here;
        low_ns = high_ns;
    }
    return narrow(low_ns / 1000);
}

/* ---- taking ---- */

static void add_door(struct totals *totals, const struct metrics_door *door)
{
    for (unsigned i = 0; i < METRICS_RESULTS; i++) {
        totals->writes += door->writes[i];
        totals->reads += door->reads[i];
    }
    totals->refused += door->writes[METRICS_REFUSED] + door->reads[METRICS_REFUSED];
    totals->errors += door->writes[METRICS_ERROR] + door->reads[METRICS_ERROR];
    histogram_merge(&totals->write_time, &door->write_time);
    histogram_merge(&totals->read_time, &door->read_time);
}

static void total(const struct metrics_sources *sources, struct totals *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < sources->door_count; i++)
        add_door(ret, &sources->doors[i]);
    ret->events = sources->pipeline.events;
    ret->flushes = sources->pipeline.batches;
    ret->flush_ns = sources->pipeline.flush_ns_all;
    ret->syncs = sources->log.groups;
    ret->sync_ns = sources->log.sync_ns;
}

static void note_rates(struct sample *sample, const struct totals *before,
                       const struct totals *after)
{
    uint64_t elapsed_ns = after->monotonic_ns - before->monotonic_ns;
    sample->writes = rate(before->writes, after->writes, elapsed_ns);
    sample->reads = rate(before->reads, after->reads, elapsed_ns);
    sample->refused = rate(before->refused, after->refused, elapsed_ns);
    sample->errors = rate(before->errors, after->errors, elapsed_ns);
    sample->write_p50_us = quantile_us(&before->write_time, &after->write_time, 0.50);
    sample->write_p90_us = quantile_us(&before->write_time, &after->write_time, 0.90);
    sample->write_p99_us = quantile_us(&before->write_time, &after->write_time, 0.99);
    sample->read_p50_us = quantile_us(&before->read_time, &after->read_time, 0.50);
    sample->read_p90_us = quantile_us(&before->read_time, &after->read_time, 0.90);
    sample->read_p99_us = quantile_us(&before->read_time, &after->read_time, 0.99);
    sample->sync_us = mean((after->sync_ns - before->sync_ns) / 1000, after->syncs - before->syncs);
}

/* A node whose log others carry into the store has no flushes of its own, but may know the lag. */
static void note_pipeline(struct sample *sample, const struct metrics_sources *sources,
                          const struct totals *before, const struct totals *after)
{
    const struct pipeline_stats *pipeline = &sources->pipeline;
    uint64_t flushes = after->flushes - before->flushes;
    bool has_lag = pipeline->runs || sources->has_nodes;
    bool runs = pipeline->runs;
    sample->lag_events = has_lag ? narrow(pipeline->lag_events) : SAMPLES_NONE;
    sample->lag_ms =
        has_lag ? narrow(pipeline->lag_ms > 0 ? (uint64_t)pipeline->lag_ms : 0) : SAMPLES_NONE;
    sample->flushes = runs ? narrow(flushes) : SAMPLES_NONE;
    sample->flush_events = mean(after->events - before->events, flushes);
    sample->flush_us = mean((after->flush_ns - before->flush_ns) / 1000, flushes);
    sample->pending = runs ? narrow(pipeline->store.pending) : SAMPLES_NONE;
    sample->retrying = runs ? narrow(pipeline->store.retrying) : SAMPLES_NONE;
    sample->dead_letters = runs ? narrow(pipeline->store.failed) : SAMPLES_NONE;
    sample->store_bytes = pipeline->store.bytes;
}

static void note_levels(struct sample *sample, const struct metrics_sources *sources)
{
    uint64_t connections = 0;
    for (size_t i = 0; i < sources->door_count; i++)
        connections += sources->doors[i].connections;
    sample->connections = narrow(connections);
    sample->outbox = sources->has_relay ? narrow(sources->hot.outbox_entries) : SAMPLES_NONE;
    sample->resident_bytes = sources->process.resident_bytes;
    sample->hot_bytes = sources->hot.memory_bytes;
    sample->log_bytes = sources->log.disk_bytes;
    sample->disk_free_bytes = sources->process.disk_free_bytes;
    sample->disk_bytes = sources->process.disk_bytes;
}

static void keep(struct samples *samples, const struct sample *sample)
{
    lock_take(&samples->lock);
    const struct sample *last =
        &samples->ring[(samples->first + samples->count + SAMPLES_MAX - 1) % SAMPLES_MAX];
    if (samples->count > 0 && sample->time_ms <= last->time_ms)
        samples->count = 0; /* the clock was set back */
    if (samples->count == SAMPLES_MAX) {
        samples->first = (samples->first + 1) % SAMPLES_MAX;
        samples->count--;
    }
    samples->ring[(samples->first + samples->count) % SAMPLES_MAX] = *sample;
    samples->count++;
    lock_release(&samples->lock);
}

void samples_take(struct samples *samples)
{
    assert(samples);

    struct env *env = samples->metrics->service->env;
    struct metrics_sources sources;
    struct totals now;
    metrics_gather(samples->metrics, METRICS_BRIEF, &sources);
    total(&sources, &now);
    now.monotonic_ns = env_monotonic_ns(env);
    if (samples->has_before && now.monotonic_ns > samples->before.monotonic_ns) {
        struct sample sample = {.time_ms = sources.now_ms};
        note_rates(&sample, &samples->before, &now);
        note_pipeline(&sample, &sources, &samples->before, &now);
        note_levels(&sample, &sources);
        keep(samples, &sample);
    }
    samples->before = now;
    samples->has_before = true;
}

/* ---- reading ---- */

size_t samples_copy(struct samples *samples, int64_t since_ms, struct sample *to)
{
    assert(samples && to);

    lock_take(&samples->lock);
    uint32_t skipped = 0;
    while (skipped < samples->count &&
           samples->ring[(samples->first + skipped) % SAMPLES_MAX].time_ms <= since_ms)
        skipped++;
    size_t count = samples->count - skipped;
    for (size_t i = 0; i < count; i++)
        to[i] = samples->ring[(samples->first + skipped + i) % SAMPLES_MAX];
    lock_release(&samples->lock);
    return count;
}

/* ---- life ---- */

struct samples *samples_new(const struct metrics *metrics)
{
    assert(metrics);

    struct samples *samples = memory_take_zeroed(sizeof(*samples));
    samples->metrics = metrics;
    lock_init(&samples->lock);
    return samples;
}

void samples_free(struct samples *samples)
{
    if (!samples)
        return;
    lock_done(&samples->lock);
    free(samples);
}
