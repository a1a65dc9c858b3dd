/* resp_about.c - COMMAND and CONFIG: what the server says about itself to clients
 * and their tools. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/match.h"
#include "door/resp/resp_answers.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

void resp_answer_help(struct resp_client *client, const char *const *lines, size_t count)
{
    resp_reply_array(&client->reply, count);
    for (size_t i = 0; i < count; i++)
        resp_reply_status(&client->reply, lines[i]);
}

/* ---- COMMAND ---- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct word {
    unsigned flag;
    const char *text;
};

static const struct word flag_words[] = {
    {RESP_COMMAND_WRITE, "write"},   {RESP_COMMAND_READ, "readonly"},
    {RESP_COMMAND_FAST, "fast"},     {RESP_COMMAND_ADMIN, "admin"},
    {RESP_COMMAND_PUBSUB, "pubsub"}, {RESP_COMMAND_STRANGER, "no_auth"},
};

static const struct word category_words[] = {
    {RESP_COMMAND_WRITE, "@write"}, {RESP_COMMAND_READ, "@read"},     {RESP_COMMAND_FAST, "@fast"},
    {RESP_COMMAND_ADMIN, "@admin"}, {RESP_COMMAND_PUBSUB, "@pubsub"},
};

static void reply_words(struct resp_reply *reply, const struct word *words, size_t count,
                        unsigned flags)
{
    size_t said = 0;
    for (size_t i = 0; i < count; i++)
        said += (flags & words[i].flag) != 0;
    resp_reply_set(reply, said);
    for (size_t i = 0; i < count; i++) {
        if (flags & words[i].flag)
            resp_reply_status(reply, words[i].text);
    }
}

/* Ten things, as since Redis 7; hints, key specifications and subcommands are
 * empty. */
static void reply_info(struct resp_reply *reply, const struct resp_command *command)
{
    resp_reply_array(reply, 10);
    resp_reply_text(reply, command->name);
    resp_reply_integer(reply, command->arity);
    reply_words(reply, flag_words, COUNT(flag_words), command->flags);
    resp_reply_integer(reply, command->first_key);
    resp_reply_integer(reply, command->last_key);
    resp_reply_integer(reply, command->step);
    reply_words(reply, category_words, COUNT(category_words), command->flags);
    resp_reply_array(reply, 0);
    resp_reply_array(reply, 0);
    resp_reply_array(reply, 0);
}

static void reply_docs(struct resp_reply *reply, const struct resp_command *command)
{
    resp_reply_text(reply, command->name);
    resp_reply_map(reply, 3);
    resp_reply_text(reply, "summary");
    resp_reply_text(reply, command->summary);
    resp_reply_text(reply, "since");
    resp_reply_text(reply, command->since);
    resp_reply_text(reply, "group");
    resp_reply_text(reply, command->group);
}

static const struct resp_command *find(struct resp_client *client, struct slice name)
{
    return resp_commands_find(resp_door_commands(client->worker->resp), name);
}

static void all_infos(struct resp_client *client)
{
    resp_reply_array(&client->reply, resp_command_count);
    for (unsigned i = 0; i < resp_command_count; i++)
        reply_info(&client->reply, &resp_command_table[i]);
}

static void count(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_reply_integer(&client->reply, resp_command_count);
}

static void infos(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (argc == 2) {
        all_infos(client);
        return;
    }
    resp_reply_array(&client->reply, argc - 2);
    for (unsigned i = 2; i < argc; i++) {
        const struct resp_command *command = find(client, argv[i]);
        if (command)
            reply_info(&client->reply, command);
        else
            resp_reply_null(&client->reply);
    }
}

static void docs(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (argc == 2) {
        resp_reply_map(&client->reply, resp_command_count);
        for (unsigned i = 0; i < resp_command_count; i++)
            reply_docs(&client->reply, &resp_command_table[i]);
        return;
    }
    size_t known = 0;
    for (unsigned i = 2; i < argc; i++)
        known += find(client, argv[i]) != NULL;
    resp_reply_map(&client->reply, known);
    for (unsigned i = 2; i < argc; i++) {
        const struct resp_command *command = find(client, argv[i]);
        if (command)
            reply_docs(&client->reply, command);
    }
}

static void list(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argv;
    if (argc > 2) { /* FILTERBY, which we do not have */
        resp_client_fail_syntax(client);
        return;
    }
    resp_reply_array(&client->reply, resp_command_count);
    for (unsigned i = 0; i < resp_command_count; i++)
        resp_reply_text(&client->reply, resp_command_table[i].name);
}

