/* Looking sealed segments through while the log runs. */
#include "unit/log/file/world.h"

#include "log/file/segment.h"

/* Five sealed segments behind a running one, of two groups each; all read by a start. */
static struct world *make_running(void)
{
    struct world *world = world_new(1);
    for (unsigned life = 0; life < 6; life++) {
        world_must_start(world);
        world_commit(world);
        world_commit(world);
        if (life < 5)
            world_close(world);
    }
    return world;
}

static struct log_stats verify_all(struct world *world)
{
    for (unsigned steps = 0; !file_log_verify_step(world->log); steps++)
        assert_true(steps < 100);
    struct log_stats stats;
    log_stats(world->log, &stats);
    return stats;
}

TEST(sound_segments_are_found_sound)
{
    struct world *world = make_running();
    struct log_stats stats = verify_all(world);
    assert_int_equal(stats.damaged_segments, 0);
    assert_true(stats.verified_ms > 0);
    assert_true(stats.verified_bytes > (uint64_t)5 * SEGMENT_HEADER_BYTES);
    world_free(world);
}

TEST(every_flipped_byte_of_a_sealed_segment_is_found_and_forgotten_when_it_is_well_again)
{
    struct world *world = make_running();
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    size_t end = SEGMENT_HEADER_BYTES;
    struct group group;
    while (group_get(bytes + end, &group))
        end += group_size(&group);
    for (size_t at = 0; at < end; at++) {
        sim_disk_flip(world->disk, world_path(3), at, at % 8);
        assert_int_equal(verify_all(world).damaged_segments, 1);
        sim_disk_flip(world->disk, world_path(3), at, at % 8);
    }
    assert_int_equal(verify_all(world).damaged_segments, 0);
    free(bytes);
    world_free(world);
}

TEST(segments_that_are_missing_or_short_or_others_are_found)
{
    struct world *world = make_running();
    size_t size;
    char *bytes = world_get(world, world_path(2), &size);
    world_put(world, world_path(4), bytes, size);
    assert_int_equal(verify_all(world).damaged_segments, 1);
    world_put(world, world_path(2), bytes, SEGMENT_HEADER_BYTES + 8);
    assert_int_equal(verify_all(world).damaged_segments, 2);
    disk_remove(&world->disk->base, world_path(1), NULL);
    assert_int_equal(verify_all(world).damaged_segments, 3);
    free(bytes);
    world_free(world);
}

TEST(what_is_trimmed_meanwhile_is_not_missed)
{
    for (unsigned steps = 0; steps < 8; steps++) {
        struct world *world = make_running();
        for (unsigned i = 0; i < steps; i++)
            file_log_verify_step(world->log);
        assert_int_equal(log_trim(world->log, 5, NULL), ERR_OK);
        assert_int_equal(verify_all(world).damaged_segments, 0);
        assert_int_equal(verify_all(world).damaged_segments, 0);
        world_free(world);
    }
}

TEST(a_segment_that_cannot_be_read_counts_as_damaged)
{
    struct world *world = make_running();
    world->disk->faults.fail_at_call = world->disk->counts.calls + 2;
    world->disk->faults.fail_with = ERR_IO;
    assert_int_equal(verify_all(world).damaged_segments, 1);
    assert_int_equal(world->fatal_count, 0);
    assert_int_equal(verify_all(world).damaged_segments, 0);
    world_free(world);
}

RUN(cmocka_unit_test(sound_segments_are_found_sound),
    cmocka_unit_test(
        every_flipped_byte_of_a_sealed_segment_is_found_and_forgotten_when_it_is_well_again),
    cmocka_unit_test(segments_that_are_missing_or_short_or_others_are_found),
    cmocka_unit_test(what_is_trimmed_meanwhile_is_not_missed),
    cmocka_unit_test(a_segment_that_cannot_be_read_counts_as_damaged))
