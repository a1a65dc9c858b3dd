#include "cli/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"

static struct error error;
static struct settings settings;
static char folder[64];
static char path[128];

/* The environment of a test. */
static const char *address_variable;
static const char *token_variable;

static const char *variable(const char *name)
{
    if (strcmp(name, "TALLY_ADDRESS") == 0)
        return address_variable;
    if (strcmp(name, "TALLY_TOKEN") == 0)
        return token_variable;
    return strcmp(name, "XDG_CONFIG_HOME") == 0 ? folder : NULL;
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static enum err load(const char *flag, const char *value)
{
    struct command_line line;
    const char *argv[] = {"status", flag, value};
    assert_int_equal(command_parse(flag ? 3 : 1, argv, &line, &error), ERR_OK);
    enum err err = settings_load(&line, variable, &settings, &error);
    command_line_done(&line);
    return err;
}

static int prepare(void **state)
{
    (void)state;
    address_variable = token_variable = NULL;
    (void)snprintf(folder, sizeof(folder), "/tmp/tally-settings-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/tally", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/tally/config", folder);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    char inner[128];
    (void)unlink(path);
    (void)snprintf(inner, sizeof(inner), "%s/tally", folder);
    (void)rmdir(inner);
    (void)rmdir(folder);
    return 0;
}

static void assert_address(const char *text, const char *host, unsigned port)
{
    struct settings read = {.host = "host", .port = 1};
    assert_int_equal(settings_parse_address(slice_of(text), &read, &error), ERR_OK);
    assert_string_equal(read.host, host);
    assert_int_equal(read.port, port);
}

TEST(addresses_have_a_host_and_a_port)
{
    assert_address("10.0.0.1:6380", "10.0.0.1", 6380);
    assert_address("tally.example.org", "tally.example.org", 1);
    assert_address(":99", "host", 99);
    assert_address("[::1]:6380", "::1", 6380);
    assert_address("[::1]", "::1", 1);
    assert_address("fe80::1", "fe80::1", 1);
    const char *wrong[] = {"", "a:", "a:x", "a:0", "a:65536", "[::1", "[::1]6380", "a:-1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (settings_parse_address(slice_of(wrong[i]), &settings, &error) != ERR_INVALID)
            fail_msg("taken: %s", wrong[i]);
}

TEST(a_flag_is_stronger_than_a_variable_and_that_than_the_file)
{
    assert_int_equal(load(NULL, NULL), ERR_OK);
    assert_string_equal(settings.host, "127.0.0.1");
    assert_int_equal(settings.port, 6380);

    write_file("# where\naddress file:1\ntimeout 9\n\ncolor never\n", 0644);
    assert_int_equal(load(NULL, NULL), ERR_OK);
    assert_string_equal(settings.host, "file");
    assert_int_equal(settings.timeout_s, 9);
    assert_true(settings.no_colour);

    address_variable = "variable:2";
    assert_int_equal(load(NULL, NULL), ERR_OK);
    assert_string_equal(settings.host, "variable");
    assert_int_equal(settings.timeout_s, 9);

    assert_int_equal(load("--address", "flag:3"), ERR_OK);
    assert_string_equal(settings.host, "flag");
    assert_int_equal(settings.port, 3);
}

TEST(a_token_comes_from_a_variable_or_a_file_that_nobody_else_can_read)
{
    write_file("token secret1\n", 0644);
    assert_int_equal(load(NULL, NULL), ERR_INVALID);
    assert_non_null(strstr(error.text, "chmod 600"));
    write_file("token secret1\n", 0600);
    assert_int_equal(load(NULL, NULL), ERR_OK);
    assert_string_equal(settings.token, "secret1");
    token_variable = "secret2";
    assert_int_equal(load(NULL, NULL), ERR_OK);
    assert_string_equal(settings.token, "secret2");

    write_file("first line\nsecond\n", 0600);
    address_variable = NULL;
    char other[160];
    (void)snprintf(other, sizeof(other), "%s.token", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(load("--token-file", other), ERR_OK);
    assert_string_equal(settings.token, "first line");
    assert_int_equal(chmod(other, 0644), 0);
    assert_int_equal(load("--token-file", other), ERR_INVALID);
    assert_int_equal(unlink(other), 0);
}

TEST(mistakes_in_the_file_are_told_with_their_line)
{
    write_file("address a:1\nwhat 5\n", 0644);
    assert_int_equal(load(NULL, NULL), ERR_INVALID);
    assert_non_null(strstr(error.text, ":2: "));
    assert_non_null(strstr(error.text, "'what'"));
    write_file("address\n", 0644);
    assert_int_equal(load(NULL, NULL), ERR_INVALID);
    assert_non_null(strstr(error.text, ":1: "));
    assert_int_equal(load("--config", "/nowhere/config"), ERR_INVALID);
}

#define TEST_IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, prepare, clean)

RUN(cmocka_unit_test(addresses_have_a_host_and_a_port),
    TEST_IN_FOLDER(a_flag_is_stronger_than_a_variable_and_that_than_the_file),
    TEST_IN_FOLDER(a_token_comes_from_a_variable_or_a_file_that_nobody_else_can_read),
    TEST_IN_FOLDER(mistakes_in_the_file_are_told_with_their_line))
