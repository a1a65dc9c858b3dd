#include "sim/sim_world.h"

#include <assert.h>

#include "flow/recovery.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"
#include "sim/sim_names.h"
#include "sim/sim_vfs.h"
#include "store/sqlite/sqlite.h"

#define FIRST_WALL_MS INT64_C(1700000000000)

static uint64_t world_monotonic_ns(struct env *env)
{
    return ((struct world *)env)->monotonic_ns;
}

static int64_t world_wall_ms(struct env *env)
{
    struct world *world = (struct world *)env;
    if (world->wall_ms > world->latest_ms)
        world->latest_ms = world->wall_ms;
    return world->wall_ms;
}

static uint64_t world_random(struct env *env)
{
    return sim_rng_next(&((struct world *)env)->rng);
}

static void on_power_off(void *arg)
{
    struct world *world = arg;
    world->dying = true;
    sim_disk_power_off(world->disk);
    if (world->model_store)
        sim_store_power_off(world->model_store);
}

static void on_fatal(void *arg, const struct error *error)
{
    struct world *world = arg;
    report_trace(world->report, "  fatal: %s", error->text);
    world->dying = true;
    if (world->model_store)
        sim_store_power_off(world->model_store); /* the process ends here */
}

static void on_progress(void *arg)
{
    struct world *world = arg;
    if (world->up && world->progress)
        world->progress(world->progress_arg);
}

void world_init(struct world *world, const struct sim_options *options, enum bug bug,
                struct report *report)
{
    *world = (struct world){
        .env = {.monotonic_ns = world_monotonic_ns,
                .wall_ms = world_wall_ms,
                .random = world_random},
        .options = options,
        .report = report,
        .rng = {options->seed + 1},
        .wall_ms = FIRST_WALL_MS,
        .disk = sim_disk_new(options->seed + 2),
        .planted = planted_new(bug),
    };
    world->disk->faults.crash = on_power_off;
    world->disk->faults.crash_arg = world;
    world->env.disk = planted_disk(world->planted, &world->disk->base);

    enum err err = kinds_parse(&world->kinds, SLICE(SIM_KIND_LIST), NULL);
    assert(err == ERR_OK);
    (void)err;
    journal_init(&world->journal, options->ids, &world->kinds, report);
    world->journal.rng.state = options->seed + 6;
    world->journal.repeat_permille = options->faults[FAULT_REPEATED];
    if (options->store == SIM_MODEL_STORE) {
        world->model_store = sim_store_new(options, &world->kinds, bug);
        world->model_store->faults.crash = on_power_off;
        world->model_store->faults.crash_arg = world;
    }
}

/* Before the hot layer and the log, which they use. */
static void close_pipeline(struct world *world)
{
    aggregator_free(world->aggregator);
    loader_free(world->loader);
    store_close(world->store);
    world->aggregator = NULL;
    world->loader = NULL;
    world->store = NULL;
}

static void note_hot(struct world *world)
{
    struct hot_stats stats;
    hot_stats(world->hot, &stats);
    world->report->dropped += stats.dropped;
    world->report->loads += stats.loads;
}

static void close_process(struct world *world)
{
    if (world->hot)
        note_hot(world);
    close_pipeline(world);
    if (world->hot) {
        service_done(&world->service);
        hot_close(world->hot);
    }
    if (world->log)
        log_close(world->log);
    world->hot = NULL;
    world->log = NULL;
    world->file = NULL;
    world->up = false;
}

void world_done(struct world *world)
{
    sim_disk_power_off(world->disk);
    close_process(world);
    journal_done(&world->journal);
    sim_disk_free(world->disk);
    sim_store_free(world->model_store);
    planted_free(world->planted);
}

static enum err open_log(struct world *world, struct log **ret_log, struct error *error)
{
    struct file_log_options options = {
        .folder = WORLD_FOLDER,
        .segment_bytes = world->options->segment_bytes,
        .pending_bytes_max = world->options->pending_bytes_max,
        .manual = true,
        .fatal = on_fatal,
        .fatal_arg = world,
    };
    return file_log_open(&world->env, &options, ret_log, error);
}

static void open_hot(struct world *world)
{
    struct memory_hot_options options = {
        .kinds = &world->kinds,
        .log = world->log,
        .workers = world->options->workers,
        .keys_kept_ms = WORLD_KEYS_KEPT_MS,
        .idle_s = world->options->idle_s,
        .spread_rate = world->options->spread_rate,
        .retention_ms = world->options->retention_ms,
        .memory_max = world->options->memory_max,
    };
    world->hot = planted_hot(world->planted, memory_hot_open(&world->env, &options));
    service_init(&world->service, &world->env, world->hot, world->log, &world->kinds,
                 world->options->ack);
}

static enum err recover_alone(struct world *world, struct error *error)
{
    struct recovery recovery;
    return recovery_run(&world->env, world->log, world->hot, (struct log_position){0}, &recovery,
                        error);
}

