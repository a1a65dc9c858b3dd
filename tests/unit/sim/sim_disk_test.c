/* The test of the tester: a simulated disk that is too kind proves nothing, so
 * most of these tests show that a misfortune does happen, over many seeds. */
#include "sim/sim_disk.c"

#include "unit/test.h"

#define SEEDS 400u

/* ---- what the tests share ---- */

static struct disk_file *open_file(struct sim_disk *disk, const char *path, enum disk_open how)
{
    struct disk_file *file;
    assert_int_equal(disk_open(&disk->base, path, how, &file, NULL), ERR_OK);
    return file;
}

static bool exists(struct sim_disk *disk, const char *path)
{
    struct disk_file *file;
    enum err err = disk_open(&disk->base, path, DISK_READ, &file, NULL);
    if (err)
        return false;
    disk_file_close(file);
    return true;
}

static void write_at(struct disk_file *file, uint64_t offset, char byte, size_t size)
{
    char bytes[8 * SIM_DISK_SECTOR];
    assert_true(size <= sizeof(bytes));
    memset(bytes, byte, size);
    assert_int_equal(disk_file_write(file, offset, bytes, size, NULL), ERR_OK);
}

static void sync_all(struct sim_disk *disk, struct disk_file *file)
{
    assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
    assert_int_equal(disk_sync_folder(&disk->base, ".", NULL), ERR_OK);
}

/* Reads a whole file of at most `size` bytes; returns how many. */
static size_t read_all(struct sim_disk *disk, const char *path, char *to, size_t size)
{
    struct disk_file *file = open_file(disk, path, DISK_READ);
    size_t got;
    assert_int_equal(disk_file_read(file, 0, to, size, &got, NULL), ERR_OK);
    disk_file_close(file);
    return got;
}

static bool is_all(const char *bytes, size_t size, char byte)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != byte)
            return false;
    }
    return true;
}

/* A disk with a durable file `f` of `size` bytes 'a'. */
static struct sim_disk *disk_with_file(uint64_t seed, size_t size)
{
    struct sim_disk *disk = sim_disk_new(seed);
    struct disk_file *file = open_file(disk, "f", DISK_CREATE);
    write_at(file, 0, 'a', size);
    sync_all(disk, file);
    disk_file_close(file);
    return disk;
}

/* ---- an ordinary disk ---- */

TEST(what_is_written_is_read_back)
{
    struct sim_disk *disk = sim_disk_new(1);
    struct disk_file *file = open_file(disk, "f", DISK_CREATE);
    assert_int_equal(disk_file_write(file, 700, "hello", 5, NULL), ERR_OK);
    uint64_t size;
    assert_int_equal(disk_file_size(file, &size, NULL), ERR_OK);
    assert_int_equal(size, 705);

    char bytes[1000];
    size_t got;
    assert_int_equal(disk_file_read(file, 0, bytes, sizeof(bytes), &got, NULL), ERR_OK);
    assert_int_equal(got, 705);
    assert_true(is_all(bytes, 700, 0));
    assert_memory_equal(bytes + 700, "hello", 5);
    assert_int_equal(disk_file_read(file, 705, bytes, 1, &got, NULL), ERR_OK);
    assert_int_equal(got, 0);
    disk_file_close(file);
    sim_disk_free(disk);
}

