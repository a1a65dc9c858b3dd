/* What is wanted is found in a table that clients fill with ids of their choice. The lengths of its
 * lists are looked at from the inside. */
#include "hot/redis/want.c" // NOLINT(bugprone-suspicious-include)

#include "unit/test.h"

#define MANY 200u

/* Ids that meet in one list for whoever knows no key. */
static void make_ids(char ids[MANY][16], uint64_t seed, unsigned lists)
{
    unsigned found = 0;
    for (unsigned n = 0; found < MANY; n++) {
        snprintf(ids[found], sizeof(ids[0]), "id-%u", n);
        found += hash_keyed(slice_of(ids[found]), seed) % lists == 17;
    }
}

TEST(ids_that_meet_without_the_key_do_not_meet_among_the_wants)
{
    char ids[MANY][16];
    make_ids(ids, (uint64_t)HOT_WANT_TARGET << 32, BUCKETS);
    struct wants *wants = wants_new(env_system(), "node");
    for (unsigned i = 0; i < MANY; i++) {
        bool is_news;
        struct want_question question = {.kind = HOT_WANT_TARGET, .id = slice_of(ids[i])};
        assert_int_equal(wants_add(wants, &question, &is_news), ERR_COLD);
        assert_true(is_news);
    }
    unsigned longest = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        unsigned length = 0;
        for (const struct entry *entry = wants->buckets[i]; entry; entry = entry->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(longest < 8);
    wants_free(wants);
}

TEST(keys_that_meet_without_the_key_do_not_meet_among_the_wants)
{
    struct wants *wants = wants_new(env_system(), "node");
    for (unsigned i = 0; i < MANY; i++) {
        bool is_news;
        struct want_question question = {.kind = HOT_WANT_KEY, .key_low = i, .key_high = i ^ 5};
        assert_int_equal(wants_add(wants, &question, &is_news), ERR_COLD);
    }
    unsigned length = 0;
    for (const struct entry *entry = wants->buckets[5]; entry; entry = entry->next)
        length++;
    assert_true(length < 8);
    wants_free(wants);
}

RUN(cmocka_unit_test(ids_that_meet_without_the_key_do_not_meet_among_the_wants),
    cmocka_unit_test(keys_that_meet_without_the_key_do_not_meet_among_the_wants))
