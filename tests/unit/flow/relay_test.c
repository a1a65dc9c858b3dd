/* The relay over the models of the simulator (tests/sim/nodes), one thing at a time. What chance
 * and many nodes make of it is the simulator's. */
#include "unit/test.h"

#include "core/sequence.h"
#include "flow/relay.h"
#include "sim/nodes/nodes_log.c"   // NOLINT(bugprone-suspicious-include)
#include "sim/nodes/nodes_redis.c" // NOLINT(bugprone-suspicious-include)
#include "sim/nodes/nodes_store.c" // NOLINT(bugprone-suspicious-include)

#define ACK_TIMEOUT_MS 2000

struct rig {
    struct env env;
    struct sim_rng rng;
    int64_t now_ms;
    struct redis_model redis;
    struct log_model log;
    struct store_model store;
    struct relay *relay;
    uint64_t calls;
};

static uint64_t rig_monotonic_ns(struct env *env)
{
    return (uint64_t)((struct rig *)env)->now_ms * 1000000;
}

static int64_t rig_wall_ms(struct env *env)
{
    return ((struct rig *)env)->now_ms;
}

static struct relay *relay_of(struct rig *rig, unsigned node)
{
    return relay_new(&(struct relay_options){
        .env = &rig->env,
        .outbox = redis_model_outbox(&rig->redis, node),
        .log = log_model_open(&rig->log, node),
        .store = rig->store.views[node],
        .ack_timeout_ms = ACK_TIMEOUT_MS,
    });
}

static struct rig *rig_new(void)
{
    struct rig *rig = memory_take_zeroed(sizeof(*rig));
    rig->env = (struct env){.monotonic_ns = rig_monotonic_ns, .wall_ms = rig_wall_ms};
    rig->now_ms = 1700000000000;
    redis_model_init(&rig->redis, &rig->rng, NODES_NO_BUG, &rig->now_ms,
                     rig->store.rows.mark.sequences);
    log_model_init(&rig->log, &rig->rng, NODES_NO_BUG, &rig->now_ms);
    store_model_init(&rig->store, &rig->rng, NODES_NO_BUG);
    rig->relay = relay_of(rig, 0);
    return rig;
}

static void rig_free(struct rig *rig)
{
    relay_free(rig->relay);
    redis_model_done(&rig->redis);
    log_model_done(&rig->log);
    store_model_done(&rig->store);
    free(rig);
}

/* What an aggregator would do: the store is where the log ends. */
static void apply_all(struct rig *rig)
{
    for (unsigned lane = 0; lane < CELLS; lane++) {
        struct state_mark *mark = &rig->store.rows.mark;
        for (; mark->lanes[lane].offset < rig->log.lanes[lane].count; mark->lanes[lane].offset++) {
            struct log_section *section = &rig->log.lanes[lane].sections[mark->lanes[lane].offset];
            struct section_reader reader;
            assert_int_equal(
                section_open(&reader, (struct slice){section->bytes, section->size}, NULL), ERR_OK);
            if (reader.first_sequence <= mark->sequences[lane])
                continue;
            if (sequence_n(reader.first_sequence) == 0 && sequence_n(mark->sequences[lane]) != 0)
                mark->ended[lane] = mark->sequences[lane];
            mark->sequences[lane] = reader.first_sequence;
        }
    }
}

static void rounds(struct rig *rig, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rig->now_ms += 25;
        (void)relay_step(rig->relay);
        if (!rig->log.down)
            log_model_settle(&rig->log);
        if (!rig->store.down)
            apply_all(rig);
    }
}

static struct reply add(struct rig *rig, unsigned counter)
{
    struct caller from = {
        .node = 0, .life = 1, .call = ++rig->calls, .cell = home_of(ITEMS + counter)};
    return redis_add(&rig->redis, from, KNOWN_NOT_SPREAD, counter, 1);
}

static void load(struct rig *rig, unsigned counter)
{
    unsigned cell = home_of(ITEMS + counter);
    uint64_t token = redis_begin_load(&rig->redis, cell, ITEMS + counter, WHOLE);
    assert_true(token > 0);
    redis_load(&rig->redis, cell, ITEMS + counter, WHOLE, token, &rig->store.rows);
}

/* A counter that is loaded, of a cell that is open. */
static void open_counter(struct rig *rig, unsigned counter)
{
    rounds(rig, 40);
    assert_int_equal(add(rig, counter).answer, ANSWER_COLD);
    load(rig, counter);
}

