/* store_lanes.h - what core/store.h promises to the aggregators of a log with many lanes,
 * several of which write at once.
 *
 * For stores that stand behind such a log; store_suite_of_lanes() runs these beside the
 * other cases. */
#ifndef STORE_LANES_H
#define STORE_LANES_H

#include "contract/store_cases.h"

#include "core/sequence.h"

static struct rig *other; /* another writer */

/* `rig` has lane 3, `other` has lane 5. */
static int set_up_lanes(void **state)
{
    int failed = set_up(state);
    rig->by_lane = true;
    rig->origin = 3;
    other = rig_new_beside(rig, 5);
    return failed;
}

static int set_up_names(void **state)
{
    rig = rig_new(form->open_named);
    rig->by_lane = rig->unnumbered = true;
    rig->origin = 3;
    other = rig_new_beside(rig, 5);
    (void)state;
    return 0;
}

static int tear_down_lanes(void **state)
{
    rig_free(other);
    return tear_down(state);
}

static struct state_mark mark_now(void)
{
    struct state_mark mark;
    assert_int_equal(store_mark(other->store, &mark, NULL), ERR_OK);
    return mark;
}

TEST(a_batch_moves_its_own_lanes_only)
{
    rig_add(rig, "c", 5);
    rig_apply_ok(rig);
    rig_add(other, "c", 7);
    rig_add(other, "d", 1);
    rig_apply_ok(other);
    assert_string_equal(rig_load(rig, "c"), "c value=12");
    struct state_mark mark = mark_now();
    assert_int_equal(mark.sequences[3], 1);
    assert_int_equal(mark.lanes[3].offset, 100);
    assert_int_equal(mark.sequences[5], 2);
    assert_int_equal(mark.lanes[5].offset, 100);
    assert_int_equal(mark.sequences[0], 0);
    assert_int_equal(mark.position.offset, 0);
    assert_int_equal(mark.counters, 2);
    rig_reopen(rig);
    assert_memory_equal(rig->mark.sequences, mark.sequences, sizeof(mark.sequences));
    assert_memory_equal(rig->mark.lanes, mark.lanes, sizeof(mark.lanes));
}

TEST(a_batch_that_begins_elsewhere_in_its_lane_does_nothing)
{
    rig_add(rig, "c", 5);
    struct store_batch batch = rig_batch(rig);
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    struct store_batch again = rig_batch(rig);
    struct error error = {.text = ""};
    assert_int_equal(store_apply(rig->store, &again, &error), ERR_INVALID);
    assert_string_not_equal(error.text, "");
    assert_string_equal(rig_load(rig, "c"), "c value=5");
    assert_memory_equal(mark_now().sequences, batch.after.sequences, sizeof(batch.after.sequences));

    /* Where the others are is not its business. */
    again.before_sequences[3] = batch.after.sequences[3];
    again.before_sequences[5] = 4711;
    again.after.sequences[3] = batch.after.sequences[3] + 1;
    assert_int_equal(store_apply(rig->store, &again, NULL), ERR_OK);
    assert_int_equal(mark_now().sequences[5], 0);
}

TEST(what_comes_after_the_mark_is_all_that_a_batch_may_bring)
{
    rig_add(rig, "c", 5);
    struct store_batch batch = rig_batch(rig);
    batch.before_sequences[3] = 17;
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_INVALID);
    assert_string_equal(rig_load(rig, "c"), "none");
}

/* It was gathered when the store had that, which has gone back since. */
TEST(a_batch_that_must_come_after_what_is_not_there_does_nothing)
{
    rig_add(rig, "c", 5);
    struct store_batch batch = rig_batch(rig);
    batch.needed_sequences[5] = 8;
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_INVALID);
    assert_string_equal(rig_load(rig, "c"), "none");
    struct store_batch first = {.lanes = UINT64_C(1) << 5, .after = mark_now(), .now_ms = 1};
    first.after.sequences[5] = 8;
    assert_int_equal(store_apply(rig->store, &first, NULL), ERR_OK);
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    assert_string_equal(rig_load(rig, "c"), "c value=5");
}

TEST(the_end_of_an_epoch_and_deletions_stay_with_their_lane)
{
    struct store_batch batch = rig_batch(rig);
    batch.after.sequences[3] = sequence_of(2, 0);
    batch.after.ended[3] = sequence_of(1, 7);
    batch.after.incarnations[3] = 9;
    batch.after.ended[5] = 4711; /* not its lane */
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    struct state_mark mark = mark_now();
    assert_int_equal(mark.sequences[3], sequence_of(2, 0));
    assert_int_equal(mark.ended[3], sequence_of(1, 7));
    assert_int_equal(mark.incarnations[3], 9);
    assert_int_equal(mark.ended[5], 0);
}

