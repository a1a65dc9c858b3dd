#include "flow/coalesce.h"

#include <string.h>

#include "base/hash.h"
#include "core/bucket.h"
#include "core/key.h"
#include "sim/sim_rng.h"
#include "unit/test.h"

static struct kinds kinds;

/* A coalescer and the section that is being written for it. */
struct bench {
    struct coalesce *coalesce;
    struct section section;
    uint64_t sequence; /* next of origin 0 */
    struct state_mark mark;
};

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.sequence = 1};
    assert_int_equal(kinds_parse(&kinds, SLICE("like,dislike"), NULL), ERR_OK);
    bench->coalesce = coalesce_new(env_system(), &kinds);
    section_init(&bench->section);
    coalesce_begin(bench->coalesce, &bench->mark);
}

static void bench_done(struct bench *bench)
{
    section_done(&bench->section);
    coalesce_free(bench->coalesce);
}

static void send_as(struct bench *bench, uint32_t origin, uint64_t sequence, int64_t time_ms)
{
    struct buffer bytes;
    char header[SECTION_HEADER_MAX];
    buffer_init(&bytes, 2 << 20);
    size_t size = section_header(&bench->section, origin, sequence, time_ms, header);
    buffer_append(&bytes, header, size);
    buffer_append_slice(&bytes, buffer_slice(&bench->section.body));
    coalesce_take(bench->coalesce, buffer_slice(&bytes), (struct log_position){1, 100});
    buffer_done(&bytes);
    section_clear(&bench->section);
}

static void send(struct bench *bench)
{
    uint32_t count = bench->section.count;
    send_as(bench, 0, bench->sequence, 1000);
    bench->sequence += count;
}

static void add(struct bench *bench, const char *id, uint32_t incarnation, int64_t amount)
{
    section_add(&bench->section, incarnation, slice_of(id), amount, (struct slice){0});
}

static void react(struct bench *bench, const char *item, uint32_t incarnation, const char *user,
                  uint32_t number, const char *before, const char *after)
{
    section_react(&bench->section, incarnation, slice_of(item), slice_of(user), number,
                  slice_of(before), slice_of(after), (struct slice){0});
}

static void delete_it(struct bench *bench, const char *id, uint32_t incarnation, uint32_t next)
{
    struct event event = {.type = EVENT_DELETE,
                          .id = slice_of(id),
                          .incarnation = incarnation,
                          .next_incarnation = next};
    section_event(&bench->section, &event);
}

static struct store_batch *finish(struct bench *bench)
{
    return coalesce_finish(bench->coalesce, (struct log_position){1, 100}, 5000);
}

static const struct store_unit *unit_of(const struct store_batch *batch, const char *id)
{
    for (size_t i = 0; i < batch->unit_count; i++)
        if (slice_equal(batch->units[i].id, slice_of(id)))
            return &batch->units[i];
    fail_msg("no unit for %s", id);
    return NULL;
}

TEST(all_that_happens_to_an_id_is_one_unit)
{
    struct bench bench;
    bench_init(&bench);
    add(&bench, "views", 0, 5);
    add(&bench, "shares", 0, 1);
    add(&bench, "views", 0, -2);
    send(&bench);
    add(&bench, "views", 0, 10);
    send_as(&bench, 3, 7, 2000);

    struct store_batch *batch = finish(&bench);
    assert_int_equal(coalesce_events(bench.coalesce), 4);
    assert_int_equal(batch->unit_count, 2);
    const struct store_unit *views = unit_of(batch, "views");
    assert_int_equal(views->delta.small, 13);
    assert_int_equal(views->events, 3);
    assert_int_equal(views->first_ms, 1000);
    assert_int_equal(views->last_ms, 2000);
    assert_true(views->may_create && !views->is_item && !views->is_gone && !views->is_new);
    assert_int_equal(views->event_id[6] >> 4, 7);
    assert_int_equal(batch->after.sequences[0], 3);
    assert_int_equal(batch->after.sequences[3], 7);
    assert_int_equal(batch->after.position.offset, 100);
    assert_int_equal(batch->now_ms, 5000);
    bench_done(&bench);
}

