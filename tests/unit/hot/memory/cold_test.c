#include "hot/memory/cold.h"

#include "unit/test.h"

#define IDS       30000u
#define SECOND_NS UINT64_C(1000000000)

static uint64_t now_ns;

static uint64_t monotonic_ns(struct env *env)
{
    (void)env;
    return now_ns;
}

static uint64_t no_random(struct env *env)
{
    (void)env;
    return 4;
}

static struct env env = {.monotonic_ns = monotonic_ns, .random = no_random};
static struct saves saves;

static struct cold *begin(void)
{
    uint64_t sequences[LIMIT_CELLS] = {0};
    now_ns = SECOND_NS;
    saves_init(&saves, sequences);
    return cold_new(&env, 1u << 20, 0);
}

static uint64_t hash_of(uint32_t i)
{
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The store was asked for all of these and has none. */
static void miss_all(struct cold *cold)
{
    for (uint32_t i = 0; i < IDS; i++)
        assert_int_equal(cold_ask_target(cold, hash_of(i), hash_of(i), SLICE("counter")), ERR_COLD);
    struct hot_want want;
    uint32_t taken = 0;
    for (; cold_take(cold, &want); taken++)
        cold_answer(cold, &want, hash_of(taken), ERR_NOT_FOUND);
    assert_int_equal(taken, IDS);
    assert_int_equal(cold_ask_target(cold, hash_of(0), hash_of(0), SLICE("counter")), ERR_OK);
}

TEST(memory_of_absent_ids_is_given_back_when_they_are_in_the_store)
{
    struct cold *cold = begin();
    size_t before = cold_bytes(cold);
    miss_all(cold);
    assert_true(cold_bytes(cold) > before + IDS * 16);

    for (uint32_t i = 0; i < IDS; i++)
        assert_true(cold_let_go(cold, hash_of(i), hash_of(i)));
    cold_tidy(cold, &saves, false);
    assert_int_equal(cold_bytes(cold), before);
    cold_free(cold);
}

TEST(memory_of_absent_ids_is_given_back_after_a_while_when_memory_is_short)
{
    struct cold *cold = begin();
    size_t before = cold_bytes(cold);
    miss_all(cold);
    cold_tidy(cold, &saves, true); /* all of them are remembered for a while */
    size_t full = cold_bytes(cold);
    assert_true(full > before + IDS * 16);

    now_ns += 11 * SECOND_NS;
    cold_tidy(cold, &saves, false);
    assert_int_equal(cold_bytes(cold), full);
    cold_tidy(cold, &saves, true);
    assert_int_equal(cold_bytes(cold), before);
    assert_int_equal(cold_ask_target(cold, hash_of(0), hash_of(0), SLICE("counter")), ERR_COLD);
    cold_free(cold);
}

RUN(cmocka_unit_test(memory_of_absent_ids_is_given_back_when_they_are_in_the_store),
    cmocka_unit_test(memory_of_absent_ids_is_given_back_after_a_while_when_memory_is_short))
