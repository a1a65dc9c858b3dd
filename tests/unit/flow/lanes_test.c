/* lanes_test.c - aggregators over a log of many lanes and a store, both in memory: what is
 * applied, in which order, and what waits. */
#include "flow/aggregator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "core/sequence.h"
#include "flow/lanes.h"
#include "unit/test.h"

/* ---- the clock ---- */

static uint64_t clock_ns;

static uint64_t fake_ns(struct env *env)
{
    (void)env;
    return clock_ns;
}

static int64_t fake_ms(struct env *env)
{
    (void)env;
    return 1000000 + (int64_t)(clock_ns / 1000000);
}

static uint64_t fake_random(struct env *env)
{
    (void)env;
    return 4;
}

static struct env env = {.monotonic_ns = fake_ns, .wall_ms = fake_ms, .random = fake_random};

/* ---- a log: sections by lane; the offset of a position counts them ---- */

#define SECTIONS 64u

struct lane {
    char *sections[SECTIONS];
    size_t sizes[SECTIONS];
    size_t count;
    size_t first; /* those before were let go of */
    uint64_t released;
};

struct lanes_log {
    struct log base;
    struct lane lanes[LIMIT_CELLS];
    uint64_t owned;
    unsigned dead;
};

static enum err log_follow_lane(struct log *base, unsigned number, struct log_position *at,
                                uint64_t limit, log_visit_fn *visit, void *arg, struct error *error)
{
    struct lane *lane = &((struct lanes_log *)base)->lanes[number];
    if (at->offset < lane->first)
        return error_set(error, ERR_NOT_FOUND, "lane %u begins with %zu", number, lane->first);
    if (at->offset > lane->count)
        return error_set(error, ERR_INVALID, "lane %u ends with %zu", number, lane->count);
    for (uint64_t bytes = 0; at->offset < lane->count && bytes < limit;) {
        size_t i = at->offset;
        struct log_position next = {1, i + 1};
        enum err err = visit(arg, (struct slice){lane->sections[i], lane->sizes[i]}, next, error);
        if (err)
            return err;
        *at = next;
        bytes += lane->sizes[i];
    }
    return ERR_OK;
}

static struct log_position log_end_of(struct log *base, unsigned lane)
{
    return (struct log_position){1, ((struct lanes_log *)base)->lanes[lane].count};
}

static uint64_t log_owned_lanes(struct log *base)
{
    return ((struct lanes_log *)base)->owned;
}

static enum err log_release_lane(struct log *base, unsigned lane, struct log_position position,
                                 struct error *error)
{
    (void)error;
    ((struct lanes_log *)base)->lanes[lane].released = position.offset;
    return ERR_OK;
}

static void log_note_dead(struct log *base, const struct log_letter *letter)
{
    (void)letter;
    ((struct lanes_log *)base)->dead++;
}

static const struct log_ops log_ops = {
    .name = "lanes",
    .follow = log_follow_lane,
    .end = log_end_of,
    .owned = log_owned_lanes,
    .release = log_release_lane,
    .dead = log_note_dead,
};

/* ---- a store: the mark, and a line for each thing that was applied ---- */

struct fake_store {
    struct store base;
    struct state_mark mark;
    char text[4096];
    unsigned batches;
    unsigned poison;
    bool is_down;
    bool forgets_answer; /* the next batch is applied, and nobody is told */
};

static enum err store_mark_now(struct store *base, struct state_mark *ret, struct error *error)
{
    struct fake_store *store = (struct fake_store *)base;
    if (store->is_down)
        return error_set(error, ERR_UNAVAILABLE, "down");
    *ret = store->mark;
    return ERR_OK;
}

static void write_unit(struct fake_store *store, const struct store_unit *unit)
{
    size_t used = strlen(store->text);
    char *to = store->text + used;
    size_t room = sizeof(store->text) - used;
    if (!unit->is_item) {
        snprintf(to, room, "%.*s+%lld ", SLICE_ARGS(unit->id), (long long)unit->delta.small);
        return;
    }
    for (size_t i = 0; i < unit->reaction_count; i++) {
        int size =
            snprintf(to, room, "%.*s:%.*s>%.*s ", SLICE_ARGS(unit->id),
                     SLICE_ARGS(unit->reactions[i].user), SLICE_ARGS(unit->reactions[i].after));
        to += size;
        room -= (size_t)size;
    }
}

