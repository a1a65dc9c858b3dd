/* hot_test.c - the memory hot layer: what every hot layer promises (hot_cases.h), and
 * what has to do with its log, its clock and its figures. */
/* threads */
#include "contract/hot_cases.h"

#include <unistd.h>

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

TEST(an_item_created_with_shards_waits_for_the_deletion_before_it)
{
    struct op_create as = {.shards = 64};
    ask(react("v", "ann", LIKE));
    uint64_t deleted = ask(on(OP_DELETE, "v")).ticket;
    ask(create("v/like", &as));

    /* Decided in a cell that has logged nothing yet. */
    assert_true(ask(withdraw("v", "ann", LIKE)).ticket >= deleted);
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
    assert_string_equal(describe("hot").reason, "quiet for 10 s");
    assert_string_equal(describe("v").reason, "quiet for 10 s");
    assert_value(ask(get("hot")), "20000");
}

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

#define SCENARIO(name) cmocka_unit_test_setup_teardown(name, open_rig, restart_and_close_rig)
#define CASE(name)     SCENARIO(name),

RUN(HOT_CASES(CASE) SCENARIO(a_read_need_not_wait_for_the_log_and_a_write_must),
    SCENARIO(values_go_past_64_bits_and_come_back),
    SCENARIO(late_events_of_an_old_incarnation_do_not_count),
    SCENARIO(events_that_cannot_follow_are_refused), SCENARIO(creation_says_how_a_counter_shall_be),
    SCENARIO(ticks_sweep_up_what_is_past_its_time),
    SCENARIO(what_is_idle_expires_and_writing_keeps_it),
    SCENARIO(a_spread_counter_ends_as_any_other),
    SCENARIO(counters_without_an_own_time_follow_the_setting),
    SCENARIO(withdrawing_another_kind_does_nothing_and_any_kind_takes_what_is_held),
    SCENARIO(an_item_created_with_shards_waits_for_the_deletion_before_it),
    SCENARIO(items_of_every_size_know_their_members), SCENARIO(keys_are_forgotten_after_their_time),
    SCENARIO(the_region_of_a_write_is_kept_in_its_event),
    SCENARIO(what_is_past_its_time_is_not_listed_any_more), SCENARIO(figures_count_what_is_there),
    SCENARIO(an_answer_that_nothing_changed_waits_for_what_it_rests_on),
    SCENARIO(a_total_waits_for_what_other_cells_have_added_to_it),
    SCENARIO(what_a_floor_allows_is_written_down_behind_what_it_rests_on),
    SCENARIO(a_spread_counter_can_grow_past_64_bits_be_set_and_be_deleted),
    SCENARIO(a_big_counter_is_not_said_to_be_spread),
    SCENARIO(what_is_hot_spreads_by_itself_and_folds_when_it_is_quiet),
    SCENARIO(nothing_changes_while_the_log_is_full_or_busy_and_reading_goes_on),
    SCENARIO(what_has_expired_waits_for_the_log_to_have_room),
    SCENARIO(a_kind_that_would_hide_a_counter_is_refused))
