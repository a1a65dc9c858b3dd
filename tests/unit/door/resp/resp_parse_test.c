#include "door/resp/resp_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "unit/test.h"

/* ---- what was found, as a text: "INCR|key;GET|a;! why" ---- */

static void note_request(const struct resp_parser *parser, struct buffer *to)
{
    for (unsigned i = 0; i < parser->argc; i++) {
        buffer_append(to, "|", i > 0);
        buffer_append_slice(to, parser->argv[i]);
    }
    buffer_append(to, ";", 1);
}

/* Feeds the bytes in steps that end at `cut`, or one by one when `cut` is 0, and
 * notes what is found. Asks early as well: it must make no difference. */
static void play(struct slice bytes, size_t cut, bool stranger, struct buffer *to)
{
    struct resp_parser *parser = malloc(sizeof(*parser));
    resp_parser_init(parser);
    parser->stranger = stranger;
    size_t taken = 0;
    size_t given = 0;
    while (given < bytes.size) {
        given = cut == 0 ? given + 1 : given < cut ? cut : bytes.size;
        for (;;) {
            /* A copy of its own size, so that a sanitizer sees a byte too far. */
            size_t size = given - taken;
            char *copy = malloc(size > 0 ? size : 1);
            memcpy(copy, bytes.data + taken, size);
            enum resp_found found = resp_parse(parser, (struct slice){copy, size});
            if (found == RESP_REQUEST)
                note_request(parser, to);
            free(copy);
            if (found == RESP_BROKEN) {
                buffer_append(to, "! ", 2);
                buffer_append(to, parser->error, strlen(parser->error));
                free(parser);
                return;
            }
            if (found == RESP_MORE) {
                assert_true(parser->need > size);
                break;
            }
            assert_int_equal(found, RESP_REQUEST);
            assert_true(parser->used > 0 && parser->used <= size);
            taken += parser->used;
        }
    }
    free(parser);
}

static void assert_found(const char *input, size_t size, bool stranger, const char *expected)
{
    struct slice bytes = {input, size};
    for (size_t cut = 0; cut <= size; cut++) {
        struct buffer found;
        buffer_init(&found, 1 << 20);
        play(bytes, cut, stranger, &found);
        buffer_append(&found, "", 1);
        assert_string_equal(found.data, expected);
        buffer_done(&found);
    }
}

#define FOUND(input, expected)          assert_found(input, sizeof(input) - 1, false, expected)
#define FOUND_STRANGER(input, expected) assert_found(input, sizeof(input) - 1, true, expected)

