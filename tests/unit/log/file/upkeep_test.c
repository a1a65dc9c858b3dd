/* Rotating, trimming and scrubbing under a disk that loses power, fails and fills up. */
#include "unit/log/file/world.h"

#include "log/file/segment.h"

#define SECRET "counter" /* what world_append() writes into every section */

/* ---- what is done ---- */

static bool hide_secret(void *arg, char *section, size_t size)
{
    (void)arg;
    char *at = memmem(section, size, SECRET, strlen(SECRET));
    if (at)
        memset(at, '~', strlen(SECRET));
    return at != NULL;
}

struct front {
    uint64_t first; /* segment */
    uint64_t sections;
};

static enum err count_front(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    struct front *front = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    if (!err && next.segment < front->first)
        front->sections = reader.first_sequence;
    return err;
}

/* Trims, and from then on the world does not expect what was in front. */
static enum err trim(struct world *world, uint64_t first, struct error *error)
{
    struct front front = {.first = first, .sections = world->trimmed};
    struct log_position at = {0};
    enum err err = log_follow(world->log, 0, &at, UINT64_MAX, count_front, &front, error);
    if (err)
        return err;
    world->trimmed = front.sections;
    return log_trim(world->log, first, error);
}

static enum err rotate(struct world *world, struct error *error)
{
    enum err err = log_rotate(world->log, error);
    if (!err) {
        world_step(world);
        assert_int_equal(world->confirmed, world->appended);
    }
    return err;
}

static enum err scrub(struct world *world, uint64_t segment, struct error *error)
{
    uint64_t changed;
    return log_scrub(world->log, segment, hide_secret, NULL, &changed, error);
}

#define SEGMENTS_MAX 32u

/* One round: two groups, a rotation, the oldest segment goes, the next is scrubbed. */
static enum err round_of_upkeep(struct world *world, struct error *error)
{
    world->padding = 300;
    world_append(world);
    while (world_step(world))
        ;
    world_append(world);
    world_append(world);
    enum err err = rotate(world, error);
    struct log_segment segments[SEGMENTS_MAX];
    size_t count = log_segments(world->log, segments, SEGMENTS_MAX);
    assert_true(count <= SEGMENTS_MAX);
    if (!err && count >= 4)
        err = trim(world, segments[1].number, error);
    if (!err && count >= 2)
        err = scrub(world, segments[count - 2].number, error);
    return err;
}

static bool live(struct world *world)
{
    struct error error;
    enum err err = world_start(world, &error);
    for (unsigned i = 0; i < 5 && !err; i++)
        err = round_of_upkeep(world, &error);
    if (err || world->fatal_count > 0)
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

/* ---- what must hold ---- */

static bool contains(struct world *world, const char *path, const char *text)
{
    size_t size;
    char *bytes = world_get(world, path, &size);
    bool found = memmem(bytes, size, text, strlen(text)) != NULL;
    free(bytes);
    return found;
}

struct listing {
    char names[64][64];
    unsigned count;
};

static bool note_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    assert_true(listing->count < 64);
    snprintf(listing->names[listing->count++], sizeof(listing->names[0]), "%s", name);
    return true;
}

static struct listing list(struct world *world)
{
    struct listing listing = {0};
    assert_int_equal(disk_list(&world->disk->base, WORLD_FOLDER "/log", note_name, &listing, NULL),
                     ERR_OK);
    return listing;
}

static bool has_file(struct world *world, const char *name)
{
    struct listing listing = list(world);
    for (unsigned i = 0; i < listing.count; i++) {
        if (strcmp(listing.names[i], name) == 0)
            return true;
    }
    return false;
}

/* No segment is half old and half new, and nothing that was half written is left. */
static void assert_whole(struct world *world)
{
    struct listing listing = list(world);
    for (unsigned i = 0; i < listing.count; i++) {
        const char *name = listing.names[i];
        char path[128];
        snprintf(path, sizeof(path), WORLD_FOLDER "/log/%s", name);
        if (strstr(name, ".log"))
            assert_false(contains(world, path, SECRET) && contains(world, path, "~~~~~~~"));
        assert_string_not_equal(name, "scrub.new");
    }
}

/* ---- crashes ---- */

TEST(a_power_cut_at_any_call_of_upkeep_leaves_old_or_new)
{
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct world *world = world_new(call);
        world->disk->faults.crash_at_call = call;
        whole = live(world);
        world_power_cut(world);
        start_and_add(world);
        assert_whole(world);
        start_and_add(world);
        world_free(world);
    }
}

TEST(a_kill_at_any_call_of_upkeep_leaves_old_or_new)
{
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct world *world = world_new(call);
        world->disk->faults.crash_at_call = call;
        whole = live(world);
        world_kill(world);
        world_must_start(world);
        world_power_cut(world);
        start_and_add(world);
        assert_whole(world);
        world_free(world);
    }
}

