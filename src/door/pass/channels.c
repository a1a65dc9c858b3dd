#include "door/pass/channels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"

#define TELL_MS 100u

void channels_init(struct channels *channels, struct pass *pass, unsigned mailbox, timer_fn *tell,
                   pass_answer_fn *answer, void *arg)
{
    *channels = (struct channels){
        .pass = pass,
        .mailbox = mailbox,
        .tell = tell,
        .answer = answer,
        .arg = arg,
        .key = env_random(pass->service->env),
    };
}

void channels_done(struct channels *channels)
{
    assert(channels->subscriptions == 0);

    timer_free(channels->timer);
}

static struct channel **find(struct channels *channels, struct slice name, bool is_pattern)
{
    struct channel **link =
        is_pattern ? &channels->patterns
                   : &channels->chains[hash_keyed(name, channels->key) % CHANNELS_CHAINS];
    while (*link && !slice_equal(channel_name(*link), name))
        link = &(*link)->next;
    return link;
}

/* ---- telling ---- */

static void ask_value(void *arg, struct slice id)
{
    struct channels *channels = arg;
    struct pass *pass = channels->pass;
    if (!pass_has_room(pass, 1))
        pass_run(pass);
    if (!pass_has_room(pass, 1)) {
        channels_again(channels, id);
        return;
    }
    char *copy = room_alloc(&pass->gathered.room, id.size);
    memcpy(copy, id.data, id.size);
    pass_op(pass, OP_GET, (struct slice){copy, id.size});
    pass_request(pass, NULL, 1, channels->answer, channels->arg);
    pass_extra_stays(pass);
}

size_t channels_ask(struct channels *channels)
{
    return watch_take(channels->pass->service->watch, channels->mailbox, ask_value, channels);
}

void channels_again(struct channels *channels, struct slice id)
{
    watch_again(channels->pass->service->watch, channels->mailbox, id);
}

static void visit_channel(const struct channel *channel, channels_visit_fn *visit, void *arg)
{
    for (const struct subscription *one = channel->subscriptions; one; one = one->next_of_channel)
        visit(arg, one);
}

static bool is_newest(const struct channels *channels, struct channel *channel)
{
    if (channels->pass->answering < channel->told)
        return false;
    channel->told = channels->pass->answering;
    return true;
}

void channels_visit(struct channels *channels, const struct op *op, channels_visit_fn *visit,
                    void *arg)
{
    if (op->code != ERR_OK && op->code != ERR_NOT_FOUND)
        return;
    struct channel *channel = *find(channels, op->id, false);
    if (channel && is_newest(channels, channel))
        visit_channel(channel, visit, arg);
    bool again = false;
    for (channel = channels->patterns; channel; channel = channel->next) {
        if (!match_glob(channel_name(channel), op->id))
            continue;
        if (is_newest(channels, channel))
            visit_channel(channel, visit, arg);
        else
            again = true;
    }
    if (again)
        channels_again(channels, op->id);
}

/* ---- subscribing ---- */

static struct channel *open_channel(struct channels *channels, struct slice name, bool is_pattern)
{
    struct channel **link = find(channels, name, is_pattern);
    if (!*link) {
        struct channel *channel = memory_take_zeroed(sizeof(*channel) + name.size);
        channel->is_pattern = is_pattern;
        channel->size = name.size;
        memcpy(channel->name, name.data, name.size);
        *link = channel;
    }
    return *link;
}

static void close_channel(struct channels *channels, struct channel *channel)
{
    struct channel **link = find(channels, channel_name(channel), channel->is_pattern);
    assert(*link == channel);
    *link = channel->next;
    free(channel);
}

void channels_subscribe(struct channels *channels, void *client, struct subscription **list,
                        struct slice name, bool is_pattern)
{
    struct subscription *one = memory_take_zeroed(sizeof(*one));
    one->client = client;
    one->channel = open_channel(channels, name, is_pattern);
    one->next_of_client = *list;
    *list = one;
    one->next_of_channel = one->channel->subscriptions;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one;
    one->channel->subscriptions = one;

    watch_add(channels->pass->service->watch, channels->mailbox, name, is_pattern);
    if (channels->subscriptions++ > 0)
        return;
    if (!channels->timer)
        channels->timer = timer_new(channels->pass->loop, channels->tell, channels->arg);
    timer_start(channels->timer, TELL_MS, TELL_MS);
}

void channels_unsubscribe(struct channels *channels, struct subscription **link)
{
    struct subscription *one = *link;
    struct channel *channel = one->channel;
    *link = one->next_of_client;
    if (one->previous_of_channel)
        one->previous_of_channel->next_of_channel = one->next_of_channel;
    else
        channel->subscriptions = one->next_of_channel;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one->previous_of_channel;
    free(one);

    watch_remove(channels->pass->service->watch, channels->mailbox, channel_name(channel),
                 channel->is_pattern);
    if (!channel->subscriptions)
        close_channel(channels, channel);
    if (--channels->subscriptions == 0)
        timer_stop(channels->timer);
}