TEST(files_are_found_made_and_refused_as_on_a_real_disk)
{
    struct sim_disk *disk = disk_with_file(1, 10);
    struct disk_file *file;
    assert_int_equal(disk_open(&disk->base, "g", DISK_WRITE, &file, NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_open(&disk->base, "f", DISK_CREATE, &file, NULL), ERR_EXISTS);
    assert_int_equal(disk_open(&disk->base, "d/f", DISK_CREATE, &file, NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_remove(&disk->base, "g", NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_rename(&disk->base, "g", "h", NULL), ERR_NOT_FOUND);
    assert_int_equal(disk_sync_folder(&disk->base, "d", NULL), ERR_NOT_FOUND);

    file = open_file(disk, "f", DISK_READ);
    assert_int_equal(disk_file_write(file, 0, "x", 1, NULL), ERR_IO);
    disk_file_close(file);

    assert_int_equal(disk_rename(&disk->base, "f", "g", NULL), ERR_OK);
    assert_false(exists(disk, "f"));
    assert_true(exists(disk, "g"));
    assert_int_equal(disk_remove(&disk->base, "g", NULL), ERR_OK);
    assert_false(exists(disk, "g"));
    sim_disk_free(disk);
}

static bool count_names(void *arg, const char *name)
{
    assert_true(name[0] == 'a' || name[0] == 'b');
    return ++*(unsigned *)arg != 100;
}

TEST(folders_are_made_with_those_above_and_list_their_files)
{
    struct sim_disk *disk = sim_disk_new(1);
    assert_int_equal(disk_make_folder(&disk->base, "/x/y/", NULL), ERR_OK);
    assert_int_equal(disk_make_folder(&disk->base, "/x/y", NULL), ERR_OK);
    disk_file_close(open_file(disk, "/x/y/a", DISK_CREATE));
    disk_file_close(open_file(disk, "/x/y/b", DISK_CREATE));
    disk_file_close(open_file(disk, "/x/c", DISK_CREATE));
    disk_file_close(open_file(disk, "/x/y/d", DISK_CREATE));
    disk_remove(&disk->base, "/x/y/d", NULL);

    unsigned count = 0;
    assert_int_equal(disk_list(&disk->base, "/x/y", count_names, &count, NULL), ERR_OK);
    assert_int_equal(count, 2);
    count = 99;
    assert_int_equal(disk_list(&disk->base, "/x/y/", count_names, &count, NULL), ERR_OK);
    assert_int_equal(count, 100);
    assert_int_equal(disk_list(&disk->base, "/z", count_names, &count, NULL), ERR_NOT_FOUND);
    sim_disk_free(disk);
}

TEST(a_lock_has_one_holder_until_it_is_closed_or_dies)
{
    struct sim_disk *disk = sim_disk_new(1);
    struct disk_file *lock;
    assert_int_equal(disk_lock(&disk->base, "lock", &lock, NULL), ERR_OK);
    struct disk_file *second;
    assert_int_equal(disk_lock(&disk->base, "lock", &second, NULL), ERR_BUSY);
    disk_file_close(lock);
    assert_int_equal(disk_lock(&disk->base, "lock", &lock, NULL), ERR_OK);
    sim_disk_kill(disk);
    assert_int_equal(disk_lock(&disk->base, "lock", &lock, NULL), ERR_OK);
    sim_disk_crash(disk, &(struct sim_rng){1});
    assert_int_equal(disk_lock(&disk->base, "lock", &lock, NULL), ERR_OK);
    sim_disk_free(disk);
}

TEST(random_operations_leave_what_a_naive_disk_would_hold)
{
    enum { FILES = 4, SIZE = 5000 };
    struct {
        bool there;
        char bytes[SIZE];
        size_t size;
    } model[FILES] = {{0}};
    static const char *const paths[FILES] = {"a", "b", "c", "d"};
    struct sim_rng rng = {1};
    struct sim_disk *disk = sim_disk_new(1);

    for (int step = 0; step < 50000; step++) {
        size_t a = sim_rng_below(&rng, FILES);
        size_t b = sim_rng_below(&rng, FILES);
        assert_int_equal(exists(disk, paths[a]), model[a].there);
        if (!model[a].there) {
            disk_file_close(open_file(disk, paths[a], DISK_CREATE));
            memset(&model[a], 0, sizeof(model[a]));
            model[a].there = true;
            continue;
        }
        struct disk_file *file = open_file(disk, paths[a], DISK_WRITE);
        switch (sim_rng_below(&rng, 12)) {
        case 0:
            assert_int_equal(disk_remove(&disk->base, paths[a], NULL), ERR_OK);
            model[a].there = false;
            break;
        case 1:
            assert_int_equal(disk_rename(&disk->base, paths[a], paths[b], NULL), ERR_OK);
            if (a != b) {
                model[b] = model[a];
                model[a].there = false;
            }
            break;
        case 2:
            sync_all(disk, file);
            break;
        case 3:
            sim_disk_kill(disk);
            continue;
        default: {
            size_t offset = sim_rng_below(&rng, SIZE);
            size_t size = sim_rng_below(&rng, SIZE - offset) % 1500;
            char byte = (char)sim_rng_next(&rng);
            write_at(file, offset, byte, size);
            memset(model[a].bytes + offset, byte, size);
            if (size > 0)
                model[a].size = larger(model[a].size, offset + size);
            break;
        }
        }
        disk_file_close(file);
        if (model[b].there) {
            char bytes[SIZE];
            assert_int_equal(read_all(disk, paths[b], bytes, SIZE), model[b].size);
            assert_memory_equal(bytes, model[b].bytes, model[b].size);
        }
        uint64_t used = 0;
        for (size_t i = 0; i < FILES; i++)
            used += model[i].there ? model[i].size : 0;
        assert_int_equal(sim_disk_used_bytes(disk), used);
    }
    sim_disk_free(disk);
}

/* ---- crashes ---- */

TEST(what_was_synced_survives_every_crash)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_rng rng = {seed};
        struct sim_disk *disk = disk_with_file(seed, 1300);
        struct disk_file *file = open_file(disk, "f", DISK_WRITE);
        write_at(file, 1300, 'b', 2000);
        sim_disk_crash(disk, &rng);
        sim_disk_crash(disk, &rng);

        char bytes[4096];
        assert_true(read_all(disk, "f", bytes, sizeof(bytes)) >= 1300);
        assert_true(is_all(bytes, 1300, 'a'));
        sim_disk_free(disk);
    }
}

TEST(a_name_is_lost_until_its_folder_is_synced)
{
    unsigned survived = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = sim_disk_new(seed);
        struct disk_file *file = open_file(disk, "f", DISK_CREATE);
        write_at(file, 0, 'a', 10);
        assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
        sim_disk_crash(disk, &(struct sim_rng){seed});
        survived += exists(disk, "f");
        sim_disk_free(disk);
    }
    assert_in_range(survived, SEEDS / 4, SEEDS * 3 / 4);
}

