/* Following the file log in manual mode, and what damage a follower sees. */
#include "unit/log/file/world.h"

#include "log/file/segment.h"

static enum err follow(struct world *world, struct log_position *at, uint64_t limit,
                       struct error *error)
{
    return log_follow(world->log, 0, at, limit, world_visit, world, error);
}

TEST(what_is_written_but_not_synced_is_not_followed)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_append(world);
    struct log_position at = {0};
    world->seen = 0;
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    assert_int_equal(world->seen, 1);
    world->disk->faults.sync_failure_permille = 1000;
    world_step(world);
    assert_int_equal(world->fatal_count, 1);
    assert_int_equal(log_reached(world->log, 0, LOG_WRITTEN), 2);
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    assert_int_equal(world->seen, 1);
    world_free(world);
}

TEST(a_call_gives_whole_groups_and_stops_behind_its_limit)
{
    struct world *world = world_new(1);
    world_must_start(world);
    for (unsigned i = 0; i < 4; i++) {
        world_append(world);
        world_append(world);
        while (world_step(world))
            ;
    }
    struct log_position at = {0};
    world->seen = 0;
    for (unsigned i = 1; i <= 4; i++) {
        assert_int_equal(follow(world, &at, 1, NULL), ERR_OK);
        assert_int_equal(world->seen, 2 * i);
    }
    world_free(world);
}

TEST(groups_of_every_size_in_segments_of_every_size_are_followed)
{
    static const uint64_t paddings[] = {0, 100, 5000, 100000, 900000};
    struct world *world = world_new(1);
    world_must_start(world);
    struct log_position at = {0};
    world->seen = 0;
    for (unsigned i = 0; i < 60; i++) {
        world->padding = paddings[i % 5];
        for (unsigned sections = i % 3; sections > 0; sections--)
            world_append(world);
        while (world_step(world))
            ;
        if (i % 4 == 0)
            assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    }
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    assert_int_equal(world->seen, world->appended);
    struct log_position end = log_end(world->log, 0);
    assert_memory_equal(&at, &end, sizeof(at));

    at = (struct log_position){0};
    world->seen = 0;
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    assert_int_equal(world->seen, world->appended);
    world_free(world);
}

/* A start whose first segment is too small for the first group leaves an empty one. */
TEST(an_empty_segment_is_passed_over)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    struct log_position at = {0};
    world->seen = 0;
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    world_close(world);
    for (unsigned life = 0; life < 3; life++) {
        uint64_t seen = life == 0 ? 1 : world->seen;
        world_must_start(world);
        world->padding = 500000;
        world_commit(world);
        world->seen = seen;
        assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
        assert_int_equal(world->seen, world->appended);
        uint64_t appended = world->appended;
        world_close(world);
        world->seen = appended;
    }
    world_free(world);
}

/* ---- damage ---- */

/* Two sealed segments and the one in use, none of them looked at by a follower. */
static struct world *make_log(uint64_t seed)
{
    struct world *world = world_new(seed);
    world_must_start(world);
    for (unsigned i = 0; i < 6; i++) {
        world_commit(world);
        if (i % 2 == 1)
            assert_int_equal(log_rotate(world->log, NULL), ERR_OK);
    }
    world_commit(world);
    world->seen = 0;
    return world;
}

static void assert_flip_is_seen(unsigned segment, uint64_t byte, unsigned bit)
{
    struct world *world = make_log(byte);
    assert_int_equal(sim_disk_flip(world->disk, world_path(segment), byte, bit), ERR_OK);
    struct log_position at = {0};
    struct error error = {0};
    assert_int_equal(follow(world, &at, UINT64_MAX, &error), ERR_CORRUPT);
    if (!strstr(error.text, world_path(segment)) || !strstr(error.text, "offset"))
        fail_msg("\"%s\" does not name %s", error.text, world_path(segment));

    /* What is in front of it has been given out, and the place is told. */
    assert_int_equal(at.segment, world->seen == 0 ? 0 : (world->seen + 1) / 2);
    uint64_t seen = world->seen;
    assert_int_equal(follow(world, &at, UINT64_MAX, &error), ERR_CORRUPT);
    assert_int_equal(world->seen, seen);
    world_free(world);
}

TEST(any_byte_turned_in_the_durable_part_is_seen_with_file_and_offset)
{
    struct world *world = make_log(1);
    struct log_position end = log_end(world->log, 0);
    size_t size;
    char *bytes = world_get(world, world_path(1), &size);
    while (size > 0 && bytes[size - 1] == 0)
        size--;
    free(bytes);
    world_free(world);

    for (uint64_t byte = SEGMENT_HEADER_BYTES; byte < size; byte++)
        assert_flip_is_seen(1, byte, byte % 8);
    for (uint64_t byte = SEGMENT_HEADER_BYTES; byte < end.offset; byte++)
        assert_flip_is_seen((unsigned)end.segment, byte, (byte + 3) % 8);
}

TEST(a_segment_that_somebody_took_away_is_missed)
{
    struct world *world = make_log(1);
    disk_remove(&world->disk->base, world_path(2), NULL);
    struct log_position at = {0};
    struct error error = {0};
    assert_int_equal(follow(world, &at, UINT64_MAX, &error), ERR_CORRUPT);
    assert_non_null(strstr(error.text, world_path(2)));
    assert_int_equal(world->seen, 2);
    world_free(world);
}

TEST(a_place_between_two_groups_is_refused)
{
    struct world *world = make_log(1);
    struct log_position at = {0};
    assert_int_equal(follow(world, &at, 1, NULL), ERR_OK);
    at.offset += GROUP_ALIGN;
    assert_int_equal(follow(world, &at, 1, NULL), ERR_CORRUPT);
    world_free(world);
}

TEST(an_error_of_the_disk_while_following_does_not_stop_the_log)
{
    struct world *world = make_log(1);
    struct log_position at = {0};
    world->disk->faults.fail_at_call = world->disk->counts.calls + 1;
    world->disk->faults.fail_with = ERR_IO;
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_IO);
    assert_int_equal(world->fatal_count, 0);
    world_commit(world);
    assert_int_equal(follow(world, &at, UINT64_MAX, NULL), ERR_OK);
    assert_int_equal(world->seen, world->appended);
    world_free(world);
}

RUN(cmocka_unit_test(what_is_written_but_not_synced_is_not_followed),
    cmocka_unit_test(a_call_gives_whole_groups_and_stops_behind_its_limit),
    cmocka_unit_test(groups_of_every_size_in_segments_of_every_size_are_followed),
    cmocka_unit_test(an_empty_segment_is_passed_over),
    cmocka_unit_test(any_byte_turned_in_the_durable_part_is_seen_with_file_and_offset),
    cmocka_unit_test(a_segment_that_somebody_took_away_is_missed),
    cmocka_unit_test(a_place_between_two_groups_is_refused),
    cmocka_unit_test(an_error_of_the_disk_while_following_does_not_stop_the_log))
