/* Flipped bits in the pages of a real file: whatever is read is right, or is said to be damaged.
 * And what other programs do to the file is no damage. */
#include "contract/store_rig.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/message.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite.h"

#define COUNTERS        1500 /* enough for pages above the leaves */
#define PAGE            4096
#define AT_RESERVED     20
#define AT_VERSION      63 /* its low byte */
#define KILLED          9
#define LOCK_BYTE       (17 * PAGE)
#define LOCK_BYTE_USUAL 0x40000000u

static struct rig *rig;

static enum err try_open(struct store **ret, struct error *error)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", rig->folder);
    struct sqlite_store_options options = {.path = path};
    return sqlite_store_open(&rig->env, &options, ret, error);
}

static struct store *open_store(struct env *env, const char *folder)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    struct sqlite_store_options options = {.path = path};
    struct store *store;
    struct error error;
    if (sqlite_store_open(env, &options, &store, &error))
        fail_msg("%s", error.text);
    return store;
}

static const char *path_of(const char *suffix)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/tally.db%s", rig->folder, suffix);
    return path;
}

static void id_of(int i, char *to, size_t size)
{
    snprintf(to, size, "counter-%05d", i * 7919 % COUNTERS);
}

static void fill(void)
{
    char ids[RIG_UNITS][32];
    for (int i = 0; i < COUNTERS;) {
        for (int n = 0; n < RIG_UNITS - 1 && i < COUNTERS; n++, i++) {
            id_of(i, ids[n], sizeof(ids[n]));
            rig_add(rig, ids[n], 100 + i);
        }
        rig_apply_ok(rig);
    }
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "v", "ann", "", "like");
    rig_apply_ok(rig);
}

static int set_up(void **state)
{
    (void)state;
    message_set_level(MESSAGE_ERROR + 1);
    rig = rig_new(open_store);
    fill();
    rig_reopen(rig); /* all of it is in the file now */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_free(rig);
    return 0;
}

/* SQLite leaves out the page with its locks, at 1 GiB. Here it is in the middle of a small file. */
static int set_up_lock_page(void **state)
{
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PENDING_BYTE, (unsigned)LOCK_BYTE);
    return set_up(state);
}

static int tear_down_lock_page(void **state)
{
    int code = tear_down(state);
    (void)sqlite3_test_control(SQLITE_TESTCTRL_PENDING_BYTE, LOCK_BYTE_USUAL);
    return code;
}

static void flip(off_t at, unsigned bit)
{
    unsigned char byte;
    int file = open(path_of(""), O_RDWR | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= (unsigned char)(1u << bit);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static unsigned char byte_at(off_t at)
{
    unsigned char byte;
    int file = open(path_of(""), O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    close(file);
    return byte;
}

static off_t file_size(void)
{
    struct stat facts;
    assert_int_equal(stat(path_of(""), &facts), 0);
    return facts.st_size;
}

static void run_plain(const char *sql)
{
    sqlite3 *handle;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path_of(""), &handle), SQLITE_OK);
    sqlite3_busy_timeout(handle, 5000);
    if (sqlite3_exec(handle, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    sqlite3_close(handle);
}

/* Is it right? False: it is said to be damaged. Anything else ends the test. */
static bool is_right(const char *id, const char *expected)
{
    const char *text = rig_load(rig, id);
    if (strcmp(text, expected) == 0)
        return true;
    if (!strstr(text, "DAMAGED"))
        fail_msg("%s ought to be %s or damaged", text, expected);
    return false;
}

static bool all_is_right(int step)
{
    bool right = is_right("v", "v like=2 slices=1 like:7 like*:0");
    for (int i = 0; i < COUNTERS; i += step) {
        char id[32];
        char expected[64];
        id_of(i, id, sizeof(id));
        snprintf(expected, sizeof(expected), "%s value=%d", id, 100 + i);
        right = is_right(id, expected) && right;
    }
    return right;
}

static void open_again(void)
{
    struct error error = {.text = ""};
    if (try_open(&rig->store, &error))
        fail_msg("%s", error.text);
    assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL), ERR_OK);
}

TEST(a_flipped_bit_anywhere_is_never_a_wrong_answer)
{
    off_t size = file_size();
    assert_true(size > 40 * PAGE);
    unsigned noticed = 0;
    unsigned flips = 0;
    rig_close(rig);
    for (off_t at = 0; at < size; at += at < PAGE ? 131 : PAGE / 2 + 61, flips++) {
        struct error error = {.text = ""};
        flip(at, (unsigned)at % 8);
        if (try_open(&rig->store, &error)) {
            noticed++;
            if (!strstr(error.text, "DAMAGED"))
                fail_msg("at %lld: %s", (long long)at, error.text);
        } else {
            assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL), ERR_OK);
            noticed += !all_is_right(37);
            rig_close(rig);
        }
        flip(at, (unsigned)at % 8);
    }
    assert_true(noticed > flips / 4); /* the others are in tables that nothing is loaded from */
    open_again();
    assert_true(all_is_right(1));
}

