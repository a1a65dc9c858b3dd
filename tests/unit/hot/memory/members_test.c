#include "hot/memory/members.h"

#include "hot/memory/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bucket.h"
#include "core/kinds.h"
#include "sim/sim_rng.h"
#include "unit/test.h"

#define KINDS 3u
#define POOL  400u /* users: even ones are numbers, odd ones have names */
#define ITEM  "item"

/* An item, and what each user of the pool holds on it. */
struct people {
    struct users *users;
    struct entry *item;
    struct user pool[POOL];
    uint16_t buckets[POOL];
    uint8_t held[POOL];
};

static struct people *people_new(void)
{
    struct people *people = calloc(1, sizeof(*people));
    people->users = users_new(11);
    people->item = calloc(1, entry_size(sizeof(ITEM) - 1));
    people->item->kind = ENTRY_ITEM;
    people->item->id_last = sizeof(ITEM) - 2;
    memcpy(people->item->id, ITEM, sizeof(ITEM) - 1);
    for (unsigned i = 0; i < POOL; i++) {
        char name[256];
        /* The number of a name is also somebody's number: the class tells them apart. */
        int size = snprintf(name, sizeof(name), i % 2 ? "name-%u" : "%u", i / 2);
        struct slice text = {name, (size_t)size};
        uint64_t hash;
        if (!users_begin(people->users, text, &people->pool[i], &hash))
            assert_true(users_take(people->users, text, hash, &people->pool[i]));
        people->buckets[i] = bucket_of(SLICE(ITEM), text);
    }
    return people;
}

static void people_free(struct people *people)
{
    if (people->item->flags & ENTRY_CROWD)
        crowd_free(people->item->crowd);
    else
        own_free(people->item->block);
    free(people->item);
    users_free(people->users);
    free(people);
}

static uint8_t held_by(const struct people *people, unsigned i)
{
    if (!(people->item->flags & ENTRY_CROWD))
        return block_held(people->item, people->pool[i]);
    const struct crowd *crowd = people->item->crowd;
    return crowd_held(crowd, crowd_slice_of(crowd, people->buckets[i]), people->pool[i]);
}

static void change(struct people *people, unsigned i, uint8_t after)
{
    uint8_t before = people->held[i];
    people->held[i] = after;
    if (!(people->item->flags & ENTRY_CROWD)) {
        block_change(people->item, people->pool[i], before, after);
        return;
    }
    struct crowd *crowd = people->item->crowd;
    crowd_change(crowd, crowd_slice_of(crowd, people->buckets[i]), people->pool[i], before, after);
}

static unsigned member_count(const struct people *people)
{
    unsigned count = 0;
    for (unsigned i = 0; i < POOL; i++)
        count += people->held[i] != KIND_NONE;
    return count;
}

static void count_visit(void *arg, struct slice user)
{
    assert_true(user.size > 0);
    ++*(unsigned *)arg;
}

static void assert_as_known(const struct people *people)
{
    int64_t ought[KINDS] = {0};
    for (unsigned i = 0; i < POOL; i++) {
        assert_int_equal(held_by(people, i), people->held[i]);
        if (people->held[i] != KIND_NONE)
            ought[people->held[i] - 1]++;
    }
    int64_t counts[KINDS];
    if (people->item->flags & ENTRY_CROWD)
        crowd_counts(people->item->crowd, counts);
    else
        block_counts(people->item, KINDS, counts);
    for (uint8_t kind = 1; kind <= KINDS; kind++) {
        assert_int_equal(counts[kind - 1], ought[kind - 1]);
        if (people->item->flags & ENTRY_CROWD)
            assert_int_equal(crowd_recount(people->item->crowd, kind), ought[kind - 1]);
        for (uint32_t limit = 1; limit < 500; limit = limit * 5 + 2) {
            unsigned seen = 0;
            struct op_page page = {.limit = limit, .visit = count_visit, .arg = &seen};
            do {
                members_page(people->item, kind, people->users, &page);
            } while (page.cursor != 0);
            assert_int_equal(seen, ought[kind - 1]);
        }
    }
}

static void change_at_random(struct people *people, struct sim_rng *rng, unsigned most)
{
    for (unsigned step = 0; step < 3000; step++) {
        unsigned i = (unsigned)sim_rng_below(rng, POOL);
        uint8_t after = (uint8_t)sim_rng_below(rng, KINDS + 1);
        if (after == people->held[i])
            continue;
        if (people->held[i] == KIND_NONE && member_count(people) >= most)
            continue;
        change(people, i, after);
        if (step % 50 == 0)
            assert_as_known(people);
    }
    assert_as_known(people);
}

