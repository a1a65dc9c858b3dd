#include "door/resp/resp_clients.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/decimal.h"
#include "door/resp/resp_answers.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

#define LIST_BYTES_MAX (16u << 20)

/* ---- names ---- */

static bool is_name(struct slice name)
{
    if (name.size > RESP_CLIENT_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '!' || name.data[i] > '~')
            return false;
    }
    return true;
}

static void set_text(struct resp_client *client, char to[RESP_CLIENT_NAME_MAX + 1],
                     struct slice text)
{
    lock_take(&client->worker->lock);
    memcpy(to, text.data, text.size);
    to[text.size] = '\0';
    lock_release(&client->worker->lock);
}

bool resp_clients_set_name(struct resp_client *client, struct slice name)
{
    if (!is_name(name))
        return false;
    set_text(client, client->name, name);
    return true;
}

static void set_name(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    if (resp_clients_set_name(client, argv[2]))
        resp_reply_ok(&client->reply);
    else
        resp_client_fail(client, RESP_CLIENTS_BAD_NAME);
}

static void get_name(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    if (client->name[0] == '\0')
        resp_reply_null(&client->reply);
    else
        resp_reply_text(&client->reply, client->name);
}

static void set_info(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    bool is_library = slice_equal_nocase(argv[2], SLICE("lib-name"));
    bool is_version = slice_equal_nocase(argv[2], SLICE("lib-ver"));
    int size = (int)(argv[2].size < 64 ? argv[2].size : 64);
    if (!is_library && !is_version) {
        resp_client_fail(client, "ERR Unrecognized option '%.*s'", size, argv[2].data);
    } else if (!is_name(argv[3])) {
        resp_client_fail(client,
                         "ERR %.*s cannot contain spaces, newlines or special characters, or "
                         "exceed %u bytes.",
                         size, argv[2].data, RESP_CLIENT_NAME_MAX);
    } else {
        set_text(client, is_library ? client->library : client->library_version, argv[3]);
        resp_reply_ok(&client->reply);
    }
}

static void get_id(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_reply_integer(&client->reply, (int64_t)client->id);
}

/* ---- listing ---- */

static void describe(const struct resp_client *client, uint64_t now_ms, struct buffer *to)
{
    uint64_t active_ms = gauge_read(&client->active_ms);
    uint64_t subscribed = gauge_read(&client->subscribed);
    const struct resp_command *last = client->last;
    buffer_printf(to,
                  "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
                  " flags=%s db=0 sub=%" PRIu64 " psub=%" PRIu64 " qbuf=%" PRIu64 " omem=%" PRIu64
                  " tot-mem=%zu worker=%u cmd=%s user=default"
                  " lib-name=%s lib-ver=%s resp=%" PRIu64 "\n",
                  client->id, client->peer, client->local, client->descriptor, client->name,
                  (now_ms - client->connected_ms) / 1000,
                  now_ms > active_ms ? (now_ms - active_ms) / 1000 : 0, subscribed ? "P" : "N",
                  subscribed & UINT32_MAX, subscribed >> 32, gauge_read(&client->usage.input),
                  gauge_read(&client->usage.output),
                  client_usage_bytes(&client->usage) + sizeof(*client), client->worker->index,
                  last ? last->name : "NULL", client->library, client->library_version,
                  gauge_read(&client->version));
}

/* Which clients CLIENT LIST is asked for: those of a kind, or some by their ids. */
struct wanted {
    enum { EVERY_KIND, NORMAL, SUBSCRIBER, NO_KIND } kind;
    unsigned id_count; /* 0 = whatever id they have */
    uint64_t ids[RESP_ARGS_MAX];
};

static bool is_wanted(const struct wanted *wanted, const struct resp_client *client)
{
    bool subscribed = gauge_read(&client->subscribed) != 0;
    if (wanted->kind != EVERY_KIND && wanted->kind != (subscribed ? SUBSCRIBER : NORMAL))
        return false;
    for (unsigned i = 0; i < wanted->id_count; i++) {
        if (wanted->ids[i] == client->id)
            return true;
    }
    return wanted->id_count == 0;
}

static bool read_kind(struct resp_client *client, struct slice name, struct wanted *wanted)
{
    if (slice_equal_nocase(name, SLICE("normal"))) {
        wanted->kind = NORMAL;
    } else if (slice_equal_nocase(name, SLICE("pubsub"))) {
        wanted->kind = SUBSCRIBER;
    } else if (slice_equal_nocase(name, SLICE("master")) ||
               slice_equal_nocase(name, SLICE("replica"))) {
        wanted->kind = NO_KIND;
    } else {
        int size = (int)(name.size < 64 ? name.size : 64);
        resp_client_fail(client, "ERR Unknown client type '%.*s'", size, name.data);
        return false;
    }
    return true;
}

/* [TYPE normal|pubsub|master|replica], or [ID id ...]; what is something else is
 * answered with an error. */
static bool read_wanted(struct resp_client *client, unsigned argc, const struct slice *argv,
                        struct wanted *wanted)
{
    wanted->kind = EVERY_KIND;
    wanted->id_count = 0;
    if (argc == 2)
        return true;
    if (argc == 4 && slice_equal_nocase(argv[2], SLICE("type")))
        return read_kind(client, argv[3], wanted);
    if (argc < 4 || !slice_equal_nocase(argv[2], SLICE("id"))) {
        resp_client_fail_syntax(client);
        return false;
    }
    for (unsigned i = 3; i < argc; i++) {
        if (!decimal_parse_unsigned(argv[i], &wanted->ids[wanted->id_count++])) {
            resp_client_fail(client, "ERR Invalid client ID");
            return false;
        }
    }
    return true;
}

