#include "hot/memory/cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/fingerprint.h"
#include "unit/test.h"

#define HASH_KEY 99u
#define NOW_MS   INT64_C(1700000000000)

/* A cell by itself, with somewhere to write its events to. */
struct rig {
    struct kinds kinds;
    struct users *users;
    struct section section;
    struct shard_picker picker;
    struct cell_turn turn;
    struct cell *cells; /* [LIMIT_CELLS]: for their loads; the first one is used */
    struct cell *cell;
};

static void rig_open(struct rig *rig)
{
    *rig = (struct rig){0};
    kinds_parse(&rig->kinds, SLICE("like,dislike"), NULL);
    rig->users = users_new(1);
    section_init(&rig->section);
    shard_picker_init(&rig->picker, 3, 1);
    rig->cells = aligned_alloc(64, LIMIT_CELLS * sizeof(*rig->cells));
    memset(rig->cells, 0, LIMIT_CELLS * sizeof(*rig->cells));
    rig->cell = &rig->cells[0];
    cell_init(rig->cell, 0, &rig->kinds, rig->users, HASH_KEY, 0);
    rig->turn = (struct cell_turn){
        .section = &rig->section, .now_ms = NOW_MS, .picker = &rig->picker, .cells = rig->cells};
}

static void rig_close(struct rig *rig)
{
    cell_done(rig->cell);
    free(rig->cells);
    section_done(&rig->section);
    users_free(rig->users);
}

static enum cell_result ask(struct rig *rig, struct op *op)
{
    op->target = op->id;
    op->hash = hash_keyed(op->id, HASH_KEY);
    op->code = ERR_OK;
    op->changed = false;
    op->value = number_of(0);
    return cell_run(rig->cell, &rig->turn, op);
}

static void create(struct rig *rig, const char *id, uint32_t shards, enum policy policy)
{
    struct op_create as = {.shards = shards, .policy = policy};
    struct op op = {.kind = OP_CREATE, .id = slice_of(id), .create = &as};
    rig->turn.alone = true;
    assert_int_equal(ask(rig, &op), CELL_DONE);
    rig->turn.alone = false;
    assert_int_equal(op.code, ERR_OK);
}

TEST(each_change_writes_one_event_and_reading_writes_none)
{
    struct rig rig;
    rig_open(&rig);
    struct op op = {.kind = OP_ADD, .id = SLICE("a"), .amount = number_of(2)};
    for (uint32_t i = 1; i <= 5; i++) {
        assert_int_equal(ask(&rig, &op), CELL_DONE);
        assert_int_equal(rig.section.count, i);
    }
    op.kind = OP_GET;
    assert_int_equal(ask(&rig, &op), CELL_DONE);
    assert_int_equal(op.value.small, 10);
    op.kind = OP_ADD;
    op.amount = number_of(0);
    assert_int_equal(ask(&rig, &op), CELL_DONE);
    assert_int_equal(rig.section.count, 5);
    rig_close(&rig);
}

TEST(the_writes_of_a_spread_counter_belong_to_all_of_its_cells)
{
    for (unsigned policy = POLICY_RANDOM; policy <= POLICY_LEAST_LOADED; policy++) {
        struct rig rig;
        rig_open(&rig);
        create(&rig, "a", 8, (enum policy)policy);
        unsigned visits[LIMIT_CELLS] = {0};
        for (unsigned i = 0; i < 400; i++) {
            struct op op = {.kind = OP_ADD, .id = SLICE("a"), .amount = number_of(1)};
            enum cell_result result = ask(&rig, &op);
            assert_true(result == (op.cell == 0 ? CELL_DONE : CELL_ELSEWHERE));
            atomic_fetch_add(&rig.cells[op.cell].writes, op.cell != 0);
            visits[op.cell]++;
        }
        for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
            assert_true((visits[cell] > 20) == (cell % 8 == 0));
        rig_close(&rig);
    }
}

TEST(what_concerns_all_pieces_needs_all_cells)
{
    struct rig rig;
    rig_open(&rig);
    create(&rig, "a", 8, POLICY_LOCAL);
    struct op ops[] = {{.kind = OP_SET, .id = SLICE("a"), .amount = number_of(5)},
                       {.kind = OP_DELETE, .id = SLICE("a")}};
    for (unsigned i = 0; i < 2; i++) {
        rig.turn.alone = false;
        assert_int_equal(ask(&rig, &ops[i]), CELL_ALONE);
        rig.turn.alone = true;
        assert_int_equal(ask(&rig, &ops[i]), CELL_DONE);
        assert_true(ops[i].changed);
    }
    assert_non_null(rig.cell->retired); /* somebody may be on the way to it */
    assert_true(rig.cell->retired->gone);
    rig_close(&rig);
}

TEST(an_op_that_was_sent_to_a_piece_that_is_gone_goes_home)
{
    struct rig rig;
    rig_open(&rig);
    create(&rig, "a", 8, POLICY_LOCAL);
    struct entry *counter = cell_find(rig.cell, hash_keyed(SLICE("a"), HASH_KEY), SLICE("a"));
    struct spread *spread = &cell_rare(rig.cell, counter)->parts->spread;
    cell_reshard_counter(rig.cell, counter, 1);
    assert_true(spread->gone);
    struct op op = {.kind = OP_ADD, .id = SLICE("a"), .amount = number_of(1), .route = spread};
    op.cell = 8;
    assert_int_equal(ask(&rig, &op), CELL_ELSEWHERE);
    assert_null(op.route);
    assert_int_equal(op.cell, 0);
    assert_int_equal(ask(&rig, &op), CELL_DONE);
    assert_int_equal(op.value.small, 1);
    rig_close(&rig);
}