static void get_keys(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    const struct resp_command *command = find(client, argv[2]);
    unsigned given = argc - 2;
    if (!command) {
        resp_client_fail(client, "ERR Invalid command specified");
        return;
    }
    if (command->first_key == 0) {
        resp_client_fail(client, "ERR The command has no key arguments");
        return;
    }
    if (!resp_command_fits(command->arity, given)) {
        resp_client_fail(client, "ERR Invalid number of arguments specified for command");
        return;
    }
    int last = command->last_key < 0 ? (int)given + command->last_key : command->last_key;
    int keys = (last - command->first_key) / command->step + 1;
    resp_reply_array(&client->reply, (size_t)keys);
    for (int i = command->first_key; i <= last; i += command->step)
        resp_reply_bulk(&client->reply, argv[2 + i]);
}

static void command_help(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    static const char *const lines[] = {
        "COMMAND",
        "COMMAND COUNT",
        "COMMAND DOCS [name ...]",
        "COMMAND GETKEYS command [argument ...]",
        "COMMAND INFO [name ...]",
        "COMMAND LIST",
    };
    resp_answer_help(client, lines, COUNT(lines));
}

void resp_command_command(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    static const struct resp_subcommand subcommands[] = {
        {"count", 2, count}, {"docs", -2, docs},        {"info", -2, infos},
        {"list", -2, list},  {"getkeys", -3, get_keys}, {"help", 2, command_help},
    };
    if (argc == 1)
        all_infos(client);
    else
        resp_subcommand_run(client, subcommands, COUNT(subcommands), argc, argv);
}

/* ---- CONFIG GET ---- */

struct settings {
    unsigned argc;
    const struct slice *argv; /* patterns, from the third on */
    struct resp_reply pairs;
    size_t count;
};

#define PATTERN_BYTES_MAX 128u /* no setting has so long a name */

/* Names of settings are in small letters; a pattern may be in any. */
static bool matches(struct slice pattern, const char *name)
{
    char small[PATTERN_BYTES_MAX];
    if (pattern.size > sizeof(small))
        return false;
    for (size_t i = 0; i < pattern.size; i++) {
        char c = pattern.data[i];
        small[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return match_glob((struct slice){small, pattern.size}, slice_of(name));
}

static void say(void *to, const char *name, const char *value)
{
    struct settings *settings = to;
    for (unsigned i = 2; i < settings->argc; i++) {
        if (matches(settings->argv[i], name)) {
            resp_reply_text(&settings->pairs, name);
            resp_reply_text(&settings->pairs, value);
            settings->count++;
            return;
        }
    }
}

/* What tools of Redis ask for by its names, said in our terms. */
static void say_for_redis(struct resp_client *client, struct settings *settings)
{
    struct resp_limits limits = resp_door_limits(client->worker->resp);
    enum ack ack = client->worker->service->ack;
    char number[24];
    say(settings, "save", "");
    say(settings, "appendonly", "yes");
    say(settings, "appendfsync", ack == ACK_DURABLE ? "always" : "everysec");
    say(settings, "databases", "1");
    struct hot_stats hot;
    hot_stats(client->worker->service->hot, &hot);
    snprintf(number, sizeof(number), "%" PRIu64, hot.memory_max);
    say(settings, "maxmemory", number);
    say(settings, "maxmemory-policy", hot.memory_max > 0 ? "allkeys-lru" : "noeviction");
    snprintf(number, sizeof(number), "%" PRIu32, limits.connections_max);
    say(settings, "maxclients", number);
    snprintf(number, sizeof(number), "%" PRIu32, limits.idle_timeout_s);
    say(settings, "timeout", number);
}

static void get(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    const struct resp_options *options = resp_door_options(client->worker->resp);
    struct settings settings = {.argc = argc, .argv = argv};
    resp_reply_init(&settings.pairs, client->reply.bytes.max);
    say_for_redis(client, &settings);
    if (options->config)
        options->config(options->config_arg, say, &settings);
    resp_reply_map(&client->reply, settings.count);
    resp_reply_raw(&client->reply, buffer_slice(&settings.pairs.bytes));
    resp_reply_done(&settings.pairs);
}

static void config_help(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    static const char *const lines[] = {"CONFIG GET pattern [pattern ...]"};
    resp_answer_help(client, lines, COUNT(lines));
}

void resp_config(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    static const struct resp_subcommand subcommands[] = {
        {"get", -3, get},
        {"help", 2, config_help},
    };
    resp_subcommand_run(client, subcommands, COUNT(subcommands), argc, argv);
}
