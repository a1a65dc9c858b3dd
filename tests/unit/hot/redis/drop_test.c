/* drop_test.c - what may leave Redis, and what must not; and looking at what is there. */
#include "unit/hot/redis/rig.h"

#include "hot/redis/drop.h"

/* servers: redis */
/* servers: cluster */
/* threads */

static struct rig rig;
static struct hot *hot;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig);
    rig.options.retention_ms = 50;
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

/* The store has everything of the id's cell up to this sequence. */
static void save(const char *id, uint64_t sequence)
{
    uint64_t sequences[LIMIT_CELLS] = {0};
    sequences[rig_home(id)] = sequence;
    hot_saved(hot, sequences);
}

static uint64_t rounds(void)
{
    struct drops_figures figures;
    drops_figures(layer_of(hot), &figures);
    return figures.rounds;
}

/* A round over all keys, and the rest of the one before. */
static void sweep(void)
{
    for (uint64_t until = rounds() + 2; rounds() < until;) {
        drops_step(layer_of(hot));
        while (drops_is_busy(layer_of(hot)))
            usleep(1000);
    }
}

static bool is_there(const char *id)
{
    char name[64];
    snprintf(name, sizeof(name), "r:%s", id);
    return RIG_DO(&rig, "EXISTS", rig_key(&rig, hot, rig_home(id), name))[0] == '1';
}

/* ---- */

TEST(only_what_is_saved_may_be_dropped)
{
    struct op op = rig_run_new(hot, rig_add("a", 5));
    assert_int_equal(hot_drop(hot, SLICE("a")), ERR_BUSY);
    save("a", op.sequence - 1);
    assert_int_equal(hot_drop(hot, SLICE("a")), ERR_BUSY);
    save("a", op.sequence);
    assert_int_equal(hot_drop(hot, SLICE("a")), ERR_OK);
    assert_int_equal(hot_drop(hot, SLICE("a")), ERR_NOT_FOUND);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
}

TEST(what_was_dropped_is_loaded_only_from_a_store_that_has_it)
{
    unsigned cell = rig_home("a");
    struct op op = rig_run_new(hot, rig_add("a", 5));
    save("a", op.sequence);
    assert_int_equal(hot_drop(hot, SLICE("a")), ERR_OK);
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    struct hot_want want;
    rig_wanted(hot, &want);
    uint64_t sequences[LIMIT_CELLS] = {0};
    sequences[cell] = op.sequence - 1;
    hot_loaded(hot, &want, &(struct hot_found){.code = ERR_NOT_FOUND, .sequences = sequences});
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
}

TEST(the_sweeper_takes_what_is_saved_and_idle_and_nothing_else)
{
    struct op a = rig_run_new(hot, rig_add("a", 5));
    rig_run_new(hot, rig_like("i", "ann"));
    save("a", a.sequence);
    usleep(100000);
    sweep();
    assert_false(is_there("a"));
    assert_true(is_there("i")); /* not saved */
}

TEST(what_is_in_use_stays)
{
    RIG_DO(&rig, "PING");
    rig_close(&rig);
    rig_open(&rig);
    rig.options.retention_ms = 60000;
    hot = rig_node(&rig);
    rig_open_all(hot);
    rig_begin(hot);
    struct op a = rig_run_new(hot, rig_add("a", 5));
    save("a", a.sequence);
    sweep();
    assert_true(is_there("a"));
}

TEST(what_was_loaded_is_idle_from_then_on)
{
    rig_run(hot, rig_get("a"));
    struct hot_want want;
    rig_wanted(hot, &want);
    struct state_target a = {
        .id = SLICE("a"), .value = number_of(3), .written_ms = 1, .create = {.shards = 1}};
    rig_answer(hot, &want, &a);
    assert_true(is_there("a"));
    usleep(100000);
    sweep();
    assert_false(is_there("a"));
}