TEST(the_byte_that_says_that_there_are_sums_is_checked_too)
{
    rig_close(rig);
    for (unsigned bit = 0; bit < 8; bit++) {
        struct error error = {.text = ""};
        flip(20, bit);
        assert_int_equal(try_open(&rig->store, &error), ERR_UNAVAILABLE);
        if (!strstr(error.text, "page 1 at offset 0 is DAMAGED"))
            fail_msg("%s", error.text);
        flip(20, bit);
    }
    open_again();
}

/* The page of the index in which "counter-00000" is found. */
static off_t page_of_index(void)
{
    char *image = memory_take((size_t)file_size());
    FILE *file = fopen(path_of(""), "rb");
    off_t size = file_size();
    assert_int_equal(fread(image, 1, (size_t)size, file), size);
    fclose(file);
    for (off_t at = 0; at < size; at += PAGE) {
        if (image[at] == 10 && memmem(image + at, PAGE, "counter-00000", 13)) {
            free(image);
            return at;
        }
    }
    fail_msg("no such page");
    return 0;
}

TEST(a_store_with_a_damaged_page_is_out_of_order_until_it_is_put_right)
{
    struct error error;
    off_t at = page_of_index() + 2000;
    rig_close(rig);
    flip(at, 3);
    open_again();
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_false(is_right("counter-00000", "counter-00000 value=100"));
    /* It names the page and says what to do. */
    char page[96];
    snprintf(page, sizeof(page), "tally.db: page %lld at offset %lld is DAMAGED",
             (long long)(at / PAGE + 1), (long long)(at / PAGE * PAGE));
    for (int i = 0; i < 2; i++) {
        rig_add(rig, "other", 1);
        assert_int_equal(rig_apply(rig, &error), ERR_UNAVAILABLE);
        assert_non_null(strstr(error.text, page));
        assert_non_null(strstr(error.text, "move the file away"));
    }
    /* What stands on other pages is served. */
    assert_string_equal(rig_load(rig, "v"), "v like=2 slices=1 like:7 like*:0");
    flip(at, 3);
    rig_add(rig, "other", 1);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "counter-00000"), "counter-00000 value=100");
}

TEST(a_damaged_file_that_is_moved_away_is_made_anew)
{
    struct error error;
    off_t at = page_of_index() + 2000;
    rig_close(rig);
    flip(at, 3);
    open_again();
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_false(is_right("counter-00000", "counter-00000 value=100"));
    assert_int_equal(unlink(path_of("")), 0);
    (void)unlink(path_of("-wal"));
    (void)unlink(path_of("-shm"));
    assert_int_equal(store_mark(rig->store, &rig->mark, &error), ERR_UNAVAILABLE);
    assert_int_equal(store_mark(rig->store, &rig->mark, &error), ERR_OK);
    assert_int_equal(rig->mark.position.offset, 0);
    fill();
    assert_true(all_is_right(1));
}

