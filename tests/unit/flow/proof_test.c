/* threads */
#include "flow/proof.h"

#include "unit/flow/pipe_rig.h"

#include <unistd.h>

#include "store/sqlite/sums.h"

static struct desk_task audit(struct pipe *pipe, bool repair)
{
    return pipe_task(pipe, pipe_start_audit(pipe, SLICE("*"), repair));
}

static void spoil(struct pipe *pipe, const char *id, uint8_t kind, int64_t by)
{
    struct number number = number_of(by);
    struct hot_inspection seen;
    assert_int_equal(hot_inspect(pipe->hot, slice_of(id), &seen), ERR_OK);
    assert_int_equal(hot_mend(pipe->hot, slice_of(id), &seen.record, kind, &number), ERR_OK);
}

static struct pipe *pipe_with_counts(unsigned users)
{
    struct pipe *pipe = pipe_new();
    for (unsigned i = 0; i < users; i++) {
        char user[16];
        snprintf(user, sizeof(user), "user%u", i);
        pipe_react(pipe, "video1", user, i % 3 == 0 ? 2 : 1);
    }
    pipe_add(pipe, "views", 100);
    pipe_settle(pipe);
    return pipe;
}

TEST(what_is_right_is_left_alone)
{
    struct pipe *pipe = pipe_with_counts(30);
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.state, DESK_DONE);
    assert_int_equal(task.done, 2);
    assert_int_equal(task.found, 0);
    struct pipeline_stats stats;
    pipeline_read(&pipe->service, &stats);
    assert_int_equal(stats.audited, 2);
    assert_int_equal(stats.drifts, 0);
    assert_int_equal(stats.repairs, 0);
    pipe_free(pipe);
}

TEST(a_wrong_hot_value_is_found_told_and_put_right_while_it_is_written)
{
    struct pipe *pipe = pipe_with_counts(30);
    spoil(pipe, "views", KIND_NONE, 5);
    assert_int_equal(pipe_value(pipe, "views"), 105);
    struct desk_task task = audit(pipe, false);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"hot\" is=105 ought=100");
    assert_int_equal(pipe_value(pipe, "views"), 105);

    pipe_add(pipe, "views", 10);
    task = audit(pipe, true);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"hot\" is=115 ought=110");
    assert_int_equal(pipe_value(pipe, "views"), 110);
    assert_int_equal(audit(pipe, true).found, 0);
    struct pipeline_stats stats;
    pipeline_read(&pipe->service, &stats);
    assert_int_equal(stats.drifts, 2);
    assert_int_equal(stats.repairs, 1);
    pipe_settle(pipe);
    pipe_reopen(pipe); /* the repair is an event that can be read, and changes no sum */
    assert_int_equal(pipe_value(pipe, "views"), 110);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_wrong_count_of_a_large_item_is_put_right)
{
    struct pipe *pipe = pipe_with_counts(6000);
    spoil(pipe, "video1", 1, -3);
    assert_int_equal(pipe_value(pipe, "video1/like"), 3997);
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"video1/like\" place=\"hot\" is=3997 ought=4000");
    assert_int_equal(pipe_value(pipe, "video1/like"), 4000);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_wrong_row_is_put_right_and_memory_stays_as_it_was)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET value = 7 WHERE id = 'views'");
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"store\" is=7 ought=100");
    assert_int_equal(audit(pipe, false).found, 0);
    assert_int_equal(pipe_value(pipe, "views"), 100);
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), 100);
    pipe_free(pipe);
}

static int64_t cold_value(struct pipe *pipe, const char *id)
{
    struct op op = {.kind = OP_GET, .id = slice_of(id)};
    pipe_run(pipe, &op);
    return op.code ? -1 : op.value.small;
}