TEST(a_folder_keeps_the_first_few_of_its_changes)
{
    unsigned kept[4] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = disk_with_file(seed, 10);
        disk_file_close(open_file(disk, "g", DISK_CREATE));
        disk_rename(&disk->base, "g", "h", NULL);
        disk_remove(&disk->base, "f", NULL);
        sim_disk_crash(disk, &(struct sim_rng){seed});

        bool f = exists(disk, "f");
        bool g = exists(disk, "g");
        bool h = exists(disk, "h");
        assert_true(f || h); /* the removal came last */
        assert_false(g && h);
        kept[!f ? 3 : h ? 2 : g ? 1 : 0]++;
        sim_disk_free(disk);
    }
    for (int i = 0; i < 4; i++)
        assert_true(kept[i] > SEEDS / 8);
}

TEST(a_rename_that_is_lost_leaves_what_it_replaced)
{
    unsigned old = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = disk_with_file(seed, 10);
        struct disk_file *file = open_file(disk, "new", DISK_CREATE);
        write_at(file, 0, 'b', 10);
        sync_all(disk, file);
        disk_rename(&disk->base, "new", "f", NULL);
        sim_disk_crash(disk, &(struct sim_rng){seed});

        char bytes[16];
        assert_int_equal(read_all(disk, "f", bytes, sizeof(bytes)), 10);
        assert_true(is_all(bytes, 10, 'a') || is_all(bytes, 10, 'b'));
        assert_int_equal(exists(disk, "new"), bytes[0] == 'a');
        old += bytes[0] == 'a';
        sim_disk_free(disk);
    }
    assert_in_range(old, SEEDS / 4, SEEDS * 3 / 4);
}

