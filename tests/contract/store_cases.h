/* store_cases.h - what core/store.h promises, asked of every store there is.
 *
 * To add a store, write a store_NAME_test.c with an opener and a form, and hand it to
 * store_suite(). */
#ifndef STORE_CASES_H
#define STORE_CASES_H

#include "contract/store_rig.h"

#include <pthread.h>

struct form {
    const char *name;
    rig_open_fn *open;
    rig_open_fn *open_named; /* members come by their names; NULL: only numbers are known here */
    /* Makes the store refuse whatever touches ids like this, and stop it. How: "ABORT", or
     * "ROLLBACK", which takes the whole transaction down. */
    void (*refuse)(const char *folder, const char *pattern, const char *how);
    void (*accept)(const char *folder);
    /* Is the text anywhere in what the store keeps? */
    bool (*holds)(const char *folder, const char *text);
    /* Does the store take this statement, by another program? */
    bool (*takes)(const char *folder, const char *sql);
    const char *falsify_count;          /* the likes of "item" become 555, and nothing else */
    const char *forget_sum;             /* the row of "c" loses its sum */
    void (*remove)(const char *folder); /* what is not in the folder; NULL: nothing */
};

static const struct form *form;
static struct rig *rig;

static int set_up(void **state)
{
    (void)state;
    rig = rig_new(form->open);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rig_close(rig);
    if (form->remove)
        form->remove(rig->folder);
    rig_free(rig);
    return 0;
}

/* ---- counters ---- */

TEST(a_counter_is_the_sum_of_its_deltas)
{
    rig_add(rig, "c", 5);
    rig_apply_ok(rig);
    rig_add(rig, "c", -7);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=-2");
    assert_string_equal(rig_load(rig, "d"), "none");
    assert_int_equal(rig->mark.counters, 1);
}

TEST(a_value_of_any_size_is_kept)
{
    rig_add(rig, "c", INT64_MAX);
    rig_apply_ok(rig);
    rig_add(rig, "c", INT64_MAX);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=18446744073709551614");
    rig_add(rig, "c", -INT64_MAX);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=9223372036854775807");
}

TEST(settings_and_deadline_stay_with_a_counter)
{
    struct store_unit *unit = rig_add(rig, "c", 1);
    unit->has_create = true;
    unit->create = (struct op_create){
        .shards = 8, .policy = POLICY_RANDOM, .has_floor = true, .floor = -3, .idle_s = 60};
    unit->has_deadline = true;
    unit->deadline_ms = 42;
    rig_apply_ok(rig);
    rig_add(rig, "c", 1);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"),
                        "c value=2 shards=8 policy=random floor=-3 idle=60 deadline=42");
}

TEST(a_deleted_counter_is_gone_and_a_new_one_starts_from_nothing)
{
    rig_add(rig, "c", 5);
    rig_apply_ok(rig);
    rig_unit(rig, "c", false)->is_gone = true;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "none");
    assert_int_equal(rig->mark.counters, 0);

    struct store_unit *unit = rig_add(rig, "c", 2);
    unit->is_new = true;
    unit->incarnation = 3;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=2 inc=3");
}

TEST(a_late_unit_changes_nothing)
{
    rig_add(rig, "c", 5)->incarnation = 2;
    rig_apply_ok(rig);
    rig_add(rig, "c", 100)->incarnation = 1;
    rig_add(rig, "d", 100)->may_create = false;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=5 inc=2");
    assert_string_equal(rig_load(rig, "d"), "none");
    rig_add(rig, "c", 1)->incarnation = 3;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "c"), "c value=1 inc=3");
}

/* A deletion that the store has already is behind whatever was done before it. */
TEST(a_late_unit_of_an_item_that_was_deleted_changes_nothing)
{
    rig_react(rig, "v", "7", "", "like");
    rig_unit(rig, "v", true)->incarnation = 2;
    rig_apply_ok(rig);
    struct store_unit *gone = rig_unit(rig, "v", true);
    gone->is_gone = true;
    gone->incarnation = 3;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "none");

    rig_react(rig, "v", "8", "", "like");
    rig_unit(rig, "v", true)->incarnation = 2;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "none");
    rig_react(rig, "v", "9", "", "like");
    rig_unit(rig, "v", true)->incarnation = 1;
    rig_unit(rig, "v", true)->is_new = true;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "none");
    assert_int_equal(rig->mark.items, 0);

    rig_react(rig, "v", "9", "", "like");
    rig_unit(rig, "v", true)->incarnation = 3;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 slices=1 like:9 inc=3");
}

/* ---- items ---- */

TEST(an_item_has_counts_and_members)
{
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "v", "ann", "", "like");
    rig_react(rig, "v", "9", "", "dislike");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=2 dislike=1 slices=1 like:7 like*:0 dislike:9");
    assert_int_equal(rig->mark.items, 1);
    assert_int_equal(rig->mark.members, 3);
    assert_int_equal(rig->mark.next_user, 1);

    rig_react(rig, "v", "7", "like", "dislike");
    rig_react(rig, "v", "ann", "like", "");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=0 dislike=2 slices=1 dislike:7,9");
    assert_int_equal(rig->mark.members, 2);
}

TEST(the_store_believes_its_own_sets)
{
    rig_react(rig, "v", "7", "", "like");
    rig_apply_ok(rig);
    /* A hot layer that has forgotten the like sends it once more. */
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "v", "8", "like", "");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 slices=1 like:7");
}

TEST(of_several_reactions_of_a_user_the_last_one_stays)
{
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "v", "7", "like", "dislike");
    rig_react(rig, "v", "7", "dislike", "");
    rig_react(rig, "v", "8", "", "dislike");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v dislike=1 slices=1 dislike:8");
}

static void count_members(void *arg, const struct state_members *members, size_t count,
                          const struct event *pending, size_t pending_count)
{
    (void)pending;
    (void)pending_count;
    for (size_t i = 0; i < count; i++)
        *(uint64_t *)arg += members[i].count;
}

static uint64_t members_in_slices(const char *item)
{
    uint64_t all = 0;
    for (uint32_t slice = 0; slice < STATE_SLICES; slice++)
        assert_int_equal(
            store_load_slice(rig->reader, slice_of(item), slice, count_members, &all, NULL),
            ERR_OK);
    return all;
}