static uint64_t ticket_of(struct rig *rig, unsigned counter, struct reply reply)
{
    assert_int_equal(reply.answer, ANSWER_DONE);
    struct op op = {.cell = (uint8_t)home_of(ITEMS + counter), .sequence = reply.sequence};
    relay_tickets(rig->relay, &op, 1);
    return op.ticket;
}

static bool leaves(struct rig *rig, uint64_t ticket)
{
    return relay_safe(rig->relay) >= ticket && !relay_any_stuck(rig->relay, ticket, ticket);
}

TEST(a_cell_that_was_never_there_is_opened)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    struct relay_stats stats;
    relay_stats(rig->relay, &stats);
    assert_int_equal(stats.opened, CELLS);
    assert_int_equal(stats.opening, 0);
    assert_int_equal(rig->redis.cells[0].epoch, 1);
    rig_free(rig);
}

TEST(an_answer_waits_until_the_log_has_it)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    (void)relay_step(rig->relay);
    assert_false(leaves(rig, ticket)); /* it is on its way */
    rounds(rig, 3);
    assert_true(leaves(rig, ticket));
    assert_false(relay_any_weak(rig->relay, ticket, ticket));
    assert_int_equal(rig->redis.cells[0].entry_count, 0); /* and the outbox has let go of it */
    rig_free(rig);
}

TEST(an_answer_does_not_wait_for_a_cell_whose_server_is_down)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    open_counter(rig, 1);
    uint64_t stuck = ticket_of(rig, 0, add(rig, 0));
    rig->redis.servers[0].down = true;
    uint64_t ticket = ticket_of(rig, 1, add(rig, 1));
    rounds(rig, 6);
    assert_true(leaves(rig, ticket));
    assert_false(relay_any_weak(rig->relay, ticket, ticket));
    assert_false(leaves(rig, stuck));
    ticket = ticket_of(rig, 1, add(rig, 1));
    rounds(rig, 2); /* from now on it is not waited for at all */
    assert_true(leaves(rig, ticket));
    assert_false(leaves(rig, stuck));

    rig->redis.servers[0].down = false;
    rounds(rig, 6);
    assert_true(leaves(rig, stuck));
    assert_false(relay_any_weak(rig->relay, stuck, ticket));
    rig_free(rig);
}

TEST(while_the_log_is_down_answers_are_weak_and_catch_up_later)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    rig->log.down = true;
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    rounds(rig, ACK_TIMEOUT_MS / 25 - 2);
    assert_false(leaves(rig, ticket));
    assert_true(relay_is_up(rig->relay));
    rounds(rig, 4);
    assert_true(leaves(rig, ticket));
    assert_true(relay_any_weak(rig->relay, ticket, ticket));
    assert_false(relay_is_up(rig->relay));

    rig->log.down = false;
    rounds(rig, 4);
    assert_true(relay_is_up(rig->relay));
    assert_int_equal(rig->redis.cells[0].entry_count, 0);
    assert_int_equal(rig->store.rows.mark.sequences[0], sequence_of(1, 1));
    rig_free(rig);
}

TEST(a_cell_that_lost_nothing_is_kept)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_DONE);
    rounds(rig, 4);
    redis_replicate(&rig->redis, 0);
    redis_fail_over(&rig->redis, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 60);
    /* The first time there was nothing to lose; then the two cells of that server. */
    assert_int_equal(rig->redis.kept, CELLS + CELLS / SERVERS);
    struct reply reply = add(rig, 0);
    assert_int_equal(reply.answer, ANSWER_DONE); /* it need not be loaded */
    assert_int_equal(reply.sequence, sequence_of(2, 1));
    assert_int_equal(rig->redis.cells[0].records[ITEMS].value, 2);
    rig_free(rig);
}

TEST(a_cell_that_lost_what_the_log_has_is_emptied)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    redis_replicate(&rig->redis, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_DONE);
    rounds(rig, 4);
    redis_fail_over(&rig->redis, 0); /* to a replica that has not heard of it */
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 60);
    assert_int_equal(rig->redis.opened - rig->redis.kept, 1);
    assert_int_equal(add(rig, 0).answer, ANSWER_COLD);
    unsigned events = 1 + (CELLS - 1); /* the second EPOCH, and an AFTER for each other cell */
    assert_int_equal(rig->redis.cells[0].need, sequence_of(2, events));
    assert_int_equal(rig->redis.cells[0].epoch, 2); /* though the others had to be opened first */
    rig_free(rig);
}

