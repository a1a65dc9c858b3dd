#include "flow/sums.h"

#include <stdio.h>

#include "unit/test.h"

static struct kinds kinds;

static struct sums *make(void)
{
    assert_int_equal(kinds_parse(&kinds, SLICE("like,dislike"), NULL), ERR_OK);
    return sums_new(&kinds, 7);
}

static void add(struct sums *sums, const char *id, uint32_t incarnation, int64_t amount,
                uint32_t origin, uint64_t sequence)
{
    struct event event = {.type = EVENT_ADD,
                          .id = slice_of(id),
                          .incarnation = incarnation,
                          .amount = number_of(amount),
                          .origin = origin,
                          .sequence = sequence};
    sums_take(sums, &event);
}

static void delete_it(struct sums *sums, const char *id, uint32_t incarnation, uint32_t next)
{
    struct event event = {.type = EVENT_DELETE,
                          .id = slice_of(id),
                          .incarnation = incarnation,
                          .next_incarnation = next};
    sums_take(sums, &event);
}

static void react(struct sums *sums, const char *item, const char *before, const char *after)
{
    struct event event = {.type = EVENT_REACT,
                          .id = slice_of(item),
                          .user = SLICE("ann"),
                          .before = slice_of(before),
                          .after = slice_of(after)};
    sums_take(sums, &event);
}

TEST(events_up_to_their_sequences_count_and_no_others)
{
    struct sums *sums = make();
    uint64_t until[LIMIT_CELLS] = {[0] = 2, [3] = 1};
    struct sums_entry *some = sums_watch(sums, SLICE("views"), until, NULL);
    struct sums_entry *all = sums_watch(sums, SLICE("views"), NULL, NULL);
    add(sums, "views", 0, 1, 0, 1);
    add(sums, "views", 0, 10, 0, 2);
    add(sums, "views", 0, 100, 0, 3);
    add(sums, "views", 0, 1000, 3, 1);
    add(sums, "views", 0, 10000, 3, 2);
    add(sums, "other", 0, 7, 0, 4);
    assert_int_equal(some->value.small, 1011);
    assert_int_equal(some->events, 3);
    assert_int_equal(all->value.small, 11111);
    assert_int_equal(sums_count(sums), 2);
    sums_free(sums);
}

TEST(reactions_count_by_kind)
{
    struct sums *sums = make();
    struct sums_entry *item = sums_watch(sums, SLICE("video1"), NULL, NULL);
    react(sums, "video1", "", "like");
    react(sums, "video1", "like", "dislike");
    react(sums, "video1", "", "like");
    assert_true(item->is_item);
    assert_int_equal(item->counts[0], 1);
    assert_int_equal(item->counts[1], 1);
    sums_free(sums);
}

TEST(a_deletion_begins_anew_and_late_events_do_not_count)
{
    struct sums *sums = make();
    struct sums_entry *entry = sums_watch(sums, SLICE("views"), NULL, NULL);
    add(sums, "views", 0, 5, 0, 1);
    assert_false(entry->begins);
    delete_it(sums, "views", 0, 4);
    add(sums, "views", 0, 7, 1, 1); /* late */
    assert_int_equal(entry->value.small, 0);
    assert_int_equal(entry->events, 0);
    assert_true(entry->begins);
    add(sums, "views", 6, 2, 0, 2);
    assert_int_equal(entry->value.small, 2);
    assert_true(entry->begins);
    sums_free(sums);
}

/* Seen on a trimmed log: an incarnation that is not the first is no sign of a deletion. */
TEST(without_a_deletion_what_came_before_stays_part_of_it)
{
    struct sums *sums = make();
    struct sums_entry *entry = sums_watch(sums, SLICE("views"), NULL, NULL);
    add(sums, "views", 6, 2, 0, 2);
    assert_int_equal(entry->value.small, 2);
    assert_false(entry->begins);

    entry = sums_watch(sums, SLICE("votes"), NULL, NULL);
    add(sums, "votes", 5, 100, 1, 1); /* late: the deletion is no longer in the log */
    add(sums, "votes", 6, 2, 0, 2);
    assert_int_equal(entry->value.small, 2);
    assert_false(entry->begins);
    sums_free(sums);
}

TEST(all_ids_are_counted_when_wanted_and_a_reactions_counter_is_its_items)
{
    struct sums *sums = make();
    sums_watch_all(sums);
    for (unsigned i = 0; i < 5000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%u", i % 1000);
        add(sums, id, 0, 1, 0, i + 1);
    }
    assert_int_equal(sums_count(sums), 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(sums_at(sums, i)->value.small, 5);
    struct event create = {
        .type = EVENT_CREATE, .id = SLICE("video1/like"), .create = {.shards = 2}};
    sums_take(sums, &create);
    assert_true(slice_equal(sums_at(sums, 1000)->id, SLICE("video1")));
    sums_clear(sums);
    assert_int_equal(sums_count(sums), 0);
    sums_free(sums);
}

RUN(cmocka_unit_test(events_up_to_their_sequences_count_and_no_others),
    cmocka_unit_test(reactions_count_by_kind),
    cmocka_unit_test(a_deletion_begins_anew_and_late_events_do_not_count),
    cmocka_unit_test(without_a_deletion_what_came_before_stays_part_of_it),
    cmocka_unit_test(all_ids_are_counted_when_wanted_and_a_reactions_counter_is_its_items))