TEST(power_cuts_during_the_start_after_one_change_nothing)
{
    for (uint64_t call = 40; call < 200; call += 7) {
        bool whole = false;
        for (uint64_t second = 1; !whole; second++) {
            struct world *world = world_new(call * 1000 + second);
            world->disk->faults.crash_at_call = call;
            live(world);
            world_power_cut(world);
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
            assert_whole(world);
            world_free(world);
        }
    }
}

TEST(what_was_scrubbed_does_not_come_back_with_a_power_cut)
{
    struct world *world = world_new(1);
    world_must_start(world);
    struct error error;
    assert_int_equal(round_of_upkeep(world, &error), ERR_OK);
    assert_false(contains(world, world_path(1), SECRET));
    world_power_cut(world);
    world_must_start(world);
    assert_false(contains(world, world_path(1), SECRET));
    assert_int_equal(world->seen, 3);
    world_free(world);
}

/* The tail of a write that a crash cut short is no part of the log, but it has
 * names in it. */
TEST(what_stands_behind_the_end_of_a_segment_is_scrubbed_too)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_close(world);
    size_t size;
    char *bytes = world_get(world, world_path(1), &size);
    memcpy(bytes + size - 100, "a torn name", 11);
    world_put(world, world_path(1), bytes, size);
    free(bytes);

    /* The closing mark says that nothing follows: what does is not looked at. */
    world_must_start(world);
    world_commit(world);
    assert_int_equal(scrub(world, 1, NULL), ERR_OK);
    assert_false(contains(world, world_path(1), "a torn name"));
    assert_false(contains(world, world_path(1), SECRET));
    world_close(world);
    start_and_add(world);

    /* Also where nothing else has to change. */
    bytes = world_get(world, world_path(1), &size);
    memcpy(bytes + size - 100, "a torn name", 11);
    world_put(world, world_path(1), bytes, size);
    free(bytes);
    world_must_start(world);
    assert_int_equal(scrub(world, 1, NULL), ERR_OK);
    assert_false(contains(world, world_path(1), "a torn name"));
    world_close(world);
    start_and_add(world);
    world_free(world);
}

/* ---- errors of the disk ---- */

/* A sync that failed, or names of which nobody knows whether they are there, end
 * the process; else the log goes on as if nothing had been asked. */
TEST(an_error_at_any_call_of_upkeep_loses_nothing)
{
    static const enum err errors[] = {ERR_IO, ERR_FULL};
    for (unsigned kind = 0; kind < 2; kind++) {
        bool whole = false;
        for (uint64_t call = 1; !whole; call++) {
            struct world *world = world_new(call);
            world->disk->faults.fail_at_call = call;
            world->disk->faults.fail_with = errors[kind];
            whole = live(world);
            bool goes_on = world->log && world->life > 0 && world->fatal_count == 0;
            if (goes_on) {
                struct error error;
                world->now_ns += 2000000000; /* a full disk is tried again after a second */
                assert_int_equal(round_of_upkeep(world, &error), ERR_OK);
            }
            world_kill(world);
            start_and_add(world);
            assert_whole(world);
            world_free(world);
        }
    }
}

TEST(a_full_disk_is_said_and_upkeep_works_when_there_is_space)
{
    struct world *world = world_new(1);
    world_must_start(world);
    for (unsigned i = 0; i < 3; i++)
        world_commit(world);
    assert_int_equal(rotate(world, NULL), ERR_OK);
    world_commit(world);
    world->disk->faults.space_bytes = sim_disk_used_bytes(world->disk);
    struct error error = {0};
    assert_int_equal(scrub(world, 1, &error), ERR_FULL);
    assert_false(has_file(world, "scrub.new"));
    assert_true(contains(world, world_path(1), SECRET));
    enum err err = rotate(world, &error); /* the next segment may be there already */
    if (!err) {
        world_commit(world);
        err = rotate(world, &error);
    }
    assert_int_equal(err, ERR_FULL);
    assert_int_equal(world->fatal_count, 0);

    world->disk->faults.space_bytes = 0;
    world->now_ns += 2000000000;
    while (world_step(world))
        ;
    assert_int_equal(rotate(world, &error), ERR_OK);
    assert_int_equal(scrub(world, 1, &error), ERR_OK);
    assert_false(contains(world, world_path(1), SECRET));
    world_power_cut(world);
    start_and_add(world);
    world_free(world);
}

/* Trimming needs a few bytes, and is what makes space. */
TEST(trimming_gives_space_back)
{
    struct world *world = world_new(1);
    world_must_start(world);
    for (unsigned i = 0; i < 4; i++) {
        world_commit(world);
        assert_int_equal(rotate(world, NULL), ERR_OK);
    }
    world_commit(world);
    uint64_t used = sim_disk_used_bytes(world->disk);
    assert_int_equal(trim(world, 4, NULL), ERR_OK);
    assert_true(sim_disk_used_bytes(world->disk) <= used - 3 * 8192 + 100);
    world_free(world);
}

/* ---- starting after it ---- */