TEST(an_array_is_a_request)
{
    FOUND("*2\r\n$4\r\nINCR\r\n$3\r\nkey\r\n", "INCR|key;");
    FOUND("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "PING;GET|a;");
}

TEST(arguments_may_hold_any_byte)
{
    FOUND("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n$1\r\n", "ECHO|\r\n$1;");
    FOUND("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "ECHO|;");
}

TEST(lengths_of_any_number_of_digits_are_read)
{
    FOUND("*2\r\n$4\r\nECHO\r\n$10\r\n0123456789\r\n", "ECHO|0123456789;");
    char request[200];
    char expected[200];
    char word[101];
    memset(word, 'x', 100);
    word[100] = '\0';
    int size = snprintf(request, sizeof(request), "*1\r\n$100\r\n%s\r\n", word);
    snprintf(expected, sizeof(expected), "%s;", word);
    assert_found(request, (size_t)size, false, expected);
}

TEST(an_array_of_nothing_asks_nothing)
{
    FOUND("*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n", ";;PING;");
}

TEST(a_line_is_a_request)
{
    FOUND("PING\r\nINCR a\n  GET   a  \r\n\r\n", "PING;INCR|a;GET|a;;");
}

TEST(quotes_keep_words_together_as_in_redis)
{
    FOUND("SET \"a b\" 'c d'\r\n", "SET|a b|c d;");
    FOUND("SET \"\\x41\\n\\t\\\"\\q\" 'it\\'s \\n'\r\n", "SET|A\n\t\"q|it's \\n;");
    FOUND("SET \"\" ''\r\n", "SET||;");
    FOUND("SET a\"b c\"\r\n", "SET|ab c;");
    FOUND("SET \"\\xzz\"\r\n", "SET|xzz;");
}

TEST(quotes_that_do_not_close_are_refused)
{
    FOUND("SET \"a\r\n", "! Protocol error: unbalanced quotes in request");
    FOUND("SET 'a\r\n", "! Protocol error: unbalanced quotes in request");
    FOUND("SET \"a\"b\r\n", "! Protocol error: unbalanced quotes in request");
    FOUND("SET \"a\\\r\n", "! Protocol error: unbalanced quotes in request");
}

TEST(lengths_that_make_no_sense_are_refused)
{
    static const char multibulk[] = "! Protocol error: invalid multibulk length";
    static const char bulk[] = "! Protocol error: invalid bulk length";
    FOUND("*x\r\n", multibulk);
    FOUND("*\r\n", multibulk);
    FOUND("*+1\r\n", multibulk);
    FOUND("*01\r\n", multibulk);
    FOUND("* 1\r\n", multibulk);
    FOUND("*1 \r\n", multibulk);
    FOUND("*1\rx", multibulk);
    FOUND("*1025\r\n", multibulk);
    FOUND("*1000000\r\n", multibulk);
    FOUND("*9223372036854775807\r\n", multibulk);
    FOUND("*9223372036854775808\r\n", multibulk);
    FOUND("*111111111111111111111111111111111", multibulk);
    FOUND("*1\r\n$-1\r\n", bulk);
    FOUND("*1\r\n$x\r\n", bulk);
    FOUND("*1\r\n$\r\n", bulk);
    FOUND("*1\r\n$1048577\r\n", bulk);
    FOUND("*1\r\n$2147483647\r\n", bulk);
    FOUND("*1\r\n$18446744073709551615\r\n", bulk);
    FOUND("*1\r\n$4\rxPING", bulk);
}

TEST(what_is_no_bulk_is_refused)
{
    FOUND("*1\r\n:1\r\n", "! Protocol error: expected '$', got ':'");
    FOUND("*1\r\n*1\r\n", "! Protocol error: expected '$', got '*'");
    FOUND("*1\r\n\x01\r\n", "! Protocol error: expected '$', got '?'");
    FOUND("*1\r\n$4\r\nPINGxx", "! Protocol error: expected CRLF behind a bulk string");
}

TEST(strangers_have_smaller_limits)
{
    FOUND_STRANGER("*11\r\n", "! Protocol error: unauthenticated multibulk length");
    FOUND_STRANGER("*2\r\n$4\r\nAUTH\r\n$16385\r\n",
                   "! Protocol error: unauthenticated bulk length");
    FOUND_STRANGER("*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n", "AUTH|pw;");
}

TEST(a_thousand_and_twenty_four_arguments_are_fine)
{
    struct buffer request;
    buffer_init(&request, 1 << 20);
    buffer_printf(&request, "*%u\r\n", RESP_ARGS_MAX);
    for (unsigned i = 0; i < RESP_ARGS_MAX; i++)
        buffer_append(&request, "$1\r\na\r\n", 7);

    struct resp_parser *parser = malloc(sizeof(*parser));
    resp_parser_init(parser);
    assert_int_equal(resp_parse(parser, buffer_slice(&request)), RESP_REQUEST);
    assert_int_equal(parser->argc, RESP_ARGS_MAX);
    assert_int_equal(parser->used, request.size);
    free(parser);
    buffer_done(&request);
}

TEST(a_cut_bulk_says_how_much_is_needed)
{
    struct resp_parser *parser = malloc(sizeof(*parser));
    resp_parser_init(parser);
    assert_int_equal(resp_parse(parser, SLICE("*1\r\n$1000\r\nabc")), RESP_MORE);
    assert_int_equal(parser->need, 4 + 7 + 1000 + 2);
    free(parser);
}

TEST(a_line_without_an_end_is_refused_at_its_limit)
{
    char *line = malloc(RESP_INLINE_BYTES_MAX);
    memset(line, 'a', RESP_INLINE_BYTES_MAX);
    struct resp_parser *parser = malloc(sizeof(*parser));
    resp_parser_init(parser);
    assert_int_equal(resp_parse(parser, (struct slice){line, RESP_INLINE_BYTES_MAX - 1}),
                     RESP_MORE);
    assert_int_equal(resp_parse(parser, (struct slice){line, RESP_INLINE_BYTES_MAX}), RESP_BROKEN);
    assert_string_equal(parser->error, "Protocol error: too big inline request");
    free(parser);
    free(line);
}

TEST(a_line_of_nothing_but_quotes_fits_into_the_scratch)
{
    static char line[RESP_INLINE_BYTES_MAX];
    memset(line, 'a', sizeof(line));
    line[0] = '"';
    line[sizeof(line) - 2] = '"';
    line[sizeof(line) - 1] = '\n';

    struct resp_parser *parser = malloc(sizeof(*parser));
    resp_parser_init(parser);
    for (int i = 0; i < 2; i++) { /* each line has all of it */
        assert_int_equal(resp_parse(parser, (struct slice){line, sizeof(line)}), RESP_REQUEST);
        assert_int_equal(parser->argc, 1);
        assert_int_equal(parser->argv[0].size, sizeof(line) - 3);
        assert_int_equal(parser->scratch_used, sizeof(line) - 3);
    }
    assert_int_equal(resp_parse(parser, SLICE("*1\r\n$4\r\nPING\r\n")), RESP_REQUEST);
    assert_int_equal(parser->scratch_used, 0);
    free(parser);
}

RUN(cmocka_unit_test(an_array_is_a_request), cmocka_unit_test(arguments_may_hold_any_byte),
    cmocka_unit_test(lengths_of_any_number_of_digits_are_read),
    cmocka_unit_test(an_array_of_nothing_asks_nothing), cmocka_unit_test(a_line_is_a_request),
    cmocka_unit_test(quotes_keep_words_together_as_in_redis),
    cmocka_unit_test(quotes_that_do_not_close_are_refused),
    cmocka_unit_test(lengths_that_make_no_sense_are_refused),
    cmocka_unit_test(what_is_no_bulk_is_refused), cmocka_unit_test(strangers_have_smaller_limits),
    cmocka_unit_test(a_thousand_and_twenty_four_arguments_are_fine),
    cmocka_unit_test(a_cut_bulk_says_how_much_is_needed),
    cmocka_unit_test(a_line_without_an_end_is_refused_at_its_limit),
    cmocka_unit_test(a_line_of_nothing_but_quotes_fits_into_the_scratch))
