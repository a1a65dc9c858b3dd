/* load_test.c - what is not in Redis comes from the store, once; and what is read while a cell is
 * closed. */
#include "unit/hot/redis/rig.h"

#include "core/bucket.h"
#include "hot/redis/script.h"

/* servers: redis */
/* servers: cluster */
/* threads */

static struct rig rig;
static struct hot *hot;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    hot = rig_node(&rig);
    rig_open_all(hot);
    rig_begin(hot);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static struct state_target counter(const char *id, int64_t value)
{
    return (struct state_target){.id = slice_of(id),
                                 .value = number_of(value),
                                 .incarnation = 3,
                                 .written_ms = 1000,
                                 .create = {.shards = 1}};
}

static struct slice like_name[] = {{"like", 4}};
static struct slice two_users[] = {{"ann", 3}, {"bob", 3}};
static uint32_t two_numbers[] = {7, 42};

static struct state_members some_members[] = {
    {.kind = {"like", 4}, .named = true, .names = two_users, .count = 2},
    {.kind = {"dislike", 7}, .named = false, .numbers = two_numbers, .count = 2},
};

static struct state_target item(const char *id)
{
    return (struct state_target){.id = slice_of(id),
                                 .is_item = true,
                                 .slices = 1,
                                 .written_ms = 1000,
                                 .create = {.shards = 1},
                                 .members = some_members,
                                 .member_count = 2};
}

/* Lets `op` be answered with what the store has. */
static struct op run_with(struct op op, const struct state_target *target)
{
    struct op done = rig_run(hot, op);
    assert_int_equal(done.code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    assert_int_equal(want.kind, HOT_WANT_TARGET);
    assert_true(slice_equal(want.id, op.id));
    rig_answer(hot, &want, target);
    return rig_run(hot, op);
}

static struct op held_by(const char *id, const char *user)
{
    return rig_run(hot,
                   (struct op){.kind = OP_REACTION, .id = slice_of(id), .user = slice_of(user)});
}

static void assert_counts(const char *id, int64_t likes, int64_t dislikes)
{
    int64_t counts[LIMIT_KINDS] = {0};
    struct op op =
        rig_run(hot, (struct op){.kind = OP_COUNTS, .id = slice_of(id), .counts = counts});
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(counts[0], likes);
    assert_int_equal(counts[1], dislikes);
}

/* ---- */

TEST(a_missing_counter_is_loaded_and_then_written_to)
{
    struct state_target a = counter("a", 40);
    struct op op = run_with(rig_add("a", 2), &a);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 42);
    struct op_describe describe;
    op = rig_run(hot, (struct op){.kind = OP_DESCRIBE, .id = SLICE("a"), .describe = &describe});
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(describe.incarnation, 3);
}

TEST(what_nobody_has_is_not_zero_but_not_there)
{
    struct op op = run_with(rig_get("a"), NULL);
    assert_int_equal(op.code, ERR_NOT_FOUND);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_NOT_FOUND); /* and is not asked for */
    struct hot_want want;
    assert_false(hot_wanted(hot, &want));
    op = rig_run(hot, rig_add("a", 2));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 2);
    assert_string_equal(RIG_DO(&rig, "PTTL", rig_key(&rig, hot, rig_home("a"), "r:a")), "-1");
}

TEST(many_who_lack_the_same_are_one_want)
{
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    struct hot_want other;
    assert_false(hot_wanted(hot, &other));
    struct state_target a = counter("a", 1);
    rig_answer(hot, &want, &a);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).value.small, 2);
    assert_false(hot_wanted(hot, &other));
}

