#include "door/resp/resp_command.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/message.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_multi.h"
#include "door/resp/resp_worker.h"

/* ---- the table ---- */

#define BATCHED    RESP_COMMAND_BATCHED
#define STRANGER   RESP_COMMAND_STRANGER
#define SUBSCRIBED RESP_COMMAND_SUBSCRIBED
#define WRITE      (RESP_COMMAND_WRITE | RESP_COMMAND_BATCHED)
#define READ       (RESP_COMMAND_READ | RESP_COMMAND_BATCHED)
#define LOOK       RESP_COMMAND_READ
#define FAST       RESP_COMMAND_FAST
#define ADMIN      RESP_COMMAND_ADMIN
#define PUBSUB     RESP_COMMAND_PUBSUB

#define NO_KEY   0, 0, 0
#define ONE_KEY  1, 1, 1
#define ALL_KEYS 1, -1, 1

/* clang-format off */
const struct resp_command resp_command_table[] = {
    /* name, arity, flags, keys, group, since, summary, handler */
    {"incr", 2, WRITE | FAST, ONE_KEY, "string", "1.0.0", "Adds one to a counter.", resp_incr},
    {"incrby", 3, WRITE | FAST, ONE_KEY, "string", "1.0.0", "Adds a number to a counter.", resp_incrby},
    {"decr", 2, WRITE | FAST, ONE_KEY, "string", "1.0.0", "Takes one from a counter.", resp_decr},
    {"decrby", 3, WRITE | FAST, ONE_KEY, "string", "1.0.0", "Takes a number from a counter.", resp_decrby},
    {"get", 2, READ | FAST, ONE_KEY, "string", "1.0.0", "Returns the value of a counter.", resp_get},
    {"mget", -2, READ | FAST, ALL_KEYS, "string", "1.0.0", "Returns the values of counters.", resp_mget},
    {"set", -3, WRITE, ONE_KEY, "string", "1.0.0", "Sets a counter to an integer.", resp_set},
    {"del", -2, WRITE, ALL_KEYS, "generic", "1.0.0", "Deletes counters and items.", resp_del},
    {"unlink", -2, WRITE | FAST, ALL_KEYS, "generic", "4.0.0", "Deletes counters and items.", resp_del},
    {"exists", -2, READ | FAST, ALL_KEYS, "generic", "1.0.0", "Says how many of the ids are there.", resp_exists},
    {"expire", -3, WRITE | FAST, ONE_KEY, "generic", "1.0.0", "Sets the lifetime of a counter in seconds.", resp_expire},
    {"pexpire", -3, WRITE | FAST, ONE_KEY, "generic", "2.6.0", "Sets the lifetime of a counter in milliseconds.", resp_pexpire},
    {"expireat", -3, WRITE | FAST, ONE_KEY, "generic", "1.2.0", "Sets when a counter expires, in seconds since 1970.", resp_expireat},
    {"pexpireat", -3, WRITE | FAST, ONE_KEY, "generic", "2.6.0", "Sets when a counter expires, in milliseconds since 1970.", resp_pexpireat},
    {"persist", 2, WRITE | FAST, ONE_KEY, "generic", "2.2.0", "Takes the lifetime from a counter.", resp_persist},
    {"ttl", 2, READ | FAST, ONE_KEY, "generic", "1.0.0", "Returns the lifetime left in seconds.", resp_ttl},
    {"pttl", 2, READ | FAST, ONE_KEY, "generic", "2.6.0", "Returns the lifetime left in milliseconds.", resp_pttl},
    {"type", 2, READ | FAST, ONE_KEY, "generic", "1.0.0", "Says whether an id is a counter (string) or an item.", resp_type},
    {"scan", -2, LOOK, NO_KEY, "generic", "2.8.0", "Goes through the counters step by step.", resp_scan},
    {"keys", 2, LOOK, NO_KEY, "generic", "1.0.0", "Returns the counters that match a pattern.", resp_keys},
    {"dbsize", 1, LOOK | FAST, NO_KEY, "server", "1.0.0", "Returns the number of counters and items.", resp_dbsize},

    {"like", -3, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Makes a user like an item: 1 if that is new.", resp_like},
    {"unlike", -3, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Takes back a user's like: 1 if there was one.", resp_unlike},
    {"dislike", -3, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Makes a user dislike an item: 1 if that is new.", resp_dislike},
    {"undislike", -3, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Takes back a user's dislike: 1 if there was one.", resp_undislike},
    {"toggle", -3, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Takes a user's reaction back if it is held, else makes it.", resp_toggle},
    {"react", -4, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Makes a user hold a reaction on an item.", resp_react},
    {"unreact", -3, WRITE | FAST, ONE_KEY, "reaction", "0.1.0", "Takes back whatever reaction a user holds on an item.", resp_unreact},
    {"reaction", 3, READ | FAST, ONE_KEY, "reaction", "0.1.0", "Returns the reaction that a user holds on an item.", resp_reaction},
    {"counts", 2, READ | FAST, ONE_KEY, "reaction", "0.1.0", "Returns the counts of an item's reactions.", resp_counts},
    {"members", -3, READ, ONE_KEY, "reaction", "0.1.0", "Returns users who hold a reaction on an item, page by page.", resp_members},
    {"reacted", -2, LOOK, NO_KEY, "reaction", "0.1.0", "Returns items that a user reacted to, page by page.", resp_reacted},
    {"user.reactions", -2, LOOK, NO_KEY, "reaction", "0.1.0", "Returns items that a user reacted to, page by page.", resp_reacted},

    {"counter.create", -2, WRITE | FAST, ONE_KEY, "counter", "0.1.0", "Creates a counter with shards, policy, floor and idle time.", resp_counter_create},
    {"counter.add", -3, WRITE | FAST, ONE_KEY, "counter", "0.1.0", "Adds to a counter, once for each idempotency key.", resp_counter_add},
    {"counter.set", -3, WRITE | FAST, ONE_KEY, "counter", "0.1.0", "Sets a counter, once for each idempotency key.", resp_counter_set},
    {"counter.reset", -2, WRITE | FAST, ONE_KEY, "counter", "0.1.0", "Sets a counter to a value, 0 if none is given.", resp_counter_reset},
    {"counter.delete", -2, WRITE | FAST, ONE_KEY, "counter", "0.1.0", "Deletes a counter, or an item with all its reactions.", resp_counter_delete},
    {"counter.info", 2, READ | FAST, ONE_KEY, "counter", "0.1.0", "Describes a counter or item: shards, policy, why they changed.", resp_counter_info},
    {"counter.recount", 2, LOOK, ONE_KEY, "counter", "0.1.0", "Counts anew from the log and compares.", resp_counter_recount},
    {"counter.events", -2, LOOK, ONE_KEY, "counter", "0.1.0", "Returns the events of a counter, newest first.", resp_counter_events},
    {"counter.at", 3, LOOK, ONE_KEY, "counter", "0.1.0", "Returns the value of a counter at a time.", resp_counter_at},

    {"recount", 2, ADMIN, NO_KEY, "proof", "0.1.0", "Starts a recount of all counters that match a pattern.", resp_recount},
    {"audit", -1, ADMIN, NO_KEY, "proof", "0.1.0", "Starts an audit, which compares all places that hold a value.", resp_audit},
    {"audits", -1, ADMIN, NO_KEY, "proof", "0.1.0", "Returns the audit trail, newest first.", resp_audits},
    {"task", 2, ADMIN, NO_KEY, "proof", "0.1.0", "Says how far a recount, an audit or an erasure is.", resp_task},
    {"tasks", 1, ADMIN, NO_KEY, "proof", "0.1.0", "Returns the tasks of the last hour.", resp_tasks},
    {"user.erase", 2, ADMIN, NO_KEY, "proof", "0.1.0", "Starts the erasure of a user, reactions and name.", resp_user_erase},
    {"events", -1, LOOK, NO_KEY, "pipeline", "0.1.0", "Returns what was applied to the store, newest first.", resp_events},
    {"dlq", -2, ADMIN, NO_KEY, "pipeline", "0.1.0", "Lists, shows, redrives and discards dead letters.", resp_dlq},
    {"history", -2, LOOK, ONE_KEY, "pipeline", "0.1.0", "Returns the history of an item's reactions, newest first.", resp_history},

    {"ping", -1, SUBSCRIBED | FAST, NO_KEY, "connection", "1.0.0", "Answers PONG, or what it is given.", resp_ping},
    {"echo", 2, FAST, NO_KEY, "connection", "1.0.0", "Answers what it is given.", resp_echo},
    {"hello", -1, STRANGER | FAST, NO_KEY, "connection", "6.0.0", "Chooses the version of the protocol.", resp_hello},
    {"auth", -2, STRANGER | FAST, NO_KEY, "connection", "1.0.0", "Says the password.", resp_auth},
    {"select", 2, FAST, NO_KEY, "connection", "1.0.0", "Selects database 0, the only one.", resp_select},
    {"reset", 1, STRANGER | SUBSCRIBED | FAST, NO_KEY, "connection", "6.2.0", "Makes the connection as new.", resp_reset},
    {"quit", -1, STRANGER | SUBSCRIBED | FAST, NO_KEY, "connection", "1.0.0", "Closes the connection.", resp_quit},
    {"client", -2, ADMIN, NO_KEY, "connection", "2.4.0", "Names, lists and closes connections.", resp_client_command},

    {"subscribe", -2, SUBSCRIBED | PUBSUB, NO_KEY, "pubsub", "2.0.0", "Listens to changes of counters.", resp_subscribe},
    {"unsubscribe", -1, SUBSCRIBED | PUBSUB, NO_KEY, "pubsub", "2.0.0", "Stops listening to counters.", resp_unsubscribe},
    {"psubscribe", -2, SUBSCRIBED | PUBSUB, NO_KEY, "pubsub", "2.0.0", "Listens to changes of counters that match a pattern.", resp_psubscribe},
    {"punsubscribe", -1, SUBSCRIBED | PUBSUB, NO_KEY, "pubsub", "2.0.0", "Stops listening to patterns.", resp_punsubscribe},

    {"multi", 1, BATCHED | FAST, NO_KEY, "transactions", "1.2.0", "Queues what follows, until EXEC.", resp_multi},
    {"exec", 1, BATCHED, NO_KEY, "transactions", "1.2.0", "Runs what was queued since MULTI.", resp_exec},
    {"discard", 1, BATCHED | FAST, NO_KEY, "transactions", "2.0.0", "Forgets what was queued since MULTI.", resp_discard},
    {"watch", -2, BATCHED | FAST, ALL_KEYS, "transactions", "2.2.0", "Is refused: EXEC depends on nothing.", resp_watch},
    {"unwatch", 1, BATCHED | FAST, NO_KEY, "transactions", "2.2.0", "Does nothing, since nothing is watched.", resp_unwatch},

    {"command", -1, 0, NO_KEY, "server", "2.8.13", "Describes the commands.", resp_command_command},
    {"config", -2, ADMIN, NO_KEY, "server", "2.0.0", "Returns settings.", resp_config},
    {"info", -1, 0, NO_KEY, "server", "1.0.0", "Returns facts and figures about the server.", resp_info},
    {"time", 1, FAST, NO_KEY, "server", "2.6.0", "Returns the time of the server.", resp_time},
};
/* clang-format on */

const unsigned resp_command_count = sizeof(resp_command_table) / sizeof(resp_command_table[0]);

_Static_assert(sizeof(resp_command_table) / sizeof(resp_command_table[0]) <= RESP_COMMANDS_MAX,
               "RESP_COMMANDS_MAX is too small");

/* ---- finding ---- */

#define NAME_SIZE_MAX 16u

/* What is no letter changes as well, but no two bytes that a name can hold
 * become the same, and the only other byte that becomes one of a name's is
 * 0x0e, a dot: harmless. */
static inline struct resp_command_name fold(struct slice name)
{
    const uint64_t small = 0x2020202020202020u;
    struct resp_command_name folded = {0, 0, name.size};
    if (name.size >= 8) {
        memcpy(&folded.low, name.data, 8);
        memcpy(&folded.high, name.data + name.size - 8, 8);
    } else if (name.size >= 4) {
        uint32_t head;
        uint32_t tail;
        memcpy(&head, name.data, 4);
        memcpy(&tail, name.data + name.size - 4, 4);
        folded.low = (uint64_t)tail << 32 | head;
    } else {
        for (size_t i = 0; i < name.size; i++)
            folded.low = folded.low << 8 | (unsigned char)name.data[i];
    }
    folded.low |= small;
    folded.high |= small;
    return folded;
}

static inline unsigned slot_of(const struct resp_command_name *name, uint64_t multiplier)
{
    _Static_assert(RESP_COMMAND_SLOTS == 1u << 9, "the slot is the upper 9 bits");
    return (unsigned)((((name->low ^ (name->high << 1)) + name->size) * multiplier) >> (64 - 9));
}

static bool try_multiplier(struct resp_commands *commands, uint64_t multiplier)
{
    memset(commands->slots, 0, sizeof(commands->slots));
    commands->multiplier = multiplier;
    for (unsigned i = 0; i < resp_command_count; i++) {
        uint8_t *slot = &commands->slots[slot_of(&commands->names[i], multiplier)];
        if (*slot != 0)
            return false;
        *slot = (uint8_t)(i + 1);
    }
    return true;
}

void resp_commands_init(struct resp_commands *commands)
{
    for (unsigned i = 0; i < resp_command_count; i++) {
        struct slice name = slice_of(resp_command_table[i].name);
        assert(name.size <= NAME_SIZE_MAX);
        commands->names[i] = fold(name);
    }
    uint64_t multiplier = 0x9e3779b97f4a7c15u;
    while (!try_multiplier(commands, multiplier))
        multiplier = multiplier * 6364136223846793005u + 1442695040888963407u;
}

static inline const struct resp_command *find(const struct resp_commands *commands,
                                              struct slice name)
{
    if (name.size > NAME_SIZE_MAX)
        return NULL;
    struct resp_command_name folded = fold(name);
    unsigned number = commands->slots[slot_of(&folded, commands->multiplier)];
    if (number == 0)
        return NULL;
    const struct resp_command_name *found = &commands->names[number - 1];
    if (found->low != folded.low || found->high != folded.high || found->size != folded.size)
        return NULL;
    return &resp_command_table[number - 1];
}

const struct resp_command *resp_commands_find(const struct resp_commands *commands,
                                              struct slice name)
{
    return find(commands, name);
}

/* ---- running ---- */

/* A browser that was talked into posting to our port, or a lost HTTP client.
 * What follows must not be taken for commands. */
static bool is_http(unsigned argc, const struct slice *argv)
{
    return slice_equal_nocase(argv[0], SLICE("post")) ||
           slice_equal_nocase(argv[0], SLICE("host:")) ||
           (argc == 3 && argv[2].size >= 5 && memcmp(argv[2].data, "HTTP/", 5) == 0);
}

static void turn_away_http(struct resp_client *client)
{
    if (pass_may_warn(&client->worker->pass))
        message_warning("possible cross-protocol attack: HTTP on the RESP port, closed peer=%s",
                        client->peer);
    resp_client_fail(client, "ERR this port speaks RESP, not HTTP");
    resp_client_finish(client);
}

#define UNKNOWN_ARGS_SIZE 128u

static void fail_unknown(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    char args[UNKNOWN_ARGS_SIZE + 8] = "";
    size_t used = 0;
    for (unsigned i = 1; i < argc && used < UNKNOWN_ARGS_SIZE; i++) {
        size_t left = UNKNOWN_ARGS_SIZE - used;
        int size = (int)(argv[i].size < left ? argv[i].size : left);
        int added = snprintf(args + used, sizeof(args) - used, "'%.*s' ", size, argv[i].data);
        used += added > 0 ? (size_t)added : left;
    }
    int size = (int)(argv[0].size < 128 ? argv[0].size : 128);
    resp_client_fail(client, "ERR unknown command '%.*s', with args beginning with: %s", size,
                     argv[0].data, args);
}

static void fail_lacking(struct resp_client *client, const struct resp_command *command)
{
    if (client->lacks & ~command->flags & RESP_COMMAND_STRANGER)
        resp_client_fail(client, "NOAUTH Authentication required.");
    else
        resp_client_fail(client,
                         "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                         "QUIT / RESET are allowed in this context",
                         command->name);
}

/* What is wrong with it is answered in its turn, like everything else. */
static void refuse(struct resp_client *client, const struct resp_command *command, unsigned argc,
                   const struct slice *argv)
{
    if (is_http(argc, argv))
        turn_away_http(client);
    else if (!command && (client->lacks & RESP_COMMAND_STRANGER))
        resp_client_fail(client, "NOAUTH Authentication required.");
    else if (!command)
        fail_unknown(client, argc, argv);
    else if (!resp_command_fits(command->arity, argc))
        resp_client_fail(client, "ERR wrong number of arguments for '%s' command", command->name);
    else
        fail_lacking(client, command);
}

/* What is not simply run: it is refused, or queued by MULTI. */
static __attribute__((cold, noinline)) bool run_apart(struct resp_client *client,
                                                      const struct resp_command *command,
                                                      unsigned argc, const struct slice *argv)
{
    if (command && resp_command_fits(command->arity, argc) &&
        (client->lacks & RESP_COMMAND_QUEUING))
        return resp_multi_take(client, command, argc, argv);
    refuse(client, command, argc, argv);
    resp_multi_spoil(client);
    return true;
}

bool resp_command_run(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_worker *worker = client->worker;
    if (argc == 0)
        return true;
    if (!pass_has_room(&worker->pass, argc))
        return false;

    const struct resp_command *command = find(worker->commands, argv[0]);
    if (!command || !resp_command_fits(command->arity, argc) || (client->lacks & ~command->flags))
        return run_apart(client, command, argc, argv);
    if (!(command->flags & RESP_COMMAND_BATCHED)) {
        if (client->base.unanswered > 0)
            return false;
        resp_client_touch(client);
    }
    gauge_add(&worker->stats.calls[command - resp_command_table], 1);
    atomic_store_explicit(&client->last, command, memory_order_relaxed);
    command->handler(client, argc, argv);
    return true;
}

/* ---- subcommands ---- */

static void fail_subcommand(struct resp_client *client, const char *command, struct slice name)
{
    char capitals[NAME_SIZE_MAX + 1] = "";
    for (size_t i = 0; command[i]; i++)
        capitals[i] = (char)(command[i] - 'a' + 'A');
    int size = (int)(name.size < 128 ? name.size : 128);
    resp_client_fail(client, "ERR unknown subcommand '%.*s'. Try %s HELP.", size, name.data,
                     capitals);
}

void resp_subcommand_run(struct resp_client *client, const struct resp_subcommand *table,
                         size_t count, unsigned argc, const struct slice *argv)
{
    const char *command = client->last->name;
    const struct resp_subcommand *found = NULL;
    for (size_t i = 0; i < count && !found; i++) {
        if (slice_equal_nocase(argv[1], slice_of(table[i].name)))
            found = &table[i];
    }
    if (!found)
        fail_subcommand(client, command, argv[1]);
    else if (!resp_command_fits(found->arity, argc))
        resp_client_fail(client, "ERR wrong number of arguments for '%s|%s' command", command,
                         found->name);
    else
        found->handler(client, argc, argv);
}
