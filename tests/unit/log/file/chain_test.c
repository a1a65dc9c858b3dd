/* What recovery makes of a folder: what it takes, what it cuts, what it refuses. */
#include "unit/log/file/world.h"

#include "log/file/segment.h"

/* Three segments and several lives, the last of them ended as asked. */
static struct world *make_log_from(uint64_t seed, bool closed)
{
    struct world *world = world_new(seed);
    for (unsigned life = 0; life < 3; life++) {
        world_must_start(world);
        for (unsigned i = 0; i < 5; i++) {
            world->padding = (life * 5 + i) % 4 * 5;
            world_commit(world);
        }
        if (life == 2 && !closed)
            world_kill(world);
        else
            world_close(world);
    }
    assert_int_equal(world->confirmed, 15);
    return world;
}

static struct world *make_log(bool closed)
{
    return make_log_from(1, closed);
}

/* The start of the last group in a segment of this size. */
static size_t last_group(const char *bytes, size_t size)
{
    size_t found = 0;
    for (size_t at = SEGMENT_HEADER_BYTES; at + GROUP_HEADER_BYTES <= size; at += GROUP_ALIGN) {
        struct group group;
        if (group_get(bytes + at, &group))
            found = at;
    }
    assert_true(found > 0);
    return found;
}

/* Expects that the log is refused by name, or whole, or (only if `may_cut`)
 * without its last section. */
static void expect_noticed(struct world *world, const char *name, bool may_cut)
{
    struct error error = {0};
    if (may_cut)
        world->confirmed = 14;
    enum err err = world_read(world, &error);
    world->confirmed = 15;
    if (err) {
        assert_int_equal(err, ERR_CORRUPT);
        if (!strstr(error.text, name) || !strstr(error.text, "offset"))
            fail_msg("\"%s\" does not say where", error.text);
    }
    world_close(world);
}

static void flip_every_byte(bool closed)
{
    struct world *world = make_log(closed);
    for (unsigned segment = 1; segment <= 3; segment++) {
        char path[64];
        snprintf(path, sizeof(path), "%s", world_path(segment));
        size_t size;
        char *bytes = world_get(world, path, &size);
        size_t last = last_group(bytes, size);
        for (size_t at = 0; at < size; at++) {
            unsigned bit = (unsigned)sim_rng_below(&world->rng, 8);
            assert_int_equal(sim_disk_flip(world->disk, path, at, bit), ERR_OK);
            expect_noticed(world, path, !closed && segment == 3 && at >= last);
            assert_int_equal(sim_disk_flip(world->disk, path, at, bit), ERR_OK);
        }
        free(bytes);
    }
    assert_int_equal(world_read(world, NULL), ERR_OK);
    assert_int_equal(world->seen, 15);
    world_free(world);
}

TEST(after_a_clean_stop_every_flipped_byte_is_refused_or_harmless)
{
    flip_every_byte(true);
}

TEST(after_a_crash_a_flipped_byte_costs_at_most_the_last_group)
{
    flip_every_byte(false);
}

TEST(damage_to_the_last_group_is_refused_after_a_clean_stop)
{
    struct world *world = make_log(true);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    size_t closing_mark = last_group(bytes, size);
    size_t last = last_group(bytes, closing_mark);
    for (size_t at = last; at < closing_mark; at++) {
        sim_disk_flip(world->disk, world_path(3), at, 3);
        world_expect_refusal(world, world_path(3));
        sim_disk_flip(world->disk, world_path(3), at, 3);
    }
    free(bytes);
    world_free(world);
}

TEST(a_file_cut_anywhere_is_refused_unless_nothing_is_lost)
{
    struct world *world = make_log(false);
    for (unsigned segment = 1; segment <= 3; segment++) {
        char path[64];
        snprintf(path, sizeof(path), "%s", world_path(segment));
        size_t size;
        char *bytes = world_get(world, path, &size);
        for (size_t cut = 0; cut < size; cut += 1 + cut % 7) {
            world_put(world, path, bytes, cut);
            struct error error = {0};
            enum err err = world_read(world, &error);
            world_close(world);
            bool harmless = !err && segment < 3 && world->seen == 15;
            if (!harmless) {
                assert_int_equal(err, ERR_CORRUPT);
                assert_non_null(strstr(error.text, path));
            }
        }
        world_put(world, path, bytes, size);
        free(bytes);
    }
    assert_int_equal(world_read(world, NULL), ERR_OK);
    world_free(world);
}