/* As far as the log was when other data was given up. */
TEST(data_of_another_time_is_not_kept_where_data_was_given_up)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_DONE);
    rounds(rig, 20);
    struct cell_data old = rig->redis.cells[0];
    assert_int_equal(old.records[ITEMS].type, 'c');
    redis_restart_empty(&rig->redis, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 80);
    assert_int_equal(rig->redis.cells[0].state, CELL_OPEN);
    rig->redis.replicas[0] = old;
    redis_fail_over(&rig->redis, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 80);
    assert_int_equal(rig->redis.cells[0].state, CELL_OPEN);
    assert_int_equal(rig->redis.cells[0].records[ITEMS].type, 0);
    rig_free(rig);
}

TEST(what_only_a_lost_server_had_is_weak)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    redis_replicate(&rig->redis, 0);
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    redis_fail_over(&rig->redis, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 60);
    assert_true(leaves(rig, ticket));
    assert_true(relay_any_weak(rig->relay, ticket, ticket));
    rig_free(rig);
}

TEST(what_a_batch_did_before_its_cell_was_lost_does_not_rest_on_what_it_did_afterwards)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    redis_replicate(&rig->redis, 0);
    struct reply lost = add(rig, 0);
    redis_fail_over(&rig->redis, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 60);
    struct reply kept = add(rig, 0);
    assert_int_equal(kept.answer, ANSWER_DONE);
    struct op ops[] = {{.cell = 0, .sequence = lost.sequence},
                       {.cell = 0, .sequence = kept.sequence}};
    relay_tickets(rig->relay, ops, 2);
    rounds(rig, 4);
    assert_true(relay_any_weak(rig->relay, ops[0].ticket, ops[0].ticket));
    assert_false(relay_any_weak(rig->relay, ops[1].ticket, ops[1].ticket));
    rig_free(rig);
}

/* Another node opens cell 0, which is closed, and ends. */
static void open_elsewhere(struct rig *rig)
{
    struct relay *other = relay_of(rig, 1);
    struct caller from = {.node = 1, .life = 1, .call = 1, .cell = 0};
    assert_int_equal(redis_add(&rig->redis, from, KNOWN_NOT_SPREAD, 0, 1).answer, ANSWER_CLOSED);
    for (unsigned i = 0; i < 60; i++) {
        rig->now_ms += 25;
        (void)relay_step(other);
        log_model_settle(&rig->log);
        apply_all(rig);
    }
    assert_int_equal(rig->redis.cells[0].state, CELL_OPEN);
    assert_int_equal(rig->redis.cells[0].epoch, 2);
    relay_free(other);
}

/* The server of cell 0 is replaced while it sleeps, and the cell is opened anew by another node.
 * Our node takes the old one for the primary still. */
static void replace_unnoticed(struct rig *rig)
{
    redis_replicate(&rig->redis, 0);
    redis_replace(&rig->redis, 0, 1);
    open_elsewhere(rig);
    rig->redis.ghosts[0].is_awake = true;
}

TEST(what_a_server_does_that_was_replaced_is_weak_although_the_log_has_it)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_DONE);
    rounds(rig, 4);
    replace_unnoticed(rig);
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    rounds(rig, ACK_TIMEOUT_MS / 25 + 4);
    assert_true(leaves(rig, ticket));
    assert_true(relay_any_weak(rig->relay, ticket, ticket));
    assert_true(rig->log.lanes[0].count >= 4);            /* it is there, and too late */
    assert_true(rig->redis.ghosts[0].cells[0].epoch > 2); /* and the server was told */
    rig_free(rig);
}

TEST(an_answer_leaves_also_when_another_has_appended_and_no_epoch_was_given)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    assert_int_equal(add(rig, 0).answer, ANSWER_DONE);
    rounds(rig, 4);
    /* A relay that does not know that its lease is over repeats what is there. */
    struct log *late = log_model_open(&rig->log, 1);
    const struct log_section *section = &rig->log.lanes[0].sections[1];
    (void)log_append(late, (struct slice){section->bytes, section->size}, SLICE(""));
    log_model_settle(&rig->log);
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    rounds(rig, 3);
    assert_true(leaves(rig, ticket));
    assert_false(relay_any_weak(rig->relay, ticket, ticket));
    rig_free(rig);
}

