/* threads */
#include "flow/aggregator.h"

#include <sqlite3.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"
#include "unit/flow/rig.h"

/* The rig, with a store beside the log. */
struct bench {
    struct rig *rig;
    struct store *store;
    struct aggregator *aggregator;
    struct aggregator_options options;
    char path[96];
};

static void open_store(struct bench *bench)
{
    struct error error = {.text = ""};
    struct sqlite_store_options options = {.path = bench->path};
    if (sqlite_store_open(&bench->rig->env, &options, &bench->store, &error))
        fail_msg("%s", error.text);
    bench->options.store = bench->store;
    struct state_mark mark;
    if (store_mark(bench->store, &mark, &error))
        fail_msg("%s", error.text);
    bench->aggregator = aggregator_new(&bench->options, &mark);
}

static void close_store(struct bench *bench)
{
    aggregator_free(bench->aggregator);
    store_close(bench->store);
}

static struct bench *bench_new(void)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    bench->rig = rig_new();
    rig_recover(bench->rig);
    snprintf(bench->path, sizeof(bench->path), "%s/tally.db", bench->rig->folder);
    bench->options = (struct aggregator_options){
        .env = &bench->rig->env,
        .log = bench->rig->log,
        .kinds = &bench->rig->kinds,
        .flush_interval_ms = 1000,
        .flush_events = 2000,
    };
    open_store(bench);
    return bench;
}

static void bench_free(struct bench *bench)
{
    close_store(bench);
    rig_free(bench->rig);
    free(bench);
}

static void pass(struct bench *bench, uint64_t ms)
{
    bench->rig->monotonic_ns += ms * 1000000;
    bench->rig->now_ms += (int64_t)ms;
}

static void add(struct bench *bench, const char *id, int64_t amount)
{
    struct op op = {.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
    rig_run(bench->rig, &op);
    assert_int_equal(op.code, ERR_OK);
}

static void react(struct bench *bench, const char *item, const char *user, uint8_t kind)
{
    struct op op = {
        .kind = OP_REACT, .id = slice_of(item), .user = slice_of(user), .reaction = kind};
    rig_run(bench->rig, &op);
    assert_int_equal(op.code, ERR_OK);
}

/* Another process that looks into the file. */
static void sql(struct bench *bench, const char *text, char *to, size_t size)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(bench->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    to[0] = '\0';
    if (sqlite3_step(statement) == SQLITE_ROW)
        snprintf(to, size, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static int64_t number(struct bench *bench, const char *text)
{
    char value[64];
    sql(bench, text, value, sizeof(value));
    return value[0] ? strtoll(value, NULL, 10) : -1;
}

static void execute(struct bench *bench, const char *text)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(bench->path, &db), SQLITE_OK);
    char *why = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &why))
        fail_msg("%s", why);
    sqlite3_close(db);
}

static struct pipeline_stats stats_of(struct bench *bench)
{
    struct pipeline_stats stats = {0};
    aggregator_stats(bench->aggregator, &stats);
    return stats;
}

#define VALUE_OF(id) "SELECT value FROM counters WHERE id = '" id "'"

TEST(a_batch_waits_for_its_interval)
{
    struct bench *bench = bench_new();
    add(bench, "views", 5);
    add(bench, "views", 7);
    rig_commit(bench->rig);
    assert_true(aggregator_step(bench->aggregator) > 0);
    assert_int_equal(number(bench, VALUE_OF("views")), -1);
    assert_int_equal(stats_of(bench).lag_events, 2);
    bench->rig->now_ms += 700;
    assert_int_equal(stats_of(bench).lag_ms, 700);
    pass(bench, 1001);
    assert_int_equal(aggregator_step(bench->aggregator), 0);
    assert_int_equal(number(bench, VALUE_OF("views")), 12);
    assert_int_equal(stats_of(bench).lag_events, 0);
    assert_int_equal(stats_of(bench).batches, 1);
    assert_int_equal(number(bench, "SELECT count(*) FROM lives WHERE status = 'SUCCESS'"), 1);
    bench_free(bench);
}

TEST(so_many_events_do_not_wait)
{
    struct bench *bench = bench_new();
    for (unsigned i = 0; i < 2000; i++)
        add(bench, "views", 1);
    rig_commit(bench->rig);
    assert_int_equal(aggregator_step(bench->aggregator), 0);
    assert_int_equal(number(bench, VALUE_OF("views")), 2000);
    bench_free(bench);
}

TEST(a_batch_is_bounded_and_the_rest_follows_at_once)
{
    struct bench *bench = bench_new();
    aggregator_free(bench->aggregator);
    bench->options.batch_events_max = 100;
    bench->aggregator = aggregator_new(&bench->options, &(struct state_mark){0});
    for (unsigned i = 0; i < 1000; i++) {
        add(bench, "views", 1);
        rig_commit(bench->rig);
    }
    assert_true(aggregator_flush(bench->aggregator));
    assert_int_equal(number(bench, VALUE_OF("views")), 1000);
    bench_free(bench);
}