TEST(the_shards_asked_for_stay_with_an_item_which_is_in_slices)
{
    struct store_unit *unit = rig_unit(rig, "v", true);
    unit->has_create = true;
    unit->create = (struct op_create){.shards = 8};
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v slices=64 shards=8");
    rig_react(rig, "v", "5", "", "like");
    rig_react(rig, "v", "ann", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=2 slices=64 shards=8");
    assert_int_equal(members_in_slices("v"), 2);

    struct number one = number_of(1);
    assert_int_equal(
        store_mend(rig->store, SLICE("v"), 0, SLICE("like"), &one, SLICE("test"), 1, NULL), ERR_OK);
    assert_string_equal(rig_load(rig, "v"), "v like=3 slices=64 shards=8");

    unit = rig_unit(rig, "v", true); /* deleted and made anew, without a wish */
    unit->is_new = true;
    unit->incarnation = 1;
    rig_react(rig, "v", "5", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 slices=1 like:5 inc=1");
}

/* Nobody may be lost on the way: who is not found in a slice would count twice. */
TEST(an_item_that_gets_shards_later_takes_its_members_along)
{
    rig_react(rig, "v", "5", "", "like");
    rig_react(rig, "v", "ann", "", "dislike");
    rig_apply_ok(rig);
    struct store_unit *unit = rig_unit(rig, "v", true);
    unit->has_create = true;
    unit->create = (struct op_create){.shards = 8};
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 dislike=1 slices=64 shards=8");
    assert_int_equal(members_in_slices("v"), 2);
    rig_react(rig, "v", "5", "", "like");
    rig_react(rig, "v", "ann", "dislike", "");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 dislike=0 slices=64 shards=8");
    assert_int_equal(members_in_slices("v"), 1);
}

static char many[12000][24];

static void like_many(unsigned first, unsigned count, const char *format)
{
    for (unsigned i = first; i < first + count; i++) {
        snprintf(many[i], sizeof(many[i]), format, i);
        rig_react(rig, "v", many[i], "", "like");
    }
}

TEST(a_large_item_comes_in_slices)
{
    like_many(0, 3000, "%u");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=3000 slices=1 like:<3000>");
    like_many(3000, 2000, "user-%u");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=5000 slices=64");
    assert_int_equal(members_in_slices("v"), 5000);

    /* Nobody is lost or counted twice: all of them once more, and one takes it back. */
    like_many(0, 3000, "%u");
    like_many(3000, 2000, "user-%u");
    rig_react(rig, "v", "17", "like", "");
    rig_react(rig, "v", "user-4000", "like", "");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=4998 slices=64");
    assert_int_equal(members_in_slices("v"), 4998);
    assert_int_equal(rig->mark.members, 4998);
}

TEST(an_item_may_be_born_large)
{
    like_many(0, 6000, "%u");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=6000 slices=64");
    assert_int_equal(members_in_slices("v"), 6000);

    rig_unit(rig, "v", true)->is_gone = true;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "none");
    assert_int_equal(rig->mark.items, 0);
    assert_int_equal(rig->mark.members, 0);

    struct store_unit *unit = rig_unit(rig, "v", true);
    unit->is_new = true;
    unit->incarnation = 1;
    rig_react(rig, "v", "5", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 slices=1 like:5 inc=1");
}

/* ---- exactly once ---- */

TEST(a_batch_counts_once)
{
    rig_add(rig, "c", 5);
    struct store_batch batch = rig_batch(rig);
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    struct store_batch again = rig_batch(rig);
    struct error error;
    assert_int_equal(store_apply(rig->store, &again, &error), ERR_INVALID);
    assert_string_equal(rig_load(rig, "c"), "c value=5");

    struct state_mark mark;
    assert_int_equal(store_mark(rig->store, &mark, NULL), ERR_OK);
    assert_memory_equal(&mark, &batch.after, sizeof(mark));
    rig_reopen(rig);
    assert_memory_equal(&rig->mark, &batch.after, sizeof(mark));
}

/* ---- refused units ---- */

static void count_up(void *arg, const struct store_letter *letter)
{
    (void)letter;
    ++*(unsigned *)arg;
}

/* A waiting unit made ready for retry(), as the aggregator does it: from its raw events. */
struct again {
    struct store_unit unit;
    struct store_reaction reactions[16];
    char id[LIMIT_ID_BYTES];
    char users[16][16];
};

static void remake(void *arg, const struct store_letter *letter)
{
    struct again *again = arg;
    *again = (struct again){.unit = {.may_create = true, .last_ms = rig->now_ms}};
    memcpy(again->unit.event_id, letter->event_id, STORE_EVENT_ID_BYTES);
    memcpy(again->id, letter->id.data, letter->id.size);
    again->unit.id = (struct slice){again->id, letter->id.size};
    again->unit.reactions = again->reactions;
    struct slice raw = letter->raw;
    struct slice section;
    while (raw_next(&raw, &section)) {
        struct section_reader reader;
        struct event event;
        assert_int_equal(section_open(&reader, section, NULL), ERR_OK);
        assert_int_equal(section_next(&reader, &event, NULL), ERR_OK);
        again->unit.events++;
        if (event.type == EVENT_ADD) {
            number_add(&again->unit.delta, &event.amount);
            continue;
        }
        again->unit.is_item = true;
        size_t i = again->unit.reaction_count++;
        memcpy(again->users[i], event.user.data, event.user.size);
        struct store_reaction *reaction = &again->reactions[i];
        *reaction = (struct store_reaction){
            .user = {again->users[i], event.user.size},
            .bucket = bucket_of(again->unit.id, event.user),
            .after = event.after.size > 0 ? SLICE("like") : (struct slice){NULL, 0},
            .before = event.before.size > 0 ? SLICE("like") : (struct slice){NULL, 0},
            .time_ms = event.time_ms,
        };
        reaction->named = !user_is_numeric(event.user, &reaction->number);
        if (reaction->named)
            reaction->number = event.user_number;
    }
}

/* Tries what is due; its id and what came of it, or "nothing". */
static const char *retry_due(void)
{
    static char text[80];
    struct again again;
    if (store_due(rig->store, rig->now_ms, remake, &again, NULL) == ERR_NOT_FOUND)
        return "nothing";
    assert_int_equal(store_retry(rig->store, &again.unit, rig->now_ms, NULL), ERR_OK);
    number_done(&again.unit.delta);
    snprintf(text, sizeof(text), "%.*s %s", SLICE_ARGS(again.unit.id),
             again.unit.code == ERR_OK        ? "success"
             : again.unit.code == ERR_REFUSED ? "refused"
                                              : "letter");
    return text;
}

static void print_life(void *arg, const struct store_life *life)
{
    (void)arg;
    rig_print(rig, "%s%.*s %.*s %s %u", rig->text[0] ? " | " : "", SLICE_ARGS(life->id),
              SLICE_ARGS(life->delta), lifecycle_name(life->state), life->retry_count);
}

/* All lives, newest first: "id delta STATE retries | ..." */
static const char *lives(void)
{
    rig->text[0] = 0;
    uint64_t cursor = 0;
    struct store_life_filter filter = {.has_state = false};
    assert_int_equal(store_lives(rig->reader, &filter, &cursor, 100, print_life, NULL, NULL),
                     ERR_OK);
    assert_int_equal(cursor, 0);
    return rig->text;
}

static void refused_in_the_middle(const char *how)
{
    form->refuse(rig->folder, "bad%", how);
    rig_add(rig, "a", 1);
    rig_add(rig, "bad", 2);
    rig_react(rig, "bad-item", "7", "", "like");
    rig_react(rig, "b", "7", "", "like");
    struct store_batch batch = rig_batch(rig);
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    assert_int_equal(batch.units[0].code, ERR_OK);
    assert_int_equal(batch.units[1].code, ERR_REFUSED);
    assert_string_equal(batch.units[1].reason, "not this one");
    assert_int_equal(batch.units[2].code, ERR_REFUSED);
    assert_int_equal(batch.units[3].code, ERR_OK);
    rig->mark = batch.after;
    rig_forget(rig);

    assert_string_equal(rig_load(rig, "a"), "a value=1");
    assert_string_equal(rig_load(rig, "b"), "b like=1 slices=1 like:7");
    assert_string_equal(rig_load(rig, "bad"), "bad absent pending=1");
    assert_string_equal(rig_load(rig, "bad-item"), "bad-item absent pending=1");
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.retrying, 2);
    assert_int_equal(stats.succeeded, 2);
    assert_int_equal(rig->mark.counters, 1);
    assert_int_equal(rig->mark.items, 1);
    assert_int_equal(rig->mark.members, 1);
    rig_reopen(rig);
    assert_int_equal(rig->mark.counters, 1);
    assert_string_equal(rig_load(rig, "bad"), "bad absent pending=1");
}

TEST(a_refused_unit_does_not_keep_the_others_back)
{
    refused_in_the_middle("ABORT");
}

TEST(nor_does_one_that_takes_the_transaction_down)
{
    refused_in_the_middle("ROLLBACK");
}

TEST(a_refused_unit_is_tried_after_1_2_4_8_and_16_seconds_and_then_is_a_letter)
{
    form->refuse(rig->folder, "bad", "ABORT");
    rig_add(rig, "bad", 2);
    rig_apply_ok(rig);
    for (int64_t delay = 1000; delay <= 16000; delay *= 2) {
        rig->now_ms += delay - 1;
        assert_string_equal(retry_due(), "nothing");
        rig->now_ms += 1;
        assert_string_equal(retry_due(), delay < 16000 ? "bad refused" : "bad letter");
        rig_reopen(rig);
    }
    rig->now_ms += 100000;
    assert_string_equal(retry_due(), "nothing");
    assert_string_equal(lives(), "bad 2 FAILED 5");
    assert_string_equal(rig_load(rig, "bad"), "bad absent pending=1");
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.failed, 1);
    unsigned letters = 0;
    uint64_t cursor = 0;
    assert_int_equal(store_letters(rig->reader, &cursor, 10, count_up, &letters, NULL), ERR_OK);
    assert_int_equal(letters, 1);
}

TEST(a_retry_that_is_taken_is_a_success_and_counts_once)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_react(rig, "bad", "7", "", "like");
    rig_apply_ok(rig);
    form->accept(rig->folder);
    rig->now_ms += 1000;
    assert_string_equal(retry_due(), "bad success");
    assert_string_equal(retry_due(), "nothing");
    assert_string_equal(lives(), "bad {\"like\":1} SUCCESS 1");
    assert_string_equal(rig_load(rig, "bad"), "bad like=1 slices=1 like:7");
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    assert_int_equal(rig->mark.members, 1);
}

static void keep_reason(void *arg, const struct store_life *life)
{
    snprintf(arg, 64, "%s \"%.*s\"", lifecycle_name(life->state), SLICE_ARGS(life->reason));
}

TEST(a_success_has_no_reason_also_when_it_was_refused_before)
{
    char text[64] = "";
    uint64_t cursor = 0;
    struct store_life_filter filter = {0};
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 1);
    rig_apply_ok(rig);
    form->accept(rig->folder);
    assert_int_equal(store_lives(rig->reader, &filter, &cursor, 1, keep_reason, text, NULL),
                     ERR_OK);
    assert_non_null(strstr(text, "RETRYING \"not this one"));
    rig->now_ms += 1000;
    assert_string_equal(retry_due(), "bad success");
    cursor = 0;
    assert_int_equal(store_lives(rig->reader, &filter, &cursor, 1, keep_reason, text, NULL),
                     ERR_OK);
    assert_string_equal(text, "SUCCESS \"\"");
}

