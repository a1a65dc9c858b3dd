#include "sim/sim_faults.h"

#include <inttypes.h>
#include <string.h>

#include "sim/sim_names.h"

#define CALLS_AHEAD    24u /* a call soon enough to come before something else happens */
#define HOUR_MS        (INT64_C(3600) * 1000)
#define SYNC_PERMILLE  300u
#define FULL_BYTES_MAX 40000u

void faults_init(struct faults *faults, struct world *world, struct report *report)
{
    *faults = (struct faults){
        .world = world,
        .options = world->options,
        .report = report,
        .rng = {world->options->seed + 4},
        .at_call = FAULT_COUNT,
    };
}

/* ---- at a call of the disk ---- */

void faults_arm(struct faults *faults, enum fault fault, uint64_t call)
{
    struct sim_disk_faults *disk = &faults->world->disk->faults;
    faults->at_call = fault;
    faults->dies_by_power = fault == FAULT_POWER_AT_CALL ||
                            (fault == FAULT_IO_ERROR && sim_rng_chance(&faults->rng, 300));
    if (fault == FAULT_STORE_CALL) {
        faults->dies_by_power = true;
        faults->world->model_store->faults.crash_at_call = call;
        return;
    }
    if (fault == FAULT_POWER_AT_CALL || fault == FAULT_KILL_AT_CALL) {
        disk->crash_at_call = call;
        return;
    }
    disk->fail_at_call = call;
    disk->fail_with = fault == FAULT_FULL_CALL ? ERR_FULL : ERR_IO;
}

static uint64_t some_call_ahead(struct faults *faults)
{
    return faults->world->disk->counts.calls + 1 + sim_rng_below(&faults->rng, CALLS_AHEAD);
}

/* Whether the fault that was armed has struck by now. */
static bool has_struck(const struct faults *faults)
{
    if (faults->at_call == FAULT_STORE_CALL)
        return faults->world->model_store->counts.calls >=
               faults->world->model_store->faults.crash_at_call;
    const struct sim_disk *disk = faults->world->disk;
    uint64_t call =
        disk->faults.crash_at_call ? disk->faults.crash_at_call : disk->faults.fail_at_call;
    return call != 0 && disk->counts.calls >= call;
}

/* Notes the fault of a call when it has struck; the next may be armed then. */
static void settle(struct faults *faults)
{
    if (faults->at_call == FAULT_COUNT || !has_struck(faults))
        return;
    faults->report->hits[faults->at_call]++;
    faults->at_call = FAULT_COUNT;
    faults->world->disk->faults.fail_at_call = 0;
}

void faults_note_death(struct faults *faults)
{
    settle(faults);
    faults->at_call = FAULT_COUNT;
    if (faults->world->disk->faults.sync_failure_permille > 0)
        faults->report->hits[FAULT_SYNC_ERROR]++;
    if (faults->full_steps > 0 && sim_rng_chance(&faults->rng, 500))
        faults->full_steps = 1;
}

/* ---- the clock ---- */

static enum strike jump_clock(struct faults *faults)
{
    struct sim_rng *rng = &faults->rng;
    faults->report->hits[FAULT_CLOCK]++;
    int64_t jump_ms = (int64_t)sim_rng_below(rng, 2 * HOUR_MS);
    if (sim_rng_chance(rng, 500))
        jump_ms = (int64_t)sim_rng_below(rng, 20000);
    if (sim_rng_chance(rng, 50))
        jump_ms += WORLD_KEYS_KEPT_MS;
    if (sim_rng_chance(rng, 500))
        jump_ms = -jump_ms;
    report_trace(faults->report, "the clock jumps by %" PRId64 " ms", jump_ms);
    faults->world->wall_ms += jump_ms;
    if (jump_ms > 0)
        faults->forward_ms += jump_ms;
    if (faults->forward_ms < WORLD_KEYS_KEPT_MS / 2)
        return STRIKE_NOTHING;
    faults->forward_ms = 0;
    return STRIKE_DAY;
}

/* ---- the store ---- */

static void arm_store(struct faults *faults)
{
    uint64_t calls = faults->world->model_store->counts.calls;
    faults_arm(faults, FAULT_STORE_CALL, calls + 1 + sim_rng_below(&faults->rng, 8));
}

static void store_down(struct faults *faults)
{
    faults->report->hits[FAULT_STORE_DOWN]++;
    faults->down_steps = 1 + (unsigned)sim_rng_below(&faults->rng, 40);
    faults->world->model_store->faults.down = true;
    report_trace(faults->report, "the store is down");
}