TEST(a_deletion_is_remembered_until_it_is_saved)
{
    rig_run_new(hot, rig_add("a", 5));
    struct op op = rig_run(hot, (struct op){.kind = OP_DELETE, .id = SLICE("a")});
    assert_true(op.changed);
    sweep();
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_NOT_FOUND);
    save("a", op.sequence);
    sweep();
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
}

TEST(what_is_of_an_old_generation_is_removed)
{
    unsigned cell = rig_home("a");
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "r:a"), ".g", "99c", ".v", "5");
    assert_int_equal(rig_run(hot, rig_get("a")).code, ERR_COLD);
    sweep();
    assert_false(is_there("a"));
}

TEST(members_without_an_item_are_removed)
{
    unsigned cell = rig_home("i");
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "m05:i"), "5ann", "like");
    sweep();
    assert_string_equal(RIG_DO(&rig, "EXISTS", rig_key(&rig, hot, cell, "m05:i")), "0");
}

TEST(a_large_item_leaves_with_all_its_slices)
{
    unsigned cell = rig_home("i");
    const char *gen = RIG_DO(&rig, "HGET", rig_key(&rig, hot, cell, "cell"), "gen");
    char g[32];
    char own[STATE_SLICES + 1];
    snprintf(g, sizeof(g), "%ss", gen);
    memset(own, '1', STATE_SLICES);
    own[STATE_SLICES] = 0;
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "r:i"), ".g", g, ".own", own, ".w", "1 1 4");
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "m05:i"), "5ann", "like");
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "m63:i"), "obob", "like");
    sweep();
    assert_true(is_there("i"));
    save("i", sequence_of(1, 4));
    sweep();
    assert_false(is_there("i"));
    assert_string_equal(RIG_DO(&rig, "EXISTS", rig_key(&rig, hot, cell, "m05:i"),
                               rig_key(&rig, hot, cell, "m63:i")),
                        "0");
}

TEST(what_is_spread_stays_until_it_was_folded)
{
    unsigned cell = rig_home("a");
    const char *gen = RIG_DO(&rig, "HGET", rig_key(&rig, hot, cell, "cell"), "gen");
    char g[32];
    snprintf(g, sizeof(g), "%sC", gen);
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "r:a"), ".g", g, ".w", "1 1 1", ".map", "x");
    save("a", sequence_of(1, 9));
    sweep();
    assert_true(is_there("a"));
    assert_int_equal(hot_drop(hot, SLICE("a")), ERR_BUSY);
}

TEST(a_counter_whose_time_is_over_is_deleted_with_its_event)
{
    rig_run_new(hot, rig_add("a", 5));
    int64_t soon_ms = env_wall_ms(env_system()) + 500;
    struct op op =
        rig_run(hot, (struct op){.kind = OP_EXPIRE, .id = SLICE("a"), .deadline_ms = soon_ms});
    assert_int_equal(op.code, ERR_OK);
    save("a", op.sequence);
    while (env_wall_ms(env_system()) <= soon_ms)
        usleep(10000);
    hot_tick(hot, env_wall_ms(env_system())); /* it is later now */
    sweep();
    uint64_t n = 0;
    for (unsigned i = 0; i < 1000 && n <= sequence_n(op.sequence); i++) {
        const char *key = rig_key(&rig, hot, rig_home("a"), "cell");
        n = strtoull(RIG_DO(&rig, "HGET", key, "n"), NULL, 10);
        usleep(10000);
    }
    assert_int_equal(n, sequence_n(op.sequence) + 1);
}

/* ---- looking ---- */

struct seen {
    unsigned counters;
    unsigned items;
    int64_t sum;
    int64_t likes;
};

static void see(void *arg, const struct hot_entry *entry)
{
    struct seen *seen = arg;
    if (entry->is_item) {
        seen->items++;
        seen->likes += entry->counts[LIKE - 1];
    } else {
        seen->counters++;
        seen->sum += entry->value->small;
    }
}