TEST(states_transitions_and_deltas_that_cannot_be_are_refused)
{
    if (!form->takes)
        return;
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 1);
    rig_apply_ok(rig);
    form->accept(rig->folder);
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=7"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=-1"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=0"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=4"));
    assert_true(form->takes(rig->folder, "UPDATE count_events SET reason='mine'"));
    rig->now_ms += 1000;
    assert_string_equal(retry_due(), "bad success");
    for (unsigned next = 0; next < LIFECYCLE_STATES; next++) {
        char sql[80];
        snprintf(sql, sizeof(sql), "UPDATE count_events SET state=%u", next);
        if (next != LIFECYCLE_SUCCESS)
            assert_false(form->takes(rig->folder, sql));
    }
    assert_false(form->takes(rig->folder, "UPDATE count_events SET delta='5'"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET id='other'"));
    assert_string_equal(lives(), "bad 1 SUCCESS 1");
}

TEST(units_of_one_id_keep_their_order)
{
    form->refuse(rig->folder, "bad", "ABORT");
    rig_react(rig, "bad", "7", "", "like");
    rig_apply_ok(rig);
    rig_react(rig, "bad", "7", "like", "");
    struct store_batch batch = rig_batch(rig);
    assert_int_equal(store_apply(rig->store, &batch, NULL), ERR_OK);
    assert_int_equal(batch.units[0].code, ERR_BUSY);
    rig->mark = batch.after;
    rig_forget(rig);
    rig_react(rig, "bad", "8", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(lives(), "bad {\"like\":1} PENDING 0 | bad {\"like\":-1} PENDING 0 | "
                                 "bad {\"like\":1} RETRYING 1");
    assert_string_equal(rig_load(rig, "bad"), "bad absent pending=3");
    /* The store would take them by now, but the first one's time has not come. */
    form->accept(rig->folder);
    assert_string_equal(retry_due(), "nothing");
    rig->now_ms += 1000;
    assert_string_equal(retry_due(), "bad success");
    assert_string_equal(rig_load(rig, "bad"), "bad like=1 slices=1 like:7 pending=2");
    assert_string_equal(retry_due(), "bad success");
    assert_string_equal(retry_due(), "bad success");
    assert_string_equal(retry_due(), "nothing");
    assert_string_equal(rig_load(rig, "bad"), "bad like=1 slices=1 like:8");
}

static void fail_for_good(void)
{
    for (int64_t delay = 1000; delay <= 16000; delay *= 2) {
        rig->now_ms += delay;
        assert_string_not_equal(retry_due(), "nothing");
        while (strcmp(retry_due(), "nothing") != 0)
            ;
    }
}

/* What is given up is taken off by its delta: the audit would put the count "right" by another. */
TEST(the_delta_of_what_waits_or_is_given_up_cannot_be_edited)
{
    if (!form->takes)
        return;
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 7);
    rig_apply_ok(rig);
    assert_false(form->takes(rig->folder, "UPDATE count_events SET delta='5'"));
    fail_for_good();
    assert_string_equal(lives(), "bad 7 FAILED 5");
    assert_false(form->takes(rig->folder, "UPDATE count_events SET delta='5'"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET id='other'"));
    assert_false(form->takes(rig->folder, "UPDATE dead_letters SET delta='5'"));
    assert_false(form->takes(rig->folder, "UPDATE dead_letters SET id='other'"));
    uint64_t count;
    assert_int_equal(store_discard(rig->store, NULL, rig->now_ms, &count, NULL), ERR_OK);
    assert_int_equal(count, 1);
    assert_string_equal(lives(), "bad 7 DISCARDED 5");
    struct number sum;
    struct number discarded;
    struct log_position position;
    assert_int_equal(store_base(rig->reader, SLICE("bad"), &sum, &discarded, &position, NULL),
                     ERR_OK);
    assert_int_equal(discarded.small, 7);
}

/* One statement would do: its state says that it is done, and it would never be so. */
TEST(what_waits_cannot_be_made_done_by_hand)
{
    if (!form->takes)
        return;
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 7);
    rig_react(rig, "bad-item", "7", "", "like");
    rig_apply_ok(rig);
    rig_react(rig, "bad-item", "8", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(lives(), "bad-item {\"like\":1} PENDING 0 | bad-item {\"like\":1} "
                                 "RETRYING 1 | bad 7 RETRYING 1");
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=2, delta='5'"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=2"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=1 WHERE state=0"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=3 WHERE state=1"));
    assert_false(form->takes(rig->folder, "DELETE FROM count_events"));
    assert_false(form->takes(rig->folder, "UPDATE waiting SET id='other'"));
    form->accept(rig->folder);
    rig->now_ms += 1000;
    for (int i = 0; i < 3; i++)
        assert_non_null(strstr(retry_due(), "success"));
    assert_string_equal(retry_due(), "nothing");
    assert_string_equal(rig_load(rig, "bad"), "bad value=7");
    assert_string_equal(rig_load(rig, "bad-item"), "bad-item like=2 slices=1 like:7,8");
}

static void print_waiting(void *arg, const struct store_waiting *waiting)
{
    (void)arg;
    rig_print(rig, "%s%.*s %.*s %s%s", rig->text[0] ? " | " : "", SLICE_ARGS(waiting->id),
              SLICE_ARGS(waiting->delta), waiting->agrees ? "agrees" : "differs",
              waiting->raw.size > 0 ? "" : " raw=none");
}

/* One at a time. */
static const char *all_waiting(void)
{
    rig->text[0] = 0;
    uint64_t cursor = 0;
    do
        assert_int_equal(store_waiting(rig->reader, &cursor, 1, print_waiting, NULL, NULL), ERR_OK);
    while (cursor != 0);
    return rig->text;
}

TEST(what_waits_is_shown_with_the_events_that_it_is_made_of)
{
    assert_string_equal(all_waiting(), "");
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 7);
    rig_apply_ok(rig);
    fail_for_good();
    rig_react(rig, "bad-item", "7", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(all_waiting(), "bad 7 agrees | bad-item {\"like\":1} agrees");
    if (form->takes) {
        assert_true(form->takes(rig->folder, "UPDATE waiting SET state=0 WHERE id='bad-item'"));
        assert_true(form->takes(rig->folder, "DELETE FROM dead_letters"));
        assert_string_equal(all_waiting(),
                            "bad 7 differs raw=none | bad-item {\"like\":1} differs");
    }
}

/* Not even where it waits no more: a counter gets what was asked for, or nothing. */
TEST(a_counter_gets_no_other_delta_than_was_asked_for)
{
    if (!form->takes)
        return;
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 7);
    rig_apply_ok(rig);
    form->accept(rig->folder);
    assert_true(form->takes(rig->folder, "DELETE FROM waiting"));
    assert_false(form->takes(rig->folder, "UPDATE count_events SET state=2, delta='5'"));
    assert_string_equal(lives(), "bad 7 RETRYING 1");
}

TEST(a_letter_that_only_adds_holds_nobody_back_and_others_do)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 2);
    rig_apply_ok(rig);
    fail_for_good();
    rig_react(rig, "bad-item", "7", "", "like");
    rig_apply_ok(rig);
    fail_for_good();
    form->accept(rig->folder);

    rig_add(rig, "bad", 40);
    rig_react(rig, "bad-item", "8", "", "like");
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "bad"), "bad value=40 pending=1");
    assert_string_equal(rig_load(rig, "bad-item"), "bad-item absent pending=2");
    assert_string_equal(retry_due(), "nothing");

    uint64_t count;
    assert_int_equal(store_redrive(rig->store, NULL, rig->now_ms, &count, NULL), ERR_OK);
    assert_int_equal(count, 2);
    for (int i = 0; i < 3; i++)
        assert_string_not_equal(retry_due(), "nothing");
    assert_string_equal(retry_due(), "nothing");
    assert_string_equal(rig_load(rig, "bad"), "bad value=42");
    assert_string_equal(rig_load(rig, "bad-item"), "bad-item like=2 slices=1 like:7,8");
}

static void keep_event_id(void *arg, const struct store_letter *letter)
{
    memcpy(arg, letter->event_id, STORE_EVENT_ID_BYTES);
}

static void print_audit(void *arg, const struct store_audit *audit)
{
    (void)arg;
    rig_print(rig, "%s%.*s %.*s", rig->text[0] ? " | " : "", SLICE_ARGS(audit->what),
              SLICE_ARGS(audit->id));
}

static const char *audits(void)
{
    rig->text[0] = 0;
    uint64_t cursor = 0;
    assert_int_equal(store_audits(rig->reader, &cursor, 100, print_audit, NULL, NULL), ERR_OK);
    return rig->text;
}

TEST(a_discarded_letter_is_remembered_for_recounts)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 2);
    rig_react(rig, "bad-item", "7", "", "like");
    rig_apply_ok(rig);
    fail_for_good();
    form->accept(rig->folder);
    uint64_t count;
    assert_int_equal(store_discard(rig->store, NULL, rig->now_ms, &count, NULL), ERR_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rig_load(rig, "bad"), "none");
    assert_non_null(strstr(audits(), "discard bad"));

    struct number sum;
    struct number discarded;
    struct log_position position;
    assert_int_equal(store_base(rig->reader, SLICE("bad"), &sum, &discarded, &position, NULL),
                     ERR_OK);
    assert_int_equal(sum.small, 0);
    assert_int_equal(discarded.small, 2);
    assert_int_equal(
        store_base(rig->reader, SLICE("bad-item/like"), &sum, &discarded, &position, NULL), ERR_OK);
    assert_int_equal(discarded.small, 1);
    unsigned char nobody[STORE_EVENT_ID_BYTES] = {1};
    assert_int_equal(store_discard(rig->store, nobody, rig->now_ms, &count, NULL), ERR_NOT_FOUND);
}

static int64_t discarded_of(const char *id)
{
    struct number sum;
    struct number discarded;
    struct log_position position;
    assert_int_equal(store_base(rig->reader, slice_of(id), &sum, &discarded, &position, NULL),
                     ERR_OK);
    return discarded.small;
}

TEST(what_was_discarded_goes_with_what_is_deleted)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_add(rig, "bad", 2);
    rig_react(rig, "bad-item", "7", "", "like");
    rig_add(rig, "bad-other", 3);
    rig_apply_ok(rig);
    fail_for_good();
    form->accept(rig->folder);
    uint64_t count;
    assert_int_equal(store_discard(rig->store, NULL, rig->now_ms, &count, NULL), ERR_OK);
    assert_int_equal(discarded_of("bad"), 2);

    rig_unit(rig, "bad", false)->is_gone = true;
    struct store_unit *anew = rig_unit(rig, "bad-item", true);
    anew->is_new = true;
    anew->incarnation = 1;
    rig_react(rig, "bad-item", "8", "", "like");
    rig_apply_ok(rig);
    assert_int_equal(discarded_of("bad"), 0);
    assert_int_equal(discarded_of("bad-item/like"), 0);
    assert_int_equal(discarded_of("bad-other"), 3);
}

TEST(poison_goes_to_the_letters_and_the_mark_moves_on)
{
    rig->poison[rig->poison_count++] = (struct store_poison){
        .event_id = {9},
        .position = {3, 77},
        .raw = SLICE("\x01\x02nonsense"),
        .reason = "it makes no sense",
        .time_ms = rig->now_ms,
    };
    rig_add(rig, "a", 1);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "a"), "a value=1");
    unsigned char event_id[STORE_EVENT_ID_BYTES];
    uint64_t cursor = 0;
    assert_int_equal(store_letters(rig->reader, &cursor, 10, keep_event_id, event_id, NULL),
                     ERR_OK);
    assert_int_equal(event_id[0], 9);
    uint64_t count;
    assert_int_equal(store_redrive(rig->store, event_id, rig->now_ms, &count, NULL), ERR_INVALID);
    assert_int_equal(store_discard(rig->store, event_id, rig->now_ms, &count, NULL), ERR_OK);
    assert_int_equal(store_letter(rig->reader, event_id, keep_event_id, event_id, NULL),
                     ERR_NOT_FOUND);
}

TEST(a_clock_that_goes_back_does_not_hold_retries_up)
{
    form->refuse(rig->folder, "bad", "ABORT");
    rig_add(rig, "bad", 2);
    rig_apply_ok(rig);
    rig->now_ms -= 3600000;
    assert_string_equal(retry_due(), "bad refused");
}

