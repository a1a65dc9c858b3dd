/* hot_test.c - what core/hot.h and core/op.h promise of a hot layer: every op,
 * every answer, every refusal. Behind each scenario everything is closed, opened
 * and replayed from the log, and must be what it was. */
#include "contract/hot_rig.h"

#include <unistd.h>

static struct rig rig;

static int open_rig(void **state)
{
    (void)state;
    rig = (struct rig){0};
    rig_open(&rig);
    return 0;
}

static int restart_and_close_rig(void **state)
{
    (void)state;
    rig_restart(&rig);
    rig_close(&rig);
    return 0;
}

static struct op ask(struct op op)
{
    return rig_ask(&rig, op);
}

/* ---- what is expected ---- */

static void assert_value(struct op op, const char *value)
{
    assert_int_equal(op.code, ERR_OK);
    assert_string_equal(rig_text(&op.value), value);
    number_done(&op.value);
}

static void assert_changed(struct op op, bool changed)
{
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.changed, changed);
    number_done(&op.value);
}

static void assert_refused(struct op op, enum err code)
{
    assert_int_equal(op.code, code);
    assert_false(op.changed);
}

static void assert_held(struct op op, bool changed, unsigned held)
{
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.changed, changed);
    assert_int_equal(op.held, held);
}

static void assert_counts(const char *item, int64_t likes, int64_t dislikes)
{
    int64_t counts[2] = {-1, -1};
    struct op op = on(OP_COUNTS, item);
    op.counts = counts;
    op = ask(op);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(counts[0], likes);
    assert_int_equal(counts[1], dislikes);
}

static unsigned held_by(const char *item, const char *user)
{
    struct op op = react(item, user, 0);
    op.kind = OP_REACTION;
    op = ask(op);
    assert_int_equal(op.code, ERR_OK);
    return op.held;
}

static struct op_describe describe(const char *id)
{
    struct op_describe answer = {0};
    struct op op = on(OP_DESCRIBE, id);
    op.describe = &answer;
    assert_int_equal(ask(op).code, ERR_OK);
    return answer;
}

static struct op of_digits(enum op_kind kind, const char *id, const char *digits)
{
    struct op op = on(kind, id);
    assert_int_equal(number_parse(slice_of(digits), &op.amount), ERR_OK);
    return op;
}

static void assert_value_and_free(struct op op, const char *value)
{
    assert_value(op, value);
    number_done(&op.amount);
}

/* ---- counters ---- */

TEST(a_counter_is_created_on_first_write)
{
    assert_refused(ask(get("visits")), ERR_NOT_FOUND);
    assert_changed(ask(on(OP_EXISTS, "visits")), false);
    struct op op = ask(add("visits", 5));
    assert_true(op.changed);
    assert_true(op.ticket > 0);
    assert_value(op, "5");
    assert_value(ask(get("visits")), "5");
    assert_changed(ask(on(OP_EXISTS, "visits")), true);
    struct op_describe is = describe("visits");
    assert_false(is.is_item);
    assert_int_equal(is.shards, 1);
    assert_int_equal(is.shards_asked, 1);
    assert_int_equal(is.written_ms, RIG_BEGAN_MS);
    assert_string_equal(is.reason, "never changed");
}

TEST(a_counter_can_be_created_by_adding_nothing)
{
    assert_changed(ask(add("zero", 0)), true);
    assert_changed(ask(add("zero", 0)), false);
    assert_value(ask(get("zero")), "0");
}

TEST(adding_and_subtracting_give_the_new_value)
{
    assert_value(ask(add("a", 3)), "3");
    assert_value(ask(add("a", -5)), "-2");
    assert_value(ask(add("a", INT64_MIN)), "-9223372036854775810");
    assert_value(ask(get("a")), "-9223372036854775810");
}

TEST(a_read_need_not_wait_for_the_log_and_a_write_must)
{
    assert_true(ask(add("a", 1)).ticket > 0);
    assert_int_equal(ask(get("a")).ticket, 0);
    struct op nothing = ask(withdraw("item", "ann", LIKE));
    assert_int_equal(nothing.code, ERR_OK);
    struct op like = ask(react("item", "ann", LIKE));
    struct op again = ask(react("item", "ann", LIKE));
    assert_false(again.changed);
    assert_true(again.ticket >= like.ticket); /* it rests on the first */
}

TEST(values_go_past_64_bits_and_come_back)
{
    assert_value(ask(add("up", INT64_MAX)), "9223372036854775807");
    assert_value(ask(add("up", 1)), "9223372036854775808");
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.big, 1);
    assert_value(ask(get("up")), "9223372036854775808");
    assert_value(ask(add("up", -1)), "9223372036854775807");
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.big, 0);

    assert_value(ask(add("down", INT64_MIN)), "-9223372036854775808");
    assert_value(ask(add("down", -1)), "-9223372036854775809");
    assert_value_and_free(ask(of_digits(OP_ADD, "down", "100000000000000000000000000000000")),
                          "99999999999990776627963145224191");
    rig_restart(&rig);
    assert_value(ask(get("down")), "99999999999990776627963145224191");
    assert_value_and_free(ask(of_digits(OP_ADD, "down", "-99999999999990776627963145224191")), "0");
    assert_value_and_free(ask(of_digits(OP_SET, "set", "-340282366920938463463374607431768211456")),
                          "-340282366920938463463374607431768211456");
}

TEST(a_set_value_replaces_the_old_one)
{
    struct op op = ask(set("a", 7));
    assert_true(op.changed);
    assert_value(op, "7");
    assert_value(ask(add("a", 3)), "10");
    assert_value(ask(set("a", -4)), "-4");
    assert_changed(ask(set("a", -4)), false);
    assert_value(ask(get("a")), "-4");
}

TEST(what_was_deleted_begins_anew)
{
    assert_changed(ask(on(OP_DELETE, "a")), false);
    assert_value(ask(add("a", 5)), "5");
    uint32_t incarnation = describe("a").incarnation;
    assert_changed(ask(on(OP_DELETE, "a")), true);
    assert_changed(ask(on(OP_DELETE, "a")), false);
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    rig_restart(&rig);
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_value(ask(add("a", 1)), "1");
    assert_true(describe("a").incarnation > incarnation);
}

/* The next event of the counter's home cell, as if a log held it. */
static enum err replay_next(const char *id, enum event_type type, uint32_t incarnation,
                            uint64_t *sequence, struct op_create as)
{
    struct event event = {.type = type,
                          .incarnation = incarnation,
                          .id = slice_of(id),
                          .user = SLICE("ann"),
                          .after = SLICE("like"),
                          .amount = number_of(100),
                          .next_incarnation = incarnation + 1,
                          .create = as,
                          .sequence = ++*sequence,
                          .time_ms = RIG_BEGAN_MS};
    return hot_replay(rig.hot, &event, NULL);
}

/* What was replayed here is not in the log, and would be missed after a restart. */
static void forget_replayed(void)
{
    rig_stop(&rig);
    rig_start(&rig);
}

TEST(late_events_of_an_old_incarnation_do_not_count)
{
    uint64_t sequence = 0;
    struct op_create one = {.shards = 1};
    assert_int_equal(replay_next("a", EVENT_ADD, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_DELETE, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_ADD, 0, &sequence, one), ERR_OK);
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_int_equal(replay_next("a", EVENT_ADD, 1, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_ADD, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_RESET, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_REACT, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_CREATE, 0, &sequence, one), ERR_OK);
    assert_value(ask(get("a")), "100");
    forget_replayed();
}

