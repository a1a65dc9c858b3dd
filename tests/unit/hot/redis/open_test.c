/* open_test.c - cells that are closed, and how they are opened. */
#include "unit/hot/redis/rig.h"

#include "unit/hot/redis/server.h"

/* servers: redis */
/* servers: cluster */
/* threads */

static struct rig rig;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static enum err begin(struct hot *hot, unsigned cell, uint64_t above, uint64_t *epoch,
                      uint64_t *last)
{
    struct outbox *outbox = rig_outbox(hot);
    return outbox->ops->begin(outbox, cell, above, epoch, last, NULL);
}

static enum err open_cell(struct hot *hot, unsigned cell, uint64_t epoch, bool keep)
{
    struct outbox *outbox = rig_outbox(hot);
    return outbox->ops->open(outbox, cell, epoch, 0, keep, 0, NULL);
}

static enum err relayed(struct hot *hot, unsigned cell, uint64_t sequence, bool *is_stale)
{
    struct outbox *outbox = rig_outbox(hot);
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t told;
    uint64_t stale;
    sequences[cell] = sequence;
    enum err err =
        outbox->ops->relayed(outbox, rig_bit(cell), sequences, NULL, &told, &stale, NULL);
    *is_stale = stale & rig_bit(cell);
    return err;
}

/* What the other node would be: the hash names a process that is not this one. */
static void pretend_other_process(struct hot *hot, unsigned cell)
{
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "run", "another");
}

/* ---- */

TEST(a_cell_without_a_hash_is_closed_until_it_was_opened)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");

    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_UNAVAILABLE);
    assert_true(rig_outbox(hot)->ops->closed(rig_outbox(hot)) & rig_bit(cell));

    uint64_t epoch = rig_open_cell(hot, cell, false);
    assert_int_equal(epoch, 1);
    assert_false(rig_outbox(hot)->ops->closed(rig_outbox(hot)) & rig_bit(cell));
    struct op op = rig_run(hot, rig_add("a", 1));
    for (unsigned i = 0; i < 100 && op.code == ERR_UNAVAILABLE; i++) {
        usleep(20000);
        op = rig_run(hot, rig_add("a", 1));
    }
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.sequence, sequence_of(1, 1));
}

TEST(a_new_epoch_is_above_the_last_one_and_above_what_is_asked_for)
{
    struct hot *hot = rig_node(&rig);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, 3, 41, &epoch, &last), ERR_OK);
    assert_int_equal(epoch, 42);
    assert_int_equal(last, 0);
    assert_int_equal(begin(hot, 3, 7, &epoch, &last), ERR_OK);
    assert_int_equal(epoch, 43);
}

TEST(an_open_cell_is_not_begun_again)
{
    struct hot *hot = rig_node(&rig);
    uint64_t epoch;
    uint64_t last;
    rig_open_cell(hot, 3, false);
    assert_int_equal(begin(hot, 3, 0, &epoch, &last), ERR_EXISTS);
}

TEST(of_two_openers_one_is_told_to_wait)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(one, 3, 0, &epoch, &last), ERR_OK);
    uint64_t other;
    assert_int_equal(begin(two, 3, 0, &other, &last), ERR_BUSY);
    assert_int_equal(open_cell(two, 3, epoch, false), ERR_BUSY);
    assert_int_equal(open_cell(one, 3, epoch, false), ERR_OK);
}

TEST(an_opener_that_is_gone_is_followed_by_another_who_still_knows_what_the_data_has)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    unsigned cell = rig_home("a");
    uint64_t first = rig_open_cell(one, cell, false);
    struct op op = rig_run(one, rig_add("a", 5));
    pretend_other_process(one, cell);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(one, cell, 0, &epoch, &last), ERR_OK);
    assert_int_equal(last, op.sequence);

    RIG_DO(&rig, "HSET", rig_key(&rig, one, cell, "cell"), "opener_ms", "1");
    uint64_t later;
    assert_int_equal(begin(two, cell, 0, &later, &last), ERR_OK);
    assert_int_equal(later, first + 2);
    assert_int_equal(last, op.sequence);
    assert_int_equal(open_cell(one, cell, epoch, true), ERR_BUSY);
    bool is_stale;
    assert_int_equal(relayed(two, cell, op.sequence, &is_stale), ERR_OK);
    assert_false(is_stale); /* the opener carries the old epoch to its end */
    assert_int_equal(open_cell(two, cell, later, true), ERR_OK);
    assert_int_equal(rig_run(two, rig_get("a")).value.small, 5);
}

