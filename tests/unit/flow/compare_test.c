/* compare_test.c - proof without the log's beginning: the pipeline of one process, told that its
 * log is one of many lanes, which it cannot read again. */
/* threads */
#include "flow/compare.h"

#include "unit/flow/pipe_rig.h"

static struct pipe *pipe_blind(unsigned users)
{
    struct pipe *pipe = pipe_new();
    for (unsigned i = 0; i < users; i++) {
        char user[16];
        snprintf(user, sizeof(user), "user%u", i);
        pipe_react(pipe, "video1", user, i % 3 == 0 ? 2 : 1);
    }
    pipe_add(pipe, "views", 100);
    pipe->log->lanes = LIMIT_CELLS;
    return pipe;
}

static void pipe_end(struct pipe *pipe)
{
    pipe->log->lanes = 1;
    pipe_free(pipe);
}

struct recount {
    struct slice id;
    struct desk_recount found;
    enum err err;
    struct error error;
};

static void run_recount(struct desk_seat *seat, void *arg)
{
    struct recount *recount = arg;
    recount->err = desk_recount(seat, recount->id, &recount->found, &recount->error);
}

static struct recount recount(struct pipe *pipe, const char *id)
{
    struct recount recount = {.id = slice_of(id)};
    pipe_at_desk(pipe, run_recount, &recount);
    return recount;
}

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

TEST(a_count_is_what_the_store_has_of_the_same_events)
{
    struct pipe *pipe = pipe_blind(30);
    struct recount views = recount(pipe, "views"); /* waits for the store */
    assert_int_equal(views.err, ERR_OK);
    assert_true(views.found.agrees && views.found.by_store);
    assert_int_equal(views.found.value.small, 100);
    assert_int_equal(views.found.recount.small, 100);
    struct recount likes = recount(pipe, "video1/like");
    assert_true(likes.found.agrees);
    assert_int_equal(likes.found.recount.small, 20);
    assert_int_equal(recount(pipe, "video1").err, ERR_WRONG_TYPE);
    assert_int_equal(recount(pipe, "nothing").err, ERR_NOT_FOUND);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_end(pipe);
}

TEST(a_wrong_hot_value_is_put_right)
{
    struct pipe *pipe = pipe_blind(30);
    spoil(pipe, "views", KIND_NONE, 5);
    struct recount views = recount(pipe, "views");
    assert_int_equal(views.err, ERR_OK);
    assert_false(views.found.agrees);
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"hot\" is=105 ought=100");
    assert_int_equal(pipe_value(pipe, "views"), 100);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_end(pipe);
}

TEST(members_decide_about_a_count_of_the_store)
{
    struct pipe *pipe = pipe_blind(30);
    assert_true(recount(pipe, "video1/like").found.agrees);
    pipe_sql(pipe,
             "UPDATE entries SET counts = '{\"like\":19,\"dislike\":10}' WHERE id = 'video1'");
    assert_false(recount(pipe, "video1/like").found.agrees);
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"video1/like\" place=\"store\" is=19 ought=20");
    assert_true(recount(pipe, "video1/like").found.agrees);
    pipe_end(pipe);
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

TEST(a_row_that_the_members_have_decided_about_has_its_sum_again)
{
    struct pipe *pipe = pipe_blind(30);
    bool is_wrong = false;
    assert_true(recount(pipe, "video1/like").found.agrees);
    pipe_sql(pipe,
             "UPDATE entries SET counts = '{\"like\":19,\"dislike\":10}' WHERE id = 'video1'");
    pipe_at_desk(pipe, load_video1, &is_wrong);
    assert_true(is_wrong);
    assert_int_equal(audit(pipe, true).found, 1);
    pipe_at_desk(pipe, load_video1, &is_wrong);
    assert_false(is_wrong);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_end(pipe);
}

TEST(a_falsified_row_is_put_right_by_what_is_in_memory)
{
    struct pipe *pipe = pipe_blind(3);
    assert_true(recount(pipe, "views").found.agrees);
    pipe_sql(pipe, "UPDATE entries SET value = 555 WHERE id = 'views'");
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 1);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"store\" is=555 ought=100");
    assert_int_equal(pipe_value(pipe, "views"), 100);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe_sql(pipe, "UPDATE entries SET sum = NULL WHERE id = 'views'");
    assert_int_equal(audit(pipe, true).found, 0);
    pipe->log->lanes = 1;
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), 100);
    pipe_free(pipe);
}

