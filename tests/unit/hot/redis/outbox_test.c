/* outbox_test.c - what the relay is told of the outboxes, and what it tells them. */
#include "unit/hot/redis/rig.h"

#include "core/event.h"

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

/* ---- what was read ---- */

struct read {
    unsigned events;
    unsigned sections;
    uint64_t last;
    int64_t sum;
    enum event_type types[16];
};

static enum err take_section(void *arg, unsigned cell, struct slice section, uint64_t last,
                             struct error *error)
{
    struct read *read = arg;
    struct section_reader reader;
    struct event event;
    (void)error;
    assert_int_equal(section_open(&reader, section, NULL), ERR_OK);
    while (section_next(&reader, &event, NULL) == ERR_OK) {
        assert_int_equal(event.origin, cell);
        assert_true(event.sequence > read->last);
        read->last = event.sequence;
        read->sum += event.type == EVENT_ADD ? event.amount.small : 0;
        if (read->events < 16)
            read->types[read->events] = event.type;
        read->events++;
        event_done(&event);
    }
    assert_int_equal(read->last, last);
    read->sections++;
    return ERR_OK;
}

static struct read read_cell(struct hot *hot, unsigned cell, uint64_t after)
{
    struct outbox *outbox = rig_outbox(hot);
    struct read read = {.last = after};
    uint64_t afters[LIMIT_CELLS] = {0};
    afters[cell] = after;
    assert_int_equal(
        outbox->ops->read(outbox, rig_bit(cell), afters, 100, take_section, &read, NULL), ERR_OK);
    return read;
}

static uint64_t relay(struct hot *hot, unsigned cell, uint64_t sequence)
{
    struct outbox *outbox = rig_outbox(hot);
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t told;
    uint64_t stale;
    sequences[cell] = sequence;
    assert_int_equal(
        outbox->ops->relayed(outbox, rig_bit(cell), sequences, NULL, &told, &stale, NULL), ERR_OK);
    assert_int_equal(told, rig_bit(cell));
    return stale;
}

static uint64_t progress(struct hot *hot, unsigned cell)
{
    struct outbox *outbox = rig_outbox(hot);
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t opening;
    assert_int_equal(outbox->ops->progress(outbox, UINT64_MAX, sequences, &opening, NULL), ERR_OK);
    return sequences[cell];
}

/* ---- */

TEST(what_was_written_is_read_in_order_with_its_sequences)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    uint64_t last = 0;
    for (int i = 1; i <= 5; i++)
        last = rig_run(hot, rig_add("a", i)).sequence;
    struct read read = read_cell(hot, cell, 0);
    assert_int_equal(read.events, 5);
    assert_int_equal(read.sum, 15);
    assert_int_equal(read.last, last);
    read = read_cell(hot, cell, sequence_of(1, 3));
    assert_int_equal(read.events, 2);
    assert_int_equal(read.sum, 9);
}

/* Each event of a write with a key carries the value, however small the amount is. */
TEST(no_entry_is_larger_than_a_section_of_the_log)
{
    enum { COUNT = 2000 };
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    char digits[900];
    memset(digits, '9', sizeof(digits));
    struct op large = {.kind = OP_SET, .id = SLICE("a")};
    assert_int_equal(number_parse((struct slice){digits, sizeof(digits)}, &large.amount), ERR_OK);
    struct op answered = rig_run(hot, large);
    assert_int_equal(answered.code, ERR_OK);
    number_done(&answered.value);

    static struct op ops[COUNT];
    static char keys[COUNT][8];
    for (unsigned i = 0; i < COUNT; i++) {
        ops[i] = rig_add("a", 1);
        snprintf(keys[i], sizeof(keys[i]), "%u", i);
        ops[i].key = slice_of(keys[i]);
    }
    bool is_done = false;
    struct batch batch = {.ops = ops,
                          .count = COUNT,
                          .worker = 1,
                          .now_ms = env_wall_ms(env_system()),
                          .done = rig_done,
                          .arg = &is_done};
    hot_run(hot, &batch);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(ops[i].code, ERR_OK);
        number_done(&ops[i].value);
    }
    assert_int_equal(read_cell(hot, cell, 0).events, 1 + COUNT);
    number_done(&large.amount);
}

