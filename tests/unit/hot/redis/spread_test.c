/* What is spread is found in a table that clients fill with ids of their choice. The lengths of its
 * lists are looked at from the inside. */
#include "hot/redis/spread.c" // NOLINT(bugprone-suspicious-include)

#include "unit/test.h"

#define MANY 200u

/* They meet in one list for whoever knows no key. */
static uint64_t chosen(uint64_t i)
{
    return i << 32 | 17 * LIMIT_CELLS;
}

TEST(ids_that_meet_without_the_key_do_not_meet_among_what_is_spread)
{
    struct layer layer = {.env = env_system()};
    struct spreads spreads = {.layer = &layer, .hash_key = env_random(layer.env)};
    for (uint64_t i = 0; i < MANY; i++)
        assert_non_null(spread_get(&spreads, chosen(i), SLICE("id")));
    unsigned longest = 0;
    for (unsigned i = 0; i < SPREAD_TABLE; i++) {
        unsigned length = 0;
        for (const struct spread_entry *entry = spreads.table[i]; entry; entry = entry->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(longest < 8);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(spread_find(&spreads, chosen(i), SLICE("id"))->stable, chosen(i));
    for (unsigned i = 0; i < SPREAD_TABLE; i++)
        while (spreads.table[i]) {
            struct spread_entry *entry = spreads.table[i];
            spreads.table[i] = entry->next;
            free_entry(entry);
        }
}

RUN(cmocka_unit_test(ids_that_meet_without_the_key_do_not_meet_among_what_is_spread))