static void open_aggregator(struct world *world, const struct state_mark *mark)
{
    const struct sim_options *options = world->options;
    world->aggregator = aggregator_new(
        &(struct aggregator_options){
            .env = &world->env,
            .log = world->log,
            .store = world->store,
            .hot = world->hot,
            .kinds = &world->kinds,
            .flush_interval_ms = options->flush_interval_ms,
            .flush_events = options->flush_events,
            .batch_events_max = options->batch_events_max,
            .keep_keys_ms = WORLD_KEYS_KEPT_MS,
            .log_keep_bytes = options->log_keep_bytes,
        },
        mark);
}

static enum err open_store(struct world *world, struct error *error)
{
    if (world->model_store) {
        world->store = sim_store_open(world->model_store);
        return ERR_OK;
    }
    struct sqlite_store_options options = {
        .path = WORLD_FOLDER "/tally.db",
        .vfs = SIM_VFS,
        .exclusive = true,
        .cache_bytes = 1 << 20,
    };
    sim_vfs_use(&world->env, WORLD_FOLDER);
    return sqlite_store_open(&world->env, &options, &world->store, error);
}

/* From where the store is. */
static enum err recover_behind(struct world *world, struct error *error)
{
    struct recovery recovery;
    struct state_mark mark;
    enum err err = open_store(world, error);
    if (err)
        return err;
    world->loader = loader_new(&(struct loader_options){.env = &world->env,
                                                        .hot = world->hot,
                                                        .store = world->store,
                                                        .keep_keys_ms = WORLD_KEYS_KEPT_MS});
    err = store_mark(world->store, &mark, error);
    if (!err)
        err = recovery_run_behind(&world->env, world->log, world->hot, world->loader, &mark,
                                  &recovery, error);
    if (err)
        return err;
    struct store_stats stats;
    store_stats(world->store, &stats);
    world->began_waiting = stats.pending + stats.retrying + stats.failed > 0;
    open_aggregator(world, &mark);
    return ERR_OK;
}

enum err world_start(struct world *world, struct error *error)
{
    assert(!world->up);

    world->dying = false;
    enum err err = open_log(world, &world->file, error);
    if (err)
        return err;
    callback_set(&world->file->progress, on_progress, world);
    world->log = planted_log(world->planted, journal_open(&world->journal, world->file));
    open_hot(world);

    err = world->options->store == SIM_NO_STORE ? recover_alone(world, error)
                                                : recover_behind(world, error);
    if (!err)
        err = log_start(world->log, error);
    if (err) {
        close_process(world);
        return err;
    }
    world->up = true;
    return ERR_OK;
}

void world_stop(struct world *world)
{
    if (world->aggregator)
        world_flush(world);
    note_hot(world);
    close_pipeline(world);
    service_done(&world->service);
    hot_close(world->hot);
    world->hot = NULL;
    struct log *log = world->log;
    world->log = NULL;
    world->up = false; /* nobody is there any more to hear an answer */
    log_close(log);
    world->file = NULL;
}

void world_die(struct world *world, bool by_power, struct sim_rng *rng)
{
    sim_disk_power_off(world->disk);
    if (world->model_store)
        sim_store_power_off(world->model_store);
    close_process(world);
    if (by_power)
        sim_disk_crash(world->disk, rng);
    else
        sim_disk_kill(world->disk);
    world->disk->faults.crash_at_call = 0;
    world->disk->faults.fail_at_call = 0;
    world->disk->faults.sync_failure_permille = 0;
    if (world->model_store)
        world->model_store->faults.crash_at_call = 0;
    world->dying = false;
}

bool world_commit(struct world *world)
{
    return file_log_step(world->file);
}

void world_aggregate(struct world *world)
{
    struct pipeline_stats before;
    struct pipeline_stats after;
    aggregator_stats(world->aggregator, &before);
    (void)aggregator_step(world->aggregator);
    aggregator_stats(world->aggregator, &after);
    world->report->flushes += after.batches - before.batches;
}

bool world_load(struct world *world)
{
    uint64_t before = world->hot->arrivals;
    struct error error;
    (void)loader_serve(world->loader, &error);
    return world->hot->arrivals != before;
}

void world_tell(struct world *world)
{
    (void)loader_step(world->loader);
}

void world_tell_all(struct world *world)
{
    while (loader_step(world->loader) == 0)
        ;
}

bool world_flush(struct world *world)
{
    return aggregator_flush(world->aggregator);
}

uint64_t world_faults(const struct world *world)
{
    uint64_t of_store = world->model_store ? world->model_store->counts.faults : 0;
    return world->disk->counts.faults + of_store;
}

enum err world_open_again(struct world *world, struct error *error)
{
    struct log *log;
    enum err err = open_log(world, &log, error);
    if (!err)
        log_close(log);
    return err;
}
