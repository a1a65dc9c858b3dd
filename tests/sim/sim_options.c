#include "sim/sim_options.h"

#include <inttypes.h>

#include "log/file/segment.h"
#include "sim/sim_rng.h"

static unsigned between(struct sim_rng *rng, unsigned least, unsigned most)
{
    return least + (unsigned)sim_rng_below(rng, most - least + 1);
}

/* Off for some seeds, small for most, large for a few. */
static unsigned pick_permille(struct sim_rng *rng, unsigned off_permille, unsigned most)
{
    if (sim_rng_chance(rng, off_permille))
        return 0;
    return between(rng, 1, sim_rng_chance(rng, 250) ? most : 1 + most / 5);
}

static void pick_weights(struct sim_options *options, struct sim_rng *rng)
{
    static const unsigned usual[SIM_OP_KINDS] = {
        [OP_GET] = 8,       [OP_EXISTS] = 1,  [OP_ADD] = 30,   [OP_SET] = 6,
        [OP_DELETE] = 4,    [OP_CREATE] = 6,  [OP_EXPIRE] = 4, [OP_REACT] = 30,
        [OP_WITHDRAW] = 10, [OP_TOGGLE] = 10, [OP_COUNTS] = 4, [OP_REACTION] = 4,
    };
    for (unsigned i = 0; i < SIM_OP_KINDS; i++)
        options->weights[i] = sim_rng_chance(rng, 200) ? 0 : usual[i];
    options->weights[sim_rng_chance(rng, 500) ? OP_ADD : OP_REACT] = 30;
}

static void pick_faults(struct sim_options *options, struct sim_rng *rng)
{
    static const unsigned most[FAULT_COUNT] = {
        [FAULT_POWER] = 40,        [FAULT_KILL] = 40,         [FAULT_POWER_AT_CALL] = 60,
        [FAULT_KILL_AT_CALL] = 60, [FAULT_IN_RECOVERY] = 500, [FAULT_IO_ERROR] = 30,
        [FAULT_FULL_CALL] = 30,    [FAULT_FULL_DISK] = 20,    [FAULT_SYNC_ERROR] = 20,
        [FAULT_SLOW_DISK] = 20,    [FAULT_FLIP] = 300,        [FAULT_MISPLACED] = 300,
        [FAULT_LAST] = 300,        [FAULT_BEHIND] = 200,      [FAULT_SECOND_OPEN] = 20,
        [FAULT_CLOCK] = 40,        [FAULT_RESTART] = 20,
    };
    for (unsigned i = 0; i <= FAULT_RESTART; i++)
        options->faults[i] = pick_permille(rng, 500, most[i]);
}

/* From a chance of its own, so that everything else of a seed is as it was without. */
static void pick_store(struct sim_options *options)
{
    static const unsigned most[FAULT_COUNT] = {
        [FAULT_STORE_DOWN] = 30, [FAULT_STORE_MOMENT] = 200, [FAULT_STORE_CALL] = 60,
        [FAULT_REFUSED] = 300,   [FAULT_POISON] = 20,        [FAULT_REPEATED] = 500,
        [FAULT_DROP] = 300,      [FAULT_UNASKED] = 100,      [FAULT_SCRUB] = 80,
    };
    struct sim_rng rng = {options->seed ^ UINT64_C(0x570e0fa11)};
    unsigned form = between(&rng, 0, 15);
    if (form < 5)
        return;
    options->store = form < 12 ? SIM_MODEL_STORE : SIM_SQLITE;
    options->store_sliced = sim_rng_chance(&rng, 300);
    options->memory_max = sim_rng_chance(&rng, 300) ? between(&rng, 1, 200) * 100 : 0;
    options->retention_ms = sim_rng_chance(&rng, 500) ? between(&rng, 1, 5000) : 0;
    options->flush_interval_ms = between(&rng, 0, 1000);
    options->flush_events = between(&rng, 1, 100);
    options->batch_events_max = sim_rng_chance(&rng, 500) ? between(&rng, 1, 50) : 0;
    options->log_keep_bytes =
        sim_rng_chance(&rng, 300) ? options->segment_bytes * between(&rng, 1, 4) : 0;
    options->flush_permille = between(&rng, 50, 500);
    options->load_permille = between(&rng, 100, 700);
    for (unsigned i = FAULT_RESTART + 1; i < FAULT_TRIM; i++)
        options->faults[i] = pick_permille(&rng, 400, most[i]);
    if (options->store == SIM_MODEL_STORE)
        return;
    /* What goes wrong with SQLite is the disk's doing. */
    for (unsigned i = FAULT_STORE_DOWN; i <= FAULT_POISON; i++)
        options->faults[i] = 0;
}