/* Nobody has looked at it since it went out of memory. */
TEST(a_falsified_row_is_never_served_but_counted_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET value = 555 WHERE id = 'views'");
    pipe_sql(pipe, "UPDATE entries SET counts = '{\"like\":21,\"dislike\":10}' "
                   "WHERE id = 'video1'");
    pipe_reopen(pipe);
    int64_t views = -1;
    for (int i = 0; i < 3000 && views == -1; i++, usleep(10000))
        views = cold_value(pipe, "views");
    assert_int_equal(views, 100);
    int64_t likes = -1;
    for (int i = 0; i < 3000 && likes == -1; i++, usleep(10000))
        likes = cold_value(pipe, "video1/like");
    assert_int_equal(likes, 20);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

/* Every row has a sum. */
TEST(a_row_without_a_sum_is_not_believed)
{
    struct pipe *pipe = pipe_with_counts(3);
    pipe_sql(pipe, "UPDATE entries SET value = 555, sum = NULL WHERE id = 'views'");
    pipe_reopen(pipe);
    int64_t views = -1;
    for (int i = 0; i < 3000 && views == -1; i++, usleep(10000))
        views = cold_value(pipe, "views");
    assert_int_equal(views, 100);
    pipe_free(pipe);
}

/* Once more, by all of them, until it is answered. */
static void react_again(struct pipe *pipe, unsigned users)
{
    for (unsigned i = 0; i < users; i++) {
        char user[16];
        snprintf(user, sizeof(user), "user%u", i);
        struct op op = {.code = ERR_CORRUPT};
        for (int tries = 0; op.code && tries < 3000; tries++) {
            op = (struct op){.kind = OP_REACT,
                             .id = SLICE("video1"),
                             .user = slice_of(user),
                             .reaction = i % 3 == 0 ? 2 : 1};
            pipe_run(pipe, &op);
            if (op.code)
                usleep(10000);
        }
        assert_int_equal(op.code, ERR_OK);
        assert_false(op.changed);
    }
}

TEST(who_is_in_a_slice_that_somebody_removed_counts_once)
{
    struct pipe *pipe = pipe_with_counts(6000);
    pipe_sql(pipe, "DELETE FROM members WHERE place = (SELECT min(place) FROM members)");
    pipe_reopen(pipe);
    react_again(pipe, 500);
    assert_int_equal(pipe_value(pipe, "video1/like"), 4000);
    assert_int_equal(pipe_value(pipe, "video1/dislike"), 2000);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_slice_that_is_not_what_was_written_is_refused_until_it_is_made_anew)
{
    struct pipe *pipe = pipe_with_counts(6000);
    pipe_sql(pipe, "UPDATE members SET members = (SELECT members FROM members ORDER BY place "
                   "LIMIT 1 OFFSET 1) WHERE place = (SELECT min(place) FROM members)");
    pipe_reopen(pipe);
    assert_true(audit(pipe, true).found > 0);
    assert_int_equal(audit(pipe, true).found, 0);
    react_again(pipe, 500);
    assert_int_equal(pipe_value(pipe, "video1/like"), 4000);
    assert_int_equal(pipe_value(pipe, "video1/dislike"), 2000);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

/* What is added to one that was removed does not make it right. */
TEST(a_slice_that_somebody_removed_stays_wrong_until_it_is_made_anew)
{
    struct pipe *pipe = pipe_with_counts(6000);
    pipe_sql(pipe, "DELETE FROM members WHERE place = (SELECT min(place) FROM members)");
    for (unsigned i = 0; i < 500; i++) {
        char user[16];
        snprintf(user, sizeof(user), "new%u", i);
        pipe_react(pipe, "video1", user, 1);
    }
    pipe_settle(pipe);
    pipe_reopen(pipe);
    react_again(pipe, 500);
    assert_int_equal(pipe_value(pipe, "video1/like"), 4500);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_row_that_makes_no_sense_is_counted_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET value = 'abc' WHERE id = 'views'");
    pipe_sql(pipe, "UPDATE entries SET counts = '{abc' WHERE id = 'video1'");
    pipe_reopen(pipe);
    int64_t views = -1;
    for (int i = 0; i < 3000 && views == -1; i++, usleep(10000))
        views = cold_value(pipe, "views");
    assert_int_equal(views, 100);
    int64_t likes = -1;
    for (int i = 0; i < 3000 && likes == -1; i++, usleep(10000))
        likes = cold_value(pipe, "video1/like");
    assert_int_equal(likes, 20);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

/* The first number that the statement gives, as another program sees it. */
static int64_t store_number(struct pipe *pipe, const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(pipe->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static int64_t warm_value(struct pipe *pipe, const char *id)
{
    int64_t value = -1;
    for (int i = 0; i < 3000 && value == -1; i++, usleep(10000))
        value = cold_value(pipe, id);
    return value;
}

TEST(a_row_that_was_made_to_look_deleted_is_not_believed)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET type = 2");
    pipe_reopen(pipe);
    struct op op = {.kind = OP_ADD, .id = SLICE("views"), .amount = number_of(1)};
    for (int i = 0; i < 3000 && (i == 0 || op.code); i++, usleep(10000))
        pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(pipe_value(pipe, "views"), 101);
    assert_int_equal(warm_value(pipe, "video1/like"), 20);
    react_again(pipe, 30);
    pipe_settle(pipe);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

TEST(a_row_whose_type_was_changed_is_counted_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET type = 1 - type");
    pipe_reopen(pipe);
    assert_int_equal(warm_value(pipe, "views"), 100);
    assert_int_equal(warm_value(pipe, "video1/like"), 20);
    react_again(pipe, 30);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

/* Those that were really deleted are believed. */
TEST(an_item_that_was_deleted_begins_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    struct op op = {.kind = OP_DELETE, .id = SLICE("video1")};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
    pipe_settle(pipe);
    pipe_reopen(pipe);
    pipe_react(pipe, "video1", "user0", 1);
    assert_int_equal(pipe_value(pipe, "video1/like"), 1);
    pipe_settle(pipe);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

/* What is in memory goes on, and the store with it. */
TEST(what_is_added_to_a_row_that_was_made_to_look_deleted_does_not_make_it_right)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET type = 2");
    pipe_add(pipe, "views", 1);
    pipe_react(pipe, "video1", "somebody", 1);
    pipe_settle(pipe);
    pipe_reopen(pipe);
    assert_int_equal(warm_value(pipe, "views"), 101);
    assert_int_equal(warm_value(pipe, "video1/like"), 21);
    react_again(pipe, 30);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

/* The log goes on in the life that was in memory. */
TEST(what_is_added_to_a_row_of_another_life_does_not_make_it_right)
{
    for (int incarnation = 0; incarnation <= 1000000; incarnation += 1000000) {
        struct pipe *pipe = pipe_with_counts(3);
        struct op op = {.kind = OP_DELETE, .id = SLICE("views")};
        pipe_run(pipe, &op);
        pipe_add(pipe, "views", 100);
        pipe_settle(pipe);
        char sql[96];
        snprintf(sql, sizeof(sql), "UPDATE entries SET incarnation = %d WHERE id = 'views'",
                 incarnation);
        pipe_sql(pipe, sql);
        pipe_add(pipe, "views", 1);
        pipe_settle(pipe);
        pipe_reopen(pipe);
        assert_int_equal(warm_value(pipe, "views"), 101);
        pipe_add(pipe, "views", 1);
        pipe_settle(pipe);
        assert_int_equal(audit(pipe, true).found, 0);
        assert_int_equal(pipe_value(pipe, "views"), 102);
        pipe_free(pipe);
    }
}

TEST(a_row_that_speaks_of_another_life_is_told_and_gets_that_of_the_log)
{
    struct pipe *pipe = pipe_with_counts(3);
    pipe_sql(pipe, "UPDATE entries SET incarnation = 1000000");
    struct desk_task task = audit(pipe, false);
    assert_int_equal(task.state, DESK_DONE);
    assert_non_null(strstr(task.lines[0], "incarnation=1000000 ought="));
    assert_int_equal(store_number(pipe, "SELECT min(incarnation) FROM entries"), 1000000);
    task = audit(pipe, true);
    assert_int_equal(task.state, DESK_DONE);
    assert_int_equal(task.found, 2); /* a row once, however many kinds there are */
    assert_non_null(strstr(task.lines[0], "incarnation=1000000 ought="));
    assert_non_null(strstr(task.text, "2 put right"));
    assert_int_equal(store_number(pipe, "SELECT max(incarnation) FROM entries"), 0);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), 100);
    assert_int_equal(pipe_value(pipe, "video1/like"), 2);
    pipe_free(pipe);
}

/* Nothing was added to it since: only the log says which life it is of. */
TEST(a_cold_row_of_another_life_is_counted_anew_in_that_of_the_log)
{
    static const char *const changes[] = {
        "UPDATE entries SET incarnation = 1000000",
        "UPDATE entries SET incarnation = 0",
        "UPDATE entries SET incarnation = 1000000, value = 2 * value, counts = '{\"like\":9}'",
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct pipe *pipe = pipe_with_counts(3);
        struct op ops[] = {{.kind = OP_DELETE, .id = SLICE("views")},
                           {.kind = OP_DELETE, .id = SLICE("video1")}};
        pipe_run(pipe, &ops[0]);
        pipe_run(pipe, &ops[1]);
        pipe_add(pipe, "views", 100);
        pipe_react(pipe, "video1", "somebody", 1);
        pipe_settle(pipe);
        int64_t life = store_number(pipe, "SELECT incarnation FROM entries WHERE id = 'views'");
        assert_true(life > 0);
        pipe_sql(pipe, changes[i]);
        pipe_reopen(pipe);
        assert_int_equal(warm_value(pipe, "views"), 100);
        assert_int_equal(warm_value(pipe, "video1/like"), 1);
        pipe_add(pipe, "views", 1);
        pipe_settle(pipe);
        assert_int_equal(store_number(pipe, "SELECT incarnation FROM entries WHERE id = 'views'"),
                         life);
        assert_int_equal(audit(pipe, true).found, 0);
        assert_int_equal(pipe_value(pipe, "views"), 101);
        assert_int_equal(pipe_value(pipe, "video1/like"), 1);
        pipe_free(pipe);
    }
}

/* As many, and others. */
TEST(members_that_were_changed_for_others_are_made_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    for (unsigned i = 0; i < 30; i++) {
        char user[16];
        snprintf(user, sizeof(user), "other%u", i);
        pipe_react(pipe, "video2", user, i % 3 == 0 ? 2 : 1);
    }
    pipe_settle(pipe);
    pipe_sql(pipe, "UPDATE entries SET members = (SELECT members FROM entries "
                   "WHERE id = 'video2') WHERE id = 'video1'");
    pipe_reopen(pipe);
    assert_int_equal(warm_value(pipe, "video1/like"), 20);
    react_again(pipe, 30);
    assert_int_equal(pipe_value(pipe, "video1/like"), 20);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

/* Nothing waits for a row that makes no sense: it would be the reason why nobody puts it right. */
TEST(what_is_added_to_a_row_that_makes_no_sense_is_applied)
{
    static const char *const changes[] = {
        "UPDATE entries SET value = 'abc' WHERE id = 'views';"
        "UPDATE entries SET counts = '{abc' WHERE id = 'video1'",
        "UPDATE entries SET settings = '{abc'",
        "UPDATE entries SET members = x'ffffffff' WHERE id = 'video1'",
        "UPDATE entries SET slices = 64 WHERE id = 'video1'",
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct pipe *pipe = pipe_with_counts(30);
        pipe_sql(pipe, changes[i]);
        pipe_add(pipe, "views", 1);
        pipe_react(pipe, "video1", "somebody", 1);
        pipe_settle(pipe);
        assert_int_equal(store_number(pipe, "SELECT count(*) FROM waiting"), 0);
        pipe_reopen(pipe);
        assert_int_equal(warm_value(pipe, "views"), 101);
        assert_int_equal(warm_value(pipe, "video1/like"), 21);
        react_again(pipe, 30);
        assert_int_equal(audit(pipe, false).found, 0);
        pipe_free(pipe);
    }
}

TEST(what_is_added_to_a_slice_that_makes_no_sense_is_applied)
{
    struct pipe *pipe = pipe_with_counts(6000);
    pipe_sql(pipe, "UPDATE members SET members = x'ffffffff' WHERE place % 2 = 0");
    for (unsigned i = 0; i < 500; i++) {
        char user[16];
        snprintf(user, sizeof(user), "new%u", i);
        pipe_react(pipe, "video1", user, 1);
    }
    pipe_settle(pipe);
    assert_int_equal(store_number(pipe, "SELECT count(*) FROM waiting"), 0);
    pipe_reopen(pipe);
    react_again(pipe, 500);
    assert_int_equal(pipe_value(pipe, "video1/like"), 4500);
    (void)audit(pipe, true);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_large_item_whose_row_says_that_it_is_small_is_counted_anew)
{
    struct pipe *pipe = pipe_with_counts(6000);
    pipe_sql(pipe, "UPDATE entries SET slices = 1 WHERE id = 'video1'");
    pipe_react(pipe, "video1", "somebody", 1);
    pipe_settle(pipe);
    assert_int_equal(store_number(pipe, "SELECT count(*) FROM waiting"), 0);
    pipe_reopen(pipe);
    assert_int_equal(warm_value(pipe, "video1/like"), 4001);
    react_again(pipe, 500);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

/* The store takes no repair here. */
TEST(who_asks_for_a_falsified_row_hears_that_it_is_damaged)
{
    struct pipe *pipe = pipe_with_counts(3);
    pipe_sql(pipe, "UPDATE entries SET value = 555 WHERE id = 'views'");
    pipe_sql(pipe, "CREATE TRIGGER refuses BEFORE UPDATE ON entries WHEN NEW.id = 'views' "
                   "BEGIN SELECT RAISE(ABORT, 'no'); END");
    pipe_reopen(pipe);
    struct op op = {.kind = OP_GET, .id = SLICE("views")};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_CORRUPT);
    op = (struct op){.kind = OP_ADD, .id = SLICE("views"), .amount = number_of(1)};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_CORRUPT);
    pipe_free(pipe);
}

/* A sum that is wrong stays wrong, whatever is added to the row. */
TEST(what_is_added_to_a_falsified_row_does_not_make_it_right)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET value = 555 WHERE id = 'views'");
    pipe_add(pipe, "views", 1);
    pipe_settle(pipe);
    pipe_reopen(pipe);
    int64_t views = -1;
    for (int i = 0; i < 3000 && views == -1; i++, usleep(10000))
        views = cold_value(pipe, "views");
    assert_int_equal(views, 101);
    pipe_free(pipe);
}

#define STORED_VIEWS    "SELECT value FROM entries WHERE id = 'views'"
#define DRIFTS_OF_VIEWS "SELECT count(*) FROM audit_trail WHERE what = 'drift' AND id = 'views'"
#define WRONG_SUM       "UPDATE entries SET sum = sum + 1 WHERE id = 'views'"

TEST(what_waits_for_a_row_with_a_wrong_sum_is_counted_once)
{
    struct pipe *pipe = pipe_with_counts(3);
    pipe_sql(pipe, WRONG_SUM);
    /* Refuses units, and not who mends: those leave the time. */
    pipe_sql(pipe, "CREATE TRIGGER refuses BEFORE UPDATE ON entries WHEN NEW.id = 'views' AND "
                   "NEW.updated_ms <> OLD.updated_ms BEGIN SELECT RAISE(ABORT, 'no'); END");
    pipe_add(pipe, "views", 7);
    pipe_settle(pipe);
    assert_int_equal(store_number(pipe, "SELECT count(*) FROM lives WHERE status = 'RETRYING'"), 1);
    assert_int_equal(audit(pipe, true).found, 0);
    assert_int_equal(store_number(pipe, STORED_VIEWS), 100);

    pipe_sql(pipe, "DROP TRIGGER refuses");
    for (unsigned i = 0; i < 60000 && store_number(pipe, STORED_VIEWS) == 100; i++)
        pipe_nap();
    assert_int_equal(store_number(pipe, STORED_VIEWS), 107);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), 107); /* its sum is right again */
    pipe_free(pipe);
}

static void note_wrong(void *arg, const struct state_target *target)
{
    *(bool *)arg = target->is_wrong;
}

static void load_video1(struct desk_seat *seat, void *arg)
{
    struct store_reader *reader;
    assert_int_equal(seat_reader(seat, &reader, NULL), ERR_OK);
    assert_int_equal(store_load(reader, SLICE("video1"), note_wrong, arg, NULL), ERR_OK);
}

static bool video1_is_wrong(struct pipe *pipe)
{
    bool is_wrong = false;
    pipe_at_desk(pipe, load_video1, &is_wrong);
    return is_wrong;
}

TEST(a_row_has_a_sum_again_only_when_all_of_it_is_right)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET counts = '{\"like\":21,\"dislike\":12}' "
                   "WHERE id = 'video1'");
    pipe_sql(pipe, "CREATE TRIGGER refuses BEFORE UPDATE ON entries WHEN NEW.id = 'video1' AND "
                   "NEW.counts NOT LIKE '%:12%' BEGIN SELECT RAISE(ABORT, 'no'); END");
    assert_int_equal(audit(pipe, true).found, 2); /* one kind is mended, the other is refused */
    assert_true(video1_is_wrong(pipe));
    pipe_sql(pipe, "DROP TRIGGER refuses");
    assert_int_equal(audit(pipe, true).found, 1);
    assert_false(video1_is_wrong(pipe));
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

static int64_t repairs(struct pipe *pipe)
{
    pipe_settle(pipe); /* the events of repairs have been seen as well */
    return store_number(pipe, "SELECT count(*) FROM audit_trail WHERE what = 'repair'");
}

/* Nobody finds the row wrong between its value and its sum, and the trail speaks of one fault. */
TEST(a_fault_of_a_row_is_put_right_and_written_down_once)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET value = 7 WHERE id = 'views'");
    assert_int_equal(audit(pipe, true).found, 1);
    assert_int_equal(repairs(pipe), 1);

    pipe_sql(pipe, "UPDATE entries SET counts = '{\"like\":21,\"dislike\":11}' "
                   "WHERE id = 'video1'");
    assert_int_equal(audit(pipe, true).found, 2); /* two counts, of one row */
    assert_int_equal(repairs(pipe), 3);

    pipe_sql(pipe, WRONG_SUM);
    assert_int_equal(audit(pipe, true).found, 0);
    assert_int_equal(repairs(pipe), 4);
    assert_int_equal(audit(pipe, true).found, 0);
    assert_int_equal(repairs(pipe), 4);
    pipe_reopen(pipe);
    assert_int_equal(cold_value(pipe, "views"), 100); /* at once: the sums are right as well */
    assert_int_equal(cold_value(pipe, "video1/like"), 20);
    pipe_free(pipe);
}

