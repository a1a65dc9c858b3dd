/* hot_cold_test.c - what is not in memory: asked for once, waited for, loaded, and let go
 * again. Each test stands for a promise of core/hot.h's part on cold state. */
#include "contract/hot_cold_rig.h"

static struct cold_rig rig;

static int open_rig(void **state)
{
    (void)state;
    cold_open(&rig);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    cold_close(&rig);
    return 0;
}

static void assert_value(struct op op, int64_t value)
{
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, value);
}

static struct hot_stats stats(void)
{
    struct hot_stats figures;
    hot_stats(rig.hot, &figures);
    return figures;
}

static void tick(int64_t passed_ms)
{
    rig.now_ms += passed_ms;
    hot_tick(rig.hot, rig.now_ms);
}

/* Saved and out of memory. */
static void put_away(const char *id)
{
    cold_save(&rig);
    assert_int_equal(hot_drop(rig.hot, slice_of(id)), ERR_OK);
}

static struct op like(const char *item, unsigned user)
{
    static char names[64][32];
    static unsigned next;
    char *name = names[next++ % 64];
    return reaction(OP_REACT, item, user_name(user, name), LIKE);
}

static struct op counts_of(const char *item, int64_t *counts)
{
    struct op op = on(OP_COUNTS, item);
    op.counts = counts;
    return op;
}

static int64_t likes(const char *item)
{
    int64_t counts[LIMIT_KINDS];
    assert_int_equal(cold_ask(&rig, counts_of(item, counts)).code, ERR_OK);
    return counts[0];
}

/* ---- asking ---- */

TEST(what_is_in_the_store_only_is_asked_for_once_and_nobody_else_waits)
{
    cold_tell_all(&rig);
    cold_ask(&rig, add("a", 5));
    cold_ask(&rig, add("b", 1));
    put_away("a");

    struct op ops[12];
    for (unsigned i = 0; i < 12; i++)
        ops[i] = add(i == 6 ? "b" : "a", 1);
    cold_run(&rig, 0, ops, 12);
    for (unsigned i = 0; i < 12; i++)
        assert_int_equal(ops[i].code, i == 6 ? ERR_OK : ERR_COLD);
    struct op other = get("a");
    cold_run(&rig, 1, &other, 1);
    assert_int_equal(other.code, ERR_COLD);

    struct hot_want want;
    assert_true(hot_wanted(rig.hot, &want));
    assert_int_equal(want.kind, HOT_WANT_TARGET);
    assert_true(slice_equal(want.id, slice_of("a")));
    struct hot_want more;
    assert_false(hot_wanted(rig.hot, &more));
    assert_int_equal(cold_try(&rig, get("a")).code, ERR_COLD); /* it is under way */
    assert_false(hot_wanted(rig.hot, &more));
    answer(&rig, &want);
    assert_value(cold_try(&rig, get("a")), 5);
    assert_int_equal(stats().loads, 1);
}

TEST(what_surely_is_not_in_the_store_is_not_asked_for)
{
    cold_tell_all(&rig);
    assert_value(cold_try(&rig, add("new", 1)), 1);
    assert_int_equal(cold_try(&rig, get("none")).code, ERR_NOT_FOUND);
    assert_false(cold_try(&rig, on(OP_EXISTS, "none")).changed);
    assert_int_equal(cold_try(&rig, like("item", 1)).code, ERR_OK);
    struct hot_want want;
    assert_false(hot_wanted(rig.hot, &want));
}

TEST(before_all_is_told_everything_is_asked_for_and_what_is_not_there_is_new)
{
    assert_int_equal(cold_try(&rig, add("new", 1)).code, ERR_COLD);
    assert_int_equal(cold_load(&rig), 1);
    assert_value(cold_try(&rig, add("new", 1)), 1);
    assert_value(cold_try(&rig, add("new", 1)), 2);
    assert_int_equal(cold_ask(&rig, get("none")).code, ERR_NOT_FOUND);
    assert_int_equal(cold_load(&rig), 0);
}

static unsigned woken;
static unsigned arrived;

static void count_wake(void *arg)
{
    ++*(unsigned *)arg;
}

TEST(the_loader_is_woken_and_tells_that_something_has_arrived)
{
    woken = arrived = 0;
    rig.hot->want = count_wake;
    rig.hot->want_arg = &woken;
    rig.hot->arrive = count_wake;
    rig.hot->arrive_arg = &arrived;
    cold_try(&rig, get("a"));
    assert_int_equal(woken, 1);
    cold_try(&rig, get("a"));
    assert_int_equal(woken, 1);
    cold_load(&rig);
    assert_int_equal(arrived, 1);
    assert_int_equal(atomic_load(&rig.hot->arrivals), 1);
}

TEST(a_store_that_cannot_say_refuses_for_a_second_and_is_asked_again)
{
    cold_ask(&rig, add("a", 7));
    put_away("a");
    rig.shelf->down = ERR_UNAVAILABLE;
    assert_int_equal(cold_try(&rig, get("a")).code, ERR_COLD);
    assert_int_equal(cold_load(&rig), 1);
    assert_int_equal(cold_try(&rig, get("a")).code, ERR_UNAVAILABLE);
    assert_int_equal(cold_try(&rig, add("a", 1)).code, ERR_UNAVAILABLE);
    assert_int_equal(cold_load(&rig), 0);

    rig.shelf->down = ERR_OK;
    atomic_fetch_add(&rig_monotonic_ns, 1000000000);
    assert_value(cold_ask(&rig, add("a", 1)), 8);
}

TEST(ops_on_one_id_stay_in_order_when_the_first_of_them_waits)
{
    cold_tell_all(&rig);
    rig.shelf->whole_max = 50;
    for (unsigned user = 0; user < 200; user++)
        cold_ask(&rig, like("item", user));
    put_away("item");
    assert_int_equal(likes("item"), 200); /* it is here, without its members */

    struct op ops[2] = {like("item", 500), on(OP_DELETE, "item")};
    cold_run(&rig, 0, ops, 2);
    assert_int_equal(ops[0].code, ERR_COLD);
    assert_int_equal(ops[1].code, ERR_COLD);
    cold_finish(&rig, 0, ops, 2);
    assert_true(ops[0].changed);
    assert_true(ops[1].changed);
    assert_int_equal(likes("item"), 0);
    assert_int_equal(stats().items, 0);
    assert_int_equal(stats().members, 0);
}