TEST(a_quiet_moment_finds_what_nobody_reads)
{
    struct error error = {.text = ""};
    off_t at = page_of_index() + 2000;
    rig_close(rig);
    flip(at, 0);
    open_again();
    enum err err = ERR_OK;
    for (off_t pages = 0; !err && pages <= file_size() / PAGE; pages += 1024)
        err = store_rest(rig->store, &error);
    assert_int_equal(err, ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "DAMAGED"));
    assert_int_equal(store_mark(rig->store, &rig->mark, &error), ERR_UNAVAILABLE);
    flip(at, 0);
    assert_int_equal(store_mark(rig->store, &rig->mark, &error), ERR_OK);
}

static void assert_lock_page_is_empty(void)
{
    static const unsigned char none[PAGE];
    unsigned char page[PAGE];
    int file = open(path_of(""), O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(pread(file, page, PAGE, LOCK_BYTE), PAGE);
    close(file);
    assert_memory_equal(page, none, PAGE);
}

static void assert_all_pages_are_well(void)
{
    struct error error = {.text = ""};
    for (off_t pages = 0; pages <= file_size() / PAGE; pages += 1024)
        if (store_rest(rig->store, &error))
            fail_msg("%s", error.text);
}

TEST(the_page_that_sqlite_never_writes_is_no_damage)
{
    assert_true(file_size() > LOCK_BYTE + PAGE);
    assert_lock_page_is_empty();
    assert_all_pages_are_well();
    rig_close(rig);
    run_plain("VACUUM");
    open_again();
    assert_true(all_is_right(1));
    assert_lock_page_is_empty();
    assert_all_pages_are_well();
}

/* ---- other programs ---- */

TEST(a_plain_sqlite_reads_and_writes_while_the_store_is_open)
{
    run_plain("CREATE TABLE mine(x); CREATE INDEX by_value ON entries(value);"
              "UPDATE entries SET updated_ms=updated_ms+1; PRAGMA wal_checkpoint(TRUNCATE);");
    rig_add(rig, "other", 1);
    rig_apply_ok(rig);
    rig_reopen(rig);
    assert_true(all_is_right(1));
    run_plain("VACUUM");
    rig_reopen(rig);
    assert_true(all_is_right(1));
    for (int i = 0; i < 2; i++)
        assert_int_equal(store_rest(rig->store, NULL), ERR_OK);
}

TEST(vacuum_takes_over_what_was_written_while_nobody_watched)
{
    rig_close(rig);
    run_plain("CREATE INDEX by_value ON entries(value); VACUUM");
    open_again();
    assert_true(all_is_right(1));
    assert_int_equal(store_rest(rig->store, NULL), ERR_OK);
    off_t at = page_of_index() + 2000;
    rig_close(rig);
    flip(at, 1); /* and it has sums again */
    open_again();
    assert_false(all_is_right(1));
}

static void set_bytes(off_t at, const void *bytes, size_t size)
{
    int file = open(path_of(""), O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, bytes, size, at), size);
    close(file);
}

TEST(zeros_for_the_first_sum_do_not_bless_a_damaged_page)
{
    static const char none[8];
    struct error error = {.text = ""};
    off_t at = page_of_index();
    char expected[96];
    snprintf(expected, sizeof(expected), "page %lld at offset %lld is DAMAGED",
             (long long)(at / PAGE + 1), (long long)at);
    rig_close(rig);
    flip(at + 2000, 3);
    set_bytes(PAGE - 8, none, sizeof(none));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_open(&rig->store, &error), ERR_UNAVAILABLE);
        if (!strstr(error.text, expected))
            fail_msg("%s", error.text);
    }
    flip(at + 2000, 3);
    open_again();
    assert_true(all_is_right(1));
}