TEST(events_that_cannot_follow_are_refused)
{
    uint64_t sequence = 0;
    struct op_create one = {.shards = 1};
    assert_int_equal(replay_next("a", EVENT_ADD, 7, &sequence, one), ERR_CORRUPT);
    assert_int_equal(replay_next("a", EVENT_ADD, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("a", EVENT_REACT, 0, &sequence, one), ERR_CORRUPT);
    assert_int_equal(replay_next("a", EVENT_CREATE, 0, &sequence, one), ERR_CORRUPT);
    assert_int_equal(replay_next("i", EVENT_REACT, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("i", EVENT_REACT, 0, &sequence, one), ERR_CORRUPT);
    sequence++;
    assert_int_equal(replay_next("a", EVENT_ADD, 0, &sequence, one), ERR_CORRUPT);
    forget_replayed();
}

TEST(creation_says_how_a_counter_shall_be)
{
    struct op_create as = {
        .shards = 8, .policy = POLICY_ROUND_ROBIN, .has_floor = true, .floor = -10, .idle_s = 3600};
    assert_changed(ask(create("a", &as)), true);
    assert_refused(ask(create("a", &as)), ERR_EXISTS);
    assert_value(ask(get("a")), "0");
    struct op_describe is = describe("a");
    assert_int_equal(is.shards, 8);
    assert_int_equal(is.shards_asked, 8);
    assert_int_equal(is.policy, POLICY_ROUND_ROBIN);
    assert_true(is.has_floor);
    assert_int_equal(is.floor, -10);
    assert_int_equal(is.idle_s, 3600);
    assert_string_equal(is.reason, "asked for at creation");

    as = (struct op_create){.shards = 1, .has_floor = true, .floor = 1};
    assert_refused(ask(create("b", &as)), ERR_INVALID);
    assert_refused(ask(get("b")), ERR_NOT_FOUND);
    rig_restart(&rig);
    assert_int_equal(describe("a").shards, 8);
}

TEST(a_floor_is_never_passed)
{
    for (uint32_t shards = 1; shards <= 64; shards = shards * 3 + 1) {
        char id[16];
        snprintf(id, sizeof(id), "floor%u", shards);
        struct op_create as = {.shards = shards, .has_floor = true, .floor = -2};
        assert_changed(ask(create(id, &as)), true);
        assert_value(ask(add(id, 5)), "5");
        assert_value(ask(add(id, -7)), "-2");
        assert_refused(ask(add(id, -1)), ERR_BELOW_FLOOR);
        assert_refused(ask(set(id, -3)), ERR_BELOW_FLOOR);
        struct op big = ask(of_digits(OP_ADD, id, "-100000000000000000000"));
        assert_refused(big, ERR_BELOW_FLOOR);
        number_done(&big.amount);
        assert_value(ask(get(id)), "-2");
        assert_value(ask(add(id, 1)), "-1");
        assert_value(ask(set(id, -2)), "-2");
    }
}

TEST(a_deadline_ends_a_counter)
{
    assert_changed(ask(expire("a", rig.now_ms + 1000)), false);
    assert_value(ask(add("a", 5)), "5");
    assert_changed(ask(expire("a", rig.now_ms + 1000)), true);
    struct op op = ask(on(OP_DEADLINE, "a"));
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.deadline_ms, rig.now_ms + 1000);
    rig_restart(&rig);
    assert_int_equal(ask(on(OP_DEADLINE, "a")).deadline_ms, rig.now_ms + 1000);

    rig.now_ms += 999;
    assert_value(ask(get("a")), "5");
    rig.now_ms += 1;
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_refused(ask(on(OP_DEADLINE, "a")), ERR_NOT_FOUND);
    assert_changed(ask(on(OP_EXISTS, "a")), false);
    assert_changed(ask(expire("a", rig.now_ms + 1000)), false);
    assert_value(ask(add("a", 1)), "1"); /* a new one, without an end */
    assert_int_equal(ask(on(OP_DEADLINE, "a")).deadline_ms, 0);
}

TEST(a_deadline_can_be_taken_back_and_setting_takes_it_back)
{
    assert_value(ask(add("a", 5)), "5");
    assert_changed(ask(expire("a", rig.now_ms + 1000)), true);
    assert_changed(ask(expire("a", 0)), true);
    assert_int_equal(ask(on(OP_DEADLINE, "a")).deadline_ms, 0);
    assert_changed(ask(expire("a", 0)), true); /* it is there */
    assert_changed(ask(expire("a", rig.now_ms + 1000)), true);
    assert_value(ask(set("a", 6)), "6");
    assert_int_equal(ask(on(OP_DEADLINE, "a")).deadline_ms, 0);
    rig.now_ms += 5000;
    assert_value(ask(get("a")), "6");
    assert_changed(ask(expire("a", rig.now_ms)), true); /* at once */
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
}

static void assert_swept(uint64_t counters, uint64_t expired)
{
    for (int i = 0; i < 20; i++)
        hot_tick(rig.hot, rig.now_ms);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.counters, counters);
    assert_int_equal(stats.expired, expired);
}

TEST(ticks_sweep_up_what_is_past_its_time)
{
    for (int i = 0; i < 1000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "c%d", i);
        ask(add(id, 1));
        if (i % 2 == 0)
            ask(expire(id, rig.now_ms + 1000 + i));
    }
    assert_swept(1000, 0);
    rig.now_ms += 1000 + 499;
    assert_swept(750, 250);
    rig_restart(&rig);
    rig.now_ms += 10000;
    assert_swept(500, 250);
}

TEST(what_is_idle_expires_and_writing_keeps_it)
{
    struct op_create as = {.shards = 1, .idle_s = 10};
    for (unsigned i = 0; i < 2; i++) {
        as.shards = i == 0 ? 1 : 4;
        const char *id = i == 0 ? "one" : "four";
        assert_changed(ask(create(id, &as)), true);
        for (int n = 1; n <= 3; n++) {
            rig.now_ms += 9000;
            assert_changed(ask(add(id, 1)), true);
        }
        assert_value(ask(get(id)), "3");
        rig.now_ms += 10000;
        assert_refused(ask(get(id)), ERR_NOT_FOUND);
        assert_value(ask(add(id, 1)), "1");
        assert_int_equal(describe(id).idle_s, 0);
    }
}

TEST(a_spread_counter_ends_as_any_other)
{
    struct op_create as = {.shards = 8, .policy = POLICY_RANDOM};
    assert_changed(ask(create("dead", &as)), true);
    assert_changed(ask(create("swept", &as)), true);
    assert_value(ask(add("dead", 4)), "4");
    assert_changed(ask(expire("dead", rig.now_ms + 500)), true);
    assert_changed(ask(expire("swept", rig.now_ms + 500)), true);
    rig.now_ms += 500;
    assert_refused(ask(get("dead")), ERR_NOT_FOUND);
    assert_value(ask(add("dead", 1)), "1");
    assert_int_equal(describe("dead").shards, 1);
    assert_swept(1, 2);
}

