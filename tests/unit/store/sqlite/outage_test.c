/* What the SQLite store does when its file is locked, full, read-only, damaged, gone or not its
 * own, and when the process is killed. */
/* threads */
#include "contract/store_rig.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/message.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite.h"

/* ---- a VFS whose writes and syncs fail on demand ---- */

static int failure;      /* SQLITE_OK: writes work */
static int sync_failure; /* the same for syncs */
static int good_syncs;   /* so many are well before they fail */

/* SQLite has a table of methods for files that it locks, and one for those that it does not. */
static struct {
    const sqlite3_io_methods *real;
    sqlite3_io_methods ours;
} tables[4];

static const sqlite3_io_methods *real_methods(sqlite3_file *file)
{
    for (size_t i = 0; i < 4; i++) {
        if (&tables[i].ours == file->pMethods)
            return tables[i].real;
    }
    abort();
}

static int failing_write(sqlite3_file *file, const void *from, int amount, sqlite3_int64 offset)
{
    if (failure != SQLITE_OK)
        return failure;
    return real_methods(file)->xWrite(file, from, amount, offset);
}

static int failing_sync(sqlite3_file *file, int flags)
{
    if (sync_failure != SQLITE_OK && good_syncs-- <= 0)
        return sync_failure;
    return real_methods(file)->xSync(file, flags);
}

static int failing_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                        int *ret_flags)
{
    (void)vfs;
    sqlite3_vfs *real = sqlite3_vfs_find("unix");
    int code = real->xOpen(real, name, file, flags, ret_flags);
    if (!file->pMethods)
        return code;
    for (size_t i = 0; i < 4; i++) {
        if (tables[i].real && tables[i].real != file->pMethods)
            continue;
        if (!tables[i].real) {
            tables[i].real = file->pMethods;
            tables[i].ours = *file->pMethods;
            tables[i].ours.xWrite = failing_write;
            tables[i].ours.xSync = failing_sync;
        }
        file->pMethods = &tables[i].ours;
        return code;
    }
    abort();
}

static void register_failing(void)
{
    static sqlite3_vfs vfs;
    if (vfs.zName)
        return; /* SQLite has it in a list */
    vfs = *sqlite3_vfs_find("unix");
    vfs.zName = "failing";
    vfs.xOpen = failing_open;
    assert_int_equal(sqlite3_vfs_register(&vfs, 0), SQLITE_OK);
}

/* ---- openers ---- */

static enum err open_with(struct env *env, const char *folder, const char *vfs, bool exclusive,
                          struct store **ret, struct error *error)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    struct sqlite_store_options options = {.path = path, .vfs = vfs, .exclusive = exclusive};
    return sqlite_store_open(env, &options, ret, error);
}

static struct store *must_open(struct env *env, const char *folder, const char *vfs, bool exclusive)
{
    struct store *store;
    struct error error;
    if (open_with(env, folder, vfs, exclusive, &store, &error))
        fail_msg("%s", error.text);
    return store;
}

static struct store *open_plain(struct env *env, const char *folder)
{
    return must_open(env, folder, NULL, false);
}

static struct store *open_failing(struct env *env, const char *folder)
{
    register_failing();
    return must_open(env, folder, "failing", false);
}

static struct store *open_exclusive(struct env *env, const char *folder)
{
    return must_open(env, folder, NULL, true);
}

static struct rig *rig;

static int set_up(void **state)
{
    (void)state;
    rig = rig_new(open_plain);
    return 0;
}

static int set_up_failing(void **state)
{
    (void)state;
    failure = SQLITE_OK;
    sync_failure = SQLITE_OK;
    good_syncs = 0;
    rig = rig_new(open_failing);
    return 0;
}

static int set_up_exclusive(void **state)
{
    (void)state;
    rig = rig_new(open_exclusive);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    failure = SQLITE_OK;
    sync_failure = SQLITE_OK;
    rig_free(rig);
    return 0;
}