/* ---- leaving memory ---- */

TEST(only_what_is_saved_may_go)
{
    cold_ask(&rig, add("a", 3));
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_BUSY);
    cold_store(&rig, SIZE_MAX); /* the hot layer has not heard of it */
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_BUSY);
    cold_tell_saved(&rig);
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_OK);
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_NOT_FOUND);
    assert_int_equal(stats().hot_counters, 0);
    assert_int_equal(stats().counters, 1);
    assert_value(cold_ask(&rig, add("a", 1)), 4);
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_BUSY);
    cold_save(&rig);
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_OK);
    assert_value(cold_ask(&rig, get("a")), 4);
    assert_int_equal(stats().hot_counters, 1);
}

TEST(a_write_between_note_and_save_keeps_its_record)
{
    cold_ask(&rig, add("a", 1));
    cold_ask(&rig, add("b", 1));
    cold_store(&rig, SIZE_MAX);
    cold_ask(&rig, add("b", 1)); /* in the same second, behind what the store has */
    cold_tell_saved(&rig);
    assert_int_equal(hot_drop(rig.hot, slice_of("b")), ERR_BUSY);
    tick(1000);
    cold_tell_saved(&rig);
    assert_int_equal(hot_drop(rig.hot, slice_of("b")), ERR_BUSY);
    cold_save(&rig);
    assert_int_equal(hot_drop(rig.hot, slice_of("b")), ERR_OK);
    assert_value(cold_ask(&rig, get("b")), 2);
}

TEST(settings_and_deadlines_come_back)
{
    struct op_create as = {.shards = 4, .policy = POLICY_RANDOM, .has_floor = true, .floor = -2};
    struct op op = on(OP_CREATE, "a");
    op.create = &as;
    assert_true(cold_ask(&rig, op).changed);
    cold_ask(&rig, add("a", 5));
    op = on(OP_EXPIRE, "a");
    op.deadline_ms = rig.now_ms + 60000;
    cold_ask(&rig, op);
    put_away("a");

    struct op_describe is;
    op = on(OP_DESCRIBE, "a");
    op.describe = &is;
    assert_int_equal(cold_ask(&rig, op).code, ERR_OK);
    assert_int_equal(is.shards_asked, 4);
    assert_int_equal(is.policy, POLICY_RANDOM);
    assert_true(is.has_floor);
    assert_int_equal(is.deadline_ms, rig.now_ms + 60000);
    assert_int_equal(cold_ask(&rig, add("a", -8)).code, ERR_BELOW_FLOOR);
    assert_value(cold_ask(&rig, add("a", -7)), -2);

    put_away("a");
    rig.now_ms += 60001;
    assert_int_equal(cold_ask(&rig, get("a")).code, ERR_NOT_FOUND);
    assert_value(cold_ask(&rig, add("a", 1)), 1); /* a new one */
    cold_save(&rig);
    assert_int_equal(stats().counters, 1);
}

static void create_on(const char *id, uint32_t shards)
{
    struct op_create as = {.shards = shards};
    struct op op = on(OP_CREATE, id);
    op.create = &as;
    assert_true(cold_ask(&rig, op).changed);
}

static void assert_shards(const char *id, uint32_t shards, uint32_t asked)
{
    struct op_describe is;
    struct op op = on(OP_DESCRIBE, id);
    op.describe = &is;
    assert_int_equal(cold_ask(&rig, op).code, ERR_OK);
    assert_int_equal(is.shards, shards);
    assert_int_equal(is.shards_asked, asked);
}

static void assert_all_spread(void)
{
    assert_shards("a", 4, 4);
    assert_shards("large/like", 8, 8);
    assert_shards("empty/like", 2, 2);
    assert_int_equal(stats().spread, 3);
    assert_value(cold_ask(&rig, get("a")), 7);
    assert_int_equal(likes("large"), 100);
}

TEST(the_shards_asked_for_come_back)
{
    rig.shelf->whole_max = 50;
    create_on("a", 4);
    create_on("large/like", 8);
    create_on("empty/like", 2);
    cold_ask(&rig, add("a", 7));
    for (unsigned user = 0; user < 100; user++)
        cold_ask(&rig, like("large", user));
    put_away("a");
    put_away("large");
    put_away("empty");
    assert_all_spread();
    for (int i = 0; i < 50; i++)
        tick(1000); /* quiet for long */
    assert_all_spread();

    cold_restart(&rig); /* all of it is in the store */
    assert_all_spread();
    for (unsigned user = 0; user < 100; user++)
        assert_false(cold_ask(&rig, like("large", user)).changed);
    assert_true(cold_ask(&rig, like("large", 100)).changed);

    cold_ask(&rig, add("a", 1)); /* these two are replayed on top of what is loaded */
    cold_restart(&rig);
    assert_shards("a", 4, 4);
    assert_value(cold_ask(&rig, get("a")), 8);
    assert_shards("large/like", 8, 8);
    assert_int_equal(likes("large"), 101);
}

TEST(an_item_without_names_gets_its_shards_when_it_is_written)
{
    create_on("small/like", 2);
    for (unsigned user = 0; user < 20; user++)
        cold_ask(&rig, like("small", user));
    cold_save(&rig);
    cold_restart(&rig);
    assert_shards("small/like", 1, 2); /* in which shard a member is, his name says */
    for (unsigned user = 20; user < 220; user++)
        cold_ask(&rig, like("small", user));
    for (int i = 0; i < 3; i++) {
        for (unsigned user = 220 + 100 * (unsigned)i; user < 320 + 100 * (unsigned)i; user++)
            cold_ask(&rig, like("small", user));
        tick(1000);
        cold_load(&rig);
    }
    assert_shards("small/like", 2, 2);
    for (unsigned user = 0; user < 20; user++)
        assert_false(cold_ask(&rig, like("small", user)).changed);
}