TEST(what_the_store_has_is_left_out)
{
    struct bench bench;
    bench_init(&bench);
    bench.mark.sequences[0] = 2;
    coalesce_begin(bench.coalesce, &bench.mark);
    add(&bench, "views", 0, 1);
    add(&bench, "views", 0, 10);
    add(&bench, "views", 0, 100);
    send(&bench);
    bench.sequence = 2;
    add(&bench, "views", 0, 1000);
    add(&bench, "views", 0, 10000);
    send(&bench);

    struct store_batch *batch = finish(&bench);
    assert_int_equal(unit_of(batch, "views")->delta.small, 100);
    assert_int_equal(coalesce_events(bench.coalesce), 1);
    bench_done(&bench);
}

TEST(reactions_stand_by_item_in_their_order)
{
    struct bench bench;
    bench_init(&bench);
    react(&bench, "video1", 0, "ann", 4, "", "like");
    react(&bench, "video2", 0, "17", EVENT_NO_NUMBER, "", "dislike");
    react(&bench, "video1", 0, "bob", 5, "", "like");
    react(&bench, "video1", 0, "ann", 4, "like", "");
    send(&bench);

    struct store_batch *batch = finish(&bench);
    const struct store_unit *one = unit_of(batch, "video1");
    assert_true(one->is_item);
    assert_int_equal(one->reaction_count, 3);
    assert_true(slice_equal(one->reactions[0].user, SLICE("ann")));
    assert_true(one->reactions[0].named && one->reactions[0].number == 4);
    assert_int_equal(one->reactions[0].bucket, bucket_of(SLICE("video1"), SLICE("ann")));
    assert_true(slice_equal(one->reactions[1].user, SLICE("bob")));
    assert_true(slice_equal(one->reactions[2].before, SLICE("like")));
    assert_int_equal(one->reactions[2].after.size, 0);
    assert_int_equal(one->reactions[2].sequence, 4);
    const struct store_unit *two = unit_of(batch, "video2");
    assert_int_equal(two->reaction_count, 1);
    assert_true(!two->reactions[0].named && two->reactions[0].number == 17);
    assert_int_equal(batch->after.next_user, 6);
    bench_done(&bench);
}

TEST(a_deletion_undoes_what_came_before_it_and_late_events_are_dropped)
{
    struct bench bench;
    bench_init(&bench);
    react(&bench, "video1", 0, "ann", 0, "", "like");
    add(&bench, "views", 0, 5);
    delete_it(&bench, "video1", 0, 1);
    delete_it(&bench, "views", 0, 2);
    add(&bench, "views", 0, 7); /* late */
    react(&bench, "video1", 2, "bob", 1, "", "like");
    send(&bench);

    struct store_batch *batch = finish(&bench);
    const struct store_unit *views = unit_of(batch, "views");
    assert_true(views->is_gone);
    assert_int_equal(views->delta.small, 0);
    assert_int_equal(views->incarnation, 2);
    const struct store_unit *video = unit_of(batch, "video1");
    assert_true(video->is_new && !video->is_gone);
    assert_int_equal(video->incarnation, 2);
    assert_int_equal(video->reaction_count, 1);
    assert_true(slice_equal(video->reactions[0].user, SLICE("bob")));
    assert_int_equal(batch->after.incarnations[0], 2);
    bench_done(&bench);
}

TEST(only_an_event_of_the_present_incarnation_may_make_something)
{
    struct bench bench;
    bench_init(&bench);
    bench.mark.incarnations[hash_stable(SLICE("views")) >> 58] = 3;
    coalesce_begin(bench.coalesce, &bench.mark);
    add(&bench, "views", 2, 5);
    send(&bench);
    assert_false(unit_of(finish(&bench), "views")->may_create);

    coalesce_begin(bench.coalesce, &bench.mark);
    bench.sequence = 1;
    add(&bench, "views", 3, 5);
    send(&bench);
    assert_true(unit_of(finish(&bench), "views")->may_create);
    bench_done(&bench);
}

