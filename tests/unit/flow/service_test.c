#include "flow/service.h"

#include "unit/flow/rig.h"

/* ---- what the tests share ---- */

static struct rig *service_rig(enum ack ack)
{
    struct rig *rig = rig_new();
    rig_recover(rig);
    service_init(&rig->service, &rig->env, rig->hot, rig->log, &rig->kinds, ack);
    return rig;
}

static void service_rig_free(struct rig *rig)
{
    service_done(&rig->service);
    rig_free(rig);
}

static void count_call(struct batch *batch)
{
    ++*(unsigned *)batch->arg;
}

/* Runs the ops as one batch; a door is called back once for it. */
static void run(struct rig *rig, struct op *ops, size_t count)
{
    unsigned calls = 0;
    struct batch batch = {.ops = ops, .count = count, .done = count_call, .arg = &calls};
    service_run(&rig->service, &batch);
    assert_int_equal(calls, 1);
    assert_ptr_equal(batch.done, count_call);
    assert_int_equal(batch.now_ms, rig->now_ms);
}

static struct op add_op(const char *id, int64_t amount)
{
    return (struct op){.kind = OP_ADD, .id = slice_of(id), .amount = number_of(amount)};
}

static struct op reaction_op(enum op_kind kind, const char *item, const char *user,
                             uint8_t reaction)
{
    return (struct op){
        .kind = kind, .id = slice_of(item), .user = slice_of(user), .reaction = reaction};
}

/* What was told to worker 0 since the last time, as "a b c". */
static void note(void *arg, struct slice id)
{
    char *text = arg;
    size_t size = strlen(text);
    snprintf(text + size, 1024 - size, "%s%.*s", size > 0 ? " " : "", SLICE_ARGS(id));
}

static void assert_told(struct rig *rig, const char *expected)
{
    char text[1024] = "";
    assert_int_equal(watch_take(rig->service.watch, 0, note, text), 0);
    assert_string_equal(text, expected);
}

static void assert_op_tells(struct rig *rig, struct op op, const char *expected)
{
    run(rig, &op, 1);
    assert_told(rig, expected);
}

/* ---- acknowledgement ---- */

TEST(an_answer_is_safe_when_the_log_has_reached_it)
{
    for (enum ack ack = ACK_DURABLE; ack <= ACK_WRITTEN; ack++) {
        struct rig *rig = service_rig(ack);
        struct op op = add_op("views", 1);
        run(rig, &op, 1);
        assert_true(op.ticket > service_safe(&rig->service));
        rig_commit(rig);
        assert_true(op.ticket <= service_safe(&rig->service));
        service_rig_free(rig);
    }
}

TEST(with_ack_memory_every_answer_is_safe_at_once)
{
    struct rig *rig = service_rig(ACK_MEMORY);
    struct op op = add_op("views", 1);
    run(rig, &op, 1);
    assert_true(op.ticket <= service_safe(&rig->service));
    service_rig_free(rig);
}

/* ---- running ---- */

TEST(a_batch_is_run_and_the_door_called_once)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    struct op ops[] = {add_op("a", 1), add_op("b", 2), add_op("a", 3)};
    run(rig, ops, 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ops[i].code, ERR_OK);
    assert_int_equal(ops[1].value.small, 2);
    assert_int_equal(ops[2].value.small, 4);
    run(rig, NULL, 0);
    service_rig_free(rig);
}

/* A hot layer that is done later: the real one behind a delay. */
struct late_hot {
    struct hot base;
    struct hot *hot;
    struct batch *batch;
};

static void late_run(struct hot *hot, struct batch *batch)
{
    ((struct late_hot *)hot)->batch = batch;
}

TEST(a_hot_layer_may_be_done_after_it_was_called)
{
    static const struct hot_ops late_ops = {.name = "late", .run = late_run};
    struct rig *rig = service_rig(ACK_DURABLE);
    struct late_hot late = {.base = {&late_ops}, .hot = rig->hot};
    rig->service.hot = &late.base;
    watch_add(rig->service.watch, 0, SLICE("*"), true);

    unsigned calls = 0;
    struct op op = add_op("views", 1);
    struct batch batch = {.ops = &op, .count = 1, .done = count_call, .arg = &calls};
    service_run(&rig->service, &batch);
    assert_int_equal(calls, 0);
    assert_told(rig, "");

    hot_run(late.hot, late.batch);
    assert_int_equal(calls, 1);
    assert_told(rig, "views");
    service_rig_free(rig);
}

/* ---- telling ---- */

TEST(changes_of_counters_are_told)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    watch_add(rig->service.watch, 0, SLICE("*"), true);

    assert_op_tells(rig, add_op("views", 1), "views");
    assert_op_tells(rig, (struct op){.kind = OP_SET, .id = SLICE("n"), .amount = number_of(5)},
                    "n");
    assert_op_tells(rig, (struct op){.kind = OP_GET, .id = SLICE("n")}, "");

    struct op ops[] = {add_op("a", 1), add_op("b", 2), add_op("a", 3)};
    run(rig, ops, 3);
    assert_told(rig, "a b");
    service_rig_free(rig);
}

