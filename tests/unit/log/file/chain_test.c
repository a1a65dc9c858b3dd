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

/* Expects that the log is refused by name, or whole. */
static void expect_noticed(struct world *world, const char *name)
{
    struct error error = {0};
    enum err err = world_read(world, &error);
    if (err) {
        assert_int_equal(err, ERR_CORRUPT);
        if (!strstr(error.text, name) || !strstr(error.text, "offset"))
            fail_msg("\"%s\" does not say where", error.text);
    }
    world_close(world);
}

static void flip_every_byte(bool closed, bool synced_known)
{
    struct world *world = make_log(closed);
    if (!synced_known)
        world_forget_synced(world);
    for (unsigned segment = 1; segment <= 3; segment++) {
        char path[64];
        snprintf(path, sizeof(path), "%s", world_path(segment));
        size_t size;
        free(world_get(world, path, &size));
        for (size_t at = 0; at < size; at++) {
            unsigned bit = (unsigned)sim_rng_below(&world->rng, 8);
            assert_int_equal(sim_disk_flip(world->disk, path, at, bit), ERR_OK);
            expect_noticed(world, path);
            assert_int_equal(sim_disk_flip(world->disk, path, at, bit), ERR_OK);
        }
    }
    assert_int_equal(world_read(world, NULL), ERR_OK);
    assert_int_equal(world->seen, 15);
    world_free(world);
}

TEST(after_a_clean_stop_every_flipped_byte_is_refused_or_harmless)
{
    flip_every_byte(true, true);
}

TEST(after_a_crash_every_flipped_byte_is_refused_or_harmless)
{
    flip_every_byte(false, true);
}

TEST(after_a_power_cut_every_flipped_byte_is_refused_or_harmless)
{
    flip_every_byte(false, false);
}

TEST(every_flipped_byte_of_what_was_noted_as_synced_is_harmless)
{
    static const char path[] = WORLD_FOLDER "/log/synced";
    struct world *world = make_log(false);
    size_t size;
    free(world_get(world, path, &size));
    for (size_t at = 0; at < size; at++) {
        assert_int_equal(sim_disk_flip(world->disk, path, at, at % 8), ERR_OK);
        assert_int_equal(world_read(world, NULL), ERR_OK);
        assert_int_equal(world->seen, 15);
        world_close(world);
        assert_int_equal(sim_disk_flip(world->disk, path, at, at % 8), ERR_OK);
    }
    world_free(world);
}

/* 512 bytes, which a disk writes as one, are zero from the last group of the log on. */
TEST(a_block_that_was_synced_and_is_gone_is_refused_as_long_as_that_is_known)
{
    struct world *world = make_log(false);
    size_t size;
    char *bytes = world_get(world, world_path(3), &size);
    memset(bytes + last_group(bytes, size), 0, 512);
    world_put(world, world_path(3), bytes, size);
    world_expect_refusal(world, "was synced up to offset");

    world_forget_synced(world); /* now nothing tells it from a write that a crash cut short */
    world->confirmed = 14;
    assert_int_equal(world_read(world, NULL), ERR_OK);
    assert_int_equal(world->seen, 14);
    free(bytes);
    world_free(world);
}

#define MS_NS 1000000u

static void zero_last_block(struct world *world, const char *path)
{
    size_t size;
    char *bytes = world_get(world, path, &size);
    memset(bytes + last_group(bytes, size), 0, 512);
    world_put(world, path, bytes, size);
    free(bytes);
}

/* The note of what was synced becomes durable by itself when nothing is written for a moment. */
TEST(a_lost_block_is_refused_after_a_power_cut_that_came_a_moment_after_the_write)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct world *world = world_new(seed);
        world_must_start(world);
        for (unsigned i = 0; i < 5; i++)
            world_commit(world);
        assert_false(file_log_settle_step(world->log, false));
        world->now_ns += 200 * MS_NS;
        assert_true(file_log_settle_step(world->log, false));
        assert_false(file_log_settle_step(world->log, false));
        world_power_cut(world);
        zero_last_block(world, world_path(1));
        world_expect_refusal(world, "was synced up to offset");
        world_free(world);
    }
}