TEST(unsynced_sectors_come_back_all_none_some_or_torn)
{
    enum { SECTORS = 8, SIZE = SECTORS * SIM_DISK_SECTOR };
    unsigned all = 0, none = 0, some = 0, torn = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = disk_with_file(seed, SIZE);
        write_at(open_file(disk, "f", DISK_WRITE), 0, 'b', SIZE);
        sim_disk_crash(disk, &(struct sim_rng){seed});

        char bytes[SIZE];
        assert_int_equal(read_all(disk, "f", bytes, SIZE), SIZE);
        unsigned kept = 0, lost = 0;
        for (size_t i = 0; i < SECTORS; i++) {
            kept += is_all(bytes + i * SIM_DISK_SECTOR, SIM_DISK_SECTOR, 'b');
            lost += is_all(bytes + i * SIM_DISK_SECTOR, SIM_DISK_SECTOR, 'a');
        }
        all += kept == SECTORS;
        none += lost == SECTORS;
        some += kept > 0 && lost > 0;
        torn += kept + lost < SECTORS;
        sim_disk_free(disk);
    }
    assert_true(all > SEEDS / 20);
    assert_true(none > SEEDS / 20);
    assert_true(some > SEEDS / 20);
    assert_true(torn > SEEDS / 20);
}

TEST(a_length_may_survive_without_its_bytes)
{
    enum { SIZE = 4 * SIM_DISK_SECTOR };
    unsigned shorter = 0, zeros = 0, noise = 0, stale = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = disk_with_file(seed, SIZE);
        struct disk_file *file = open_file(disk, "g", DISK_CREATE);
        disk_sync_folder(&disk->base, ".", NULL);
        write_at(file, 0, 'b', SIZE);
        sim_disk_crash(disk, &(struct sim_rng){seed});

        char bytes[SIZE];
        size_t size = read_all(disk, "g", bytes, SIZE);
        shorter += size < SIZE;
        if (size == SIZE) {
            const char *last = bytes + SIZE - SIM_DISK_SECTOR;
            bool is_zero = is_all(last, SIM_DISK_SECTOR, 0);
            bool is_stale = is_all(last, SIM_DISK_SECTOR, 'a');
            zeros += is_zero;
            stale += is_stale;
            noise += !is_zero && !is_stale && last[0] != 'b' && last[SIM_DISK_SECTOR - 1] != 'b';
        }
        sim_disk_free(disk);
    }
    assert_true(shorter > SEEDS / 20);
    assert_true(zeros > SEEDS / 50);
    assert_true(noise > SEEDS / 50);
    assert_true(stale > SEEDS / 50);
}

TEST(a_crash_brings_back_no_byte_older_than_the_last_sync_nor_one_never_written)
{
    enum { SIZE = 6 * SIM_DISK_SECTOR };
    unsigned in_between = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_rng rng = {seed};
        struct sim_disk *disk = disk_with_file(seed, SIZE);
        unsigned char synced[SIZE], written[SIZE];
        memset(synced, 'a', SIZE);
        memset(written, 'a', SIZE);

        for (unsigned char version = 'b'; version < 200; version++) {
            struct disk_file *file = open_file(disk, "f", DISK_WRITE);
            size_t offset = sim_rng_below(&rng, SIZE);
            size_t size = sim_rng_below(&rng, SIZE - offset + 1);
            write_at(file, offset, (char)version, size);
            memset(written + offset, version, size);
            if (sim_rng_chance(&rng, 200)) {
                assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
                memcpy(synced, written, SIZE);
            }
            if (!sim_rng_chance(&rng, 200)) {
                disk_file_close(file);
                continue;
            }
            sim_disk_crash(disk, &rng);
            unsigned char bytes[SIZE];
            assert_int_equal(read_all(disk, "f", (char *)bytes, SIZE), SIZE);
            for (size_t i = 0; i < SIZE; i++) {
                assert_true(bytes[i] >= synced[i] && bytes[i] <= written[i]);
                in_between += bytes[i] > synced[i] && bytes[i] < written[i];
            }
            memcpy(synced, bytes, SIZE);
            memcpy(written, bytes, SIZE);
        }
        sim_disk_free(disk);
    }
    assert_true(in_between > 1000);
}

TEST(a_killed_process_loses_nothing)
{
    struct sim_disk *disk = sim_disk_new(1);
    write_at(open_file(disk, "f", DISK_CREATE), 0, 'a', 3000);
    sim_disk_kill(disk);
    char bytes[3000];
    assert_int_equal(read_all(disk, "f", bytes, sizeof(bytes)), 3000);
    assert_true(is_all(bytes, 3000, 'a'));
    sim_disk_free(disk);
}