static enum err store_apply_batch(struct store *base, struct store_batch *batch,
                                  struct error *error)
{
    struct fake_store *store = (struct fake_store *)base;
    if (store->is_down)
        return error_set(error, ERR_UNAVAILABLE, "down");
    assert_true(batch->lanes != 0);
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (batch->needed_sequences[lane] > store->mark.sequences[lane])
            return error_set(error, ERR_INVALID, "lane %u is not so far", lane);
        if (!(batch->lanes >> lane & 1))
            continue;
        if (batch->before_sequences[lane] != store->mark.sequences[lane])
            return error_set(error, ERR_INVALID, "lane %u is elsewhere", lane);
    }
    for (unsigned lane = 0; lane < LIMIT_CELLS; lane++) {
        if (!(batch->lanes >> lane & 1))
            continue;
        store->mark.lanes[lane] = batch->after.lanes[lane];
        store->mark.sequences[lane] = batch->after.sequences[lane];
        store->mark.ended[lane] = batch->after.ended[lane];
    }
    for (size_t i = 0; i < batch->unit_count; i++)
        write_unit(store, &batch->units[i]);
    store->poison += (unsigned)batch->poison_count;
    store->batches++;
    if (store->forgets_answer) {
        store->forgets_answer = false;
        return error_set(error, ERR_UNAVAILABLE, "the connection was lost");
    }
    return ERR_OK;
}

static enum err store_due_none(struct store *store, int64_t now_ms, store_letter_fn *visit,
                               void *arg, struct error *error)
{
    (void)store;
    (void)now_ms;
    (void)visit;
    (void)arg;
    (void)error;
    return ERR_NOT_FOUND;
}

static enum err store_thin_none(struct store *store, int64_t lives_before_ms,
                                int64_t history_before_ms, int64_t keys_before_ms, uint32_t limit,
                                uint64_t *ret_removed, struct error *error)
{
    (void)store;
    (void)lives_before_ms;
    (void)history_before_ms;
    (void)keys_before_ms;
    (void)limit;
    (void)error;
    *ret_removed = 0;
    return ERR_OK;
}

static enum err store_rest_none(struct store *store, struct error *error)
{
    (void)store;
    (void)error;
    return ERR_OK;
}

static const struct store_ops store_ops = {
    .name = "fake",
    .mark = store_mark_now,
    .apply = store_apply_batch,
    .due = store_due_none,
    .thin = store_thin_none,
    .rest = store_rest_none,
};

/* ---- the rig ---- */

struct rig {
    struct lanes_log log;
    struct fake_store store;
    struct kinds kinds;
    struct aggregator *aggregator;
};

static struct aggregator *aggregator_over(struct rig *rig, struct log *log)
{
    struct aggregator_options options = {
        .env = &env,
        .log = log,
        .store = &rig->store.base,
        .kinds = &rig->kinds,
        .flush_interval_ms = 1000,
        .flush_events = 2000,
    };
    return aggregator_new(&options, &(struct state_mark){0});
}

static struct rig *rig_new(void)
{
    struct rig *rig = memory_take_zeroed(sizeof(*rig));
    rig->log.base = (struct log){.ops = &log_ops, .lanes = LIMIT_CELLS};
    rig->log.owned = UINT64_MAX;
    rig->store.base.ops = &store_ops;
    assert_int_equal(kinds_parse(&rig->kinds, SLICE("like,dislike"), NULL), ERR_OK);
    rig->aggregator = aggregator_over(rig, &rig->log.base);
    return rig;
}

