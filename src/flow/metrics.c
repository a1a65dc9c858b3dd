#include "flow/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"

/* A page being written. The first error stays; what follows it is left out. */
struct page {
    struct buffer *to;
    enum err err;
};

#define PRINT(page, ...)                                          \
    do {                                                          \
        if (!(page)->err)                                         \
            (page)->err = buffer_printf((page)->to, __VA_ARGS__); \
    } while (0)

/* A family begins: from here on all samples carry its name. */
static void family(struct page *page, const char *name, const char *type, const char *help)
{
    PRINT(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void gauge(struct page *page, const char *name, const char *help, uint64_t value)
{
    family(page, name, "gauge", help);
    PRINT(page, "%s %" PRIu64 "\n", name, value);
}

static void counter(struct page *page, const char *name, const char *help, uint64_t value)
{
    family(page, name, "counter", help);
    PRINT(page, "%s %" PRIu64 "\n", name, value);
}

/* Prometheus wants seconds; integers keep every digit on the way. */
#define NS_FORMAT      "%" PRIu64 ".%09" PRIu64
#define NS_ARGS(ns)    (uint64_t)(ns) / 1000000000u, (uint64_t)(ns) % 1000000000u
#define MS_FORMAT      "%" PRIu64 ".%03" PRIu64
#define MS_ARGS(ms)    (uint64_t)(ms) / 1000u, (uint64_t)(ms) % 1000u
#define NOT_BELOW_0(x) ((x) > 0 ? (x) : 0)

static void gauge_ns(struct page *page, const char *name, const char *help, uint64_t ns)
{
    family(page, name, "gauge", help);
    PRINT(page, "%s " NS_FORMAT "\n", name, NS_ARGS(ns));
}

static void gauge_ms(struct page *page, const char *name, const char *help, int64_t ms)
{
    family(page, name, "gauge", help);
    PRINT(page, "%s " MS_FORMAT "\n", name, MS_ARGS(NOT_BELOW_0(ms)));
}

/* How long something took all together, and how often it happened. */
static void summary(struct page *page, const char *name, const char *help, uint64_t sum_ns,
                    uint64_t count)
{
    family(page, name, "summary", help);
    PRINT(page, "%s_sum " NS_FORMAT "\n%s_count %" PRIu64 "\n", name, NS_ARGS(sum_ns), name, count);
}

/* --- labels --- */

/* The size of the UTF-8 character at `at`, 0 if there is none. */
static size_t utf8_size(const unsigned char *at, const unsigned char *end)
{
    size_t size = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
    if (size == 0 || *at > 0xf4 || (size_t)(end - at) < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
    bool is_surrogate = *at == 0xed && at[1] >= 0xa0;
    bool is_beyond = *at == 0xf4 && at[1] >= 0x90;
    return is_overlong || is_surrogate || is_beyond ? 0 : size;
}

static bool is_utf8(struct slice text)
{
    const unsigned char *at = (const unsigned char *)text.data;
    const unsigned char *end = at + text.size;
    while (at < end) {
        size_t size = utf8_size(at, end);
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

static void label_value(struct page *page, struct slice text)
{
    for (size_t i = 0; i < text.size && !page->err; i++) {
        char c = text.data[i];
        if (c == '\n')
            PRINT(page, "\\n");
        else if (c == '\\' || c == '"')
            PRINT(page, "\\%c", c);
        else
            page->err = buffer_append(page->to, &c, 1);
    }
}

/* --- the doors --- */

static const char *const result_names[METRICS_RESULTS] = {"ok", "refused", "error"};

enum metrics_result metrics_result_of(enum err code)
{
    switch (code) {
    case ERR_OK:
        return METRICS_OK;
    case ERR_INVALID:
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_WRONG_TYPE:
    case ERR_OUT_OF_RANGE:
    case ERR_BELOW_FLOOR:
    case ERR_KEY_REUSED:
    case ERR_TOO_LARGE:
    case ERR_DENIED:
        return METRICS_REFUSED;
    default:
        return METRICS_ERROR;
    }
}

static void operations(struct page *page, const struct metrics_door *door, const char *op,
                       const uint64_t by_result[METRICS_RESULTS])
{
    for (unsigned i = 0; i < METRICS_RESULTS; i++)
        PRINT(page, "tally_operations_total{door=\"%s\",op=\"%s\",result=\"%s\"} %" PRIu64 "\n",
              door->door, op, result_names[i], by_result[i]);
}

/* A bound in seconds, as short as it can be: "0.00025", "1". */
static void bound_text(char *to, size_t size, uint64_t ns)
{
    int written = snprintf(to, size, NS_FORMAT, NS_ARGS(ns));
    assert(written > 0 && (size_t)written < size);
    char *end = to + written;
    while (end[-1] == '0')
        *--end = '\0';
    if (end[-1] == '.')
        *--end = '\0';
}

static void durations(struct page *page, const struct metrics_door *door, const char *op,
                      const struct histogram *histogram)
{
    const char *name = "tally_operation_duration_seconds";
    uint64_t below = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        char bound[40] = "+Inf";
        if (i + 1 < HISTOGRAM_BUCKETS)
            bound_text(bound, sizeof(bound), histogram_bounds_ns[i]);
        below += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        PRINT(page, "%s_bucket{door=\"%s\",op=\"%s\",le=\"%s\"} %" PRIu64 "\n", name, door->door,
              op, bound, below);
    }
    uint64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    PRINT(page, "%s_sum{door=\"%s\",op=\"%s\"} " NS_FORMAT "\n", name, door->door, op,
          NS_ARGS(sum_ns));
    PRINT(page, "%s_count{door=\"%s\",op=\"%s\"} %" PRIu64 "\n", name, door->door, op, below);
}

/* The plain figures of a door, one family each. */
static const struct door_figure {
    const char *name;
    const char *type;
    const char *help;
    size_t offset; /* in struct metrics_door */
} door_figures[] = {
    {"tally_connections", "gauge", "Clients that are connected.",
     offsetof(struct metrics_door, connections)},
    {"tally_connections_accepted_total", "counter", "Clients that have connected.",
     offsetof(struct metrics_door, accepted)},
    {"tally_connections_rejected_total", "counter", "Clients turned away: there were too many.",
     offsetof(struct metrics_door, rejected)},
    {"tally_connection_timeouts_total", "counter", "Clients closed for being idle or slow.",
     offsetof(struct metrics_door, timeouts)},
    {"tally_connections_evicted_total", "counter",
     "Clients closed because the buffers of all together used too much memory.",
     offsetof(struct metrics_door, evicted)},
    {"tally_connection_buffer_bytes", "gauge",
     "Memory of requests that are not whole and answers that are not sent.",
     offsetof(struct metrics_door, buffer_bytes)},
    {"tally_received_bytes_total", "counter", "Bytes that came from clients.",
     offsetof(struct metrics_door, bytes_in)},
    {"tally_sent_bytes_total", "counter", "Bytes that went to clients.",
     offsetof(struct metrics_door, bytes_out)},
    {"tally_protocol_errors_total", "counter", "Requests that could not be understood.",
     offsetof(struct metrics_door, protocol_errors)},
    {"tally_auth_failures_total", "counter", "Wrong passwords and tokens.",
     offsetof(struct metrics_door, auth_failures)},
};

static void write_stale_reads(struct page *page, const struct metrics_sources *from)
{
    const char *name = "tally_stale_reads_total";
    family(page, name, "counter",
           "Reads while some of Redis did not answer: served, with what is known; refused, since "
           "the protocol cannot say so (stale-reads).");
    for (size_t i = 0; i < from->door_count; i++) {
        const struct metrics_door *door = &from->doors[i];
        PRINT(page, "%s{door=\"%s\",result=\"served\"} %" PRIu64 "\n", name, door->door,
              door->stale_served);
        PRINT(page, "%s{door=\"%s\",result=\"refused\"} %" PRIu64 "\n", name, door->door,
              door->stale_refused);
    }
}

static void write_doors(struct page *page, const struct metrics_sources *from)
{
    if (from->door_count == 0)
        return;
    family(page, "tally_operations_total", "counter",
           "Operations by door, kind and result: ok; refused, it could not be as asked; error, it "
           "could not be done.");
    for (size_t i = 0; i < from->door_count; i++) {
        operations(page, &from->doors[i], "read", from->doors[i].reads);
        operations(page, &from->doors[i], "write", from->doors[i].writes);
    }
    if (from->has_nodes)
        write_stale_reads(page, from);
    family(page, "tally_operation_duration_seconds", "histogram",
           "From having parsed a request to handing out its answer; a durable write includes the "
           "disk.");
    for (size_t i = 0; i < from->door_count; i++) {
        durations(page, &from->doors[i], "read", &from->doors[i].read_time);
        durations(page, &from->doors[i], "write", &from->doors[i].write_time);
    }
    for (size_t f = 0; f < sizeof(door_figures) / sizeof(door_figures[0]); f++) {
        const struct door_figure *figure = &door_figures[f];
        family(page, figure->name, figure->type, figure->help);
        for (size_t i = 0; i < from->door_count; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&from->doors[i] + figure->offset, sizeof(value));
            PRINT(page, "%s{door=\"%s\"} %" PRIu64 "\n", figure->name, from->doors[i].door, value);
        }
    }
}

/* --- the process --- */

static void write_process(struct page *page, const struct metrics_sources *from)
{
    const struct metrics_process *process = &from->process;
    family(page, "tally_build_info", "gauge", "Which version runs, and what its answers wait for.");
    PRINT(page, "tally_build_info{version=\"%s\",ack=\"%s\"} 1\n", from->version, from->ack);
    gauge_ms(page, "tally_start_time_seconds", "When it was started, since 1970.",
             from->started_ms);
    gauge_ms(page, "tally_uptime_seconds", "How long it has been running.",
             from->now_ms - from->started_ms);
    family(page, "tally_cpu_seconds_total", "counter", "Processor time of all threads.");
    PRINT(page, "tally_cpu_seconds_total " NS_FORMAT "\n", NS_ARGS(process->cpu_ns));
    gauge(page, "tally_resident_memory_bytes", "Memory of the process.", process->resident_bytes);
    gauge(page, "tally_heap_bytes", "Memory in use inside of it.", process->heap_bytes);
    gauge(page, "tally_open_files", "Open files and connections.", process->open_files);
    gauge(page, "tally_open_files_limit", "How many there may be.", process->open_files_max);
    if (process->disk_bytes == 0)
        return;
    gauge(page, "tally_disk_free_bytes", "Free space where the data lies.",
          process->disk_free_bytes);
    gauge(page, "tally_disk_size_bytes", "Size of the file system where the data lies.",
          process->disk_bytes);
}

/* --- the hot layer --- */

static void write_hottest(struct page *page, const struct metrics_sources *from)
{
    family(page, "tally_shard_value", "gauge",
           "What each shard holds of the counters that are written most; of an item, its members.");
    for (size_t i = 0; i < from->hottest_count && i < METRICS_HOTTEST_MAX; i++) {
        const struct metrics_hottest *hottest = &from->hottest[i];
        if (!is_utf8(hottest->id))
            continue; /* one such label would make Prometheus refuse the whole page */
        for (uint32_t shard = 0; shard < hottest->shards; shard++) {
            PRINT(page, "tally_shard_value{counter=\"");
            label_value(page, hottest->id);
            PRINT(page, "\",shard=\"%" PRIu32 "\"} %" PRId64 "\n", shard, hottest->totals[shard]);
        }
    }
}

static void write_hot(struct page *page, const struct metrics_sources *from)
{
    const struct hot_stats *hot = &from->hot;
    gauge(page, "tally_counters", "Counters, in memory or not.", hot->counters);
    gauge(page, "tally_items", "Items, in memory or not.", hot->items);
    gauge(page, "tally_reactions", "Reactions held by users.", hot->members);
    gauge(page, "tally_hot_counters", "Counters in memory.", hot->hot_counters);
    gauge(page, "tally_hot_items", "Items in memory.", hot->hot_items);
    gauge(page, "tally_hot_users", "Names of users in memory.", hot->users);
    gauge(page, "tally_idempotency_keys", "Idempotency keys remembered.", hot->keys);
    gauge(page, "tally_big_counters", "Counters beyond 64 bits.", hot->big);
    gauge(page, "tally_spread_counters", "Counters and items on more than one shard.", hot->spread);
    counter(page, "tally_reshards_total", "Times the shards of something changed.",
            hot->spread_events);
    counter(page, "tally_cell_lock_waits_total", "Times a cell's lock was found taken.",
            hot->lock_waits);
    counter(page, "tally_expired_total", "Counters whose time was over.", hot->expired);
    counter(page, "tally_writes_refused_total", "Writes refused: disk full, or not keeping up.",
            hot->refused);
    counter(page, "tally_cold_misses_total", "Operations that had to wait for the store.",
            hot->cold_misses);
    counter(page, "tally_hot_loads_total", "Counters, items and slices loaded from the store.",
            hot->loads);
    counter(page, "tally_hot_dropped_total", "Counters and items that left memory.", hot->dropped);
    gauge(page, "tally_hot_memory_bytes", "Memory that counts against max-memory.",
          hot->memory_bytes);
    gauge(page, "tally_hot_memory_limit_bytes", "max-memory; 0 is no limit.", hot->memory_max);
    counter(page, "tally_memory_refused_total", "Operations refused for want of memory.",
            hot->memory_refused);
    write_hottest(page, from);
}

/* --- the log --- */

static void write_log(struct page *page, const struct metrics_sources *from)
{
    const struct log_stats *log = &from->log;
    counter(page, "tally_log_sections_total", "Sections appended to the log.", log->sections);
    counter(page, "tally_log_appended_bytes_total", "Bytes appended to the log.", log->bytes);
    summary(page, "tally_log_sync_duration_seconds", "Time in fdatasync, and how often: commits.",
            log->sync_ns, log->groups);
    gauge_ns(page, "tally_log_sync_max_seconds", "The longest fdatasync since start.",
             log->sync_ns_max);
    gauge(page, "tally_log_pending_bytes", "Appended and not yet durable.", log->pending_bytes);
    gauge(page, "tally_log_segments", "Files of the log.", log->segments);
    gauge(page, "tally_log_disk_bytes", "Size of the log on disk.", log->disk_bytes);
    counter(page, "tally_log_verified_bytes_total",
            "Bytes of older segments read to see that they are sound.", log->verified_bytes);
    gauge(page, "tally_log_damaged_segments", "Older segments that are damaged, as last looked at.",
          log->damaged_segments);
    gauge(page, "tally_log_full", "1 while the log has no room and writes are refused.",
          log->full_since_ms != 0);
}

/* --- the pipeline and the store --- */

static void write_units(struct page *page, const struct store_stats *store)
{
    const struct {
        enum lifecycle_state state;
        const char *label;
        uint64_t count;
    } states[] = {
        {LIFECYCLE_PENDING, "pending", store->pending},
        {LIFECYCLE_RETRYING, "retrying", store->retrying},
        {LIFECYCLE_SUCCESS, "success", store->succeeded},
        {LIFECYCLE_FAILED, "failed", store->failed},
    };
    family(page, "tally_store_units", "gauge",
           "Applied units by state of their lifecycle, as far as their rows are kept.");
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        PRINT(page, "tally_store_units{state=\"%s\"} %" PRIu64 "\n", states[i].label,
              states[i].count);
}

static void write_store(struct page *page, const struct store_stats *store)
{
    gauge(page, "tally_store_up", "1 while the store answers.", store->down_since_ms == 0);
    gauge(page, "tally_store_disk_bytes", "Size of the store on disk.", store->bytes);
    gauge(page, "tally_store_history_rows", "Rows of the history of reactions.",
          store->history_rows);
    gauge(page, "tally_dead_letters", "Dead letters that nobody has dealt with.", store->failed);
    write_units(page, store);
}

static void write_lag(struct page *page, const struct pipeline_stats *pipeline)
{
    gauge(page, "tally_pipeline_paused", "1 while the aggregator waits for the store.",
          pipeline->paused);
    gauge(page, "tally_pipeline_lag_events",
          "Events in the log and not in the store; with many nodes an "
          "estimate from what was read before.",
          pipeline->lag_events);
    gauge(page, "tally_pipeline_lag_estimated", "1 where that is an estimate: with many nodes.",
          pipeline->lag_is_estimated);
    gauge(page, "tally_pipeline_lag_bytes", "Bytes of the log that are not in the store.",
          pipeline->lag_bytes);
    gauge_ms(page, "tally_pipeline_lag_seconds", "Age of the oldest of them.", pipeline->lag_ms);
}

static void write_audit(struct page *page, const struct pipeline_stats *pipeline)
{
    counter(page, "tally_audit_counters_total", "Counters that the audit has looked at.",
            pipeline->audited);
    counter(page, "tally_audit_drifts_total", "Wrong values that it found.", pipeline->drifts);
    counter(page, "tally_audit_repairs_total", "Wrong values that were put right.",
            pipeline->repairs);
    gauge_ms(page, "tally_audit_ended_time_seconds",
             "When its last round ended, since 1970; 0 is not yet.", pipeline->audit_ended_ms);
}

static void write_pipeline(struct page *page, const struct metrics_sources *from)
{
    const struct pipeline_stats *pipeline = &from->pipeline;
    gauge(page, "tally_pipeline_running", "1 when there is a store behind the log.",
          pipeline->runs);
    if (!pipeline->runs && from->has_nodes) { /* only the audit is ours */
        write_lag(page, pipeline);
        write_audit(page, pipeline);
    }
    if (!pipeline->runs)
        return;
    write_lag(page, pipeline);
    counter(page, "tally_pipeline_events_total", "Events applied to the store.", pipeline->events);
    summary(page, "tally_pipeline_flush_duration_seconds", "Time in flushes, and how often.",
            pipeline->flush_ns_all, pipeline->batches);
    gauge(page, "tally_pipeline_last_batch_events", "Events of the last batch.",
          pipeline->batch_events);
    gauge_ns(page, "tally_pipeline_last_flush_seconds", "Time that the last flush took.",
             pipeline->flush_ns);
    counter(page, "tally_pipeline_outages_total", "Times the store did not answer.",
            pipeline->outages);
    counter(page, "tally_pipeline_refused_total", "Units that the store refused at first.",
            pipeline->refused);
    counter(page, "tally_pipeline_failed_total", "Units that became dead letters.",
            pipeline->failed);
    summary(page, "tally_cold_load_duration_seconds",
            "Time in loads from the store, and how often.", pipeline->cold_load_ns_all,
            pipeline->cold_loads);
    write_audit(page, pipeline);
    counter(page, "tally_log_trimmed_bytes_total", "Bytes of the log that were trimmed.",
            pipeline->trimmed_bytes);
    write_store(page, &pipeline->store);
}

/* --- many nodes --- */

static uint64_t bits(uint64_t mask)
{
    return (uint64_t)__builtin_popcountll(mask);
}

static void write_relay(struct page *page, const struct relay_stats *relay,
                        const struct hot_stats *hot)
{
    gauge(page, "tally_outbox_entries", "Entries that wait in Redis for the log, in all cells.",
          hot->outbox_entries);
    gauge(page, "tally_outbox_longest", "Entries in the cell that has the most.",
          hot->outbox_longest);
    gauge(page, "tally_outbox_max", "Entries that make a cell refuse writes: outbox-max.",
          hot->outbox_max);
    gauge(page, "tally_cells_leased", "Cells that this node relays to the log.",
          bits(relay->leased));
    gauge(page, "tally_cells_opening", "Cells that are closed, and being opened.",
          bits(relay->opening));
    counter(page, "tally_cells_opened_total", "Cells that this node has opened.", relay->opened);
    counter(page, "tally_cells_kept_total", "Of these: nothing was missing in them.", relay->kept);
    counter(page, "tally_relay_sections_total", "Sections carried from outboxes to the log.",
            relay->sections);
    gauge(page, "tally_answers_waiting", "Groups of answers that wait for the log.",
          relay->waiting);
    counter(page, "tally_answers_weak_total", "Groups of answers that left without the log.",
            relay->weak);
}

static void write_nodes(struct page *page, const struct metrics_sources *from)
{
    if (!from->has_nodes)
        return;
    gauge(page, "tally_log_up", "1 while the log's servers answer.", from->log.down_since_ms == 0);
    if (from->has_relay)
        write_relay(page, &from->relay, &from->hot);
    if (!from->pipeline.runs)
        return;
    gauge(page, "tally_lanes_owned", "Lanes of the log that this node carries into the store.",
          from->pipeline.lanes);
    gauge(page, "tally_lanes_held", "Of these: waiting for another lane.",
          from->pipeline.lanes_held);
    gauge(page, "tally_lanes_stuck", "Of these: events are missing in the log.",
          from->pipeline.lanes_stuck);
}

enum err metrics_write(struct buffer *to, const struct metrics_sources *sources)
{
    assert(to && sources && sources->door_count <= METRICS_DOORS_MAX);

    struct page page = {.to = to};
    write_process(&page, sources);
    write_doors(&page, sources);
    write_hot(&page, sources);
    write_log(&page, sources);
    write_pipeline(&page, sources);
    write_nodes(&page, sources);
    return page.err;
}

/* --- where the figures come from --- */

void metrics_add_door(struct metrics *metrics, metrics_door_fn *fill, void *arg)
{
    assert(metrics->door_count < METRICS_DOORS_MAX);

    metrics->doors[metrics->door_count].fill = fill;
    metrics->doors[metrics->door_count].arg = arg;
    metrics->door_count++;
}

/* The hottest counters, with their names in one buffer. */
struct hottest {
    struct metrics_hottest list[METRICS_HOTTEST_MAX];
    char names[METRICS_HOTTEST_MAX][LIMIT_ID_BYTES];
    size_t count;
};

static void note_hottest(void *arg, struct slice id, bool is_item, uint32_t shards,
                         const int64_t *totals)
{
    struct hottest *hottest = arg;
    (void)is_item;
    if (hottest->count == METRICS_HOTTEST_MAX || id.size > LIMIT_ID_BYTES || shards > LIMIT_CELLS)
        return;
    struct metrics_hottest *next = &hottest->list[hottest->count];
    char *name = hottest->names[hottest->count++];
    memcpy(name, id.data, id.size);
    next->id = (struct slice){name, id.size};
    next->shards = shards;
    memcpy(next->totals, totals, shards * sizeof(*totals));
}

void metrics_gather(const struct metrics *metrics, enum metrics_extent extent,
                    struct metrics_sources *ret)
{
    const struct service *service = metrics->service;
    *ret = (struct metrics_sources){
        .version = metrics->version,
        .ack = ack_name(service->ack),
        .started_ms = metrics->started_ms,
        .now_ms = env_wall_ms(service->env),
        .door_count = metrics->door_count,
    };
    metrics_process_fn *process = extent == METRICS_ALL ? metrics->process : metrics->brief;
    if (process)
        process(metrics->process_arg, &ret->process);
    hot_stats(service->hot, &ret->hot);
    log_stats(service->log, &ret->log);
    pipeline_read(service, &ret->pipeline);
    struct relay *relay = service->relay;
    ret->has_nodes = service->log->lanes > 1;
    ret->has_relay = relay != NULL;
    if (relay)
        relay_stats(relay, &ret->relay);
    for (size_t i = 0; i < metrics->door_count; i++)
        metrics->doors[i].fill(metrics->doors[i].arg, &ret->doors[i]);
}

enum err metrics_page(const struct metrics *metrics, struct buffer *to)
{
    struct hottest hottest;
    struct metrics_sources sources;
    hottest.count = 0;
    hot_hottest(metrics->service->hot, METRICS_HOTTEST_MAX, note_hottest, &hottest);
    metrics_gather(metrics, METRICS_ALL, &sources);
    sources.hottest = hottest.list;
    sources.hottest_count = hottest.count;
    return metrics_write(to, &sources);
}