TEST(an_entry_that_makes_no_sense_does_not_keep_other_cells)
{
    struct hot *hot = rig_node(&rig);
    struct outbox *outbox = rig_outbox(hot);
    unsigned cell = rig_home("a");
    unsigned lower = (cell + LIMIT_CELLS - 1) % LIMIT_CELLS;
    unsigned higher = (cell + 1) % LIMIT_CELLS;
    rig_open_cell(hot, cell, false);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_OK);
    RIG_DO(&rig, "XADD", rig_key(&rig, hot, lower, "out"), "1-1", "f", "1", "t", "1", "d", "?");
    RIG_DO(&rig, "XADD", rig_key(&rig, hot, higher, "out"), "1-1", "f", "1", "t", "1", "d", "?");
    struct read read = {0};
    uint64_t afters[LIMIT_CELLS] = {0};
    assert_int_equal(outbox->ops->read(outbox, UINT64_MAX, afters, 100, take_section, &read, NULL),
                     ERR_CORRUPT);
    assert_int_equal(read.events, 1);
}

TEST(a_cell_that_was_written_to_is_dirty_once)
{
    struct hot *hot = rig_node(&rig);
    struct outbox *outbox = rig_outbox(hot);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    assert_int_equal(outbox->ops->dirty(outbox), 0);
    rig_run(hot, rig_add("a", 1));
    assert_int_equal(outbox->ops->dirty(outbox), rig_bit(cell));
    assert_int_equal(outbox->ops->dirty(outbox), 0);
    rig_run(hot, rig_get("a"));
    assert_int_equal(outbox->ops->dirty(outbox), 0);
}

TEST(what_the_log_has_is_let_go_of_and_others_are_told_how_far_it_is)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(one, cell, false);
    for (int i = 1; i <= 5; i++)
        rig_run(one, rig_add("a", i));
    assert_int_equal(progress(two, cell), sequence_of(1, 0));
    assert_int_equal(relay(one, cell, sequence_of(1, 3)), 0);
    assert_int_equal(progress(two, cell), sequence_of(1, 3));
    assert_int_equal(read_cell(two, cell, 0).events, 2);
    assert_int_equal(relay(one, cell, sequence_of(1, 2)), 0); /* late, by another */
    assert_int_equal(progress(two, cell), sequence_of(1, 3));
}

TEST(a_full_outbox_refuses_writes_until_the_log_has_some_of_it)
{
    rig.options.outbox_max = 3;
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    for (int i = 1; i <= 3; i++)
        assert_int_equal(rig_run(hot, rig_add("a", i)).code, ERR_OK);
    assert_int_equal(rig_run(hot, rig_add("a", 4)).code, ERR_BUSY);
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 6); /* and is read from */
    assert_int_equal(read_cell(hot, cell, 0).events, 3);
    assert_int_equal(relay(hot, cell, sequence_of(1, 1)), 0);
    assert_int_equal(rig_run(hot, rig_add("a", 4)).code, ERR_OK);
    assert_int_equal(rig_run(hot, rig_add("a", 5)).code, ERR_BUSY);
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 10);
}

TEST(a_relay_of_a_former_epoch_is_told_so)
{
    struct hot *hot = rig_node(&rig);
    struct hot *opener = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    rig_run(hot, rig_add("a", 1));
    uint64_t last = rig_run(hot, rig_add("a", 1)).sequence;
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "run", "another");
    struct outbox *outbox = rig_outbox(opener);
    uint64_t epoch;
    uint64_t had;
    assert_int_equal(outbox->ops->begin(outbox, cell, 0, &epoch, &had, NULL), ERR_OK);
    assert_int_equal(read_cell(hot, cell, 0).events, 2); /* also while it is being opened */
    assert_int_equal(relay(hot, cell, last - 1), 0);     /* the log has it, and the data */
    assert_int_equal(read_cell(hot, cell, 0).events, 1);
    assert_int_equal(progress(hot, cell), last - 1);
    assert_int_equal(relay(hot, cell, last + 1), rig_bit(cell)); /* the data does not */
    assert_int_equal(relay(opener, cell, last), 0);
    assert_int_equal(progress(hot, cell), last);
    assert_int_equal(outbox->ops->open(outbox, cell, epoch, 0, true, 0, NULL), ERR_OK);
    assert_int_equal(progress(hot, cell), sequence_of(epoch, 0));
    assert_int_equal(relay(hot, cell, last), rig_bit(cell)); /* another epoch */
}