TEST(several_lanes_move_together)
{
    rig_add(rig, "c", 5);
    struct store_batch batch = rig_batch(rig);
    batch.lanes |= UINT64_C(1) << 5 | UINT64_C(1) << 63;
    batch.after.sequences[5] = 8;
    batch.after.sequences[63] = sequence_of(4, 2);
    batch.after.lanes[63] = (struct log_position){1, 1};
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    struct state_mark mark = mark_now();
    assert_int_equal(mark.sequences[5], 8);
    assert_int_equal(mark.sequences[63], sequence_of(4, 2));
    assert_int_equal(mark.lanes[63].segment, 1);
    /* One of them has moved on: all of the next batch is nothing. */
    rig->mark = batch.after;
    rig_forget(rig);
    rig_add(rig, "c", 1);
    struct store_batch next = rig_batch(rig);
    next.lanes = batch.lanes;
    next.before_sequences[5] = 7;
    assert_int_equal(store_apply(rig->store, &next, NULL), ERR_INVALID);
    assert_string_equal(rig_load(rig, "c"), "c value=5");
}

static uint64_t epoch_of(struct rig *of, unsigned origin, uint64_t above)
{
    uint64_t epoch = 0;
    struct error error;
    if (store_epoch(of->store, origin, above, &epoch, &error))
        fail_msg("%s", error.text);
    return epoch;
}

TEST(an_epoch_is_given_once_whoever_asks)
{
    uint64_t first = epoch_of(rig, 3, 0);
    assert_true(first > 0);
    uint64_t second = epoch_of(other, 3, 0);
    assert_true(second > first);
    assert_true(epoch_of(rig, 3, second + 10) > second + 10);
    rig_reopen(rig);
    assert_true(epoch_of(rig, 3, 0) > second + 11);
    assert_true(epoch_of(other, 63, 7) > 7); /* each origin has its own */
}

TEST(the_mark_says_which_epoch_was_given_last)
{
    assert_int_equal(mark_now().given[3], 0);
    uint64_t epoch = epoch_of(other, 3, 41);
    assert_int_equal(mark_now().given[3], epoch);
    assert_int_equal(mark_now().given[4], 0);
}

/* ---- two at once ---- */

enum { ROUNDS = 40, SHARED = 8 };

static const char *const shared[SHARED] = {"a", "b", "c", "d", "e", "f", "g", "h"};

/* What a writer's thread does, and what came of it. */
struct writer {
    struct rig *rig;
    bool backwards;
    char users[ROUNDS][SHARED][16];
    struct error error;
};

/* An outage that passes is tried again, as the aggregator does; only the mark tells whether a
 * batch is in. */
static enum err apply_until(struct rig *of, struct error *error)
{
    struct store_batch batch = rig_batch(of);
    enum err err = ERR_UNAVAILABLE;
    for (int i = 0; i < 50 && err == ERR_UNAVAILABLE; i++)
        err = store_apply(of->store, &batch, error);
    if (!err)
        of->mark = batch.after;
    rig_forget(of);
    return err;
}

static void *write_shared(void *arg)
{
    struct writer *writer = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SHARED; i++) {
            unsigned at = writer->backwards ? SHARED - 1 - i : i;
            char *user = writer->users[round][at];
            snprintf(user, 16, "%s%u", writer->backwards ? "1000" : "2000", round);
            rig_add(writer->rig, shared[at], 1);
        }
        for (unsigned i = 0; i < SHARED; i++)
            rig_react(writer->rig, i % 2 ? "v" : "w", writer->users[round][i], "", "like");
        if (apply_until(writer->rig, &writer->error))
            return NULL;
    }
    return NULL;
}

static void run_both(void *(*work)(void *), struct writer writers[2])
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &writers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        if (writers[i].error.code)
            fail_msg("writer %d: %s", i, writers[i].error.text);
    }
}

static void use_writers(struct writer writers[2])
{
    memset(writers, 0, 2 * sizeof(*writers));
    writers[0].rig = rig;
    writers[1].rig = other;
    writers[1].backwards = true;
}

