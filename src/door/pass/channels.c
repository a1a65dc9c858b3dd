#include "door/pass/channels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"

#define TELL_MS           100u
#define MESSAGE_BYTES_MAX (1u << 20)

void channels_init(struct channels *channels, struct pass *pass, unsigned mailbox,
                   struct client_share *share, const struct channels_door *door, void *arg)
{
    assert(door->forms > 0 && door->forms <= CHANNELS_FORMS);

    *channels = (struct channels){
        .pass = pass,
        .mailbox = mailbox,
        .door = door,
        .arg = arg,
        .key = env_random(pass->service->env),
    };
    fanout_init(&channels->fanout, share, door->bytes_max, door->prefix);
    buffer_init(&channels->message, MESSAGE_BYTES_MAX);
}

void channels_done(struct channels *channels)
{
    assert(channels->subscriptions == 0);

    timer_free(channels->timer);
    fanout_done(&channels->fanout);
    buffer_done(&channels->message);
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
    pass_request(pass, NULL, 1, channels->door->answer, channels->arg);
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

/* ---- publishing ---- */

static void publish_channel(struct channels *channels, struct channel *channel)
{
    for (const struct subscription *one = channel->subscriptions; one; one = one->next_of_channel)
        channels->door->deliver(channels->arg, one);
    for (unsigned form = 0; form < channels->door->forms; form++)
        fanout_published(&channels->fanout, &channel->streams[form]);
}

void channels_publish(struct channels *channels)
{
    struct channel *channel = channels->unpublished;
    channels->unpublished = NULL;
    while (channel) {
        struct channel *next = channel->next_unpublished;
        channel->is_unpublished = false;
        publish_channel(channels, channel);
        channel = next;
    }
}

static void publish_at_end(void *arg)
{
    channels_publish(arg);
}

static void note_unpublished(struct channels *channels, struct channel *channel)
{
    if (channel->is_unpublished)
        return;
    channel->is_unpublished = true;
    channel->next_unpublished = NULL;
    if (channels->unpublished)
        channels->unpublished_last->next_unpublished = channel;
    else
        channels->unpublished = channel;
    channels->unpublished_last = channel;
    channels->pass->publish = publish_at_end;
    channels->pass->publish_arg = channels;
}

/* Nobody of them hears this: whoever misses something is closed. */
static void drop_subscribers(struct channel *channel)
{
    for (const struct subscription *one = channel->subscriptions; one; one = one->next_of_channel)
        fanout_drop(one->queue);
}

static void write_form(struct channels *channels, struct channel *channel, unsigned form,
                       const struct op *op)
{
    struct fanout_stream *stream = &channel->streams[form];
    channels->message.size = 0;
    channels->door->write(channels->arg, channel, form, op, &channels->message);
    if (!fanout_fits(stream, channels->message.size))
        publish_channel(channels, channel);
    if (!fanout_add(&channels->fanout, stream, buffer_slice(&channels->message)))
        drop_subscribers(channel);
}

/* False: it was told something newer. */
static bool tell_channel(struct channels *channels, struct channel *channel, const struct op *op)
{
    uint64_t answering = channels->pass->answering;
    if (answering < channel->told)
        return false;
    if (answering > channel->told && channel->is_unpublished)
        publish_channel(channels, channel);
    channel->told = answering;
    for (unsigned form = 0; form < channels->door->forms; form++)
        write_form(channels, channel, form, op);
    note_unpublished(channels, channel);
    return true;
}

void channels_tell(struct channels *channels, const struct op *op)
{
    if (op->code == ERR_UNAVAILABLE || op_is_behind(op)) {
        channels_again(channels, op->id); /* until all of it can be read */
        return;
    }
    if (op->code != ERR_OK && op->code != ERR_NOT_FOUND)
        return;
    struct channel *channel = *find(channels, op->id, false);
    if (channel)
        (void)tell_channel(channels, channel, op);
    bool again = false;
    for (channel = channels->patterns; channel; channel = channel->next) {
        if (match_glob(channel_name(channel), op->id) && !tell_channel(channels, channel, op))
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
    for (unsigned form = 0; form < channels->door->forms; form++)
        fanout_stream_done(&channels->fanout, &channel->streams[form]);
    free(channel);
}

void channels_subscribe(struct channels *channels, void *client, struct fanout_queue *queue,
                        struct subscription **list, struct slice name, bool is_pattern)
{
    channels_publish(channels);
    struct subscription *one = memory_take_zeroed(sizeof(*one));
    one->client = client;
    one->queue = queue;
    queue->client = client;
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
        channels->timer = timer_new(channels->pass->loop, channels->door->tell, channels->arg);
    timer_start(channels->timer, TELL_MS, TELL_MS);
}

void channels_unsubscribe(struct channels *channels, struct subscription **link)
{
    channels_publish(channels);
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