/* A write that was under way at a crash, cut off at every byte. */
TEST(a_torn_last_write_is_cut_off_wherever_it_was_torn)
{
    struct world *world = make_log(false);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    size_t last = last_group(bytes, size);
    struct group group;
    assert_true(group_get(bytes + last, &group));
    size_t end = last + group_bytes(group.body_bytes);
    for (size_t cut = last; cut < end; cut++) {
        char *torn = malloc(size);
        assert_non_null(torn);
        memcpy(torn, bytes, size);
        memset(torn + cut, 0, end - cut);
        bool whole = memcmp(torn, bytes, size) == 0; /* only zeros were cut off */
        world_put(world, world_path(3), torn, size);
        world->confirmed = 14;
        assert_int_equal(world_read(world, NULL), ERR_OK);
        assert_int_equal(world->seen, whole ? 15 : 14);
        world_close(world);
        free(torn);
    }
    free(bytes);
    world_free(world);
}

TEST(valid_groups_behind_a_torn_one_never_come_back)
{
    struct world *world = make_log(false);
    size_t size;
    char *whole = world_get(world, world_path(3), &size);
    size_t last = last_group(whole, size);

    /* The last write is lost, the log goes on in a new segment... */
    char *torn = malloc(size);
    assert_non_null(torn);
    memcpy(torn, whole, size);
    memset(torn + last, 0, size - last);
    world_put(world, world_path(3), torn, size);
    world->confirmed = 14;
    world_must_start(world);
    assert_int_equal(world->seen, 14);
    world_commit(world);
    world_close(world);

    /* ... and then the disk gives back what it had lost. */
    world_put(world, world_path(3), whole, size);
    world_must_start(world);
    assert_int_equal(world->seen, 15); /* world_visit() sees that it is the new one */
    free(torn);
    free(whole);
    world_free(world);
}

TEST(a_group_of_another_segment_is_not_taken_for_the_one_that_belongs_here)
{
    struct world *world = make_log(false);
    size_t size;
    char *bytes = world_get(world, world_path(2), &size);
    char *other = world_get(world, world_path(1), &size);
    memcpy(bytes + SEGMENT_HEADER_BYTES, other + SEGMENT_HEADER_BYTES, size - SEGMENT_HEADER_BYTES);
    world_put(world, world_path(2), bytes, size);
    world_expect_refusal(world, "belongs elsewhere");
    free(other);
    free(bytes);
    world_free(world);
}

TEST(a_group_of_another_log_is_not_taken_for_the_one_that_belongs_here)
{
    struct world *world = make_log(false);
    struct world *other = make_log_from(2, false);
    size_t size;
    char *bytes = world_get(world, world_path(2), &size);
    char *foreign = world_get(other, world_path(2), &size);
    memcpy(bytes + SEGMENT_HEADER_BYTES, foreign + SEGMENT_HEADER_BYTES,
           size - SEGMENT_HEADER_BYTES);
    world_put(world, world_path(2), bytes, size);
    world_expect_refusal(world, "belongs elsewhere");
    free(foreign);
    free(bytes);
    world_free(other);
    world_free(world);
}

TEST(a_group_with_the_wrong_number_is_refused)
{
    struct world *world = make_log(false);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    size_t last = last_group(bytes, size);
    struct group group;
    assert_true(group_get(bytes + last, &group));
    group.number++;
    group_seal(bytes + last, &group);
    world_put(world, world_path(3), bytes, size);
    world_expect_refusal(world, "where");
    free(bytes);
    world_free(world);
}

TEST(a_segment_that_does_not_go_on_with_the_next_group_is_refused)
{
    struct world *world = make_log(false);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    struct segment_header header;
    assert_int_equal(segment_header_get(bytes, &header, NULL), ERR_OK);
    header.first_group++;
    segment_header_put(&header, bytes);
    world_put(world, world_path(3), bytes, size);
    world_expect_refusal(world, world_path(2));
    free(bytes);
    world_free(world);
}

