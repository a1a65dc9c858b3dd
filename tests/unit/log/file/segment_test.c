#include "log/file/segment.h"

#include <string.h>

#include "unit/test.h"

static const struct segment_header header = {
    .log_id = 0x1122334455667788,
    .number = 3,
    .size_bytes = 1 << 20,
    .created_ms = 1700000000000,
    .first_group = 42,
    .previous_end = 8200,
};

TEST(a_header_comes_back_as_it_was)
{
    char bytes[SEGMENT_HEADER_BYTES];
    segment_header_put(&header, bytes);
    struct segment_header got;
    assert_int_equal(segment_header_get(bytes, &got, NULL), ERR_OK);
    assert_memory_equal(&got, &header, sizeof(header));
}

TEST(every_flipped_bit_of_a_header_is_noticed)
{
    char bytes[SEGMENT_HEADER_BYTES];
    segment_header_put(&header, bytes);
    for (size_t bit = 0; bit < sizeof(bytes) * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        struct segment_header got;
        assert_int_equal(segment_header_get(bytes, &got, NULL), ERR_CORRUPT);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
}

TEST(zeros_are_not_a_header)
{
    static const char zeros[SEGMENT_HEADER_BYTES];
    struct segment_header got;
    assert_int_equal(segment_header_get(zeros, &got, NULL), ERR_CORRUPT);
}

/* ---- groups ---- */

static struct group make_group(char *bytes, const char *body, uint32_t body_bytes)
{
    struct group group = {
        .log_id = 1,
        .segment = 2,
        .offset = 4096,
        .number = 5,
        .body_bytes = body_bytes,
        .sections = 1,
        .kind = GROUP_SECTIONS,
    };
    memcpy(bytes + GROUP_HEADER_BYTES, body, body_bytes);
    group_seal(bytes, &group);
    return group;
}

TEST(a_group_comes_back_as_it_was_whatever_its_size)
{
    static const char body[64] = "sixty-four bytes, of which the first few are used in each round";
    for (uint32_t size = 0; size <= sizeof(body); size++) {
        char bytes[256];
        memset(bytes, 0xee, sizeof(bytes));
        struct group group = make_group(bytes, body, size);
        struct group got;
        assert_true(group_get(bytes, &got));
        assert_int_equal(got.log_id, group.log_id);
        assert_int_equal(got.segment, group.segment);
        assert_int_equal(got.offset, group.offset);
        assert_int_equal(got.number, group.number);
        assert_int_equal(got.body_bytes, group.body_bytes);
        assert_int_equal(got.sections, group.sections);
        assert_int_equal(got.kind, group.kind);
        assert_true(group_is_intact(bytes, &got));
        assert_int_equal(group_bytes(size) % GROUP_ALIGN, 0);
        assert_int_equal((unsigned char)bytes[group_bytes(size)], 0xee);
    }
}

TEST(every_flipped_bit_of_a_group_is_noticed_padding_included)
{
    char bytes[256];
    make_group(bytes, "thirteen bytes", 13);
    uint32_t size = group_bytes(13);
    assert_true(size > GROUP_HEADER_BYTES + 13);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
        struct group got;
        /* A flipped length may reach past our bytes: that is for the reader to see. */
        bool sound = group_get(bytes, &got) && group_bytes(got.body_bytes) <= sizeof(bytes) &&
                     group_is_intact(bytes, &got);
        assert_false(sound);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ (1 << bit % 8));
    }
}

TEST(no_group_is_larger_than_the_largest)
{
    char bytes[256];
    make_group(bytes, "", 0);
    for (uint32_t size = GROUP_BYTES_MAX - 64; size < GROUP_BYTES_MAX + 64; size++) {
        memcpy(bytes + 12, &size, sizeof(size));
        struct group got;
        if (group_get(bytes, &got))
            assert_true(group_bytes(got.body_bytes) <= GROUP_BYTES_MAX);
    }
}

/* ---- sections ---- */

TEST(sections_are_cut_off_one_by_one)
{
    struct slice body = SLICE("\3abc\0\1d");
    struct slice section;
    assert_true(group_next_section(&body, &section));
    assert_true(slice_equal(section, SLICE("abc")));
    assert_true(group_next_section(&body, &section));
    assert_int_equal(section.size, 0);
    assert_true(group_next_section(&body, &section));
    assert_true(slice_equal(section, SLICE("d")));
    assert_false(group_next_section(&body, &section));
    assert_int_equal(body.size, 0);
}

TEST(a_section_that_reaches_past_the_body_is_refused)
{
    static const char *const bodies[] = {"\4abc", "\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct slice body = slice_of(bodies[i]);
        struct slice section;
        assert_false(group_next_section(&body, &section));
        assert_int_equal(body.size, strlen(bodies[i]));
    }
}

TEST(the_largest_group_of_the_old_format_is_read)
{
    uint32_t most = GROUP_BYTES_MAX - GROUP_HEADER_BYTES_OLD - GROUP_ALIGN_OLD;
    char *bytes = calloc(1, GROUP_BYTES_MAX);
    assert_non_null(bytes);
    struct group group = {.number = 1, .body_bytes = most, .is_old = true};
    group_seal(bytes, &group);
    struct group found;
    assert_true(group_get_old(bytes, &found));
    assert_int_equal(found.body_bytes, most);
    assert_true(found.is_old);
    assert_true(group_is_intact(bytes, &found));
    free(bytes);
}

RUN(cmocka_unit_test(a_header_comes_back_as_it_was),
    cmocka_unit_test(every_flipped_bit_of_a_header_is_noticed),
    cmocka_unit_test(zeros_are_not_a_header),
    cmocka_unit_test(a_group_comes_back_as_it_was_whatever_its_size),
    cmocka_unit_test(every_flipped_bit_of_a_group_is_noticed_padding_included),
    cmocka_unit_test(no_group_is_larger_than_the_largest),
    cmocka_unit_test(the_largest_group_of_the_old_format_is_read),
    cmocka_unit_test(sections_are_cut_off_one_by_one),
    cmocka_unit_test(a_section_that_reaches_past_the_body_is_refused))