/* A log that began on a full disk has no note; it gets one as soon as a segment has space. */
TEST(what_was_synced_is_noted_once_there_is_space)
{
    struct world *world = world_new(1);
    world_must_start(world);
    world_commit(world);
    world_close(world);
    disk_remove(&world->disk->base, WORLD_FOLDER "/log/next", NULL);
    disk_remove(&world->disk->base, WORLD_FOLDER "/log/synced", NULL);
    world->disk->faults.space_bytes = sim_disk_used_bytes(world->disk) + 500;
    world_must_start(world);
    assert_int_equal(log_room(world->log), ERR_FULL);
    world->disk->faults.space_bytes = 0;
    for (unsigned i = 0; i < 20; i++) {
        world->now_ns += 100 * MS_NS;
        while (world_step(world))
            ;
    }
    assert_int_equal(log_room(world->log), ERR_OK);
    for (unsigned i = 0; i < 5; i++)
        world_commit(world);
    world->now_ns += 200 * MS_NS;
    (void)file_log_settle_step(world->log, false);
    world_power_cut(world);
    zero_last_block(world, world_path(2));
    world_expect_refusal(world, "was synced up to offset");
    world_free(world);
}

TEST(an_older_segment_is_refused_after_a_power_cut_while_there_was_always_something_to_write)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct world *world = world_new(seed);
        world_must_start(world);
        world_commit(world);
        size_t size;
        char *older = world_get(world, world_path(1), &size);
        unsigned settled = 0;
        for (unsigned i = 0; i < 25; i++) { /* every 50 ms */
            world->now_ns += 50 * MS_NS;
            world_commit(world);
            settled += file_log_settle_step(world->log, true);
        }
        assert_int_equal(settled, 1);
        world_power_cut(world);
        world_put(world, world_path(1), older, size);
        world_expect_refusal(world, "was synced up to offset");
        free(older);
        world_free(world);
    }
}

TEST(a_lost_block_is_refused_after_a_clean_stop_and_a_power_cut)
{
    struct world *world = make_log(true);
    world_power_cut(world);
    zero_last_block(world, world_path(3));
    world_expect_refusal(world, "was synced up to offset");
    world_free(world);
}

TEST(the_last_segment_is_missed_when_it_is_lost)
{
    for (unsigned power_cut = 0; power_cut < 2; power_cut++) {
        struct world *world = make_log(false);
        unsigned last = 3;
        if (power_cut) {
            world_must_start(world);
            world_commit(world);
            world_power_cut(world);
            last = 4;
        }
        assert_int_equal(disk_remove(&world->disk->base, world_path(last), NULL), ERR_OK);
        world_expect_refusal(world, world_path(last));
        world_free(world);
    }
}

TEST(a_log_that_is_lost_altogether_is_missed)
{
    struct world *world = make_log(true);
    for (unsigned segment = 1; segment <= 3; segment++)
        assert_int_equal(disk_remove(&world->disk->base, world_path(segment), NULL), ERR_OK);
    world_expect_refusal(world, world_path(1));
    world_free(world);
}