TEST(a_group_at_the_wrong_place_of_its_segment_is_not_taken_for_the_right_one)
{
    struct world *world = make_log(false);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    size_t last = last_group(bytes, size);
    struct group group;
    assert_true(group_get(bytes + last, &group));
    uint32_t group_size = group_bytes(group.body_bytes);
    memmove(bytes + last + 2 * GROUP_ALIGN, bytes + last, group_size);
    memset(bytes + last, 0, 2 * GROUP_ALIGN);
    world_put(world, world_path(3), bytes, size);
    world->confirmed = 14; /* nothing sound follows: it looks like a torn write */
    assert_int_equal(world_read(world, NULL), ERR_OK);
    assert_int_equal(world->seen, 14);
    free(bytes);
    world_free(world);
}

TEST(a_missing_segment_is_refused)
{
    for (unsigned segment = 1; segment <= 2; segment++) {
        struct world *world = make_log(true);
        disk_remove(&world->disk->base, world_path(segment), NULL);
        world_expect_refusal(world, world_path(segment));
        world_free(world);
    }
}

TEST(a_renamed_segment_is_refused)
{
    struct world *world = make_log(true);
    size_t size;
    char *bytes = world_get(world, world_path(1), &size);
    world_put(world, world_path(2), bytes, size);
    world_expect_refusal(world, world_path(2));
    free(bytes);
    world_free(world);
}

TEST(a_segment_of_another_log_is_refused)
{
    struct world *world = make_log(true);
    struct world *other = world_new(2);
    world_must_start(other);
    world_commit(other);
    world_close(other);
    world_must_start(other);
    world_commit(other);
    world_close(other);

    size_t size;
    char *bytes = world_get(other, world_path(2), &size);
    world_put(world, world_path(2), bytes, size);
    world_expect_refusal(world, "another log");
    free(bytes);
    world_free(other);
    world_free(world);
}

TEST(a_foreign_file_with_the_name_of_a_segment_is_refused)
{
    static const char text[8192] = "Dear diary, today I was put into a data folder.";
    struct world *world = make_log(true);
    world_put(world, world_path(4), text, sizeof(text));
    world_expect_refusal(world, world_path(4));
    world_put(world, world_path(4), text, 10);
    world_expect_refusal(world, world_path(4));
    world_put(world, world_path(4), text, 0);
    world_expect_refusal(world, world_path(4));
    world_free(world);
}

TEST(files_of_other_names_are_left_alone)
{
    struct world *world = make_log(true);
    static const char *const names[] = {"notes.txt", "4.log", "0000000000004.log",
                                        "000000000004.log.cut", "00000000000x.log"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[64];
        snprintf(path, sizeof(path), WORLD_FOLDER "/log/%s", names[i]);
        world_put(world, path, "x", 1);
    }
    world_must_start(world);
    assert_int_equal(world->seen, 15);
    world_close(world);
    world_free(world);
}

static void assert_format_is_refused(unsigned char version, const char *text)
{
    struct world *world = make_log(true);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    bytes[8] = (char)version;
    uint64_t checksum = hash_stable((struct slice){bytes, SEGMENT_HEADER_BYTES - 8});
    memcpy(bytes + SEGMENT_HEADER_BYTES - 8, &checksum, sizeof(checksum));
    world_put(world, world_path(3), bytes, size);
    struct error error = {0};
    assert_int_equal(world_read(world, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, text));
    free(bytes);
    world_free(world);
}

TEST(a_newer_format_is_refused_as_such)
{
    assert_format_is_refused(SEGMENT_VERSION + 1, "format version 3");
}

TEST(an_older_format_is_refused_as_such)
{
    assert_format_is_refused(SEGMENT_VERSION - 1, "format version 1");
}