static void count_life(void *arg, const struct store_life *life)
{
    (void)life;
    ++*(unsigned *)arg;
}

TEST(a_page_of_lives_is_full_although_few_of_them_match)
{
    for (int i = 0; i < 20; i++) {
        rig_add(rig, i % 10 == 0 ? "rare" : "often", 1);
        rig_apply_ok(rig);
    }
    unsigned found = 0;
    uint64_t cursor = 0;
    struct store_life_filter filter = {.id = SLICE("rare")};
    assert_int_equal(store_lives(rig->reader, &filter, &cursor, 2, count_life, &found, NULL),
                     ERR_OK);
    assert_int_equal(found, 2);

    assert_int_equal(store_lives(rig->reader, &filter, &cursor, 2, count_life, &found, NULL),
                     ERR_OK);
    assert_int_equal(found, 2);
    assert_int_equal(cursor, 0);
}

/* ---- users, keys, history ---- */

static void keep_written(void *arg, const struct state_target *target)
{
    *(int64_t *)arg = target->written_ms;
}

TEST(users_are_found_by_name_also_when_numbers_come_in_any_order)
{
    rig_react(rig, "v", "ann", "", "like");
    rig_react(rig, "v", "bob", "", "like");
    rig_react(rig, "v", "cid", "", "like");
    /* Numbers 5, 0 and 2: two are given out to others who come later. */
    rig->reactions[0][0].number = 5;
    rig->reactions[0][1].number = 0;
    rig->reactions[0][2].number = 2;
    rig_apply_ok(rig);
    assert_int_equal(rig->mark.next_user, 6);
    rig_react(rig, "v", "dan", "", "like");
    rig->reactions[0][0].number = 3;
    rig_apply_ok(rig);
    rig_reopen(rig);
    rig_react(rig, "v", "eve", "", "like");
    rig->reactions[0][0].number = EVENT_NO_NUMBER;
    rig_apply_ok(rig);
    static const struct {
        const char *name;
        uint32_t number;
    } users[] = {{"ann", 5}, {"bob", 0}, {"cid", 2}, {"dan", 3}, {"eve", 6}};
    for (size_t i = 0; i < 5; i++) {
        uint32_t number;
        assert_int_equal(store_find_user(rig->reader, slice_of(users[i].name), &number, NULL),
                         ERR_OK);
        assert_int_equal(number, users[i].number);
    }
    uint32_t number;
    assert_int_equal(store_find_user(rig->reader, SLICE("fay"), &number, NULL), ERR_NOT_FOUND);
    assert_string_equal(rig_load(rig, "v"), "v like=5 slices=1 like*:0,2,3,5,6");
}

TEST(a_number_that_was_given_out_is_not_given_again)
{
    /* A user whose reactions were undone within the batch: number 0 is in no unit. */
    rig->mark.next_user = 1;
    rig_add(rig, "c", 1);
    rig_apply_ok(rig);
    rig_reopen(rig);
    assert_int_equal(rig->mark.next_user, 1);
    rig_react(rig, "v", "ann", "", "like");
    rig->reactions[0][0].number = 0;
    rig_apply_ok(rig);
    uint32_t number;
    assert_int_equal(store_find_user(rig->reader, SLICE("ann"), &number, NULL), ERR_OK);
    assert_int_equal(number, 0);
}

TEST(a_unit_without_a_time_leaves_the_last_change_alone)
{
    rig_add(rig, "c", 1);
    rig_apply_ok(rig);
    struct store_unit *unit = rig_unit(rig, "c", false);
    unit->last_ms = 0;
    unit->has_deadline = true;
    unit->deadline_ms = 42;
    rig_apply_ok(rig);
    int64_t written = 0;
    assert_int_equal(store_load(rig->reader, SLICE("c"), keep_written, &written, NULL), ERR_OK);
    assert_int_equal(written, rig->now_ms);
}

static void print_name(void *arg, uint32_t number, struct slice name)
{
    (void)arg;
    rig_print(rig, "%u=%.*s ", number, SLICE_ARGS(name));
}

static void print_hash(void *arg, uint64_t hash)
{
    *(uint64_t *)arg ^= hash;
}

TEST(names_and_hashes_of_all)
{
    rig_react(rig, "v", "ann", "", "like");
    rig_react(rig, "w", "bob", "", "like");
    rig_add(rig, "c", 1);
    rig_apply_ok(rig);
    uint32_t numbers[] = {1, 0, 9};
    rig->text[0] = 0;
    assert_int_equal(store_names(rig->reader, numbers, 3, print_name, NULL, NULL), ERR_OK);
    assert_string_equal(rig->text, "1=bob 0=ann ");

    uint64_t sum = 0;
    uint64_t cursor = 0;
    unsigned steps = 0;
    do {
        assert_int_equal(store_hashes(rig->reader, true, &cursor, 1, print_hash, &sum, NULL),
                         ERR_OK);
    } while (cursor != 0 && ++steps < 10);
    assert_int_equal(sum, hash_stable(SLICE("ann")) ^ hash_stable(SLICE("bob")));
    sum = 0;
    do {
        assert_int_equal(store_hashes(rig->reader, false, &cursor, 2, print_hash, &sum, NULL),
                         ERR_OK);
    } while (cursor != 0 && ++steps < 10);
    assert_int_equal(sum,
                     hash_stable(SLICE("v")) ^ hash_stable(SLICE("w")) ^ hash_stable(SLICE("c")));
}

TEST(ids_and_names_may_hold_any_byte)
{
    static const char bytes[] = "\x01\xff\\x00\xc3(\xe2\x82";
    char odd[LIMIT_ID_BYTES + 1];
    size_t size = 0;
    for (int i = 0; i < 256; i++) {
        if (i != 0 && size < sizeof(odd) - 1)
            odd[size++] = (char)i;
    }
    odd[size] = 0;
    char user[16];
    snprintf(user, sizeof(user), "\\\xfe\\\\x41");
    rig_add(rig, odd, 5);
    rig_add(rig, bytes, 6);
    rig_react(rig, "\xc3\x28", user, "", "like");
    rig_apply_ok(rig);
    rig_reopen(rig);
    int64_t written = 0;
    assert_int_equal(store_load(rig->reader, slice_of(odd), keep_written, &written, NULL), ERR_OK);
    assert_int_equal(store_load(rig->reader, slice_of(bytes), keep_written, &written, NULL),
                     ERR_OK);
    uint32_t number;
    assert_int_equal(store_find_user(rig->reader, slice_of(user), &number, NULL), ERR_OK);
    rig->text[0] = 0;
    assert_int_equal(store_names(rig->reader, &number, 1, print_name, NULL, NULL), ERR_OK);
    assert_string_equal(rig->text, "0=\\\xfe\\\\x41 ");
    uint64_t sum = 0;
    uint64_t cursor = 0;
    assert_int_equal(store_hashes(rig->reader, false, &cursor, 10, print_hash, &sum, NULL), ERR_OK);
    assert_int_equal(sum, hash_stable(slice_of(odd)) ^ hash_stable(slice_of(bytes)) ^
                              hash_stable(SLICE("\xc3\x28")));
    struct slice zero = {"a\0b", 3};
    rig_unit(rig, "c", false)->id = zero;
    rig_apply_ok(rig);
    assert_int_equal(store_load(rig->reader, zero, keep_written, &written, NULL), ERR_OK);
    assert_int_equal(store_load(rig->reader, SLICE("a"), keep_written, &written, NULL),
                     ERR_NOT_FOUND);
}

static void print_key(void *arg, const struct state_key *key)
{
    (void)arg;
    rig_print(rig, "%llu/%llu f=%llu %s held=%.*s value=%lld ", (unsigned long long)key->low,
              (unsigned long long)key->high, (unsigned long long)key->fingerprint,
              key->changed ? "changed" : "same", SLICE_ARGS(key->held),
              (long long)key->value.small);
}

TEST(the_answers_of_keys_are_kept_until_they_are_thinned)
{
    for (uint64_t i = 1; i <= 3; i++)
        rig->keys[rig->key_count++] = (struct state_key){
            .low = UINT64_MAX - i,
            .high = i,
            .fingerprint = i,
            .changed = i % 2,
            .held = i == 2 ? SLICE("like") : (struct slice){NULL, 0},
            .value = number_of((int64_t)i),
            .time_ms = rig->now_ms + (int64_t)i,
        };
    rig_apply_ok(rig);
    rig->text[0] = 0;
    assert_int_equal(store_find_key(rig->reader, UINT64_MAX - 2, 2, print_key, NULL, NULL), ERR_OK);
    assert_string_equal(rig->text, "18446744073709551613/2 f=2 same held=like value=2 ");
    assert_int_equal(store_find_key(rig->reader, UINT64_MAX - 2, 3, print_key, NULL, NULL),
                     ERR_NOT_FOUND);
    uint64_t cursor = 0;
    rig->text[0] = 0;
    assert_int_equal(store_keys(rig->reader, rig->now_ms + 3, &cursor, 10, print_key, NULL, NULL),
                     ERR_OK);
    assert_string_equal(rig->text, "18446744073709551612/3 f=3 changed held= value=3 ");

    uint64_t removed;
    assert_int_equal(store_thin(rig->store, 0, 0, rig->now_ms + 3, 100, &removed, NULL), ERR_OK);
    assert_int_equal(removed, 2);
    assert_int_equal(store_find_key(rig->reader, UINT64_MAX - 2, 2, print_key, NULL, NULL),
                     ERR_NOT_FOUND);
}

static void print_past(void *arg, const struct store_past *past)
{
    (void)arg;
    rig_print(rig, "%s%.*s %.*s %.*s", rig->text[0] ? " | " : "", SLICE_ARGS(past->item),
              SLICE_ARGS(past->user), SLICE_ARGS(past->kind));
}

