#include "sim/sim_run.h"

#include <inttypes.h>
#include <string.h>

#include "core/event.h"
#include "log/file/file.h"
#include "sim/sim_check.h"
#include "sim/sim_faults.h"
#include "sim/sim_flip.h"
#include "sim/sim_names.h"
#include "sim/sim_proof.h"

#define SECOND_MS    1000
#define STARTS_MAX   200u
#define DRAIN_MAX    200u /* steps in which all must be well again when the faults end */
#define STEP_MS_MAX  200u
#define SEGMENTS_MAX 64u

struct run {
    const struct sim_options *options;
    struct report *report;
    struct sim_rng rng;
    struct world world;
    struct model model;
    struct clients clients;
    struct faults faults;
};

static void on_progress(void *arg)
{
    clients_listen(&((struct run *)arg)->clients);
}

static void pass_time(struct run *run, uint64_t ms)
{
    run->world.wall_ms += (int64_t)ms;
    run->world.monotonic_ns += ms * 1000000;
}

/* ---- dying and starting ---- */

static void die(struct run *run)
{
    faults_note_death(&run->faults);
    world_die(&run->world, run->faults.dies_by_power, &run->rng);
    clients_hung_up(&run->clients);
}

/* Not while something else is about to happen: which of the two it was must be clear. Not
 * where the log was trimmed, either: what is left of removed segments is not looked at. */
static void try_flip(struct run *run, enum fault fault)
{
    struct flip flip;
    struct sim_store_faults held = faults_hold(&run->faults);
    if (!run->report->failed && run->faults.at_call == FAULT_COUNT &&
        run->world.journal.trimmed == 0 && sim_rng_chance(&run->rng, run->options->faults[fault]) &&
        flip_pick(&run->world, fault, &run->rng, &flip))
        flip_try(&run->world, &flip);
    faults_go_on(&run->faults, held);
}

/* Starts the process, however often it is cut short. */
static bool start(struct run *run)
{
    struct world *world = &run->world;
    struct error error = {.text = ""};
    for (unsigned attempt = 0; attempt < STARTS_MAX; attempt++) {
        try_flip(run, FAULT_FLIP);
        try_flip(run, FAULT_MISPLACED);
        try_flip(run, FAULT_LAST);
        try_flip(run, FAULT_BEHIND);
        if (run->report->failed)
            return false;
        bool armed = faults_arm_start(&run->faults);
        uint64_t faults = world_faults(world);
        enum err err = world_start(world, &error);
        if (run->report->failed)
            return false;
        if (!err && !world->dying) {
            if (armed)
                faults_end(&run->faults);
            return true;
        }
        if (err && !world->dying && world_faults(world) == faults) {
            report_violation(run->report, "after op %" PRIu64 ": it does not start: %s",
                             run->report->ops, error.text);
            return false;
        }
        report_trace(run->report, "  start cut short: %s", error.text);
        run->report->hits[FAULT_IN_RECOVERY]++;
        die(run);
        faults_end(&run->faults);
    }
    report_violation(run->report, "it does not start in %u attempts", STARTS_MAX);
    return false;
}

/* Everything is as the model has it, in the store as well; nothing is refused meanwhile. Who
 * looks at everything brings it into memory: at times the store alone is looked at, so
 * that clients meet what is cold. */
static void look_at_all(struct run *run, bool for_sure)
{
    struct sim_store_faults held = faults_hold(&run->faults);
    run->clients.patient = true;
    bool looks = true;
    if (run->world.store) {
        proof_of_store(&run->world);
        if (sim_rng_chance(&run->rng, 500)) /* then what is new is known to be new */
            world_tell_all(&run->world);
        looks = for_sure || sim_rng_chance(&run->rng, 600);
    }
    if (looks && !run->report->failed)
        check_recovered(&run->clients);
    run->clients.patient = false;
    faults_go_on(&run->faults, held);
}

/* After a death or an orderly end: what is left must be exactly what the model
 * has when what the log has lost is taken back. */
static void recover(struct run *run)
{
    if (run->report->failed || !start(run))
        return;
    run->report->recoveries++;
    run->report->lost += model_rollback(&run->model, run->world.journal.count);
    look_at_all(run, false);
}

static void restart(struct run *run)
{
    struct world *world = &run->world;
    bool has_room = log_room(world->file) != ERR_FULL && world->disk->faults.space_bytes == 0 &&
                    run->faults.at_call != FAULT_FULL_CALL;
    world_stop(world);
    if (world->dying) {
        die(run);
    } else {
        clients_hung_up(&run->clients);
        if (has_room) /* an orderly end loses nothing */
            world->journal.relied = world->journal.count;
    }
    recover(run);
}

/* ---- steps ---- */