static void note_life(void *arg, const struct state_target *target)
{
    *(uint32_t *)arg = target->incarnation;
}

static void load_life(struct desk_seat *seat, void *arg)
{
    struct store_reader *reader;
    assert_int_equal(seat_reader(seat, &reader, NULL), ERR_OK);
    assert_int_equal(store_load(reader, SLICE("views"), note_life, arg, NULL), ERR_OK);
}

/* What is in memory goes on in its own life, and a row that is right in another takes nothing. */
TEST(a_row_that_speaks_of_another_life_gets_that_of_memory)
{
    struct pipe *pipe = pipe_blind(3);
    uint32_t before = UINT32_MAX;
    uint32_t after = UINT32_MAX;
    assert_true(recount(pipe, "views").found.agrees);
    pipe_at_desk(pipe, load_life, &before);
    pipe_sql(pipe, "UPDATE entries SET incarnation = 1000000");
    struct desk_task task = audit(pipe, true);
    assert_int_equal(task.found, 2);
    assert_non_null(strstr(task.lines[0], "incarnation=1000000 ought="));
    pipe_at_desk(pipe, load_life, &after);
    assert_int_equal(after, before);
    pipe_add(pipe, "views", 1);
    assert_true(recount(pipe, "views").found.agrees);
    assert_int_equal(audit(pipe, true).found, 0);
    pipe->log->lanes = 1;
    pipe_reopen(pipe);
    assert_int_equal(pipe_value(pipe, "views"), 101);
    assert_int_equal(pipe_value(pipe, "video1/like"), 2);
    pipe_free(pipe);
}

TEST(a_falsified_row_that_nothing_can_prove_is_told_and_has_no_value)
{
    struct pipe *pipe = pipe_blind(3);
    assert_true(recount(pipe, "views").found.agrees);
    pipe_sql(pipe, "UPDATE entries SET value = 555 WHERE id = 'views'");
    pipe->log->lanes = 1;
    pipe_reopen(pipe);
    pipe->log->lanes = LIMIT_CELLS;
    struct op op = {.kind = OP_GET, .id = SLICE("views")};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_CORRUPT);
    struct desk_task task = audit(pipe, true);
    assert_true(task.found > 0);
    assert_string_equal(task.lines[0], "id=\"views\" place=\"store\" is=damaged ought=unknown");
    op = (struct op){.kind = OP_GET, .id = SLICE("views")};
    pipe_run(pipe, &op);
    assert_int_equal(op.code, ERR_CORRUPT);
    pipe_end(pipe);
}

static void ignore_event(void *arg, const struct event *event)
{
    (void)arg;
    (void)event;
}

static void run_events(struct desk_seat *seat, void *arg)
{
    uint64_t cursor = 0;
    struct error error;
    *(enum err *)arg = desk_events(seat, SLICE("views"), &cursor, 10, ignore_event, NULL, &error);
}

TEST(what_only_the_log_could_tell_is_refused)
{
    struct pipe *pipe = pipe_blind(3);
    enum err err = ERR_OK;
    pipe_at_desk(pipe, run_events, &err);
    assert_int_equal(err, ERR_INVALID);
    pipe_end(pipe);
}

RUN(cmocka_unit_test(a_count_is_what_the_store_has_of_the_same_events),
    cmocka_unit_test(a_wrong_hot_value_is_put_right),
    cmocka_unit_test(members_decide_about_a_count_of_the_store),
    cmocka_unit_test(a_row_that_the_members_have_decided_about_has_its_sum_again),
    cmocka_unit_test(a_falsified_row_is_put_right_by_what_is_in_memory),
    cmocka_unit_test(a_row_that_speaks_of_another_life_gets_that_of_memory),
    cmocka_unit_test(a_falsified_row_that_nothing_can_prove_is_told_and_has_no_value),
    cmocka_unit_test(what_only_the_log_could_tell_is_refused))
