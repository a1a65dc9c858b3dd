#include "door/pass/auth_throttle.h"

#include "net/conn.h"
#include "unit/test.h"

#define ADDRESS(number) (CONN_NETWORK_IPV4 | (number))
#define HERE            ADDRESS(1)
#define THERE           ADDRESS(2)

static struct auth_throttle throttle;

/* A guess on a connection of its own: how long it waits before it is looked at. */
static uint64_t guess(uint64_t network, uint64_t now_ms, bool is_right)
{
    struct auth_turn turn = {0};
    uint64_t wait_ms = auth_throttle_wait(&throttle, network, now_ms, &turn);
    if (wait_ms == AUTH_NEVER)
        return AUTH_NEVER;
    if (wait_ms > 0) {
        assert_int_equal(auth_throttle_wait(&throttle, network, now_ms + wait_ms - 1, &turn), 1);
        assert_int_equal(auth_throttle_wait(&throttle, network, now_ms + wait_ms, &turn), 0);
    }
    assert_true(turn.is_granted);
    auth_throttle_used(&throttle, network, is_right, &turn);
    return wait_ms;
}

TEST(some_wrong_passwords_are_free_and_further_ones_wait_whatever_the_connection)
{
    auth_throttle_init(&throttle, 7);
    for (unsigned i = 0; i < AUTH_FREE; i++)
        assert_int_equal(guess(HERE, 1000, false), 0);
    for (unsigned i = 1; i <= 10; i++)
        assert_int_equal(guess(HERE, 1000, false), i * AUTH_EVERY_MS);
    assert_int_equal(guess(THERE, 1000, false), 0);
    auth_throttle_done(&throttle);
}

TEST(a_right_password_waits_its_turn_and_is_never_held_up_for_long)
{
    auth_throttle_init(&throttle, 7);
    for (unsigned i = 0; i < AUTH_FREE + 20; i++)
        (void)guess(HERE, 1000, false);
    assert_in_range(guess(HERE, 1000, true), 1, AUTH_WAIT_MS);
    assert_int_equal(guess(HERE, 1000 + AUTH_WAIT_MS, true), 0);
    auth_throttle_done(&throttle);
}

TEST(right_passwords_cost_nothing)
{
    auth_throttle_init(&throttle, 7);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(guess(HERE, 1000, true), 0);
    assert_int_equal(guess(HERE, 1000, false), 0);
    auth_throttle_done(&throttle);
}

TEST(a_flood_is_looked_at_at_a_rate_and_the_rest_is_refused)
{
    auth_throttle_init(&throttle, 7);
    unsigned looked_at = 0;
    for (uint64_t now_ms = 1000; now_ms < 21000; now_ms++)
        looked_at += guess(HERE, now_ms, false) != AUTH_NEVER;
    assert_in_range(looked_at, 20000 / AUTH_EVERY_MS, (20000 + AUTH_WAIT_MS) / AUTH_EVERY_MS + 20);
    assert_int_equal(guess(HERE, 21000 + 2 * AUTH_WAIT_MS, true), 0);
    auth_throttle_done(&throttle);
}

TEST(right_passwords_are_looked_at_at_once_soon_after_the_guessing_has_stopped)
{
    auth_throttle_init(&throttle, 7);
    for (unsigned i = 0; i < 1000; i++)
        (void)guess(HERE, 1000, false);
    for (uint64_t now_ms = 1000; now_ms < 21000; now_ms += 10) {
        uint64_t wait_ms = guess(HERE, now_ms, true);
        if (now_ms > 1000 + AUTH_WAIT_MS)
            assert_int_equal(wait_ms, 0);
    }
    auth_throttle_done(&throttle);
}

TEST(turns_that_are_not_used_are_counted_and_no_debt_is_for_ever)
{
    static struct auth_turn turns[1000];
    memset(turns, 0, sizeof(turns));
    auth_throttle_init(&throttle, 7);
    unsigned granted = 0;
    for (unsigned i = 0; i < 1000; i++)
        granted += auth_throttle_wait(&throttle, HERE, 1000, &turns[i]) == 0;
    assert_int_equal(granted, AUTH_FREE);
    assert_int_equal(guess(HERE, 1000 + AUTH_WAIT_MS + AUTH_EVERY_MS, true), 0);
    auth_throttle_done(&throttle);
}

TEST(many_sources_take_no_more_memory_and_do_not_free_the_one_that_guesses)
{
    auth_throttle_init(&throttle, 7);
    for (unsigned i = 0; i < AUTH_FREE + 20; i++)
        (void)guess(HERE, 1000, false);
    for (uint64_t number = 100; number < 100000; number++)
        assert_int_equal(guess(ADDRESS(number), 1000, false), 0);
    assert_in_range(guess(HERE, 1000, false), 1, AUTH_WAIT_MS);
    auth_throttle_done(&throttle);
}

/* 65536 networks of IPv6 have one owner: 2001:db8:7::/48. */
TEST(all_networks_of_a_site_guess_at_a_rate_together)
{
    uint64_t site = UINT64_C(0x20010db800070000);
    uint64_t neighbour = UINT64_C(0x20010db800080000);
    auth_throttle_init(&throttle, 7);
    unsigned looked_at = 0;
    for (uint64_t i = 0; i < 60000; i++)
        looked_at += guess(site + i, 1000 + i / 6, false) != AUTH_NEVER; /* 10 s */
    assert_in_range(looked_at, 10000 / AUTH_SITE_EVERY_MS,
                    (10000 + AUTH_WAIT_MS) / AUTH_SITE_EVERY_MS + 200);
    assert_int_equal(guess(neighbour, 11000, false), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(guess(neighbour + 1, 11000, true), 0);
    auth_throttle_done(&throttle);
}

TEST(one_network_of_ipv6_guesses_as_often_as_an_address)
{
    auth_throttle_init(&throttle, 7);
    for (unsigned i = 0; i < AUTH_FREE; i++)
        assert_int_equal(guess(UINT64_C(0x20010db800070001), 1000, false), 0);
    assert_int_equal(guess(UINT64_C(0x20010db800070001), 1000, false), AUTH_EVERY_MS);
    assert_int_equal(guess(UINT64_C(0x20010db800070002), 1000, false), 0);
    auth_throttle_done(&throttle);
}

RUN(cmocka_unit_test(all_networks_of_a_site_guess_at_a_rate_together),
    cmocka_unit_test(one_network_of_ipv6_guesses_as_often_as_an_address),
    cmocka_unit_test(some_wrong_passwords_are_free_and_further_ones_wait_whatever_the_connection),
    cmocka_unit_test(a_right_password_waits_its_turn_and_is_never_held_up_for_long),
    cmocka_unit_test(right_passwords_cost_nothing),
    cmocka_unit_test(a_flood_is_looked_at_at_a_rate_and_the_rest_is_refused),
    cmocka_unit_test(right_passwords_are_looked_at_at_once_soon_after_the_guessing_has_stopped),
    cmocka_unit_test(turns_that_are_not_used_are_counted_and_no_debt_is_for_ever),
    cmocka_unit_test(many_sources_take_no_more_memory_and_do_not_free_the_one_that_guesses))
