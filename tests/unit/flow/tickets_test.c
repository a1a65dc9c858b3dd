/* threads */
#include "unit/test.h"

#include <pthread.h>

#include "flow/tickets.h"

/* Sequences up to this are in the log; of cell 7 everything is weak. */
static uint64_t logged;

static enum ticket_verdict judge(void *arg, const struct ticket *ticket)
{
    (void)arg;
    if (ticket->cell == 7)
        return TICKET_IS_WEAK;
    return ticket->sequence <= logged ? TICKET_IS_SAFE : TICKET_WAITS;
}

TEST(tickets_are_let_go_in_their_order)
{
    struct tickets tickets;
    tickets_init(&tickets);
    logged = 0;
    uint64_t first = tickets_take(&tickets, 0, 5, 0);
    uint64_t second = tickets_take(&tickets, 1, 3, 0);
    assert_true(second > first);
    logged = 3;
    assert_false(tickets_let_go(&tickets, 0, judge, NULL)); /* the second waits for the first */
    assert_int_equal(tickets_waiting(&tickets), 2);
    logged = 5;
    assert_true(tickets_let_go(&tickets, 0, judge, NULL));
    assert_int_equal(tickets_safe(&tickets), second);
    assert_int_equal(tickets_waiting(&tickets), 0);
    assert_false(tickets_any_weak(&tickets, first, first));
    tickets_done(&tickets);
}

TEST(what_was_let_go_without_the_log_stays_weak)
{
    struct tickets tickets;
    tickets_init(&tickets);
    logged = 10;
    uint64_t strong = tickets_take(&tickets, 0, 1, 0);
    uint64_t weak = tickets_take(&tickets, 7, 1, 0);
    uint64_t weak_too = tickets_take(&tickets, 7, 2, 0);
    uint64_t strong_too = tickets_take(&tickets, 0, 2, 0);
    assert_true(tickets_let_go(&tickets, 0, judge, NULL));
    assert_false(tickets_any_weak(&tickets, strong, strong));
    assert_true(tickets_any_weak(&tickets, weak, weak));
    assert_true(tickets_any_weak(&tickets, weak_too, weak_too));
    assert_false(tickets_any_weak(&tickets, strong_too, strong_too));
    assert_int_equal(tickets.weak_all, 2);
    tickets_done(&tickets);
}

TEST(of_more_ranges_than_are_remembered_the_oldest_count_as_weak)
{
    struct tickets tickets;
    tickets_init(&tickets);
    logged = UINT64_MAX;
    uint64_t first = tickets_take(&tickets, 0, 1, 0);
    uint64_t last = 0;
    for (unsigned i = 0; i < 2 * TICKETS_RANGES; i++) {
        (void)tickets_take(&tickets, 7, i, 0);
        last = tickets_take(&tickets, 0, i, 0);
    }
    assert_true(tickets_let_go(&tickets, 0, judge, NULL));
    assert_true(
        tickets_any_weak(&tickets, first, first)); /* nobody remembers: better to say less */
    assert_false(tickets_any_weak(&tickets, last, last));
    assert_true(tickets_any_weak(&tickets, last - 1, last - 1));
    tickets_done(&tickets);
}

TEST(there_is_room_for_any_number_of_them)
{
    struct tickets tickets;
    tickets_init(&tickets);
    logged = 0;
    for (uint64_t i = 1; i <= 10000; i++)
        assert_int_equal(tickets_take(&tickets, (unsigned)(i % 7), i, 0), i);
    for (logged = 1; logged <= 10000; logged += 999) {
        assert_true(tickets_let_go(&tickets, 0, judge, NULL));
        assert_int_equal(tickets_safe(&tickets), logged);
    }
    tickets_done(&tickets);
}