TEST(reading_changes_nothing)
{
    struct world *world = make_log(false);
    world_read(world, NULL); /* the first one makes the lock file */
    world_close(world);
    size_t size;
    char *before = world_get(world, world_path(3), &size);
    uint64_t used = sim_disk_used_bytes(world->disk);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(world_read(world, NULL), ERR_OK);
        world_close(world);
    }
    char *after = world_get(world, world_path(3), &size);
    assert_memory_equal(before, after, size);
    assert_int_equal(sim_disk_used_bytes(world->disk), used);
    free(before);
    free(after);
    world_free(world);
}

static enum err ignore(void *arg, struct slice section, struct log_position next,
                       struct error *error)
{
    (void)arg;
    (void)section;
    (void)next;
    (void)error;
    return ERR_OK;
}

struct readings {
    uint64_t bytes_before;
    uint64_t bytes_all;
    unsigned calls;
};

static void note_reading(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct readings *readings = arg;
    assert_true(bytes_done > readings->bytes_before && bytes_done <= bytes_all);
    readings->bytes_before = bytes_done;
    readings->bytes_all = bytes_all;
    readings->calls++;
}

TEST(reading_a_large_log_is_told_now_and_then)
{
    struct world *world = world_new(1);
    world->options.segment_bytes = 8 << 20;
    world_must_start(world);
    world->padding = 900000;
    for (unsigned i = 0; i < 70; i++)
        world_commit(world);
    world_close(world);

    struct readings readings = {0};
    assert_int_equal(file_log_open(&world->env, &world->options, &world->log, NULL), ERR_OK);
    assert_int_equal(
        log_read(world->log, (struct log_position){0}, ignore, &readings, note_reading, NULL),
        ERR_OK);
    assert_in_range(readings.calls, 3, 5);
    assert_in_range(readings.bytes_all, 60 << 20, 90 << 20);
    world_free(world);
}

TEST(a_position_that_is_none_is_refused)
{
    struct world *world = make_log(true);
    struct log_position positions[] = {
        {4, 4096}, {1, 4104}, {1, 8192}, {3, 8192}, {2, UINT64_MAX}, {UINT64_MAX, 0},
    };
    for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++) {
        assert_int_equal(file_log_open(&world->env, &world->options, &world->log, NULL), ERR_OK);
        assert_int_equal(log_read(world->log, positions[i], ignore, NULL, NULL, NULL), ERR_INVALID);
        world_close(world);
    }
    world_free(world);
}

RUN(cmocka_unit_test(after_a_clean_stop_every_flipped_byte_is_refused_or_harmless),
    cmocka_unit_test(after_a_crash_a_flipped_byte_costs_at_most_the_last_group),
    cmocka_unit_test(damage_to_the_last_group_is_refused_after_a_clean_stop),
    cmocka_unit_test(a_file_cut_anywhere_is_refused_unless_nothing_is_lost),
    cmocka_unit_test(a_torn_last_write_is_cut_off_wherever_it_was_torn),
    cmocka_unit_test(valid_groups_behind_a_torn_one_never_come_back),
    cmocka_unit_test(a_group_of_another_segment_is_not_taken_for_the_one_that_belongs_here),
    cmocka_unit_test(a_group_at_the_wrong_place_of_its_segment_is_not_taken_for_the_right_one),
    cmocka_unit_test(a_group_of_another_log_is_not_taken_for_the_one_that_belongs_here),
    cmocka_unit_test(a_group_with_the_wrong_number_is_refused),
    cmocka_unit_test(a_segment_that_does_not_go_on_with_the_next_group_is_refused),
    cmocka_unit_test(a_missing_segment_is_refused), cmocka_unit_test(a_renamed_segment_is_refused),
    cmocka_unit_test(a_segment_of_another_log_is_refused),
    cmocka_unit_test(a_foreign_file_with_the_name_of_a_segment_is_refused),
    cmocka_unit_test(files_of_other_names_are_left_alone),
    cmocka_unit_test(a_newer_format_is_refused_as_such),
    cmocka_unit_test(an_older_format_is_refused_as_such), cmocka_unit_test(reading_changes_nothing),
    cmocka_unit_test(reading_a_large_log_is_told_now_and_then),
    cmocka_unit_test(a_position_that_is_none_is_refused))