TEST(while_the_store_is_down_answers_leave_as_long_as_nobody_else_appends)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    rig->store.down = true;
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    rounds(rig, 3);
    assert_true(leaves(rig, ticket));
    assert_false(relay_any_weak(rig->relay, ticket, ticket));

    struct log *late = log_model_open(&rig->log, 1);
    const struct log_section *section = &rig->log.lanes[0].sections[1];
    (void)log_append(late, (struct slice){section->bytes, section->size}, SLICE(""));
    log_model_settle(&rig->log);
    ticket = ticket_of(rig, 0, add(rig, 0));
    rounds(rig, 10);
    assert_false(leaves(rig, ticket)); /* that may have been a new epoch */
    rig->store.down = false;
    rounds(rig, 12);
    assert_true(leaves(rig, ticket));
    assert_false(relay_any_weak(rig->relay, ticket, ticket));
    rig_free(rig);
}

TEST(a_cell_is_not_opened_while_the_store_is_down)
{
    struct rig *rig = rig_new();
    rig->store.down = true;
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    rounds(rig, 100);
    assert_int_equal(add(rig, 0).answer, ANSWER_CLOSED);
    struct relay_stats stats;
    relay_stats(rig->relay, &stats);
    assert_int_equal(stats.opening, (1u << CELLS) - 1);
    assert_string_equal(stats.reason, "the store does not say how far it is");
    rig->store.down = false;
    rounds(rig, 40);
    assert_int_equal(add(rig, 0).answer, ANSWER_COLD);
    rig_free(rig);
}

/* An event of the cell that must come after one of another. */
static void append_wait(struct rig *rig, unsigned cell, unsigned after, uint64_t sequence)
{
    struct event event = {
        .type = EVENT_AFTER, .id = SLICE("i0"), .after_origin = after, .after_sequence = sequence};
    assert_true(redis_append(&rig->redis, 0, &rig->redis.cells[cell], cell, &event, 1));
}

TEST(what_comes_after_another_cell_waits_for_it)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    open_counter(rig, 1);
    (void)add(rig, 0);
    append_wait(rig, 1, 0, sequence_of(1, 2)); /* which nobody has written yet */
    size_t before = rig->log.lanes[1].count;
    rounds(rig, 8);
    assert_int_equal(rig->log.lanes[1].count, before);
    (void)add(rig, 0);
    rounds(rig, 8);
    assert_int_equal(rig->log.lanes[1].count, before + 1);
    rig_free(rig);
}

TEST(what_comes_after_a_cell_that_is_down_goes_on_when_the_store_has_it)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    (void)add(rig, 0);
    rounds(rig, 8);
    uint64_t last = rig->redis.cells[0].last;
    relay_free(rig->relay); /* one that starts knows nothing */
    rig->redis.servers[0].down = true;
    log_model_leave(&rig->log, 0);
    rig->relay = relay_of(rig, 0);
    append_wait(rig, 1, 0, last);
    rounds(rig, 8);
    assert_int_equal(rig->redis.cells[1].entry_count, 0);
    rig_free(rig);
}

TEST(what_comes_after_an_epoch_that_another_has_begun_does_not_wait_for_ever)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    open_counter(rig, 1);
    (void)add(rig, 0);
    rounds(rig, 8);
    redis_replicate(&rig->redis, 0);
    redis_fail_over(&rig->redis, 0);
    open_elsewhere(rig);
    /* Cell 1 waits for the new epoch, of which we do not know, and that waits for cell 1. */
    append_wait(rig, 1, 0, sequence_of(2, 0));
    append_wait(rig, 0, 1, rig->redis.cells[1].last);
    size_t before = rig->log.lanes[0].count;
    rounds(rig, 12);
    assert_int_equal(rig->redis.cells[0].lease, 1);
    assert_int_equal(rig->redis.cells[1].entry_count, 0);
    assert_int_equal(rig->redis.cells[0].entry_count, 0);
    assert_int_equal(rig->log.lanes[0].count, before + 1);
    rig_free(rig);
}

TEST(what_another_relay_has_carried_over_is_not_waited_for)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    open_counter(rig, 1);
    (void)add(rig, 0);
    rounds(rig, 8);
    /* One that had the lease before us is late, and quicker than we are. */
    (void)add(rig, 0);
    let_go(&rig->redis.cells[0], rig->redis.cells[0].last);
    append_wait(rig, 1, 0, rig->redis.cells[0].last);
    rounds(rig, 8);
    assert_int_equal(rig->redis.cells[0].lease, 1);
    assert_int_equal(rig->redis.cells[1].entry_count, 0);
    rig_free(rig);
}