TEST(what_is_stuck_is_set_aside_and_the_others_do_not_wait)
{
    const uint64_t long_ns = (TICKETS_ASIDE_MS + 1) * UINT64_C(1000000);
    struct tickets tickets;
    tickets_init(&tickets);
    logged = 3;
    uint64_t stuck = tickets_take(&tickets, 0, 9, 1);
    uint64_t other = tickets_take(&tickets, 1, 3, 1);
    assert_false(tickets_let_go(&tickets, 2, judge, NULL));
    assert_true(tickets_let_go(&tickets, 1 + long_ns, judge, NULL));
    assert_int_equal(tickets_safe(&tickets), other);
    assert_true(tickets_any_aside(&tickets, stuck, stuck));
    assert_false(tickets_any_aside(&tickets, other, other));
    assert_int_equal(tickets_waiting(&tickets), 1);
    assert_int_equal(tickets.cells, 1);

    /* What comes later of the same cell is not waited for at all. */
    uint64_t stuck_too = tickets_take(&tickets, 0, 10, long_ns);
    uint64_t other_too = tickets_take(&tickets, 1, 3, long_ns);
    assert_true(tickets_let_go(&tickets, 1 + long_ns, judge, NULL));
    assert_int_equal(tickets_safe(&tickets), other_too);
    assert_true(tickets_any_aside(&tickets, other, other_too));
    assert_false(tickets_any_aside(&tickets, other, stuck_too - 1));

    uint64_t rounds = tickets_rounds(&tickets);
    logged = 9;
    assert_true(tickets_let_go(&tickets, 1 + long_ns, judge, NULL));
    assert_int_equal(tickets_rounds(&tickets), rounds + 1);
    assert_false(tickets_any_aside(&tickets, stuck, stuck));
    assert_true(tickets_any_aside(&tickets, stuck_too, stuck_too));
    logged = 10;
    assert_true(tickets_let_go(&tickets, 1 + long_ns, judge, NULL));
    assert_int_equal(tickets_waiting(&tickets), 0);
    assert_false(tickets_any_aside(&tickets, stuck, other_too));
    assert_false(tickets_any_weak(&tickets, stuck, other_too));
    tickets_done(&tickets);
}

static enum ticket_verdict judge_as_weak(void *arg, const struct ticket *ticket)
{
    return ticket->sequence == *(uint64_t *)arg ? TICKET_IS_WEAK : judge(NULL, ticket);
}

TEST(what_was_set_aside_may_become_weak_in_any_order)
{
    enum { COUNT = 12 };
    static const unsigned order[COUNT] = {7, 2, 3, 9, 8, 0, 1, 11, 5, 4, 6, 10};
    struct tickets tickets;
    tickets_init(&tickets);
    logged = 0;
    uint64_t numbers[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        numbers[i] = tickets_take(&tickets, 0, 1 + i, 0);
    uint64_t none = 0;
    assert_true(tickets_let_go(&tickets, UINT64_MAX / 2, judge_as_weak, &none));
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t which = 1 + order[i];
        assert_true(tickets_let_go(&tickets, UINT64_MAX / 2, judge_as_weak, &which));
        for (unsigned k = 0; k < COUNT; k++) {
            bool is_weak = false;
            for (unsigned j = 0; j <= i; j++)
                is_weak |= order[j] == k;
            assert_int_equal(tickets_any_weak(&tickets, numbers[k], numbers[k]), is_weak);
            assert_int_equal(tickets_any_aside(&tickets, numbers[k], numbers[k]), !is_weak);
        }
    }
    assert_int_equal(tickets.weak_all, COUNT);
    tickets_done(&tickets);
}

#define TAKERS 4
#define TAKES  20000

static void *take_many(void *arg)
{
    struct tickets *tickets = arg;
    uint64_t before = 0;
    for (unsigned i = 0; i < TAKES; i++) {
        uint64_t ticket = tickets_take(tickets, i % 64, 0, 0);
        if (ticket <= before)
            abort();
        before = ticket;
    }
    return NULL;
}

TEST(workers_take_while_the_relay_lets_go)
{
    struct tickets tickets;
    tickets_init(&tickets);
    logged = 0;
    pthread_t threads[TAKERS];
    for (unsigned i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, &tickets), 0);
    while (tickets_safe(&tickets) < (uint64_t)TAKERS * TAKES)
        (void)tickets_let_go(&tickets, 0, judge, NULL);
    for (unsigned i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(tickets_waiting(&tickets), 0);
    tickets_done(&tickets);
}

RUN(cmocka_unit_test(tickets_are_let_go_in_their_order),
    cmocka_unit_test(what_was_let_go_without_the_log_stays_weak),
    cmocka_unit_test(of_more_ranges_than_are_remembered_the_oldest_count_as_weak),
    cmocka_unit_test(there_is_room_for_any_number_of_them),
    cmocka_unit_test(what_is_stuck_is_set_aside_and_the_others_do_not_wait),
    cmocka_unit_test(what_was_set_aside_may_become_weak_in_any_order),
    cmocka_unit_test(workers_take_while_the_relay_lets_go))