TEST(a_segment_that_is_older_than_it_should_be_is_refused)
{
    struct world *world = make_log(true);
    world_must_start(world);
    world_commit(world);
    size_t size;
    char *older = world_get(world, world_path(4), &size);
    world_commit(world);
    world_close(world);
    world_put(world, world_path(4), older, size);
    world_expect_refusal(world, world_path(4));
    free(older);
    world_free(world);
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

/* A log whose last group was written and never synced. */
static struct world *make_unsynced(uint64_t padding, char **ret_bytes, size_t *ret_size)
{
    struct world *world = make_log(true);
    world_must_start(world);
    world->padding = 3;
    world_commit(world);
    world->padding = padding;
    world_commit(world);
    world_kill(world);
    world_forget_synced(world);
    *ret_bytes = world_get(world, world_path(4), ret_size);
    world->confirmed = 16;
    return world;
}

static void expect_cut(struct world *world, const char *torn, const char *whole, size_t size)
{
    world_put(world, world_path(4), torn, size);
    struct error error = {0};
    if (world_read(world, &error))
        fail_msg("%s", error.text);
    assert_int_equal(world->seen, memcmp(torn, whole, size) == 0 ? 17 : 16);
    world_close(world);
}

/* A write that was under way at a crash, cut off at every byte. */
TEST(a_torn_last_write_is_cut_off_wherever_it_was_torn)
{
    for (uint64_t padding = 0; padding < 1500; padding += 1 + 2 * padding) {
        char *bytes;
        size_t size;
        struct world *world = make_unsynced(padding, &bytes, &size);
        size_t last = last_group(bytes, size);
        struct group group;
        assert_true(group_get(bytes + last, &group));
        size_t end = last + group_bytes(group.body_bytes);
        for (size_t cut = last; cut < end; cut++) {
            char *torn = malloc(size);
            assert_non_null(torn);
            memcpy(torn, bytes, size);
            memset(torn + cut, 0, end - cut);
            expect_cut(world, torn, bytes, size);
            free(torn);
        }
        free(bytes);
        world_free(world);
    }
}

/* Zeroes the front or the back of one of the sectors that [last, end) lies in. */
static void tear_a_sector(struct world *world, char *bytes, size_t last, size_t end)
{
    size_t sector = last / 512 + sim_rng_below(&world->rng, (end - 1) / 512 - last / 512 + 1);
    size_t from = sector * 512 > last ? sector * 512 : last;
    size_t until = (sector + 1) * 512 < end ? (sector + 1) * 512 : end;
    size_t cut = from + sim_rng_below(&world->rng, until - from);
    if (sim_rng_chance(&world->rng, 500))
        memset(bytes + cut, 0, until - cut);
    else
        memset(bytes + from, 0, cut + 1 - from);
}

/* Whatever bytes were to be written: also such as begin or end a sector with zeros. */
TEST(a_last_write_of_which_any_sector_is_torn_is_cut_off)
{
    for (uint64_t padding = 0; padding <= 1500; padding += 300) {
        char *whole;
        size_t size;
        struct world *world = make_unsynced(padding, &whole, &size);
        size_t last = last_group(whole, size);
        struct group group;
        assert_true(group_get(whole + last, &group));
        size_t end = last + group_bytes(group.body_bytes);
        char *torn = malloc(size);
        assert_non_null(torn);
        for (unsigned round = 0; round < 300; round++) {
            if (padding > 600) { /* only its ends are looked at */
                size_t zeros = last + 200 + sim_rng_below(&world->rng, 300);
                group_seal(whole + last, &group);
                memset(whole + zeros, 0, sim_rng_below(&world->rng, 600));
                group_seal(whole + last, &group);
            }
            memcpy(torn, whole, size);
            tear_a_sector(world, torn, last, end);
            if (memcmp(torn, whole, size) != 0)
                expect_cut(world, torn, whole, size);
        }
        free(torn);
        free(whole);
        world_free(world);
    }
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
    world_forget_synced(world); /* it was never synced */
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
    world_expect_refusal(world, world_path(3));
    world_forget_synced(world);
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
    assert_format_is_refused(SEGMENT_VERSION + 1, "format version 4");
}

TEST(an_older_format_is_refused_as_such)
{
    assert_format_is_refused(SEGMENT_VERSION_OLD - 1, "format version 1");
}

/* ---- the format before this one ---- */

/* Makes the first segment one of the old format. */
static void make_old(struct world *world)
{
    size_t size;
    char *bytes = world_get(world, world_path(1), &size);
    char *old = calloc(1, size);
    assert_non_null(old);
    struct segment_header header;
    assert_int_equal(segment_header_get(bytes, &header, NULL), ERR_OK);
    header.is_old = true;
    segment_header_put(&header, old);

    struct group group;
    size_t to = SEGMENT_HEADER_BYTES;
    for (size_t at = to; group_get(bytes + at, &group); at += group_bytes(group.body_bytes)) {
        struct slice body = group_body(bytes + at, &group);
        group.is_old = true;
        group.offset = to;
        if (body.size > 0)
            memcpy(old + to + GROUP_HEADER_BYTES_OLD, body.data, body.size);
        group_seal(old + to, &group);
        to += group_size(&group);
    }
    world_put(world, world_path(1), old, size);
    world_forget_synced(world);
    free(old);
    free(bytes);
}

static struct world *make_old_log(bool closed)
{
    struct world *world = world_new(1);
    world_must_start(world);
    for (unsigned i = 0; i < 5; i++)
        world_commit(world);
    if (closed)
        world_close(world);
    else
        world_kill(world);
    make_old(world);
    return world;
}

TEST(a_log_of_the_format_before_is_read_and_goes_on)
{
    for (unsigned closed = 0; closed < 2; closed++) {
        struct world *world = make_old_log(closed == 1);
        world_must_start(world);
        assert_int_equal(world->seen, 5);
        world_commit(world);
        world_kill(world);
        assert_int_equal(world_read(world, NULL), ERR_OK);
        assert_int_equal(world->seen, 6);
        world_free(world);
    }
}

TEST(a_segment_of_the_format_before_is_refused_when_it_is_damaged)
{
    struct world *world = make_old_log(false);
    world_must_start(world);
    world_commit(world);
    world_close(world);
    size_t size;
    char *bytes = world_get(world, world_path(1), &size);
    struct group group;
    size_t end = SEGMENT_HEADER_BYTES;
    while (group_get_old(bytes + end, &group))
        end += group_size(&group);
    for (size_t at = 0; at < end; at++) {
        sim_disk_flip(world->disk, world_path(1), at, at % 8);
        world_expect_refusal(world, world_path(1));
        sim_disk_flip(world->disk, world_path(1), at, at % 8);
    }
    free(bytes);
    world_free(world);
}

static bool turn_nothing(void *arg, char *section, size_t size)
{
    (void)section;
    (void)size;
    ++*(unsigned *)arg;
    return true;
}

TEST(a_segment_of_the_format_before_is_followed_and_scrubbed)
{
    struct world *world = make_old_log(true);
    world_must_start(world);
    world_commit(world);
    unsigned seen = 0;
    uint64_t changed = 0;
    assert_int_equal(log_scrub(world->log, 1, turn_nothing, &seen, &changed, NULL), ERR_OK);
    assert_int_equal(seen, 5);
    assert_int_equal(changed, 5);
    world_close(world);
    assert_int_equal(world_read(world, NULL), ERR_OK);
    assert_int_equal(world->seen, 6);
    world_free(world);
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
    cmocka_unit_test(after_a_crash_every_flipped_byte_is_refused_or_harmless),
    cmocka_unit_test(after_a_power_cut_every_flipped_byte_is_refused_or_harmless),
    cmocka_unit_test(every_flipped_byte_of_what_was_noted_as_synced_is_harmless),
    cmocka_unit_test(a_block_that_was_synced_and_is_gone_is_refused_as_long_as_that_is_known),
    cmocka_unit_test(a_lost_block_is_refused_after_a_power_cut_that_came_a_moment_after_the_write),
    cmocka_unit_test(what_was_synced_is_noted_once_there_is_space),
    cmocka_unit_test(
        an_older_segment_is_refused_after_a_power_cut_while_there_was_always_something_to_write),
    cmocka_unit_test(a_lost_block_is_refused_after_a_clean_stop_and_a_power_cut),
    cmocka_unit_test(the_last_segment_is_missed_when_it_is_lost),
    cmocka_unit_test(a_log_that_is_lost_altogether_is_missed),
    cmocka_unit_test(a_segment_that_is_older_than_it_should_be_is_refused),
    cmocka_unit_test(damage_to_the_last_group_is_refused_after_a_clean_stop),
    cmocka_unit_test(a_file_cut_anywhere_is_refused_unless_nothing_is_lost),
    cmocka_unit_test(a_torn_last_write_is_cut_off_wherever_it_was_torn),
    cmocka_unit_test(a_last_write_of_which_any_sector_is_torn_is_cut_off),
    cmocka_unit_test(valid_groups_behind_a_torn_one_never_come_back),
    cmocka_unit_test(a_group_of_another_segment_is_not_taken_for_the_one_that_belongs_here),
    cmocka_unit_test(a_group_of_another_log_is_not_taken_for_the_one_that_belongs_here),
    cmocka_unit_test(a_group_with_the_wrong_number_is_refused),
    cmocka_unit_test(a_segment_that_does_not_go_on_with_the_next_group_is_refused),
    cmocka_unit_test(a_group_at_the_wrong_place_of_its_segment_is_not_taken_for_the_right_one),
    cmocka_unit_test(a_missing_segment_is_refused), cmocka_unit_test(a_renamed_segment_is_refused),
    cmocka_unit_test(a_segment_of_another_log_is_refused),
    cmocka_unit_test(a_foreign_file_with_the_name_of_a_segment_is_refused),
    cmocka_unit_test(files_of_other_names_are_left_alone),
    cmocka_unit_test(a_newer_format_is_refused_as_such),
    cmocka_unit_test(an_older_format_is_refused_as_such),
    cmocka_unit_test(a_log_of_the_format_before_is_read_and_goes_on),
    cmocka_unit_test(a_segment_of_the_format_before_is_refused_when_it_is_damaged),
    cmocka_unit_test(a_segment_of_the_format_before_is_followed_and_scrubbed),
    cmocka_unit_test(reading_changes_nothing),
    cmocka_unit_test(reading_a_large_log_is_told_now_and_then),
    cmocka_unit_test(a_position_that_is_none_is_refused))