struct listed {
    unsigned damaged;
    unsigned wrong; /* values that nobody ever wrote */
};

static void note_listed(void *arg, const struct desk_entry *entry)
{
    struct listed *listed = arg;
    listed->damaged += entry->is_damaged;
    if (slice_equal(entry->id, SLICE("views")))
        listed->wrong += entry->value && entry->value->small != 100;
    else
        listed->wrong += entry->counts && entry->counts[0] != 20;
}

static void list_all(struct desk_seat *seat, void *arg)
{
    uint64_t cursor = 0;
    do {
        struct age age = {0};
        assert_int_equal(desk_scan(seat, SLICE("*"), &cursor, 100, note_listed, arg, &age, NULL),
                         ERR_OK);
    } while (cursor != 0);
}

TEST(a_falsified_row_is_listed_without_a_value_until_it_is_counted_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_sql(pipe, "UPDATE entries SET value = 555 WHERE id = 'views'");
    pipe_sql(pipe, "UPDATE entries SET counts = '{\"like\":21,\"dislike\":10}' "
                   "WHERE id = 'video1'");
    pipe_reopen(pipe);
    struct listed listed = {.damaged = 0};
    pipe_at_desk(pipe, list_all, &listed);
    assert_int_equal(listed.damaged, 2);
    assert_int_equal(listed.wrong, 0);
    for (unsigned i = 0; i < 60000 && listed.damaged > 0; i++) {
        listed.damaged = 0;
        pipe_nap();
        pipe_at_desk(pipe, list_all, &listed);
        assert_int_equal(listed.wrong, 0);
    }
    assert_int_equal(listed.damaged, 0);
    pipe_free(pipe);
}