TEST(what_was_deleted_is_not_loaded_again)
{
    cold_ask(&rig, add("a", 100));
    put_away("a");
    assert_true(cold_ask(&rig, on(OP_DELETE, "a")).changed);
    assert_int_equal(cold_try(&rig, get("a")).code, ERR_NOT_FOUND); /* the store still has it */
    assert_int_equal(stats().counters, 0);
    for (int second = 0; second < 30; second++) { /* nobody forgets it before it is saved */
        atomic_fetch_add(&rig_monotonic_ns, 1000000000);
        tick(1000);
    }
    assert_value(cold_try(&rig, add("a", 1)), 1);
    put_away("a");
    assert_value(cold_ask(&rig, get("a")), 1);
}

TEST(many_deletions_that_are_not_saved_are_all_remembered)
{
    cold_tell_all(&rig);
    char id[16];
    for (int i = 0; i < 6000; i++) {
        snprintf(id, sizeof(id), "c%d", i);
        cold_ask(&rig, add(id, 100));
    }
    cold_save(&rig);
    for (int i = 0; i < 6000; i++) {
        snprintf(id, sizeof(id), "c%d", i);
        assert_int_equal(hot_drop(rig.hot, slice_of(id)), ERR_OK);
        assert_true(cold_ask(&rig, on(OP_DELETE, id)).changed);
    }
    atomic_fetch_add(&rig_monotonic_ns, UINT64_C(60000000000));
    tick(2000);
    for (int i = 0; i < 6000; i++) {
        snprintf(id, sizeof(id), "c%d", i);
        assert_int_equal(cold_try(&rig, get(id)).code, ERR_NOT_FOUND);
    }
    cold_save(&rig);
    atomic_fetch_add(&rig_monotonic_ns, UINT64_C(60000000000));
    tick(2000);
    for (int i = 0; i < 6000; i += 100) {
        snprintf(id, sizeof(id), "c%d", i);
        assert_int_equal(cold_ask(&rig, get(id)).code, ERR_NOT_FOUND);
    }
}

TEST(a_spread_counter_and_a_spread_item_can_go)
{
    rig.shelf->whole_max = 50;
    for (unsigned user = 0; user < 300; user++)
        cold_ask(&rig, like("item", user));
    for (int i = 0; i < 10; i++)
        cold_ask(&rig, add("a", 1));
    assert_int_equal(hot_reshard(rig.hot, slice_of("a"), 8, rig.now_ms), ERR_OK);
    assert_int_equal(hot_reshard(rig.hot, slice_of("item"), 16, rig.now_ms), ERR_OK);
    for (unsigned user = 300; user < 400; user++)
        cold_ask(&rig, like("item", user));
    for (int i = 0; i < 10; i++)
        cold_ask(&rig, add("a", 1));
    assert_int_equal(hot_drop(rig.hot, slice_of("item")), ERR_BUSY);
    put_away("a");
    assert_int_equal(hot_drop(rig.hot, slice_of("item")), ERR_OK);
    assert_value(cold_ask(&rig, get("a")), 20);
    assert_int_equal(likes("item"), 400);
    assert_int_equal(stats().spread, 0);
}

TEST(what_is_idle_past_the_retention_goes_and_reading_keeps_it)
{
    cold_close(&rig);
    rig.retention_ms = 60000;
    cold_open(&rig);
    cold_tell_all(&rig);
    cold_ask(&rig, add("idle", 1));
    cold_ask(&rig, add("read", 2));
    cold_ask(&rig, like("item", 3));
    cold_save(&rig);
    for (int second = 0; second < 90; second++) {
        tick(1000);
        assert_int_equal(cold_ask(&rig, get("read")).code, ERR_OK);
        if (second < 30)
            assert_int_equal(stats().hot_counters, 2);
    }
    assert_int_equal(stats().hot_counters, 1);
    assert_int_equal(stats().hot_items, 0);
    assert_int_equal(stats().dropped, 2);
    assert_int_equal(rig.cold, 0);
    assert_value(cold_ask(&rig, get("idle")), 1);
    assert_int_equal(likes("item"), 1);
    assert_int_equal(rig.cold, 2);
}

TEST(what_is_idle_and_not_saved_stays)
{
    cold_close(&rig);
    rig.retention_ms = 60000;
    cold_open(&rig);
    cold_ask(&rig, add("a", 1));
    for (int second = 0; second < 200; second++)
        tick(1000);
    assert_int_equal(stats().hot_counters, 1);
    cold_save(&rig);
    tick(1000);
    tick(1000);
    assert_int_equal(stats().hot_counters, 0);
}

/* ---- items ---- */

TEST(an_item_in_one_piece_comes_back_whole)
{
    for (unsigned size = 5; size <= 500; size *= 10) {
        char id[16];
        snprintf(id, sizeof(id), "item%u", size);
        for (unsigned user = 0; user < size; user++)
            cold_ask(&rig, like(id, user));
        put_away(id);
        for (unsigned user = 0; user < size; user++)
            assert_false(cold_ask(&rig, like(id, user)).changed);
        assert_true(cold_ask(&rig, like(id, size)).changed);
        assert_int_equal(likes(id), size + 1);
    }
}