/* What is written outlives the process, but not the machine. */
static void pick_ack(struct sim_options *options, struct sim_rng *rng)
{
    if (!sim_rng_chance(rng, 50))
        return;
    options->ack = ACK_WRITTEN;
    options->faults[FAULT_POWER] = 0;
    options->faults[FAULT_POWER_AT_CALL] = 0;
    options->faults[FAULT_IN_RECOVERY] = 0;
    options->faults[FAULT_SYNC_ERROR] = 0;
    options->faults[FAULT_IO_ERROR] = 0;
}

void sim_options_of_seed(struct sim_options *options, uint64_t seed)
{
    static const unsigned users[] = {2, 5, 20, 150};
    struct sim_rng rng = {seed ^ UINT64_C(0x0970057ac5)};

    *options = (struct sim_options){
        .seed = seed,
        .steps = between(&rng, 50, 250),
        .ids = between(&rng, 1, sim_rng_chance(&rng, 200) ? 40 : 8),
        .id_bytes = sim_rng_chance(&rng, 200) ? LIMIT_ID_BYTES - 40 : between(&rng, 8, 32),
        .users = users[sim_rng_below(&rng, 4)],
        .workers = between(&rng, 1, 4),
        .batch_max = sim_rng_chance(&rng, 300) ? 40 : between(&rng, 1, 8),
        .keyed_permille = pick_permille(&rng, 200, 1000),
        .repeat_permille = pick_permille(&rng, 200, 500),
        .big_permille = pick_permille(&rng, 600, 300),
        .regional_permille = pick_permille(&rng, 500, 500),
        .segment_bytes = SEGMENT_ALIGN * between(&rng, 2, 12),
        .pending_bytes_max = between(&rng, 500, 20000),
        .idle_s = sim_rng_chance(&rng, 100) ? between(&rng, 1, 20) : 0,
        .spread_rate = between(&rng, 5, 2000),
        .commit_permille = between(&rng, 100, 600),
        .tick_permille = pick_permille(&rng, 200, 200),
        .reshard_permille = pick_permille(&rng, 300, 100),
    };
    pick_weights(options, &rng);
    pick_faults(options, &rng);
    pick_ack(options, &rng);
    pick_store(options);
}

void sim_options_print(const struct sim_options *options, FILE *to)
{
    fprintf(to,
            "seed %" PRIu64 ": steps=%u ids=%u id_bytes=%u users=%u workers=%u batch_max=%u "
            "keyed=%u repeat=%u big=%u regional=%u segment=%" PRIu64 " pending=%" PRIu64
            " ack=%s idle_s=%u spread_rate=%" PRIu64 " commit=%u tick=%u reshard=%u\n  ops",
            options->seed, options->steps, options->ids, options->id_bytes, options->users,
            options->workers, options->batch_max, options->keyed_permille, options->repeat_permille,
            options->big_permille, options->regional_permille, options->segment_bytes,
            options->pending_bytes_max, ack_name(options->ack), options->idle_s,
            options->spread_rate, options->commit_permille, options->tick_permille,
            options->reshard_permille);
    for (unsigned i = 0; i < SIM_OP_KINDS; i++)
        fprintf(to, " %u", options->weights[i]);
    fprintf(to, "\n");
    if (options->store != SIM_NO_STORE)
        fprintf(to,
                "  store=%s sliced=%d memory=%" PRIu64 " retention_ms=%" PRIu64 " flush_ms=%" PRIu64
                " flush_events=%" PRIu64 " batch_max=%" PRIu64 " keep=%" PRIu64
                " flush=%u load=%u\n",
                options->store == SIM_MODEL_STORE ? "model" : "sqlite", options->store_sliced,
                options->memory_max, options->retention_ms, options->flush_interval_ms,
                options->flush_events, options->batch_events_max, options->log_keep_bytes,
                options->flush_permille, options->load_permille);
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        if (options->faults[i] > 0)
            fprintf(to, "  %u in 1000: %s\n", options->faults[i], fault_text((enum fault)i));
    }
}