/* What a tick logs by itself are deletions of counters that have expired. */
static void judge_tick(struct run *run, uint64_t number)
{
    const struct journal_section *section = &run->world.journal.sections[number - 1];
    struct section_reader reader;
    struct event event;
    if (section_open(&reader, (struct slice){section->bytes, section->size}, NULL))
        return;
    while (section_next(&reader, &event, NULL) == ERR_OK) {
        unsigned id = sim_id_of(event.id);
        if (event.type != EVENT_DELETE || id >= run->options->ids ||
            !model_expire(&run->model, id, run->world.wall_ms, number))
            report_violation(run->report, "a tick changed id %u, which had not expired", id);
        event_done(&event);
    }
}

static void tick(struct run *run)
{
    uint64_t before = run->world.journal.count;
    hot_tick(run->world.hot, run->world.wall_ms);
    for (uint64_t number = before + 1; number <= run->world.journal.count; number++)
        judge_tick(run, number);
}

static void reshard(struct run *run)
{
    static const uint32_t shards[] = {1, 2, 3, 8, 64};
    unsigned id = (unsigned)sim_rng_below(&run->rng, run->options->ids);
    const struct model_record *record = model_record(&run->model, id);
    uint32_t wanted = shards[sim_rng_below(&run->rng, 5)];
    char name[SIM_NAME_BYTES];
    report_trace(run->report, "reshard id=%u shards=%u", id, wanted);
    enum err err = hot_reshard(run->world.hot, sim_id_name(run->options, id, 0, name), wanted,
                               run->world.wall_ms);
    if (run->world.store && err != ERR_OK)
        return; /* it is cold */
    if ((err == ERR_OK) != (record->thing != THING_NONE))
        report_violation(run->report, "id %u cannot be given %u shards", id, wanted);
}

struct scrub {
    struct slice user;
    uint64_t changed;
};

static bool scrub_section(void *arg, char *section, size_t size)
{
    struct scrub *scrub = arg;
    uint64_t changed = 0;
    section_erase(section, size, scrub->user, &changed, NULL);
    scrub->changed += changed;
    return changed > 0;
}

/* Everything of the log is durable, and in the store, where nothing waits. */
static bool is_all_in_store(struct run *run)
{
    struct world *world = &run->world;
    while (!world->dying && world_commit(world))
        ;
    if (world->dying || !world_flush(world) || world->dying)
        return false;
    struct store_stats stats;
    struct state_mark mark;
    struct log_stats log;
    store_stats(world->store, &stats);
    log_stats(world->log, &log);
    aggregator_mark(world->aggregator, &mark);
    return log.pending_bytes == 0 && stats.pending + stats.retrying + stats.failed == 0 &&
           journal_before(&world->journal, mark.position) == world->journal.count;
}

static bool holds_something(const struct run *run, unsigned user)
{
    for (unsigned id = 0; id < run->options->ids; id++) {
        if (model_held(&run->model, id, user) != KIND_NONE)
            return true;
    }
    return false;
}

/* Takes a user who holds nothing out of all that the log has so far. */
static void scrub(struct run *run)
{
    struct world *world = &run->world;
    unsigned users = run->options->users;
    unsigned user = (unsigned)sim_rng_below(&run->rng, users);
    unsigned tries = 0;
    while (holds_something(run, user)) {
        user = (user + 1) % users;
        if (++tries == users)
            return;
    }
    char name[SIM_NAME_BYTES];
    struct scrub arg = {.user = sim_user_name(user, name)};
    if (!is_all_in_store(run) || log_rotate(world->log, NULL))
        return;
    struct log_segment segments[SEGMENTS_MAX];
    size_t count = log_segments(world->log, segments, SEGMENTS_MAX);
    for (size_t i = 0; i < count && i < SEGMENTS_MAX && !world->dying; i++) {
        uint64_t changed;
        if (segments[i].sealed &&
            log_scrub(world->log, segments[i].number, scrub_section, &arg, &changed, NULL))
            break;
    }
    run->report->hits[FAULT_SCRUB] += arg.changed > 0;
    report_trace(run->report, "user %u is taken out of the log: %" PRIu64 " events", user,
                 arg.changed);
}

/* What the threads of the pipeline would do. */
static bool act_behind(struct run *run)
{
    struct world *world = &run->world;
    if (!world->store)
        return false;
    if (sim_rng_chance(&run->rng, run->options->flush_permille)) {
        world_aggregate(world);
    } else if (sim_rng_chance(&run->rng, run->options->load_permille)) {
        world_tell(world);
        if (!world->dying)
            clients_wake(&run->clients);
    } else {
        return false;
    }
    return true;
}

