/* resp_info.c - INFO: facts and figures, as `name:value` lines that the tools of
 * Redis can read. Names that Redis has mean what they mean there. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/pages.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"
#include "flow/pipeline.h"

#define INFO_BYTES_MAX (256u << 10)

/* The version of Redis whose commands and answers ours are like, for clients
 * that look at it to decide what they may ask. */
#define REDIS_VERSION "7.0.15"

struct info {
    struct resp *resp;
    struct service *service;
    struct buffer *to;
};

static void line(struct info *info, const char *name, uint64_t value)
{
    buffer_printf(info->to, "%s:%" PRIu64 "\r\n", name, value);
}

/* The sum of a gauge over all workers. */
static uint64_t sum(struct info *info, size_t offset)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < resp_door_workers(info->resp); i++) {
        const char *stats = (const char *)&resp_door_worker(info->resp, i)->stats;
        all += gauge_read((const struct gauge *)(stats + offset));
    }
    return all;
}

#define SUM(info, gauge) sum(info, offsetof(struct resp_worker_stats, gauge))

static uint64_t commands(struct info *info)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < resp_door_workers(info->resp); i++)
        all += resp_worker_commands(resp_door_worker(info->resp, i));
    return all;
}

static void server(struct info *info)
{
    const struct resp_options *options = resp_door_options(info->resp);
    int64_t now_ms = env_wall_ms(info->service->env);
    int64_t up_s = now_ms > options->started_ms ? (now_ms - options->started_ms) / 1000 : 0;
    buffer_printf(info->to,
                  "redis_version:" REDIS_VERSION "\r\ntally_version:%s\r\nredis_mode:standalone\r\n"
                  "os:Linux\r\narch_bits:%zu\r\nmultiplexing_api:epoll\r\nprocess_id:%ld\r\n"
                  "tcp_port:%u\r\nserver_time_usec:%" PRId64 "000\r\nuptime_in_seconds:%" PRId64
                  "\r\nuptime_in_days:%" PRId64 "\r\nworkers:%u\r\ndata_folder:%s\r\n",
                  options->version, sizeof(void *) * 8, (long)getpid(), resp_port(info->resp),
                  now_ms, up_s, up_s / 86400, resp_door_workers(info->resp),
                  options->data_folder ? options->data_folder : "");
}

/* Requests that wait for cold state or for the desk, for each of which a client waits. */
static uint64_t waiting(struct info *info)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < resp_door_workers(info->resp); i++)
        all += gauge_read(&resp_door_worker(info->resp, i)->pass.stats.waits);
    return all;
}

static void clients(struct info *info)
{
    line(info, "connected_clients", SUM(info, connections));
    line(info, "maxclients", resp_door_limits(info->resp).connections_max);
    line(info, "maxmemory_clients", gauge_read(&resp_door_client_limits(info->resp)->memory_max));
    line(info, "blocked_clients", waiting(info));
    line(info, "pubsub_clients", SUM(info, subscribers));
}

static void memory(struct info *info)
{
    struct mallinfo2 heap = mallinfo2();
    line(info, "used_memory", heap.uordblks + heap.hblkhd + pages_bytes());
    line(info, "used_memory_rss", memory_resident_bytes());
    line(info, "mem_clients_normal",
         atomic_load_explicit(&resp_door_client_limits(info->resp)->memory, memory_order_relaxed));
    struct hot_stats hot;
    hot_stats(info->service->hot, &hot);
    line(info, "maxmemory", hot.memory_max);
    buffer_printf(info->to, "maxmemory_policy:%s\r\nmem_allocator:libc\r\n",
                  hot.memory_max > 0 ? "allkeys-lru" : "noeviction");
    line(info, "hot_memory", hot.memory_bytes);
    line(info, "hot_counters", hot.hot_counters);
    line(info, "hot_items", hot.hot_items);
    line(info, "cold_counters",
         hot.counters > hot.hot_counters ? hot.counters - hot.hot_counters : 0);
    line(info, "cold_items", hot.items > hot.hot_items ? hot.items - hot.hot_items : 0);
    line(info, "cold_misses", hot.cold_misses);
    line(info, "cold_loads", hot.loads);
    line(info, "dropped", hot.dropped);
    line(info, "memory_refused_writes", hot.memory_refused);
}