TEST(what_is_handed_in_together_goes_in_with_the_last_one)
{
    struct hot_want wants[3];
    struct state_target target = counter("a", 40);
    const char *ids[] = {"a", "b", "c"};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(rig_run(hot, rig_add(ids[i], 2)).code, ERR_COLD);
        rig_wanted(hot, &wants[i]);
    }
    uint64_t arrivals = atomic_load(&hot->arrivals);
    hot_loaded(hot, &wants[0],
               &(struct hot_found){.code = ERR_OK, .target = &target, .more = true});
    hot_loaded(hot, &wants[1], &(struct hot_found){.code = ERR_UNAVAILABLE, .more = true});
    assert_int_equal(atomic_load(&hot->arrivals), arrivals);
    hot_loaded(hot, &wants[2], &(struct hot_found){.code = ERR_NOT_FOUND});
    assert_int_equal(atomic_load(&hot->arrivals), arrivals + 1);

    assert_int_equal(rig_run(hot, rig_add("a", 2)).value.small, 42);
    assert_int_equal(rig_run(hot, rig_add("b", 2)).code, ERR_UNAVAILABLE);
    assert_int_equal(rig_run(hot, rig_add("c", 2)).value.small, 2);
}

TEST(more_than_go_in_at_once_are_all_there_in_the_end)
{
    enum { COUNT = 200 };
    static struct hot_want wants[COUNT];
    char id[16];
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(id, sizeof(id), "id%u", i);
        assert_int_equal(rig_run(hot, rig_add(id, 1)).code, ERR_COLD);
    }
    for (unsigned i = 0; i < COUNT; i++)
        rig_wanted(hot, &wants[i]);
    for (unsigned i = 0; i < COUNT; i++)
        hot_loaded(hot, &wants[i],
                   &(struct hot_found){.code = ERR_NOT_FOUND, .more = i + 1 < COUNT});
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(id, sizeof(id), "id%u", i);
        assert_int_equal(rig_run(hot, rig_add(id, 1)).code, ERR_OK);
    }
}

TEST(of_two_nodes_one_loads_and_the_other_waits_for_it)
{
    struct hot *two = rig_node(&rig);
    rig_begin(two);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_COLD);
    assert_int_equal(rig_run(two, rig_add("a", 1)).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    struct hot_want other;
    assert_false(hot_wanted(two, &other));
    uint64_t arrivals = atomic_load(&two->arrivals);
    struct state_target a = counter("a", 10);
    rig_answer(hot, &want, &a);
    for (unsigned i = 0; i < 100 && atomic_load(&two->arrivals) == arrivals; i++)
        usleep(10000);
    assert_true(atomic_load(&two->arrivals) > arrivals);
    assert_int_equal(rig_run(two, rig_add("a", 1)).value.small, 11);
}

TEST(a_loader_that_was_asleep_comes_too_late)
{
    struct hot *two = rig_node(&rig);
    rig_begin(two);
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_COLD);
    struct hot_want slow;
    rig_wanted(hot, &slow);
    RIG_DO(&rig, "DEL", rig_key(&rig, hot, rig_home("a"), "l:a")); /* its token has run out */

    assert_int_equal(rig_run(two, rig_add("a", 1)).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(two, &want);
    struct state_target newer = counter("a", 100);
    struct state_target older = counter("a", 10);
    rig_answer(hot, &slow, &older); /* has no token any more */
    assert_int_equal(rig_run(two, rig_get("a")).code, ERR_COLD);
    rig_answer(two, &want, &newer);
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 100);
}

TEST(a_loader_from_before_a_reopening_is_refused)
{
    unsigned cell = rig_home("a");
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    struct hot_want slow;
    rig_wanted(hot, &slow);
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "run", "another");
    rig_save_all(&rig, hot);
    rig_open_cell(hot, cell, false);
    struct state_target older = counter("a", 10);
    rig_answer(hot, &slow, &older);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
}

TEST(a_store_that_is_behind_what_was_dropped_is_not_believed)
{
    unsigned cell = rig_home("a");
    uint64_t sequences[LIMIT_CELLS] = {0};
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "ne", "1", "nn", "5");
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    struct state_target a = counter("a", 10);
    sequences[cell] = sequence_of(1, 4);
    hot_loaded(hot, &want,
               &(struct hot_found){.code = ERR_OK, .target = &a, .sequences = sequences});
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    usleep(300000);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    rig_wanted(hot, &want);
    sequences[cell] = sequence_of(1, 5);
    hot_loaded(hot, &want,
               &(struct hot_found){.code = ERR_OK, .target = &a, .sequences = sequences});
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 10);
}