TEST(what_a_count_begins_with_is_not_believed_when_it_was_changed)
{
    struct pipe *pipe = pipe_with_counts(3);
    pipe_sql(pipe, "INSERT INTO bases VALUES('views', 0, 7, 1)");
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.state, DESK_DONE);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"bases\" is=damaged ought=unknown");
    assert_int_equal(pipe_value(pipe, "views"), 100);
    assert_int_equal(store_number(pipe, STORED_VIEWS), 100);
    assert_int_equal(repairs(pipe), 0);
    assert_int_equal(store_number(pipe, DRIFTS_OF_VIEWS), 1);
    struct pipeline_stats stats;
    pipeline_read(&pipe->service, &stats);
    assert_int_equal(stats.drifts, 1);
    pipe_free(pipe);
}

/* The store takes changes of neither, and both wait. */
static struct pipe *pipe_with_waiting(void)
{
    struct pipe *pipe = pipe_with_counts(3);
    pipe_sql(pipe, "CREATE TRIGGER refuses BEFORE UPDATE ON entries "
                   "BEGIN SELECT RAISE(ABORT, 'no'); END");
    pipe_add(pipe, "views", 7);
    pipe_react(pipe, "video1", "somebody", 1);
    pipe_react(pipe, "video1", "user0", 1);
    pipe_settle(pipe);
    assert_int_equal(store_number(pipe, "SELECT count(*) FROM waiting"), 2);
    return pipe;
}