/* Another process was taken for its server meanwhile. */
TEST(a_cell_that_is_open_in_an_epoch_that_has_ended_is_closed)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    struct outbox *outbox = rig_outbox(hot);
    uint64_t sequences[LIMIT_CELLS] = {0};
    sequences[cell] = rig_run(hot, rig_add("a", 1)).sequence;
    uint64_t next = sequence_epoch(sequences[cell]) + 1;
    assert_int_equal(outbox->ops->saved(outbox, rig_bit(cell), sequences, NULL), ERR_OK);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_OK);
    sequences[cell] = sequence_of(next, 0);
    assert_int_equal(outbox->ops->saved(outbox, rig_bit(cell), sequences, NULL), ERR_OK);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_UNAVAILABLE);
    uint64_t epoch;
    uint64_t had;
    assert_int_equal(outbox->ops->begin(outbox, cell, next, &epoch, &had, NULL), ERR_OK);
    assert_int_equal(epoch, next + 1);
}

/* A process that was replaced by a replica that lagged behind, made to follow that, and taken for
 * the primary again: it is the one that the cell was opened on, but not with the same data. */
TEST(a_cell_with_less_than_the_store_has_is_closed)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    struct outbox *outbox = rig_outbox(hot);
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t had;
    uint64_t epoch;
    rig_run(hot, rig_add("a", 1));
    sequences[cell] = rig_run(hot, rig_add("a", 1)).sequence;
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "n", "1");
    assert_int_equal(outbox->ops->begin(outbox, cell, 0, &epoch, &had, NULL), ERR_EXISTS);
    assert_int_equal(outbox->ops->saved(outbox, rig_bit(cell), sequences, NULL), ERR_OK);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_UNAVAILABLE);
    assert_int_equal(outbox->ops->begin(outbox, cell, 0, &epoch, &had, NULL), ERR_OK);
    assert_int_equal(had, sequences[cell] - 1); /* so what is there is not kept */
}

TEST(who_opens_a_cell_is_told_when_that_is_not_so_any_more)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    uint64_t sequences[LIMIT_CELLS] = {0};
    uint64_t openings[LIMIT_CELLS] = {0};
    uint64_t told;
    uint64_t stale;
    struct outbox *outbox = rig_outbox(hot);
    sequences[cell] = rig_run(hot, rig_add("a", 1)).sequence;
    openings[cell] = sequence_epoch(sequences[cell]) + 1;
    /* It was begun in another process; here it is open. */
    assert_int_equal(
        outbox->ops->relayed(outbox, rig_bit(cell), sequences, openings, &told, &stale, NULL),
        ERR_OK);
    assert_int_equal(stale, rig_bit(cell));
    assert_int_equal(read_cell(hot, cell, 0).events, 1);

    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "run", "another");
    uint64_t had;
    assert_int_equal(outbox->ops->begin(outbox, cell, 0, &openings[cell], &had, NULL), ERR_OK);
    assert_int_equal(
        outbox->ops->relayed(outbox, rig_bit(cell), sequences, openings, &told, &stale, NULL),
        ERR_OK);
    assert_int_equal(stale, 0);
    assert_int_equal(read_cell(hot, cell, 0).events, 0);
    uint64_t opening;
    uint64_t progress[LIMIT_CELLS] = {0};
    assert_int_equal(outbox->ops->progress(outbox, rig_bit(cell), progress, &opening, NULL),
                     ERR_OK);
    assert_int_equal(opening, rig_bit(cell)); /* so no answer may rest on it */
}

TEST(a_repair_is_noted_in_the_outbox_of_its_home)
{
    struct hot *hot = rig_node(&rig);
    unsigned cell = rig_home("a");
    rig_open_cell(hot, cell, false);
    struct event repair = {.type = EVENT_REPAIR,
                           .id = SLICE("a"),
                           .user_number = EVENT_NO_NUMBER,
                           .amount = number_of(-3),
                           .place = PLACE_STORE};
    assert_int_equal(hot_note(hot, &repair, 1000), ERR_OK);
    struct read read = read_cell(hot, cell, 0);
    assert_int_equal(read.events, 1);
    assert_int_equal(read.types[0], EVENT_REPAIR);
    assert_int_equal(read.last, sequence_of(1, 1));
    assert_int_equal(rig_outbox(hot)->ops->dirty(rig_outbox(hot)), rig_bit(cell));
}

/* ---- leases ---- */

