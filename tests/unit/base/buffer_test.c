#include "base/buffer.h"

#include <stdio.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

static void assert_holds(const struct buffer *buffer, const char *text)
{
    assert_int_equal(buffer->size, strlen(text));
    assert_memory_equal(buffer->data, text, buffer->size);
}

TEST(what_is_appended_stands_behind_what_was_there)
{
    struct buffer buffer;
    buffer_init(&buffer, 1024);
    assert_int_equal(buffer_append(&buffer, "one", 3), ERR_OK);
    assert_int_equal(buffer_append_slice(&buffer, SLICE(" two")), ERR_OK);
    assert_int_equal(buffer_printf(&buffer, " %s %d", "three", 4), ERR_OK);
    assert_holds(&buffer, "one two three 4");
    buffer_done(&buffer);
}

TEST(a_buffer_fills_to_its_maximum_and_refuses_the_next_byte)
{
    for (size_t max = 0; max < 300; max++) {
        struct buffer buffer;
        buffer_init(&buffer, max);
        for (size_t i = 0; i < max; i++)
            assert_int_equal(buffer_append(&buffer, "x", 1), ERR_OK);
        assert_int_equal(buffer_append(&buffer, "y", 1), ERR_TOO_LARGE);
        assert_int_equal(buffer_printf(&buffer, "y"), ERR_TOO_LARGE);
        assert_int_equal(buffer.size, max);
        assert_true(buffer.capacity <= max);
        assert_int_equal(buffer_append(&buffer, NULL, 0), ERR_OK);
        buffer_done(&buffer);
    }
}

TEST(a_wish_beyond_counting_is_refused)
{
    struct buffer buffer;
    buffer_init(&buffer, 1024);
    buffer_append(&buffer, "abc", 3);
    assert_int_equal(buffer_reserve(&buffer, SIZE_MAX), ERR_TOO_LARGE);
    assert_int_equal(buffer_reserve(&buffer, 1022), ERR_TOO_LARGE);
    assert_int_equal(buffer_reserve(&buffer, 1021), ERR_OK);
    assert_holds(&buffer, "abc");
    buffer_done(&buffer);
}

TEST(a_formatted_text_may_fill_the_buffer_to_the_last_byte)
{
    struct buffer buffer;
    buffer_init(&buffer, 5);
    assert_int_equal(buffer_printf(&buffer, "%d", 123456), ERR_TOO_LARGE);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(buffer_printf(&buffer, "%d", 12345), ERR_OK);
    assert_holds(&buffer, "12345");
    assert_int_equal(buffer_printf(&buffer, "%s", ""), ERR_OK);
    buffer_done(&buffer);
}

TEST(shrinking_gives_memory_back_only_from_a_large_and_empty_buffer)
{
    struct buffer buffer;
    buffer_init(&buffer, 4096);
    assert_int_equal(buffer_reserve(&buffer, 2000), ERR_OK);
    buffer_append(&buffer, "x", 1);
    buffer_shrink(&buffer, 100);
    assert_true(buffer.capacity >= 2000);

    buffer_consume(&buffer, 1);
    buffer_shrink(&buffer, 1 << 20);
    assert_true(buffer.capacity >= 2000);
    buffer_shrink(&buffer, 100);
    assert_int_equal(buffer.capacity, 0);

    assert_int_equal(buffer_append(&buffer, "again", 5), ERR_OK);
    assert_holds(&buffer, "again");
    buffer_done(&buffer);
}

TEST(random_operations_leave_what_an_array_would_hold)
{
    enum { MAX = 1000 };
    char model[MAX + 1];
    size_t model_size = 0;
    struct sim_rng rng = {1};
    struct buffer buffer;
    buffer_init(&buffer, MAX);

    for (int step = 0; step < 100000; step++) {
        char piece[64];
        size_t size = sim_rng_below(&rng, sizeof(piece));
        for (size_t i = 0; i < size; i++)
            piece[i] = (char)sim_rng_next(&rng);

        switch (sim_rng_below(&rng, 4)) {
        case 0:
        case 1: {
            bool fits = model_size + size <= MAX;
            assert_int_equal(buffer_append(&buffer, piece, size), fits ? ERR_OK : ERR_TOO_LARGE);
            if (fits) {
                memcpy(model + model_size, piece, size);
                model_size += size;
            }
            break;
        }
        case 2: {
            char text[32];
            int wanted = snprintf(text, sizeof(text), "%.*d", (int)(size % 30) + 1, step);
            bool fits = model_size + (size_t)wanted <= MAX;
            assert_int_equal(buffer_printf(&buffer, "%s", text), fits ? ERR_OK : ERR_TOO_LARGE);
            if (fits) {
                memcpy(model + model_size, text, (size_t)wanted);
                model_size += (size_t)wanted;
            }
            break;
        }
        default: {
            size_t drop = sim_rng_below(&rng, model_size + 1);
            buffer_consume(&buffer, drop);
            model_size -= drop;
            memmove(model, model + drop, model_size);
            buffer_shrink(&buffer, 128);
            break;
        }
        }
        assert_int_equal(buffer_slice(&buffer).size, model_size);
        if (model_size > 0)
            assert_memory_equal(buffer.data, model, model_size);
    }
    buffer_done(&buffer);
}

RUN(cmocka_unit_test(what_is_appended_stands_behind_what_was_there),
    cmocka_unit_test(a_buffer_fills_to_its_maximum_and_refuses_the_next_byte),
    cmocka_unit_test(a_wish_beyond_counting_is_refused),
    cmocka_unit_test(a_formatted_text_may_fill_the_buffer_to_the_last_byte),
    cmocka_unit_test(shrinking_gives_memory_back_only_from_a_large_and_empty_buffer),
    cmocka_unit_test(random_operations_leave_what_an_array_would_hold))
