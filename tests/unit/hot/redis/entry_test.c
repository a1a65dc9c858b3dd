#include "hot/redis/entry.h"

#include <stdio.h>
#include <string.h>

#include "core/event.h"
#include "core/sequence.h"
#include "unit/test.h"

static struct buffer section;

static enum err read_entry(struct slice bytes, uint64_t first, uint64_t last)
{
    section.size = 0;
    return entry_section(5, first, last, 1700000000000, bytes, false, &section, NULL);
}

static struct event next(struct section_reader *reader)
{
    struct event event;
    struct error error = {.text = ""};
    if (section_next(reader, &event, &error))
        fail_msg("%s", error.text);
    return event;
}

static struct section_reader open_section(void)
{
    struct section_reader reader;
    assert_int_equal(section_open(&reader, buffer_slice(&section), NULL), ERR_OK);
    return reader;
}

#define LIKES            \
    "\xa1l\xa5video\xa1" \
    "3"                  \
    "\xa2no\xa0\xa4like\x02\xa4Xann\xa4Ybob"
#define SUMS     \
    "\xa1"       \
    "a\xa1v\xa1" \
    "0"          \
    "\xa0\xa2\x02\x03"
#define KEYED          \
    "\xa1x\x01\xa1"    \
    "1"                \
    "\xa1v\xa1"        \
    "0"                \
    "\xa0\xa2kk\xb0"   \
    "00000000000000ff" \
    "\xa1"             \
    "1"                \
    "\xa0\xa1"         \
    "7"                \
    "\xb4"             \
    "12345678901234567890"

TEST(a_group_of_likes_is_an_event_for_each_user)
{
    assert_int_equal(read_entry(SLICE("\x99" LIKES), sequence_of(2, 8), sequence_of(2, 9)), ERR_OK);
    struct section_reader reader = open_section();
    struct event event = next(&reader);
    assert_int_equal(event.type, EVENT_REACT);
    assert_int_equal(event.origin, 5);
    assert_int_equal(event.sequence, sequence_of(2, 8));
    assert_int_equal(event.incarnation, 3);
    assert_true(slice_equal(event.id, SLICE("video")));
    assert_true(slice_equal(event.user, SLICE("ann")));
    assert_true(slice_equal(event.after, SLICE("like")));
    assert_true(slice_equal(event.region, SLICE("no")));
    event = next(&reader);
    assert_true(slice_equal(event.user, SLICE("bob")));
    assert_int_equal(section_next(&reader, &event, NULL), ERR_NOT_FOUND);
}

TEST(sums_and_single_events_follow_in_their_order)
{
    assert_int_equal(read_entry(SLICE("\xdc\x00\x20" SUMS KEYED), 1, 3), ERR_OK);
    struct section_reader reader = open_section();
    assert_int_equal(next(&reader).amount.small, 1);
    assert_int_equal(next(&reader).amount.small, -2);
    struct event event = next(&reader);
    assert_true(slice_equal(event.key, SLICE("kk")));
    assert_int_equal(event.answer.fingerprint, 255);
    assert_int_equal(event.answer.value.small, 7);
    assert_non_null(event.amount.big);
    event_done(&event);
}

TEST(heads_of_arrays_between_groups_say_nothing)
{
    assert_int_equal(read_entry(SLICE("\x90" LIKES "\xdc\x00\x05" SUMS "\x90" LIKES), 1, 6),
                     ERR_OK);
    struct section_reader reader = open_section();
    assert_true(slice_equal(next(&reader).user, SLICE("ann")));
    assert_true(slice_equal(next(&reader).user, SLICE("bob")));
    assert_int_equal(next(&reader).amount.small, 1);
    assert_int_equal(next(&reader).amount.small, -2);
    assert_true(slice_equal(next(&reader).user, SLICE("ann")));
}

/* Cut short anywhere it is refused; other bytes in it at least do no harm. */
TEST(an_entry_that_is_damaged_is_refused)
{
    char bytes[] = "\xdc\x00\x20" LIKES SUMS KEYED;
    size_t size = sizeof(bytes) - 1;
    assert_int_equal(read_entry((struct slice){bytes, size}, 1, 5), ERR_OK);
    assert_int_equal(read_entry((struct slice){bytes, size}, 1, 6), ERR_CORRUPT);
    assert_int_equal(read_entry((struct slice){bytes, size}, 5, 1), ERR_CORRUPT);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(read_entry((struct slice){bytes, cut}, 1, 5), ERR_CORRUPT);
    for (size_t at = 0; at < size; at++)
        for (unsigned value = 0; value < 256; value++) {
            char copy[sizeof(bytes)];
            memcpy(copy, bytes, sizeof(bytes));
            copy[at] = (char)value;
            read_entry((struct slice){copy, size}, 1, 5);
        }
}

TEST(raw_events_become_a_section_as_they_are)
{
    struct section raw;
    section_init(&raw);
    section_add(&raw, 0, SLICE("v"), 7, (struct slice){NULL, 0});
    section.size = 0;
    assert_int_equal(entry_section(5, 9, 9, 1, buffer_slice(&raw.body), true, &section, NULL),
                     ERR_OK);
    struct section_reader reader = open_section();
    assert_int_equal(next(&reader).amount.small, 7);
    section_done(&raw);
}

static void count(void *arg, struct slice user)
{
    assert_true(user.size > 0);
    ++*(unsigned *)arg;
}

TEST(a_page_of_users_is_visited_without_their_slices)
{
    unsigned seen = 0;
    uint32_t said = 0;
    assert_true(entry_users(SLICE("\x92\xa4Xann\xa2Yb"), count, &seen, &said));
    assert_int_equal(seen, 2);
    assert_int_equal(said, 2);
    assert_true(entry_users(SLICE("\x80"), count, &seen, &said));
    assert_int_equal(said, 0);
    assert_false(entry_users(SLICE("\x92\xa4Xann"), count, &seen, &said));
}

static int begin(void **state)
{
    (void)state;
    buffer_init(&section, 1 << 16);
    return 0;
}

static int end(void **state)
{
    (void)state;
    buffer_done(&section);
    return 0;
}

RUN(cmocka_unit_test_setup_teardown(a_group_of_likes_is_an_event_for_each_user, begin, end),
    cmocka_unit_test_setup_teardown(sums_and_single_events_follow_in_their_order, begin, end),
    cmocka_unit_test_setup_teardown(heads_of_arrays_between_groups_say_nothing, begin, end),
    cmocka_unit_test_setup_teardown(an_entry_that_is_damaged_is_refused, begin, end),
    cmocka_unit_test_setup_teardown(raw_events_become_a_section_as_they_are, begin, end),
    cmocka_unit_test_setup_teardown(a_page_of_users_is_visited_without_their_slices, begin, end))