static void persistence(struct info *info)
{
    struct log *log = info->service->log;
    struct log_stats stats;
    log_stats(log, &stats);
    uint64_t durable = log_reached(log, 0, LOG_DURABLE);
    uint64_t written = log_reached(log, 0, LOG_WRITTEN);
    buffer_printf(info->to, "loading:0\r\nack:%s\r\nlog_form:%s\r\n", ack_name(info->service->ack),
                  log->ops->name);
    line(info, "log_durable_ticket", durable);
    line(info, "log_written_ticket", written);
    line(info, "log_durable_lag", written > durable ? written - durable : 0);
    line(info, "log_pending_bytes", stats.pending_bytes);
    line(info, "log_sections", stats.sections);
    line(info, "log_bytes", stats.bytes);
    line(info, "log_groups", stats.groups);
    line(info, "log_sync_usec_mean", stats.groups > 0 ? stats.sync_ns / stats.groups / 1000 : 0);
    line(info, "log_sync_usec_max", stats.sync_ns_max / 1000);
    line(info, "log_segments", stats.segments);
    line(info, "log_disk_bytes", stats.disk_bytes);
    line(info, "log_verified_ms", stats.verified_ms);
    line(info, "log_damaged_segments", stats.damaged_segments);
    line(info, "log_full_since_ms", stats.full_since_ms);
    buffer_printf(info->to, "log_last_write_status:%s\r\n", stats.full_since_ms ? "full" : "ok");
}

/* A text of the store or the system as the value of a line. */
static void line_text(struct info *info, const char *name, const char *text)
{
    buffer_printf(info->to, "%s:", name);
    for (; *text; text++) {
        char c = *text < ' ' ? ' ' : *text;
        buffer_append(info->to, &c, 1);
    }
    buffer_printf(info->to, "\r\n");
}

static uint64_t mean(uint64_t sum_ns, uint64_t count)
{
    return count > 0 ? sum_ns / count / 1000 : 0;
}

static void pipeline(struct info *info)
{
    struct pipeline_stats stats;
    pipeline_read(info->service, &stats);
    line_text(info, "pipeline", !stats.runs ? "off" : stats.paused ? "paused" : "running");
    line_text(info, "pipeline_paused_reason", stats.reason);
    line(info, "pipeline_paused_since_ms", (uint64_t)stats.paused_since_ms);
    line(info, "pipeline_lag_events", stats.lag_events);
    line(info, "pipeline_lag_estimated", stats.lag_is_estimated);
    line(info, "pipeline_lag_bytes", stats.lag_bytes);
    line(info, "pipeline_lag_ms", (uint64_t)stats.lag_ms);
    line(info, "pipeline_events", stats.events);
    line(info, "pipeline_batches", stats.batches);
    line(info, "pipeline_batch_events", stats.batch_events);
    line(info, "pipeline_flush_usec", stats.flush_ns / 1000);
    line(info, "pipeline_flush_usec_mean", mean(stats.flush_ns_all, stats.batches));
    line(info, "pipeline_outages", stats.outages);
    line(info, "pipeline_refused", stats.refused);
    line(info, "pipeline_failed", stats.failed);
    line(info, "pipeline_cold_loads", stats.cold_loads);
    line(info, "pipeline_cold_load_usec_mean", mean(stats.cold_load_ns_all, stats.cold_loads));
    line(info, "audit_counters", stats.audited);
    line(info, "audit_drifts", stats.drifts);
    line(info, "audit_repairs", stats.repairs);
    line(info, "audit_ended_ms", (uint64_t)stats.audit_ended_ms);
    line(info, "log_trimmed_bytes", stats.trimmed_bytes);
}

static void store(struct info *info)
{
    struct pipeline_stats stats;
    pipeline_read(info->service, &stats);
    line(info, "store_bytes", stats.store.bytes);
    line(info, "store_pending", stats.store.pending);
    line(info, "store_retrying", stats.store.retrying);
    line(info, "store_succeeded", stats.store.succeeded);
    line(info, "store_dead_letters", stats.store.failed);
    line(info, "store_history_rows", stats.store.history_rows);
    line(info, "store_down_since_ms", (uint64_t)stats.store.down_since_ms);
}

