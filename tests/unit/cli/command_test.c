#include "cli/command.h"

#include <string.h>

#include "unit/test.h"

static struct error error;

#define PARSE(line, ...) parse(line, (const char *const[]){__VA_ARGS__, NULL})

static enum err parse(struct command_line *line, const char *const *argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return command_parse(argc, argv, line, &error);
}

static void assert_says(const char *text)
{
    if (!strstr(error.text, text))
        fail_msg("'%s' does not say '%s'", error.text, text);
}

TEST(options_may_stand_anywhere)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "--json", "add", "--key", "k", "views", "--region=eu", "5"),
                     ERR_OK);
    assert_string_equal(line.command->name, "add");
    assert_int_equal(line.word_count, 2);
    assert_string_equal(line.words[0], "views");
    assert_string_equal(line.words[1], "5");
    assert_string_equal(command_value(&line, COMMAND_KEY), "k");
    assert_string_equal(command_value(&line, COMMAND_REGION), "eu");
    assert_true(command_has(&line, COMMAND_JSON));
    assert_false(command_has(&line, COMMAND_QUIET));
    command_line_done(&line);
}

TEST(a_negative_number_is_no_option)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "add", "views", "-5"), ERR_OK);
    assert_string_equal(line.words[1], "-5");
    command_line_done(&line);
    assert_int_equal(PARSE(&line, "at", "views", "-24h"), ERR_OK);
    assert_string_equal(line.words[1], "-24h");
    command_line_done(&line);
}

TEST(two_dashes_end_the_options)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "get", "--", "--json"), ERR_OK);
    assert_int_equal(line.word_count, 1);
    assert_string_equal(line.words[0], "--json");
    command_line_done(&line);
}

TEST(what_is_sent_as_it_is_may_look_like_anything)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "raw", "--json", "ECHO", "--x", "-y", "--"), ERR_OK);
    assert_int_equal(line.word_count, 4);
    assert_true(command_has(&line, COMMAND_JSON));
    command_line_done(&line);
}

TEST(the_last_of_several_values_counts)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "get", "--address", "a:1", "--address", "b:2", "x"), ERR_OK);
    assert_string_equal(command_value(&line, COMMAND_ADDRESS), "b:2");
    command_line_done(&line);
}

TEST(mistakes_are_told_with_what_would_be_right)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "gte", "x"), ERR_INVALID);
    assert_says("did you mean get?");
    assert_int_equal(PARSE(&line, "qqqqqqqq"), ERR_INVALID);
    assert_says("tally help");
    assert_int_equal(PARSE(&line, "get"), ERR_INVALID);
    assert_says("tally get ID...");
    assert_int_equal(PARSE(&line, "like", "a", "b", "c"), ERR_INVALID);
    assert_says("'c'");
    assert_int_equal(PARSE(&line, "get", "x", "--wat"), ERR_INVALID);
    assert_says("--wat");
    assert_int_equal(PARSE(&line, "get", "x", "--key", "k"), ERR_INVALID);
    assert_says("get has no option --key");
    assert_int_equal(PARSE(&line, "add", "x", "--key"), ERR_INVALID);
    assert_says("--key KEY");
    assert_int_equal(PARSE(&line, "add", "x", "--json=yes"), ERR_INVALID);
    assert_says("takes no value");
    assert_int_equal(PARSE(&line, "get", "-x"), ERR_INVALID);
    assert_says("two dashes");
}

TEST(help_needs_no_arguments)
{
    struct command_line line;
    assert_int_equal(PARSE(&line, "like", "--help"), ERR_OK);
    command_line_done(&line);
    assert_int_equal(PARSE(&line, "-h"), ERR_OK);
    assert_true(command_has(&line, COMMAND_HELP));
    command_line_done(&line);
}

TEST(numbers_have_limits)
{
    struct command_line line;
    int64_t number;
    assert_int_equal(PARSE(&line, "list", "--limit", "20"), ERR_OK);
    assert_int_equal(command_number(&line, COMMAND_LIMIT, 5, 0, 100, &number, &error), ERR_OK);
    assert_int_equal(number, 20);
    assert_int_equal(command_number(&line, COMMAND_LIMIT, 5, 0, 10, &number, &error), ERR_INVALID);
    assert_says("from 0 to 10");
    assert_int_equal(command_number(&line, COMMAND_COUNT, 7, 0, 10, &number, &error), ERR_OK);
    assert_int_equal(number, 7);
    command_line_done(&line);
}

TEST(every_command_says_what_it_does_and_shows_an_example)
{
    size_t found = 0;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        assert_true(command->summary[0]);
        if (!command->name)
            continue;
        found++;
        assert_non_null(command->run);
        assert_true(command->least <= command->most);
        assert_int_equal(strncmp(command->example, "tally ", 6), 0);
        assert_int_equal(strncmp(command->example + 6, command->name, strlen(command->name)), 0);
        assert_ptr_equal(command_find(command->name), command);
    }
    assert_true(found > 30);
}

RUN(cmocka_unit_test(options_may_stand_anywhere), cmocka_unit_test(a_negative_number_is_no_option),
    cmocka_unit_test(two_dashes_end_the_options),
    cmocka_unit_test(what_is_sent_as_it_is_may_look_like_anything),
    cmocka_unit_test(the_last_of_several_values_counts),
    cmocka_unit_test(mistakes_are_told_with_what_would_be_right),
    cmocka_unit_test(help_needs_no_arguments), cmocka_unit_test(numbers_have_limits),
    cmocka_unit_test(every_command_says_what_it_does_and_shows_an_example))