TEST(a_reactions_counter_that_is_created_concerns_its_item)
{
    struct bench bench;
    bench_init(&bench);
    struct event event = {
        .type = EVENT_CREATE, .id = SLICE("video1/like"), .create = {.shards = 8}};
    section_event(&bench.section, &event);
    event = (struct event){.type = EVENT_EXPIRE, .id = SLICE("views"), .deadline_ms = 77};
    section_event(&bench.section, &event);
    send(&bench);
    struct store_batch *batch = finish(&bench);
    const struct store_unit *unit = unit_of(batch, "video1");
    assert_true(unit->is_item && unit->has_create);
    assert_int_equal(unit->create.shards, 8);
    assert_true(unit_of(batch, "views")->has_deadline);
    assert_int_equal(unit_of(batch, "views")->deadline_ms, 77);
    bench_done(&bench);
}

TEST(keys_and_repairs_are_handed_on_and_change_no_unit)
{
    struct bench bench;
    bench_init(&bench);
    struct event event = {.type = EVENT_NOTHING,
                          .id = SLICE("video1"),
                          .key = SLICE("k"),
                          .answer = {.fingerprint = 9, .held = SLICE("like")}};
    section_event(&bench.section, &event);
    event = (struct event){
        .type = EVENT_REPAIR, .id = SLICE("views"), .amount = number_of(-3), .place = PLACE_HOT};
    section_event(&bench.section, &event);
    event.place = PLACE_STORE; /* that the store wrote down itself */
    section_event(&bench.section, &event);
    send(&bench);
    struct store_batch *batch = finish(&bench);
    assert_int_equal(batch->unit_count, 0);
    assert_int_equal(batch->key_count, 1);
    struct hash128 hash = key_hash(SLICE("video1"), SLICE("k"));
    assert_int_equal(batch->keys[0].low, hash.low);
    assert_int_equal(batch->keys[0].high, hash.high);
    assert_int_equal(batch->keys[0].fingerprint, 9);
    assert_true(slice_equal(batch->keys[0].held, SLICE("like")));
    assert_int_equal(batch->repair_count, 1);
    assert_int_equal(batch->repairs[0].amount.small, -3);
    assert_int_equal(batch->after.sequences[0], 3);
    assert_false(coalesce_is_empty(bench.coalesce));
    bench_done(&bench);
}

TEST(what_cannot_be_read_is_poison_and_the_rest_goes_on)
{
    struct bench bench;
    bench_init(&bench);
    add(&bench, "views", 0, 5);
    bench.section.count++; /* one more is promised */
    buffer_append(&bench.section.body, "\x0f!", 2);
    send(&bench);
    coalesce_take(bench.coalesce, SLICE("\xff\xff"), (struct log_position){2, 8});
    add(&bench, "views", 0, 1);
    send(&bench);

    struct store_batch *batch = finish(&bench);
    assert_int_equal(unit_of(batch, "views")->delta.small, 6);
    assert_int_equal(batch->poison_count, 2);
    assert_true(slice_equal(batch->poison[0].raw, SLICE("\x0f!")));
    assert_non_null(strstr(batch->poison[0].reason, "unknown type"));
    assert_true(slice_equal(batch->poison[1].raw, SLICE("\xff\xff")));
    assert_int_equal(batch->poison[1].position.segment, 2);
    bench_done(&bench);
}

