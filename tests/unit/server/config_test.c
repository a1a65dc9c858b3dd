#include "server/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"
#include "flow/service.h"
#include "server/help.h"
#include "unit/test.h"

static struct config config;
static struct config_request request;
static struct error error;

/* The strings of a command line or of an environment, closed by NULL. */
#define STRINGS(...) ((const char *[]){__VA_ARGS__, NULL})

static enum err flags(const char *const *arguments)
{
    int count = 0;
    while (arguments[count])
        count++;
    config_init(&config);
    return config_read_flags(&config, count, arguments, &request, &error);
}

static enum err text(const char *lines)
{
    config_init(&config);
    return config_read_text(&config, "tally.conf", slice_of(lines), &error);
}

static enum err load(const char *const *arguments, const char *const *environment)
{
    int count = 0;
    while (arguments[count])
        count++;
    return config_load(&config, count, arguments, environment, &request, &error);
}

static void assert_says(const char *what)
{
    if (!strstr(error.text, what))
        fail_msg("'%s' does not say '%s'", error.text, what);
}

/* A file with these lines; the name is the test's to free and remove. */
static char *file_with(const char *lines, mode_t mode)
{
    char *path = strdup("/tmp/tally-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, lines, strlen(lines)), strlen(lines));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

static void remove_file(char *path)
{
    unlink(path);
    free(path);
}

TEST(the_defaults_are_those_of_the_table)
{
    config_init(&config);
    assert_string_equal(config.data.text, "./data");
    assert_string_equal(config.resp.host, "127.0.0.1");
    assert_int_equal(config.resp.port, 6380);
    assert_int_equal(config.ack, ACK_DURABLE);
    assert_int_equal(config.keys_kept, 24 * 3600 * 1000);
    assert_int_equal(config.segment_size, 64 << 20);
    assert_int_equal(config.max_connections, 10000);
    assert_false(config.insecure);
    assert_int_equal(config.verbosity, MESSAGE_INFO);
    assert_int_equal(config_check(&config, &error), ERR_OK);
}

TEST(the_words_of_ack_stand_in_the_order_of_the_enum)
{
    for (unsigned ack = ACK_DURABLE; ack <= ACK_MEMORY; ack++) {
        const char *name = ack_name((enum ack)ack);
        assert_int_equal(flags(STRINGS("tallyd", "--ack", name)), ERR_OK);
        assert_int_equal(config.ack, ack);
    }
}

TEST(a_flag_takes_its_value_behind_a_blank_or_an_equals_sign)
{
    assert_int_equal(flags(STRINGS("tallyd", "--workers", "3", "--data=/x=y")), ERR_OK);
    assert_int_equal(config.workers, 3);
    assert_string_equal(config.data.text, "/x=y");
    assert_int_equal(request.action, CONFIG_RUN);
}

TEST(a_boolean_flag_alone_means_yes)
{
    assert_int_equal(flags(STRINGS("tallyd", "--insecure", "--workers", "3")), ERR_OK);
    assert_true(config.insecure);
    assert_int_equal(config.workers, 3);
    assert_int_equal(flags(STRINGS("tallyd", "--insecure=no")), ERR_OK);
    assert_false(config.insecure);
    assert_int_equal(flags(STRINGS("tallyd", "--core-dumps", "yes", "--insecure", "no")), ERR_OK);
    assert_false(config.insecure);
    assert_true(config.core_dumps);
}

TEST(of_two_equal_flags_the_last_counts)
{
    assert_int_equal(flags(STRINGS("tallyd", "--workers", "3", "--workers", "4")), ERR_OK);
    assert_int_equal(config.workers, 4);
}

TEST(a_flag_without_its_value_is_refused)
{
    assert_int_equal(flags(STRINGS("tallyd", "--data")), ERR_INVALID);
    assert_says("--data needs a value");
    assert_int_equal(flags(STRINGS("tallyd", "--data", "--workers", "2")), ERR_INVALID);
    assert_says("--data needs a value");
}

TEST(a_bad_value_is_told_with_the_flag_and_what_would_be_right)
{
    assert_int_equal(flags(STRINGS("tallyd", "--ack", "never")), ERR_INVALID);
    assert_says("--ack: ");
    assert_says("durable|written|memory");
}

TEST(a_misspelt_flag_is_answered_with_the_nearest_one)
{
    assert_int_equal(flags(STRINGS("tallyd", "--wrokers", "2")), ERR_INVALID);
    assert_says("did you mean --workers?");
    assert_int_equal(flags(STRINGS("tallyd", "--max-conections=5")), ERR_INVALID);
    assert_says("did you mean --max-connections?");
    assert_int_equal(flags(STRINGS("tallyd", "-data", "x")), ERR_INVALID);
    assert_says("did you mean --data?");
    assert_int_equal(flags(STRINGS("tallyd", "--hlep")), ERR_INVALID);
    assert_says("did you mean --help?");
    assert_int_equal(flags(STRINGS("tallyd", "--teleport")), ERR_INVALID);
    assert_says("--help lists them");
}

TEST(something_that_is_no_flag_is_refused)
{
    assert_int_equal(flags(STRINGS("tallyd", "start")), ERR_INVALID);
    assert_says("\"start\"");
    assert_int_equal(flags(STRINGS("tallyd", "--workers", "2", "3")), ERR_INVALID);
    assert_int_equal(flags(STRINGS("tallyd", "--")), ERR_INVALID);
    assert_int_equal(flags(STRINGS("tallyd", "")), ERR_INVALID);
}

TEST(actions_are_flags_too)
{
    assert_int_equal(flags(STRINGS("tallyd", "--test-config", "--workers", "2")), ERR_OK);
    assert_int_equal(request.action, CONFIG_TEST);
    assert_int_equal(config.workers, 2);
    assert_int_equal(flags(STRINGS("tallyd", "--check", "/var/lib/tally")), ERR_OK);
    assert_int_equal(request.action, CONFIG_CHECK);
    assert_string_equal(request.folder, "/var/lib/tally");
    assert_int_equal(flags(STRINGS("tallyd", "--repair=/d")), ERR_OK);
    assert_int_equal(request.action, CONFIG_REPAIR);
    assert_string_equal(request.folder, "/d");
    assert_int_equal(flags(STRINGS("tallyd", "--check")), ERR_INVALID);
    assert_says("--check DIR");
    assert_int_equal(flags(STRINGS("tallyd", "--check", "a", "--repair", "b")), ERR_INVALID);
    assert_says("one thing at a time");
}

TEST(help_is_given_whatever_else_is_wrong)
{
    assert_int_equal(load(STRINGS("tallyd", "--help", "--nonsense"), STRINGS("TALLY_ACK=x")),
                     ERR_OK);
    assert_int_equal(request.action, CONFIG_HELP);
    assert_int_equal(load(STRINGS("tallyd", "-h"), STRINGS("TALLY_ACK=x")), ERR_OK);
    assert_int_equal(request.action, CONFIG_HELP);
}

TEST(a_variable_is_the_name_in_capitals_with_underscores)
{
    config_init(&config);
    assert_int_equal(
        config_read_environment(
            &config, STRINGS("HOME=/root", "TALLY_KEYS_KEPT=1h", "TALLY_DATA=/d"), &error),
        ERR_OK);
    assert_int_equal(config.keys_kept, 3600 * 1000);
    assert_string_equal(config.data.text, "/d");
}

TEST(an_empty_variable_is_no_variable)
{
    config_init(&config);
    assert_int_equal(config_read_environment(&config, STRINGS("TALLY_ACK=", "TALLY_DATA"), &error),
                     ERR_OK);
    assert_string_equal(config.data.text, "./data");
}

TEST(a_bad_variable_is_told_by_its_name)
{
    config_init(&config);
    assert_int_equal(config_read_environment(&config, STRINGS("TALLY_IDLE_TIMEOUT=5"), &error),
                     ERR_INVALID);
    assert_says("TALLY_IDLE_TIMEOUT: \"5\"");
}

TEST(an_unknown_variable_does_not_stop_us)
{
    message_set_level(MESSAGE_ERROR);
    config_init(&config);
    assert_int_equal(
        config_read_environment(
            &config, STRINGS("TALLY_WROKERS=3", "TALLY_PORT_6380_TCP_ADDR=10.0.0.1", "TALLY_=x"),
            &error),
        ERR_OK);
    assert_int_equal(config.workers, 0);
}

TEST(a_file_has_a_name_and_a_value_on_each_line)
{
    assert_int_equal(text("# first\n"
                          "\n"
                          "data /var/lib/tally\n"
                          "\tworkers \t 4   # as many as cores\r\n"
                          "kinds \"like,dislike\" # two\n"
                          "password-file 'a \"b\" c'\n"
                          "insecure yes"),
                     ERR_OK);
    assert_string_equal(config.data.text, "/var/lib/tally");
    assert_int_equal(config.workers, 4);
    assert_string_equal(config.kinds.text, "like,dislike");
    assert_string_equal(config.password_file.text, "a \"b\" c");
    assert_true(config.insecure);
}

TEST(the_file_that_we_deploy_is_fine)
{
    assert_int_equal(load(STRINGS("tallyd", "--config", "deploy/tallyd.conf"), STRINGS("A=b")),
                     ERR_OK);
}

TEST(quotes_keep_blanks_signs_and_escapes)
{
    assert_int_equal(text("data \"a # b \\\" \\\\ c\"\n"), ERR_OK);
    assert_string_equal(config.data.text, "a # b \" \\ c");
    assert_int_equal(text("data a#b\n"), ERR_OK);
    assert_string_equal(config.data.text, "a#b");
    assert_int_equal(text("data ''\n"), ERR_OK);
    assert_string_equal(config.data.text, "");
}

TEST(a_bad_line_is_told_by_file_and_number)
{
    static const struct {
        const char *lines;
        const char *says;
    } cases[] = {
        {"data x\nworkers many\n", "tally.conf:2: workers: \"many\""},
        {"\n\nwrokers 2\n", "tally.conf:3: \"wrokers\": no such setting; did you mean workers?"},
        {"teleport on\n", "tally.conf:1: \"teleport\": no such setting; tallyd --help lists them"},
        {"data\n", "tally.conf:1: a value is missing"},
        {"data # x\n", "tally.conf:1: a value is missing"},
        {"data=x\n", "without ="},
        {"data a b\n", "put quotes around"},
        {"data \"a\n", "closing quote is missing"},
        {"data \"a\"b\n", "right behind the closing quote"},
        {"data \"\\n\"\n", "goes before"},
        {"data a\ndata b\n", "tally.conf:2: data is on line 1 already"},
        {"config other.conf\n", "cannot name another file"},
        {"password hunter2\n", "--password-file FILE, or TALLY_PASSWORD"},
        {"check /data\n", "no such setting"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(text(cases[i].lines), ERR_INVALID);
        assert_says(cases[i].says);
    }
}

TEST(a_flag_beats_a_variable_beats_the_file_beats_the_default)
{
    char *path = file_with("data from-file\nworkers 1\nspread-rate 5\n", 0644);
    char variable[64];
    snprintf(variable, sizeof(variable), "TALLY_CONFIG=%s", path);

    assert_int_equal(load(STRINGS("tallyd", "--data", "from-flag"),
                          STRINGS(variable, "TALLY_DATA=from-variable", "TALLY_WORKERS=2")),
                     ERR_OK);
    assert_string_equal(config.data.text, "from-flag");
    assert_int_equal(config.workers, 2);
    assert_int_equal(config.spread_rate, 5);
    assert_int_equal(config.max_connections, 10000);
    remove_file(path);
}

TEST(a_hidden_value_is_checked_all_the_same)
{
    assert_int_equal(load(STRINGS("tallyd", "--workers", "2"), STRINGS("TALLY_WORKERS=many")),
                     ERR_INVALID);
    assert_says("TALLY_WORKERS: ");
}

TEST(a_file_that_is_not_there_is_an_error)
{
    assert_int_equal(load(STRINGS("tallyd", "--config", "/nonexistent/tally.conf"), STRINGS("A=b")),
                     ERR_INVALID);
    assert_says("--config: cannot open /nonexistent/tally.conf");
}

TEST(where_a_value_came_from_is_remembered)
{
    char *path = file_with("\nworkers 1\n", 0644);
    char expected[64];
    snprintf(expected, sizeof(expected), "%s:2: workers", path);
    assert_int_equal(load(STRINGS("tallyd", "--config", path), STRINGS("TALLY_DATA=x")), ERR_OK);

    char where[128];
    assert_string_equal(config_where(&config, &config.workers, where, sizeof(where)), expected);
    assert_string_equal(config_where(&config, &config.data, where, sizeof(where)), "TALLY_DATA");
    assert_string_equal(config_where(&config, &config.config, where, sizeof(where)), "--config");
    assert_string_equal(config_where(&config, &config.ack, where, sizeof(where)), "default of ack");
    remove_file(path);
}

TEST(beyond_this_machine_a_password_is_needed)
{
    assert_int_equal(load(STRINGS("tallyd", "--resp", "0.0.0.0:6380"), STRINGS("A=b")),
                     ERR_INVALID);
    assert_says("--resp: ");
    assert_says("--password-file");
    assert_says("--insecure");
    assert_int_equal(load(STRINGS("tallyd", "--resp", "[::]:6380"), STRINGS("A=b")), ERR_INVALID);
    assert_int_equal(
        load(STRINGS("tallyd", "--resp", "0.0.0.0:6380", "--insecure"), STRINGS("A=b")), ERR_OK);
    assert_int_equal(
        load(STRINGS("tallyd", "--resp", "0.0.0.0:6380"), STRINGS("TALLY_PASSWORD=hunter2")),
        ERR_OK);
}

TEST(a_password_comes_from_the_environment_but_never_from_the_command_line)
{
    assert_int_equal(load(STRINGS("tallyd"), STRINGS("TALLY_PASSWORD=hunter2")), ERR_OK);
    assert_string_equal(config.password.text, "hunter2");
    assert_int_equal(load(STRINGS("tallyd", "--password", "hunter2"), STRINGS("A=b")), ERR_INVALID);
    assert_says("--password: others could read it here");
    assert_null(strstr(error.text, "hunter2"));
}

TEST(a_password_comes_from_the_first_line_of_a_file)
{
    char *path = file_with("hunter2\r\nnot this\n", 0600);
    assert_int_equal(load(STRINGS("tallyd", "--password-file", path), STRINGS("A=b")), ERR_OK);
    assert_string_equal(config.password.text, "hunter2");
    assert_int_equal(
        load(STRINGS("tallyd", "--password-file", path), STRINGS("TALLY_PASSWORD=other")),
        ERR_INVALID);
    assert_says("give one of them");
    remove_file(path);
}

TEST(a_password_file_that_others_can_read_is_refused)
{
    static const mode_t wrong[] = {0644, 0604, 0602, 0660, 0666, 0601};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char *path = file_with("hunter2\n", wrong[i]);
        assert_int_equal(load(STRINGS("tallyd", "--password-file", path), STRINGS("A=b")),
                         ERR_INVALID);
        assert_says("chmod 600");
        assert_null(strstr(error.text, "hunter2"));
        remove_file(path);
    }
    static const mode_t right[] = {0600, 0400, 0440};
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        char *path = file_with("hunter2\n", right[i]);
        assert_int_equal(load(STRINGS("tallyd", "--password-file", path), STRINGS("A=b")), ERR_OK);
        remove_file(path);
    }
}

TEST(a_password_file_without_a_password_is_refused)
{
    char *path = file_with("\nhunter2\n", 0600);
    assert_int_equal(load(STRINGS("tallyd", "--password-file", path), STRINGS("A=b")), ERR_INVALID);
    assert_says("first line is empty");
    remove_file(path);
    assert_int_equal(load(STRINGS("tallyd", "--password-file", "/tmp"), STRINGS("A=b")),
                     ERR_INVALID);
    assert_says("/tmp is not a file");
}

TEST(a_password_has_512_bytes_at_most)
{
    char variable[700] = "TALLY_PASSWORD=";
    memset(variable + strlen(variable), 'x', CONFIG_PASSWORD_BYTES_MAX);
    assert_int_equal(load(STRINGS("tallyd"), STRINGS(variable)), ERR_OK);
    variable[strlen(variable)] = 'x';
    assert_int_equal(load(STRINGS("tallyd"), STRINGS(variable)), ERR_INVALID);
    assert_says("TALLY_PASSWORD: ");
}

TEST(settings_that_make_no_sense_together_are_refused)
{
    assert_int_equal(load(STRINGS("tallyd", "--segment-size", "70000"), STRINGS("A=b")),
                     ERR_INVALID);
    assert_says("--segment-size: must be a multiple of 4KiB");
    assert_int_equal(load(STRINGS("tallyd", "--kinds", "like,like"), STRINGS("A=b")), ERR_INVALID);
    assert_says("--kinds: ");
    assert_int_equal(load(STRINGS("tallyd", "--data", ""), STRINGS("A=b")), ERR_INVALID);
    assert_says("--data: ");
}

TEST(the_demo_is_for_one_node_on_loopback_without_a_password)
{
    assert_int_equal(flags(STRINGS("tallyd")), ERR_OK);
    assert_true(config_has_demo(&config));
    assert_int_equal(flags(STRINGS("tallyd", "--demo", "off")), ERR_OK);
    assert_false(config_has_demo(&config));
    assert_int_equal(load(STRINGS("tallyd"), STRINGS("TALLY_PASSWORD=sesame")), ERR_OK);
    assert_false(config_has_demo(&config));
    assert_int_equal(load(STRINGS("tallyd", "--demo", "on"), STRINGS("TALLY_PASSWORD=sesame")),
                     ERR_OK);
    assert_true(config_has_demo(&config));
    assert_int_equal(flags(STRINGS("tallyd", "--insecure", "--http", "0.0.0.0:3001")), ERR_OK);
    assert_false(config_has_demo(&config));
    assert_int_equal(flags(STRINGS("tallyd", "--hot", "redis://h:1", "--log", "redis-stream://h:1",
                                   "--store", "postgres://h/db")),
                     ERR_OK);
    assert_false(config_has_demo(&config));
}

/* --- reload ------------------------------------------------------------------ */

static char changes[1024];

static void note_change(void *arg, const struct config_setting *setting, const char *before,
                        const char *after)
{
    (void)arg;
    size_t used = strlen(changes);
    snprintf(changes + used, sizeof(changes) - used, "%s:%s>%s;", setting->name, before, after);
}

static void assert_refused(const char *const *arguments, const char *word)
{
    assert_int_equal(load(arguments, STRINGS("A=b")), ERR_INVALID);
    if (!strstr(error.text, word))
        fail_msg("%s", error.text);
}

TEST(three_urls_make_many_nodes_and_have_to_fit_together)
{
    assert_int_equal(load(STRINGS("tallyd", "--hot", "redis://h:1", "--log", "kafka://h:2/t",
                                  "--store", "postgres://h/d", "--role", "serve"),
                          STRINGS("A=b")),
                     ERR_OK);
    assert_true(config_is_distributed(&config));
    assert_int_equal(config.role, CONFIG_SERVE);
    assert_int_equal(load(STRINGS("tallyd", "--hot=redis://h:1", "--log=redis-stream://h:2",
                                  "--store=postgresql://h/d", "--ack=hot"),
                          STRINGS("A=b")),
                     ERR_OK);
    assert_int_equal(load(STRINGS("tallyd"), STRINGS("A=b")), ERR_OK);
    assert_false(config_is_distributed(&config));
    assert_int_equal(load(STRINGS("tallyd", "--store=postgres://h/d"), STRINGS("A=b")), ERR_OK);

    assert_refused(STRINGS("tallyd", "--hot=redis://h:1", "--store=postgres://h/d"), "of log");
    assert_refused(STRINGS("tallyd", "--hot=redis://h:1", "--log=kafka://h:2/t"), "store");
    assert_refused(STRINGS("tallyd", "--hot=redis://h:1", "--log=kafka://h:2/t",
                           "--store=postgres://h/d", "--ack=memory"),
                   "log or hot");
    assert_refused(STRINGS("tallyd", "--hot=redis://h:1", "--log=kafka://h:2/t",
                           "--store=postgres://h/d", "--role=aggregate", "--http=off"),
                   "--http");
    assert_refused(STRINGS("tallyd", "--hot=valkey"), "redis://");
    assert_refused(STRINGS("tallyd", "--log=kafka://h:2/t"), "--hot");
    assert_refused(STRINGS("tallyd", "--role=serve"), "--role");
    assert_refused(STRINGS("tallyd", "--ack=log"), "--ack");
}

static void assert_shown(const char *url, const char *as)
{
    char text[256];
    assert_string_equal(value_hide_password(url, text, sizeof(text)), as);
    assert_int_equal(value_has_password(url), strcmp(url, as) != 0);
}

TEST(the_password_of_a_url_is_not_shown)
{
    assert_shown("redis://h:1,k:2/p", "redis://h:1,k:2/p");
    assert_shown("redis://ann:geheim@h:1,k:2/p", "redis://ann:***@h:1,k:2/p");
    assert_shown("redis://:ge@heim@h:1", "redis://:***@h:1");
    assert_shown("postgres://ann@h/d?sslmode=require", "postgres://ann@h/d?sslmode=require");
    assert_shown("postgres://h/d?password=geheim&user=ann", "postgres://h/d?password=***&user=ann");
    assert_shown("postgres://a:b@h/d?password=c", "postgres://a:***@h/d?password=***");
    assert_shown("memory:", "memory:");

    assert_int_equal(load(STRINGS("tallyd", "--hot=redis://ann:geheim@h:1", "--log=kafka://h:2/t"),
                          STRINGS("A=b")),
                     ERR_INVALID);
    assert_null(strstr(error.text, "geheim"));
}

TEST(an_update_takes_what_may_change_and_tells_of_everything)
{
    assert_int_equal(load(STRINGS("tallyd"), STRINGS("TALLY_PASSWORD=old")), ERR_OK);
    struct config now = config;
    assert_int_equal(load(STRINGS("tallyd", "--workers", "7", "--verbosity", "debug"),
                          STRINGS("TALLY_PASSWORD=new")),
                     ERR_OK);

    changes[0] = '\0';
    assert_int_equal(config_update(&now, &config, note_change, NULL, NULL), ERR_OK);
    assert_int_equal(now.workers, 0);
    assert_int_equal(now.verbosity, MESSAGE_DEBUG);
    assert_string_equal(now.password.text, "new");
    assert_string_equal(changes, "workers:0>7;password:(hidden)>(hidden);verbosity:info>debug;");

    changes[0] = '\0';
    assert_int_equal(config_update(&now, &now, note_change, NULL, NULL), ERR_OK);
    assert_string_equal(changes, "");
}

TEST(an_update_keeps_the_password_of_an_address_that_stays)
{
    const char *const *guarded = STRINGS("TALLY_PASSWORD=old");
    assert_int_equal(load(STRINGS("tallyd", "--resp", "0.0.0.0:6380"), guarded), ERR_OK);
    const struct config open = config;
    struct config now = open;

    /* Each is fine after a restart, but neither the address nor the leave to do
     * without a password changes before. */
    const char *const *const nexts[] = {STRINGS("tallyd"),
                                        STRINGS("tallyd", "--resp", "0.0.0.0:6380", "--insecure")};
    for (size_t i = 0; i < sizeof(nexts) / sizeof(nexts[0]); i++) {
        assert_int_equal(load(nexts[i], STRINGS("A=b")), ERR_OK);
        changes[0] = '\0';
        assert_int_equal(config_update(&now, &config, note_change, NULL, &error), ERR_INVALID);
        assert_says("--resp: other machines could connect without a password");
        assert_string_equal(changes, "");
        assert_memory_equal(&now, &open, sizeof(now));
    }
}

/* --- help -------------------------------------------------------------------- */

TEST(help_tells_of_every_setting_and_action)
{
    struct buffer help;
    buffer_init(&help, 64u << 10);
    help_write(&help);
    assert_int_equal(buffer_append(&help, "", 1), ERR_OK);

    char flag[64];
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        char variable[CONFIG_VARIABLE_BYTES];
        if (config_settings[i].kind == VALUE_SECRET)
            snprintf(flag, sizeof(flag), "\n  %s=", config_variable(&config_settings[i], variable));
        else
            snprintf(flag, sizeof(flag), "\n  --%s ", config_settings[i].name);
        assert_non_null(strstr(help.data, flag));
        if (config_settings[i].initial[0])
            assert_non_null(strstr(help.data, config_settings[i].initial));
    }
    for (size_t i = 0; i < CONFIG_ACTION_COUNT; i++) {
        snprintf(flag, sizeof(flag), "\n  --%s", config_action_flags[i].name);
        assert_non_null(strstr(help.data, flag));
    }
    buffer_done(&help);
}

