/* lookback_test.c - what counts of a log of many lanes that is read again: the same that counted
 * when it was carried into the store. */
#include "flow/lookback.h"

#include <stdio.h>
#include <string.h>

#include "core/sequence.h"
#include "unit/test.h"

/* ---- a log: sections by lane; the offset of a position counts them ---- */

#define SECTIONS 16u

struct lane {
    struct buffer sections[SECTIONS];
    size_t count;
};

static struct rig {
    struct log log;
    struct store store;
    struct store_reader reader;
    struct desk desk;
    struct desk_seat seat;
    struct lane lanes[LIMIT_CELLS];
    uint64_t cut;
    uint64_t appears_later; /* a section of lane 0 that is there at the second scan only */
    unsigned scans;
    struct log_position other_log; /* that the store was behind before */
    unsigned events;
} rig;

static enum err scan(struct log *log, struct log_scan *scan, struct error *error)
{
    (void)log;
    rig.scans++;
    scan->cut = rig.cut;
    if (scan->must_be_whole && scan->cut != 0)
        return error_set(error, ERR_OUT_OF_RANGE, "it has no beginning");
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        size_t end = rig.lanes[lane].count;
        if (lane == 0 && rig.scans == 1)
            end -= rig.appears_later;
        while (scan->at[lane].offset < end) {
            struct log_position next = {.offset = scan->at[lane].offset + 1};
            struct slice section = buffer_slice(&rig.lanes[lane].sections[next.offset - 1]);
            enum err err = scan->visit(scan->arg, lane, section, next, error);
            if (err)
                return err;
            scan->at[lane] = next;
        }
    }
    return ERR_OK;
}

static enum err inspect(struct store_reader *reader, struct slice id, struct slice kind,
                        struct number *ret_value, int64_t *ret_members, struct state_mark *ret_mark,
                        struct error *error)
{
    (void)reader;
    (void)id;
    (void)kind;
    (void)ret_value;
    (void)error;
    *ret_members = 0;
    *ret_mark = (struct state_mark){.position = rig.other_log};
    return ERR_NOT_FOUND;
}

static const struct log_ops log_ops = {.name = "test", .scan = scan};
static const struct store_ops store_ops = {.name = "test", .inspect = inspect};

static int begin(void **state)
{
    (void)state;
    rig = (struct rig){.log = {.ops = &log_ops, .lanes = LIMIT_CELLS},
                       .store = {.ops = &store_ops},
                       .reader = {.store = &rig.store}};
    rig.desk.log = &rig.log;
    rig.desk.options.env = env_system();
    rig.seat.desk = &rig.desk;
    rig.seat.reader = &rig.reader;
    bell_init(&rig.seat.bell);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++)
        for (size_t i = 0; i < rig.lanes[lane].count; i++)
            buffer_done(&rig.lanes[lane].sections[i]);
    bell_done(&rig.seat.bell);
    return 0;
}

static struct buffer *new_section(unsigned lane)
{
    assert_true(rig.lanes[lane].count < SECTIONS);
    struct buffer *bytes = &rig.lanes[lane].sections[rig.lanes[lane].count++];
    buffer_init(bytes, 1 << 16);
    return bytes;
}

/* Events that add 1 each, from `first` on, by `origin`. */
static void append_of(unsigned lane, unsigned origin, uint64_t first, unsigned count)
{
    struct section section;
    section_init(&section);
    for (unsigned i = 0; i < count; i++)
        section_add(&section, 0, SLICE("views"), 1, (struct slice){0});
    char header[SECTION_HEADER_MAX];
    size_t size = section_header(&section, origin, first, 1000, header);
    struct buffer *bytes = new_section(lane);
    assert_int_equal(buffer_append(bytes, header, size), ERR_OK);
    assert_int_equal(buffer_append_slice(bytes, buffer_slice(&section.body)), ERR_OK);
    section_done(&section);
}

static void append(unsigned lane, uint64_t epoch, uint64_t n, unsigned count)
{
    append_of(lane, lane, sequence_of(epoch, n), count);
}

/* ---- reading ---- */