static const char *past(const char *item, const char *user)
{
    rig->text[0] = 0;
    uint64_t cursor = 0;
    unsigned steps = 0;
    do {
        assert_int_equal(store_past(rig->reader, slice_of(item), slice_of(user), &cursor, 2,
                                    print_past, NULL, NULL),
                         ERR_OK);
    } while (cursor != 0 && ++steps < 100);
    return rig->text;
}

TEST(history_is_read_newest_first_by_item_and_user)
{
    rig_react(rig, "v", "7", "", "like");
    rig_apply_ok(rig);
    rig_react(rig, "v", "ann", "", "dislike");
    rig_apply_ok(rig);
    rig_react(rig, "w", "ann", "", "like");
    rig_react(rig, "v", "7", "like", "");
    rig_apply_ok(rig);
    assert_string_equal(past("v", ""), "v 7  | v ann dislike | v 7 like");
    assert_string_equal(past("v", "7"), "v 7  | v 7 like");
    assert_string_equal(past("", "ann"), "w ann like | v ann dislike");
    assert_string_equal(past("x", ""), "");
    assert_string_equal(past("v", "nobody"), "");
}

TEST(thinning_takes_old_rows_in_steps_and_leaves_the_counts)
{
    for (int i = 0; i < 6; i++) {
        rig->now_ms += 1000;
        rig_react(rig, "v", i % 2 ? "7" : "8", "", "like");
        rig_apply_ok(rig);
    }
    uint64_t removed;
    uint64_t all = 0;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(
            store_thin(rig->store, rig->now_ms - 1000, rig->now_ms - 1000, 0, 3, &removed, NULL),
            ERR_OK);
        all += removed;
    }
    assert_int_equal(all, 8);
    struct store_stats stats;
    store_stats(rig->store, &stats);
    assert_int_equal(stats.history_rows, 2);
    assert_int_equal(stats.succeeded, 2);
    assert_string_equal(past("v", ""), "v 7 like | v 8 like");
    assert_string_equal(rig_load(rig, "v"), "v like=2 slices=1 like:7,8");
}

/* ---- walking through everything ---- */

static void print_item(void *arg, struct slice item, struct slice kind)
{
    (void)arg;
    rig_print(rig, "%.*s=%.*s ", SLICE_ARGS(item), SLICE_ARGS(kind));
}

static const char *items_of(const char *user)
{
    rig->text[0] = 0;
    uint64_t cursor = 0;
    unsigned steps = 0;
    do {
        assert_int_equal(
            store_items_of(rig->reader, slice_of(user), &cursor, 2, print_item, NULL, NULL),
            ERR_OK);
    } while (cursor != 0 && ++steps < 100);
    return rig->text;
}

TEST(what_a_user_holds_is_found_on_small_and_large_items)
{
    like_many(0, 5000, "%u");
    rig_apply_ok(rig);
    rig_react(rig, "v", "ann", "", "dislike");
    rig_react(rig, "w", "ann", "", "like");
    rig_react(rig, "x", "bob", "", "like");
    rig_react(rig, "y", "17", "", "dislike");
    rig_apply_ok(rig);
    assert_string_equal(items_of("ann"), "v=dislike w=like ");
    assert_string_equal(items_of("17"), "v=like y=dislike ");
    assert_string_equal(items_of("nobody"), "");
}

TEST(a_scan_meets_everything_once_while_others_are_written)
{
    char names[40][16];
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "c%d", i);
        rig_add(rig, names[i], i);
    }
    rig_apply_ok(rig);
    uint64_t cursor = 0;
    unsigned steps = 0;
    rig->text[0] = 0;
    do {
        assert_int_equal(store_scan(rig->reader, &cursor, 7, rig_print_target, rig, NULL), ERR_OK);
        rig_add(rig, names[steps], 1000);
        rig_apply_ok(rig);
    } while (cursor != 0 && ++steps < 100);
    for (int i = 0; i < 40; i++) {
        char wanted[48];
        snprintf(wanted, sizeof(wanted), "%sc%d value=", i > 0 ? " | " : "", i);
        char *at = strstr(rig->text, wanted);
        assert_non_null(at);
        assert_null(strstr(at + 1, wanted));
    }
}

/* ---- one moment ---- */

static char movers[120][8];

static void *like_and_unlike(void *arg)
{
    for (unsigned i = 0; i < 120; i++) {
        snprintf(movers[i], sizeof(movers[i]), "%u", i);
        rig_react(rig, "v", movers[i], "", "like");
        if (i >= 3)
            rig_react(rig, "v", movers[i - 3], "like", "");
        if (rig_apply(rig, arg))
            return NULL;
    }
    return NULL;
}

static void compare_members(void *arg, const struct state_target *target)
{
    int64_t members = 0;
    for (size_t i = 0; i < target->member_count; i++)
        members += (int64_t)target->members[i].count;
    if (target->kind_count != 1 || target->counts[0] != members)
        *(bool *)arg = false;
}

TEST(what_is_loaded_is_of_one_moment)
{
    struct error error = {.code = ERR_OK};
    pthread_t writer;
    bool agrees = true;
    rig_react(rig, "v", "1000", "", "like");
    rig_apply_ok(rig);
    assert_int_equal(pthread_create(&writer, NULL, like_and_unlike, &error), 0);
    for (int i = 0; i < 400 && agrees; i++)
        assert_int_equal(store_load(rig->reader, SLICE("v"), compare_members, &agrees, NULL),
                         ERR_OK);
    pthread_join(writer, NULL);
    assert_int_equal(error.code, ERR_OK);
    assert_true(agrees);
    assert_string_equal(rig_load(rig, "v"), "v like=4 slices=1 like:117,118,119,1000");
}

/* ---- proof and repair ---- */

static void inspect(const char *id, const char *kind, int64_t value, int64_t members)
{
    struct number found;
    int64_t counted;
    struct state_mark mark;
    assert_int_equal(
        store_inspect(rig->reader, slice_of(id), slice_of(kind), &found, &counted, &mark, NULL),
        ERR_OK);
    assert_int_equal(found.small, value);
    assert_int_equal(counted, members);
    assert_memory_equal(&mark, &rig->mark, sizeof(mark));
}

TEST(a_value_is_inspected_with_its_mark_and_mended)
{
    rig_add(rig, "c", 5);
    rig_react(rig, "v", "7", "", "like");
    rig_apply_ok(rig);
    inspect("c", "", 5, 0);
    inspect("v", "like", 1, 1);
    inspect("v", "dislike", 0, 0);

    struct number by = number_of(-2);
    assert_int_equal(store_mend(rig->store, SLICE("c"), 0, SLICE(""), &by, SLICE("drift"), 1, NULL),
                     ERR_OK);
    assert_int_equal(
        store_mend(rig->store, SLICE("v"), 0, SLICE("like"), &by, SLICE("drift"), 1, NULL), ERR_OK);
    assert_int_equal(store_mend(rig->store, SLICE("x"), 0, SLICE(""), &by, SLICE("drift"), 1, NULL),
                     ERR_NOT_FOUND);
    assert_int_equal(store_mark(rig->store, &rig->mark, NULL), ERR_OK);
    inspect("c", "", 3, 0);
    inspect("v", "like", -1, 1);
    assert_string_equal(audits(), "repair v | repair c");
}

TEST(a_row_that_was_made_anew_is_not_mended)
{
    rig_add(rig, "c", 5);
    rig_apply_ok(rig);
    struct store_unit *unit = rig_add(rig, "c", 1);
    unit->is_new = true;
    unit->incarnation = 1;
    rig_apply_ok(rig);
    struct number by = number_of(-2);
    struct slice none = SLICE("");
    assert_int_equal(store_mend(rig->store, SLICE("c"), 0, none, &by, SLICE("drift"), 1, NULL),
                     ERR_BUSY);
    inspect("c", "", 1, 0);
    assert_int_equal(store_mend(rig->store, SLICE("c"), 1, none, &by, SLICE("drift"), 1, NULL),
                     ERR_OK);
    inspect("c", "", -1, 0);
}

TEST(a_row_is_made_anew_only_where_there_is_none)
{
    rig_add(rig, "c", 5);
    rig_react(rig, "v", "7", "", "like");
    rig_apply_ok(rig);
    struct slice kinds[] = {SLICE("dislike"), SLICE("like")};
    int64_t counts[] = {0, 3};
    struct state_target counter = {.id = SLICE("c"), .value = number_of(8)};
    struct state_target item = {
        .id = SLICE("w"), .is_item = true, .kinds = kinds, .counts = counts, .kind_count = 2};
    assert_int_equal(store_make(rig->store, &counter, SLICE("drift"), 1, NULL), ERR_EXISTS);
    inspect("c", "", 5, 0);
    counter.id = SLICE("d");
    counter.incarnation = 4;
    assert_int_equal(store_make(rig->store, &counter, SLICE("drift"), 1, NULL), ERR_OK);
    assert_int_equal(store_make(rig->store, &item, SLICE("drift"), 1, NULL), ERR_OK);
    inspect("d", "", 8, 0); /* and the totals stay as they were */
    inspect("w", "like", 3, 0);
    struct number by = number_of(1);
    struct slice none = SLICE("");
    assert_int_equal(store_mend(rig->store, SLICE("d"), 4, none, &by, SLICE("drift"), 1, NULL),
                     ERR_OK);
    inspect("d", "", 9, 0);
}

TEST(members_are_mended_from_scratch)
{
    like_many(0, 5000, "%u");
    rig_apply_ok(rig);
    struct store_reaction members[] = {
        {.user = SLICE("3"), .number = 3, .after = SLICE("like")},
        {.user = SLICE("4"), .number = 4, .after = SLICE("like")},
    };
    for (int i = 0; i < 2; i++)
        members[i].bucket = bucket_of(SLICE("v"), members[i].user);
    assert_int_equal(
        store_mend_members(rig->store, SLICE("v"), members, 2, NULL, SLICE("drift"), 1, NULL),
        ERR_OK);
    assert_int_equal(members_in_slices("v"), 2);
    inspect("v", "like", 5000, 2);
}

