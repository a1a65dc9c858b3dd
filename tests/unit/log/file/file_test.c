/* The file log under a disk that loses power, fails and fills up. */
#include "unit/log/file/world.h"

#include "log/file/segment.h"

/* ---- crashes ---- */

/* A life with rotation, groups of one and of several sections, and a clean end;
 * false if it was cut short. */
static bool live(struct world *world)
{
    struct error error;
    if (world_start(world, &error))
        return false;
    for (unsigned i = 0; i < 12 && world->fatal_count == 0; i++) {
        world->padding = i % 3 * 400;
        for (unsigned sections = i % 4; sections > 0; sections--)
            world_append(world);
        while (world_step(world))
            ;
    }
    if (world->fatal_count > 0)
        return false;
    world_close(world);
    return world->fatal_count == 0;
}

static void start_and_add(struct world *world)
{
    world_must_start(world);
    world_commit(world);
    world_close(world);
    assert_int_equal(world->fatal_count, 0);
}

/* Runs lives with the power cut at the n-th call, for every n, then again at
 * every call of the recovery after it. */
TEST(a_power_cut_at_any_call_loses_nothing_durable)
{
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct world *world = world_new(call);
        world->disk->faults.crash_at_call = call;
        whole = live(world) && live(world);
        world_power_cut(world);
        start_and_add(world);
        world_free(world);
    }
}

TEST(power_cuts_during_recovery_change_nothing)
{
    for (uint64_t call = 1; call < 90; call += 3) {
        bool whole = false;
        for (uint64_t second = 1; !whole; second++) {
            struct world *world = world_new(call * 1000 + second);
            world->disk->faults.crash_at_call = call;
            if (live(world))
                live(world);
            world_power_cut(world);

            /* What the first recovery would see is what all later ones see. */
            assert_int_equal(world_read(world, NULL), ERR_OK);
            uint64_t seen = world->seen;
            world_kill(world);
            world->disk->faults.crash_at_call = world->disk->counts.calls + second;
            struct error error;
            whole = world_start(world, &error) == ERR_OK;
            world_power_cut(world);
            assert_int_equal(world_read(world, NULL), ERR_OK);
            assert_int_equal(world->seen, seen);
            world_close(world);
            start_and_add(world);
            world_free(world);
        }
    }
}

TEST(a_kill_at_any_call_followed_by_a_power_cut_loses_nothing_that_was_seen)
{
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct world *world = world_new(call);
        world->disk->faults.crash_at_call = call;
        whole = live(world) && live(world);
        world_kill(world);
        world_must_start(world); /* sees what was written but never synced: it counts now */
        world_power_cut(world);
        start_and_add(world);
        world_free(world);
    }
}

TEST(lives_that_end_badly_in_any_order_make_one_log)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct world *world = world_new(seed);
        for (unsigned i = 0; i < 12; i++) {
            struct sim_disk_faults *faults = &world->disk->faults;
            uint64_t call = world->disk->counts.calls + 1 + sim_rng_below(&world->rng, 90);
            faults->crash_at_call = faults->fail_at_call = faults->sync_failure_permille = 0;
            switch (sim_rng_below(&world->rng, 4)) {
            case 0:
                faults->crash_at_call = call;
                break;
            case 1:
                faults->fail_at_call = call;
                faults->fail_with = ERR_IO;
                break;
            case 2:
                faults->fail_at_call = call;
                faults->fail_with = ERR_FULL;
                break;
            case 3:
                faults->sync_failure_permille = 30;
                break;
            }
            live(world);
            faults->sync_failure_permille = 0;
            if (sim_rng_chance(&world->rng, 500))
                world_kill(world);
            else
                world_power_cut(world);
        }
        start_and_add(world);
        world_free(world);
    }
}

/* ---- errors of the disk ---- */

TEST(an_error_at_any_call_stops_the_log_and_acknowledges_nothing)
{
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct world *world = world_new(call);
        world->disk->faults.fail_at_call = call;
        whole = live(world);
        uint64_t calls = world->disk->counts.calls;
        if (world->log && world->fatal_count > 0) {
            /* Nothing more is tried, and nothing more is said to be durable. */
            assert_int_equal(world->fatal_count, 1);
            uint64_t durable = log_reached(world->log, 0, LOG_DURABLE);
            world_append(world);
            assert_false(file_log_step(world->log));
            assert_int_equal(log_reached(world->log, 0, LOG_DURABLE), durable);
            assert_int_not_equal(log_room(world->log), ERR_OK);
            world_close(world);
            assert_int_equal(world->disk->counts.calls, calls);
        }
        world_kill(world);
        start_and_add(world);
        world_free(world);
    }
}

TEST(a_failed_sync_is_not_tried_again)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world->disk->faults.sync_failure_permille = 1000;
    world_append(world);
    world_step(world);
    world->disk->faults.sync_failure_permille = 0;
    assert_int_equal(world->fatal_count, 1);
    assert_int_equal(log_reached(world->log, 0, LOG_WRITTEN), 2);
    assert_int_equal(log_reached(world->log, 0, LOG_DURABLE), 1);
    world_free(world);
}