TEST(a_scan_meets_all_that_is_in_redis)
{
    for (unsigned i = 0; i < 30; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%u", i);
        assert_int_equal(rig_run_new(hot, rig_add(id, 2)).code, ERR_OK);
    }
    rig_run_new(hot, rig_like("i", "ann"));
    rig_run_new(hot, rig_like("i", "bob"));
    struct seen seen = {0};
    uint64_t cursor = 0;
    do
        hot_scan(hot, &cursor, 10, see, &seen);
    while (cursor != 0);
    assert_int_equal(seen.counters, 30);
    assert_int_equal(seen.sum, 60);
    assert_int_equal(seen.items, 1);
    assert_int_equal(seen.likes, 2);
    assert_int_equal(hot_peek(hot, SLICE("c3"), see, &seen), ERR_OK);
    assert_int_equal(seen.counters, 31);
    assert_int_equal(hot_peek(hot, SLICE("nobody"), see, &seen), ERR_COLD);
}

static void note_item(void *arg, struct slice id, uint8_t kind)
{
    assert_true(slice_equal(id, SLICE("i")));
    *(unsigned *)arg = kind;
}

TEST(the_items_of_a_user_are_found)
{
    rig_run_new(hot, rig_like("i", "ann"));
    rig_run_new(hot, rig_like("j", "bob"));
    unsigned held = 0;
    uint64_t cursor = 0;
    do
        hot_items_of(hot, SLICE("ann"), &cursor, 10, note_item, &held);
    while (cursor != 0);
    assert_int_equal(held, LIKE);
}

TEST(an_inspection_counts_members_and_a_mend_puts_a_count_right)
{
    unsigned cell = rig_home("i");
    rig_run_new(hot, rig_like("i", "ann"));
    struct op op = rig_run(hot, rig_like("i", "bob"));
    RIG_DO(&rig, "HSET", rig_key(&rig, hot, cell, "r:i"), ".c:like", "7"); /* by hand */
    struct hot_inspection seen;
    assert_int_equal(hot_inspect(hot, SLICE("i"), &seen), ERR_OK);
    assert_true(seen.is_item && seen.complete);
    assert_int_equal(seen.counts[0], 7);
    assert_int_equal(seen.members[0], 2);
    assert_int_equal(seen.sequences[cell], op.sequence);
    struct number value;
    assert_int_equal(hot_recount(hot, SLICE("i/like"), &value), ERR_OK);
    assert_int_equal(value.small, 2);
    struct number by = number_of(-5);
    assert_int_equal(hot_mend(hot, SLICE("i"), &seen.record, LIKE, &by), ERR_OK);
    assert_int_equal(rig_run(hot, rig_get("i/like")).value.small, 2);
    struct hot_record other = {.incarnation = 9};
    assert_int_equal(hot_mend(hot, SLICE("i"), &other, LIKE, &by), ERR_BUSY);
    assert_int_equal(hot_inspect(hot, SLICE("nobody"), &seen), ERR_NOT_FOUND);
}

#define DROP(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

RUN(DROP(only_what_is_saved_may_be_dropped),
    DROP(what_was_dropped_is_loaded_only_from_a_store_that_has_it),
    DROP(the_sweeper_takes_what_is_saved_and_idle_and_nothing_else), DROP(what_is_in_use_stays),
    DROP(what_was_loaded_is_idle_from_then_on), DROP(a_deletion_is_remembered_until_it_is_saved),
    DROP(what_is_of_an_old_generation_is_removed), DROP(members_without_an_item_are_removed),
    DROP(a_large_item_leaves_with_all_its_slices), DROP(what_is_spread_stays_until_it_was_folded),
    DROP(a_counter_whose_time_is_over_is_deleted_with_its_event),
    DROP(a_scan_meets_all_that_is_in_redis), DROP(the_items_of_a_user_are_found),
    DROP(an_inspection_counts_members_and_a_mend_puts_a_count_right))