TEST(repairs_and_notes_stand_in_the_audit_trail)
{
    rig->repairs[rig->repair_count++] = (struct event){
        .type = EVENT_REPAIR, .id = SLICE("v"), .kind = SLICE("like"), .amount = number_of(3)};
    rig_apply_ok(rig);
    struct store_audit audit = {.what = SLICE("drift"), .id = SLICE("c"), .text = SLICE("by 3")};
    assert_int_equal(store_note(rig->store, &audit, NULL), ERR_OK);
    assert_string_equal(audits(), "drift c | repair v");
}

TEST(bases_add_up)
{
    struct slice ids[] = {SLICE("c"), SLICE("v/like")};
    struct number sums[] = {number_of(INT64_MAX), number_of(7)};
    struct log_position position = {4, 0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(store_rebase(rig->store, ids, sums, 2, position, NULL), ERR_OK);
    rig_reopen(rig);
    struct number sum;
    struct number discarded;
    assert_int_equal(store_base(rig->reader, SLICE("v/like"), &sum, &discarded, &position, NULL),
                     ERR_OK);
    assert_int_equal(sum.small, 14);
    assert_int_equal(position.segment, 4);
    assert_int_equal(store_base(rig->reader, SLICE("c"), &sum, &discarded, &position, NULL),
                     ERR_OK);
    assert_non_null(sum.big);
    number_done(&sum);
    assert_int_equal(store_base(rig->reader, SLICE("x"), &sum, &discarded, &position, NULL),
                     ERR_OK);
    assert_int_equal(sum.small, 0);
}

static enum err base_of(const char *id)
{
    struct number sum = number_of(0);
    struct number discarded = number_of(0);
    struct log_position position;
    enum err err = store_base(rig->reader, slice_of(id), &sum, &discarded, &position, NULL);
    if (!err) {
        number_done(&sum);
        number_done(&discarded);
    }
    return err;
}

/* The audit believes them, and would make counts wrong by them. */
TEST(what_a_recount_begins_with_cannot_be_changed_without_a_word)
{
    if (!form->takes)
        return;
    struct slice ids[] = {SLICE("a"), SLICE("b"), SLICE("c")};
    struct number sums[] = {number_of(1), number_of(2), number_of(INT64_MAX)};
    struct log_position position = {4, 0};
    assert_int_equal(store_rebase(rig->store, ids, sums, 3, position, NULL), ERR_OK);
    assert_false(form->takes(rig->folder, "DELETE FROM bases"));
    assert_true(form->takes(rig->folder, "UPDATE bases SET sum=5 WHERE id='a'"));
    assert_true(form->takes(rig->folder, "UPDATE bases SET discarded=5 WHERE id='b'"));
    assert_true(
        form->takes(rig->folder, "INSERT INTO bases(id, sum, discarded) VALUES('d', 5, 5)"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(base_of("a"), ERR_CORRUPT);
        assert_int_equal(base_of("b"), ERR_CORRUPT);
        assert_int_equal(base_of("d"), ERR_CORRUPT);
        assert_int_equal(base_of("c"), ERR_OK);
        assert_int_equal(base_of("e"), ERR_OK);
        /* Whatever is added to them. */
        assert_int_equal(store_rebase(rig->store, ids, sums, 3, position, NULL), ERR_OK);
        rig_unit(rig, "b", false)->is_gone = true;
        rig_apply_ok(rig);
    }
}

static void note_wrong(void *arg, const struct state_target *target)
{
    *(bool *)arg = target->is_wrong;
}

static bool is_wrong(const char *id)
{
    bool wrong = false;
    struct error error = {.text = ""};
    if (store_load(rig->reader, slice_of(id), note_wrong, &wrong, &error))
        fail_msg("%s", error.text);
    return wrong;
}

static void count_wrong(void *arg, const struct state_target *target)
{
    *(unsigned *)arg += target->is_wrong;
}

static unsigned wrong_in_scan(void)
{
    unsigned count = 0;
    uint64_t cursor = 0;
    do
        assert_int_equal(store_scan(rig->reader, &cursor, 100, count_wrong, &count, NULL), ERR_OK);
    while (cursor != 0);
    return count;
}

/* In all the ways in which a row comes to be and changes. */
static void do_all_to_rows(void)
{
    rig_add(rig, "c", 5);
    struct store_unit *unit = rig_add(rig, "settings", -7);
    unit->has_create = true;
    unit->create = (struct op_create){.shards = 8, .policy = POLICY_LOCAL, .has_floor = true};
    unit->has_deadline = true;
    unit->deadline_ms = 123456;
    rig_react(rig, "item", "7", "", "like");
    rig_react(rig, "item", "ann", "", "dislike");
    rig_react(rig, "gone", "7", "", "like");
    rig_apply_ok(rig);
    rig_add(rig, "c", INT64_MAX);
    rig_add(rig, "settings", 1);
    rig_react(rig, "item", "8", "", "like");
    rig_react(rig, "item", "7", "like", "");
    struct store_unit *sharded = rig_unit(rig, "item", true);
    sharded->has_create = true;
    sharded->create = (struct op_create){.shards = 4};
    rig_unit(rig, "gone", true)->is_gone = true;
    rig_apply_ok(rig);
    rig_add(rig, "c", INT64_MIN);
    struct store_unit *later = rig_unit(rig, "settings", false);
    later->has_deadline = true;
    struct store_unit *anew = rig_unit(rig, "gone", true);
    anew->is_new = true;
    anew->incarnation = 1;
    rig_react(rig, "gone", "8", "", "like");
    rig_apply_ok(rig);
}

TEST(whatever_is_done_to_a_row_its_sum_fits)
{
    do_all_to_rows();
    const char *const ids[] = {"c", "settings", "item", "gone"};
    for (size_t i = 0; i < 4; i++)
        assert_false(is_wrong(ids[i]));
    assert_int_equal(wrong_in_scan(), 0);
    struct number by = number_of(4);
    struct number nothing = number_of(0);
    assert_int_equal(store_mend(rig->store, SLICE("c"), 0, SLICE(""), &by, SLICE("x"), 1, NULL),
                     ERR_OK);
    assert_int_equal(
        store_mend(rig->store, SLICE("item"), 0, SLICE("like"), &by, SLICE("x"), 1, NULL), ERR_OK);
    assert_int_equal(
        store_mend(rig->store, SLICE("item"), 0, SLICE(""), &nothing, SLICE("x"), 1, NULL), ERR_OK);
    assert_int_equal(wrong_in_scan(), 0);
    rig_reopen(rig);
    assert_int_equal(wrong_in_scan(), 0);
}

/* A row that was wrong stays wrong, whatever is added to it, until all of it is right. */
TEST(a_row_that_was_changed_by_hand_does_not_fit)
{
    struct number nothing = number_of(0);
    if (!form->takes)
        return;
    do_all_to_rows();
    assert_true(form->takes(rig->folder, "UPDATE entries SET value=555 WHERE id='c'"));
    assert_true(form->takes(rig->folder, "UPDATE entries SET deadline_ms=555 WHERE id='settings'"));
    assert_true(form->takes(rig->folder, form->falsify_count));
    for (int i = 0; i < 2; i++) {
        assert_true(is_wrong("c"));
        assert_true(is_wrong("settings"));
        assert_true(is_wrong("item"));
        assert_false(is_wrong("gone"));
        assert_int_equal(wrong_in_scan(), 3);
        rig_add(rig, "c", 1);
        rig_add(rig, "settings", 1)->has_deadline = true;
        rig_react(rig, "item", "9", "", "like");
        rig_apply_ok(rig);
    }
    const char *const ids[] = {"c", "settings", "item"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            store_mend(rig->store, slice_of(ids[i]), 0, SLICE(""), &nothing, SLICE("x"), 1, NULL),
            ERR_OK);
    assert_int_equal(wrong_in_scan(), 0);
    assert_true(form->takes(rig->folder, form->forget_sum));
    assert_true(is_wrong("c"));
}

/* The type is not what tells a loader that there is nothing. */
TEST(a_row_whose_type_was_changed_by_hand_is_there_and_does_not_fit)
{
    static const char *const changes[] = {
        "UPDATE entries SET type=2 WHERE id IN ('c', 'item')",
        "UPDATE entries SET type=1-type WHERE id IN ('c', 'item')"};
    static const char *const ids[] = {"c", "item"};
    struct number nothing = number_of(0);
    if (!form->takes)
        return;
    do_all_to_rows();
    for (size_t i = 0; i < 2; i++) {
        assert_true(form->takes(rig->folder, changes[i]));
        for (int again = 0; again < 2; again++) {
            assert_true(is_wrong("c"));
            assert_true(is_wrong("item"));
            assert_int_equal(wrong_in_scan(), 2);
            rig_add(rig, "c", 1);
            rig_react(rig, "item", again ? "8" : "9", "", "like");
            rig_apply_ok(rig);
        }
        uint64_t removed;
        assert_int_equal(
            store_thin(rig->store, rig->now_ms + 1, rig->now_ms + 1, 0, 1000, &removed, NULL),
            ERR_OK);
        for (size_t j = 0; j < 2; j++)
            assert_int_equal(store_mend(rig->store, slice_of(ids[j]), 0, SLICE(""), &nothing,
                                        SLICE("x"), 1, NULL),
                             ERR_OK);
        assert_int_equal(wrong_in_scan(), 0);
        assert_false(is_wrong("c"));
        assert_false(is_wrong("item"));
    }
}

/* Whatever life the row speaks of. */
TEST(what_is_added_to_a_row_of_another_life_does_not_fit)
{
    static const char *const ids[] = {"later", "earlier"};
    if (!form->takes)
        return;
    for (size_t i = 0; i < 2; i++)
        rig_add(rig, ids[i], 1)->incarnation = 3;
    rig_apply_ok(rig);
    assert_int_equal(wrong_in_scan(), 0);
    assert_true(form->takes(rig->folder, "UPDATE entries SET incarnation=7 WHERE id='later'"));
    assert_true(form->takes(rig->folder, "UPDATE entries SET incarnation=0 WHERE id='earlier'"));
    for (size_t i = 0; i < 2; i++)
        rig_add(rig, ids[i], 1)->incarnation = 3;
    rig_apply_ok(rig);
    assert_int_equal(wrong_in_scan(), 2);
}

static void note_life(void *arg, const struct state_target *target)
{
    *(uint32_t *)arg = target->incarnation;
}

static uint32_t life_of(const char *id)
{
    uint32_t life = UINT32_MAX;
    assert_int_equal(store_load(rig->reader, slice_of(id), note_life, &life, NULL), ERR_OK);
    return life;
}

static void react_in_life(const char *item, const char *user, uint32_t life)
{
    rig_react(rig, item, user, "", "like");
    rig->units[rig->unit_count - 1].incarnation = life;
}

/* A wrong row is not believed when it says that a unit is late. */
TEST(what_is_added_to_a_row_of_another_life_counts_and_says_which_it_is)
{
    if (!form->takes)
        return;
    rig_add(rig, "c", 1)->incarnation = 3;
    struct store_unit *unit = rig_unit(rig, "c2", false);
    unit->has_create = true;
    unit->create = (struct op_create){.shards = 8, .policy = POLICY_LOCAL};
    unit->incarnation = 3;
    react_in_life("item", "7", 3);
    rig_apply_ok(rig);
    assert_true(form->takes(rig->folder, "UPDATE entries SET incarnation=7"));
    rig_add(rig, "c", 1)->incarnation = 3;
    rig_add(rig, "c2", 1)->incarnation = 3;
    react_in_life("item", "8", 3);
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "item"), "item like=2 slices=1 like:7,8 inc=3");
    assert_int_equal(life_of("c"), 3);
    assert_int_equal(life_of("c2"), 3);
    assert_int_equal(wrong_in_scan(), 3);
}

