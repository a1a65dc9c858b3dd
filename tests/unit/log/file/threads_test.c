/* The file log with its threads, on a real disk that fails when it is told to. */
/* threads */
#include "unit/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/message.h"
#include "log/file/file.h"

/* ---- a disk that fails ---- */

static atomic_bool writes_are_full; /* those that would make a file grow */
static atomic_bool syncs_fail;
static atomic_uint sync_delay_us;
static atomic_uint note_syncs; /* of the file that says how far the log was synced */

struct moody_file {
    struct disk_file base;
    struct disk_file *real; /* owned */
    bool is_note;
};

static struct disk_file *real_of(struct disk_file *file)
{
    return ((struct moody_file *)file)->real;
}

static struct disk_ops moody_ops;
static struct disk moody_disk = {.ops = &moody_ops};

static struct disk_file *wrap(struct disk_file *real, bool is_note)
{
    struct moody_file *file = malloc(sizeof(*file));
    if (!file)
        abort();
    *file = (struct moody_file){{&moody_ops}, real, is_note};
    return &file->base;
}

static enum err moody_open(struct disk *disk, const char *path, enum disk_open how,
                           struct disk_file **ret_file, struct error *error)
{
    (void)disk;
    struct disk_file *real;
    enum err err = disk_open(disk_posix(), path, how, &real, error);
    if (!err)
        *ret_file = wrap(real, strstr(path, "/synced") != NULL);
    return err;
}

static enum err moody_lock(struct disk *disk, const char *path, struct disk_file **ret_file,
                           struct error *error)
{
    (void)disk;
    struct disk_file *real;
    enum err err = disk_lock(disk_posix(), path, &real, error);
    if (!err)
        *ret_file = wrap(real, false);
    return err;
}

static enum err moody_read(struct disk_file *file, uint64_t offset, void *to, size_t size,
                           size_t *ret_size, struct error *error)
{
    return disk_file_read(real_of(file), offset, to, size, ret_size, error);
}

static enum err moody_write(struct disk_file *file, uint64_t offset, const void *from, size_t size,
                            struct error *error)
{
    uint64_t file_size;
    enum err err = disk_file_size(real_of(file), &file_size, error);
    if (err)
        return err;
    if (atomic_load(&writes_are_full) && offset + size > file_size)
        return error_set(error, ERR_FULL, "full");
    return disk_file_write(real_of(file), offset, from, size, error);
}

static enum err moody_sync(struct disk_file *file, struct error *error)
{
    usleep(atomic_load(&sync_delay_us));
    if (atomic_load(&syncs_fail))
        return error_set(error, ERR_IO, "no sync");
    if (((struct moody_file *)file)->is_note)
        atomic_fetch_add(&note_syncs, 1);
    return disk_file_sync(real_of(file), error);
}

static enum err moody_size(struct disk_file *file, uint64_t *ret_size, struct error *error)
{
    return disk_file_size(real_of(file), ret_size, error);
}

static void moody_close(struct disk_file *file)
{
    disk_file_close(real_of(file));
    free(file);
}

/* ---- what the tests share ---- */

static char folder[64];
static struct env env;
static atomic_uint fatal_count;

static void count_fatal(void *arg, const struct error *error)
{
    (void)arg;
    (void)error;
    atomic_fetch_add(&fatal_count, 1);
}

static uint64_t verify_bytes_per_s;

static struct log *start(uint64_t pending_bytes_max)
{
    struct file_log_options options = {
        .folder = folder,
        .segment_bytes = 64 << 10,
        .pending_bytes_max = pending_bytes_max,
        .verify_bytes_per_s = verify_bytes_per_s,
        .fatal = count_fatal,
    };
    struct log *log;
    struct error error = {0};
    if (file_log_open(&env, &options, &log, &error) || log_start(log, &error))
        fail_msg("%s", error.text);
    return log;
}

static uint64_t append(struct log *log, size_t size)
{
    static const char bytes[LOG_SECTION_BYTES_MAX];
    return log_append(log, (struct slice){bytes, size}, (struct slice){0});
}

static void wait_durable(struct log *log, uint64_t ticket)
{
    while (log_reached(log, 0, LOG_DURABLE) < ticket)
        usleep(50);
}

