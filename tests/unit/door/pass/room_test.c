#include "door/pass/room.h"

#include <stdalign.h>
#include <string.h>

#include "unit/test.h"

TEST(what_was_taken_is_not_given_again)
{
    struct room room;
    room_init(&room);
    size_t size;
    char *first = room_look(&room, 100, &size);
    assert_true(size >= 100);
    assert_ptr_equal(room_look(&room, 100, &size), first); /* not taken yet */
    room_take(&room, 100);
    assert_ptr_equal(room_look(&room, 100, &size), first + 100);
    room_done(&room);
}

TEST(a_full_block_stays_where_it_is)
{
    struct room room;
    room_init(&room);
    size_t size;
    char *first = room_look(&room, ROOM_BLOCK_BYTES, &size);
    memset(first, 'a', size);
    room_take(&room, size);
    char *second = room_look(&room, ROOM_BLOCK_BYTES, &size);
    memset(second, 'b', size);
    assert_int_equal(first[0], 'a');
    assert_int_equal(first[ROOM_BLOCK_BYTES - 1], 'a');
    room_done(&room);
}

TEST(after_a_pass_the_same_memory_is_used_again)
{
    struct room room;
    room_init(&room);
    size_t size;
    for (int i = 0; i < 10; i++) {
        room_look(&room, ROOM_BLOCK_BYTES, &size);
        room_take(&room, size);
    }
    room_clear(&room);
    size_t spare = room.spare_count;
    assert_int_equal(spare, 9);
    for (int i = 0; i < 10; i++) {
        room_look(&room, ROOM_BLOCK_BYTES, &size);
        room_take(&room, size);
    }
    assert_int_equal(room.spare_count, 0);
    room_clear(&room);
    room_done(&room);
}

TEST(things_are_aligned)
{
    struct room room;
    room_init(&room);
    for (size_t size = 1; size < 100; size++) {
        char *thing = room_alloc(&room, size);
        assert_int_equal((uintptr_t)thing % alignof(max_align_t), 0);
        memset(thing, 1, size);
    }
    room_done(&room);
}

TEST(an_adopted_buffer_stays_put_and_leaves_an_empty_one)
{
    struct room room;
    room_init(&room);
    struct buffer buffer;
    buffer_init(&buffer, 1000);
    buffer_append(&buffer, "bytes", 5);
    struct slice bytes = buffer_slice(&buffer);
    room_adopt(&room, &buffer);
    assert_int_equal(buffer.size, 0);
    assert_null(buffer.data);
    assert_int_equal(buffer.max, 1000);
    assert_memory_equal(bytes.data, "bytes", 5);
    room_clear(&room);
    room_done(&room);
}

RUN(cmocka_unit_test(what_was_taken_is_not_given_again),
    cmocka_unit_test(a_full_block_stays_where_it_is),
    cmocka_unit_test(after_a_pass_the_same_memory_is_used_again),
    cmocka_unit_test(things_are_aligned),
    cmocka_unit_test(an_adopted_buffer_stays_put_and_leaves_an_empty_one))
