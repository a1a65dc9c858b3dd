/* store_test.c - what core/store.h promises, asked of every store there is.
 *
 * To add a store, write an opener and put a line into `forms`. */
#include "contract/store_rig.h"

#include "store/sqlite/sqlite.h"

static struct store *open_sqlite(struct env *env, const char *folder)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/tally.db", folder);
    struct sqlite_store_options options = {.path = path};
    struct store *store;
    struct error error;
    if (sqlite_store_open(env, &options, &store, &error))
        fail_msg("%s", error.text);
    return store;
}

struct form {
    const char *name;
    rig_open_fn *open;
};

static const struct form forms[] = {
    {"sqlite", open_sqlite},
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

static char many[12000][16];

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

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_counter_is_the_sum_of_its_deltas),
        CASE(a_value_of_any_size_is_kept),
        CASE(settings_and_deadline_stay_with_a_counter),
        CASE(a_deleted_counter_is_gone_and_a_new_one_starts_from_nothing),
        CASE(a_late_unit_changes_nothing),
        CASE(an_item_has_counts_and_members),
        CASE(the_store_believes_its_own_sets),
        CASE(of_several_reactions_of_a_user_the_last_one_stays),
        CASE(a_large_item_comes_in_slices),
        CASE(an_item_may_be_born_large),
        CASE(a_batch_counts_once),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        form = &forms[i];
        failed += cmocka_run_group_tests_name(form->name, tests, NULL, NULL);
    }
    return failed;
}
