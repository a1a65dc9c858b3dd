#include "door/resp/resp_pubsub.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "door/pass/channels.h"
#include "door/resp/resp_args.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

#define SUBSCRIPTIONS_MAX 10000u              /* of one client */
#define CHANNEL_BYTES_MAX LIMIT_PATTERN_BYTES /* and of an id, which is shorter */

struct resp_pubsub {
    struct resp_worker *worker; /* borrowed */
    struct channels_door door;
    struct channels channels;
};

/* ---- telling ---- */

/* The forms of a message are the versions of the protocol. */
static unsigned form_of(uint8_t version)
{
    return version == 2 ? 0 : 1;
}

static void write_change(void *arg, const struct channel *channel, unsigned form,
                         const struct op *op, struct buffer *to)
{
    (void)arg;
    struct resp_reply reply = {.bytes = *to, .version = form == 0 ? 2 : 3};
    resp_reply_push(&reply, channel->is_pattern ? 4 : 3);
    resp_reply_text(&reply, channel->is_pattern ? "pmessage" : "message");
    if (channel->is_pattern)
        resp_reply_bulk(&reply, channel_name(channel));
    resp_reply_bulk(&reply, op->id);
    resp_reply_digits(&reply, &op->value);
    *to = reply.bytes;
}

static void deliver(void *arg, const struct subscription *one)
{
    struct resp_pubsub *pubsub = arg;
    struct resp_client *client = one->client;
    unsigned form = form_of(client->reply.version);
    fanout_publish(&pubsub->channels.fanout, &one->channel->streams[form], one->queue,
                   outbound_end(&client->out, &client->reply.bytes));
}

static void answer_tell(void *to, const struct pass_request *request, struct op *ops)
{
    (void)to;
    struct resp_pubsub *pubsub = request->extra;
    channels_tell(&pubsub->channels, ops);
}

static void tell(void *arg)
{
    struct resp_pubsub *pubsub = arg;
    struct resp_worker *worker = pubsub->worker;
    size_t lost = channels_ask(&pubsub->channels);
    if (lost > 0 && pass_may_warn(&worker->pass))
        message_warning("too many changes at once, subscribers missed some lost=%zu", lost);
    resp_worker_end_pass(worker);
}

void resp_pubsub_end_pass(struct resp_pubsub *pubsub)
{
    fanout_new_pass(&pubsub->channels.fanout);
}

/* ---- life ---- */

struct resp_pubsub *resp_pubsub_new(struct resp_worker *worker)
{
    struct resp_pubsub *pubsub = memory_take_zeroed(sizeof(*pubsub));
    pubsub->worker = worker;
    pubsub->door = (struct channels_door){
        .tell = tell,
        .answer = answer_tell,
        .write = write_change,
        .deliver = deliver,
        .forms = 2,
        .bytes_max = resp_door_options(worker->resp)->output_bytes_max,
    };
    channels_init(&pubsub->channels, &worker->pass, worker->index, &worker->share, &pubsub->door,
                  pubsub);
    return pubsub;
}

void resp_pubsub_free(struct resp_pubsub *pubsub)
{
    channels_done(&pubsub->channels);
    free(pubsub);
}

/* ---- subscribing ---- */

void resp_pubsub_update(struct resp_client *client)
{
    bool listens = client->channels + client->patterns > 0;
    if (listens && client->reply.version == 2)
        client->lacks |= RESP_COMMAND_SUBSCRIBED;
    else
        client->lacks &= ~(unsigned)RESP_COMMAND_SUBSCRIBED;
    gauge_set(&client->subscribed, (uint64_t)client->patterns << 32 | client->channels);
}

static struct subscription *find_own(const struct resp_client *client, struct slice name,
                                     bool is_pattern)
{
    return channels_find(&client->worker->pubsub->channels, &client->feed, name, is_pattern);
}