TEST(counters_without_an_own_time_follow_the_setting)
{
    rig_close(&rig);
    rig = (struct rig){.idle_s = 60};
    rig_open(&rig);
    assert_value(ask(add("a", 1)), "1");
    ask(react("item", "ann", LIKE));
    struct op_create as = {.shards = 1, .idle_s = 120};
    assert_changed(ask(create("b", &as)), true);
    rig.now_ms += 60000;
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_value(ask(get("b")), "0");
    assert_int_equal(held_by("item", "ann"), LIKE);
    assert_swept(1, 1);
}

/* ---- reactions ---- */

TEST(a_user_counts_once_however_often_he_likes)
{
    assert_held(ask(react("v", "ann", LIKE)), true, LIKE);
    assert_held(ask(react("v", "ann", LIKE)), false, LIKE);
    assert_counts("v", 1, 0);
    assert_value(ask(get("v/like")), "1");
    assert_value(ask(get("v/dislike")), "0");
    assert_held(ask(withdraw("v", "ann", LIKE)), true, 0);
    assert_held(ask(withdraw("v", "ann", LIKE)), false, 0);
    assert_counts("v", 0, 0);
    assert_value(ask(get("v/like")), "0");
}

TEST(a_switch_moves_both_counts_in_one_step)
{
    assert_held(ask(react("v", "ann", DISLIKE)), true, DISLIKE);
    int64_t counts[2];
    struct op op = react("v", "ann", LIKE);
    op.counts = counts;
    assert_held(ask(op), true, LIKE);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 0);
    assert_counts("v", 1, 0);
}

TEST(withdrawing_another_kind_does_nothing_and_any_kind_takes_what_is_held)
{
    assert_held(ask(react("v", "ann", LIKE)), true, LIKE);
    assert_held(ask(withdraw("v", "ann", DISLIKE)), false, LIKE);
    assert_counts("v", 1, 0);
    assert_held(ask(withdraw("v", "ann", KIND_NONE)), true, 0);
    assert_held(ask(withdraw("nowhere", "ann", KIND_NONE)), false, 0);
    assert_held(ask(withdraw("v", "nobody", LIKE)), false, 0);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.items, 1);
    assert_int_equal(stats.users, 1);
}

TEST(a_toggle_goes_to_and_fro)
{
    assert_held(ask(toggle("v", "ann", LIKE)), true, LIKE);
    assert_held(ask(toggle("v", "ann", LIKE)), true, 0);
    assert_held(ask(toggle("v", "ann", DISLIKE)), true, DISLIKE);
    assert_held(ask(toggle("v", "ann", LIKE)), true, LIKE);
    assert_counts("v", 1, 0);
    assert_int_equal(held_by("v", "ann"), LIKE);
    assert_int_equal(held_by("v", "bob"), 0);
    assert_int_equal(held_by("nowhere", "ann"), 0);
}

TEST(counters_and_items_do_not_take_each_others_ops)
{
    ask(add("c", 5));
    ask(react("i", "ann", LIKE));
    assert_refused(ask(react("c", "ann", LIKE)), ERR_WRONG_TYPE);
    assert_refused(ask(toggle("c", "ann", LIKE)), ERR_WRONG_TYPE);
    assert_refused(ask(withdraw("c", "ann", LIKE)), ERR_WRONG_TYPE);
    struct op op = react("c", "ann", 0);
    op.kind = OP_REACTION;
    assert_refused(ask(op), ERR_WRONG_TYPE);
    int64_t counts[2];
    op = on(OP_COUNTS, "c");
    op.counts = counts;
    assert_refused(ask(op), ERR_WRONG_TYPE);
    struct op_page page = {.limit = 10, .visit = rig_see_member};
    op = on(OP_MEMBERS, "c");
    op.page = &page;
    op.reaction = LIKE;
    assert_refused(ask(op), ERR_WRONG_TYPE);

    assert_refused(ask(add("i", 1)), ERR_WRONG_TYPE);
    assert_refused(ask(set("i", 1)), ERR_WRONG_TYPE);
    assert_refused(ask(get("i")), ERR_WRONG_TYPE);
    assert_refused(ask(expire("i", rig.now_ms + 1000)), ERR_WRONG_TYPE);
    assert_refused(ask(add("i/like", 1)), ERR_WRONG_TYPE);
    assert_refused(ask(set("i/like", 1)), ERR_WRONG_TYPE);
    assert_refused(ask(on(OP_DELETE, "i/like")), ERR_WRONG_TYPE);
    assert_refused(ask(expire("i/like", rig.now_ms + 1000)), ERR_WRONG_TYPE);
    assert_refused(ask(add("nowhere/like", 1)), ERR_WRONG_TYPE);

    assert_changed(ask(on(OP_EXISTS, "i")), true);
    assert_changed(ask(on(OP_EXISTS, "i/dislike")), true);
    assert_changed(ask(on(OP_EXISTS, "c/like")), false);
    assert_refused(ask(get("c/like")), ERR_NOT_FOUND);
    assert_refused(ask(get("nowhere/like")), ERR_NOT_FOUND);
    assert_int_equal(ask(on(OP_DEADLINE, "i")).code, ERR_OK);
    assert_value(ask(get("c")), "5");
    assert_counts("i", 1, 0);
}

TEST(a_deleted_item_forgets_its_members)
{
    ask(react("v", "ann", LIKE));
    ask(react("v", "bob", DISLIKE));
    assert_changed(ask(on(OP_DELETE, "v")), true);
    assert_counts("v", 0, 0);
    assert_int_equal(held_by("v", "ann"), 0);
    assert_held(ask(react("v", "ann", LIKE)), true, LIKE);
    assert_counts("v", 1, 0);
    ask(on(OP_DELETE, "v"));
    assert_value(ask(add("v", 1)), "1"); /* the id is free for a counter */
}

TEST(an_item_can_be_created_with_shards)
{
    struct op_create as = {.shards = 16};
    assert_changed(ask(create("v/like", &as)), true);
    assert_refused(ask(create("v/dislike", &as)), ERR_EXISTS);
    assert_int_equal(describe("v").shards, 16);
    assert_true(describe("v/like").is_item);
    assert_held(ask(react("v", "ann", LIKE)), true, LIKE);
    assert_held(ask(react("v", "7", DISLIKE)), true, DISLIKE);
    assert_held(ask(react("v", "7", DISLIKE)), false, DISLIKE);
    assert_counts("v", 1, 1);
    rig_restart(&rig);
    assert_int_equal(describe("v").shards, 16);
    assert_held(ask(react("v", "ann", LIKE)), false, LIKE);
}

TEST(an_item_created_with_shards_waits_for_the_deletion_before_it)
{
    struct op_create as = {.shards = 64};
    ask(react("v", "ann", LIKE));
    uint64_t deleted = ask(on(OP_DELETE, "v")).ticket;
    ask(create("v/like", &as));

    /* Decided in a cell that has logged nothing yet. */
    assert_true(ask(withdraw("v", "ann", LIKE)).ticket >= deleted);
}