static void rig_free(struct rig *rig)
{
    aggregator_free(rig->aggregator);
    for (unsigned i = 0; i < LIMIT_CELLS; i++) {
        for (size_t k = 0; k < rig->log.lanes[i].count; k++)
            free(rig->log.lanes[i].sections[k]);
    }
    free(rig);
}

static void put_bytes(struct rig *rig, unsigned number, const char *data, size_t size)
{
    struct lane *lane = &rig->log.lanes[number];
    assert_true(lane->count < SECTIONS);
    lane->sections[lane->count] = memcpy(memory_take(size), data, size);
    lane->sizes[lane->count++] = size;
}

/* A section of one event. */
static void put(struct rig *rig, unsigned lane, uint64_t sequence, const struct event *event)
{
    struct section section;
    section_init(&section);
    section_event(&section, event);
    char bytes[512];
    size_t size = section_header(&section, lane, sequence, 1000000, bytes);
    memcpy(bytes + size, section.body.data, section.body.size);
    put_bytes(rig, lane, bytes, size + section.body.size);
    section_done(&section);
}

static void put_add(struct rig *rig, unsigned lane, uint64_t sequence, const char *id)
{
    put(rig, lane, sequence,
        &(struct event){.type = EVENT_ADD, .id = slice_of(id), .amount = number_of(1)});
}

static void put_react(struct rig *rig, unsigned lane, uint64_t sequence, const char *user,
                      const char *kind)
{
    put(rig, lane, sequence,
        &(struct event){.type = EVENT_REACT,
                        .id = SLICE("v"),
                        .user = slice_of(user),
                        .user_number = EVENT_NO_NUMBER,
                        .after = slice_of(kind)});
}

static void put_epoch(struct rig *rig, unsigned lane, uint64_t epoch)
{
    put(rig, lane, sequence_of(epoch, 0),
        &(struct event){.type = EVENT_EPOCH, .id = SLICE(EVENT_EPOCH_ID)});
}

static void put_after(struct rig *rig, unsigned lane, uint64_t sequence, unsigned origin,
                      uint64_t after)
{
    put(rig, lane, sequence,
        &(struct event){.type = EVENT_AFTER,
                        .id = SLICE("v"),
                        .after_origin = origin,
                        .after_sequence = after});
}

static void pass(struct rig *rig, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 10) {
        clock_ns += 10 * 1000000;
        while (aggregator_step(rig->aggregator) == 0) {
        }
    }
}

/* ---- tests ---- */

TEST(lanes_are_applied_once_and_the_log_may_let_go)
{
    struct rig *rig = rig_new();
    put_add(rig, 3, 1, "a");
    put_add(rig, 3, 2, "a");
    put_add(rig, 3, 1, "a"); /* carried over by two */
    put_add(rig, 3, 2, "a");
    put_add(rig, 3, 3, "a");
    put_add(rig, 7, 1, "b");
    pass(rig, 1100);
    assert_string_equal(rig->store.text, "a+3 b+1 ");
    assert_int_equal(rig->store.batches, 1);
    assert_int_equal(rig->store.mark.sequences[3], 3);
    assert_int_equal(rig->store.mark.lanes[3].offset, 5);
    assert_int_equal(rig->store.mark.lanes[7].offset, 1);
    assert_int_equal(rig->log.lanes[3].released, 5);
    assert_int_equal(rig->log.lanes[7].released, 1);
    pass(rig, 3000);
    assert_int_equal(rig->store.batches, 1);
    rig_free(rig);
}