TEST(a_large_item_is_loaded_slice_by_slice)
{
    cold_tell_all(&rig);
    for (unsigned user = 0; user < 6000; user++)
        cold_ask(&rig, like("item", user));
    put_away("item");
    rig.shelf->loads = 0;
    assert_int_equal(likes("item"), 6000);
    assert_int_equal(rig.shelf->loads, 1);
    assert_false(cold_ask(&rig, like("item", 17)).changed);
    assert_int_equal(rig.shelf->loads, 2);
    assert_true(cold_ask(&rig, like("item", 7000)).changed);
    assert_int_equal(likes("item"), 6001);
    assert_true(rig.shelf->loads <= 3);

    struct hot_inspection seen;
    assert_int_equal(hot_inspect(rig.hot, slice_of("item"), &seen), ERR_OK);
    assert_false(seen.complete);
    struct number recounted;
    assert_int_equal(hot_recount(rig.hot, slice_of("item/like"), &recounted), ERR_UNAVAILABLE);

    for (unsigned user = 0; user < 6000; user++) {
        char name[32];
        struct op op = reaction(OP_WITHDRAW, "item", user_name(user, name), LIKE);
        assert_true(cold_ask(&rig, op).changed);
    }
    assert_int_equal(likes("item"), 1);
    assert_int_equal(hot_inspect(rig.hot, slice_of("item"), &seen), ERR_OK);
    assert_true(seen.complete);
    assert_int_equal(seen.members[0], 1);
    assert_int_equal(hot_recount(rig.hot, slice_of("item/like"), &recounted), ERR_OK);
    assert_int_equal(recounted.small, 1);
}

TEST(an_item_with_missing_slices_can_be_spread_and_folded)
{
    for (unsigned user = 0; user < 5000; user++)
        cold_ask(&rig, like("item", user));
    put_away("item");
    assert_int_equal(likes("item"), 5000);
    assert_int_equal(hot_reshard(rig.hot, slice_of("item"), 8, rig.now_ms), ERR_OK);
    for (unsigned user = 0; user < 5000; user += 7)
        assert_false(cold_ask(&rig, like("item", user)).changed);
    assert_int_equal(hot_reshard(rig.hot, slice_of("item"), 1, rig.now_ms), ERR_OK);
    for (unsigned user = 0; user < 5100; user++)
        assert_int_equal(cold_ask(&rig, like("item", user)).changed, user >= 5000);
    assert_int_equal(likes("item"), 5100);
}

static void see_member(void *arg, struct slice user)
{
    bool *seen = arg;
    assert_false(seen[user_of(user)]);
    seen[user_of(user)] = true;
}

static void assert_members(const char *item, unsigned count)
{
    static bool seen[SHELF_USERS];
    memset(seen, 0, sizeof(seen));
    struct op_page page = {.limit = 100, .visit = see_member, .arg = seen};
    do {
        struct op op = on(OP_MEMBERS, item);
        op.reaction = LIKE;
        op.page = &page;
        assert_int_equal(cold_ask(&rig, op).code, ERR_OK);
    } while (page.cursor != 0);
    for (unsigned user = 0; user < SHELF_USERS; user++)
        assert_int_equal(seen[user], user < count);
}

TEST(names_are_loaded_when_members_are_listed)
{
    for (unsigned user = 0; user < 5000; user++) {
        if (user < 50)
            cold_ask(&rig, like("small", user));
        cold_ask(&rig, like("large", user));
    }
    cold_save(&rig);
    cold_restart(&rig);
    assert_int_equal(stats().users, 0);
    assert_members("small", 50);
    assert_int_equal(stats().users, 25);
    assert_members("large", 5000);
    assert_int_equal(stats().users, 2500);
}

TEST(an_item_that_outgrows_one_piece_waits_for_names)
{
    rig.shelf->whole_max = 5000;
    for (unsigned user = 0; user < 4090; user++)
        cold_ask(&rig, like("item", user));
    cold_save(&rig);
    cold_restart(&rig);
    for (unsigned user = 4090; user < 4200; user++)
        assert_true(cold_ask(&rig, like("item", user)).changed);
    assert_int_equal(likes("item"), 4200);
    assert_members("item", 4200);
}

/* ---- users ---- */

TEST(a_user_keeps_the_number_that_he_was_given)
{
    for (unsigned user = 1; user < 40; user += 2)
        cold_ask(&rig, like("item", user));
    cold_save(&rig);
    for (unsigned user = 41; user < 60; user += 2)
        cold_ask(&rig, like("item", user)); /* behind the mark */
    cold_restart(&rig);
    for (unsigned user = 1; user < 60; user += 2)
        assert_false(cold_ask(&rig, like("item", user)).changed);
    for (unsigned user = 61; user < 80; user += 2)
        assert_true(cold_ask(&rig, like("item", user)).changed);
    cold_save(&rig); /* the shelf refuses a second number for a name */
    assert_int_equal(likes("item"), 40);
}

TEST(a_user_whom_nobody_knows_holds_nothing_and_a_cold_one_is_asked_for)
{
    cold_ask(&rig, like("item", 1));
    cold_save(&rig);
    cold_restart(&rig);
    cold_tell_all(&rig);
    cold_ask(&rig, counts_of("item", (int64_t[LIMIT_KINDS]){0}));
    char name[32];
    struct op op = reaction(OP_REACTION, "item", user_name(3, name), LIKE);
    assert_int_equal(cold_try(&rig, op).code, ERR_OK);
    op.user = user_name(1, name);
    assert_int_equal(cold_try(&rig, op).code, ERR_COLD);
    assert_int_equal(cold_ask(&rig, op).held, LIKE);
}

TEST(names_leave_memory_when_it_is_short_and_keep_their_numbers)
{
    enum { LIKERS = 16000 };
    tick(100);
    uint64_t empty = stats().memory_bytes;
    cold_close(&rig);
    rig.memory_max = empty + 130000;
    cold_open(&rig);
    cold_tell_all(&rig);
    char item[16];
    for (unsigned user = 1; user < LIKERS; user += 2) {
        snprintf(item, sizeof(item), "item%u", user % 7);
        assert_true(cold_ask(&rig, like(item, user)).changed);
        if (user % 100 == 1) {
            cold_save(&rig);
            tick(100);
        }
    }
    assert_true(stats().users < LIKERS / 4);
    assert_true(stats().memory_bytes <= rig.memory_max);
    for (unsigned user = 1; user < LIKERS; user += 2) {
        snprintf(item, sizeof(item), "item%u", user % 7);
        assert_false(cold_ask(&rig, like(item, user)).changed);
        if (user % 100 == 1)
            tick(100);
    }
    assert_true(cold_ask(&rig, like("item0", 1)).changed);
    cold_save(&rig); /* the shelf refuses a second number for a name */
    int64_t all = 0;
    for (unsigned i = 0; i < 7; i++) {
        snprintf(item, sizeof(item), "item%u", i);
        all += likes(item);
    }
    assert_int_equal(all, LIKERS / 2 + 1);
}

