/* channels.h - who of a worker's clients listens to which counters.
 *
 * A channel is a counter's id, or a pattern of ids. While somebody listens, the
 * door's timer runs ten times a second: channels_ask() empties the worker's
 * mailbox (flow/watch.h) and reads the values like any other request would, and
 * the door's answer has each written into the streams of its channels (fanout.h)
 * by channels_tell(). At the end of the pass, what is new in a stream is
 * published to all its subscribers at once: that many counters have changed
 * costs a subscriber no more than that one has.
 *
 * Who listens is told the newest last. A read that went out earlier may come back later, where the
 * hot layer is outside of the process: an older value is not told after a newer one. */
#ifndef DOOR_PASS_CHANNELS_H
#define DOOR_PASS_CHANNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "door/pass/fanout.h"
#include "door/pass/pass.h"
#include "net/timer.h"

#define CHANNELS_FORMS 2u /* in which a door may write the same message */

struct channel {
    struct channel *next; /* in its chain */
    uint64_t hash;
    struct channel *next_pattern; /* in the list of patterns */
    struct channel *previous_pattern;
    struct subscription *subscriptions;
    bool is_pattern;
    uint64_t told; /* pass->answering when it last was */
    struct fanout_stream streams[CHANNELS_FORMS];
    bool is_unpublished;
    struct channel *next_unpublished;
    size_t size;
    char name[];
};

/* A subscription is in two lists, its client's and its channel's, and in a hash table by both. */
struct subscription {
    void *client;               /* begins with a struct pass_client */
    struct fanout_queue *queue; /* the client's */
    struct channel *channel;
    struct subscription **list; /* the client's */
    struct subscription *next_of_client;
    struct subscription *previous_of_client;
    struct subscription *next_of_channel;
    struct subscription *previous_of_channel;
    struct subscription *next; /* in its chain */
};

/* Writes the message that the op's counter has changed. */
typedef void channels_write_fn(void *arg, const struct channel *channel, unsigned form,
                               const struct op *op, struct buffer *to);

/* What is published on the channel is for this subscriber, too: calls fanout_publish() with one of
 * the channel's streams, or does not. */
typedef void channels_deliver_fn(void *arg, const struct subscription *one);

/* What a door does in its own way. */
struct channels_door {
    timer_fn *tell;         /* of the timer; calls channels_ask() */
    pass_answer_fn *answer; /* to the read of one counter that has changed */
    channels_write_fn *write;
    channels_deliver_fn *deliver;
    unsigned forms;
    size_t bytes_max;         /* of unread messages; see fanout.h */
    fanout_prefix_fn *prefix; /* may be NULL */
};

struct channels {
    struct pass *pass;                /* borrowed */
    unsigned mailbox;                 /* the worker's own, of the door */
    const struct channels_door *door; /* borrowed */
    void *arg; /* of all its functions: `answer` finds it as the request's extra */
    struct fanout fanout;
    struct buffer message;       /* that is being written */
    struct channel *unpublished; /* a list, in the order in which they had news */
    struct channel *unpublished_last;
    struct timer *timer; /* runs while somebody listens; made with the first one */
    uint64_t key;        /* of the hashes */
    struct channel *patterns;
    struct channel **chains; /* owned: of channels and patterns by name; a power of two of them */
    size_t chain_count;
    size_t count;                /* channels and patterns */
    struct subscription **pairs; /* owned: of subscriptions by client and channel */
    size_t pair_count;
    size_t subscriptions;
};

void channels_init(struct channels *channels, struct pass *pass, unsigned mailbox,
                   struct client_share *share, const struct channels_door *door, void *arg);

/* When nobody listens any more. */
void channels_done(struct channels *channels);

static inline struct slice channel_name(const struct channel *channel)
{
    return (struct slice){channel->name, channel->size};
}

/* Adds a subscription to the list of its client, and what it costs to what the queue uses. */
void channels_subscribe(struct channels *channels, void *client, struct fanout_queue *queue,
                        struct subscription **list, struct slice name, bool is_pattern);

/* The client's subscription of that name; NULL if it has none. */
struct subscription *channels_find(const struct channels *channels,
                                   const struct fanout_queue *queue, struct slice name,
                                   bool is_pattern);

void channels_unsubscribe(struct channels *channels, struct subscription *one);

/* Asks for the values of what has changed. Says how
 * many changes were lost because there were too many. */
size_t channels_ask(struct channels *channels);

/* The next channels_ask() asks for this one as well, if somebody listens to it. */
void channels_again(struct channels *channels, struct slice id);

/* In the door's answer: has the op's counter written into the streams of its channels. One that is
 * gone is told as 0; one that could not be read is told when it changes the next time, or, if that
 * was since some of the hot layer does not answer, as soon as it does. One that was read before
 * what its channel was told last is not told; to a pattern, which may have been told of another
 * counter, it is read again. */
void channels_tell(struct channels *channels, const struct op *op);

/* Publishes what was written; the end of the pass does as well. While it delivers, and since the
 * messages were written, pass->answering has been channel->told. */
void channels_publish(struct channels *channels);

#endif