TEST(a_block_grows_one_by_one_and_keeps_one_tag)
{
    struct people *people = people_new();
    for (unsigned i = 0; i < BLOCK_MAX; i++) {
        assert_false(block_full(people->item));
        change(people, 2 * i, 1);
        assert_false(people->item->block_head.mixed);
        assert_true(people->item->block_head.capacity >= i + 1);
        assert_as_known(people);
    }
    assert_true(block_full(people->item));
    people_free(people);
}

TEST(a_member_of_another_kind_or_class_makes_a_block_mixed)
{
    for (unsigned before = 1; before < BLOCK_MAX; before++) {
        struct people *people = people_new();
        for (unsigned i = 0; i < before; i++)
            change(people, 2 * i, 1);
        if (before % 2)
            change(people, 1, 1); /* a name */
        else
            change(people, 2 * before, 2); /* another kind */
        assert_true(people->item->block_head.mixed);
        assert_as_known(people);
        people_free(people);
    }
}

TEST(a_block_of_one_may_change_its_mind_and_stays_simple)
{
    struct people *people = people_new();
    change(people, 4, 1);
    change(people, 4, 2);
    assert_false(people->item->block_head.mixed);
    assert_as_known(people);
    change(people, 4, KIND_NONE);
    change(people, 5, 3); /* the next first member sets the tag anew */
    assert_false(people->item->block_head.mixed);
    assert_as_known(people);
    people_free(people);
}

TEST(a_block_is_what_its_changes_make_it)
{
    struct sim_rng rng = {.state = 1};
    for (unsigned run = 0; run < 5; run++) {
        struct people *people = people_new();
        change_at_random(people, &rng, run == 0 ? 5 : BLOCK_MAX);
        people_free(people);
    }
}

TEST(a_crowd_has_the_members_of_the_block_it_comes_from)
{
    struct sim_rng rng = {.state = 2};
    struct people *people = people_new();
    change_at_random(people, &rng, BLOCK_MAX);
    people->item->incarnation = 9;
    people->item->written_s = 1234;
    crowd_from_block(people->item, 77, 5, KINDS);
    assert_as_known(people);
    const struct spread *spread = &people->item->crowd->spread;
    assert_int_equal(spread->incarnation, 9);
    assert_int_equal(spread->written_s, 1234);
    assert_int_equal(spread->home, 5);
    assert_int_equal(spread->hash, 77);
    assert_int_equal(people->item->crowd->slice_count, 1);
    change_at_random(people, &rng, POOL);
    people_free(people);
}

TEST(a_split_crowd_has_every_member_in_the_slice_of_its_bucket)
{
    struct sim_rng rng = {.state = 3};
    struct people *people = people_new();
    crowd_from_block(people->item, 77, 5, KINDS);
    change_at_random(people, &rng, POOL);
    crowd_split(people->item->crowd, people->users);
    assert_int_equal(people->item->crowd->slice_count, CROWD_SLICES);
    assert_as_known(people); /* which looks in that slice only */
    change_at_random(people, &rng, POOL);
    people_free(people);
}

TEST(an_empty_crowd_can_be_split)
{
    struct people *people = people_new();
    crowd_from_block(people->item, 77, 5, KINDS);
    crowd_split(people->item->crowd, people->users);
    assert_as_known(people);
    change(people, 3, 2);
    assert_as_known(people);
    people_free(people);
}

TEST(to_hold_a_kind_tells_what_was_held_before)
{
    struct sim_rng rng = {.state = 4};
    struct people *people = people_new();
    crowd_from_block(people->item, 77, 5, KINDS);
    crowd_split(people->item->crowd, people->users);
    struct crowd *crowd = people->item->crowd;
    for (unsigned step = 0; step < 5000; step++) {
        unsigned i = (unsigned)sim_rng_below(&rng, POOL);
        uint8_t kind = (uint8_t)(1 + sim_rng_below(&rng, KINDS));
        assert_int_equal(
            crowd_hold(crowd, crowd_slice_of(crowd, people->buckets[i]), people->pool[i], kind),
            people->held[i]);
        people->held[i] = kind;
    }
    assert_as_known(people);
    people_free(people);
}

RUN(cmocka_unit_test(a_block_grows_one_by_one_and_keeps_one_tag),
    cmocka_unit_test(a_member_of_another_kind_or_class_makes_a_block_mixed),
    cmocka_unit_test(a_block_of_one_may_change_its_mind_and_stays_simple),
    cmocka_unit_test(a_block_is_what_its_changes_make_it),
    cmocka_unit_test(a_crowd_has_the_members_of_the_block_it_comes_from),
    cmocka_unit_test(a_split_crowd_has_every_member_in_the_slice_of_its_bucket),
    cmocka_unit_test(an_empty_crowd_can_be_split),
    cmocka_unit_test(to_hold_a_kind_tells_what_was_held_before))