TEST(a_name_that_no_event_has_carried_stays)
{
    tick(100);
    uint64_t empty = stats().memory_bytes;
    cold_close(&rig);
    rig.memory_max = empty - 1; /* always short */
    cold_open(&rig);
    cold_tell_all(&rig);
    rig.log.room = ERR_FULL;
    assert_int_equal(cold_ask(&rig, like("item", 1)).code, ERR_FULL);
    rig.log.room = ERR_OK;
    cold_save(&rig);
    for (int i = 0; i < 5; i++)
        tick(1000);
    assert_int_equal(stats().users, 1);
}

/* ---- keys ---- */

TEST(a_key_that_was_used_before_gets_its_first_answer_from_the_store)
{
    struct op op = add("a", 5);
    op.key = slice_of("once");
    assert_value(cold_ask(&rig, op), 5);
    cold_ask(&rig, add("a", 1));
    cold_save(&rig);
    cold_restart(&rig);
    struct op again = cold_ask(&rig, op);
    assert_value(again, 5);
    assert_true(again.repeated);
    op.key = slice_of("other");
    assert_value(cold_ask(&rig, op), 11);
    op.amount = number_of(6);
    assert_int_equal(cold_ask(&rig, op).code, ERR_KEY_REUSED);
}

TEST(keys_may_be_handed_in_unasked_and_then_nobody_asks)
{
    struct op op = add("a", 5);
    op.key = slice_of("once");
    assert_value(cold_ask(&rig, op), 5);
    cold_save(&rig);
    cold_restart(&rig);
    cold_tell_all(&rig);
    woken = 0;
    rig.hot->arrive = count_wake;
    rig.hot->arrive_arg = &woken;
    for (size_t i = 0; i < rig.shelf->key_count; i++) {
        struct hot_found found = {.code = ERR_OK, .unasked = true, .key = &rig.shelf->keys[i]};
        hot_loaded(rig.hot, &(struct hot_want){.kind = HOT_WANT_KEY}, &found);
    }
    hot_told_all(rig.hot, HOT_WANT_KEY);
    assert_int_equal(woken, 0);
    assert_true(cold_try(&rig, op).repeated);
    struct op other = add("b", 1);
    other.key = slice_of("fresh");
    assert_value(cold_try(&rig, other), 1);
}

TEST(a_key_that_is_too_old_may_be_used_anew)
{
    struct op op = add("a", 5);
    op.key = slice_of("once");
    assert_value(cold_ask(&rig, op), 5);
    cold_save(&rig);
    cold_restart(&rig);
    rig.now_ms += INT64_C(25) * 3600 * 1000;
    assert_value(cold_ask(&rig, op), 10); /* the store has not thinned it out yet */
    assert_true(cold_ask(&rig, op).repeated);
}

TEST(keys_leave_memory_when_it_is_short_and_still_count)
{
    enum { WRITES = 3000 };
    tick(100);
    uint64_t empty = stats().memory_bytes;
    cold_close(&rig);
    rig.memory_max = empty + 60000;
    cold_open(&rig);
    cold_tell_all(&rig);
    hot_told_all(rig.hot, HOT_WANT_KEY);
    char key[16];
    for (int i = 0; i < WRITES; i++) {
        snprintf(key, sizeof(key), "key%d", i);
        struct op op = add("a", 1);
        op.key = slice_of(key);
        assert_value(cold_ask(&rig, op), i + 1);
        if (i % 100 == 0) {
            cold_save(&rig);
            tick(100);
        }
    }
    assert_true(stats().keys < WRITES / 2);
    assert_true(stats().memory_bytes <= rig.memory_max);
    for (int i = 0; i < WRITES; i += 11) {
        snprintf(key, sizeof(key), "key%d", i);
        struct op op = add("a", 1);
        op.key = slice_of(key);
        struct op again = cold_ask(&rig, op);
        assert_true(again.repeated);
        assert_value(again, i + 1);
    }
    assert_value(cold_ask(&rig, get("a")), WRITES);
}

/* ---- starting again ---- */

TEST(a_restart_replays_only_what_is_behind_the_mark)
{
    for (int i = 0; i < 50; i++) {
        cold_ask(&rig, add("a", 1));
        cold_ask(&rig, add("b", 2));
        cold_ask(&rig, like("item", (unsigned)i));
    }
    cold_save(&rig);
    cold_ask(&rig, add("a", 1));
    cold_ask(&rig, on(OP_DELETE, "b"));
    cold_ask(&rig, add("c", 9));
    cold_ask(&rig, like("item", 50));
    cold_restart(&rig);
    assert_int_equal(stats().counters, 2);
    assert_int_equal(stats().items, 1);
    assert_int_equal(stats().members, 51);
    assert_value(cold_ask(&rig, get("a")), 51);
    assert_int_equal(cold_ask(&rig, get("b")).code, ERR_NOT_FOUND);
    assert_value(cold_ask(&rig, get("c")), 9);
    assert_int_equal(likes("item"), 51);
    assert_value(cold_ask(&rig, add("b", 1)), 1);
    cold_save(&rig); /* the sequences go on without a gap */
}

/* ---- what the store could not apply ---- */

static struct event pending_add(const char *id, int64_t amount)
{
    return (struct event){.type = EVENT_ADD,
                          .id = slice_of(id),
                          .user_number = EVENT_NO_NUMBER,
                          .amount = number_of(amount),
                          .time_ms = RIG_BEGAN_MS};
}

