#include "sim/sim_exhaustive.h"

#include <inttypes.h>
#include <stdio.h>

#include "sim/sim_run.h"

struct scenario {
    const char *name;
    unsigned steps;
    unsigned batch_max;
    unsigned commit_permille;
    uint64_t segment_bytes;
    unsigned restart_permille;
    unsigned kill_permille;
    enum sim_form store;
};

static const struct scenario scenarios[] = {
    {"a first life", 20, 2, 500, 8192, 0, 0, SIM_NO_STORE},
    {"many segments", 60, 8, 500, 8192, 0, 0, SIM_NO_STORE},
    {"groups larger than a segment", 40, 40, 100, 8192, 0, 0, SIM_NO_STORE},
    {"orderly restarts", 40, 4, 400, 16384, 100, 0, SIM_NO_STORE},
    {"kills", 40, 4, 400, 16384, 0, 100, SIM_NO_STORE},
    {"a store behind", 60, 4, 400, 8192, 0, 0, SIM_MODEL_STORE},
    {"a store behind, and restarts", 60, 4, 400, 16384, 50, 50, SIM_MODEL_STORE},
    {"SQLite behind", 24, 4, 400, 8192, 0, 0, SIM_SQLITE},
};

static void options_of_scenario(struct sim_options *options, unsigned index)
{
    const struct scenario *scenario = &scenarios[index];
    *options = (struct sim_options){
        .seed = index + 1,
        .steps = scenario->steps,
        .ids = 6,
        .id_bytes = 40,
        .users = 5,
        .workers = 2,
        .batch_max = scenario->batch_max,
        .keyed_permille = 500,
        .repeat_permille = 100,
        .segment_bytes = scenario->segment_bytes,
        .pending_bytes_max = 20000,
        .spread_rate = 1000,
        .commit_permille = scenario->commit_permille,
        .tick_permille = 50,
        .reshard_permille = 50,
    };
    options->weights[OP_ADD] = 3;
    options->weights[OP_SET] = 1;
    options->weights[OP_DELETE] = 1;
    options->weights[OP_CREATE] = 1;
    options->weights[OP_REACT] = 3;
    options->weights[OP_TOGGLE] = 1;
    options->faults[FAULT_RESTART] = scenario->restart_permille;
    options->faults[FAULT_KILL] = scenario->kill_permille;
    if (scenario->store == SIM_NO_STORE)
        return;
    options->store = scenario->store;
    options->retention_ms = 500;
    options->flush_interval_ms = 200;
    options->flush_events = 10;
    options->log_keep_bytes = 2 * scenario->segment_bytes;
    options->flush_permille = 300;
    options->load_permille = 400;
    options->faults[FAULT_DROP] = 100;
    options->faults[FAULT_REFUSED] = scenario->store == SIM_MODEL_STORE ? 500 : 0;
}

static bool run_one(const struct sim_options *options, struct injection injection,
                    struct run_result *ret_result)
{
    struct report report = {.trace = false};
    struct run_result result = sim_run(options, BUG_NONE, injection, &report);
    if (ret_result)
        *ret_result = result;
    if (report.failed)
        printf("VIOLATION call %" PRIu64 ", %s: %s\n", injection.call,
               injection.call > 0 ? fault_text(injection.fault) : "nothing", report.violation);
    return !report.failed;
}

static bool run_scenario(unsigned index, uint64_t *ret_runs)
{
    static const enum fault kinds[] = {FAULT_POWER_AT_CALL, FAULT_KILL_AT_CALL, FAULT_IO_ERROR,
                                       FAULT_FULL_CALL};
    struct sim_options options;
    options_of_scenario(&options, index);
    struct run_result whole;
    bool good = run_one(&options, (struct injection){0}, &whole);
    for (uint64_t call = 1; call <= whole.store_calls; call++) {
        good &= run_one(&options, (struct injection){call, FAULT_STORE_CALL}, NULL);
        ++*ret_runs;
    }
    for (uint64_t call = 1; call <= whole.calls; call++) {
        for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            good &= run_one(&options, (struct injection){.call = call, .fault = kinds[i]}, NULL);
            ++*ret_runs;
        }
    }
    printf("%-30s %6" PRIu64 " calls: %s\n", scenarios[index].name, whole.calls + whole.store_calls,
           good ? "each may fail" : "FAILED");
    return good;
}

int exhaustive_run(void)
{
    uint64_t runs = 0;
    bool good = true;
    for (unsigned i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        good &= run_scenario(i, &runs);
    printf("%" PRIu64 " runs\n", runs);
    return good ? 0 : 1;
}