TEST(a_copy_that_vacuum_into_has_made_can_be_put_back)
{
    char sql[200];
    snprintf(sql, sizeof(sql), "VACUUM INTO '%s/copy.db'", rig->folder);
    run_plain(sql);
    rig_close(rig);
    char from[160];
    snprintf(from, sizeof(from), "%s/copy.db", rig->folder);
    assert_int_equal(rename(from, path_of("")), 0);
    open_again();
    assert_true(all_is_right(1));
    assert_int_equal(store_rest(rig->store, NULL), ERR_OK);
}

/* Runs each row of a query as SQL of its own. */
static void run_rows(sqlite3 *handle, const char *query)
{
    sqlite3_stmt *rows;
    assert_int_equal(sqlite3_prepare_v2(handle, query, -1, &rows, NULL), SQLITE_OK);
    while (sqlite3_step(rows) == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(rows, 0);
        if (sqlite3_exec(handle, sql, NULL, NULL, NULL) != SQLITE_OK)
            fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
    }
    sqlite3_finalize(rows);
}

/* As it was before there were sums. Reserved bytes never become fewer, so that all rows go into a
 * new file. */
static void take_sums_away(void)
{
    char copy[160];
    char sql[240];
    sqlite3 *handle;
    snprintf(copy, sizeof(copy), "%s/copy.db", rig->folder);
    snprintf(sql, sizeof(sql),
             "ATTACH '%s' AS old; PRAGMA application_id=%d; PRAGMA user_version=%d", path_of(""),
             SCHEMA_APPLICATION_ID, byte_at(AT_VERSION));
    assert_int_equal(sqlite3_open(copy, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    run_rows(handle, "SELECT sql FROM old.sqlite_master WHERE type='table'");
    run_rows(handle, "SELECT 'INSERT INTO main.'||name||' SELECT * FROM old.'||name "
                     "FROM old.sqlite_master WHERE type='table'");
    run_rows(handle, "SELECT sql FROM old.sqlite_master WHERE type<>'table' AND sql NOT NULL");
    sqlite3_close(handle);
    assert_int_equal(rename(copy, path_of("")), 0);
    assert_int_equal(byte_at(AT_RESERVED), 0);
}

TEST(a_file_without_sums_gets_them)
{
    rig_close(rig);
    take_sums_away();
    open_again();
    assert_true(all_is_right(1));
    rig_close(rig);
    off_t at = page_of_index() + 2000;
    flip(at, 1);
    open_again();
    assert_false(all_is_right(1));
}

/* The temporary files that SQLite opens, beside the store and elsewhere. */
static unsigned temporary_beside, temporary_elsewhere;

static int watched_open(const char *path, int flags, int mode)
{
    const char *temporary = strstr(path, "/etilqs_");
    size_t folder = strlen(rig->folder);
    if (temporary && path + folder == temporary && strncmp(path, rig->folder, folder) == 0)
        temporary_beside++;
    else if (temporary)
        temporary_elsewhere++;
    return open(path, flags, mode);
}

TEST(a_file_without_sums_is_not_copied_into_memory)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    struct error error = {.text = ""};
    rig_close(rig);
    take_sums_away();
    char path[160];
    snprintf(path, sizeof(path), "%s", path_of(""));
    struct sqlite_store_options options = {.path = path, .cache_bytes = 8 * PAGE};
    temporary_beside = temporary_elsewhere = 0;
    (void)vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)watched_open);
    enum err err = sqlite_store_open(&rig->env, &options, &rig->store, &error);
    (void)vfs->xSetSystemCall(vfs, "open", NULL);
    if (err)
        fail_msg("%s", error.text);
    assert_null(sqlite3_temp_directory);
    assert_int_equal(temporary_beside, 1);
    assert_int_equal(temporary_elsewhere, 0);
    assert_int_equal(store_reader_open(rig->store, &rig->reader, NULL), ERR_OK);
    assert_true(all_is_right(1));
    assert_all_pages_are_well();
}