/* A millisecond later. */
static size_t carried_over_at_once(struct rig *rig)
{
    size_t before = rig->log.lanes[0].count;
    rig->now_ms++;
    (void)relay_step(rig->relay);
    log_model_settle(&rig->log);
    return rig->log.lanes[0].count - before;
}

TEST(what_nobody_waits_for_gathers_for_a_moment)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    rounds(rig, 60); /* nobody remembers that there was something else */
    (void)add(rig, 0);
    rig->now_ms += 25;
    assert_int_equal(carried_over_at_once(rig), 1); /* nothing came just before */
    (void)add(rig, 0);
    assert_int_equal(carried_over_at_once(rig), 0);
    (void)add(rig, 0);
    assert_int_equal(carried_over_at_once(rig), 0);
    rig->now_ms += 5;
    assert_int_equal(carried_over_at_once(rig), 2);
    (void)add(rig, 0);
    assert_int_equal(carried_over_at_once(rig), 0);
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0)); /* somebody waits for it, and for the other */
    assert_int_equal(carried_over_at_once(rig), 2);
    (void)carried_over_at_once(rig);
    assert_true(leaves(rig, ticket));
    rig_free(rig);
}

static unsigned readings;

static enum err count_and_read(struct outbox *base, uint64_t cells,
                               const uint64_t after[LIMIT_CELLS], uint32_t limit,
                               outbox_visit_fn *visit, void *arg, struct error *error)
{
    readings++;
    return outbox_read(base, cells, after, limit, visit, arg, error);
}

TEST(an_outbox_of_which_all_was_read_is_not_looked_at_again)
{
    struct rig *rig = rig_new();
    open_counter(rig, 0);
    rounds(rig, 60);
    struct outbox *outbox = redis_model_outbox(&rig->redis, 0);
    struct outbox_ops counting = *outbox->ops;
    counting.read = count_and_read;
    outbox->ops = &counting;
    rig->now_ms += 25;
    (void)relay_step(rig->relay); /* looks at everything, as it does now and then */
    readings = 0;
    uint64_t ticket = ticket_of(rig, 0, add(rig, 0));
    (void)carried_over_at_once(rig);
    (void)carried_over_at_once(rig);
    assert_true(leaves(rig, ticket));
    assert_int_equal(readings, 1);
    rig_free(rig);
}

RUN(cmocka_unit_test(a_cell_that_was_never_there_is_opened),
    cmocka_unit_test(an_answer_waits_until_the_log_has_it),
    cmocka_unit_test(an_answer_does_not_wait_for_a_cell_whose_server_is_down),
    cmocka_unit_test(while_the_log_is_down_answers_are_weak_and_catch_up_later),
    cmocka_unit_test(a_cell_that_lost_nothing_is_kept),
    cmocka_unit_test(a_cell_that_lost_what_the_log_has_is_emptied),
    cmocka_unit_test(data_of_another_time_is_not_kept_where_data_was_given_up),
    cmocka_unit_test(what_only_a_lost_server_had_is_weak),
    cmocka_unit_test(
        what_a_batch_did_before_its_cell_was_lost_does_not_rest_on_what_it_did_afterwards),
    cmocka_unit_test(what_a_server_does_that_was_replaced_is_weak_although_the_log_has_it),
    cmocka_unit_test(an_answer_leaves_also_when_another_has_appended_and_no_epoch_was_given),
    cmocka_unit_test(while_the_store_is_down_answers_leave_as_long_as_nobody_else_appends),
    cmocka_unit_test(a_cell_is_not_opened_while_the_store_is_down),
    cmocka_unit_test(what_comes_after_another_cell_waits_for_it),
    cmocka_unit_test(what_comes_after_a_cell_that_is_down_goes_on_when_the_store_has_it),
    cmocka_unit_test(what_comes_after_an_epoch_that_another_has_begun_does_not_wait_for_ever),
    cmocka_unit_test(what_another_relay_has_carried_over_is_not_waited_for),
    cmocka_unit_test(what_nobody_waits_for_gathers_for_a_moment),
    cmocka_unit_test(an_outbox_of_which_all_was_read_is_not_looked_at_again))
