#include "core/lifecycle.h"

#include <string.h>

#include "unit/test.h"

/* The whole machine once more, as a picture: a letter for where a move leads, '.' where it
 * is not allowed. Columns: success, retrying, failed, redrive, discard. */
static const char *const picture[LIFECYCLE_STATES] = {
    [LIFECYCLE_PENDING] = "SR...", [LIFECYCLE_RETRYING] = "SRF..",  [LIFECYCLE_SUCCESS] = ".....",
    [LIFECYCLE_FAILED] = "...RD",  [LIFECYCLE_DISCARDED] = ".....",
};

static const struct {
    char letter;
    enum lifecycle_state state;
} letters[] = {
    {'S', LIFECYCLE_SUCCESS},
    {'R', LIFECYCLE_RETRYING},
    {'F', LIFECYCLE_FAILED},
    {'D', LIFECYCLE_DISCARDED},
};

static const enum lifecycle_action actions[LIFECYCLE_MOVES] = {
    [LIFECYCLE_SET_SUCCESS] = LIFECYCLE_APPLY,     [LIFECYCLE_SET_RETRYING] = LIFECYCLE_WAIT,
    [LIFECYCLE_SET_FAILED] = LIFECYCLE_TO_LETTERS, [LIFECYCLE_REDRIVE] = LIFECYCLE_RESTART,
    [LIFECYCLE_DISCARD] = LIFECYCLE_GIVE_UP,
};

static char letter_of(enum lifecycle_state state)
{
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (letters[i].state == state)
            return letters[i].letter;
    }
    return '?';
}

TEST(every_move_in_every_state_leads_where_the_picture_says)
{
    for (unsigned from = 0; from < LIFECYCLE_STATES; from++) {
        for (unsigned move = 0; move < LIFECYCLE_MOVES; move++) {
            enum lifecycle_state next = LIFECYCLE_PENDING;
            enum lifecycle_action action = (enum lifecycle_action)99;
            enum err err = lifecycle_move((enum lifecycle_state)from, (enum lifecycle_move)move,
                                          &next, &action);
            if (picture[from][move] == '.') {
                assert_int_equal(err, ERR_INVALID);
                assert_int_equal(next, LIFECYCLE_PENDING);
                assert_int_equal(action, 99);
                continue;
            }
            assert_int_equal(err, ERR_OK);
            assert_int_equal(letter_of(next), picture[from][move]);
            assert_int_equal(action, actions[move]);
        }
    }
}

TEST(what_is_no_state_and_no_move_is_refused)
{
    enum lifecycle_state next;
    enum lifecycle_action action;
    assert_int_equal(
        lifecycle_move((enum lifecycle_state)LIFECYCLE_STATES, LIFECYCLE_REDRIVE, &next, &action),
        ERR_INVALID);
    assert_int_equal(
        lifecycle_move(LIFECYCLE_FAILED, (enum lifecycle_move)LIFECYCLE_MOVES, &next, &action),
        ERR_INVALID);
    assert_int_equal(
        lifecycle_move((enum lifecycle_state) - 1, (enum lifecycle_move) - 1, &next, &action),
        ERR_INVALID);
}

TEST(a_refusal_is_a_retry_five_times_and_then_a_failure)
{
    for (uint32_t retries = 0; retries < LIFECYCLE_RETRIES; retries++)
        assert_int_equal(lifecycle_refused(retries), LIFECYCLE_SET_RETRYING);
    assert_int_equal(lifecycle_refused(LIFECYCLE_RETRIES), LIFECYCLE_SET_FAILED);
    assert_int_equal(lifecycle_refused(UINT32_MAX), LIFECYCLE_SET_FAILED);
}

TEST(delays_double_from_one_second_to_sixteen)
{
    static const int64_t delays[LIFECYCLE_RETRIES] = {1000, 2000, 4000, 8000, 16000};
    for (uint32_t retry = 1; retry <= LIFECYCLE_RETRIES; retry++)
        assert_int_equal(lifecycle_delay_ms(retry), delays[retry - 1]);
}

TEST(names_are_read_back)
{
    static const char *const names[LIFECYCLE_STATES] = {"PENDING", "RETRYING", "SUCCESS", "FAILED",
                                                        "DISCARDED"};
    for (unsigned from = 0; from < LIFECYCLE_STATES; from++) {
        assert_string_equal(lifecycle_name((enum lifecycle_state)from), names[from]);
        enum lifecycle_state read;
        assert_true(lifecycle_parse(slice_of(names[from]), &read));
        assert_int_equal(read, from);
    }
    enum lifecycle_state read;
    assert_false(lifecycle_parse(SLICE("pending"), &read));
    assert_false(lifecycle_parse(SLICE("PENDIN"), &read));
    assert_false(lifecycle_parse(SLICE(""), &read));
}

TEST(what_is_due_later_than_any_delay_is_due_now)
{
    int64_t longest_ms = lifecycle_delay_ms(LIFECYCLE_RETRIES);
    assert_true(lifecycle_is_due(1000, 1000));
    assert_false(lifecycle_is_due(1001, 1000));
    assert_false(lifecycle_is_due(1000 + longest_ms, 1000));
    assert_true(lifecycle_is_due(1001 + longest_ms, 1000)); /* the clock has gone back */
}

TEST(a_unit_waits_for_those_before_it_but_sums_pass_the_letters_of_sums)
{
    struct lifecycle_queue queue = {0};
    assert_false(lifecycle_queue_blocks(&queue, false));
    lifecycle_queue_add(&queue, LIFECYCLE_FAILED, true);
    assert_false(lifecycle_queue_blocks(&queue, true));
    assert_true(lifecycle_queue_blocks(&queue, false));
    struct lifecycle_queue behind_barrier = queue;
    lifecycle_queue_add(&behind_barrier, LIFECYCLE_FAILED, false);
    assert_true(lifecycle_queue_blocks(&behind_barrier, true));
    lifecycle_queue_add(&queue, LIFECYCLE_RETRYING, true);
    assert_true(lifecycle_queue_blocks(&queue, true));
}

RUN(cmocka_unit_test(every_move_in_every_state_leads_where_the_picture_says),
    cmocka_unit_test(what_is_no_state_and_no_move_is_refused),
    cmocka_unit_test(a_refusal_is_a_retry_five_times_and_then_a_failure),
    cmocka_unit_test(delays_double_from_one_second_to_sixteen),
    cmocka_unit_test(names_are_read_back),
    cmocka_unit_test(what_is_due_later_than_any_delay_is_due_now),
    cmocka_unit_test(a_unit_waits_for_those_before_it_but_sums_pass_the_letters_of_sums))