static void wait_room(struct log *log, enum err room)
{
    while (log_room(log) != room)
        usleep(1000);
}

static int set_up(void **state)
{
    (void)state;
    message_set_level(MESSAGE_ERROR + 1);
    moody_ops = *disk_posix()->ops;
    moody_ops.open = moody_open;
    moody_ops.lock = moody_lock;
    moody_ops.file_read = moody_read;
    moody_ops.file_write = moody_write;
    moody_ops.file_sync = moody_sync;
    moody_ops.file_size = moody_size;
    moody_ops.file_close = moody_close;
    env = *env_system();
    env.disk = &moody_disk;
    fatal_count = 0;
    snprintf(folder, sizeof(folder), "/tmp/tally-log-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int clean_up(void **state)
{
    (void)state;
    writes_are_full = false;
    syncs_fail = false;
    sync_delay_us = 0;
    verify_bytes_per_s = 0;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command); /* NOLINT: our own name */
}

/* ---- the tests ---- */

TEST(a_failed_sync_is_fatal_once_and_the_log_can_be_closed)
{
    struct log *log = start(1 << 20);
    uint64_t durable = append(log, 10);
    wait_durable(log, durable);
    syncs_fail = true;
    append(log, 10);
    while (fatal_count == 0)
        usleep(50);
    append(log, 10);
    usleep(1000);
    assert_int_equal(log_reached(log, 0, LOG_DURABLE), durable);
    assert_int_equal(log_room(log), ERR_BUSY);
    log_close(log);
    assert_int_equal(fatal_count, 1);
}

/* Each wait is bounded: nothing that was let go stays behind. */
static bool becomes_durable(struct log *log, uint64_t ticket)
{
    for (unsigned i = 0; i < 5000 && log_reached(log, 0, LOG_DURABLE) < ticket; i++)
        usleep(1000);
    return log_reached(log, 0, LOG_DURABLE) >= ticket;
}

TEST(what_is_held_goes_together_and_no_hold_keeps_it_for_ever)
{
    struct log *log = start(8 << 20);
    log_hold(log);
    uint64_t first = append(log, 10);
    usleep(20000);
    assert_true(log_reached(log, 0, LOG_DURABLE) < first);
    uint64_t second = append(log, 10);
    log_launch(log);
    assert_true(becomes_durable(log, second));
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.groups, 1);

    log_hold(log); /* by one who goes to sleep */
    log_hold(log);
    uint64_t of_another = append(log, 10);
    log_launch(log);
    assert_true(becomes_durable(log, of_another));
    for (unsigned i = 0; i < 400; i++)
        second = append(log, 1000);
    assert_true(becomes_durable(log, second - 200)); /* so much is not worth waiting */
    second = append(log, 10);
    log_launch(log);
    assert_true(becomes_durable(log, second));

    log_hold(log);
    append(log, 10);
    log_close(log); /* ends, although it is held */
    assert_int_equal(fatal_count, 0);
}

TEST(the_note_of_what_was_synced_is_synced_once_when_nothing_more_is_written)
{
    struct log *log = start(1 << 20);
    unsigned before = note_syncs; /* when the segment began */
    for (unsigned i = 1; i <= 3; i++) {
        wait_durable(log, append(log, 10));
        while (note_syncs < before + i)
            usleep(1000);
    }
    log_close(log);
    assert_int_equal(note_syncs, before + 4);
    assert_int_equal(fatal_count, 0);
}

