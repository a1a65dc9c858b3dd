/* What run.lua and its C side do to a cell, on a real server. */
/* servers: redis */
/* threads */
#include "unit/hot/redis/rig.h"

#include "core/event.h"
#include "hot/redis/entry.h"

static struct rig rig;
static struct hot *hot;

static int begin(void **state)
{
    (void)state;
    rig_open(&rig);
    hot = rig_node(&rig);
    rig_open_all(hot);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static void run_all(struct op *ops, size_t count)
{
    bool is_done = false;
    struct batch batch = {.ops = ops,
                          .count = count,
                          .worker = 1,
                          .now_ms = env_wall_ms(env_system()),
                          .done = rig_done,
                          .arg = &is_done};
    hot_run(hot, &batch);
    assert_true(is_done);
}

static struct op react(enum op_kind kind, const char *item, const char *user, uint8_t reaction)
{
    return (struct op){
        .kind = kind, .id = slice_of(item), .user = slice_of(user), .reaction = reaction};
}

static void assert_counts(const char *item, int64_t likes, int64_t dislikes)
{
    int64_t counts[2] = {-1, -1};
    struct op op =
        rig_run(hot, (struct op){.kind = OP_COUNTS, .id = slice_of(item), .counts = counts});
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(counts[0], likes);
    assert_int_equal(counts[1], dislikes);
}

static const char *text_of(struct number *number)
{
    static struct buffer text;
    if (!text.max)
        buffer_init(&text, 4096);
    text.size = 0;
    number_format(number, &text);
    buffer_append(&text, "", 1);
    number_done(number);
    return text.data;
}

static const char *value_of(const char *id)
{
    struct op op = rig_run(hot, rig_get(id));
    return op.code ? err_meaning(op.code) : text_of(&op.value);
}

static struct op add_big(const char *id, const char *amount)
{
    struct op op = {.kind = OP_ADD, .id = slice_of(id)};
    assert_int_equal(number_parse(slice_of(amount), &op.amount), ERR_OK);
    struct op done = rig_run(hot, op);
    number_done(&op.amount);
    return done;
}

/* ---- reactions ---- */

TEST(a_user_counts_once_and_switches_in_one_step)
{
    struct op op = rig_run(hot, rig_like("video", "ann"));
    assert_int_equal(op.code, ERR_OK);
    assert_true(op.changed);
    assert_int_equal(op.held, LIKE);
    assert_int_not_equal(op.sequence, 0);
    assert_int_equal(op.cell, rig_home("video"));

    op = rig_run(hot, rig_like("video", "ann"));
    assert_false(op.changed);
    assert_counts("video", 1, 0);

    op = rig_run(hot, react(OP_REACT, "video", "ann", DISLIKE));
    assert_true(op.changed);
    assert_counts("video", 0, 1);

    op = rig_run(hot, react(OP_WITHDRAW, "video", "ann", LIKE));
    assert_false(op.changed);
    assert_int_equal(op.held, DISLIKE);
    op = rig_run(hot, react(OP_WITHDRAW, "video", "ann", 0));
    assert_true(op.changed);
    assert_counts("video", 0, 0);

    op = rig_run(hot, react(OP_TOGGLE, "video", "ann", LIKE));
    assert_int_equal(op.held, LIKE);
    op = rig_run(hot, react(OP_REACTION, "video", "ann", 0));
    assert_int_equal(op.held, LIKE);
    assert_string_equal(value_of("video/like"), "1");
    assert_string_equal(value_of("video"), err_meaning(ERR_WRONG_TYPE));
}

TEST(many_users_of_a_batch_share_a_call_and_the_same_user_keeps_his_order)
{
    static char names[600][12];
    struct op ops[603];
    int64_t counts[2] = {0};
    for (unsigned i = 0; i < 600; i++) {
        snprintf(names[i], sizeof(names[i]), "u%u", i);
        ops[i] = rig_like("crowd", names[i]);
    }
    ops[600] = react(OP_REACT, "crowd", "u5", DISLIKE);
    ops[601] = react(OP_TOGGLE, "crowd", "u5", DISLIKE);
    ops[602] = react(OP_REACTION, "crowd", "u7", 0);
    ops[599].counts = counts;
    run_all(ops, 603);
    for (unsigned i = 0; i < 602; i++) {
        assert_int_equal(ops[i].code, ERR_OK);
        assert_true(ops[i].changed);
    }
    assert_int_equal(counts[0], 600);
    assert_int_equal(ops[601].held, 0);
    assert_int_equal(ops[602].held, LIKE);
    assert_counts("crowd", 599, 0);
}

static void count_member(void *arg, struct slice user)
{
    (void)user;
    ++*(unsigned *)arg;
}

static unsigned members_of(const char *item, uint8_t reaction)
{
    unsigned count = 0;
    struct op_page page = {.limit = 500, .visit = count_member, .arg = &count};
    do {
        struct op op = rig_run(hot, (struct op){.kind = OP_MEMBERS,
                                                .id = slice_of(item),
                                                .reaction = reaction,
                                                .page = &page});
        assert_int_equal(op.code, ERR_OK);
    } while (page.cursor != 0);
    return count;
}

TEST(a_large_item_is_cut_into_slices_and_stays_what_it_is)
{
    static char names[6000][12];
    static struct op ops[1000];
    for (unsigned first = 0; first < 6000; first += 1000) {
        for (unsigned i = 0; i < 1000; i++) {
            snprintf(names[first + i], sizeof(names[0]), "%u", first + i);
            ops[i] = rig_like("large", names[first + i]);
        }
        run_all(ops, 1000);
        for (unsigned i = 0; i < 1000; i++)
            assert_true(ops[i].changed);
        assert_counts("large", first + 1000, 0);
    }
    assert_string_not_equal(
        RIG_DO(&rig, "HGET", rig_key(&rig, hot, rig_home("large"), "r:large"), ".own"), "");
    for (unsigned i = 0; i < 1000; i++)
        ops[i] = react(i % 2 ? OP_REACT : OP_WITHDRAW, "large", names[i], i % 2 ? DISLIKE : LIKE);
    run_all(ops, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(ops[i].code, ERR_OK);
        assert_true(ops[i].changed);
    }
    assert_counts("large", 5000, 500);
    assert_int_equal(members_of("large", LIKE), 5000);
    assert_int_equal(members_of("large", DISLIKE), 500);

    struct op op = rig_run(hot, (struct op){.kind = OP_DELETE, .id = SLICE("large")});
    assert_true(op.changed);
    assert_counts("large", 0, 0);
    assert_int_equal(members_of("large", LIKE), 0);
    op = rig_run(hot, rig_like("large", "7"));
    assert_true(op.changed);
    assert_counts("large", 1, 0);
}

/* ---- counters ---- */

TEST(sums_of_a_batch_tell_each_value_in_between)
{
    struct op ops[4] = {rig_add("sum", 5), rig_add("sum", -7), rig_add("sum", 3), rig_get("sum")};
    run_all(ops, 4);
    assert_int_equal(ops[0].value.small, 5);
    assert_int_equal(ops[1].value.small, -2);
    assert_int_equal(ops[2].value.small, 1);
    assert_int_equal(ops[3].value.small, 1);
    assert_string_equal(value_of("nothing"), err_meaning(ERR_NOT_FOUND));
}

TEST(values_beyond_what_a_double_holds_are_exact)
{
    struct op op = add_big("big", "9007199254740993");
    number_done(&op.value);
    assert_string_equal(value_of("big"), "9007199254740993");
    op = rig_run(hot, rig_add("big", 1));
    assert_string_equal(text_of(&op.value), "9007199254740994");
    op = rig_run(hot, rig_add("big", INT64_MAX));
    number_done(&op.value);
    assert_string_equal(value_of("big"), "9232379236109516801");
    op = add_big("big", "-9232379236109516802");
    assert_string_equal(text_of(&op.value), "-1");
}

TEST(sums_of_any_size_are_those_of_gmp)
{
    test_draw_lots();
    struct number sum = number_of(0);
    for (unsigned round = 0; round < 300; round++) {
        char digits[80];
        unsigned size = 1 + (unsigned)rand() % 60;
        unsigned at = 0;
        if (rand() % 2)
            digits[at++] = '-';
        digits[at++] = (char)('1' + rand() % 9);
        for (unsigned i = 1; i < size; i++)
            digits[at++] = (char)(rand() % 4 ? '0' + rand() % 10 : '9');
        digits[at] = '\0';
        if (round % 10 == 9) { /* back to about zero */
            struct number back = number_copy(&sum);
            number_negate(&back);
            snprintf(digits, sizeof(digits), "%s", text_of(&back));
        }
        struct number amount;
        assert_int_equal(number_parse(slice_of(digits), &amount), ERR_OK);
        number_add(&sum, &amount);
        number_done(&amount);
        struct op op = add_big("gmp", digits);
        assert_int_equal(op.code, ERR_OK);
        assert_int_equal(number_compare(&op.value, &sum), 0);
        number_done(&op.value);
    }
    number_done(&sum);
}

TEST(a_floor_holds_and_setting_takes_a_deadline_back)
{
    struct op_create create = {.shards = 1, .has_floor = true, .floor = -5};
    struct op op = {.kind = OP_CREATE, .id = SLICE("stock"), .create = &create};
    assert_true(rig_run(hot, op).changed);
    assert_int_equal(rig_run(hot, op).code, ERR_EXISTS);
    assert_int_equal(rig_run(hot, rig_add("stock", -5)).value.small, -5);
    assert_int_equal(rig_run(hot, rig_add("stock", -1)).code, ERR_BELOW_FLOOR);
    assert_int_equal(rig_run(hot, rig_add("stock", 1)).value.small, -4);

    struct op expire = {
        .kind = OP_EXPIRE, .id = SLICE("stock"), .deadline_ms = env_wall_ms(env_system()) + 100000};
    assert_true(rig_run(hot, expire).changed);
    struct op deadline = {.kind = OP_DEADLINE, .id = SLICE("stock")};
    assert_int_equal(rig_run(hot, deadline).deadline_ms, expire.deadline_ms);
    struct op set = {.kind = OP_SET, .id = SLICE("stock"), .amount = number_of(70)};
    assert_int_equal(rig_run(hot, set).value.small, 70);
    assert_int_equal(rig_run(hot, deadline).deadline_ms, 0);

    struct op_describe describe;
    struct op ask = {.kind = OP_DESCRIBE, .id = SLICE("stock"), .describe = &describe};
    assert_int_equal(rig_run(hot, ask).code, ERR_OK);
    assert_true(describe.has_floor);
    assert_int_equal(describe.floor, -5);

    expire.deadline_ms = env_wall_ms(env_system()) + 20;
    rig_run(hot, expire);
    usleep(40000);
    assert_string_equal(value_of("stock"), err_meaning(ERR_NOT_FOUND));
    assert_int_equal(rig_run(hot, rig_add("stock", -9)).value.small, -9); /* made anew */
}

/* ---- keys ---- */

TEST(a_key_repeats_its_first_answer_and_is_refused_for_another_write)
{
    struct op op = rig_add("keyed", 5);
    op.key = SLICE("k1");
    struct op first = rig_run(hot, op);
    assert_int_equal(first.value.small, 5);
    rig_run(hot, rig_add("keyed", 1));
    struct op second = rig_run(hot, op);
    assert_true(second.repeated);
    assert_true(second.changed);
    assert_int_equal(second.value.small, 5);
    assert_int_not_equal(second.sequence, 0);
    op.amount = number_of(6);
    assert_int_equal(rig_run(hot, op).code, ERR_KEY_REUSED);
    assert_string_equal(value_of("keyed"), "6");

    struct op like = rig_like("keyed item", "ann");
    int64_t counts[2];
    like.key = SLICE("k1");
    like.counts = counts;
    assert_true(rig_run(hot, like).changed);
    rig_run(hot, rig_like("keyed item", "bob"));
    second = rig_run(hot, like);
    assert_true(second.repeated);
    assert_int_equal(second.held, LIKE);
    assert_int_equal(counts[0], 2);
}

TEST(a_server_without_memory_refuses_writes_and_is_read_from)
{
    rig_run(hot, rig_add("before", 7));
    RIG_DO(&rig, "CONFIG", "SET", "maxmemory", "1");
    struct op ops[3] = {rig_get("before"), rig_like("too much", "ann"), rig_get("before")};
    run_all(ops, 3);
    assert_int_equal(ops[0].value.small, 7);
    assert_int_equal(ops[1].code, ERR_NO_MEMORY);
    assert_int_equal(ops[2].value.small, 7);
    struct op op = {.kind = OP_DELETE, .id = SLICE("before")};
    assert_true(rig_run(hot, op).changed); /* which makes room */
    RIG_DO(&rig, "CONFIG", "SET", "maxmemory", "0");
    usleep(150000);
    assert_int_equal(rig_run(hot, rig_like("too much", "ann")).code, ERR_OK);
    assert_counts("too much", 1, 0);
}

/* ---- the outbox ---- */

struct sums {
    int64_t likes;
    int64_t sum;
    unsigned events;
    uint64_t last;
    bool has_key;
};

static void add_up(struct sums *sums, struct slice bytes)
{
    struct section_reader reader;
    struct event event;
    struct error error;
    if (section_open(&reader, bytes, &error))
        fail_msg("%s", error.text);
    while (section_next(&reader, &event, &error) == ERR_OK) {
        assert_true(sums->last == 0 || event.sequence == sums->last + 1);
        sums->last = event.sequence;
        sums->events++;
        sums->likes += slice_equal(event.after, SLICE("like"));
        sums->likes -= slice_equal(event.before, SLICE("like"));
        if (event.type == EVENT_ADD || event.type == EVENT_RESET)
            sums->sum += event.amount.small;
        sums->has_key |= slice_equal(event.key, SLICE("the key"));
        event_done(&event);
    }
}

static uint64_t number_in(const redisReply *reply)
{
    return strtoull(reply->str, NULL, 10);
}

static void read_outbox(unsigned cell, struct sums *sums)
{
    struct buffer section;
    buffer_init(&section, 1 << 20);
    redisReply *reply = redisCommand(rig.redis, "XRANGE %s - +", rig_key(&rig, hot, cell, "out"));
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *entry = reply->element[i];
        char *dash = strchr(entry->element[0]->str, '-');
        uint64_t epoch = strtoull(entry->element[0]->str, NULL, 10);
        const redisReply *fields = entry->element[1];
        struct error error;
        section.size = 0;
        if (entry_section(cell, sequence_of(epoch, number_in(fields->element[1])),
                          sequence_of(epoch, strtoull(dash + 1, NULL, 10)),
                          (int64_t)number_in(fields->element[3]),
                          (struct slice){fields->element[5]->str, fields->element[5]->len},
                          fields->element[4]->str[0] == 'b', &section, &error))
            fail_msg("%s", error.text);
        add_up(sums, buffer_slice(&section));
    }
    freeReplyObject(reply);
    buffer_done(&section);
}