static enum err take(void *arg, struct slice section, struct log_position next, struct error *error)
{
    (void)arg;
    (void)next;
    struct section_reader reader;
    struct event event;
    enum err err = section_open(&reader, section, error);
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        rig.events++;
        event_done(&event);
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err read_all(const uint64_t *until)
{
    struct error error = {.text = ""};
    return lookback_all(&rig.seat, until, take, NULL, &error);
}

/* ---- what counts ---- */

TEST(all_lanes_are_read_from_their_beginning)
{
    append(0, 1, 1, 3);
    append(0, 1, 4, 2);
    append(63, 2, 0, 4);
    assert_int_equal(read_all(NULL), ERR_OK);
    assert_int_equal(rig.events, 9);
}

TEST(what_comes_twice_counts_once_also_in_part)
{
    append(5, 1, 1, 3);
    append(5, 1, 1, 3);
    append(5, 1, 2, 4); /* two of them are new */
    append(5, 1, 6, 1);
    assert_int_equal(read_all(NULL), ERR_OK);
    assert_int_equal(rig.events, 6);
}

TEST(what_comes_late_from_an_epoch_that_has_ended_does_not_count)
{
    append(5, 1, 1, 3);
    append(5, 2, 0, 1);
    append(5, 1, 4, 5); /* nobody was told that it is in the log */
    append(5, 2, 1, 2);
    assert_int_equal(read_all(NULL), ERR_OK);
    assert_int_equal(rig.events, 6);
}

TEST(what_became_a_dead_letter_does_not_count)
{
    append(5, 1, 1, 3);
    assert_int_equal(buffer_append_slice(new_section(5), SLICE("nonsense")), ERR_OK);
    append_of(5, 6, sequence_of(1, 4), 2); /* of another cell */
    append(5, 1, 4, 1);
    rig.lanes[5].sections[3].size--; /* its last event is cut short */
    append(5, 1, 5, 1);
    assert_int_equal(read_all(NULL), ERR_OK);
    assert_int_equal(rig.events, 4);
}

TEST(what_is_missing_is_an_error)
{
    append(5, 1, 1, 3);
    append(5, 1, 5, 1);
    assert_int_equal(read_all(NULL), ERR_CORRUPT);
}

TEST(a_log_without_its_beginning_proves_nothing)
{
    append(5, 1, 1, 3);
    rig.cut = UINT64_C(1) << 5;
    assert_int_equal(read_all(NULL), ERR_OUT_OF_RANGE);
    assert_int_equal(rig.events, 0);
    rig.cut = 0;
    rig.other_log.segment = 1; /* the store has more than ever was in this one */
    assert_int_equal(read_all(NULL), ERR_OUT_OF_RANGE);
    assert_int_equal(rig.events, 0);
}

TEST(what_is_on_its_way_into_the_log_is_waited_for)
{
    uint64_t until[LIMIT_CELLS] = {0};
    until[0] = sequence_of(1, 4);
    until[7] = UINT64_MAX; /* it has no part there */
    append(0, 1, 1, 3);
    append(0, 1, 4, 1);
    rig.appears_later = 1;
    assert_int_equal(read_all(until), ERR_OK);
    assert_int_equal(rig.events, 4);
    assert_int_equal(rig.scans, 2);
}

TEST(reading_up_to_a_mark_goes_on_from_there)
{
    struct lookback lookback;
    struct error error = {.text = ""};
    struct state_mark mark = {0};
    append(5, 1, 1, 3);
    append(5, 1, 4, 2);
    append(6, 1, 1, 1);
    lookback_init(&lookback, &rig.seat, take, NULL);
    mark.sequences[5] = sequence_of(1, 3);
    mark.lanes[5].offset = 1;
    assert_int_equal(lookback_read_to(&lookback, &mark, &error), ERR_OK);
    assert_int_equal(rig.events, 3);
    mark.sequences[5] = sequence_of(1, 5);
    mark.lanes[5].offset = 2;
    mark.sequences[6] = sequence_of(1, 1);
    mark.lanes[6].offset = 1;
    assert_int_equal(lookback_read_to(&lookback, &mark, &error), ERR_OK);
    assert_int_equal(rig.events, 6);
    lookback_done(&lookback);
}

TEST(how_far_back_the_log_goes_is_said)
{
    struct error error = {.text = ""};
    int64_t since_ms = -1;
    append(5, 1, 4, 3);
    assert_int_equal(lookback_reach(&rig.seat, &since_ms, &error), ERR_OK);
    assert_int_equal(since_ms, 0);
    rig.cut = UINT64_C(1) << 5;
    assert_int_equal(lookback_reach(&rig.seat, &since_ms, &error), ERR_OK);
    assert_int_equal(since_ms, 1000);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(all_lanes_are_read_from_their_beginning),
        CASE(what_comes_twice_counts_once_also_in_part),
        CASE(what_comes_late_from_an_epoch_that_has_ended_does_not_count),
        CASE(what_became_a_dead_letter_does_not_count),
        CASE(what_is_missing_is_an_error),
        CASE(a_log_without_its_beginning_proves_nothing),
        CASE(what_is_on_its_way_into_the_log_is_waited_for),
        CASE(reading_up_to_a_mark_goes_on_from_there),
        CASE(how_far_back_the_log_goes_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