/* Users of all sorts: numbers, names short and long, UUIDs. */
static const char *user_name(unsigned i)
{
    static char name[64];
    switch (i % 4) {
    case 0:
        snprintf(name, sizeof(name), "%u", i * 7919u);
        break;
    case 1:
        snprintf(name, sizeof(name), "user-%u", i);
        break;
    case 2:
        snprintf(name, sizeof(name), "a user with a rather long name, number %u", i);
        break;
    default:
        snprintf(name, sizeof(name), "%08x-1234-4321-9abc-0123456789ab", i);
        break;
    }
    return name;
}

static void react_many(const char *item, unsigned from, unsigned to, unsigned kind)
{
    enum { CHUNK = 500 };
    static char names[CHUNK][64];
    struct op ops[CHUNK];
    while (from < to) {
        unsigned count = 0;
        for (; count < CHUNK && from < to; count++, from++) {
            snprintf(names[count], sizeof(names[count]), "%s", user_name(from));
            ops[count] = react(item, names[count], kind);
        }
        rig_run(&rig, from % 3, ops, count);
        for (unsigned i = 0; i < count; i++)
            assert_held(ops[i], true, kind);
    }
}

static void assert_members(const char *item, unsigned kind, unsigned from, unsigned to,
                           uint32_t page)
{
    struct rig_lines is = rig_members(&rig, slice_of(item), (uint8_t)kind, page);
    struct rig_lines ought = {0};
    for (unsigned i = from; i < to; i++)
        rig_line(&ought, slice_of(user_name(i)));
    rig_sort(&ought);
    assert_int_equal(is.count, ought.count);
    for (size_t i = 0; i < is.count; i++)
        assert_string_equal(is.lines[i], ought.lines[i]);
    rig_lines_done(&is);
    rig_lines_done(&ought);
}

TEST(items_of_every_size_know_their_members)
{
    static const unsigned sizes[] = {1, 2, 7, 99, 100, 101, 256, 4095, 4096, 4097, 20000};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char item[16];
        snprintf(item, sizeof(item), "v%u", sizes[i]);
        unsigned likes = sizes[i] - sizes[i] / 3;
        react_many(item, 0, likes, LIKE);
        react_many(item, likes, sizes[i], DISLIKE);
        assert_counts(item, likes, sizes[i] - likes);
        assert_members(item, LIKE, 0, likes, 100);
        assert_members(item, DISLIKE, likes, sizes[i], 3333);
        assert_int_equal(held_by(item, user_name(0)), LIKE);
        assert_int_equal(held_by(item, user_name(sizes[i])), 0);
    }
    assert_members("v101", LIKE, 0, 68, 1);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.items, sizeof(sizes) / sizeof(sizes[0]));
    assert_int_equal(stats.users, 20000 / 4 * 3);
}

TEST(a_large_item_can_be_left_switched_and_deleted)
{
    react_many("v", 0, 5000, LIKE);
    react_many("v", 1000, 2000, DISLIKE);
    assert_counts("v", 4000, 1000);
    for (unsigned i = 0; i < 500; i++)
        assert_held(ask(withdraw("v", user_name(i), LIKE)), true, 0);
    assert_counts("v", 3500, 1000);
    assert_members("v", DISLIKE, 1000, 2000, 64);
    rig_restart(&rig);
    assert_changed(ask(on(OP_DELETE, "v")), true);
    assert_counts("v", 0, 0);
    react_many("v", 0, 150, DISLIKE);
    assert_counts("v", 0, 150);
}

struct items_seen {
    unsigned likes;
    unsigned dislikes;
};

static void see_item(void *arg, struct slice item, uint8_t kind)
{
    struct items_seen *seen = arg;
    assert_true(item.data[0] == (kind == LIKE ? 'l' : 'd'));
    seen->likes += kind == LIKE;
    seen->dislikes += kind == DISLIKE;
}

TEST(the_items_of_a_user_are_found)
{
    static const char *const users[] = {"17", "ann", "0f8fad5b-d9cb-469f-a165-70867728950e"};
    react_many("l-large", 0, 6000, LIKE);
    react_many("d-middle", 0, 300, DISLIKE);
    for (unsigned i = 0; i < 3; i++) {
        ask(react("l-large", users[i], LIKE));
        ask(react("d-middle", users[i], DISLIKE));
        for (unsigned n = 0; n < 40; n++) {
            char item[16];
            snprintf(item, sizeof(item), "%c%u", n % 2 ? 'd' : 'l', n);
            ask(react(item, users[i], n % 2 ? DISLIKE : LIKE));
            ask(add(item + 1, 1));
        }
    }
    assert_int_equal(hot_reshard(rig.hot, SLICE("l-large"), 32, rig.now_ms), ERR_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct items_seen seen = {0};
        uint64_t cursor = 0;
        do {
            hot_items_of(rig.hot, slice_of(users[i]), &cursor, 7, see_item, &seen);
        } while (cursor != 0);
        assert_int_equal(seen.likes, 21);
        assert_int_equal(seen.dislikes, 21);
    }
    struct items_seen seen = {0};
    uint64_t cursor = 0;
    hot_items_of(rig.hot, SLICE("nobody"), &cursor, 1000, see_item, &seen);
    assert_int_equal(cursor, 0);
    assert_int_equal(seen.likes + seen.dislikes, 0);
}

/* ---- idempotency keys ---- */

static void assert_repeated(struct op op, bool changed, const char *value)
{
    assert_true(op.repeated);
    assert_int_equal(op.changed, changed);
    assert_value(op, value);
}

TEST(a_repeated_key_gets_the_first_answer)
{
    struct op op = ask(keyed(add("a", 5), "k1"));
    assert_false(op.repeated);
    assert_value(op, "5");
    uint64_t ticket = op.ticket;
    assert_value(ask(add("a", 1)), "6");
    op = ask(keyed(add("a", 5), "k1"));
    assert_true(op.ticket >= ticket);
    assert_repeated(op, true, "5");
    assert_value(ask(get("a")), "6");
    assert_refused(ask(keyed(add("a", 6), "k1")), ERR_KEY_REUSED);
    assert_refused(ask(keyed(set("a", 5), "k1")), ERR_KEY_REUSED);
    assert_refused(ask(keyed(on(OP_DELETE, "a"), "k1")), ERR_KEY_REUSED);
    assert_value(ask(keyed(add("b", 6), "k1")), "6"); /* a key counts within its counter */
    rig_restart(&rig);
    assert_repeated(ask(keyed(add("a", 5), "k1")), true, "5");
    assert_refused(ask(keyed(add("a", 6), "k1")), ERR_KEY_REUSED);
    assert_value(ask(get("a")), "6");
}