TEST(a_store_that_cannot_say_refuses_who_asks_and_is_asked_again_later)
{
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    hot_loaded(hot, &want, &(struct hot_found){.code = ERR_UNAVAILABLE});
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_UNAVAILABLE);
    usleep(1100000);
    struct state_target a = counter("a", 10);
    assert_int_equal(run_with(rig_get("a"), &a).value.small, 10);
}

TEST(a_small_item_comes_with_its_members)
{
    struct state_target i = item("i");
    struct op op = run_with(rig_like("i", "ann"), &i);
    assert_int_equal(op.code, ERR_OK);
    assert_false(op.changed);
    assert_int_equal(held_by("i", "bob").held, LIKE);
    assert_int_equal(held_by("i", "42").held, DISLIKE);
    assert_int_equal(held_by("i", "eve").held, KIND_NONE);
    assert_counts("i", 2, 2);
    assert_true(rig_run(hot, rig_like("i", "42")).changed);
    assert_counts("i", 3, 1);
}

TEST(what_the_store_could_not_apply_is_put_on_top)
{
    struct event pending[] = {
        {.type = EVENT_REACT, .id = SLICE("i"), .user = SLICE("eve"), .after = SLICE("like")},
        {.type = EVENT_REACT, .id = SLICE("i"), .user = SLICE("ann"), .before = SLICE("like")},
    };
    struct state_target i = item("i");
    i.pending = pending;
    i.pending_count = 2;
    struct op op = run_with(rig_like("i", "eve"), &i);
    assert_false(op.changed);
    assert_int_equal(held_by("i", "ann").held, KIND_NONE);
    assert_counts("i", 2, 2);

    struct event add = {.type = EVENT_ADD, .id = SLICE("a"), .amount = number_of(9)};
    struct state_target only = {
        .id = SLICE("a"), .absent = true, .pending = &add, .pending_count = 1};
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    hot_loaded(hot, &want, &(struct hot_found){.code = ERR_NOT_FOUND, .target = &only});
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 9);
}

