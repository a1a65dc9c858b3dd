#include "core/key.h"

#include <string.h>

#include "unit/test.h"

TEST(a_key_of_a_client_has_1_to_128_bytes)
{
    char text[LIMIT_KEY_BYTES + 1];
    memset(text, 'k', sizeof(text));
    struct error error;
    assert_int_equal(key_check((struct slice){text, 0}, &error), ERR_INVALID);
    assert_string_equal(error.text, "the idempotency key is empty");
    assert_int_equal(key_check((struct slice){text, 1}, &error), ERR_OK);
    assert_int_equal(key_check((struct slice){text, LIMIT_KEY_BYTES}, &error), ERR_OK);
    assert_int_equal(key_check((struct slice){text, LIMIT_KEY_BYTES + 1}, &error), ERR_TOO_LARGE);
    assert_string_equal(error.text, "an idempotency key of 129 bytes: more than 128");
}

TEST(no_client_may_send_a_key_of_a_line)
{
    char prefix[KEY_LINE_PREFIX_BYTES];
    char text[KEY_LINE_BYTES_MAX];
    key_line_prefix(SLICE("order"), prefix);
    for (uint64_t line = 1; line != 0; line *= 10) {
        struct slice key = key_of_line(prefix, line, text);
        assert_true(key.size <= KEY_LINE_BYTES_MAX && key.size <= LIMIT_KEY_BYTES);
        assert_int_equal(key_check(key, NULL), ERR_INVALID);
        if (line > UINT64_MAX / 10)
            break;
    }
    assert_int_equal(key_of_line(prefix, UINT64_MAX, text).size, KEY_LINE_BYTES_MAX);
}

/* For ever: batches that are sent again after a new version was installed must not count twice. */
TEST(a_line_has_always_had_this_key)
{
    char prefix[KEY_LINE_PREFIX_BYTES];
    char text[KEY_LINE_BYTES_MAX];
    key_line_prefix(SLICE("order"), prefix);
    struct slice key = key_of_line(prefix, 17, text);
    assert_true(slice_equal(key, SLICE("\x01"
                                       "7d625ce1392f29b3b1caad5fb0bdbc0a:17")));
}

TEST(keys_of_lines_differ_by_batch_and_by_line)
{
    static const char *const batches[] = {"order", "order:1", "orde", "1", ":1"};
    char texts[5][11][KEY_LINE_BYTES_MAX];
    struct slice keys[55];
    size_t count = 0;
    for (unsigned b = 0; b < 5; b++) {
        char prefix[KEY_LINE_PREFIX_BYTES];
        key_line_prefix(slice_of(batches[b]), prefix);
        for (unsigned line = 1; line <= 11; line++)
            keys[count++] = key_of_line(prefix, line, texts[b][line - 1]);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(slice_equal(keys[i], keys[j]));
    }
}

RUN(cmocka_unit_test(a_key_of_a_client_has_1_to_128_bytes),
    cmocka_unit_test(no_client_may_send_a_key_of_a_line),
    cmocka_unit_test(a_line_has_always_had_this_key),
    cmocka_unit_test(keys_of_lines_differ_by_batch_and_by_line))