static const char *path_of(const char *suffix)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/tally.db%s", rig->folder, suffix);
    return path;
}

static void run_sql(const char *sql)
{
    sqlite3 *handle;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path_of(""), &handle), SQLITE_OK);
    if (sqlite3_exec(handle, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(handle);
}

/* Adds 1 to "c"; what came of it, with its text in *error. */
static enum err add_one(struct error *error)
{
    error->text[0] = 0;
    rig_add(rig, "c", 1);
    return rig_apply(rig, error);
}

/* An outage with a text that has `word` in it; afterwards nothing is lost and nothing twice. */
static void assert_outage(const char *word)
{
    struct error error;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(add_one(&error), ERR_UNAVAILABLE);
        if (!strstr(error.text, word))
            fail_msg("%s is not in: %s", word, error.text);
    }
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.down_since_ms, rig->now_ms);
}

static void assert_well_again(const char *value)
{
    struct error error;
    if (add_one(&error))
        fail_msg("%s", error.text);
    assert_string_equal(rig_load(rig, "c"), value);
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.down_since_ms, 0);
    assert_int_equal(stats.retrying + stats.pending + stats.failed, 0);
}

/* ---- the cases ---- */

TEST(locked_by_another_program_is_an_outage)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    sqlite3 *other;
    assert_int_equal(sqlite3_open(path_of(""), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_outage("locked by another program");
    /* Reading goes on. */
    assert_string_equal(rig_load(rig, "c"), "c value=1");
    sqlite3_close(other);
    assert_well_again("c value=2");
}

TEST(no_space_is_an_outage)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    failure = SQLITE_FULL;
    assert_outage("no space left");
    assert_string_equal(rig_load(rig, "c"), "c value=1");
    failure = SQLITE_OK;
    assert_well_again("c value=2");
}

TEST(a_read_only_file_is_an_outage)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    failure = SQLITE_READONLY;
    assert_outage("cannot be written");
    failure = SQLITE_OK;
    assert_well_again("c value=2");
}

TEST(an_error_of_the_disk_is_an_outage)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    failure = SQLITE_IOERR_WRITE;
    assert_outage("look at the disk");
    failure = SQLITE_OK;
    assert_well_again("c value=2");
}

TEST(a_failed_sync_is_an_outage_while_others_read)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    sync_failure = SQLITE_IOERR_FSYNC;
    assert_outage("look at the disk");
    /* It is there, though nobody knows whether it stays; the log has it, too. */
    assert_string_equal(rig_load(rig, "c"), "c value=2");
    sync_failure = SQLITE_OK;
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_well_again("c value=3");
}

/* Somebody reads what was before the second batch, so only the first one can be carried over; and
 * its sync fails. */
static void carry_a_part_over(void)
{
    struct error error;
    sqlite3 *other;
    rig_open(rig);
    if (add_one(&error) || sqlite3_open(path_of(""), &other) != SQLITE_OK ||
        sqlite3_exec(other, "BEGIN; SELECT * FROM progress", NULL, NULL, NULL) != SQLITE_OK ||
        add_one(&error))
        _exit(100);
    message_set_level(MESSAGE_ERROR + 1);
    sync_failure = SQLITE_IOERR_FSYNC;
    good_syncs = 1; /* the WAL's */
    (void)store_rest(rig->store, &error);
    _exit(101);
}

TEST(a_part_that_was_carried_over_and_not_synced_ends_the_process)
{
    rig_close(rig);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        carry_a_part_over();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
    rig_open(rig);
    assert_well_again("c value=3");
}

static void damage(const char *path, off_t from)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    struct stat facts;
    assert_int_equal(fstat(file, &facts), 0);
    for (off_t at = from; at < facts.st_size; at += 8)
        assert_int_equal(pwrite(file, "damaged!", 8, at), 8);
    close(file);
}

