/* What the store has said is found in a table that clients fill with ids of their choice. The
 * lengths of its lists are looked at from the inside. */
#include "hot/redis/stale.c" // NOLINT(bugprone-suspicious-include)

#include <stdio.h>

#include "unit/test.h"

#define MANY 200u

static struct kinds kinds;

/* Ids that meet in one list for whoever knows no key. */
static void make_ids(char ids[MANY][16], uint64_t seed, unsigned lists)
{
    unsigned found = 0;
    for (unsigned n = 0; found < MANY; n++) {
        snprintf(ids[found], sizeof(ids[0]), "id-%u", n);
        found += hash_keyed(slice_of(ids[found]), seed) % lists == 17;
    }
}

TEST(ids_that_meet_without_the_key_do_not_meet_among_stale_answers)
{
    char ids[MANY][16];
    make_ids(ids, STALE_WHOLE, BUCKETS);
    struct stales *stales = stales_new(env_system(), 0);
    for (unsigned i = 0; i < MANY; i++) {
        struct image image;
        image_init(&image, &kinds);
        stales_put(stales, slice_of(ids[i]), STALE_WHOLE, &image);
    }
    unsigned longest = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        unsigned length = 0;
        for (const struct answer *answer = stales->buckets[i]; answer; answer = answer->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(longest < 8);
    stales_free(stales);
}

RUN(cmocka_unit_test(ids_that_meet_without_the_key_do_not_meet_among_stale_answers))