static void write_with_keys(bool again)
{
    struct op_create as = {.shards = 2, .idle_s = 1000};
    struct op ops[] = {
        keyed(create("c", &as), "create"),
        keyed(set("c", 70), "set"),
        keyed(expire("c", RIG_BEGAN_MS + 100000), "expire"),
        keyed(add("c", 0), "add nothing"),
        keyed(of_digits(OP_ADD, "c", "100000000000000000000"), "add much"),
        keyed(react("v", "ann", LIKE), "like"),
        keyed(react("v", "ann", LIKE), "like again"),
        keyed(toggle("v", "ann", DISLIKE), "toggle"),
        keyed(withdraw("v", "bob", LIKE), "withdraw nothing"),
        keyed(withdraw("v", "ann", DISLIKE), "withdraw"),
        keyed(on(OP_DELETE, "c"), "delete"),
        keyed(on(OP_DELETE, "c"), "delete nothing"),
    };
    static const struct {
        bool changed;
        unsigned held;
        const char *value;
    } ought[] = {
        {true, 0, "0"},
        {true, 0, "70"},
        {true, 0, "0"},
        {false, 0, "70"},
        {true, 0, "100000000000000000070"},
        {true, LIKE, "0"},
        {false, LIKE, "0"},
        {true, DISLIKE, "0"},
        {false, 0, "0"},
        {true, 0, "0"},
        {true, 0, "0"},
        {false, 0, "0"},
    };
    size_t count = sizeof(ops) / sizeof(ops[0]);
    rig_run(&rig, 1, ops, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ops[i].repeated, again);
        assert_int_equal(ops[i].changed, ought[i].changed);
        assert_int_equal(ops[i].held, ought[i].held);
        assert_value_and_free(ops[i], ought[i].value);
    }
}

TEST(every_write_may_have_a_key_and_gets_its_answer_again)
{
    write_with_keys(false);
    write_with_keys(true);
    rig_restart(&rig);
    write_with_keys(true);
    rig_restart(&rig);
    write_with_keys(true);
    assert_refused(ask(get("c")), ERR_NOT_FOUND);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.keys, 12);
}

TEST(a_keyed_write_that_was_refused_may_come_again)
{
    ask(add("a", 5));
    assert_refused(ask(keyed(react("a", "ann", LIKE), "k")), ERR_WRONG_TYPE);
    ask(on(OP_DELETE, "a"));
    struct op op = ask(keyed(react("a", "ann", LIKE), "k"));
    assert_false(op.repeated);
    assert_held(op, true, LIKE);
}

TEST(a_repeated_reaction_has_the_counts_of_now)
{
    assert_held(ask(keyed(react("v", "ann", LIKE), "k")), true, LIKE);
    ask(react("v", "bob", LIKE));
    ask(withdraw("v", "ann", LIKE));
    ask(react("v", "eve", DISLIKE));
    int64_t counts[2] = {0};
    struct op op = keyed(react("v", "ann", LIKE), "k");
    op.counts = counts;
    op = ask(op);
    assert_true(op.repeated);
    assert_held(op, true, LIKE);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    assert_counts("v", 1, 1);
}

TEST(keys_are_forgotten_after_their_time)
{
    rig_close(&rig);
    rig = (struct rig){.keys_kept_ms = 60000};
    rig_open(&rig);
    assert_value(ask(keyed(add("a", 5), "k")), "5");
    rig.now_ms += 60000;
    assert_repeated(ask(keyed(add("a", 5), "k")), true, "5");
    rig_restart(&rig);
    rig.now_ms += 1;
    struct op op = ask(keyed(add("a", 5), "k"));
    assert_false(op.repeated);
    assert_value(op, "10");
    assert_value(ask(keyed(add("b", 5), "k")), "5");
    rig.now_ms += 60001;
    hot_tick(rig.hot, rig.now_ms);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.keys, 0);
    rig.keys_forgotten = true;
}

TEST(a_key_on_a_spread_counter_counts_once)
{
    struct op_create as = {.shards = 64, .policy = POLICY_RANDOM};
    assert_changed(ask(create("a", &as)), true);
    uint64_t ticket = 0;
    for (int i = 0; i < 50; i++) {
        struct op op = ask(keyed(add("a", 3), "k"));
        assert_int_equal(op.repeated, i > 0);
        assert_true(op.ticket >= ticket);
        ticket = i == 0 ? op.ticket : ticket;
        assert_value(op, "3");
    }
    assert_value(ask(get("a")), "3");
}

/* ---- regions ---- */

static enum err see_regions(void *arg, struct slice section, struct log_position next,
                            struct error *error)
{
    (void)next;
    unsigned *regional = arg;
    struct section_reader reader;
    enum err err = section_open(&reader, section, error);
    struct event event;
    while (!err && (err = section_next(&reader, &event, error)) == ERR_OK) {
        assert_true(slice_equal(event.region, SLICE("eu-west")));
        ++*regional;
        event_done(&event);
    }
    return ERR_OK;
}

TEST(the_region_of_a_write_is_kept_in_its_event)
{
    struct op_create as = {.shards = 2};
    struct op ops[] = {
        create("c", &as),
        add("c", 1),
        set("c", 70),
        keyed(add("c", 2), "k"),
        keyed(add("c", 0), "k2"),
        expire("c", RIG_BEGAN_MS + 100000),
        react("v", "ann", LIKE),
        react("v", "ann", DISLIKE),
        keyed(withdraw("v", "ann", DISLIKE), "k"),
        keyed(withdraw("v", "ann", DISLIKE), "k3"),
        on(OP_DELETE, "c"),
    };
    size_t count = sizeof(ops) / sizeof(ops[0]);
    for (size_t i = 0; i < count; i++)
        ops[i].region = SLICE("eu-west");
    rig_run(&rig, 0, ops, count);

    rig_stop(&rig);
    rig_open_log(&rig);
    unsigned regional = 0;
    assert_int_equal(
        log_read(&rig.log->base, (struct log_position){0}, see_regions, &regional, NULL, NULL),
        ERR_OK);
    assert_int_equal(regional, count);
    log_close(&rig.log->base);
    rig_start(&rig);
}

/* ---- looking at everything ---- */

TEST(a_scan_visits_each_once_while_others_come_and_go)
{
    char id[16];
    for (int i = 0; i < 3000; i++) {
        snprintf(id, sizeof(id), "old%d", i);
        ask(i % 3 ? add(id, i) : react(id, "ann", LIKE));
    }
    for (int i = 0; i < 500; i++) {
        snprintf(id, sizeof(id), "gone%d", i);
        ask(add(id, i));
    }
    struct rig_lines ids = {0};
    uint64_t cursor = 0;
    int round = 0;
    do {
        hot_scan(rig.hot, &cursor, 10, rig_see_entry, &ids);
        snprintf(id, sizeof(id), "new%d", round);
        ask(add(id, 1));
        snprintf(id, sizeof(id), "gone%d", round);
        ask(on(OP_DELETE, id));
        round++;
    } while (cursor != 0 && round < 10000);
    rig_sort(&ids);
    unsigned old = 0;
    for (size_t i = 0; i < ids.count; i++) {
        assert_true(i == 0 || strcmp(ids.lines[i - 1], ids.lines[i]) != 0);
        old += strncmp(ids.lines[i], "old", 3) == 0;
    }
    assert_int_equal(old, 3000);
    rig_lines_done(&ids);
}

static void see_values(void *arg, const struct hot_entry *entry)
{
    unsigned *seen = arg;
    if (entry->is_item) {
        assert_int_equal(entry->counts[0], 2);
        assert_int_equal(entry->counts[1], 1);
        assert_int_equal(entry->kinds_seen, 3);
    } else {
        assert_string_equal(rig_text(entry->value), "9223372036854775808");
    }
    ++*seen;
}