static uint64_t leased(struct hot *hot)
{
    struct outbox *outbox = rig_outbox(hot);
    return outbox->ops->leased(outbox);
}

static unsigned count(uint64_t cells)
{
    return (unsigned)__builtin_popcountll(cells);
}

TEST(a_node_alone_relays_all_cells)
{
    struct hot *hot = rig_node(&rig);
    assert_int_equal(leased(hot), UINT64_MAX);
}

TEST(leases_come_to_be_shared_evenly_and_no_cell_is_anybodys_twice)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    uint64_t ones = leased(one);
    uint64_t twos = leased(two);
    for (unsigned i = 0; i < 100 && (count(ones) != 32 || count(twos) != 32); i++) {
        usleep(200000);
        uint64_t began_ns = env_monotonic_ns(env_system());
        ones = leased(one);
        twos = leased(two);
        if (env_monotonic_ns(env_system()) - began_ns < 1000000000) /* or a lease may have ended */
            assert_int_equal(ones & twos, 0);
    }
    assert_int_equal(count(ones), 32);
    assert_int_equal(count(twos), 32);
}

TEST(the_cells_of_a_node_that_is_gone_are_taken_up)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    assert_int_equal(leased(one), UINT64_MAX);
    assert_int_equal(leased(two), 0);
    uint64_t cells = 0;
    for (unsigned i = 0; i < 60 && cells != UINT64_MAX; i++) {
        usleep(100000);
        cells = leased(two);
    }
    assert_int_equal(cells, UINT64_MAX);
}

TEST(leases_tell_which_cells_are_open)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    leased(one);
    assert_int_equal(rig_outbox(one)->ops->closed(rig_outbox(one)), UINT64_MAX);
    rig_open_cell(two, 7, false);
    usleep(300000);
    leased(one);
    assert_int_equal(rig_outbox(one)->ops->closed(rig_outbox(one)), ~rig_bit(7));
}

TEST(every_node_knows_how_much_waits_for_the_log)
{
    struct hot *one = rig_node(&rig);
    struct hot *two = rig_node(&rig);
    rig_open_all(one);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_run(one, rig_add("a", 1)).code, ERR_OK);
    assert_int_equal(rig_run(one, rig_add("b", 1)).code, ERR_OK);
    assert_true(rig_home("a") != rig_home("b"));
    leased(one);
    leased(two);
    struct hot *nodes[] = {one, two};
    for (unsigned i = 0; i < 2; i++) {
        struct hot_stats stats;
        hot_stats(nodes[i], &stats);
        assert_int_equal(stats.outbox_entries, 4);
        assert_int_equal(stats.outbox_longest, 3);
        assert_int_equal(stats.outbox_max, rig.options.outbox_max);
    }
    relay(one, rig_home("a"), sequence_of(1, 3));
    usleep(300000); /* until the next round */
    leased(two);
    struct hot_stats stats;
    hot_stats(two, &stats);
    assert_int_equal(stats.outbox_entries, 1);
    assert_int_equal(stats.outbox_longest, 1);
}

#define OUTBOX(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

RUN(OUTBOX(what_was_written_is_read_in_order_with_its_sequences),
    OUTBOX(no_entry_is_larger_than_a_section_of_the_log),
    OUTBOX(an_entry_that_makes_no_sense_does_not_keep_other_cells),
    OUTBOX(a_cell_that_was_written_to_is_dirty_once),
    OUTBOX(what_the_log_has_is_let_go_of_and_others_are_told_how_far_it_is),
    OUTBOX(a_full_outbox_refuses_writes_until_the_log_has_some_of_it),
    OUTBOX(a_relay_of_a_former_epoch_is_told_so),
    OUTBOX(a_cell_that_is_open_in_an_epoch_that_has_ended_is_closed),
    OUTBOX(a_cell_with_less_than_the_store_has_is_closed),
    OUTBOX(who_opens_a_cell_is_told_when_that_is_not_so_any_more),
    OUTBOX(a_repair_is_noted_in_the_outbox_of_its_home), OUTBOX(a_node_alone_relays_all_cells),
    OUTBOX(leases_come_to_be_shared_evenly_and_no_cell_is_anybodys_twice),
    OUTBOX(the_cells_of_a_node_that_is_gone_are_taken_up), OUTBOX(leases_tell_which_cells_are_open),
    OUTBOX(every_node_knows_how_much_waits_for_the_log))
