#include "door/pass/channels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/match.h"
#include "base/memory.h"

#define TELL_MS           100u
#define MESSAGE_BYTES_MAX (1u << 20)
#define CHAINS_FIRST      64u
#define NAME_BYTES        56u /* of flow/watch.c: what it keeps beside the name */
#define ALLOCATIONS_BYTES 48u /* of malloc: what it keeps of three of them */

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
    channels->chain_count = channels->pair_count = CHAINS_FIRST;
    channels->chains = memory_take_zeroed(CHAINS_FIRST * sizeof(*channels->chains));
    channels->pairs = memory_take_zeroed(CHAINS_FIRST * sizeof(*channels->pairs));
    fanout_init(&channels->fanout, share, door->bytes_max, door->prefix);
    buffer_init(&channels->message, MESSAGE_BYTES_MAX);
}

void channels_done(struct channels *channels)
{
    assert(channels->subscriptions == 0 && channels->count == 0);

    free(channels->chains);
    free(channels->pairs);
    timer_free(channels->timer);
    fanout_done(&channels->fanout);
    buffer_done(&channels->message);
}

/* ---- the tables ---- */

/* An id and a pattern may have the same bytes. */
static uint64_t hash_name(const struct channels *channels, struct slice name, bool is_pattern)
{
    return hash_keyed(name, channels->key + is_pattern);
}

/* Where the pointer to the channel is, or the end of the chain where it belongs. */
static struct channel **find(const struct channels *channels, struct slice name, bool is_pattern)
{
    uint64_t hash = hash_name(channels, name, is_pattern);
    struct channel **link = &channels->chains[hash & (channels->chain_count - 1)];
    while (*link && !((*link)->hash == hash && (*link)->is_pattern == is_pattern &&
                      slice_equal(channel_name(*link), name)))
        link = &(*link)->next;
    return link;
}

static void grow_chains(struct channels *channels)
{
    size_t count = 2 * channels->chain_count;
    struct channel **chains = memory_take_zeroed(count * sizeof(*chains));
    for (size_t i = 0; i < channels->chain_count; i++) {
        struct channel *next;
        for (struct channel *channel = channels->chains[i]; channel; channel = next) {
            next = channel->next;
            channel->next = chains[channel->hash & (count - 1)];
            chains[channel->hash & (count - 1)] = channel;
        }
    }
    free(channels->chains);
    channels->chains = chains;
    channels->chain_count = count;
}

static uint64_t hash_pair(const struct channels *channels, const struct fanout_queue *queue,
                          const struct channel *channel)
{
    const void *pair[] = {queue, channel};
    return hash_keyed((struct slice){(const char *)pair, sizeof(pair)}, channels->key);
}

static struct subscription **chain_of(const struct channels *channels,
                                      const struct fanout_queue *queue,
                                      const struct channel *channel)
{
    return &channels->pairs[hash_pair(channels, queue, channel) & (channels->pair_count - 1)];
}

static void add_pair(struct channels *channels, struct subscription *one)
{
    struct subscription **chain = chain_of(channels, one->queue, one->channel);
    one->next = *chain;
    *chain = one;
}

static void remove_pair(struct channels *channels, struct subscription *one)
{
    struct subscription **link = chain_of(channels, one->queue, one->channel);
    while (*link != one)
        link = &(*link)->next;
    *link = one->next;
}

static void grow_pairs(struct channels *channels)
{
    struct subscription **old = channels->pairs;
    size_t old_count = channels->pair_count;
    channels->pair_count = 2 * old_count;
    channels->pairs = memory_take_zeroed(channels->pair_count * sizeof(*channels->pairs));
    for (size_t i = 0; i < old_count; i++) {
        struct subscription *next;
        for (struct subscription *one = old[i]; one; one = next) {
            next = one->next;
            add_pair(channels, one);
        }
    }
    free(old);
}

struct subscription *channels_find(const struct channels *channels,
                                   const struct fanout_queue *queue, struct slice name,
                                   bool is_pattern)
{
    const struct channel *channel = *find(channels, name, is_pattern);
    if (!channel)
        return NULL;
    struct subscription *one = *chain_of(channels, queue, channel);
    while (one && !(one->queue == queue && one->channel == channel))
        one = one->next;
    return one;
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
    for (channel = channels->patterns; channel; channel = channel->next_pattern) {
        if (match_glob(channel_name(channel), op->id) && !tell_channel(channels, channel, op))
            again = true;
    }
    if (again)
        channels_again(channels, op->id);
}