TEST(a_scan_tells_values_and_counts)
{
    ask(react("v", "ann", LIKE));
    ask(react("v", "bob", LIKE));
    ask(react("v", "eve", DISLIKE));
    assert_value_and_free(ask(of_digits(OP_SET, "c", "9223372036854775808")),
                          "9223372036854775808");
    unsigned seen = 0;
    uint64_t cursor = 0;
    hot_scan(rig.hot, &cursor, 100, see_values, &seen);
    assert_int_equal(cursor, 0);
    assert_int_equal(seen, 2);
    cursor = UINT64_MAX; /* nobody's */
    hot_scan(rig.hot, &cursor, 100, see_values, &seen);
    assert_int_equal(cursor, 0);
}

TEST(what_is_past_its_time_is_not_listed_any_more)
{
    struct op_create as = {.shards = 4, .idle_s = 10};
    ask(create("spread", &as));
    ask(add("c", 5));
    ask(expire("c", rig.now_ms + 1000));
    struct number value;
    assert_int_equal(hot_recount(rig.hot, SLICE("c"), &value), ERR_OK);

    rig.now_ms += 10000;
    ask(add("d", 5));
    struct rig_lines ids = rig_scan(&rig, 10);
    assert_int_equal(ids.count, 1);
    assert_string_equal(ids.lines[0], "d");
    rig_lines_done(&ids);
    assert_int_equal(hot_recount(rig.hot, SLICE("c"), &value), ERR_NOT_FOUND);
    assert_int_equal(hot_recount(rig.hot, SLICE("spread"), &value), ERR_NOT_FOUND);
}

TEST(a_recount_comes_to_the_same)
{
    struct number value;
    assert_int_equal(hot_recount(rig.hot, SLICE("a"), &value), ERR_NOT_FOUND);
    struct op_create as = {.shards = 7, .policy = POLICY_ROUND_ROBIN};
    ask(create("a", &as));
    for (int i = 0; i < 100; i++)
        ask(add("a", i - 20));
    assert_int_equal(hot_recount(rig.hot, SLICE("a"), &value), ERR_OK);
    assert_int_equal(value.small, 100 * 99 / 2 - 2000);
    react_many("v", 0, 5000, LIKE);
    assert_int_equal(hot_recount(rig.hot, SLICE("v/like"), &value), ERR_OK);
    assert_int_equal(value.small, 5000);
    assert_int_equal(hot_recount(rig.hot, SLICE("v/dislike"), &value), ERR_OK);
    assert_int_equal(value.small, 0);
    assert_int_equal(hot_recount(rig.hot, SLICE("a/like"), &value), ERR_NOT_FOUND);
}

TEST(figures_count_what_is_there)
{
    struct op_create as = {.shards = 4};
    ask(create("a", &as));
    ask(add("b", 1));
    ask(keyed(react("v", "ann", LIKE), "k"));
    ask(react("v", "5", LIKE));
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.counters, 2);
    assert_int_equal(stats.items, 1);
    assert_int_equal(stats.members, 2);
    assert_int_equal(stats.users, 1);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(stats.spread, 1);
    assert_int_equal(stats.refused, 0);
    hot_reshard(rig.hot, SLICE("v"), 8, rig.now_ms);
    hot_reshard(rig.hot, SLICE("a"), 1, rig.now_ms);
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.spread, 1);
    assert_int_equal(stats.spread_events, 2);
    ask(on(OP_DELETE, "v"));
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.spread, 0);
    assert_int_equal(stats.members, 0);
}

/* ---- shards ---- */

TEST(the_number_of_shards_follows_the_hand)
{
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 4, rig.now_ms), ERR_NOT_FOUND);
    ask(add("a", 40));
    ask(react("v", "ann", LIKE));
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 0, rig.now_ms), ERR_INVALID);
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 65, rig.now_ms), ERR_INVALID);
    for (uint32_t shards = 64; shards >= 1; shards--) {
        assert_int_equal(hot_reshard(rig.hot, SLICE("a"), shards, rig.now_ms), ERR_OK);
        assert_int_equal(hot_reshard(rig.hot, SLICE("v/like"), shards, rig.now_ms), ERR_OK);
        assert_int_equal(describe("a").shards, shards);
        assert_int_equal(describe("v").shards, shards);
        assert_string_equal(describe("a").reason, "asked for by hand");
        assert_int_equal(describe("v").changed_ms, rig.now_ms);
        rig_run(&rig, shards % 4, (struct op[]){add("a", 1), react("v", user_name(shards), LIKE)},
                2);
    }
    assert_value(ask(get("a")), "104");
    assert_counts("v", 65, 0);
}

TEST(an_answer_that_nothing_changed_waits_for_what_it_rests_on)
{
    struct op_create as = {.shards = 64};
    ask(create("v/like", &as));
    uint64_t tickets[100];
    for (uint32_t shards = 64; shards >= 1; shards /= 4) {
        assert_int_equal(hot_reshard(rig.hot, SLICE("v"), shards, rig.now_ms), ERR_OK);
        for (unsigned i = 0; i < 100; i++) {
            struct op op = ask(react("v", user_name(i), LIKE));
            assert_int_equal(op.changed, shards == 64);
            assert_true(shards == 64 || op.ticket >= tickets[i]);
            tickets[i] = op.ticket;
        }
    }
}

/* What another worker does while the first one has decided and has not appended. */
static struct {
    pthread_t thread;
    struct op op;
    bool was_first; /* its section came before */
} meanwhile;

static void *run_meanwhile(void *arg)
{
    (void)arg;
    rig_run(&rig, 1, &meanwhile.op, 1);
    return NULL;
}

static void let_another_come_first(void)
{
    rig.log->before_append = NULL;
    unsigned appended = atomic_load(&rig.log->appended);
    assert_int_equal(pthread_create(&meanwhile.thread, NULL, run_meanwhile, NULL), 0);
    for (int i = 0; i < 50 && !meanwhile.was_first; i++) {
        usleep(1000);
        meanwhile.was_first = atomic_load(&rig.log->appended) > appended;
    }
}

static struct op run_while(struct op op, struct op another)
{
    meanwhile.op = another;
    meanwhile.was_first = false;
    rig.log->before_append = let_another_come_first;
    rig_run(&rig, 0, &op, 1);
    pthread_join(meanwhile.thread, NULL);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(meanwhile.op.code, ERR_OK);
    return op;
}

TEST(a_total_waits_for_what_other_cells_have_added_to_it)
{
    struct op_create as = {.shards = 4};
    ask(create("c", &as));
    struct op op = run_while(add("c", 1), add("c", 1));
    assert_true(meanwhile.was_first);
    assert_value(op, "1");
    assert_value(meanwhile.op, "2");
    assert_true(meanwhile.op.ticket >= op.ticket);
}

/* Else a power cut could keep the second one alone, and with it a value that the
 * floor forbids. */
TEST(what_a_floor_allows_is_written_down_behind_what_it_rests_on)
{
    struct op_create as = {.shards = 4, .has_floor = true, .floor = 0};
    ask(create("c", &as));
    run_while(add("c", 5), add("c", -5));
    assert_false(meanwhile.was_first);
    assert_value(meanwhile.op, "0");

    /* With enough above the floor each cell decides by itself. */
    ask(add("c", 1000));
    struct op op = add("c", -500);
    rig_run(&rig, 1, &op, 1);
    assert_value(op, "500");
    run_while(add("c", 5), add("c", -5));
    assert_true(meanwhile.was_first);
    assert_int_equal(describe("c").shards, 4);
    assert_int_equal(ask(add("c", -501)).code, ERR_BELOW_FLOOR);
    assert_value(ask(add("c", -500)), "0");
    assert_int_equal(describe("c").shards, 4);
}