TEST(a_wrong_row_is_told_which_life_it_is_of)
{
    static const char *const ids[] = {"c", "item"};
    struct number nothing = number_of(0);
    if (!form->takes)
        return;
    rig_add(rig, "c", 1)->incarnation = 3;
    react_in_life("item", "7", 3);
    rig_apply_ok(rig);
    for (size_t i = 0; i < 2; i++) { /* nothing to do; and what is right stays */
        struct slice id = slice_of(ids[i]);
        assert_int_equal(store_mend_life(rig->store, id, 3, 3, SLICE("x"), 1, NULL), ERR_OK);
        assert_int_equal(store_mend_life(rig->store, id, 3, 4, SLICE("x"), 1, NULL), ERR_BUSY);
    }
    assert_int_equal(store_mend_life(rig->store, SLICE("no"), 3, 4, SLICE("x"), 1, NULL),
                     ERR_NOT_FOUND);
    assert_int_equal(wrong_in_scan(), 0);
    /* Nothing else is wrong with it: it is what was written there. */
    assert_true(form->takes(rig->folder, "UPDATE entries SET incarnation=7"));
    for (size_t i = 0; i < 2; i++) {
        struct slice id = slice_of(ids[i]);
        assert_int_equal(store_mend_life(rig->store, id, 6, 3, SLICE("x"), 1, NULL), ERR_BUSY);
        assert_int_equal(store_mend_life(rig->store, id, 7, 3, SLICE("x"), 1, NULL), ERR_OK);
        assert_int_equal(life_of(ids[i]), 3);
    }
    assert_int_equal(wrong_in_scan(), 0);
    /* Something else is, too. */
    assert_true(form->takes(rig->folder, "UPDATE entries SET incarnation=7, deadline_ms=555"));
    for (size_t i = 0; i < 2; i++) {
        struct slice id = slice_of(ids[i]);
        assert_int_equal(store_mend_life(rig->store, id, 7, 3, SLICE("x"), 1, NULL), ERR_OK);
        assert_true(is_wrong(ids[i]));
        assert_int_equal(store_mend(rig->store, id, 3, SLICE(""), &nothing, SLICE("x"), 1, NULL),
                         ERR_OK);
        assert_false(is_wrong(ids[i]));
        assert_int_equal(life_of(ids[i]), 3);
    }
}

TEST(settings_that_nobody_can_read_do_not_stay)
{
    struct number by = number_of(4);
    struct number nothing = number_of(0);
    if (!form->takes)
        return;
    do_all_to_rows();
    for (int i = 0; i < 2; i++) {
        assert_true(form->takes(rig->folder, "UPDATE entries SET settings='{abc' "
                                             "WHERE id IN ('c', 'settings', 'item')"));
        assert_int_equal(wrong_in_scan(), 3);
        /* What is added to put it right is added to what stands there. */
        struct number value;
        struct state_mark mark;
        int64_t members;
        assert_int_equal(
            store_inspect(rig->reader, SLICE("c"), SLICE(""), &value, &members, &mark, NULL),
            ERR_OK);
        assert_int_equal(value.small, 4);
        const char *const ids[] = {"c", "settings", "item"};
        for (size_t j = 0; j < 3; j++) {
            assert_true(is_wrong(ids[j]));
            assert_int_equal(store_mend(rig->store, slice_of(ids[j]), 0, SLICE(""),
                                        i == 1 && j < 2 ? &by : &nothing, SLICE("x"), 1, NULL),
                             ERR_OK);
            assert_false(is_wrong(ids[j]));
        }
        assert_int_equal(wrong_in_scan(), 0);
    }
    /* Those that can be read do. */
    assert_true(form->takes(rig->folder, "UPDATE entries SET deadline_ms=555 WHERE id='gone'"));
    assert_true(is_wrong("gone"));
}

/* ---- erasing ---- */

TEST(an_erased_user_leaves_no_name_behind)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    rig_react(rig, "bad", "secret-ann", "", "like");
    rig_react(rig, "v", "secret-ann", "", "like");
    for (int i = 0; i < 300; i++) {
        snprintf(many[i], sizeof(many[i]), "other-%d", i);
        rig_react(rig, "v", many[i], "", "like");
    }
    rig_apply_ok(rig);
    rig_react(rig, "v", "secret-ann", "like", "");
    rig_apply_ok(rig);
    assert_true(form->holds(rig->folder, "secret-ann"));
    uint64_t rows;
    struct error error;
    if (store_erase(rig->store, SLICE("secret-ann"), SLICE("erased-1"), rig->now_ms, &rows, &error))
        fail_msg("%s", error.text);
    assert_false(form->holds(rig->folder, "secret-ann"));
    assert_true(form->holds(rig->folder, "other-299"));
    assert_string_equal(past("v", "other-299"), "v other-299 like");
    uint32_t number;
    assert_int_equal(store_find_user(rig->reader, SLICE("secret-ann"), &number, NULL),
                     ERR_NOT_FOUND);
    rig->text[0] = 0;
    assert_int_equal(store_names(rig->reader, &(uint32_t){0}, 1, print_name, NULL, NULL), ERR_OK);
    assert_string_equal(rig->text, "");
    /* What waits can still be loaded; it only does not say who it was. */
    assert_string_equal(rig_load(rig, "bad"), "bad absent pending=1");
    /* Once more is fine. */
    assert_int_equal(
        store_erase(rig->store, SLICE("secret-ann"), SLICE("erased-1"), rig->now_ms, &rows, NULL),
        ERR_OK);
}

struct pending {
    size_t count;
    char texts[2][64]; /* "id key" */
};

static void keep_pending(void *arg, const struct state_target *target)
{
    struct pending *pending = arg;
    pending->count = target->pending_count;
    for (size_t i = 0; i < target->pending_count && i < 2; i++)
        snprintf(pending->texts[i], sizeof(pending->texts[i]), "%.*s %.*s",
                 SLICE_ARGS(target->pending[i].id), SLICE_ARGS(target->pending[i].key));
}

/* Its key names the user. Its id may, too, and is what the change is about. */
TEST(what_waits_loses_an_erased_user_from_its_keys_and_keeps_its_id)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    struct store_unit *unit = rig_unit(rig, "bad-ann-7-a", false);
    struct event event = {.type = EVENT_ADD,
                          .id = unit->id,
                          .amount = number_of(1),
                          .key = SLICE("like7x2"),
                          .answer = {.changed = true, .value = number_of(1)}};
    rig_event(rig, unit, &event);
    event.key = SLICE("likeann2");
    rig_event(rig, unit, &event);
    unit->delta = number_of(2);
    rig_apply_ok(rig);
    assert_true(form->holds(rig->folder, "like7x2"));
    assert_true(form->holds(rig->folder, "likeann2"));
    uint64_t rows;
    static const char *const users[] = {"7", "ann", "a"};
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(store_erase(rig->store, slice_of(users[i]), SLICE("erased-1"), rig->now_ms,
                                     &rows, NULL),
                         ERR_OK);
    assert_false(form->holds(rig->folder, "like7x2"));
    assert_false(form->holds(rig->folder, "likeann2"));
    struct pending pending = {0};
    assert_int_equal(store_load(rig->reader, SLICE("bad-ann-7-a"), keep_pending, &pending, NULL),
                     ERR_OK);
    assert_int_equal(pending.count, 2);
    assert_string_equal(pending.texts[0], "bad-ann-7-a ~~~~~~~");
    assert_string_equal(pending.texts[1], "bad-ann-7-a ~~~~~~~~");
    form->accept(rig->folder);
    rig->now_ms += 1000;
    assert_string_equal(retry_due(), "bad-ann-7-a success");
    assert_string_equal(rig_load(rig, "bad-ann-7-a"), "bad-ann-7-a value=2");
}