static void act(struct run *run)
{
    if (act_behind(run))
        return;
    if (sim_rng_chance(&run->rng, run->options->commit_permille)) {
        if (run->faults.slow_steps == 0)
            world_commit(&run->world);
    } else if (sim_rng_chance(&run->rng, run->options->tick_permille)) {
        tick(run);
    } else if (sim_rng_chance(&run->rng, run->options->reshard_permille)) {
        reshard(run);
    } else {
        clients_batch(&run->clients);
    }
}

static void step(struct run *run)
{
    pass_time(run, sim_rng_below(&run->rng, STEP_MS_MAX));
    enum strike strike = faults_strike(&run->faults);
    if (strike == STRIKE_DAY)
        model_retire_keys(&run->model);
    if (strike == STRIKE_RESTART && !run->world.dying) {
        restart(run);
        return;
    }
    if (strike == STRIKE_SCRUB && !run->world.dying)
        scrub(run);
    if (strike != STRIKE_DEATH && !run->world.dying)
        act(run);
    if (strike == STRIKE_DEATH || run->world.dying) {
        die(run);
        recover(run);
    }
}

/* ---- the end ---- */

/* The pipeline catches up: what was refused is tried again, nothing waits, and the
 * store is where the log ends. */
static bool drain_behind(struct run *run)
{
    struct world *world = &run->world;
    if (!world->store)
        return true;
    uint64_t count;
    struct error error;
    store_redrive(world->store, NULL, world->wall_ms, &count, &error);
    world_tell(world);
    clients_settle(&run->clients);
    world_aggregate(world);
    bool flushed = world_flush(world);
    struct store_stats stats;
    store_stats(world->store, &stats);
    return flushed && stats.pending + stats.retrying + stats.failed == 0;
}

/* The faults are over: everything is answered soon, and writes are taken. */
static void drain(struct run *run)
{
    faults_end(&run->faults);
    for (unsigned i = 0; i < DRAIN_MAX && !run->report->failed; i++) {
        pass_time(run, SECOND_MS);
        if (run->world.store)
            tick(run); /* memory that was short is not any more */
        while (world_commit(&run->world))
            ;
        clients_listen(&run->clients);
        if (drain_behind(run) && run->clients.unheard_count == 0 &&
            log_room(run->world.log) == ERR_OK)
            return;
    }
    report_violation(run->report, "the faults are over, but writes are not taken or not answered");
}

static void send_retries(struct run *run)
{
    struct clients *clients = &run->clients;
    while (clients->retry_count > 0 && !run->report->failed) {
        uint32_t key = clients->retries[--clients->retry_count];
        if (!run->model.keys[key].retired)
            clients_repeat(clients, key);
        while (world_commit(&run->world))
            ;
    }
}

static void hear_line(void *arg, const char *line)
{
    report_trace(arg, "  check: %s", line);
}

static void finish(struct run *run)
{
    struct error error;
    drain(run);
    run->clients.patient = true;
    send_retries(run);
    if (run->report->failed)
        return;
    check_all(&run->clients, true);
    run->clients.patient = false;
    drain(run);
    if (run->report->failed)
        return;
    if (run->world.store)
        proof_of_store(&run->world);
    world_stop(&run->world);
    run->world.journal.relied = run->world.journal.count;
    clients_hung_up(&run->clients);
    if (file_log_check(&run->world.env, WORLD_FOLDER, hear_line, run->report, &error))
        report_violation(run->report, "at the end the log is found damaged: %s", error.text);
    if (world_start(&run->world, &error))
        report_violation(run->report, "at the end it does not start: %s", error.text);
    if (run->report->failed)
        return;
    model_rollback(&run->model, run->world.journal.count);
    look_at_all(run, true);
}

struct run_result sim_run(const struct sim_options *options, enum bug bug,
                          struct injection injection, struct report *report)
{
    struct run run = {.options = options, .report = report, .rng = {options->seed}};
    world_init(&run.world, options, bug, report);
    model_init(&run.model, options);
    clients_init(&run.clients, &run.world, &run.model, report);
    faults_init(&run.faults, &run.world, report);
    run.world.progress = on_progress;
    run.world.progress_arg = &run;
    if (injection.call != 0)
        faults_arm(&run.faults, injection.fault, injection.call);

    recover(&run);
    for (unsigned i = 0; i < options->steps && !report->failed; i++)
        step(&run);
    if (!report->failed)
        finish(&run);

    report_mix(report, sim_disk_hash(run.world.disk));
    if (run.world.model_store) {
        report_mix(report, sim_store_hash(run.world.model_store));
        report->hits[FAULT_STORE_MOMENT] += run.world.model_store->counts.faults;
        report->hits[FAULT_REFUSED] += run.world.model_store->counts.refused;
    }
    struct run_result result = {.hash = report->hash, .calls = run.world.disk->counts.calls};
    if (run.world.model_store)
        result.store_calls = run.world.model_store->counts.calls;
    world_done(&run.world);
    clients_done(&run.clients);
    model_done(&run.model);
    return result;
}