TEST(an_opener_that_still_renews_its_leases_is_not_overtaken)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(one, 3, 0, &epoch, &last), ERR_OK);
    RIG_DO(&rig, "HSET", rig_key(&rig, one, 3, "cell"), "opener_ms", "1");
    rig_outbox(one)->ops->leased(rig_outbox(one));
    assert_int_equal(begin(two, 3, 0, &epoch, &last), ERR_BUSY);
}

TEST(nothing_is_read_or_written_while_a_cell_is_being_opened)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    rig_run(hot, rig_add("a", 5));
    pretend_other_process(hot, cell);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, cell, 0, &epoch, &last), ERR_OK);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_UNAVAILABLE);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_UNAVAILABLE);
}

TEST(a_cell_is_not_opened_before_its_outbox_was_carried_over)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    struct op op = rig_run(hot, rig_add("a", 5));
    pretend_other_process(hot, cell);
    uint64_t epoch;
    uint64_t last;
    bool is_stale;
    assert_int_equal(begin(hot, cell, 0, &epoch, &last), ERR_OK);
    assert_int_equal(open_cell(hot, cell, epoch, true), ERR_EXISTS);
    assert_int_equal(relayed(hot, cell, op.sequence, &is_stale), ERR_OK);
    assert_false(is_stale);
    assert_int_equal(open_cell(hot, cell, epoch, true), ERR_OK);
    assert_int_equal(open_cell(hot, cell, epoch, true), ERR_OK); /* a lost reply */
}

TEST(data_that_is_kept_is_there_and_its_sequences_begin_anew)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    struct op op = rig_run(hot, rig_add("a", 5));
    bool is_stale;
    assert_int_equal(relayed(hot, cell, op.sequence, &is_stale), ERR_OK);
    assert_false(is_stale);
    pretend_other_process(hot, cell);
    uint64_t epoch = rig_open_cell(hot, cell, true);
    op = rig_run(hot, rig_add("a", 1));
    assert_int_equal(op.value.small, 6);
    assert_int_equal(op.sequence, sequence_of(epoch, 1));
}

TEST(data_that_is_not_kept_does_not_exist_any_more)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_all(hot);
    rig_begin(hot);
    struct op op = rig_run_new(hot, rig_add("a", 5));
    assert_int_equal(op.code, ERR_OK);
    bool is_stale;
    assert_int_equal(relayed(hot, cell, op.sequence, &is_stale), ERR_OK);
    pretend_other_process(hot, cell);
    rig_save_all(&rig, hot);
    rig_open_cell(hot, cell, false);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    assert_string_not_equal(RIG_DO(&rig, "HGET", rig_key(&rig, hot, cell, "cell"), "lost_ms"), "");
}

/* What is spread from it may have pieces in the others, and these may be behind the log. */
TEST(a_cell_without_its_data_is_opened_when_all_others_were_begun)
{
    struct hot *hot = rig_node(&rig);
    uint64_t epoch;
    uint64_t last;
    rig_open_all(hot);
    rig_begin(hot);
    rig_save_all(&rig, hot);
    pretend_other_process(hot, 3);
    pretend_other_process(hot, 40);
    assert_int_equal(begin(hot, 3, 0, &epoch, &last), ERR_OK);
    assert_int_equal(open_cell(hot, 3, epoch, false), ERR_UNAVAILABLE);
    RIG_DO(&rig, "DEL", rig_key(&rig, hot, 40, "cell"));
    assert_int_equal(open_cell(hot, 3, epoch, false), ERR_UNAVAILABLE);

    uint64_t other;
    assert_int_equal(begin(hot, 40, 0, &other, &last), ERR_OK);
    rig_save_all(&rig, hot);
    assert_int_equal(open_cell(hot, 3, epoch, false), ERR_OK);
    assert_int_equal(open_cell(hot, 40, other, false), ERR_OK);
}