TEST(every_event_is_applied_once_whatever_is_opened_anew)
{
    struct bench *bench = bench_new();
    int64_t sum = 0;
    for (int round = 0; round < 20; round++) {
        add(bench, "views", round);
        sum += round;
        char user[16];
        snprintf(user, sizeof(user), "user%d", round);
        react(bench, "video1", user, 1);
        rig_commit(bench->rig);
        if (round % 3 == 0)
            assert_true(aggregator_flush(bench->aggregator));
        close_store(bench);
        open_store(bench);
    }
    assert_true(aggregator_flush(bench->aggregator));
    assert_int_equal(number(bench, VALUE_OF("views")), sum);
    struct store_reader *reader;
    struct error error;
    assert_int_equal(store_reader_open(bench->store, &reader, &error), ERR_OK);
    struct number value;
    int64_t members;
    struct state_mark mark;
    assert_int_equal(
        store_inspect(reader, SLICE("video1"), SLICE("like"), &value, &members, &mark, &error),
        ERR_OK);
    assert_int_equal(value.small, 20);
    assert_int_equal(members, 20);
    store_reader_close(reader);
    bench_free(bench);
}

TEST(an_outage_pauses_and_fails_nothing)
{
    struct bench *bench = bench_new();
    add(bench, "views", 5);
    rig_commit(bench->rig);
    sqlite3 *other;
    assert_int_equal(sqlite3_open(bench->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_false(aggregator_flush(bench->aggregator));
    assert_true(stats_of(bench).paused);
    assert_int_equal(stats_of(bench).outages, 1);
    assert_true(stats_of(bench).reason[0]);
    for (unsigned i = 0; i < 4; i++) {
        pass(bench, 20000);
        (void)aggregator_step(bench->aggregator);
        assert_true(stats_of(bench).paused);
    }
    assert_int_equal(stats_of(bench).outages, 1);
    add(bench, "views", 7);
    rig_commit(bench->rig);
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);

    (void)aggregator_step(bench->aggregator);
    assert_true(stats_of(bench).paused); /* until its time has come */
    pass(bench, 16001);
    assert_true(aggregator_flush(bench->aggregator));
    assert_false(stats_of(bench).paused);
    assert_int_equal(number(bench, VALUE_OF("views")), 12);
    assert_int_equal(number(bench, "SELECT count(*) FROM lives WHERE status <> 'SUCCESS'"), 0);
    bench_free(bench);
}

TEST(what_is_refused_is_tried_again_and_the_others_go_through)
{
    struct bench *bench = bench_new();
    execute(bench, "CREATE TRIGGER poison BEFORE INSERT ON entries WHEN new.id = 'bad' "
                   "BEGIN SELECT RAISE(ABORT, 'no'); END");
    add(bench, "good", 1);
    add(bench, "bad", 2);
    add(bench, "fine", 3);
    rig_commit(bench->rig);
    assert_true(aggregator_flush(bench->aggregator));
    assert_int_equal(number(bench, VALUE_OF("good")), 1);
    assert_int_equal(number(bench, VALUE_OF("fine")), 3);
    assert_int_equal(number(bench, VALUE_OF("bad")), -1);
    assert_int_equal(stats_of(bench).refused, 1);
    assert_int_equal(number(bench, "SELECT count(*) FROM lives WHERE status = 'RETRYING'"), 1);

    add(bench, "bad", 20); /* waits behind */
    rig_commit(bench->rig);
    assert_true(aggregator_flush(bench->aggregator));
    assert_int_equal(number(bench, "SELECT count(*) FROM lives WHERE status = 'PENDING'"), 1);

    execute(bench, "DROP TRIGGER poison");
    for (unsigned i = 0; i < 10; i++) {
        pass(bench, 1001);
        (void)aggregator_step(bench->aggregator);
    }
    assert_int_equal(number(bench, VALUE_OF("bad")), 22);
    assert_int_equal(number(bench, "SELECT count(*) FROM lives WHERE status <> 'SUCCESS'"), 0);
    bench_free(bench);
}

TEST(what_is_refused_for_ever_becomes_a_dead_letter_that_can_be_redriven)
{
    struct bench *bench = bench_new();
    execute(bench, "CREATE TRIGGER poison BEFORE INSERT ON entries WHEN new.id = 'bad' "
                   "BEGIN SELECT RAISE(ABORT, 'no'); END");
    add(bench, "bad", 2);
    rig_commit(bench->rig);
    assert_true(aggregator_flush(bench->aggregator));
    for (unsigned i = 0; i < 40; i++) {
        pass(bench, 1000);
        (void)aggregator_step(bench->aggregator);
    }
    assert_int_equal(stats_of(bench).failed, 1);
    assert_int_equal(number(bench, "SELECT count(*) FROM lives WHERE status = 'FAILED'"), 1);

    execute(bench, "DROP TRIGGER poison");
    uint64_t count = 0;
    struct error error;
    assert_int_equal(store_redrive(bench->store, NULL, bench->rig->now_ms, &count, &error), ERR_OK);
    assert_int_equal(count, 1);
    for (unsigned i = 0; i < 4; i++) {
        pass(bench, 1000);
        (void)aggregator_step(bench->aggregator);
    }
    assert_int_equal(number(bench, VALUE_OF("bad")), 2);
    bench_free(bench);
}

TEST(bytes_that_make_no_sense_are_dead_letters_and_the_log_goes_on)
{
    struct bench *bench = bench_new();
    add(bench, "views", 1);
    rig_commit(bench->rig);
    log_append(bench->rig->log, SLICE("\x01\x02"), SLICE("\x01\x01\x0f"));
    rig_commit(bench->rig);
    add(bench, "views", 2);
    rig_commit(bench->rig);
    assert_true(aggregator_flush(bench->aggregator));
    assert_int_equal(number(bench, VALUE_OF("views")), 3);
    assert_int_equal(stats_of(bench).failed, 1);
    bench_free(bench);
}

TEST(the_oldest_of_the_log_is_trimmed_and_its_sums_are_recorded)
{
    struct bench *bench = bench_new();
    aggregator_free(bench->aggregator);
    bench->options.log_keep_ms = 1000;
    bench->aggregator = aggregator_new(&bench->options, &(struct state_mark){0});
    struct error error = {.text = ""};
    for (int i = 1; i <= 3; i++) {
        add(bench, "views", i);
        react(bench, "video1", i == 1 ? "ann" : i == 2 ? "bob" : "cid", 1);
        rig_commit(bench->rig);
        assert_int_equal(log_rotate(bench->rig->log, &error), ERR_OK);
    }
    struct log_segment segments[8];
    size_t before = log_segments(bench->rig->log, segments, 8);
    assert_true(aggregator_flush(bench->aggregator));
    pass(bench, 60000);
    for (unsigned i = 0; i < 10; i++) {
        pass(bench, 6000);
        (void)aggregator_step(bench->aggregator);
    }
    assert_true(log_segments(bench->rig->log, segments, 8) < before);
    assert_true(stats_of(bench).trimmed_bytes > 0);

    struct store_reader *reader;
    assert_int_equal(store_reader_open(bench->store, &reader, &error), ERR_OK);
    struct number sum;
    struct number discarded;
    struct log_position position;
    assert_int_equal(store_base(reader, SLICE("views"), &sum, &discarded, &position, &error),
                     ERR_OK);
    assert_int_equal(sum.small, 1 + 2); /* where the store is stays */
    assert_int_equal(position.segment, segments[0].number);
    assert_int_equal(store_base(reader, SLICE("video1/like"), &sum, &discarded, &position, &error),
                     ERR_OK);
    assert_int_equal(sum.small, 2);
    store_reader_close(reader);

    /* A store that is lost now cannot be made anew from the rest. */
    char other[112];
    for (const char **end = (const char *[]){"", "-wal", "-shm", NULL}; *end; end++) {
        snprintf(other, sizeof(other), "%s%s", bench->path, *end);
        (void)unlink(other);
    }
    add(bench, "views", 4);
    rig_commit(bench->rig);
    for (unsigned i = 0; i < 10; i++) {
        pass(bench, 20000);
        (void)aggregator_step(bench->aggregator);
    }
    assert_true(stats_of(bench).paused);
    assert_non_null(strstr(stats_of(bench).reason, "the log begins with segment"));
    assert_int_equal(number(bench, VALUE_OF("views")), -1);
    bench_free(bench);
}

static void ask(void *arg, struct store *store)
{
    struct state_mark mark;
    *(bool *)arg = store_mark(store, &mark, NULL) == ERR_OK;
}

TEST(a_thread_of_its_own_flushes_and_is_asked_and_stops_with_all_applied)
{
    struct bench *bench = bench_new();
    bench->rig->env.monotonic_ns = env_system()->monotonic_ns;
    struct error error = {.text = ""};
    assert_int_equal(aggregator_start(bench->aggregator, &error), ERR_OK);
    bool answered = false;
    aggregator_ask(bench->aggregator, ask, &answered);
    assert_true(answered);
    for (unsigned i = 0; i < 5000; i++)
        add(bench, "views", 1);
    rig_commit(bench->rig);
    aggregator_stop(bench->aggregator, 10000);
    assert_int_equal(number(bench, VALUE_OF("views")), 5000);
    bench_free(bench);
}

RUN(cmocka_unit_test(a_batch_waits_for_its_interval), cmocka_unit_test(so_many_events_do_not_wait),
    cmocka_unit_test(a_batch_is_bounded_and_the_rest_follows_at_once),
    cmocka_unit_test(every_event_is_applied_once_whatever_is_opened_anew),
    cmocka_unit_test(an_outage_pauses_and_fails_nothing),
    cmocka_unit_test(what_is_refused_is_tried_again_and_the_others_go_through),
    cmocka_unit_test(what_is_refused_for_ever_becomes_a_dead_letter_that_can_be_redriven),
    cmocka_unit_test(bytes_that_make_no_sense_are_dead_letters_and_the_log_goes_on),
    cmocka_unit_test(the_oldest_of_the_log_is_trimmed_and_its_sums_are_recorded),
    cmocka_unit_test(a_thread_of_its_own_flushes_and_is_asked_and_stops_with_all_applied))