static void poison(struct faults *faults)
{
    struct sim_store_faults *store = &faults->world->model_store->faults;
    faults->report->hits[FAULT_POISON]++;
    faults->poison_steps = 1 + (unsigned)sim_rng_below(&faults->rng, 120);
    store->refuses_id = true;
    store->refused_id = (unsigned)sim_rng_below(&faults->rng, faults->options->ids);
    report_trace(faults->report, "the store refuses id %u", store->refused_id);
}

static void drop(struct faults *faults)
{
    struct world *world = faults->world;
    char name[SIM_NAME_BYTES];
    unsigned id = (unsigned)sim_rng_below(&faults->rng, faults->options->ids);
    enum err err = hot_drop(world->hot, sim_id_name(faults->options, id, 0, name));
    faults->report->hits[FAULT_DROP] += err == ERR_OK;
    if (err == ERR_OK)
        report_trace(faults->report, "id %u is dropped", id);
    else if (err != ERR_BUSY && err != ERR_NOT_FOUND)
        report_violation(faults->report, "id %u cannot be dropped: %s", id, err_meaning(err));
}

/* An answer that nobody waits for, perhaps of what has changed since: it must not matter. */
struct unasked {
    struct hot *hot;
    struct hot_want want;
};

static void hand_in(void *arg, const struct state_target *target)
{
    struct unasked *unasked = arg;
    hot_loaded(
        unasked->hot, &unasked->want,
        &(struct hot_found){.code = target->absent ? ERR_NOT_FOUND : ERR_OK, .target = target});
}

static void answer_unasked(struct faults *faults)
{
    struct world *world = faults->world;
    struct store_reader *reader;
    if (store_reader_open(world->store, &reader, NULL))
        return;
    char name[SIM_NAME_BYTES];
    unsigned id = (unsigned)sim_rng_below(&faults->rng, faults->options->ids);
    struct slice text = sim_id_name(faults->options, id, 0, name);
    struct unasked unasked = {.hot = world->hot, .want.kind = HOT_WANT_TARGET};
    memcpy(unasked.want.bytes, text.data, text.size);
    unasked.want.id = (struct slice){unasked.want.bytes, text.size};
    if (store_load(reader, text, hand_in, &unasked, NULL) == ERR_OK)
        faults->report->hits[FAULT_UNASKED]++;
    store_reader_close(reader);
}

/* What goes wrong by itself, a little all the time; and what is over. */
static void step_store(struct faults *faults)
{
    struct sim_store_faults *store = &faults->world->model_store->faults;
    store->down_permille = faults->options->faults[FAULT_STORE_MOMENT] / 10;
    store->refuse_permille = faults->options->faults[FAULT_REFUSED] / 10;
    if (faults->down_steps > 0 && --faults->down_steps == 0)
        store->down = false;
    if (faults->poison_steps > 0 && --faults->poison_steps == 0)
        store->refuses_id = false;
}

static void end_store(struct faults *faults)
{
    struct sim_store_faults *store = &faults->world->model_store->faults;
    store->down = false;
    store->down_permille = 0;
    store->refuse_permille = 0;
    store->refuses_id = false;
    store->crash_at_call = 0;
    faults->down_steps = 0;
    faults->poison_steps = 0;
}

struct sim_store_faults faults_hold(struct faults *faults)
{
    struct sim_store *store = faults->world->model_store;
    struct sim_store_faults held = {.down = false};
    if (!store)
        return held;
    held = store->faults;
    store->faults = (struct sim_store_faults){.crash = held.crash, .crash_arg = held.crash_arg};
    return held;
}

void faults_go_on(struct faults *faults, struct sim_store_faults held)
{
    struct sim_store *store = faults->world->model_store;
    if (!store)
        return;
    if (held.crash_at_call > 0 && held.crash_at_call <= store->counts.calls)
        held.crash_at_call = store->counts.calls + 1; /* it was put off */
    store->faults = held;
}

/* ---- the others ---- */

static void open_twice(struct faults *faults)
{
    struct error error = {.text = ""};
    faults->report->hits[FAULT_SECOND_OPEN]++;
    if (world_open_again(faults->world, &error) == ERR_OK)
        report_violation(faults->report, "a second process was let into the folder");
}

static void fill_disk(struct faults *faults)
{
    struct sim_disk *disk = faults->world->disk;
    faults->report->hits[FAULT_FULL_DISK]++;
    faults->full_steps = 1 + (unsigned)sim_rng_below(&faults->rng, 40);
    disk->faults.space_bytes =
        1 + sim_disk_used_bytes(disk) + sim_rng_below(&faults->rng, FULL_BYTES_MAX);
    report_trace(faults->report, "the disk is full");
}

