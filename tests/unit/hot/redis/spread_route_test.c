/* Where sums go that are added to a counter of many shards. No server is needed: nothing is sent.
 */
/* threads */
#include "unit/test.h"

#include "base/hash.h"
#include "hot/redis/cluster.h"
#include "hot/redis/run_own.h"
#include "hot/redis/spread_own.h"

#define OPS 8u

static struct layer layer;
static struct kinds kinds;
static struct spread_entry *entry;
static struct run_batch batch;
static struct op ops[OPS];

/* A counter that has a piece in each cell, one slice each. */
static int begin(void **state)
{
    (void)state;
    layer = (struct layer){.env = env_system(),
                           .options = {.url = "redis://127.0.0.1:1", .kinds = &kinds}};
    layer.loop = loop_new(NULL);
    layer.calls = calls_new(&layer);
    layer.cluster = cluster_new(&layer, NULL);
    layer.spreads = spreads_new(&layer);
    entry = spread_get(layer.spreads, hash_stable(SLICE("c")), SLICE("c"));
    entry->has_map = true;
    entry->map = (struct map){.cells = UINT64_MAX, .change = MAP_STEADY, .shards = LIMIT_CELLS};
    for (unsigned s = 0; s < BUCKET_SLICES; s++)
        entry->map.owner[s] = (uint8_t)s;
    entry->create.policy = POLICY_ROUND_ROBIN;
    for (unsigned i = 0; i < OPS; i++)
        ops[i] = (struct op){.kind = OP_ADD,
                             .id = SLICE("c"),
                             .target = SLICE("c"),
                             .stable = entry->stable,
                             .amount = number_of(1),
                             .user_hash = (uintptr_t)&batch};
    return 0;
}

static int end(void **state)
{
    (void)state;
    spreads_free(layer.spreads);
    cluster_free(layer.cluster);
    calls_free(layer.calls);
    loop_free(layer.loop);
    return 0;
}

TEST(sums_of_one_batch_go_to_one_cell)
{
    batch.serial = 1;
    unsigned cell = spreads_cell_of(&layer, &ops[0]);
    for (unsigned i = 1; i < OPS; i++)
        assert_int_equal(spreads_cell_of(&layer, &ops[i]), cell);
    assert_int_equal(entry->under_way[0] + entry->under_way[1], OPS);
}

/* Several are under way, and a new one may lie in memory where another one was. */
TEST(each_batch_has_a_turn_of_its_own_wherever_it_lies)
{
    uint64_t cells = 0;
    for (unsigned i = 0; i < OPS; i++) {
        batch.serial = i + 1;
        cells |= map_bit(spreads_cell_of(&layer, &ops[i]));
    }
    assert_int_equal(__builtin_popcountll(cells), OPS);
}

TEST(a_batch_that_was_done_for_a_moment_goes_on_where_it_was)
{
    batch.serial = 1;
    unsigned cell = spreads_cell_of(&layer, &ops[3]);
    spreads_ended(&layer, &ops[3]);
    assert_int_equal(spreads_cell_of(&layer, &ops[0]), cell);
}

RUN(cmocka_unit_test_setup_teardown(sums_of_one_batch_go_to_one_cell, begin, end),
    cmocka_unit_test_setup_teardown(each_batch_has_a_turn_of_its_own_wherever_it_lies, begin, end),
    cmocka_unit_test_setup_teardown(a_batch_that_was_done_for_a_moment_goes_on_where_it_was, begin,
                                    end))