static void expect_fault(struct pipe *pipe, const char *id, const char *fault)
{
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.state, DESK_DONE);
    assert_int_equal(task.found, 1);
    assert_non_null(strstr(task.lines[0], id));
    assert_non_null(strstr(task.lines[0], fault));
}

TEST(what_the_lists_say_of_a_unit_that_waits_is_compared_with_its_events)
{
    struct pipe *pipe = pipe_with_waiting();
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_sql(pipe, "DROP TRIGGER count_events_done; DROP TRIGGER count_events_move");
    pipe_sql(pipe, "UPDATE count_events SET delta = 5 WHERE delta = 7 AND state = 1");
    expect_fault(pipe, "id=\"views\"", "its delta is not that of its events");
    struct pipeline_stats stats;
    pipeline_read(&pipe->service, &stats);
    assert_int_equal(stats.drifts, 1);
    assert_int_equal(store_number(pipe, DRIFTS_OF_VIEWS), 1);
    pipe_sql(pipe, "UPDATE count_events SET delta = 7 WHERE delta = 5 AND state = 1");
    pipe_sql(pipe, "UPDATE count_events SET delta = '{\"like\":2}' "
                   "WHERE id = 'video1' AND state = 1");
    expect_fault(pipe, "id=\"video1\"", "its delta is not that of its events");
    pipe_sql(pipe, "UPDATE count_events SET delta = '{\"like\":2,\"dislike\":-1}' "
                   "WHERE id = 'video1' AND state = 1");
    assert_int_equal(audit(pipe, true).found, 0);
    /* It cannot be loaded then, either, and the others can. */
    pipe_sql(pipe, "UPDATE waiting SET raw = x'00' WHERE id = 'views'");
    pipe_add(pipe, "other", 5);
    pipe_settle(pipe);
    spoil(pipe, "other", KIND_NONE, 5);
    struct desk_task task = audit(pipe, false);
    assert_int_equal(task.state, DESK_DONE);
    assert_int_equal(task.found, 3);
    assert_non_null(strstr(task.lines[0], "id=\"views\" reason="));
    assert_non_null(strstr(task.lines[1], "id=\"other\" place=\"hot\" is=10 ought=5"));
    assert_non_null(strstr(task.lines[2], "its events cannot be read"));
    pipe_free(pipe);
}