/* ---- subscribing ---- */

static void link_pattern(struct channels *channels, struct channel *channel)
{
    channel->next_pattern = channels->patterns;
    if (channel->next_pattern)
        channel->next_pattern->previous_pattern = channel;
    channels->patterns = channel;
}

static void unlink_pattern(struct channels *channels, struct channel *channel)
{
    if (channel->previous_pattern)
        channel->previous_pattern->next_pattern = channel->next_pattern;
    else
        channels->patterns = channel->next_pattern;
    if (channel->next_pattern)
        channel->next_pattern->previous_pattern = channel->previous_pattern;
}

static struct channel *open_channel(struct channels *channels, struct slice name, bool is_pattern)
{
    struct channel **link = find(channels, name, is_pattern);
    if (*link)
        return *link;
    struct channel *channel = memory_take_zeroed(sizeof(*channel) + name.size);
    channel->hash = hash_name(channels, name, is_pattern);
    channel->is_pattern = is_pattern;
    channel->size = name.size;
    memcpy(channel->name, name.data, name.size);
    *link = channel;
    if (is_pattern)
        link_pattern(channels, channel);
    if (++channels->count > channels->chain_count)
        grow_chains(channels);
    return channel;
}

static void close_channel(struct channels *channels, struct channel *channel)
{
    struct channel **link = find(channels, channel_name(channel), channel->is_pattern);
    assert(*link == channel);
    *link = channel->next;
    channels->count--;
    if (channel->is_pattern)
        unlink_pattern(channels, channel);
    for (unsigned form = 0; form < channels->door->forms; form++)
        fanout_stream_done(&channels->fanout, &channel->streams[form]);
    free(channel);
}

/* As if nobody else had subscribed to the channel: the memory that is counted is never less than
 * what is used. */
static size_t cost_of(const struct channel *channel)
{
    return sizeof(struct subscription) + sizeof(*channel) + 2 * channel->size + NAME_BYTES +
           ALLOCATIONS_BYTES;
}

static void link_subscription(struct subscription *one, struct subscription **list)
{
    one->list = list;
    one->next_of_client = *list;
    if (one->next_of_client)
        one->next_of_client->previous_of_client = one;
    *list = one;
    one->next_of_channel = one->channel->subscriptions;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one;
    one->channel->subscriptions = one;
}

static void unlink_subscription(struct subscription *one)
{
    if (one->previous_of_client)
        one->previous_of_client->next_of_client = one->next_of_client;
    else
        *one->list = one->next_of_client;
    if (one->next_of_client)
        one->next_of_client->previous_of_client = one->previous_of_client;
    if (one->previous_of_channel)
        one->previous_of_channel->next_of_channel = one->next_of_channel;
    else
        one->channel->subscriptions = one->next_of_channel;
    if (one->next_of_channel)
        one->next_of_channel->previous_of_channel = one->previous_of_channel;
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
    link_subscription(one, list);
    add_pair(channels, one);
    queue->subscription_bytes += cost_of(one->channel);

    watch_add(channels->pass->service->watch, channels->mailbox, name, is_pattern);
    if (++channels->subscriptions > channels->pair_count)
        grow_pairs(channels);
    if (channels->subscriptions > 1)
        return;
    if (!channels->timer)
        channels->timer = timer_new(channels->pass->loop, channels->door->tell, channels->arg);
    timer_start(channels->timer, TELL_MS, TELL_MS);
}

void channels_unsubscribe(struct channels *channels, struct subscription *one)
{
    channels_publish(channels);
    struct channel *channel = one->channel;
    one->queue->subscription_bytes -= cost_of(channel);
    remove_pair(channels, one);
    unlink_subscription(one);
    free(one);

    watch_remove(channels->pass->service->watch, channels->mailbox, channel_name(channel),
                 channel->is_pattern);
    if (!channel->subscriptions)
        close_channel(channels, channel);
    if (--channels->subscriptions == 0)
        timer_stop(channels->timer);
}