/* So whatever comes back with it is behind the log. */
TEST(what_is_given_up_in_a_cell_that_is_being_opened_is_its_first_event)
{
    struct hot *hot = rig_node(&rig);
    uint64_t epoch;
    uint64_t other;
    uint64_t last;
    rig_open_all(hot);
    rig_begin(hot);
    rig_save_all(&rig, hot);
    pretend_other_process(hot, 3);
    pretend_other_process(hot, 40);
    assert_int_equal(begin(hot, 3, 0, &epoch, &last), ERR_OK);
    assert_int_equal(begin(hot, 40, 0, &other, &last), ERR_OK);
    assert_int_equal(open_cell(hot, 3, epoch, false), ERR_UNAVAILABLE); /* it waits for that */
    assert_int_equal(open_cell(hot, 40, other, true), ERR_OK);
    assert_string_equal(RIG_DO(&rig, "HGET", rig_key(&rig, hot, 40, "cell"), "n"), "1");
    rig_save_all(&rig, hot);
    assert_int_equal(open_cell(hot, 3, epoch, false), ERR_OK);
}

struct afters {
    uint64_t sequences[LIMIT_CELLS]; /* by the cell that something comes after */
    uint64_t last;
};

static enum err take_afters(void *arg, unsigned cell, struct slice section, uint64_t last,
                            struct error *error)
{
    struct afters *afters = arg;
    struct section_reader reader;
    struct event event;
    assert_int_equal(section_open(&reader, section, error), ERR_OK);
    while (section_next(&reader, &event, error) == ERR_OK) {
        assert_int_equal(event.origin, cell);
        assert_int_equal(event.type, EVENT_AFTER);
        afters->sequences[event.after_origin] = event.after_sequence;
        event_done(&event);
    }
    afters->last = last;
    return ERR_OK;
}

/* Answers for a store that has come so far in the cell, and runs the op again. */
static enum err load_at(struct hot *hot, struct op op, uint64_t sequence)
{
    uint64_t sequences[LIMIT_CELLS] = {0};
    struct hot_want want;
    sequences[rig_home("a")] = sequence;
    bool is_wanted = false;
    for (unsigned i = 0; i < 500 && !is_wanted; i++) {
        assert_int_equal(rig_run(hot, op).code, ERR_COLD);
        is_wanted = hot_wanted(hot, &want);
        if (!is_wanted)
            usleep(10000);
    }
    assert_true(is_wanted);
    hot_loaded(hot, &want, &(struct hot_found){.code = ERR_NOT_FOUND, .sequences = sequences});
    return rig_run(hot, op).code;
}

/* A store that fails over may forget what the pieces in other cells have written. Nothing is loaded
 * from it then. */
TEST(a_cell_without_its_data_comes_after_all_others_and_is_not_loaded_before)
{
    struct hot *hot = rig_node(&rig);
    struct outbox *outbox = rig_outbox(hot);
    unsigned cell = rig_home("a");
    unsigned other = cell == 40 ? 41 : 40;
    rig_open_all(hot);
    struct op op = rig_run(hot, rig_add("a", 5));
    bool is_stale;
    assert_int_equal(relayed(hot, cell, op.sequence, &is_stale), ERR_OK);
    rig_begin(hot);
    rig_save_all(&rig, hot);
    pretend_other_process(hot, cell);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, cell, 0, &epoch, &last), ERR_OK);
    assert_int_equal(outbox->ops->open(outbox, cell, epoch, 1, false, 0, NULL), ERR_OK);
    assert_true(outbox->ops->dirty(outbox) & rig_bit(cell));

    struct afters afters = {.last = 0};
    const uint64_t after[LIMIT_CELLS] = {0};
    assert_int_equal(
        outbox->ops->read(outbox, rig_bit(cell), after, 10, take_afters, &afters, NULL), ERR_OK);
    assert_int_equal(afters.last, sequence_of(epoch, LIMIT_CELLS));
    assert_int_equal(afters.sequences[other], sequence_of(1, 0));
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        assert_int_equal(afters.sequences[i] > 0, i != cell);

    assert_int_equal(load_at(hot, rig_get("a"), afters.last - 1), ERR_COLD);
    assert_int_equal(load_at(hot, rig_get("a"), afters.last), ERR_NOT_FOUND);
}