TEST(what_was_discarded_before_a_deletion_counts_no_more)
{
    struct pipe *pipe = pipe_with_counts(3);
    char sql[160]; /* as a discarded letter does */
    snprintf(sql, sizeof(sql),
             "UPDATE entries SET value = 93 WHERE id = 'views';"
             "INSERT INTO bases VALUES('views', 0, 7, %lld)",
             (long long)sums_of_base(SLICE("views"), SLICE("0"), SLICE("7")));
    pipe_sql(pipe, sql);
    spoil(pipe, "views", KIND_NONE, -7);
    assert_int_equal(audit(pipe, false).found, 0);
    struct op op = {.kind = OP_DELETE, .id = SLICE("views")};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
    pipe_add(pipe, "views", 3);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_settle(pipe);
    assert_int_equal(audit(pipe, true).found, 0);
    assert_int_equal(pipe_value(pipe, "views"), 3);
    pipe_free(pipe);
}

TEST(a_row_that_is_missing_is_found_and_made_anew)
{
    struct pipe *pipe = pipe_with_counts(30);
    struct op_create create = {.shards = 1, .has_floor = true};
    struct op op = {.kind = OP_CREATE, .id = SLICE("low"), .create = &create};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
    pipe_add(pipe, "low", 4);
    pipe_settle(pipe);
    pipe_sql(pipe, "DELETE FROM entries");
    struct desk_task task = audit(pipe, false); /* all are in memory */
    assert_int_equal(task.found, 3);
    task = audit(pipe, true);
    assert_int_equal(task.found, 3);
    assert_int_equal(audit(pipe, true).found, 0);
    struct pipeline_stats stats;
    pipeline_read(&pipe->service, &stats);
    assert_int_equal(stats.drifts, 6);
    assert_int_equal(stats.repairs, 3);

    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), 100);
    assert_int_equal(pipe_value(pipe, "video1/like"), 20);
    pipe_react(pipe, "video1", "user1", KIND_NONE);
    assert_int_equal(pipe_value(pipe, "video1/like"), 19);
    op = (struct op){.kind = OP_ADD, .id = SLICE("low"), .amount = number_of(-5)};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_BELOW_FLOOR);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_row_that_is_missing_is_found_by_the_log_alone)
{
    struct pipe *pipe = pipe_with_counts(30);
    pipe_add(pipe, "gone", 1);
    struct op op = {.kind = OP_DELETE, .id = SLICE("gone")};
    pipe_run(pipe, &op);
    pipe_settle(pipe);
    pipe_sql(pipe, "DELETE FROM entries");
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), INT64_MIN); /* and memory remembers that */
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 2);
    assert_string_equal(task.lines[0], "id=\"video1\" place=\"store\" is=missing ought=there");
    assert_string_equal(task.lines[1], "id=\"views\" place=\"store\" is=missing ought=100");
    assert_int_equal(pipe_value(pipe, "views"), 100);
    assert_int_equal(pipe_value(pipe, "video1/like"), 20);
    assert_int_equal(pipe_value(pipe, "gone"), INT64_MIN);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