/* ---- a full disk ---- */

static void step_for_seconds(struct world *world, unsigned seconds)
{
    for (unsigned i = 0; i < seconds * 10; i++) {
        world->now_ns += 100000000;
        while (world_step(world))
            ;
    }
}

TEST(a_full_disk_is_said_in_time_and_forgotten_when_there_is_space)
{
    struct world *world = world_new(1);
    world->options.segment_bytes = 64 << 20;
    world->disk->faults.space_bytes = 6 << 20; /* takes the first segment, not the second */
    world_must_start(world);
    assert_int_equal(log_room(world->log), ERR_OK);
    step_for_seconds(world, 2);
    assert_int_equal(log_room(world->log), ERR_FULL);
    struct log_stats stats;
    log_stats(world->log, &stats);
    assert_true(stats.full_since_ms > 0);

    /* What was already on its way is kept all the same. */
    for (unsigned i = 0; i < 10; i++)
        world_commit(world);
    assert_int_equal(world->confirmed, 10);

    world->disk->faults.space_bytes = 0;
    step_for_seconds(world, 2);
    assert_int_equal(log_room(world->log), ERR_OK);
    log_stats(world->log, &stats);
    assert_int_equal(stats.full_since_ms, 0);
    world_free(world);
}

TEST(what_has_no_place_on_a_full_disk_waits_and_is_not_acknowledged)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world->disk->faults.space_bytes = sim_disk_used_bytes(world->disk);
    world->padding = 3000;
    for (unsigned i = 0; i < 8; i++) {
        world_append(world);
        step_for_seconds(world, 2);
    }
    assert_int_equal(world->fatal_count, 0);
    assert_int_equal(log_room(world->log), ERR_FULL);
    uint64_t confirmed = world->confirmed;
    assert_true(confirmed < world->appended);

    world->disk->faults.space_bytes = 0;
    step_for_seconds(world, 2);
    assert_int_equal(world->confirmed, world->appended);
    assert_int_equal(log_room(world->log), ERR_OK);
    world_power_cut(world);
    world_must_start(world);
    assert_int_equal(world->seen, 9);
    world_free(world);
}

/* Even a written block can need space, on a file system that copies on write. */
TEST(a_write_that_meets_a_full_disk_is_tried_again)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_append(world);
    world->disk->faults.fail_at_call = world->disk->counts.calls + 1;
    world->disk->faults.fail_with = ERR_FULL;
    assert_false(world_step(world));
    assert_int_equal(log_room(world->log), ERR_FULL);
    assert_int_equal(log_reached(world->log, 0, LOG_WRITTEN), 1);
    assert_true(world_step(world));
    assert_int_equal(log_room(world->log), ERR_OK);
    assert_int_equal(world->confirmed, 2);
    assert_int_equal(world->fatal_count, 0);
    world_free(world);
}

TEST(a_start_on_a_full_disk_reads_and_waits_for_space)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_close(world);
    disk_remove(&world->disk->base, WORLD_FOLDER "/log/next", NULL);
    world->disk->faults.space_bytes = sim_disk_used_bytes(world->disk) + 1000;
    world_must_start(world);
    assert_int_equal(world->seen, 1);
    assert_int_equal(log_room(world->log), ERR_FULL);
    world->disk->faults.space_bytes = 0;
    step_for_seconds(world, 2);
    assert_int_equal(log_room(world->log), ERR_OK);
    world_commit(world);
    assert_int_equal(world->confirmed, 2);
    world_free(world);
}

TEST(closing_on_a_full_disk_ends)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world->disk->faults.space_bytes = sim_disk_used_bytes(world->disk);
    world->padding = 3000;
    for (unsigned i = 0; i < 8; i++)
        world_append(world);
    world_close(world);
    world->disk->faults.space_bytes = 0;
    world_must_start(world);
    world_free(world);
}

/* ---- a slow disk ---- */

TEST(too_much_pending_is_said_and_taken_back)
{
    struct world *world = world_new(1);
    world->options.pending_bytes_max = 1000;
    world_must_start(world);
    while (log_room(world->log) == ERR_OK)
        world_append(world);
    assert_int_equal(log_room(world->log), ERR_BUSY);
    struct log_stats stats;
    log_stats(world->log, &stats);
    assert_in_range(stats.pending_bytes, 1000, 1100);
    while (world_step(world))
        ;
    assert_int_equal(log_room(world->log), ERR_OK);
    assert_int_equal(world->confirmed, world->appended);
    world_free(world);
}

/* ---- segments ---- */

static uint64_t segments_of(struct world *world)
{
    struct log_stats stats;
    log_stats(world->log, &stats);
    return stats.segments;
}

