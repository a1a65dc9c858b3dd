#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/disk.h"
#include "unit/test.h"

/* Each test has a folder of its own, in which it stands. */
static char folder[] = "/tmp/disk-test-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static struct disk_file *open_file(const char *path, enum disk_open how)
{
    struct disk_file *file;
    assert_int_equal(disk_open(disk_posix(), path, how, &file, NULL), ERR_OK);
    return file;
}

static void create_file(const char *path)
{
    disk_file_close(open_file(path, DISK_CREATE));
}

static mode_t mode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_mode & 07777;
}

TEST(what_is_written_is_read_back)
{
    struct disk_file *file = open_file("f", DISK_CREATE);
    assert_int_equal(disk_file_write(file, 3, "hello", 5, NULL), ERR_OK);
    assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
    uint64_t size;
    assert_int_equal(disk_file_size(file, &size, NULL), ERR_OK);
    assert_int_equal(size, 8);
    disk_file_close(file);

    file = open_file("f", DISK_READ);
    char bytes[8];
    size_t got;
    assert_int_equal(disk_file_read(file, 0, bytes, 8, &got, NULL), ERR_OK);
    assert_int_equal(got, 8);
    assert_memory_equal(bytes, "\0\0\0hello", 8);
    disk_file_close(file);
}

TEST(a_read_is_short_only_at_the_end)
{
    struct disk_file *file = open_file("f", DISK_CREATE);
    assert_int_equal(disk_file_write(file, 0, "hello", 5, NULL), ERR_OK);
    char bytes[8];
    size_t got;
    assert_int_equal(disk_file_read(file, 3, bytes, 8, &got, NULL), ERR_OK);
    assert_int_equal(got, 2);
    assert_int_equal(disk_file_read(file, 100, bytes, 8, &got, NULL), ERR_OK);
    assert_int_equal(got, 0);
    disk_file_close(file);
}

TEST(files_are_for_their_owner_only)
{
    create_file("f");
    assert_int_equal(mode_of("f"), 0600);
    assert_int_equal(disk_make_folder(disk_posix(), "d/e", NULL), ERR_OK);
    assert_int_equal(mode_of("d"), 0700);
    assert_int_equal(mode_of("d/e"), 0700);
}

