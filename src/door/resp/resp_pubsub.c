#include "door/resp/resp_pubsub.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"
#include "base/message.h"
#include "door/resp/resp_client.h"
#include "door/resp/resp_door.h"
#include "door/resp/resp_handlers.h"
#include "door/resp/resp_worker.h"

#define TELL_MS           100u
#define CHAINS            1024u
#define SUBSCRIPTIONS_MAX 10000u /* of one client */
#define CHANNEL_BYTES_MAX 512u

/* A subscription is in two lists: its client's and its channel's. */
struct resp_subscription {
    struct resp_client *client;
    struct channel *channel;
    struct resp_subscription *next_of_client;
    struct resp_subscription *next_of_channel;
    struct resp_subscription *previous_of_channel;
};

struct channel {
    struct channel *next; /* in its chain, or in the list of patterns */
    struct resp_subscription *subscriptions;
    bool is_pattern;
    size_t size;
    char name[];
};

struct resp_pubsub {
    struct resp_worker *worker; /* borrowed */
    struct timer *timer;        /* runs while somebody listens; made with the first one */
    uint64_t key;               /* of the hash */
    size_t subscriptions;
    struct channel *patterns;
    struct channel *chains[CHAINS];
};

struct resp_pubsub *resp_pubsub_new(struct resp_worker *worker)
{
    struct resp_pubsub *pubsub = memory_take_zeroed(sizeof(*pubsub));
    pubsub->worker = worker;
    pubsub->key = env_random(worker->service->env);
    return pubsub;
}

void resp_pubsub_free(struct resp_pubsub *pubsub)
{
    assert(pubsub->subscriptions == 0);

    timer_free(pubsub->timer);
    free(pubsub);
}

/* ---- telling ---- */

static struct slice name_of(const struct channel *channel)
{
    return (struct slice){channel->name, channel->size};
}

static struct channel **find(struct resp_pubsub *pubsub, struct slice name, bool is_pattern)
{
    struct channel **link =
        is_pattern ? &pubsub->patterns : &pubsub->chains[hash_keyed(name, pubsub->key) % CHAINS];
    while (*link && !slice_equal(name_of(*link), name))
        link = &(*link)->next;
    return link;
}

static void tell_channel(const struct channel *channel, struct slice id, const struct number *value)
{
    for (struct resp_subscription *one = channel->subscriptions; one; one = one->next_of_channel) {
        struct resp_reply *reply = &one->client->reply;
        resp_reply_push(reply, channel->is_pattern ? 4 : 3);
        resp_reply_text(reply, channel->is_pattern ? "pmessage" : "message");
        if (channel->is_pattern)
            resp_reply_bulk(reply, name_of(channel));
        resp_reply_bulk(reply, id);
        resp_reply_digits(reply, value);
        resp_client_touch(one->client);
    }
}

/* A counter that is gone is told as 0. */
static void answer_tell(void *to, const struct pass_request *request, struct op *ops)
{
    (void)to;
    struct resp_pubsub *pubsub = request->extra;
    if (ops->code != ERR_OK && ops->code != ERR_NOT_FOUND)
        return; /* it is told when it changes the next time */
    const struct channel *channel = *find(pubsub, ops->id, false);
    if (channel)
        tell_channel(channel, ops->id, &ops->value);
    for (channel = pubsub->patterns; channel; channel = channel->next) {
        if (match_glob(name_of(channel), ops->id))
            tell_channel(channel, ops->id, &ops->value);
    }
}

static void ask_value(void *arg, struct slice id)
{
    struct resp_pubsub *pubsub = arg;
    struct resp_worker *worker = pubsub->worker;
    if (!pass_has_room(&worker->pass, 1) && !pass_run(&worker->pass))
        return; /* it is told when it changes the next time */
    char *copy = room_alloc(&worker->pass.room, id.size);
    memcpy(copy, id.data, id.size);
    pass_op(&worker->pass, OP_GET, (struct slice){copy, id.size});
    pass_request(&worker->pass, NULL, 1, answer_tell, pubsub);
    worker->pass.requests[worker->pass.request_count - 1].extra_stays = true;
}

