/* How the slices of something spread are shared out, and how its map is written down. */
#include "hot/redis/map.h"

#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

#define HOME 17u

static void on_primaries(unsigned primaries, uint8_t primary_of[LIMIT_CELLS])
{
    for (unsigned cell = 0; cell < LIMIT_CELLS; cell++)
        primary_of[cell] = (uint8_t)(cell * primaries / LIMIT_CELLS);
}

/* The largest share of a primary, in thousandths of an equal one. */
static unsigned busiest(const uint8_t owner[BUCKET_SLICES], const uint8_t *primary_of,
                        unsigned primaries)
{
    unsigned slices[LIMIT_CELLS] = {0};
    unsigned most = 0;
    for (unsigned s = 0; s < BUCKET_SLICES; s++) {
        unsigned count = ++slices[primary_of[owner[s]]];
        most = count > most ? count : most;
    }
    return most * 1000 * primaries / BUCKET_SLICES;
}

static unsigned cells_in(uint64_t cells)
{
    return (unsigned)__builtin_popcountll(cells);
}

TEST(a_map_is_read_as_it_was_written)
{
    struct map map;
    map_init(&map, true, HOME);
    map.version = UINT64_C(1700000000123);
    map.shards = 64;
    map.reason = HEAT_BUSY;
    map.changed_ms = 42;
    map.cells = UINT64_MAX;
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        map.owner[s] = (uint8_t)(63 - s);
    map.change = MAP_MOVE;
    map.from = 63;
    map.to = 9;
    map.slices = map_bit(63) | 1;

    char text[MAP_TEXT_MAX];
    char again[MAP_TEXT_MAX];
    struct map read;
    map_format(&map, text);
    assert_true(map_parse(slice_of(text), &read));
    map_format(&read, again);
    assert_string_equal(text, again);
    assert_int_equal(read.change, MAP_MOVE);
    assert_int_equal(read.owner[5], 58);
    assert_true(read.is_item && read.cells == UINT64_MAX && read.slices == map.slices);
}

TEST(what_is_no_map_is_not_taken_for_one)
{
    struct map map;
    map_init(&map, false, HOME);
    char text[MAP_TEXT_MAX];
    map_format(&map, text);
    struct map read;
    size_t size = strlen(text);
    for (size_t cut = 0; cut < size - 15; cut++)
        assert_false(map_parse((struct slice){text, cut}, &read));
    char *owners = strstr(text, "1111");
    assert_non_null(owners);
    owners[0] = 'f';
    assert_false(map_parse(slice_of(text), &read)); /* no such cell */
    assert_false(map_parse(slice_of("1 2 3"), &read));
}

TEST(each_primary_has_an_equal_share_of_the_slices)
{
    for (unsigned primaries = 1; primaries <= 7; primaries++) {
        uint8_t primary_of[LIMIT_CELLS];
        on_primaries(primaries, primary_of);
        for (uint32_t shards = primaries; shards <= LIMIT_CELLS; shards++) {
            struct map map;
            map_init(&map, true, HOME);
            uint8_t owner[BUCKET_SLICES];
            map_plan(&map, HOME, shards, primary_of, owner);
            memcpy(map.owner, owner, sizeof(owner));
            if (shards <= 32) /* as many slices as cells leave no choice at the end */
                assert_true(busiest(owner, primary_of, primaries) <=
                            1000 + 1000 * primaries / BUCKET_SLICES);
            assert_true(cells_in(map_owners(&map)) <= shards);
            assert_true(map_owners(&map) & map_bit(HOME));
        }
    }
}

TEST(eight_shards_on_three_primaries_are_within_a_twentieth_of_a_third)
{
    uint8_t primary_of[LIMIT_CELLS];
    on_primaries(3, primary_of);
    for (unsigned home = 0; home < LIMIT_CELLS; home++) {
        struct map map;
        map_init(&map, true, home);
        uint8_t owner[BUCKET_SLICES];
        map_plan(&map, home, 8, primary_of, owner);
        assert_true(busiest(owner, primary_of, 3) <= 1050);
        memcpy(map.owner, owner, sizeof(owner));
        assert_int_equal(cells_in(map_owners(&map)), 8);
    }
}

TEST(a_single_shard_is_at_home)
{
    uint8_t primary_of[LIMIT_CELLS];
    on_primaries(3, primary_of);
    struct map map;
    map_init(&map, true, HOME);
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        map.owner[s] = (uint8_t)s;
    uint8_t owner[BUCKET_SLICES];
    map_plan(&map, HOME, 1, primary_of, owner);
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        assert_int_equal(owner[s], HOME);
}

TEST(doubling_moves_about_half_of_the_slices_and_none_twice)
{
    uint8_t primary_of[LIMIT_CELLS];
    on_primaries(3, primary_of);
    struct map map;
    map_init(&map, true, HOME);
    for (uint32_t shards = 2; shards <= LIMIT_CELLS; shards *= 2) {
        uint8_t owner[BUCKET_SLICES];
        map_plan(&map, HOME, shards, primary_of, owner);
        unsigned moved = 0;
        for (unsigned s = 0; s < BUCKET_SLICES; s++)
            moved += owner[s] != map.owner[s];
        assert_true(moved <= 44);
        memcpy(map.owner, owner, sizeof(owner));
    }
}

/* Goes all the way, and says how many steps it were. */
static unsigned go(struct map *map, const uint8_t owner[BUCKET_SLICES])
{
    unsigned steps = 0;
    while (map_next(map, HOME, owner, 4)) {
        assert_true(steps++ < 1000);
        assert_int_equal(map_owners(map) & ~map->cells, 0);
        assert_true(map->change != MAP_MOVE || map->cells & map_bit(map->to));
        map_finish(map);
        if (map->change == MAP_ERASE)
            map_finish(map);
    }
    return steps;
}

TEST(step_by_step_a_map_gets_where_it_shall_and_back)
{
    test_draw_lots();
    uint8_t primary_of[LIMIT_CELLS];
    on_primaries(3, primary_of);
    for (int is_item = 0; is_item < 2; is_item++) {
        struct map map;
        map_init(&map, is_item, HOME);
        for (unsigned i = 0; i < 200; i++) {
            uint8_t owner[BUCKET_SLICES];
            map_plan(&map, HOME, 1 + (uint32_t)rand() % 64, primary_of, owner); /* NOLINT */
            go(&map, owner);
            assert_memory_equal(map.owner, owner, sizeof(owner));
            assert_true(map.cells == (map_owners(&map) | map_bit(HOME)));
        }
        uint8_t owner[BUCKET_SLICES];
        map_plan(&map, HOME, 1, primary_of, owner);
        go(&map, owner);
        assert_true(map_is_folded(&map, HOME));
    }
}

RUN(cmocka_unit_test(a_map_is_read_as_it_was_written),
    cmocka_unit_test(what_is_no_map_is_not_taken_for_one),
    cmocka_unit_test(each_primary_has_an_equal_share_of_the_slices),
    cmocka_unit_test(eight_shards_on_three_primaries_are_within_a_twentieth_of_a_third),
    cmocka_unit_test(a_single_shard_is_at_home),
    cmocka_unit_test(doubling_moves_about_half_of_the_slices_and_none_twice),
    cmocka_unit_test(step_by_step_a_map_gets_where_it_shall_and_back))