static void count(struct resp_client *client, bool is_pattern, int change)
{
    unsigned *counted = is_pattern ? &client->patterns : &client->channels;
    bool listened = client->channels + client->patterns > 0;
    *counted += (unsigned)change;
    bool listens = client->channels + client->patterns > 0;
    gauge_add(&client->worker->stats.subscribers, (uint64_t)(listens - listened));
    resp_pubsub_update(client);
}

static void subscribe(struct resp_client *client, struct slice name, bool is_pattern)
{
    if (find_own(client, name, is_pattern))
        return;
    client->out.shared = &client->feed;
    channels_subscribe(&client->worker->pubsub->channels, client, &client->feed,
                       &client->subscriptions, name, is_pattern);
    count(client, is_pattern, 1);
}

static void unsubscribe(struct resp_client *client, struct subscription *one)
{
    bool is_pattern = one->channel->is_pattern;
    channels_unsubscribe(&client->worker->pubsub->channels, one);
    count(client, is_pattern, -1);
}

void resp_pubsub_forget(struct resp_client *client)
{
    while (client->subscriptions)
        unsubscribe(client, client->subscriptions);
}

/* ---- commands ---- */

/* The number of all it listens to follows each answer. `name` NULL: none. */
static void confirm(struct resp_client *client, const char *word, const struct slice *name)
{
    resp_reply_push(&client->reply, 3);
    resp_reply_text(&client->reply, word);
    if (name)
        resp_reply_bulk(&client->reply, *name);
    else
        resp_reply_null(&client->reply);
    resp_reply_integer(&client->reply, client->channels + client->patterns);
}

static void subscribe_all(struct resp_client *client, unsigned argc, const struct slice *argv,
                          bool is_pattern)
{
    for (unsigned i = 1; i < argc; i++) {
        bool is_good =
            is_pattern ? resp_args_pattern(client, argv[i]) : resp_args_counter(client, argv[i]);
        if (!is_good)
            continue;
        if (client->channels + client->patterns >= SUBSCRIPTIONS_MAX) {
            resp_client_fail(client, "ERR a client has at most %u subscriptions",
                             SUBSCRIPTIONS_MAX);
        } else {
            subscribe(client, argv[i], is_pattern);
            confirm(client, is_pattern ? "psubscribe" : "subscribe", &argv[i]);
        }
    }
}

static void unsubscribe_every(struct resp_client *client, bool is_pattern)
{
    const char *word = is_pattern ? "punsubscribe" : "unsubscribe";
    if ((is_pattern ? client->patterns : client->channels) == 0) {
        confirm(client, word, NULL);
        return;
    }
    struct subscription *next;
    for (struct subscription *one = client->subscriptions; one; one = next) {
        const struct channel *channel = one->channel;
        next = one->next_of_client;
        if (channel->is_pattern != is_pattern)
            continue;
        char copy[CHANNEL_BYTES_MAX];
        struct slice name = {copy, channel->size};
        memcpy(copy, channel->name, channel->size);
        unsubscribe(client, one);
        confirm(client, word, &name);
    }
}

static void unsubscribe_all(struct resp_client *client, unsigned argc, const struct slice *argv,
                            bool is_pattern)
{
    if (argc == 1) {
        unsubscribe_every(client, is_pattern);
        return;
    }
    for (unsigned i = 1; i < argc; i++) {
        struct subscription *one = find_own(client, argv[i], is_pattern);
        if (one)
            unsubscribe(client, one);
        confirm(client, is_pattern ? "punsubscribe" : "unsubscribe", &argv[i]);
    }
}

void resp_subscribe(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    subscribe_all(client, argc, argv, false);
}

void resp_psubscribe(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    subscribe_all(client, argc, argv, true);
}

void resp_unsubscribe(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    unsubscribe_all(client, argc, argv, false);
}

void resp_punsubscribe(struct resp_client *client, unsigned argc, const struct slice *argv)
{
    unsubscribe_all(client, argc, argv, true);
}