/* ---- faults ---- */

TEST(after_a_failed_sync_the_next_one_succeeds_over_the_loss)
{
    enum { SIZE = 8 * SIM_DISK_SECTOR };
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = disk_with_file(seed, SIZE);
        struct disk_file *file = open_file(disk, "f", DISK_WRITE);
        write_at(file, 0, 'b', SIZE);
        disk->faults.sync_failure_permille = 1000;
        assert_int_equal(disk_file_sync(file, NULL), ERR_IO);
        disk->faults.sync_failure_permille = 0;
        assert_int_equal(disk_file_sync(file, NULL), ERR_OK);

        char bytes[SIZE];
        read_all(disk, "f", bytes, SIZE);
        assert_true(is_all(bytes, SIZE, 'b'));
        sim_disk_crash(disk, &(struct sim_rng){seed});
        read_all(disk, "f", bytes, SIZE);
        lost += !is_all(bytes, SIZE, 'b');
        sim_disk_free(disk);
    }
    assert_true(lost > SEEDS / 2);
}

TEST(a_lost_sector_is_saved_once_it_is_written_again)
{
    struct sim_disk *disk = disk_with_file(1, SIM_DISK_SECTOR);
    struct disk_file *file = open_file(disk, "f", DISK_WRITE);
    for (int i = 0; i < 20; i++) {
        write_at(file, 0, 'b', SIM_DISK_SECTOR);
        disk->faults.sync_failure_permille = 1000;
        assert_int_equal(disk_file_sync(file, NULL), ERR_IO);
    }
    disk->faults.sync_failure_permille = 0;
    write_at(file, 0, 'c', 1);
    assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
    sim_disk_crash(disk, &(struct sim_rng){1});

    char bytes[SIM_DISK_SECTOR];
    read_all(disk, "f", bytes, sizeof(bytes));
    assert_int_equal(bytes[0], 'c');
    assert_true(is_all(bytes + 1, SIM_DISK_SECTOR - 1, 'b'));
    sim_disk_free(disk);
}

/* Every kind of call once; the result of the first that fails. */
static enum err run_all_calls(struct sim_disk *disk)
{
    struct disk *base = &disk->base;
    struct disk_file *lock = NULL;
    struct disk_file *file = NULL;
    char bytes[4];
    size_t size;
    uint64_t file_size;
    unsigned count = 0;
    enum err err = disk_make_folder(base, "d", NULL);
    if (!err)
        err = disk_lock(base, "d/lock", &lock, NULL);
    if (!err)
        err = disk_open(base, "d/a", DISK_CREATE, &file, NULL);
    if (!err)
        err = disk_file_write(file, 0, "aaaa", 4, NULL);
    if (!err)
        err = disk_file_sync(file, NULL);
    if (!err)
        err = disk_rename(base, "d/a", "d/b", NULL);
    if (!err)
        err = disk_sync_folder(base, "d", NULL);
    if (!err)
        err = disk_file_read(file, 0, bytes, 4, &size, NULL);
    if (!err)
        err = disk_file_size(file, &file_size, NULL);
    if (!err)
        err = disk_remove(base, "d/lock", NULL);
    if (!err)
        err = disk_list(base, "d", count_names, &count, NULL);
    disk_file_close(file);
    disk_file_close(lock);
    return err;
}

TEST(each_call_can_be_made_to_fail)
{
    static const enum err expected[] = {
        ERR_FULL, ERR_FULL, ERR_FULL, ERR_FULL, ERR_IO, ERR_FULL,
        ERR_IO,   ERR_IO,   ERR_IO,   ERR_IO,   ERR_IO,
    };
    uint64_t calls = sizeof(expected) / sizeof(expected[0]);
    for (uint64_t call = 1; call <= calls + 1; call++) {
        struct sim_disk *disk = sim_disk_new(call);
        disk->faults.fail_at_call = call;
        disk->faults.fail_with = ERR_FULL;
        enum err err = run_all_calls(disk);
        assert_int_equal(err, call <= calls ? expected[call - 1] : ERR_OK);
        assert_int_equal(disk->counts.faults, call <= calls);
        assert_int_equal(disk->counts.calls, smaller(call, calls));
        sim_disk_free(disk);
    }
}