TEST(a_damaged_file_is_said_to_be_damaged)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    rig_close(rig); /* the WAL is carried over */
    damage(path_of(""), 0);
    struct store *store;
    assert_int_equal(open_with(&rig->env, rig->folder, NULL, false, &store, &error),
                     ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "DAMAGED"));
    assert_int_equal(unlink(path_of("")), 0);
    rig_open(rig);
}

TEST(damage_behind_the_first_page_is_noticed_by_who_reads_it)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    rig_reopen(rig);
    damage(path_of(""), 4096);
    const char *text = rig_load(rig, "c");
    assert_non_null(strstr(text, "DAMAGED"));
    assert_int_equal(add_one(&error), ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "DAMAGED"));
}

static void note_wrong(void *arg, const struct state_target *target)
{
    *(bool *)arg = target->is_wrong;
}

TEST(a_damaged_set_holds_up_nothing_and_stays_wrong_until_it_is_made_anew)
{
    bool is_wrong = false;
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "w", "7", "", "like");
    rig_apply_ok(rig);
    run_sql("UPDATE entries SET members=x'02010107deadbeef' WHERE id='v'");
    assert_int_equal(store_load(rig->reader, SLICE("v"), note_wrong, &is_wrong, NULL), ERR_OK);
    assert_true(is_wrong); /* whoever loads it has it made anew */
    rig_react(rig, "v", "8", "", "like");
    rig_react(rig, "w", "8", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "w"), "w like=2 slices=1 like:7,8");
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.retrying, 0);
    is_wrong = false;
    assert_int_equal(store_load(rig->reader, SLICE("v"), note_wrong, &is_wrong, NULL), ERR_OK);
    assert_true(is_wrong);
}

static void remove_files(void)
{
    assert_int_equal(unlink(path_of("")), 0);
    (void)unlink(path_of("-wal"));
    (void)unlink(path_of("-shm"));
}

TEST(a_file_that_is_removed_is_noticed_and_the_next_one_is_empty)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    remove_files();
    assert_int_equal(add_one(&error), ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "moved or removed"));
    /* The new file knows nothing: a batch that goes on from where the old one was does not fit. */
    assert_int_equal(add_one(&error), ERR_INVALID);
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_int_equal(rig->mark.position.offset, 0);
    assert_well_again("c value=1");
}

TEST(a_file_that_is_put_back_is_taken_up_again)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    rig_close(rig);
    char copy[200];
    snprintf(copy, sizeof(copy), "cp %s/tally.db %s/copy.db", rig->folder, rig->folder);
    assert_int_equal(system(copy), 0); /* NOLINT: our own words */
    rig_open(rig);
    assert_int_equal(add_one(&error), ERR_OK);
    char from[160];
    snprintf(from, sizeof(from), "%s/copy.db", rig->folder);
    (void)unlink(path_of("-wal"));
    assert_int_equal(rename(from, path_of("")), 0);
    assert_int_equal(store_mark(rig->store, &rig->mark, &error), ERR_UNAVAILABLE);
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_int_equal(rig->mark.position.offset, 100);
    assert_well_again("c value=2");
}

static void take_key(void *arg, const struct state_key *key)
{
    (void)arg;
    (void)key;
}

static void take_hash(void *arg, uint64_t stable_hash)
{
    (void)arg;
    (void)stable_hash;
}

