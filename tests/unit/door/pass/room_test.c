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

TEST(what_was_taken_last_can_be_given_back)
{
    struct room room;
    room_init(&room);
    size_t size;
    char *first = room_look(&room, 100, &size);
    room_take(&room, 100);
    room_give_back(&room, first + 40, first + 100);
    assert_ptr_equal(room_look(&room, 100, &size), first + 40);
    room_take(&room, 10);
    room_give_back(&room, first, first + 40); /* something was taken since */
    assert_ptr_equal(room_look(&room, 100, &size), first + 50);
    room_done(&room);
}

TEST(a_buffer_that_was_adopted_last_can_be_returned)
{
    struct room room;
    room_init(&room);
    struct buffer one;
    struct buffer two;
    buffer_init(&one, 1000);
    buffer_init(&two, 1000);
    buffer_append(&one, "one", 3);
    buffer_append(&two, "two", 3);
    const char *bytes = one.data;
    room_adopt(&room, &one);
    assert_true(room_return(&room, bytes, &one));
    assert_ptr_equal(one.data, bytes);
    assert_int_equal(one.size, 0);
    assert_true(one.capacity >= 3);
    assert_int_equal(room.bytes, 0);

    room_adopt(&room, &one);
    room_adopt(&room, &two);
    assert_false(room_return(&room, bytes, &one));
    assert_null(one.data);
    room_done(&room);
}

TEST(it_knows_how_much_is_in_use)
{
    struct room room;
    struct room other;
    room_init(&room);
    room_init(&other);
    for (int i = 0; i < 3; i++) {
        size_t size;
        room_look(&room, ROOM_BLOCK_BYTES, &size);
        room_take(&room, size);
    }
    struct buffer buffer;
    buffer_init(&buffer, 1000);
    buffer_append(&buffer, "bytes", 5);
    size_t capacity = buffer.capacity;
    room_adopt(&room, &buffer);
    assert_int_equal(room.bytes, 3 * ROOM_BLOCK_BYTES + capacity);
    room_move(&room, &other);
    assert_int_equal(room.bytes, 0);
    assert_int_equal(other.bytes, 3 * ROOM_BLOCK_BYTES + capacity);
    room_clear(&other);
    assert_int_equal(other.bytes, ROOM_BLOCK_BYTES); /* one block stays for the next */
    room_done(&room);
    room_done(&other);
}

RUN(cmocka_unit_test(what_was_taken_is_not_given_again),
    cmocka_unit_test(what_was_taken_last_can_be_given_back),
    cmocka_unit_test(a_buffer_that_was_adopted_last_can_be_returned),
    cmocka_unit_test(it_knows_how_much_is_in_use), cmocka_unit_test(a_full_block_stays_where_it_is),
    cmocka_unit_test(after_a_pass_the_same_memory_is_used_again),
    cmocka_unit_test(things_are_aligned),
    cmocka_unit_test(an_adopted_buffer_stays_put_and_leaves_an_empty_one))
