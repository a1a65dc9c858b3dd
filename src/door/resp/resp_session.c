/* resp_session.c - saying hello, the password and good-bye. */
#include "base/decimal.h"
#include "base/message.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_clients.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_pubsub.h"
#include "door/resp/resp_worker.h"

/* After so many wrong passwords a connection has to wait between two of them. */
#define AUTH_FREE_FAILURES 3u

void resp_ping(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (argc > 2) {
        resp_client_fail(client, "ERR wrong number of arguments for 'ping' command");
    } else if (client->lacks & RESP_COMMAND_SUBSCRIBED) {
        resp_reply_array(&client->reply, 2);
        resp_reply_text(&client->reply, "pong");
        resp_reply_bulk(&client->reply, argc == 2 ? argv[1] : SLICE(""));
    } else if (argc == 2) {
        resp_reply_bulk(&client->reply, argv[1]);
    } else {
        resp_reply_status(&client->reply, "PONG");
    }
}

void resp_echo(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    resp_reply_bulk(&client->reply, argv[1]);
}

void resp_time(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    int64_t now_ms = env_wall_ms(client->worker->service->env);
    struct number seconds = number_of(now_ms / 1000);
    struct number micros = number_of(now_ms % 1000 * 1000);
    resp_reply_array(&client->reply, 2);
    resp_reply_digits(&client->reply, &seconds);
    resp_reply_digits(&client->reply, &micros);
}

void resp_select(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    int64_t number;
    if (!resp_args_int(client, argv[1], &number))
        return;
    if (number != 0)
        resp_client_fail(client, "ERR DB index is out of range");
    else
        resp_reply_ok(&client->reply);
}

void resp_quit(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_reply_ok(&client->reply);
    resp_client_finish(client);
}

static void set_version(struct resp_client *client, uint8_t version)
{
    client->reply.version = version;
    gauge_set(&client->version, version);
    resp_pubsub_update(client);
}

void resp_reset(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_pubsub_forget(client);
    set_version(client, 2);
    resp_clients_set_name(client, SLICE(""));
    if (password_is_set(resp_door_password(client->worker->resp)))
        client->lacks |= RESP_COMMAND_STRANGER;
    resp_reply_status(&client->reply, "RESET");
}

/* ---- the password ---- */

static void note_failure(struct resp_client *client)
{
    struct resp_worker *worker = client->worker;
    gauge_add(&worker->stats.auth_failures, 1);
    if (pass_may_warn(&worker->pass))
        message_warning("wrong password peer=%s", client->peer);
    if (++client->auth_failures > AUTH_FREE_FAILURES)
        pass_hold(&client->base, RESP_HOLD_AUTH);
}

static void use_turn(struct resp_client *client, bool was_right)
{
    if (client->conn)
        auth_throttle_used(&client->worker->share.limits->auth, conn_network(client->conn),
                           was_right, &client->auth_turn);
}

/* There is one user, who is called what Redis calls it. */
static bool authenticate(struct resp_client *client, struct slice user, struct slice password)
{
    bool known = slice_equal(user, SLICE("default"));
    if (!password_is_set(resp_door_password(client->worker->resp))) {
        if (known)
            return true;
    } else if (password_is(resp_door_password(client->worker->resp), password) && known) {
        client->lacks &= ~(unsigned)RESP_COMMAND_STRANGER;
        client->auth_failures = 0;
        use_turn(client, true);
        return true;
    }
    resp_client_fail(client, "WRONGPASS invalid username-password pair or user is disabled.");
    note_failure(client);
    use_turn(client, false);
    return false;
}

void resp_auth(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    if (argc > 3) {
        resp_client_fail_syntax(client);
        return;
    }
    if (argc == 2 && !password_is_set(resp_door_password(client->worker->resp))) {
        resp_client_fail(client, "ERR AUTH <password> called without any password configured for "
                                 "the default user. Are you sure your configuration is correct?");
        return;
    }
    if (authenticate(client, argc == 3 ? argv[1] : SLICE("default"), argv[argc - 1]))
        resp_reply_ok(&client->reply);
}

/* ---- HELLO ---- */

struct hello {
    uint8_t version;
    bool has_auth;
    struct slice user;
    struct slice password;
    bool has_name;
    struct slice name;
};

/* [AUTH user password] [SETNAME name] */
static bool read_hello_options(struct resp_client *client, struct resp_args *args,
                               struct hello *hello)
{
    while (args->left > 0) {
        if (args->left >= 3 && slice_equal_nocase(args->next[0], SLICE("auth"))) {
            hello->has_auth = true;
            hello->user = args->next[1];
            hello->password = args->next[2];
            args->next += 3;
            args->left -= 3;
        } else if (resp_args_option(args, SLICE("setname"), &hello->name)) {
            hello->has_name = true;
        } else {
            int size = (int)(args->next[0].size < 64 ? args->next[0].size : 64);
            resp_client_fail(client, "ERR Syntax error in HELLO option '%.*s'", size,
                             args->next[0].data);
            return false;
        }
    }
    return true;
}

static bool read_hello(struct resp_client *client, unsigned argc, const struct slice *argv,
                       struct hello *hello)
{
    *hello = (struct hello){.version = client->reply.version};
    if (argc < 2)
        return true;
    int64_t version;
    if (!decimal_parse(argv[1], &version)) {
        resp_client_fail(client, "ERR Protocol version is not an integer or out of range");
        return false;
    }
    if (version != 2 && version != 3) {
        resp_client_fail(client, "NOPROTO unsupported protocol version");
        return false;
    }
    hello->version = (uint8_t)version;
    struct resp_args args = resp_args_from(argc, argv, 2);
    return read_hello_options(client, &args, hello);
}

static void reply_hello(struct resp_client *client)
{
    struct resp_reply *reply = &client->reply;
    resp_reply_map(reply, 7);
    resp_reply_text(reply, "server");
    resp_reply_text(reply, "tally");
    resp_reply_text(reply, "version");
    resp_reply_text(reply, resp_door_options(client->worker->resp)->version);
    resp_reply_text(reply, "proto");
    resp_reply_integer(reply, reply->version);
    resp_reply_text(reply, "id");
    resp_reply_integer(reply, (int64_t)client->id);
    resp_reply_text(reply, "mode");
    resp_reply_text(reply, "standalone");
    resp_reply_text(reply, "role");
    resp_reply_text(reply, "master");
    resp_reply_text(reply, "modules");
    resp_reply_array(reply, 0);
}

void resp_hello(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct hello hello;
    if (!read_hello(client, argc, argv, &hello))
        return;
    if (hello.has_auth && !authenticate(client, hello.user, hello.password))
        return;
    if (client->lacks & RESP_COMMAND_STRANGER) {
        resp_client_fail(client,
                         "NOAUTH HELLO must be called with the client already authenticated, "
                         "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                         "authenticate the client and select the RESP protocol version at the "
                         "same time");
        return;
    }
    if (hello.has_name && !resp_clients_set_name(client, hello.name)) {
        resp_client_fail(client, RESP_CLIENTS_BAD_NAME);
        return;
    }
    set_version(client, hello.version);
    reply_hello(client);
}