TEST(a_gap_is_waited_for_and_never_left_out)
{
    struct rig *rig = rig_new();
    put_add(rig, 3, 1, "a");
    put_add(rig, 3, 3, "c");
    put_add(rig, 7, 1, "b");
    pass(rig, 5000);
    assert_non_null(strstr(rig->store.text, "a+1 ")); /* and the others go on */
    assert_non_null(strstr(rig->store.text, "b+1 "));
    assert_null(strstr(rig->store.text, "c"));
    struct pipeline_stats stats;
    aggregator_stats(rig->aggregator, &stats);
    assert_false(stats.paused);
    assert_int_equal(stats.lanes_stuck, 1);
    assert_non_null(strstr(stats.stuck_reason, "lane 3"));

    /* Another producer brings what is missing: before the rest, as it stands in the log. */
    free(rig->log.lanes[3].sections[1]);
    rig->log.lanes[3].count = 1;
    put_add(rig, 3, 2, "b");
    put_add(rig, 3, 3, "c");
    pass(rig, 4000);
    assert_int_equal(rig->store.mark.sequences[3], 3);
    assert_int_equal(rig->store.mark.sequences[7], 1);
    aggregator_stats(rig->aggregator, &stats);
    assert_int_equal(stats.lanes_stuck, 0);
    rig_free(rig);
}

TEST(an_epoch_is_known_at_once_and_late_events_of_the_old_one_are_dropped)
{
    struct rig *rig = rig_new();
    put_epoch(rig, 3, 1);
    pass(rig, 50);
    assert_int_equal(rig->store.mark.sequences[3], sequence_of(1, 0));
    assert_int_equal(rig->store.mark.ended[3], 0);

    put_add(rig, 3, sequence_of(1, 1), "a");
    put_add(rig, 3, sequence_of(1, 2), "a");
    put_epoch(rig, 3, 2);
    put_add(rig, 3, sequence_of(1, 3), "a"); /* nobody was told that it is in the log */
    pass(rig, 50);
    assert_string_equal(rig->store.text, "a+2 ");
    assert_int_equal(rig->store.mark.sequences[3], sequence_of(2, 0));
    assert_int_equal(rig->store.mark.ended[3], sequence_of(1, 2));

    put_epoch(rig, 3, 4); /* one that had no events has ended nothing */
    put_add(rig, 3, sequence_of(4, 1), "a");
    pass(rig, 50);
    assert_int_equal(rig->store.mark.sequences[3], sequence_of(4, 1));
    assert_int_equal(rig->store.mark.ended[3], sequence_of(1, 2));
    rig_free(rig);
}

TEST(what_comes_after_another_lane_is_applied_after_it)
{
    struct rig *rig = rig_new();
    put_after(rig, 2, 1, 5, 2); /* lane 2 is read before lane 5 */
    put_react(rig, 2, 2, "ann", "dislike");
    put_react(rig, 5, 1, "bob", "like");
    put_react(rig, 9, 1, "eve", "like");
    pass(rig, 1100);
    assert_non_null(strstr(rig->store.text, "v:bob>like"));
    assert_non_null(strstr(rig->store.text, "v:eve>like"));
    assert_null(strstr(rig->store.text, "ann"));
    assert_int_equal(rig->store.mark.sequences[2], 0);
    struct pipeline_stats stats;
    aggregator_stats(rig->aggregator, &stats);
    assert_int_equal(stats.lanes, 64);
    assert_int_equal(stats.lanes_held, 1);

    rig->store.text[0] = '\0';
    put_react(rig, 5, 2, "ann", "like"); /* here before it moved */
    pass(rig, 1100);
    assert_string_equal(rig->store.text, "v:ann>like v:ann>dislike ");
    assert_int_equal(rig->store.mark.sequences[2], 2);
    rig_free(rig);
}

TEST(what_comes_after_a_lane_in_which_the_store_has_gone_back_waits_again)
{
    struct rig *rig = rig_new();
    rig->log.owned = 1u << 2;
    rig->store.mark.sequences[5] = 7;
    pass(rig, 1200); /* it knows that */
    put_after(rig, 2, 1, 5, 7);
    put_add(rig, 2, 2, "b");
    pass(rig, 100); /* gathered, and not applied yet */
    assert_int_equal(rig->store.batches, 0);
    rig->store.mark.sequences[5] = 6;
    pass(rig, 3000);
    assert_null(strstr(rig->store.text, "b+1"));
    assert_int_equal(rig->store.mark.sequences[2], 0);
    rig->store.mark.sequences[5] = 7;
    pass(rig, 3000);
    assert_non_null(strstr(rig->store.text, "b+1"));
    rig_free(rig);
}