TEST(a_large_item_comes_slice_by_slice)
{
    int64_t counts[] = {1000000};
    struct state_target i = {.id = SLICE("big"),
                             .is_item = true,
                             .slices = STATE_SLICES,
                             .kinds = like_name,
                             .counts = counts,
                             .kind_count = 1,
                             .create = {.shards = 1}};
    struct op op = run_with(rig_like("big", "ann"), &i);
    assert_int_equal(op.code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    assert_int_equal(want.kind, HOT_WANT_SLICE);
    assert_int_equal(want.slice, bucket_slice(bucket_of(SLICE("big"), SLICE("ann"))));
    struct slice ann[] = {{"ann", 3}};
    struct state_members members = {.kind = {"like", 4}, .named = true, .names = ann, .count = 1};
    hot_loaded(hot, &want,
               &(struct hot_found){.code = ERR_OK, .members = &members, .member_count = 1});
    op = rig_run(hot, rig_like("big", "ann"));
    assert_int_equal(op.code, ERR_OK);
    assert_false(op.changed);
    assert_counts("big", 1000000, 0);
}

TEST(a_slice_of_many_members_is_there_all_at_once)
{
    static char names[10000][8];
    static struct slice users[10000];
    int64_t counts[] = {10000};
    struct state_target i = {.id = SLICE("big"),
                             .is_item = true,
                             .slices = STATE_SLICES,
                             .kinds = like_name,
                             .counts = counts,
                             .kind_count = 1,
                             .create = {.shards = 1}};
    assert_int_equal(run_with(rig_like("big", "u0"), &i).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    for (unsigned j = 0; j < 10000; j++) {
        int size = snprintf(names[j], sizeof(names[j]), "u%u", j);
        users[j] = (struct slice){names[j], (size_t)size};
    }
    struct state_members members = {
        .kind = {"like", 4}, .named = true, .names = users, .count = 10000};
    hot_loaded(hot, &want,
               &(struct hot_found){.code = ERR_OK, .members = &members, .member_count = 1});
    assert_false(rig_run(hot, rig_like("big", "u0")).changed);
    char name[16];
    snprintf(name, sizeof(name), "m%02u:big", want.slice);
    assert_string_equal(RIG_DO(&rig, "HLEN", rig_key(&rig, hot, rig_home("big"), name)), "10000");
}

TEST(values_of_any_size_and_settings_come_along)
{
    struct state_target a = counter("a", 0);
    assert_int_equal(number_parse(SLICE("123456789012345678901234567890"), &a.value), ERR_OK);
    a.create = (struct op_create){
        .shards = 1, .policy = POLICY_RANDOM, .has_floor = true, .floor = -5, .idle_s = 0};
    a.deadline_ms = env_wall_ms(env_system()) + 100000;
    struct op op = run_with(rig_add("a", 1), &a);
    assert_int_equal(op.code, ERR_OK);
    struct number one = number_of(1);
    number_add(&a.value, &one);
    assert_int_equal(number_compare(&op.value, &a.value), 0);
    struct op_describe describe;
    rig_run(hot, (struct op){.kind = OP_DESCRIBE, .id = SLICE("a"), .describe = &describe});
    assert_true(describe.has_floor);
    assert_int_equal(describe.floor, -5);
    assert_int_equal(describe.policy, POLICY_RANDOM);
    assert_int_equal(describe.deadline_ms, a.deadline_ms);
    number_done(&op.value);
    number_done(&a.value);
}

TEST(a_kind_that_is_not_configured_is_refused)
{
    struct slice ann[] = {{"ann", 3}};
    struct state_members members = {.kind = {"angry", 5}, .named = true, .names = ann, .count = 1};
    struct state_target i = item("i");
    i.members = &members;
    i.member_count = 1;
    assert_int_equal(run_with(rig_like("i", "ann"), &i).code, ERR_NO_KIND);
}

/* ---- keys ---- */

static struct op keyed(int64_t amount)
{
    struct op op = rig_add("a", amount);
    op.key = SLICE("k1");
    return op;
}

TEST(after_a_loss_a_key_is_asked_of_the_store)
{
    struct op first = rig_run_new(hot, keyed(5)); /* all cells have just been opened empty */
    assert_int_equal(first.code, ERR_OK);
    assert_int_equal(first.value.small, 5);
    struct op again = rig_run_new(hot, keyed(5));
    assert_true(again.repeated);
    assert_int_equal(again.value.small, 5);
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 5);
}

/* ---- stale ---- */

static void close_cell(unsigned cell)
{
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "cell"), "run", "another");
}

TEST(reads_of_a_closed_cell_come_from_the_store_and_say_so)
{
    close_cell(rig_home("a"));
    struct state_target a = counter("a", 10);
    struct op op = run_with(rig_get("a"), &a);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 10);
    assert_true(op.stale);
    assert_true(op.as_of_ms > 0);
    assert_int_equal(rig_run(hot, rig_get("a")).value.small, 10); /* the store is not asked again */
    assert_int_equal(rig_run(hot, rig_add("a", 1)).code, ERR_UNAVAILABLE);

    close_cell(rig_home("i"));
    struct state_target i = item("i");
    int64_t counts[LIMIT_KINDS] = {0};
    op = run_with((struct op){.kind = OP_COUNTS, .id = SLICE("i"), .counts = counts}, &i);
    assert_true(op.stale);
    assert_int_equal(counts[0], 2);
    op = held_by("i", "bob");
    assert_int_equal(op.held, LIKE);
    assert_true(op.stale);
}

TEST(what_is_absent_in_the_store_is_not_found_while_its_cell_is_closed)
{
    close_cell(rig_home("a"));
    struct op op = run_with(rig_get("a"), NULL);
    assert_int_equal(op.code, ERR_NOT_FOUND);
    assert_true(op.stale);
}

TEST(with_the_store_away_as_well_reads_are_refused)
{
    close_cell(rig_home("a"));
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    hot_loaded(hot, &want, &(struct hot_found){.code = ERR_UNAVAILABLE});
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_UNAVAILABLE);
}