TEST(two_writers_at_once_share_rows_and_their_totals_add_up)
{
    static struct writer writers[2];
    use_writers(writers);
    run_both(write_shared, writers);
    for (unsigned i = 0; i < SHARED; i++) {
        char wanted[32];
        snprintf(wanted, sizeof(wanted), "%s value=%u", shared[i], 2 * ROUNDS);
        assert_string_equal(rig_load(rig, shared[i]), wanted);
    }
    assert_string_equal(rig_load(rig, "v"), "v like=80 slices=1 like:<80>");
    assert_string_equal(rig_load(rig, "w"), "w like=80 slices=1 like:<80>");
    struct state_mark mark = mark_now();
    assert_int_equal(mark.counters, SHARED);
    assert_int_equal(mark.items, 2);
    assert_int_equal(mark.members, 160);
    assert_int_equal(mark.sequences[3], rig->sequence);
    assert_int_equal(mark.sequences[5], other->sequence);
}

static uint64_t epochs[2][ROUNDS];

static void *take_epochs(void *arg)
{
    struct writer *writer = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        enum err err = ERR_UNAVAILABLE;
        for (int j = 0; j < 50 && err == ERR_UNAVAILABLE; j++)
            err = store_epoch(writer->rig->store, 7, 0, &epochs[writer->backwards][i],
                              &writer->error);
        if (err)
            return NULL;
        writer->error.code = ERR_OK;
    }
    return NULL;
}

TEST(two_who_ask_for_epochs_at_once_get_different_ones)
{
    static struct writer writers[2];
    use_writers(writers);
    run_both(take_epochs, writers);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned j = 0; j < ROUNDS; j++)
            assert_int_not_equal(epochs[0][i], epochs[1][j]);
        assert_true(i == 0 || epochs[0][i] > epochs[0][i - 1]);
    }
}

static void *write_same_users(void *arg)
{
    struct writer *writer = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SHARED; i++) {
            char *user = writer->users[round][i];
            snprintf(user, 16, "user-%u", (round * SHARED + i) % 100);
            rig_react(writer->rig, "v", user, "", "like");
        }
        if (apply_until(writer->rig, &writer->error))
            return NULL;
    }
    return NULL;
}

/* Both know users by their names only, and meet the same new ones at the same time. */
TEST(a_user_whom_two_writers_meet_at_once_is_one_user)
{
    static struct writer writers[2];
    use_writers(writers);
    run_both(write_same_users, writers);
    assert_string_equal(rig_load(rig, "v"), "v like=100 slices=1 like*:<100>");
    assert_int_equal(mark_now().members, 100);
    uint64_t cursor = 0;
    uint64_t sum = 0;
    assert_int_equal(store_hashes(rig->reader, true, &cursor, 1000, print_hash, &sum, NULL),
                     ERR_OK);
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "user-%u", i);
        sum ^= hash_stable(slice_of(name));
    }
    assert_int_equal(sum, 0);
}

static void *move_same_lane(void *arg)
{
    struct writer *writer = arg;
    struct rig *of = writer->rig;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct store_batch batch;
        enum err err;
        rig_add(of, "c", 1);
        do {
            if (store_mark(of->store, &of->mark, &writer->error))
                return NULL;
            batch = rig_batch(of);
            batch.after.sequences[of->origin] = of->mark.sequences[of->origin] + 1;
            err = store_apply(of->store, &batch, &writer->error);
        } while (err == ERR_INVALID || err == ERR_UNAVAILABLE);
        rig_forget(of);
        if (err)
            return NULL;
        writer->error.code = ERR_OK;
    }
    return NULL;
}

/* Somebody who does not know yet that the lane is another's by now. */
TEST(of_two_who_move_the_same_lane_one_wins_each_time)
{
    static struct writer writers[2];
    use_writers(writers);
    other->origin = rig->origin;
    run_both(move_same_lane, writers);
    assert_string_equal(rig_load(rig, "c"), "c value=80");
    assert_int_equal(mark_now().sequences[3], 80);
}

/* ---- names ---- */

TEST(members_come_by_their_names_when_that_is_asked_for)
{
    rig_react(rig, "v", "ann", "", "like");
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "v", "bob", "", "dislike");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"),
                        "v like=2 dislike=1 slices=1 like:7 like*:ann dislike*:bob");
    rig_react(other, "v", "ann", "like", "dislike");
    rig_apply_ok(other);
    rig_react(rig, "v", "bob", "dislike", "");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 dislike=1 slices=1 like:7 dislike*:ann");
}

static void note_names(void *arg, const struct state_members *members, size_t count,
                       const struct event *pending, size_t pending_count)
{
    (void)pending;
    (void)pending_count;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < members[i].count; j++) {
            assert_non_null(members[i].names);
            *(uint64_t *)arg ^= hash_stable(members[i].names[j]);
        }
    }
}