static void slow_disk(struct faults *faults)
{
    faults->report->hits[FAULT_SLOW_DISK]++;
    faults->slow_steps = 1 + (unsigned)sim_rng_below(&faults->rng, 60);
    report_trace(faults->report, "the disk is slow");
}

static enum strike strike(struct faults *faults, enum fault fault)
{
    switch (fault) {
    case FAULT_POWER:
    case FAULT_KILL:
        report_trace(faults->report, "%s", fault_text(fault));
        faults->dies_by_power = fault == FAULT_POWER;
        faults->report->hits[fault]++;
        return STRIKE_DEATH;
    case FAULT_POWER_AT_CALL:
    case FAULT_KILL_AT_CALL:
    case FAULT_IO_ERROR:
    case FAULT_FULL_CALL:
        if (faults->at_call == FAULT_COUNT)
            faults_arm(faults, fault, some_call_ahead(faults));
        return STRIKE_NOTHING;
    case FAULT_SYNC_ERROR:
        faults->dies_by_power = sim_rng_chance(&faults->rng, 300);
        faults->world->disk->faults.sync_failure_permille = SYNC_PERMILLE;
        return STRIKE_NOTHING;
    case FAULT_FULL_DISK:
        if (faults->full_steps == 0)
            fill_disk(faults);
        return STRIKE_NOTHING;
    case FAULT_SLOW_DISK:
        slow_disk(faults);
        return STRIKE_NOTHING;
    case FAULT_SECOND_OPEN:
        open_twice(faults);
        return STRIKE_NOTHING;
    case FAULT_CLOCK:
        return jump_clock(faults);
    case FAULT_RESTART:
        report_trace(faults->report, "restart");
        faults->report->hits[fault]++;
        return STRIKE_RESTART;
    case FAULT_STORE_DOWN:
        if (faults->down_steps == 0)
            store_down(faults);
        return STRIKE_NOTHING;
    case FAULT_STORE_CALL:
        if (faults->at_call == FAULT_COUNT)
            arm_store(faults);
        return STRIKE_NOTHING;
    case FAULT_POISON:
        if (faults->poison_steps == 0)
            poison(faults);
        return STRIKE_NOTHING;
    case FAULT_DROP:
        drop(faults);
        return STRIKE_NOTHING;
    case FAULT_UNASKED:
        answer_unasked(faults);
        return STRIKE_NOTHING;
    case FAULT_SCRUB:
        return STRIKE_SCRUB;
    case FAULT_STORE_MOMENT: /* these by themselves */
    case FAULT_REFUSED:
    case FAULT_REPEATED:
    case FAULT_TRIM:
    case FAULT_IN_RECOVERY: /* these when the process starts */
    case FAULT_FLIP:
    case FAULT_MISPLACED:
    case FAULT_LAST:
    case FAULT_BEHIND:
    case FAULT_COUNT:
        break;
    }
    return STRIKE_NOTHING;
}

enum strike faults_strike(struct faults *faults)
{
    settle(faults);
    if (faults->full_steps > 0 && --faults->full_steps == 0)
        faults->world->disk->faults.space_bytes = 0;
    if (faults->slow_steps > 0)
        faults->slow_steps--;
    if (faults->world->model_store)
        step_store(faults);
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        enum fault fault = (enum fault)i;
        bool at_start = fault == FAULT_IN_RECOVERY || fault == FAULT_FLIP ||
                        fault == FAULT_MISPLACED || fault == FAULT_LAST || fault == FAULT_BEHIND;
        if (at_start || !sim_rng_chance(&faults->rng, faults->options->faults[i]))
            continue;
        enum strike result = strike(faults, fault);
        if (result != STRIKE_NOTHING || faults->world->dying)
            return result;
    }
    return STRIKE_NOTHING;
}

bool faults_arm_start(struct faults *faults)
{
    if (!sim_rng_chance(&faults->rng, faults->options->faults[FAULT_IN_RECOVERY]))
        return false;
    static const enum fault usual[] = {FAULT_POWER_AT_CALL, FAULT_POWER_AT_CALL, FAULT_KILL_AT_CALL,
                                       FAULT_IO_ERROR, FAULT_FULL_CALL};
    faults_arm(faults, usual[sim_rng_below(&faults->rng, 5)], some_call_ahead(faults));
    return true;
}

void faults_end(struct faults *faults)
{
    struct sim_disk_faults *disk = &faults->world->disk->faults;
    settle(faults);
    faults->at_call = FAULT_COUNT;
    faults->full_steps = 0;
    faults->slow_steps = 0;
    disk->crash_at_call = 0;
    disk->fail_at_call = 0;
    disk->sync_failure_permille = 0;
    disk->space_bytes = 0;
    if (faults->world->model_store)
        end_store(faults);
}