/* The shell that looks at the file of a process that was killed carries the WAL over. */
static void be_killed_and_carried_over(void)
{
    rig_close(rig);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error;
        rig_open(rig);
        rig_add(rig, "counter-00000", 1);
        rig_add(rig, "other", 5);
        _exit(rig_apply(rig, &error) == ERR_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    run_plain("SELECT count(*) FROM entries");
}

static void assert_carried_over(void)
{
    assert_string_equal(rig_load(rig, "counter-00000"), "counter-00000 value=101");
    assert_string_equal(rig_load(rig, "other"), "other value=5");
    assert_all_pages_are_well();
}

TEST(another_program_may_carry_over_the_wal_of_a_process_that_was_killed)
{
    be_killed_and_carried_over();
    open_again();
    assert_carried_over();
}

/* In a child: the process ends before it writes this many sums more. */
static int sums_left;

static void count_sum(size_t size)
{
    if (size == 8 && sums_left-- == 0)
        _exit(KILLED);
}

static ssize_t counted_write(int file, const void *from, size_t size)
{
    count_sum(size);
    return write(file, from, size);
}

static ssize_t counted_pwrite(int file, const void *from, size_t size, off_t at)
{
    count_sum(size);
    return pwrite(file, from, size, at);
}

static void kill_at_sum(int sum)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sums_left = sum;
    (void)vfs->xSetSystemCall(vfs, "write", (sqlite3_syscall_ptr)counted_write);
    (void)vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)counted_pwrite);
    (void)vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)counted_pwrite);
}

/* A start that is killed before it has written the sum of that number. */
static void start_and_be_killed(int sum)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct error error;
        kill_at_sum(sum);
        _exit(try_open(&rig->store, &error) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), KILLED);
}

TEST(a_start_that_was_killed_while_it_took_pages_over_is_gone_on_with)
{
    static const int sums[] = {0, 1, 20};
    be_killed_and_carried_over();
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
        start_and_be_killed(sums[i]);
    open_again();
    assert_carried_over();
    /* And that is over now: what is damaged from now on is damage. */
    off_t at = page_of_index() + 2000;
    rig_close(rig);
    flip(at, 1);
    open_again();
    assert_false(all_is_right(1));
}

TEST(a_vacuumed_file_whose_start_was_killed_is_gone_on_with)
{
    rig_close(rig);
    run_plain("VACUUM");
    start_and_be_killed(0);
    start_and_be_killed(20);
    open_again();
    assert_true(all_is_right(1));
    assert_all_pages_are_well();
}

/* --- what --check says --- */

struct report {
    char text[65536];
    size_t size;
};

static void note_line(void *arg, const char *line)
{
    struct report *report = arg;
    report->size += (size_t)snprintf(report->text + report->size,
                                     sizeof(report->text) - report->size, "%s\n", line);
    assert_true(report->size < sizeof(report->text));
}

static enum err check(const char *path, struct report *report)
{
    struct error error = {.text = ""};
    struct state_mark mark;
    *report = (struct report){.size = 0};
    return sqlite_store_check(&rig->env, path, note_line, report, &mark, &error);
}

TEST(a_check_finds_a_flipped_bit_in_any_page)
{
    struct report report;
    rig_close(rig);
    assert_int_equal(check(path_of(""), &report), ERR_OK);
    off_t size = file_size();
    for (off_t at = 77; at < size; at += PAGE) {
        char place[64];
        snprintf(place, sizeof(place), "page %lld at offset %lld is DAMAGED",
                 (long long)(at / PAGE + 1), (long long)(at / PAGE * PAGE));
        flip(at, (unsigned)(at / PAGE) % 8);
        assert_int_not_equal(check(path_of(""), &report), ERR_OK);
        flip(at, (unsigned)(at / PAGE) % 8);
        if (!strstr(report.text, place))
            fail_msg("%s is not in %s", place, report.text);
    }
    assert_int_equal(check(path_of(""), &report), ERR_OK);
    open_again();
}