static void stats(struct info *info)
{
    line(info, "total_connections_received", SUM(info, accepted));
    line(info, "total_commands_processed", commands(info));
    line(info, "instantaneous_ops_per_sec", SUM(info, rate));
    line(info, "total_net_input_bytes", SUM(info, bytes_in));
    line(info, "total_net_output_bytes", SUM(info, bytes_out));
    line(info, "rejected_connections", SUM(info, refused) + SUM(info, turned_away));
    line(info, "total_error_replies", SUM(info, errors));
    line(info, "protocol_errors", SUM(info, protocol_errors));
    line(info, "auth_failures", SUM(info, auth_failures));
    line(info, "client_timeouts", SUM(info, timeouts));
    uint64_t evicted = 0;
    for (unsigned i = 0; i < resp_door_workers(info->resp); i++)
        evicted += gauge_read(&resp_door_worker(info->resp, i)->share.evicted);
    line(info, "evicted_clients", evicted);
    line(info, "client_output_buffer_limit_disconnections", SUM(info, overflows));
    uint64_t batches = 0;
    uint64_t ops = 0;
    for (unsigned i = 0; i < resp_door_workers(info->resp); i++) {
        const struct pass *pass = &resp_door_worker(info->resp, i)->pass;
        batches += gauge_read(&pass->stats.batches);
        ops += gauge_read(&pass->stats.ops);
    }
    line(info, "batches", batches);
    line(info, "batch_ops", ops);
}

static void replication(struct info *info)
{
    buffer_printf(info->to, "role:master\r\nconnected_slaves:0\r\n");
}

static void cpu(struct info *info)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    buffer_printf(info->to, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n",
                  (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec,
                  (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec);
}

static void tally(struct info *info)
{
    struct hot_stats hot;
    hot_stats(info->service->hot, &hot);
    buffer_printf(info->to, "hot_form:%s\r\n", info->service->hot->ops->name);
    line(info, "counters", hot.counters);
    line(info, "items", hot.items);
    line(info, "reactions_held", hot.members);
    line(info, "users", hot.users);
    line(info, "idempotency_keys", hot.keys);
    line(info, "counters_beyond_64_bits", hot.big);
    line(info, "spread_now", hot.spread);
    line(info, "spread_changes", hot.spread_events);
    line(info, "cell_lock_waits", hot.lock_waits);
    line(info, "expired_counters", hot.expired);
    line(info, "refused_writes", hot.refused);
    if (hot.outbox_max == 0)
        return;
    line(info, "outbox_entries", hot.outbox_entries);
    line(info, "outbox_longest", hot.outbox_longest);
    line(info, "outbox_max", hot.outbox_max);
    struct metrics_door figures = {0};
    for (unsigned i = 0; i < resp_door_workers(info->resp); i++)
        pass_add_figures(&resp_door_worker(info->resp, i)->pass, &figures);
    line(info, "stale_reads_served", figures.stale_served);
    line(info, "stale_reads_refused", figures.stale_refused);
}

static void commandstats(struct info *info)
{
    for (unsigned i = 0; i < resp_command_count; i++) {
        uint64_t calls = SUM(info, calls[i]);
        if (calls > 0)
            buffer_printf(info->to, "cmdstat_%s:calls=%" PRIu64 "\r\n", resp_command_table[i].name,
                          calls);
    }
}

static void keyspace(struct info *info)
{
    struct hot_stats hot;
    hot_stats(info->service->hot, &hot);
    if (hot.counters + hot.items > 0)
        buffer_printf(info->to, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n",
                      hot.counters + hot.items, hot.deadlines);
}

static const struct info_section {
    const char *name;
    bool by_default;
    void (*write)(struct info *info);
} sections[] = {
    {"Server", true, server},
    {"Clients", true, clients},
    {"Memory", true, memory},
    {"Persistence", true, persistence},
    {"Pipeline", true, pipeline},
    {"Store", true, store},
    {"Stats", true, stats},
    {"Replication", true, replication},
    {"CPU", true, cpu},
    {"Tally", true, tally},
    {"Commandstats", false, commandstats},
    {"Keyspace", true, keyspace},
};

static bool is_asked(const struct info_section *section, unsigned argc, const struct slice *argv)
{
    if (argc == 1)
        return section->by_default;
    for (unsigned i = 1; i < argc; i++) {
        if (slice_equal_nocase(argv[i], slice_of(section->name)) ||
            slice_equal_nocase(argv[i], SLICE("all")) ||
            slice_equal_nocase(argv[i], SLICE("everything")) ||
            (section->by_default && slice_equal_nocase(argv[i], SLICE("default"))))
            return true;
    }
    return false;
}

void resp_info(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct buffer text;
    buffer_init(&text, INFO_BYTES_MAX);
    struct info info = {
        .resp = client->worker->resp,
        .service = client->worker->service,
        .to = &text,
    };
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (!is_asked(&sections[i], argc, argv))
            continue;
        buffer_printf(&text, "%s# %s\r\n", text.size > 0 ? "\r\n" : "", sections[i].name);
        sections[i].write(&info);
    }
    resp_reply_bulk(&client->reply, buffer_slice(&text));
    buffer_done(&text);
}