TEST(deletions_are_counted_on_from_where_the_store_is)
{
    struct hot *hot = rig_node(&rig);
    struct outbox *outbox = rig_outbox(hot);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, 3, 0, &epoch, &last), ERR_OK);
    assert_int_equal(outbox->ops->open(outbox, 3, epoch, 0, false, 17, NULL), ERR_OK);
    assert_string_equal(RIG_DO(&rig, "HGET", rig_key(&rig, hot, 3, "cell"), "inc"), "17");
}

TEST(data_that_has_gone_back_without_a_word_is_noticed_by_the_relay)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    rig_run(hot, rig_add("a", 5));
    struct op op = rig_run(hot, rig_add("a", 5));
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "n", "1");
    bool is_stale;
    assert_int_equal(relayed(hot, cell, op.sequence, &is_stale), ERR_OK);
    assert_true(is_stale);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_UNAVAILABLE);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, cell, 0, &epoch, &last), ERR_OK);
    assert_int_equal(last, sequence_of(1, 1));
}

/* ---- a server of our own ---- */

static void wait_until_closed(struct hot *hot, unsigned cell)
{
    struct outbox *outbox = rig_outbox(hot);
    for (unsigned i = 0; i < 100 && !(outbox->ops->closed(outbox) & rig_bit(cell)); i++) {
        outbox->ops->leased(outbox);
        usleep(50000);
    }
    assert_true(outbox->ops->closed(outbox) & rig_bit(cell));
}

TEST(a_redis_that_comes_back_empty_has_closed_cells)
{
    struct server server;
    struct rig own;
    server_new(&server);
    rig_open_at(&own, server.url);
    struct hot *hot = rig_node(&own);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    assert_int_equal(rig_run(hot, rig_add("a", 5)).code, ERR_OK);

    server_kill(&server);
    server_start(&server);
    wait_until_closed(hot, cell);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_UNAVAILABLE);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, cell, 1, &epoch, &last), ERR_OK);
    assert_int_equal(last, 0);
    assert_int_equal(epoch, 2);
    rig_close(&own);
    server_remove(&server);
}

static void wait_until_reached(struct hot *hot)
{
    char why[256];
    bool is_up = false;
    for (unsigned i = 0; i < 1000 && !is_up; i++) {
        usleep(10000);
        is_up = redis_hot_status(hot, why, sizeof(why));
    }
    assert_true(is_up);
}

static void wait_until_sure(struct hot *hot)
{
    struct outbox *outbox = rig_outbox(hot);
    for (unsigned i = 0; i < 200 && redis_hot_doubtful(hot); i++) {
        outbox->ops->leased(outbox);
        usleep(50000);
    }
    assert_int_equal(redis_hot_doubtful(hot), 0);
}