TEST(the_outbox_has_an_event_for_every_change)
{
    struct op ops[8] = {rig_like("noted", "ann"),
                        rig_like("noted", "bob"),
                        react(OP_REACT, "noted", "ann", DISLIKE),
                        rig_like("noted", "bob"), /* changes nothing */
                        react(OP_WITHDRAW, "noted", "ann", 0),
                        rig_like("noted", "cid"),
                        rig_like("noted", "dan"),
                        rig_like("noted", "eve")};
    ops[6].region = SLICE("no");
    ops[7].key = SLICE("the key");
    run_all(ops, 8);
    struct sums sums = {0};
    read_outbox(rig_home("noted"), &sums);
    assert_int_equal(sums.likes, 4);
    assert_int_equal(sums.events, 7);
    assert_true(sums.has_key);
    assert_int_equal(sums.last, ops[7].sequence);

    struct op counters[5] = {rig_add("n2", 5),
                             rig_add("n2", -7),
                             rig_add("n2", 0),
                             rig_add("n2", 9),
                             {.kind = OP_SET, .id = SLICE("n2"), .amount = number_of(100)}};
    counters[3].key = SLICE("the key");
    run_all(counters, 5);
    sums = (struct sums){0};
    read_outbox(rig_home("n2"), &sums);
    assert_int_equal(sums.sum, 100);
    assert_int_equal(sums.events, 4);
}

RUN(cmocka_unit_test_setup_teardown(a_user_counts_once_and_switches_in_one_step, begin, end),
    cmocka_unit_test_setup_teardown(
        many_users_of_a_batch_share_a_call_and_the_same_user_keeps_his_order, begin, end),
    cmocka_unit_test_setup_teardown(a_large_item_is_cut_into_slices_and_stays_what_it_is, begin,
                                    end),
    cmocka_unit_test_setup_teardown(sums_of_a_batch_tell_each_value_in_between, begin, end),
    cmocka_unit_test_setup_teardown(values_beyond_what_a_double_holds_are_exact, begin, end),
    cmocka_unit_test_setup_teardown(sums_of_any_size_are_those_of_gmp, begin, end),
    cmocka_unit_test_setup_teardown(a_floor_holds_and_setting_takes_a_deadline_back, begin, end),
    cmocka_unit_test_setup_teardown(a_key_repeats_its_first_answer_and_is_refused_for_another_write,
                                    begin, end),
    cmocka_unit_test_setup_teardown(a_server_without_memory_refuses_writes_and_is_read_from, begin,
                                    end),
    cmocka_unit_test_setup_teardown(the_outbox_has_an_event_for_every_change, begin, end))