TEST(a_log_that_ends_in_an_empty_segment_is_read_to_its_end)
{
    struct pipe *pipe = pipe_with_counts(3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(log_rotate(pipe->log, NULL), ERR_OK);
        struct desk_task task = audit(pipe, true);
        assert_int_equal(task.state, DESK_DONE);
        assert_int_equal(task.found, 0);
        pipe_reopen(pipe);
    }
    pipe_free(pipe);
}

/* --- what happens between a look and the repair --- */

struct meanwhile {
    struct pipe *pipe;
    void (*happens)(struct pipe *pipe);
    unsigned looks;
    struct proof proof;
    uint64_t last; /* bytes */
};

/* Each reading of a log as short as this tells once or twice, of more and more bytes. */
static void read_on(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct meanwhile *meanwhile = arg;
    (void)bytes_all;
    meanwhile->looks += meanwhile->looks == 0 || bytes_done <= meanwhile->last;
    meanwhile->last = bytes_done;
    if (meanwhile->looks == 2 && meanwhile->happens) {
        void (*happens)(struct pipe * pipe) = meanwhile->happens;
        meanwhile->happens = NULL;
        happens(meanwhile->pipe);
    }
}

static void check_views(struct desk_seat *seat, void *arg)
{
    struct meanwhile *meanwhile = arg;
    meanwhile->proof =
        (struct proof){.seat = seat, .repair = true, .reading = read_on, .reading_arg = meanwhile};
    struct proof_ids ids;
    proof_ids_init(&ids);
    proof_ids_add(&ids, SLICE("views"));
    assert_int_equal(proof_check(&meanwhile->proof, &ids, NULL), ERR_OK);
    proof_ids_done(&ids);
}

static void check_views_while(struct pipe *pipe, void (*happens)(struct pipe *pipe))
{
    struct meanwhile meanwhile = {.pipe = pipe, .happens = happens};
    pipe_at_desk(pipe, check_views, &meanwhile);
    assert_null(meanwhile.happens);
    assert_int_equal(meanwhile.proof.drifts, 1);
    assert_int_equal(meanwhile.proof.repairs, 0);
}

static void make_views_anew(struct pipe *pipe)
{
    struct op op = {.kind = OP_DELETE, .id = SLICE("views")};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_OK);
    pipe_add(pipe, "views", 3);
    pipe_settle(pipe);
}

static void load_views_anew(struct pipe *pipe)
{
    assert_int_equal(hot_drop(pipe->hot, SLICE("views")), ERR_OK);
    assert_int_equal(pipe_value(pipe, "views"), 100);
}

TEST(what_was_deleted_or_loaded_since_it_was_looked_at_is_left_alone)
{
    struct pipe *pipe = pipe_with_counts(3);
    spoil(pipe, "views", KIND_NONE, 5);
    check_views_while(pipe, load_views_anew);
    assert_int_equal(pipe_value(pipe, "views"), 100);

    spoil(pipe, "views", KIND_NONE, 5);
    check_views_while(pipe, make_views_anew);
    assert_int_equal(pipe_value(pipe, "views"), 3);

    pipe_sql(pipe, "UPDATE entries SET value = 7 WHERE id = 'views'");
    check_views_while(pipe, make_views_anew);
    assert_int_equal(audit(pipe, false).found, 0);
    pipe_free(pipe);
}