TEST(a_failed_write_has_written_a_part)
{
    bool seen[5] = {false};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = sim_disk_new(seed);
        struct disk_file *file = open_file(disk, "f", DISK_CREATE);
        disk->faults.fail_at_call = disk->counts.calls + 1;
        assert_int_equal(disk_file_write(file, 0, "aaaa", 4, NULL), ERR_IO);
        char bytes[8];
        seen[read_all(disk, "f", bytes, sizeof(bytes))] = true;
        sim_disk_free(disk);
    }
    for (int i = 0; i < 5; i++)
        assert_true(seen[i]);
}

TEST(a_full_disk_takes_what_fits_and_lets_old_bytes_be_written)
{
    struct sim_disk *disk = disk_with_file(1, 600);
    disk->faults.space_bytes = 1000;
    struct disk_file *file = open_file(disk, "g", DISK_CREATE);
    write_at(file, 0, 'b', 300);
    char bytes[512] = {0};
    assert_int_equal(disk_file_write(file, 200, bytes, 500, NULL), ERR_FULL);
    assert_int_equal(sim_disk_used_bytes(disk), 1000);
    assert_int_equal(disk_file_write(file, 400, bytes, 1, NULL), ERR_FULL);
    assert_int_equal(disk_file_write(file, 0, bytes, 400, NULL), ERR_OK);
    assert_int_equal(disk_file_sync(file, NULL), ERR_OK);
    assert_int_equal(disk->counts.faults, 2);

    disk_remove(&disk->base, "f", NULL);
    assert_int_equal(sim_disk_used_bytes(disk), 400);
    assert_int_equal(disk_file_write(file, 400, bytes, 500, NULL), ERR_OK);
    disk_file_close(file);
    sim_disk_free(disk);
}

TEST(once_the_power_is_off_every_call_fails_until_it_is_back)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = sim_disk_new(seed);
        uint64_t call = 1 + seed % 11;
        disk->faults.crash_at_call = call;
        assert_int_equal(run_all_calls(disk), ERR_IO);
        assert_int_equal(run_all_calls(disk), ERR_IO);
        assert_int_equal(disk->counts.calls, call);
        sim_disk_crash(disk, &(struct sim_rng){seed});
        assert_int_equal(disk->counts.crashes, 1);
        assert_int_equal(disk_make_folder(&disk->base, "d", NULL), ERR_OK);
        disk_remove(&disk->base, "d/a", NULL);
        assert_int_equal(run_all_calls(disk), ERR_OK);
        sim_disk_free(disk);
    }
}

TEST(the_power_goes_off_before_or_after_a_call_took_effect)
{
    unsigned after = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sim_disk *disk = disk_with_file(seed, 100);
        struct disk_file *file = open_file(disk, "f", DISK_WRITE);
        disk->faults.crash_at_call = disk->counts.calls + 1;
        assert_int_equal(disk_file_write(file, 100, "b", 1, NULL), ERR_IO);
        sim_disk_kill(disk); /* to see what the call did */
        char bytes[200];
        after += read_all(disk, "f", bytes, sizeof(bytes)) == 101;
        sim_disk_free(disk);
    }
    assert_in_range(after, SEEDS / 4, SEEDS * 3 / 4);
}

static void jump(void *arg)
{
    longjmp(*(jmp_buf *)arg, 1);
}

static void crash_by_jump(uint64_t seed)
{
    struct sim_disk *disk = sim_disk_new(seed);
    jmp_buf out;
    disk->faults.crash_at_call = 1 + seed % 11;
    disk->faults.crash = jump;
    disk->faults.crash_arg = &out;
    if (setjmp(out) == 0)
        fail_msg("came back with %d", run_all_calls(disk));
    sim_disk_crash(disk, &(struct sim_rng){seed});
    assert_int_equal(disk->counts.crashes, 1);
    sim_disk_free(disk);
}

TEST(a_crash_may_jump_out_of_any_call_and_leaves_nothing_behind)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        crash_by_jump(seed);
}