/* Who says that all is well must have looked: a connection says nothing about the cells. */
TEST(cells_are_in_doubt_until_they_were_looked_at_through_the_connection_that_there_is)
{
    struct server server;
    struct rig own;
    server_new(&server);
    rig_open_at(&own, server.url);
    struct hot *one = rig_node(&own);
    rig_open_all(one);
    struct hot *two = rig_node(&own);
    wait_until_reached(two);
    assert_int_equal(redis_hot_doubtful(two), UINT64_MAX);
    wait_until_sure(two);

    RIG_DO(&own, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    for (unsigned i = 0; i < 1000 && redis_hot_doubtful(two) != UINT64_MAX; i++)
        usleep(10000); /* until it has noticed */
    wait_until_reached(two);
    assert_int_equal(redis_hot_doubtful(two), UINT64_MAX);
    wait_until_sure(two);
    rig_close(&own);
    server_remove(&server);
}

TEST(a_redis_that_comes_back_behind_says_how_far_its_data_goes)
{
    struct server server;
    struct rig own;
    server_new(&server);
    rig_open_at(&own, server.url);
    struct hot *hot = rig_node(&own);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    struct op saved = rig_run(hot, rig_add("a", 5));
    RIG_DO(&own, "SAVE");
    assert_int_equal(rig_run(hot, rig_add("a", 5)).code, ERR_OK);

    server_kill(&server);
    server_start(&server);
    wait_until_closed(hot, cell);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_UNAVAILABLE);
    uint64_t epoch;
    uint64_t last;
    assert_int_equal(begin(hot, cell, 0, &epoch, &last), ERR_OK);
    assert_int_equal(last, saved.sequence);
    rig_close(&own);
    server_remove(&server);
}

TEST(a_redis_that_is_down_is_waited_for_once_and_not_by_every_call)
{
    struct server server;
    struct rig own;
    server_new(&server);
    rig_open_at(&own, server.url);
    struct hot *hot = rig_node(&own);
    struct outbox *outbox = rig_outbox(hot);
    outbox->ops->leased(outbox);
    server_kill(&server);
    usleep(300000);
    outbox->ops->leased(outbox); /* meets it */
    uint64_t epoch;
    uint64_t last;
    uint64_t began_ns = env_monotonic_ns(env_system());
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        assert_int_equal(begin(hot, cell, 0, &epoch, &last), ERR_UNAVAILABLE);
    assert_true(env_monotonic_ns(env_system()) - began_ns < UINT64_C(10000000000));

    server_start(&server);
    enum err err = ERR_UNAVAILABLE;
    for (unsigned i = 0; i < 100 && err == ERR_UNAVAILABLE; i++) {
        outbox->ops->leased(outbox);
        err = begin(hot, 3, 0, &epoch, &last);
        usleep(50000);
    }
    assert_int_equal(err, ERR_OK);
    rig_close(&own);
    server_remove(&server);
}

#define OPEN(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

RUN(OPEN(a_cell_without_a_hash_is_closed_until_it_was_opened),
    OPEN(a_new_epoch_is_above_the_last_one_and_above_what_is_asked_for),
    OPEN(an_open_cell_is_not_begun_again), OPEN(of_two_openers_one_is_told_to_wait),
    OPEN(an_opener_that_is_gone_is_followed_by_another_who_still_knows_what_the_data_has),
    OPEN(an_opener_that_still_renews_its_leases_is_not_overtaken),
    OPEN(nothing_is_read_or_written_while_a_cell_is_being_opened),
    OPEN(a_cell_is_not_opened_before_its_outbox_was_carried_over),
    OPEN(data_that_is_kept_is_there_and_its_sequences_begin_anew),
    OPEN(data_that_is_not_kept_does_not_exist_any_more),
    OPEN(a_cell_without_its_data_is_opened_when_all_others_were_begun),
    OPEN(what_is_given_up_in_a_cell_that_is_being_opened_is_its_first_event),
    OPEN(a_cell_without_its_data_comes_after_all_others_and_is_not_loaded_before),
    OPEN(deletions_are_counted_on_from_where_the_store_is),
    OPEN(data_that_has_gone_back_without_a_word_is_noticed_by_the_relay),
    cmocka_unit_test(a_redis_that_is_down_is_waited_for_once_and_not_by_every_call),
    cmocka_unit_test(a_redis_that_comes_back_empty_has_closed_cells),
    cmocka_unit_test(
        cells_are_in_doubt_until_they_were_looked_at_through_the_connection_that_there_is),
    cmocka_unit_test(a_redis_that_comes_back_behind_says_how_far_its_data_goes))
