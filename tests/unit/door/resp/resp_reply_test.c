#include "door/resp/resp_reply.h"

#include <string.h>

#include "unit/test.h"

static struct resp_reply new_reply(uint8_t version)
{
    struct resp_reply reply;
    resp_reply_init(&reply, 1 << 20);
    reply.version = version;
    return reply;
}

/* Compares what was written and empties the reply. */
static void assert_written(struct resp_reply *reply, const char *expected)
{
    buffer_append(&reply->bytes, "", 1);
    assert_string_equal(reply->bytes.data, expected);
    reply->bytes.size = 0;
}

TEST(simple_answers_are_the_same_in_both_versions)
{
    for (uint8_t version = 2; version <= 3; version++) {
        struct resp_reply reply = new_reply(version);
        resp_reply_ok(&reply);
        assert_written(&reply, "+OK\r\n");
        resp_reply_integer(&reply, 7);
        assert_written(&reply, ":7\r\n");
        resp_reply_integer(&reply, -1);
        assert_written(&reply, ":-1\r\n");
        resp_reply_integer(&reply, INT64_MIN);
        assert_written(&reply, ":-9223372036854775808\r\n");
        resp_reply_bulk(&reply, SLICE("a\r\nb"));
        assert_written(&reply, "$4\r\na\r\nb\r\n");
        resp_reply_text(&reply, "");
        assert_written(&reply, "$0\r\n\r\n");
        resp_reply_array(&reply, 12);
        assert_written(&reply, "*12\r\n");
        resp_reply_done(&reply);
    }
}

TEST(the_third_version_has_types_of_its_own)
{
    struct resp_reply two = new_reply(2);
    struct resp_reply three = new_reply(3);
    resp_reply_null(&two);
    assert_written(&two, "$-1\r\n");
    resp_reply_null(&three);
    assert_written(&three, "_\r\n");
    resp_reply_map(&two, 2);
    assert_written(&two, "*4\r\n");
    resp_reply_map(&three, 2);
    assert_written(&three, "%2\r\n");
    resp_reply_set(&two, 2);
    assert_written(&two, "*2\r\n");
    resp_reply_set(&three, 2);
    assert_written(&three, "~2\r\n");
    resp_reply_push(&two, 3);
    assert_written(&two, "*3\r\n");
    resp_reply_push(&three, 3);
    assert_written(&three, ">3\r\n");
    resp_reply_done(&two);
    resp_reply_done(&three);
}

TEST(a_number_beyond_64_bits_is_a_bulk_in_both_versions)
{
    struct number big;
    assert_int_equal(number_parse(SLICE("-18446744073709551616"), &big), ERR_OK);
    struct resp_reply two = new_reply(2);
    struct resp_reply three = new_reply(3);
    resp_reply_number(&two, &big);
    assert_written(&two, "$21\r\n-18446744073709551616\r\n");
    resp_reply_number(&three, &big);
    assert_written(&three, "$21\r\n-18446744073709551616\r\n");
    resp_reply_digits(&three, &big);
    assert_written(&three, "$21\r\n-18446744073709551616\r\n");
    struct number small = number_of(42);
    resp_reply_number(&three, &small);
    resp_reply_digits(&three, &small);
    assert_written(&three, ":42\r\n$2\r\n42\r\n");
    number_done(&big);
    resp_reply_done(&two);
    resp_reply_done(&three);
}

TEST(an_error_stays_on_its_line)
{
    struct resp_reply reply = new_reply(2);
    resp_reply_error(&reply, "ERR unknown command '%s'", "a\r\n+OK");
    assert_written(&reply, "-ERR unknown command 'a  +OK'\r\n");
    resp_reply_done(&reply);
}

TEST(past_its_limit_nothing_more_is_written)
{
    struct resp_reply reply;
    resp_reply_init(&reply, 40);
    resp_reply_status(&reply, "0123456789");
    assert_false(reply.overflow);
    resp_reply_bulk(&reply, SLICE("01234567890123456789"));
    assert_true(reply.overflow);
    size_t size = reply.bytes.size;
    resp_reply_ok(&reply);
    assert_int_equal(reply.bytes.size, size);
    resp_reply_done(&reply);
}

TEST(every_code_has_words_that_begin_with_a_word)
{
#define X(code, meaning) code,
    static const enum err codes[] = {ERR_LIST(X)};
#undef X
    for (size_t i = 1; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char text[512];
        resp_reply_describe(codes[i], NULL, text, sizeof(text));
        size_t word = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        assert_true(word >= 3 && text[word] == ' ');
    }
}

TEST(errors_that_clients_know_have_the_words_of_redis)
{
    char text[512];
    resp_reply_describe(ERR_WRONG_TYPE, NULL, text, sizeof(text));
    assert_string_equal(text, "WRONGTYPE Operation against a key holding the wrong kind of value");
    resp_reply_describe(ERR_FULL, NULL, text, sizeof(text));
    assert_memory_equal(text, "MISCONF Errors writing to the log: No space left on device", 58);
    resp_reply_describe(ERR_KEY_REUSED, NULL, text, sizeof(text));
    assert_memory_equal(text, "IDMISMATCH ", 11);
    resp_reply_describe(ERR_BUSY, NULL, text, sizeof(text));
    assert_memory_equal(text, "BUSY ", 5);
    resp_reply_describe(ERR_INVALID, "the id is empty", text, sizeof(text));
    assert_string_equal(text, "ERR the id is empty");
}

RUN(cmocka_unit_test(simple_answers_are_the_same_in_both_versions),
    cmocka_unit_test(the_third_version_has_types_of_its_own),
    cmocka_unit_test(a_number_beyond_64_bits_is_a_bulk_in_both_versions),
    cmocka_unit_test(an_error_stays_on_its_line),
    cmocka_unit_test(past_its_limit_nothing_more_is_written),
    cmocka_unit_test(every_code_has_words_that_begin_with_a_word),
    cmocka_unit_test(errors_that_clients_know_have_the_words_of_redis))