TEST(what_comes_after_a_lane_of_somebody_else_waits_for_the_store)
{
    struct rig *rig = rig_new();
    rig->log.owned = 1u << 2 | 1u << 3;
    put_add(rig, 2, 1, "a");
    put_after(rig, 2, 2, 5, 7);
    put_add(rig, 2, 3, "b");
    put_add(rig, 3, 1, "c");
    pass(rig, 1100);
    assert_non_null(strstr(rig->store.text, "a+1"));
    assert_non_null(strstr(rig->store.text, "c+1"));
    assert_null(strstr(rig->store.text, "b+1"));
    assert_int_equal(rig->store.mark.lanes[2].offset, 1);

    rig->store.mark.sequences[5] = 7; /* the other aggregator */
    pass(rig, 1200);
    assert_non_null(strstr(rig->store.text, "b+1"));
    assert_int_equal(rig->store.mark.sequences[2], 3);
    assert_int_equal(rig->store.mark.sequences[5], 7);
    rig_free(rig);
}

TEST(a_lane_that_is_lost_is_forgotten_and_one_that_is_new_goes_on_from_the_store)
{
    struct rig *rig = rig_new();
    rig->log.owned = 1u << 2;
    put_add(rig, 2, 1, "a");
    put_add(rig, 3, 1, "b");
    pass(rig, 500); /* gathered */
    rig->log.owned = 1u << 3;
    pass(rig, 1500);
    assert_string_equal(rig->store.text, "b+1 ");

    rig->store.mark.sequences[2] = 1; /* its new owner */
    rig->store.mark.lanes[2] = (struct log_position){1, 1};
    put_add(rig, 2, 2, "c");
    rig->log.owned = 1u << 2 | 1u << 3;
    pass(rig, 1500);
    assert_string_equal(rig->store.text, "b+1 c+1 ");
    assert_int_equal(rig->log.lanes[2].released, 2);
    rig_free(rig);
}

TEST(two_who_own_the_same_lane_apply_it_once)
{
    struct rig *rig = rig_new();
    struct aggregator *late = aggregator_over(rig, &rig->log.base);
    put_add(rig, 2, 1, "a");
    clock_ns += 10 * 1000000;
    (void)aggregator_step(late); /* it has gathered, and then is stopped for a while */
    put_add(rig, 2, 2, "b");
    pass(rig, 1100);
    assert_string_equal(rig->store.text, "a+1 b+1 ");
    put_add(rig, 2, 3, "c");
    for (unsigned i = 0; i < 300; i++) {
        clock_ns += 10 * 1000000;
        (void)aggregator_step(late);
    }
    assert_string_equal(rig->store.text, "a+1 b+1 c+1 ");
    pass(rig, 3000);
    assert_string_equal(rig->store.text, "a+1 b+1 c+1 ");
    aggregator_free(late);
    rig_free(rig);
}

TEST(a_commit_whose_answer_was_lost_is_not_done_twice)
{
    struct rig *rig = rig_new();
    put_add(rig, 2, 1, "a");
    rig->store.forgets_answer = true;
    pass(rig, 5000);
    assert_string_equal(rig->store.text, "a+1 ");
    put_add(rig, 2, 2, "b");
    pass(rig, 1100);
    assert_string_equal(rig->store.text, "a+1 b+1 ");
    rig_free(rig);
}

TEST(a_store_that_has_gone_back_is_brought_forward_again)
{
    struct rig *rig = rig_new();
    put_add(rig, 2, 1, "a");
    pass(rig, 1100);
    struct state_mark before = rig->store.mark;
    put_add(rig, 2, 2, "b");
    pass(rig, 1100);
    rig->store.mark = before; /* a standby that lagged behind takes over */
    rig->store.text[0] = '\0';
    put_add(rig, 2, 3, "c");
    pass(rig, 3000);
    assert_string_equal(rig->store.text, "b+1 c+1 ");
    rig_free(rig);
}

