/* Totals of what is spread, as workers see them. No server is needed: nothing is sent. */
/* threads */
#include "unit/test.h"

#include "base/hash.h"
#include "base/memory.h"
#include "hot/redis/cluster.h"
#include "hot/redis/spread_own.h"

#define IDLE_S  60u
#define WAS_MS  INT64_C(1700000000000)
#define OVER_MS (WAS_MS + IDLE_S * 1000)

static struct layer layer;
static struct kinds kinds;
static struct spread_entry *entry;
static int64_t wall_ms;

static uint64_t still(struct env *env)
{
    (void)env;
    return UINT64_C(1000000000);
}

static int64_t wall(struct env *env)
{
    (void)env;
    return wall_ms;
}

static uint64_t seven(struct env *env)
{
    (void)env;
    return 7;
}

static struct env env = {.monotonic_ns = still, .wall_ms = wall, .random = seven};

static void make_entry(bool is_item)
{
    entry = spread_get(layer.spreads, hash_stable(SLICE("c")), SLICE("c"));
    entry->has_map = true;
    entry->map =
        (struct map){.cells = map_bit(3), .change = MAP_STEADY, .shards = 1, .is_item = is_item};
    entry->written_ms = WAS_MS;
    entry->asked_ns = still(NULL);
    struct spread_part *part = total_part(entry, 3);
    part->is_known = true;
    part->value = number_of(5);
    part->counts[0] = 5;
}

static int begin(void **state)
{
    (void)state;
    wall_ms = WAS_MS;
    kinds_parse(&kinds, SLICE("like"), NULL);
    layer = (struct layer){.env = &env, .options = {.url = "redis://127.0.0.1:1", .kinds = &kinds}};
    layer.loop = loop_new(NULL);
    layer.calls = calls_new(&layer);
    layer.cluster = cluster_new(&layer, NULL);
    layer.spreads = spreads_new(&layer);
    make_entry(false);
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

/* What a worker finds, without asking the layer's thread. */
static bool is_answered(const char *id, uint8_t kind)
{
    struct op op = {.kind = OP_GET,
                    .id = slice_of(id),
                    .target = SLICE("c"),
                    .target_kind = kind,
                    .stable = entry->stable};
    bool is = spreads_answer(&layer, &op);
    if (is)
        assert_int_equal(op.value.small, 5);
    return is;
}

static void assert_over_at(int64_t over_ms)
{
    total_publish(entry);
    wall_ms = over_ms - 1;
    assert_true(is_answered("c", KIND_NONE));
    wall_ms = over_ms;
    assert_false(is_answered("c", KIND_NONE));
}

TEST(what_never_ends_is_answered_at_any_time)
{
    total_publish(entry);
    wall_ms = WAS_MS * 2;
    assert_true(is_answered("c", KIND_NONE));
}

TEST(a_counter_that_the_server_lets_expire_when_idle_is_not_answered_after_its_time)
{
    layer.options.idle_s = IDLE_S;
    assert_over_at(OVER_MS);
}

TEST(an_idle_time_of_its_own_counts_instead_of_the_servers)
{
    layer.options.idle_s = IDLE_S;
    entry->create.idle_s = 2 * IDLE_S;
    assert_over_at(OVER_MS + IDLE_S * 1000);
}

TEST(a_deadline_counts_if_it_is_earlier)
{
    layer.options.idle_s = IDLE_S;
    entry->deadline_ms = WAS_MS + 5;
    assert_over_at(WAS_MS + 5);
}

TEST(items_never_expire)
{
    entry->map.is_item = true;
    layer.options.idle_s = IDLE_S;
    total_publish(entry);
    wall_ms = WAS_MS * 2;
    assert_true(is_answered("c/like", 1));
}

RUN(cmocka_unit_test_setup_teardown(what_never_ends_is_answered_at_any_time, begin, end),
    cmocka_unit_test_setup_teardown(
        a_counter_that_the_server_lets_expire_when_idle_is_not_answered_after_its_time, begin, end),
    cmocka_unit_test_setup_teardown(an_idle_time_of_its_own_counts_instead_of_the_servers, begin,
                                    end),
    cmocka_unit_test_setup_teardown(a_deadline_counts_if_it_is_earlier, begin, end),
    cmocka_unit_test_setup_teardown(items_never_expire, begin, end))
