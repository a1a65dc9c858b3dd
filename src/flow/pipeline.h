/* pipeline.h - how the way from the log to the store goes: figures for operators. */
#ifndef FLOW_PIPELINE_H
#define FLOW_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "core/store.h"

struct pipeline_stats {
    bool runs;
    bool paused; /* the store does not answer */
    char reason[200];
    int64_t paused_since_ms;
    uint64_t lag_events; /* in the log, not in the store */
    uint64_t lag_bytes;
    int64_t lag_ms;  /* age of the oldest of them; 0 = none */
    uint64_t events; /* applied since start */
    uint64_t batches;
    uint64_t batch_events; /* of the last batch */
    uint64_t flush_ns;     /* of the last batch */
    uint64_t flush_ns_all;
    uint64_t outages;
    uint64_t refused; /* units that the store did not want at the first try */
    uint64_t failed;  /* units that became dead letters */
    uint64_t cold_loads;
    uint64_t cold_load_ns_all;
    uint64_t audited; /* counters looked at */
    uint64_t drifts;  /* found since start */
    uint64_t repairs;
    int64_t audit_ended_ms; /* of the last round; 0 = none yet */
    uint64_t trimmed_bytes;
    struct store_stats store;
};

struct service;

/* All zero without a store. Any thread. */
void pipeline_read(const struct service *service, struct pipeline_stats *ret_stats);

#endif