TEST(a_slow_disk_makes_the_log_busy_and_then_not)
{
    struct log *log = start(100000);
    sync_delay_us = 50000;
    uint64_t ticket = 0;
    while (log_room(log) == ERR_OK)
        ticket = append(log, 1000);
    assert_int_equal(log_room(log), ERR_BUSY);
    sync_delay_us = 0;
    wait_room(log, ERR_OK);
    wait_durable(log, ticket);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

TEST(a_full_disk_is_noticed_survived_and_forgotten)
{
    struct log *log = start(1 << 20);
    wait_durable(log, append(log, 1000));
    writes_are_full = true;
    uint64_t ticket = 0;
    for (unsigned i = 0; i < 300; i++)
        ticket = append(log, 1000);
    wait_room(log, ERR_FULL);
    assert_true(log_reached(log, 0, LOG_DURABLE) < ticket);
    writes_are_full = false;
    wait_durable(log, ticket);
    wait_room(log, ERR_OK);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

TEST(closing_on_a_full_disk_ends)
{
    struct log *log = start(1 << 20);
    wait_durable(log, append(log, 1000));
    writes_are_full = true;
    for (unsigned i = 0; i < 300; i++)
        append(log, 1000);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

/* ---- verifying ---- */

static void make_segments(struct log *log, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        append(log, 1000);
        assert_int_equal(log_rotate(log, NULL), ERR_OK);
    }
}

static void wait_verified(struct log *log, uint64_t bytes)
{
    struct log_stats stats = {0};
    while (stats.verified_bytes < bytes) {
        usleep(100);
        log_stats(log, &stats);
        assert_int_equal(stats.damaged_segments, 0);
    }
}

TEST(old_segments_are_looked_through_while_others_are_written_and_trimmed)
{
    struct log *log = start(1 << 20);
    make_segments(log, 20);
    log_close(log);

    verify_bytes_per_s = 1 << 20;
    log = start(1 << 20);
    wait_verified(log, 8 << 10);
    make_segments(log, 5);
    assert_int_equal(log_trim(log, 10, NULL), ERR_OK);
    wait_verified(log, 40 << 10);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

TEST(closing_does_not_wait_until_all_is_looked_through)
{
    struct log *log = start(1 << 20);
    make_segments(log, 5);
    log_close(log);
    verify_bytes_per_s = 1; /* hours for each segment */
    log = start(1 << 20);
    wait_verified(log, 1);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

/* ---- rotating ---- */

TEST(rotating_waits_for_a_slow_disk)
{
    struct log *log = start(1 << 20);
    sync_delay_us = 20000;
    for (unsigned i = 0; i < 5; i++) {
        uint64_t ticket = append(log, 10);
        assert_int_equal(log_rotate(log, NULL), ERR_OK);
        assert_true(log_reached(log, 0, LOG_DURABLE) >= ticket);
    }
    struct log_stats stats;
    log_stats(log, &stats);
    assert_int_equal(stats.segments, 6);
    log_hold(log); /* what is held is sealed all the same */
    append(log, 10);
    assert_int_equal(log_rotate(log, NULL), ERR_OK);
    log_launch(log);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

TEST(rotating_on_a_full_disk_ends_and_works_later)
{
    struct log *log = start(1 << 20);
    wait_durable(log, append(log, 1000));
    writes_are_full = true;
    enum err err = ERR_OK;
    for (unsigned i = 0; i < 4 && !err; i++) { /* a segment or two are there already */
        append(log, 1000);
        err = log_rotate(log, NULL);
    }
    assert_int_equal(err, ERR_FULL);
    writes_are_full = false;
    wait_room(log, ERR_OK);
    while (log_rotate(log, NULL) != ERR_OK)
        usleep(10000);
    log_close(log);
    assert_int_equal(fatal_count, 0);
}

TEST(rotating_ends_when_the_log_breaks)
{
    struct log *log = start(1 << 20);
    wait_durable(log, append(log, 10));
    sync_delay_us = 20000;
    syncs_fail = true;
    append(log, 10);
    assert_int_equal(log_rotate(log, NULL), ERR_IO); /* while it breaks */
    assert_int_equal(log_rotate(log, NULL), ERR_IO); /* and afterwards */
    log_close(log);
    assert_int_equal(fatal_count, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, clean_up)

RUN(CASE(a_failed_sync_is_fatal_once_and_the_log_can_be_closed),
    CASE(what_is_held_goes_together_and_no_hold_keeps_it_for_ever),
    CASE(the_note_of_what_was_synced_is_synced_once_when_nothing_more_is_written),
    CASE(a_slow_disk_makes_the_log_busy_and_then_not),
    CASE(a_full_disk_is_noticed_survived_and_forgotten), CASE(closing_on_a_full_disk_ends),
    CASE(old_segments_are_looked_through_while_others_are_written_and_trimmed),
    CASE(closing_does_not_wait_until_all_is_looked_through), CASE(rotating_waits_for_a_slow_disk),
    CASE(rotating_on_a_full_disk_ends_and_works_later), CASE(rotating_ends_when_the_log_breaks))
