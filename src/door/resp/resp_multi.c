#include "door/resp/resp_multi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

struct resp_multi {
    struct buffer requests; /* what is queued, as arrays of RESP */
    unsigned count;         /* of it */
    size_t words;           /* in all of it */
    bool is_spoiled;        /* EXEC will be refused, and nothing more is kept */
};

static bool is_open(const struct resp_client *client)
{
    return (client->lacks & RESP_COMMAND_QUEUING) != 0;
}

/* ---- answers in their turn ---- */

static void answer_status(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)ops;
    resp_reply_status(&client->reply, request->extra);
}

static void say(struct resp_client *client, const char *text)
{
    if (client->base.unanswered == 0) {
        resp_reply_status(&client->reply, text);
        resp_client_touch(client);
        return;
    }
    static char texts[][8] = {"OK", "QUEUED"}; /* `extra` is not const */
    struct pass *pass = &client->worker->pass;
    pass_request(pass, client, 0, answer_status, texts[text[0] == 'Q']);
    pass_extra_stays(pass);
}

static void answer_head(void *to, const struct pass_request *request, struct op *ops)
{
    struct resp_client *client = to;
    (void)ops;
    resp_reply_array(&client->reply, (size_t)(uintptr_t)request->extra);
}

/* The head of the array; its elements follow as the commands are run. */
static void say_head(struct resp_client *client, unsigned count)
{
    if (client->base.unanswered == 0) {
        resp_reply_array(&client->reply, count);
        resp_client_touch(client);
        return;
    }
    struct pass *pass = &client->worker->pass;
    pass_request(pass, client, 0, answer_head, (void *)(uintptr_t)count);
    pass_extra_stays(pass);
}

/* ---- the queue ---- */

void resp_multi_forget(struct resp_client *client)
{
    if (client->multi)
        buffer_done(&client->multi->requests);
    free(client->multi);
    client->multi = NULL;
    client->lacks &= ~(unsigned)RESP_COMMAND_QUEUING;
}

void resp_multi_spoil(struct resp_client *client)
{
    if (!is_open(client))
        return;
    client->multi->is_spoiled = true;
    buffer_done(&client->multi->requests);
}

size_t resp_multi_bytes(const struct resp_client *client)
{
    return client->multi ? sizeof(*client->multi) + client->multi->requests.capacity : 0;
}

/* "*2\r\n" or "$4\r\n" */
static enum err append_length(struct buffer *buffer, char kind, size_t length)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%c%zu\r\n", kind, length);
    return buffer_append(buffer, text, (size_t)size);
}

static enum err append_request(struct buffer *buffer, unsigned argc, const struct slice *argv)
{
    enum err err = append_length(buffer, '*', argc);
    for (unsigned i = 0; !err && i < argc; i++) {
        err = append_length(buffer, '$', argv[i].size);
        if (!err)
            err = buffer_append_slice(buffer, argv[i]);
        if (!err)
            err = buffer_append(buffer, "\r\n", 2);
    }
    return err;
}

static void queue(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    struct resp_multi *multi = client->multi;
    multi->count++;
    multi->words += argc;
    if (!multi->is_spoiled && append_request(&multi->requests, argc, argv)) {
        resp_client_fail(client, "ERR the transaction is too large: it has more than %zu bytes",
                         multi->requests.max);
        resp_multi_spoil(client);
        return;
    }
    say(client, "QUEUED");
}

/* ---- EXEC ---- */

/* One batch for all of it, where that is possible at all. No command has more ops than words. */
static bool must_wait(const struct resp_client *client)
{
    const struct pass_group *gathered = &client->worker->pass.gathered;
    size_t words = client->multi->words + PASS_OPS_EXTRA;
    return words <= LIMIT_BATCH && (gathered->op_count + words > LIMIT_BATCH ||
                                    gathered->request_count + words > LIMIT_BATCH);
}

static bool execute(struct resp_client *client)
{
    const struct resp_multi *multi = client->multi;
    if (multi->is_spoiled) {
        resp_multi_forget(client);
        resp_client_fail(client, "EXECABORT Transaction discarded because of previous errors.");
        return true;
    }
    if (must_wait(client))
        return false;
    say_head(client, multi->count);
    if (multi->count == 0) {
        resp_multi_forget(client);
        return true;
    }
    client->lacks &= ~(unsigned)RESP_COMMAND_QUEUING;
    client->base.held |= RESP_HOLD_EXEC;
    return true;
}

struct slice resp_multi_begin(struct resp_client *client)
{
    struct room *room = &client->worker->pass.gathered.room;
    struct buffer *requests = &client->multi->requests;
    struct slice data = buffer_slice(requests);
    client->base.held &= ~(unsigned)RESP_HOLD_EXEC;
    if (data.size > ROOM_BLOCK_BYTES) {
        room_adopt(room, requests);
    } else if (data.size > 0) {
        size_t size;
        data.data = memcpy(room_look(room, data.size, &size), data.data, data.size);
        room_take(room, data.size);
    }
    resp_multi_forget(client);
    return data;
}

/* ---- commands ---- */

bool resp_multi_take(struct resp_client *client, const struct resp_command *command, unsigned argc,
                     const struct slice *argv)
{
    if (command->handler == resp_exec)
        return execute(client);
    if (command->handler == resp_reset || command->handler == resp_quit) {
        resp_multi_forget(client);
        return resp_command_run(client, argc, argv);
    }
    if (command->handler == resp_discard) {
        resp_multi_forget(client);
        say(client, "OK");
    } else if (command->handler == resp_multi) {
        resp_client_fail(client, "ERR MULTI calls can not be nested");
    } else if (command->handler == resp_watch) {
        resp_client_fail(client, "ERR WATCH inside MULTI is not allowed");
    } else if (command->flags & (RESP_COMMAND_PUBSUB | RESP_COMMAND_STRANGER)) {
        resp_client_fail(client, "ERR Command not allowed inside a transaction");
        resp_multi_spoil(client);
    } else {
        queue(client, argc, argv);
    }
    return true;
}

void resp_multi(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    if (client->subscriptions) {
        resp_client_fail(client, "ERR MULTI is not allowed while listening to changes");
        return;
    }
    client->multi = memory_take_zeroed(sizeof(*client->multi));
    buffer_init(&client->multi->requests, resp_door_options(client->worker->resp)->query_bytes_max);
    client->lacks |= RESP_COMMAND_QUEUING;
    say(client, "OK");
}

void resp_exec(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_client_fail(client, "ERR EXEC without MULTI");
}

void resp_discard(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_client_fail(client, "ERR DISCARD without MULTI");
}

/* Refused before anything is queued: who counts on it would write what should not be written. */
void resp_watch(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    resp_client_fail(client,
                     "ERR WATCH is not supported: EXEC runs whatever has changed meanwhile");
}

void resp_unwatch(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    (void)argc;
    (void)argv;
    say(client, "OK");
}