TEST(a_missing_file_is_not_found_and_a_present_one_not_created)
{
    struct disk_file *file;
    struct error error;
    assert_int_equal(disk_open(disk_posix(), "f", DISK_READ, &file, &error), ERR_NOT_FOUND);
    assert_string_equal(error.text, "cannot open f: No such file or directory");
    assert_int_equal(disk_open(disk_posix(), "f", DISK_WRITE, &file, NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_remove(disk_posix(), "f", NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_rename(disk_posix(), "f", "g", NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_sync_folder(disk_posix(), "d", NULL), ERR_NOT_FOUND);

    create_file("f");
    assert_int_equal(disk_open(disk_posix(), "f", DISK_CREATE, &file, NULL), ERR_EXISTS);
}

TEST(a_file_opened_for_reading_takes_no_writes)
{
    create_file("f");
    struct disk_file *file = open_file("f", DISK_READ);
    assert_int_equal(disk_file_write(file, 0, "x", 1, NULL), ERR_IO);
    disk_file_close(file);
}

TEST(a_disk_without_space_is_full)
{
    struct disk_file *file = open_file("/dev/full", DISK_WRITE);
    struct error error;
    assert_int_equal(disk_file_write(file, 0, "x", 1, &error), ERR_FULL);
    assert_string_equal(error.text, "cannot write /dev/full: No space left on device");
    disk_file_close(file);
}

TEST(a_rename_replaces_and_a_removal_removes)
{
    struct disk_file *file = open_file("a", DISK_CREATE);
    disk_file_write(file, 0, "a", 1, NULL);
    disk_file_close(file);
    create_file("b");

    assert_int_equal(disk_rename(disk_posix(), "a", "b", NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(disk_posix(), ".", NULL), ERR_OK);
    assert_int_not_equal(access("a", F_OK), 0);
    file = open_file("b", DISK_READ);
    uint64_t size;
    disk_file_size(file, &size, NULL);
    assert_int_equal(size, 1);
    disk_file_close(file);

    assert_int_equal(disk_remove(disk_posix(), "b", NULL), ERR_OK);
    assert_int_not_equal(access("b", F_OK), 0);
}

struct seen {
    unsigned count;
    unsigned stop_at;
    bool odd; /* something that is no file of the test */
};

static bool see(void *arg, const char *name)
{
    struct seen *seen = arg;
    seen->count++;
    seen->odd |= strlen(name) != 1 || name[0] < 'a' || name[0] > 'c';
    return seen->count != seen->stop_at;
}

TEST(a_folder_lists_its_files_and_nothing_else)
{
    create_file("a");
    create_file("b");
    create_file("c");
    disk_make_folder(disk_posix(), "d", NULL);

    struct seen seen = {0};
    assert_int_equal(disk_list(disk_posix(), ".", see, &seen, NULL), ERR_OK);
    assert_int_equal(seen.count, 3);
    assert_false(seen.odd);

    seen = (struct seen){.stop_at = 2};
    assert_int_equal(disk_list(disk_posix(), ".", see, &seen, NULL), ERR_OK);
    assert_int_equal(seen.count, 2);
    assert_int_equal(disk_list(disk_posix(), "nowhere", see, &seen, NULL), ERR_NOT_FOUND);
}

TEST(a_folder_is_made_with_all_above_it_and_again_without_harm)
{
    struct stat status;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(disk_make_folder(disk_posix(), "a/b//c/", NULL), ERR_OK);
        assert_int_equal(stat("a/b/c", &status), 0);
        assert_true(S_ISDIR(status.st_mode));
    }
    char path[64];
    snprintf(path, sizeof(path), "%s/x/y", folder);
    assert_int_equal(disk_make_folder(disk_posix(), path, NULL), ERR_OK);
    assert_int_equal(stat("x/y", &status), 0);
    assert_int_equal(disk_make_folder(disk_posix(), "/", NULL), ERR_OK);
}

TEST(a_file_in_the_place_of_a_folder_is_an_error)
{
    create_file("f");
    assert_int_equal(disk_make_folder(disk_posix(), "f", NULL), ERR_EXISTS);
    assert_int_equal(disk_make_folder(disk_posix(), "f/g", NULL), ERR_IO);
}

TEST(a_lock_has_one_holder_until_it_is_closed)
{
    struct disk_file *first;
    struct disk_file *second;
    assert_int_equal(disk_lock(disk_posix(), "lock", &first, NULL), ERR_OK);
    assert_int_equal(disk_lock(disk_posix(), "lock", &second, NULL), ERR_BUSY);
    disk_file_close(first);
    assert_int_equal(disk_lock(disk_posix(), "lock", &second, NULL), ERR_OK);
    disk_file_close(second);
}

TEST(closing_no_file_does_nothing)
{
    disk_file_close(NULL);
}

/* Takes all descriptors that the process may have, of `limit` in all. */
static unsigned take_descriptors(const struct rlimit *before, rlim_t limit, int *taken)
{
    struct rlimit few = {.rlim_cur = limit, .rlim_max = before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    unsigned count = 0;
    while ((taken[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    return count;
}

TEST(without_a_descriptor_there_is_no_room_and_a_folder_that_was_synced_still_is)
{
    assert_int_equal(disk_make_folder(disk_posix(), "kept", NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(disk_posix(), "kept", NULL), ERR_OK);
    create_file("kept/f");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int taken[64];
    unsigned count = take_descriptors(&before, 64, taken);

    struct disk_file *file;
    struct error error;
    assert_int_equal(disk_open(disk_posix(), "kept/f", DISK_WRITE, &file, &error), ERR_FULL);
    assert_non_null(strstr(error.text, "Too many open files"));
    assert_int_equal(disk_open(disk_posix(), "kept/g", DISK_CREATE, &file, NULL), ERR_FULL);
    assert_int_equal(disk_rename(disk_posix(), "kept/f", "kept/g", NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(disk_posix(), "kept", NULL), ERR_OK);

    while (count > 0)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    disk_file_close(open_file("kept/g", DISK_READ));
}

TEST(a_folder_that_took_the_place_of_another_is_synced_as_itself)
{
    assert_int_equal(disk_make_folder(disk_posix(), "b", NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(disk_posix(), "b", NULL), ERR_OK);
    assert_int_equal(rename("b", "c"), 0);
    assert_int_equal(disk_sync_folder(disk_posix(), "b", NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_make_folder(disk_posix(), "b", NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(disk_posix(), "b", NULL), ERR_OK);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

RUN(IN_FOLDER(what_is_written_is_read_back), IN_FOLDER(a_read_is_short_only_at_the_end),
    IN_FOLDER(files_are_for_their_owner_only),
    IN_FOLDER(a_missing_file_is_not_found_and_a_present_one_not_created),
    IN_FOLDER(a_file_opened_for_reading_takes_no_writes), IN_FOLDER(a_disk_without_space_is_full),
    IN_FOLDER(a_rename_replaces_and_a_removal_removes),
    IN_FOLDER(a_folder_lists_its_files_and_nothing_else),
    IN_FOLDER(a_folder_is_made_with_all_above_it_and_again_without_harm),
    IN_FOLDER(a_file_in_the_place_of_a_folder_is_an_error),
    IN_FOLDER(a_lock_has_one_holder_until_it_is_closed),
    IN_FOLDER(without_a_descriptor_there_is_no_room_and_a_folder_that_was_synced_still_is),
    IN_FOLDER(a_folder_that_took_the_place_of_another_is_synced_as_itself),
    cmocka_unit_test(closing_no_file_does_nothing))