static void list(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct wanted wanted;
    if (!read_wanted(client, argc, argv, &wanted))
        return;
    struct resp *resp = client->worker->resp;
    uint64_t now_ms = loop_now_ms(client->worker->loop);
    struct buffer lines;
    buffer_init(&lines, LIST_BYTES_MAX);
    for (unsigned i = 0; i < resp_door_workers(resp); i++) {
        struct resp_worker *worker = resp_door_worker(resp, i);
        lock_take(&worker->lock);
        for (const struct resp_client *one = worker->clients; one; one = one->next) {
            if (is_wanted(&wanted, one))
                describe(one, now_ms, &lines);
        }
        lock_release(&worker->lock);
    }
    resp_reply_bulk(&client->reply, buffer_slice(&lines));
    buffer_done(&lines);
}

static void info(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    struct buffer line;
    buffer_init(&line, LIST_BYTES_MAX);
    describe(client, loop_now_ms(client->worker->loop), &line);
    resp_reply_bulk(&client->reply, buffer_slice(&line));
    buffer_done(&line);
}

/* ---- closing others ---- */

struct victim {
    uint64_t id;        /* 0 = any */
    struct slice peer;  /* size 0 = any */
    struct slice local; /* size 0 = any */
    const struct resp_client *spared;
};

static bool is_victim(const struct victim *victim, const struct resp_client *client)
{
    return client != victim->spared && (victim->id == 0 || client->id == victim->id) &&
           (victim->peer.size == 0 || slice_equal(victim->peer, slice_of(client->peer))) &&
           (victim->local.size == 0 || slice_equal(victim->local, slice_of(client->local)));
}

static int64_t mark_victims(struct resp *resp, const struct victim *victim)
{
    int64_t count = 0;
    for (unsigned i = 0; i < resp_door_workers(resp); i++) {
        struct resp_worker *worker = resp_door_worker(resp, i);
        int64_t before = count;
        lock_take(&worker->lock);
        for (struct resp_client *one = worker->clients; one; one = one->next) {
            if (is_victim(victim, one)) {
                one->killed = true;
                count++;
            }
        }
        if (count > before)
            resp_worker_ask(worker);
        lock_release(&worker->lock);
    }
    return count;
}

/* ID id, ADDR ip:port, LADDR ip:port, SKIPME yes|no; what is something else is
 * answered with an error. */
static bool read_filters(struct resp_client *client, unsigned argc, const struct slice *argv,
                         struct victim *victim)
{
    if (argc % 2 != 0) {
        resp_client_fail_syntax(client);
        return false;
    }
    for (unsigned i = 2; i + 1 < argc; i += 2) {
        struct slice value = argv[i + 1];
        if (slice_equal_nocase(argv[i], SLICE("id"))) {
            if (!decimal_parse_unsigned(value, &victim->id) || victim->id == 0) {
                resp_client_fail(client, "ERR client-id should be greater than 0");
                return false;
            }
        } else if (slice_equal_nocase(argv[i], SLICE("addr"))) {
            victim->peer = value;
        } else if (slice_equal_nocase(argv[i], SLICE("laddr"))) {
            victim->local = value;
        } else if (slice_equal_nocase(argv[i], SLICE("skipme"))) {
            victim->spared = slice_equal_nocase(value, SLICE("no")) ? NULL : client;
        } else {
            resp_client_fail_syntax(client);
            return false;
        }
    }
    return true;
}

static void kill_clients(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp *resp = client->worker->resp;
    if (argc == 3) { /* the old form: an address */
        struct victim victim = {.peer = argv[2]};
        if (argv[2].size == 0 || mark_victims(resp, &victim) == 0)
            resp_client_fail(client, "ERR No such client");
        else
            resp_reply_ok(&client->reply);
        return;
    }
    struct victim victim = {.spared = client};
    if (read_filters(client, argc, argv, &victim))
        resp_reply_integer(&client->reply, mark_victims(resp, &victim));
}

/* ---- CLIENT ---- */

/* What tunes a cache that we do not have: taken and of no effect. */
static void agree(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    if (slice_equal_nocase(argv[2], SLICE("on")) || slice_equal_nocase(argv[2], SLICE("off")))
        resp_reply_ok(&client->reply);
    else
        resp_client_fail_syntax(client);
}

static void help(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    static const char *const lines[] = {
        "CLIENT GETNAME",
        "CLIENT ID",
        "CLIENT INFO",
        "CLIENT KILL ip:port",
        "CLIENT KILL [ID id] [ADDR ip:port] [LADDR ip:port] [SKIPME yes|no]",
        "CLIENT LIST [TYPE normal|pubsub|master|replica]",
        "CLIENT LIST ID id [id ...]",
        "CLIENT NO-EVICT on|off",
        "CLIENT NO-TOUCH on|off",
        "CLIENT SETINFO LIB-NAME name|LIB-VER version",
        "CLIENT SETNAME name",
    };
    resp_answer_help(client, lines, sizeof(lines) / sizeof(lines[0]));
}

void resp_client_command(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    static const struct resp_subcommand subcommands[] = {
        {"setname", 3, set_name},   {"getname", 2, get_name}, {"setinfo", 4, set_info},
        {"id", 2, get_id},          {"list", -2, list},       {"info", 2, info},
        {"kill", -3, kill_clients}, {"no-evict", 3, agree},   {"no-touch", 3, agree},
        {"help", 2, help},
    };
    resp_subcommand_run(client, subcommands, sizeof(subcommands) / sizeof(subcommands[0]), argc,
                        argv);
}
