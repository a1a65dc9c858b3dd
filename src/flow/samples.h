/* samples.h - the figures of the last hour, one sample each second.
 *
 * metrics.h says how things are; a page that was opened just now also wants to know how they came
 * to be so. Each call of samples_take() makes a sample of what has changed since the one before:
 * rates, and how long operations took in between, of the differences of the histograms.
 *
 * Bounded: the oldest sample makes room for the newest. One thread takes, any may read. */
#ifndef FLOW_SAMPLES_H
#define FLOW_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow/metrics.h"

#define SAMPLES_EVERY_MS 1000u
#define SAMPLES_MAX      3600u
#define SAMPLES_NONE     UINT32_MAX /* there was nothing to be measured */

struct sample {
    int64_t time_ms; /* when it was taken; grows from sample to sample */
    uint64_t resident_bytes;
    uint64_t hot_bytes;
    uint64_t log_bytes;
    uint64_t store_bytes;
    uint64_t disk_free_bytes;
    uint64_t disk_bytes;
    uint32_t writes; /* answered, each second, whatever the answer was */
    uint32_t reads;
    uint32_t refused; /* of both: could not be as asked */
    uint32_t errors;  /* of both: could not be done */
    uint32_t write_p50_us;
    uint32_t write_p90_us;
    uint32_t write_p99_us;
    uint32_t read_p50_us;
    uint32_t read_p90_us;
    uint32_t read_p99_us;
    uint32_t connections;
    uint32_t lag_events;
    uint32_t lag_ms;
    uint32_t flushes;      /* since the sample before */
    uint32_t flush_events; /* in each of them, on average */
    uint32_t flush_us;     /* likewise */
    uint32_t pending;
    uint32_t retrying;
    uint32_t dead_letters;
    uint32_t sync_us; /* of each sync of the log since the sample before, on average */
    uint32_t outbox;  /* entries; with many nodes */
};

/* A column of the samples: its name, and where it is. */
struct sample_column {
    const char *name;
    size_t offset;
    bool is_wide; /* 64 bits; else 32, and may be SAMPLES_NONE */
};
extern const struct sample_column sample_columns[];
extern const unsigned sample_column_count;

/* The value of a column. False: there is none. */
bool sample_read(const struct sample *sample, const struct sample_column *column,
                 uint64_t *ret_value);

struct samples;

/* `metrics` is borrowed. */
struct samples *samples_new(const struct metrics *metrics);
void samples_free(struct samples *samples); /* NULL does nothing */

/* About once each SAMPLES_EVERY_MS, from one thread. The first call only looks. A clock that was
 * set back makes it forget what it has. */
void samples_take(struct samples *samples);

/* Copies those taken after `since_ms`, oldest first, `to` having room for SAMPLES_MAX. Returns how
 * many. Any thread. */
size_t samples_copy(struct samples *samples, int64_t since_ms, struct sample *to);

#endif