TEST(a_flipped_bit_is_read_and_survives)
{
    struct sim_disk *disk = disk_with_file(1, 100);
    assert_int_equal(sim_disk_flip(disk, "f", 42, 1), ERR_OK);
    assert_int_equal(sim_disk_flip(disk, "f", 100, 1), ERR_OUT_OF_RANGE);
    assert_int_equal(sim_disk_flip(disk, "g", 0, 1), ERR_NOT_FOUND);
    sim_disk_crash(disk, &(struct sim_rng){1});

    char bytes[100];
    read_all(disk, "f", bytes, sizeof(bytes));
    assert_int_equal(bytes[42], 'a' ^ 2);
    assert_true(is_all(bytes, 42, 'a') && is_all(bytes + 43, 57, 'a'));
    assert_int_equal(disk->counts.bits_flipped, 1);
    sim_disk_free(disk);
}

/* ---- one seed, one run ---- */

static uint64_t run_seed(uint64_t seed)
{
    struct sim_rng rng = {seed};
    struct sim_disk *disk = sim_disk_new(seed);
    disk->faults.sync_failure_permille = 100;
    for (int step = 0; step < 300; step++) {
        char path[2] = {(char)('a' + sim_rng_below(&rng, 5)), 0};
        struct disk_file *file;
        enum disk_open how = sim_rng_chance(&rng, 300) ? DISK_CREATE : DISK_WRITE;
        if (disk_open(&disk->base, path, how, &file, NULL) == ERR_OK) {
            write_at(file, sim_rng_below(&rng, 3000), (char)step, sim_rng_below(&rng, 2000));
            if (sim_rng_chance(&rng, 300))
                disk_file_sync(file, NULL);
            disk_file_close(file);
        }
        if (sim_rng_chance(&rng, 200))
            disk_sync_folder(&disk->base, ".", NULL);
        if (sim_rng_chance(&rng, 50))
            sim_disk_crash(disk, &rng);
    }
    uint64_t hash = sim_disk_hash(disk);
    sim_disk_free(disk);
    return hash;
}

TEST(one_seed_is_one_run)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_true(run_seed(seed) == run_seed(seed));
        assert_true(run_seed(seed) != run_seed(seed + 1));
    }
}

RUN(cmocka_unit_test(what_is_written_is_read_back),
    cmocka_unit_test(files_are_found_made_and_refused_as_on_a_real_disk),
    cmocka_unit_test(folders_are_made_with_those_above_and_list_their_files),
    cmocka_unit_test(a_lock_has_one_holder_until_it_is_closed_or_dies),
    cmocka_unit_test(random_operations_leave_what_a_naive_disk_would_hold),
    cmocka_unit_test(what_was_synced_survives_every_crash),
    cmocka_unit_test(a_name_is_lost_until_its_folder_is_synced),
    cmocka_unit_test(a_folder_keeps_the_first_few_of_its_changes),
    cmocka_unit_test(a_rename_that_is_lost_leaves_what_it_replaced),
    cmocka_unit_test(unsynced_sectors_come_back_all_none_some_or_torn),
    cmocka_unit_test(a_length_may_survive_without_its_bytes),
    cmocka_unit_test(a_crash_brings_back_no_byte_older_than_the_last_sync_nor_one_never_written),
    cmocka_unit_test(a_killed_process_loses_nothing),
    cmocka_unit_test(after_a_failed_sync_the_next_one_succeeds_over_the_loss),
    cmocka_unit_test(a_lost_sector_is_saved_once_it_is_written_again),
    cmocka_unit_test(each_call_can_be_made_to_fail),
    cmocka_unit_test(a_failed_write_has_written_a_part),
    cmocka_unit_test(a_full_disk_takes_what_fits_and_lets_old_bytes_be_written),
    cmocka_unit_test(once_the_power_is_off_every_call_fails_until_it_is_back),
    cmocka_unit_test(the_power_goes_off_before_or_after_a_call_took_effect),
    cmocka_unit_test(a_crash_may_jump_out_of_any_call_and_leaves_nothing_behind),
    cmocka_unit_test(a_flipped_bit_is_read_and_survives), cmocka_unit_test(one_seed_is_one_run))
