#include "base/pages.h"

#include <stdint.h>
#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

static bool is_zero(const char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (block[i] != 0)
            return false;
    return true;
}

TEST(a_block_is_of_zeros_also_when_it_is_used_again)
{
    char *block = pages_take(PAGES_BLOCK_MIN);
    char *other = pages_take(PAGES_BLOCK_MIN); /* keeps the page alive */
    assert_true(is_zero(block, PAGES_BLOCK_MIN));
    memset(block, 1, PAGES_BLOCK_MIN);
    pages_give(block, PAGES_BLOCK_MIN);
    block = pages_take(PAGES_BLOCK_MIN);
    assert_true(is_zero(block, PAGES_BLOCK_MIN));
    pages_give(block, PAGES_BLOCK_MIN);
    pages_give(other, PAGES_BLOCK_MIN);
}

TEST(what_is_out_is_counted)
{
    assert_int_equal(pages_bytes(), 0);
    void *small = pages_take(PAGES_BLOCK_MIN);
    void *large = pages_take((size_t)8 << 20);
    assert_int_equal(pages_bytes(), ((size_t)8 << 20) + PAGES_BLOCK_MIN);
    pages_give(small, PAGES_BLOCK_MIN);
    pages_give(large, (size_t)8 << 20);
    assert_int_equal(pages_bytes(), 0);
}

TEST(blocks_of_all_sizes_never_overlap)
{
    struct {
        uint64_t *block;
        size_t size;
    } held[64] = {0};
    struct sim_rng rng = {7};
    for (uint64_t round = 1; round <= 3000; round++) {
        unsigned i = (unsigned)(sim_rng_next(&rng) % 64);
        if (held[i].block) {
            size_t words = held[i].size / sizeof(uint64_t);
            for (size_t at = 0; at < words; at += 512)
                assert_int_equal(held[i].block[at], held[i].block[0]);
            pages_give(held[i].block, held[i].size);
            held[i].block = NULL;
            continue;
        }
        held[i].size = PAGES_BLOCK_MIN * (1 + sim_rng_next(&rng) % 100);
        held[i].block = pages_take(held[i].size);
        for (size_t at = 0; at < held[i].size / sizeof(uint64_t); at += 512)
            held[i].block[at] = round;
    }
    for (unsigned i = 0; i < 64; i++)
        if (held[i].block)
            pages_give(held[i].block, held[i].size);
    assert_int_equal(pages_bytes(), 0);
}

RUN(cmocka_unit_test(a_block_is_of_zeros_also_when_it_is_used_again),
    cmocka_unit_test(what_is_out_is_counted), cmocka_unit_test(blocks_of_all_sizes_never_overlap))
