#include "sim/sim_world.h"

#include <assert.h>

#include "flow/recovery.h"
#include "hot/memory/memory.h"
#include "log/file/file.h"
#include "sim/sim_names.h"

#define FIRST_WALL_MS INT64_C(1700000000000)

static uint64_t world_monotonic_ns(struct env *env)
{
    return ((struct world *)env)->monotonic_ns;
}

static int64_t world_wall_ms(struct env *env)
{
    return ((struct world *)env)->wall_ms;
}

static uint64_t world_random(struct env *env)
{
    return sim_rng_next(&((struct world *)env)->rng);
}

static void on_power_off(void *arg)
{
    ((struct world *)arg)->dying = true;
}

static void on_fatal(void *arg, const struct error *error)
{
    struct world *world = arg;
    report_trace(world->report, "  fatal: %s", error->text);
    world->dying = true;
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
}

static void close_process(struct world *world)
{
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
    };
    world->hot = planted_hot(world->planted, memory_hot_open(&world->env, &options));
    service_init(&world->service, &world->env, world->hot, world->log, &world->kinds,
                 world->options->ack);
}

enum err world_start(struct world *world, struct error *error)
{
    assert(!world->up);

    world->dying = false;
    enum err err = open_log(world, &world->file, error);
    if (err)
        return err;
    world->file->progress = on_progress;
    world->file->progress_arg = world;
    world->log = planted_log(world->planted, journal_open(&world->journal, world->file));
    open_hot(world);

    struct recovery recovery;
    err = recovery_run(&world->env, world->log, world->hot, (struct log_position){0}, &recovery,
                       error);
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
    close_process(world);
    if (by_power)
        sim_disk_crash(world->disk, rng);
    else
        sim_disk_kill(world->disk);
    world->disk->faults.crash_at_call = 0;
    world->disk->faults.fail_at_call = 0;
    world->disk->faults.sync_failure_permille = 0;
    world->dying = false;
}

bool world_commit(struct world *world)
{
    return file_log_step(world->file);
}

enum err world_open_again(struct world *world, struct error *error)
{
    struct log *log;
    enum err err = open_log(world, &log, error);
    if (!err)
        log_close(log);
    return err;
}
