#include "door/resp/resp_command.h"

#include <ctype.h>
#include <string.h>

#include "unit/test.h"

static struct resp_commands commands;

static void assert_finds(const char *name, const struct resp_command *expected)
{
    assert_ptr_equal(resp_commands_find(&commands, slice_of(name)), expected);
}

TEST(every_command_is_found_in_any_case)
{
    for (unsigned i = 0; i < resp_command_count; i++) {
        const struct resp_command *command = &resp_command_table[i];
        char name[32] = {0};
        for (size_t at = 0; command->name[at]; at++)
            name[at] = (char)toupper(command->name[at]);
        assert_finds(command->name, command);
        assert_finds(name, command);
        name[0] = (char)tolower(name[0]);
        assert_finds(name, command);
    }
}

TEST(what_is_no_command_is_not_found)
{
    static const char *const names[] = {"",
                                        "x",
                                        "inc",
                                        "incrr",
                                        "incr ",
                                        "flushall",
                                        "eval",
                                        "shutdown",
                                        "debug",
                                        "trend",
                                        "[ncr",
                                        "counter.",
                                        "a name that is far longer than any command"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_finds(names[i], NULL);
}

TEST(a_name_and_a_neighbour_are_told_apart)
{
    for (unsigned i = 0; i < resp_command_count; i++) {
        char name[32] = {0};
        size_t size = strlen(resp_command_table[i].name);
        for (size_t at = 0; at < size; at++) {
            memcpy(name, resp_command_table[i].name, size);
            name[at] = '_';
            assert_finds(name, NULL);
        }
    }
}

TEST(the_table_makes_sense)
{
    for (unsigned i = 0; i < resp_command_count; i++) {
        const struct resp_command *command = &resp_command_table[i];
        assert_non_null(command->handler);
        assert_true(command->arity != 0);
        assert_true(command->summary[0] && command->group[0] && command->since[0]);
        for (const char *at = command->name; *at; at++)
            assert_true(islower(*at) || *at == '.');
        if (command->first_key > 0) {
            int least = command->arity < 0 ? -command->arity : command->arity;
            assert_true(command->first_key < least);
            assert_int_equal(command->step, 1);
        }
        for (unsigned other = 0; other < i; other++)
            assert_string_not_equal(command->name, resp_command_table[other].name);
    }
}

static int set_up(void **state)
{
    (void)state;
    resp_commands_init(&commands);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_is_found_in_any_case),
        cmocka_unit_test(what_is_no_command_is_not_found),
        cmocka_unit_test(a_name_and_a_neighbour_are_told_apart),
        cmocka_unit_test(the_table_makes_sense),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
