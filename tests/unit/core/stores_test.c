#include "core/stores.h"

#include "unit/test.h"

TEST(the_id_of_a_count_is_item_and_kind)
{
    char to[STORES_COUNT_ID_BYTES];
    struct slice id = stores_count_id(SLICE("a\0b"), SLICE("like"), to);
    assert_true(slice_equal(id, SLICE("a\0b/like")));
}

TEST(only_a_plain_sum_adds_only)
{
    struct store_unit unit = {.events = 1};
    assert_true(stores_adds_only(&unit));
    unit.has_deadline = true;
    assert_false(stores_adds_only(&unit));
    unit = (struct store_unit){.is_item = true};
    assert_false(stores_adds_only(&unit));
}

TEST(a_filter_without_a_wish_takes_all_and_every_wish_counts)
{
    struct store_life life = {.id = SLICE("a"), .state = LIFECYCLE_FAILED, .created_ms = 10};
    struct store_life_filter filter = {.has_state = false};
    assert_true(stores_life_matches(&life, &filter));
    filter = (struct store_life_filter){.has_state = true,
                                        .state = LIFECYCLE_FAILED,
                                        .id = SLICE("a"),
                                        .since_ms = 10,
                                        .until_ms = 10};
    assert_true(stores_life_matches(&life, &filter));
    filter.until_ms = 9;
    assert_false(stores_life_matches(&life, &filter));
    filter = (struct store_life_filter){.id = SLICE("b")};
    assert_false(stores_life_matches(&life, &filter));
}

TEST(an_event_id_that_is_none_is_all_zeroes)
{
    unsigned char read[STORE_EVENT_ID_BYTES];
    unsigned char zeroes[STORE_EVENT_ID_BYTES] = {0};
    stores_copy_event_id(SLICE("short"), read);
    assert_memory_equal(read, zeroes, sizeof(zeroes));
    stores_copy_event_id(SLICE("0123456789abcdef"), read);
    assert_memory_equal(read, "0123456789abcdef", sizeof(read));
}

TEST(the_audit_trail_names_events_and_places)
{
    unsigned char event_id[STORE_EVENT_ID_BYTES] = {0x01, 0xab, [15] = 0xff};
    char text[STORES_LETTER_TEXT_BYTES];
    assert_true(slice_equal(stores_letter_text(event_id, text),
                            SLICE("event 01ab00000000000000000000000000ff")));
    struct event repair = {.place = PLACE_STORE, .kind = SLICE("like"), .amount = number_of(-3)};
    struct buffer to;
    buffer_init(&to, 1024);
    stores_repair_text(&repair, &to);
    assert_true(slice_equal(buffer_slice(&to), SLICE("store was wrong, like: put right by -3")));
    buffer_done(&to);
}

RUN(cmocka_unit_test(the_id_of_a_count_is_item_and_kind),
    cmocka_unit_test(only_a_plain_sum_adds_only),
    cmocka_unit_test(a_filter_without_a_wish_takes_all_and_every_wish_counts),
    cmocka_unit_test(an_event_id_that_is_none_is_all_zeroes),
    cmocka_unit_test(the_audit_trail_names_events_and_places))