TEST(places_of_rare_things_are_used_again)
{
    struct rig rig;
    rig_open(&rig);
    for (unsigned round = 0; round < 5; round++) {
        char id[16];
        for (unsigned i = 0; i < 1000; i++) {
            snprintf(id, sizeof(id), "c%u", i);
            create(&rig, id, 1, POLICY_RANDOM);
        }
        for (unsigned i = 0; i < 1000; i++) {
            snprintf(id, sizeof(id), "c%u", i);
            struct op op = {.kind = OP_DELETE, .id = slice_of(id)};
            assert_int_equal(ask(&rig, &op), CELL_DONE);
            assert_true(op.changed);
        }
        assert_int_equal(rig.cell->rare_count, 1001);
        section_clear(&rig.section);
    }
    assert_int_equal(rig.cell->counters, 0);
    rig_close(&rig);
}

TEST(incarnations_do_not_begin_anew)
{
    struct rig rig;
    rig_open(&rig);
    rig.cell->incarnation = UINT32_MAX - 1;
    for (unsigned i = 0; i < 3; i++) {
        struct op op = {.kind = OP_ADD, .id = SLICE("a"), .amount = number_of(1)};
        assert_int_equal(ask(&rig, &op), CELL_DONE);
        assert_int_equal(op.value.small, 1);
        op.kind = OP_DELETE;
        assert_int_equal(ask(&rig, &op), CELL_DONE);
        assert_true(op.changed);
        assert_int_equal(rig.cell->incarnation, UINT32_MAX);

        struct event event = {.type = EVENT_DELETE, .id = op.id, .next_incarnation = UINT32_MAX};
        struct cell_target target = {.id = op.id, .hash = op.hash};
        assert_int_equal(cell_replay(rig.cell, &event, &target, NULL), ERR_OK);
        event.next_incarnation--;
        assert_int_equal(cell_replay(rig.cell, &event, &target, NULL), ERR_CORRUPT);
    }
    rig_close(&rig);
}

TEST(a_sweep_stops_before_what_is_spread)
{
    struct rig rig;
    rig_open(&rig);
    create(&rig, "a", 4, POLICY_LOCAL);
    create(&rig, "b", 1, POLICY_LOCAL);
    struct op op = {.kind = OP_EXPIRE, .deadline_ms = NOW_MS + 1};
    op.id = SLICE("a");
    assert_int_equal(ask(&rig, &op), CELL_DONE);
    op.id = SLICE("b");
    assert_int_equal(ask(&rig, &op), CELL_DONE);
    assert_true(cell_sweep(rig.cell, &rig.turn, 10));
    assert_int_equal(rig.cell->expired, 0);

    rig.turn.now_ms++;
    assert_false(cell_sweep(rig.cell, &rig.turn, 10));
    assert_int_equal(rig.cell->expired, 0);
    rig.turn.alone = true;
    assert_true(cell_sweep(rig.cell, &rig.turn, 10));
    assert_int_equal(rig.cell->expired, 2);
    assert_int_equal(rig.cell->counters, 0);
    assert_int_equal(rig.cell->mortal, 0);
    rig_close(&rig);
}

TEST(two_writes_have_one_fingerprint_only_if_they_are_the_same)
{
    static const char *const users[] = {"u", "u1", "u10", "u2", "v1", "1", "2", "12"};
    static const enum op_kind kinds[] = {OP_REACT, OP_WITHDRAW, OP_TOGGLE};
    struct kinds order;
    kinds_parse(&order, SLICE("like,dislike"), NULL);
    uint64_t seen[8 * 3 * 3];
    unsigned count = 0;
    for (unsigned user = 0; user < 8; user++) {
        for (unsigned kind = 0; kind < 3; kind++) {
            for (uint8_t reaction = 0; reaction < 3; reaction++) {
                struct op op = {
                    .kind = kinds[kind], .user = slice_of(users[user]), .reaction = reaction};
                seen[count] = fingerprint_of(&order, &op);
                assert_int_equal(fingerprint_of(&order, &op), seen[count]);
                for (unsigned i = 0; i < count; i++)
                    assert_int_not_equal(seen[i], seen[count]);
                count++;
            }
        }
    }
    struct op add = {.kind = OP_ADD, .amount = number_of(1)};
    struct op subtract = {.kind = OP_ADD, .amount = number_of(-1)};
    struct op set = {.kind = OP_SET, .amount = number_of(1)};
    assert_int_not_equal(fingerprint_of(&order, &add), fingerprint_of(&order, &subtract));
    assert_int_not_equal(fingerprint_of(&order, &add), fingerprint_of(&order, &set));

    struct kinds other_order;
    kinds_parse(&other_order, SLICE("love,dislike,like"), NULL);
    struct op before = {.kind = OP_REACT, .user = SLICE("ann"), .reaction = 1};
    struct op after = {.kind = OP_REACT, .user = SLICE("ann"), .reaction = 3};
    assert_int_equal(fingerprint_of(&order, &before), fingerprint_of(&other_order, &after));
}

RUN(cmocka_unit_test(each_change_writes_one_event_and_reading_writes_none),
    cmocka_unit_test(the_writes_of_a_spread_counter_belong_to_all_of_its_cells),
    cmocka_unit_test(what_concerns_all_pieces_needs_all_cells),
    cmocka_unit_test(an_op_that_was_sent_to_a_piece_that_is_gone_goes_home),
    cmocka_unit_test(places_of_rare_things_are_used_again),
    cmocka_unit_test(incarnations_do_not_begin_anew),
    cmocka_unit_test(a_sweep_stops_before_what_is_spread),
    cmocka_unit_test(two_writes_have_one_fingerprint_only_if_they_are_the_same))