TEST(raw_events_of_a_unit_make_the_same_unit_again)
{
    struct bench bench;
    bench_init(&bench);
    react(&bench, "video1", 4, "ann", 4, "", "like");
    add(&bench, "views", 0, 5);
    react(&bench, "video1", 4, "17", EVENT_NO_NUMBER, "", "dislike");
    struct event big = {.type = EVENT_ADD, .id = SLICE("views")};
    assert_int_equal(number_parse(SLICE("100000000000000000000"), &big.amount), ERR_OK);
    section_event(&bench.section, &big);
    number_done(&big.amount);
    send(&bench);
    struct store_batch *batch = finish(&bench);

    struct coalesce *again = coalesce_new(env_system(), &kinds);
    for (size_t i = 0; i < batch->unit_count; i++) {
        const struct store_unit *was = &batch->units[i];
        struct buffer raw;
        buffer_init(&raw, 1 << 20);
        batch->raw(batch->raw_arg, i, &raw);
        struct store_unit *is;
        assert_int_equal(coalesce_raw_unit(again, buffer_slice(&raw), was->event_id, &is, NULL),
                         ERR_OK);
        assert_memory_equal(is->event_id, was->event_id, sizeof(is->event_id));
        assert_true(slice_equal(is->id, was->id));
        assert_int_equal(is->is_item, was->is_item);
        assert_int_equal(is->incarnation, was->incarnation);
        assert_int_equal(is->events, was->events);
        assert_int_equal(number_compare(&is->delta, &was->delta), 0);
        assert_int_equal(is->reaction_count, was->reaction_count);
        for (size_t k = 0; k < is->reaction_count; k++) {
            assert_true(slice_equal(is->reactions[k].user, was->reactions[k].user));
            assert_int_equal(is->reactions[k].sequence, was->reactions[k].sequence);
            assert_int_equal(is->reactions[k].number, was->reactions[k].number);
        }
        assert_true(slice_equal(is->raw, buffer_slice(&raw)));
        buffer_done(&raw);
    }
    struct store_unit *none;
    assert_int_equal(
        coalesce_raw_unit(again, SLICE("nonsense"), batch->units[0].event_id, &none, NULL),
        ERR_CORRUPT);
    coalesce_free(again);
    bench_done(&bench);
}

/* Batches of any size follow one another in the same memory, and add up. */
TEST(sums_of_random_batches_are_right)
{
    enum { IDS = 3000 };
    static int64_t sums[IDS];
    static int64_t expected[IDS];
    struct bench bench;
    bench_init(&bench);
    struct sim_rng rng = {7};
    for (unsigned round = 0; round < 30; round++) {
        for (unsigned i = 0; i < 1 + round * 400; i++) {
            char id[16];
            unsigned number = (unsigned)(sim_rng_next(&rng) % IDS);
            snprintf(id, sizeof(id), "c%u", number);
            int64_t amount = (int64_t)(sim_rng_next(&rng) % 100) - 50;
            expected[number] += amount;
            add(&bench, id, 0, amount);
            if (sim_rng_next(&rng) % 64 == 0)
                send(&bench);
        }
        send(&bench);
        struct store_batch *batch = finish(&bench);
        for (size_t i = 0; i < batch->unit_count; i++) {
            char id[16];
            snprintf(id, sizeof(id), "%.*s", SLICE_ARGS(batch->units[i].id));
            sums[strtol(id + 1, NULL, 10)] += batch->units[i].delta.small;
        }
        bench.mark = batch->after;
        coalesce_begin(bench.coalesce, &bench.mark);
        assert_true(coalesce_is_empty(bench.coalesce));
    }
    assert_memory_equal(sums, expected, sizeof(sums));
    bench_done(&bench);
}

RUN(cmocka_unit_test(all_that_happens_to_an_id_is_one_unit),
    cmocka_unit_test(what_the_store_has_is_left_out),
    cmocka_unit_test(reactions_stand_by_item_in_their_order),
    cmocka_unit_test(a_deletion_undoes_what_came_before_it_and_late_events_are_dropped),
    cmocka_unit_test(only_an_event_of_the_present_incarnation_may_make_something),
    cmocka_unit_test(a_reactions_counter_that_is_created_concerns_its_item),
    cmocka_unit_test(keys_and_repairs_are_handed_on_and_change_no_unit),
    cmocka_unit_test(what_cannot_be_read_is_poison_and_the_rest_goes_on),
    cmocka_unit_test(raw_events_of_a_unit_make_the_same_unit_again),
    cmocka_unit_test(sums_of_random_batches_are_right))