/* Memory has let go of what the lost file had: until the new one has it, nobody can tell. */
TEST(a_file_that_is_behind_the_one_before_it_is_not_loaded_from)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    rig_react(rig, "v", "ann", "", "like");
    rig_apply_ok(rig);
    remove_files();
    assert_int_equal(store_mark(rig->store, &rig->mark, &error), ERR_UNAVAILABLE);
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_int_equal(rig->mark.position.offset, 0);

    uint32_t number;
    uint64_t cursor = 0;
    assert_int_equal(store_load(rig->reader, SLICE("c"), rig_print_target, rig, &error),
                     ERR_UNAVAILABLE);
    assert_int_equal(store_find_user(rig->reader, SLICE("ann"), &number, &error), ERR_UNAVAILABLE);
    assert_int_equal(store_find_key(rig->reader, 1, 2, take_key, NULL, &error), ERR_UNAVAILABLE);
    assert_int_equal(store_hashes(rig->reader, false, &cursor, 10, take_hash, NULL, &error),
                     ERR_UNAVAILABLE);
    assert_int_equal(add_one(&error), ERR_OK);
    assert_int_equal(store_load(rig->reader, SLICE("c"), rig_print_target, rig, &error),
                     ERR_UNAVAILABLE);
    rig_react(rig, "v", "ann", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=1");
    assert_int_equal(store_find_user(rig->reader, SLICE("ann"), &number, &error), ERR_OK);
}

TEST(tables_that_are_gone_are_an_outage)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    run_sql("ALTER TABLE count_events RENAME TO hidden");
    assert_int_equal(add_one(&error), ERR_UNAVAILABLE);
    run_sql("ALTER TABLE hidden RENAME TO count_events");
    assert_well_again("c value=2");
}

TEST(a_newer_schema_is_refused)
{
    rig_close(rig);
    run_sql("PRAGMA user_version=99; VACUUM");
    struct store *store;
    struct error error;
    assert_int_equal(open_with(&rig->env, rig->folder, NULL, false, &store, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "schema version 99"));
    char sql[64];
    snprintf(sql, sizeof(sql), "PRAGMA user_version=%d; VACUUM", schema_version());
    run_sql(sql);
    rig_open(rig);
}

TEST(a_database_of_others_is_left_alone)
{
    rig_close(rig);
    remove_files();
    run_sql("CREATE TABLE mine(x); INSERT INTO mine VALUES(1)");
    struct store *store;
    struct error error;
    assert_int_equal(open_with(&rig->env, rig->folder, NULL, false, &store, &error), ERR_INVALID);
    assert_non_null(strstr(error.text, "not one of Tally"));
    run_sql("UPDATE mine SET x=2");
    remove_files();
    rig_open(rig);
}

