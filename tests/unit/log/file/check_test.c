#include "unit/log/file/world.h"

#include "log/file/segment.h"

struct report {
    char text[8192];
    size_t size;
};

static void note_line(void *arg, const char *line)
{
    struct report *report = arg;
    int size =
        snprintf(report->text + report->size, sizeof(report->text) - report->size, "%s\n", line);
    report->size += (size_t)size;
    assert_true(report->size < sizeof(report->text));
}

static void expect_line(const struct report *report, const char *text)
{
    if (!strstr(report->text, text))
        fail_msg("\"%s\" is not in:\n%s", text, report->text);
}

static enum err check(struct world *world, struct report *report)
{
    *report = (struct report){0};
    return file_log_check(&world->env, WORLD_FOLDER, note_line, report, NULL);
}

static enum err repair(struct world *world, struct report *report)
{
    *report = (struct report){0};
    struct error error = {0};
    enum err err = file_log_repair(&world->env, WORLD_FOLDER, note_line, report, &error);
    if (err && world->disk->faults.crash_at_call == 0)
        fail_msg("%s", error.text);
    return err;
}

/* Four lives of five groups of one section each, the last one cut short. */
static struct world *make_log(void)
{
    struct world *world = world_new(1);
    for (unsigned life = 0; life < 4; life++) {
        world_must_start(world);
        for (unsigned i = 0; i < 5; i++)
            world_commit(world);
        if (life < 3)
            world_close(world);
        else
            world_kill(world);
    }
    return world;
}

/* The place of the n-th group of a segment, counted from 0. */
static size_t place_of_group(struct world *world, unsigned segment, unsigned n)
{
    size_t size;
    char *bytes = world_get(world, world_path(segment), &size);
    size_t at = SEGMENT_HEADER_BYTES;
    for (struct group group; n > 0; n--) {
        assert_true(group_get(bytes + at, &group));
        at += group_bytes(group.body_bytes);
    }
    free(bytes);
    return at;
}

/* The n-th group of a segment says that it has more sections than it has; its checksums are right.
 */
static void miscount_sections(struct world *world, unsigned segment, unsigned n)
{
    size_t size;
    size_t at = place_of_group(world, segment, n);
    char *bytes = world_get(world, world_path(segment), &size);
    struct group group;
    assert_true(group_get(bytes + at, &group));
    group.sections++;
    group_seal(bytes + at, &group);
    world_put(world, world_path(segment), bytes, size);
    free(bytes);
}

TEST(a_sound_folder_is_found_sound)
{
    struct world *world = make_log();
    struct report report;
    assert_int_equal(check(world, &report), ERR_OK);
    expect_line(&report, "segment 2: 5 groups, 5 sections, 5 events");
    expect_line(&report, "4 segments, 20 groups, 20 sections, 20 events are sound");
    assert_int_equal(repair(world, &report), ERR_OK);
    expect_line(&report, "nothing to repair");
    world_free(world);
}

TEST(a_folder_without_a_log_is_refused_and_none_is_made)
{
    struct world *world = world_new(1);
    struct report report;
    assert_int_equal(check(world, &report), ERR_NOT_FOUND);
    assert_int_equal(check(world, &report), ERR_NOT_FOUND);
    disk_make_folder(&world->disk->base, WORLD_FOLDER, NULL);
    assert_int_equal(check(world, &report), ERR_NOT_FOUND);
    world_free(world);
}

TEST(a_folder_in_use_is_not_checked)
{
    struct world *world = make_log();
    struct report report;
    world_must_start(world);
    assert_int_equal(check(world, &report), ERR_BUSY);
    world_free(world);
}

TEST(a_torn_write_is_mentioned_and_is_no_damage)
{
    struct world *world = make_log();
    size_t at = place_of_group(world, 4, 4);
    size_t size;
    char *bytes = world_get(world, world_path(4), &size);
    memset(bytes + at + GROUP_HEADER_BYTES, 0, size - at - GROUP_HEADER_BYTES);
    world_put(world, world_path(4), bytes, size);
    world_forget_synced(world);
    struct report report;
    assert_int_equal(check(world, &report), ERR_OK);
    expect_line(&report, "unfinished write");
    free(bytes);
    world_free(world);
}

TEST(damage_to_the_last_group_is_damage_and_no_torn_write)
{
    for (unsigned synced_known = 0; synced_known < 2; synced_known++) {
        struct world *world = make_log();
        size_t at = place_of_group(world, 4, 4);
        sim_disk_flip(world->disk, world_path(4), at + GROUP_HEADER_BYTES, 0);
        if (!synced_known)
            world_forget_synced(world);
        struct report report;
        assert_int_equal(check(world, &report), ERR_CORRUPT);
        char expected[128];
        snprintf(expected, sizeof(expected), "damage: %s: offset %zu: ", world_path(4), at);
        expect_line(&report, expected);

        assert_int_equal(repair(world, &report), ERR_OK);
        assert_int_equal(check(world, &report), ERR_OK);
        world->confirmed--;
        world_must_start(world);
        world_free(world);
    }
}

TEST(damage_is_reported_with_file_and_offset)
{
    struct world *world = make_log();
    size_t at = place_of_group(world, 2, 3);
    sim_disk_flip(world->disk, world_path(2), at + GROUP_HEADER_BYTES, 0);
    struct report report;
    assert_int_equal(check(world, &report), ERR_CORRUPT);
    char expected[128];
    snprintf(expected, sizeof(expected), "damage: %s: offset %zu: ", world_path(2), at);
    expect_line(&report, expected);
    expect_line(&report, "8 groups, 8 sections, 8 events are sound");
    world_free(world);
}