TEST(events_that_wait_in_the_store_are_replayed_on_top)
{
    struct hot_want want;
    assert_int_equal(cold_try(&rig, get("a")).code, ERR_COLD);
    assert_true(hot_wanted(rig.hot, &want));
    struct event pending[2] = {pending_add("a", 5), pending_add("a", 6)};
    struct state_target target = {.id = want.id,
                                  .value = number_of(100),
                                  .create = {.shards = 1},
                                  .written_ms = RIG_BEGAN_MS,
                                  .pending = pending,
                                  .pending_count = 2};
    hot_loaded(rig.hot, &want, &(struct hot_found){.code = ERR_OK, .target = &target});
    assert_value(cold_try(&rig, get("a")), 111);
    assert_int_equal(stats().counters, 0); /* loading changes no total */
    assert_int_equal(hot_drop(rig.hot, slice_of("a")), ERR_OK);
}

static struct event pending_like(const char *item, struct slice user, uint32_t number)
{
    return (struct event){.type = EVENT_REACT,
                          .id = slice_of(item),
                          .user = user,
                          .user_number = number,
                          .after = slice_of("like"),
                          .time_ms = RIG_BEGAN_MS};
}

TEST(a_waiting_like_of_a_missing_slice_counts_and_is_held_when_the_slice_comes)
{
    char name[32];
    struct slice user = user_name(1, name);
    struct event pending = pending_like("item", user, 40);
    struct slice kind = slice_of("like");
    int64_t count = 9000;
    struct hot_want want;
    int64_t counts[LIMIT_KINDS];
    assert_int_equal(cold_try(&rig, counts_of("item", counts)).code, ERR_COLD);
    assert_true(hot_wanted(rig.hot, &want));
    struct state_target target = {.id = want.id,
                                  .is_item = true,
                                  .kinds = &kind,
                                  .counts = &count,
                                  .kind_count = 1,
                                  .slices = STATE_SLICES,
                                  .pending = &pending,
                                  .pending_count = 1};
    hot_loaded(rig.hot, &want, &(struct hot_found){.code = ERR_OK, .target = &target});
    assert_int_equal(likes("item"), 9001);

    struct op op = reaction(OP_REACT, "item", user, LIKE);
    assert_int_equal(cold_try(&rig, op).code, ERR_COLD);
    assert_true(hot_wanted(rig.hot, &want));
    assert_int_equal(want.kind, HOT_WANT_SLICE);
    hot_loaded(rig.hot, &want,
               &(struct hot_found){.code = ERR_OK, .pending = &pending, .pending_count = 1});
    op = cold_try(&rig, op);
    assert_int_equal(op.code, ERR_OK);
    assert_false(op.changed);
    assert_int_equal(likes("item"), 9001);
}

TEST(a_kind_that_is_not_configured_refuses_its_item)
{
    struct hot_want want;
    uint32_t numbers[] = {1, 2};
    struct state_members members = {.kind = slice_of("love"), .numbers = numbers, .count = 2};
    int64_t counts[LIMIT_KINDS];
    assert_int_equal(cold_try(&rig, counts_of("item", counts)).code, ERR_COLD);
    assert_true(hot_wanted(rig.hot, &want));
    struct state_target target = {
        .id = want.id, .is_item = true, .slices = 1, .members = &members, .member_count = 1};
    hot_loaded(rig.hot, &want, &(struct hot_found){.code = ERR_OK, .target = &target});
    assert_int_equal(cold_try(&rig, counts_of("item", counts)).code, ERR_NO_KIND);
}

/* ---- memory ---- */

TEST(data_may_be_ten_times_larger_than_memory)
{
    enum { COUNTERS = 12000, ITEMS = 4000 };
    cold_close(&rig);
    rig.memory_max = 200000;
    cold_open(&rig);
    tick(100);
    uint64_t empty = stats().memory_bytes;
    cold_close(&rig);
    rig.memory_max = empty + 150000;
    rig.retention_ms = 600000;
    cold_open(&rig);
    cold_tell_all(&rig);
    char id[64];
    uint64_t most = 0;
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < COUNTERS + ITEMS; i++) {
            bool is_item = i % 4 == 3;
            snprintf(id, sizeof(id), "%s:%07u:some-more-text-to-be-held", is_item ? "i" : "c", i);
            struct op op =
                cold_ask(&rig, is_item ? like(id, (i * 2 + round * 100) % 20000) : add(id, i));
            assert_int_equal(op.code, ERR_OK);
            if (i % 50 == 0) {
                cold_save(&rig);
                tick(100);
                most = stats().memory_bytes > most ? stats().memory_bytes : most;
            }
        }
    assert_true(most <= rig.memory_max + rig.memory_max / 10);
    struct hot_stats now = stats();
    assert_int_equal(now.counters, COUNTERS);
    assert_int_equal(now.items, ITEMS);
    assert_int_equal(now.members, 3 * ITEMS);
    assert_true(now.hot_counters + now.hot_items < (COUNTERS + ITEMS) / 8);
    for (unsigned i = 0; i < COUNTERS + ITEMS; i += 37) {
        bool is_item = i % 4 == 3;
        snprintf(id, sizeof(id), "%s:%07u:some-more-text-to-be-held", is_item ? "i" : "c", i);
        if (is_item)
            assert_int_equal(likes(id), 3);
        else
            assert_value(cold_ask(&rig, get(id)), 3 * (int64_t)i);
    }
}