TEST(a_stale_answer_is_worth_a_second)
{
    close_cell(rig_home("a"));
    struct state_target a = counter("a", 10);
    assert_int_equal(run_with(rig_get("a"), &a).value.small, 10);
    usleep(1100000);
    a.value = number_of(11);
    assert_int_equal(run_with(rig_get("a"), &a).value.small, 11);
}

/* load.lua itself: nobody comes in between the chunks of a slice by chance. */
static const char *call_load(unsigned cell, const char *first, const char *last, const char *member)
{
    struct slice source = script_source(SCRIPT_LOAD);
    const char *key = rig_key(&rig, hot, cell, "cell");
    const char *run = RIG_DO(&rig, "HGET", key, "run");
    char text[65536];
    snprintf(text, sizeof(text), "%.*s", SLICE_ARGS(source));
    const char *verb = member ? "slice" : "claim";
    return RIG_DO(&rig, "EVAL", text, "4", key, rig_key(&rig, hot, cell, "r:i"),
                  rig_key(&rig, hot, cell, "l05:i"), rig_key(&rig, hot, cell, "m05:i"), run, verb,
                  "n.1", member ? "" : "5", "", "5", first, last, member ? member : "", "like");
}

TEST(a_slice_that_was_dropped_between_its_chunks_is_not_there)
{
    unsigned cell = rig_home("i");
    const char *record = rig_key(&rig, hot, cell, "r:i");
    char type[32];
    char own[65] = {0};
    memset(own, '0', 64);
    snprintf(type, sizeof(type), "%ss",
             RIG_DO(&rig, "HGET", rig_key(&rig, hot, cell, "cell"), "gen"));
    RIG_DO(&rig, "HSET", record, ".g", type, ".own", own);
    assert_string_equal(call_load(cell, "", "", NULL), "yes");
    assert_string_equal(call_load(cell, "1", "0", "5a"), "ok");
    RIG_DO(&rig, "DEL", rig_key(&rig, hot, cell, "m05:i"));
    assert_string_equal(call_load(cell, "0", "1", "5b"), "refused");
    assert_string_equal(RIG_DO(&rig, "HGET", rig_key(&rig, hot, cell, "r:i"), ".own"), own);
    assert_string_equal(call_load(cell, "", "", NULL), "yes"); /* from the beginning */
}

#define LOAD(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

RUN(LOAD(a_missing_counter_is_loaded_and_then_written_to),
    LOAD(what_nobody_has_is_not_zero_but_not_there), LOAD(many_who_lack_the_same_are_one_want),
    LOAD(what_is_handed_in_together_goes_in_with_the_last_one),
    LOAD(more_than_go_in_at_once_are_all_there_in_the_end),
    LOAD(of_two_nodes_one_loads_and_the_other_waits_for_it),
    LOAD(a_loader_that_was_asleep_comes_too_late),
    LOAD(a_loader_from_before_a_reopening_is_refused),
    LOAD(a_store_that_is_behind_what_was_dropped_is_not_believed),
    LOAD(a_store_that_cannot_say_refuses_who_asks_and_is_asked_again_later),
    LOAD(a_small_item_comes_with_its_members), LOAD(what_the_store_could_not_apply_is_put_on_top),
    LOAD(a_large_item_comes_slice_by_slice), LOAD(a_slice_of_many_members_is_there_all_at_once),
    LOAD(a_slice_that_was_dropped_between_its_chunks_is_not_there),
    LOAD(values_of_any_size_and_settings_come_along),
    LOAD(a_kind_that_is_not_configured_is_refused), LOAD(after_a_loss_a_key_is_asked_of_the_store),
    LOAD(reads_of_a_closed_cell_come_from_the_store_and_say_so),
    LOAD(what_is_absent_in_the_store_is_not_found_while_its_cell_is_closed),
    LOAD(with_the_store_away_as_well_reads_are_refused), LOAD(a_stale_answer_is_worth_a_second))
