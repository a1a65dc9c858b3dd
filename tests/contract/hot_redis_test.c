/* hot_redis_test.c - what every hot layer promises (hot_cases.h), over Redis. */
/* servers: redis */
/* servers: cluster */
/* threads */
#define RIG_REDIS
#include "contract/hot_cases.h"

TEST(creation_says_how_a_counter_shall_be_and_a_floor_keeps_it_in_one_piece)
{
    struct op_create as = {.shards = 8, .policy = POLICY_ROUND_ROBIN, .idle_s = 3600};
    assert_changed(ask(create("a", &as)), true);
    assert_refused(ask(create("a", &as)), ERR_EXISTS);
    assert_value(ask(get("a")), "0");
    struct op_describe is = describe("a");
    assert_int_equal(is.shards, 8);
    assert_int_equal(is.shards_asked, 8);
    assert_int_equal(is.policy, POLICY_ROUND_ROBIN);
    assert_int_equal(is.idle_s, 3600);
    assert_string_equal(is.reason, "asked for at creation");

    as = (struct op_create){.shards = 8, .has_floor = true, .floor = -10};
    assert_changed(ask(create("b", &as)), true);
    is = describe("b");
    assert_int_equal(is.shards, 1);
    assert_int_equal(is.shards_asked, 8);
    assert_true(is.has_floor);
    assert_int_equal(is.floor, -10);
    as = (struct op_create){.shards = 1, .has_floor = true, .floor = 1};
    assert_refused(ask(create("c", &as)), ERR_INVALID);
    rig_restart(&rig);
    assert_int_equal(describe("a").shards, 8);
}

TEST(values_go_past_64_bits_in_parts_and_together)
{
    struct op_create as = {.shards = 8, .policy = POLICY_ROUND_ROBIN};
    ask(create("a", &as));
    for (int i = 0; i < 8; i++)
        ask(add("a", INT64_MAX / 8));
    assert_value(ask(add("a", INT64_MAX / 8)), "10376293541461622775");
    assert_value_and_free(ask(of_digits(OP_ADD, "a", "100000000000000000000000")),
                          "100010376293541461622775");
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 3, rig.now_ms), ERR_OK);
    assert_value(ask(get("a")), "100010376293541461622775");
    assert_value(ask(set("a", 5)), "5");
    assert_value(ask(add("a", -6)), "-1");
    assert_value_and_free(ask(of_digits(OP_SET, "a", "-99999999999999999999")),
                          "-99999999999999999999");
    assert_value(ask(set("a", 9)), "9");
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 3, rig.now_ms), ERR_OK);
    assert_int_equal(describe("a").shards, 3);
    assert_changed(ask(on(OP_DELETE, "a")), true);
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_value(ask(add("a", 1)), "1");
}

TEST(a_spread_counter_ends_as_any_other)
{
    struct op_create as = {.shards = 8, .policy = POLICY_RANDOM};
    assert_changed(ask(create("dead", &as)), true);
    assert_value(ask(add("dead", 4)), "4");
    assert_changed(ask(expire("dead", rig.now_ms + 500)), true);
    assert_int_equal(hot_reshard(rig.hot, SLICE("dead"), 8, rig.now_ms), ERR_OK);
    assert_value(ask(get("dead")), "4");
    rig.now_ms += 500;
    assert_refused(ask(get("dead")), ERR_NOT_FOUND);
    assert_changed(ask(on(OP_EXISTS, "dead")), false);
    assert_value(ask(add("dead", 1)), "1");
}

TEST(items_of_every_size_know_their_members_wherever_they_are)
{
    static const unsigned sizes[] = {1, 7, 100, 4095, 4096, 4097, 9000, 20000};
    unsigned count = sizeof(sizes) / sizeof(sizes[0]) - !TEST_IS_LONG;
    for (unsigned i = 0; i < count; i++) {
        char item[16];
        snprintf(item, sizeof(item), "v%u", sizes[i]);
        unsigned likes = sizes[i] - sizes[i] / 3;
        react_many(item, 0, likes, LIKE);
        react_many(item, likes, sizes[i], DISLIKE);
        for (uint32_t shards = 1; shards <= 64; shards *= 8) {
            assert_int_equal(hot_reshard(rig.hot, slice_of(item), shards, rig.now_ms), ERR_OK);
            assert_counts(item, likes, sizes[i] - likes);
            assert_members(item, LIKE, 0, likes, 100);
            assert_members(item, DISLIKE, likes, sizes[i], 3333);
            assert_int_equal(held_by(item, user_name(0)), LIKE);
            assert_int_equal(held_by(item, user_name(sizes[i])), 0);
        }
    }
}

TEST(a_key_of_a_reaction_moves_with_its_user)
{
    react_many("v", 0, 300, DISLIKE);
    for (uint32_t shards = 1; shards <= 64; shards *= 8) {
        assert_int_equal(hot_reshard(rig.hot, SLICE("v"), shards, rig.now_ms), ERR_OK);
        for (unsigned i = 0; i < 20; i++) {
            struct op op = ask(keyed(toggle("v", user_name(i), LIKE), user_name(i)));
            assert_int_equal(op.repeated, shards > 1);
            assert_held(op, true, LIKE);
            assert_int_equal(held_by("v", user_name(i)), LIKE);
        }
    }
    assert_counts("v", 20, 280);
}

#define SCENARIO(name) cmocka_unit_test_setup_teardown(name, open_rig, restart_and_close_rig)
#define CASE(name)     SCENARIO(name),

RUN(HOT_CASES(CASE)
        SCENARIO(creation_says_how_a_counter_shall_be_and_a_floor_keeps_it_in_one_piece),
    SCENARIO(values_go_past_64_bits_in_parts_and_together),
    SCENARIO(a_spread_counter_ends_as_any_other),
    SCENARIO(items_of_every_size_know_their_members_wherever_they_are),
    SCENARIO(a_key_of_a_reaction_moves_with_its_user))
