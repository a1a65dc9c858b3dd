/* hot_cases.h - what core/hot.h and core/op.h promise of every hot layer: each op,
 * each answer, each refusal. Behind each scenario everything is closed and opened
 * again, and must be what it was.
 *
 * hot_test.c runs them over the memory layer, hot_redis_test.c over Redis; what only one of them
 * promises is there. */
#ifndef HOT_CASES_H
#define HOT_CASES_H

#include "contract/hot_rig.h"

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
    assert_true(rig_waits(&op));
    assert_value(op, "5");
    assert_value(ask(get("visits")), "5");
    assert_changed(ask(on(OP_EXISTS, "visits")), true);
    struct op_describe is = describe("visits");
    assert_false(is.is_item);
    assert_int_equal(is.shards, 1);
    assert_int_equal(is.shards_asked, 1);
    assert_int_equal(is.written_ms, RIG_BEGAN_MS);
    assert_string_equal(is.reason, "not changed since it was created or loaded");
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

TEST(one_user_of_a_large_item_counts_by_what_he_held)
{
    react_many("v", 0, 5000, LIKE);
    react_many("v", 1000, 2000, DISLIKE);
    assert_held(ask(react("v", user_name(1), LIKE)), false, LIKE);
    assert_counts("v", 4000, 1000);
    assert_held(ask(react("v", user_name(1500), LIKE)), true, LIKE);
    assert_counts("v", 4001, 999);
    assert_held(ask(react("v", user_name(5000), LIKE)), true, LIKE);
    assert_held(ask(react("v", user_name(5000), LIKE)), false, LIKE);
    assert_counts("v", 4002, 999);
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
    do {
        hot_items_of(rig.hot, SLICE("nobody"), &cursor, 1000, see_item, &seen);
    } while (cursor != 0);
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
#ifndef RIG_REDIS
    struct hot_stats stats;
    hot_stats(rig.hot, &stats);
    assert_int_equal(stats.keys, 12);
#endif
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
    do {
        hot_scan(rig.hot, &cursor, 100, see_values, &seen);
    } while (cursor != 0);
    assert_int_equal(seen, 2);
    cursor = UINT64_MAX; /* nobody's */
    do {
        hot_scan(rig.hot, &cursor, 100, see_values, &seen);
    } while (cursor != 0);
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

/* ---- shards ---- */

/* What the shards hold all together, if the layer knows. */
static int64_t sum_of_shards(const char *id, int64_t otherwise)
{
    struct op_describe is;
    struct op op = on(OP_DESCRIBE, id);
    op.describe = &is;
    op.exact = true;
    assert_int_equal(ask(op).code, ERR_OK);
    if (is.total_count == 0)
        return otherwise;
    assert_int_equal(is.total_count, is.shards);
    int64_t sum = 0;
    for (uint32_t i = 0; i < is.total_count; i++)
        sum += is.totals[i];
    return sum;
}

TEST(what_the_shards_hold_adds_up)
{
    for (int i = 0; i < 50; i++)
        ask(add("a", 3));
    react_many("v", 0, 5000, LIKE);
    react_many("v", 5000, 6000, DISLIKE);
    ask(react("w", "ann", DISLIKE));
    for (uint32_t shards = 1; shards <= 64; shards *= 4) {
        assert_int_equal(hot_reshard(rig.hot, SLICE("a"), shards, rig.now_ms), ERR_OK);
        assert_int_equal(hot_reshard(rig.hot, SLICE("v"), shards, rig.now_ms), ERR_OK);
        assert_int_equal(sum_of_shards("a", 150), 150);
        assert_int_equal(sum_of_shards("v", 6000), 6000);
        assert_int_equal(sum_of_shards("v/like", 5000), 5000);
        assert_int_equal(sum_of_shards("v/dislike", 1000), 1000);
        assert_int_equal(sum_of_shards("w", 1), 1);
        assert_int_equal(sum_of_shards("w/like", 0), 0);
    }
    assert_value_and_free(ask(of_digits(OP_ADD, "b", "100000000000000000000")),
                          "100000000000000000000");
    assert_int_equal(sum_of_shards("b", -1), -1); /* not known */
}

TEST(what_was_never_spread_says_so_however_many_hold_it)
{
    for (unsigned i = 0; i < 300; i++) {
        ask(react("v", user_name(i), LIKE));
        assert_string_equal(describe("v").reason, "not changed since it was created or loaded");
    }
    assert_int_equal(describe("v").changed_ms, 0);
}

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
        assert_string_equal(describe("v").reason, "asked for by hand");
        assert_int_equal(describe("v").changed_ms, rig.now_ms);
        rig_run(&rig, shards % 4, (struct op[]){add("a", 1), react("v", user_name(shards), LIKE)},
                2);
    }
    assert_value(ask(get("a")), "104");
    assert_counts("v", 65, 0);
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

/* ---- kinds ---- */

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

/* ---- all of them ---- */

/* clang-format off */
#define HOT_CASES(X) \
    X(a_counter_is_created_on_first_write) \
    X(a_counter_can_be_created_by_adding_nothing) \
    X(adding_and_subtracting_give_the_new_value) \
    X(a_set_value_replaces_the_old_one) \
    X(what_was_deleted_begins_anew) \
    X(a_floor_is_never_passed) \
    X(a_deadline_ends_a_counter) \
    X(a_deadline_can_be_taken_back_and_setting_takes_it_back) \
    X(a_user_counts_once_however_often_he_likes) \
    X(a_switch_moves_both_counts_in_one_step) \
    X(a_toggle_goes_to_and_fro) \
    X(counters_and_items_do_not_take_each_others_ops) \
    X(a_deleted_item_forgets_its_members) \
    X(an_item_can_be_created_with_shards) \
    X(one_user_of_a_large_item_counts_by_what_he_held) \
    X(a_large_item_can_be_left_switched_and_deleted) \
    X(the_items_of_a_user_are_found) \
    X(a_repeated_key_gets_the_first_answer) \
    X(every_write_may_have_a_key_and_gets_its_answer_again) \
    X(a_keyed_write_that_was_refused_may_come_again) \
    X(a_repeated_reaction_has_the_counts_of_now) \
    X(a_key_on_a_spread_counter_counts_once) \
    X(a_scan_visits_each_once_while_others_come_and_go) \
    X(a_scan_tells_values_and_counts) \
    X(a_recount_comes_to_the_same) \
    X(what_the_shards_hold_adds_up) \
    X(what_was_never_spread_says_so_however_many_hold_it) \
    X(the_number_of_shards_follows_the_hand) \
    X(ops_on_one_id_happen_in_the_order_of_the_batch) \
    X(a_batch_may_be_empty_or_full) \
    X(any_configured_set_of_kinds_will_do)
/* clang-format on */

#endif