static void tell(void *arg)
{
    struct resp_pubsub *pubsub = arg;
    struct resp_worker *worker = pubsub->worker;
    if (pass_is_busy(&worker->pass)) /* a batch is under way */
        return;
    size_t lost = watch_take(worker->service->watch, worker->index, ask_value, pubsub);
    if (lost > 0 && resp_worker_may_warn(worker))
        message_warning("too many changes at once, subscribers missed some lost=%zu", lost);
    resp_worker_end_pass(worker);
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

static struct resp_subscription **find_own(struct resp_client *client, struct slice name,
                                           bool is_pattern)
{
    struct resp_subscription **link = &client->subscriptions;
    while (*link && !((*link)->channel->is_pattern == is_pattern &&
                      slice_equal(name_of((*link)->channel), name)))
        link = &(*link)->next_of_client;
    return link;
}

static struct channel *open_channel(struct resp_pubsub *pubsub, struct slice name, bool is_pattern)
{
    struct channel **link = find(pubsub, name, is_pattern);
    if (!*link) {
        struct channel *channel = memory_take_zeroed(sizeof(*channel) + name.size);
        channel->is_pattern = is_pattern;
        channel->size = name.size;
        memcpy(channel->name, name.data, name.size);
        *link = channel;
    }
    return *link;
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
    if (*find_own(client, name, is_pattern))
        return;
    struct resp_worker *worker = client->worker;
    struct resp_pubsub *pubsub = worker->pubsub;
    struct resp_subscription *one = memory_take_zeroed(sizeof(*one));
    one->client = client;
    one->channel = open_channel(pubsub, name, is_pattern);
    one->next_of_client = client->subscriptions;
    client->subscriptions = one;
    one->next_of_channel = one->channel->subscriptions;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one;
    one->channel->subscriptions = one;

    watch_add(worker->service->watch, worker->index, name, is_pattern);
    count(client, is_pattern, 1);
    pubsub->subscriptions++;
    if (!pubsub->timer)
        pubsub->timer = timer_new(worker->loop, tell, pubsub);
    if (!timer_runs(pubsub->timer))
        timer_start(pubsub->timer, TELL_MS, TELL_MS);
}

static void close_channel(struct resp_pubsub *pubsub, struct channel *channel)
{
    struct channel **link = find(pubsub, name_of(channel), channel->is_pattern);
    assert(*link == channel);
    *link = channel->next;
    free(channel);
}

/* `*link` is what points to the subscription in its client's list. */
static void unsubscribe(struct resp_subscription **link)
{
    struct resp_subscription *one = *link;
    struct resp_client *client = one->client;
    struct channel *channel = one->channel;
    struct resp_worker *worker = client->worker;
    struct resp_pubsub *pubsub = worker->pubsub;

    *link = one->next_of_client;
    if (one->previous_of_channel)
        one->previous_of_channel->next_of_channel = one->next_of_channel;
    else
        channel->subscriptions = one->next_of_channel;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one->previous_of_channel;
    free(one);

    watch_remove(worker->service->watch, worker->index, name_of(channel), channel->is_pattern);
    count(client, channel->is_pattern, -1);
    if (!channel->subscriptions)
        close_channel(pubsub, channel);
    if (--pubsub->subscriptions == 0)
        timer_stop(pubsub->timer);
}

void resp_pubsub_forget(struct resp_client *client)
{
    while (client->subscriptions)
        unsubscribe(&client->subscriptions);
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
        if (argv[i].size > CHANNEL_BYTES_MAX) {
            resp_client_fail(client, "ERR a channel has at most %u bytes", CHANNEL_BYTES_MAX);
        } else if (client->channels + client->patterns >= SUBSCRIPTIONS_MAX) {
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
    struct resp_subscription **link = &client->subscriptions;
    while (*link) {
        const struct channel *channel = (*link)->channel;
        if (channel->is_pattern != is_pattern) {
            link = &(*link)->next_of_client;
            continue;
        }
        char copy[CHANNEL_BYTES_MAX];
        struct slice name = {copy, channel->size};
        memcpy(copy, channel->name, channel->size);
        unsubscribe(link);
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
        struct resp_subscription **link = find_own(client, argv[i], is_pattern);
        if (*link)
            unsubscribe(link);
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