TEST(a_group_larger_than_a_segment_gets_one_that_fits)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world->padding = 500000;
    for (unsigned i = 0; i < 5; i++) {
        world_append(world);
        world_append(world);
        while (world_step(world))
            ;
    }
    assert_int_equal(world->confirmed, 10);
    world_power_cut(world);
    world_must_start(world);
    assert_int_equal(world->seen, 10);
    world_free(world);
}

TEST(starts_without_a_write_do_not_add_segments)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_close(world);
    world_must_start(world);
    uint64_t segments = segments_of(world);
    uint64_t used = sim_disk_used_bytes(world->disk);
    for (unsigned i = 0; i < 10; i++) {
        if (i % 2 == 0)
            world_close(world);
        else
            world_power_cut(world);
        world_must_start(world);
        assert_int_equal(segments_of(world), segments);
        assert_true(sim_disk_used_bytes(world->disk) <= used);
    }
    world_free(world);
}

TEST(stats_know_the_segments_and_their_bytes)
{
    struct world *world = world_new(1);
    for (unsigned life = 1; life <= 5; life++) {
        world_must_start(world);
        struct log_stats stats;
        log_stats(world->log, &stats);
        assert_int_equal(stats.segments, life);
        assert_int_equal(stats.disk_bytes, life * 8192);
        world_commit(world);
        world_close(world);
    }
    world_free(world);
}

TEST(a_segment_that_was_prepared_is_used_by_the_next_start)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_close(world);
    world_must_start(world);
    assert_false(file_log_step(world->log)); /* nothing to prepare */
    world_free(world);
}

/* ---- refusals ---- */

TEST(a_folder_that_is_in_use_is_refused)
{
    struct world *world = world_new(1);
    world_must_start(world);
    struct log *second;
    struct error error = {0};
    assert_int_equal(file_log_open(&world->env, &world->options, &second, &error), ERR_BUSY);
    assert_non_null(strstr(error.text, WORLD_FOLDER));
    world_free(world);
}

TEST(odd_segment_sizes_are_refused)
{
    struct world *world = world_new(1);
    static const uint64_t sizes[] = {0, 1, 4095, 4096, 8191, 8193, UINT64_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        world->options.segment_bytes = sizes[i];
        assert_int_equal(file_log_open(&world->env, &world->options, &world->log, NULL),
                         ERR_INVALID);
    }
    world->log = NULL;
    world_free(world);
}

/* ---- progress ---- */

struct levels {
    struct world *world;
    unsigned calls;
    uint64_t written[4];
    uint64_t durable[4];
};

static void note_levels(void *arg)
{
    struct levels *levels = arg;
    assert_true(levels->calls < 4);
    levels->written[levels->calls] = log_reached(levels->world->log, 0, LOG_WRITTEN);
    levels->durable[levels->calls] = log_reached(levels->world->log, 0, LOG_DURABLE);
    levels->calls++;
}

TEST(progress_is_told_after_the_write_and_after_the_sync)
{
    struct world *world = world_new(1);
    world_must_start(world);
    struct levels levels = {.world = world};
    callback_set(&world->log->progress, note_levels, &levels);
    world_append(world);
    world_append(world);
    world_step(world);
    assert_int_equal(levels.calls, 2);
    assert_int_equal(levels.written[0], 2);
    assert_int_equal(levels.durable[0], 0);
    assert_int_equal(levels.durable[1], 2);
    callback_set(&world->log->progress, NULL, NULL);
    world_free(world);
}

RUN(cmocka_unit_test(a_power_cut_at_any_call_loses_nothing_durable),
    cmocka_unit_test(power_cuts_during_recovery_change_nothing),
    cmocka_unit_test(a_kill_at_any_call_followed_by_a_power_cut_loses_nothing_that_was_seen),
    cmocka_unit_test(lives_that_end_badly_in_any_order_make_one_log),
    cmocka_unit_test(an_error_at_any_call_stops_the_log_and_acknowledges_nothing),
    cmocka_unit_test(a_failed_sync_is_not_tried_again),
    cmocka_unit_test(a_full_disk_is_said_in_time_and_forgotten_when_there_is_space),
    cmocka_unit_test(what_has_no_place_on_a_full_disk_waits_and_is_not_acknowledged),
    cmocka_unit_test(a_write_that_meets_a_full_disk_is_tried_again),
    cmocka_unit_test(a_start_on_a_full_disk_reads_and_waits_for_space),
    cmocka_unit_test(closing_on_a_full_disk_ends),
    cmocka_unit_test(too_much_pending_is_said_and_taken_back),
    cmocka_unit_test(a_group_larger_than_a_segment_gets_one_that_fits),
    cmocka_unit_test(starts_without_a_write_do_not_add_segments),
    cmocka_unit_test(stats_know_the_segments_and_their_bytes),
    cmocka_unit_test(a_segment_that_was_prepared_is_used_by_the_next_start),
    cmocka_unit_test(a_folder_that_is_in_use_is_refused),
    cmocka_unit_test(odd_segment_sizes_are_refused),
    cmocka_unit_test(progress_is_told_after_the_write_and_after_the_sync))