TEST(a_spread_counter_can_grow_past_64_bits_be_set_and_be_deleted)
{
    struct op_create as = {.shards = 8, .policy = POLICY_ROUND_ROBIN};
    ask(create("a", &as));
    for (int i = 0; i < 8; i++)
        ask(add("a", INT64_MAX / 8));
    assert_value(ask(add("a", INT64_MAX / 8)), "10376293541461622775");
    assert_value(ask(set("a", 5)), "5");
    assert_value(ask(add("a", -6)), "-1");
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 8, rig.now_ms), ERR_OK);
    assert_value_and_free(ask(of_digits(OP_SET, "a", "-99999999999999999999")),
                          "-99999999999999999999");
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 8, rig.now_ms), ERR_OK);
    assert_value(ask(get("a")), "-99999999999999999999");
    assert_value(ask(set("a", 9)), "9");
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 3, rig.now_ms), ERR_OK);
    assert_value(ask(set("a", 10)), "10");
    assert_int_equal(describe("a").shards, 3);
    assert_changed(ask(on(OP_DELETE, "a")), true);
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_value(ask(add("a", 1)), "1");
}

TEST(a_big_counter_is_not_said_to_be_spread)
{
    assert_value_and_free(ask(of_digits(OP_SET, "a", "9223372036854775808")),
                          "9223372036854775808");
    assert_int_equal(hot_reshard(rig.hot, SLICE("a"), 8, rig.now_ms), ERR_OK);
    assert_int_equal(describe("a").shards, 1);
    assert_int_equal(describe("a").changed_ms, 0);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.spread_events, 0);
}

TEST(what_is_hot_spreads_by_itself_and_folds_when_it_is_quiet)
{
    rig_close(&rig);
    rig = (struct rig){.spread_rate = 1000};
    rig_open(&rig);
    hot_tick(rig.hot, rig.now_ms);
    struct op ops[1000];
    for (int second = 0; second < 4; second++) {
        for (unsigned n = 0; n < 10; n++) {
            for (unsigned i = 0; i < 500; i++) {
                ops[2 * i] = add("hot", 1);
                ops[2 * i + 1] = toggle("v", i % 2 ? "ann" : "17", LIKE);
            }
            rig_run(&rig, n % 4, ops, 1000);
            rig.now_ms += 100;
            hot_tick(rig.hot, rig.now_ms);
        }
    }
    assert_true(describe("hot").shards > 1);
    assert_true(describe("v").shards > 1);
    assert_string_equal(describe("hot").reason, "more writes than spread-rate");
    assert_value(ask(get("hot")), "20000");
    assert_counts("v", 0, 0);
    for (int i = 0; i < 1000; i++) {
        rig.now_ms += 100;
        hot_tick(rig.hot, rig.now_ms);
    }
    assert_int_equal(describe("hot").shards, 1);
    assert_int_equal(describe("v").shards, 1);
    assert_value(ask(get("hot")), "20000");
}

/* ---- batches ---- */

TEST(ops_on_one_id_happen_in_the_order_of_the_batch)
{
    struct op_create as = {.shards = 16, .policy = POLICY_RANDOM};
    ask(create("wide", &as));
    ask(create("w/like", &as));
    for (unsigned round = 0; round < 20; round++) {
        struct op ops[] = {
            add("a", 1),
            add("wide", 1),
            get("a"),
            get("wide"),
            add("wide", 1),
            react("w", "ann", LIKE),
            get("w/like"),
            withdraw("w", "ann", LIKE),
            get("w/like"),
            add("a", 1),
            get("a"),
            get("wide"),
            set("wide", 1000),
            add("wide", 1),
            get("wide"),
            on(OP_DELETE, "wide"),
            add("wide", 3),
            get("wide"),
            on(OP_DELETE, "wide"),
            create("wide", &as),
            add("wide", 2),
            get("wide"),
            on(OP_DELETE, "a"),
            get("a"),
        };
        size_t count = sizeof(ops) / sizeof(ops[0]);
        rig_run(&rig, round % 4, ops, count);
        int64_t before = round == 0 ? 0 : 2;
        static const struct {
            unsigned op;
            int64_t value;
        } ought[] = {{0, 1},     {2, 1},     {6, 1},  {8, 0},  {9, 2},  {10, 2}, {12, 1000},
                     {13, 1001}, {14, 1001}, {16, 3}, {17, 3}, {20, 2}, {21, 2}};
        for (size_t i = 0; i < sizeof(ought) / sizeof(ought[0]); i++) {
            assert_int_equal(ops[ought[i].op].code, ERR_OK);
            assert_int_equal(ops[ought[i].op].value.small, ought[i].value);
        }
        assert_int_equal(ops[3].value.small, before + 1);
        assert_int_equal(ops[11].value.small, before + 2);
        assert_int_equal(ops[23].code, ERR_NOT_FOUND);
    }
}

TEST(a_batch_may_be_empty_or_full)
{
    rig_run(&rig, 0, NULL, 0);
    struct op *ops = calloc(LIMIT_BATCH, sizeof(*ops));
    char names[64][8];
    for (unsigned i = 0; i < LIMIT_BATCH; i++) {
        snprintf(names[i % 64], sizeof(names[0]), "n%u", i % 64);
        ops[i] = i % 2 ? add(names[i % 64], 1) : get(names[i % 64 + 1 - i % 2]);
    }
    rig_run(&rig, 3, ops, LIMIT_BATCH);
    for (unsigned i = 1; i < LIMIT_BATCH; i += 2)
        assert_int_equal(ops[i].value.small, i / 64 + 1);
    free(ops);
}

/* ---- when the log takes nothing ---- */

static void assert_all_refused(enum err room)
{
    struct op_create as = {.shards = 2};
    rig.log->room = room;
    assert_refused(ask(add("a", 1)), room);
    assert_refused(ask(add("new", 1)), room);
    assert_refused(ask(add("wide", 1)), room);
    assert_refused(ask(set("a", 1)), room);
    assert_refused(ask(set("wide", 1)), room);
    assert_refused(ask(on(OP_DELETE, "a")), room);
    assert_refused(ask(on(OP_DELETE, "wide")), room);
    assert_refused(ask(create("new", &as)), room);
    assert_refused(ask(expire("a", rig.now_ms + 1000)), room);
    assert_refused(ask(expire("a", rig.now_ms - 1000)), room);
    assert_refused(ask(react("v", "bob", LIKE)), room);
    assert_refused(ask(react("new", "bob", LIKE)), room);
    assert_refused(ask(toggle("v", "ann", LIKE)), room);
    assert_refused(ask(withdraw("v", "ann", LIKE)), room);
    assert_refused(ask(react("w", "bob", LIKE)), room);
    assert_refused(ask(keyed(add("a", 1), "new")), room);
    assert_refused(ask(keyed(withdraw("v", "nobody", LIKE), "new")), room);
    hot_tick(rig.hot, rig.now_ms);

    assert_value(ask(get("a")), "5"); /* reading goes on */
    assert_value(ask(get("wide")), "7");
    assert_counts("v", 1, 0);
    assert_counts("w", 1, 0);
    assert_int_equal(held_by("v", "ann"), LIKE);
    assert_refused(ask(get("new")), ERR_NOT_FOUND);
    assert_changed(ask(on(OP_DELETE, "new")), false); /* there is nothing to write */
    assert_held(ask(react("v", "ann", LIKE)), false, LIKE);
    assert_repeated(ask(keyed(add("a", 5), "k")), true, "5");
    rig.log->room = ERR_OK;
}

