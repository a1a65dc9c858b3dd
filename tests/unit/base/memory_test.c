#include "base/memory.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#include "unit/test.h"

TEST(zeroed_memory_is_zero)
{
    char *block = memory_take_zeroed(1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(block[i], 0);
    free(block);
}

TEST(a_block_keeps_its_bytes_when_it_is_resized)
{
    char *block = memory_resize(NULL, 4);
    block[3] = 'x';
    block = memory_resize(block, 100000);
    assert_int_equal(block[3], 'x');
    free(block);
}

TEST(the_usable_size_holds_what_was_asked_for_and_costs_no_more)
{
    for (size_t size = 1; size < 2000; size++) {
        size_t usable = memory_usable(size);
        assert_true(usable >= size);
        assert_int_equal(memory_cost(usable), memory_cost(size));
    }
}

/* The sanitizers bring a malloc of their own, which has other sizes. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MALLOC_IS_GLIBCS true
#else
#define MALLOC_IS_GLIBCS false
#endif

TEST(the_usable_size_is_what_malloc_says)
{
    for (size_t size = 1; size < 2000; size++) {
        void *block = memory_take(size);
        size_t usable = malloc_usable_size(block);
        assert_true(usable >= size);
        /* A block cut from a larger one may keep 16 bytes that are too few to be left alone. */
        if (MALLOC_IS_GLIBCS)
            assert_true(usable == memory_usable(size) || usable == memory_usable(size) + 16);
        free(block);
    }
}

TEST(what_is_resident_grows_with_what_is_used)
{
    enum { BYTES = 64 << 20 };
    uint64_t before = memory_resident_bytes();
    char *block = memory_take(BYTES);
    for (volatile char *at = block; at < block + BYTES; at += 4096)
        *at = 1;
    assert_true(memory_resident_bytes() >= before + BYTES / 2);
    free(block);
}

RUN(cmocka_unit_test(zeroed_memory_is_zero),
    cmocka_unit_test(a_block_keeps_its_bytes_when_it_is_resized),
    cmocka_unit_test(the_usable_size_holds_what_was_asked_for_and_costs_no_more),
    cmocka_unit_test(the_usable_size_is_what_malloc_says),
    cmocka_unit_test(what_is_resident_grows_with_what_is_used))