struct writer {
    struct pipe *pipe;
    atomic_bool stop;
};

static void *write_on(void *arg)
{
    struct writer *writer = arg;
    for (unsigned i = 0; !atomic_load(&writer->stop); i++) {
        char user[16];
        snprintf(user, sizeof(user), "user%u", i % 200);
        pipe_react(writer->pipe, "video1", user, (uint8_t)(i % 3));
        pipe_add(writer->pipe, "views", (int64_t)(i % 11) - 5);
        if (i % 50 == 0) {
            struct op op = {.kind = OP_DELETE, .id = SLICE("fleeting")};
            pipe_run(writer->pipe, &op);
        }
        pipe_add(writer->pipe, "fleeting", 1);
        if (i % 10 == 0)
            pipe_nap(); /* nobody waits for the disk here: the log would only grow */
    }
    return NULL;
}

TEST(nothing_that_happens_meanwhile_looks_like_a_drift)
{
    struct pipe *pipe = pipe_with_counts(100);
    struct writer writer = {.pipe = pipe};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    for (unsigned i = 0; i < 20; i++) {
        struct desk_task task = audit(pipe, true);
        assert_int_equal(task.state, DESK_DONE);
        assert_int_equal(task.found, 0);
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_free(pipe);
}

RUN(cmocka_unit_test(what_is_right_is_left_alone),
    cmocka_unit_test(a_wrong_hot_value_is_found_told_and_put_right_while_it_is_written),
    cmocka_unit_test(a_wrong_count_of_a_large_item_is_put_right),
    cmocka_unit_test(a_falsified_row_is_never_served_but_counted_anew),
    cmocka_unit_test(a_row_without_a_sum_is_not_believed),
    cmocka_unit_test(who_is_in_a_slice_that_somebody_removed_counts_once),
    cmocka_unit_test(a_slice_that_is_not_what_was_written_is_refused_until_it_is_made_anew),
    cmocka_unit_test(a_slice_that_somebody_removed_stays_wrong_until_it_is_made_anew),
    cmocka_unit_test(a_row_that_makes_no_sense_is_counted_anew),
    cmocka_unit_test(a_row_that_was_made_to_look_deleted_is_not_believed),
    cmocka_unit_test(a_row_whose_type_was_changed_is_counted_anew),
    cmocka_unit_test(an_item_that_was_deleted_begins_anew),
    cmocka_unit_test(what_is_added_to_a_row_that_was_made_to_look_deleted_does_not_make_it_right),
    cmocka_unit_test(what_is_added_to_a_row_of_another_life_does_not_make_it_right),
    cmocka_unit_test(a_row_that_speaks_of_another_life_is_told_and_gets_that_of_the_log),
    cmocka_unit_test(a_cold_row_of_another_life_is_counted_anew_in_that_of_the_log),
    cmocka_unit_test(members_that_were_changed_for_others_are_made_anew),
    cmocka_unit_test(what_is_added_to_a_row_that_makes_no_sense_is_applied),
    cmocka_unit_test(what_is_added_to_a_slice_that_makes_no_sense_is_applied),
    cmocka_unit_test(a_large_item_whose_row_says_that_it_is_small_is_counted_anew),
    cmocka_unit_test(who_asks_for_a_falsified_row_hears_that_it_is_damaged),
    cmocka_unit_test(what_is_added_to_a_falsified_row_does_not_make_it_right),
    cmocka_unit_test(a_wrong_row_is_put_right_and_memory_stays_as_it_was),
    cmocka_unit_test(what_waits_for_a_row_with_a_wrong_sum_is_counted_once),
    cmocka_unit_test(a_row_has_a_sum_again_only_when_all_of_it_is_right),
    cmocka_unit_test(a_fault_of_a_row_is_put_right_and_written_down_once),
    cmocka_unit_test(a_falsified_row_is_listed_without_a_value_until_it_is_counted_anew),
    cmocka_unit_test(what_a_count_begins_with_is_not_believed_when_it_was_changed),
    cmocka_unit_test(what_the_lists_say_of_a_unit_that_waits_is_compared_with_its_events),
    cmocka_unit_test(what_was_discarded_before_a_deletion_counts_no_more),
    cmocka_unit_test(what_was_deleted_or_loaded_since_it_was_looked_at_is_left_alone),
    cmocka_unit_test(a_row_that_is_missing_is_found_and_made_anew),
    cmocka_unit_test(a_row_that_is_missing_is_found_by_the_log_alone),
    cmocka_unit_test(a_log_that_ends_in_an_empty_segment_is_read_to_its_end),
    cmocka_unit_test(nothing_that_happens_meanwhile_looks_like_a_drift))
