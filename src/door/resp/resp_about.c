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

static void fail_subcommand(struct resp_client *client, const char *command, struct slice name)
{
    int size = (int)(name.size < 128 ? name.size : 128);
    resp_client_fail(client, "ERR unknown subcommand '%.*s'. Try %s HELP.", size, name.data,
                     command);
}

void resp_answer_help(struct resp_client *client, const char *const *lines, size_t count)
{
    resp_reply_array(&client->reply, count);
    for (size_t i = 0; i < count; i++)
        resp_reply_status(&client->reply, lines[i]);
}

/* ---- COMMAND ---- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const command_help[] = {
    "COMMAND",
    "COMMAND COUNT",
    "COMMAND DOCS [name ...]",
    "COMMAND GETKEYS command [argument ...]",
    "COMMAND INFO [name ...]",
    "COMMAND LIST",
};

static const char *const config_help[] = {
    "CONFIG GET pattern [pattern ...]",
};

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

static void some_infos(struct resp_client *client, unsigned argc, const struct slice *argv)
{
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

static void list(struct resp_client *client)
{
    resp_reply_array(&client->reply, resp_command_count);
    for (unsigned i = 0; i < resp_command_count; i++)
        resp_reply_text(&client->reply, resp_command_table[i].name);
}

static void get_keys(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    const struct resp_command *command = argc > 2 ? find(client, argv[2]) : NULL;
    unsigned count = argc - 2;
    if (!command) {
        resp_client_fail(client, "ERR Invalid command specified");
        return;
    }
    if (command->first_key == 0) {
        resp_client_fail(client, "ERR The command has no key arguments");
        return;
    }
    if (command->arity >= 0 ? count != (unsigned)command->arity
                            : count < (unsigned)-command->arity) {
        resp_client_fail(client, "ERR Invalid number of arguments specified for command");
        return;
    }
    int last = command->last_key < 0 ? (int)count + command->last_key : command->last_key;
    int keys = (last - command->first_key) / command->step + 1;
    resp_reply_array(&client->reply, (size_t)keys);
    for (int i = command->first_key; i <= last; i += command->step)
        resp_reply_bulk(&client->reply, argv[2 + i]);
}

void resp_command_command(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (argc == 1 || (argc == 2 && slice_equal_nocase(argv[1], SLICE("info"))))
        all_infos(client);
    else if (slice_equal_nocase(argv[1], SLICE("count")) && argc == 2)
        resp_reply_integer(&client->reply, resp_command_count);
    else if (slice_equal_nocase(argv[1], SLICE("info")))
        some_infos(client, argc, argv);
    else if (slice_equal_nocase(argv[1], SLICE("docs")))
        docs(client, argc, argv);
    else if (slice_equal_nocase(argv[1], SLICE("list")) && argc == 2)
        list(client);
    else if (slice_equal_nocase(argv[1], SLICE("getkeys")))
        get_keys(client, argc, argv);
    else if (slice_equal_nocase(argv[1], SLICE("help")))
        resp_answer_help(client, command_help, COUNT(command_help));
    else
        fail_subcommand(client, "COMMAND", argv[1]);
}

/* ---- CONFIG GET ---- */

struct settings {
    unsigned argc;
    const struct slice *argv; /* patterns, from the third on */
    struct resp_reply pairs;
    size_t count;
};

static void say(void *to, const char *name, const char *value)
{
    struct settings *settings = to;
    for (unsigned i = 2; i < settings->argc; i++) {
        if (match_glob(settings->argv[i], slice_of(name))) {
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
    say(settings, "maxmemory", "0");
    say(settings, "maxmemory-policy", "noeviction");
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

void resp_config(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (slice_equal_nocase(argv[1], SLICE("help")))
        resp_answer_help(client, config_help, COUNT(config_help));
    else if (!slice_equal_nocase(argv[1], SLICE("get")))
        fail_subcommand(client, "CONFIG", argv[1]);
    else if (argc < 3)
        resp_client_fail(client, "ERR wrong number of arguments for 'config|get' command");
    else
        get(client, argc, argv);
}