static struct world *make_trimmed(void)
{
    struct world *world = world_new(1);
    world_must_start(world);
    for (unsigned i = 0; i < 4; i++) {
        world_commit(world);
        assert_int_equal(rotate(world, NULL), ERR_OK);
    }
    world_commit(world);
    assert_int_equal(trim(world, 3, NULL), ERR_OK);
    assert_false(has_file(world, "000000000002.log"));
    assert_true(has_file(world, "000000000003.log"));
    world_close(world);
    return world;
}

TEST(the_first_segment_that_is_left_is_still_missed_when_it_is_lost)
{
    struct world *world = make_trimmed();
    disk_remove(&world->disk->base, world_path(3), NULL);
    world_expect_refusal(world, world_path(3));
    world_free(world);

    world = make_trimmed();
    for (unsigned segment = 3; segment <= 5; segment++)
        disk_remove(&world->disk->base, world_path(segment), NULL);
    world_expect_refusal(world, world_path(3));
    world_free(world);
}

TEST(segments_that_a_crash_kept_from_being_removed_are_removed_by_the_next_start)
{
    struct world *world = make_trimmed();
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    world_put(world, world_path(2), bytes, size);
    world_put(world, WORLD_FOLDER "/log/scrub.new", bytes, size);
    free(bytes);
    world_read(world, NULL);
    assert_int_equal(world->seen, 5);
    assert_true(has_file(world, "000000000002.log"));
    world_close(world);
    world_must_start(world);
    assert_int_equal(world->seen, 5);
    assert_false(has_file(world, "000000000002.log"));
    assert_false(has_file(world, "scrub.new"));
    world_free(world);
}

static void ignore_line(void *arg, const char *line)
{
    (void)arg;
    (void)line;
}

TEST(any_bit_turned_in_what_says_where_the_log_begins_is_refused_and_can_be_repaired)
{
    struct world *world = make_trimmed();
    const char *path = WORLD_FOLDER "/log/trimmed";
    size_t size;
    free(world_get(world, path, &size));
    for (size_t bit = 0; bit < 8 * size; bit++) {
        assert_int_equal(sim_disk_flip(world->disk, path, bit / 8, bit % 8), ERR_OK);
        world_expect_refusal(world, "/log/");
        assert_int_equal(file_log_check(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL),
                         ERR_CORRUPT);
        assert_int_equal(file_log_repair(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL),
                         ERR_OK);
        assert_int_equal(file_log_check(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL),
                         ERR_OK);
        assert_int_equal(world_read(world, NULL), ERR_OK);
        assert_int_equal(world->seen, 5);
        world_close(world);
    }
    world_free(world);
}

TEST(a_trimmed_log_is_checked_and_repaired)
{
    struct world *world = make_trimmed();
    assert_int_equal(file_log_check(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL), ERR_OK);
    assert_int_equal(
        sim_disk_flip(world->disk, world_path(4), SEGMENT_HEADER_BYTES + GROUP_HEADER_BYTES, 1),
        ERR_OK);
    assert_int_equal(file_log_check(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL),
                     ERR_CORRUPT);
    assert_int_equal(file_log_repair(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL), ERR_OK);
    world->confirmed = 3;
    world_must_start(world);
    assert_int_equal(world->seen, 3);
    world_close(world);
    world_free(world);
}

TEST(a_trimmed_log_of_which_nothing_is_sound_begins_anew_after_a_repair)
{
    struct world *world = make_trimmed();
    assert_int_equal(sim_disk_flip(world->disk, world_path(3), 30, 1), ERR_OK);
    assert_int_equal(file_log_repair(&world->env, WORLD_FOLDER, ignore_line, NULL, NULL), ERR_OK);
    world->confirmed = 0;
    world_must_start(world);
    assert_int_equal(world->seen, 0);
    world_commit(world);
    world_close(world);
    world_free(world);
}

RUN(cmocka_unit_test(a_power_cut_at_any_call_of_upkeep_leaves_old_or_new),
    cmocka_unit_test(a_kill_at_any_call_of_upkeep_leaves_old_or_new),
    cmocka_unit_test(power_cuts_during_the_start_after_one_change_nothing),
    cmocka_unit_test(what_was_scrubbed_does_not_come_back_with_a_power_cut),
    cmocka_unit_test(what_stands_behind_the_end_of_a_segment_is_scrubbed_too),
    cmocka_unit_test(an_error_at_any_call_of_upkeep_loses_nothing),
    cmocka_unit_test(a_full_disk_is_said_and_upkeep_works_when_there_is_space),
    cmocka_unit_test(trimming_gives_space_back),
    cmocka_unit_test(the_first_segment_that_is_left_is_still_missed_when_it_is_lost),
    cmocka_unit_test(segments_that_a_crash_kept_from_being_removed_are_removed_by_the_next_start),
    cmocka_unit_test(
        any_bit_turned_in_what_says_where_the_log_begins_is_refused_and_can_be_repaired),
    cmocka_unit_test(a_trimmed_log_is_checked_and_repaired),
    cmocka_unit_test(a_trimmed_log_of_which_nothing_is_sound_begins_anew_after_a_repair))