TEST(a_check_finds_a_row_that_was_changed_by_hand)
{
    struct report report;
    rig_close(rig);
    run_plain("UPDATE entries SET value = 5 WHERE id = 'counter-00007'; VACUUM");
    assert_int_equal(check(path_of(""), &report), ERR_CORRUPT);
    assert_non_null(strstr(report.text, "the row of \"counter-00007\" is not what was written"));
    assert_non_null(strstr(report.text, "another program has written to it"));
    open_again();
}

TEST(a_check_tells_nothing_and_a_foreign_database_from_a_store)
{
    struct report report;
    rig_close(rig);
    assert_int_equal(check(path_of(".missing"), &report), ERR_NOT_FOUND);
    assert_int_not_equal(access(path_of(".missing"), F_OK), 0);
    run_plain("PRAGMA application_id = 7; VACUUM");
    assert_int_equal(check(path_of(""), &report), ERR_INVALID);
    assert_non_null(strstr(report.text, "not one of Tally"));
    run_plain("PRAGMA application_id = 1413565529; VACUUM");
    open_again();
}

/* The power went while the WAL was carried over: the next start does it once more. */
TEST(a_page_that_the_wal_has_is_not_called_damaged)
{
    struct report report;
    char command[256];
    rig_add(rig, "counter-00007", 1);
    rig_apply_ok(rig);
    snprintf(command, sizeof(command), "mkdir %s/copy && cp %s/tally.db* %s/copy/", rig->folder,
             rig->folder, rig->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own names */
    rig_close(rig);
    snprintf(command, sizeof(command), "mv %s/copy/tally.db* %s/", rig->folder, rig->folder);
    assert_int_equal(system(command), 0); /* NOLINT: our own names */
    unsigned sound = 0;
    off_t size = file_size();
    for (off_t at = PAGE + 777; at < size; at += PAGE) {
        flip(at, 3);
        if (check(path_of(""), &report))
            assert_non_null(strstr(report.text, "is DAMAGED"));
        else
            sound++;
        flip(at, 3);
    }
    assert_true(sound >= 2); /* that of the row, and that of how far the store is */
    assert_true(sound < size / PAGE / 2);
    assert_int_equal(check(path_of(""), &report), ERR_OK);
    open_again();
    assert_string_equal(rig_load(rig, "counter-00007"), "counter-00007 value=1354");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

RUN(CASE(a_flipped_bit_anywhere_is_never_a_wrong_answer),
    CASE(the_byte_that_says_that_there_are_sums_is_checked_too),
    CASE(a_store_with_a_damaged_page_is_out_of_order_until_it_is_put_right),
    CASE(a_damaged_file_that_is_moved_away_is_made_anew),
    CASE(a_quiet_moment_finds_what_nobody_reads),
    cmocka_unit_test_setup_teardown(the_page_that_sqlite_never_writes_is_no_damage,
                                    set_up_lock_page, tear_down_lock_page),
    CASE(a_plain_sqlite_reads_and_writes_while_the_store_is_open),
    CASE(vacuum_takes_over_what_was_written_while_nobody_watched),
    CASE(zeros_for_the_first_sum_do_not_bless_a_damaged_page),
    CASE(a_copy_that_vacuum_into_has_made_can_be_put_back), CASE(a_file_without_sums_gets_them),
    CASE(a_file_without_sums_is_not_copied_into_memory),
    CASE(another_program_may_carry_over_the_wal_of_a_process_that_was_killed),
    CASE(a_start_that_was_killed_while_it_took_pages_over_is_gone_on_with),
    CASE(a_vacuumed_file_whose_start_was_killed_is_gone_on_with),
    CASE(a_check_finds_a_flipped_bit_in_any_page),
    CASE(a_check_finds_a_row_that_was_changed_by_hand),
    CASE(a_check_tells_nothing_and_a_foreign_database_from_a_store),
    CASE(a_page_that_the_wal_has_is_not_called_damaged))