TEST(when_nothing_may_go_what_needs_memory_is_refused_and_the_rest_goes_on)
{
    tick(100);
    uint64_t empty = stats().memory_bytes;
    cold_close(&rig);
    rig.memory_max = empty + 400000;
    cold_open(&rig);
    cold_ask(&rig, add("cold", 1));
    cold_ask(&rig, like("away", 1));
    cold_save(&rig);
    cold_restart(&rig);
    cold_tell_all(&rig);
    cold_ask(&rig, add("hot", 1));
    cold_ask(&rig, like("item", 2));
    char id[64];
    unsigned made = 0;
    for (; made < 50000; made++) { /* nothing is saved */
        snprintf(id, sizeof(id), "counter:%u", made);
        struct op op = cold_try(&rig, add(id, 1));
        if (op.code == ERR_NO_MEMORY)
            break;
        assert_int_equal(op.code, ERR_OK);
        if (made % 100 == 0)
            tick(100);
    }
    assert_true(made < 50000);
    assert_int_equal(cold_try(&rig, like("item", 4)).code, ERR_NO_MEMORY);
    assert_int_equal(cold_try(&rig, like("item", 5)).code, ERR_NO_MEMORY);
    assert_int_equal(cold_ask(&rig, like("away", 3)).code, ERR_NO_MEMORY);
    assert_true(stats().memory_refused >= 4);
    assert_value(cold_ask(&rig, get("cold")), 1);
    assert_value(cold_ask(&rig, add("cold", 1)), 2); /* nothing new */
    struct op again = cold_ask(&rig, like("away", 1));
    assert_int_equal(again.code, ERR_OK);
    assert_false(again.changed);
    assert_value(cold_try(&rig, add("hot", 1)), 2);
    assert_value(cold_try(&rig, get("hot")), 2);
    char name[32];
    struct op op = cold_try(&rig, reaction(OP_WITHDRAW, "item", user_name(2, name), LIKE));
    assert_int_equal(op.code, ERR_OK);
    assert_true(op.changed);

    cold_save(&rig);
    tick(100);
    tick(100);
    assert_value(cold_ask(&rig, add(id, 1)), 1);
    assert_value(cold_ask(&rig, get("cold")), 2);
}

TEST(what_was_used_since_the_last_tick_stays_while_anything_else_may_go)
{
    enum { ROUNDS = 60, BURST = 400 };
    tick(100);
    uint64_t empty = stats().memory_bytes;
    cold_close(&rig);
    rig.memory_max = empty + 100000; /* some rounds of it */
    rig.retention_ms = 600000;
    cold_open(&rig);
    cold_tell_all(&rig);
    cold_ask(&rig, add("hot", 1));
    char id[64];
    for (unsigned i = 0; i < ROUNDS * BURST; i++) {
        snprintf(id, sizeof(id), "counter:%07u:some-more-text-to-be-held", i);
        enum err err = cold_ask(&rig, add(id, 1)).code;
        assert_true(err == ERR_OK || err == ERR_NO_MEMORY);
        if (i % BURST != 0)
            continue;
        cold_save(&rig);
        assert_value(cold_try(&rig, get("hot")), 1); /* saved, and in memory */
        tick(100);
        assert_value(cold_try(&rig, get("hot")), 1);
    }
    assert_true(stats().dropped > BURST);
}

TEST(what_is_loaded_to_be_written_to_when_nothing_may_go_has_an_end)
{
    enum { COUNTERS = 25000 };
    char id[64];
    for (unsigned i = 0; i < COUNTERS; i++) {
        snprintf(id, sizeof(id), "c:%07u:some-more-text-to-be-held-for-a-long-time", i);
        cold_ask(&rig, add(id, 1));
    }
    cold_save(&rig);
    cold_restart(&rig);
    cold_tell_all(&rig);
    tick(100);
    rig.memory_max = stats().memory_bytes + 100000;
    cold_restart(&rig);
    cold_tell_all(&rig);
    enum err err = ERR_OK;
    unsigned past = 0;
    for (unsigned i = 0; i < COUNTERS && err == ERR_OK; i++) { /* nothing is saved */
        snprintf(id, sizeof(id), "c:%07u:some-more-text-to-be-held-for-a-long-time", i);
        err = cold_ask(&rig, add(id, 1)).code;
        past += stats().memory_bytes > rig.memory_max;
        if (i % 100 == 0)
            tick(100);
    }
    assert_int_equal(err, ERR_NO_MEMORY);
    assert_true(past > 100);
    assert_value(cold_ask(&rig, get(id)), 1);
}

/* ---- the audit ---- */

static struct hot_record record_of(const char *id)
{
    struct hot_inspection seen;
    assert_int_equal(hot_inspect(rig.hot, slice_of(id), &seen), ERR_OK);
    return seen.record;
}

TEST(only_the_record_that_was_inspected_is_mended)
{
    cold_tell_all(&rig);
    cold_ask(&rig, add("a", 5));
    struct number by = number_of(3);
    struct hot_record record = record_of("a");
    cold_ask(&rig, add("a", 1));
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &record, 0, &by), ERR_OK);

    put_away("a"); /* and back: what was wrong may not be so any more */
    assert_value(cold_ask(&rig, add("a", 0)), 6);
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &record, 0, &by), ERR_BUSY);
    struct hot_record loaded = record_of("a"); /* by somebody else */
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &record, 0, &by), ERR_BUSY);
    assert_value(cold_ask(&rig, get("a")), 6);
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &loaded, 0, &by), ERR_OK);
    assert_value(cold_ask(&rig, get("a")), 9);

    cold_ask(&rig, (struct op){.kind = OP_DELETE, .id = slice_of("a")});
    cold_ask(&rig, add("a", 1));
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &loaded, 0, &by), ERR_BUSY);
    record = record_of("a");
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &loaded, 0, &by), ERR_BUSY);
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &record, 0, &by), ERR_OK);
    assert_value(cold_ask(&rig, get("a")), 4);
}