TEST(nobody_else_may_read_the_file)
{
    struct stat facts;
    assert_int_equal(stat(path_of(""), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(path_of("-wal"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
}

static void *watch_moments(void *arg)
{
    atomic_bool *stop = arg;
    struct store_reader *reader;
    uintptr_t wrong = store_reader_open(rig->store, &reader, NULL) != ERR_OK;
    while (!wrong && !atomic_load(stop)) {
        struct number value;
        int64_t members;
        struct state_mark mark;
        wrong |=
            store_inspect(reader, SLICE("c"), SLICE(""), &value, &members, &mark, NULL) != ERR_OK;
        wrong |= (uint64_t)value.small * 100 != mark.position.offset;
        wrong |= store_inspect(reader, SLICE("v"), SLICE("like"), &value, &members, &mark, NULL) !=
                 ERR_OK;
        wrong |= value.small != members || (uint64_t)members * 100 != mark.position.offset;
    }
    store_reader_close(reader);
    return (void *)wrong;
}

TEST(readers_see_one_moment_while_the_writer_goes_on)
{
    atomic_bool stop = false;
    pthread_t thread;
    for (unsigned i = 0; i < 300; i++) {
        char user[16];
        snprintf(user, sizeof(user), "%u", i);
        rig_add(rig, "c", 1);
        rig_react(rig, "v", user, "", "like");
        rig_apply_ok(rig);
        if (i == 0)
            assert_int_equal(pthread_create(&thread, NULL, watch_moments, &stop), 0);
    }
    atomic_store(&stop, true);
    void *wrong;
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
}

TEST(in_exclusive_mode_one_connection_serves_all)
{
    struct error error;
    assert_int_equal(add_one(&error), ERR_OK);
    assert_string_equal(rig_load(rig, "c"), "c value=1");
    assert_int_equal(access(path_of("-shm"), F_OK), -1);
    rig_reopen(rig);
    assert_well_again("c value=2");
}

TEST(many_named_users_are_found_before_and_after_they_are_merged_into_the_index)
{
    static char names[20000][16];
    for (unsigned round = 0; round < 5; round++) {
        rig_forget(rig);
        rig->next_number = 0;
        struct store_unit *unit = rig_unit(rig, "v", true);
        for (unsigned i = 0; i < 20000; i++) {
            snprintf(names[i], sizeof(names[i]), "u%u", round * 20000 + i);
            rig->reactions[0][i] = (struct store_reaction){
                .user = slice_of(names[i]),
                .named = true,
                .number = round * 20000 + i,
                .bucket = bucket_of(SLICE("v"), slice_of(names[i])),
                .after = SLICE("like"),
            };
        }
        unit->reaction_count = 20000;
        rig_apply_ok(rig);
        for (unsigned user = 0; user < (round + 1) * 20000; user += 997) {
            char name[16];
            snprintf(name, sizeof(name), "u%u", user);
            uint32_t number = 0;
            assert_int_equal(store_find_user(rig->reader, slice_of(name), &number, NULL), ERR_OK);
            assert_int_equal(number, user);
        }
    }
    rig_reopen(rig);
    uint32_t number = 0;
    assert_int_equal(store_find_user(rig->reader, SLICE("u77777"), &number, NULL), ERR_OK);
    assert_int_equal(number, 77777);
    assert_string_equal(rig_load(rig, "v"), "v like=100000 slices=64");
}

static void keep_value(void *arg, const struct state_key *key)
{
    *(int64_t *)arg = key->value.small;
}

static int64_t value_of_key(uint64_t key)
{
    int64_t value = -1;
    enum err err = store_find_key(rig->reader, key * UINT64_C(0x9e3779b97f4a7c15), key, keep_value,
                                  &value, NULL);
    assert_true(err == ERR_OK || err == ERR_NOT_FOUND);
    return value;
}

/* Keys from..from+count, whose answers are themselves times `by`. */
static void add_keys(uint64_t from, uint64_t count, int64_t by)
{
    static struct state_key keys[50000];
    for (uint64_t i = 0; i < count; i++)
        keys[i] = (struct state_key){
            .low = (from + i) * UINT64_C(0x9e3779b97f4a7c15),
            .high = from + i,
            .value = number_of((int64_t)(from + i) * by),
            .time_ms = rig->now_ms,
        };
    struct store_batch batch = rig_batch(rig);
    batch.keys = keys;
    batch.key_count = count;
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    rig->mark = batch.after;
}

TEST(many_keys_are_found_before_and_after_they_are_merged_into_the_index)
{
    for (uint64_t from = 1; from < 150000; from += 50000) {
        add_keys(from, 50000, 1);
        rig->now_ms += 1000;
    }
    /* One of them once more, after its time: the newest answer counts. */
    add_keys(100, 1, 7);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(value_of_key(1), 1);
        assert_int_equal(value_of_key(100), 700);
        assert_int_equal(value_of_key(77777), 77777);
        assert_int_equal(value_of_key(150000), 150000);
        assert_int_equal(value_of_key(150001), -1);
        rig_reopen(rig);
    }
    uint64_t removed;
    assert_int_equal(store_thin(rig->store, 0, 0, rig->now_ms - 2500, 100000, &removed, NULL),
                     ERR_OK);
    assert_int_equal(removed, 50000);
    assert_int_equal(value_of_key(1), -1);
    assert_int_equal(value_of_key(100), 700);
    assert_int_equal(value_of_key(77777), 77777);
}

/* ---- kill -9 ---- */

/* Applies batches until it is killed: each adds 1 to "c" and a like to "v". Writes a byte for each.
 */
static void apply_for_ever(int applied)
{
    rig_open(rig);
    for (;;) {
        char user[24];
        snprintf(user, sizeof(user), "%llu", (unsigned long long)rig->mark.position.offset / 100);
        rig_add(rig, "c", 1);
        rig_react(rig, "v", user, "", "like");
        rig_apply_ok(rig);
        (void)!write(applied, "+", 1);
    }
}

TEST(killed_at_any_time_the_store_is_as_its_mark_says)
{
    test_draw_lots();
    uint64_t last = 0;
    rig_close(rig);
    for (unsigned round = 0; round < 25; round++) {
        int applied[2];
        assert_int_equal(pipe2(applied, O_NONBLOCK), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            apply_for_ever(applied[1]);
            _exit(1);
        }
        if (round % 2 == 1) { /* else it may be killed while it opens */
            struct pollfd first = {.fd = applied[0], .events = POLLIN};
            assert_int_equal(poll(&first, 1, 60000), 1);
        }
        usleep((useconds_t)(rand() % 60000)); /* NOLINT: lots of a test */
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(applied[0]);
        close(applied[1]);

        rig_open(rig);
        uint64_t batches = rig->mark.position.offset / 100;
        assert_true(batches >= last);
        last = batches;
        struct store_stats stats;
        store_stats(rig->store, &stats);
        assert_int_equal(stats.history_rows, batches);
        assert_int_equal(stats.succeeded, batches * 2);
        if (batches > 0) {
            struct number value;
            int64_t members;
            struct state_mark mark;
            assert_int_equal(
                store_inspect(rig->reader, SLICE("c"), SLICE(""), &value, &members, &mark, NULL),
                ERR_OK);
            assert_int_equal(value.small, batches);
            assert_int_equal(store_inspect(rig->reader, SLICE("v"), SLICE("like"), &value, &members,
                                           &mark, NULL),
                             ERR_OK);
            assert_int_equal(value.small, batches);
            assert_int_equal(members, batches);
        }
        rig_close(rig);
    }
    assert_true(last > 0);
    rig_open(rig);
}

#define CASE(test)           cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define CASE_FAILING(test)   cmocka_unit_test_setup_teardown(test, set_up_failing, tear_down)
#define CASE_EXCLUSIVE(test) cmocka_unit_test_setup_teardown(test, set_up_exclusive, tear_down)

RUN(CASE(locked_by_another_program_is_an_outage), CASE_FAILING(no_space_is_an_outage),
    CASE_FAILING(a_read_only_file_is_an_outage), CASE_FAILING(an_error_of_the_disk_is_an_outage),
    CASE_FAILING(a_failed_sync_is_an_outage_while_others_read),
    CASE_FAILING(a_part_that_was_carried_over_and_not_synced_ends_the_process),
    CASE(a_damaged_file_is_said_to_be_damaged),
    CASE(damage_behind_the_first_page_is_noticed_by_who_reads_it),
    CASE(a_damaged_set_holds_up_nothing_and_stays_wrong_until_it_is_made_anew),
    CASE(a_file_that_is_removed_is_noticed_and_the_next_one_is_empty),
    CASE(a_file_that_is_put_back_is_taken_up_again), CASE(tables_that_are_gone_are_an_outage),
    CASE(a_file_that_is_behind_the_one_before_it_is_not_loaded_from),
    CASE(a_newer_schema_is_refused), CASE(a_database_of_others_is_left_alone),
    CASE(nobody_else_may_read_the_file), CASE(readers_see_one_moment_while_the_writer_goes_on),
    CASE_EXCLUSIVE(in_exclusive_mode_one_connection_serves_all),
    CASE(many_named_users_are_found_before_and_after_they_are_merged_into_the_index),
    CASE(many_keys_are_found_before_and_after_they_are_merged_into_the_index),
    CASE(killed_at_any_time_the_store_is_as_its_mark_says))
