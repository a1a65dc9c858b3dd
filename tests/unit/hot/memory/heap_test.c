#include "hot/memory/heap.h"

#include <string.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

static uint32_t take_used(struct heap *heap, size_t size)
{
    uint32_t ref = heap_take(heap, size);
    *(char *)heap_at(heap, ref) = 1;
    return ref;
}

TEST(no_record_has_the_address_none)
{
    for (size_t size = 1; size <= HEAP_RECORD_BYTES_MAX; size++) {
        struct heap heap;
        heap_init(&heap);
        uint32_t ref = heap_take(&heap, size);
        assert_int_not_equal(ref, HEAP_NONE);
        heap_done(&heap);
    }
}

TEST(an_empty_heap_has_no_bytes_and_no_records)
{
    struct heap heap;
    heap_init(&heap);
    assert_int_equal(heap_bytes(&heap), 0);
    assert_int_equal(heap_next(&heap, HEAP_NONE), HEAP_NONE);
    heap_done(&heap);
}

TEST(a_record_that_was_given_back_is_taken_again)
{
    struct heap heap;
    heap_init(&heap);
    uint32_t first = take_used(&heap, 24);
    uint32_t second = take_used(&heap, 24);
    heap_give(&heap, first, 24);
    heap_give(&heap, second, 24);
    assert_int_equal(*(char *)heap_at(&heap, first), 0);
    assert_int_equal(heap_take(&heap, 17), second); /* the same class */
    assert_int_equal(heap_take(&heap, 24), first);
    heap_done(&heap);
}

TEST(the_walk_sees_only_what_is_in_use)
{
    struct heap heap;
    heap_init(&heap);
    uint32_t refs[5000];
    for (int i = 0; i < 5000; i++)
        refs[i] = take_used(&heap, 40);
    for (int i = 0; i < 5000; i += 2)
        heap_give(&heap, refs[i], 40);

    uint32_t ref = HEAP_NONE;
    for (int i = 1; i < 5000; i += 2) {
        ref = heap_next(&heap, ref);
        assert_int_equal(ref, refs[i]);
    }
    assert_int_equal(heap_next(&heap, ref), HEAP_NONE);
    heap_done(&heap);
}

TEST(the_walk_goes_on_from_any_address)
{
    struct heap heap;
    heap_init(&heap);
    for (int i = 0; i < 3000; i++)
        take_used(&heap, (size_t)(i % 3 + 1) * 72);

    for (uint32_t from = 0; from < (heap.chunk_count + 2) * HEAP_STEPS_A_CHUNK; from++) {
        uint32_t ref = heap_next(&heap, from);
        if (ref == HEAP_NONE)
            continue;
        assert_true(ref > from);
        uint32_t class = heap.chunks[ref / HEAP_STEPS_A_CHUNK].class;
        assert_int_equal(ref % HEAP_STEPS_A_CHUNK % class, 0);
    }
    assert_int_equal(heap_next(&heap, UINT32_MAX), HEAP_NONE);
    heap_done(&heap);
}

TEST(chunks_hold_as_many_records_as_fit)
{
    struct heap heap;
    heap_init(&heap);
    uint32_t a_chunk = HEAP_CHUNK_BYTES / 512;
    for (uint32_t i = 0; i < a_chunk - 1; i++)
        take_used(&heap, 512);
    assert_int_equal(heap.chunk_count, 1); /* the record with the address none is left out */
    for (uint32_t i = 0; i < a_chunk; i++)
        take_used(&heap, 512);
    assert_int_equal(heap.chunk_count, 2);
    assert_true(heap_bytes(&heap) >= 2 * HEAP_CHUNK_BYTES);
    heap_done(&heap);
}

TEST(chunks_that_have_become_empty_go_back_and_their_places_are_used_again)
{
    enum { COUNT = 5000 };
    static uint32_t refs[COUNT];
    struct heap heap;
    heap_init(&heap);
    for (int i = 0; i < COUNT; i++)
        refs[i] = take_used(&heap, 64);
    assert_int_equal(heap.live_bytes, COUNT * 64);
    uint32_t places = heap.chunk_count;
    size_t full = heap_bytes(&heap);

    for (int i = 0; i < COUNT - 1; i++)
        heap_give(&heap, refs[i], 64);
    assert_int_equal(heap.live_bytes, 64);
    assert_true(heap_bytes(&heap) < full / 3);
    assert_int_equal(heap_next(&heap, HEAP_NONE), refs[COUNT - 1]);

    for (int i = 0; i < COUNT / 2; i++)
        take_used(&heap, 128);
    assert_true(heap.chunk_count <= places + 3); /* and not twice as many */
    heap_done(&heap);
}

TEST(one_record_that_comes_and_goes_does_not_move_chunks)
{
    struct heap heap;
    heap_init(&heap);
    uint32_t ref = take_used(&heap, 40);
    const void *chunk = heap.bytes[0];
    for (int i = 0; i < 10; i++) {
        heap_give(&heap, ref, 40);
        assert_ptr_equal(heap.bytes[0], chunk);
        ref = take_used(&heap, 40);
    }
    heap_done(&heap);
}

/* The model: a plain list of what was taken, each filled with a byte of its own. */
#define LIVE_MAX 3000

struct live {
    uint32_t ref;
    size_t size;
    unsigned char fill;
};

static void assert_filled(const struct heap *heap, struct live live)
{
    const unsigned char *bytes = heap_at(heap, live.ref);
    for (size_t i = 0; i < live.size; i++)
        assert_int_equal(bytes[i], live.fill);
}

static uint32_t walk_count(const struct heap *heap)
{
    uint32_t count = 0;
    for (uint32_t ref = HEAP_NONE; (ref = heap_next(heap, ref)) != HEAP_NONE;)
        count++;
    return count;
}

TEST(random_taking_and_giving_keeps_every_record_whole)
{
    static struct live live[LIVE_MAX];
    uint32_t count = 0;
    struct sim_rng rng = {42};
    struct heap heap;
    heap_init(&heap);

    for (int step = 0; step < 60000; step++) {
        bool takes = count == 0 || (count < LIVE_MAX && sim_rng_chance(&rng, 520));
        if (takes) {
            struct live new = {.size = 1 + sim_rng_below(&rng, HEAP_RECORD_BYTES_MAX),
                               .fill = (unsigned char)(1 + sim_rng_below(&rng, 255))};
            new.ref = heap_take(&heap, new.size);
            memset(heap_at(&heap, new.ref), new.fill, new.size);
            live[count++] = new;
        } else {
            uint32_t i = (uint32_t)sim_rng_below(&rng, count);
            assert_filled(&heap, live[i]);
            heap_give(&heap, live[i].ref, live[i].size);
            live[i] = live[--count];
        }
        if (step % 5000 == 0)
            assert_int_equal(walk_count(&heap), count);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_filled(&heap, live[i]);
    heap_done(&heap);
}

RUN(cmocka_unit_test(no_record_has_the_address_none),
    cmocka_unit_test(an_empty_heap_has_no_bytes_and_no_records),
    cmocka_unit_test(a_record_that_was_given_back_is_taken_again),
    cmocka_unit_test(the_walk_sees_only_what_is_in_use),
    cmocka_unit_test(the_walk_goes_on_from_any_address),
    cmocka_unit_test(chunks_hold_as_many_records_as_fit),
    cmocka_unit_test(chunks_that_have_become_empty_go_back_and_their_places_are_used_again),
    cmocka_unit_test(one_record_that_comes_and_goes_does_not_move_chunks),
    cmocka_unit_test(random_taking_and_giving_keeps_every_record_whole))
