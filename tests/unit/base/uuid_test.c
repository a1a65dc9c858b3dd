#include "base/uuid.h"

#include <stdio.h>

#include "sim/sim_rng.h"
#include "unit/test.h"

TEST(canonical_text_becomes_its_bytes_in_order)
{
    unsigned char bytes[UUID_BYTES];
    assert_true(uuid_parse(SLICE("00112233-4455-6677-8899-aabbccddeeff"), bytes));
    for (unsigned i = 0; i < UUID_BYTES; i++)
        assert_int_equal(bytes[i], i * 0x11);
}

TEST(any_other_form_is_refused)
{
    const char *const others[] = {
        "",
        "550e8400-e29b-41d4-a716-44665544000",   /* a digit short */
        "550e8400-e29b-41d4-a716-4466554400000", /* a digit long */
        "550E8400-e29b-41d4-a716-446655440000",  /* upper case */
        "550e8400-e29b-41d4-a716-44665544000g",
        "550e8400e29b-41d4-a716-4466554400000",
        "550e8400-e29b-41d4-a716_446655440000",
        "{50e8400-e29b-41d4-a716-446655440000",
        "550e8400-e29b-41d4-a716-44665544000\xb0",
    };
    unsigned char bytes[UUID_BYTES];
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(uuid_parse(slice_of(others[i]), bytes));
}

TEST(a_byte_counts_as_a_digit_only_if_it_is_one)
{
    char text[] = "550e8400-e29b-41d4-a716-446655440000";
    unsigned char bytes[UUID_BYTES];
    for (unsigned place = 0; place < UUID_TEXT_BYTES; place++) {
        char kept = text[place];
        for (int byte = 0; byte < 256; byte++) {
            text[place] = (char)byte;
            bool is_digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
            bool fits = kept == '-' ? byte == '-' : is_digit;
            assert_int_equal(uuid_parse((struct slice){text, UUID_TEXT_BYTES}, bytes), fits);
        }
        text[place] = kept;
    }
}

TEST(random_bytes_are_written_as_printf_does_and_read_back)
{
    struct sim_rng rng = {1};
    for (int round = 0; round < 10000; round++) {
        unsigned char bytes[UUID_BYTES];
        char expected[UUID_TEXT_BYTES + 1];
        size_t size = 0;
        for (unsigned i = 0; i < UUID_BYTES; i++) {
            bytes[i] = (unsigned char)sim_rng_next(&rng);
            const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
            size += (size_t)snprintf(expected + size, sizeof(expected) - size, "%s%02x", dash,
                                     bytes[i]);
        }

        char text[UUID_TEXT_BYTES];
        uuid_format(bytes, text);
        assert_memory_equal(text, expected, UUID_TEXT_BYTES);
        unsigned char again[UUID_BYTES];
        assert_true(uuid_parse((struct slice){text, UUID_TEXT_BYTES}, again));
        assert_memory_equal(again, bytes, UUID_BYTES);
    }
}

TEST(a_new_one_says_its_version_and_sorts_by_time_and_order)
{
    unsigned char one[UUID_BYTES];
    unsigned char two[UUID_BYTES];
    uuid_make7(one, 0x0123456789ab, 0xfff, UINT64_MAX);
    static const unsigned char expected[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x7f, 0xff};
    assert_memory_equal(one, expected, sizeof(expected));
    assert_int_equal(one[8], 0xbf);

    uuid_make7(one, 1700000000000, 7, UINT64_MAX);
    uuid_make7(two, 1700000000000, 8, 0);
    assert_true(memcmp(one, two, UUID_BYTES) < 0);
    uuid_make7(one, 1700000000001, 0, 0);
    assert_true(memcmp(two, one, UUID_BYTES) < 0);
    assert_int_equal(one[8], 0x80);
}

RUN(cmocka_unit_test(canonical_text_becomes_its_bytes_in_order),
    cmocka_unit_test(any_other_form_is_refused),
    cmocka_unit_test(a_byte_counts_as_a_digit_only_if_it_is_one),
    cmocka_unit_test(random_bytes_are_written_as_printf_does_and_read_back),
    cmocka_unit_test(a_new_one_says_its_version_and_sorts_by_time_and_order))