TEST(a_log_that_does_not_go_back_so_far_is_told_and_the_mark_looked_at_again)
{
    struct rig *rig = rig_new();
    put_add(rig, 2, 1, "a");
    put_add(rig, 2, 2, "b");
    rig->log.lanes[2].first = 1;
    pass(rig, 500);
    struct pipeline_stats stats;
    aggregator_stats(rig->aggregator, &stats);
    assert_int_equal(stats.lanes_stuck, 1);
    assert_string_equal(rig->store.text, "");

    rig->store.mark.sequences[2] = 1; /* another had applied it, and the log has let go */
    rig->store.mark.lanes[2] = (struct log_position){1, 1};
    pass(rig, 4000);
    assert_string_equal(rig->store.text, "b+1 ");
    rig_free(rig);
}

TEST(a_lane_that_ends_before_the_store_does_not_keep_the_others)
{
    struct rig *rig = rig_new();
    rig->store.mark.sequences[2] = 5;
    rig->store.mark.lanes[2] = (struct log_position){1, 5};
    put_add(rig, 3, 1, "a");
    pass(rig, 4000);
    struct pipeline_stats stats;
    aggregator_stats(rig->aggregator, &stats);
    assert_int_equal(stats.lanes_stuck, 1);
    assert_false(stats.paused);
    assert_string_equal(rig->store.text, "a+1 ");
    rig_free(rig);
}

TEST(bytes_that_make_no_sense_and_sections_of_other_cells_are_dead_letters)
{
    struct rig *rig = rig_new();
    put_add(rig, 2, 1, "a");
    put_bytes(rig, 2, "\xff\xff\xff", 3);
    put_add(rig, 2, 2, "a");
    put_add(rig, 9, 1, "z");
    rig->log.lanes[3] = rig->log.lanes[9]; /* of cell 9, in lane 3 */
    rig->log.lanes[9] = (struct lane){.count = 0};
    pass(rig, 1100);
    assert_string_equal(rig->store.text, "a+2 ");
    assert_int_equal(rig->store.poison, 2);
    assert_int_equal(rig->log.dead, 2);
    assert_int_equal(rig->store.mark.lanes[2].offset, 3);
    assert_int_equal(rig->store.mark.sequences[9], 0);
    rig_free(rig);
}

TEST(an_outage_of_the_store_is_waited_out)
{
    struct rig *rig = rig_new();
    rig->store.is_down = true; /* from the start */
    put_add(rig, 2, 1, "a");
    pass(rig, 3000);
    rig->store.is_down = false;
    pass(rig, 20000);
    assert_string_equal(rig->store.text, "a+1 ");
    assert_true(aggregator_flush(rig->aggregator));
    rig_free(rig);
}

RUN(cmocka_unit_test(lanes_are_applied_once_and_the_log_may_let_go),
    cmocka_unit_test(a_gap_is_waited_for_and_never_left_out),
    cmocka_unit_test(an_epoch_is_known_at_once_and_late_events_of_the_old_one_are_dropped),
    cmocka_unit_test(what_comes_after_another_lane_is_applied_after_it),
    cmocka_unit_test(what_comes_after_a_lane_in_which_the_store_has_gone_back_waits_again),
    cmocka_unit_test(what_comes_after_a_lane_of_somebody_else_waits_for_the_store),
    cmocka_unit_test(a_lane_that_is_lost_is_forgotten_and_one_that_is_new_goes_on_from_the_store),
    cmocka_unit_test(two_who_own_the_same_lane_apply_it_once),
    cmocka_unit_test(a_commit_whose_answer_was_lost_is_not_done_twice),
    cmocka_unit_test(a_store_that_has_gone_back_is_brought_forward_again),
    cmocka_unit_test(a_log_that_does_not_go_back_so_far_is_told_and_the_mark_looked_at_again),
    cmocka_unit_test(a_lane_that_ends_before_the_store_does_not_keep_the_others),
    cmocka_unit_test(bytes_that_make_no_sense_and_sections_of_other_cells_are_dead_letters),
    cmocka_unit_test(an_outage_of_the_store_is_waited_out))