TEST(an_inspection_is_of_one_moment_and_mending_changes_nothing_else)
{
    cold_tell_all(&rig);
    cold_ask(&rig, add("a", 5));
    for (unsigned user = 0; user < 300; user++)
        cold_ask(&rig, like("item", user));
    struct hot_inspection seen;
    assert_int_equal(hot_inspect(rig.hot, slice_of("a"), &seen), ERR_OK);
    struct hot_record a = seen.record;
    assert_false(seen.is_item);
    assert_int_equal(seen.value.small, 5);
    uint64_t events = 0;
    for (unsigned i = 0; i < LIMIT_CELLS; i++)
        events += seen.sequences[i];
    assert_int_equal(events, 301);
    assert_int_equal(hot_inspect(rig.hot, slice_of("item"), &seen), ERR_OK);
    struct hot_record item = seen.record;
    assert_true(seen.is_item && seen.complete);
    assert_int_equal(seen.counts[0], 300);
    assert_int_equal(seen.members[0], 300);
    assert_int_equal(hot_inspect(rig.hot, slice_of("none"), &seen), ERR_NOT_FOUND);

    size_t sections = rig.log.count;
    struct number by = number_of(3);
    assert_int_equal(hot_mend(rig.hot, slice_of("a"), &a, 0, &by), ERR_OK);
    assert_int_equal(hot_mend(rig.hot, slice_of("item"), &item, LIKE, &by), ERR_OK);
    assert_int_equal(hot_mend(rig.hot, slice_of("none"), &a, 0, &by), ERR_NOT_FOUND);
    assert_int_equal(rig.log.count, sections);
    assert_value(cold_ask(&rig, get("a")), 8);
    assert_int_equal(hot_inspect(rig.hot, slice_of("item"), &seen), ERR_OK);
    assert_int_equal(seen.counts[0], 303);
    assert_int_equal(seen.members[0], 300);

    struct event repair = {.type = EVENT_REPAIR,
                           .id = slice_of("a"),
                           .amount = number_of(3),
                           .user_number = EVENT_NO_NUMBER,
                           .place = PLACE_HOT};
    assert_int_equal(hot_note(rig.hot, &repair, rig.now_ms), ERR_OK);
    assert_int_equal(rig.log.count, sections + 1);
    cold_store(&rig, SIZE_MAX); /* its sequence follows */
}

static void see_entry(void *arg, const struct hot_entry *entry)
{
    ++*(unsigned *)arg;
    assert_true(entry->was_loaded == slice_equal(entry->id, slice_of("loaded")));
}

TEST(a_scan_says_what_was_loaded_and_a_peek_wants_nothing)
{
    cold_ask(&rig, add("loaded", 1));
    cold_ask(&rig, add("away", 1));
    put_away("loaded");
    put_away("away");
    cold_ask(&rig, get("loaded"));
    cold_ask(&rig, add("made", 1));
    unsigned seen = 0;
    uint64_t cursor = 0;
    do {
        hot_scan(rig.hot, &cursor, 10, see_entry, &seen);
    } while (cursor != 0);
    assert_int_equal(seen, 2);
    assert_int_equal(hot_peek(rig.hot, slice_of("made"), see_entry, &seen), ERR_OK);
    assert_int_equal(hot_peek(rig.hot, slice_of("away"), see_entry, &seen), ERR_COLD);
    assert_int_equal(seen, 3);
    assert_int_equal(cold_load(&rig), 0);
    cold_tell_all(&rig);
    assert_int_equal(hot_peek(rig.hot, slice_of("none"), see_entry, &seen), ERR_NOT_FOUND);
}

#define SCENARIO(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

RUN(SCENARIO(what_is_in_the_store_only_is_asked_for_once_and_nobody_else_waits),
    SCENARIO(what_surely_is_not_in_the_store_is_not_asked_for),
    SCENARIO(before_all_is_told_everything_is_asked_for_and_what_is_not_there_is_new),
    SCENARIO(the_loader_is_woken_and_tells_that_something_has_arrived),
    SCENARIO(a_store_that_cannot_say_refuses_for_a_second_and_is_asked_again),
    SCENARIO(ops_on_one_id_stay_in_order_when_the_first_of_them_waits),
    SCENARIO(only_what_is_saved_may_go), SCENARIO(a_write_between_note_and_save_keeps_its_record),
    SCENARIO(settings_and_deadlines_come_back), SCENARIO(the_shards_asked_for_come_back),
    SCENARIO(an_item_without_names_gets_its_shards_when_it_is_written),
    SCENARIO(what_was_deleted_is_not_loaded_again),
    SCENARIO(many_deletions_that_are_not_saved_are_all_remembered),
    SCENARIO(a_spread_counter_and_a_spread_item_can_go),
    SCENARIO(what_is_idle_past_the_retention_goes_and_reading_keeps_it),
    SCENARIO(what_is_idle_and_not_saved_stays), SCENARIO(an_item_in_one_piece_comes_back_whole),
    SCENARIO(a_large_item_is_loaded_slice_by_slice),
    SCENARIO(an_item_with_missing_slices_can_be_spread_and_folded),
    SCENARIO(names_are_loaded_when_members_are_listed),
    SCENARIO(an_item_that_outgrows_one_piece_waits_for_names),
    SCENARIO(a_user_keeps_the_number_that_he_was_given),
    SCENARIO(a_user_whom_nobody_knows_holds_nothing_and_a_cold_one_is_asked_for),
    SCENARIO(names_leave_memory_when_it_is_short_and_keep_their_numbers),
    SCENARIO(a_name_that_no_event_has_carried_stays),
    SCENARIO(a_key_that_was_used_before_gets_its_first_answer_from_the_store),
    SCENARIO(keys_may_be_handed_in_unasked_and_then_nobody_asks),
    SCENARIO(a_key_that_is_too_old_may_be_used_anew),
    SCENARIO(keys_leave_memory_when_it_is_short_and_still_count),
    SCENARIO(a_restart_replays_only_what_is_behind_the_mark),
    SCENARIO(events_that_wait_in_the_store_are_replayed_on_top),
    SCENARIO(a_waiting_like_of_a_missing_slice_counts_and_is_held_when_the_slice_comes),
    SCENARIO(a_kind_that_is_not_configured_refuses_its_item),
    SCENARIO(data_may_be_ten_times_larger_than_memory),
    SCENARIO(when_nothing_may_go_what_needs_memory_is_refused_and_the_rest_goes_on),
    SCENARIO(what_was_used_since_the_last_tick_stays_while_anything_else_may_go),
    SCENARIO(what_is_loaded_to_be_written_to_when_nothing_may_go_has_an_end),
    SCENARIO(an_inspection_is_of_one_moment_and_mending_changes_nothing_else),
    SCENARIO(only_the_record_that_was_inspected_is_mended),
    SCENARIO(a_scan_says_what_was_loaded_and_a_peek_wants_nothing))