TEST(a_repair_cuts_at_the_damage_and_says_what_is_lost)
{
    struct world *world = make_log();
    size_t at = place_of_group(world, 2, 3);
    sim_disk_flip(world->disk, world_path(2), at + GROUP_HEADER_BYTES, 0);
    size_t size;
    char *before = world_get(world, world_path(2), &size);

    struct report report;
    assert_int_equal(repair(world, &report), ERR_OK);
    expect_line(&report,
                "segment 4: cut from offset 0 on, with 5 sound groups of 5 sections and 5");
    expect_line(&report,
                "segment 3: cut from offset 0 on, with 5 sound groups of 5 sections and 5");
    expect_line(&report, "with 1 sound groups of 1 sections and 1 events");

    size_t kept_size;
    char *kept = world_get(world, WORLD_FOLDER "/log/000000000002.log.cut", &kept_size);
    assert_int_equal(kept_size, size);
    assert_memory_equal(kept, before, size);
    free(kept);
    free(before);

    world->confirmed = 8;
    world_power_cut(world);
    world_must_start(world);
    assert_int_equal(world->seen, 8);
    for (unsigned i = 0; i < 10; i++)
        world_commit(world);
    world_close(world);
    assert_int_equal(check(world, &report), ERR_OK);
    expect_line(&report, "18 events are sound");
    world_free(world);
}

TEST(every_kind_of_damage_can_be_repaired)
{
    for (unsigned kind = 0; kind < 7; kind++) {
        struct world *world = make_log();
        size_t size;
        char *bytes = world_get(world, world_path(3), &size);
        switch (kind) {
        case 0: /* in a header */
            sim_disk_flip(world->disk, world_path(3), 20, 0);
            world->confirmed = 10;
            break;
        case 1: /* missing */
            disk_remove(&world->disk->base, world_path(3), NULL);
            world->confirmed = 10;
            break;
        case 2: /* short */
            world_put(world, world_path(3), bytes, place_of_group(world, 3, 2));
            world->confirmed = 12;
            break;
        case 3: /* the first header */
            sim_disk_flip(world->disk, world_path(1), 0, 0);
            world->confirmed = 0;
            break;
        case 4: /* the first group */
            sim_disk_flip(world->disk, world_path(1), SEGMENT_HEADER_BYTES, 0);
            world->confirmed = 0;
            break;
        case 5: /* empty */
            world_put(world, world_path(4), bytes, 0);
            world->confirmed = 15;
            break;
        case 6: /* more sections promised than there are */
            miscount_sections(world, 3, 2);
            world->confirmed = 12;
            break;
        }
        free(bytes);
        struct report report;
        assert_int_equal(check(world, &report), ERR_CORRUPT);
        assert_int_equal(repair(world, &report), ERR_OK);
        assert_int_equal(check(world, &report), ERR_OK);
        uint64_t kept = world->confirmed;
        world_must_start(world);
        assert_int_equal(world->seen, kept);
        world_commit(world);
        world_free(world);
    }
}

TEST(a_second_repair_keeps_what_the_first_one_cut)
{
    struct world *world = make_log();
    struct report report;
    sim_disk_flip(world->disk, world_path(4), place_of_group(world, 4, 3) + 60, 0);
    assert_int_equal(repair(world, &report), ERR_OK);
    sim_disk_flip(world->disk, world_path(4), place_of_group(world, 4, 1) + 60, 0);
    assert_int_equal(repair(world, &report), ERR_OK);
    size_t size;
    free(world_get(world, WORLD_FOLDER "/log/000000000004.log.cut", &size));
    free(world_get(world, WORLD_FOLDER "/log/000000000004.log.2.cut", &size));
    world_free(world);
}

TEST(a_power_cut_at_any_call_of_a_repair_loses_nothing_in_front_of_the_damage)
{
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct world *world = make_log();
        sim_disk_flip(world->disk, world_path(2), place_of_group(world, 2, 3) + 60, 0);
        struct report report;
        world->disk->faults.crash_at_call = world->disk->counts.calls + call;
        whole = repair(world, &report) == ERR_OK;
        world_power_cut(world);
        assert_int_equal(repair(world, &report), ERR_OK);
        world->confirmed = 8;
        world_must_start(world);
        assert_int_equal(world->seen, 8);
        world_free(world);
    }
}

RUN(cmocka_unit_test(a_sound_folder_is_found_sound),
    cmocka_unit_test(a_folder_without_a_log_is_refused_and_none_is_made),
    cmocka_unit_test(a_folder_in_use_is_not_checked),
    cmocka_unit_test(a_torn_write_is_mentioned_and_is_no_damage),
    cmocka_unit_test(damage_to_the_last_group_is_damage_and_no_torn_write),
    cmocka_unit_test(damage_is_reported_with_file_and_offset),
    cmocka_unit_test(a_repair_cuts_at_the_damage_and_says_what_is_lost),
    cmocka_unit_test(every_kind_of_damage_can_be_repaired),
    cmocka_unit_test(a_second_repair_keeps_what_the_first_one_cut),
    cmocka_unit_test(a_power_cut_at_any_call_of_a_repair_loses_nothing_in_front_of_the_damage))