TEST(no_line_of_the_help_is_wider_than_a_terminal)
{
    struct buffer help;
    buffer_init(&help, 64u << 10);
    help_write(&help);
    for (const char *line = help.data; line < help.data + help.size;) {
        const char *end = memchr(line, '\n', (size_t)(help.data + help.size - line));
        assert_non_null(end);
        assert_in_range(end - line, 0, 90);
        line = end + 1;
    }
    buffer_done(&help);
}

RUN(cmocka_unit_test(the_defaults_are_those_of_the_table),
    cmocka_unit_test(the_words_of_ack_stand_in_the_order_of_the_enum),
    cmocka_unit_test(a_flag_takes_its_value_behind_a_blank_or_an_equals_sign),
    cmocka_unit_test(a_boolean_flag_alone_means_yes),
    cmocka_unit_test(of_two_equal_flags_the_last_counts),
    cmocka_unit_test(a_flag_without_its_value_is_refused),
    cmocka_unit_test(a_bad_value_is_told_with_the_flag_and_what_would_be_right),
    cmocka_unit_test(a_misspelt_flag_is_answered_with_the_nearest_one),
    cmocka_unit_test(something_that_is_no_flag_is_refused), cmocka_unit_test(actions_are_flags_too),
    cmocka_unit_test(help_is_given_whatever_else_is_wrong),
    cmocka_unit_test(a_variable_is_the_name_in_capitals_with_underscores),
    cmocka_unit_test(an_empty_variable_is_no_variable),
    cmocka_unit_test(a_bad_variable_is_told_by_its_name),
    cmocka_unit_test(an_unknown_variable_does_not_stop_us),
    cmocka_unit_test(a_file_has_a_name_and_a_value_on_each_line),
    cmocka_unit_test(the_file_that_we_deploy_is_fine),
    cmocka_unit_test(quotes_keep_blanks_signs_and_escapes),
    cmocka_unit_test(a_bad_line_is_told_by_file_and_number),
    cmocka_unit_test(a_flag_beats_a_variable_beats_the_file_beats_the_default),
    cmocka_unit_test(a_hidden_value_is_checked_all_the_same),
    cmocka_unit_test(a_file_that_is_not_there_is_an_error),
    cmocka_unit_test(where_a_value_came_from_is_remembered),
    cmocka_unit_test(beyond_this_machine_a_password_is_needed),
    cmocka_unit_test(a_password_comes_from_the_environment_but_never_from_the_command_line),
    cmocka_unit_test(a_password_comes_from_the_first_line_of_a_file),
    cmocka_unit_test(a_password_file_that_others_can_read_is_refused),
    cmocka_unit_test(a_password_file_without_a_password_is_refused),
    cmocka_unit_test(a_password_has_512_bytes_at_most),
    cmocka_unit_test(settings_that_make_no_sense_together_are_refused),
    cmocka_unit_test(the_demo_is_for_one_node_on_loopback_without_a_password),
    cmocka_unit_test(three_urls_make_many_nodes_and_have_to_fit_together),
    cmocka_unit_test(the_password_of_a_url_is_not_shown),
    cmocka_unit_test(an_update_takes_what_may_change_and_tells_of_everything),
    cmocka_unit_test(an_update_keeps_the_password_of_an_address_that_stays),
    cmocka_unit_test(help_tells_of_every_setting_and_action),
    cmocka_unit_test(no_line_of_the_help_is_wider_than_a_terminal))