/* In either case, and encoded as in a URL: no bytes of it are those of the name. */
TEST(what_waits_and_dead_letters_lose_a_name_that_a_key_spells_otherwise)
{
    form->refuse(rig->folder, "bad%", "ABORT");
    static const char *const keys[] = {"order-BOB-1", "by-b%6Fb-2", "Bob3"};
    for (unsigned i = 0; i < 3; i++) {
        char id[16];
        snprintf(id, sizeof(id), "bad%u", i);
        struct store_unit *unit = rig_unit(rig, id, false);
        struct event event = {.type = EVENT_ADD,
                              .id = unit->id,
                              .amount = number_of(1),
                              .key = slice_of(keys[i]),
                              .answer = {.changed = true, .value = number_of(1)}};
        rig_event(rig, unit, &event);
        unit->delta = number_of(1);
        rig_apply_ok(rig);
        assert_true(form->holds(rig->folder, keys[i]));
        if (i > 0)
            continue;
        for (int64_t wait = 1000; wait <= 16000; wait *= 2) {
            rig->now_ms += wait;
            assert_string_equal(retry_due(), wait < 16000 ? "bad0 refused" : "bad0 letter");
        }
    }
    uint64_t rows;
    assert_int_equal(
        store_erase(rig->store, SLICE("bob"), SLICE("erased-1"), rig->now_ms, &rows, NULL), ERR_OK);
    for (unsigned i = 0; i < 3; i++)
        assert_false(form->holds(rig->folder, keys[i]));
}

/* Memory may know the name still, and its number: they come back together. */
TEST(an_erased_user_who_comes_back_is_one_user)
{
    rig_react(rig, "v", "ann", "", "like");
    rig_react(rig, "v", "bob", "", "like");
    rig_apply_ok(rig);
    uint64_t rows;
    assert_int_equal(
        store_erase(rig->store, SLICE("ann"), SLICE("erased-1"), rig->now_ms, &rows, NULL),
        ERR_BUSY); /* a member needs a name */
    rig_react(rig, "v", "ann", "like", "");
    rig_apply_ok(rig);
    assert_int_equal(
        store_erase(rig->store, SLICE("ann"), SLICE("erased-1"), rig->now_ms, &rows, NULL), ERR_OK);
    rig_reopen(rig);
    rig_react(rig, "v", "ann", "", "like");
    rig_apply_ok(rig);
    uint32_t number;
    assert_int_equal(store_find_user(rig->reader, SLICE("ann"), &number, NULL), ERR_OK);
    assert_int_equal(number, 0);
    rig_reopen(rig);
    assert_int_equal(store_find_user(rig->reader, SLICE("ann"), &number, NULL), ERR_OK);
    assert_int_equal(number, 0);
    assert_string_equal(past("v", ""), "v ann like | v erased-1  | v bob like | v erased-1 like");
    assert_string_equal(rig_load(rig, "v"), "v like=2 slices=1 like*:0,1");
}

/* Rows that came in any order were moved about, and must not have left copies. */
TEST(no_copy_of_an_erased_name_is_left_between_the_rows)
{
    enum { USERS = 3000, STEP = 1201 };
    for (unsigned i = 0; i < USERS; i++) {
        unsigned number = i * STEP % USERS;
        snprintf(many[i], sizeof(many[i]), "name-%05u-x", number);
        struct store_unit *unit = rig_unit(rig, "v", true);
        rig->reactions[0][unit->reaction_count++] = (struct store_reaction){
            .user = slice_of(many[i]),
            .named = true,
            .number = number,
            .bucket = bucket_of(SLICE("v"), slice_of(many[i])),
            .after = SLICE("like"),
        };
        if (i % 50 == 49)
            rig_apply_ok(rig);
    }
    for (unsigned i = 0; i < 60; i++) { /* who is erased holds nothing any more */
        struct store_unit *unit = rig_unit(rig, "v", true);
        rig->reactions[0][unit->reaction_count++] = (struct store_reaction){
            .user = slice_of(many[i * 50]),
            .named = true,
            .number = i * 50 * STEP % USERS,
            .bucket = bucket_of(SLICE("v"), slice_of(many[i * 50])),
            .before = SLICE("like"),
        };
    }
    rig_apply_ok(rig);
    for (unsigned i = 0; i < 60; i++) {
        uint64_t rows;
        char stub[48];
        snprintf(stub, sizeof(stub), "a stub that is longer than the name %u", i);
        assert_int_equal(store_erase(rig->store, slice_of(many[i * 50]),
                                     slice_of(i % 2 ? stub : "e"), rig->now_ms, &rows, NULL),
                         ERR_OK);
        assert_int_equal(rows, 3); /* two of the history, and the user's own */
        assert_false(form->holds(rig->folder, many[i * 50]));
    }
    for (unsigned i = 0; i < 60; i++) {
        assert_false(form->holds(rig->folder, many[i * 50]));
        assert_true(form->holds(rig->folder, many[i * 50 + 1]));
    }
}

TEST(an_erased_numeric_user_has_a_stub_in_the_history)
{
    rig_react(rig, "v", "4711", "", "like");
    rig_react(rig, "v", "4712", "", "like");
    rig_react(rig, "v", "4711", "like", "");
    rig_apply_ok(rig);
    uint64_t rows;
    assert_int_equal(
        store_erase(rig->store, SLICE("4711"), SLICE("erased-1"), rig->now_ms, &rows, NULL),
        ERR_OK);
    assert_int_equal(rows, 2);
    assert_string_equal(past("v", ""), "v erased-1  | v 4712 like | v erased-1 like");
}

TEST(of_an_erased_reaction_only_the_counts_are_followed)
{
    rig_react(rig, "v", "7", "", "like");
    rig_react(rig, "v", "ann", "", "like");
    rig->reactions[0][1].erased = true;
    rig->reactions[0][1].user = (struct slice){NULL, 0};
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=2 slices=1 like:7");
    rig_react(rig, "v", "ann", "like", "");
    rig->reactions[0][0].erased = true;
    rig_apply_ok(rig);
    assert_string_equal(rig_load(rig, "v"), "v like=1 slices=1 like:7");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static inline int store_suite(const struct form *of)
{
    const struct CMUnitTest tests[] = {
        CASE(a_counter_is_the_sum_of_its_deltas),
        CASE(a_value_of_any_size_is_kept),
        CASE(settings_and_deadline_stay_with_a_counter),
        CASE(a_deleted_counter_is_gone_and_a_new_one_starts_from_nothing),
        CASE(a_late_unit_changes_nothing),
        CASE(a_late_unit_of_an_item_that_was_deleted_changes_nothing),
        CASE(an_item_has_counts_and_members),
        CASE(the_store_believes_its_own_sets),
        CASE(of_several_reactions_of_a_user_the_last_one_stays),
        CASE(the_shards_asked_for_stay_with_an_item_which_is_in_slices),
        CASE(an_item_that_gets_shards_later_takes_its_members_along),
        CASE(a_large_item_comes_in_slices),
        CASE(an_item_may_be_born_large),
        CASE(a_batch_counts_once),
        CASE(a_refused_unit_does_not_keep_the_others_back),
        CASE(nor_does_one_that_takes_the_transaction_down),
        CASE(a_refused_unit_is_tried_after_1_2_4_8_and_16_seconds_and_then_is_a_letter),
        CASE(a_retry_that_is_taken_is_a_success_and_counts_once),
        CASE(a_success_has_no_reason_also_when_it_was_refused_before),
        CASE(states_transitions_and_deltas_that_cannot_be_are_refused),
        CASE(the_delta_of_what_waits_or_is_given_up_cannot_be_edited),
        CASE(what_waits_cannot_be_made_done_by_hand),
        CASE(what_waits_is_shown_with_the_events_that_it_is_made_of),
        CASE(a_counter_gets_no_other_delta_than_was_asked_for),
        CASE(units_of_one_id_keep_their_order),
        CASE(a_letter_that_only_adds_holds_nobody_back_and_others_do),
        CASE(what_was_discarded_goes_with_what_is_deleted),
        CASE(a_discarded_letter_is_remembered_for_recounts),
        CASE(poison_goes_to_the_letters_and_the_mark_moves_on),
        CASE(a_clock_that_goes_back_does_not_hold_retries_up),
        CASE(a_page_of_lives_is_full_although_few_of_them_match),
        CASE(users_are_found_by_name_also_when_numbers_come_in_any_order),
        CASE(a_number_that_was_given_out_is_not_given_again),
        CASE(a_unit_without_a_time_leaves_the_last_change_alone),
        CASE(names_and_hashes_of_all),
        CASE(ids_and_names_may_hold_any_byte),
        CASE(the_answers_of_keys_are_kept_until_they_are_thinned),
        CASE(history_is_read_newest_first_by_item_and_user),
        CASE(thinning_takes_old_rows_in_steps_and_leaves_the_counts),
        CASE(what_a_user_holds_is_found_on_small_and_large_items),
        CASE(a_scan_meets_everything_once_while_others_are_written),
        CASE(what_is_loaded_is_of_one_moment),
        CASE(a_value_is_inspected_with_its_mark_and_mended),
        CASE(a_row_that_was_made_anew_is_not_mended),
        CASE(a_row_is_made_anew_only_where_there_is_none),
        CASE(members_are_mended_from_scratch),
        CASE(repairs_and_notes_stand_in_the_audit_trail),
        CASE(bases_add_up),
        CASE(what_a_recount_begins_with_cannot_be_changed_without_a_word),
        CASE(whatever_is_done_to_a_row_its_sum_fits),
        CASE(a_row_that_was_changed_by_hand_does_not_fit),
        CASE(a_row_whose_type_was_changed_by_hand_is_there_and_does_not_fit),
        CASE(what_is_added_to_a_row_of_another_life_does_not_fit),
        CASE(what_is_added_to_a_row_of_another_life_counts_and_says_which_it_is),
        CASE(a_wrong_row_is_told_which_life_it_is_of),
        CASE(settings_that_nobody_can_read_do_not_stay),
        CASE(an_erased_user_leaves_no_name_behind),
        CASE(what_waits_loses_an_erased_user_from_its_keys_and_keeps_its_id),
        CASE(what_waits_and_dead_letters_lose_a_name_that_a_key_spells_otherwise),
        CASE(an_erased_user_who_comes_back_is_one_user),
        CASE(no_copy_of_an_erased_name_is_left_between_the_rows),
        CASE(an_erased_numeric_user_has_a_stub_in_the_history),
        CASE(of_an_erased_reaction_only_the_counts_are_followed),
    };
    form = of;
    return cmocka_run_group_tests_name(form->name, tests, NULL, NULL);
}

#endif