TEST(a_delete_is_told_of_the_counter)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    watch_add(rig->service.watch, 0, SLICE("views"), false);
    struct op op = add_op("views", 1);
    run(rig, &op, 1);
    assert_told(rig, "views");
    assert_op_tells(rig, (struct op){.kind = OP_DELETE, .id = SLICE("views")}, "views");
    assert_op_tells(rig, (struct op){.kind = OP_DELETE, .id = SLICE("views")}, "");
    service_rig_free(rig);
}

TEST(what_failed_or_was_a_repetition_is_not_told)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    watch_add(rig->service.watch, 0, SLICE("*"), true);

    struct op keyed = add_op("views", 1);
    keyed.key = SLICE("k1");
    assert_op_tells(rig, keyed, "views");
    assert_op_tells(rig, keyed, "");

    assert_op_tells(rig, reaction_op(OP_REACT, "video1", "ann", 1),
                    "video1/like video1/dislike video1/meh");
    assert_op_tells(rig, add_op("video1/like", 1), "");
    service_rig_free(rig);
}

TEST(a_reaction_is_told_of_every_kind_that_may_have_changed)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    watch_add(rig->service.watch, 0, SLICE("v/*"), true);

    assert_op_tells(rig, reaction_op(OP_REACT, "v", "ann", 1), "v/like v/dislike v/meh");
    assert_op_tells(rig, reaction_op(OP_REACT, "v", "ann", 1), "");
    assert_op_tells(rig, reaction_op(OP_WITHDRAW, "v", "ann", 2), "");
    assert_op_tells(rig, reaction_op(OP_WITHDRAW, "v", "ann", 1), "v/like");
    assert_op_tells(rig, reaction_op(OP_TOGGLE, "v", "ann", 3), "v/like v/dislike v/meh");
    assert_op_tells(rig, reaction_op(OP_TOGGLE, "v", "ann", 3), "v/meh");
    assert_op_tells(rig, reaction_op(OP_REACT, "v", "bob", 2), "v/like v/dislike v/meh");
    assert_op_tells(rig, reaction_op(OP_WITHDRAW, "v", "bob", KIND_NONE), "v/like v/dislike v/meh");
    service_rig_free(rig);
}

/* ---- checking ---- */

static struct slice text_of(size_t size)
{
    static char text[1024];
    memset(text, '7', sizeof(text));
    assert_true(size <= sizeof(text));
    return (struct slice){text, size};
}

TEST(an_op_at_its_limits_passes)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    struct op op = {
        .kind = OP_REACT,
        .id = text_of(LIMIT_ID_BYTES),
        .user = text_of(LIMIT_USER_BYTES),
        .key = text_of(LIMIT_KEY_BYTES),
        .region = text_of(LIMIT_REGION_BYTES),
        .reaction = 3,
    };
    assert_int_equal(service_check(&rig->service, &op, NULL), ERR_OK);
    run(rig, &op, 1);
    assert_int_equal(op.code, ERR_OK);

    struct op_create create = {.shards = LIMIT_CELLS};
    op = (struct op){.kind = OP_CREATE, .id = SLICE("x"), .create = &create};
    assert_int_equal(service_check(&rig->service, &op, NULL), ERR_OK);
    service_rig_free(rig);
}

TEST(an_op_that_makes_no_sense_is_refused_with_a_text)
{
    struct op_create none = {.shards = 0};
    struct op_create many = {.shards = LIMIT_CELLS + 1};
    const struct {
        struct op op;
        enum err err;
        const char *text;
    } table[] = {
        {{.kind = OP_GET}, ERR_INVALID, "the id is empty"},
        {{.kind = OP_GET, .id = text_of(257)}, ERR_TOO_LARGE, "an id of 257 bytes: more than 256"},
        {{.kind = OP_ADD, .id = SLICE("x"), .key = text_of(129)},
         ERR_TOO_LARGE,
         "an idempotency key of 129 bytes: more than 128"},
        {{.kind = OP_ADD, .id = SLICE("x"), .key = SLICE("")},
         ERR_INVALID,
         "the idempotency key is empty"},
        {{.kind = OP_ADD, .id = SLICE("x"), .region = text_of(65)},
         ERR_TOO_LARGE,
         "a region of 65 bytes: more than 64"},
        {{.kind = OP_REACT, .id = SLICE("x"), .user = text_of(129), .reaction = 1},
         ERR_TOO_LARGE,
         "a user of 129 bytes: more than 128"},
        {{.kind = OP_REACTION, .id = SLICE("x")}, ERR_INVALID, "the user is empty"},
        {{.kind = OP_EXPIRE, .id = SLICE("x"), .deadline_ms = LIMIT_TIME_MS + 1},
         ERR_INVALID,
         "a time is 0 to 253402300799999, in milliseconds: 1970 to the end of the year 9999"},
        {{.kind = OP_EXPIRE, .id = SLICE("x"), .deadline_ms = -1},
         ERR_INVALID,
         "a time is 0 to 253402300799999, in milliseconds: 1970 to the end of the year 9999"},
        {{.kind = OP_TOGGLE, .id = SLICE("x"), .user = SLICE("u")},
         ERR_INVALID,
         "there is no such reaction"},
        {{.kind = OP_MEMBERS, .id = SLICE("x"), .reaction = 4},
         ERR_INVALID,
         "there is no such reaction"},
        {{.kind = OP_COUNTS, .id = SLICE("x/like")},
         ERR_INVALID,
         "the id ends in \"/like\": that is not an item"},
        {{.kind = OP_CREATE, .id = SLICE("x"), .create = &none},
         ERR_INVALID,
         "0 shards: not 1 to 64"},
        {{.kind = OP_CREATE, .id = SLICE("x"), .create = &many},
         ERR_INVALID,
         "65 shards: not 1 to 64"},
    };
    struct rig *rig = service_rig(ACK_DURABLE);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct error error = {.text = ""};
        assert_int_equal(service_check(&rig->service, &table[i].op, &error), table[i].err);
        assert_string_equal(error.text, table[i].text);
    }
    service_rig_free(rig);
}