TEST(so_they_do_slice_by_slice)
{
    like_many(0, 3000, "user-%u");
    rig_apply_ok(rig);
    like_many(3000, 2000, "user-%u");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=5000 slices=64");
    uint64_t sum = 0;
    for (uint32_t slice = 0; slice < STATE_SLICES; slice++)
        assert_int_equal(store_load_slice(rig->reader, SLICE("v"), slice, note_names, &sum, NULL),
                         ERR_OK);
    for (unsigned i = 0; i < 5000; i++)
        sum ^= hash_stable(slice_of(many[i]));
    assert_int_equal(sum, 0);
}

/* ---- mending, where others write as well ---- */

TEST(one_writer_at_a_time_puts_counts_right)
{
    bool is_ours = false;
    assert_int_equal(store_mending(rig->store, true, &is_ours, NULL), ERR_OK);
    assert_true(is_ours);
    assert_int_equal(store_mending(other->store, true, &is_ours, NULL), ERR_OK);
    assert_false(is_ours);
    assert_int_equal(store_mending(rig->store, false, &is_ours, NULL), ERR_OK);
    assert_int_equal(store_mending(other->store, true, &is_ours, NULL), ERR_OK);
    assert_true(is_ours);
    assert_int_equal(store_mending(other->store, false, &is_ours, NULL), ERR_OK);
}

/* `other` has never met the kind. */
TEST(members_are_mended_by_any_writer_but_only_where_the_store_is)
{
    like_many(0, 5, "%u");
    rig_apply_ok(rig);
    struct store_reaction members[] = {
        {.user = SLICE("3"), .number = 3, .after = SLICE("like")},
        {.user = SLICE("9"), .number = 9, .after = SLICE("like")},
    };
    for (int i = 0; i < 2; i++)
        members[i].bucket = bucket_of(SLICE("v"), members[i].user);
    uint64_t nowhere[LIMIT_CELLS] = {0};
    struct slice item = SLICE("v");
    struct slice why = SLICE("drift");
    assert_int_equal(store_mend_members(other->store, item, members, 2, nowhere, why, 1, NULL),
                     ERR_BUSY);
    inspect("v", "like", 5, 5);
    struct state_mark mark = mark_now();
    assert_int_equal(
        store_mend_members(other->store, item, members, 2, mark.sequences, why, 1, NULL), ERR_OK);
    inspect("v", "like", 5, 2);
    struct number by = number_of(-3);
    assert_int_equal(store_mend(other->store, item, 0, SLICE("like"), &by, why, 1, NULL), ERR_OK);
    rig_reopen(rig); /* the totals are others */
    inspect("v", "like", 2, 2);
}

#define LANES_CASE(test) cmocka_unit_test_setup_teardown(test, set_up_lanes, tear_down_lanes)
#define NAMES_CASE(test) cmocka_unit_test_setup_teardown(test, set_up_names, tear_down_lanes)

static inline int store_suite_of_lanes(const struct form *of)
{
    const struct CMUnitTest tests[] = {
        LANES_CASE(a_batch_moves_its_own_lanes_only),
        LANES_CASE(a_batch_that_begins_elsewhere_in_its_lane_does_nothing),
        LANES_CASE(what_comes_after_the_mark_is_all_that_a_batch_may_bring),
        LANES_CASE(a_batch_that_must_come_after_what_is_not_there_does_nothing),
        LANES_CASE(the_end_of_an_epoch_and_deletions_stay_with_their_lane),
        LANES_CASE(several_lanes_move_together),
        LANES_CASE(an_epoch_is_given_once_whoever_asks),
        LANES_CASE(the_mark_says_which_epoch_was_given_last),
        LANES_CASE(two_who_ask_for_epochs_at_once_get_different_ones),
        LANES_CASE(two_writers_at_once_share_rows_and_their_totals_add_up),
        LANES_CASE(of_two_who_move_the_same_lane_one_wins_each_time),
        LANES_CASE(one_writer_at_a_time_puts_counts_right),
        LANES_CASE(members_are_mended_by_any_writer_but_only_where_the_store_is),
        NAMES_CASE(a_user_whom_two_writers_meet_at_once_is_one_user),
        NAMES_CASE(members_come_by_their_names_when_that_is_asked_for),
        NAMES_CASE(so_they_do_slice_by_slice),
    };
    form = of;
    return cmocka_run_group_tests_name(form->name, tests, NULL, NULL);
}

#endif