TEST(nothing_changes_while_the_log_is_full_or_busy_and_reading_goes_on)
{
    struct op_create as = {.shards = 8};
    ask(create("wide", &as));
    ask(create("w/like", &as));
    ask(keyed(add("a", 5), "k"));
    ask(add("wide", 7));
    ask(react("v", "ann", LIKE));
    ask(react("w", "ann", LIKE));
    assert_all_refused(ERR_FULL);
    assert_all_refused(ERR_BUSY);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.refused, 2 * 17);
    assert_value(ask(add("a", 1)), "6");
}

TEST(what_has_expired_waits_for_the_log_to_have_room)
{
    struct op_create as = {.shards = 8};
    ask(create("wide", &as));
    ask(add("a", 5));
    ask(expire("a", rig.now_ms + 1000));
    ask(expire("wide", rig.now_ms + 1000));
    rig.now_ms += 1000;
    rig.log->room = ERR_FULL;
    hot_tick(rig.hot, rig.now_ms);
    assert_refused(ask(get("a")), ERR_NOT_FOUND);
    assert_refused(ask(add("a", 1)), ERR_FULL);
    assert_refused(ask(create("a", &as)), ERR_FULL);
    assert_refused(ask(create("wide", &as)), ERR_FULL);
    rig.log->room = ERR_OK;
    hot_tick(rig.hot, rig.now_ms);
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.expired, 2);
    assert_int_equal(stats.counters, 0);
}

/* ---- kinds ---- */

TEST(a_kind_that_would_hide_a_counter_is_refused)
{
    uint64_t sequence = 0;
    struct op_create one = {.shards = 1};
    assert_int_equal(replay_next("v/love", EVENT_ADD, 0, &sequence, one), ERR_OK);
    assert_int_equal(replay_next("v/like", EVENT_ADD, 0, &sequence, one), ERR_INVALID);
    assert_int_equal(replay_next("v/like", EVENT_RESET, 0, &sequence, one), ERR_INVALID);
    assert_int_equal(replay_next("v/like", EVENT_EXPIRE, 0, &sequence, one), ERR_INVALID);
    assert_int_equal(replay_next("v/like", EVENT_REACT, 0, &sequence, one), ERR_OK);
    forget_replayed();
}

TEST(any_configured_set_of_kinds_will_do)
{
    rig_close(&rig);
    rig = (struct rig){.kind_list = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"};
    rig_open(&rig);
    for (unsigned i = 0; i < 5000; i++)
        ask(react("v", user_name(i), i % 16 + 1));
    for (unsigned i = 0; i < 5000; i += 3)
        ask(react("v", user_name(i), (i + 1) % 16 + 1));
    int64_t ought[16] = {0};
    for (unsigned i = 0; i < 5000; i++)
        ought[(i % 3 ? i : i + 1) % 16]++;
    int64_t counts[16];
    struct op op = on(OP_COUNTS, "v");
    op.counts = counts;
    ask(op);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(counts[i], ought[i]);
}

#define SCENARIO(name) cmocka_unit_test_setup_teardown(name, open_rig, restart_and_close_rig)

RUN(SCENARIO(a_counter_is_created_on_first_write),
    SCENARIO(a_counter_can_be_created_by_adding_nothing),
    SCENARIO(adding_and_subtracting_give_the_new_value),
    SCENARIO(a_read_need_not_wait_for_the_log_and_a_write_must),
    SCENARIO(values_go_past_64_bits_and_come_back), SCENARIO(a_set_value_replaces_the_old_one),
    SCENARIO(what_was_deleted_begins_anew),
    SCENARIO(late_events_of_an_old_incarnation_do_not_count),
    SCENARIO(events_that_cannot_follow_are_refused), SCENARIO(creation_says_how_a_counter_shall_be),
    SCENARIO(a_floor_is_never_passed), SCENARIO(a_deadline_ends_a_counter),
    SCENARIO(a_deadline_can_be_taken_back_and_setting_takes_it_back),
    SCENARIO(ticks_sweep_up_what_is_past_its_time),
    SCENARIO(what_is_idle_expires_and_writing_keeps_it),
    SCENARIO(a_spread_counter_ends_as_any_other),
    SCENARIO(counters_without_an_own_time_follow_the_setting),
    SCENARIO(a_user_counts_once_however_often_he_likes),
    SCENARIO(a_switch_moves_both_counts_in_one_step),
    SCENARIO(withdrawing_another_kind_does_nothing_and_any_kind_takes_what_is_held),
    SCENARIO(a_toggle_goes_to_and_fro), SCENARIO(counters_and_items_do_not_take_each_others_ops),
    SCENARIO(a_deleted_item_forgets_its_members), SCENARIO(an_item_can_be_created_with_shards),
    SCENARIO(an_item_created_with_shards_waits_for_the_deletion_before_it),
    SCENARIO(items_of_every_size_know_their_members),
    SCENARIO(a_large_item_can_be_left_switched_and_deleted),
    SCENARIO(the_items_of_a_user_are_found), SCENARIO(a_repeated_key_gets_the_first_answer),
    SCENARIO(every_write_may_have_a_key_and_gets_its_answer_again),
    SCENARIO(a_keyed_write_that_was_refused_may_come_again),
    SCENARIO(a_repeated_reaction_has_the_counts_of_now),
    SCENARIO(keys_are_forgotten_after_their_time), SCENARIO(a_key_on_a_spread_counter_counts_once),
    SCENARIO(the_region_of_a_write_is_kept_in_its_event),
    SCENARIO(a_scan_visits_each_once_while_others_come_and_go),
    SCENARIO(a_scan_tells_values_and_counts), SCENARIO(a_recount_comes_to_the_same),
    SCENARIO(what_is_past_its_time_is_not_listed_any_more), SCENARIO(figures_count_what_is_there),
    SCENARIO(the_number_of_shards_follows_the_hand),
    SCENARIO(an_answer_that_nothing_changed_waits_for_what_it_rests_on),
    SCENARIO(a_total_waits_for_what_other_cells_have_added_to_it),
    SCENARIO(what_a_floor_allows_is_written_down_behind_what_it_rests_on),
    SCENARIO(a_spread_counter_can_grow_past_64_bits_be_set_and_be_deleted),
    SCENARIO(a_big_counter_is_not_said_to_be_spread),
    SCENARIO(what_is_hot_spreads_by_itself_and_folds_when_it_is_quiet),
    SCENARIO(ops_on_one_id_happen_in_the_order_of_the_batch),
    SCENARIO(a_batch_may_be_empty_or_full),
    SCENARIO(nothing_changes_while_the_log_is_full_or_busy_and_reading_goes_on),
    SCENARIO(what_has_expired_waits_for_the_log_to_have_room),
    SCENARIO(a_kind_that_would_hide_a_counter_is_refused),
    SCENARIO(any_configured_set_of_kinds_will_do))