TEST(the_counters_of_the_longest_item_can_be_read_and_not_written)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    struct op like = {
        .kind = OP_REACT, .id = text_of(LIMIT_ID_BYTES), .user = SLICE("ann"), .reaction = 2};
    run(rig, &like, 1);

    char id[LIMIT_ID_BYTES + 16];
    memcpy(id, like.id.data, LIMIT_ID_BYTES);
    memcpy(id + LIMIT_ID_BYTES, "/dislike", 8);
    struct op op = {.kind = OP_GET, .id = {id, LIMIT_ID_BYTES + 8}};
    assert_int_equal(service_check(&rig->service, &op, NULL), ERR_OK);
    run(rig, &op, 1);
    assert_int_equal(op.code, ERR_OK);
    assert_int_equal(op.value.small, 1);

    op = (struct op){.kind = OP_ADD, .id = op.id, .amount = number_of(1)};
    assert_int_equal(service_check(&rig->service, &op, NULL), ERR_TOO_LARGE);
    service_rig_free(rig);
}

TEST(an_amount_may_have_only_so_many_digits)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    for (size_t digits = LIMIT_AMOUNT_DIGITS - 1; digits <= LIMIT_AMOUNT_DIGITS + 1; digits++) {
        struct op op = add_op("big", 0);
        assert_int_equal(number_parse(text_of(digits), &op.amount), ERR_OK);
        enum err expected = digits > LIMIT_AMOUNT_DIGITS ? ERR_TOO_LARGE : ERR_OK;
        assert_int_equal(service_check(&rig->service, &op, NULL), expected);
        number_negate(&op.amount);
        assert_int_equal(service_check(&rig->service, &op, NULL), expected);
        number_done(&op.amount);
    }
    service_rig_free(rig);
}

/* The largest difference there is, with an answer of the largest size. */
TEST(the_largest_amounts_come_back_from_the_log)
{
    struct rig *rig = service_rig(ACK_DURABLE);
    struct op ops[3] = {
        {.kind = OP_SET, .id = SLICE("big"), .key = SLICE("k1")},
        {.kind = OP_ADD, .id = SLICE("big"), .key = SLICE("k2")},
        {.kind = OP_SET, .id = SLICE("big"), .key = SLICE("k3")},
    };
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(number_parse(text_of(LIMIT_AMOUNT_DIGITS), &ops[i].amount), ERR_OK);
    number_negate(&ops[2].amount);
    run(rig, ops, 3);
    rig_commit(rig);
    service_done(&rig->service);
    rig_close(rig);

    rig_open(rig);
    rig_recover(rig);
    struct op get = {.kind = OP_GET, .id = SLICE("big")};
    rig_run(rig, &get);
    assert_int_equal(get.code, ERR_OK);
    assert_int_equal(number_compare(&get.value, &ops[2].amount), 0);
    number_done(&get.value);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ops[i].code, ERR_OK);
        number_done(&ops[i].amount);
        number_done(&ops[i].value);
    }
    rig_free(rig);
}

RUN(cmocka_unit_test(an_answer_is_safe_when_the_log_has_reached_it),
    cmocka_unit_test(with_ack_memory_every_answer_is_safe_at_once),
    cmocka_unit_test(a_batch_is_run_and_the_door_called_once),
    cmocka_unit_test(a_hot_layer_may_be_done_after_it_was_called),
    cmocka_unit_test(changes_of_counters_are_told),
    cmocka_unit_test(a_delete_is_told_of_the_counter),
    cmocka_unit_test(what_failed_or_was_a_repetition_is_not_told),
    cmocka_unit_test(a_reaction_is_told_of_every_kind_that_may_have_changed),
    cmocka_unit_test(an_op_at_its_limits_passes),
    cmocka_unit_test(an_op_that_makes_no_sense_is_refused_with_a_text),
    cmocka_unit_test(the_counters_of_the_longest_item_can_be_read_and_not_written),
    cmocka_unit_test(an_amount_may_have_only_so_many_digits),
    cmocka_unit_test(the_largest_amounts_come_back_from_the_log))
